//! A machine that executes scripts: the SMMU and the functions as registers, as far as scripts may touch them.
//!
//! The scripts are what the monitor does to the hardware, so what they lead to is claimed by executing them. The model knows the few
//! registers that a script may touch; any other access is a finding. It answers as hardware in its worst state does: before the boot
//! scripts every function may be a master of the bus, before the script of a partition its own functions are.

use super::plans::{Devices, Function};
use super::registers::{pci, smmu};
use bulkhead_abi::devices::{MAX_BARS, STEP_DELAY, STEP_EXPECT, STEP_UPDATE, STEP_WAIT, Step};
use std::collections::BTreeMap;

/// Pages of configuration space.
const PAGE: u64 = 4096;
/// Streams of bus 0 come first.
const STREAMS_OF_A_BUS: u32 = 256;

/// A function or a port, by its page of configuration space.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// Command; `None` as long as no script has written it.
    pub(crate) command: Option<u64>,
    /// Its base address registers.
    pub(crate) bars: [u64; MAX_BARS],
    /// It was read after mastering was switched off, which pushes its writes ahead.
    pub(crate) is_quiet: bool,
    /// It was told to reset itself while it was quiet.
    is_resetting: bool,
    /// The register that it was told by, by offset; 0 for one outside configuration space.
    pub(crate) reset_by: u64,
    /// And it was looked at until it had.
    pub(crate) is_reset: bool,
    /// Identity and class were looked at.
    pub(crate) identity: [bool; 2],
    /// It was quiet when the SMMU began to translate.
    pub(crate) was_quiet: bool,
    /// The register of device status that says that nothing is under way, by offset.
    pub(crate) idle: Option<u64>,
    /// A script expects it to be a bridge.
    is_bridge: bool,
    /// It has bus numbers: a bridge.
    pub(crate) is_port: bool,
    /// A bridge's windows of ports, memory and prefetchable memory: base in the lower half, limit in the upper.
    pub(crate) windows: [Option<u64>; 3],
}

/// What a read gives.
enum Read {
    /// The model knows it.
    Known(u64),
    /// Only the hardware does: a script may expect something there.
    Fact,
}

/// What a script may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The SMMU and every function.
    All,
    /// At boot: the functions of a partition, and the port in front of them if all behind it are the partition's.
    Boot(usize),
    /// When a partition starts again: its functions alone.
    Partition(usize),
}

