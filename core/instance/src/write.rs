//! From a description to bytes.

use crate::names::name;
use crate::program::{self, Program, Use, bind, slot};
use crate::tables::{Rows, crc32c};
use crate::translation::{Access, PAGE, Space};
use crate::{Component, DMA_PLACE, Error, Instance, Interface, ProgramError, Shares, device_addresses};
use crate::{data, names, ports, wires};
use bulkhead_guest_abi::guest::{GUEST_CHANNELS, GUEST_CONSOLE, GUEST_GICD, GUEST_GICR, GUEST_INFORMATION, GUEST_UART};
use bulkhead_kernel_abi::accounts::ACCOUNTS_BYTES;
use bulkhead_kernel_abi::boot::{
    ComponentRow, DeviceRow, EntryRow, ProgramRow, SegmentRow, ServerRow, StackRow, TcapRow, ThreadRow,
};
use bulkhead_kernel_abi::capability::TOKEN_MASK;
use bulkhead_kernel_abi::image::{
    ACCOUNTS_BYTES_BEFORE_HEAD, COMPONENT_ACCOUNTS, COMPONENT_DEVICES_END, COMPONENT_DMA, COMPONENT_DMA_END,
    COMPONENT_MAGIC, COMPONENT_STACKS, COMPONENT_TEXT, ComponentHead, Head, KERNEL_HALF, LOAD, MAGIC, RAM, SLOTS,
};
use bulkhead_kernel_abi::{
    ALL_TICKS, FLOATING_POINT_BYTES, KERNEL_ABI_VERSION, MAX_COMPONENTS, MAX_THREADS, MAX_VECTOR, NONE,
};
use sha2::{Digest, Sha256};
use zerocopy::{FromBytes, IntoBytes};

/// Where an arm64 Image says how long it is.
const IMAGE_BYTES: usize = 16;
/// What the kernel may be: its first bytes at the start of an image, all of it in the first 2 MiB of RAM, which the boot tables map.
const KERNEL: core::ops::Range<u64> = KERNEL_HALF + LOAD..KERNEL_HALF + RAM + (2 << 20);
/// Bytes of a distributor's frame, and of a redistributor's two.
const DISTRIBUTOR_BYTES: u64 = 0x1_0000;
const REDISTRIBUTOR_BYTES: u64 = 0x2_0000;

/// An instance as bytes, and what others have to know of its places.
#[derive(Clone, Debug)]
pub struct Written {
    /// A flat arm64 Image.
    pub bytes: Vec<u8>,
    /// Physical address of each component's pages for DMA, by number; 0 where there are none.
    pub dma: Vec<u64>,
}

/// Writes an instance.
///
/// # Errors
/// When a file is not what it should be, or the description asks for what an instance cannot have.
pub fn write(instance: &Instance<'_>) -> Result<Vec<u8>, Error> {
    write_whole(instance).map(|written| written.bytes)
}

