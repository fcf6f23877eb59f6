//! Configuration space of devices of the board against a model made of bytes (QV-13).

mod support;

use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::devices::{Bar, DevicePlan};
use bulkhead_abi::plan::{PCI_DEVICE, PartitionPlan};
use bulkhead_emulation::pci::{Bus, ConfigurationPort, PciEffect, PciState};
use std::cell::{Cell, RefCell};
use support::bus::{at, bus};
use support::random::Random;
use zerocopy::FromZeros;

/// Devices 3 and 5 of the virtual bus: functions 2 and 4 of the plan.
const PLACES: [usize; 2] = [2, 4];
const PAGES: [u64; 2] = [0x40_1000_8000, 0x40_1010_0000];
/// Bits of Command and Status that a guest sees of the function, and of Command that it may change.
const SEEN: [u8; 4] = [0x06, 0x04, 0x08, 0xf9];
const CHANGED: u16 = 0x406;

/// The hardware: Command and Status of each device, and what was done to them.
struct Hardware {
    words: [Cell<u32>; 2],
    stores: RefCell<Vec<(u64, u16)>>,
}

impl ConfigurationPort for Hardware {
    fn command_status(&self, configuration: PhysicalAddress) -> u32 {
        let place = PAGES.iter().position(|page| *page == configuration.0).expect("a page of an own device");
        self.words[place].get()
    }
    fn set_command(&self, configuration: PhysicalAddress, command: u16) {
        let place = PAGES.iter().position(|page| *page == configuration.0).expect("a page of an own device");
        // Bits that a store of ones clears are not touched by one of 16 bits.
        self.words[place].set(self.words[place].get() & 0xffff_0000 | u32::from(command));
        self.stores.borrow_mut().push((configuration.0, command));
    }
}

/// Header words that are all different, so that a wrong one shows.
fn header(seed: u32) -> [u32; 64] {
    let mut words: [u32; 64] = std::array::from_fn(|word| seed << 16 | 0x5a00 | word as u32);
    words[1] = 0x0010_0000; // a list of capabilities
    words[4..10].copy_from_slice(&[0x2800_0000, 0, 0, 0, 0x2900_000c, 0]);
    words
}

fn plans() -> (PartitionPlan, DevicePlan) {
    let (mut plan, _) = bus();
    plan.pci_count = 5;
    plan.pci[3] = plan.pci[1];
    let mut devices = DevicePlan::new_zeroed();
    for (place, (index, page)) in PLACES.into_iter().zip(PAGES).enumerate() {
        plan.pci[index].kind = PCI_DEVICE;
        let function = &mut devices.functions[index];
        function.configuration = PhysicalAddress(page);
        function.header = header(1 + place as u32);
        function.bars[0] = Bar { bytes: 0x1000, ..Bar::default() };
        function.bars[4] = Bar { bytes: 0x4000, ..Bar::default() };
    }
    (plan, devices)
}

/// What a guest sees, as bytes.
struct Model {
    header: [[u8; 256]; 2],
    sized: [[bool; 6]; 2],
    hardware: [[u8; 4]; 2],
}

impl Model {
    fn byte(&self, place: usize, register: usize) -> u8 {
        let planned = self.header[place].get(register).copied().unwrap_or(0);
        match register {
            4..8 => {
                let seen = SEEN[register - 4];
                self.hardware[place][register - 4] & seen | planned & !seen
            }
            0x10..0x28 if self.sized[place][(register - 0x10) / 4] => {
                // 4 KiB behind 0; 16 KiB behind 4 and 5, which are one; nothing behind the others.
                let mask: u64 = match register {
                    0x10..0x14 => 0xffff_f000,
                    0x20..0x28 => 0xffff_ffff_ffff_c00c,
                    _ => 0,
                };
                (mask >> (8 * (register as u64 & if register < 0x20 { 3 } else { 7 }))) as u8
            }
            _ => planned,
        }
    }

    fn read(&self, place: usize, register: usize, width: usize) -> u64 {
        if width == 8 || !register.is_multiple_of(width) {
            return u64::MAX >> (64 - 8 * width);
        }
        (0..width).rev().fold(0, |value, at| value << 8 | u64::from(self.byte(place, register + at)))
    }

    fn write(&mut self, place: usize, register: usize, width: usize, value: u64) {
        if width == 8 || !register.is_multiple_of(width) {
            return;
        }
        let mut bytes = value.to_le_bytes().into_iter().take(width);
        match register {
            4..8 => {
                for (at, byte) in (register - 4..2).zip(&mut bytes) {
                    let may = (CHANGED >> (8 * at)) as u8;
                    self.hardware[place][at] = self.hardware[place][at] & !may | byte & may;
                }
            }
            0x10..0x28 => {
                let first = register & !3;
                let mut after = (first..first + 4).map(|at| {
                    if at >= register && at < register + width {
                        value.to_le_bytes()[at - register]
                    } else {
                        self.byte(place, at)
                    }
                });
                let sized = after.all(|byte| byte == 0xff);
                self.sized[place][(first - 0x10) / 4] = sized;
            }
            _ => {}
        }
    }
}

/// The device and the model of it, in the same state.
struct Both {
    plan: PartitionPlan,
    devices: DevicePlan,
    state: PciState,
    hardware: Hardware,
    model: Model,
}

