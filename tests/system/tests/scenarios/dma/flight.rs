//! DMA in flight when its partition ends (H12 to H14): an NVMe controller and a virtio disk, slowed down so that a MiB is on its way for long, and an
//! `edu` that writes 100 ms after it was told to. A new instance finds its memory as its image has it until its own driver
//! uses the function; what stopped stays as it was.

use super::DiskFile;
use super::breaks::change;
use super::others::{BESIDE, disks, is_in_time, is_undisturbed, nothing_landed, victims};
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::devices::{DevicePlan, STEP_WAIT, Step};
use bulkhead_abi::hypercall::{CALL_PARTITION_RESTART, CALL_PARTITION_RESUME, CALL_PARTITION_SUSPEND, SUCCESS};
use bulkhead_abi::status::{STATE_OFF, STATE_RUNNING, STATE_STOPPED, STATE_SUSPENDED};
use bulkhead_plan::AreaKind;
use bulkhead_system_tests::{Remote, Running, System, remote};
use bulkhead_timing::cores::SCRIPT_STEP;
use serde_json::json;

/// Starts of the intruder; the last one finishes what it asked for.
pub(super) const STARTS: u32 = 4;
/// So slow that a MiB takes a third of a second of this host's time, which is longer than a restart.
const BYTES_PER_SECOND: u64 = 3 << 20;
const INTRUDER: u64 = 0;

/// What a start reads from each disk before it asks for a MiB.
const WARM_BYTES: u64 = 4 * 4096;

/// How long a new instance watches its memory, of the machine's time.
const WATCH_MS: u32 = 100;

/// The system whose intruder ends in this way.
pub(super) fn system(ending: &str, disk: &DiskFile, watch_ms: u32) -> System {
    let (victims, file) = (victims(200), disk.path());
    let rest = format!(
        r#"{victims}
[[partition]]
name = "manager"
cores = [3]
memory = "4 MiB"
image = {{ kind = "raw", file = "remote.bin", load = 0x4008_0000 }}
console = "none"
manages = true
manage_limit = {{ limit = 1000, per = "100 ms" }}
"#
    );
    let text = format!("{HEAD}{}{rest}", intruder(ending, &file, "", watch_ms));
    System::from_text_with_programs("flight", &text, &[("remote", &remote::program())])
}

const HEAD: &str = "version = 1\nname = \"flight\"\nboard = \"qemu-virt\"\nmemory = \"256 MiB\"\n";

fn intruder(ending: &str, file: &str, servers: &str, watch_ms: u32) -> String {
    let arguments =
        format!("attack=flight own={INTRUDER} starts={STARTS} ending={ending} ram=0x800000 watch_ms={watch_ms}");
    format!(
        r#"
[[partition]]
name = "intruder"
cores = [0]
memory = "8 MiB"
image = {{ kind = "elf", file = "guest:intruder.elf" }}
arguments = "{arguments}"
console = "pl011"
health = {{ on_fault = "restart", max = 20, within = "600 s", dma_poll = "10 ms" }}
{servers}
{}"#,
        disks(file)
    )
}

/// Starts it with slow disks.
pub(super) fn start(system: &System, shift: u8) -> Running {
    start_limited(system, shift, [BYTES_PER_SECOND, 0])
}

/// Starts it with disks that answer a start's first requests, one page in each block of its RAM, and nothing behind them until they are
/// [`release`]d.
pub(super) fn start_held(system: &System, shift: u8) -> Running {
    // A request is let through while those before it were not more than this; each second takes one byte off, so the next one waits for half an hour.
    start_limited(system, shift, [1, WARM_BYTES - 2048])
}

/// Lets the disks answer what was asked of them, and everything from here on.
pub(super) fn release(running: &mut Running) {
    limit(running, [0, 0]);
}

/// Starts it with disks that give at most so many bytes in a second of this host's time, and so many at once.
fn start_limited(system: &System, shift: u8, limits: [u64; 2]) -> Running {
    let mut running = system.start_with(|options| {
        options.icount_shift = Some(shift);
        options.paused = true;
    });
    limit(&mut running, limits);
    running.resume().unwrap_or_else(|error| panic!("{error}"));
    running
}

