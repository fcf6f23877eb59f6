//! Reads, writes and jumps across every class of page that is not this guest's.

use crate::{
    attack::{Attack, Expectation, Outcome},
    trial,
};
use bulkhead_sdk::{
    guest_abi::{
        channel::{CHANNEL_READER_OFFSET, CHANNEL_STATUS_OFFSET, CHANNEL_WRITER_OFFSET},
        guest::{DIRECTION_SOURCE, GUEST_CHANNELS, GUEST_ECAM, GUEST_INFORMATION, GUEST_PCI_REGISTERS},
    },
    information, interrupt,
};
use core::arch::asm;

/// Written everywhere; a victim that finds it knows who was there.
const MARK: u32 = 0xbad0_cafe;
const PAGE: u64 = 4096;

/// Devices of the board (QEMU `virt`) that are nobody's or somebody else's.
const FLASH: u64 = 0x0000_0000;
const INTERRUPT_TRANSLATION: u64 = 0x0808_0000;
const PHYSICAL_UART: u64 = 0x0900_0000;
const REAL_TIME_CLOCK: u64 = 0x0901_0000;
const FIRMWARE_CONFIGURATION: u64 = 0x0902_0000;
const POWER_PINS: u64 = 0x0903_0000;
const SMMU: u64 = 0x0905_0000;
const VIRTIO: u64 = 0x0a00_0000;
const PLATFORM_BUS: u64 = 0x0c00_0000;
const SECURE_RAM: u64 = 0x0e00_0000;
const PCI_WINDOW: u64 = 0x1100_0000;
const HIGH_ECAM: u64 = 0x40_1000_0000;
const HIGH_PCI_WINDOW: u64 = 0x80_0000_0000;
/// What lies elsewhere on a Versal (UG1304): there these are the monitor, somebody's RAM and devices, elsewhere nothing.
const LOW_MONITOR: u64 = 0x0020_0000;
const LOW_RAM: u64 = 0x0400_0000;
const VERSAL_DISTRIBUTOR: u64 = 0xf900_0000;
const VERSAL_UART: u64 = 0xff00_0000;
const VERSAL_REAL_TIME_CLOCK: u64 = 0xf12a_0000;
/// Bits of a physical address by ID_AA64MMFR0_EL1.PARange, from 0 on.
const PHYSICAL_ADDRESS_BITS: [u32; 7] = [32, 36, 40, 42, 44, 48, 52];
/// Physical addresses that are the monitor's or another partition's; as guest addresses they lie past a small RAM.
const MONITOR: u64 = 0x4020_0000;
const MIDDLE_OF_BOARD_RAM: u64 = 0x6000_0000;
const END_OF_BOARD_RAM: u64 = 0x7fff_f000;

/// Outcome of an access that should have been this guest's end.
pub(super) fn survived(syndrome: Option<bulkhead_sdk::syndrome::Syndrome>) -> Outcome {
    match syndrome {
        Some(syndrome) => Outcome::unexpected("exception at EL1, ESR", syndrome.0),
        None => Outcome::escaped("the access went through", 0),
    }
}

fn read(address: u64) -> Outcome {
    survived(trial::attempt(|| {
        trial::read(address);
    }))
}

fn write(address: u64) -> Outcome {
    survived(trial::attempt(|| trial::write(address, MARK)))
}

fn read_untranslated(address: u64) -> Outcome {
    survived(trial::attempt(|| {
        trial::read_untranslated(address);
    }))
}

fn jump_untranslated(address: u64) -> Outcome {
    survived(trial::attempt(|| trial::jump_untranslated(address)))
}

/// First guest address past this guest's RAM.
pub(super) fn past_ram() -> u64 {
    information::information().map_or(MONITOR, |page| page.ram.0 + page.ram_bytes)
}

/// `address`, unless this partition's RAM is so large that it is its own.
fn outside_ram(address: u64, attack: fn(u64) -> Outcome) -> Outcome {
    if address < past_ram() { Outcome::skipped("the address is this guest's own RAM") } else { attack(address) }
}

