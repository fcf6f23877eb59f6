//! The interrupt controller: foreign interrupts, hostile register values, priority tricks A1 to A12, storms.
//!
//! A1 to A12 are the attacks of the prototype that a guest with the physical CPU interface was found to have. In a `mapped`
//! partition they act on the virtual interface, except those on group 0 (A2 to A5), which trap and change nothing.

use crate::{
    attack::{Attack, Expectation, Outcome},
    trial,
};
use bulkhead_sdk::{
    arguments,
    arm::gic::{
        DISTRIBUTOR_BYTES as GICD_BYTES, ICACTIVER, ICENABLER, ICFGR, ICPENDR, IGROUPR, IPRIORITYR, IROUTER, ISACTIVER,
        ISENABLER, ISPENDR, REDISTRIBUTOR_BYTES as GICR_BYTES, SGI_FRAME as GICR_SGI,
    },
    cpu, information,
    interrupt::{self, InterruptId, VIRTUAL_TIMER},
    mmio, timer,
};
use core::{
    arch::asm,
    sync::atomic::{AtomicU64, Ordering},
};

/// Sent to oneself.
const OWN_SGI: InterruptId = InterruptId(5);
const PHYSICAL_TIMER: InterruptId = InterruptId::PHYSICAL_TIMER;
/// INTIDs of shared interrupts end here.
const SHARED_END: u64 = InterruptId::FIRST_SPECIAL as u64;
const STORM: u64 = 10_000;

/// Writes a system register.
macro_rules! set_register {
    ($register:literal, $value:expr) => {{
        let value: u64 = $value;
        // SAFETY: a register of this guest's own CPU interface; the effect on others is what is being tried.
        unsafe { asm!(concat!("msr ", $register, ", {}"), "isb", in(reg) value, options(nostack)) };
    }};
}

/// Reads a system register.
macro_rules! get_register {
    ($register:literal) => {{
        let value: u64;
        // SAFETY: a register of this guest's own CPU interface.
        unsafe { asm!(concat!("mrs {}, ", $register), out(reg) value, options(nostack)) };
        value
    }};
}

fn distributor(offset: u64) -> u64 {
    interrupt::distributor() + offset
}

fn redistributor(offset: u64) -> u64 {
    interrupt::redistributor() + offset
}

/// Takes and ends what is pending, quietens everything, and puts the CPU interface back to its start.
pub(super) fn repair() {
    trial::attempt(|| {
        cpu::mask_interrupts();
        timer::stop();
        set_register!("CNTP_CTL_EL0", 0);
        for word in 0..32 {
            for set in [ICENABLER, ICPENDR, ICACTIVER] {
                trial::write(distributor(set + word * 4), u32::MAX);
            }
        }
        for set in [ICENABLER, ICPENDR, ICACTIVER] {
            trial::write(redistributor(GICR_SGI + set), u32::MAX);
        }
        set_register!("ICC_BPR0_EL1", 0);
        set_register!("ICC_AP1R0_EL1", 0);
        set_register!("ICC_AP0R0_EL1", 0);
        set_register!("ICC_PMR_EL1", 0xff);
        set_register!("ICC_IGRPEN1_EL1", 1);
        for _ in 0..64 {
            let id = get_register!("ICC_IAR1_EL1");
            if id >= SHARED_END {
                break;
            }
            set_register!("ICC_EOIR1_EL1", id);
        }
        interrupt::start();
    });
}

/// Shared interrupts that this partition can own: its doorbells and its UART's.
fn own_shared() -> u64 {
    let doorbells = information::ports().iter().filter(|port| port.interrupt != 0).count() as u64;
    let uart = information::information().map_or(1, |page| u64::from(page.uart.0 != 0));
    // Started the Linux way, every PCI function may have one.
    doorbells + uart + if information::has_pci_bus() { 8 } else { 0 }
}

/// Counts bits set in a set of the distributor's bit registers.
fn bits_set(set: u64) -> u64 {
    (1..32).map(|word| u64::from(trial::read(distributor(set + word * 4)).count_ones())).sum()
}

/// Sees to it that no more interrupts show than can be one's own.
fn only_own(set: u64) -> Outcome {
    let shown = bits_set(set);
    repair();
    Outcome::escaped_unless(shown <= own_shared(), "shared interrupts shown", shown)
}

fn write_set(set: u64, shown: u64) -> Outcome {
    for word in 1..32 {
        trial::write(distributor(set + word * 4), u32::MAX);
    }
    only_own(shown)
}

