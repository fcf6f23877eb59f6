//! What a hostile world tried below a payload, and what that noticed of it (SG-48).
//!
//! `guests/hostile-world` says what it does and how it ended; `guests/freertos/attacked-world` starts it again for each attack, and says how
//! late its ticks came meanwhile, whether its victim task came to its result, and what is not as it was: a register, a setting
//! of the interrupt controller, a word of memory. Both are judged line by line, and a line that is missing is a success of the attacker.

use std::collections::BTreeMap;

/// How late a tick finds its vector in the payload. Instructions, all of them.
const IN_PAYLOAD: u64 = 2;
/// The same in the other world, when nothing else is under way (path 2). It is that of the secure monitor `dual`, with what the vector needs to read the counter.
pub const PATH_2: u64 = 116;
/// The longest way that a tick may find under way: path 4, with the look of the library before it, both with the payload's interrupts masked.
/// One that finds path 5 comes sooner than by path 2.
const LONGEST_WAY: u64 = 120;
/// The longest stretch of the library with interrupts masked, while it answers calls.
const MASKED: u64 = 20;
/// The longest stretch in which FreeRTOS masks them for itself, which its tick may meet while the payload's tasks start and end their work. Measured
/// are 62 here and below 400 with every service at work (`tests/system/tests/worlds/messages.rs`).
const KERNEL_MASKED: u64 = 400;
/// Samples in the other world that each attack gets, and ticks after them in which the payload compares all registers.
const SAMPLES: u64 = 100;
const COMPARED_TICKS: u64 = 20;
/// Of all, those of one attack in each place that may be later than their class: the payload's victim begins and ends its work at any instant, so
/// its return to a quiet world may meet a tick once (path 4, the third class of latencies), and a section of its kernel may.
/// A world that could bring it about would do so in each period of the victim.
const COINCIDENCES: u64 = 1;

/// How all attacks of a run went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attacks {
    /// How many were tried.
    pub tried: usize,
    /// Those that make no sense at the level of the world.
    pub skipped: usize,
    /// What succeeded or was not seen to end: the attack and what is wrong.
    pub succeeded: Vec<String>,
    /// The latest tick of all.
    pub latest: u64,
}

impl Attacks {
    /// Judges what the payload and the other world said.
    #[must_use]
    pub fn judge(payload: &[String], world: &[String]) -> Self {
        Self::judge_with(payload, world, PATH_2)
    }

    /// The same under a secure monitor with this path 2.
    #[must_use]
    pub fn judge_with(payload: &[String], world: &[String], path_2: u64) -> Self {
        let reports: Vec<Report> = payload.iter().filter_map(|line| Report::of(line)).collect();
        let attempts = attempts(world);
        let mut attacks = Self { tried: attempts.len(), ..Self::default() };
        if payload.last().is_none_or(|line| line != "end") {
            let last = payload.last().map_or("nothing", String::as_str);
            attacks.succeeded.push(format!("the payload did not come to its end: {last}"));
        }
        if reports.len() != attempts.len() || attempts.is_empty() {
            attacks.succeeded.push(format!("{} attacks and {} reports", attempts.len(), reports.len()));
        }
        let victim = reports.first().map(|report| report.victim.clone()).unwrap_or_default();
        for (attempt, report) in attempts.iter().zip(&reports) {
            attacks.skipped += usize::from(attempt.ends == ["skipped"]);
            attacks.latest = attacks.latest.max(report.latest());
            let wrong =
                attempt.wrong().or_else(|| report.wrong(&victim)).or_else(|| report.late(&attempt.noise, path_2));
            attacks.succeeded.extend(wrong.map(|wrong| format!("{}: {wrong}", attempt.what)));
        }
        attacks
    }
}

type Late = BTreeMap<u64, u64>;

/// What the payload says of an attack.
struct Report {
    ticks: u64,
    /// How late, and how often.
    in_payload: Late,
    in_other: Late,
    victim: String,
    is_off: bool,
    /// Registers, words and settings of the interrupt controller.
    changed: String,
}

