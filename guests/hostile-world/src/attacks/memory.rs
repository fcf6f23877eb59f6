//! Memory and devices of the secure world, from the processor and by others (SG-3).

use super::{Outcome, all, expect};
use crate::World;
use crate::machine::{Exception, read32, read64, run, show_life, stay, write32, write64};

/// LDR and STR of 1, 2, 4, 8 bytes: x0, [x1].
const SIZES: [(u64, u32, u32); 4] = [
    (1, 0x3940_0020, 0x3900_0020),
    (2, 0x7940_0020, 0x7900_0020),
    (4, 0xb940_0020, 0xb900_0020),
    (8, 0xf940_0020, 0xf900_0020),
];
/// External abort at the same level, for a read, for a write, for a fetch.
const READ_ABORT: u64 = 0x9600_0010;
const WRITE_ABORT: u64 = 0x9600_0050;
const FETCH_ABORT: u64 = 0x8600_0010;
const MARK: u64 = 0x0123_4567_89ab_cdef;

/// Addresses of the secure world: flash (monitor, plan, end), contexts, state, plan, tables, payload, end of secure RAM, UART, GPIO.
fn places(world: &World) -> [u64; 12] {
    let devices = [0x0904_0000, 0x090b_0000];
    let flash = [0, 0x1000, 0x03ff_f000];
    let ram = [0x0e00_0000, 0x0e00_1000, 0x0e00_2000, 0x0e01_0000, world.canary, world.code & !7, 0x0eff_fff8];
    let mut all = [0; 12];
    for (place, address) in all.iter_mut().zip(flash.into_iter().chain(ram).chain(devices)) {
        *place = address;
    }
    all
}

fn aborted(tried: Result<[u64; 3], Exception>, syndrome: u64, address: u64) -> Outcome {
    match tried {
        Ok([value, _, _]) => Outcome::Escaped("secure memory was reached", value),
        Err(exception) if exception.syndrome != syndrome => Outcome::Unexpected("ESR", exception.syndrome),
        Err(exception) => expect(exception.address == address, "FAR", exception.address),
    }
}

/// Every access of natural alignment within 8 bytes at each place.
fn every(world: &World, instruction: impl Fn(u32, u32) -> u32, syndrome: u64) -> Outcome {
    all(places(world).into_iter().flat_map(|place| SIZES.map(|size| (place, size))).flat_map(
        |(place, (bytes, load, store))| {
            let word = instruction(load, store);
            (0..8 / bytes).map(move |index| {
                let address = place + index * bytes;
                aborted(run(&[word], [MARK, address, 0]), syndrome, address)
            })
        },
    ))
}

pub(super) fn reads(world: &World) -> Outcome {
    every(world, |load, _| load, READ_ABORT)
}

pub(super) fn writes(world: &World) -> Outcome {
    every(world, |_, store| store, WRITE_ABORT)
}

pub(super) fn jumps(world: &World) -> Outcome {
    // BR x1.
    all(places(world).map(|address| match run(&[0xd61f_0020], [0, address, 0]) {
        Err(exception) if exception.syndrome == FETCH_ABORT => {
            expect(exception.place == address, "ELR", exception.place)
        }
        Err(exception) => Outcome::Escaped("ESR", exception.syndrome),
        Ok(_) => Outcome::Escaped("a jump came back", address),
    }))
}

pub(super) fn other_accesses(world: &World) -> Outcome {
    // LDP, STP, LDXR, LDAR, STLR, LDR and STR of Q0, LD1, DC ZVA.
    let accesses =
        [0xa940_0820, 0xa900_0820, 0xc85f_7c20, 0xc8df_fc20, 0xc89f_fc20, 0x3dc0_0020, 0x3d80_0020, 0x4c40_7020];
    let aborts = all(accesses.into_iter().flat_map(|word| places(world).map(|place| (word, place & !15))).map(
        |(word, address)| match run(&[word], [MARK, address, MARK]) {
            Ok([value, _, _]) => Outcome::Escaped("secure memory was reached", value),
            Err(exception) => expect(exception.syndrome & !0x40 == READ_ABORT, "ESR", exception.syndrome),
        },
    ));
    // DC ZVA aborts in one way or another; STXR and PRFM change nothing either way.
    let others = all(places(world).map(|address| match run(&[0xd50b_7421], [0, address, 0]) {
        Ok(_) => Outcome::Escaped("secure memory was zeroed", address),
        Err(exception) => expect(exception.class() == 0x25, "ESR", exception.syndrome),
    }));
    for address in places(world) {
        let _ = run(&[0xc802_7c20], [MARK, address & !7, 0]);
        let _ = run(&[0xf980_0020], [MARK, address, 0]);
    }
    all([aborts, others])
}

