//! What the host sees of shared cores, on an image of the real planner and RAM without a machine.

use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::image::RamBank;
use bulkhead_abi::observe::{COUNTERS_MAGIC, CRASH_MAGIC, CRASH_PANIC, Counter, CounterPage, CrashRecord};
use bulkhead_abi::schedule::{ServerUsage, SlotUsage, USAGE_MAGIC, UsagePage};
use bulkhead_abi::status::{STATE_RESTARTING, STATE_RUNNING, StatusPage};
use bulkhead_plan::samples;
use bulkhead_run::command::{stats_json, stats_text};
use bulkhead_run::{CrashReport, ImagePlan, Observer, Phase, Ram, focus};
use std::mem::offset_of;
use std::sync::Arc;
use zerocopy::{FromZeros, IntoBytes};

const RAM_BYTES: u64 = 64 << 20;

fn observer() -> Observer {
    let image = bulkhead_image::assemble(&samples::shared_cores(), &samples::monitor()).expect("the sample fits");
    let plan = ImagePlan::from_bytes(&image.bytes).expect("the image is valid");
    let ram =
        Ram::create_in(&[std::env::temp_dir()], &[RamBank { start: PhysicalAddress(0x4000_0000), bytes: RAM_BYTES }])
            .expect("there is room");
    Observer::new(Arc::new(ram), Arc::new(plan))
}

fn counters_of(observer: &Observer, partition: usize, vcpu: usize) -> PhysicalAddress {
    observer.plan().header.partitions[partition].vcpu_counters[vcpu]
}

fn write_counters(observer: &Observer, partition: usize, vcpu: usize, exits: u64) {
    let mut page = CounterPage::new_zeroed();
    page.magic = COUNTERS_MAGIC;
    page.phase = 2;
    page.values[Counter::Exits as usize] = exits;
    observer.ram().write_at(counters_of(observer, partition, vcpu), page.as_bytes()).expect("in RAM");
}

#[test]
fn a_shared_core_has_several_vcpus_in_the_plan() {
    let observer = observer();
    let plan = observer.plan();
    let slots = |core: usize| plan.cores[core].vcpus.iter().map(|vcpu| vcpu.partition).collect::<Vec<_>>();
    assert_eq!((slots(0), slots(1), slots(2), slots(3)), (vec![0, 1, 2], vec![3, 4], vec![5, 6], vec![7]));
    assert_eq!((plan.cores_of(7), plan.cores_of(2)), (vec![3], vec![0]));
    assert_eq!(focus::ring(plan), [2, 4, 5], "of `first` and `second` on one core the first gets the input");
}

#[test]
fn counters_are_of_vcpus_and_add_up() {
    let observer = observer();
    assert_eq!(observer.vcpu_phase(1, 0), Phase::NotStarted);
    write_counters(&observer, 0, 0, 5);
    write_counters(&observer, 1, 0, 7);
    write_counters(&observer, 7, 0, 11);
    assert_eq!((observer.counter(0, Counter::Exits), observer.counter(3, Counter::Exits)), (12, 11));
    let of = |partition| observer.partition_counter(partition, Counter::Exits);
    assert_eq!((of(0), of(1), of(2), of(7)), (5, 7, 0, 11));
    assert_eq!((observer.vcpu_phase(1, 0), observer.vcpu_phase(2, 0)), (Phase::GuestEntered, Phase::NotStarted));
}

#[test]
fn a_crash_is_found_in_the_page_of_any_slot() {
    let observer = observer();
    assert!(CrashReport::find(&observer).is_none());
    let record = CrashRecord { magic: CRASH_MAGIC, kind: CRASH_PANIC, line: 7, ..CrashRecord::new_zeroed() };
    let page = counters_of(&observer, 1, 0);
    let address = PhysicalAddress(page.0 + offset_of!(CounterPage, crash) as u64);
    observer.ram().write_at(address, record.as_bytes()).expect("in RAM");
    let report = CrashReport::find(&observer).expect("it is found");
    assert_eq!((report.core, report.partition.as_str(), report.record.line), (0, "driver", 7));
}

/// A page of usage is of one update, whatever the monitor does meanwhile: here each word of an update is its number.
#[test]
fn usage_is_never_of_two_updates() {
    let observer = observer();
    let address = observer.plan().cores[0].schedule.expect("it is shared").usage;
    let write = |offset: usize, value: u64| {
        let place = PhysicalAddress(address.0 + offset as u64);
        observer.ram().write_at(place, &value.to_le_bytes()).expect("in RAM");
    };
    let words = [
        offset_of!(UsagePage, begun_ticks),
        offset_of!(UsagePage, idle_ticks),
        offset_of!(UsagePage, servers),
        offset_of!(UsagePage, slots),
        offset_of!(UsagePage, time_ticks),
    ];
    write(0, USAGE_MAGIC);
    let updates = 20_000;
    std::thread::scope(|scope| {
        // As the monitor does it: what says that it began first, the date last.
        let writer =
            scope.spawn(|| (1..=updates).for_each(|update| words.iter().for_each(|offset| write(*offset, update))));
        let mut last = 0;
        for is_last in std::iter::repeat_with(|| writer.is_finished()) {
            let page = observer.usage(0).expect("it is written");
            let seen = (page.idle_ticks, page.servers[0].budgeted_ticks, page.slots[0].wakes);
            assert_eq!(seen, (page.time_ticks, page.time_ticks, page.time_ticks), "idle, used and woken at one date");
            last = page.time_ticks;
            if is_last {
                break;
            }
        }
        assert_eq!(last, updates, "the last update was seen");
    });
    write(words[0], updates + 1);
    assert!(observer.usage(0).is_none(), "nothing is said of an update that does not end");
}

