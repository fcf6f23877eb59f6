//! Fills the structures of `core/abi` and `core/guest-abi` and writes the bytes of the image.

use crate::checksum::crc32c;
use crate::devices;
use crate::error::PlanError;
use crate::fronts;
use crate::information;
use crate::interrupts::{self, Routes};
use crate::layout::{AreaKind, CONSOLE_BYTES, Layout, SHARED_BYTES, VCPU_DATA_BYTES, data_bytes, doorbell_area};
use crate::maps::{self, CoreUse, VcpuUse};
use crate::model::{HealthPolicy, InterruptMode, Partition, System};
use crate::narrow;
use crate::planner::{Draft, MonitorImage, Plan, PlannedPartition, Settled};
use crate::tables::MOST_ADDRESS_BITS;
use crate::{schedule, ticks};
use alloc::vec;
use alloc::vec::Vec;
use bulkhead_abi::image::{ARM64_IMAGE_PLACE_OFFSET, ARM64_IMAGE_SIZE_OFFSET, stack_bytes};
use bulkhead_abi::image::{CoreBoot, IMAGE_MAGIC, ImageHeader, PartitionEntry, RamBank};
use bulkhead_abi::plan::{
    DoorbellPlan, FLAG_FILTERED, FLAG_MANAGEABLE, FLAG_MANAGES, HealthPlan, MAX_DOORBELLS, MODE_DIRECT, MODE_MAPPED,
    PARTITION_PLAN_MAGIC, POLICY_HALT, POLICY_RESTART, POLICY_STOP, PartitionPlan, RamRegion, Segment, VCPU_PLAN_MAGIC,
    VcpuPlan,
};
use bulkhead_abi::schedule::SchedulePlan;
use bulkhead_abi::{ABI_VERSION, GuestAddress, MAX_CORES, MAX_PARTITIONS, PAGE_BYTES, Part, PhysicalAddress};
use bulkhead_arm::el2::{self, cptr, hcr, mdcr};
use bulkhead_guest_abi::name_from;
use zerocopy::{FromZeros, IntoBytes};

/// Bit 31 of MPIDR is RES1.
const MPIDR_RES1: u64 = 1 << 31;
/// No core to signal.
const NO_CORE: u64 = u64::MAX;

/// Copies `values` to the front of a fixed-size array.
fn fill<T: Copy>(slots: &mut [T], values: impl IntoIterator<Item = T>) {
    slots.iter_mut().zip(values).for_each(|(slot, value)| *slot = value);
}

/// Writes the whole image.
pub(crate) fn image(
    system: &System,
    monitor: &MonitorImage,
    drafts: &[Draft],
    uses: &[CoreUse],
    (settled, routes): (Settled, &Routes),
) -> Result<Plan, PlanError> {
    let layout = &settled.layout;
    let vcpus: Vec<Vec<VcpuPlan>> =
        uses.iter().enumerate().map(|(core, core_use)| vcpu_plans(system, &settled, core, core_use)).collect();
    let schedules: Vec<Option<SchedulePlan>> =
        uses.iter().enumerate().map(|(core, core_use)| schedule_plan(system, layout, core, core_use)).collect();
    let mut partitions = Vec::new();
    for (index, (partition, draft)) in system.partitions.iter().zip(drafts).enumerate() {
        let information = match partition.is_native() {
            true => Some(information::page(system, index, partition, draft)?),
            false => None,
        };
        partitions.push(PlannedPartition {
            plan: partition_plan(system, (layout, routes), uses, index, partition, draft),
            information,
            device_tree: draft.device_tree.clone(),
            ends: draft.ends.clone(),
            pools: draft.pools.clone(),
            virtio: draft.virtio.clone(),
            stage2: settled.stage2.get(index).map(|(mappings, _)| mappings.clone()).unwrap_or_default(),
            devices: devices::device_plan(system, &settled, index, draft),
        });
    }
    let mut file = File::new(layout);
    file.put(AreaKind::Text, &monitor.text);
    file.put(AreaKind::Rodata, &monitor.rodata);
    file.put_front(ARM64_IMAGE_PLACE_OFFSET, file.start.saturating_sub(system.board.ram_start().0));
    file.put_front(ARM64_IMAGE_SIZE_OFFSET, layout.monitor_end.0 - file.start);
    put_cores(&mut file, uses, &vcpus, &schedules);
    for (index, (planned, draft)) in partitions.iter().zip(drafts).enumerate() {
        file.put(AreaKind::PartitionPlan(index), planned.plan.as_bytes());
        if let Some(information) = &planned.information {
            file.put(AreaKind::Information(index), information.as_bytes());
        }
        file.put(AreaKind::Pristine(index), &draft.pristine);
    }
    for (core, (_, tables)) in settled.el2.iter().enumerate() {
        file.put(AreaKind::El2Tables(core), &tables.bytes());
    }
    for (index, (_, tables)) in settled.stage2.iter().enumerate() {
        file.put(AreaKind::Stage2Tables(index), &tables.bytes());
    }
    let boot_devices = devices::boot_devices(system, layout, &settled.places);
    for (kind, bytes) in devices::contents(system, &settled, &partitions, boot_devices.as_ref()) {
        file.put(kind, &bytes);
    }
    let header = header(system, &settled, uses, &partitions, &file, monitor.part);
    file.put(AreaKind::Header, header.as_bytes());
    Ok(Plan {
        bytes: file.bytes,
        header,
        core_uses: uses.to_vec(),
        vcpus,
        schedules,
        el2: settled.el2.into_iter().map(|(mappings, _)| mappings).collect(),
        partitions,
        boot_devices,
        reach: settled.devices.into_iter().map(|(mappings, _)| mappings).collect(),
        places: settled.places,
        layout: settled.layout,
    })
}

