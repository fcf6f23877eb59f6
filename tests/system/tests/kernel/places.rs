//! Where an instance runs, and what it prints there.

use bulkhead_instance::{Component, Instance, Thread, write};
use bulkhead_kernel_abi::boot::{BindingRow, EndPointRow, ServerRow};
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::{Capability, Kind, NONE};
use bulkhead_system_tests::system::guest;

pub(crate) use bulkhead_system_tests::kernel::{Place, run, run_bare, start};

/// The probe component with one thread for each argument, each in a component of its own; one of them, the driver, has capabilities.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probes {
    pub(crate) arguments: Vec<u64>,
    pub(crate) driver: usize,
    pub(crate) capabilities: Vec<Capability>,
    pub(crate) end_points: Vec<EndPointRow>,
    pub(crate) bindings: Vec<BindingRow>,
    /// Servers, and whose each thread is; none, and all are on the one that nothing limits.
    pub(crate) servers: Vec<ServerRow>,
    pub(crate) server_of: Vec<u16>,
}

impl Probes {
    pub(crate) fn of(arguments: impl IntoIterator<Item = u64>) -> Self {
        Self { arguments: arguments.into_iter().collect(), ..Self::default() }
    }

    fn server_of(&self, number: usize) -> u16 {
        self.server_of.get(number).copied().unwrap_or(0)
    }

    /// The instance's bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let (kernel, program) = (guest("kernel/kernel.elf"), guest("kernel/probe.elf"));
        let component = |(number, argument): (usize, &u64)| Component {
            name: format!("probe-{argument}"),
            program: &program,
            threads: vec![Thread { argument: *argument, stack_bytes: 8192, server: self.server_of(number) }],
            capabilities: if number == self.driver { self.capabilities.clone() } else { Vec::new() },
            ..Component::default()
        };
        let instance = Instance {
            server_names: Vec::new(),
            kernel: &kernel,
            components: self.arguments.iter().enumerate().map(component).collect(),
            servers: self.servers.clone(),
            end_points: self.end_points.clone(),
            bindings: self.bindings.clone(),
            shares: bulkhead_instance::Shares::default(),
            wires: Vec::new(),
            processes: bulkhead_instance::Processes::default(),
        };
        write(&instance).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// 1 ms at 62.5 MHz.
const PERIOD_TICKS: u64 = 62_500;
/// The second timer of a core, CNTP.
pub(crate) const PERIODIC: u32 = 30;

/// Probes of which one takes the periodic timer: by the end point in its slot 1, and the interrupt in slot 2.
pub(crate) fn with_timer(arguments: &[u64], driver: u16) -> Probes {
    let capability = |kind: Kind| Capability { kind: kind.number(), rights: right::USE, grant: 1, ..Capability::NULL };
    Probes {
        arguments: arguments.to_vec(),
        driver: driver.into(),
        capabilities: vec![Capability::NULL, capability(Kind::Receive), capability(Kind::Interrupt)],
        end_points: vec![EndPointRow { thread: driver, tcap: NONE, ..EndPointRow::default() }],
        bindings: vec![BindingRow {
            intid: PERIODIC,
            default_client: NONE,
            bits: 1,
            period_ticks: PERIOD_TICKS,
            ..BindingRow::default()
        }],
        ..Probes::default()
    }
}
