//! Stock Debian Linux with a disk, a network card, an NVMe controller and a source of random numbers of its own: Debian's own drivers reach each of
//! them, their DMA is translated by the SMMU, and none of it is refused.

use bulkhead_abi::status::STATE_OFF;
use bulkhead_description::Options;
use bulkhead_run::DiskTroubleKind;
use bulkhead_system_tests::disk::{Disk, Entry};
use bulkhead_system_tests::{Running, System};
use bulkhead_verify::{Expected, verify_bytes};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

/// What Linux does with its devices. The disk is read again from the device, not from memory.
const CHECK: &str = r#"
set -e
read_back() { echo 3 >/proc/sys/vm/drop_caches; sha256sum <"$1"; }
dd if=/dev/urandom of=/disk/written bs=1M count=16 2>/dev/null
wanted=$(sha256sum </disk/written)
sync
[ "$(read_back /disk/written)" = "$wanted" ]
echo "linux: disk read back"
mkdir /fast
mount -t ext4 /dev/nvme0n1 /fast
cp /disk/written /fast/written
sync
[ "$(read_back /fast/written)" = "$wanted" ]
dd if=/dev/nvme0n1 of=/dev/null bs=4k count=256 iflag=direct 2>/dev/null
echo "linux: NVMe read back"
[ "$(cat /sys/class/misc/hw_random/rng_current)" = virtio_rng.0 ]
[ "$(dd if=/dev/hwrng bs=64 count=1 2>/dev/null | wc -c)" = 64 ]
ping -c 3 10.0.2.2 | grep -q ' 0% packet loss'
echo "linux: sum ${wanted%% *}"
until [ -e /tmp/end ]; do sleep 0.1; done
umount /fast
mount -o remount,ro /disk
echo "linux: done"
"#;

/// A request to end: what the web server runs.
const END: &str = "#!/bin/sh\nprintf 'Content-type: text/plain\\r\\n\\r\\nends\\n'\n: >/tmp/end\n";

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    listener.local_addr().expect("it has an address").port()
}

/// The body of an answer to a request for a path.
fn fetch(port: u16, path: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the port leads to the guest");
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").expect("the guest takes a request");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("the guest answers");
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("an answer has a header");
    assert!(answer.starts_with(b"HTTP/1.") && answer[8..].starts_with(b" 200 "), "{:?}", &answer[..end]);
    answer.split_off(end + 4)
}

