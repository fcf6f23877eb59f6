//! Devices that write memory by themselves, driven by components: a network card, and one that is aimed at others.

use crate::described::Described;
use bulkhead_abi::PhysicalAddress;
use bulkhead_description::Options;
use bulkhead_guest_abi::guest::GUEST_RAM;
use bulkhead_kernel_abi::image::LOAD;
use bulkhead_plan::model::{Bank, GuestImage, Reach};
use bulkhead_run::End;
use bulkhead_system_tests::System;
use bulkhead_system_tests::disk::Disk;
use bulkhead_system_tests::system::guest;
use bulkhead_verify::instance::kernel;
use bulkhead_verify::{Code, Expected, Verdict, verify_bytes};

/// A card in a component, and what sends back.
const NET: &str = r#"version = 1
server = [{ name = "driver", budget = "5 ms", period = "20 ms" }]

[[component]]
name = "net"
program = "component:net.elf"
threads = [{ name = "main", server = "driver", argument = 60, stack = "64 KiB" }]
end_points = [{ thread = "main", signals = ["card"] }]
devices = ["card"]
dma_bytes = "64 KiB"
interrupts = [{ name = "card", signal = "card" }]
bind = { card = "device:card", configuration = "device:card.config", events = "receive:main", line = "interrupt:card" }
"#;

const PAGE: u64 = 4096;
const DATAGRAMS: &str = "datagrams: 60 came back with ";

fn judge(system: &System) -> Verdict {
    let monitors = Options::from_environment(None).guests.expect("built guests").join("../monitor");
    let expected = Expected::read(Some(&monitors)).unwrap_or_else(|error| panic!("{error}"));
    let kernel = kernel(&guest("kernel/kernel.elf")).expect("a kernel");
    verify_bytes(&system.image, &expected.with_kernel(kernel))
}

fn verified(system: &System) {
    let verdict = judge(system);
    assert!(verdict.is_accepted(), "{:?}", verdict.findings);
}

/// QV-10, QV-12, QV-35: a component drives a virtio card behind the SMMU, whose DMA reaches that component's own pages alone. Stock Linux with a card of its own on the same hub sends
/// datagrams of many lengths, and each comes back as it was.
#[test]
fn datagrams_of_linux_come_back_from_a_component() {
    const SCRIPT: &str =
        "cp /disk/datagrams /tmp/datagrams && chmod +x /tmp/datagrams && /tmp/datagrams 10.0.9.2:7 60\n";
    let disk =
        Disk::with("16M", &[("check.sh", SCRIPT.as_bytes(), false), ("datagrams", &guest("linux/datagrams"), true)]);
    let described = Described::new("net", NET);
    let text = format!(
        r#"{}health = {{ on_fault = "stop", dma_poll = "10 ms" }}

[[partition]]
name = "linux"
cores = [1]
memory = "256 MiB"
image = {{ kind = "linux", file = "guest:linux/Image", initrd = "guest:linux/initramfs-devices.cpio.gz", command_line = "console=ttyAMA0 quiet panic=1 bulkhead.mode=hello bulkhead.address=eth0:10.0.9.1/24 bulkhead.mount=/dev/vda:/disk bulkhead.run=sh,/disk/check.sh" }}
health = {{ on_fault = "stop", dma_poll = "10 ms" }}

[[pci]]
name = "card"
model = "virtio-net"
partition = "kernel"
net = {{ hub = "inside" }}
dma = ["net"]

[[pci]]
name = "peer"
model = "virtio-net"
partition = "linux"
net = {{ hub = "inside" }}

[[pci]]
name = "disk"
model = "virtio-blk"
partition = "linux"
disk = {{ file = "{}" }}
"#,
        described.system_text("qemu-virt", "").replace("128 MiB", "512 MiB"),
        disk.path().display()
    );
    let system = System::from_text("kernel", &text);
    verified(&system);
    let mut running = system.start();
    running.line("kernel", "net: ");
    let told = running.line("linux", "datagrams: ");
    let bytes = told.split_once(DATAGRAMS).map_or("", |(_, rest)| rest).trim_end_matches(" bytes");
    assert!(bytes.parse::<u64>().is_ok_and(|bytes| bytes > 60), "{told}");
    let own = running.line("kernel", "datagrams with ");
    assert_eq!(own, format!("net: 60 datagrams with {bytes} bytes, interrupts: true"));
    assert_eq!(running.end(), End::AllEnded);
    running.assert_no_crash();
    for partition in ["kernel", "linux"] {
        let status = running.status(partition);
        assert_eq!((status.dma.events, status.dma.lost, status.faults), (0, 0, 0), "{partition}");
    }
}

/// A driver that aims its device at others, between two components.
const STRAY: &str = r#"version = 1
server = [{ name = "main" }]

