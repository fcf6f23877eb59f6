//! What a bound rests on besides the description: the monitor's costs and the time of an instruction.
//!
//! They are arguments wherever a bound is computed or a description is loaded, and a description can only be loaded with some
//! ([`bulkhead_description::load`]): [`Assumptions`] is the check of time.

use bulkhead_analysis::costs::{Costs, PROVENANCE, RECORDED};
use bulkhead_description::unit::duration_option;

/// Time of an instruction unless the user says otherwise: QEMU with `-icount shift=4`, which the exact runs use. It is
/// sixteen times the pessimism of a core with 1,000 million instructions a second.
pub const DEFAULT_INSTRUCTION_PS: u64 = 16_000;

/// The assumptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assumptions {
    /// Picoseconds of an instruction.
    pub instruction_ps: u64,
    /// Costs of the monitor, in instructions.
    pub costs: Costs,
    /// Where the costs come from.
    pub provenance: &'static str,
}

/// The argument of commands that judge the time of a system.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct InstructionTime {
    /// Time of an instruction, for the monitor's own costs, such as "1 ns" [default: 16 ns, QEMU with -icount shift=4].
    #[arg(long, value_name = "TIME", value_parser = instruction_ps)]
    pub instruction_time: Option<u64>,
}

impl InstructionTime {
    /// The assumptions with this time.
    #[must_use]
    pub fn assumptions(&self) -> Assumptions {
        let usual = Assumptions::default();
        Assumptions { instruction_ps: self.instruction_time.unwrap_or(usual.instruction_ps), ..usual }
    }
}

/// Reads the time of an instruction, at most a microsecond, as picoseconds.
fn instruction_ps(text: &str) -> Result<u64, String> {
    let ns = duration_option(text, "ns")?;
    (1..=1_000).contains(&ns).then(|| ns * 1_000).ok_or_else(|| format!("`{text}` is not from 1 ns to 1 us"))
}

impl Default for Assumptions {
    fn default() -> Self {
        Self { instruction_ps: DEFAULT_INSTRUCTION_PS, costs: RECORDED, provenance: PROVENANCE }
    }
}

impl Assumptions {
    /// Nanoseconds of some instructions, rounded up.
    #[must_use]
    pub fn instructions_ns(&self, instructions: u64) -> u64 {
        let picoseconds = u128::from(instructions) * u128::from(self.instruction_ps);
        u64::try_from(picoseconds.div_ceil(1_000)).unwrap_or(u64::MAX)
    }

    /// The same rounded down, for least amounts.
    #[must_use]
    pub fn instructions_ns_down(&self, instructions: u64) -> u64 {
        let picoseconds = u128::from(instructions) * u128::from(self.instruction_ps);
        u64::try_from(picoseconds / 1_000).unwrap_or(u64::MAX)
    }
}
