//! Steps on the emulated frames (distributor, redistributors, UART, PCI), on own shared interrupts and on a device that raises one.

use super::Step;
use crate::trial;
use bulkhead_sdk::{
    arguments,
    arm::gic::{
        self, DISTRIBUTOR_BYTES as GICD_BYTES, ICACTIVER, ICENABLER, ICFGR, ICPENDR, IGROUPR, IPRIORITYR, IROUTER,
        ISACTIVER, ISENABLER, ISPENDR, REDISTRIBUTOR_BYTES as GICR_BYTES, SGI_FRAME,
    },
    cpu,
    guest_abi::guest::{GUEST_ECAM, GUEST_PCI_REGISTERS},
    information,
    interrupt::{self, InterruptId},
};
use core::arch::asm;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Registers of which a one sets or clears.
const SETS: [u64; 6] = [ISENABLER, ICENABLER, ISPENDR, ICPENDR, ISACTIVER, ICACTIVER];
/// It follows ICFGR.
const IGRPMODR: u64 = gic::ICFGR_END;
/// Configuration space of a device, of which the first function is there.
const PCI_DEVICE_BYTES: u64 = 0x8000;
/// From the registers of a function to those of the next.
const PCI_REGISTERS_BYTES: u64 = 0x1_0000;
const BOARD_UART: u64 = 0x0900_0000;
/// UARTDR, RSR, FR, IBRD, FBRD, LCR_H, CR, IFLS, IMSC, RIS, MIS, ICR, DMACR, and the first of the identification.
const UART_REGISTERS: [u64; 14] = [0x00, 0x04, 0x18, 0x24, 0x28, 0x2c, 0x30, 0x34, 0x38, 0x3c, 0x40, 0x44, 0x48, 0xfe0];
/// First identification register of a PrimeCell device: the lower digits of its part number.
const IDENTIFICATION: u64 = 0xfe0;

/// Registers of a device whose interrupt, a level, its guest can raise.
struct Registers {
    /// Lower digits of the part number.
    part: u32,
    /// What is written there raises the level: of a clock the time it is, of a UART a byte. Register 0 reads as what does so.
    raise: u64,
    mask: u64,
    clear: u64,
    /// All interrupts, in `mask` and `clear`.
    all: u32,
    others: &'static [u64],
}

/// A clock (PL031): match, load and control are its other registers.
const CLOCK: Registers =
    Registers { part: 0x31, raise: 0x04, mask: 0x10, clear: 0x1c, all: 1, others: &[0x04, 0x08, 0x0c] };
/// A UART (PL011): divisors, line control, control and FIFO levels are its other registers.
const SECOND_UART: Registers =
    Registers { part: 0x11, raise: 0x00, mask: 0x38, clear: 0x44, all: 0x7ff, others: &[0x24, 0x2c, 0x30, 0x34] };

/// Shared interrupts that this partition owns, 32 to a word from INTID 32 on: those that the distributor lets it enable.
static OWNED: [AtomicU32; 10] = [const { AtomicU32::new(0) }; 10];

/// Enables every shared interrupt that is its own, at this vCPU, and notes which they are.
pub(super) fn enable_shared() {
    for (word, owned) in (1_u32..).zip(&OWNED) {
        let register = interrupt::distributor() + SETS[0] + u64::from(word) * 4;
        trial::write(register, u32::MAX);
        let enabled = owned.fetch_or(trial::read(register), Relaxed) | owned.load(Relaxed);
        let own = (0..32).filter(|bit| enabled >> bit & 1 != 0);
        own.for_each(|bit| interrupt::enable(InterruptId(word * 32 + bit)));
    }
}

/// One of its own shared interrupts, if it has any.
fn own_shared(step: &mut Step<'_>) -> Option<u64> {
    let owned = |id: &u64| {
        let word = OWNED.get((id / 32 - 1) as usize).map_or(0, |word| word.load(Relaxed));
        word >> (id % 32) & 1 != 0
    };
    let all = || (32..32 + 32 * OWNED.len() as u64).filter(owned);
    let place = step.random.below(all().count() as u64);
    all().nth(place as usize)
}

