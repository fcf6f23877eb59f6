//! `serve` on a machine made of files: the front is played by writes to BAR 2, as a stock driver and the monitor would make them.

mod support;

use bulkhead_abi::plan::PortInformation;
use bulkhead_abi::virtio::{COPYING, GENERATION, QueueRecord, record_offset};
use bulkhead_guest_abi::channel::{PORT_BLOCK, PORT_NET};
use bulkhead_guest_abi::guest::GUEST_POOL;
use bulkhead_guest_abi::name_from;
use bulkheadctl::failure::{MACHINE, NOT_FOUND, USAGE};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use support::{Machine, peek, poke};
use zerocopy::IntoBytes;

const POOL: u64 = GUEST_POOL.0;
const PAGES: u32 = 16;
/// Places in the pool.
const DESCRIPTORS: u64 = 0;
const AVAILABLE: u64 = 0x1000;
const USED: u64 = 0x2000;
const HEADERS: u64 = 0x3000;
const DATA: u64 = 0x4000;
const SECTORS: usize = 64;

/// A back end of this partition: its function, with a queue of 16 that the front has switched on.
fn back_end(machine: &Machine, slot: u32, name: &str, kind: u32) -> PathBuf {
    let function = machine.function(slot, "0x1af4\n", "0x1110\n");
    let information = PortInformation {
        name: name_from(name),
        kind,
        message_bytes: 4096,
        slots: PAGES,
        doorbell: 3,
        interrupt: 40,
        ..PortInformation::default()
    };
    poke(&function.join("resource0"), 0x100, information.as_bytes());
    fs::write(function.join("resource2"), vec![0; 16 << 20]).unwrap();
    poke(&function.join("resource2"), u64::from(GENERATION), &7u32.to_le_bytes());
    let record = QueueRecord {
        sequence: 2,
        number: 16,
        descriptors: POOL + DESCRIPTORS,
        available: POOL + AVAILABLE,
        used: POOL + USED,
        padding: [0; 4],
    };
    poke(&function.join("resource2"), u64::from(record_offset(0)), record.as_bytes());
    function
}

/// The front's driver.
struct Front {
    window: File,
    available: u16,
}

impl Front {
    fn new(function: &Path) -> Self {
        let window = File::options().read(true).write(true).open(function.join("resource2")).unwrap();
        Self { window, available: 0 }
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.window.write_all_at(bytes, 4096 + at).unwrap();
    }

    fn get(&self, at: u64, bytes: usize) -> Vec<u8> {
        let mut into = vec![0; bytes];
        self.window.read_exact_at(&mut into, 4096 + at).unwrap();
        into
    }

    /// Offers a block request number n (below 4) with its data at [`DATA`] + 8 KiB each.
    fn request(&mut self, kind: u32, sector: u64, bytes: u32) -> u64 {
        let number = u64::from(self.available);
        let header = HEADERS + 64 * number;
        let data = DATA + 0x2000 * number;
        self.put(header, &[&u64::from(kind).to_le_bytes()[..], &sector.to_le_bytes()].concat());
        self.put(header + 32, &[0xee]);
        let first = 3 * self.available;
        let chain = [(header, 16, 1), (data, bytes, if kind == 1 { 1 } else { 3 }), (header + 32, 1, 2u16)];
        for (index, (at, bytes, flags)) in (first..).zip(chain) {
            let place = DESCRIPTORS + 16 * u64::from(index);
            self.put(place, &[&(POOL + at).to_le_bytes()[..], &u64::from(bytes).to_le_bytes()].concat());
            self.put(place + 12, &[flags.to_le_bytes(), (index + 1).to_le_bytes()].concat());
        }
        self.put(AVAILABLE + 4 + 2 * number, &first.to_le_bytes());
        self.available += 1;
        self.put(AVAILABLE + 2, &self.available.to_le_bytes());
        data
    }

    fn status(&self, number: u64) -> u8 {
        self.get(HEADERS + 64 * number + 32, 1)[0]
    }

    fn used(&self) -> u16 {
        u16::from_le_bytes(self.get(USED + 2, 2).try_into().unwrap())
    }
}

/// A uio device that has counts when they are written, and nothing otherwise.
fn uio(machine: &Machine, function: &Path) -> File {
    machine.uio(function);
    let path = machine.root.join("dev/uio3");
    fs::remove_file(&path).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::NONBLOCK).unwrap();
    file
}