/// As [`write`], with the places of pages for DMA.
///
/// # Errors
/// As [`write`].
pub fn write_whole(instance: &Instance<'_>) -> Result<Written, Error> {
    let kernel = program::read(instance.kernel, KERNEL).map_err(|error| Error::Kernel(error.to_string()))?;
    let mut programs = instance.components.iter().map(read_component).collect::<Result<Vec<_>, _>>()?;
    let made = instance.processes.read()?;
    count(instance)?;
    instance.processes.count(instance)?;
    let mut image = Image::with_kernel(&kernel)?;
    let head = image.reserve(PAGE);
    let mut rows = rows(instance, &programs, &kernel);
    rows.quotas.clone_from(&instance.processes.quotas);
    // As many rows as there will be: where their pages are is known when they are.
    rows.programs = vec![ProgramRow::default(); made.len()];
    rows.segments = vec![SegmentRow::default(); made.iter().map(|program| program.segments.len()).sum()];
    // The places of pages for DMA are behind the tables, and their rows are in them.
    rows.devices.extend(dma_rows(instance));
    rows.ports = ports::rows(&instance.components, |number, import| {
        let imports = programs.get(number).map_or(&[][..], |program| &program.interface.imports);
        imports.iter().find(|function| function.name == import).map_or(0, |function| function.address)
    });
    rows.data = data::rows(&programs);
    rows.names = names::rows(instance, rows.servers.len());
    let tables_bytes = rows.bytes().len() as u64;
    let tables = image.reserve(tables_bytes);
    let mut kernel_space = kernel_space(&kernel);
    instance.wires.iter().filter(|wire| wire.window != 0).for_each(|wire| wires::map(&mut kernel_space, wire));
    kernel_space.map(tables - PAGE, tables - PAGE, PAGE + tables_bytes.next_multiple_of(PAGE), Access::KernelConstants);
    let dma: Vec<u64> = instance.components.iter().map(|component| image.dma(component)).collect();
    for ((component, program), physical) in instance.components.iter().zip(&mut programs).zip(&dma) {
        for import in component.imports.iter().filter(|import| import.slot == DMA_PLACE) {
            let number = program.interface.imports.iter().position(|function| function.name == import.name);
            // It was bound before, so it has a word.
            number.and_then(|number| program.bind(number, &physical.to_le_bytes()));
        }
    }
    for row in rows.devices.iter_mut().filter(|row| row.address == COMPONENT_DMA) {
        row.physical = dma.get(usize::from(row.component)).copied().unwrap_or(0);
    }
    let spaces: Vec<Space> = instance
        .components
        .iter()
        .zip(&programs)
        .zip(&dma)
        .map(|((component, program), dma)| image.component(component, program, *dma, head))
        .collect();
    data::lay(&mut rows.data, &programs, &spaces, &mut image, &mut kernel_space);
    let laid = instance.processes.lay(&made, &mut image);
    for (physical, bytes) in laid.copied {
        kernel_space.map(physical, physical, bytes, Access::KernelConstants);
    }
    (rows.programs, rows.segments) = (laid.programs, laid.segments);
    let pool_pages = instance.processes.pool_pages();
    if pool_pages != 0 {
        let pool_bytes = u64::from(pool_pages) * PAGE;
        rows.pool = (image.reserve(pool_bytes), pool_pages);
        kernel_space.map(rows.pool.0, rows.pool.0, pool_bytes, Access::KernelData);
    }
    let threads = floating_point_threads(instance);
    if threads != 0 {
        let bytes = (u64::from(threads) * FLOATING_POINT_BYTES as u64).next_multiple_of(PAGE);
        rows.floating_point = (image.reserve(bytes), threads);
        kernel_space.map(rows.floating_point.0, rows.floating_point.0, bytes, Access::KernelData);
    }
    for (space, row) in spaces.iter().zip(&mut rows.components) {
        row.root = image.translation(space);
    }
    let kernel_root = image.translation(&kernel_space);
    let mut boot = Space::default();
    boot.map_block(RAM, Access::Boot);
    let boot_root = image.translation(&boot);
    image.put(tables, &rows.bytes());
    let image_bytes = image.bytes.len() as u64;
    let mut written = Head {
        magic: MAGIC,
        image_bytes,
        abi_version: KERNEL_ABI_VERSION,
        kernel_root,
        boot_root,
        tables_bytes,
        ..Head::default()
    };
    image.bytes[IMAGE_BYTES..IMAGE_BYTES + 8].copy_from_slice(&image_bytes.to_le_bytes());
    image.put(head, written.as_bytes());
    let left_out = (head - LOAD) as usize + core::mem::offset_of!(Head, checksum);
    written.checksum = crc32c(&[&image.bytes[..left_out], &image.bytes[left_out + 8..]]).into();
    image.put(head, written.as_bytes());
    Ok(Written { bytes: image.bytes, dma })
}

/// Threads that need a place for floating-point registers, from the first one on: all that there can be, if anybody declares them, since each may call whom it can.
fn floating_point_threads(instance: &Instance<'_>) -> u32 {
    let is_declared = instance.components.iter().any(|one| one.floating_point)
        || instance.processes.programs.iter().any(|one| one.floating_point);
    let made: u32 = instance.processes.quotas.iter().map(|quota| u32::from(quota.threads)).sum();
    let described = instance.components.iter().map(|one| one.threads.len()).sum::<usize>() as u32;
    match (is_declared, made) {
        (false, _) => 0,
        (true, 0) => described,
        (true, _) => MAX_THREADS as u32,
    }
}