/// The machine.
pub(crate) struct Machine<'a> {
    devices: &'a Devices,
    /// The SMMU's first register.
    smmu: u64,
    /// Commands in the queue at an address, by index; `None` where there are none.
    commands: &'a dyn Fn(u64, u64) -> Option<[u64; 2]>,
    /// The SMMU's registers that were written, by offset.
    pub(crate) registers: BTreeMap<u64, u64>,
    /// What of CR0 a script has seen come into effect; firmware may have left all of it on.
    pub(crate) acknowledged: u64,
    /// Commands that a script has seen done.
    pub(crate) done: u64,
    /// What the SMMU was told to forget: configuration, translations.
    pub(crate) forgotten: [bool; 2],
    /// What scripts expect of the SMMU: mask and value, by offset.
    pub(crate) expected: BTreeMap<u64, (u64, u64)>,
    /// Functions and ports by page.
    pub(crate) states: BTreeMap<u64, State>,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(devices: &'a Devices, smmu: u64, commands: &'a dyn Fn(u64, u64) -> Option<[u64; 2]>) -> Self {
        let (registers, expected, states) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self {
            devices,
            smmu,
            commands,
            registers,
            acknowledged: u64::MAX,
            done: 0,
            forgotten: [false; 2],
            expected,
            states,
        }
    }

    /// Puts a function into the state in which its guest left it: master of the bus, where the boot core put it.
    pub(crate) fn is_driven(&mut self, function: &Function, bars: [u64; MAX_BARS]) {
        let command = Some(pci::MEMORY | pci::MASTER);
        self.states.insert(function.plan.configuration.0, State { command, bars, ..State::default() });
    }

    pub(crate) fn state(&self, function: &Function) -> State {
        self.states.get(&function.plan.configuration.0).cloned().unwrap_or_default()
    }

    pub(crate) fn register(&self, offset: u64) -> u64 {
        self.registers.get(&offset).copied().unwrap_or(0)
    }

    fn is_translating(&self) -> bool {
        self.register(smmu::CR0) & smmu::SMMUEN != 0
    }

    /// Executes a step; says what is wrong with it.
    pub(crate) fn execute(&mut self, step: &Step, scope: Scope) -> Result<(), String> {
        let (address, width) = (step.address.0, u64::from(step.width));
        match step.operation {
            STEP_DELAY => Ok(()),
            STEP_EXPECT | STEP_WAIT => match self.read(address, width, step.mask, scope)? {
                Read::Known(value) if value & step.mask == step.value => Ok(()),
                Read::Known(value) => Err(format!(
                    "looks at {address:#x} for {:#x} under {:#x}; there is {value:#x}",
                    step.value, step.mask
                )),
                Read::Fact if address % PAGE == pci::HEADER_TYPE && step.value != 1 => {
                    Err(format!("expects {address:#x} to be something else than a bridge"))
                }
                Read::Fact if step.operation == STEP_EXPECT => {
                    let expected = self.expected.entry(address.wrapping_sub(self.smmu)).or_default();
                    *expected = (expected.0 | step.mask, expected.1 | step.value);
                    Ok(())
                }
                Read::Fact => Err(format!("waits for {address:#x}, which never changes")),
            },
            STEP_UPDATE => match self.read(address, width, step.mask, scope)? {
                Read::Known(value) => self.write(address, width, value & !step.mask | step.value, scope),
                Read::Fact => Err(format!("updates {address:#x}, of which it cannot know what is there")),
            },
            _ => self.write(address, width, step.value, scope),
        }
    }

    fn in_smmu(&self, address: u64, width: u64) -> Option<u64> {
        let offset = address.checked_sub(self.smmu).filter(|_| self.smmu != 0)?;
        (offset.saturating_add(width) <= smmu::BYTES).then_some(offset)
    }

    /// The page and offset of an address in configuration space, if the script may touch it.
    fn in_configuration(&self, address: u64, scope: Scope) -> Option<(u64, u64)> {
        let page = address - address % PAGE;
        let own = |own: usize| self.devices.at(address).map(|function| function.partition == own);
        let mut behind = self.devices.functions.iter().filter(|function| function.plan.stream >= STREAMS_OF_A_BUS);
        let is_own = match scope {
            Scope::All => true,
            Scope::Boot(partition) => own(partition).unwrap_or_else(|| behind.all(|one| one.partition == partition)),
            Scope::Partition(partition) => own(partition).unwrap_or(false),
        };
        (is_own && self.devices.configuration().contains(&address)).then_some((page, address % PAGE))
    }

    /// The function behind one of whose base address registers an address is.
    fn behind_bar(&self, address: u64, scope: Scope) -> Option<&'a Function> {
        let holds = |function: &&Function| {
            function
                .bars()
                .any(|(_, bar)| (bar.physical.0..bar.physical.0.saturating_add(bar.bytes)).contains(&address))
        };
        let function = self.devices.functions.iter().find(holds)?;
        let may = match scope {
            Scope::All => true,
            Scope::Boot(own) | Scope::Partition(own) => function.partition == own,
        };
        may.then_some(function)
    }

    fn read(&mut self, address: u64, width: u64, mask: u64, scope: Scope) -> Result<Read, String> {
        if let Some(offset) = self.in_smmu(address, width) {
            let has = |bits: u64| mask & bits == bits;
            return match (scope, offset) {
                (Scope::Boot(_) | Scope::Partition(_), _) => Err(format!("looks at the SMMU at {address:#x}")),
                (_, smmu::IDR0 | smmu::IDR1 | smmu::IDR5) => Ok(Read::Fact),
                (_, smmu::CR0ACK) if has(smmu::CR0_BITS) => {
                    // What firmware left on stays on until a script says otherwise.
                    self.acknowledged = self.registers.get(&smmu::CR0).copied().unwrap_or(smmu::CR0_BITS);
                    Ok(Read::Known(self.acknowledged))
                }
                (_, smmu::IRQ_CTRLACK) if has(smmu::INTERRUPTS) => Ok(Read::Known(self.register(smmu::IRQ_CTRL))),
                (_, smmu::CMDQ_CONS) if has(smmu::COMMANDS_DONE) => {
                    self.done = self.register(smmu::CMDQ_CONS);
                    Ok(Read::Known(self.done))
                }
                _ => Err(format!("looks at {address:#x} of the SMMU, or at too little of it")),
            };
        }
        if let Some((page, offset)) = self.in_configuration(address, scope) {
            return self.read_configuration(page, offset, width, mask);
        }
        match self.behind_bar(address, scope) {
            Some(function) if Some(address) != status_of(function) || mask != 0xff => {
                Err(format!("looks at {address:#x} of {}, which is not all of its status", function.name()))
            }
            Some(function) => {
                let state = self.states.entry(function.plan.configuration.0).or_default();
                state.is_reset |= state.is_resetting;
                Ok(Read::Known(u64::from(!state.is_resetting)))
            }
            None => Err(format!("looks at {address:#x}, which is not its own")),
        }
    }

    fn read_configuration(&mut self, page: u64, offset: u64, width: u64, mask: u64) -> Result<Read, String> {
        let header = self.devices.at(page).map(|function| function.plan.header);
        let state = self.states.entry(page).or_default();
        match offset {
            pci::COMMAND if mask <= 0xffff && width >= 2 => match state.command {
                Some(command) => {
                    // A read that looks at nothing pushes ahead what was written, too.
                    let looks = mask == 0 || mask & pci::MASTER != 0;
                    state.is_quiet |= command & pci::MASTER == 0 && looks;
                    Ok(Read::Known(command))
                }
                // Of what firmware left nothing is known: each bit may be set.
                None => Ok(Read::Known(0xffff)),
            },
            pci::IDENTITY | pci::CLASS => {
                // All but the revision, which a maker may change.
                let all = if offset == pci::CLASS { 0xffff_ff00 } else { 0xffff_ffff };
                if width != 4 || mask & all != all && mask != 0 {
                    return Err(format!("looks at too little of {:#x}", page + offset));
                }
                // The first answer after a function-level reset.
                state.is_reset |= state.is_resetting && offset == pci::IDENTITY && mask != 0;
                let place = (offset / 4) as usize;
                let word = header.and_then(|words| words.get(place).copied());
                if let Some(seen) = state.identity.get_mut(usize::from(offset == pci::CLASS)) {
                    *seen |= mask != 0;
                }
                word.map_or(Ok(Read::Fact), |word| Ok(Read::Known(u64::from(word) & mask)))
            }
            pci::BASE_ADDRESS_0..pci::BASE_ADDRESS_END if width == 4 && offset.is_multiple_of(4) => {
                let place = ((offset - pci::BASE_ADDRESS_0) / 4) as usize;
                Ok(Read::Known(state.bars.get(place).copied().unwrap_or(0)))
            }
            // Whether it is a bridge at all.
            pci::HEADER_TYPE if header.is_none() && width == 1 && mask & pci::TYPE == pci::TYPE => {
                state.is_bridge = true;
                Ok(Read::Fact)
            }
            // The capabilities of a function that is idle.
            pci::CAPABILITIES..pci::EXTENDED if mask & !(pci::PENDING | pci::RESET) == 0 => {
                if width == 2 && mask & pci::PENDING != 0 {
                    state.idle = Some(offset);
                }
                Ok(Read::Known(0))
            }
            _ => Err(format!("looks at {:#x}, a register that no script needs", page + offset)),
        }
    }

    fn write(&mut self, address: u64, width: u64, value: u64, scope: Scope) -> Result<(), String> {
        if let Some(offset) = self.in_smmu(address, width) {
            return match scope {
                Scope::All => self.write_smmu(offset, width, value),
                Scope::Boot(_) | Scope::Partition(_) => Err(format!("writes to the SMMU at {address:#x}")),
            };
        }
        if let Some((page, offset)) = self.in_configuration(address, scope) {
            return self.write_configuration(page, offset, width, value);
        }
        let Some(function) = self.behind_bar(address, scope) else {
            return Err(format!("writes to {address:#x}, which is not its own"));
        };
        let state = self.states.entry(function.plan.configuration.0).or_default();
        let answers =
            state.command.is_some_and(|command| command & pci::MEMORY != 0) && is_in_place(function, &state.bars);
        if width != 1 || value != 0 || Some(address) != status_of(function) || !answers || !state.is_quiet {
            return Err(format!(
                "writes {value:#x} to {address:#x} of {}: no reset of one that is quiet",
                function.name()
            ));
        }
        state.is_resetting = true;
        Ok(())
    }

    fn write_smmu(&mut self, offset: u64, width: u64, value: u64) -> Result<(), String> {
        // What is behind a port masters nothing as long as the port does not.
        let mut on_bus_0 = self.devices.functions.iter().filter(|function| function.plan.stream < STREAMS_OF_A_BUS);
        if let Some(function) = on_bus_0.find(|function| !self.state(function).is_quiet) {
            return Err(format!("sets up the SMMU while {} may be a master of the bus", function.name()));
        }
        if self.is_translating() {
            return Err(String::from("changes the SMMU after it was switched on"));
        }
        let bytes = match offset {
            smmu::STRTAB_BASE | smmu::CMDQ_BASE | smmu::EVENTQ_BASE => 8,
            smmu::CR0 | smmu::CR1 | smmu::CR2 | smmu::IRQ_CTRL | smmu::STRTAB_BASE_CFG => 4,
            smmu::CMDQ_PROD | smmu::CMDQ_CONS | smmu::EVENTQ_PROD | smmu::EVENTQ_CONS => 4,
            _ => return Err(format!("writes to register {offset:#x} of the SMMU, which no script needs")),
        };
        if width != bytes {
            return Err(format!("writes {width} bytes to register {offset:#x} of the SMMU, which has {bytes}"));
        }
        if matches!(offset, smmu::CMDQ_PROD | smmu::CMDQ_CONS) && value >= 2 << smmu::COMMANDS_LOG2 {
            return Err(format!("gives the command queue an index of {value:#x}"));
        }
        self.registers.insert(offset, value);
        let knows = [smmu::CMDQ_PROD, smmu::CMDQ_CONS].iter().all(|index| self.registers.contains_key(index));
        if offset == smmu::CR0 && value & smmu::CMDQEN != 0 && !knows {
            return Err(String::from("lets the SMMU take commands that firmware left"));
        }
        // Tables and queues are taken only while nothing of them is in use, and this is known.
        let is_base = !matches!(offset, smmu::CR0 | smmu::CMDQ_PROD);
        if is_base && self.acknowledged != 0 {
            return Err(format!("writes register {offset:#x} of an SMMU that is not known to be off"));
        }
        if self.is_translating() {
            self.states.values_mut().for_each(|state| state.was_quiet = state.is_quiet);
            if self.forgotten != [true; 2] || self.done != self.register(smmu::CMDQ_PROD) {
                return Err(String::from("switches the SMMU on before it has forgotten what it had"));
            }
        }
        self.consume()
    }

    /// The SMMU takes the commands that it was given.
    fn consume(&mut self) -> Result<(), String> {
        while self.register(smmu::CR0) & smmu::CMDQEN != 0
            && self.register(smmu::CMDQ_CONS) != self.register(smmu::CMDQ_PROD)
        {
            let index = self.register(smmu::CMDQ_CONS);
            let command = (self.commands)(self.register(smmu::CMDQ_BASE), index);
            match command {
                Some(smmu::CFGI_ALL) => self.forgotten[0] = true,
                Some(smmu::TLBI_NSNH_ALL) => self.forgotten[1] = true,
                Some(smmu::SYNC) => {}
                _ => return Err(format!("gives the SMMU command {index}, which is {command:x?}")),
            }
            self.registers.insert(smmu::CMDQ_CONS, (index + 1) % (2 << smmu::COMMANDS_LOG2));
        }
        Ok(())
    }

    fn write_configuration(&mut self, page: u64, offset: u64, width: u64, value: u64) -> Result<(), String> {
        let function = self.devices.at(page);
        let is_translating = self.is_translating() && self.acknowledged == self.register(smmu::CR0);
        let mut behind = self.devices.functions.iter().filter(|function| function.plan.stream >= STREAMS_OF_A_BUS);
        let all_quiet = behind.all(|function| self.state(function).is_quiet);
        let state = self.states.entry(page).or_default();
        match (offset, function) {
            (pci::COMMAND, _) if width == 2 && value & !(pci::MEMORY | pci::MASTER | pci::SILENT) == 0 => {
                let may_master = function.is_none() && state.is_port && state.was_quiet && is_translating && all_quiet;
                if value != 0 && function.is_none() && !state.is_port {
                    return Err(format!("switches something of {page:#x} on, which no plan names"));
                }
                if value & pci::MASTER != 0 && !may_master {
                    return Err(format!("lets {page:#x} master the bus"));
                }
                let moves = function.is_some_and(|function| !is_in_place(function, &state.bars));
                if value & pci::MEMORY != 0 && moves {
                    return Err(format!("lets {page:#x} answer elsewhere than its plan says"));
                }
                // What was pushed ahead stays so only as long as it masters nothing.
                state.is_quiet &= value & pci::MASTER == 0;
                state.command = Some(value);
            }
            _ if function.is_some() && !state.is_quiet => {
                return Err(format!("changes {:#x} before its function is known to be quiet", page + offset));
            }
            (pci::BASE_ADDRESS_0..pci::BASE_ADDRESS_END, Some(_)) if width == 4 && offset.is_multiple_of(4) => {
                let place = ((offset - pci::BASE_ADDRESS_0) / 4) as usize;
                let answers = state.command.is_some_and(|command| command & pci::MEMORY != 0);
                if let Some(bar) = state.bars.get_mut(place) {
                    if answers && *bar != value {
                        return Err(format!("moves {:#x} while its function answers", page + offset));
                    }
                    *bar = value;
                }
            }
            (pci::CAPABILITIES..pci::EXTENDED, Some(function))
                if width == 2
                    && value & pci::RESET != 0
                    && state.idle == Some(offset + 2)
                    && offset == u64::from(function.plan.device_control) =>
            {
                let (command, identity, reset_by) = (Some(0), state.identity, offset);
                let (is_resetting, is_quiet) = (true, true);
                *state = State { command, is_resetting, is_quiet, identity, reset_by, ..State::default() };
            }
            (pci::BUS_NUMBERS..pci::CAPABILITIES, None) if is_translating && state.is_bridge => {
                state.is_port |= offset == pci::BUS_NUMBERS && width == 4 && value == pci::BUS_1;
                let window = pci::WINDOWS.iter().position(|(window, bytes)| (*window, *bytes) == (offset, width));
                if let Some(window) = window.and_then(|place| state.windows.get_mut(place)) {
                    *window = Some(value);
                }
            }
            _ => return Err(format!("writes {value:#x} to {:#x}, a register that no script needs", page + offset)),
        }
        Ok(())
    }
}