/// Writes the plans of vCPUs and the schedules.
fn put_cores(file: &mut File<'_>, uses: &[CoreUse], vcpus: &[Vec<VcpuPlan>], schedules: &[Option<SchedulePlan>]) {
    for (core, (core_use, plans)) in uses.iter().zip(vcpus).enumerate() {
        for (vcpu, plan) in core_use.vcpus.iter().zip(plans) {
            file.put(AreaKind::VcpuPlan(vcpu.partition, vcpu.vcpu), plan.as_bytes());
        }
        if let Some(plan) = schedules.get(core).and_then(Option::as_ref) {
            file.put(AreaKind::Schedule(core), plan.as_bytes());
        }
    }
}

/// The file under construction.
struct File<'a> {
    layout: &'a Layout,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a> File<'a> {
    fn new(layout: &'a Layout) -> Self {
        let start = layout.address(AreaKind::Text).0;
        // All of the monitor's memory: real RAM comes up full of something, and boot loaders clear nothing.
        Self { layout, start, bytes: vec![0; usize::try_from(layout.monitor_end.0 - start).unwrap_or(0)] }
    }

    fn range(&self, address: PhysicalAddress, bytes: u64) -> core::ops::Range<usize> {
        let offset = |address: u64| usize::try_from(address.saturating_sub(self.start)).unwrap_or(usize::MAX);
        offset(address.0)..offset(address.0 + bytes)
    }

    fn put(&mut self, kind: AreaKind, content: &[u8]) {
        let Some(area) = self.layout.area(kind) else { return };
        let range = self.range(area.address, content.len() as u64);
        if let Some(slot) = self.bytes.get_mut(range) {
            slot.copy_from_slice(content);
        }
    }

    /// Writes a field of the arm64 Image header at the front of the text.
    fn put_front(&mut self, offset: usize, value: u64) {
        if let Some(field) = self.bytes.get_mut(offset..offset + 8) {
            field.copy_from_slice(&value.to_le_bytes());
        }
    }

    fn crc(&self, address: PhysicalAddress, bytes: u64) -> u32 {
        self.bytes.get(self.range(address, bytes)).map_or(0, crc32c)
    }
}

fn mpidr(system: &System, board_core: usize) -> u64 {
    system.board.core_mpidr.get(board_core).copied().unwrap_or(NO_CORE)
}

fn mode(mode: InterruptMode) -> (u32, u64) {
    match mode {
        InterruptMode::Mapped => (MODE_MAPPED, hcr::MAPPED),
        InterruptMode::Direct => (MODE_DIRECT, hcr::DIRECT),
    }
}

fn vcpu_plans(system: &System, settled: &Settled, core: usize, core_use: &CoreUse) -> Vec<VcpuPlan> {
    let plan = |(slot, vcpu): (usize, &VcpuUse)| vcpu_plan(system, settled, (core, core_use), slot, *vcpu);
    core_use.vcpus.iter().enumerate().map(plan).collect()
}

