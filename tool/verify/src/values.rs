//! Register values and words of the plans: each has exactly the value that confines its mode.

use crate::board::AddressBits;
use crate::code::Code;
use crate::finding::Findings;
use crate::image::{Contents, Core, PAGE, Partition, Vcpu, View};
use crate::registers::{CPTR, HCR_DIRECT, HCR_MAPPED, HCR_SHARED, MDCR, vtcr};
use bulkhead_abi::console::CONSOLE_HEADER_BYTES;
use bulkhead_abi::observe::{TRACE_HEADER_BYTES, TraceRecord};
use bulkhead_abi::plan::{
    FLAG_FILTERED, FLAG_MANAGEABLE, FLAG_MANAGES, MAX_DOORBELLS, MAX_INTERRUPTS, MAX_PCI_FUNCTIONS, MAX_RAM_REGIONS,
    MAX_SEGMENTS, MAX_WINDOWS, MODE_DIRECT, MODE_MAPPED, POLICY_HALT, POLICY_RESTART, POLICY_STOP, PartitionPlan,
};
use bulkhead_abi::schedule::SCHEDULER_BYTES;
use bulkhead_abi::{MAX_CORES, Part};
use std::collections::HashSet;
use zerocopy::{Immutable, IntoBytes};

/// Checks every core's identity and registers and every partition's words.
pub(crate) fn check(view: &View<'_>, contents: &Contents, bits: AddressBits, findings: &mut Findings) {
    let mut seen = HashSet::new();
    let mut vcpus = HashSet::new();
    let mut siblings = HashSet::new();
    for core in &contents.cores {
        check_core(core, &mut seen, findings);
        for vcpu in &core.vcpus {
            check_identity(core, vcpu, findings);
            check_registers(core, vcpu, contents, bits, findings);
            findings.require(vcpus.insert((vcpu.plan.partition, vcpu.plan.vcpu)), Code::VcpuCore, || {
                format!("vCPU {} of partition {} runs in two places", vcpu.plan.vcpu, vcpu.plan.partition)
            });
            // Its number is by what siblings call a core, for one vCPU there, and its VMID for one view of its own translations.
            findings.require(siblings.insert((vcpu.plan.partition, core.index)), Code::SeveralShared, || {
                format!("core {}: two vCPUs are those of partition {}", core.index, vcpu.plan.partition)
            });
        }
    }
    for partition in &contents.partitions {
        check_counts(partition, findings);
        check_vcpus(partition, contents, findings);
        check_words(partition, view.header.part, findings);
    }
    let header = &view.header;
    let rest = header.cores.iter().skip(contents.cores.len()).all(is_zero)
        && header.partitions.iter().skip(contents.partitions.len()).all(is_zero)
        && header.banks.iter().skip(header.bank_count as usize).all(is_zero)
        && header.reserved.iter().skip(header.reserved_count as usize).all(is_zero);
    findings.require(rest, Code::Leftover, || {
        String::from("the header has cores, partitions, banks or reserved regions past its counts")
    });
    let has_schedule = contents.cores.iter().any(|core| core.boot.schedule.0 != 0);
    let follows = [Part::Shared, Part::Devices].into_iter().any(|part| header.part == part as u32);
    findings.require(!has_schedule || follows, Code::Part, || {
        String::from("a core has a schedule, which the part of the monitor in this image does not follow")
    });
}

fn check_core(core: &Core, seen: &mut HashSet<u64>, findings: &mut Findings) {
    let (boot, index) = (&core.boot, core.index);
    findings.require(seen.insert(boot.mpidr), Code::Mpidr, || {
        format!("core {index}: MPIDR {:#x} belongs to two cores", boot.mpidr)
    });
    let first = core.vcpus.first();
    let same = first.is_some_and(|vcpu| boot.plan == vcpu.address && boot.counters == vcpu.plan.counters);
    findings.require(same, Code::BootRecord, || {
        format!("core {index}: the boot record does not name plan and counters of its first vCPU")
    });
    let scheduler = if core.schedule.is_some() { SCHEDULER_BYTES } else { 0 };
    findings.require(boot.data_bytes == core.vcpus.len() as u64 * PAGE + scheduler, Code::BootRecord, || {
        format!("core {index}: {:#x} bytes of private data do not fit its vCPUs", boot.data_bytes)
    });
    let bytes = boot.trace_bytes;
    findings.require(is_ring(bytes, TRACE_HEADER_BYTES, size_of::<TraceRecord>() as u64), Code::PlanValue, || {
        format!("core {index}: a trace ring of {bytes} bytes does not hold a power of two of records")
    });
}

