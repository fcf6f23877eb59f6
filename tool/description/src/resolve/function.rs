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
use crate::pci::{PciFunction, Reach};
use crate::source::Span;
use crate::suggest;
use bulkhead_abi::{PAGE_BYTES, PhysicalAddress};
use bulkhead_plan::model::{self, PciHost, PciModel, PciReset};

/// Lines of a host bridge.
const LINES: u32 = 4;

/// Resolved functions, and what is behind each on the host.
pub(super) type Functions = (Vec<model::PciFunction>, Vec<HostSide>);

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
        let first = match description.pci.first() {
            None => return Some(Functions::default()),
            Some(first) => first,
        };
        let Some(host) = self.board.board.pci.clone() else {
            let message = format!("board `{}` has no PCI functions to give", self.board.board.name);
            let diagnostic = Diagnostic::new(Code::NoHostBridge, message).at(first.span, "");
            let why = "a board file says in `[pci]` and `[[pci_model]]` what there can be";
            self.push(diagnostic.at(description.board.span, "its file has no table `[pci]`").note(why));
            return None;
        };
        let wanted: Vec<_> = description.pci.iter().map(|written| self.wanted(written, &host)).collect();
        let reaches: Vec<_> = wanted.iter().map(|one| one.as_ref().and_then(|one| self.reach(one, &host))).collect();
        let behind = self.backings(&host);
        let mut wanted = wanted.into_iter().collect::<Option<Vec<_>>>()?;
        self.fixed(&wanted, &host)?;
        self.choose(&mut wanted, &host)?;
        let functions = wanted.iter().zip(reaches).map(|(one, reach)| {
            let slot = one.slot?;
            Some(model::PciFunction {
                name: one.written.name.value.clone(),
                model: one.model,
                partition: one.partition,
                bus: u32::from(one.is_behind),
                device: if one.is_behind { 0 } else { slot },
                interrupt: line(&host, slot),
                reach: reach?,
            })
        });
        Some((functions.collect::<Option<_>>()?, behind?))
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
    fn reach(&mut self, one: &Wanted<'_>, host: &PciHost) -> Option<model::Reach> {
        let model = host.models.get(one.model)?;
        if !model.is_confined {
            return self.unconfined(one);
        }
        let names = match one.written.dma.as_ref().map(|dma| &dma.value) {
            None => return Some(model::Reach::Partition),
            Some(Reach::Promise(_)) => {
                let beside = format!("model `{}`, which the SMMU confines", model.name);
                self.does_not_apply(span(&one.written.dma), "dma = \"trusted\"", &beside);
                return None;
            }
            Some(Reach::Regions(names)) => names,
        };
        let regions = &self.description.partition.get(one.partition)?.region;
        let mut banks = Vec::new();
        for name in names {
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

    /// A function that nothing confines: for a trusted partition alone, and a hazard.
    fn unconfined(&mut self, one: &Wanted<'_>) -> Option<model::Reach> {
        let owner = self.description.partition.get(one.partition)?;
        let (name, model) = (&one.written.name.value, &one.written.model);
        let why =
            "it can read and write any RAM of the machine, the monitor's included, whatever the translation tables say";
        let dma = one.written.dma.as_ref();
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
