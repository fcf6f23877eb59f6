//! Devices with DMA: single corruptions of an image whose partitions have PCI functions, each refused with its own code (QV-10, QV-11,
//! QV-13). Of the sample: partition 0 intruder (an NVMe controller and an edu of two regions), 1 linux (a disk and a network, looks at
//! events), 2 office (a function behind the root port), 3 quiet (none). Context descriptors: 0 intruder, 1 linux, 2 office, 3 the edu.

use crate::hybrid::monitor;
use crate::mutants::Mutant;
use crate::support::{EL2_DATA_PAGE, EL2_DEVICE_PAGE, Editor, GUEST_DEVICE_PAGE, READ_ONLY};
use bulkhead_abi::devices::{
    ALL_PARTITIONS, BootDevices, DeviceFunction, DevicePlan, STEP_DELAY, STEP_EXPECT, STEP_WAIT, STEP_WRITE, Step,
};
use bulkhead_abi::plan::PCI_DEVICE;
use bulkhead_abi::{GuestAddress, Part, PhysicalAddress};
use bulkhead_plan::model::{Route, System};
use bulkhead_plan::{AreaKind, samples};
use bulkhead_verify::{Code, Expected, Monitor, Verdict};

/// Streams of the sample.
const DISK: u64 = 0x08;
const NET: u64 = 0x28;
/// Bytes of an entry, of the stream table and of a descriptor; commands are in front of descriptors.
pub(super) const ENTRY: u64 = 64;
pub(super) const DESCRIPTORS: u64 = 256;
const INTRUDER: usize = 0;
const LINUX: usize = 1;
const OFFICE: usize = 2;
/// Registers of the SMMU.
pub(super) const SMMU: u64 = 0x0905_0000;
const CR0: u64 = SMMU + 0x20;
const GICD: u64 = 0x0800_0000;
pub(super) const PAGE: u64 = 4096;
/// A page of a device table: RAM, read and write, never executed.
const DEVICE_PAGE: u64 = 1 << 6 | 3 << 8 | 1 << 10 | 1 << 11 | 3 << 53 | 3;

/// The image of a system with functions, under change.
pub(super) fn edit(system: &System) -> Editor {
    Editor::with(system, &monitor(Part::Devices))
}

pub(super) fn verify(image: Editor) -> Verdict {
    let part = monitor(Part::Devices);
    bulkhead_verify::verify_bytes(&image.finish(), &Expected::only(Monitor::new(&part.text, &part.rodata)))
}

fn entry(image: &mut Editor, stream: u64, change: impl FnOnce(&mut [u64; 8])) {
    image.edit(image.at(AreaKind::StreamTable) + stream * ENTRY, change);
}

fn descriptor(image: &mut Editor, place: u64, change: impl FnOnce(&mut [u64; 8])) {
    image.edit(image.at(AreaKind::Commands) + DESCRIPTORS + place * ENTRY, change);
}

pub(super) fn devices(image: &mut Editor, partition: usize, change: impl FnOnce(&mut DevicePlan)) {
    image.edit(image.at(AreaKind::DevicePlan(partition)), change);
}

/// Changes the first device of a partition.
fn function(image: &mut Editor, partition: usize, change: impl FnOnce(&mut DeviceFunction)) {
    devices(image, partition, |plan| {
        let first = plan.functions.iter_mut().find(|function| function.configuration.0 != 0);
        change(first.expect("it has a device"));
    });
}

pub(super) fn boot(image: &mut Editor, change: impl FnOnce(&mut BootDevices)) {
    image.edit(image.at(AreaKind::BootDevices), change);
}

/// Changes the step of the boot core that does this.
fn boot_step(image: &mut Editor, is_it: impl Fn(&Step) -> bool, change: impl FnOnce(&mut Step)) {
    boot(image, |boot| change(boot.steps.iter_mut().find(|step| is_it(step)).expect("the scripts have such a step")));
}

