//! Stock Debian Linux whose disk and network card are another partition's: Debian's own `virtio_mmio`, `virtio_blk` and `virtio_net` at the front,
//! `bulkheadctl serve` behind them (QV-1, QV-50, QV-51, QV-53).

use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{REASON_REQUESTED, STATE_OFF, STATE_RUNNING, STATE_SUSPENDED};
use bulkhead_description::Options;
use bulkhead_plan::AreaKind;
use bulkhead_system_tests::disk::Disk;
use bulkhead_system_tests::{Running, System};
use bulkhead_verify::{Expected, verify_bytes};
use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
use std::collections::HashSet;

/// What every back end of these tests knows. A server that is killed was killed by the script itself.
const BACK: &str = r#"
say() { echo "linux: $*"; }
serve_disk() { bulkheadctl serve office-disk /disk/office.img & server=$!; }
kill_server() { kill -9 $server; wait $server 2>/dev/null; }
written() { awk '$1 == "wchar:" { print $2 }' /proc/$server/io; }
until_written() { until [ $(written) -gt "$1" ]; do usleep 1000; done; }
serve_card() {
    bulkheadctl serve office-card --tap office0 &
    until [ -e /sys/class/net/office0 ]; do sleep 0.1; done
    ip address add 10.1.0.1/24 dev office0 && ip link set office0 up
}
office_is() { bulkheadctl partition status office | grep -q "^state: *$1"; }
until_office_is() { until office_is "$1"; do sleep 0.2; done; }
end() { until_office_is off; mount -o remount,ro /disk; say "served"; }
"#;

/// What every front knows: data that was written and is read again from the disk, not from memory.
const FRONT: &str = r#"
set -e
say() { echo "linux: $*"; }
write_and_read() {
    dd if=/dev/urandom of="/disk/$1" bs=64k count="$2" 2>/dev/null
    wanted=$(sha256sum <"/disk/$1")
    sync
    echo 3 >/proc/sys/vm/drop_caches
    [ "$(sha256sum <"/disk/$1")" = "$wanted" ]
}
until_told() {
    mkdir -p /tmp/www/cgi-bin
    printf '#!/bin/sh\necho; : >/tmp/end\n' >/tmp/www/cgi-bin/end
    chmod +x /tmp/www/cgi-bin/end
    httpd -h /tmp/www
    until [ -e /tmp/end ]; do sleep 0.2; done
}
end() { mount -o remount,ro /disk; say "done"; }
"#;

/// Trapped accesses of the stock drivers while they set up: 17 of a disk, 22 of a card.
const SET_UP: u64 = 17 + 22;

/// Those of a disk that is unbound and bound again: its queue goes off in three, and its driver sets up.
const CYCLE: u64 = 3 + 17;

