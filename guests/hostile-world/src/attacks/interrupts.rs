//! Priorities, masks, groups, SGIs and the registers of the interrupt controller (SG-6, SG-7, SG-15).

use super::{Outcome, all, expect};
use crate::World;
use crate::machine::{
    Encoding, end_interrupts, interrupts, mrs, msr, read32, read64, run, stay, wait_for_switches, write32, write64,
};

const DISTRIBUTOR: u64 = 0x0800_0000;
const TRANSLATION_SERVICE: u64 = 0x0808_0000;
const REDISTRIBUTOR: u64 = 0x080a_0000;
const SGI_FRAME: u64 = REDISTRIBUTOR + 0x1_0000;
/// The payload's interrupts: CNTPS, and the secure console; besides, SGI 9 brings it events.
const SECURE_TIMER: u64 = 29;
const SECURE_CONSOLE: u64 = 40;
const SECURE_EVENT: u64 = 9;
const OWN_TIMERS: u32 = 1 << 26 | 1 << 27 | 1 << 30;

pub(super) const PMR: Encoding = (3, 0, 4, 6, 0);
const EOIR1: Encoding = (3, 0, 12, 12, 1);
const BPR1: Encoding = (3, 0, 12, 12, 3);
const CTLR: Encoding = (3, 0, 12, 12, 4);
pub(super) const IGRPEN1: Encoding = (3, 0, 12, 12, 7);
const DIR: Encoding = (3, 0, 12, 11, 1);
const AP1R0: Encoding = (3, 0, 12, 9, 0);
const SGI1R: Encoding = (3, 0, 12, 11, 5);
const ASGI1R: Encoding = (3, 0, 12, 11, 6);
const SGI0R: Encoding = (3, 0, 12, 11, 7);
const EOIR0: Encoding = (3, 0, 12, 8, 1);
/// Registers of group 0, which is EL3's: IAR0, EOIR0, HPPIR0, BPR0, AP0R0 (there is one, of 32 levels), IGRPEN0.
const GROUP_0: [Encoding; 6] =
    [(3, 0, 12, 8, 0), EOIR0, (3, 0, 12, 8, 2), (3, 0, 12, 8, 3), (3, 0, 12, 8, 4), (3, 0, 12, 12, 6)];

/// DAIFCLR and DAIFSET of everything, WFI, ISB.
const UNMASK: u32 = 0xd503_4fff;
const MASK: u32 = 0xd503_4fdf;
const WFI: u32 = 0xd503_207f;
const ISB: u32 = 0xd503_3fdf;

pub(super) fn write(register: Encoding, value: u64) {
    let _ = run(&[msr(register), ISB], [value, 0, 0]);
}

pub(super) fn read(register: Encoding) -> u64 {
    run(&[mrs(register)], [!0, 0, 0]).map_or(!0, |values| values[0])
}

/// The interface on, all priorities of this world, and all SGIs enabled at this priority.
fn open(priority: u8) {
    write32(DISTRIBUTOR, 0x12);
    for four in 0..4 {
        write32(SGI_FRAME + 0x400 + 4 * four, u32::from(priority) * 0x0101_0101);
    }
    write32(SGI_FRAME + 0x100, 0xffff);
    write(PMR, 0xff);
    write(IGRPEN1, 1);
}

fn send_to_self(number: u64) {
    write(SGI1R, number << 24 | 1);
}

pub(super) fn never_ended(_: &World) -> Outcome {
    open(0);
    end_interrupts(false);
    let (before, _) = interrupts();
    send_to_self(3);
    let _ = run(&[UNMASK, ISB, MASK], [0; 3]);
    wait_for_switches(3);
    let (after, latest) = interrupts();
    // Once for each time this world begins: afterwards the first one hides the others.
    expect(after == before + 1 || (before > 0 && after == before), "interrupt", latest)
}

pub(super) fn active_priorities(_: &World) -> Outcome {
    open(0x80);
    all([1, 0xffff, !0].map(|value| {
        write(AP1R0, value);
        wait_for_switches(2);
        // A non-secure view of 32 levels: bits 15:0 are its upper half. The other half would be the payload's priorities.
        expect(read(AP1R0) >> 32 == 0, "ICC_AP1R0_EL1", read(AP1R0))
    }))
}

pub(super) fn priority_masks(_: &World) -> Outcome {
    for value in (0..=0xff).rev() {
        write(PMR, value);
    }
    wait_for_switches(2);
    expect(read(PMR) == 0, "ICC_PMR_EL1", read(PMR))
}

pub(super) fn binary_points(_: &World) -> Outcome {
    open(0);
    for value in 0..=7 {
        write(BPR1, value);
        wait_for_switches(1);
    }
    Outcome::Contained
}

pub(super) fn interface_control(_: &World) -> Outcome {
    open(0x80);
    for value in [1 << 1, 1, 0xff, !0, 0] {
        write(CTLR, value);
        wait_for_switches(1);
    }
    Outcome::Contained
}

