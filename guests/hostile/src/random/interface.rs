//! Steps on the CPU interface, with the timers, and the waits between.

use super::{PHYSICAL_TIMER, Step, TICKS_PER_MICROSECOND, ends_emulator, frames};
use crate::attacks::registers::{Encoding, read_register, write_register};
use crate::trial;
use bulkhead_sdk::{
    arm::gic,
    cpu,
    interrupt::{self, InterruptId, VIRTUAL_TIMER},
    timer,
};
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The registers of the interface: PMR, IAR0, EOIR0, HPPIR0, BPR0, AP0R0 to 3, AP1R0 to 3, DIR, RPR, IAR1, EOIR1, HPPIR1,
/// BPR1, CTLR, SRE, IGRPEN0, IGRPEN1.
const REGISTERS: [Encoding; 21] = [
    Encoding(3, 0, 4, 6, 0),
    Encoding(3, 0, 12, 8, 0),
    Encoding(3, 0, 12, 8, 1),
    Encoding(3, 0, 12, 8, 2),
    Encoding(3, 0, 12, 8, 3),
    Encoding(3, 0, 12, 8, 4),
    Encoding(3, 0, 12, 8, 5),
    Encoding(3, 0, 12, 8, 6),
    Encoding(3, 0, 12, 8, 7),
    Encoding(3, 0, 12, 9, 0),
    Encoding(3, 0, 12, 9, 1),
    Encoding(3, 0, 12, 9, 2),
    Encoding(3, 0, 12, 9, 3),
    Encoding(3, 0, 12, 11, 1),
    Encoding(3, 0, 12, 11, 3),
    Encoding(3, 0, 12, 12, 0),
    Encoding(3, 0, 12, 12, 1),
    Encoding(3, 0, 12, 12, 2),
    Encoding(3, 0, 12, 12, 3),
    Encoding(3, 0, 12, 12, 4),
    Encoding(3, 0, 12, 12, 7),
];
/// Timer registers: CNTP_TVAL, CTL, CVAL, CNTV_TVAL, CTL, CVAL, CNTKCTL.
const TIMERS: [Encoding; 7] = [
    Encoding(3, 3, 14, 2, 0),
    Encoding(3, 3, 14, 2, 1),
    Encoding(3, 3, 14, 2, 2),
    Encoding(3, 3, 14, 3, 0),
    Encoding(3, 3, 14, 3, 1),
    Encoding(3, 3, 14, 3, 2),
    Encoding(3, 0, 14, 1, 0),
];
const SPECIAL: u64 = 1020;
const REDISTRIBUTOR_SETS: u64 = 0x1_0000;

/// What the handler does next; the sequence of a seed is not used there, because when it runs is not its affair.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Takes interrupts while they are not masked: stops what would come again at once, or makes more.
pub(super) fn take_interrupt(id: InterruptId) {
    let taken = TAKEN.fetch_add(1, Relaxed);
    match (id, taken % 8) {
        (VIRTUAL_TIMER, 0) => timer::set_compare_ticks(cpu::counter_ticks() + 40 * TICKS_PER_MICROSECOND),
        (VIRTUAL_TIMER, _) => timer::stop(),
        (InterruptId(PHYSICAL_TIMER), _) => set_physical_timer(u64::MAX, 0),
        (_, 3) => interrupt::send(id, 1 << cpu::vcpu()),
        (InterruptId(32..), 5) => frames::pend(id),
        // A level that nobody quiets comes again at once: now and then that is what is tried.
        (InterruptId(32..), 0..7) => frames::quiet_device(id),
        _ => {}
    }
}

fn set_physical_timer(compare: u64, control: u64) {
    // SAFETY: this guest's own timer.
    unsafe {
        asm!("msr CNTP_CVAL_EL0, {}", "msr CNTP_CTL_EL0, {}", "isb", in(reg) compare, in(reg) control, options(nostack, preserves_flags));
    }
}

fn acknowledge() -> u64 {
    let id: u64;
    // SAFETY: takes an interrupt of this guest.
    unsafe { asm!("mrs {}, ICC_IAR1_EL1", "dsb sy", out(reg) id, options(nostack, preserves_flags)) };
    id
}

fn end(id: u64) {
    // SAFETY: ends an interrupt of this guest, or tries to end another one.
    unsafe { asm!("msr ICC_EOIR1_EL1, {}", "isb", in(reg) id, options(nostack, preserves_flags)) };
}

/// 1 to 16 software-generated interrupts to itself, which can be more than there are list registers.
pub(super) fn own_sgis(step: &mut Step<'_>) {
    let (count, from) = (1 + step.random.below(16), step.random.below(16));
    step.announce(&[count, from]);
    for number in from..from + count {
        interrupt::send(InterruptId((number & 15) as u32), 1 << cpu::vcpu());
    }
}

/// To anybody, in any group.
pub(super) fn any_sgi(step: &mut Step<'_>) {
    let register = step.random.pick(&[5, 6, 7], 5);
    let value = if step.random.once_in(3) { step.random.value() } else { step.random.next() & 0x010f_00ff_0f00_ffff };
    step.announce(&[register, value]);
    write_register(Encoding(3, 0, 12, 11, register as u32), value);
}

/// Lets one timer or both ring in a moment, or at once.
fn ring_soon(step: &mut Step<'_>) -> (u64, u64) {
    let span = step.random.pick(&[1, 100, 20_000, 60_000], 100);
    let (first, second) = (step.random.below(span), step.random.below(span));
    let now = cpu::counter_ticks();
    let which = step.random.below(4);
    if which != 1 {
        timer::set_compare_ticks(now + first);
    }
    if which != 2 {
        set_physical_timer(now + second, 1);
    }
    (first, second)
}