/// What the base address registers of a function hold when it is where its plan says; `None` for one that its guest does not see.
pub(crate) fn base_addresses(function: &Function) -> [Option<u64>; MAX_BARS] {
    let mut bars = [None; MAX_BARS];
    for (index, bar) in function.bars() {
        let is_wide = function.plan.header.get(4 + index).is_some_and(|word| word & 6 == 4);
        if let Some(low) = bars.get_mut(index) {
            *low = Some(bar.physical.0 & 0xffff_fff0);
        }
        if let Some(high) = bars.get_mut(index + 1).filter(|_| is_wide) {
            *high = Some(bar.physical.0 >> 32);
        }
    }
    bars
}

/// States whether a function is where its plan says.
pub(crate) fn is_in_place(function: &Function, bars: &[u64; MAX_BARS]) -> bool {
    base_addresses(function).iter().zip(bars).all(|(expected, bar)| expected.is_none_or(|expected| expected == *bar))
}

/// Where the status of a virtio function is, by its capability about common registers (virtio 1.1, 4.1.4.3).
fn status_of(function: &Function) -> Option<u64> {
    const VIRTIO: u32 = 0x1af4;
    const VENDOR_SPECIFIC: u8 = 9;
    const COMMON: u8 = 1;
    const STATUS: u64 = 0x14;
    let bytes: Vec<u8> = function.plan.header.iter().flat_map(|word| word.to_le_bytes()).collect();
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let mut at = usize::from(byte(0x34));
    // A chain has at most as many links as there are words.
    for _ in 0..bytes.len() / 4 {
        if at == 0 || (byte(at), byte(at + 3)) == (VENDOR_SPECIFIC, COMMON) {
            break;
        }
        at = usize::from(byte(at + 1));
    }
    let offset = (0..4).rev().fold(0_u64, |value, place| value << 8 | u64::from(byte(at + 8 + place)));
    let bar = function.plan.bars.get(usize::from(byte(at + 4))).filter(|bar| at != 0 && bar.bytes != 0)?;
    if function.plan.header.first().is_none_or(|identity| identity & 0xffff != VIRTIO) {
        return None;
    }
    bar.physical.0.checked_add(offset)?.checked_add(STATUS)
}
