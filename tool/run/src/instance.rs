//! What an instance of the real-time kernel has recorded (QV-41, CH-60), read from the partition's RAM while it runs.
//!
//! The kernel's head is found by its magic on a page behind the kernel's own first one; the accounts lie in front of it, and the boot tables behind. All of that is memory of the
//! partition, so whatever guest it runs can write anything there: nothing is believed but numbers that are shown, and the reader follows no address.

use crate::image_file::ImagePlan;
use crate::observer::Observer;
use crate::ram::{Ram, behind};
use bulkhead_abi::observe::TRACE_MAGIC;
use bulkhead_abi::{PAGE_BYTES, PhysicalAddress};
use bulkhead_kernel_abi::accounts::{ACCOUNTS_MAGIC, AccountPages};
use bulkhead_kernel_abi::boot::{ALIGNMENT, ServerRow, Tables};
use bulkhead_kernel_abi::image::{ACCOUNTS_BYTES_BEFORE_HEAD, Head, LOAD, MAGIC, TRACE_BYTES};
use bulkhead_kernel_abi::{KERNEL_ABI_VERSION, MAX_COMPONENTS, MAX_END_POINTS, MAX_SERVERS, MAX_THREADS, MAX_WIRES};
use zerocopy::IntoBytes;

/// The kernel lies in the first 2 MiB of RAM, and its head behind it.
const MOST_KERNEL_BYTES: u64 = 2 << 20;
/// Most bytes of boot tables that are looked at.
const MOST_TABLE_BYTES: u64 = 1 << 20;

/// What an instance has recorded, and what its numbers are called.
#[derive(Clone, Debug)]
pub struct Instance {
    /// The accounts.
    pub accounts: Box<AccountPages>,
    /// Names of the components, by number.
    pub components: Vec<String>,
    /// Component of each thread.
    pub threads: Vec<u16>,
    /// Names of the threads, by number; empty where nobody gave one.
    pub thread_names: Vec<String>,
    /// Names of the servers, the same.
    pub server_names: Vec<String>,
    /// Thread that each end point is of.
    pub end_points: Vec<u16>,
    /// Wires to other instances.
    pub wires: usize,
    /// What each server is promised.
    pub servers: Vec<ServerRow>,
    /// Where its trace is, if its kernel records.
    pub trace: Option<PhysicalAddress>,
}

/// States whether an image may have an instance of the kernel in it.
pub(crate) fn is_in(image: &[u8]) -> bool {
    image.chunks(PAGE_BYTES as usize).any(|page| page.starts_with(&MAGIC.to_le_bytes()))
}

impl Observer {
    /// Reads what the instance in a partition has recorded; `None` when its guest is no kernel, or a kernel of another version, or has not started yet.
    #[must_use]
    pub fn instance(&self, partition: usize) -> Option<Instance> {
        find_in(self.plan(), self.ram(), partition)
    }
}

fn find_in(plan: &ImagePlan, ram: &Ram, partition: usize) -> Option<Instance> {
    let plan = plan.partitions.get(partition)?;
    let region = plan.ram().iter().find(|ram| LOAD >= ram.guest.0 && LOAD - ram.guest.0 < ram.bytes)?;
    let start = behind(region.physical, LOAD - region.guest.0)?;
    Instance::find(ram, start, region.bytes.saturating_sub(LOAD - region.guest.0))
}

/// Names of the components of the instance in a partition, by number; `None` when its guest is no kernel, or one of another version.
pub(crate) fn component_names(plan: &ImagePlan, ram: &Ram, partition: usize) -> Option<Vec<String>> {
    find_in(plan, ram, partition).map(|instance| instance.components)
}

/// What a component is called: those that are made at run time have no names.
pub(crate) fn name_of(names: &[String], number: usize) -> String {
    names.get(number).cloned().unwrap_or_else(|| format!("process {number:02}"))
}