fn first_port(attack: fn(&'static bulkhead_sdk::abi::plan::PortInformation) -> Outcome) -> Outcome {
    information::ports().first().map_or(Outcome::skipped("no port"), attack)
}

fn write_other_side() -> Outcome {
    first_port(|port| {
        let is_source = port.direction == DIRECTION_SOURCE;
        write(port.window.0 + if is_source { CHANNEL_READER_OFFSET } else { CHANNEL_WRITER_OFFSET })
    })
}

fn past_channels() -> u64 {
    information::ports().iter().map(|port| port.window.0 + port.window_bytes).max().unwrap_or(GUEST_CHANNELS.0)
}

fn past_console() -> Outcome {
    match information::information() {
        Some(page) if page.console.0 != 0 => write((page.console.0 + page.console_bytes).next_multiple_of(PAGE)),
        _ => Outcome::skipped("no console ring"),
    }
}

fn foreign_redistributor() -> u64 {
    let vcpus = information::information().map_or(1, |page| u64::from(page.vcpu_count));
    interrupt::redistributor() + vcpus * 0x2_0000
}

fn uart() -> Outcome {
    match information::information() {
        Some(page) if page.uart.0 == 0 => write(PHYSICAL_UART),
        _ => Outcome::skipped("this partition has a virtual UART at that address"),
    }
}

/// One past the largest physical address of the core: below it an address without translation goes on to stage 2, whose answer
/// is a fault of the partition.
fn end_of_physical() -> u64 {
    let features: u64;
    // SAFETY: reads a constant register.
    unsafe { asm!("mrs {}, ID_AA64MMFR0_EL1", out(reg) features, options(nomem, nostack, preserves_flags)) };
    let range = (features & 0xf) as usize;
    1 << PHYSICAL_ADDRESS_BITS.get(range).copied().unwrap_or(52)
}

fn beyond_physical() -> Outcome {
    match trial::attempt(|| {
        trial::read_untranslated(end_of_physical());
    }) {
        Some(syndrome) => Outcome::contained("exception at EL1, ESR", syndrome.0),
        None => Outcome::escaped("the access went through", 0),
    }
}

macro_rules! fault {
    ($name:literal, $run:expr) => {
        Attack { name: $name, expectation: Expectation::Fault, run: $run }
    };
}

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    fault!("wild jump past own RAM", || survived(trial::attempt(|| trial::jump(past_ram())))),
    fault!("read past own RAM", || read(past_ram())),
    fault!("write past own RAM", || write(past_ram())),
    fault!("read the monitor's text", || outside_ram(MONITOR, read)),
    fault!("write the monitor's text", || outside_ram(MONITOR, write)),
    fault!("write the middle of the board's RAM", || outside_ram(MIDDLE_OF_BOARD_RAM, write)),
    fault!("read the end of the board's RAM", || outside_ram(END_OF_BOARD_RAM, read)),
    fault!("read flash", || read(FLASH)),
    fault!("write flash", || write(FLASH)),
    fault!("jump to flash", || jump_untranslated(FLASH)),
    fault!("write the physical UART", uart),
    fault!("read a foreign real-time clock", || read(REAL_TIME_CLOCK)),
    fault!("write the firmware configuration device", || write(FIRMWARE_CONFIGURATION)),
    fault!("write the power-off pins", || write(POWER_PINS)),
    fault!("read the SMMU", || read(SMMU)),
    fault!("write a virtio transport", || write(VIRTIO)),
    fault!("read the platform bus", || read(PLATFORM_BUS)),
    fault!("read secure RAM", || read(SECURE_RAM)),
    fault!("read the physical PCI window", || read(PCI_WINDOW)),
    fault!("read the physical PCI configuration space", || read_untranslated(HIGH_ECAM)),
    fault!("read beyond the guest address space", || read_untranslated(HIGH_PCI_WINDOW)),
    Attack { name: "read beyond the physical address space", expectation: Expectation::Answer, run: beyond_physical },
    fault!("write the interrupt translation service", || write(INTERRUPT_TRANSLATION)),
    fault!("read a foreign redistributor", || read(foreign_redistributor())),
    fault!("write a foreign redistributor", || write(foreign_redistributor())),
    fault!("write the information page", || write(GUEST_INFORMATION.0)),
    fault!("jump into the information page", || jump_untranslated(GUEST_INFORMATION.0)),
    fault!("read past the information page", || read(GUEST_INFORMATION.0 + PAGE)),
    fault!("write past the console ring", past_console),
    fault!("read past the channels", || read(past_channels())),
    fault!("write a peer's status page", || first_port(|port| write(port.window.0 + CHANNEL_STATUS_OFFSET))),
    fault!("write the other side of a channel", write_other_side),
    fault!("read PCI configuration space without a bus", || read(GUEST_ECAM.0)),
    fault!("write PCI registers without a bus", || write(GUEST_PCI_REGISTERS.0)),
    fault!("write the monitor of a board with low RAM", || write(LOW_MONITOR)),
    fault!("read a partition of a board with low RAM", || read_untranslated(LOW_RAM)),
    fault!("write the Versal's distributor", || outside_ram(VERSAL_DISTRIBUTOR, write)),
    fault!("write the Versal's UART", || outside_ram(VERSAL_UART, write)),
    fault!("read the Versal's real-time clock", || outside_ram(VERSAL_REAL_TIME_CLOCK, read)),
];