fn vcpu_plan(
    system: &System,
    settled: &Settled,
    (core, core_use): (usize, &CoreUse),
    slot: usize,
    vcpu_use: VcpuUse,
) -> VcpuPlan {
    let layout = &settled.layout;
    let VcpuUse { partition: own, vcpu } = vcpu_use;
    let (mode, hcr) = mode(system.partitions.get(own).map_or(InterruptMode::Mapped, |partition| partition.mode));
    let console = layout.area(AreaKind::VcpuConsole(own, vcpu));
    let trace = layout.area(AreaKind::Trace(core));
    let input = maps::console_input(system, core_use.board_core).filter(|input| input.receiver == vcpu_use);
    let uart = system.board.uart.filter(|_| input.is_some());
    let handed = input.and_then(|input| input.handed);
    let hands_over_to =
        handed.filter(|_| mode == MODE_MAPPED).and_then(|other| system.partitions.get(other)?.cores.first());
    VcpuPlan {
        magic: VCPU_PLAN_MAGIC,
        core: narrow(core),
        partition: narrow(own),
        vcpu: narrow(vcpu),
        mode,
        mpidr: mpidr(system, core_use.board_core),
        vmpidr: MPIDR_RES1 | vcpu as u64,
        hcr: if core_use.is_shared() { hcr::SHARED } else { hcr },
        vtcr: el2::vtcr(system.board.physical_address_bits),
        vttbr: maps::vmid(own) << 48 | settled.stage2_root(own).0,
        mdcr: mdcr::GUEST,
        cptr: cptr::GUEST,
        partition_plan: layout.address(AreaKind::PartitionPlan(own)),
        shared: layout.address(AreaKind::Shared(own)),
        shared_bytes: SHARED_BYTES,
        status: layout.address(AreaKind::Status(own)),
        counters: layout.address(AreaKind::Counters(own, vcpu)),
        trace: layout.address(AreaKind::Trace(core)),
        trace_bytes: trace.map_or(0, |area| area.bytes),
        trace_enabled: u64::from(system.trace_enabled),
        console: layout.address(AreaKind::VcpuConsole(own, vcpu)),
        console_bytes: console.map_or(0, |area| area.bytes),
        gicd: system.board.gicd,
        gicr: maps::redistributor(system, core_use.board_core),
        uart: uart.map_or(PhysicalAddress(0), |uart| uart.address),
        uart_next_mpidr: input.map_or(0, |input| mpidr(system, input.next_board_core)),
        uart_interrupt: uart.map_or(0, |uart| uart.intid),
        uart_first: u32::from(input.is_some_and(|input| input.is_first)),
        schedule: layout.address(AreaKind::Schedule(core)),
        slot: narrow(slot),
        handed_mpidr: hands_over_to.map_or(0, |core| mpidr(system, *core) as u32),
        devices: layout.address(AreaKind::DevicePlan(own)),
        boot_devices: if (core, slot) == (0, 0) { layout.address(AreaKind::BootDevices) } else { PhysicalAddress(0) },
        handed_status: match system.secure {
            Some(_) => layout.address(AreaKind::Status(handed.unwrap_or(own))),
            None => PhysicalAddress(0),
        },
    }
}

/// Fills in the places of a shared core's schedule.
fn schedule_plan(system: &System, layout: &Layout, core: usize, core_use: &CoreUse) -> Option<SchedulePlan> {
    let mut plan = schedule::schedule_plan(system, core_use)?;
    let data = layout.address(AreaKind::Data(core)).0;
    let places = core_use.vcpus.iter().enumerate();
    for (slot, (place, vcpu)) in plan.slots.iter_mut().zip(places) {
        slot.plan = layout.address(AreaKind::VcpuPlan(vcpu.partition, vcpu.vcpu));
        slot.data = PhysicalAddress(data + place as u64 * VCPU_DATA_BYTES);
        slot.stolen_time = layout.address(AreaKind::StolenTime(vcpu.partition, vcpu.vcpu));
        slot.stolen_time_guest = maps::stolen_time_guest(vcpu.vcpu);
    }
    plan.scheduler = PhysicalAddress(data + core_use.vcpus.len() as u64 * VCPU_DATA_BYTES);
    plan.usage = layout.address(AreaKind::Usage(core));
    Some(plan)
}

