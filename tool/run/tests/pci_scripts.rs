//! The plan's scripts and tables on QEMU's own functions, root port and SMMU, obeyed by the interpreter of the monitor.
//!
//! The processor sleeps: each access of a step is one of QEMU's test protocol, and `edu` shows what the tables let through.

use bulkhead_abi::devices::Step;
use bulkhead_abi::{PAGE_BYTES, PART_OFFSET, Part, PhysicalAddress};
use bulkhead_description::board::built_in_board;
use bulkhead_device::script::{Registers, run};
use bulkhead_plan::model::{Bank, PciBacking, PciFunction, PciHost, Reach, System};
use bulkhead_plan::{AreaKind, Plan, devices, plan, samples};
use bulkhead_run::qemu;
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A partition with a random number generator.
const CALM: usize = 0;
/// One with three functions.
const HOSTILE: usize = 1;
/// One with what is behind the root port.
const FAR: usize = 2;
const RAM: u64 = 0x4000_0000;
const COMMAND: u64 = 4;
/// Registers of edu, and its buffer (QEMU `docs/specs/edu.txt`).
const SOURCE: u64 = 0x80;
const TARGET: u64 = 0x88;
const COUNT: u64 = 0x90;
const START: u64 = 0x98;
const BUFFER: u64 = 0x4_0000;
/// What the SMMU reports of an address that no table has (IHI 0070, 7.3).
const F_TRANSLATION: u64 = 0x10;
/// Bit of [`START`] while a transfer is under way.
const RUNNING: u64 = 1;
/// Reads until it must be over: it takes 100 ms of the machine's time. A passing test needs a small part of them.
const PATIENCE: u32 = 10_000_000;
/// WFI, and back to it.
const SLEEP: u64 = 0x17ff_ffff_d503_207f;
/// Where that is, in RAM that nobody uses.
const SLEEP_AT: u64 = RAM + (255 << 20);

/// A machine whose processor sleeps.
struct Qtest {
    child: Child,
    streams: RefCell<(ChildStdin, BufReader<ChildStdout>)>,
}