/// Writes a value to each 32-bit register of a frame.
fn write_frame(base: u64, bytes: u64, value: u32) -> Outcome {
    let exception = trial::attempt(|| {
        for offset in (0..bytes).step_by(4) {
            trial::write(base + offset, value);
        }
    });
    let outcome = only_own(ISENABLER);
    match exception {
        Some(syndrome) => Outcome::unexpected("exception at EL1, ESR", syndrome.0),
        None => outcome,
    }
}

/// Reads each byte-, half- and word-sized register of both frames.
fn read_frames() -> Outcome {
    let mut read = 0;
    let exception = trial::attempt(|| {
        for (base, bytes) in [(distributor(0), GICD_BYTES), (redistributor(0), GICR_BYTES)] {
            for offset in (0..bytes).step_by(4) {
                trial::read(base + offset);
                read += 1;
            }
        }
    });
    match exception {
        Some(syndrome) => Outcome::unexpected("exception at EL1, ESR", syndrome.0),
        None => Outcome::contained("registers read", read),
    }
}

fn write_priorities() -> Outcome {
    for id in 0..SHARED_END {
        let frame = if id < 32 { redistributor(GICR_SGI) } else { distributor(0) };
        // SAFETY: a byte-wide register of the emulated frames.
        unsafe { mmio::write8(frame + IPRIORITYR + id, 0) };
    }
    let foreign = (32..SHARED_END).step_by(4).map(|id| u64::from(trial::read(distributor(IPRIORITYR + id)))).max();
    repair();
    Outcome::contained("largest priority word read back", foreign.unwrap_or(0))
}

fn write_routes() -> Outcome {
    let vcpus = information::information().map_or(8, |page| u64::from(page.vcpu_count));
    let mut worst = 0;
    for id in 32..SHARED_END {
        for route in [u64::MAX, 1 << 31, 7, 1 << 8, 1] {
            // SAFETY: a 64-bit register of the emulated distributor.
            unsafe { mmio::write64(distributor(IROUTER + id * 8), route) };
        }
        worst = worst.max(u64::from(trial::read(distributor(IROUTER + id * 8))));
    }
    repair();
    Outcome::escaped_unless(worst < vcpus, "largest route read back", worst)
}

/// Sends software generated interrupts to everybody in every way.
fn send_to_all() -> Outcome {
    for id in 0..16_u64 {
        set_register!("ICC_SGI1R_EL1", (1 << 40) | (id << 24));
        for affinity in [0, 1 << 16, 1 << 32, 1 << 48, (0xff << 48) | (0xff << 32) | (0xff << 16)] {
            set_register!("ICC_SGI1R_EL1", affinity | (id << 24) | 0xfffe);
            set_register!("ICC_SGI1R_EL1", affinity | (1 << 44) | (id << 24) | 0xffff);
        }
    }
    repair();
    Outcome::contained("interrupts sent", 16 * 11)
}

fn send_in_other_groups() -> Outcome {
    let exception = trial::attempt(|| {
        for id in 0..16_u64 {
            set_register!("ICC_SGI0R_EL1", (1 << 40) | (id << 24) | 0xffff);
            set_register!("ICC_ASGI1R_EL1", (1 << 40) | (id << 24) | 0xffff);
        }
    });
    repair();
    Outcome::contained("exception at EL1, ESR", exception.map_or(0, |syndrome| syndrome.0))
}

/// Spends 2 ms with the interrupt state as the attack left it, sees whether an interrupt of its own still comes, and puts
/// everything back.
fn linger(provoke: fn() -> u64) -> Outcome {
    interrupt::start();
    interrupt::enable(OWN_SGI);
    let value = provoke();
    // Not by ICC_SGI1R_EL1, which names physical cores where the guest owns the CPU interface.
    trial::write(redistributor(GICR_SGI + ISPENDR), 1 << OWN_SGI.0);
    let end = cpu::counter_ticks() + cpu::frequency_hz() / 500;
    while cpu::counter_ticks() < end {
        cpu::yield_now();
    }
    let taken = get_register!("ICC_IAR1_EL1");
    set_register!("ICC_CTLR_EL1", 0);
    if taken < SHARED_END {
        set_register!("ICC_EOIR1_EL1", taken);
    }
    repair();
    // For those that took the own timer's interrupt: its list register is free only now.
    set_register!("ICC_EOIR1_EL1", u64::from(VIRTUAL_TIMER.0));
    repair();
    match taken == u64::from(OWN_SGI.0) {
        true => Outcome::contained("own interrupts still come, value", value),
        false => Outcome::contained("own interrupts held back, value", value),
    }
}