fn check_identity(core: &Core, vcpu: &Vcpu, findings: &mut Findings) {
    let (boot, plan, index) = (&core.boot, &vcpu.plan, core.index);
    findings.require(boot.mpidr == plan.mpidr, Code::Mpidr, || {
        format!("core {index}: the boot record says MPIDR {:#x}, the plan {:#x}", boot.mpidr, plan.mpidr)
    });
    findings.require(plan.vmpidr == 1 << 31 | u64::from(plan.vcpu), Code::VcpuCore, || {
        format!("core {index}: VMPIDR_EL2 {:#x} does not name vCPU {}", plan.vmpidr, plan.vcpu)
    });
    findings.require(boot.trace == plan.trace && boot.trace_bytes == plan.trace_bytes, Code::BootRecord, || {
        format!("core {index}: boot record and plan name different trace rings")
    });
    let placed = plan.schedule == boot.schedule && plan.slot as usize == vcpu.slot;
    findings.require(placed, Code::Slot, || {
        format!("core {index}: the vCPU in slot {} believes in slot {} of {}", vcpu.slot, plan.slot, plan.schedule)
    });
}

/// States whether a ring has a header and a power of two of entries.
fn is_ring(bytes: u64, header_bytes: u64, entry_bytes: u64) -> bool {
    bytes
        .checked_sub(header_bytes)
        .is_some_and(|rest| rest % entry_bytes == 0 && (rest / entry_bytes).is_power_of_two())
}

fn check_registers(core: &Core, vcpu: &Vcpu, contents: &Contents, bits: AddressBits, findings: &mut Findings) {
    let (plan, index) = (&vcpu.plan, core.index);
    let hcr = match (core.schedule.is_some(), plan.mode) {
        (true, _) => HCR_SHARED,
        (false, MODE_DIRECT) => HCR_DIRECT,
        (false, _) => HCR_MAPPED,
    };
    findings.require(plan.hcr == hcr, Code::Hcr, || {
        format!("core {index}: HCR_EL2 is {:#x}, its mode and core need {hcr:#x}", plan.hcr)
    });
    let vtcr = vtcr(bits.physical);
    findings.require(plan.vtcr == vtcr, Code::Vtcr, || {
        format!("core {index}: VTCR_EL2 is {:#x}, the tables need {vtcr:#x}", plan.vtcr)
    });
    findings.require(plan.mdcr == MDCR, Code::Mdcr, || {
        format!("core {index}: MDCR_EL2 is {:#x}, must be {MDCR:#x}", plan.mdcr)
    });
    findings.require(plan.cptr == CPTR, Code::Cptr, || {
        format!("core {index}: CPTR_EL2 is {:#x}, must be {CPTR:#x}", plan.cptr)
    });
    let vmid = plan.vttbr >> 48;
    findings.require(vmid == u64::from(plan.partition) + 1, Code::Vmid, || {
        format!(
            "core {index}: VTTBR_EL2 holds VMID {vmid}, partition {} has VMID {}",
            plan.partition,
            u64::from(plan.partition) + 1
        )
    });
    let root = plan.vttbr & 0x0000_ffff_ffff_ffff;
    let own = contents.partitions.get(plan.partition as usize);
    findings.require(own.is_some_and(|partition| partition.entry.stage2_root.0 == root), Code::Stage2Root, || {
        format!("core {index}: VTTBR_EL2 points at {root:#x}, which is not the root of partition {}", plan.partition)
    });
    let Some(partition) = own else { return };
    findings.require(plan.mode == partition.plan.mode && plan.trace_enabled <= 1, Code::PlanValue, || {
        format!(
            "core {index}: mode {} differs from its partition's mode {}, or the trace switch is not 0 or 1",
            plan.mode, partition.plan.mode
        )
    });
    findings.require(
        plan.partition_plan == partition.entry.plan && plan.status == partition.entry.status,
        Code::BootRecord,
        || format!("core {index}: its partition plan or status page is not that of partition \"{}\"", partition.name()),
    );
    let console = partition.entry.vcpu_console.get(plan.vcpu as usize).copied().unwrap_or_default();
    let console_bytes = if console.0 == 0 { 0 } else { partition.entry.console_bytes };
    findings.require(plan.console == console && plan.console_bytes == console_bytes, Code::BootRecord, || {
        format!(
            "core {index}: its console ring is not that of vCPU {} of partition \"{}\"",
            plan.vcpu,
            partition.name()
        )
    });
    check_counters(vcpu, partition, findings);
    findings.require(plan.uart.0 % PAGE == 0, Code::PlanValue, || {
        format!("core {index}: the UART at {} is not a page", plan.uart)
    });
}

