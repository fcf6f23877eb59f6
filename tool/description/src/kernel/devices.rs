//! Devices of components: registers that one component has for itself.

use super::file::Component;
use super::resolve::Resolver;
use crate::code::Code;
use crate::decode::Located;
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::unit::format_size;
use bulkhead_abi::PAGE_BYTES;
use bulkhead_guest_abi::guest::{GUEST_DEVICES, GUEST_PCI_DEVICES, GUEST_UART};
use bulkhead_instance::{Device, device_addresses};
use bulkhead_kernel_abi::image::{COMPONENT_DMA, COMPONENT_DMA_END, DEVICE_SIGNATURE, PortUse};
use bulkhead_plan::maps::{guest_address, pages_of_devices};
use bulkhead_plan::model::{BoardDevice, BoardInterrupt, BoardUart, Limiter};

/// What is around an instance.
pub(crate) struct Around {
    /// Whose devices they are, for a sentence.
    owner: String,
    /// Devices that there are.
    pub(super) devices: Vec<Known>,
    /// Ends of channels; `None` on the board, which has none.
    pub(super) ports: Option<Vec<KnownPort>>,
    /// Frequency of the counter.
    pub(super) counter_hz: u64,
}

/// An end of a channel of the partition.
#[derive(Clone, Debug)]
pub(crate) struct KnownPort {
    pub(crate) name: String,
    /// The partition writes it.
    pub(crate) is_source: bool,
    /// Which end it is, and of which kind.
    pub(crate) does: PortUse,
    /// Payload bytes of a message.
    pub(crate) message_bytes: u32,
    /// Slots.
    pub(crate) slots: u32,
    /// Address of the channel's window.
    pub(crate) window: u64,
    /// What the doorbell of a source is called by.
    pub(crate) doorbell: Option<u32>,
    /// INTID of the doorbell at a destination.
    pub(crate) intid: Option<u32>,
    /// What limits that doorbell.
    pub(crate) rings: Rings,
    /// Of a source: what an instance at the other end exports.
    pub(crate) exports: Option<super::wires::Exports>,
}

/// How often the monitor lets the doorbell at a destination ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rings {
    /// There is none, or a limit that cannot be, which is reported where channels are.
    Never,
    /// By a limiter of its own.
    Own(Limiter),
    /// By one limiter for all doorbells to the partition.
    Together(Limiter),
    /// As often as the other side likes.
    Unlimited,
}

/// A device of what is around an instance.
pub(super) struct Known {
    pub(super) name: String,
    /// Interrupts that the instance gets of it.
    pub(super) interrupts: Vec<BoardInterrupt>,
    /// Where its registers are for the kernel.
    address: u64,
    bytes: u64,
    /// It writes memory by itself, which nobody has said of it yet.
    dma: bool,
    /// Its driver is trusted with all memory that it writes by itself.
    reaches_all: bool,
    /// The kernel prints with it.
    is_console: bool,
}

/// What the description of an instance calls the UART that the kernel prints with on the board.
const CONSOLE: &str = "uart";

impl Around {
    /// A partition, with its devices and those of their interrupts that it gets.
    pub(crate) fn partition(
        name: &str,
        devices: &[(&BoardDevice, Vec<BoardInterrupt>)],
        functions: &[Function],
        ports: Vec<KnownPort>,
        counter_hz: u64,
    ) -> Self {
        let pages = pages_of_devices(devices.iter().map(|(device, _)| *device));
        let known = |(device, interrupts): &(&BoardDevice, Vec<BoardInterrupt>)| Known {
            address: guest_address(&pages, device.address),
            ..Known::new(device, interrupts.clone())
        };
        let devices = devices.iter().map(known).chain(functions.iter().flat_map(Known::function)).collect();
        Self { owner: format!("partition `{name}`"), devices, ports: Some(ports), counter_hz }
    }

    /// The bare board. The UART that the kernel prints with can be driven by a component as well; in a partition the kernel has another console.
    pub(crate) fn board(devices: &[BoardDevice], uart: Option<&BoardUart>, counter_hz: u64) -> Self {
        let own = uart.filter(|uart| uart.address.0 == GUEST_UART.0).map(|uart| Known {
            name: String::from(CONSOLE),
            interrupts: vec![BoardInterrupt { intid: uart.intid, edge: false }],
            address: uart.address.0,
            bytes: PAGE_BYTES,
            dma: false,
            reaches_all: false,
            is_console: true,
        });
        let devices = devices.iter().map(|device| Known::new(device, device.interrupts.clone())).chain(own).collect();
        Self { owner: String::from("the board"), devices, ports: None, counter_hz }
    }

    /// A port by its name.
    pub(super) fn port(&self, name: &str) -> Option<&KnownPort> {
        self.ports.as_ref()?.iter().find(|known| known.name == name)
    }