pub(super) fn timer_soon(step: &mut Step<'_>) {
    let (first, second) = ring_soon(step);
    step.announce(&[first, second]);
}

pub(super) fn timer_any(step: &mut Step<'_>) {
    let register = step.random.pick(&TIMERS, TIMERS[0]);
    let value = step.random.value();
    step.announce(&[u64::from(register.bits()), value]);
    write_register(register, value);
}

pub(super) fn register(step: &mut Step<'_>) {
    for _ in 0..=step.random.below(3) {
        let register = step.random.pick(&REGISTERS, REGISTERS[0]);
        let value = step.random.value();
        let reads = step.random.once_in(3);
        step.announce(&[u64::from(register.bits()), u64::from(!reads), value]);
        if reads || ends_emulator(register, value) {
            read_register(register);
        } else {
            write_register(register, value);
        }
    }
}

/// Takes some interrupts and ends all of them, some, or none, in any order.
pub(super) fn take_some(step: &mut Step<'_>) {
    let (count, how) = (1 + step.random.below(6), step.random.below(4));
    step.announce(&[count, how]);
    let mut taken = [SPECIAL; 6];
    for place in taken.iter_mut().take(count as usize) {
        *place = acknowledge();
    }
    let real = |id: &&u64| **id < SPECIAL;
    match how {
        0 => taken.iter().filter(real).for_each(|id| end(*id)),
        1 => taken.iter().rev().filter(real).for_each(|id| end(*id)),
        2 => taken.iter().filter(real).take(1).for_each(|id| end(*id)),
        _ => {}
    }
}

/// Ends, deactivates or drops the priority of anything.
pub(super) fn end_any(step: &mut Step<'_>) {
    let register = step
        .random
        .pick(&[Encoding(3, 0, 12, 12, 1), Encoding(3, 0, 12, 8, 1), Encoding(3, 0, 12, 11, 1)], REGISTERS[16]);
    for _ in 0..=step.random.below(4) {
        let id = match step.random.below(6) {
            0 => 27,
            1 => u64::from(PHYSICAL_TIMER),
            2..4 => step.random.below(16),
            4 => step.random.below(1024),
            _ => step.random.value(),
        };
        step.announce(&[u64::from(register.bits()), id]);
        write_register(register, id);
    }
}

/// Takes interrupts by exception for a while.
pub(super) fn open(step: &mut Step<'_>) {
    let span = step.random.below(200) * TICKS_PER_MICROSECOND;
    step.announce(&[span]);
    cpu::unmask_interrupts();
    spend(span);
    cpu::mask_interrupts();
}

fn spend(ticks: u64) {
    let end = cpu::counter_ticks() + ticks;
    while cpu::counter_ticks() < end {
        cpu::yield_now();
    }
}

/// Leaves the core, mostly with a timer set; if nothing wakes it, its watchdog does.
pub(super) fn wait(step: &mut Step<'_>) {
    let how = step.random.below(6);
    let timer = if step.random.once_in(12) { (0, 0) } else { ring_soon(step) };
    step.announce(&[how, timer.0, timer.1]);
    // SAFETY: waits; what happens to others meanwhile is what is being tried.
    unsafe {
        match how {
            0 => asm!("wfe", "wfe", options(nostack)),
            1 => asm!("msr DAIFClr, #2", "isb", "wfi", "msr DAIFSet, #2", options(nostack)),
            _ => asm!("dsb sy", "wfi", options(nostack)),
        }
    }
}

/// Computes for a while with everything as it is.
pub(super) fn compute(step: &mut Step<'_>) {
    let most = step.random.pick(&[50, 200, 1500], 50);
    let span = step.random.below(most) * TICKS_PER_MICROSECOND;
    step.announce(&[span]);
    spend(span);
}

/// Fills the list registers, lets both timers ring, and goes in one of several ways.
pub(super) fn crowd(step: &mut Step<'_>) {
    let (count, way, mask) = (3 + step.random.below(8), step.random.below(8), step.random.mask());
    let masked = step.random.once_in(2);
    let timers = ring_soon(step);
    step.announce(&[count, way, u64::from(mask), u64::from(masked), timers.0, timers.1]);
    let frame = interrupt::redistributor() + REDISTRIBUTOR_SETS;
    trial::write(frame + gic::ISENABLER, u32::MAX);
    if masked {
        write_register(REGISTERS[0], 0);
    }
    for number in 0..count {
        interrupt::send(InterruptId((number & 15) as u32), 1 << cpu::vcpu());
    }
    spend(timers.0.max(timers.1).min(3000) + 100);
    match way {
        0 => trial::write(frame + gic::ICPENDR, mask),
        1 => trial::write(frame + gic::ISACTIVER, mask),
        2 => trial::write(frame + gic::ICACTIVER, mask),
        3 => trial::write(frame + gic::ICENABLER, mask),
        4 => {
            let id = acknowledge();
            trial::write(frame + gic::ICACTIVER, mask);
            end(id);
        }
        5 => {
            acknowledge();
            acknowledge();
        }
        _ => {}
    }
    if step.random.once_in(2) {
        ring_soon(step);
        // SAFETY: as in `wait`.
        unsafe { asm!("dsb sy", "wfi", options(nostack)) };
    }
    write_register(REGISTERS[0], 0xff);
}