/// Bytes that the web server of `linux` has.
fn page() -> Vec<u8> {
    (0..1u32 << 18).flat_map(|word| word.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect()
}

/// The disk of `linux`: the programs of both, office's disk as a file, and what the web server has.
fn disk(back: &str, front: &str, more: &[(&str, &[u8], bool)]) -> Disk {
    let front = format!("{FRONT}{front}\n");
    let office = Disk::with("32M", &[&[("front.sh", front.as_bytes(), false)], more].concat());
    let image = std::fs::read(office.path()).expect("the disk was made");
    let back = format!("{BACK}{back}\n");
    let files = [("back.sh", back.as_bytes(), false), ("office.img", &image, false), ("www/data", &page()[..], false)];
    Disk::with("96M", &files)
}

fn system(disk: &Disk) -> System {
    System::changed("virtio-pair", &[("DISK", &disk.path().display().to_string())])
}

fn assert_undisturbed(running: &Running) {
    running.assert_no_crash();
    for partition in ["linux", "office"] {
        let texts = running.texts(partition);
        assert!(!texts.iter().any(|line| line.contains("FAILED")), "{partition}: {texts:#?}");
        assert_eq!(running.status(partition).back_end_busy, 0, "{partition}");
    }
    assert_eq!(running.status("linux").dma.events, 0);
    assert_eq!(running.counter("office", Counter::DoorbellLimited), 0, "no notification was lost");
}

/// Both end, and the file that is office's disk is a whole file system.
fn finish(mut running: Running, disk: &Disk) -> Disk {
    running.line("office", "linux: done");
    running.line("linux", "linux: served");
    running.wait_for_state("linux", STATE_OFF);
    assert_undisturbed(&running);
    for counter in [Counter::PciRegisters, Counter::DoorbellSent, Counter::Exits] {
        let [office, linux] = ["office", "linux"].map(|partition| running.counter(partition, counter));
        println!("{counter:?}: office {office}, linux {linux}");
    }
    drop(running.quit());
    disk.assert_whole();
    let office = Disk::of(&disk.read("/office.img"));
    office.assert_whole();
    office
}

/// A kernel that reserves next to nothing of its lowest memory for devices says so when it is asked.
const POOL: &str = "bulkheadctl pool\necho 25600 25600 25600 25600 >/proc/sys/vm/lowmem_reserve_ratio\nbulkheadctl pool 2>&1 && say FAILED: not told || :";

/// ext4 on a disk that another partition keeps in a file: what office wrote is read back from there, and is in the file afterwards. The only
/// registers that cost office an exit are those of the set-up and the notifications: none for status and acknowledgement of an interrupt.
#[test]
fn linux_has_its_disk_from_another_partition() {
    let disk =
        disk("serve_disk; end", &format!("write_and_read written 128; say sum ${{wanted%% *}}\n{POOL}\nend"), &[]);
    let system = system(&disk);
    let monitors = Options::from_environment(None).guests.expect("built guests").join("../monitor");
    let expected = Expected::read(Some(&monitors)).unwrap_or_else(|error| panic!("{error}"));
    let verdict = verify_bytes(&system.image, &expected);
    assert!(verdict.is_accepted(), "{:?}", verdict.findings);
    let mut running = system.start();
    running.line("office", "linux: pool: ");
    let sum = running.line("office", "linux: sum ");
    running.line("office", "the kernel may put other things into the pool");
    running.wait_for_state("office", STATE_OFF);
    let [accesses, notified] =
        [Counter::PciRegisters, Counter::DoorbellSent].map(|counter| running.counter("office", counter));
    assert_eq!(accesses, SET_UP + notified);
    let written = finish(running, &disk).read("/written");
    let hash = bulkhead_verify::hash(&written).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!((written.len(), sum), (8 << 20, format!("linux: sum {hash}")));
}

/// An overlay that gives a kernel another command line, without the options that the tool adds for a front.
fn command_line(text: &str) -> Vec<u8> {
    let property = |name: &str, value: &str| DeviceTreeProperty::new(name, value).expect("a name");
    let mut content = DeviceTreeNode::new("__overlay__").expect("a name");
    content.add_property(property("bootargs", text));
    let mut fragment = DeviceTreeNode::new("fragment@0").expect("a name");
    fragment.add_property(property("target-path", "/chosen"));
    fragment.add_child(content);
    let mut tree = DeviceTree::new();
    tree.root.add_child(fragment);
    tree.to_dtb()
}

/// A kernel that has no bounce buffer in the pool cannot give its device anything, and waits. It says why before, and nothing of it comes to the back end.
#[test]
fn a_kernel_without_its_bounce_buffer_is_told() {
    let disk = disk("serve_disk; end", "end", &[]);
    let overlay = disk.path().with_file_name("office.dtbo");
    let line = "console=ttyAMA0 quiet panic=1 bulkhead.mode=hello cma=0 swiotlb=noforce";
    std::fs::write(&overlay, command_line(line)).expect("it can be written");
    let office = format!("cores = [1]\ndevice_tree_overlay = \"{}\"", overlay.display());
    let changes = [("DISK", &*disk.path().display().to_string()), ("cores = [1]", &*office)];
    let mut running = System::changed("virtio-pair", &changes).start();
    let told = running.line("office", "bulkheadctl: the kernel may put other things into the pool");
    assert!(told.contains("leave `swiotlb` and `lowmem_reserve_ratio` as they are"), "{told}");
    assert_eq!(running.status("linux").state, STATE_RUNNING);
    let texts = running.texts("linux");
    assert!(!texts.iter().any(|line| line.contains("has stopped")), "{texts:#?}");
    running.assert_no_crash();
}

/// A network between two partitions: ping, and a MiB over HTTP in each direction, over a TAP interface of the one and `eth0` of the other.
#[test]
fn linux_has_its_network_from_another_partition() {
    let sum = bulkhead_verify::hash(&page()).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let back = format!(
        "serve_disk; serve_card; until wget -q -O /tmp/back http://10.1.0.2/data 2>/dev/null; do sleep 0.2; done\n\
         [ \"$(sha256sum </tmp/back)\" = '{sum}  -' ] && say 'back again' && wget -q -O /dev/null http://10.1.0.2/cgi-bin/end; end"
    );
    let front = format!(
        "until ping -c 1 -W 1 10.1.0.1 >/dev/null; do :; done\nping -c 5 10.1.0.1 | grep -q ' 0% packet loss'; say pinged; mkdir /tmp/www\n\
         wget -q -O /tmp/data http://10.1.0.1/data; [ \"$(sha256sum </tmp/data)\" = '{sum}  -' ]; say fetched\n\
         mv /tmp/data /tmp/www/data; until_told; end"
    );
    let disk = disk(&back, &front, &[]);
    let mut running = system(&disk).start();
    running.line("office", "linux: pinged");
    running.line("office", "linux: fetched");
    running.line("linux", "linux: back again");
    let _ = finish(running, &disk);
}

/// Times that the back end is killed.
const KILLS: u32 = 6;

/// The back end is killed again and again while it serves: requests wait, and are done in order by the next process. Office notices nothing. Each
/// process has written something when it is killed, and office writes until it is told that all were, so no host is too slow or too fast.
#[test]
fn a_killed_back_end_continues_where_it_was() {
    let back = format!(
        "serve_card; serve_disk; kills=0\n\
         while [ $kills -lt {KILLS} ]; do kills=$((kills + 1)); until_written $((kills * 40000)); kill_server; serve_disk; done; say kills $kills\n\
         until wget -q -O /dev/null http://10.1.0.2/cgi-bin/end 2>/dev/null; do sleep 0.2; done; end"
    );
    let front = "(until_told) &\nnumber=0; until [ -e /tmp/end ]; do number=$((number + 1)); write_and_read written-$((number % 6)) 16; done; say survived; end";
    let disk = disk(&back, front, &[]);
    let mut running = system(&disk).start();
    running.line("linux", &format!("linux: kills {KILLS}"));
    running.line("office", "linux: survived");
    let _ = finish(running, &disk);
}

/// The whole back partition panics while office writes, an eighth of it, and is restarted: office waits and continues, its file system is whole.
#[test]
fn a_restarted_back_partition_continues_where_it_was() {
    let back = "started=$(bulkheadctl partition list | awk '$1 == \"*\" { print $(NF - 1) }'); serve_disk\n\
                if [ $started = 1 ]; then until_written 1000000; echo 1 >/proc/sys/kernel/sysrq; say crash; echo c >/proc/sysrq-trigger; sleep 60; fi; end";
    let front = "for number in 1 2 3 4 5 6 7 8; do write_and_read written-$number 16; done; say survived; end";
    let disk = disk(back, front, &[]);
    let mut running = system(&disk).start();
    running.line("office", "linux: survived");
    let back = running.status("linux");
    assert_eq!((back.generation, back.reason, running.status("office").generation), (2, REASON_REQUESTED, 1));
    let _ = finish(running, &disk);
}

/// What the file `secret` has over and over; no other byte of these systems has it.
const SECRET: &[u8; 16] = b"\xfeSECRET-OF-ONE\xff\xfd";

fn has_secret(bytes: &[u8]) -> bool {
    bytes.chunks_exact(16).any(|bytes| bytes == SECRET)
}

/// Office is restarted by its manager in the middle of direct reads of 64 KiB, and suspended before its new kernel clears anything by itself. Its pool
/// has what it reads while it reads, and nothing of it for the next instance, although the same back end is alive.
#[test]
fn a_restarted_front_finds_nothing_of_older_requests() {
    let back = "serve_disk; serve_card; until wget -q -O /dev/null http://10.1.0.2/cgi-bin/end 2>/dev/null; do sleep 0.2; done; sleep 5\n\
                bulkheadctl partition restart office; bulkheadctl partition suspend office; until_office_is suspended; say suspended\n\
                kill $server; mount -o remount,ro /disk; say served";
    let front = "until_told; while :; do dd if=/disk/secret of=/dev/null bs=64k iflag=direct 2>/dev/null; done";
    let disk = disk(back, front, &[("secret", &SECRET.repeat(1 << 16), false)]);
    let system = system(&disk);
    let mut running = system.start();
    let area = system.area(AreaKind::FrontPool(1));
    let found = running.wait_for("what is read is in the pool", bulkhead_system_tests::LIMIT, |view| {
        let mut copy = vec![0; usize::try_from(area.bytes).expect("it fits this host")];
        (view.ram.copy_at(area.address, &mut copy) && has_secret(&copy)).then_some(())
    });
    found.unwrap_or_else(|error| panic!("{error}"));
    running.line("linux", "linux: suspended");
    let office = running.status("office");
    assert_eq!((office.state, office.generation, office.faults), (STATE_SUSPENDED, 2, 0));
    assert!(!has_secret(&running.copy(area.address, area.bytes)), "bytes of an older request are in the pool");
    running.line("linux", "linux: served");
    running.wait_for_state("linux", STATE_OFF);
    assert_undisturbed(&running);
}

/// Times that a front's driver is taken from its disk and put to it again: with `BULKHEAD_CYCLES=1000` as often as issue and design ask for.
fn cycles() -> usize {
    std::env::var("BULKHEAD_CYCLES").map_or(50, |text| text.parse().expect("a number"))
}

/// Office's disk is unbound while it is read, 64 KiB at a time, and bound again. Each time its driver finds the disk that it had, and of what was under way
/// nothing is on the disk.
#[test]
fn unbinds_under_reads_leave_the_disk_as_it_was() {
    let cycles = cycles();
    let front = format!(
        r#"driver=/sys/bus/platform/drivers/virtio-mmio
device=$(echo $driver/*/virtio*/block)
device=$(basename "${{device%/virtio*/block}}")
read_some() {{ dd if=/dev/vda bs=64k count=4 iflag=direct 2>/dev/null | sha256sum; }}
is_read() {{ read -r reads writes </sys/block/vda/inflight && [ "$reads" != 0 ]; }}
wanted=$(read_some)
cycle=0
while [ $cycle -lt {cycles} ]; do
    dd if=/dev/vda of=/dev/null bs=64k iflag=direct 2>/tmp/read & reader=$!
    until is_read; do :; done
    echo "$device" >$driver/unbind
    wait $reader || :
    ! grep -q '^512+0 records in' /tmp/read || say "FAILED: all was read before"
    [ ! -e /dev/vda ] || say "FAILED: the disk is still there"
    echo "$device" >$driver/bind
    until [ -b /dev/vda ]; do usleep 1000; done
    [ "$(read_some)" = "$wanted" ] || say "FAILED: cycle $cycle reads other bytes"
    cycle=$((cycle + 1))
done
say "cycles $cycle"; say "done""#
    );
    let disk = disk("serve_disk; end", &front, &[("data", &page(), false)]);
    let before = disk.read("/office.img");
    let from_memory = [
        ("DISK", disk.path().display().to_string()),
        ("bulkhead.mount=/dev/vda:/disk bulkhead.run=sh,/disk/front.sh", FROM_MEMORY.to_owned()),
    ];
    let replacements: Vec<_> = from_memory.iter().map(|(old, new)| (*old, new.as_str())).collect();
    let system = System::changed("virtio-pair", &replacements);
    let mut running = system.start();
    running.line("office", &format!("linux: cycles {cycles}"));
    running.wait_for_state("office", STATE_OFF);
    let pool = system.area(AreaKind::FrontPool(1));
    let blocks = |bytes: &[u8]| {
        bytes
            .chunks(4096)
            .filter(|bytes| bytes.iter().any(|byte| *byte != 0))
            .map(<[u8]>::to_vec)
            .collect::<HashSet<_>>()
    };
    // A stock kernel does not clear a bounce buffer that it gives back: what it read stays in its own pool until another request takes the place.
    let left = blocks(&running.copy(pool.address, pool.bytes)).intersection(&blocks(&before)).count();
    println!("{left} pages of the disk are in the pool");
    let registers = running.counter("office", Counter::PciRegisters) - running.counter("office", Counter::DoorbellSent);
    assert_eq!(registers, SET_UP + cycles as u64 * CYCLE, "all of them were real");
    let office = finish(running, &disk);
    assert!(std::fs::read(office.path()).expect("the disk is there") == before, "a byte of the disk changed");
}

/// The disk gives its program away before it is taken away.
const FROM_MEMORY: &str =
    "bulkhead.mount=/dev/vda:/disk:ro bulkhead.run=cp,/disk/front.sh,/tmp;umount,/disk;sh,/tmp/front.sh";