/// Any registers of one of its own shared interrupts, in any order; says which state it is in then.
pub(super) fn own_set(step: &mut Step<'_>) {
    let Some(id) = own_shared(step) else { return step.announce(&[]) };
    let (frame, word, bit) = (interrupt::distributor(), id / 32 * 4, 1 << (id % 32));
    for _ in 0..=step.random.below(4) {
        let (offset, size, value) = match step.random.below(12) {
            0..3 => (SETS[2] + word, 2, bit),
            3..8 => (step.random.pick(&SETS, SETS[0]) + word, 2, bit),
            8 => (IPRIORITYR + id, 0, step.random.value() & 0xff),
            9 => (ICFGR + id / 16 * 4, 2, step.random.value() & 0xffff_ffff),
            10 => (IROUTER + 8 * id, 3, step.random.below(vcpus() + 1)),
            _ => (IROUTER + 8 * id, 3, step.random.value()),
        };
        step.announce(&[id, offset, value]);
        access(frame + offset, size, Some(value));
    }
    let state = [SETS[0], SETS[2], SETS[4]].map(|set| u64::from(u64::from(trial::read(frame + set + word)) & bit != 0));
    step.say("held", &[id, state[0], state[1], state[2]]);
}

fn uart() -> u64 {
    information::information().map_or(BOARD_UART, |page| page.uart.0)
}

/// Registers of the virtual UART that do something; among them its interrupt's, which each byte of output then makes pending.
pub(super) fn uart_registers(step: &mut Step<'_>) {
    let uart = uart();
    if uart == 0 {
        return step.announce(&[]);
    }
    for _ in 0..=step.random.below(4) {
        let offset = step.random.pick(&UART_REGISTERS, 0);
        let store = (!step.random.once_in(3)).then(|| step.random.value());
        let size = step.random.below(4);
        step.announce(&[uart + offset, size, u64::from(store.is_some()), store.unwrap_or(0)]);
        access(uart + offset, size, store);
    }
}

/// Address and registers of the device of its own, if it has one that is known (`device=ADDRESS`).
fn own_device() -> Option<(u64, &'static Registers)> {
    let address = arguments::number(information::arguments(), "device")?;
    let part = trial::read(address + IDENTIFICATION);
    [&CLOCK, &SECOND_UART].into_iter().find(|registers| registers.part == part).map(|registers| (address, registers))
}

/// Quiets the device, if it is this one's and its interrupt (`interrupt=INTID`) was taken.
pub(super) fn quiet_device(id: InterruptId) {
    let is_own = arguments::number(information::arguments(), "interrupt") == Some(u64::from(id.0));
    if let Some((address, registers)) = own_device().filter(|_| is_own) {
        trial::write(address + registers.clear, registers.all);
    }
}

/// The interrupt of a device of its own: a level, which stays until somebody quiets it.
pub(super) fn device(step: &mut Step<'_>) {
    let Some((address, registers)) = own_device() else { return step.announce(&[]) };
    for _ in 0..=step.random.below(3) {
        let (register, value) = match step.random.below(8) {
            0..3 => (registers.raise, trial::read(address)),
            3..5 => (registers.mask, registers.all),
            5 => (registers.clear, registers.all),
            6 => (registers.mask, 0),
            _ => (step.random.pick(registers.others, registers.raise), (step.random.value() & 0xffff_ffff) as u32),
        };
        step.announce(&[register, u64::from(value)]);
        trial::write(address + register, value);
    }
}

/// Makes a shared interrupt pending again.
pub(super) fn pend(id: InterruptId) {
    let (word, bit) = (u64::from(id.0 / 32) * 4, 1 << (id.0 % 32));
    trial::write(interrupt::distributor() + SETS[2] + word, bit);
}

/// Loads or stores of each width; `size` is 0 to 3.
fn access(address: u64, size: u64, store: Option<u64>) {
    // SAFETY: addresses outside this guest's RAM; faults are stepped over, and the effect on others is what is being tried.
    unsafe {
        match (size & 3, store) {
            (0, Some(value)) => asm!("strb {:w}, [{}]", in(reg) value, in(reg) address, options(nostack)),
            (1, Some(value)) => asm!("strh {:w}, [{}]", in(reg) value, in(reg) address, options(nostack)),
            (2, Some(value)) => asm!("str {:w}, [{}]", in(reg) value, in(reg) address, options(nostack)),
            (_, Some(value)) => asm!("str {}, [{}]", in(reg) value, in(reg) address, options(nostack)),
            (0, None) => asm!("ldrb {:w}, [{}]", out(reg) _, in(reg) address, options(nostack)),
            (1, None) => asm!("ldrh {:w}, [{}]", out(reg) _, in(reg) address, options(nostack)),
            (2, None) => asm!("ldr {:w}, [{}]", out(reg) _, in(reg) address, options(nostack)),
            (_, None) => asm!("ldr {}, [{}]", out(reg) _, in(reg) address, options(nostack)),
        }
    }
}

