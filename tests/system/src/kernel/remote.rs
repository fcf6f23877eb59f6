//! A signal from an instance to a sleeping thread of another one, on another core: what both kernels and both monitors execute, and nobody else.

use super::cores::{self, Channel, Member};
use bulkhead_run::End;

/// Roles of the component `crowd`.
const SENDS: u64 = 1;
const TAKES: u64 = 2;
/// Of what lies between the two looks at the counter, the sender's SVC and YIELD and one look itself.
const OWN: u64 = 3;

/// What signals took, all of them together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signals {
    /// How many.
    pub times: u64,
    /// From the sender's call to the receiver's first instruction, on both cores.
    pub ticks: u64,
    /// Instructions of the sender's kernel, of the monitor on its core, of the receiver's kernel, and of the monitor there, from boot to end. The receiver's kernel has
    /// also put it to sleep.
    pub counts: [u64; 4],
}

/// The number in front of which this word stands.
fn number(line: &str, word: &str) -> Option<u64> {
    let rest = &line[line.find(word)? + word.len()..];
    let digits = rest.trim_start().split(|one: char| !one.is_ascii_digit()).next()?;
    digits.parse().ok()
}

fn member(name: &'static str, argument: u64, wire: &str, bind: &str) -> Member {
    let text = format!(
        "version = 1\nserver = [{{ name = \"main\" }}, {{ name = \"wire\" }}]\n{wire}\n\
         [[component]]\nname = \"crowd\"\nprogram = \"component:crowd.elf\"\n\
         threads = [{{ name = \"main\", server = \"main\", argument = {argument} }}]\n\
         end_points = [{{ thread = \"main\", signals = [\"news\"] }}]\n\
         bind = {{ told = \"receive:main\", two = \"empty:1\", three = \"empty:1\", over = \"empty:1\", {bind} }}\n"
    );
    Member { name, text, keys: String::new() }
}

/// Signals this often, in partitions of this mode.
///
/// # Panics
/// When a signal is lost, or comes when the receiver does not sleep.
#[must_use]
pub fn signals(mode: &str, times: u64) -> Signals {
    let wire = "wire = [{ port = \"there\", server = \"wire\", exports = { news = \"crowd.news\" } }]";
    let members = [
        member("sender", SENDS | times << 8, "", "one = \"wire:there.news\""),
        member("receiver", TAKES | times << 8, wire, "one = \"empty:1\""),
    ];
    let system =
        cores::system(&format!("signals-{mode}"), mode, &members, &[Channel::wire("there", "sender", "receiver")]);
    let mut running = system.start_with(|options| {
        options.icount_shift = Some(4);
        options.counting = Some(cores::counting(&system));
    });
    assert_eq!(running.end(), End::AllEnded);
    let (sent, taken) = (running.texts("sender"), running.texts("receiver"));
    let [sent, taken] = [sent, taken].map(|lines| lines.first().cloned().unwrap_or_default());
    assert!(sent.starts_with(&format!("sent: {times:06}, refused 0,")), "{sent}");
    assert!(
        taken.starts_with(&format!("taken: {times:06}, woken {times:06},")) && taken.ends_with("quiet true"),
        "{taken}"
    );
    let [from, to] = [&sent, &taken].map(|line| number(line, " at ").expect("a sum of instants"));
    let counts = running.counts().unwrap_or_else(|error| panic!("{error}"));
    let count = |core: usize, range: &str| counts.cores[core].range(range).map_or(0, |range| range.total);
    let counts = [count(0, "kernel sender"), count(0, "monitor"), count(1, "kernel receiver"), count(1, "monitor")];
    Signals { times, ticks: to.wrapping_sub(from) - OWN * times, counts }
}
