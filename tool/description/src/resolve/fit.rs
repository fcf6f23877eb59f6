//! The last check: the system is laid out for real, with a monitor of the size that it may at most have.
//!
//! The planner is the one who knows what the monitor needs for tables, rings and pristine images, so it is asked instead of
//! imitated. What it refuses is reported with a place in the description. So a description that `check` accepts is one that `build`
//! can build.

use super::Resolver;
use crate::code::Code;
use crate::description::Memory;
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::unit::format_size;
use bulkhead_plan::model::System;
use bulkhead_plan::{AreaKind, MonitorImage, Plan, PlanError};

/// Most bytes of monitor text and read-only data: the ceiling that its size test keeps.
const MONITOR_BYTES: usize = 64 << 10;

impl Resolver<'_> {
    /// Lays the system out and reports what does not fit.
    pub(super) fn fit(&mut self, system: &mut System) {
        let (memory_bytes, fixed) =
            (system.memory_bytes, system.partitions.iter().map(|partition| partition.physical_ram).collect::<Vec<_>>());
        // First without fixed places and with all memory the board can have, to learn what is needed.
        system.memory_bytes = system.board.ram_bytes();
        system.partitions.iter_mut().for_each(|partition| partition.physical_ram = None);
        let free = layout(system);
        system.memory_bytes = memory_bytes;
        system.partitions.iter_mut().zip(&fixed).for_each(|(partition, place)| partition.physical_ram = *place);
        let plan = match free {
            Ok(plan) => plan,
            Err(error) => return self.planner_error(&error),
        };
        let ends = plan.areas().into_iter().map(|area| system.board.ram_offset(area.end()));
        let needed = ends.max().unwrap_or(0);
        if needed > memory_bytes {
            return self.too_small(needed, memory_bytes, &plan);
        }
        self.beside_monitor(system, &plan);
        if fixed.iter().any(Option::is_some)
            && !self.report.has_errors()
            && let Err(error) = layout(system)
        {
            self.planner_error(&error);
        }
    }

    /// Checks that fixed places leave the monitor's memory free.
    fn beside_monitor(&mut self, system: &System, plan: &Plan) {
        let monitor = plan.header.image_start.0;
        let monitor_end = monitor.saturating_add(plan.header.memory_bytes);
        for (partition, written) in system.partitions.iter().zip(&self.description.partition) {
            let Some(start) = partition.physical_ram else {
                continue;
            };
            if start.0 < monitor_end && monitor < start.0.saturating_add(partition.memory_bytes) {
                let span = match &written.memory.value {
                    Memory::Size(size) => size.span,
                    Memory::Table(table) => {
                        table.physical_address.as_ref().map_or(table.size.span, |address| address.span)
                    }
                };
                let message = format!("RAM of `{}` overlaps the monitor", partition.name);
                let note = format!(
                    "the monitor, its plan, rings and pristine images are at {monitor:#x} to {:#x} in this system",
                    monitor_end - 1
                );
                let help = format!(
                    "{:#x} is above it; without `physical_address` the tool finds a place",
                    monitor_end.next_multiple_of(0x20_0000)
                );
                self.push(Diagnostic::new(Code::MemoryOverlapsMonitor, message).at(span, "").note(note).help(help));
            }
        }
    }

    /// Reports a machine that is too small.
    fn too_small(&mut self, needed: u64, memory_bytes: u64, plan: &Plan) {
        let message = format!(
            "the system needs {} and the machine has {}",
            format_size(needed.next_multiple_of(0x10_0000)),
            format_size(memory_bytes)
        );
        let of_partitions: u64 = plan
            .areas()
            .iter()
            .filter(|area| matches!(area.kind, AreaKind::Ram(_)))
            .map(bulkhead_plan::Area::page_bytes)
            .sum();
        let note = format!(
            "{} are RAM of partitions; the rest is the monitor with tables, rings and a pristine copy of each image",
            format_size(of_partitions)
        );
        let span = self.description.memory.span;
        let diagnostic = Diagnostic::new(Code::MemoryExhausted, message).at(span, "too small").note(note);
        let enough = format_size(needed.next_multiple_of(0x400_0000));
        self.push(diagnostic.suggest(span, format!("\"{enough}\""), "enough for this system"));
    }

    /// Reports what the planner says.
    fn planner_error(&mut self, error: &PlanError) {
        let memory = self.description.memory.span;
        let (code, span) = match error {
            PlanError::OutOfMemory { .. } => (Code::MemoryExhausted, memory),
            PlanError::Overlay { partition, .. } => (Code::NotOverlay, self.overlay_span(partition).unwrap_or(memory)),
            PlanError::DeviceTree { partition, .. } => {
                (Code::DeviceTreePlace, self.device_tree_span(partition).unwrap_or(memory))
            }
            PlanError::NotAnImage { partition, .. } => {
                (Code::NotLinuxImage, self.image_span(partition).unwrap_or(memory))
            }
            _ => (Code::NotPlannable, self.description.name.span),
        };
        self.push(Diagnostic::new(code, error.to_string()).at(span, ""));
    }

    fn overlay_span(&self, name: &str) -> Option<Span> {
        let partition = self.description.partition.iter().find(|partition| partition.name.value == name)?;
        partition.device_tree_overlay.as_ref().map(|overlay| overlay.span)
    }

    fn device_tree_span(&self, name: &str) -> Option<Span> {
        let partition = self.description.partition.iter().find(|partition| partition.name.value == name)?;
        partition.image.device_tree_address.as_ref().map(|address| address.span)
    }

    fn image_span(&self, name: &str) -> Option<Span> {
        self.description
            .partition
            .iter()
            .find(|partition| partition.name.value == name)
            .map(|partition| partition.image.file.span)
    }
}

/// Plans a system with a stand-in for the monitor.
fn layout(system: &System) -> Result<Plan, PlanError> {
    let half = vec![0; MONITOR_BYTES / 2];
    bulkhead_plan::plan(
        system,
        &MonitorImage { text: half.clone(), rodata: half, part: bulkhead_plan::part_of(system) },
    )
}