    /// Whose devices they are.
    pub(super) fn owner(&self) -> &str {
        &self.owner
    }
}

/// A PCI function of a partition, as its guest finds it.
pub(crate) struct Function {
    /// Its name.
    pub(crate) name: String,
    /// Its interrupt line.
    pub(crate) intid: u32,
    /// Its page of configuration space.
    pub(crate) configuration: u64,
    /// What is behind its first base address register that the guest sees: address and bytes.
    pub(crate) registers: (u64, u64),
    /// Its driver is trusted with all memory that it reaches by itself.
    pub(crate) reaches_all: bool,
}

/// What is behind the name of a function, for the page of its configuration space.
const CONFIGURATION: &str = ".config";

impl Known {
    /// A function is two devices: what is behind its register, and its configuration space. What its DMA reaches is looked at where that is described.
    fn function(function: &Function) -> [Self; 2] {
        let (address, bytes) = function.registers;
        let interrupts = vec![BoardInterrupt { intid: function.intid, edge: false }];
        let known = |name: String, interrupts, (address, bytes)| Self {
            name,
            interrupts,
            address,
            bytes,
            dma: false,
            reaches_all: function.reaches_all,
            is_console: false,
        };
        let configuration = format!("{}{CONFIGURATION}", function.name);
        [
            known(function.name.clone(), interrupts, (address, bytes)),
            known(configuration, Vec::new(), (function.configuration, PAGE_BYTES)),
        ]
    }

    fn new(device: &BoardDevice, interrupts: Vec<BoardInterrupt>) -> Self {
        let BoardDevice { name, address, bytes, dma, .. } = device;
        let (dma, reaches_all) = (*dma, *dma);
        Self { name: name.clone(), interrupts, address: address.0, bytes: *bytes, dma, reaches_all, is_console: false }
    }

    /// States whether its registers are pages of their own, among the addresses that a guest has for devices.
    fn is_apart(&self) -> bool {
        let is_whole = |bytes: u64| bytes.is_multiple_of(PAGE_BYTES);
        let end = self.address.saturating_add(self.bytes);
        is_whole(self.address)
            && is_whole(self.bytes)
            && self.bytes > 0
            && (self.is_console
                || GUEST_DEVICES.contains(&self.address) && end <= GUEST_DEVICES.end
                || GUEST_PCI_DEVICES.contains(&self.address) && end <= GUEST_PCI_DEVICES.end
                || self.name.ends_with(CONFIGURATION))
    }
}

/// The devices of every component, by its number.
pub(super) struct Devices(Vec<Vec<Device>>);

impl Devices {
    /// What the writer takes.
    pub(super) fn of(&self, component: usize) -> Vec<Device> {
        self.0.get(component).cloned().unwrap_or_default()
    }
}