// Own tables: level 1, of 39 bits, with blocks of 1 GiB.

const TABLE: u64 = 0x4120_0000;
/// Block, access flag, Normal memory (attribute 1), inner shareable.
const BLOCK: u64 = 1 | 1 << 10 | 1 << 2 | 3 << 8;
/// The attribute that says non-secure, which only means something in the secure state.
const NON_SECURE: u64 = 1 << 5;

/// Makes own tables, with the secure addresses in the first block, and a third entry as given; returns SCTLR with translation on and off.
fn own_tables(world: &World, attribute: u64, third: u64) -> (u32, u64, u64) {
    write64(TABLE, BLOCK | attribute);
    write64(TABLE + 8, BLOCK | attribute | 0x4000_0000);
    write64(TABLE + 16, third);
    // T0SZ 25, not cached, 4 KiB, 40 bits; EPD1 of EL1, reserved ones of EL2.
    let (tcr, mair) = (25 | 3 << 12, 0x4400);
    let (op1, control) = match world.level {
        1 => (0, tcr | 1 << 23 | 2 << 32),
        _ => (4, tcr | 1 << 31 | 1 << 23 | 2 << 16),
    };
    use crate::machine::{mrs, msr};
    let _ =
        run(&[msr((3, op1, 2, 0, 0)), msr((3, op1, 2, 0, 2)) | 1, msr((3, op1, 10, 2, 0)) | 2], [TABLE, control, mair]);
    // TLBI VMALLE1 or ALLE2, DSB, ISB.
    let _ = run(&[if op1 == 0 { 0xd508_871f } else { 0xd50c_871f }, 0xd503_3f9f, 0xd503_3fdf], [0; 3]);
    let off = run(&[mrs((3, op1, 1, 0, 0))], [0; 3]).map_or(0, |values| values[0]) & !1;
    (msr((3, op1, 1, 0, 0)), off | 1, off)
}

/// Tries an access with translation on. MSR SCTLR, x2; ISB; the access to [x1].
fn translated((control, on, off): (u32, u64, u64), word: u32, address: u64) -> Result<[u64; 3], Exception> {
    let tried = run(&[control | 2, 0xd503_3fdf, word], [MARK, address, on]);
    let _ = run(&[control, 0xd503_3fdf], [off, 0, 0]);
    tried
}

pub(super) fn unaligned(world: &World) -> Outcome {
    let tables = own_tables(world, NON_SECURE, 0);
    all(places(world).into_iter().flat_map(|place| SIZES.map(|size| (place & !15, size))).flat_map(
        |(place, (bytes, load, store))| {
            (0..8).map(move |offset| {
                let address = place + if bytes == 1 { offset } else { offset % 8 };
                let read = translated(tables, load, address);
                let write = translated(tables, store, address);
                // FAR is anything that the access covers.
                all([(read, READ_ABORT), (write, WRITE_ABORT)].map(|(tried, syndrome)| match tried {
                    Ok([value, _, _]) => Outcome::Escaped("secure memory was reached", value),
                    Err(exception) => expect(exception.syndrome == syndrome, "ESR", exception.syndrome),
                }))
            })
        },
    ))
}

pub(super) fn foreign_tables(world: &World) -> Outcome {
    all([world.canary, 0x0e01_0000, 0, 0x0e00_0000].map(|table| {
        let tables = own_tables(world, NON_SECURE, table | 3);
        // External abort of a walk at level 2.
        aborted(translated(tables, SIZES[3].1, 0x8000_0000), 0x9600_0016, 0x8000_0000)
    }))
}

pub(super) fn secure_attribute(world: &World) -> Outcome {
    let tables = own_tables(world, 0, 0);
    let reads = all(places(world).map(|place| aborted(translated(tables, SIZES[3].1, place), READ_ABORT, place)));
    // AT S1E1R, S1E1W, S1E0R, S12E1R, S1E2R: whatever they say, they read no memory there. S1E3R is not for this level.
    for word in [0xd508_7800, 0xd508_7820, 0xd508_7840, 0xd50c_7880, 0xd50c_7800] {
        let _ = run(&[word], [world.canary, 0, 0]);
    }
    match run(&[0xd50e_7800], [world.canary, 0, 0]) {
        Err(exception) if exception.class() == 0 => reads,
        Err(exception) => Outcome::Unexpected("ESR", exception.syndrome),
        Ok(_) => Outcome::Escaped("translation of EL3", 0),
    }
}

