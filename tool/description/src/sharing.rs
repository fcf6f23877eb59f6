//! The part of the description that is about time: schedules of shared cores, servers, routes, tasks.

use crate::decode::{Decode, Duration, Located, Reader, Value, WordSchema, table};
use crate::description::Limit;
use bulkhead_abi::MAX_CORES;
use bulkhead_plan::sharing::{MAX_CHUNKS, PRIORITIES};
pub use bulkhead_words::{
    Anchor, FloatingPoint, Gate, OnEmpty, OnInterrupt, Reading, Ring, RouteRule, Rule, ScheduleKind,
};
use schemars::JsonSchema;
use toml::de::DeValue;

table! {
    /// The schedule of one shared core.
    pub struct Schedule {
        /// The board core, by index.
        #[schemars(range(max = MAX_CORES - 1))]
        core: Located<u64>,
        /// How it chooses.
        #[schemars(with = "WordSchema<ScheduleKind>")]
        kind: Located<ScheduleKind>,
        /// `fixed-priority`: priorities whose servers take turns, at most 8.
        #[schemars(default)]
        quanta: Vec<Located<Quantum>>,
        /// `round-robin`: how long a turn is.
        quantum: Option<Located<Duration>>,
        /// `round-robin`: what an interrupt with the route `preempt` does; default `none`.
        #[schemars(with = "Option<WordSchema<OnInterrupt>>")]
        on_interrupt: Option<Located<OnInterrupt>>,
        /// `round-robin`: when a waiting interrupt acts; default `latched`.
        #[schemars(with = "Option<WordSchema<Reading>>")]
        reading: Option<Located<Reading>>,
        /// `round-robin`: what a reset does to the ring; default `stays`.
        #[schemars(with = "Option<WordSchema<Ring>>")]
        ring: Option<Located<Ring>>,
        /// `cyclic`: length of the time table, which repeats for ever from the start of the machine.
        major_frame: Option<Located<Duration>>,
        /// `cyclic`: the windows, at most 32.
        #[schemars(default)]
        windows: Vec<Located<Window>>,
        /// When floating-point registers are switched; default `lazy`.
        #[schemars(with = "Option<WordSchema<FloatingPoint>>")]
        floating_point: Option<Located<FloatingPoint>>,
    }
}

table! {
    /// How long servers of one priority run before the next of them does.
    pub struct Quantum {
        /// The priority.
        #[schemars(range(max = PRIORITIES - 1))]
        priority: Located<u64>,
        /// How long.
        quantum: Located<Duration>,
    }
}

table! {
    /// A window of a time table.
    pub struct Window {
        /// The partition whose servers with a window gate may run.
        partition: Located<String>,
        /// Start, from the start of the major frame.
        offset: Located<Duration>,
        /// Length.
        length: Located<Duration>,
    }
}

/// What interrupts do on a shared core: a rule, or a table that says more.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum Route {
    /// The rule.
    Rule(#[schemars(with = "WordSchema<RouteRule>")] Located<RouteRule>),
    /// The rule with a limit and numbers for the analysis.
    Table(RouteTable),
}

impl Decode for Route {
    fn decode(value: Value<'_, '_>, key: &str, reader: &mut Reader) -> Option<Self> {
        match value.get_ref() {
            DeValue::Table(_) => RouteTable::decode(value, key, reader).map(Self::Table),
            _ => Located::decode(value, key, reader).map(Self::Rule),
        }
    }
}

table! {
    /// What interrupts do on a shared core, with a limit and numbers for the analysis.
    pub struct RouteTable {
        /// The rule; default `priority`.
        #[schemars(with = "Option<WordSchema<RouteRule>>")]
        rule: Option<Located<RouteRule>>,
        /// Beyond this they wait as if deferred.
        limit: Option<Located<Limit>>,
        /// Longest time that a handler runs in the guest; read by the analysis only.
        handler: Option<Located<Duration>>,
        /// Latest time for a handler to have run; read by the analysis only.
        deadline: Option<Located<Duration>>,
    }
}

