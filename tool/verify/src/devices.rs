//! Emulated devices: windows and PCI functions.

use crate::area::overlap;
use crate::code::Code;
use crate::el2::{GICD_BYTES, GICR_BYTES};
use crate::finding::Findings;
use crate::fronts;
use crate::image::{Contents, PAGE, Partition, View};
use bulkhead_abi::plan::{
    MODE_DIRECT, PCI_DEVICE, PCI_IVSHMEM, PCI_MANAGEMENT, PartitionPlan, PciFunction, WINDOW_ECAM, WINDOW_GICD,
    WINDOW_GICR, WINDOW_PCI_REGISTERS, WINDOW_UART, WINDOW_VIRTIO, Window,
};
use bulkhead_abi::virtio::PAGE_REGISTER;
use bulkhead_guest_abi::guest::{
    GUEST_ECAM, GUEST_GICD, GUEST_GICR, GUEST_PCI_MEMORY, GUEST_PCI_REGISTERS, GUEST_UART,
};
use std::ops::Range;

const ECAM_BYTES: u64 = 1 << 20;
const PCI_REGISTERS_STEP: u64 = 64 << 10;
const PCI_MEMORY_STEP: u64 = 16 << 20;

/// Checks the emulated devices of every partition and the frames of the interrupt controller.
pub(crate) fn check(view: &View<'_>, contents: &Contents, findings: &mut Findings) {
    for partition in &contents.partitions {
        check_windows(partition, findings);
        check_functions(partition, findings);
    }
    check_frames(view, contents, findings);
}

fn windows(partition: &Partition) -> impl Iterator<Item = &Window> {
    partition.plan.windows().iter()
}

fn range(window: &Window) -> Range<u64> {
    window.guest.0..window.guest.0.saturating_add(window.bytes)
}

/// Bytes of the redistributor window: all frames, or for a `direct` partition its RD frame alone.
fn redistributor_window(plan: &PartitionPlan) -> u64 {
    if plan.mode == MODE_DIRECT { GICR_BYTES / 2 } else { u64::from(plan.vcpu_count) * GICR_BYTES }
}

fn check_windows(partition: &Partition, findings: &mut Findings) {
    let plan = &partition.plan;
    let name = partition.name();
    let functions = u64::from(plan.pci_count);
    // What is behind these is mapped, not answered.
    let of_board = plan.pci().iter().filter(|function| function.kind == PCI_DEVICE).count() as u64;
    for (index, window) in windows(partition).enumerate() {
        let function = plan.pci().get(window.index as usize);
        let good = match window.kind {
            WINDOW_GICD => window.guest == GUEST_GICD && window.bytes == GICD_BYTES && window.index == 0,
            WINDOW_GICR => {
                window.guest == GUEST_GICR && window.bytes == redistributor_window(plan) && window.index == 0
            }
            WINDOW_UART => window.guest == GUEST_UART && window.bytes == PAGE && window.index == 0,
            WINDOW_ECAM => {
                window.guest == GUEST_ECAM && window.bytes == ECAM_BYTES && functions > 0 && window.index == 0
            }
            WINDOW_PCI_REGISTERS => {
                window.bytes == PAGE && function.is_some_and(|function| function.registers == window.guest)
            }
            // That there are as many as fronts says the device plan.
            WINDOW_VIRTIO => {
                window.guest.0 == fronts::registers(window.index.into()) && window.bytes == u64::from(PAGE_REGISTER)
            }
            _ => false,
        };
        findings.require(good, Code::Window, || {
            format!(
                "partition \"{name}\": the window of kind {} at {} has a wrong place, size or index",
                window.kind, window.guest
            )
        });
        for other in windows(partition).skip(index + 1) {
            findings.require(!overlap(&range(window), &range(other)), Code::Window, || {
                format!("partition \"{name}\": the windows at {} and {} overlap", window.guest, other.guest)
            });
        }
    }
    let count = |kind| windows(partition).filter(|window| window.kind == kind).count() as u64;
    let complete = count(WINDOW_GICD) == 1
        && count(WINDOW_GICR) == 1
        && count(WINDOW_ECAM) == u64::from(functions > 0)
        && count(WINDOW_PCI_REGISTERS) == functions - of_board;
    findings.require(complete, Code::Window, || {
        format!("partition \"{name}\" lacks a window for its interrupt controller or a PCI function, or has one twice")
    });
}

fn check_functions(partition: &Partition, findings: &mut Findings) {
    let plan = &partition.plan;
    for (index, function) in plan.pci().iter().enumerate() {
        let position = index as u64;
        let registers = function.registers.0 == GUEST_PCI_REGISTERS.0 + position * PCI_REGISTERS_STEP;
        let memory = function.memory.0 == GUEST_PCI_MEMORY.0 + position * PCI_MEMORY_STEP;
        let good = match function.kind {
            PCI_MANAGEMENT => {
                index == 0
                    && function.memory.0 == 0
                    && function.memory_bytes == 0
                    && function.interrupt == 0
                    && function.doorbell == u32::MAX
                    && function.position == 0
            }
            PCI_IVSHMEM => {
                memory
                    && function.memory_bytes.is_power_of_two()
                    && (PAGE..=PCI_MEMORY_STEP).contains(&function.memory_bytes)
                    && function.position <= 1
            }
            PCI_DEVICE => {
                let zeros = PciFunction {
                    kind: PCI_DEVICE,
                    interrupt: function.interrupt,
                    doorbell: u32::MAX,
                    ..PciFunction::default()
                };
                *function == zeros
            }
            _ => false,
        };
        let registers = registers || function.kind == PCI_DEVICE;
        findings.require(registers && good, Code::PciFunction, || {
            format!(
                "PCI function {index} of partition \"{}\" has kind {}, BARs or position that the bus cannot have",
                partition.name(),
                function.kind
            )
        });
    }
}

fn check_frames(view: &View<'_>, contents: &Contents, findings: &mut Findings) {
    let gicd = view.header.gicd.0..view.header.gicd.0.saturating_add(GICD_BYTES);
    let mut frames: Vec<(Range<u64>, String)> = vec![(gicd.clone(), String::from("the distributor"))];
    for core in &contents.cores {
        for vcpu in &core.vcpus {
            let plan = &vcpu.plan;
            findings.require(plan.gicd == view.header.gicd, Code::BootRecord, || {
                format!("core {}: its distributor is {}, the header's is {}", core.index, plan.gicd, view.header.gicd)
            });
            findings.require(plan.gicr.0 == core.gicr(), Code::BootRecord, || {
                format!("core {}: its vCPUs name different redistributors", core.index)
            });
        }
        let frame = core.gicr()..core.gicr().saturating_add(GICR_BYTES);
        frames.push((frame, format!("the redistributor of core {}", core.index)));
    }
    for (index, (frame, name)) in frames.iter().enumerate() {
        let free = frame.start % (64 << 10) == 0 && frame.start != 0 && !view.touches_ram(frame);
        let alone = frames.iter().skip(index + 1).all(|(other, _)| !overlap(frame, other));
        findings.require(free && alone, Code::BootRecord, || {
            format!("{name} at {:#x} is misaligned, in RAM, or another core's", frame.start)
        });
    }
}