/// Looks whether a file can be a component's program, and at what it exports and imports.
///
/// # Errors
/// When it cannot.
pub fn examine(file: &[u8]) -> Result<Interface, ProgramError> {
    read_program(file, COMPONENT_STACKS).map(|program| program.interface)
}

/// Reads a component's program, which lies below `end`.
pub(crate) fn read_program(file: &[u8], end: u64) -> Result<Program, ProgramError> {
    let program = program::read(file, COMPONENT_TEXT..end)?;
    let first = program.segments.first().and_then(|segment| ComponentHead::ref_from_prefix(&segment.bytes).ok());
    match first {
        Some((head, _)) if head.magic == COMPONENT_MAGIC && head.abi_version == KERNEL_ABI_VERSION => Ok(program),
        Some((head, _)) if head.magic == COMPONENT_MAGIC => Err(ProgramError::Version(head.abi_version)),
        _ => Err(ProgramError::NoComponent),
    }
}

/// Reads a component's program.
fn read_component(component: &Component<'_>) -> Result<Program, Error> {
    let wrong = |reason: ProgramError| Error::Program { component: component.name.clone(), reason };
    let stacks = stacks(component).try_fold(COMPONENT_STACKS, |top, bytes| top.checked_sub(bytes.checked_add(PAGE)?));
    let end = stacks.ok_or_else(|| wrong(ProgramError::Stacks))?;
    let mut program = read_program(component.program, end).map_err(wrong)?;
    let records = ports::addresses(&component.ports)
        .zip(&component.ports)
        .filter_map(|(address, port)| Some((port.import.as_deref()?, port.record(address).as_bytes().to_vec())));
    let slots = component.imports.iter().map(slot);
    bind(slots.chain(records).collect(), &mut program).map_err(|reason| wrong(ProgramError::Binding(reason)))?;
    Ok(program)
}

/// Bytes of its stacks from the highest one on: those of its threads, and those for callers.
fn stacks(component: &Component<'_>) -> impl Iterator<Item = u64> {
    let callers = core::iter::repeat_n(component.callers.stack_bytes, component.callers.stacks as usize);
    component.threads.iter().map(|thread| thread.stack_bytes).chain(callers)
}

