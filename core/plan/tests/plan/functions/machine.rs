//! A machine whose functions, root port and SMMU answer to steps as hardware does, as far as scripts go.
//!
//! What is not there reads as ones. It panics when something happens that must not happen at any time: a function that masters the bus, a
//! root port that does so while the SMMU is off, a function that answers at memory before that, or a step outside of what is given.

use bulkhead_abi::devices::{STEP_DELAY, STEP_EXPECT, STEP_UPDATE, STEP_WAIT, STEP_WRITE, Step};
use bulkhead_plan::devices::{configuration, configuration_of};
use bulkhead_plan::model::{PciReset, System};
use std::collections::BTreeMap;

const PAGE: u64 = 4096;
const COMMAND: u64 = 4;
const SMMU_OFF: u64 = 0;

/// A function, or the root port.
pub(super) struct Function {
    page: u64,
    pub(super) bytes: [u8; 256],
    masks: [u32; 6],
    wide: [bool; 6],
    reset: Option<u64>,
    status: Option<(usize, u64)>,
    pub(super) virtio_status: u8,
    pub(super) resets: u32,
    is_port: bool,
    is_behind_port: bool,
}

impl Function {
    pub(super) fn get(&self, offset: u64, width: u16) -> u64 {
        let bytes = &self.bytes[offset as usize..][..usize::from(width)];
        bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
    }

    fn put(&mut self, offset: u64, width: u16, value: u64) {
        self.bytes[offset as usize..][..usize::from(width)].copy_from_slice(&value.to_le_bytes()[..usize::from(width)]);
    }

    fn answers_memory(&self) -> bool {
        self.get(COMMAND, 2) & 2 != 0
    }

    /// What a base address register says, without its flags.
    pub(super) fn place(&self, register: usize) -> u64 {
        let at = 0x10 + 4 * register as u64;
        let upper = if self.wide[register] { self.get(at + 4, 4) << 32 } else { 0 };
        upper | self.get(at, 4) & !0xf
    }

    fn write(&mut self, offset: u64, width: u16, value: u64) {
        match offset {
            COMMAND => self.put(COMMAND, 2, value & 0x407),
            0x10..0x28 if !self.is_port => {
                let register = (offset as usize - 0x10) / 4;
                self.put(offset, 4, value & u64::from(self.masks[register]));
            }
            _ if Some(offset) == self.reset => {
                if value & 0x8000 != 0 {
                    self.put(COMMAND, 2, 0);
                    (0x10..0x28).step_by(4).for_each(|bar| self.put(bar, 4, 0));
                    self.virtio_status = 0;
                    self.resets += 1;
                }
            }
            0x18..0x34 if self.is_port => self.put(offset, width, value),
            _ => panic!("a write of {value:#x} to {offset:#x}"),
        }
    }
}

pub(super) struct Machine {
    pub(super) functions: Vec<Function>,
    pub(super) smmu: BTreeMap<u64, u64>,
    smmu_page: u64,
    /// Pages that the running core maps.
    pub(super) pages: Vec<u64>,
    pub(super) delayed: u64,
}

impl Machine {
    /// Returns the machine of a system as its firmware may have left it: everything on, the SMMU too.
    pub(super) fn new(system: &System) -> Self {
        let host = system.board.pci.as_ref().unwrap();
        let mut functions = Vec::new();
        for function in &system.functions {
            let model = &host.models[function.model];
            let mut bytes = [0; 256];
            for (slot, word) in bytes.chunks_mut(4).zip(model.configuration) {
                slot.copy_from_slice(&word.to_le_bytes());
            }
            bytes[4] = 7;
            let mut masks = [0; 6];
            for (register, bar) in model.bars.iter().enumerate().filter(|(_, bar)| bar.bytes != 0) {
                masks[register] = !(bar.bytes as u32 - 1);
                if bar.is_wide {
                    masks[register + 1] = u32::MAX;
                }
            }
            let (reset, status) = match model.reset {
                PciReset::FunctionLevel { capability } => (Some(u64::from(capability) + 8), None),
                PciReset::Virtio { bar, offset } => (None, Some((bar, offset))),
                PciReset::None => (None, None),
            };
            functions.push(Function {
                page: configuration_of(host, function).0,
                bytes,
                masks,
                wide: model.bars.map(|bar| bar.is_wide),
                reset,
                status,
                virtio_status: 0xf,
                resets: 0,
                is_port: false,
                is_behind_port: function.bus != 0,
            });
        }
        if let Some(slot) = host.root_port {
            let mut bytes = [0; 256];
            bytes[..0x10].copy_from_slice(&[0x36, 0x1b, 0x0c, 0, 7, 0, 0, 0, 0, 0, 4, 6, 0, 0, 1, 0]);
            functions.push(Function {
                page: configuration(host, 0, slot).0,
                bytes,
                masks: [0; 6],
                wide: [false; 6],
                reset: None,
                status: None,
                virtio_status: 0,
                resets: 0,
                is_port: true,
                is_behind_port: false,
            });
        }
        // QEMU 7.2 (`devices.md` 2); on, with a queue that somebody left.
        let smmu = [(0, 0x0d40_101a), (4, 0x0273_0010), (0x14, 0x74), (0x20, 0xd), (0x24, 0xd), (0x9c, 7), (0x98, 7)];
        let smmu_page = host.smmu.map_or(SMMU_OFF, |smmu| smmu.address.0);
        Self { functions, smmu: smmu.into_iter().collect(), smmu_page, pages: Vec::new(), delayed: 0 }
    }

