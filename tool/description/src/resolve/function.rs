//! PCI functions: models, places and interrupt lines, and what their DMA reaches. What is behind them is in [`super::backing`].
//!
//! INTx is a level line that several slots share, and a line has one owner (QV-11), so a slot is chosen by its line: a partition's first
//! function gets a line that nobody has, further ones too while enough is left for the partitions that have none yet.

use super::Resolver;
use super::partition::{is_direct, is_trusted, span};
use crate::code::Code;
use crate::decode::Located;
use crate::description::{OnFault, Partition};
use crate::diagnostic::Diagnostic;
use crate::host::HostSide;
use crate::pci::{PciFunction, Reach, Region};
use crate::source::Span;
use crate::suggest;
use bulkhead_abi::{PAGE_BYTES, PhysicalAddress};
use bulkhead_guest_abi::guest::GUEST_ECAM;
use bulkhead_plan::devices::bars;
use bulkhead_plan::model::{self, PciHost, PciModel, PciReset};

/// Bytes of configuration space of a device: eight functions.
const DEVICE_BYTES: u64 = 1 << 15;
/// Lines of a host bridge.
const LINES: u32 = 4;

/// Resolved functions, and what is behind each on the host.
pub(super) type Functions = (Vec<model::PciFunction>, Vec<HostSide>);

/// What is decided of a function before images are read: model, owner and slot; whether it is behind the root port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) model: usize,
    pub(super) partition: usize,
    slot: u32,
    is_behind: bool,
}

/// A function whose model and owner are known.
struct Wanted<'d> {
    written: &'d Located<PciFunction>,
    model: usize,
    partition: usize,
    /// Slot that decides about its line; for one behind the root port that of the port.
    slot: Option<u32>,
    is_behind: bool,
}