fn own_step(image: &mut Editor, partition: usize, is_it: impl Fn(&Step) -> bool, change: impl FnOnce(&mut Step)) {
    devices(image, partition, |plan| {
        change(plan.quiesce.iter_mut().find(|step| is_it(step)).expect("the script has such a step"));
    });
}

/// A step that does nothing in the place of one that is left out: it reads what is there.
fn leave_out(step: &mut Step) {
    let address = PhysicalAddress(step.address.0 & !0xfff);
    *step = Step { operation: STEP_EXPECT, width: 4, limit: 0, address, mask: 0xff, value: step.address.0 & 0xff };
}

fn is(operation: u16, address: u64) -> impl Fn(&Step) -> bool {
    move |step| step.operation == operation && step.address.0 == address
}

fn writes(value: u64) -> impl Fn(&Step) -> bool {
    move |step| step.operation == STEP_WRITE && step.value == value
}

/// The entry of the device tables of a context for a page.
fn device_page(image: &mut Editor, context: usize, input: u64, value: u64) {
    let root = image.at(AreaKind::DeviceTables(context));
    image.set(root, input, 3, value);
}

#[rustfmt::skip]
pub(crate) const FUNCTION_MUTANTS: &[Mutant] = &[
    ("device plan of another partition", Code::DevicePlan, |image| {
        let other = image.at(AreaKind::DevicePlan(OFFICE));
        image.vcpu(LINUX, 0, |plan| plan.devices.0 = other);
    }),
    ("device plan in another form", Code::DevicePlan, |image| devices(image, LINUX, |plan| plan.magic += 1)),
    ("a step behind the count", Code::DevicePlan, |image| devices(image, LINUX, |plan| plan.step_count -= 1)),
    ("scripts for a core that does not start the others", Code::DevicePlan, |image| {
        let scripts = image.at(AreaKind::BootDevices);
        image.vcpu(LINUX, 0, |plan| plan.boot_devices.0 = scripts);
    }),
    ("no scripts at all", Code::DevicePlan, |image| image.core(0, |plan| plan.boot_devices.0 = 0)),
    ("scripts that overlap", Code::DevicePlan, |image| boot(image, |boot| boot.scripts[1].first -= 1)),
    ("two functions in one place", Code::DevicePlan, |image| {
        let disk = samples::functions().functions[0].stream();
        devices(image, INTRUDER, |plan| for function in plan.functions.iter_mut().filter(|one| one.stream != 0) {
            function.stream = disk;
        });
    }),
    ("a function elsewhere than its stream says", Code::DevicePlan, |image| function(image, LINUX, |one| one.configuration.0 += PAGE)),
    ("events looked for at the SMMU's first page", Code::DevicePlan, |image| devices(image, LINUX, |plan| plan.event_registers.0 = SMMU)),
    ("faults of one who does not look", Code::DevicePlan, |image| devices(image, OFFICE, |plan| plan.events_are_faults = 1)),

    ("stream table off its alignment", Code::StreamTable, |image| {
        boot_step(image, is(STEP_WRITE, SMMU + 0x80), |step| step.value += PAGE);
    }),
    ("stream table in RAM of a guest", Code::StreamTable, |image| {
        let ram = image.at(AreaKind::Ram(INTRUDER));
        boot_step(image, is(STEP_WRITE, SMMU + 0x80), |step| step.value = ram);
    }),

    ("bypass for a stream of nobody", Code::StreamEntry, |image| entry(image, 0x1f8, |words| words[0] = 1 | 4 << 1)),
    ("bypass for an own stream", Code::StreamEntry, |image| entry(image, DISK, |words| *words = [1 | 4 << 1, 0, 0, 0, 0, 0, 0, 0])),
    ("an invalid entry", Code::StreamEntry, |image| entry(image, 0x1f8, |words| words[0] = 0)),
    ("stream of the neighbour of a function", Code::StreamEntry, |image| {
        let mut own = [0; 8];
        entry(image, DISK, |words| own = *words);
        entry(image, DISK + 1, |words| *words = own);
    }),
    ("substreams", Code::StreamEntry, |image| entry(image, DISK, |words| words[0] |= 1 << 59)),
    ("memory attributes of its own", Code::StreamEntry, |image| entry(image, DISK, |words| words[1] |= 1 << 36)),
    ("a second stage that this SMMU has not", Code::StreamEntry, |image| {
        let root = image.guest_root(LINUX);
        let vtcr = image.vcpu_vtcr(LINUX);
        entry(image, DISK, |words| *words = [1 | 6 << 1, 1 << 44, 2 | (vtcr & 0x7_ffff) << 32 | 1 << 51 | 1 << 53 | 1 << 58, root, 0, 0, 0, 0]);
    }),

    ("stream with the neighbour's descriptor", Code::DeviceTable, |image| {
        let mut other = [0; 8];
        entry(image, 0x10, |words| other = *words);
        entry(image, DISK, |words| *words = other);
    }),
    ("descriptor without a fault", Code::ContextDescriptor, |image| descriptor(image, 1, |words| words[0] &= !(1 << 46))),
    ("descriptor of another size of addresses", Code::ContextDescriptor, |image| descriptor(image, 1, |words| words[0] -= 1)),
    ("descriptor with a second table", Code::ContextDescriptor, |image| descriptor(image, 1, |words| words[0] &= !(1 << 30))),
    ("one address space for two partitions", Code::ContextDescriptor, |image| {
        descriptor(image, 1, |words| words[0] = words[0] & 0x0000_ffff_ffff_ffff | 1 << 48);
    }),
    ("memory as device memory", Code::ContextDescriptor, |image| descriptor(image, 1, |words| words[3] = 4)),
    ("descriptor in RAM of a guest", Code::ContextDescriptor, |image| {
        let ram = image.at(AreaKind::Ram(LINUX));
        entry(image, DISK, |words| words[0] = ram | 5 << 1 | 1);
    }),

    ("a page of the monitor in a device table", Code::DeviceTable, |image| {
        let text = image.at(AreaKind::Text);
        device_page(image, 3, 0x4030_2000, text | DEVICE_PAGE);
    }),
    ("a page of the neighbour in a device table", Code::DeviceTable, |image| {
        let ram = image.at(AreaKind::Ram(LINUX));
        device_page(image, 3, 0x4030_2000, ram | DEVICE_PAGE);
    }),
    ("a page of the interrupt controller in a device table", Code::DeviceTable, |image| {
        device_page(image, 3, 0x4030_2000, GICD | DEVICE_PAGE);
    }),
    ("own RAM at another address", Code::DeviceTable, |image| {
        let ram = image.at(AreaKind::Ram(INTRUDER));
        device_page(image, 3, 0x4030_2000, ram | DEVICE_PAGE);
    }),
    ("a page that devices execute", Code::Table, |image| {
        let ram = image.at(AreaKind::Ram(INTRUDER));
        device_page(image, 3, 0x4030_0000, (ram + 0x30_0000) | (DEVICE_PAGE & !(3 << 53)));
    }),

    ("another command", Code::DeviceScript, |image| {
        image.edit::<[u64; 2]>(image.at(AreaKind::Commands), |words| words[0] = 0x03);
    }),
    ("a longer command queue", Code::CommandQueue, |image| boot_step(image, is(STEP_WRITE, SMMU + 0x90), |step| step.value += 1)),
    ("translations not forgotten", Code::CommandQueue, |image| {
        image.edit::<[u64; 4]>(image.at(AreaKind::Commands), |words| (words[2], words[3]) = (0x46, 0));
    }),

    ("SMMU never switched on", Code::DeviceScript, |image| boot_step(image, |step| is(STEP_WRITE, CR0)(step) && step.value & 1 != 0, |step| step.value &= !1)),
    ("mastering not switched off at first", Code::DeviceScript, |image| {
        boot_step(image, |step| step.operation == STEP_WRITE && step.address.0 & 0xffff == 0x8004, leave_out);
    }),
    ("mastering switched off and not read back", Code::DeviceScript, |image| {
        boot_step(image, |step| step.operation != STEP_WRITE && step.address.0 & 0xffff == 0x8004, leave_out);
    }),
    ("a function that masters the bus when the boot core is through", Code::DeviceScript, |image| {
        boot_step(image, writes(0x402), |step| step.value |= 4);
    }),
    ("interrupts of the SMMU", Code::DeviceScript, |image| boot_step(image, is(STEP_WRITE, SMMU + 0x50), |step| step.value = 5)),
    ("unknown streams recorded", Code::DeviceScript, |image| boot_step(image, is(STEP_WRITE, SMMU + 0x2c), |step| step.value = 2)),
    ("capabilities of the SMMU taken for granted", Code::DeviceScript, |image| {
        boot_step(image, is(STEP_EXPECT, SMMU), |step| (step.mask, step.value) = (2, 2));
    }),
    ("a wait without an end", Code::DeviceScript, |image| boot_step(image, |step| step.operation == STEP_WAIT, |step| step.limit = 0)),
    ("a wait that holds the boot core up", Code::DeviceScript, |image| boot_step(image, |step| step.operation == STEP_WAIT, |step| step.limit = 1_000_001)),
    ("a silence that holds a shared core up", Code::DeviceScript, |image| own_step(image, LINUX, |step| step.operation == STEP_WAIT, |step| step.limit = 17)),
    ("a script that writes to the interrupt controller", Code::DeviceScript, |image| {
        boot_step(image, writes(0x402), |step| step.address.0 = GICD + 0x104);
    }),
    ("a function whose absence stops everybody", Code::DevicePlan, |image| boot(image, |boot| {
        let last = boot.script_count as usize - 1;
        boot.scripts[last].partition = ALL_PARTITIONS;
    })),
    ("a function whose absence stops another partition", Code::DeviceScript, |image| boot(image, |boot| {
        let last = boot.script_count as usize - 1;
        boot.scripts[last].partition = 3;
    })),
    ("a root port whose window is wider", Code::DeviceScript, |image| {
        boot_step(image, |step| step.operation == STEP_WRITE && step.width == 4 && step.address.0 & 0xfff == 0x20 && step.value >> 16 != 0, |step| {
            step.value = 0x3ef0_1000;
        });
    }),

    ("SMMU switched on behind the functions", Code::DeviceScript, |image| boot(image, |boot| {
        let (smmu, count) = (boot.scripts[1], boot.script_count as usize);
        let first = smmu.first as usize;
        boot.steps[first..boot.step_count as usize].rotate_left(smmu.count as usize);
        boot.scripts[1..count].rotate_left(1);
        let mut next = smmu.first;
        for script in &mut boot.scripts[1..count] {
            (script.first, next) = (next, next + script.count);
        }
    })),
    ("a reset left out", Code::DeviceScript, |image| own_step(image, OFFICE, |step| step.value == 1 << 15, |step| {
        (step.mask, step.value) = (1 << 14, 1 << 14);
    })),
    ("a status left as it is", Code::DeviceScript, |image| own_step(image, LINUX, |step| step.operation == STEP_WRITE && step.width == 1, leave_out)),
    ("the wait after mastering off left out", Code::DeviceScript, |image| own_step(image, LINUX, |step| step.operation == STEP_WAIT, leave_out)),
    ("a silence that is shorter", Code::DeviceScript, |image| devices(image, LINUX, |plan| plan.silence_count -= 1)),
    ("a script that resets another's function", Code::DeviceScript, |image| {
        let disk = samples::functions().functions[0].stream();
        own_step(image, OFFICE, |step| step.operation == STEP_WAIT, |step| step.address.0 = 0x40_1000_0004 + u64::from(disk) * PAGE);
    }),
    ("a place that moves at a restart", Code::DeviceScript, |image| {
        own_step(image, LINUX, |step| step.operation == STEP_WRITE && step.width == 4 && step.value != 0, |step| step.value += 0x10_0000);
    }),

    ("message-signalled interrupts left in", Code::FunctionHeader, |image| function(image, LINUX, |one| {
        let first = one.header[13] as usize / 4;
        one.header[first] = one.header[first] & !0xff | 0x11;
    })),
    ("virtio's window left in", Code::FunctionHeader, |image| function(image, LINUX, |one| {
        let first = one.header[13] as usize / 4;
        one.header[first] = one.header[first] & 0x00ff_ffff | 5 << 24;
    })),
    ("a capability that nobody finds", Code::FunctionHeader, |image| function(image, LINUX, |one| one.header[63] = 0x11)),
    ("a chain without an end", Code::FunctionHeader, |image| function(image, LINUX, |one| {
        let first = one.header[13] as usize;
        one.header[first / 4] = one.header[first / 4] & !0xff00 | ((first as u32) << 8);
    })),
    ("a base address elsewhere than the header says", Code::FunctionHeader, |image| function(image, LINUX, |one| one.bars[4].guest.0 += 0x10_0000)),
    ("a base address among RAM", Code::FunctionHeader, |image| function(image, INTRUDER, |one| {
        let register = one.bars.iter().position(|bar| bar.bytes != 0).expect("it has registers");
        one.bars[register].guest = GuestAddress(0x4000_0000);
        one.header[4 + register] = 0x4000_0000;
    })),
    ("an expansion ROM", Code::FunctionHeader, |image| function(image, LINUX, |one| one.header[12] = 1)),
    ("a bridge", Code::FunctionHeader, |image| function(image, LINUX, |one| one.header[3] |= 1 << 16)),
    ("registers in the place of a neighbour's", Code::FunctionHeader, |image| {
        let mut place = PhysicalAddress(0);
        function(image, INTRUDER, |one| place = one.bars[0].physical);
        function(image, LINUX, |one| one.bars[4].physical = place);
    }),
    ("a base address over foreign registers", Code::DeviceMapping, |image| {
        let mut place = 0;
        function(image, INTRUDER, |one| place = one.bars[0].physical.0);
        let (root, mut input) = (image.guest_root(LINUX), 0);
        function(image, LINUX, |one| input = one.bars[4].guest.0);
        image.change(root, input, |entry| entry & !0x0000_ffff_ffff_f000 | place);
    }),
    ("a line that is an edge", Code::FunctionLine, |image| image.partition(LINUX, |plan| {
        let line = plan.pci.iter().find(|one| one.kind == PCI_DEVICE).expect("it has a device").interrupt;
        plan.interrupts.iter_mut().find(|one| one.intid == line).expect("it owns it").edge = 1;
    })),
    ("a line of another partition", Code::FunctionLine, |image| {
        let foreign = image.plan_of(INTRUDER).pci.iter().find(|one| one.kind == PCI_DEVICE).expect("it has one").interrupt;
        image.partition(LINUX, |plan| plan.pci.iter_mut().find(|one| one.kind == PCI_DEVICE).expect("it has one").interrupt = foreign);
    }),
    ("a silence that lets time pass", Code::DeviceScript, |image| devices(image, LINUX, |plan| {
        let count = plan.step_count as usize;
        plan.quiesce.copy_within(0..count, 1);
        plan.quiesce[0] = Step { operation: STEP_DELAY, value: 1, ..Step::default() };
        (plan.step_count, plan.silence_count) = (plan.step_count + 1, plan.silence_count + 1);
    })),
    ("a reset whose end nobody waits for", Code::DeviceScript, |image| own_step(image, LINUX, |step| step.operation == STEP_WAIT && step.width == 1, leave_out)),
    ("a function-level reset whose end nobody waits for", Code::DeviceScript, |image| {
        own_step(image, OFFICE, |step| step.operation == STEP_WAIT && step.width == 4, |step| (step.operation, step.limit, step.mask, step.value) = (STEP_EXPECT, 0, 0, 0));
    }),
    ("a function-level reset by another register", Code::DeviceScript, |image| devices(image, OFFICE, |plan| {
        let is_part = |step: &&mut Step| step.width == 2 && (step.operation, step.mask) == (STEP_WAIT, 1 << 5) || step.mask == 1 << 15;
        let parts = plan.quiesce.iter_mut().filter(is_part).map(|step| step.address.0 += 0x10).count();
        assert_eq!(parts, 2, "pending transactions, and the reset");
    })),
    ("a function-level reset by another register than the plan says", Code::DeviceScript, |image| function(image, OFFICE, |one| one.device_control += 4)),
    ("a function-level reset of one that has another", Code::DeviceScript, |image| function(image, LINUX, |one| one.device_control = 0x48)),
    ("a line of another slot", Code::FunctionLine, |image| image.partition(LINUX, |plan| {
        let line = plan.pci.iter().find(|one| one.kind == PCI_DEVICE).expect("it has a device").interrupt;
        plan.pci.iter_mut().filter(|one| one.interrupt == line).for_each(|one| one.interrupt += 2);
        plan.interrupts.iter_mut().filter(|one| one.intid == line).for_each(|one| one.intid += 2);
    })),
    ("a port that nobody expects to be one", Code::DeviceScript, |image| boot_step(image, |step| step.address.0 & 0xfff == 0x0e, leave_out)),
    ("a port with more buses", Code::DeviceScript, |image| boot_step(image, |step| step.address.0 & 0xfff == 0x18 && step.width == 4, |step| step.value = 0x7_0100)),
    ("an event queue that hardware would put a page lower", Code::CommandQueue, |image| {
        boot_step(image, is(STEP_WRITE, SMMU + 0xa0), |step| step.value += PAGE);
    }),
    ("an SMMU that firmware may have left on", Code::DeviceScript, |image| {
        boot_step(image, |step| is(STEP_WRITE, CR0)(step) && step.value == 0, |step| step.value = 8);
    }),
    ("commands that nobody waits for", Code::DeviceScript, |image| {
        boot_step(image, is(STEP_WAIT, SMMU + 0x9c), |step| step.address.0 = SMMU + 0x24);
    }),
    ("commands without an end", Code::DeviceScript, |image| {
        boot_step(image, |step| is(STEP_WRITE, SMMU + 0x98)(step) && step.value == 3, |step| step.value = 0x23);
    }),
    ("a function that is silent in a foreign place", Code::DeviceScript, |image| devices(image, LINUX, |plan| {
        plan.silence_count += 3;
        plan.quiesce[plan.silence_count as usize - 1].value += 0x10_0000;
    })),
    ("a place that the register cannot hold", Code::FunctionHeader, |image| function(image, INTRUDER, |one| {
        let register = one.bars.iter().position(|bar| bar.bytes != 0).expect("it has registers");
        one.bars[register].physical.0 |= 1 << 32;
        one.header[4 + register] &= !4;
    })),
    ("the SMMU in the map of another core", Code::UnknownMapped, |image| {
        let root = image.el2_root(1);
        image.change(root, SMMU + 0x1_0000, |_| SMMU | EL2_DEVICE_PAGE);
    }),
    ("the event queue written by an owner", Code::El2Rights, |image| {
        let (root, events) = (image.el2_root(1), image.at(AreaKind::Events));
        image.change(root, events, |entry| entry & !READ_ONLY);
    }),
    ("a context descriptor in the map of a core", Code::TableMapped, |image| {
        let commands = image.at(AreaKind::Commands);
        image.add_el2_page(0, commands, EL2_DATA_PAGE);
    }),
];

