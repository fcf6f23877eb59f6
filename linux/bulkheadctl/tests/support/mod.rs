//! A machine made of files: PCI functions in a fake sysfs, BARs as ordinary files that both ends map.
#![allow(dead_code, reason = "each test program uses a part")]

use bulkhead_abi::GuestAddress;
use bulkhead_abi::hypercall::management as register;
use bulkhead_abi::plan::PortInformation;
use bulkhead_channel::Geometry;
use bulkhead_guest_abi::channel::PORT_POOL;
use bulkhead_guest_abi::guest::{DIRECTION_DESTINATION, DIRECTION_SOURCE};
use bulkhead_guest_abi::name_from;
use bulkheadctl::failure::Failure;
use bulkheadctl::hardware::Mapping;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A temporary directory with `sys` and `dev`, gone when dropped.
pub(crate) struct Machine {
    pub(crate) root: PathBuf,
}

impl Machine {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("machine-{}-{number}", std::process::id()));
        fs::create_dir_all(root.join("sys/bus/pci/devices")).unwrap();
        fs::create_dir_all(root.join("dev")).unwrap();
        let machine = Self { root };
        // A foreign function, which must be left alone.
        machine.function(9, "0x8086", "0x1110");
        machine
    }

    /// Makes a function in slot `slot` and returns its directory.
    pub(crate) fn function(&self, slot: u32, vendor: &str, device: &str) -> PathBuf {
        let path = self.root.join(format!("sys/bus/pci/devices/0000:00:{slot:02x}.0"));
        fs::create_dir_all(&path).unwrap();
        for (name, text) in [("vendor", vendor), ("device", device), ("enable", "0\n"), ("driver_override", "")] {
            fs::write(path.join(name), text).unwrap();
        }
        // Command: memory decoding and DisINTx.
        let mut config = [0; 64];
        config[4..6].copy_from_slice(&0x0402u16.to_le_bytes());
        fs::write(path.join("config"), config).unwrap();
        fs::write(path.join("resource0"), [0; 4096]).unwrap();
        path
    }

    /// Makes one end of a channel.
    pub(crate) fn port(
        &self,
        slot: u32,
        name: &str,
        is_source: bool,
        geometry: Geometry,
        has_doorbell: bool,
    ) -> PathBuf {
        let path = self.function(slot, "0x1af4\n", "0x1110\n");
        let information = PortInformation {
            name: name_from(name),
            window: GuestAddress(0xdead_0000),
            window_bytes: 7,
            direction: if is_source { DIRECTION_SOURCE } else { DIRECTION_DESTINATION },
            kind: geometry.kind(),
            message_bytes: geometry.message_bytes(),
            slots: geometry.slots(),
            doorbell: if is_source && has_doorbell { 0 } else { u32::MAX },
            interrupt: if !is_source && has_doorbell { 40 } else { 0 },
        };
        poke(&path.join("resource0"), 0x100, zerocopy::IntoBytes::as_bytes(&information));
        let bytes = usize::try_from(geometry.window_bytes()).unwrap().next_power_of_two();
        fs::write(path.join("resource2"), vec![0; bytes]).unwrap();
        path
    }

    /// Makes the function of a channel with the payload of a secure world, at this address, which both ends map.
    pub(crate) fn world_function(
        &self,
        slot: u32,
        name: &str,
        is_source: bool,
        address: u64,
        pool: [u32; 2],
    ) -> Mapping {
        const BYTES: usize = 4096;
        let path = self.function(slot, "0x1af4\n", "0x1110\n");
        let [slots, message_bytes] = pool;
        let information = PortInformation {
            name: name_from(name),
            window: GuestAddress(0xdead_0000),
            window_bytes: 0,
            direction: if is_source { DIRECTION_SOURCE } else { DIRECTION_DESTINATION },
            kind: PORT_POOL,
            message_bytes,
            slots,
            doorbell: u32::MAX,
            interrupt: 0,
        };
        poke(&path.join("resource0"), 0x100, zerocopy::IntoBytes::as_bytes(&information));
        let line = |start: u64| format!("{start:#018x} {:#018x} 0x0000000000040200\n", start + BYTES as u64 - 1);
        fs::write(path.join("resource"), [line(0x1000), line(0), line(address)].concat()).unwrap();
        fs::write(path.join("resource2"), vec![0; BYTES]).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(path.join("resource2")).unwrap();
        Mapping::new(&file, BYTES).unwrap()
    }

    /// Makes a channel with the payload of a secure world: its node in the device tree, and its pages of `/dev/mem`, which both ends map.
    pub(crate) fn world_channel(
        &self,
        name: &str,
        direction: &str,
        address: u64,
        blocks: u32,
        block_bytes: u32,
    ) -> Mapping {
        let node = self.root.join(format!("sys/firmware/devicetree/base/bulkhead-channels/channel@{address:x}"));
        fs::create_dir_all(&node).unwrap();
        let put = |file: &str, bytes: &[u8]| fs::write(node.join(file), bytes).unwrap();
        put("label", format!("{name}\0").as_bytes());
        put("direction", format!("{direction}\0").as_bytes());
        put("reg", &[address.to_be_bytes(), 4096_u64.to_be_bytes()].concat());
        put("blocks", &blocks.to_be_bytes());
        put("block-bytes", &block_bytes.to_be_bytes());
        let memory = self.root.join("dev/mem");
        let memory = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(memory).unwrap();
        let length = memory.metadata().unwrap().len().max(address + 4096);
        memory.set_len(length).unwrap();
        Mapping::at(&memory, address, 4096).unwrap()
    }

    /// Makes the word by which a latency task is wanted, with two tasks for priorities 95 to 99 and 88 to 94, and one for none.
    pub(crate) fn world_wish(&self, address: u64) -> Mapping {
        let node = self.root.join(format!("sys/firmware/devicetree/base/bulkhead-latency/wish@{address:x}"));
        fs::create_dir_all(&node).unwrap();
        fs::write(node.join("reg"), [address.to_be_bytes(), 4096_u64.to_be_bytes()].concat()).unwrap();
        fs::write(node.join("tasks"), b"ltask0\0ltask1\0ltask2\0").unwrap();
        let cells: Vec<u8> = [95_u32, 99, 88, 94, 0, 0].iter().flat_map(|cell| cell.to_be_bytes()).collect();
        fs::write(node.join("priorities"), cells).unwrap();
        let memory = self.root.join("dev/mem");
        let memory = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(memory).unwrap();
        memory.set_len(memory.metadata().unwrap().len().max(address + 4096)).unwrap();
        Mapping::at(&memory, address, 4096).unwrap()
    }

    /// Makes the management device with partitions selected by hand (a file answers the same whatever SELECT says).
    pub(crate) fn management(&self, count: u32, own: u32, name: &str) -> PathBuf {
        let path = self.function(1, "0x1af4", "0x1111");
        let registers = path.join("resource0");
        for (offset, value) in [
            (register::MAGIC, register::MAGIC_VALUE),
            (register::COUNT, count),
            (register::OWN, own),
            (register::STATE, 1),
            (register::REASON, 6),
            (register::GENERATION, 3),
            (register::RESTARTS, 2),
        ] {
            poke(&registers, offset, &value.to_le_bytes());
        }
        poke(&registers, register::NAME, &name_from(name));
        path
    }

    /// Gives a function a uio device whose count is already there.
    pub(crate) fn uio(&self, function: &Path) {
        fs::create_dir_all(function.join("uio/uio3")).unwrap();
        fs::write(self.root.join("dev/uio3"), 1u32.to_le_bytes()).unwrap();
    }

    /// Makes the driver's directory.
    pub(crate) fn driver(&self) -> PathBuf {
        let path = self.root.join("sys/bus/pci/drivers/uio_pci_generic");
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("bind"), "").unwrap();
        path
    }

    /// The command line of an invocation on this machine.
    pub(crate) fn arguments(&self, arguments: &[&str]) -> Vec<OsString> {
        let sysfs = self.root.join("sys");
        let devices = self.root.join("dev");
        let mut all = vec!["--sysfs".into(), sysfs.into_os_string(), "--devices".into(), devices.into_os_string()];
        all.extend(arguments.iter().map(Into::into));
        all
    }

    /// Runs the program and returns what it printed.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<String, Failure> {
        let mut output = Vec::new();
        bulkheadctl::run(self.arguments(arguments), &mut output).map(|()| String::from_utf8(output).unwrap())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Maps the channel memory of a function, as the peer would.
pub(crate) fn peer(function: &Path, geometry: Geometry) -> Mapping {
    let file = OpenOptions::new().read(true).write(true).open(function.join("resource2")).unwrap();
    Mapping::new(&file, usize::try_from(geometry.window_bytes()).unwrap()).unwrap()
}

pub(crate) fn poke(path: &Path, offset: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, offset).unwrap();
}

pub(crate) fn peek(path: &Path, offset: usize) -> u32 {
    let bytes = fs::read(path).unwrap();
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().unwrap())
}