/// What the kernel has room for.
fn count(instance: &Instance<'_>) -> Result<(), Error> {
    let threads = instance.components.iter().flat_map(|component| &component.threads);
    if let Some(thread) = threads.clone().find(|thread| thread.stack_bytes == 0 || thread.stack_bytes % PAGE != 0) {
        return Err(Error::Description(format!("a stack of {} bytes is not whole pages", thread.stack_bytes)));
    }
    let callers = instance.components.iter().map(|component| component.callers);
    if let Some(callers) =
        callers.clone().find(|one| one.stacks != 0 && (one.stack_bytes == 0 || one.stack_bytes % PAGE != 0))
    {
        return Err(Error::Description(format!(
            "a stack for callers of {} bytes is not whole pages",
            callers.stack_bytes
        )));
    }
    let devices = instance.components.iter().flat_map(|component| &component.devices);
    let is_whole = |address: u64| address.is_multiple_of(PAGE);
    if let Some(device) = devices.clone().find(|one| !is_whole(one.physical) || !is_whole(one.bytes) || one.bytes == 0)
    {
        return Err(Error::Description(format!("the registers of `{}` are not whole pages", device.name)));
    }
    let is_last = |one: &Component<'_>| {
        device_addresses(&one.devices)
            .zip(&one.devices)
            .all(|(at, it)| at.saturating_add(it.bytes) <= COMPONENT_DEVICES_END)
    };
    if let Some(component) = instance.components.iter().find(|component| !is_last(component)) {
        return Err(Error::Description(format!("the devices of `{}` have too many registers", component.name)));
    }
    if let Some(wire) = instance.wires.iter().find(|wire| !is_whole(wire.window)) {
        return Err(Error::Description(format!("the window of a wire begins at {:#x}, inside a page", wire.window)));
    }
    ports::check(&instance.components)?;
    let is_region =
        |one: &&Component<'_>| !is_whole(one.dma_bytes) || one.dma_bytes > COMPONENT_DMA_END - COMPONENT_DMA;
    if let Some(component) = instance.components.iter().find(is_region) {
        return Err(Error::Description(format!(
            "the {} bytes of `{}` for DMA are not whole pages, or too many",
            component.dma_bytes, component.name
        )));
    }
    let stacks = callers.map(|callers| callers.stacks as usize).max().unwrap_or(0);
    let exports = instance.wires.iter().map(|wire| wire.exports.len()).max().unwrap_or(0);
    let counts = [
        ("stacks for callers of one component", stacks, bulkhead_kernel_abi::MAX_STACKS),
        ("components", instance.components.len(), MAX_COMPONENTS),
        ("threads", threads.count(), MAX_THREADS),
        ("capability slots", instance.components.iter().map(|component| component.capabilities.len()).sum(), SLOTS),
        ("end points", instance.end_points.len(), bulkhead_kernel_abi::MAX_END_POINTS),
        ("bindings", instance.bindings.len(), bulkhead_kernel_abi::MAX_BINDINGS),
        (
            "devices",
            devices.count() + instance.components.iter().filter(|one| one.dma_bytes != 0).count(),
            bulkhead_kernel_abi::MAX_DEVICES,
        ),
        ("wires", instance.wires.len(), bulkhead_kernel_abi::MAX_WIRES),
        ("exports of one wire", exports, bulkhead_kernel_abi::MAX_EXPORTS),
        ("servers", instance.servers.len(), bulkhead_kernel_abi::MAX_SERVERS),
        ("schedulers", instance.shares.schedulers.len(), bulkhead_kernel_abi::MAX_SCHEDULERS),
        ("bands", instance.shares.bands.len(), bulkhead_kernel_abi::MAX_BANDS),
        ("temporal capabilities", instance.servers.len() + instance.shares.tcaps.len(), bulkhead_kernel_abi::MAX_TCAPS),
    ];
    match counts.iter().find(|(_, count, most)| count > most) {
        Some((what, count, most)) => {
            Err(Error::Description(format!("an instance has at most {most} {what}, and this one {count}")))
        }
        None => Ok(()),
    }
}