fn disk(machine: &Machine) -> PathBuf {
    let path = machine.root.join("disk.img");
    fs::write(&path, (0..SECTORS * 512).map(|at| (at % 253) as u8).collect::<Vec<u8>>()).unwrap();
    path
}

/// Requests that waited before there was a back end are done, the front is rung, and the file has what was written.
#[test]
fn a_file_is_the_disk_of_another_partition() {
    let machine = Machine::new();
    let function = back_end(&machine, 2, "office-disk", PORT_BLOCK);
    let mut interrupts = uio(&machine, &function);
    interrupts.write_all(&1u32.to_le_bytes()).unwrap();
    let path = disk(&machine);
    let before = fs::read(&path).unwrap();
    let mut front = Front::new(&function);
    let read = front.request(0, 3, 0x1000);
    let written = front.request(1, 20, 0x1400);
    front.put(written, &[0x5a; 0x1400]);
    let identity = front.request(8, 0, 20);
    poke(&function.join("resource2"), u64::from(COPYING), &7u32.to_le_bytes());
    let output = machine.run(&["serve", "office-disk", path.to_str().unwrap(), "--timeout", "20ms"]).unwrap();
    assert_eq!((output.as_str(), front.used()), ("", 3));
    assert_eq!([0, 1, 2].map(|number| front.status(number)), [0; 3]);
    assert_eq!(front.get(read, 0x1000), before[3 * 512..][..0x1000]);
    assert_eq!(front.get(identity, 20), *b"office-disk\0\0\0\0\0\0\0\0\0");
    let after = fs::read(&path).unwrap();
    assert!(after[20 * 512..][..0x1400] == [0x5a; 0x1400] && after[..20 * 512] == before[..20 * 512]);
    assert_eq!(peek(&function.join("resource0"), 0xc), 1 << 16, "the front was rung");
    assert_eq!(peek(&function.join("resource2"), COPYING as usize), 0, "an older announcement is withdrawn");
    assert_eq!(front.get(USED, 1), [0], "a front may notify again");
    assert_eq!(peek(&function.join("resource0"), 0), 1, "doorbells are let through");
    assert_eq!(fs::read(function.join("config")).unwrap()[5] & 4, 0, "the interrupt was armed again");
    let mut rest = [0; 4];
    assert!(interrupts.read(&mut rest).is_err(), "its count was taken");
}

/// A request that comes while the back end rests, and one more: without an interrupt it looks by itself.
#[test]
fn requests_are_found_without_a_notification() {
    let machine = Machine::new();
    let function = back_end(&machine, 2, "disk", PORT_BLOCK);
    let path = disk(&machine);
    let mut front = Front::new(&function);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| machine.run(&["serve", "disk", path.to_str().unwrap(), "--timeout", "2s"]));
        for number in 0..3 {
            let _ = front.request(4, 0, 0);
            let end = Instant::now() + Duration::from_secs(60);
            while front.used() == number && Instant::now() < end {
                std::thread::yield_now();
            }
            assert_eq!((front.used(), front.status(u64::from(number))), (number + 1, 0));
        }
        assert_eq!(serving.join().unwrap().unwrap(), "");
    });
}

#[test]
fn a_disk_that_is_not_written_stays_as_it_is() {
    let machine = Machine::new();
    let function = back_end(&machine, 2, "disk", PORT_BLOCK);
    let path = disk(&machine);
    let before = fs::read(&path).unwrap();
    let mut front = Front::new(&function);
    let _ = front.request(1, 0, 512);
    let _ = front.request(0, 0, 512);
    machine.run(&["serve", "disk", path.to_str().unwrap(), "--read-only", "--timeout", "20ms"]).unwrap();
    assert_eq!(([0, 1].map(|number| front.status(number)), front.used()), ([1, 0], 2));
    assert_eq!(fs::read(&path).unwrap(), before);
}

