//! PCI functions of a description on QEMU: its arguments, disks that one run has at a time, and ports of the loopback alone.

mod common;

use bulkhead_description::{Loaded, Options, load_text_unchecked};
use bulkhead_plan::samples;
use bulkhead_run::qemu::{Boot, Endpoints, Streams};
use bulkhead_run::source::Source;
use bulkhead_run::{Event, Machine, MachineOptions, RunError, exit_code};
use bulkhead_timing::Assumptions;
use common::*;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const HOLD: &str = "BULKHEAD_TEST_HOLD_DISK";

/// A directory with a guest and a disk, both of one test.
fn directory(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("functions-{name}"));
    std::fs::create_dir_all(&directory).expect("a directory can be made");
    std::fs::write(directory.join("guest.bin"), [0; 16]).expect("a file can be written");
    std::fs::write(directory.join("a,b:c.img"), [0; 4096]).expect("a file can be written");
    directory
}

/// A description with functions of two partitions, one behind the root port; the forward leads from this port.
fn described(directory: &Path, port: u16, read_only: bool) -> Loaded {
    let partition = |name: &str, core: u32| {
        let image = "image = { kind = \"raw\", file = \"guest.bin\" }";
        format!("[[partition]]\nname = \"{name}\"\ncores = [{core}]\nmemory = \"1 MiB\"\n{image}\n")
    };
    let function = |name: &str, model: &str, partition: &str, more: &str| {
        format!("[[pci]]\nname = \"{name}\"\nmodel = \"{model}\"\npartition = \"{partition}\"\n{more}\n")
    };
    let text = [
        "version = 1\nname = \"system\"\nboard = \"qemu-virt\"\nmemory = \"64 MiB\"\n".to_owned(),
        partition("linux", 0),
        partition("office", 1),
        function("disk", "virtio-blk", "linux", &format!("disk = {{ file = \"a,b:c.img\", read_only = {read_only} }}")),
        function("web", "virtio-net", "linux", &format!("net = {{ forward = [\"127.0.0.1:{port} -> 80\"] }}")),
        function("1", "virtio-net", "linux", "net = { hub = \"inside\" }"),
        function("2", "virtio-net-flr", "office", "net = { hub = \"inside\" }"),
        function("random", "virtio-rng", "office", "slot = 12"),
    ];
    load_text_unchecked(&directory.join("system.toml"), &text.concat(), &Options::default())
        .unwrap_or_else(|report| panic!("{}", report.to_text(false)))
}

/// The hand-made machine with these functions.
fn options(loaded: &Loaded) -> MachineOptions {
    let image = image(&two_partitions(), &WAIT_FOR_EVER);
    let mut options = MachineOptions::for_image(image).expect("the hand-made image is valid");
    options.give(&loaded.system, &loaded.host).expect("the board says everything");
    options
}

fn arguments(options: &MachineOptions) -> Vec<String> {
    let endpoints = Endpoints { ram: "ram".to_owned(), boot: "image".to_owned(), streams: Streams::Terminal };
    options.arguments(&endpoints)
}

/// Ports that were free a moment ago.
fn free_ports<const COUNT: usize>() -> [u16; COUNT] {
    let listen = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    let listeners: [TcpListener; COUNT] = std::array::from_fn(listen);
    listeners.each_ref().map(|listener| listener.local_addr().expect("it has an address").port())
}

