//! What the secure world takes from stock Linux below it: instructions of both, counted by an emulator plugin (`tests/plugin/share.c` says how).

use crate::LIMIT;
use crate::secure::{OTHER, SECURE, options};
use crate::slot::Slot;
use bulkhead_run::el3::Results;
use bulkhead_run::{Machine, plugin};

const SOURCE: &str = include_str!("../../plugin/share.c");
const MAGIC: u64 = u64::from_le_bytes(*b"SHRE1001");
/// Flash with EL3, and the secure RAM.
const SECURE_MEMORY: [(u64, u64); 2] = [(0, 0x1000), (0x0e00_0000, 0x0f00_0000)];

/// What a run of two worlds on one core executed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// All instructions.
    pub all: u64,
    /// Those at EL3 and S-EL1.
    pub secure: u64,
    /// What the payload printed.
    pub payload: Vec<String>,
    /// What the other world printed.
    pub other: Vec<String>,
}

/// Runs a flash file to its end on a clock on which an instruction takes 1 ns.
///
/// # Errors
/// With what went wrong.
pub fn run(flash: Vec<u8>) -> Result<Share, String> {
    let results = Results::create().map_err(|error| format!("a file for what is counted: {error}"))?;
    let library = plugin::library_of("share", SOURCE).map_err(|error| error.to_string())?;
    let mut argument = library.to_string_lossy().replace(',', ",,");
    argument.push_str(&format!(",results={}", results.path().display().to_string().replace(',', ",,")));
    for (start, end) in SECURE_MEMORY {
        argument.push_str(&format!(",secure={start:#x}-{end:#x}"));
    }
    let mut options = options(flash);
    options.icount_shift = Some(0);
    options.plugins.push(argument);
    let _slot = Slot::take();
    let mut machine = Machine::start(options).map_err(|error| error.to_string())?;
    machine.wait_for_end(LIMIT).map_err(|error| error.to_string())?;
    let lines = |console: &str| machine.lines(console).map(|line| line.text.clone()).collect();
    let words = results.words().map_err(|error| format!("what was counted: {error}"))?;
    let [MAGIC, all, secure] = words[..] else { return Err("the plugin wrote no results".to_owned()) };
    Ok(Share { all, secure, payload: lines(SECURE), other: lines(OTHER) })
}