fn limit(running: &mut Running, [bps, bps_max]: [u64; 2]) {
    for device in ["pci-nvme", "pci-disk"] {
        let limits = json!({ "device": device, "bps": bps, "bps_max": bps_max, "bps_rd": 0, "bps_wr": 0, "iops": 0, "iops_rd": 0, "iops_wr": 0 });
        running.qmp().execute_with("block_set_io_throttle", limits).unwrap_or_else(|error| panic!("{error}"));
    }
}

fn finish(running: &mut Running, system: &System, starts: u32) {
    running.line("intruder", "targets tried");
    running.wait_for_state("intruder", STATE_OFF);
    let texts = running.texts("intruder");
    let clean = (1..=starts).map(|start| format!("intruder: start {start}, memory clean"));
    let found: Vec<_> =
        texts.iter().filter(|text| text.contains("memory") || text.contains("DIRTY")).cloned().collect();
    assert_eq!(found, clean.collect::<Vec<_>>());
    let warmed = texts.iter().filter(|text| text.ends_with("asked, warmed=true")).count();
    assert_eq!(warmed, starts as usize, "{texts:#?}");
    assert!(texts.contains(&format!("intruder: start {starts}, 2 disks, right=true")), "{texts:#?}");
    assert_eq!(running.status("intruder").generation, starts);
    let dma = running.status("intruder").dma;
    assert!(dma.events + dma.lost > 0, "what lies beside its RAM was refused: {dma:?}");
    nothing_landed(running, system, INTRUDER as usize);
}

fn finish_beside_victims(running: &mut Running, system: &System, starts: u32) {
    finish(running, system, starts);
    is_undisturbed(running, 200);
}

/// A fault and SYSTEM_RESET.
#[test]
fn nothing_of_an_instance_lands_in_its_successor() {
    let disk = DiskFile::create("flight");
    for ending in ["fault", "reset"] {
        let system = system(ending, &disk, WATCH_MS);
        let mut running = start(&system, 6);
        finish_beside_victims(&mut running, &system, STARTS);
    }
}

/// The same on a shared core, where scripts and scrubs are done in slices: the one beside it, which has the better priority, answers each
/// release in time.
#[test]
fn nothing_lands_in_a_successor_on_a_shared_core() {
    let disk = DiskFile::create("shared");
    let servers = "servers = [{ priority = 5, budget = \"6 ms\", period = \"10 ms\", minimum = \"140 us\" }]";
    let schedule = "[[schedule]]\ncore = 0\nkind = \"fixed-priority\"\n";
    let text = format!("{HEAD}{schedule}{}{BESIDE}", intruder("reset", &disk.path(), servers, WATCH_MS));
    let system = System::from_text("shared-flight", &text);
    let mut running = start(&system, 4);
    finish(&mut running, &system, STARTS);
    is_in_time(&mut running);
}

/// A manager's restart, and its suspend: a suspended partition is restarted, or continues.
#[test]
fn nothing_lands_after_a_manager_restarts_or_suspends() {
    let disk = DiskFile::create("managed");
    let system = system("nobody", &disk, WATCH_MS);
    let mut running = start(&system, 6);
    let mut manager = Remote::new(&mut running, "manager");
    let mut ask = |running: &mut Running, call: u64| assert_eq!(manager.call(running, call, INTRUDER)[0], SUCCESS);
    for start in 1..STARTS {
        running.line("intruder", &format!("start {start}, asked"));
        if start != 2 {
            ask(&mut running, CALL_PARTITION_SUSPEND);
            running.wait_for_state("intruder", STATE_SUSPENDED);
        }
        if start == 3 {
            ask(&mut running, CALL_PARTITION_RESUME);
            running.wait_for_state("intruder", STATE_RUNNING);
        }
        ask(&mut running, CALL_PARTITION_RESTART);
    }
    finish_beside_victims(&mut running, &system, STARTS);
}

/// An `edu` writes to the middle of its partition's RAM 100 ms after it was told to; its partition ends before.
fn late(ending: &str) -> (System, Running) {
    let text = format!(
        r#"
version = 1
name = "late"
board = "qemu-virt"
memory = "256 MiB"

[[partition]]
name = "intruder"
cores = [0]
memory = "2 MiB"
image = {{ kind = "elf", file = "guest:intruder.elf" }}
arguments = "attack=late ending={ending} ram=0x200000"
console = "pl011"
health = {{ on_fault = "stop", dma_poll = "10 ms" }}
{}
[[pci]]
name = "weapon"
model = "edu"
partition = "intruder"
"#,
        victims(200)
    );
    let system = System::from_text("late", &text);
    let running = system.start_exact(8);
    (system, running)
}

