//! Every kind of access to the register frame of a virtio device (H23, QV-50): of 1, 2, 4, 8 and 16 bytes, unaligned, across both ends of the
//! trapped half, and by instructions that no hypervisor can decode. Each has one result: an answer, nothing, or the guest's own fault.

use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{REASON_BAD_ACCESS, REASON_DATA_ABORT, REASON_INSTRUCTION_ABORT};
use bulkhead_abi::virtio::{BLOCK_FLUSH, BLOCK_SEGMENTS, FRAME_OFFSET, MAX_QUEUE_SIZE};
use bulkhead_guest_abi::guest::GUEST_FRONTS;
use bulkhead_system_tests::execute::{self, Executor, Outcome};
use bulkhead_system_tests::{Running, System};

const FRAME: u64 = GUEST_FRONTS.0 + FRAME_OFFSET;
const READY: i64 = 0x44;
const NOTIFY: i64 = 0x50;
/// The device page, from the frame's start.
const PAGE: std::ops::Range<i64> = 0x60..0x1060;

/// What x1 and x2 hold, and q0 in part. Bit 0 of it switches a queue on.
const VALUE: u64 = 0x8182_8384_8586_8785;
const OTHER: u64 = 0x0102_0304_0506_0708;

/// How an instruction reaches memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One general register, which the processor describes: x1 or w1.
    Load,
    /// The same, of this value.
    Store(u64),
    /// The processor does not describe it.
    Opaque,
    /// The processor does not describe it, and it makes no access at all where there is no reservation.
    Conditional,
    /// It has no effect on memory.
    Hint,
    /// The processor has no such instruction.
    Missing,
    /// It is executed from there.
    Jump,
}

use Kind::{Conditional, Hint, Jump, Load, Missing, Opaque, Store};

/// Name, encoding with the address in x0 (Arm ARM, C6.2), bytes, kind.
const INSTRUCTIONS: &[(&str, u32, i64, Kind)] = &[
    ("ldrb w1, [x0]", 0x3940_0001, 1, Load),
    ("ldrsb w1, [x0]", 0x39c0_0001, 1, Load),
    ("ldrsb x1, [x0]", 0x3980_0001, 1, Load),
    ("ldrh w1, [x0]", 0x7940_0001, 2, Load),
    ("ldrsh x1, [x0]", 0x7980_0001, 2, Load),
    ("ldr w1, [x0]", 0xb940_0001, 4, Load),
    ("ldur w1, [x0]", 0xb840_0001, 4, Load),
    ("ldrsw x1, [x0]", 0xb980_0001, 4, Load),
    ("ldr x1, [x0]", 0xf940_0001, 8, Load),
    ("strb w1, [x0]", 0x3900_0001, 1, Store(VALUE)),
    ("strh w1, [x0]", 0x7900_0001, 2, Store(VALUE)),
    ("str w1, [x0]", 0xb900_0001, 4, Store(VALUE)),
    ("str wzr, [x0]", 0xb900_001f, 4, Store(0)),
    ("str x1, [x0]", 0xf900_0001, 8, Store(VALUE)),
    ("str xzr, [x0]", 0xf900_001f, 8, Store(0)),
    ("stur w1, [x0]", 0xb800_0001, 4, Store(VALUE)),
    ("ldp w1, w2, [x0]", 0x2940_0801, 8, Opaque),
    ("ldp x1, x2, [x0]", 0xa940_0801, 16, Opaque),
    ("stp w1, w2, [x0]", 0x2900_0801, 8, Opaque),
    ("stp x1, x2, [x0]", 0xa900_0801, 16, Opaque),
    ("stp wzr, wzr, [x0]", 0x2900_7c1f, 8, Opaque),
    ("ldr s0, [x0]", 0xbd40_0000, 4, Opaque),
    ("ldr q0, [x0]", 0x3dc0_0000, 16, Opaque),
    ("str s0, [x0]", 0xbd00_0000, 4, Opaque),
    ("str q0, [x0]", 0x3d80_0000, 16, Opaque),
    ("ldr w1, [x0], #4", 0xb840_4401, 4, Opaque),
    ("str w1, [x0], #4", 0xb800_4401, 4, Opaque),
    ("ldxr w1, [x0]", 0x885f_7c01, 4, Opaque),
    ("dc zva, x0", 0xd50b_7420, 1, Opaque),
    ("stxr w2, w1, [x0]", 0x8802_7c01, 4, Conditional),
    ("dc civac, x0", 0xd50b_7e20, 1, Hint),
    ("prfm pldl1keep, [x0]", 0xf980_0000, 1, Hint),
    ("ldadd w1, w2, [x0]", 0xb821_0002, 4, Missing),
    ("swp w1, w2, [x0]", 0xb821_8002, 4, Missing),
    ("cas w1, w2, [x0]", 0x88a1_7c02, 4, Missing),
    ("br x0", 0xd61f_0000, 4, Jump),
];