impl Drop for Qtest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Qtest {
    fn start(system: &System, host: &PciHost) -> Self {
        let facts = system.board.qemu.as_ref().expect("QEMU is this machine");
        let machine = facts.pci_machine.as_ref().expect("a machine with functions");
        let mut command = Command::new(qemu::program());
        command.args(["-M", machine, "-qtest", "stdio", "-qtest-log", "/dev/null", "-display", "none", "-nodefaults"]);
        command.args(["-cpu", facts.cpu.as_deref().expect("a processor"), "-m", "256M", "-serial", "null"]);
        let sleep = [format!("data={SLEEP:#x},data-len=8"), String::from("cpu-num=0")];
        for what in sleep {
            command.args(["-device", &format!("loader,addr={SLEEP_AT:#x},{what}")]);
        }
        let (port, slot) = (facts.root_port.as_ref().expect("a root port"), host.root_port.expect("its slot"));
        command.args(["-device", &format!("{port},id=behind,chassis=1,addr={slot:#x}")]);
        for function in &system.functions {
            let (model, name) = (&host.models[function.model], &function.name);
            let behind = match model.backing {
                PciBacking::Nothing => String::new(),
                PciBacking::Disk => {
                    command.args(["-blockdev", &format!("null-co,node-name={name},size=1048576")]);
                    format!(",drive={name}")
                }
                PciBacking::Network => {
                    command.args(["-netdev", &format!("hubport,id={name},hubid=0")]);
                    format!(",netdev={name}")
                }
            };
            let bus = if function.bus == 0 { "pcie.0" } else { "behind" };
            command.args(["-device", &format!("{}{behind},bus={bus},addr={:#x}", model.qemu, function.device)]);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("QEMU starts");
        let streams = (child.stdin.take().expect("piped"), BufReader::new(child.stdout.take().expect("piped")));
        Self { child, streams: RefCell::new(streams) }
    }

    /// Sends a command and returns what comes behind `OK`.
    fn ask(&self, command: &str) -> String {
        let (input, output) = &mut *self.streams.borrow_mut();
        writeln!(input, "{command}").expect("QEMU listens");
        let mut answer = String::new();
        output.read_line(&mut answer).expect("QEMU answers");
        answer.strip_prefix("OK").unwrap_or_else(|| panic!("`{command:.40}`: {answer}")).trim().to_owned()
    }

    fn load(&self, address: u64, bytes: &[u8]) {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.ask(&format!("write {address:#x} {:#x} 0x{digits}", bytes.len()));
    }

    fn get(&self, address: u64, bytes: u16) -> u64 {
        self.read(PhysicalAddress(address), bytes)
    }

    fn put(&self, address: u64, bytes: u16, value: u64) {
        self.write(PhysicalAddress(address), bytes, value);
    }

    /// Lets an edu copy four bytes: of more, QEMU reports each word.
    fn copy(&self, registers: u64, source: u64, target: u64, start: u64) {
        for (register, value) in [(SOURCE, source), (TARGET, target), (COUNT, 4), (START, start)] {
            self.put(registers + register, 8, value);
        }
        self.wait(registers);
    }

    /// Waits until an edu has done what it was told.
    fn wait(&self, registers: u64) {
        let is_over = (0..PATIENCE).any(|_| self.get(registers + START, 8) & RUNNING == 0);
        assert!(is_over, "edu never ends");
    }

    /// Lets an edu write a value to an address, by way of memory that it may read.
    fn attack(&self, registers: u64, from: u64, target: u64) {
        self.copy(registers, from, BUFFER, 1);
        self.copy(registers, BUFFER, target, 3);
    }
}

fn letter(bytes: u16) -> char {
    match bytes {
        1 => 'b',
        2 => 'w',
        4 => 'l',
        8 => 'q',
        _ => panic!("{bytes} bytes"),
    }
}

impl Registers for Qtest {
    fn read(&self, address: PhysicalAddress, bytes: u16) -> u64 {
        let value = self.ask(&format!("read{} {:#x}", letter(bytes), address.0));
        u64::from_str_radix(value.trim_start_matches("0x"), 16).expect("a number")
    }

    fn write(&self, address: PhysicalAddress, bytes: u16, value: u64) {
        self.ask(&format!("write{} {:#x} {value:#x}", letter(bytes), address.0));
    }