[[component]]
name = "before"
program = "component:adder.elf"
callers = { stacks = 1, bytes = "4 KiB" }

[[component]]
name = "stray"
program = "component:stray.elf"
threads = [{ name = "main", server = "main", argument = 2 }]
devices = ["edu"]
dma_bytes = "8 KiB"
bind = { edu = "device:edu", configuration = "device:edu.config" }

[[component]]
name = "behind"
program = "component:adder.elf"
callers = { stacks = 1, bytes = "4 KiB" }
"#;

const STRAY_REST: &str = "health = { on_fault = \"stop\", dma_poll = \"1 ms\" }\n\n[[pci]]\nname = \"edu\"\nmodel = \"edu\"\npartition = \"kernel\"\ndma = [\"stray\"]\n";

/// QV-10: tables of a function that are right in themselves and lead to RAM of the partition, but not to pages of its driver alone, are refused. All RAM is what a trusted driver has,
/// of which the instance says so, and stands in the report.
#[test]
fn a_function_that_reaches_more_than_its_drivers_pages_is_refused() {
    let mut system = Described::new("reach", STRAY).system(STRAY_REST);
    verified(&system);
    let Reach::Regions(own) = system.model.functions[0].reach.clone() else { panic!("it is confined") };
    let [Bank { start, bytes }] = own[..] else { panic!("pages in one piece") };
    let bank = |start: u64, bytes: u64| Bank { start: PhysicalAddress(start), bytes };
    let more = [
        ("text of the kernel", vec![bank(start.0, bytes), bank(LOAD, PAGE)]),
        ("the page in front", vec![bank(start.0 - PAGE, bytes + PAGE)]),
        ("the page behind", vec![bank(start.0, bytes + PAGE)]),
        ("the first page of RAM", vec![bank(GUEST_RAM.0, PAGE)]),
    ];
    for (what, banks) in more {
        system.model.functions[0].reach = Reach::Regions(banks);
        system.rebuild();
        let findings = judge(&system).findings;
        assert!(
            !findings.is_empty() && findings.iter().all(|one| one.code == Code::InstanceStreams),
            "{what}: {findings:?}"
        );
    }
    system.model.functions[0].reach = Reach::Regions(vec![bank(start.0, PAGE)]);
    system.rebuild();
    verified(&system);
    system.model.functions[0].reach = Reach::Partition;
    system.rebuild();
    let findings = judge(&system).findings;
    assert!(matches!(&findings[..], [one] if one.code == Code::InstanceStreams), "{findings:?}");
    let trusted = Described::new("trusted", STRAY).system(&STRAY_REST.replace("[\"stray\"]", "\"trusted\""));
    let verdict = judge(&trusted);
    assert_eq!(verdict.findings, []);
    assert!(verdict.reaches[0].bytes == verdict.reaches[0].of_bytes, "{:?}", verdict.reaches);
}

/// QV-10: what a component's device writes reaches that component's pages for DMA. Each attempt at the kernel's text, the first page of RAM, and the pages on both sides is refused by
/// the SMMU and counted, and no byte of the instance changes.
#[test]
fn dma_aimed_at_the_kernel_and_at_others_is_refused_and_counted() {
    let described = Described::new("stray", STRAY);
    let system = described.system(STRAY_REST);
    verified(&system);
    let mut running = system.start_exact(4);
    assert_eq!(running.end(), End::AllEnded);
    running.assert_no_crash();
    let lines = running.texts("kernel");
    assert!(lines[0].ends_with(", 8 words came back") && lines[1] == "stray: tried 5", "{lines:?}");
    let status = running.status("kernel");
    // Each attempt is 64 bytes, which the device writes by words of four.
    assert_eq!((status.dma.events, status.dma.lost, status.faults), (5 * 16, 0, 0), "{:?}", status.dma);
    running.assert_image_intact(&system);
    let own = lines[0].split_once("pages at 0x").and_then(|(_, rest)| rest.split_once(','));
    let own = own.and_then(|(number, _)| u64::from_str_radix(number, 16).ok()).unwrap_or_else(|| panic!("{lines:?}"));
    let GuestImage::Kernel { bytes, .. } = &system.model.partitions[0].image else { panic!("an instance") };
    let ram = running.watch().plan().partitions[running.index("kernel")].ram[0].physical.0 - GUEST_RAM.0;
    // Text of the kernel, the boot tables in front of its pages, the text of a component behind them: all of them are never written.
    for page in [LOAD, own - PAGE, own + 2 * PAGE] {
        let built = &bytes[(page - LOAD) as usize..][..PAGE as usize];
        assert!(running.copy(PhysicalAddress(ram + page), PAGE) == built, "the page at {page:#x} was written");
    }
}