fn check_counters(vcpu: &Vcpu, partition: &Partition, findings: &mut Findings) {
    let (plan, index) = (&vcpu.plan, vcpu.core);
    let counters = partition.entry.vcpu_counters.get(plan.vcpu as usize).copied().unwrap_or_default();
    findings.require(plan.counters == counters && counters.0 != 0, Code::BootRecord, || {
        format!("core {index}: its counters are not those of vCPU {} of partition \"{}\"", plan.vcpu, partition.name())
    });
}

fn check_counts(partition: &Partition, findings: &mut Findings) {
    let plan = &partition.plan;
    for (what, count, limit) in [
        ("vCPUs", plan.vcpu_count, MAX_CORES),
        ("RAM regions", plan.ram_count, MAX_RAM_REGIONS),
        ("segments", plan.segment_count, MAX_SEGMENTS),
        ("interrupts", plan.interrupt_count, MAX_INTERRUPTS),
        ("windows", plan.window_count, MAX_WINDOWS),
        ("PCI functions", plan.pci_count, MAX_PCI_FUNCTIONS),
        ("doorbells", plan.doorbell_count, MAX_DOORBELLS),
        ("regions to clear", plan.channel_clear_count, MAX_DOORBELLS),
    ] {
        let good = count as usize <= limit && (count > 0 || !matches!(what, "vCPUs" | "RAM regions"));
        findings.require(good, Code::Count, || {
            format!("partition \"{}\" has {count} {what}; at most {limit}", partition.name())
        });
    }
    findings.require(leftovers(plan), Code::Leftover, || {
        format!("partition \"{}\" has entries past one of its counts, which no check covers", partition.name())
    });
}

fn is_zero<T: IntoBytes + Immutable>(value: &T) -> bool {
    value.as_bytes().iter().all(|byte| *byte == 0)
}

/// States whether everything past the counts is empty.
fn leftovers(plan: &PartitionPlan) -> bool {
    fn rest<T: IntoBytes + Immutable>(entries: &[T], count: u32) -> bool {
        entries.iter().skip(count as usize).all(is_zero)
    }
    rest(&plan.vcpu_mpidr, plan.vcpu_count)
        && rest(&plan.vcpu_core, plan.vcpu_count)
        && rest(&plan.ram, plan.ram_count)
        && rest(&plan.segments, plan.segment_count)
        && rest(&plan.interrupts, plan.interrupt_count)
        && rest(&plan.windows, plan.window_count)
        && rest(&plan.pci, plan.pci_count)
        && rest(&plan.ports, plan.pci_count)
        && rest(&plan.doorbells, plan.doorbell_count)
        && rest(&plan.channel_clear, plan.channel_clear_count)
}

