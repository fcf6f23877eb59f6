//! DMA of functions of an instance's partition, judged by `bulkhead verify`: what each reaches, and who can tell it to.
//!
//! Of the sample of systems with functions, partition `intruder` has an instance of two components, each with pages for DMA: `driver` has both functions of the partition, the
//! registers of each and its page of configuration space, and `other` none. The functions reach what the change says.

use crate::sample::{Mutant, expected, kernel, program};
use bulkhead_abi::devices::MAX_BARS;
use bulkhead_abi::{GuestAddress, Part, PhysicalAddress};
use bulkhead_guest_abi::guest::GUEST_ECAM;
use bulkhead_image::assemble;
use bulkhead_instance::{Component, Device, Instance, Processes, Thread, write};
use bulkhead_kernel_abi::boot::{DeviceRow, ServerRow};
use bulkhead_kernel_abi::image::LOAD;
use bulkhead_kernel_abi::{Capability, NONE};
use bulkhead_plan::devices::bars::guest_places;
use bulkhead_plan::model::{Bank, GuestImage, Reach, System};
use bulkhead_plan::samples;
use bulkhead_verify::{Code, Expected, Finding, Monitor, verify_bytes};
use bulkhead_verify_instance::summary;

const PARTITION: usize = 0;
/// Functions of the partition among those of the system, in the order of its bus.
const FUNCTIONS: [usize; 2] = [1, 3];
/// Bytes of the virtual bus for a device, of a page, and of pages for DMA.
const DEVICE: u64 = 1 << 15;
const PAGE: u64 = 4096;
const DMA: u64 = 2 * PAGE;
const DRIVER: usize = 0;
const OTHER: usize = 1;

/// The devices that a function is: what is behind its first register that a guest sees, and its page of configuration space.
fn devices(system: &System, index: usize) -> [Device; 2] {
    let models = &system.board.pci.as_ref().expect("a host bridge").models;
    let places = guest_places(models, &system.functions, PARTITION).expect("places");
    let function = FUNCTIONS[index];
    let found = places.iter().filter(|((of, _), _)| *of == function).min_by_key(|((_, register), _)| *register);
    let ((_, register), address) = found.expect("a register that a guest sees");
    assert!(*register < MAX_BARS);
    let configuration = GUEST_ECAM.0 + (index as u64 + 1) * DEVICE;
    // The first page of registers is enough for these tests; behind it there may be tables of messages.
    [("registers", address.0), ("configuration", configuration)].map(|(name, physical)| Device {
        name: format!("{name}-{index}"),
        physical,
        bytes: PAGE,
        reaches_all: false,
    })
}

/// An instance whose components have these devices, and pages for DMA.
fn instance(devices: [Vec<Device>; 2]) -> Vec<u8> {
    let (kernel, program) = (kernel(), program());
    let component = |(name, devices): (&str, Vec<Device>)| Component {
        name: name.to_owned(),
        program: &program,
        threads: vec![Thread { argument: 0, stack_bytes: 8192, server: 0 }],
        thread_names: vec!["main".to_owned()],
        capabilities: vec![Capability::NULL],
        devices,
        dma_bytes: DMA,
        ..Component::default()
    };
    let server = ServerRow { holder: NONE, band: NONE, background: 255, ..ServerRow::default() };
    let instance = Instance {
        server_names: vec!["main".to_owned()],
        kernel: &kernel,
        components: ["driver", "other"].into_iter().zip(devices).map(component).collect(),
        servers: vec![server],
        end_points: Vec::new(),
        shares: bulkhead_instance::Shares::default(),
        wires: Vec::new(),
        processes: Processes::default(),
        bindings: Vec::new(),
    };
    write(&instance).unwrap_or_else(|error| panic!("{error}"))
}

/// The system whose functions' devices are shared out like this: by component, the functions whose registers it has, and those whose configuration it has.
fn system(registers: [&[usize]; 2], configurations: [&[usize]; 2]) -> System {
    let mut system = samples::functions();
    let of = |component: usize| {
        let registers = registers[component].iter().map(|index| devices(&system, *index)[0].clone());
        let configurations = configurations[component].iter().map(|index| devices(&system, *index)[1].clone());
        registers.chain(configurations).collect::<Vec<Device>>()
    };
    let bytes = instance([of(DRIVER), of(OTHER)]);
    let own = pages(&bytes, DRIVER);
    for function in FUNCTIONS {
        system.functions[function].reach = Reach::Regions(vec![bank(own, DMA)]);
    }
    let image = GuestImage::Kernel { bytes, load: GuestAddress(LOAD), components: Vec::new(), servers: Vec::new() };
    system.partitions[PARTITION].image = image;
    system
}

/// The first of a component's pages for DMA.
fn pages(bytes: &[u8], component: usize) -> u64 {
    summary(bytes).expect("readable").components[component].dma.0
}

const fn bank(start: u64, bytes: u64) -> Bank {
    Bank { start: PhysicalAddress(start), bytes }
}

fn instance_of(system: &mut System) -> &mut Vec<u8> {
    match &mut system.partitions[PARTITION].image {
        GuestImage::Kernel { bytes, .. } => bytes,
        _ => panic!("it has an instance"),
    }
}

