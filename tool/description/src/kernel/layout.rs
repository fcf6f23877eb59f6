//! From what was resolved to the bytes of an image, by the writer of instances.

use super::devices::Devices;
use super::end_points::EndPoints;
use super::file::{Component, OnFault};
use super::limits::DEFAULT_STACK_BYTES;
use super::ports::Ports;
use super::processes::processes;
use super::programs::Program;
use super::resolve::{Made, Resolver, Table};
use super::servers::Servers;
use super::shares::Shares;
use super::wires::Wires;
use crate::code::Code;
use crate::description::Trust;
use crate::diagnostic::Diagnostic;
use crate::unit::{parse_duration, parse_size};
use bulkhead_abi::PhysicalAddress;
use bulkhead_instance::{Callers, Instance, Policy, Thread, Written, write_whole};
use bulkhead_kernel_abi::boot::BindingRow;
use bulkhead_plan::model;
use bulkhead_plan::ticks;

impl Resolver<'_> {
    /// Lays the instance out; `None` when that fails, which is reported.
    pub(super) fn lay_out(
        &mut self,
        (programs, process_programs): (&[Option<Program>], &[Option<Program>]),
        (servers, end_points, interrupts): (&Servers, &EndPoints, &[BindingRow]),
        (tables, devices, shares, (wires, ports)): (Vec<Table>, Devices, Shares, (&Wires, &Ports)),
    ) -> Option<Made> {
        let kernel = self.kernel()?;
        let (file, counter_hz) = (self.file, self.around.counter_hz);
        let mut components = Vec::new();
        for (number, ((written, program), table)) in file.component.iter().zip(programs).zip(tables).enumerate() {
            let program = program.as_ref()?;
            let written = component(written, program, table, (servers, counter_hz));
            let dma_bytes = self.dma_bytes(number);
            let (devices, ports) = (devices.of(number), ports.of(number));
            components.push(bulkhead_instance::Component { devices, dma_bytes, ports, ..written });
        }
        let instance = Instance {
            server_names: servers.names(),
            kernel: &kernel,
            components,
            servers: servers.rows(),
            end_points: end_points.rows(),
            bindings: interrupts.to_vec(),
            shares: shares.rows(),
            wires: wires.all().to_vec(),
            processes: processes(file, process_programs)?,
        };
        match write_whole(&instance) {
            Ok(Written { bytes, dma }) => Some(Made {
                bytes,
                components: file
                    .component
                    .iter()
                    .zip(programs)
                    .zip(instance.components.iter().zip(dma))
                    .map(|((written, program), (one, start))| {
                        let bank = model::Bank { start: PhysicalAddress(start), bytes: one.dma_bytes };
                        model::Component { dma: (start != 0).then_some(bank), ..facts(written, program) }
                    })
                    .collect(),
                servers: servers.facts.clone(),
            }),
            Err(error) => {
                let diagnostic =
                    Diagnostic::new(Code::NotPlannable, format!("the instance cannot be laid out: {error}"));
                self.push(diagnostic.at(file.version.span, ""));
                None
            }
        }
    }
}

/// A component as the writer takes it.
fn component<'a>(
    written: &Component,
    program: &'a Program,
    table: Table,
    (servers, counter_hz): (&Servers, u64),
) -> bulkhead_instance::Component<'a> {
    let threads = written.threads.iter().map(|thread| Thread {
        argument: thread.argument.as_ref().map_or(0, |argument| argument.value),
        stack_bytes: thread
            .stack
            .as_ref()
            .and_then(|size| parse_size(&size.value.0).ok())
            .unwrap_or(DEFAULT_STACK_BYTES),
        server: thread.server.as_ref().and_then(|name| servers.number(name)).unwrap_or(0),
    });
    let mut policy = policy(written, counter_hz);
    if let Some(supervisor) = table.supervisor {
        (policy.supervisor, policy.supervisor_bits) = (supervisor.end_point, supervisor.bits);
    }
    bulkhead_instance::Component {
        name: written.name.value.clone(),
        program: &program.bytes,
        threads: threads.collect(),
        thread_names: written.threads.iter().map(|thread| thread.name.value.clone()).collect(),
        capabilities: table.capabilities,
        imports: table.imports,
        callers: written.callers.as_ref().map_or_else(Callers::default, |callers| Callers {
            stacks: u32::try_from(callers.stacks.value).unwrap_or(0),
            stack_bytes: parse_size(&callers.bytes.value.0).unwrap_or(0),
        }),
        policy,
        devices: Vec::new(),
        dma_bytes: 0,
        floating_point: written.floating_point.as_ref().is_some_and(|state| state.value),
        ports: Vec::new(),
        has_accounts: table.has_accounts,
    }
}

/// How it treats its callers.
fn policy(written: &Component, counter_hz: u64) -> Policy {
    let needs = written.callers.as_ref().and_then(|callers| callers.needs.as_ref());
    let needs_ns = needs.and_then(|needs| parse_duration(&needs.value.0).ok()).unwrap_or(0);
    Policy {
        // A caller has at least as much in hand: rounded up.
        needs_ticks: ticks::round_up(needs_ns, counter_hz),
        trust: is_trusted(written).into(),
        is_abortable: written.abortable.as_ref().is_some_and(|state| state.value),
        on_fault: match on_fault(written) {
            OnFault::Return => 0,
            OnFault::Reset => 1,
            OnFault::Stop => 2,
        },
        ..Policy::default()
    }
}

fn is_trusted(written: &Component) -> bool {
    written.trust.as_ref().is_some_and(|trust| trust.value == Trust::Trusted)
}

fn on_fault(written: &Component) -> OnFault {
    written.on_fault.as_ref().map_or(OnFault::Return, |word| word.value)
}

/// A component as reports say it.
fn facts(written: &Component, program: &Option<Program>) -> model::Component {
    let counts = program.iter().flat_map(|program| &program.interface.counts);
    let bind = written.bind.iter().flat_map(|bind| &bind.value.0);
    model::Component {
        name: written.name.value.clone(),
        program: written.program.value.clone(),
        is_trusted: is_trusted(written),
        threads: written.threads.iter().map(|thread| thread.name.value.clone()).collect(),
        stacks: written.callers.as_ref().map_or(0, |callers| callers.stacks.value),
        on_fault: on_fault(written).word().to_owned(),
        bindings: bind.map(|(function, target)| (function.value.clone(), target.value.clone())).collect(),
        devices: written.devices.iter().map(|device| device.value.clone()).collect(),
        dma: None,
        counts: counts.map(|count| (count.name.clone(), count.address)).collect(),
    }
}
