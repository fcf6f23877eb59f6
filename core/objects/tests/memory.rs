//! Regions, maps and quotas: one test per row of `memory` and per code, and `thread create`.

mod support;

use bulkhead_kernel_abi::call::{Call, CapabilityOperation, MemoryOperation, ThreadOperation};
use bulkhead_kernel_abi::capability::{memory_word, right};
use bulkhead_kernel_abi::image::{COMPONENT_STACKS, COMPONENT_TEXT};
use bulkhead_kernel_abi::{Capability, Code};
use bulkhead_objects::ThreadState;
use support::pool::*;
use support::state::Copy;
use support::*;

const MAP: u64 = MemoryOperation::Map.number();
const UNMAP: u64 = MemoryOperation::Unmap.number();
const PROTECT: u64 = MemoryOperation::Protect.number();
const SHARE: u64 = MemoryOperation::Share.number();
const CREATE: u64 = MemoryOperation::Create.number();
/// Where nothing is.
const HEAP: u64 = 0x1000_0000;
/// The slot of a process that was given `MEMORY`: behind that of its own quota.
const GIVEN: u64 = 2;

/// A process that has the region of the host, runs alone on server 0, and may make two regions, three threads and a process.
fn with_process(test: impl FnOnce(&mut Bench<'_>, u16)) {
    bench_of(&Rows::with_pool(), |b| {
        let child = process(b, &[0, QUOTA, SERVER, MEMORY, 1, EMPTY, share(24, 1, 3, 2)]);
        until(b, b.component(child).first_thread);
        b.world.log.clear();
        test(b, child);
        check_pool(b);
    });
}

/// Refused with this code, and all state is as it was.
fn refused(b: &mut Bench<'_>, call: Call, x: &[u64], code: Code) {
    let me = usize::from(b.objects.running().expect("runs"));
    let before = Copy::of(b);
    assert_eq!(b.call(call, x), code, "{} {x:?}", call.name());
    let mut after = Copy::of(b);
    after.threads[me].registers = before.threads[me].registers;
    assert!(before == after, "{} {x:?} was refused with {code:?} and changed something", call.name());
}

#[test]
fn map_puts_pages_where_none_are() {
    with_process(|b, child| {
        assert_eq!(b.call(Call::Memory, &[MAP, GIVEN, 1, HEAP, 2, R | W]), Code::Ok);
        assert_eq!(b.answers(b.objects.running().expect("runs")), [2]);
        // The capability is for the region's pages from 1 on.
        assert_eq!(mapped(b, child, HEAP), Some((HOST_REGION + 0x2000, R | W)));
        assert_eq!(mapped(b, child, HEAP + 0x1000), Some((HOST_REGION + 0x3000, R | W)));
        assert_eq!(mapped(b, child, HEAP + 0x2000), None);
        // It ends at the first page that cannot be mapped, and says how many are.
        assert_eq!(b.call(Call::Memory, &[MAP, GIVEN, 0, HEAP - 0x1000, 2, R]), Code::Ok);
        assert_eq!(b.answers(b.objects.running().expect("runs")), [1]);
        assert_eq!(mapped(b, child, HEAP - 0x1000), Some((HOST_REGION + 0x1000, R)));
    });
}

#[test]
fn map_refuses_and_changes_nothing() {
    with_process(|b, _| {
        let ok = [MAP, GIVEN, 0, HEAP, 1, R];
        let with = |at: usize, word: u64| {
            let mut x = ok;
            x[at] = word;
            x
        };
        for slot in [0, OWN_QUOTA, EMPTY, 64, u64::MAX] {
            refused(b, Call::Memory, &with(1, slot), Code::BadCapability);
        }
        let inside = [HEAP + 8, COMPONENT_TEXT - 0x1000, COMPONENT_STACKS, 0, 1 << 39, u64::MAX - 0xfff];
        for address in inside {
            refused(b, Call::Memory, &with(3, address), Code::BadArgument);
        }
        for (at, word) in
            [(2, 3), (2, u64::MAX), (4, 0), (4, 4), (4, u64::MAX), (5, 0), (5, W), (5, R | 1), (5, 1 << 8 | R)]
        {
            refused(b, Call::Memory, &with(at, word), Code::BadArgument);
        }
        refused(b, Call::Memory, &with(5, R | W | X), Code::Denied);
        refused(b, Call::Memory, &with(3, TEXT), Code::Busy);
        refused(b, Call::Memory, &[5, GIVEN], Code::BadCall);
        // No page is left for a table.
        assert_eq!(b.call(Call::Memory, &[CREATE, OWN_QUOTA, 15, 10]), Code::Ok);
        assert_eq!(b.call(Call::Memory, &[MAP, 10, 0, CONSTANTS + 0x10_0000, 15, R | W]), Code::Ok);
        refused(b, Call::Memory, &ok, Code::Full);
    });
    // A component of the host has its tables in the image.
    bench_of(&Rows::with_pool(), |b| {
        b.start(&[0]);
        b.pick(0);
        refused(b, Call::Memory, &[MAP, MEMORY, 0, HEAP, 1, R], Code::Denied);
        refused(b, Call::Memory, &[UNMAP, 0, HEAP, 1], Code::Denied);
    });
}

#[test]
fn rights_of_a_map_are_those_of_the_capability_at_most() {
    with_process(|b, _| {
        assert_eq!(b.call(Call::Memory, &[SHARE, GIVEN, 1, 1, R | 1, 10]), Code::Ok);
        let weak = capability_in(b, 10);
        assert_eq!((weak.rights, weak.word), (right::READ | right::USE, memory_word(2, 1)));
        refused(b, Call::Memory, &[MAP, 10, 0, HEAP, 1, R | W], Code::Denied);
        refused(b, Call::Memory, &[MAP, 10, 0, HEAP, 1, R | X], Code::Denied);
        refused(b, Call::Memory, &[MAP, 10, 1, HEAP, 1, R], Code::BadArgument);
        assert_eq!(b.call(Call::Memory, &[MAP, 10, 0, HEAP, 1, R]), Code::Ok);
        // A part of a part, by pages and by rights; never more.
        refused(b, Call::Memory, &[SHARE, 10, 0, 2, R, 11], Code::BadArgument);
        refused(b, Call::Memory, &[SHARE, 10, 0, 0, R, 11], Code::BadArgument);
        refused(b, Call::Memory, &[SHARE, 10, u64::MAX, 1, R, 11], Code::BadArgument);
        refused(b, Call::Memory, &[SHARE, 10, 0, 1, R, OWN_QUOTA], Code::Full);
        refused(b, Call::Memory, &[SHARE, 10, 0, 1, R, 0], Code::BadArgument);
        refused(b, Call::Memory, &[SHARE, 63, 0, 1, R, 11], Code::BadCapability);
        assert_eq!(b.call(Call::Memory, &[SHARE, 10, 0, 1, 0xff & !1, 11]), Code::Ok);
        assert_eq!(capability_in(b, 11).rights, right::READ);
        refused(b, Call::Memory, &[SHARE, 11, 0, 1, R, 12], Code::Denied);
        // Who may revoke makes all of them void; what is mapped stays mapped.
        assert_eq!(b.call(Call::Capability, &[CapabilityOperation::Revoke.number(), GIVEN]), Code::Ok);
        refused(b, Call::Memory, &[MAP, 11, 0, HEAP + 0x1000, 1, R], Code::BadCapability);
    });
}

/// A slot of the process that runs.
fn capability_in(b: &Bench<'_>, slot: u64) -> Capability {
    let running = b.objects.running().expect("runs");
    let first = b.component(b.thread(running).home).first_slot;
    b.objects.room().slots[first as usize + slot as usize]
}

#[test]
fn unmap_takes_pages_out_and_the_core_forgets_them() {
    with_process(|b, child| {
        assert_eq!(b.call(Call::Memory, &[MAP, GIVEN, 0, HEAP, 3, R | W]), Code::Ok);
        b.world.log.clear();
        assert_eq!(b.call(Call::Memory, &[UNMAP, GIVEN, HEAP, 2]), Code::Ok);
        let forgotten = |address| Log::Forgotten(child, address);
        assert_eq!(b.world.log, [Log::Broken, forgotten(HEAP), Log::Broken, forgotten(HEAP + 0x1000)]);
        assert_eq!((mapped(b, child, HEAP), mapped(b, child, HEAP + 0x1000)), (None, None));
        // What was done counts: one is there, the next is not.
        assert_eq!(b.call(Call::Memory, &[UNMAP, 0, HEAP + 0x2000, 2]), Code::Ok);
        assert_eq!(b.answers(b.objects.running().expect("runs")), [1]);
        for x in [[UNMAP, 0, HEAP, 1], [UNMAP, 0, HEAP, 0], [UNMAP, GIVEN, DATA, 1], [UNMAP, 0, 0x2000_0000, 1]] {
            refused(b, Call::Memory, &x, Code::BadArgument);
        }
        refused(b, Call::Memory, &[UNMAP, OWN_QUOTA, DATA, 1], Code::BadCapability);
        // A page of its own goes back to its quota.
        let quota = b.objects.room().processes[usize::from(child)].quota;
        let before = b.objects.room().quotas[usize::from(quota)];
        assert_eq!(b.call(Call::Memory, &[UNMAP, 0, DATA, 2]), Code::Ok);
        let after = b.objects.room().quotas[usize::from(quota)];
        assert_eq!((after.pages, after.taken), (before.pages + 2, before.taken - 2));
    });
}

#[test]
fn protect_drops_rights_by_break_before_make() {
    with_process(|b, child| {
        assert_eq!(b.call(Call::Memory, &[PROTECT, 0, DATA, 2, R]), Code::Ok);
        assert_eq!(b.world.log[..2], [Log::Broken, Log::Forgotten(child, DATA)]);
        assert_eq!(mapped(b, child, DATA).map(|(_, rights)| rights), Some(R));
        assert_eq!(seen(b, child, DATA), Some(IMAGE + 0x2_0000), "its contents stay");
        refused(b, Call::Memory, &[PROTECT, 0, DATA, 1, R | W], Code::Denied);
        refused(b, Call::Memory, &[PROTECT, 0, DATA, 1, R | X], Code::Denied);
        refused(b, Call::Memory, &[PROTECT, 0, TEXT, 1, R | W | X], Code::Denied);
        refused(b, Call::Memory, &[PROTECT, 0, DATA, 1, W], Code::BadArgument);
        refused(b, Call::Memory, &[PROTECT, 0, HEAP, 1, R], Code::BadArgument);
        refused(b, Call::Memory, &[PROTECT, EMPTY, DATA, 1, R], Code::BadCapability);
        assert_eq!(b.call(Call::Memory, &[PROTECT, 0, TEXT, 1, R]), Code::Ok);
        assert_eq!(mapped(b, child, TEXT), Some((IMAGE, R)));
    });
}

#[test]
fn a_region_has_pages_of_a_quota_when_they_are_mapped_first() {
    with_process(|b, child| {
        let quota = b.objects.room().processes[usize::from(child)].quota;
        let left = |b: &Bench<'_>| b.objects.room().quotas[usize::from(quota)].pages;
        for (x, code) in [
            ([CREATE, GIVEN, 1, 10], Code::BadCapability),
            ([CREATE, OWN_QUOTA, 0, 10], Code::BadArgument),
            ([CREATE, OWN_QUOTA, 513, 10], Code::BadArgument),
            ([CREATE, OWN_QUOTA, 1, 0], Code::BadArgument),
            ([CREATE, OWN_QUOTA, 1, 64], Code::BadArgument),
            ([CREATE, OWN_QUOTA, 1, GIVEN], Code::Full),
        ] {
            refused(b, Call::Memory, &x, code);
        }
        let before = left(b);
        assert_eq!(b.call(Call::Memory, &[CREATE, OWN_QUOTA, 512, 10]), Code::Ok);
        assert_eq!(left(b), before - 1, "the page that says which they are");
        assert_eq!(b.call(Call::Memory, &[MAP, 10, 3, HEAP, 2, R | W]), Code::Ok);
        assert_eq!(left(b), before - 1 - 3, "two pages and a table");
        assert_eq!(seen(b, child, HEAP), Some(0), "zeros");
        store(b, child, HEAP, 77);
        // It is the region's: mapped again it is the same page.
        assert_eq!(b.call(Call::Memory, &[UNMAP, 10, HEAP, 1]), Code::Ok);
        assert_eq!(b.call(Call::Memory, &[MAP, 10, 3, HEAP + 0x4000, 1, R]), Code::Ok);
        assert_eq!((seen(b, child, HEAP + 0x4000), left(b)), (Some(77), before - 4));
        refused(b, Call::Memory, &[MAP, 10, 0, HEAP + 0x5000, 1, R | X], Code::Denied);
        refused(b, Call::Memory, &[UNMAP, 10, DATA, 1], Code::BadArgument);
        assert_eq!(b.call(Call::Memory, &[CREATE, OWN_QUOTA, 1, 11]), Code::Ok);
        refused(b, Call::Memory, &[UNMAP, 11, HEAP + 0x4000, 1], Code::BadArgument);
        refused(b, Call::Memory, &[CREATE, OWN_QUOTA, 1, 12], Code::Full);
    });
}

#[test]
fn a_thread_is_made_from_the_components_own_quota() {
    with_process(|b, child| {
        // The process has no capability to a server; it is given one.
        let first = b.component(child).first_slot as usize;
        let create = ThreadOperation::Create.number();
        refused(b, Call::Thread, &[create, OWN_QUOTA, 20, TEXT, STACK, 10], Code::BadCapability);
        assert!(b.objects.room().slots[first + 20] == Capability::NULL);
    });
    bench_of(&Rows::with_pool(), |b| {
        b.start(&[0]);
        b.pick(0);
        let create = ThreadOperation::Create.number();
        let ok = [create, QUOTA, SERVER, 0x1234_0000, 0x5000_0000, EMPTY];
        let with = |at: usize, word: u64| {
            let mut x = ok;
            x[at] = word;
            x
        };
        refused(b, Call::Thread, &with(1, SERVER), Code::BadCapability);
        refused(b, Call::Thread, &with(2, QUOTA), Code::BadCapability);
        refused(b, Call::Thread, &with(5, QUOTA), Code::Full);
        refused(b, Call::Thread, &with(5, 0), Code::BadArgument);
        assert_eq!(b.call(Call::Thread, &ok), Code::Ok);
        let made = b.thread(8);
        assert_eq!((made.state, made.home, made.tcap, made.label), (ThreadState::Stopped, APP, 0, EMPTY));
        assert_eq!(b.call(Call::Thread, &[ThreadOperation::Start.number(), EMPTY, 5]), Code::Ok);
        let made = b.thread(8);
        assert_eq!((made.registers.pc, made.registers.sp, made.registers.x[0]), (0x1234_0000, 0x5000_0000, 5));
        assert!(made.is_awake());
        for slot in 1..4 {
            assert_eq!(b.call(Call::Thread, &with(5, EMPTY + slot)), Code::Ok);
        }
        assert_eq!(b.call(Call::Capability, &[CapabilityOperation::Delete.number(), 0, EMPTY + 3]), Code::Ok);
        refused(b, Call::Thread, &with(5, EMPTY + 3), Code::Full);
        check_pool(b);
        // Only what lasts as long as the thread pays for it.
        let mut rows = Rows::with_pool();
        rows.set_quota_of(SERVICE);
        bench_of(&rows, |b| {
            b.start(&[0]);
            b.pick(0);
            refused(b, Call::Thread, &ok, Code::Denied);
        });
    });
}

#[test]
fn a_page_goes_back_with_its_last_mapping_and_is_charged_above_until_then() {
    bench_of(&Rows::with_pool(), |b| {
        // A process makes a region, maps a page of it, and gives it to its maker, which gives it to another one.
        let child = process(b, &[0, QUOTA, SERVER, TABLE_APP, 1, EMPTY, share(24, 0, 0, 1)]);
        until(b, b.component(child).first_thread);
        assert_eq!(b.call(Call::Memory, &[CREATE, OWN_QUOTA, 1, 10]), Code::Ok);
        assert_eq!(b.call(Call::Memory, &[MAP, 10, 0, HEAP, 1, R | W]), Code::Ok);
        store(b, child, HEAP, 99);
        assert_eq!(b.call(Call::Capability, &[0, 0, 10, GIVEN, EMPTY + 2, R | W]), Code::Ok);
        let region = capability_in(b, 10).object;
        until(b, 0);
        let other = spawn(b, &[1, QUOTA, SERVER, EMPTY + 2, 1, EMPTY + 1, share(16, 0, 0, 0)]);
        until(b, b.component(other).first_thread);
        assert_eq!(b.call(Call::Memory, &[MAP, GIVEN, 0, HEAP, 1, R]), Code::Ok);
        assert_eq!(
            (seen(b, other, HEAP), mapped(b, other, HEAP)),
            (Some(99), mapped(b, child, HEAP).map(|(at, _)| (at, R)))
        );
        check_pool(b);
        // The maker ends; the page is there as long as it is mapped, charged to the quota of both.
        until(b, 0);
        let before = b.objects.room().quotas[0];
        assert_eq!(b.call(Call::Component, &[4, EMPTY]), Code::Ok);
        check_pool(b);
        assert!(!b.objects.room().regions[usize::from(region)].is_used);
        assert_eq!(seen(b, other, HEAP), Some(99));
        let after = b.objects.room().quotas[0];
        assert_eq!((after.pages, after.taken), (before.pages + 23, before.taken + 1));
        refused(b, Call::Memory, &[MAP, EMPTY + 2, 0, HEAP, 1, R], Code::BadCapability);
        // Who has it mapped last gives it back.
        assert_eq!(b.call(Call::Component, &[4, EMPTY + 1]), Code::Ok);
        let last = b.objects.room().quotas[0];
        assert_eq!((last.pages, last.taken), (POOL_PAGES, 0));
        check_pool(b);
    });
}