/// The redistributor of this vCPU, and sometimes that of another one.
fn redistributor(step: &mut Step<'_>) -> u64 {
    if step.random.once_in(6) {
        let base = information::information().map_or(0x080a_0000, |page| page.gicr.0);
        base + step.random.below(vcpus()) * GICR_BYTES
    } else {
        interrupt::redistributor()
    }
}

pub(super) fn vcpus() -> u64 {
    information::information().map_or(1, |page| u64::from(page.vcpu_count))
}

/// Sets, clears, priorities and modes of private interrupts.
pub(super) fn private_set(step: &mut Step<'_>) {
    let frame = redistributor(step) + SGI_FRAME;
    for _ in 0..=step.random.below(3) {
        let register = match step.random.below(10) {
            0..7 => step.random.pick(&SETS, SETS[0]),
            7 => IPRIORITYR + 4 * step.random.below(8),
            8 => ICFGR + 4 * step.random.below(2),
            _ => step.random.pick(&[IGROUPR, IGRPMODR], IGROUPR),
        };
        let value = step.random.mask();
        step.announce(&[register, u64::from(value)]);
        trial::write(frame + register, value);
        if step.random.once_in(4) {
            trial::read(frame + register);
        }
    }
}

/// The same of shared interrupts, with routes.
pub(super) fn shared_set(step: &mut Step<'_>) {
    let frame = interrupt::distributor();
    for _ in 0..=step.random.below(3) {
        let (id, value) = (32 + step.random.below(300), step.random.mask());
        if step.random.once_in(5) {
            let route = step.random.value();
            step.announce(&[IROUTER, id, route]);
            access(frame + IROUTER + 8 * id, 3, Some(route));
            continue;
        }
        let register = match step.random.below(8) {
            0..6 => step.random.pick(&SETS, SETS[0]) + id / 32 * 4,
            6 => IPRIORITYR + (id & !3),
            _ => ICFGR + id / 16 * 4,
        };
        step.announce(&[register, u64::from(value)]);
        trial::write(frame + register, value);
    }
}

/// Any access of any width to any frame.
pub(super) fn any_access(step: &mut Step<'_>) {
    let uart = uart();
    let frames = [
        (interrupt::distributor(), GICD_BYTES),
        (redistributor(step), GICR_BYTES),
        (uart, 0x1000),
        (GUEST_ECAM.0 + step.random.below(4) * PCI_DEVICE_BYTES, 0x10_0000 - 3 * PCI_DEVICE_BYTES),
        (GUEST_PCI_REGISTERS.0 + step.random.below(2) * PCI_REGISTERS_BYTES, 0x1000),
    ];
    // Without a PCI bus its addresses are outside.
    let places = if information::has_pci_bus() { 5 } else { 2 + u64::from(uart != 0) };
    for _ in 0..=step.random.below(6) {
        let place = step.random.below(places) as usize;
        let (base, bytes) = frames.get(place).copied().unwrap_or(frames[0]);
        let size = step.random.below(4);
        let misaligned = if step.random.once_in(12) { 0 } else { (1 << size) - 1 };
        // Most registers that do something are at the beginning.
        let reach = if step.random.once_in(2) { bytes } else { bytes.min(0x400) };
        let address = base + (step.random.below(reach) & !misaligned);
        let store = step.random.once_in(2).then(|| step.random.value());
        step.announce(&[address, size, u64::from(store.is_some()), store.unwrap_or(0)]);
        access(address, size, store);
    }
}

/// A value to each register of a part of a frame.
pub(super) fn whole_frame(step: &mut Step<'_>) {
    let redistributor = redistributor(step);
    let base = step.random.pick(&[interrupt::distributor(), redistributor, redistributor + SGI_FRAME], redistributor);
    let (from, value) = (step.random.below(0x1000) & !3, step.random.mask());
    step.announce(&[base, from, u64::from(value)]);
    for offset in (from..from + 0x200).step_by(4) {
        trial::write(base + offset, value);
    }
    cpu::yield_now();
}
