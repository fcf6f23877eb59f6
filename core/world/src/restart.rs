//! A start of the non-secure world, in steps that are short and bounded (SG-62).
//!
//! The payload's restart task asks for the next step, does it, and reports; between any two steps, and inside each, it may be preempted. The order
//! is the promise: the world stands, then nothing of it can interrupt, count or write memory any more, and only then is its memory made new. The
//! first start is a restart too, so there is one path.
//!
//! A segment is checked twice: what was read out of flash, before the world can run; and what is in memory, after everything was copied, because a
//! bus master that was forgotten would show there. Rejected: to compare with a hash of the whole window. Segments are a tenth of it, and the rest
//! is zeros that this code has just written.

use crate::calls::Window;
use crate::flash::{Segment, WorldPlan};

/// Most bytes of one step.
pub const SLICE_BYTES: u64 = 4096;

/// What a system has besides memory that a restart must bring to rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Scope {
    /// Words of 32 INTIDs: GICD_TYPER.ITLinesNumber + 1.
    pub interrupt_words: u32,
    /// Bus masters of the non-secure world, as the caller numbers them: functions of a PCI bus, transports of virtio.
    pub masters: u32,
}

/// What to do next. Nothing here is done twice, and each is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// No server is ready from now on, and urgent interrupts that were armed are the world's again.
    Stand,
    /// The world's interrupts of this word are off, neither pending nor active, in their group ([`crate::interrupts::of_restart`]).
    Interrupts(u32),
    /// CNTP and CNTV are off.
    Timers,
    /// This bus master writes no memory any more.
    Master(u32),
    /// These bytes are zeros.
    Scrub {
        /// First address, page-aligned.
        address: u64,
        /// At most [`SLICE_BYTES`].
        bytes: u64,
    },
    /// These bytes are copied; what is reported is the CRC-32C register after them.
    Copy {
        /// First address in flash.
        from: u64,
        /// First address in the window.
        to: u64,
        /// At most [`SLICE_BYTES`].
        bytes: u64,
        /// The register before them.
        crc: u32,
    },
    /// These bytes are read; what is reported is the CRC-32C register after them.
    Check {
        /// First address in the window.
        address: u64,
        /// At most [`SLICE_BYTES`].
        bytes: u64,
        /// The register before them.
        crc: u32,
    },
    /// Instructions are synchronised with what was copied, and the world has its first context and the registers of a reset.
    Context,
    /// The first server may run. The end.
    Run,
    /// A segment is not what it was when the file was built. The end: the world stays as it is, which is not running.
    Damaged {
        /// Its number.
        segment: u64,
        /// In flash; else in memory, after it had been right in flash.
        is_in_flash: bool,
    },
}

/// Which part of loading is under way, as a number that C knows.
mod phase {
    pub(super) const SCRUB: u64 = 0;
    pub(super) const COPY: u64 = 1;
    pub(super) const CHECK: u64 = 2;
    pub(super) const DONE: u64 = 3;
    /// While it was copied, and while it was read again.
    pub(super) const DAMAGED_IN_FLASH: u64 = 4;
    pub(super) const DAMAGED_IN_MEMORY: u64 = 5;
}

/// Where the work on memory has come to. Zeros are its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Loading {
    /// 0: the window is filled with zeros; 1: segments are copied out of flash; 2: they are read again; 3: done; 4
    /// and 5: a segment is damaged, in flash or in memory.
    pub phase: u64,
    /// The segment.
    pub segment: u64,
    /// Bytes of it, or of the window, that are done.
    pub offset: u64,
    /// CRC-32C register of them.
    pub crc: u64,
}

impl Loading {
    /// The next step: [`Step::Scrub`], [`Step::Copy`], [`Step::Check`], then [`Step::Context`] for ever; or [`Step::Damaged`].
    #[must_use]
    pub fn step(&self, plan: &WorldPlan) -> Step {
        let damaged = Step::Damaged { segment: self.segment, is_in_flash: self.phase != phase::DAMAGED_IN_MEMORY };
        let crc = if self.offset == 0 { u32::MAX } else { self.crc as u32 };
        let bytes = |whole: u64| whole.saturating_sub(self.offset).min(SLICE_BYTES);
        match (self.phase, self.segment(plan)) {
            (phase::SCRUB, _) => {
                Step::Scrub { address: plan.window.saturating_add(self.offset), bytes: bytes(plan.window_bytes) }
            }
            (phase::COPY, Some(segment)) => Step::Copy {
                from: segment.from.saturating_add(self.offset),
                to: segment.to.saturating_add(self.offset),
                bytes: bytes(segment.bytes),
                crc,
            },
            (phase::CHECK, Some(segment)) => {
                Step::Check { address: segment.to.saturating_add(self.offset), bytes: bytes(segment.bytes), crc }
            }
            (phase::DONE, _) => Step::Context,
            _ => damaged,
        }
    }