fn partition_plan(
    system: &System,
    (layout, routes): (&Layout, &Routes),
    uses: &[CoreUse],
    index: usize,
    partition: &Partition,
    draft: &Draft,
) -> PartitionPlan {
    let mut plan = PartitionPlan::new_zeroed();
    plan.magic = PARTITION_PLAN_MAGIC;
    plan.index = narrow(index);
    plan.mode = mode(partition.mode).0;
    plan.name = name_from(&partition.name);
    plan.flags = if partition.manages { FLAG_MANAGES } else { 0 };
    plan.flags |= if maps::is_manageable(system, index) { FLAG_MANAGEABLE } else { 0 };
    plan.flags |= if partition.sgi_filtered { FLAG_FILTERED } else { 0 };
    plan.vcpu_count = narrow(partition.cores.len());
    fill(&mut plan.vcpu_mpidr, partition.cores.iter().map(|board_core| mpidr(system, *board_core)));
    let core_index =
        |board_core: &usize| narrow(uses.iter().position(|core_use| core_use.board_core == *board_core).unwrap_or(0));
    fill(&mut plan.vcpu_core, partition.cores.iter().map(core_index));
    let is_shared = |board_core: &usize| system.schedules.iter().any(|schedule| schedule.board_core == *board_core);
    let shared = partition.cores.iter().enumerate().filter(|(_, board_core)| is_shared(board_core));
    plan.shared_vcpus = shared.fold(0, |bits, (vcpu, _)| bits | 1 << vcpu);
    plan.entry = draft.placement.entry;
    plan.device_tree = draft.placement.device_tree;
    plan.health = health(system, partition);
    fill_memory(&mut plan, layout, index, partition, draft);
    plan.interrupt_count = narrow(draft.interrupts.len());
    plan.highest_intid =
        draft.interrupts.iter().map(|interrupt| interrupt.intid).max().unwrap_or(interrupts::FIRST_SPI - 1);
    fill(&mut plan.interrupts, draft.interrupts.iter().copied());
    plan.window_count = narrow(draft.windows.len());
    fill(&mut plan.windows, draft.windows.iter().copied());
    plan.pci_count = narrow(draft.functions.len());
    fill(&mut plan.pci, draft.functions.iter().copied());
    for end in &draft.ends {
        if let Some(slot) = end.function.and_then(|function| plan.ports.get_mut(function as usize)) {
            *slot = information::port(system, end);
        }
    }
    for end in &draft.pools {
        if let Some(slot) = end.function.and_then(|function| plan.ports.get_mut(function as usize)) {
            *slot = information::pool_port(system, end);
        }
    }
    for end in &draft.virtio.backs {
        if let Some(slot) = end.function.and_then(|function| plan.ports.get_mut(function as usize)) {
            *slot = fronts::port(system, end);
        }
    }
    let mut doorbells = doorbells(system, layout, draft);
    doorbells.extend(draft.virtio.doorbells(system, layout, routes));
    plan.doorbell_count = narrow(doorbells.len().min(MAX_DOORBELLS));
    fill(&mut plan.doorbells, doorbells);
    fill_management(&mut plan, system, layout, index);
    plan
}

fn fill_memory(plan: &mut PartitionPlan, layout: &Layout, index: usize, partition: &Partition, draft: &Draft) {
    let ram = layout.address(AreaKind::Ram(index));
    plan.ram_count = 1;
    fill(&mut plan.ram, [RamRegion { guest: partition.guest_ram, physical: ram, bytes: partition.memory_bytes }]);
    let pristine = layout.address(AreaKind::Pristine(index));
    plan.segment_count = narrow(draft.pieces.len());
    let segments = draft.pieces.iter().zip(&draft.pristine_offsets).map(|(piece, offset)| Segment {
        destination: PhysicalAddress(ram.0 + (piece.guest.0 - partition.guest_ram.0)),
        source: PhysicalAddress(pristine.0 + offset),
        bytes: piece.bytes.len() as u64,
        crc: crc32c(&piece.bytes),
        reserved: 0,
    });
    fill(&mut plan.segments, segments);
    // The layout keeps all pages that a partition writes together.
    let mut written: Option<(u64, u64)> = None;
    for end in &draft.ends {
        let kind =
            if end.is_source { AreaKind::ChannelWriter(end.channel) } else { AreaKind::ChannelReader(end.channel) };
        if let Some(area) = layout.area(kind) {
            let (first, last) = written.unwrap_or((area.address.0, area.end()));
            written = Some((first.min(area.address.0), last.max(area.end())));
        }
    }
    plan.channel_clear_count = u32::from(written.is_some());
    let region =
        |(first, last)| RamRegion { guest: GuestAddress(0), physical: PhysicalAddress(first), bytes: last - first };
    fill(&mut plan.channel_clear, written.map(region));
}