impl Resolver<'_> {
    /// Resolves the devices of every component: each is there, has pages of its own, and is one component's.
    pub(super) fn devices(&mut self) -> Devices {
        let file = self.file;
        let mut owners: Vec<(&str, &Located<String>)> = Vec::new();
        let mut all = Vec::new();
        for component in &file.component {
            let mut own = Vec::new();
            for name in &component.devices {
                if let Some((owner, first)) = owners.iter().find(|(_, other)| other.value == name.value) {
                    let message = format!("device `{}` is given twice", name.value);
                    let diagnostic = Diagnostic::new(Code::ComponentDeviceTwice, message)
                        .at(name.span, "a second time")
                        .at(first.span, format!("it is `{owner}`'s"));
                    self.push(diagnostic.help("let one of them drive it, and the other one call that one"));
                } else {
                    owners.push((component.name.as_str(), name));
                }
                own.extend(self.device(component, name));
                let configuration = format!("{}{CONFIGURATION}", name.value);
                if self.around.devices.iter().any(|known| known.name == configuration) {
                    own.extend(self.device(component, &Located { value: configuration, span: name.span }));
                }
            }
            all.push(own);
        }
        Devices(all)
    }

    fn device(&mut self, component: &Component, name: &Located<String>) -> Option<Device> {
        let Some(known) = self.around.devices.iter().find(|known| known.name == name.value) else {
            let message = format!("`{}` is no device of {}", name.value, self.around.owner());
            let known: Vec<&str> = self.around.devices.iter().map(|known| known.name.as_str()).collect();
            self.unknown(Code::ComponentDevice, message, name.span, name, &known);
            return None;
        };
        let Known { name: called, address: physical, bytes, reaches_all, .. } = known;
        let device = Device { name: called.clone(), physical: *physical, bytes: *bytes, reaches_all: *reaches_all };
        if !known.is_apart() {
            let message = format!("the registers of `{}` cannot be one component's alone", name.value);
            let label = format!("{} at {:#x}", format_size(known.bytes), known.address);
            let diagnostic = Diagnostic::new(Code::ComponentDevicePage, message).at(name.span, label);
            self.push(
                diagnostic.note("a component has whole pages of 4 KiB, and in these there are registers of others"),
            );
            return None;
        }
        if known.is_console {
            let message = format!("component `{}` drives the UART that the kernel prints with", component.name.value);
            let diagnostic = Diagnostic::new(Code::ConsoleDriven, message)
                .at(name.span, "what both write is mixed, byte by byte")
                .note(
                    "a driver that stops the UART holds the kernel up for as long as it looks for room, at each byte",
                );
            self.push(diagnostic.help(
                "let only this component write; the kernel prints for `print` and for faults without a supervisor",
            ));
        }
        if known.dma {
            let whose = if self.around.ports.is_some() { "of the partition" } else { "of the machine" };
            let message = format!(
                "component `{}` can write all memory {whose} by its device `{}`",
                component.name.value, name.value
            );
            let diagnostic = Diagnostic::new(Code::ComponentDma, message).at(name.span, "writes memory by itself");
            self.push(
                diagnostic
                    .note("the kernel's as well: nothing is between the device and memory that knows of components"),
            );
        }
        Some(device)
    }

    /// Bytes of a component's pages for DMA; what cannot be is reported.
    pub(super) fn dma_bytes(&mut self, component: usize) -> u64 {
        let written = self.file.component.get(component).and_then(|one| one.dma_bytes.as_ref());
        written.and_then(|size| crate::unit::parse_size(&size.value.0).ok()).unwrap_or(0)
    }

    /// States whether a component has pages for DMA, which its program asks for by a name.
    pub(super) fn has_dma(&mut self, component: &Component, import: &str) -> bool {
        if component.dma_bytes.is_none() {
            let message =
                format!("the program of component `{}` wants pages for DMA (`{import}`)", component.name.value);
            let diagnostic = Diagnostic::new(Code::DmaPages, message).at(component.program.span, "and has none");
            self.push(diagnostic.help("for example `dma_bytes = \"64 KiB\"`"));
        }
        component.dma_bytes.is_some()
    }

    /// Looks at the pages for DMA of every component.
    pub(super) fn dma_pages(&mut self) {
        let file = self.file;
        for size in file.component.iter().filter_map(|component| component.dma_bytes.as_ref()) {
            let Some(bytes) = self.size(size) else { continue };
            let most = COMPONENT_DMA_END - COMPONENT_DMA;
            if bytes == 0 || !bytes.is_multiple_of(PAGE_BYTES) || bytes > most {
                let message = format!("a component cannot have {} for DMA", format_size(bytes));
                let label = format!("expected whole pages of 4 KiB, at most {}", format_size(most));
                let nearest = format_size(bytes.clamp(PAGE_BYTES, most).next_multiple_of(PAGE_BYTES));
                let diagnostic = Diagnostic::new(Code::DmaPages, message).at(size.span, label);
                self.push(diagnostic.suggest(size.span, format!("\"{nearest}\""), "the next size that works"));
            }
        }
    }

    /// Where a component finds the registers of what `device:NAME` names.
    pub(super) fn registers(
        &mut self,
        component: usize,
        target: &Located<String>,
        signature: u64,
        devices: &Devices,
    ) -> Option<u64> {
        let Some(name) = target.strip_prefix("device:").filter(|_| signature == DEVICE_SIGNATURE) else {
            let (what, help) = match signature == DEVICE_SIGNATURE {
                true => ("a device, and is bound to something else", "write \"device:NAME\""),
                false => ("a function, and is bound to a device", "a program names a device by `devices!` of the SDK"),
            };
            let message = format!("what the program calls so is {what}");
            self.push(Diagnostic::new(Code::BadBinding, message).at(target.span, "").help(help));
            return None;
        };
        let own = devices.0.get(component).map_or(&[][..], Vec::as_slice);
        let found = device_addresses(own).zip(own).find(|(_, device)| device.name == name).map(|(address, _)| address);
        if found.is_none() {
            let known: Vec<&str> = own.iter().map(|device| device.name.as_str()).collect();
            let message = format!("the component has no device `{name}`");
            self.unknown_part(Code::ComponentDevice, message, (target.span, "\"device:", "\""), name, &known);
        }
        found
    }

    /// States whether a component may have the interrupt of a device: it has the device.
    pub(super) fn drives(&mut self, component: &Component, name: &str, span: Span) -> bool {
        let has = component.devices.iter().any(|device| device.value == name);
        if !has {
            let message =
                format!("component `{}` has the interrupt of `{name}` and not its registers", component.name.value);
            let diagnostic = Diagnostic::new(Code::InterruptWithoutDevice, message).at(span, "could never be served");
            self.push(diagnostic.help(format!("add `devices = [\"{name}\"]`")));
        }
        has
    }
}