fn found(system: &System) -> Vec<Finding> {
    let mut monitor = samples::monitor();
    monitor.text.splice(64..72, Part::Devices.mark());
    monitor.part = Part::Devices;
    let image = assemble(system, &monitor).unwrap_or_else(|error| panic!("{error}"));
    let expected = Expected::only(Monitor::new(&monitor.text, &monitor.rodata)).with_kernel(expected());
    verify_bytes(&image.bytes, &expected).findings
}

/// The system in which all is the driver's.
fn sound() -> System {
    system([&[0, 1], &[]], [&[0, 1], &[]])
}

fn all_of(findings: &[Finding], code: Code) -> bool {
    !findings.is_empty() && findings.iter().all(|one| one.code == code)
}

#[test]
fn a_driver_may_have_two_functions() {
    assert_eq!(found(&sound()), []);
}

/// QV-10: registers tell a function where to read and write. Who has them has what the function reaches, no matter who has its configuration space.
#[test]
fn registers_of_a_function_are_its_drivers() {
    let other = "partition \"intruder\": function 1 of partition 0 (stream 0x30) is told by component `other`, which has its registers and is not its driver (`driver`)";
    let split = found(&system([&[0], &[1]], [&[0, 1], &[]]));
    assert!(all_of(&split, Code::InstanceStreams), "{split:?}");
    assert_eq!(split[0].message, other);
}

/// A row that ends behind all addresses is refused, and nothing is added up over the end.
#[test]
fn a_device_at_the_end_of_the_address_space_is_refused() {
    let mut system = sound();
    let mut mutant = Mutant(core::mem::take(instance_of(&mut system)));
    let (place, row) = mutant.row::<DeviceRow>(mutant.tables().devices.offset, 0);
    for (physical, pages) in [(u64::MAX - 0xfff, 1), (u64::MAX - 0xfff, u32::MAX), (GUEST_ECAM.0, u32::MAX)] {
        mutant.put(place, &DeviceRow { physical, pages, ..row });
        *instance_of(&mut system) = mutant.clone().sealed().0;
        let found = found(&system);
        assert!(found.iter().any(|one| one.code == Code::InstanceDevice), "{physical:#x}: {found:?}");
    }
}

/// Each function is compared with the pages of its own driver.
#[test]
fn functions_of_two_drivers_are_each_compared() {
    let mut shared = system([&[0], &[1]], [&[0], &[1]]);
    let own = [DRIVER, OTHER].map(|component| pages(instance_of(&mut shared), component));
    for (function, start) in FUNCTIONS.into_iter().zip(own) {
        shared.functions[function].reach = Reach::Regions(vec![bank(start, DMA)]);
    }
    assert_eq!(found(&shared), []);
    for (function, start) in FUNCTIONS.into_iter().zip([own[0], own[0]]) {
        shared.functions[function].reach = Reach::Regions(vec![bank(start, DMA)]);
    }
    let found = found(&shared);
    assert!(all_of(&found, Code::InstanceStreams), "{found:?}");
    assert!(found[0].message.contains("function 1 of partition 0"), "{found:?}");
}

/// QV-10: who drives what reaches all RAM can have the kernel written. The instance says so of its driver, and of no other one: for tables of the function that have all of it, and for those of its guest.
#[test]
fn what_reaches_all_has_a_driver_that_is_trusted() {
    let ram = samples::functions().partitions[PARTITION].clone();
    let all = Reach::Regions(vec![Bank { start: PhysicalAddress(ram.guest_ram.0), bytes: ram.memory_bytes }]);
    for reach in [Reach::Partition, all] {
        for (reaches, is_said) in [(true, true), (true, false), (false, true)] {
            let mut system = sound();
            if reaches {
                system.functions[FUNCTIONS[0]].reach = reach.clone();
            }
            let mut mutant = Mutant(core::mem::take(instance_of(&mut system)));
            let rows = (0..4).map(|row| mutant.row::<DeviceRow>(mutant.tables().devices.offset, row));
            let (place, row) =
                rows.into_iter().find(|(_, row)| row.physical == GUEST_ECAM.0 + DEVICE).expect("its page");
            mutant.put(place, &DeviceRow { reaches_all: is_said.into(), ..row });
            *instance_of(&mut system) = mutant.sealed().0;
            let found = found(&system);
            assert!(
                if reaches == is_said { found.is_empty() } else { all_of(&found, Code::InstanceStreams) },
                "{reach:?}, {reaches}, {is_said}: {found:?}"
            );
        }
    }
}

/// A function that no component drives reaches nothing of the instance.
#[test]
fn what_nobody_drives_reaches_nothing() {
    for registers in [[&[0_usize, 1][..], &[]], [&[0], &[]], [&[0], &[1]]] {
        let found = found(&system(registers, [&[0], &[]]));
        assert!(all_of(&found, Code::InstanceStreams), "{found:?}");
        let says = "reaches .* which are not pages for DMA of its driver (no component)";
        let (says, whose) = says.split_once(" .* ").expect("two parts");
        assert!(found.iter().any(|one| one.message.contains(says) && one.message.ends_with(whose)), "{found:?}");
    }
}