/// A running partition's status page is that of one start: here each start writes its number into the date of the start.
#[test]
fn a_status_page_is_never_of_two_starts() {
    let observer = observer();
    let address = observer.plan().header.partitions[0].status;
    let write = |offset: usize, value: &[u8]| {
        let place = PhysicalAddress(address.0 + offset as u64);
        observer.ram().write_at(place, value).expect("in RAM");
    };
    // Before its page of counters is there, nothing is said of a partition.
    write_counters(&observer, 0, 0, 0);
    let starts = 20_000u32;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for start in 1..=starts {
                write(offset_of!(StatusPage, state), &STATE_RESTARTING.to_le_bytes());
                write(offset_of!(StatusPage, generation), &start.to_le_bytes());
                write(offset_of!(StatusPage, started_ticks), &u64::from(start).to_le_bytes());
                write(offset_of!(StatusPage, state), &STATE_RUNNING.to_le_bytes());
            }
        });
        // The last look is after the last start.
        let mut last = StatusPage::default();
        for is_last in std::iter::repeat_with(|| writer.is_finished()) {
            let page = observer.status(0);
            if page.state == STATE_RUNNING {
                assert_eq!(u64::from(page.generation), page.started_ticks, "the start and its date");
                last = page;
            }
            if is_last {
                break;
            }
        }
        assert_eq!(last.generation, starts, "the last start was seen");
    });
}

/// QV-41, MZ-26: what each server has used and what was taken from others' turns, in time and not in ticks.
#[test]
fn stats_show_what_a_shared_core_gave_to_whom() {
    let observer = observer();
    assert!(observer.usage(0).is_none(), "its monitor has not started");
    assert!(!stats_text(&observer).contains("priority"));
    let mut page = UsagePage::new_zeroed();
    // 62.5 MHz: a tick has 16 ns.
    (page.magic, page.idle_ticks, page.switches, page.time_ticks) = (USAGE_MAGIC, 62_500, 42, 62_500_000);
    page.begun_ticks = page.time_ticks;
    page.servers[1] = ServerUsage {
        budgeted_ticks: 125_000,
        background_ticks: 0,
        starts: 3,
        exhaustions: 1,
        longest_overrun_ticks: 7,
    };
    page.servers[3] = ServerUsage {
        budgeted_ticks: 625,
        background_ticks: 6_250,
        starts: 2,
        exhaustions: 2,
        longest_overrun_ticks: 0,
    };
    page.slots[2] = SlotUsage {
        wakes: 9,
        longest_wait_ticks: 625,
        longest_blackout_ticks: 1_250,
        interrupts_held: 4,
        stolen_ticks: 1,
        interrupts_limited: 6,
    };
    let usage = observer.plan().cores[0].schedule.expect("it is shared").usage;
    observer.ram().write_at(usage, page.as_bytes()).expect("in RAM");
    let text = stats_text(&observer);
    let expected = "\n\
core 0, fixed-priority: idle 1.000 ms, 42 switches, as of 1.000 s
server  partition  priority        rule       gate   payer       used
0       control           0    sporadic  interrupt  itself       0 ns
1       control           1    sporadic     always  itself   2.000 ms
2       driver            1        pibs     always  itself       0 ns
3       other             9  deferrable     always  itself  10.000 us
4       other            20   unlimited  interrupt       1       0 ns

server  partition  background  starts  exhaustions  overrun
0       control          0 ns       0            0     0 ns
1       control          0 ns       3            1   112 ns
2       driver           0 ns       0            0     0 ns
3       other      100.000 us       2            2     0 ns
4       other            0 ns       0            0     0 ns

vCPU             wakes  longest wait  longest blackout  held  limited  stolen
control, vCPU 0      0          0 ns              0 ns     0        0    0 ns
driver, vCPU 0       0          0 ns              0 ns     0        0    0 ns
other, vCPU 0        9     10.000 us         20.000 us     4        6   16 ns
";
    assert!(text.contains(expected), "{text}");
    let json = stats_json(&observer);
    assert_eq!(json["shared_cores"].as_array().map(Vec::len), Some(1), "the others have not started");
    let core = &json["shared_cores"][0];
    assert_eq!((&core["schedule"], &core["idle_ns"]), (&"fixed-priority".into(), &1_000_000.into()));
    assert_eq!((&core["servers"][3]["background_ns"], &core["servers"][4]["payer"]), (&100_000.into(), &1.into()));
    assert_eq!(core["servers"][1]["longest_overrun_ns"], 112);
    assert_eq!((&core["vcpus"][2]["stolen_ns"], &core["vcpus"][2]["partition"]), (&16.into(), &"other".into()));
    assert_eq!(json["cores"].as_array().map(Vec::len), Some(8), "one entry for each vCPU");
}
