//! Numbers about an image, for people and for tests.

use crate::Image;
use crate::map::size_text;
use bulkhead_abi::PAGE_BYTES;
use bulkhead_guest_abi::name_text;
use bulkhead_plan::AreaKind;
use bulkhead_plan::maps::CoreUse;
use bulkhead_plan::model::System;
use std::path::Path;

/// Monitor memory that one core accounts for, without rings and pristine images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreMemory {
    /// Core index in the image.
    pub core: usize,
    /// Index of the core on the board.
    pub board_core: usize,
    /// Partitions that run there, in the order of the description.
    pub partitions: Vec<usize>,
    /// Stack, private data, counters and plans of vCPUs; of a shared core its schedule and usage too.
    pub private_bytes: u64,
    /// EL2 stage-1 tables.
    pub el2_table_bytes: u64,
    /// The partitions' stage-2 tables, plans, shared state, status, manage and information pages, each divided by the
    /// cores of its partition and rounded up.
    pub partition_share_bytes: u64,
}

impl CoreMemory {
    /// Returns the sum.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.private_bytes + self.el2_table_bytes + self.partition_share_bytes
    }
}

/// Returns the monitor memory of each core. Text, read-only data and header exist once for all cores and are not
/// counted.
#[must_use]
pub fn core_memory(image: &Image) -> Vec<CoreMemory> {
    let plan = &image.plan;
    let bytes = |kind: AreaKind| plan.layout.area(kind).map_or(0, |area| area.page_bytes());
    let cores_of =
        |partition: usize| plan.core_uses.iter().filter(|core_use| core_use.runs(partition)).count().max(1) as u64;
    let per_partition = |partition: usize| {
        [
            AreaKind::PartitionPlan(partition),
            AreaKind::Information(partition),
            AreaKind::DevicePlan(partition),
            AreaKind::Stage2Tables(partition),
            AreaKind::Shared(partition),
            AreaKind::Status(partition),
            AreaKind::Manage(partition),
        ]
        .map(bytes)
        .iter()
        .sum::<u64>()
    };
    let one = |(core, core_use): (usize, &CoreUse)| {
        let of_vcpus = core_use.vcpus.iter().flat_map(|vcpu| {
            let (partition, vcpu) = (vcpu.partition, vcpu.vcpu);
            [AreaKind::Counters, AreaKind::VcpuPlan, AreaKind::StolenTime].map(|kind| kind(partition, vcpu))
        });
        let of_core = [AreaKind::Stack, AreaKind::Data, AreaKind::Schedule, AreaKind::Usage].map(|kind| kind(core));
        let shares = core_use.partitions().into_iter();
        CoreMemory {
            core,
            board_core: core_use.board_core,
            partitions: core_use.partitions(),
            private_bytes: of_core.into_iter().chain(of_vcpus).map(bytes).sum(),
            el2_table_bytes: bytes(AreaKind::El2Tables(core)),
            partition_share_bytes: shares.map(|partition| per_partition(partition).div_ceil(cores_of(partition))).sum(),
        }
    };
    plan.core_uses.iter().enumerate().map(one).collect()
}

/// Says in a few lines what `build` wrote.
pub(crate) fn summary(system: &System, image: &Image, output: &Path, symbols: &Path) -> String {
    let header = &image.plan.header;
    let names: Vec<&str> = image.plan.partitions.iter().map(|partition| name_text(&partition.plan.name)).collect();
    let tables = image
        .plan
        .areas()
        .iter()
        .filter(|area| matches!(area.kind, AreaKind::El2Tables(_) | AreaKind::Stage2Tables(_)))
        .map(|area| area.page_bytes() / PAGE_BYTES)
        .sum::<u64>();
    format!(
        "built {}: system {}, {} partition(s) ({}) on {} core(s)\n  file {} ({}, then zeros for what the monitor writes), \
         {tables} table pages; symbols in {}",
        output.display(),
        system.name,
        header.partition_count,
        names.join(", "),
        header.core_count,
        size_text(header.memory_bytes),
        size_text(header.image_bytes),
        symbols.display(),
    )
}
