//! Places of base address registers: where guests see what is behind them, and where the board has it.
//!
//! Each one has pages of its own on both sides and is aligned to its size. The largest come first, so nothing is lost between them. What a
//! guest does not see (tables of messages, ports, less than a page) has a place too, if it is memory: it answers as soon as the
//! function's memory does, and would answer somewhere.

use super::header;
use super::pci::bridge;
use crate::error::PlanError;
use crate::model::{Bank, ModelBar, PciFunction, PciModel, System};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use bulkhead_abi::devices::{Bar, MAX_BARS};
use bulkhead_abi::{GuestAddress, PAGE_BYTES, PhysicalAddress};
use bulkhead_guest_abi::guest::GUEST_PCI_DEVICES;
use core::cmp::Reverse;

/// Where everything behind the functions of a system is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// By function of the system and register. `guest` is zero for what its guest does not see, `bytes` for what is no memory.
    pub functions: Vec<[Bar; MAX_BARS]>,
    /// The memory window of the root port, if a function is behind it.
    pub bridge: Option<Bank>,
}

impl Places {
    /// Returns what is behind the registers of a function.
    #[must_use]
    pub fn of(&self, function: usize) -> [Bar; MAX_BARS] {
        self.functions.get(function).copied().unwrap_or_default()
    }
}

/// States whether there is memory behind a register.
#[must_use]
pub fn is_memory(bar: &ModelBar) -> bool {
    bar.bytes != 0 && !bar.is_ports
}

/// States whether a guest sees what is behind a register.
#[must_use]
pub fn is_shown(bar: &ModelBar) -> bool {
    is_memory(bar) && !bar.is_messages && bar.bytes >= PAGE_BYTES
}

/// A register to place: function of the system, register, bytes.
type Wanted = (usize, usize, u64);

/// Decides all places.
///
/// # Errors
/// When the board's window, or that of a guest, is too small.
pub fn place(system: &System) -> Result<Places, PlanError> {
    let mut places = Places { functions: vec![[Bar::default(); MAX_BARS]; system.functions.len()], bridge: None };
    let Some(host) = &system.board.pci else { return Ok(places) };
    let mut next = host.window.start.0;
    let on_bus = |bus: u32| move |function: &PciFunction| (function.bus == 0) == (bus == 0);
    for (function, register, bytes) in wanted(&host.models, &system.functions, on_bus(0), is_memory) {
        let start = take(&mut next, bytes);
        set(&mut places, (function, register), |bar| *bar = at(start, bytes));
    }
    let behind = wanted(&host.models, &system.functions, on_bus(1), is_memory);
    if let Some((_, _, largest)) = behind.first() {
        let start = next.next_multiple_of(bridge::MEMORY_GRAIN.max(*largest));
        next = start;
        for (function, register, bytes) in &behind {
            let start = take(&mut next, *bytes);
            set(&mut places, (*function, *register), |bar| *bar = at(start, *bytes));
        }
        next = next.next_multiple_of(bridge::MEMORY_GRAIN);
        places.bridge = Some(Bank { start: PhysicalAddress(start), bytes: next - start });
    }
    fits("what is behind all PCI functions", next - host.window.start.0, host.window.bytes)?;
    for partition in 0..system.partitions.len() {
        for ((function, register), start) in guest_places(&host.models, &system.functions, partition)? {
            set(&mut places, (function, register), |bar| bar.guest = start);
        }
    }
    Ok(places)
}

/// A function of some, and its register.
pub type Register = (usize, usize);

/// Decides where a partition sees what is behind the registers of its functions; of these nothing matters but their models and owners.
///
/// # Errors
/// When the window of a guest is too small.
pub fn guest_places(
    models: &[PciModel],
    functions: &[PciFunction],
    partition: usize,
) -> Result<Vec<(Register, GuestAddress)>, PlanError> {
    let mut next = GUEST_PCI_DEVICES.start;
    let own = wanted(models, functions, |function| function.partition == partition, is_shown);
    let places = own.into_iter().map(|(function, register, bytes)| {
        let start = take(&mut next, bytes);
        ((function, register), GuestAddress(start))
    });
    let places = places.collect();
    let room = GUEST_PCI_DEVICES.end - GUEST_PCI_DEVICES.start;
    fits("what a partition sees of its PCI functions", next - GUEST_PCI_DEVICES.start, room)?;
    Ok(places)
}

const fn at(physical: u64, bytes: u64) -> Bar {
    Bar { guest: GuestAddress(0), physical: PhysicalAddress(physical), bytes }
}

fn set(places: &mut Places, (function, register): (usize, usize), change: impl FnOnce(&mut Bar)) {
    if let Some(bar) = places.functions.get_mut(function).and_then(|bars| bars.get_mut(register)) {
        change(bar);
    }
}

/// Takes the next place for so much; less than a page has the page.
fn take(next: &mut u64, bytes: u64) -> u64 {
    let start = next.next_multiple_of(bytes.max(PAGE_BYTES));
    *next = start.saturating_add(bytes.max(PAGE_BYTES));
    start
}

fn fits(what: &str, bytes: u64, limit: u64) -> Result<(), PlanError> {
    if bytes > limit { Err(PlanError::TooBig { what: String::from(what), bytes, limit }) } else { Ok(()) }
}

/// Returns the registers of some functions, the largest first and equals in their order.
fn wanted(
    models: &[PciModel],
    all: &[PciFunction],
    functions: impl Fn(&PciFunction) -> bool,
    registers: impl Fn(&ModelBar) -> bool,
) -> Vec<Wanted> {
    let mut wanted: Vec<Wanted> = Vec::new();
    for (index, function) in all.iter().enumerate().filter(|(_, function)| functions(function)) {
        let Some(model) = models.get(function.model) else { continue };
        let used = model.bars.iter().enumerate().filter(|(_, bar)| registers(bar));
        wanted.extend(used.map(|(register, bar)| (index, register, bar.bytes)));
    }
    wanted.sort_by_key(|(_, _, bytes)| Reverse(*bytes));
    wanted
}

/// Returns the pieces of a register that its guest reaches, by offset and bytes: all of it but the pages with tables of messages, which
/// nobody may arm.
#[must_use]
pub fn reached(model: &PciModel, register: usize, bytes: u64) -> Vec<(u64, u64)> {
    let mut pieces: Vec<(u64, u64)> = Vec::new();
    let tables = header::message_tables(&model.configuration);
    let in_tables = |page: u64| {
        tables.iter().any(|table| {
            table.register == register && table.offset < page + PAGE_BYTES && page < table.offset + table.bytes
        })
    };
    for page in (0..bytes).step_by(PAGE_BYTES as usize).filter(|page| !in_tables(*page)) {
        match pieces.last_mut() {
            Some((start, length)) if *start + *length == page => *length += PAGE_BYTES,
            _ => pieces.push((page, PAGE_BYTES)),
        }
    }
    pieces
}