table! {
    /// A claim of a vCPU on the time of a shared core.
    pub struct Server {
        /// Name, for `payer` and `clients`, unique in the partition.
        #[schemars(regex(pattern = crate::schema::NAME))]
        name: Option<Located<String>>,
        /// vCPU of the partition; default 0.
        #[schemars(range(max = MAX_CORES - 1))]
        vcpu: Option<Located<u64>>,
        /// Priority, 0 is the most important, at most 63; not for `pibs`, which has those of its clients.
        #[schemars(range(max = PRIORITIES - 1))]
        priority: Option<Located<u64>>,
        /// The rule; default `sporadic` with a budget and `unlimited` without.
        #[schemars(with = "Option<WordSchema<Rule>>")]
        rule: Option<Located<Rule>>,
        /// Time per period.
        budget: Option<Located<Duration>>,
        /// The period.
        period: Option<Located<Duration>>,
        /// `sporadic`: default `eligible` for a trusted partition, else `dispatch`; `dispatch` behind an interrupt gate.
        #[schemars(with = "Option<WordSchema<Anchor>>")]
        anchor: Option<Located<Anchor>>,
        /// `sporadic`: pieces of the budget that are dated apart, 2 to 16; default 8, behind an interrupt gate 4.
        #[schemars(range(min = 2, max = MAX_CHUNKS))]
        chunks: Option<Located<u64>>,
        /// `sporadic` and `pibs`: less than this is not worth a switch; default `"20 us"`, or half of a budget below `"40 us"`; at
        /// least `least_charge`.
        minimum: Option<Located<Duration>>,
        /// What each wake-up or replenishment costs it at least, so that it cannot take the core from others more often than its
        /// budget holds that; at most `minimum`, or the budget of a rule without; default `"0 us"`. `check` proposes a value.
        least_charge: Option<Located<Duration>>,
        /// `sporadic`: starvation gathers no credit; default true.
        clamp: Option<Located<bool>>,
        /// `pibs`: share of the core, for example `"5 %"`.
        share: Option<Located<Share>>,
        /// `pibs`: on whose behalf it works: `partition` (its first server with a budget) or `partition.server`, at most 4.
        clients: Option<Located<Vec<Located<String>>>>,
        /// `pibs`: the published rule instead of the corrected one, for experiments; default false.
        published: Option<Located<bool>>,
        /// When it may be used; default `window` for a partition with windows on a `cyclic` core, else `always`.
        #[schemars(with = "Option<WordSchema<Gate>>")]
        gate: Option<Located<Gate>>,
        /// Interrupt gate: closes when the guest has ended its interrupt, not only when the budget is used up; default false.
        voluntary_return: Option<Located<bool>>,
        /// Whose budget is spent: `partition` (its first server with a budget) or `partition.server`; default its own.
        payer: Option<Located<String>>,
        /// What happens when the budget is used up; default `stop`.
        #[schemars(with = "Option<WordSchema<OnEmpty>>")]
        on_empty: Option<Located<OnEmpty>>,
        /// `on_empty = "background"`: priority without budget, a larger number than any other of the server.
        #[schemars(range(max = PRIORITIES - 1))]
        background_priority: Option<Located<u64>>,
    }
}

table! {
    /// A periodic task inside a guest; read by the analysis only.
    pub struct Task {
        /// Name, unique in the partition.
        #[schemars(regex(pattern = crate::schema::NAME))]
        name: Located<String>,
        /// Longest execution time.
        cost: Located<Duration>,
        /// Period, or shortest distance of two releases.
        period: Located<Duration>,
        /// Deadline from the release; default the period.
        deadline: Option<Located<Duration>>,
    }
}

/// A share of a core such as `"5 %"`; its text is read when it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share(pub String);

impl Decode for Share {
    fn decode(value: Value<'_, '_>, key: &str, reader: &mut Reader) -> Option<Self> {
        match value.get_ref() {
            DeValue::String(text) => Some(Self(text.to_string())),
            // As with quantities: what is missing says more than the type.
            DeValue::Integer(number) => Some(Self(number.as_str().to_owned())),
            DeValue::Float(number) => Some(Self(number.as_str().to_owned())),
            _ => {
                reader.wrong_type(value, key, "a string such as \"5 %\"");
                None
            }
        }
    }
}

impl JsonSchema for Share {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Share".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let pattern = r"^\s*[0-9]+(\.[0-9]{1,4})?\s*%\s*$";
        schemars::json_schema!({ "type": "string", "pattern": pattern, "examples": ["5 %", "2.5 %"] })
    }
}

/// Reads a share as a reduced fraction.
///
/// # Errors
/// Says what is wrong and, where it can be guessed, what was meant.
pub fn parse_share(text: &str) -> Result<(u64, u64), crate::unit::BadQuantity> {
    let refuse = |problem: &str, replacement: Option<String>| {
        Err(crate::unit::BadQuantity { problem: format!("`{text}` {problem}"), replacement })
    };
    let trimmed = text.trim();
    let digits = trimmed.strip_suffix('%').map(str::trim);
    let number = digits.unwrap_or(trimmed);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let scale = 10_u64.checked_pow(u32::try_from(fraction.len()).unwrap_or(u32::MAX)).filter(|scale| *scale <= 10_000);
    let parts = (whole.parse::<u64>().ok(), format!("0{fraction}").parse::<u64>().ok(), scale);
    let (Some(whole), Some(fraction), Some(scale)) = parts else {
        return refuse("is not a share: it must be a number with at most four decimals and `%`", None);
    };
    let Some(numerator) = whole.checked_mul(scale).and_then(|hundredths| hundredths.checked_add(fraction)) else {
        return refuse("is far too large", None);
    };
    if digits.is_none() {
        return refuse("has no `%`", Some(format!("{number} %")));
    }
    let denominator = 100 * scale;
    if numerator == 0 || numerator >= denominator {
        return refuse("is no part of a core: a share is above 0 % and below 100 %", None);
    }
    let divisor = greatest_common_divisor(numerator, denominator);
    Ok((numerator / divisor, denominator / divisor))
}

fn greatest_common_divisor(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

#[cfg(test)]
mod tests {
    use super::parse_share;

    #[test]
    fn shares_are_exact_fractions() {
        assert_eq!(parse_share("5 %"), Ok((1, 20)));
        assert_eq!(parse_share("2.5%"), Ok((1, 40)));
        assert_eq!(parse_share("33.3333 %"), Ok((333_333, 1_000_000)));
        assert_eq!(parse_share("5").unwrap_err().replacement.as_deref(), Some("5 %"));
        for bad in ["0 %", "100 %", "0.00000001 %", "-5 %", "", "%", "18446744073709551615.5 %", "five %"] {
            assert!(parse_share(bad).is_err(), "{bad}");
        }
    }
}