/// What a front does wrong is said once, and the process serves what comes after.
#[test]
fn a_queue_that_has_stopped_is_reported() {
    let machine = Machine::new();
    let function = back_end(&machine, 2, "disk", PORT_BLOCK);
    let path = disk(&machine);
    let mut front = Front::new(&function);
    let _ = front.request(0, 0, 512);
    // A buffer in the front's own memory.
    front.put(DESCRIPTORS + 16, &0x4000_0000u64.to_le_bytes());
    let output = machine.run(&["serve", "disk", path.to_str().unwrap(), "--timeout", "50ms"]).unwrap();
    let expected = "queue 0 of disk has stopped until its driver starts again: a buffer of 512 bytes at 0x40000000 is not in the pool\n";
    assert_eq!((output.as_str(), front.used(), front.status(0)), (expected, 0, 0xee));
    // The driver starts again.
    front.put(DESCRIPTORS + 16, &(POOL + DATA).to_le_bytes());
    poke(&function.join("resource2"), u64::from(record_offset(0)), &4u32.to_le_bytes());
    assert_eq!(machine.run(&["serve", "disk", path.to_str().unwrap(), "--timeout", "20ms"]).unwrap(), "");
    assert_eq!((front.used(), front.status(0)), (1, 0));
}

/// Where everything that is written ends in an error, as on a full disk.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::StorageFull.into())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Err(std::io::ErrorKind::StorageFull.into())
    }
}

/// A front decides when there is something to report; it does not end its back end, wherever that reports to.
#[test]
fn a_report_that_cannot_be_written_ends_nothing() {
    let machine = Machine::new();
    let function = back_end(&machine, 2, "disk", PORT_BLOCK);
    let path = disk(&machine);
    let mut front = Front::new(&function);
    let _ = front.request(0, 0, 512);
    front.put(DESCRIPTORS + 16, &0x4000_0000u64.to_le_bytes());
    let arguments = machine.arguments(&["serve", "disk", path.to_str().unwrap(), "--timeout", "50ms"]);
    bulkheadctl::run(arguments, &mut Full).unwrap();
    assert_eq!((front.used(), front.status(0)), (0, 0xee), "the queue has stopped");
}

/// A file that shrinks while it is served: the front gets an I/O error, and the process stays.
#[test]
fn a_file_that_shrinks_is_an_error_of_the_disk() {
    let machine = Machine::new();
    let function = back_end(&machine, 2, "disk", PORT_BLOCK);
    let path = disk(&machine);
    let mut front = Front::new(&function);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| machine.run(&["serve", "disk", path.to_str().unwrap(), "--timeout", "2s"]));
        let mut wait = |kind, sector| {
            let before = front.used();
            let _ = front.request(kind, sector, 512);
            let end = Instant::now() + Duration::from_secs(60);
            while front.used() == before && Instant::now() < end {
                std::thread::yield_now();
            }
            front.status(u64::from(before))
        };
        assert_eq!(wait(0, 60), 0);
        File::options().write(true).open(&path).unwrap().set_len(512).unwrap();
        assert_eq!([wait(0, 60), wait(0, 0)], [1, 0]);
        assert!(serving.join().unwrap().is_ok());
    });
}