    fn now_ticks(&self) -> u64 {
        panic!("the board's delay after a reset is zero")
    }
}

/// A system of the reference board with functions of every reset, and two edus of one partition: one reaches all of it, one a page.
fn system() -> System {
    let board = built_in_board("qemu-virt").expect("built in");
    let host = board.pci.clone().expect("a host bridge");
    let model = |name: &str| host.models.iter().position(|model| model.name == name).expect("a model");
    let function = |name: &str, partition, device, of: &str, reach| {
        let bus = u32::from(host.models[model(of)].is_behind_root_port);
        let interrupt = devices::line(&host, bus, device);
        PciFunction { name: name.to_owned(), model: model(of), partition, bus, device, interrupt, reach }
    };
    let page = Bank { start: PhysicalAddress(RAM + 0x10_0000), bytes: PAGE_BYTES };
    let functions = vec![
        function("random", CALM, 1, "virtio-rng", Reach::Partition),
        function("wide", HOSTILE, 2, "edu", Reach::Partition),
        function("narrow", HOSTILE, 6, "edu", Reach::Regions(vec![page])),
        function("store", HOSTILE, 10, "nvme", Reach::Partition),
        function("net", FAR, 0, "virtio-net-flr", Reach::Partition),
    ];
    let partitions = ["calm", "hostile", "far"].iter().zip(0..).map(|(name, core)| samples::native(name, &[core]));
    let sample = samples::system(partitions.collect(), vec![]);
    System { board, memory_bytes: 256 << 20, functions, ..sample }
}

/// A machine with what it reads of the image, before any script.
fn loaded(system: &System, plan: &Plan) -> Qtest {
    let host = system.board.pci.as_ref().expect("a host bridge");
    let machine = Qtest::start(system, host);
    let tables = (0..plan.reach.len()).map(AreaKind::DeviceTables);
    for kind in tables.chain([AreaKind::StreamTable, AreaKind::Commands]) {
        let area = plan.layout.area(kind).expect("it is there");
        let at = usize::try_from(area.address.0 - plan.header.image_start.0).expect("an offset");
        let bytes = plan.bytes.get(at..).and_then(|bytes| bytes.get(..usize::try_from(area.page_bytes()).ok()?));
        machine.load(area.address.0, bytes.expect("it is in the image"));
    }
    machine
}

/// A machine after the scripts of its boot core.
fn booted(system: &System, plan: &Plan) -> Qtest {
    let machine = loaded(system, plan);
    let boot = plan.boot_devices.as_ref().expect("there are functions");
    for (index, script) in boot.scripts().iter().enumerate() {
        let steps: &[Step] = boot.steps_of(script);
        assert_eq!(run(steps, &machine), Ok(()), "script {index} of {:#x}", script.partition);
    }
    machine
}

fn planned(system: &System) -> Plan {
    let mut monitor = samples::monitor();
    monitor.part = Part::Devices;
    monitor.text.splice(PART_OFFSET..PART_OFFSET + 8, monitor.part.mark());
    plan(system, &monitor).unwrap_or_else(|error| panic!("{error}"))
}

/// The functions are at their places, answer, and are no masters.
fn are_ready(machine: &Qtest, system: &System, plan: &Plan, functions: impl Iterator<Item = usize>) {
    let host = system.board.pci.as_ref().expect("a host bridge");
    for index in functions {
        let function = &system.functions[index];
        let page = devices::configuration_of(host, function).0;
        assert_eq!(machine.get(page + COMMAND, 2), 0x402, "{}", function.name);
        for (register, bar) in (0..).zip(plan.places.of(index)).filter(|(_, bar)| bar.bytes != 0) {
            let place = machine.get(page + 0x10 + 4 * register, 4) & !0xf;
            assert_eq!(place, bar.physical.0, "{}, register {register}", function.name);
        }
    }
}

/// QEMU's SMMU and functions take each step, at boot and when a partition starts again.
#[test]
fn scripts_do_what_they_should_on_qemu() {
    let system = system();
    let plan = planned(&system);
    let host = system.board.pci.as_ref().expect("a host bridge");
    let machine = booted(&system, &plan);
    let smmu = host.smmu.expect("an SMMU").address.0;
    assert_eq!(machine.get(smmu + 0x24, 4), 0xd, "SMMU_CR0ACK");
    assert_eq!(machine.get(smmu + 0x60, 4), machine.get(smmu + 0x64, 4), "no error waits in SMMU_GERROR");
    are_ready(&machine, &system, &plan, 0..system.functions.len());
    // Every device is in use when its partition stops.
    let [status, behind] = [(0, 4), (4, 4)].map(|(index, register)| plan.places.of(index)[register].physical.0 + 0x14);
    [status, behind].iter().for_each(|status| machine.put(*status, 1, 3));
    assert_eq!([status, behind].map(|status| machine.get(status, 1)), [3, 3], "both answer at their places");
    for function in &system.functions {
        machine.put(devices::configuration_of(host, function).0 + COMMAND, 2, 6);
    }
    for (partition, planned) in plan.partitions.iter().enumerate() {
        let devices = planned.devices.as_ref().expect("each has a function");
        assert_eq!(run(devices.quiesce(), &machine), Ok(()), "partition {partition}");
        let own = system.functions.iter().enumerate().filter(|(_, one)| one.partition == partition);
        are_ready(&machine, &system, &plan, own.map(|(index, _)| index));
    }
    assert_eq!([status, behind].map(|status| machine.get(status, 1)), [0, 0], "both are in their first state");
}

/// QV-10, QV-11: what functions write lands in RAM of their own partition, or nowhere, and is reported.
#[test]
fn tables_let_functions_reach_their_partition_alone() {
    let system = system();
    let plan = planned(&system);
    let host = system.board.pci.as_ref().expect("a host bridge");
    let machine = booted(&system, &plan);
    let ram = |partition| plan.layout.address(AreaKind::Ram(partition)).0;
    let own = ram(HOSTILE);
    let [wide, narrow] = [1, 2].map(|index| plan.places.of(index)[0].physical.0);
    for function in &system.functions {
        machine.put(devices::configuration_of(host, function).0 + COMMAND, 2, 6);
    }
    let secret = 0x1122_3344;
    machine.put(own + 0x1000, 4, secret);
    machine.attack(wide, RAM + 0x1000, RAM + 0x2000);
    assert_eq!(machine.get(own + 0x2000, 4), secret, "its own RAM, at the guest's addresses");
    machine.put(own + 0x10_0008, 4, secret + 1);
    machine.attack(narrow, RAM + 0x10_0008, RAM + 0x10_0010);
    assert_eq!(machine.get(own + 0x10_0010, 4), secret + 1, "its page");
    // RAM of others by its physical addresses, both ends of its own, tables, interrupt controller, UART, SMMU, configuration space.
    let end = RAM + system.partitions[HOSTILE].memory_bytes;
    let memory = [ram(CALM) + 0x800, ram(FAR) + 0x800, end, own + (8 << 20)];
    let registers = [RAM - 4, 0x0809_0040, 0x0800_0040, 0x0900_0000, 0x0905_0020, 0x40_1000_8004];
    assert!(memory.iter().all(|target| !(RAM..end).contains(target)), "{memory:x?}");
    let before = memory.map(|target| machine.get(target, 4));
    let [mut wides, mut narrows] = [Vec::new(), Vec::new()];
    for target in memory.into_iter().chain(registers) {
        machine.attack(wide, RAM + 0x1000, target);
        wides.push((F_TRANSLATION, 0x10, target));
    }
    // What is its partition's, but not its own: no event of the other edu is like this one's.
    for target in [RAM + 0x3000, RAM + 0x10_1000, RAM + 0x0f_fffc] {
        machine.attack(narrow, RAM + 0x10_0008, target);
        narrows.push((F_TRANSLATION, 0x30, target));
        assert_eq!(machine.get(target - RAM + own, 4), 0);
    }
    assert_eq!(memory.map(|target| machine.get(target, 4)), before);
    let expected = [wides, narrows].concat();
    let queue = plan.layout.address(AreaKind::Events).0;
    let word = |index: usize, word: usize| machine.get(queue + (32 * index + 8 * word) as u64, 8);
    let event = |index: usize| (word(index, 0) & 0xff, word(index, 0) >> 32, word(index, 2));
    assert_eq!((0..expected.len()).map(event).collect::<Vec<_>>(), expected);
    let produced = machine.get(host.smmu.expect("an SMMU").address.0 + 0x1_00a8, 4);
    assert_eq!(produced as usize, expected.len(), "and no other event");
}

/// A transfer under way when the partition stops: nothing of it lands, then or when its successor makes the function a master.
#[test]
fn what_is_under_way_does_not_land_after_a_stop() {
    let system = system();
    let plan = planned(&system);
    let host = system.board.pci.as_ref().expect("a host bridge");
    let machine = booted(&system, &plan);
    let wide = plan.places.of(1)[0].physical.0;
    let command = devices::configuration_of(host, &system.functions[1]).0 + COMMAND;
    let target = plan.layout.address(AreaKind::Ram(HOSTILE)).0 + 0x2000;
    machine.put(command, 2, 6);
    for (register, value) in [(SOURCE, BUFFER), (TARGET, RAM + 0x2000), (COUNT, 4), (START, 3)] {
        machine.put(wide + register, 8, value);
    }
    let marker = 0x55aa;
    machine.put(target, 4, marker);
    let devices = plan.partitions[HOSTILE].devices.as_ref().expect("it has functions");
    assert_eq!(run(devices.quiesce(), &machine), Ok(()));
    machine.wait(wide);
    machine.put(command, 2, 6);
    machine.wait(wide);
    assert_eq!(machine.get(target, 4), marker);
}

/// Runs the scripts of the boot core in this order. As soon as a script has set an edu up it is used, as by a driver that does not wait for the
/// others, to write to memory of another partition. Returns whether that lands.
fn lands_between(order: impl Fn(&mut Vec<usize>)) -> bool {
    let system = system();
    let plan = planned(&system);
    let host = system.board.pci.as_ref().expect("a host bridge");
    let machine = loaded(&system, &plan);
    let boot = plan.boot_devices.as_ref().expect("there are functions");
    let target = plan.layout.address(AreaKind::Ram(CALM)).0 + 0x800;
    let command = devices::configuration_of(host, &system.functions[1]).0 + COMMAND;
    let registers = plan.places.of(1)[0].physical.0;
    machine.put(RAM + 0x1000, 4, 0x1122_3344);
    let mut scripts: Vec<usize> = (0..boot.scripts().len()).collect();
    order(&mut scripts);
    let mut uses = 0;
    for index in scripts {
        assert_eq!(run(boot.steps_of(&boot.scripts()[index]), &machine), Ok(()), "script {index}");
        if machine.get(command, 2) == 0x402 {
            machine.put(command, 2, 6);
            machine.attack(registers, RAM + 0x1000, target);
            machine.put(command, 2, 0x402);
            uses += 1;
        }
    }
    assert!(uses > 0, "it is set up");
    machine.get(target, 4) != 0
}

/// The SMMU enabled last: a function that is used before lands where it likes. In the order of the plan none is set up before.
#[test]
fn an_smmu_that_is_switched_on_last_lets_a_transfer_land() {
    assert!(!lands_between(|_| ()), "in the order of the plan");
    // The second script is the SMMU's.
    assert!(lands_between(|scripts| scripts[1..].rotate_left(1)));
}

/// One stream with the neighbour's descriptor: what its function writes lands in the neighbour's memory, at the addresses of that one's guest.
#[test]
fn with_the_neighbours_descriptor_a_transfer_lands_in_its_memory() {
    for is_broken in [false, true] {
        let system = system();
        let mut plan = planned(&system);
        if is_broken {
            let table = plan.layout.address(AreaKind::StreamTable).0 - plan.header.image_start.0;
            let entry = |index: usize| {
                usize::try_from(table).expect("it fits") + 64 * system.functions[index].stream() as usize
            };
            let (neighbour, own) = (entry(0), entry(1));
            plan.bytes.copy_within(neighbour..neighbour + 64, own);
        }
        let host = system.board.pci.as_ref().expect("a host bridge");
        let machine = booted(&system, &plan);
        let [calm, hostile] = [CALM, HOSTILE].map(|partition| plan.layout.address(AreaKind::Ram(partition)).0);
        machine.put(devices::configuration_of(host, &system.functions[1]).0 + COMMAND, 2, 6);
        machine.put(calm + 0x1000, 4, 0x5ec2);
        machine.put(hostile + 0x1000, 4, 0x1111);
        machine.attack(plan.places.of(1)[0].physical.0, RAM + 0x1000, RAM + 0x2000);
        let [calm, hostile] = [calm, hostile].map(|ram| machine.get(ram + 0x2000, 4));
        assert_eq!((calm, hostile), if is_broken { (0x5ec2, 0) } else { (0, 0x1111) });
    }
}
