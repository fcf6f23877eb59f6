//! Where an instance runs, and what it prints there.

use bulkhead_instance::{Component, Instance, Thread, write};
use bulkhead_kernel_abi::boot::{BindingRow, EndPointRow};
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::{Capability, Kind, NONE};
use bulkhead_run::{End, MachineOptions};
use bulkhead_system_tests::system::guest;
use bulkhead_system_tests::{Running, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where an instance is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Board,
    /// The board with all that QEMU has of newer cores: PAN among it, so each exception sets it.
    NewerBoard,
    Direct,
    Mapped,
    Shared,
    /// In `mapped`, with a virtual PL011 in the place of a ring.
    Uart,
}

impl Place {
    /// Partitions.
    pub(crate) const PARTITIONS: [Self; 4] = [Self::Direct, Self::Mapped, Self::Shared, Self::Uart];
}

/// The probe component with one thread for each argument, each in a component of its own; one of them, the driver, has capabilities.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probes {
    pub(crate) arguments: Vec<u64>,
    pub(crate) driver: usize,
    pub(crate) capabilities: Vec<Capability>,
    pub(crate) end_points: Vec<EndPointRow>,
    pub(crate) bindings: Vec<BindingRow>,
}

impl Probes {
    pub(crate) fn of(arguments: impl IntoIterator<Item = u64>) -> Self {
        Self { arguments: arguments.into_iter().collect(), ..Self::default() }
    }

    /// The instance's bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let (kernel, program) = (guest("kernel/kernel.elf"), guest("kernel/probe.elf"));
        let component = |(number, argument): (usize, &u64)| Component {
            name: format!("probe-{argument}"),
            program: &program,
            threads: vec![Thread { argument: *argument, stack_bytes: 8192 }],
            capabilities: if number == self.driver { self.capabilities.clone() } else { Vec::new() },
            ..Component::default()
        };
        let instance = Instance {
            kernel: &kernel,
            components: self.arguments.iter().enumerate().map(component).collect(),
            end_points: self.end_points.clone(),
            bindings: self.bindings.clone(),
        };
        write(&instance).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// 1 ms at 62.5 MHz.
const PERIOD_TICKS: u64 = 62_500;
/// The second timer of a core, CNTP.
const PERIODIC: u32 = 30;

/// Probes of which one takes the periodic timer: by the end point in its slot 1, and the interrupt in slot 2.
pub(crate) fn with_timer(arguments: &[u64], driver: u16) -> Probes {
    let capability = |kind: Kind| Capability { kind: kind.number(), rights: right::USE, grant: 1, ..Capability::NULL };
    Probes {
        arguments: arguments.to_vec(),
        driver: driver.into(),
        capabilities: vec![Capability::NULL, capability(Kind::Receive), capability(Kind::Interrupt)],
        end_points: vec![EndPointRow { thread: driver, ..EndPointRow::default() }],
        bindings: vec![BindingRow {
            intid: PERIODIC,
            default_client: NONE,
            bits: 1,
            period_ticks: PERIOD_TICKS,
            ..BindingRow::default()
        }],
    }
}

/// Runs an instance to its end, on one core with instruction counting, and returns what it printed.
pub(crate) fn run(image: &[u8], place: Place) -> Vec<String> {
    match place {
        Place::Board | Place::NewerBoard => {
            let mut options = MachineOptions::bare(image.to_vec());
            options.icount_shift = Some(4);
            if place == Place::NewerBoard {
                options.facts.cpu = Some("max".to_owned());
            }
            let mut machine = Running::start(options);
            machine.end();
            String::from_utf8_lossy(machine.serial_text()).lines().map(|line| line.trim_end().to_owned()).collect()
        }
        _ => {
            let mut running = start(image, place);
            assert_eq!(running.end(), End::AllEnded);
            running.assert_no_crash();
            let status = running.status("kernel");
            assert_eq!((status.generation, status.restarts, status.faults), (1, 0, 0), "{place:?}");
            running.texts("kernel")
        }
    }
}

/// Starts it as a partition.
pub(crate) fn start(image: &[u8], place: Place) -> Running {
    let (schedule, rest) = match place {
        Place::Direct => ("", "interrupts = \"direct\""),
        Place::Shared => (
            "[[schedule]]\ncore = 0\nkind = \"fixed-priority\"\n",
            "servers = [{ priority = 1, budget = \"5 ms\", period = \"10 ms\" }]",
        ),
        Place::Uart => ("", "interrupts = \"mapped\"\nconsole = \"pl011\""),
        Place::Mapped | Place::Board | Place::NewerBoard => ("", "interrupts = \"mapped\""),
    };
    // Tests run beside one another.
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let directory = std::env::temp_dir().join(format!("bulkhead-kernel-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory for the image");
    let file = directory.join("instance.bin");
    std::fs::write(&file, image).expect("the image is written");
    let text = format!(
        "version = 1\nname = \"kernel\"\nboard = \"qemu-virt\"\nmemory = \"128 MiB\"\n{schedule}\
         [[partition]]\nname = \"kernel\"\ntrust = \"trusted\"\ncores = [0]\nmemory = \"8 MiB\"\n\
         image = {{ kind = \"raw\", file = {file:?}, load = 0x4008_0000 }}\n{rest}\n"
    );
    let running = System::from_text("kernel", &text).start_exact(4);
    std::fs::remove_dir_all(&directory).expect("the directory goes");
    running
}