fn fill_management(plan: &mut PartitionPlan, system: &System, layout: &Layout, own: usize) {
    let manages = maps::manages(system, own);
    let is_manageable = maps::is_manageable(system, own);
    let partitions = 0..system.partitions.len();
    let manage = partitions.clone().map(|other| {
        let reads = if other == own { manages } else { is_manageable };
        if reads { layout.address(AreaKind::Manage(other)) } else { PhysicalAddress(0) }
    });
    fill(&mut plan.manage, manage);
    if let Some(partition) = system.partitions.get(own).filter(|_| manages) {
        plan.manage_period_ticks = ticks::round_up(partition.manage_limit.period_ns, system.board.counter_hz);
        plan.manage_events = partition.manage_limit.events;
        fill(&mut plan.status, partitions.clone().map(|other| layout.address(AreaKind::Status(other))));
    }
    plan.lead_mpidr = [NO_CORE; MAX_PARTITIONS];
    let lead = |other: usize| {
        let board_core = system
            .partitions
            .get(other)
            .filter(|_| maps::is_manageable(system, other))
            .and_then(|partition| partition.cores.first());
        board_core.map_or(NO_CORE, |board_core| mpidr(system, *board_core))
    };
    fill(&mut plan.lead_mpidr, partitions.map(lead));
}

fn doorbells(system: &System, layout: &Layout, draft: &Draft) -> Vec<DoorbellPlan> {
    let rung = draft.ends.iter().filter(|end| end.doorbell != crate::channels::NO_DOORBELL);
    rung.filter_map(|end| {
        let limiter = system.limiter(system.channels.get(end.channel)?);
        Some(DoorbellPlan {
            intid: end.interrupt,
            peer: narrow(end.peer),
            words: layout.address(doorbell_area(system, end.channel)?),
            period_ticks: limiter.map_or(0, |limiter| ticks::round_up(limiter.period_ns, system.board.counter_hz)),
            events: limiter.map_or(0, |limiter| limiter.events),
            channel: narrow(end.channel),
        })
    })
    .collect()
}

fn health(system: &System, partition: &Partition) -> HealthPlan {
    let to_ticks = |time_ns| ticks::round_up(time_ns, system.board.counter_hz);
    let mut plan = HealthPlan { watchdog_ticks: partition.watchdog_ns.map_or(0, to_ticks), ..HealthPlan::default() };
    match partition.health {
        HealthPolicy::Stop => plan.policy = POLICY_STOP,
        HealthPolicy::Halt => plan.policy = POLICY_HALT,
        HealthPolicy::Restart { max, within_ns, backoff_ns } => {
            plan.policy = POLICY_RESTART;
            plan.max_restarts = max;
            plan.within_ticks = to_ticks(within_ns);
            plan.backoff_ticks = to_ticks(backoff_ns);
        }
    }
    plan
}

fn core_boot(system: &System, settled: &Settled, core: usize, core_use: &CoreUse) -> CoreBoot {
    let layout = &settled.layout;
    let first = |kind: fn(usize, usize) -> AreaKind| {
        core_use.vcpus.first().map_or(PhysicalAddress(0), |vcpu| layout.address(kind(vcpu.partition, vcpu.vcpu)))
    };
    CoreBoot {
        mpidr: mpidr(system, core_use.board_core),
        midr: system.board.core_types.get(core_use.board_core).copied().flatten().map_or(0, |kind| kind.midr),
        el2_root: settled.el2.get(core).map_or(PhysicalAddress(0), |(_, tables)| tables.root()),
        stack_top: PhysicalAddress(layout.address(AreaKind::Stack(core)).0 + stack_bytes(core_use.is_shared())),
        plan: first(AreaKind::VcpuPlan),
        data: layout.address(AreaKind::Data(core)),
        data_bytes: data_bytes(core_use),
        counters: first(AreaKind::Counters),
        schedule: layout.address(AreaKind::Schedule(core)),
        trace: layout.address(AreaKind::Trace(core)),
        trace_bytes: layout.area(AreaKind::Trace(core)).map_or(0, |area| area.bytes),
    }
}