#[test]
fn an_image_with_functions_is_accepted() {
    let verdict = verify(edit(&samples::functions()));
    assert_eq!(verdict.findings, []);
    // What each stream reaches: all RAM of its partition, but of the edu two regions.
    let reaches: Vec<_> =
        verdict.reaches.iter().map(|one| (one.stream, &*one.partition, one.bytes == one.of_bytes)).collect();
    let all = [(0x08, "linux", true), (0x10, "intruder", false), (0x28, "linux", true), (0x30, "intruder", true)];
    assert_eq!(reaches, [&all[..], &[(0x100, "office", true)]].concat());
    assert_eq!(verdict.reaches[1].bytes, 3 * PAGE);
}

#[test]
fn every_change_of_devices_is_refused_with_its_code() {
    let base = edit(&samples::functions());
    let complaints = FUNCTION_MUTANTS.iter().filter_map(|(what, code, change)| {
        let mut image = base.clone();
        change(&mut image);
        let verdict = verify(image);
        let reported: Vec<&str> = verdict.findings.iter().map(|finding| finding.code.name()).collect();
        (!verdict.has(*code)).then(|| format!("{what}: expected {}, reported {reported:?}", code.name()))
    });
    assert_eq!(complaints.collect::<Vec<_>>(), Vec::<String>::new());
    assert!(FUNCTION_MUTANTS.len() >= 25, "at least 25 are promised");
}

