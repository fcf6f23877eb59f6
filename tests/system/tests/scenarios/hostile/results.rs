//! What the hostile guest printed, attack by attack, and the generated chapter about it.

use bulkhead_run::diagnosis::reason_name;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The generated chapter, from the root of the repository.
const PAGE: &str = "docs/book/src/reference/attacks.md";
/// Set to 1, it makes the test write the chapter instead of comparing it.
const UPDATE_VARIABLE: &str = "BULKHEAD_BLESS";

/// One attack as the guest announced and judged it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attack {
    pub(super) name: String,
    pub(super) expectation: String,
    /// `contained`, `unexpected`, `escaped`, `skipped`; empty when the guest never came to it.
    pub(super) verdict: String,
    pub(super) answer: String,
}

/// Attacks by number.
pub(super) type Attacks = BTreeMap<u32, Attack>;

/// Reads `attack N NAME: expect X` and `attack N result VERDICT: ANSWER`.
pub(super) fn parse(lines: &[String]) -> Attacks {
    let mut attacks = Attacks::new();
    for line in lines {
        let Some((number, rest)) = line.strip_prefix("attack ").and_then(|rest| rest.split_once(' ')) else { continue };
        let number = number.parse().unwrap_or_else(|_| panic!("{line:?} has no number"));
        if let Some((verdict, answer)) = rest.strip_prefix("result ").and_then(|rest| rest.split_once(": ")) {
            let attack: &mut Attack = attacks.entry(number).or_default();
            assert_eq!(attack.verdict, "", "{line:?} is the second result of this attack");
            (attack.verdict, attack.answer) = (verdict.to_owned(), in_words(answer));
        } else if let Some((name, expectation)) = rest.rsplit_once(": expect ") {
            let attack = attacks.entry(number).or_default();
            (attack.name, attack.expectation) = (name.to_owned(), expectation.to_owned());
        }
    }
    attacks
}

/// Replaces the number of a reason by its name.
fn in_words(answer: &str) -> String {
    let reason = answer.strip_prefix("restarted, reason 0x").and_then(|number| u32::from_str_radix(number, 16).ok());
    reason.map_or(answer.to_owned(), |reason| format!("restarted: {}", reason_name(reason)))
}

/// Returns the names of the attacks with a verdict.
pub(super) fn with_verdict<'a>(attacks: &'a Attacks, verdict: &str) -> Vec<&'a str> {
    attacks.values().filter(|attack| attack.verdict == verdict).map(|attack| attack.name.as_str()).collect()
}

/// Returns the numbers that the guest's last line names: tried, contained, unexpected, escaped, skipped.
pub(super) fn summary(lines: &[String]) -> [u32; 5] {
    let line = lines.iter().rfind(|line| line.starts_with("attacks done ")).expect("the guest printed its summary");
    ["tried=", "contained=", "unexpected=", "escaped=", "skipped="].map(|name| {
        let value = line.split(' ').find_map(|word| word.strip_prefix(name));
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{line:?} has no {name}"))
    })
}

/// Compares the chapter with what it should be, or writes it when asked to.
///
/// # Panics
/// With the first line that differs.
pub(super) fn check_page(wanted: &str) {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the repository");
    let path = root.join(PAGE);
    if std::env::var_os(UPDATE_VARIABLE).is_some() {
        std::fs::write(&path, wanted).unwrap_or_else(|error| panic!("{PAGE}: {error}"));
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    if found != wanted {
        let difference = found.lines().zip(wanted.lines()).find(|(old, new)| old != new);
        let (old, new) = difference.unwrap_or(("(the end)", "(more or fewer lines)"));
        panic!(
            "{PAGE} is not what the attacks do.\n  committed: {old}\n  should be: {new}\n\
             Look whether the change is meant; if so, run this test with {UPDATE_VARIABLE}=1 and commit the page."
        );
    }
}

/// Writes the chapter.
pub(super) fn page(attacks: &Attacks, direct: &Attacks) -> String {
    let mut text = String::from(HEAD);
    let count = |verdict| with_verdict(attacks, verdict).len();
    let (contained, unexpected, escaped) = (count("contained"), count("unexpected"), count("escaped"));
    writeln!(text, "{} attacks: {contained} contained, {unexpected} unexpected, {escaped} escaped.\n", attacks.len())
        .expect("a String");
    rows(&mut text, attacks);
    text += DIRECT;
    rows(&mut text, direct);
    text
}

fn rows(text: &mut String, attacks: &Attacks) {
    text.push_str("| number | attack | expectation | verdict | answer |\n| ---: | --- | --- | --- | --- |\n");
    for (number, attack) in attacks {
        let Attack { name, expectation, verdict, answer } = attack;
        writeln!(text, "| {number} | {name} | {expectation} | {verdict} | {} |", answer.replace('|', "\\|"))
            .expect("a String");
    }
}

const HEAD: &str = "# Attacks of the hostile guest

Generated from runs of `guests/hostile` by `tests/system/tests/scenarios/hostile.rs`;
`BULKHEAD_BLESS=1 cargo test -p bulkhead-system-tests --test scenarios hostile` writes it again.

The guest states what it expects, tries, and judges what came of it. *Contained*: as stated. *Unexpected*: otherwise,
and nothing was gained. *Escaped*: something was gained. The expectation *fault* means that the monitor takes the attack
as the partition's fault and restarts it, *restart* that the partition asked for it, *off* that the partition is off
afterwards; after an *answer* or *no effect* it continues. The number in an answer is what the guest read, counted or
was told (`ESR` is the syndrome of an exception that came back to the guest).

The guest's word is not the evidence: of most attacks with the expectation *no effect* it can only say that it
continued. On other cores a victim and a `direct` controller print byte for byte what they print without it, with the
same counters of exits; so does a peer with channels to the attacker, which takes its doorbells besides. Afterwards the
image in RAM (monitor, plans, tables, pristine guests), foreign status pages, foreign doorbell words and the registers
of the interrupt controller are compared with what they were or must be. In this run the emulated cores take turns on
one clock; another test (`a_hostile_guest_changes_nothing_outside`) and the runs with a watchdog let them run at the
same time.

Beside victims on the same core, whose every tick is held to its bound, the list runs in
`tests/system/tests/scenarios/attacked_ticks.rs`.

Most attacks are tried in one `mapped` partition. *Silence* needs a watchdog, *PCI* a partition started as Linux is, and
each way of switching off a run of its own. *A1* to *A12* are the attacks that a prototype found where a guest owns the
physical CPU interface; under `mapped` they act on the virtual one, except those on group 0 (*A2* to *A5*), which trap and
change nothing. *Silence after* each shows that the monitor's timer interrupt still comes: the watchdog restarts the partition.

";

const DIRECT: &str = "
## The same in a `direct` partition

A `direct` guest owns the physical CPU interface of its core, so `check` accepts it only when it is declared trusted
(`BH0209` names the hazard). When the promise is broken:

- **A8** and **A9** hold back every further interrupt of this core, until the guest itself ends it. The monitor has no
  interrupt on this core, so nothing of it is lost; the guest harms itself. No other core notices.
- **A12** clears the active state of an interrupt of another partition. On the emulated controller the interrupt can then
  arrive a second time while its owner still handles the first; on real ones the result is unpredictable. The same attack
  in a `mapped` partition leaves the foreign interrupt active.

";