/// The boot tables, without the roots.
fn rows(instance: &Instance<'_>, programs: &[Program], kernel: &Program) -> Rows {
    let text = kernel.segments.iter().find(|segment| segment.kind == Use::Text);
    let hash = Sha256::digest(text.map_or(&[][..], |text| &text.bytes));
    let build = hash.first_chunk::<8>().map_or(0, |first| u64::from_le_bytes(*first));
    let mut rows = Rows {
        kernel_build: build,
        end_points: instance.end_points.clone(),
        bindings: instance.bindings.clone(),
        servers: instance.servers.clone(),
        schedulers: instance.shares.schedulers.clone(),
        bands: instance.shares.bands.clone(),
        ..Rows::default()
    };
    if rows.servers.is_empty() {
        // Its threads hold it; nothing limits it.
        rows.servers = vec![ServerRow { holder: NONE, band: NONE, ..ServerRow::default() }];
    }
    for (number, row) in (0..).zip(&mut rows.servers) {
        row.tcap = number;
        // Its own claim is its holder's.
        let holder = instance.shares.schedulers.get(usize::from(row.holder));
        rows.tcaps.push(TcapRow {
            server: number,
            scheduler: holder.map_or(0, |holder| holder.id),
            left_ticks: ALL_TICKS,
            expires_ticks: ALL_TICKS,
            end_point: NONE,
            ..TcapRow::default()
        });
    }
    rows.tcaps.extend(&instance.shares.tcaps);
    // What has no time yet has passed through nobody.
    for row in rows.tcaps.iter_mut().filter(|row| row.left_ticks != 0) {
        let words = words_above(&instance.shares, row.scheduler);
        row.words = words.len() as u16;
        row.vector.iter_mut().zip(words).for_each(|(place, word)| *place = word);
    }
    for (number, (component, program)) in instance.components.iter().zip(programs).enumerate() {
        rows.components.push(ComponentRow {
            name: name(&component.name),
            first_slot: rows.capabilities.len() as u32,
            slots: component.capabilities.len() as u32,
            first_entry: rows.entries.len() as u32,
            entries: program.interface.exports.len() as u32,
            first_stack: rows.stacks.len() as u32,
            stacks: component.callers.stacks,
            quota: NONE,
            needs_ticks: component.policy.needs_ticks,
            trust: component.policy.trust,
            abortable: component.policy.is_abortable.into(),
            on_fault: component.policy.on_fault,
            floating_point: component.floating_point.into(),
            supervisor: component.policy.supervisor,
            supervisor_bits: component.policy.supervisor_bits,
            accounts: component.has_accounts.into(),
            ..ComponentRow::default()
        });
        let exports = program.interface.exports.iter();
        rows.entries
            .extend(exports.map(|function| EntryRow { address: function.address, signature: function.signature }));
        rows.capabilities.extend_from_slice(&component.capabilities);
        let devices = device_addresses(&component.devices).zip(&component.devices);
        rows.devices.extend(devices.map(|(address, device)| DeviceRow {
            name: name(&device.name),
            physical: device.physical,
            address,
            pages: (device.bytes / PAGE) as u32,
            component: number as u16,
            reaches_all: device.reaches_all.into(),
        }));
        let mut top = COMPONENT_STACKS;
        for thread in &component.threads {
            rows.threads.push(ThreadRow {
                entry: program.entry,
                stack: top,
                argument: thread.argument,
                component: number as u16,
                server: thread.server,
                tcap: thread.server,
                scheduler: NONE,
                end_point: end_point_of(instance, rows.threads.len()),
                started: 1,
                ..ThreadRow::default()
            });
            top -= thread.stack_bytes + PAGE;
        }
        for _ in 0..component.callers.stacks {
            rows.stacks.push(StackRow { top });
            top -= component.callers.stack_bytes + PAGE;
        }
    }
    for wire in &instance.wires {
        rows.wires.push(wires::row(wire, rows.exports.len() as u32));
        rows.exports.extend_from_slice(&wire.exports);
    }
    for member in &instance.shares.members {
        let server = rows.tcaps.get(usize::from(member.tcap)).map_or(NONE, |tcap| tcap.server);
        if let Some(row) = rows.threads.get_mut(usize::from(member.thread)) {
            (row.scheduler, row.tcap, row.label, row.server) = (member.scheduler, member.tcap, member.label, server);
        }
    }
    rows
}

/// What the schedulers above one say of its threads, sorted by their numbers: each the number by which it knows the one below.
fn words_above(shares: &Shares, id: u16) -> Vec<u64> {
    let mut words = Vec::new();
    let mut below = shares.schedulers.iter().position(|row| row.id == id);
    while let Some((number, row)) = below.and_then(|number| Some((number, shares.schedulers.get(number)?)))
        && let Some(parent) = shares.schedulers.get(usize::from(row.parent))
        && words.len() < shares.schedulers.len()
    {
        let known = shares.numbers.get(number).copied().unwrap_or(1);
        words.push(u64::from(parent.id) << 48 | known & TOKEN_MASK);
        below = Some(row.parent.into());
    }
    words.sort_unstable();
    words.truncate(MAX_VECTOR);
    words
}

/// Rows of pages for DMA, whose places are not known yet.
fn dma_rows(instance: &Instance<'_>) -> Vec<DeviceRow> {
    let with_pages = (0..).zip(&instance.components).filter(|(_, component)| component.dma_bytes != 0);
    with_pages
        .map(|(number, component)| DeviceRow {
            name: name("dma"),
            address: COMPONENT_DMA,
            pages: (component.dma_bytes / PAGE) as u32,
            component: number,
            ..DeviceRow::default()
        })
        .collect()
}

/// The end point that a thread takes from.
fn end_point_of(instance: &Instance<'_>, thread: usize) -> u16 {
    let found = instance.end_points.iter().position(|row| usize::from(row.thread) == thread);
    found.map_or(NONE, |number| number as u16)
}