pub(super) fn group_enable(_: &World) -> Outcome {
    for round in 0..64 {
        write(IGRPEN1, round & 1);
    }
    write(IGRPEN1, !0);
    wait_for_switches(1);
    expect(read(IGRPEN1) == 1, "ICC_IGRPEN1_EL1", read(IGRPEN1))
}

pub(super) fn masked_for_ever(world: &World) -> Outcome {
    write(PMR, 0);
    write(IGRPEN1, 0);
    write(AP1R0, !0);
    write32(DISTRIBUTOR, 0);
    world.conclude(Outcome::Contained);
    // Not one access more.
    stay()
}

pub(super) fn masked_asleep(world: &World) -> Outcome {
    write(PMR, 0);
    write(IGRPEN1, 0);
    world.conclude(Outcome::Contained);
    loop {
        let _ = run(&[WFI], [0; 3]);
    }
}

pub(super) fn group_0(_: &World) -> Outcome {
    const MARK: u64 = 0x5e7f_0000_1234_5678;
    all(GROUP_0.map(|register| {
        for value in [0, 1, !0] {
            write(register, value);
        }
        match run(&[mrs(register)], [MARK, 1, 2]) {
            Ok([MARK, 1, 2]) => Outcome::Contained,
            // There is no such read.
            Err(exception) if register == EOIR0 && exception.class() == 0 => Outcome::Contained,
            Ok([value, _, _]) => Outcome::Escaped("group 0 was read", value),
            Err(exception) => Outcome::Unexpected("ESR", exception.syndrome),
        }
    }))
}

/// SGI 8 is EL3's, SGI 15 the monitor's; on a core without the payload SGI 9 is the guest's.
const OWN_OF_PARTITION: u64 = 14;

pub(super) fn own_storm(world: &World) -> Outcome {
    open(0x80);
    end_interrupts(true);
    let (before, _) = interrupts();
    for round in 0..64 {
        send_to_self(round % 16);
        let _ = run(&[UNMASK, ISB, MASK], [0; 3]);
    }
    let (after, latest) = interrupts();
    // All but the payload's, four times; a partition has not that of kicks either, nor its monitor's.
    let own = if world.is_partition { OWN_OF_PARTITION } else { 15 };
    expect(after == before + 4 * own, "interrupts", (after - before) << 32 | latest)
}

pub(super) fn asserted_for_ever(world: &World) -> Outcome {
    open(0);
    end_interrupts(true);
    for seven in 0..8 {
        write32(SGI_FRAME + 0x400 + 4 * seven, 0);
    }
    write32(SGI_FRAME + 0x100, OWN_TIMERS);
    // CNTP and CNTV: due for ever, and nobody takes their conditions away.
    for register in [(3, 3, 14, 2, 1), (3, 3, 14, 3, 1)] {
        write(register, 1);
    }
    world.conclude(Outcome::Contained);
    loop {
        let _ = run(&[UNMASK, ISB, ISB, ISB, MASK], [0; 3]);
    }
}

pub(super) fn foreign_sgis(_: &World) -> Outcome {
    open(0x80);
    end_interrupts(true);
    let (before, _) = interrupts();
    for register in [SGI0R, ASGI1R] {
        for number in 0..16 {
            // To core 0, to all cores that the affinity can name, to all others.
            for targets in [1, 0xffff, 1 << 40, 0xff_00ff_ffff] {
                write(register, number << 24 | targets);
            }
        }
    }
    let _ = run(&[UNMASK, ISB, MASK], [0; 3]);
    let (after, latest) = interrupts();
    let pending = u64::from(read32(SGI_FRAME + 0x200) & 0xffff);
    all([
        expect(after == before, "an SGI of another group arrived", latest),
        expect(pending == 0, "an SGI of another group is pending", pending),
    ])
}

pub(super) fn absent_cores(_: &World) -> Outcome {
    open(0x80);
    let (before, _) = interrupts();
    for number in 0..16 {
        for targets in [2, 0xfffe, 1 << 16 | 1, 1 << 32 | 1, 0xff << 48 | 1, 1 << 40] {
            write(SGI1R, number << 24 | targets);
        }
    }
    let _ = run(&[UNMASK, ISB, MASK], [0; 3]);
    let (after, latest) = interrupts();
    expect(after == before, "an SGI to others arrived", latest)
}

pub(super) fn foreign_end(_: &World) -> Outcome {
    open(0x80);
    end_interrupts(false);
    send_to_self(5);
    let _ = run(&[UNMASK, ISB, MASK], [0; 3]);
    for intid in [SECURE_TIMER, SECURE_CONSOLE, 0, 31, 1019, 1020, 1021, 1022, 1023, 8192, !0] {
        write(EOIR1, intid);
    }
    wait_for_switches(1);
    Outcome::Contained
}

pub(super) fn foreign_deactivation(_: &World) -> Outcome {
    open(0x80);
    end_interrupts(true);
    write(CTLR, 1 << 1);
    send_to_self(5);
    let _ = run(&[UNMASK, ISB, MASK], [0; 3]);
    for intid in [SECURE_TIMER, SECURE_CONSOLE, 0, 31, 1019, 1020, 1023, 8192, !0] {
        write(DIR, intid);
    }
    write(DIR, 5);
    write(CTLR, 0);
    wait_for_switches(1);
    Outcome::Contained
}