impl Resolver<'_> {
    /// Resolves the functions of all partitions; `None` if one cannot be.
    pub(super) fn functions(&mut self, partitions: &[Option<model::Partition>]) -> Option<Functions> {
        let description = self.description;
        for (written, partition) in description.partition.iter().zip(partitions) {
            self.regions(written, partition.as_ref());
        }
        if description.pci.is_empty() {
            return Some(Functions::default());
        }
        let host = self.board.board.pci.clone()?;
        let behind = self.backings(&host);
        let places = self.places.take()?;
        let reaches: Vec<_> = description
            .pci
            .iter()
            .zip(&places)
            .map(|(written, place)| self.reach(written, *place, &host, partitions))
            .collect();
        let functions = description.pci.iter().zip(places).zip(reaches).map(|((written, place), reach)| {
            Some(model::PciFunction { name: written.name.value.clone(), reach: reach?, ..place.function(&host) })
        });
        Some((functions.collect::<Option<_>>()?, behind?))
    }

    /// Decides the places of all functions; `None` if one has none.
    pub(super) fn function_places(&mut self) -> Option<Vec<Place>> {
        let description = self.description;
        let Some(first) = description.pci.first() else { return Some(Vec::new()) };
        let Some(host) = self.board.board.pci.clone() else {
            let message = format!("board `{}` has no PCI functions to give", self.board.board.name);
            let diagnostic = Diagnostic::new(Code::NoHostBridge, message).at(first.span, "");
            let why = "a board file says in `[pci]` and `[[pci_model]]` what there can be";
            self.push(diagnostic.at(description.board.span, "its file has no table `[pci]`").note(why));
            return None;
        };
        let wanted: Vec<_> = description.pci.iter().map(|written| self.wanted(written, &host)).collect();
        let mut wanted = wanted.into_iter().collect::<Option<Vec<_>>>()?;
        self.fixed(&wanted, &host)?;
        self.choose(&mut wanted, &host)?;
        let place = |one: &Wanted<'_>| {
            Some(Place { model: one.model, partition: one.partition, slot: one.slot?, is_behind: one.is_behind })
        };
        wanted.iter().map(place).collect()
    }

    /// The functions of a partition as its guest finds them, for an instance of the kernel.
    pub(super) fn guest_functions(&self, partition: usize) -> Vec<crate::kernel::Function> {
        let (Some(places), Some(host)) = (&self.places, &self.board.board.pci) else { return Vec::new() };
        let functions: Vec<_> = places.iter().map(|place| place.function(host)).collect();
        let registers = bars::guest_places(&host.models, &functions, partition).unwrap_or_default();
        let own = functions.iter().zip(&self.description.pci).enumerate();
        let own = own.filter(|(_, (function, _))| function.partition == partition).enumerate();
        own.filter_map(|(number, (index, (function, written)))| {
            let mut of_it = registers.iter().filter(|((one, _), _)| *one == index);
            let ((_, register), start) = of_it.next()?;
            let model = host.models.get(function.model)?;
            let (offset, bytes) = *bars::reached(model, *register, model.bars.get(*register)?.bytes).first()?;
            Some(crate::kernel::Function {
                name: written.name.value.clone(),
                intid: function.interrupt,
                // Native guests have no other functions: it has its number among the partition's, behind the bridge, which is device 0.
                configuration: GUEST_ECAM.0 + (number as u64 + 1) * DEVICE_BYTES,
                registers: (start.0 + offset, bytes),
                reaches_all: written.dma.as_ref().is_some_and(|dma| matches!(dma.value, Reach::Promise(_))),
            })
        })
        .collect()
    }

    /// Finds model and owner of a function, and the place that it must have.
    fn wanted<'d>(&mut self, written: &'d Located<PciFunction>, host: &PciHost) -> Option<Wanted<'d>> {
        let model = self.model(&written.model, host);
        let partition = self.owner(&written.partition);
        let (model, partition) = (model?, partition?);
        let facts = host.models.get(model)?;
        self.restartable(written, facts, partition);
        let slot = if facts.is_behind_root_port {
            self.does_not_apply(span(&written.slot), "slot", "a model behind the root port, where there is one place");
            host.root_port
        } else if let Some(slot) = &written.slot {
            let number = u32::try_from(slot.value).ok().filter(|number| host.slots.contains(number));
            if number.is_none() {
                let message = format!("functions cannot have slot {}", slot.value);
                let slots: Vec<String> = host.slots.iter().map(u32::to_string).collect();
                let help = format!("the board's slots for functions are {}", suggest::list(&slots));
                self.push(Diagnostic::new(Code::NoPlace, message).at(slot.span, "").help(help));
            }
            Some(number?)
        } else {
            None
        };
        Some(Wanted { written, model, partition, slot, is_behind: facts.is_behind_root_port })
    }

    fn model(&mut self, name: &Located<String>, host: &PciHost) -> Option<usize> {
        let found = host.models.iter().position(|model| model.name == name.value);
        if found.is_none() {
            let known: Vec<&str> = host.models.iter().map(|model| model.name.as_str()).collect();
            let message = format!("board `{}` has no model `{}`", self.board.board.name, name.value);
            self.unknown_word(Code::UnknownModel, message, name, &known, "its models");
        }
        found
    }

    fn owner(&mut self, name: &Located<String>) -> Option<usize> {
        let description = self.description;
        let found = description.partition.iter().position(|partition| partition.name.value == name.value);
        if found.is_none() {
            let known: Vec<&str> = description.partition.iter().map(|one| one.name.value.as_str()).collect();
            let message = format!("there is no partition `{}`", name.value);
            self.unknown_word(Code::UnknownOwner, message, name, &known, "the partitions");
        }
        found
    }

    /// Reports a name that nothing has.
    fn unknown_word(&mut self, code: Code, message: String, name: &Located<String>, known: &[&str], what: &str) {
        let diagnostic = Diagnostic::new(code, message).at(name.span, "");
        self.push(match suggest::closest(name, known.iter().copied()) {
            Some(meant) => diagnostic.suggest(name.span, format!("\"{meant}\""), format!("did you mean `{meant}`?")),
            None if known.is_empty() => diagnostic.help("there is none"),
            None => diagnostic.help(format!("{what} are {}", suggest::list(known))),
        });
    }

    /// Refuses a function that nothing resets, for a partition that can be started again.
    fn restartable(&mut self, written: &PciFunction, model: &PciModel, partition: usize) {
        let description = self.description;
        let Some(owner) = description.partition.get(partition).filter(|_| model.reset == PciReset::None) else {
            return;
        };
        let restarts = owner.health.as_ref().filter(|health| health.on_fault.value == OnFault::Restart);
        let is_manageable = !is_direct(owner) || self.is_kicked(owner);
        let others = description.partition.iter().enumerate();
        let others = others.filter(|(index, _)| *index != partition && is_manageable).map(|(_, other)| other);
        let mut managers = others.filter_map(|other| other.manages.as_ref().filter(|state| state.value));
        let again = match (restarts, managers.next()) {
            (Some(health), _) => (health.on_fault.span, "it is started again here"),
            (None, Some(state)) => (state.span, "this one may start it again"),
            (None, None) => return,
        };
        let (name, owner) = (&written.name.value, &owner.name.value);
        let message = format!("nothing resets function `{name}` when partition `{owner}` starts again");
        let diagnostic =
            Diagnostic::new(Code::FunctionWithoutReset, message).at(written.model.span, "a model without a reset");
        let why = "what the function still does for the old guest would change memory of the new one";
        let help = "choose a model with a reset, or a partition that is started once";
        self.push(diagnostic.at(again.0, again.1).note(why).help(help));
    }

    /// Checks the places that are not chosen here: none has two functions, no line two owners.
    fn fixed(&mut self, wanted: &[Wanted<'_>], host: &PciHost) -> Option<()> {
        let mut is_good = true;
        for (index, one) in wanted.iter().enumerate() {
            let Some(slot) = one.slot else { continue };
            let before = wanted.get(..index).unwrap_or_default();
            let place = place_of(one);
            if let Some(other) =
                before.iter().find(|other| other.slot == Some(slot) && other.is_behind == one.is_behind)
            {
                let (code, message) = match one.is_behind {
                    true => (Code::NoPlace, String::from("there is one place behind the root port")),
                    false => (Code::PlaceTwice, format!("slot {slot} is given twice")),
                };
                let diagnostic = Diagnostic::new(code, message).at(place, format!("to `{}`", one.written.name.value));
                self.push(diagnostic.at(place_of(other), format!("and to `{}`", other.written.name.value)));
                is_good = false;
            } else if let Some(other) = before.iter().find(|other| {
                other.partition != one.partition
                    && other.slot.is_some_and(|taken| line(host, taken) == line(host, slot))
            }) {
                self.shared_line(one, other, wanted, host);
                is_good = false;
            }
        }
        is_good.then_some(())
    }

    /// Reports a line of two partitions, with the slots whose lines the later one could have.
    fn shared_line(&mut self, one: &Wanted<'_>, other: &Wanted<'_>, wanted: &[Wanted<'_>], host: &PciHost) {
        let line_of = |slot: u32| line(host, slot);
        let intid = one.slot.map_or(host.first_interrupt, line_of);
        let message = format!("functions of two partitions have the interrupt line {intid}");
        let is_free = |slot: &&u32| {
            let is_other = |wanted: &Wanted<'_>| wanted.slot.is_some_and(|taken| line_of(taken) == line_of(**slot));
            let is_taken = |wanted: &Wanted<'_>| wanted.slot == Some(**slot) && !wanted.is_behind;
            !wanted.iter().any(|wanted| is_taken(wanted) || wanted.partition != one.partition && is_other(wanted))
        };
        let slots: Vec<String> = host.slots.iter().filter(is_free).map(u32::to_string).collect();
        let help = match slots.as_slice() {
            [] => String::from("every line has an owner: give the function to one of them, or leave it out"),
            slots => format!("slots that would do: {}; or leave `slot` out", suggest::list(slots)),
        };
        let diagnostic = Diagnostic::new(Code::SharedLine, message)
            .at(place_of(one), format!("of `{}`", self.partition_name(one.partition)))
            .at(place_of(other), format!("of `{}`", self.partition_name(other.partition)))
            .note("an interrupt has one owner; a shared line would let one partition mask the other's, or hold it up");
        self.push(diagnostic.help(help));
    }

    /// Gives the other functions their slots.
    fn choose(&mut self, wanted: &mut [Wanted<'_>], host: &PciHost) -> Option<()> {
        let mut owners = [None; LINES as usize];
        for one in wanted.iter() {
            if let Some(owner) = one.slot.and_then(|slot| owners.get_mut((slot % LINES) as usize)) {
                *owner = Some(one.partition);
            }
        }
        for index in 0..wanted.len() {
            let (one, rest) = (wanted.get(index)?, wanted.get(index..)?);
            if one.slot.is_some() {
                continue;
            }
            let partition = one.partition;
            let mut waiting: Vec<usize> =
                rest.iter().filter(|one| one.slot.is_none()).map(|one| one.partition).collect();
            waiting.retain(|other| *other != partition && !owners.contains(&Some(*other)));
            waiting.sort_unstable();
            waiting.dedup();
            let nobodys = owners.iter().filter(|owner| owner.is_none()).count();
            let is_free = |slot: &&u32| !wanted.iter().any(|one| one.slot == Some(**slot) && !one.is_behind);
            let owner = |slot: u32| owners.get((slot % LINES) as usize).copied().flatten();
            let mut free = host.slots.iter().filter(is_free).copied();
            let mut own = free.clone().filter(|slot| owner(*slot) == Some(partition));
            let is_first = !owners.contains(&Some(partition));
            let new = free.find(|slot| owner(*slot).is_none()).filter(|_| is_first || nobodys > waiting.len());
            let Some(slot) = new.or_else(|| own.next()) else {
                let span = one.written.name.span;
                self.no_place(partition, span, host);
                return None;
            };
            *owners.get_mut((slot % LINES) as usize)? = Some(partition);
            wanted.get_mut(index)?.slot = Some(slot);
        }
        Some(())
    }

    fn no_place(&mut self, partition: usize, place: Span, host: &PciHost) {
        let message =
            format!("the board has no place for this function of partition `{}`", self.partition_name(partition));
        let why = format!("{} slots share {LINES} interrupt lines, and a line has one owner", host.slots.len());
        let help = "give functions to fewer partitions, or fewer functions to this one";
        self.push(Diagnostic::new(Code::NoPlace, message).at(place, "the first one too many").note(why).help(help));
    }

    /// Checks the named regions of a partition.
    fn regions(&mut self, written: &Partition, partition: Option<&model::Partition>) {
        for region in &written.region {
            let Some(bytes) = self.size(&region.size) else { continue };
            let address = &region.guest_address;
            let is_aligned = self.aligned(address.value, PAGE_BYTES, address.span, "a region's address").is_some();
            let is_whole = self.aligned(bytes, PAGE_BYTES, region.size.span, "the size of a region").is_some();
            let Some(ram) = partition.filter(|ram| is_aligned && is_whole && ram.memory_bytes != 0) else { continue };
            let ram_end = ram.guest_ram.0.saturating_add(ram.memory_bytes);
            let is_inside =
                address.value >= ram.guest_ram.0 && address.value.checked_add(bytes).is_some_and(|end| end <= ram_end);
            if bytes == 0 || !is_inside {
                let message = format!("region `{}` is outside the RAM of partition `{}`", region.name.value, ram.name);
                let label = format!("expected pages within {:#x} to {ram_end:#x}", ram.guest_ram.0);
                self.push(Diagnostic::new(Code::RegionOutside, message).at(region.span, label));
            }
        }
    }

    /// Resolves what the DMA of a function reaches.
    fn reach(
        &mut self,
        written: &Located<PciFunction>,
        one: Place,
        host: &PciHost,
        partitions: &[Option<model::Partition>],
    ) -> Option<model::Reach> {
        let model = host.models.get(one.model)?;
        if !model.is_confined {
            return self.unconfined(written, one);
        }
        let owner = partitions.get(one.partition).and_then(Option::as_ref);
        let components = match owner.map(|owner| &owner.image) {
            Some(model::GuestImage::Kernel { components, .. }) => Some(components.as_slice()),
            _ => None,
        };
        let names = match written.dma.as_ref().map(|dma| (&dma.value, components)) {
            None if components.is_some() => {
                self.reaches_kernel(written, one);
                return None;
            }
            None => return Some(model::Reach::Partition),
            Some((Reach::Promise(_), Some(_))) => {
                let name = self.partition_name(one.partition).to_owned();
                let message = format!("function `{}` can write the kernel of `{name}`", written.name.value);
                let place = written.dma.as_ref().map_or(written.span, |dma| dma.span);
                self.push(Diagnostic::new(Code::ComponentDma, message).at(place, "its driver is trusted with it"));
                return Some(model::Reach::Partition);
            }
            Some((Reach::Promise(_), None)) => {
                let beside = format!("model `{}`, which the SMMU confines", model.name);
                self.does_not_apply(span(&written.dma), "dma = \"trusted\"", &beside);
                return None;
            }
            Some((Reach::Regions(names), _)) => names,
        };
        let regions = &self.description.partition.get(one.partition)?.region;
        let mut banks = Vec::new();
        for name in names {
            if let Some(components) = components {
                banks.push(self.dma_pages_of(written, name, components, regions)?);
                continue;
            }
            let Some(region) = regions.iter().find(|region| region.name.value == name.value) else {
                let known: Vec<&str> = regions.iter().map(|region| region.name.value.as_str()).collect();
                let message =
                    format!("partition `{}` has no region `{}`", self.partition_name(one.partition), name.value);
                self.unknown_word(Code::UnknownRegion, message, name, &known, "its regions");
                return None;
            };
            // A bad size was reported with the region.
            let bytes = crate::unit::parse_size(&region.size.value.0).ok()?;
            banks.push(model::Bank { start: PhysicalAddress(region.guest_address.value), bytes });
        }
        Some(model::Reach::Regions(joined(banks)))
    }

    /// Refuses a function of an instance whose DMA is not said to be a component's.
    fn reaches_kernel(&mut self, written: &Located<PciFunction>, one: Place) {
        let (name, owner) = (&written.name.value, self.partition_name(one.partition));
        let message = format!("the DMA of function `{name}` reaches the memory of the kernel of `{owner}`");
        let diagnostic = Diagnostic::new(Code::FunctionReachesKernel, message)
            .at(written.name.span, "nothing says what it may reach")
            .note("by itself a function reaches all RAM of its partition: the kernel, its tables and every component");
        self.push(diagnostic.help(
            "give its driver `dma_bytes = \"64 KiB\"`, and write `dma = [\"COMPONENT\"]` here; or `dma = \"trusted\"`",
        ));
    }

    /// The pages of a component of an instance for DMA, which it has for a function that it drives. A region of the partition is no component's: it lies in the kernel, or in somebody's memory.
    fn dma_pages_of(
        &mut self,
        written: &Located<PciFunction>,
        name: &Located<String>,
        components: &[model::Component],
        regions: &[Located<Region>],
    ) -> Option<model::Bank> {
        let function = &written.name.value;
        let trouble = match components.iter().find(|component| component.name == name.value) {
            Some(component) if component.dma.is_none() => "this component has no pages for it",
            Some(component) if !component.devices.contains(function) => "this component does not drive it",
            Some(component) => return component.dma,
            None if regions.iter().any(|region| region.name.value == name.value) => "this region is no component's",
            None => {
                let known: Vec<&str> = components.iter().map(|component| component.name.as_str()).collect();
                let message = format!("there is no component `{}`", name.value);
                self.unknown_word(Code::UnknownRegion, message, name, &known, "the components");
                return None;
            }
        };
        let message = format!("function `{function}` cannot have pages of `{}` for DMA", name.value);
        let diagnostic = Diagnostic::new(Code::DmaPages, message).at(name.span, trouble);
        let help = format!("of the driver: `devices = [\"{function}\"]` and `dma_bytes = \"64 KiB\"`");
        self.push(diagnostic.help(help));
        None
    }

    /// A function that nothing confines: for a trusted partition alone, and a hazard.
    fn unconfined(&mut self, written: &Located<PciFunction>, one: Place) -> Option<model::Reach> {
        let owner = self.description.partition.get(one.partition)?;
        let (name, model) = (&written.name.value, &written.model);
        let why =
            "it can read and write any RAM of the machine, the monitor's included, whatever the translation tables say";
        let dma = written.dma.as_ref();
        if let Some(dma) = dma.filter(|dma| matches!(dma.value, Reach::Regions(_))) {
            let message = format!("nothing confines the DMA of function `{name}` to regions");
            let diagnostic = Diagnostic::new(Code::NothingConfines, message).at(dma.span, "");
            self.push(diagnostic.at(model.span, "no SMMU stands in front of it").note(why));
            return None;
        }
        if !is_trusted(owner) {
            let message = format!(
                "function `{name}` has DMA that nothing can confine, and partition `{}` is not trusted",
                owner.name.value
            );
            let diagnostic = Diagnostic::new(Code::DmaUntrustedPartition, message).at(model.span, "");
            self.push(diagnostic.at(owner.name.span, "nothing is promised of this guest").note(why));
            return None;
        }
        if dma.is_none() {
            let message = format!("function `{name}` can write memory by itself");
            let diagnostic =
                Diagnostic::new(Code::DmaNotTrusted, message).at(model.span, "its DMA is not confined").note(why);
            self.push(diagnostic.help("if you trust the guest that drives it, add `dma = \"trusted\"`"));
            return None;
        }
        let message = format!("nothing confines the DMA of function `{name}`");
        let note =
            format!("the isolation of this system rests on the good behaviour of partition `{}`", owner.name.value);
        let diagnostic = Diagnostic::new(Code::DmaHazard, message);
        self.push(diagnostic.at(model.span, "accepted because it is declared trusted").note(note));
        Some(model::Reach::Everything)
    }
}

impl Place {
    /// A function of this place, without its name; it reaches its partition.
    fn function(self, host: &PciHost) -> model::PciFunction {
        model::PciFunction {
            name: String::new(),
            model: self.model,
            partition: self.partition,
            bus: u32::from(self.is_behind),
            device: if self.is_behind { 0 } else { self.slot },
            interrupt: line(host, self.slot),
            reach: model::Reach::Partition,
        }
    }
}

/// The line of a slot's INTA.
fn line(host: &PciHost, slot: u32) -> u32 {
    host.first_interrupt + slot % LINES
}

/// Where it is written what place a function has.
fn place_of(one: &Wanted<'_>) -> Span {
    one.written.slot.as_ref().filter(|_| !one.is_behind).map_or(one.written.model.span, |slot| slot.span)
}

/// Pages by address, each once.
fn joined(mut banks: Vec<model::Bank>) -> Vec<model::Bank> {
    banks.sort_unstable_by_key(|bank| bank.start);
    let mut joined: Vec<model::Bank> = Vec::new();
    for bank in banks {
        match joined.last_mut() {
            Some(last) if bank.start.0 <= last.end() => last.bytes = last.end().max(bank.end()) - last.start.0,
            _ => joined.push(bank),
        }
    }
    joined
}