fn check_vcpus(partition: &Partition, contents: &Contents, findings: &mut Findings) {
    let plan = &partition.plan;
    let count = contents.vcpus_of(partition.index).count();
    findings.require(count == plan.vcpu_count as usize, Code::VcpuCore, || {
        format!("partition \"{}\" has {} vCPUs but {count} run somewhere", partition.name(), plan.vcpu_count)
    });
    let mut shared = 0;
    for (vcpu, (mpidr, core)) in plan.vcpu_mpidr.iter().zip(plan.vcpu_core).take(plan.vcpu_count as usize).enumerate() {
        let core_of = contents.cores.get(core as usize);
        let runs = contents
            .vcpus_of(partition.index)
            .any(|one| one.core == core as usize && one.plan.vcpu as usize == vcpu && one.plan.mpidr == *mpidr);
        findings.require(runs, Code::VcpuCore, || {
            format!(
                "vCPU {vcpu} of partition \"{}\" names core {core} with MPIDR {mpidr:#x}, which does not run it",
                partition.name()
            )
        });
        shared |= u32::from(core_of.is_some_and(|core| core.schedule.is_some())) << vcpu;
    }
    findings.require(shared & 1 == 0 || plan.vcpu_count == 1, Code::SeveralShared, || {
        format!("partition \"{}\" has {} vCPUs, and the first is on a shared core", partition.name(), plan.vcpu_count)
    });
    findings.require(plan.shared_vcpus == shared, Code::SharedVcpus, || {
        format!(
            "partition \"{}\" says that vCPUs {:#b} are on shared cores, but {shared:#b} are",
            partition.name(),
            plan.shared_vcpus
        )
    });
    let rest = partition.entry.vcpu_counters.iter().skip(plan.vcpu_count as usize).all(is_zero);
    findings.require(rest, Code::Leftover, || {
        format!("partition \"{}\" has counters of vCPUs that it does not have", partition.name())
    });
}

fn check_words(partition: &Partition, part: u32, findings: &mut Findings) {
    let plan = &partition.plan;
    let name = partition.name();
    findings.require(matches!(plan.mode, MODE_MAPPED | MODE_DIRECT), Code::PlanValue, || {
        format!("partition \"{name}\" has mode {}", plan.mode)
    });
    let direct = plan.mode == MODE_DIRECT;
    // Below a payload EL3 brings every core to EL2 but the one that the machine starts on, which is the payload's.
    let kicked = part == Part::Hybrid as u32 && plan.vcpu_mpidr.first().is_some_and(|mpidr| *mpidr != 0);
    let has_watchdog = plan.health.watchdog_ticks != 0;
    findings.require(!direct || plan.vcpu_count == 1 && (kicked || !has_watchdog), Code::PlanValue, || {
        format!(
            "partition \"{name}\" is direct but has several vCPUs or a watchdog: the monitor has no interrupt there"
        )
    });
    let filtered = if direct && kicked { FLAG_FILTERED } else { 0 };
    let known = plan.flags & !(FLAG_MANAGES | FLAG_MANAGEABLE | filtered) == 0;
    findings.require(known && (plan.flags & FLAG_MANAGEABLE != 0) == (!direct || kicked), Code::PlanValue, || {
        format!("partition \"{name}\" has flags {:#x}, which do not fit its mode", plan.flags)
    });
    let health = &plan.health;
    let good = match health.policy {
        POLICY_RESTART => health.max_restarts > 0 && health.within_ticks > 0,
        POLICY_STOP | POLICY_HALT => health.max_restarts == 0 && health.within_ticks == 0 && health.backoff_ticks == 0,
        _ => false,
    };
    findings.require(good, Code::PlanValue, || {
        format!("partition \"{name}\" has health policy {} without its limits", health.policy)
    });
    let console_bytes = partition.entry.console_bytes;
    findings.require(console_bytes == 0 || is_ring(console_bytes, CONSOLE_HEADER_BYTES, 8), Code::PlanValue, || {
        format!("partition \"{name}\": a console ring of {console_bytes} bytes does not hold a power of two of entries")
    });
}