fn partition_entry(settled: &Settled, index: usize, partition: &Partition) -> PartitionEntry {
    let layout = &settled.layout;
    let mut vcpu_console = [PhysicalAddress(0); MAX_CORES];
    fill(&mut vcpu_console, (0..partition.cores.len()).map(|vcpu| layout.address(AreaKind::VcpuConsole(index, vcpu))));
    let mut vcpu_counters = [PhysicalAddress(0); MAX_CORES];
    fill(&mut vcpu_counters, (0..partition.cores.len()).map(|vcpu| layout.address(AreaKind::Counters(index, vcpu))));
    PartitionEntry {
        name: name_from(&partition.name),
        plan: layout.address(AreaKind::PartitionPlan(index)),
        status: layout.address(AreaKind::Status(index)),
        stage2_root: settled.stage2_root(index),
        vcpu_counters,
        vcpu_console,
        guest_console: layout.address(AreaKind::GuestConsole(index)),
        console_bytes: if partition.virtual_uart || partition.own_console { CONSOLE_BYTES } else { 0 },
    }
}

fn header(
    system: &System,
    settled: &Settled,
    uses: &[CoreUse],
    partitions: &[PlannedPartition],
    file: &File<'_>,
    part: Part,
) -> ImageHeader {
    let layout = &settled.layout;
    let area_bytes = |kind| layout.area(kind).map_or(0, |area| area.page_bytes());
    let start = layout.address(AreaKind::Text);
    let mut header = ImageHeader::new_zeroed();
    header.magic = IMAGE_MAGIC;
    header.abi_version = ABI_VERSION;
    header.image_start = start;
    header.image_bytes = layout.file_end.0 - start.0;
    header.memory_bytes = layout.monitor_end.0 - start.0;
    header.text = start;
    header.text_bytes = area_bytes(AreaKind::Text);
    header.rodata = PhysicalAddress(start.0 + header.text_bytes);
    header.rodata_bytes = area_bytes(AreaKind::Rodata);
    header.plan = layout.plan;
    header.plan_bytes = layout.plan_bytes;
    header.plan_crc = file.crc(layout.plan, layout.plan_bytes);
    header.text_crc = file.crc(start, header.text_bytes + header.rodata_bytes);
    header.part = part as u32;
    header.core_count = narrow(uses.len());
    header.partition_count = narrow(system.partitions.len());
    header.boot_core = 0;
    header.counter_hz = system.board.counter_hz;
    let banks = system.board.banks_of(system.memory_bytes);
    header.bank_count = narrow(banks.len());
    fill(&mut header.banks, banks.iter().map(|bank| RamBank { start: bank.start, bytes: bank.bytes }));
    let reserved = system.board.reserved_in(&banks);
    header.reserved_count = narrow(reserved.len());
    fill(&mut header.reserved, reserved.iter().map(|one| RamBank { start: one.start, bytes: one.bytes }));
    header.security_states = system.board.security_states;
    header.physical_address_bits = system.board.physical_address_bits.min(MOST_ADDRESS_BITS);
    header.tcr = el2::tcr(system.board.el2_address_bits(), system.board.physical_address_bits);
    header.mair = el2::MAIR;
    header.board = name_from(&system.board.name);
    header.gicd = system.board.gicd;
    let owned = partitions.iter().flat_map(|planned| planned.plan.interrupts());
    header.gicd_icfgr = interrupts::configuration_words(owned);
    header.source_hash = system.source_hash;
    fill(&mut header.cores, uses.iter().enumerate().map(|(core, core_use)| core_boot(system, settled, core, core_use)));
    fill(
        &mut header.partitions,
        system.partitions.iter().enumerate().map(|(index, partition)| partition_entry(settled, index, partition)),
    );
    header.header_crc = crc32c(header.as_bytes());
    header
}

const _: () = assert!(PAGE_BYTES as usize >= size_of::<ImageHeader>());