/// What the kernel maps of its own memory and of the machine.
fn kernel_space(kernel: &Program) -> Space {
    let mut space = Space::default();
    for segment in &kernel.segments {
        let access = match segment.kind {
            Use::Text => Access::KernelText,
            Use::Constants => Access::KernelConstants,
            Use::Data => Access::KernelData,
        };
        let physical = segment.address - KERNEL_HALF;
        space.map(physical, physical, segment.bytes.len() as u64, access);
    }
    let machine = [
        (GUEST_GICD.0, DISTRIBUTOR_BYTES, Access::Device),
        (GUEST_GICR.0, REDISTRIBUTOR_BYTES, Access::Device),
        (GUEST_UART.0, PAGE, Access::Device),
        (GUEST_INFORMATION.0, PAGE, Access::SharedConstants),
        (GUEST_CONSOLE.0, GUEST_CHANNELS.0 - GUEST_CONSOLE.0, Access::SharedData),
    ];
    for (address, bytes, access) in machine {
        space.map(address, address, bytes, access);
    }
    space
}

/// The image as far as it is written.
pub(crate) struct Image {
    bytes: Vec<u8>,
}

impl Image {
    fn with_kernel(kernel: &Program) -> Result<Self, Error> {
        let mut image = Self { bytes: Vec::new() };
        if kernel.segments.first().is_none_or(|first| first.address != KERNEL.start) {
            return Err(Error::Kernel(format!("it does not begin at {:#x}", KERNEL.start)));
        }
        for segment in &kernel.segments {
            image.bytes.resize((segment.address - KERNEL.start) as usize, 0);
            image.bytes.extend_from_slice(&segment.bytes);
        }
        Ok(image)
    }

    /// Appends whole pages of zeros, and returns their address.
    pub(crate) fn reserve(&mut self, bytes: u64) -> u64 {
        let address = LOAD + self.bytes.len() as u64;
        self.bytes.resize(self.bytes.len() + bytes.next_multiple_of(PAGE) as usize, 0);
        address
    }

    pub(crate) fn put(&mut self, address: u64, bytes: &[u8]) {
        let start = (address - LOAD) as usize;
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// The pages of a component that its device may use by itself, in one piece; 0 for none.
    fn dma(&mut self, component: &Component<'_>) -> u64 {
        if component.dma_bytes == 0 { 0 } else { self.reserve(component.dma_bytes) }
    }

    /// Writes a component's pages, each for itself alone, and says what it maps; those for DMA were reserved at `dma`, and the accounts are in front of the head.
    fn component(&mut self, component: &Component<'_>, program: &Program, dma: u64, head: u64) -> Space {
        let mut space = Space::default();
        for segment in &program.segments {
            let access = match segment.kind {
                Use::Text => Access::ComponentText,
                Use::Constants => Access::ComponentConstants,
                Use::Data => Access::ComponentData,
            };
            let physical = self.reserve(segment.bytes.len() as u64);
            self.put(physical, &segment.bytes);
            space.map(segment.address, physical, segment.bytes.len() as u64, access);
        }
        let mut top = COMPONENT_STACKS;
        for bytes in stacks(component) {
            let physical = self.reserve(bytes);
            space.map(top - bytes, physical, bytes, Access::ComponentData);
            top -= bytes + PAGE;
        }
        for (address, device) in device_addresses(&component.devices).zip(&component.devices) {
            space.map(address, device.physical, device.bytes, Access::ComponentDevice);
        }
        space.map(COMPONENT_DMA, dma, component.dma_bytes, Access::ComponentData);
        ports::map(&mut space, &component.ports);
        if component.has_accounts {
            let accounts = head - ACCOUNTS_BYTES_BEFORE_HEAD;
            space.map(COMPONENT_ACCOUNTS, accounts, ACCOUNTS_BYTES as u64, Access::ComponentConstants);
        }
        space
    }

    /// Writes the tables of an address space, and returns the root.
    fn translation(&mut self, space: &Space) -> u64 {
        let root = LOAD + self.bytes.len() as u64;
        for table in space.tables(root) {
            self.bytes.extend_from_slice(table.as_bytes());
        }
        root
    }
}