fn last(late: &Late) -> u64 {
    late.keys().next_back().copied().unwrap_or(0)
}

impl Report {
    fn of(line: &str) -> Option<Self> {
        let parts: Vec<&str> = line.split("; ").collect();
        let [first, in_payload, in_other, _, victim, off, changed] = parts[..] else { return None };
        let counted = |part: &str| {
            let pairs = part.split(' ').filter_map(|pair| pair.split_once('*'));
            pairs.map(|(late, count)| Some((late.parse().ok()?, count.parse().ok()?))).collect::<Option<Late>>()
        };
        Some(Self {
            ticks: first.split(' ').next_back()?.parse().ok()?,
            in_payload: counted(in_payload)?,
            in_other: counted(in_other)?,
            victim: victim.to_owned(),
            is_off: off == "off 1",
            changed: changed.to_owned(),
        })
    }

    fn latest(&self) -> u64 {
        last(&self.in_payload).max(last(&self.in_other))
    }

    fn wrong(&self, victim: &str) -> Option<String> {
        if self.changed != "changed nothing" {
            return Some(self.changed.clone());
        }
        (self.victim != victim).then(|| format!("the victim came to {} instead of {victim}", self.victim))
    }

    /// The law of latencies, sample by sample. `noise` says what the world does meanwhile: `quiet`, `calls`, or it `ends`.
    fn late(&self, noise: &str, path_2: u64) -> Option<String> {
        let is = |late: &Late, only: u64| late.keys().all(|late| *late == only);
        let samples = |late: &Late| late.values().sum::<u64>();
        let (own, other) = (samples(&self.in_payload), samples(&self.in_other));
        if own + other + COMPARED_TICKS != self.ticks {
            return Some(format!("{} of {} ticks came", own + other + COMPARED_TICKS, self.ticks));
        }
        let own_class = IN_PAYLOAD..=IN_PAYLOAD + if noise == "calls" { MASKED } else { 0 };
        let own_coincided: u64 =
            self.in_payload.iter().filter(|(late, _)| !own_class.contains(late)).map(|(_, count)| count).sum();
        let is_own_law = self.in_payload.keys().all(|late| (IN_PAYLOAD..=IN_PAYLOAD + KERNEL_MASKED).contains(late));
        let is_own_kept = is_own_law && own_coincided <= COINCIDENCES;
        let is_other_kept = match noise {
            "quiet" => {
                let coincided = other - self.in_other.get(&path_2).copied().unwrap_or(0);
                let is_law = self.in_other.keys().all(|late| (path_2..=path_2 + LONGEST_WAY).contains(late));
                is_law && coincided <= COINCIDENCES && other >= SAMPLES
            }
            "calls" => last(&self.in_other) <= path_2 + LONGEST_WAY && own + other >= SAMPLES,
            // A tick may come while it says what it is going to do.
            _ => self.is_off && other <= 2 && is(&self.in_other, path_2),
        };
        let what = || format!("ticks in the payload {:?}, in the other world {:?}", self.in_payload, self.in_other);
        (!(is_own_kept && is_other_kept)).then(what)
    }
}

/// What the world says of an attack: what goes on meanwhile, what it is, and how it ended.
struct Attempt {
    noise: String,
    what: String,
    ends: Vec<String>,
}

impl Attempt {
    fn wrong(&self) -> Option<String> {
        let is_contained = matches!(&self.ends[..], [end] if end == "contained" || end == "skipped");
        (!is_contained).then(|| format!("ended with {:?}", self.ends))
    }
}

fn attempts(lines: &[String]) -> Vec<Attempt> {
    let mut attempts: Vec<Attempt> = Vec::new();
    for line in lines {
        let Some((_, rest)) = line.strip_prefix("attack ").and_then(|rest| rest.split_once(' ')) else { continue };
        match (rest.split_once(", SG-"), attempts.last_mut()) {
            (Some((noise, what)), _) => {
                attempts.push(Attempt { noise: noise.to_owned(), what: what.to_owned(), ends: Vec::new() });
            }
            (None, Some(attempt)) => attempt.ends.push(rest.to_owned()),
            // Nobody has begun: what ended is counted as an attack that nothing is known of.
            (None, None) => attempts.push(Attempt { noise: String::new(), what: rest.to_owned(), ends: Vec::new() }),
        }
    }
    attempts
}

