//! Several cores: what the secure monitor does for EL2 of each of them, by itself and beside the image of EL2 (SG-13, QV-16).

use super::layout::{CORES, CORES_BYTES, half, word};
use crate::code::Code;
use crate::finding::Findings;
use crate::image::{Contents, Core};
use bulkhead_abi::plan::{FLAG_FILTERED, MODE_MAPPED};

/// Cores that a plan has room for.
const MOST: usize = 4;
/// The level whose calls EL3 answers where a monitor is at EL2.
const EL2: u32 = 2;
/// SGIs: EL3's kick, the payload's event on its core, and the one of monitors there.
const KICK: u32 = 1 << 8;
const EVENT: u32 = 1 << 9;
const OF_MONITORS: u32 = 1 << 15;
/// What a kernel may send by the monitor, and what one with direct interrupts may send to itself.
const OF_KERNELS: u32 = 0x7eff;
const OF_DIRECT: u32 = 0xff;
/// Shortest and longest watch, in microseconds.
const WATCH_US: [u64; 2] = [10, 10_000_000];

/// What a plan says of several cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cores {
    count: usize,
    caller_level: u32,
    redistributors: [u64; MOST - 1],
    closed: [u32; MOST],
    kicks: [u32; MOST],
    watch_ticks: [u64; 2],
}

impl Cores {
    /// Reads it; `None` within where the plan is for one core.
    pub(super) fn read(page: &[u8]) -> Option<Option<Self>> {
        let entry = page.get(CORES..CORES + CORES_BYTES)?;
        if entry.iter().all(|byte| *byte == 0) {
            return Some(None);
        }
        let halves =
            |at: usize| Some([half(entry, at)?, half(entry, at + 4)?, half(entry, at + 8)?, half(entry, at + 12)?]);
        Some(Some(Self {
            count: half(entry, 0)? as usize,
            caller_level: half(entry, 4)?,
            redistributors: [word(entry, 8)?, word(entry, 16)?, word(entry, 24)?],
            closed: halves(32)?,
            kicks: halves(48)?,
            watch_ticks: [word(entry, 64)?, word(entry, 72)?],
        }))
    }

    /// The redistributors of the cores behind the first one.
    pub(super) fn redistributors(&self) -> impl Iterator<Item = u64> {
        self.redistributors.into_iter().filter(|frame| *frame != 0)
    }

    /// Checks the numbers by themselves.
    pub(super) fn check(&self, counter_hz: u64, findings: &mut Findings) {
        let is_count = (1..=MOST).contains(&self.count);
        let mut frames = self.redistributors.iter().enumerate();
        let are_frames = frames.all(|(place, frame)| (*frame != 0) == (place + 1 < self.count));
        findings.require(is_count && are_frames && self.caller_level == EL2, Code::WorldCores, || {
            format!("{} cores below a payload are not served, or not each has its redistributor, or EL3 answers another level than EL2", self.count)
        });
        let watch = WATCH_US.map(|limit| counter_hz.saturating_mul(limit).div_ceil(1_000_000));
        findings.require(self.watch_ticks == watch, Code::WorldCores, || {
            format!(
                "watches last from {} to {} ticks, and not from 10 us to 10 s",
                self.watch_ticks[0], self.watch_ticks[1]
            )
        });
        for (core, closed) in self.closed.iter().enumerate() {
            let kept = if core == 0 { KICK | EVENT } else { KICK };
            findings.require(closed >> 16 == 0 && closed & kept == kept, Code::WorldCores, || {
                format!("an SGI of EL3 or of the payload is open on core {core}")
            });
        }
    }

    /// Compares the plan with the cores of the image below.
    pub(super) fn check_below(&self, contents: &Contents, redistributor: u64, findings: &mut Findings) {
        let affinity = |core: &Core| usize::try_from(core.boot.mpidr).unwrap_or(usize::MAX);
        let used: Vec<usize> = contents.cores.iter().map(affinity).collect();
        let kicked = used.iter().filter(|core| (1..MOST).contains(core)).fold(0, |mask, core| mask | 1 << core);
        for (core, kicks) in self.kicks.iter().enumerate() {
            let expected = if used.contains(&core) { kicked } else { 0 };
            findings.require(*kicks == expected, Code::WorldCores, || {
                format!("core {core} kicks the cores {kicks:#06b}, and should kick {expected:#06b}: those with EL2 alone, and never the payload's")
            });
        }
        for core in &contents.cores {
            let number = affinity(core);
            let frame = match number.checked_sub(1) {
                None => Some(redistributor),
                Some(place) => self.redistributors.get(place).copied().filter(|_| number < self.count),
            };
            findings.require(frame == Some(core.gicr()), Code::WorldCores, || {
                format!("core {number} of the image is none of the {}, or has another redistributor", self.count)
            });
        }
        for (core, closed) in self.closed.iter().enumerate() {
            let on_it = contents.cores.iter().filter(|one| affinity(one) == core);
            let (most, least) = on_it.fold((0, 0), |open, one| widen(open, one, contents));
            let (most, least) = match core {
                0 => (most & !EVENT | OF_MONITORS, least & !EVENT | OF_MONITORS),
                _ => (most, least),
            };
            let open = !closed & 0xffff;
            findings.require(open & !most == 0 && least & !open == 0, Code::WorldCores, || {
                format!("core {core} opens the SGIs {open:#06x}; its guests may have {most:#06x} and need {least:#06x}")
            });
        }
    }
}

/// Adds what the guests of a core may have open, and need.
fn widen((most, least): (u32, u32), core: &Core, contents: &Contents) -> (u32, u32) {
    let of_vcpu = |mode: u32, partition: u32| {
        let filtered =
            contents.partitions.get(partition as usize).is_some_and(|one| one.plan.flags & FLAG_FILTERED != 0);
        if mode == MODE_MAPPED || filtered { (OF_KERNELS, OF_KERNELS) } else { (OF_DIRECT, 0) }
    };
    let all = core.vcpus.iter().map(|vcpu| of_vcpu(vcpu.plan.mode, vcpu.plan.partition));
    all.fold((most, least), |(most, least), (may, needs)| (most | may, least | needs))
}