/// A guest with a page of them would have all memory.
#[test]
fn registers_of_the_bus_are_no_devices_of_guests() {
    let mut system = samples::functions();
    (system.partitions[LINUX].devices, system.partitions[LINUX].device_routes) = (vec![0], vec![Route::default()]);
    assert_eq!(verify(edit(&system)).findings, []);
    let mut place = 0;
    function(&mut edit(&system), INTRUDER, |one| place = one.bars[0].physical.0);
    for output in [SMMU, SMMU + 0x1_0000, 0x40_1000_8000, place] {
        let mut image = edit(&system);
        let root = image.guest_root(LINUX);
        image.set(root, 0x0905_0000, 3, output | GUEST_DEVICE_PAGE);
        let codes: Vec<Code> = verify(image).findings.iter().map(|finding| finding.code).collect();
        assert!(codes.contains(&Code::DeviceMapping), "{output:#x}: {codes:?}");
    }
}

/// Only the part that obeys scripts has them.
#[test]
fn another_part_than_that_for_functions_is_refused() {
    for part in [Part::Own, Part::Shared] {
        let text = monitor(part);
        let mut image = edit(&samples::functions());
        image.header.part = part as u32;
        image.bytes[64..72].copy_from_slice(&part.mark());
        let verdict =
            bulkhead_verify::verify_bytes(&image.finish(), &Expected::only(Monitor::new(&text.text, &text.rodata)));
        let codes: Vec<Code> = verdict.findings.iter().map(|finding| finding.code).collect();
        assert_eq!(codes, [Code::Part], "{part:?}");
    }
}

/// A stage that an SMMU has instead: the partition's own tables.
#[test]
fn an_image_with_a_second_stage_is_accepted() {
    let mut system = samples::functions();
    let smmu = system.board.pci.as_mut().and_then(|host| host.smmu.as_mut()).expect("it has an SMMU");
    smmu.stage = bulkhead_plan::model::SmmuStage::Two;
    system.functions.retain(|function| function.reach == bulkhead_plan::model::Reach::Partition);
    assert_eq!(verify(edit(&system)).findings, []);
    let mut foreign = edit(&system);
    let root = foreign.guest_root(INTRUDER);
    entry(&mut foreign, NET, |words| words[3] = root);
    assert!(verify(foreign).has(Code::StreamEntry));
}