/// H13 without a reset: the write of an `edu` is lost, because mastering is off when its time has come. One whose partition still runs lands.
#[test]
fn a_late_write_does_not_reach_a_partition_that_stopped() {
    // A guest of the SDK that panics on a virtual bus switches itself off.
    let ends = [("fault", STATE_STOPPED), ("off", STATE_OFF), ("panic", STATE_OFF), ("reset", STATE_STOPPED)];
    for (ending, state) in ends.into_iter().chain([("nobody", STATE_RUNNING)]) {
        let (system, mut running) = late(ending);
        is_undisturbed(&mut running, 200);
        assert_eq!(running.status("intruder").state, state, "{ending}");
        let ram = system.area(AreaKind::Ram(0));
        let target = running.copy(PhysicalAddress(ram.address.0 + ram.bytes / 2), 2048);
        let expected = if state == STATE_RUNNING { 0xa5 } else { 0 };
        assert!(target.iter().all(|byte| *byte == expected), "{ending}: {:x?}", &target[..8]);
        nothing_landed(&running, &system, INTRUDER as usize);
    }
}

/// The row of the issue: what two functions add to a restart, from the fault to the guest's first instruction, in the same part of the monitor.
/// Once as it is, and once with the waits taken out of the image: QEMU's functions answer in the first read, and those of a board as late
/// as they like.
#[test]
fn a_restart_with_two_functions_costs_little_more() {
    let disk = DiskFile::create("row");
    let restart = |owner: &str, is_waiting: bool| {
        let file = disk.path();
        let functions = ["nvme", "virtio-blk"].map(|model| {
            format!("[[pci]]\nname = \"{model}\"\nmodel = \"{model}\"\npartition = \"{owner}\"\ndisk = {{ file = \"{file}\", read_only = true }}\n")
        });
        let text = format!(
            r#"{HEAD}
[[partition]]
name = "intruder"
cores = [0]
memory = "8 MiB"
image = {{ kind = "raw", file = "remote.bin", load = 0x4008_0000 }}
console = "pl011"
health = {{ on_fault = "restart", max = 20, within = "600 s" }}

[[partition]]
name = "beside"
cores = [1]
memory = "4 MiB"
image = {{ kind = "elf", file = "guest:hello.elf" }}
console = "pl011"

{}"#,
            functions.concat()
        );
        let mut system = System::from_text_with_programs("row", &text, &[("remote", &remote::program())]);
        if !is_waiting {
            change(&mut system, take_waits_out);
        }
        // One instruction takes 16 ns, which is one tick.
        let mut running = system.start_exact(4);
        // The clock is that of both cores: this one is off, and executes nothing.
        running.wait_for_state("beside", STATE_OFF);
        let mut guest = Remote::new(&mut running, "intruder");
        guest.load_and_fault(&running, 0);
        let again = running.wait_for_status("intruder", "its second start", |status| {
            status.state == STATE_RUNNING && status.generation == 2
        });
        running.assert_no_crash();
        again.restart_ticks
    };
    let (plain, whole, script) = (restart("beside", true), restart("intruder", true), restart("intruder", false));
    let bytes = 8 << 20;
    let more = script - plain;
    println!(
        "restart of {bytes} bytes: {plain} instructions; two functions: {more} more, with waits {}",
        whole - plain
    );
    assert!(script > plain && whole > script, "the script is executed, and has waits");
    assert!(more <= 2_000, "{plain} and {script}");
    // Seven waits, in which the analysis of a shared core has an upper bound for each read.
    assert!(whole - script <= 7 * SCRIPT_STEP, "{whole} and {script}");
    assert!(whole * 5 <= bytes, "{whole} instructions for {bytes} bytes");
}

fn take_waits_out(plan: &mut DevicePlan) {
    let is_wait = |step: &Step| step.operation == STEP_WAIT;
    let silence = plan.quiesce().iter().take(plan.silence_count as usize).filter(|step| is_wait(step)).count();
    let steps: Vec<Step> = plan.quiesce().iter().copied().filter(|step| !is_wait(step)).collect();
    plan.silence_count -= u32::try_from(silence).expect("few");
    plan.step_count = u32::try_from(steps.len()).expect("few");
    plan.quiesce.fill(Step::default());
    plan.quiesce.iter_mut().zip(steps).for_each(|(place, step)| *place = step);
}