/// Takes the own timer's interrupt and does not end it.
fn take_own_timer() -> u64 {
    interrupt::start();
    interrupt::enable(VIRTUAL_TIMER);
    timer::set_compare_ticks(0);
    for _ in 0..1000 {
        let id = get_register!("ICC_IAR1_EL1");
        if id < SHARED_END {
            timer::stop();
            return id;
        }
        cpu::yield_now();
    }
    timer::stop();
    SHARED_END
}

/// A1.
pub(super) fn mask_by_priority() -> u64 {
    set_register!("ICC_PMR_EL1", 0);
    // SAFETY: masks everything on this core; unmasked again by the exception return at the latest.
    unsafe { asm!("msr DAIFSet, #0xf", options(nostack)) };
    get_register!("ICC_PMR_EL1")
}

/// A2.
pub(super) fn disable_group_0() -> u64 {
    set_register!("ICC_IGRPEN0_EL1", 0);
    get_register!("ICC_IGRPEN0_EL1")
}

/// A3: returns what was taken, 1023 for nothing.
pub(super) fn acknowledge_group_0() -> u64 {
    get_register!("ICC_HPPIR0_EL1").min(get_register!("ICC_IAR0_EL1"))
}

/// A4.
pub(super) fn binary_point_0() -> u64 {
    set_register!("ICC_BPR0_EL1", 7);
    get_register!("ICC_BPR0_EL1")
}

/// A5.
pub(super) fn active_priority_0() -> u64 {
    set_register!("ICC_AP0R0_EL1", 1);
    get_register!("ICC_AP0R0_EL1")
}

/// A6.
pub(super) fn never_end() -> u64 {
    take_own_timer()
}

/// A7.
pub(super) fn control_register() -> u64 {
    set_register!("ICC_CTLR_EL1", u64::MAX);
    get_register!("ICC_CTLR_EL1")
}

/// A8.
pub(super) fn priority_zero() -> u64 {
    interrupt::set_priority(VIRTUAL_TIMER, 0);
    take_own_timer()
}

/// A9.
pub(super) fn active_priority_1() -> u64 {
    set_register!("ICC_AP1R0_EL1", 1);
    let value = get_register!("ICC_AP1R0_EL1");
    set_register!("ICC_AP1R0_EL1", 0xffff_ffff);
    value
}

/// A10.
pub(super) fn groups_and_enables() -> u64 {
    trial::write(redistributor(GICR_SGI + IGROUPR), u32::MAX);
    trial::write(redistributor(GICR_SGI + ICENABLER), u32::MAX);
    u64::from(trial::read(redistributor(GICR_SGI + ISENABLER)))
}

/// A11.
pub(super) fn distributor_off() -> u64 {
    trial::write(distributor(0), 0);
    u64::from(trial::read(distributor(0)))
}

/// A12: takes an interrupt of its own, so that there is an active priority, and ends somebody else's.
pub(super) fn end_foreign() -> u64 {
    const NOBODYS: u64 = 40;
    let foreign = arguments::number(information::arguments(), "foreign").unwrap_or(NOBODYS);
    let id = take_own_timer();
    set_register!("ICC_EOIR1_EL1", foreign);
    id
}

fn acknowledges_nothing() -> Outcome {
    let taken = acknowledge_group_0();
    repair();
    Outcome::escaped_unless(taken >= SHARED_END, "interrupt", taken)
}

fn end_all() -> Outcome {
    for id in 0..SHARED_END {
        set_register!("ICC_EOIR1_EL1", id);
        set_register!("ICC_EOIR0_EL1", id);
    }
    repair();
    Outcome::contained("interrupts ended", SHARED_END)
}

fn deactivate_all() -> Outcome {
    set_register!("ICC_CTLR_EL1", 2);
    let exception = trial::attempt(|| {
        for id in 0..SHARED_END {
            set_register!("ICC_DIR_EL1", id);
        }
    });
    set_register!("ICC_CTLR_EL1", 0);
    repair();
    match exception {
        Some(syndrome) => Outcome::contained("exception at EL1, ESR", syndrome.0),
        None => Outcome::contained("interrupts deactivated", SHARED_END),
    }
}