#[cfg(test)]
mod tests {
    use super::Attacks;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    const WORLD: &str = "attack 1 quiet, SG-7 a mask\nattack 1 contained\nattack 2 calls, SG-14 a storm\nattack 2 contained\n\
                         attack 3 ends, SG-14 switches itself off\nattack 3 skipped";
    const PAYLOAD: &str = "rtos: FreeRTOS\n\
        attack 1: ticks 140; late in the payload: 2*20; late in the other world: 116*100; calls 0; victim 7; off 0; changed nothing\n\
        attack 2: ticks 140; late in the payload: 2*19 20*1; late in the other world: 116*99 236*1; calls 9; victim 7; off 0; changed nothing\n\
        attack 3: ticks 160; late in the payload: 2*138; late in the other world: 116*2; calls 1; victim 7; off 1; changed nothing\n\
        attacks 3; ticks 500; fast 500; latest 236\nend";

    #[test]
    fn what_changes_nothing_does_not_succeed() {
        let attacks = Attacks::judge(&lines(PAYLOAD), &lines(WORLD));
        assert_eq!(attacks, Attacks { tried: 3, skipped: 1, succeeded: Vec::new(), latest: 236 });
    }

    #[test]
    fn one_coincidence_with_the_payload_itself_is_no_success() {
        for (from, to) in [("2*20;", "2*19 62*1;"), ("2*19 20*1", "2*19 62*1"), ("116*100", "116*99 236*1")] {
            let attacks = Attacks::judge(&lines(&PAYLOAD.replacen(from, to, 1)), &lines(WORLD));
            assert_eq!(attacks.succeeded, Vec::<String>::new(), "{from}");
        }
    }

    /// Each of these is one success, and no more.
    #[test]
    fn each_difference_is_a_success() {
        let payload = [
            ("2*20;", "2*18 3*2;"),
            ("2*20;", "2*19 1*1;"),
            ("2*20;", "2*19 403*1;"),
            ("116*100", "116*98 117*2"),
            ("116*100", "116*99 115*1"),
            ("116*100", "116*99 237*1"),
            ("ticks 140; late in the payload: 2*20", "ticks 141; late in the payload: 2*20"),
            ("236*1", "237*1"),
            ("2*19 20*1", "2*18 23*2"),
            ("116*2", "116*3"),
            ("victim 7; off 1", "victim 7; off 0"),
            ("off 1; changed nothing", "off 1; changed VBAR_EL1"),
            ("calls 9; victim 7", "calls 9; victim 8"),
            ("\nend", "\nrtos: FAILED: assertion"),
        ];
        for (from, to) in payload {
            let changed = PAYLOAD.replacen(from, to, 1);
            assert_ne!(changed, PAYLOAD, "{from}");
            let attacks = Attacks::judge(&lines(&changed), &lines(WORLD));
            assert_eq!(attacks.succeeded.len(), 1, "{from}: {:?}", attacks.succeeded);
        }
        for (from, to) in [("attack 2 contained", "attack 2 escaped"), ("attack 1 contained\n", "")] {
            let attacks = Attacks::judge(&lines(PAYLOAD), &lines(&WORLD.replacen(from, to, 1)));
            assert_eq!(attacks.succeeded.len(), 1, "{from}: {:?}", attacks.succeeded);
        }
        let shorter: Vec<String> = lines(PAYLOAD).into_iter().filter(|line| !line.starts_with("attack 2")).collect();
        assert!(!Attacks::judge(&shorter, &lines(WORLD)).succeeded.is_empty());
        assert!(!Attacks::judge(&lines("end"), &[]).succeeded.is_empty(), "no attack at all");
    }
}