impl Instance {
    /// What a thread is called: its component and its own name, or its number without one.
    #[must_use]
    pub fn thread_name(&self, thread: usize) -> String {
        let component = self.threads.get(thread).map_or(usize::MAX, |component| usize::from(*component));
        let component = self.components.get(component).map_or("process", String::as_str);
        match self.thread_names.get(thread).filter(|name| !name.is_empty()) {
            Some(name) => format!("{component} {name}"),
            None => format!("{component} thread {thread}"),
        }
    }

    /// What a server is called, or its number without a name.
    #[must_use]
    pub fn server_name(&self, server: usize) -> String {
        let name = self.server_names.get(server).filter(|name| !name.is_empty());
        name.cloned().unwrap_or_else(|| format!("server {server}"))
    }

    /// Who is told by an end point: its thread, or its number when that is none of the host's.
    #[must_use]
    pub fn end_point_name(&self, end_point: u64) -> String {
        let thread = usize::try_from(end_point).ok().and_then(|number| self.end_points.get(number)).copied();
        match thread.map(usize::from).filter(|thread| *thread < self.threads.len()) {
            Some(thread) => self.thread_name(thread),
            None => format!("end point {end_point}"),
        }
    }

    /// Reads what an instance has recorded that was loaded at `start`, with this many bytes of RAM behind that.
    #[must_use]
    pub fn find(ram: &Ram, start: PhysicalAddress, bytes: u64) -> Option<Self> {
        let pages = (ACCOUNTS_BYTES_BEFORE_HEAD..bytes.min(MOST_KERNEL_BYTES)).step_by(PAGE_BYTES as usize);
        let is_head = |page: &PhysicalAddress| ram.load_u64(*page) == Some(MAGIC);
        let head = pages.filter_map(|offset| behind(start, offset)).find(is_head)?;
        let accounts = PhysicalAddress(head.0.checked_sub(ACCOUNTS_BYTES_BEFORE_HEAD)?);
        let accounts = Box::new(ram.read_at::<AccountPages>(accounts)?);
        let is_ours = (accounts.accounts.magic, accounts.accounts.abi_version) == (ACCOUNTS_MAGIC, KERNEL_ABI_VERSION);
        is_ours.then(|| Self::named(ram, head, accounts))?
    }

    /// Adds what the boot tables behind the head say.
    fn named(ram: &Ram, head: PhysicalAddress, accounts: Box<AccountPages>) -> Option<Self> {
        let bytes = ram.read_at::<Head>(head)?.tables_bytes.min(MOST_TABLE_BYTES) as usize;
        // Rows are where they are aligned.
        let mut room = vec![0_u128; bytes.div_ceil(ALIGNMENT)];
        let room = room.as_mut_bytes().get_mut(..bytes)?;
        if !ram.copy_at(behind(head, PAGE_BYTES)?, room) {
            return None;
        }
        let tables = Tables::read(room, crc32c::crc32c).ok()?;
        let name = |name: &[u8]| crate::console::readable(name.split(|byte| *byte == 0).next().unwrap_or_default());
        let names = |of: usize, most: usize| tables.names()[of].iter().take(most).map(|row| name(&row.name)).collect();
        let ring = PhysicalAddress(head.0.checked_sub(ACCOUNTS_BYTES_BEFORE_HEAD)?.checked_sub(TRACE_BYTES)?);
        Some(Self {
            accounts,
            components: tables.components.iter().take(MAX_COMPONENTS).map(|row| name(&row.name)).collect(),
            wires: tables.wires.len().min(MAX_WIRES),
            threads: tables.threads.iter().take(MAX_THREADS).map(|row| row.component).collect(),
            thread_names: names(0, MAX_THREADS),
            server_names: names(1, MAX_SERVERS),
            end_points: tables.end_points.iter().take(MAX_END_POINTS).map(|row| row.thread).collect(),
            servers: tables.servers.iter().take(MAX_SERVERS).copied().collect(),
            trace: (ram.load_u64(ring) == Some(TRACE_MAGIC)).then_some(ring),
        })
    }
}