/// Registers with a bit, two bits or a byte for each interrupt: offset, and bits for each.
const BANKS: [(u64, u64); 11] = [
    (0x080, 1),
    (0x100, 1),
    (0x180, 1),
    (0x200, 1),
    (0x280, 1),
    (0x300, 1),
    (0x380, 1),
    (0x400, 8),
    (0xc00, 2),
    (0xd00, 1),
    (0xe00, 2),
];

/// Writes zeros and ones to the fields of an interrupt in all registers, as words and, where there are such, as a byte.
fn change(frame: u64, intid: u64) -> Outcome {
    all(BANKS.map(|(offset, bits)| {
        let word = frame + offset + intid * bits / 32 * 4;
        let shift = intid * bits % 32;
        let field = ((1_u64 << bits) - 1) << shift;
        for value in [0, !0, field as u32] {
            write32(word, value);
        }
        if bits == 8 {
            let byte = core::ptr::with_exposed_provenance_mut::<u8>((frame + offset + intid) as usize);
            // SAFETY: a register of the interrupt controller.
            unsafe { byte.write_volatile(0x40) };
        }
        let seen = u64::from(read32(word)) & field;
        match seen {
            0 => Outcome::Contained,
            _ => Outcome::Escaped("a field of the payload's interrupt reads in the bank", offset),
        }
    }))
}

pub(super) fn private_of_payload(world: &World) -> Outcome {
    // On a core without the payload nothing tells it of events.
    if world.is_partition {
        return change(SGI_FRAME, SECURE_TIMER);
    }
    // Its own ones are changed with them: masked here, and forgotten when this world begins again.
    all([change(SGI_FRAME, SECURE_TIMER), change(SGI_FRAME, SECURE_EVENT)])
}

pub(super) fn shared_of_payload(_: &World) -> Outcome {
    let route = DISTRIBUTOR + 0x6000 + 8 * SECURE_CONSOLE;
    write64(route, 1 << 31);
    write64(route, !0);
    // GICD_SETSPI_NSR and _SR, GICD_CLRSPI_NSR and _SR, GICD_SGIR.
    for register in [0x40, 0x50, 0x48, 0x58, 0xf00] {
        write32(DISTRIBUTOR + register, SECURE_CONSOLE as u32);
    }
    all([change(DISTRIBUTOR, SECURE_CONSOLE), expect(read64(route) == 0, "its route reads", read64(route))])
}

pub(super) fn distributor_control(world: &World) -> Outcome {
    for value in [0, !0, 1 << 6, 1 << 4, 2, 0x12] {
        write32(DISTRIBUTOR, value);
        wait_for_switches(1);
    }
    let control = u64::from(read32(DISTRIBUTOR));
    // Its own view: EnableGrp1 0 or 1, EnableGrp1A 1, ARE_NS 4. A partition's controller has one security state (DS 6).
    let own = if world.is_partition { 0x53 } else { 0x13 };
    expect(control & !own == 0, "GICD_CTLR", control)
}

pub(super) fn redistributor_control(_: &World) -> Outcome {
    for value in [0, !0, 2] {
        write32(REDISTRIBUTOR + 0x14, value);
        wait_for_switches(1);
    }
    for offset in [0x70, 0x78] {
        write64(REDISTRIBUTOR + offset, !0);
    }
    write32(REDISTRIBUTOR, !0);
    wait_for_switches(1);
    write32(REDISTRIBUTOR, 0);
    Outcome::Contained
}

pub(super) fn translation_tables(world: &World) -> Outcome {
    // MAPD of device 0 with its table in the payload, MAPTI of event 0: interrupt 8192, collection 0.
    const QUEUE: u64 = 0x4100_0000;
    let commands = [0x08, 0, 1 << 63 | world.canary, 0, 0x0a, 8192 << 32, 0, 0];
    for (place, word) in (0..).zip(commands) {
        write64(QUEUE + 8 * place, word);
    }
    write32(TRANSLATION_SERVICE, 0);
    // GITS_BASER0 and 1: one page of 4 KiB each, valid, in the payload. So are the redistributor's tables, and the queue the second time.
    for offset in [0x100, 0x108] {
        write64(TRANSLATION_SERVICE + offset, 1 << 63 | world.canary);
    }
    write64(REDISTRIBUTOR + 0x70, world.canary | 0xd);
    write64(REDISTRIBUTOR + 0x78, world.canary & !0xffff);
    write32(REDISTRIBUTOR, 1);
    for place in [QUEUE, world.canary] {
        write64(TRANSLATION_SERVICE + 0x80, 1 << 63 | place);
        write32(TRANSLATION_SERVICE, 1);
        // GITS_CWRITER: two commands.
        write64(TRANSLATION_SERVICE + 0x88, 0x40);
        wait_for_switches(1);
        write32(TRANSLATION_SERVICE, 0);
    }
    write32(REDISTRIBUTOR, 0);
    Outcome::Contained
}