    /// The step was done; `crc` is the register after it, if it had one.
    pub fn done(&mut self, plan: &WorldPlan, crc: u32) {
        let whole = match (self.phase, self.segment(plan)) {
            (phase::SCRUB, _) => plan.window_bytes,
            (phase::COPY | phase::CHECK, Some(segment)) => segment.bytes,
            _ => return,
        };
        self.offset = self.offset.saturating_add(SLICE_BYTES).min(whole);
        self.crc = u64::from(crc);
        if self.offset < whole {
            return;
        }
        let is_right = self.phase == phase::SCRUB || self.segment(plan).is_some_and(|one| one.crc == u64::from(!crc));
        if !is_right {
            self.phase = if self.phase == phase::COPY { phase::DAMAGED_IN_FLASH } else { phase::DAMAGED_IN_MEMORY };
            return;
        }
        let next = if self.phase == phase::SCRUB { 0 } else { self.segment.saturating_add(1) };
        let (segment, phase) = if self.phase != phase::SCRUB && next < plan.segment_count {
            (next, self.phase)
        } else if plan.segment_count == 0 || self.phase == phase::CHECK {
            (0, phase::DONE)
        } else {
            (0, self.phase.saturating_add(1))
        };
        *self = Self { phase, segment, ..Self::default() };
        // One that is not in the window, or is none, is a plan that the builder does not make; nothing is copied by it.
        if phase == phase::COPY && !self.segment(plan).is_some_and(|one| holds(plan, one)) {
            self.phase = phase::DAMAGED_IN_FLASH;
        }
    }

    fn segment<'a>(&self, plan: &'a WorldPlan) -> Option<&'a Segment> {
        usize::try_from(self.segment).ok().and_then(|place| plan.segments.get(place))
    }
}

fn holds(plan: &WorldPlan, segment: &Segment) -> bool {
    Window { first: plan.window, bytes: plan.window_bytes }.holds(segment.to, segment.bytes)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Stand,
    Interrupts(u32),
    Timers,
    Masters(u32),
    Memory(Loading),
    Ready,
}

/// A start under way. One that is dropped and begun again makes no difference: every step may be done again from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart(Stage);

impl Default for Restart {
    fn default() -> Self {
        Self::begin()
    }
}

impl Restart {
    /// Before the first step.
    #[must_use]
    pub const fn begin() -> Self {
        Self(Stage::Stand)
    }

    /// The next step; the same until it was done.
    #[must_use]
    pub fn step(&self, plan: &WorldPlan) -> Step {
        match &self.0 {
            Stage::Stand => Step::Stand,
            Stage::Interrupts(word) => Step::Interrupts(*word),
            Stage::Timers => Step::Timers,
            Stage::Masters(number) => Step::Master(*number),
            Stage::Memory(loading) => loading.step(plan),
            Stage::Ready => Step::Run,
        }
    }

    /// The step was done; `crc` is the register after it, if it had one.
    pub fn done(&mut self, plan: &WorldPlan, scope: &Scope, crc: u32) {
        let memory = Stage::Memory(Loading::default());
        let from_master = |number| if number < scope.masters { Stage::Masters(number) } else { memory };
        let from_word = |word| if word < scope.interrupt_words { Stage::Interrupts(word) } else { Stage::Timers };
        self.0 = match self.0 {
            Stage::Stand => from_word(0),
            Stage::Interrupts(word) => from_word(word.saturating_add(1)),
            Stage::Timers => from_master(0),
            Stage::Masters(number) => from_master(number.saturating_add(1)),
            Stage::Memory(mut loading) => match loading.step(plan) {
                Step::Context => Stage::Ready,
                _ => {
                    loading.done(plan, crc);
                    Stage::Memory(loading)
                }
            },
            Stage::Ready => Stage::Ready,
        };
    }
}
