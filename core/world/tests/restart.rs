//! A start of the non-secure world on a fake of its memory: order, bounds, checks, and damage wherever it is (SG-62).

use bulkhead_channel::crc::crc32c;
use bulkhead_world::flash::{Head, Segment, WorldPlan};
use bulkhead_world::restart::{Restart, SLICE_BYTES, Scope, Step};

const FLASH: u64 = 0x10_0000;
const WINDOW: u64 = 0x4000_0000;
const WINDOW_BYTES: u64 = 0x8000;
const SCOPE: Scope = Scope { interrupt_words: 9, masters: 3 };

/// Segments of a byte, a slice, and a bit more than two slices; where they go.
const SEGMENTS: [(u64, u64); 3] = [(0x4000, 1), (0x1000, 4096), (0x5000, 2 * 4096 + 5)];

struct Machine {
    plan: WorldPlan,
    flash: Vec<u8>,
    memory: Vec<u8>,
    steps: Vec<Step>,
}

impl Machine {
    fn new() -> Self {
        let flash: Vec<u8> = (0..0x6000_u32).map(|byte| (byte * 7 + byte / 256) as u8).collect();
        let head = Head::default();
        let mut plan = WorldPlan::new(head, 0);
        (plan.window, plan.window_bytes) = (WINDOW, WINDOW_BYTES);
        let mut from = 0;
        for (segment, (to, bytes)) in plan.segments.iter_mut().zip(SEGMENTS) {
            let content = &flash[from as usize..][..bytes as usize];
            *segment = Segment { from: FLASH + from, to: WINDOW + to, bytes, crc: crc32c(content).into() };
            from += bytes.next_multiple_of(4096);
        }
        plan.segment_count = 3;
        Self { plan, flash, memory: vec![0xee; WINDOW_BYTES as usize], steps: Vec::new() }
    }

    /// Does a step, and returns the CRC register after it.
    fn act(&mut self, step: Step) -> u32 {
        let register = |before: u32, bytes: &[u8]| {
            // A register is the bitwise complement of a checksum that ends here.
            bytes.iter().fold(before, |register, byte| {
                (0..8).fold(register ^ u32::from(*byte), |one, _| one >> 1 ^ if one & 1 == 1 { 0x82f6_3b78 } else { 0 })
            })
        };
        let place = |address: u64, bytes: u64| {
            assert!(
                bytes != 0 && bytes <= SLICE_BYTES && address >= WINDOW && address + bytes <= WINDOW + WINDOW_BYTES
            );
            (address - WINDOW) as usize..(address - WINDOW + bytes) as usize
        };
        match step {
            Step::Scrub { address, bytes } => {
                self.memory[place(address, bytes)].fill(0);
                0
            }
            Step::Copy { from, to, bytes, crc } => {
                let source = (from - FLASH) as usize..(from - FLASH + bytes) as usize;
                self.memory[place(to, bytes)].copy_from_slice(&self.flash[source.clone()]);
                register(crc, &self.flash[source])
            }
            Step::Check { address, bytes, crc } => register(crc, &self.memory[place(address, bytes)]),
            _ => 0,
        }
    }

    /// Runs to the end; `disturb` may change memory before a step.
    fn run(&mut self, mut disturb: impl FnMut(&mut Self, usize)) -> Step {
        let mut restart = Restart::begin();
        for number in 0..200 {
            let step = restart.step(&self.plan);
            assert_eq!(restart.step(&self.plan), step, "asking changes nothing");
            if matches!(step, Step::Run | Step::Damaged { .. }) {
                return step;
            }
            disturb(self, number);
            let crc = self.act(step);
            self.steps.push(step);
            restart.done(&self.plan, &SCOPE, crc);
        }
        panic!("more than 200 steps");
    }
}

/// SG-62: everything that could disturb is at rest before memory is touched, and the world begins with its segments among zeros.
#[test]
fn a_start_ends_with_zeros_and_segments() {
    let mut machine = Machine::new();
    assert_eq!(machine.run(|_, _| ()), Step::Run);
    let mut expected = vec![0; WINDOW_BYTES as usize];
    let mut from = 0;
    for (to, bytes) in SEGMENTS.map(|(to, bytes)| (to as usize, bytes as usize)) {
        expected[to..][..bytes].copy_from_slice(&machine.flash[from..][..bytes]);
        from += bytes.next_multiple_of(4096);
    }
    assert!(machine.memory == expected);
    let before: Vec<Step> = std::iter::once(Step::Stand)
        .chain((0..9).map(Step::Interrupts))
        .chain([Step::Timers])
        .chain((0..3).map(Step::Master))
        .collect();
    assert_eq!(machine.steps[..before.len()], before);
    let memory = &machine.steps[before.len()..];
    // 8 pages of zeros; 1, 1 and 3 slices twice; the context at the very end.
    assert_eq!(memory.len(), 8 + 2 * 5 + 1);
    assert!(memory[..8].iter().all(|step| matches!(step, Step::Scrub { bytes: 4096, .. })));
    assert!(memory[8..13].iter().all(|step| matches!(step, Step::Copy { .. })));
    assert!(memory[13..18].iter().all(|step| matches!(step, Step::Check { .. })));
    assert_eq!(memory[18], Step::Context);
}

/// SG-62: a bit that is wrong in flash, in any segment, is found before the world runs, and named.
#[test]
fn damage_in_flash_starts_nothing() {
    let mut from = 0;
    for (number, (_, bytes)) in (0..).zip(SEGMENTS) {
        for place in [from, from + bytes / 2, from + bytes - 1] {
            let mut machine = Machine::new();
            machine.flash[place as usize] ^= 0x10;
            assert_eq!(machine.run(|_, _| ()), Step::Damaged { segment: number, is_in_flash: true });
            assert!(!machine.steps.contains(&Step::Context));
        }
        from += bytes.next_multiple_of(4096);
    }
}

/// SG-62: a bus master that still writes is found by the second check, wherever it writes after the copy.
#[test]
fn damage_in_memory_starts_nothing() {
    for (number, (to, bytes)) in (0..).zip(SEGMENTS) {
        let mut machine = Machine::new();
        let damaged = machine.run(|machine, step| {
            if step == 14 + 8 + 5 {
                machine.memory[(to + bytes - 1) as usize] ^= 1;
            }
        });
        assert_eq!(damaged, Step::Damaged { segment: number, is_in_flash: false });
    }
}

/// A plan that no builder makes copies nothing outside the window.
#[test]
fn segments_outside_the_window_are_refused() {
    let place = |to, bytes| Segment { from: FLASH, to, bytes, crc: 0 };
    for segment in [
        place(WINDOW - 4096, 4096),
        place(WINDOW + WINDOW_BYTES, 4096),
        place(WINDOW + 0x7000, 0x1001),
        place(WINDOW, 0),
        place(u64::MAX - 4095, 8192),
        place(0x0e02_0000, 4096),
    ] {
        let mut machine = Machine::new();
        machine.plan.segments[1] = segment;
        assert_eq!(machine.run(|_, _| ()), Step::Damaged { segment: 1, is_in_flash: true }, "{segment:?}");
    }
    let mut machine = Machine::new();
    machine.plan.segment_count = 20;
    assert!(matches!(machine.run(|_, _| ()), Step::Damaged { .. }));
    let mut machine = Machine::new();
    machine.plan.segment_count = 0;
    assert_eq!(machine.run(|_, _| ()), Step::Run, "a world whose memory is zeros");
}