    pub(super) fn port(&self) -> Option<&Function> {
        self.functions.iter().find(|function| function.is_port)
    }

    fn port_masters(&self) -> bool {
        self.port().is_some_and(|port| port.get(COMMAND, 2) & 4 != 0)
    }

    fn translates(&self) -> bool {
        self.smmu_page == SMMU_OFF || self.smmu[&0x24] & 1 != 0
    }

    fn passes(&self, function: &Function, memory: Option<u64>) -> bool {
        if !function.is_behind_port {
            return true;
        }
        let Some(port) = self.port() else { return false };
        let window = (port.get(0x20, 2) & 0xfff0) << 16..=(port.get(0x22, 2) & 0xfff0) << 16 | 0xf_ffff;
        let passes = |address| port.answers_memory() && window.contains(&address);
        port.bytes[0x19] == 1 && port.bytes[0x1a] == 1 && memory.is_none_or(passes)
    }

    /// The function behind an address of configuration space, and one whose status register is there.
    fn find(&self, address: u64) -> (Option<usize>, Option<usize>) {
        let places = || self.functions.iter().enumerate();
        let configured = places().find(|(_, one)| one.page == address & !(PAGE - 1) && self.passes(one, None));
        let status = places().find(|(_, one)| {
            let here = one.status.is_some_and(|(bar, offset)| one.place(bar) + offset == address);
            here && one.answers_memory() && self.passes(one, Some(address))
        });
        (configured.map(|(index, _)| index), status.map(|(index, _)| index))
    }

    fn read(&self, address: u64, width: u16) -> u64 {
        let ones = u64::MAX >> (64 - 8 * u32::from(width));
        if let Some(register) = address.checked_sub(self.smmu_page).filter(|offset| *offset < 0x2_0000) {
            return self.smmu.get(&register).copied().unwrap_or(0) & ones;
        }
        match self.find(address) {
            (Some(index), _) => self.functions[index].get(address % PAGE, width),
            (_, Some(index)) => u64::from(self.functions[index].virtio_status),
            _ => ones,
        }
    }

    fn write(&mut self, address: u64, width: u16, value: u64) {
        if let Some(register) = address.checked_sub(self.smmu_page).filter(|offset| *offset < 0x2_0000) {
            return self.write_smmu(register, value);
        }
        match self.find(address) {
            (Some(index), _) => self.functions[index].write(address % PAGE, width, value),
            (_, Some(index)) => self.functions[index].virtio_status = value as u8,
            _ => {}
        }
    }

    fn write_smmu(&mut self, register: u64, value: u64) {
        let is_on = self.smmu[&0x20] != 0;
        assert!(!is_on || matches!(register, 0x20 | 0x98), "register {register:#x} while something is on");
        self.smmu.insert(register, value);
        let follower = match register {
            0x20 => Some(0x24),
            0x50 => Some(0x54),
            0x98 if self.smmu[&0x24] & 8 != 0 => Some(0x9c),
            _ => None,
        };
        self.smmu.extend(follower.map(|register| (register, value)));
    }

    /// Does steps; `false` when a look or a wait fails.
    pub(super) fn run(&mut self, steps: &[Step]) -> bool {
        for step in steps {
            let (address, width) = (step.address.0, step.width);
            if step.operation == STEP_DELAY {
                self.delayed += step.value;
                continue;
            }
            assert!(matches!(width, 1 | 2 | 4 | 8) && address.is_multiple_of(u64::from(width)), "{step:x?}");
            assert!(self.pages.contains(&(address & !(PAGE - 1))), "{step:x?} is on no page of the core");
            let read = self.read(address, width);
            match step.operation {
                STEP_WRITE => self.write(address, width, step.value),
                STEP_UPDATE => self.write(address, width, read & !step.mask | step.value & step.mask),
                STEP_WAIT if step.limit == 0 => panic!("{step:x?} has no limit"),
                STEP_WAIT | STEP_EXPECT if read & step.mask != step.value => return false,
                STEP_WAIT | STEP_EXPECT => {}
                other => panic!("operation {other}"),
            }
        }
        true
    }

    /// Panics unless no function masters the bus, or answers, while the SMMU does not translate.
    pub(super) fn check(&self) {
        self.check_behind(true);
    }

    /// The same, where what is behind the root port may be left as firmware had it as long as the port passes nothing on.
    pub(super) fn check_behind(&self, is_reached: bool) {
        let is_cut_off = |one: &Function| one.is_behind_port && !is_reached && !self.port_masters();
        for function in self.functions.iter().filter(|one| !is_cut_off(one)) {
            let command = function.get(COMMAND, 2);
            assert!(function.is_port || command & 4 == 0, "a function masters the bus");
            assert!(self.translates() || command & 6 == 0, "a function or the port is on before the SMMU");
            assert_eq!(command & 1, 0, "ports answer");
        }
    }
}