#[test]
fn qemu_is_told_of_each_function() {
    let directory = directory("arguments");
    let options = options(&described(&directory, 8080, false));
    let disk = directory.join("a,,b:c.img");
    let disk = disk.display();
    let virtio = "disable-legacy=on,iommu_platform=on";
    let expected = [
        "-device".to_owned(),
        "pcie-root-port,id=pci-root-port,bus=pcie.0,chassis=1,addr=0x10".to_owned(),
        "-drive".to_owned(),
        format!("if=none,id=pci-disk,format=raw,werror=report,rerror=report,file.driver=file,file.filename={disk}"),
        "-device".to_owned(),
        format!("virtio-blk-pci,num-queues=1,{virtio},drive=pci-disk,bus=pcie.0,addr=0x1"),
        "-netdev".to_owned(),
        "user,id=pci-web,restrict=on,hostfwd=tcp:127.0.0.1:8080-:80".to_owned(),
        "-device".to_owned(),
        format!("virtio-net-pci,romfile=,{virtio},netdev=pci-web,bus=pcie.0,addr=0x2"),
        "-netdev".to_owned(),
        "hubport,id=pci-1,hubid=0".to_owned(),
        "-device".to_owned(),
        format!("virtio-net-pci,romfile=,{virtio},netdev=pci-1,bus=pcie.0,addr=0x3"),
        "-netdev".to_owned(),
        "hubport,id=pci-2,hubid=0".to_owned(),
        "-device".to_owned(),
        format!("virtio-net-pci,romfile=,{virtio},netdev=pci-2,bus=pci-root-port,addr=0x0"),
        "-device".to_owned(),
        format!("virtio-rng-pci,{virtio},bus=pcie.0,addr=0xc"),
    ];
    assert_eq!(options.functions.arguments(), expected);
    let mut options = options;
    options.boot = Boot::Loader(PathBuf::from("loader"));
    let all = arguments(&options);
    let place = |argument: &str| all.iter().position(|one| one == argument).expect("an argument");
    let last = place(expected.last().expect("an argument"));
    assert!(last < place("virtio-blk-pci,drive=boot"), "a boot loader's disk takes what is left: {all:?}");
    assert!(all.windows(expected.len()).any(|part| part == expected), "{all:?}");
    assert!(
        all.contains(&"virt,gic-version=3,virtualization=on,iommu=smmuv3,memory-backend=ram".to_owned()),
        "{all:?}"
    );
}

/// A system without functions has the machine and the arguments that it always had.
#[test]
fn nothing_changes_without_functions() {
    let image = image(&two_partitions(), &WAIT_FOR_EVER);
    let before = MachineOptions::for_image(image).expect("the hand-made image is valid");
    let mut after = before.clone();
    let system = samples::system(vec![samples::native("a", &[0])], Vec::new());
    after.give(&system, &[]).expect("nothing to give");
    assert_eq!(arguments(&before), arguments(&after));
    assert!(arguments(&before).contains(&"virt,gic-version=3,virtualization=on,memory-backend=ram".to_owned()));
}

/// An image alone says of no function what is behind it.
#[test]
fn images_with_functions_are_run_by_their_descriptions() {
    let path = directory("image").join("system.img");
    let open = |image: &[u8]| {
        std::fs::write(&path, image).expect("a file can be written");
        Source::open(&path, None, None, &Assumptions::default())
    };
    let mut image = image(&two_partitions(), &WAIT_FOR_EVER);
    open(&image).expect("no function");
    add_function(&mut image, 1);
    let Err(error) = open(&image) else { panic!("an image with a function") };
    assert!(error.message.contains("run its description"), "{}", error.message);
    assert_eq!(error.exit_code, exit_code::FAILURE);
}