/// Where one register is accessed: registers of every kind, each alignment, and across the frame's middle and both of its ends.
const PLACES: &[i64] = &[
    -4,
    -1,
    0,
    2,
    0xc,
    0x10,
    0x34,
    READY,
    READY + 1,
    NOTIFY,
    NOTIFY + 2,
    0x54,
    0x58,
    0x5c,
    0x5d,
    0x5f,
    0x60,
    0x105c,
    0x105f,
];
/// Where the others are: each fault among them is a restart.
const FEW_PLACES: &[i64] = &[0, NOTIFY, 0x58, 0x60];

/// What reads of 32 bits answer.
fn register(place: i64, ready: u64) -> u64 {
    match place {
        0x00 => 0x7472_6976,
        0x04 => 2,
        0x08 => 2,
        0x0c => 0x4b4c_5542,
        0x10 => u64::from(BLOCK_FLUSH | BLOCK_SEGMENTS),
        0x34 => MAX_QUEUE_SIZE.into(),
        READY => ready,
        _ => 0,
    }
}

/// What an access is to come to: an answer in x1 if the guest reads a register, or nothing that is seen (`None`), or a fault.
fn expected(place: i64, bytes: i64, kind: Kind, ready: u64) -> Result<Option<u64>, Outcome> {
    let is_hole = |place: i64| !(0..PAGE.end).contains(&place);
    let is_trapped = (0..PAGE.start).contains(&place);
    match kind {
        Missing => Err(Outcome::Own(0)),
        // Permission in the device page, translation elsewhere.
        Jump => Err(Outcome::Fault(REASON_INSTRUCTION_ABORT)),
        Hint | Conditional => Ok(None),
        _ if is_hole(place) || is_hole(place + bytes - 1) => Err(Outcome::Fault(REASON_DATA_ABORT)),
        Opaque if is_trapped => Err(Outcome::Fault(REASON_BAD_ACCESS)),
        Load if is_trapped => Ok(Some(if bytes == 4 { register(place, ready) } else { 0 })),
        _ => Ok(None),
    }
}

/// The system: a front of a disk and a card, whose back end is nobody that serves.
fn system() -> System {
    let partition = |name: &str, core: u32| {
        format!(
            r#"
[[partition]]
name = "{name}"
cores = [{core}]
memory = "64 MiB"
image = {{ kind = "raw", file = "execute.bin", load = 0x4008_0000 }}
console = "none"
health = {{ on_fault = "restart", max = 128, within = "600 s", backoff = "0 ms" }}
"#
        )
    };
    let text = format!(
        r#"
version = 1
name = "frame"
board = "qemu-virt"
memory = "256 MiB"
{}{}
[[virtio]]
name = "disk"
kind = "block"
front = "front"
back = "back"
size = "1 MiB"

[[virtio]]
name = "card"
kind = "net"
front = "front"
back = "back"
"#,
        partition("front", 0),
        partition("back", 1)
    );
    System::from_text_with_programs("frame", &text, &[("execute", &execute::program())])
}

/// What the monitor counted for the front: accesses to the trapped half, notifications.
fn counted(running: &Running) -> [u64; 2] {
    [Counter::PciRegisters, Counter::DoorbellSent].map(|counter| running.counter("front", counter))
}

#[test]
fn every_access_to_a_frame_has_one_result() {
    let mut running = system().start();
    let mut front = Executor::new(&mut running, "front");
    let (mut ready, mut rows, mut faults) = (0, 0, 0);
    for &(name, word, bytes, kind) in INSTRUCTIONS {
        let places = if matches!(kind, Load | Store(_)) { PLACES } else { FEW_PLACES };
        for &place in places {
            let expected = expected(place, bytes, kind, ready);
            let before = counted(&running);
            let outcome = front.execute(&mut running, word, [FRAME.wrapping_add_signed(place), VALUE, OTHER, 0]);
            let what = format!("{name} at {place:#x}: {outcome:x?}");
            match expected {
                Err(expected) => assert_eq!(outcome, expected, "{what}"),
                Ok(value) => {
                    let Outcome::Done([_, x1, x2, _]) = outcome else { panic!("{what}") };
                    assert!(value.is_none_or(|value| x1 == value), "{what}");
                    assert!(kind != Conditional || x2 == 1, "{what}");
                }
            }
            // A restart begins a new instance, whose queues are off.
            let is_fault = matches!(outcome, Outcome::Fault(_));
            let is_register = expected.is_ok() && (0..PAGE.start).contains(&place) && matches!(kind, Load | Store(_));
            match kind {
                _ if is_fault => ready = 0,
                Store(value) if is_register && (place, bytes) == (READY, 4) => ready = value & 1,
                _ => {}
            }
            let rang = matches!(kind, Store(_)) && (place, bytes) == (NOTIFY, 4);
            let [accesses, doorbells] = counted(&running);
            assert_eq!(
                [accesses - before[0], doorbells - before[1]],
                [u64::from(is_register), u64::from(rang)],
                "{what}"
            );
            (rows, faults) = (rows + 1, faults + u32::from(is_fault));
        }
    }
    println!("{rows} accesses, {faults} faults");
    let [front, back] = ["front", "back"].map(|name| running.status(name));
    assert_eq!((front.generation, front.faults, front.back_end_busy), (faults + 1, faults.into(), 0));
    assert_eq!((back.generation, back.faults), (1, 0));
    running.assert_no_crash();
}