impl Both {
    fn new() -> Self {
        let (plan, devices) = plans();
        let words = [0xf9ff_0002u32, 0x0000_fbf9];
        let header = PLACES.map(|index| {
            let words = devices.functions[index].header;
            std::array::from_fn(|at| words[at / 4].to_le_bytes()[at % 4])
        });
        let model = Model { header, sized: [[false; 6]; 2], hardware: words.map(u32::to_le_bytes) };
        let hardware = Hardware { words: words.map(Cell::new), stores: RefCell::default() };
        Self { plan, devices, state: PciState::new_zeroed(), hardware, model }
    }

    fn bus(&self) -> Bus<'_> {
        Bus { plan: &self.plan, state: &self.state }
    }

    /// Compares one read; of what is no device, with what the rest of the bus says.
    fn compare(&self, offset: u64, width: usize) {
        let place = place(offset);
        let read = self.bus().device_read(&self.devices, &self.hardware, offset, width as u8);
        let wanted = place.map(|place| self.model.read(place, offset as usize & 0xfff, width));
        assert_eq!(read, wanted, "offset {offset:#x}, {width} bytes");
        if place.is_none() && offset >> 15 > 5 {
            assert_eq!(self.bus().config_read(offset, width as u8), u64::MAX >> (64 - 8 * width), "nothing there");
        }
    }

    fn write(&mut self, offset: u64, width: usize, value: u64) {
        let before = self.hardware.stores.borrow().len();
        let is_device = self.bus().device_write(&self.devices, &self.hardware, offset, width as u8, value);
        assert_eq!(is_device, place(offset).is_some(), "offset {offset:#x}");
        if let Some(place) = place(offset) {
            self.model.write(place, offset as usize & 0xfff, width, value);
        } else if offset >> 15 > 5 {
            assert_eq!(self.bus().config_write(offset, width as u8, value), PciEffect::None);
        }
        let stores = self.hardware.stores.borrow();
        let register = offset & 0xffc;
        assert!(stores.len() <= before + usize::from(register == 4), "a store from offset {offset:#x}");
        for (place, word) in self.hardware.words.iter().enumerate() {
            let wanted = u32::from_le_bytes(self.model.hardware[place]);
            assert_eq!(word.get(), wanted, "device {place} after {width} bytes of {value:#x} at {offset:#x}");
        }
    }
}

/// Which of the devices an offset of configuration space addresses.
fn place(offset: u64) -> Option<usize> {
    let (devfn, bus) = (offset >> 12 & 0xff, offset >> 20);
    PLACES.iter().position(|index| bus == 0 && devfn == 8 * (*index as u64 + 1))
}

#[test]
fn every_byte_of_every_function_reads_as_the_model_says() {
    let both = Both::new();
    for offset in 0..256 << 12 {
        for width in [1, 2, 4, 8] {
            both.compare(offset, width);
        }
    }
    both.compare(1 << 20 | 3 << 15, 4);
}

#[test]
fn a_write_anywhere_changes_three_bits_and_latches_sizes() {
    let mut both = Both::new();
    let mut random = Random::new(12);
    for offset in 0..256 << 12 {
        // Elsewhere one access in 64: the sweep is about the registers of the devices.
        let is_swept = place(offset).is_some() || random.below(64) == 0;
        for width in [1, 2, 4, 8] {
            for value in [u64::MAX, 0, random.hostile()].into_iter().take(if is_swept { 3 } else { 0 }) {
                both.write(offset, width, value);
                both.compare(offset & !3, 4);
            }
        }
    }
    for offset in PLACES.iter().flat_map(|index| (0..0x1000).map(move |register| (*index as u64 + 1) << 15 | register))
    {
        both.compare(offset, 1);
    }
    let pages = PAGES.map(|page| both.hardware.stores.borrow().iter().filter(|(at, _)| *at == page).count());
    assert!(pages.iter().all(|stores| *stores > 4), "{pages:?}");
}

#[test]
fn a_driver_finds_the_size_and_its_own_master_bit() {
    let both = Both::new();
    let write = |register, bytes, value| {
        both.bus().device_write(&both.devices, &both.hardware, at(3, register), bytes, value);
    };
    let read = |register| both.bus().device_read(&both.devices, &both.hardware, at(3, register), 4);
    for register in [0x10, 0x14, 0x18, 0x1c, 0x20, 0x24] {
        write(register, 4, u64::from(u32::MAX));
    }
    let sizes = [0x10, 0x14, 0x18, 0x1c, 0x20, 0x24].map(read);
    assert_eq!(sizes, [0xffff_f000, 0, 0, 0, 0xffff_c00c, 0xffff_ffff].map(Some));
    write(0x10, 4, 0x3000_0000);
    assert_eq!(read(0x10), Some(0x2800_0000), "it stays where the plan has it");
    assert_eq!(read(4), Some(0xf918_0002), "status from the function, its capabilities from the plan");
    write(4, 2, 0xffff);
    assert_eq!(both.hardware.words[0].get(), 0xf9ff_0406);
    write(4, 4, 0xffff_0002);
    assert_eq!(both.hardware.words[0].get(), 0xf9ff_0002, "no bit of Status is cleared");
    assert_eq!(*both.hardware.stores.borrow(), [(PAGES[0], 0x406), (PAGES[0], 2)], "16 bits each");
}
