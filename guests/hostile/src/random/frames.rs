//! Steps on the emulated frames: distributor, redistributors, UART, PCI.

use super::Step;
use crate::trial;
use bulkhead_sdk::{
    cpu, information, interrupt,
    layout::guest::{GUEST_ECAM, GUEST_PCI_REGISTERS},
};
use core::arch::asm;

const GICD_BYTES: u64 = 0x1_0000;
const GICR_BYTES: u64 = 0x2_0000;
const SGI_FRAME: u64 = 0x1_0000;
/// ISENABLER, ICENABLER, ISPENDR, ICPENDR, ISACTIVER, ICACTIVER.
const SETS: [u64; 6] = [0x100, 0x180, 0x200, 0x280, 0x300, 0x380];
const IGROUPR: u64 = 0x080;
const IPRIORITYR: u64 = 0x400;
const ICFGR: u64 = 0xc00;
const IGRPMODR: u64 = 0xd00;
const IROUTER: u64 = 0x6000;
const BOARD_UART: u64 = 0x0900_0000;

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
    let page = information::information();
    let uart = page.map_or(BOARD_UART, |page| page.uart.0);
    let frames = [
        (interrupt::distributor(), GICD_BYTES),
        (redistributor(step), GICR_BYTES),
        (uart, 0x1000),
        (GUEST_ECAM.0, 0x10_0000),
        (GUEST_PCI_REGISTERS.0, 0x1000),
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