/// One run writes a disk, or several read it; the others are told which one. The port is the loopback's, and the machine's for as long as it lives.
#[test]
fn disks_and_ports_are_of_one_run() {
    let directory = directory("one-run");
    let [port, other_port] = free_ports();
    let address = (Ipv4Addr::LOCALHOST, port);
    let mut first = Machine::start(options(&described(&directory, port, false))).expect("QEMU takes all of it");
    TcpStream::connect(address).expect("the port leads to QEMU");
    assert!(TcpStream::connect((Ipv4Addr::new(127, 0, 0, 2), port)).is_err(), "at the named address and no other");
    for read_only in [false, true] {
        let second = options(&described(&directory, other_port, read_only));
        let error = Machine::start(second).err().expect("the disk is in use");
        assert!(matches!(&error, RunError::DiskInUse(path) if path.ends_with("a,b:c.img")), "{error}");
        assert_eq!(error.exit_code(), exit_code::HOST);
    }
    first.quit();
    drop(first);

    let mut readers: Vec<_> = [port, other_port]
        .map(|port| Machine::start(options(&described(&directory, port, true))).expect("readers are beside each other"))
        .into();
    let error = Machine::start(options(&described(&directory, port, true))).err().expect("the port is in use");
    assert!(matches!(&error, RunError::PortInUse(forward) if forward.port == port), "{error}");
    assert!(error.to_string().contains(&format!("`127.0.0.1:{port} -> 80`")), "{error}");
    readers.iter_mut().for_each(|machine| drop(machine.quit()));
    drop(readers);
    TcpListener::bind(address).expect("the port is free again");
}

/// A file that becomes smaller while a guest has it is told once.
#[test]
fn a_disk_that_shrinks_is_told() {
    let directory = directory("shrinks");
    let [port] = free_ports();
    let mut machine = Machine::start(options(&described(&directory, port, false))).expect("QEMU starts");
    machine.poll();
    assert_eq!(machine.disk_troubles(), []);
    for bytes in [1024, 512] {
        let file = std::fs::File::options().write(true).open(directory.join("a,b:c.img"));
        file.and_then(|file| file.set_len(bytes)).expect("the file can be cut");
        let told = machine.poll().iter().filter(|event| matches!(event, Event::Disk(_))).count();
        assert_eq!(told, usize::from(bytes == 1024));
    }
    let told: Vec<String> = machine.disk_troubles().iter().map(ToString::to_string).collect();
    assert!(told[0].contains("function disk") && told[0].contains("had 4096 bytes and has 1024"), "{told:?}");
    machine.quit();
}

/// A QEMU that has no SMMU says so in its own words; what they mean is said beside them.
#[test]
fn a_qemu_without_an_smmu_is_told() {
    let directory = directory("no-smmu");
    let [port] = free_ports();
    let mut options = options(&described(&directory, port, false));
    options.facts.machine = options.facts.machine.replace("smmuv3", "none-such");
    let error = Machine::start(options).err().expect("QEMU refuses the machine");
    assert_eq!(error.exit_code(), exit_code::QEMU);
    assert!(error.to_string().contains("Set BULKHEAD_QEMU to a QEMU with `iommu=smmuv3`"), "{error}");
}

/// Not a test by itself: with the variable set, holds a machine with a disk until killed (see the next test).
#[test]
fn hold_a_disk() {
    let Some(directory) = std::env::var_os(HOLD) else { return };
    let [port] = free_ports();
    let machine = Machine::start(options(&described(Path::new(&directory), port, false))).expect("QEMU starts");
    println!("\nqemu {}", machine.qemu_pid());
    loop {
        std::thread::park();
    }
}

/// However a run ends, a later one has the disk.
#[test]
fn a_killed_run_releases_its_disks() {
    let directory = directory("killed");
    let mut holder = Command::new(std::env::current_exe().expect("a test knows its program"))
        .args(["--exact", "hold_a_disk", "--nocapture"])
        .env(HOLD, &directory)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the holder starts");
    let output = BufReader::new(holder.stdout.take().expect("stdout is a pipe"));
    let line = output.lines().map_while(Result::ok).find(|line| line.starts_with("qemu ")).expect("QEMU started");
    let [port] = free_ports();
    let own = || Machine::start(options(&described(&directory, port, false)));
    assert!(matches!(own().err(), Some(RunError::DiskInUse(_))));
    holder.kill().expect("the holder can be killed");
    holder.wait().expect("the holder ends");
    wait_until_gone(&line["qemu ".len()..]);
    own().expect("the disk is free").quit();
}