/// Eight MiB that no mistake of one page, sector or segment leaves as they are.
fn data() -> Vec<u8> {
    let mut word = 0x9e37_79b9_u32;
    let next = |_| {
        word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (word >> 24).to_le_bytes()[0]
    };
    (0..8 << 20).map(next).collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Nothing that its functions did was refused, and nothing failed.
fn assert_undisturbed(running: &Running) {
    running.assert_no_crash();
    let status = running.status("linux");
    assert_eq!((status.state, status.faults, status.generation), (STATE_OFF, 0, 1));
    assert_eq!((status.dma.events, status.dma.lost), (0, 0), "{:?}", status.dma);
    let texts = running.texts("linux");
    assert!(!texts.iter().any(|line| line.contains("FAILED")), "{texts:#?}");
}

/// The system with these disks, a port, and other changes.
fn system(disk: &Disk, fast: &Disk, port: u16, more: &[(&str, &str)]) -> System {
    let [disk, fast] = [disk, fast].map(|disk| disk.path().display().to_string());
    let port = port.to_string();
    let changes = [("DISK", &*disk), ("FAST", &*fast), ("PORT", &*port)];
    System::changed("linux-devices", &[&changes, more].concat())
}

/// QV-1, QV-10, QV-12, MZ-2: 16 MiB on ext4 of a virtio disk and of an NVMe controller, random numbers, ping, and 8 MiB over HTTP through a port of
/// the loopback. What Linux wrote is what the host finds in a whole file system.
#[test]
fn linux_uses_disk_card_and_nvme() {
    let data = data();
    let disk = Disk::with(
        "64M",
        &[("check.sh", CHECK.as_bytes(), false), ("www/data", &data, false), ("www/cgi-bin/end", END.as_bytes(), true)],
    );
    let fast = Disk::with("32M", &[]);
    let port = free_port();
    let system = system(&disk, &fast, port, &[]);
    let monitors = Options::from_environment(None).guests.expect("built guests").join("../monitor");
    let expected = Expected::read(Some(&monitors)).unwrap_or_else(|error| panic!("{error}"));
    let verdict = verify_bytes(&system.image, &expected);
    assert!(verdict.is_accepted(), "{:?}", verdict.findings);
    let mut running = system.start();
    let sum = running.line("linux", "linux: sum ");
    let fetched = fetch(port, "/data");
    assert_eq!(hexadecimal(&bulkhead_verify::hash(&fetched)), hexadecimal(&bulkhead_verify::hash(&data)));
    assert_eq!(fetch(port, "/cgi-bin/end"), b"ends\n");
    running.line("linux", "linux: done");
    running.wait_for_state("linux", STATE_OFF);
    assert_undisturbed(&running);
    drop(running.quit());
    for disk in [&disk, &fast] {
        disk.assert_whole();
        let written = disk.read("/written");
        assert_eq!(written.len(), 16 << 20);
        assert_eq!(hexadecimal(&bulkhead_verify::hash(&written)), sum["linux: sum ".len()..]);
    }
}

/// What is to be done after the hello of the description.
const WORDS: &str = "bulkhead.mount=/dev/vda:/disk bulkhead.httpd=/disk/www bulkhead.run=sh,/disk/check.sh";

/// QV-1, MZ-2: `root=/dev/vda` is what it is on any Linux. The first program of the disk runs, on the disk, and has the card.
#[test]
fn linux_switches_to_its_disk() {
    let busybox = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/linux/files/busybox"));
    let busybox = busybox.unwrap_or_else(|error| panic!("busybox: {error}; run `./x build`"));
    const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
echo "linux: root is $(mount | grep ' on / ')"
echo "linux: address is $(ip address show eth0 | grep -o '10.0.2.15/24')"
date >/written
mount -o remount,ro /
echo "linux: done"
poweroff -f
sleep 3600
"#;
    let files: &[Entry<'_>] = &[
        ("bin/busybox", &busybox, true),
        ("sbin/init", INIT.as_bytes(), true),
        ("dev/empty", b"", false),
        ("proc/empty", b"", false),
        ("sys/empty", b"", false),
    ];
    let (disk, fast) = (Disk::with("16M", files), Disk::with("1M", &[]));
    let mut running = system(&disk, &fast, free_port(), &[(WORDS, "root=/dev/vda")]).start();
    running.line("linux", "linux: root is /dev/vda on / type ext4 (rw");
    running.line("linux", "linux: address is 10.0.2.15/24");
    running.line("linux", "linux: done");
    running.wait_for_state("linux", STATE_OFF);
    assert_undisturbed(&running);
    drop(running.quit());
    disk.assert_whole();
    assert!(disk.read("/written").ends_with(b"\n"));
}

/// A run that is interrupted while Linux writes leaves a disk that e2fsck repairs without asking, with all that was synchronized, and that another
/// run has at once.
#[test]
fn a_disk_survives_an_interrupted_run() {
    const WRITE: &str = r#"
dd if=/disk/www/data of=/disk/synchronized bs=1M 2>/dev/null
sync
echo "linux: synchronized"
round=0
while :; do
    cat /disk/www/data /disk/www/data >/disk/round$((round % 4))
    round=$((round + 1))
    [ $round != 8 ] || echo "linux: round 8"
done
"#;
    let data = data();
    let (disk, fast) = (
        Disk::with("96M", &[("check.sh", WRITE.as_bytes(), false), ("www/data", &data, false)]),
        Disk::with("1M", &[]),
    );
    let system = system(&disk, &fast, free_port(), &[]);
    let mut running = system.start();
    running.line("linux", "linux: round 8");
    drop(running.quit());
    drop(running);
    assert!(disk.repair(), "a journal was to be replayed");
    disk.assert_whole();
    assert!(disk.read("/synchronized") == data);
    let mut running = system.start();
    running.line("linux", "linux: synchronized");
    assert_eq!(running.status("linux").dma.events, 0);
}

/// A host that cannot write what a guest wants fails that guest's request and says so; the machine, and everybody else in it, continues. The
/// host's failure is injected between QEMU and the file.
#[test]
fn a_full_host_fails_one_request_and_stops_nobody() {
    let (disk, fast) = (Disk::with("16M", &[]), Disk::with("1M", &[]));
    let words = "bulkhead.run=dd,if=/dev/zero,of=/dev/vda,bs=4k,count=1,oflag=direct||echo,linux:,refused";
    let system = system(&disk, &fast, free_port(), &[(WORDS, words)]);
    // QEMU, with a layer between disks and files in which every write fails as on a full host.
    const QEMU: &str = r#"#!/bin/sh
full=file.driver=blkdebug,file.inject-error.0.event=none,file.inject-error.0.iotype=write,file.inject-error.0.errno=28,file.image.driver=file
for argument; do
    shift
    set -- "$@" "$(echo "$argument" | sed "s/file.driver=file,file.filename/$full,file.image.filename/")"
done
exec "$QEMU" "$@"
"#;
    let mut running = system.start_with(|options| {
        let program = disk.path().with_file_name("qemu");
        let script = QEMU.replace("$QEMU", &options.qemu.display().to_string());
        // Another process writes it: a file that this one had open for writing, and that a test beside this one took along when it started
        // a program, could not be executed.
        let write = "printf %s \"$1\" >\"$0\" && chmod 700 \"$0\"";
        let written = Command::new("sh").args(["-c", write]).arg(&program).arg(script).status();
        assert!(written.expect("the shell runs").success());
        options.qemu = program;
    });
    running.line("linux", "linux: refused");
    running.wait_for_state("linux", STATE_OFF);
    assert_undisturbed(&running);
    let told: Vec<_> = running.disk_troubles().iter().map(|trouble| (&*trouble.function, &trouble.kind)).collect();
    assert_eq!(told, [("disk", &DiskTroubleKind::HostIsFull)]);
}