static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Interrupt handler of the storms: raises the interrupt again at once.
pub(crate) fn take_interrupt(id: InterruptId) {
    let taken = TAKEN.fetch_add(1, Ordering::Relaxed) + 1;
    let is_over = taken >= STORM;
    match id {
        VIRTUAL_TIMER if is_over => timer::stop(),
        VIRTUAL_TIMER => timer::set_compare_ticks(0),
        PHYSICAL_TIMER if is_over => set_register!("CNTP_CTL_EL0", 0),
        PHYSICAL_TIMER => set_register!("CNTP_CVAL_EL0", 0),
        _ if is_over => interrupt::disable(id),
        _ => interrupt::send(id, 1 << cpu::vcpu()),
    }
}

/// Takes [`STORM`] interrupts, or as many as come within two seconds.
fn storm(id: InterruptId, start: fn()) -> Outcome {
    TAKEN.store(0, Ordering::Relaxed);
    interrupt::start();
    interrupt::enable(id);
    let end = cpu::counter_ticks() + 2 * cpu::frequency_hz();
    start();
    cpu::unmask_interrupts();
    while TAKEN.load(Ordering::Relaxed) < STORM && cpu::counter_ticks() < end {
        cpu::yield_now();
    }
    cpu::mask_interrupts();
    repair();
    Outcome::contained("interrupts taken", TAKEN.load(Ordering::Relaxed))
}

fn virtual_timer_storm() -> Outcome {
    storm(VIRTUAL_TIMER, || timer::set_compare_ticks(0))
}

fn physical_timer_storm() -> Outcome {
    storm(PHYSICAL_TIMER, || {
        set_register!("CNTP_CVAL_EL0", 0);
        set_register!("CNTP_CTL_EL0", 1);
    })
}

fn own_sgi_storm() -> Outcome {
    storm(OWN_SGI, || interrupt::send(OWN_SGI, 1 << cpu::vcpu()))
}

macro_rules! no_effect {
    ($name:literal, $run:expr) => {
        Attack { name: $name, expectation: Expectation::NoEffect, run: $run }
    };
}

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    no_effect!("interrupts to all cores", send_to_all),
    no_effect!("interrupts in other groups", send_in_other_groups),
    no_effect!("enable all shared interrupts", || write_set(ISENABLER, ISENABLER)),
    no_effect!("disable all shared interrupts", || write_set(ICENABLER, ISENABLER)),
    no_effect!("make all shared interrupts pending", || write_set(ISPENDR, ISPENDR)),
    no_effect!("clear all pending shared interrupts", || write_set(ICPENDR, ISPENDR)),
    no_effect!("make all shared interrupts active", || write_set(ISACTIVER, ISACTIVER)),
    no_effect!("make all shared interrupts inactive", || write_set(ICACTIVER, ISACTIVER)),
    no_effect!("change all groups", || write_set(IGROUPR, ISENABLER)),
    no_effect!("change all triggers", || write_set(ICFGR, ISENABLER)),
    no_effect!("priority 0 for all interrupts", write_priorities),
    no_effect!("route all interrupts elsewhere", write_routes),
    no_effect!("all ones to the whole distributor", || write_frame(distributor(0), GICD_BYTES, u32::MAX)),
    no_effect!("zeros to the whole distributor", || write_frame(distributor(0), GICD_BYTES, 0)),
    no_effect!("all ones to the whole redistributor", || write_frame(redistributor(0), GICR_BYTES, u32::MAX)),
    no_effect!("zeros to the whole redistributor", || write_frame(redistributor(0), GICR_BYTES, 0)),
    no_effect!("read both frames", read_frames),
    no_effect!("A1: mask everything by priority and DAIF", || linger(mask_by_priority)),
    no_effect!("A2: disable group 0", || linger(disable_group_0)),
    no_effect!("A3: acknowledge group 0", acknowledges_nothing),
    no_effect!("A4: binary point of group 0", || linger(binary_point_0)),
    no_effect!("A5: active priorities of group 0", || linger(active_priority_0)),
    no_effect!("A6: never end an interrupt", || linger(never_end)),
    no_effect!("A7: CPU interface control", || linger(control_register)),
    no_effect!("A8: never end an interrupt of priority 0", || linger(priority_zero)),
    no_effect!("A9: active priorities of group 1", || linger(active_priority_1)),
    no_effect!("A10: groups and enables of own core", || linger(groups_and_enables)),
    no_effect!("A11: distributor off", || linger(distributor_off)),
    no_effect!("A12: end a foreign interrupt", || linger(end_foreign)),
    no_effect!("end all interrupts", end_all),
    no_effect!("deactivate all interrupts", deactivate_all),
    no_effect!("virtual timer storm", virtual_timer_storm),
    no_effect!("physical timer storm", physical_timer_storm),
    no_effect!("storm of own software generated interrupts", own_sgi_storm),
];