#[test]
fn what_cannot_be_served_is_refused_with_a_reason() {
    let machine = Machine::new();
    let path = disk(&machine);
    let path = path.to_str().unwrap();
    let failure = |arguments: &[&str]| {
        let failure = machine.run(&[arguments, &["--timeout", "1ms"]].concat()).unwrap_err();
        (failure.code, failure.message)
    };
    let (code, message) = failure(&["serve", "disk", path]);
    assert_eq!((code, message.as_str()), (NOT_FOUND, "this partition is no back end of \"disk\"; it has none"));
    let function = back_end(&machine, 2, "disk", PORT_BLOCK);
    back_end(&machine, 3, "card", PORT_NET);
    assert_eq!(machine.run(&["channel", "list", "--format", "json"]).unwrap(), "[]\n", "they are no channels");
    let (code, message) = failure(&["serve", "other", path]);
    assert_eq!((code, message.as_str()), (NOT_FOUND, "this partition is no back end of \"other\"; it has disk, card"));
    for arguments in [&["serve", "disk"][..], &["serve"], &["serve", "disk", path, "--tap", "tap0"]] {
        assert_eq!(failure(arguments).0, USAGE, "{arguments:?}");
    }
    let (code, message) = failure(&["serve", "disk", "--tap", "tap0"]);
    assert_eq!((code, message.as_str()), (USAGE, "disk is a disk: serve it with its FILE"));
    let (code, message) = failure(&["serve", "card", path]);
    assert_eq!((code, message.as_str()), (USAGE, "card is a network card: serve it with --tap INTERFACE"));

    let missing = machine.root.join("none.img");
    let (code, message) = failure(&["serve", "disk", missing.to_str().unwrap()]);
    assert!(code == MACHINE && message.starts_with(&format!("cannot use {}: ", missing.display())), "{message}");
    let (code, message) = failure(&["serve", "disk", machine.root.to_str().unwrap()]);
    assert!(code == MACHINE && message.contains("directory"), "{message}");
    let (code, message) = failure(&["serve", "disk", machine.root.to_str().unwrap(), "--read-only"]);
    assert!(code == MACHINE && message.ends_with("is neither a regular file nor a block device"), "{message}");
    for (bytes, text) in [(0, "has 0 bytes"), (513, "has 513 bytes; a disk has whole sectors of 512")] {
        fs::write(&missing, vec![0; bytes]).unwrap();
        let (code, message) = failure(&["serve", "disk", missing.to_str().unwrap()]);
        assert!(code == MACHINE && message.contains(text), "{message}");
    }

    let lock = |path: &Path| {
        let file = File::open(path).unwrap();
        file.lock().unwrap();
        file
    };
    let held = lock(Path::new(path));
    assert!(failure(&["serve", "disk", path]).1.ends_with("disk.img is in use by another program"));
    drop(held);
    let held = lock(&function.join("resource2"));
    assert!(failure(&["serve", "disk", path]).1.ends_with("port disk is in use by another process"));
    drop(held);
    assert!(machine.run(&["serve", "disk", path, "--timeout", "1ms"]).is_ok());

    let (code, message) = failure(&["serve", "card", "--tap", "tap0"]);
    assert!(code == MACHINE && message.contains("net/tun"), "{message}");
    assert!(message.ends_with("; TAP interfaces need the kernel module tun: load it with modprobe tun"), "{message}");
    fs::create_dir_all(machine.root.join("dev/net")).unwrap();
    fs::write(machine.root.join("dev/net/tun"), "").unwrap();
    let (code, message) = failure(&["serve", "card", "--tap", "tap0"]);
    assert!(code == MACHINE && message.starts_with("cannot make the TAP interface tap0: "), "{message}");
    let (code, message) = failure(&["serve", "card", "--tap", "sixteen-letters-"]);
    assert!(code == MACHINE && message.ends_with("an interface's name has at most 15 bytes"), "{message}");
}

/// A front that keeps other things out of the pool, one that does not, and a partition that is no front.
#[test]
fn a_front_says_whether_its_pool_is_its_devices_alone() {
    let machine = Machine::new();
    let processes = machine.root.join("proc");
    let pool = |more: &[&str]| machine.run(&[&["pool", "--processes", processes.to_str().unwrap()], more].concat());
    let zone = |free: u32| {
        let text = format!("Node 0, zone      DMA\n  pages free     {free}\n        protection: (0, 0, 117, 117)\n");
        fs::write(processes.join("zoneinfo"), text).unwrap();
    };
    assert_eq!(pool(&[]).unwrap_err().code, NOT_FOUND);
    fs::create_dir_all(machine.root.join("sys/firmware/devicetree/base/chosen")).unwrap();
    assert_eq!(pool(&[]).unwrap_err().code, NOT_FOUND, "no node of these devices");
    fs::create_dir_all(machine.root.join("sys/firmware/devicetree/base/virtio-bus@19000000")).unwrap();
    let failure = pool(&[]).unwrap_err();
    assert!(failure.code == MACHINE && failure.message.starts_with("cannot read "), "{failure}");
    fs::create_dir_all(&processes).unwrap();
    zone(94);
    assert_eq!(pool(&[]).unwrap(), "pool: 94 pages of its zone are free, 117 are kept for devices\n");
    assert_eq!(pool(&["--format", "json"]).unwrap(), "{\"free\":94,\"protection\":117,\"kept\":true}\n");
    zone(118);
    let failure = pool(&[]).unwrap_err();
    assert!(
        failure.code == MACHINE && failure.message.contains("118 pages are free and only 117 are kept"),
        "{failure}"
    );
    fs::write(processes.join("zoneinfo"), "Node 0, zone   Normal\n").unwrap();
    assert!(pool(&[]).unwrap_err().message.ends_with("has no zone DMA: the kernel was built without one"));
}