pub(super) fn caches(world: &World) -> Outcome {
    // DC ISW, CSW, CISW: levels 1 and 2, sets and ways, and more of them than exist. ADD x0; SUB x1; CBNZ x1.
    for word in [0xd508_7640, 0xd508_7a40, 0xd508_7e40] {
        for start in (0..16).flat_map(|way: u64| [way << 28, way << 30 | 2, way << 28 | 2]) {
            show_life();
            let _ = run(&[word, 0x9101_0000, 0xd100_0421, 0xb5ff_ffa1], [start & 0xffff_ffff, 256, 0]);
        }
    }
    // DC IVAC, CVAC, CIVAC, CVAU, IC IVAU, IALLU, IALLUIS.
    for word in [0xd508_7620, 0xd50b_7a20, 0xd50b_7e20, 0xd50b_7b20, 0xd50b_7520, 0xd508_751f, 0xd508_711f] {
        show_life();
        for address in places(world) {
            let _ = run(&[word], [address, 0, 0]);
        }
    }
    Outcome::Contained
}

pub(super) fn translations(_: &World) -> Outcome {
    // TLBI VMALLE1, VMALLE1IS, ALLE1, ALLE1IS, ALLE2.
    for word in [0xd508_871f, 0xd508_831f, 0xd50c_879f, 0xd50c_839f, 0xd50c_871f] {
        let _ = run(&[word, 0xd503_3f9f], [0; 3]);
    }
    // TLBI ALLE3.
    match run(&[0xd50e_871f], [0; 3]) {
        Err(exception) => expect(exception.class() == 0, "ESR", exception.syndrome),
        Ok(_) => Outcome::Escaped("TLBI of EL3", 0),
    }
}

/// The configuration device of QEMU: a command in memory tells it what to copy where.
pub(super) fn configuration_device(world: &World) -> Outcome {
    const DMA: u64 = 0x0902_0010;
    const COMMAND: u64 = 0x4130_0000;
    const PLACE: u64 = 0x4131_0000;
    let copy = |key: u32, bytes: u32, to: u64| {
        write32(COMMAND, (key << 16 | 1 << 3 | 1 << 1).swap_bytes());
        write32(COMMAND + 4, bytes.swap_bytes());
        write64(COMMAND + 8, to.swap_bytes());
        write64(DMA, COMMAND.swap_bytes());
        read32(COMMAND).swap_bytes()
    };
    // The device works: its signature, into own memory.
    write32(PLACE, 0);
    copy(0, 4, PLACE);
    let signature = u64::from(read32(PLACE));
    for to in [world.canary, 0x0e00_0000, world.code & !7] {
        // Signature, and the directory of files, which is longer. The payload compares its memory.
        copy(0, 4, to);
        copy(0x19, 1024, to);
    }
    // A command in secure memory is no command.
    write64(DMA, world.canary.swap_bytes());
    expect(signature == u64::from(u32::from_le_bytes(*b"QEMU")), "the device does not work", signature)
}

/// The edu device (1234:11e8), when the machine has one.
pub(super) fn pci_device(world: &World) -> Outcome {
    const CONFIGURATION: u64 = 0x40_1000_0000;
    const REGISTERS: u64 = 0x1000_0000;
    const BUFFER: u64 = 0x4_0000;
    const FROM: u64 = 0x4140_0000;
    const TO: u64 = 0x4141_0000;
    const BYTES: u64 = 64;
    let Some(function) = (0..32).map(|slot| CONFIGURATION + slot * 0x8000).find(|at| read32(*at) == 0x11e8_1234) else {
        return Outcome::Skipped;
    };
    world.needs_ticks(900);
    write32(function + 0x10, REGISTERS as u32);
    // Memory and bus mastering.
    write32(function + 4, 6);
    let copy = |from: u64, to: u64, command: u64| {
        for (register, value) in [(0x80, from), (0x88, to), (0x90, BYTES), (0x98, command)] {
            write64(REGISTERS + register, value);
        }
        while read64(REGISTERS + 0x98) & 1 != 0 {}
    };
    let words = || (0..BYTES / 8).map(|index| index * 8);
    // The device works: from own memory to own memory.
    words().for_each(|offset| write64(FROM + offset, MARK + offset));
    copy(FROM, BUFFER, 1);
    copy(BUFFER, TO, 3);
    let works = words().all(|offset| read64(TO + offset) == MARK + offset);
    // Into the payload, then out of it.
    copy(BUFFER, world.canary, 3);
    copy(world.canary, BUFFER, 1);
    copy(BUFFER, TO, 3);
    let seen = words().map(|offset| read64(TO + offset)).find(|word| *word != 0);
    let outcome = match seen {
        _ if !works => Outcome::Unexpected("the device does not work", 0),
        Some(word) => Outcome::Escaped("a device read secure memory", word),
        None => Outcome::Contained,
    };
    world.conclude(outcome);
    stay()
}
