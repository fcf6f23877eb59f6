//! Capabilities, calls by thread migration, and the small calls: one test per row and code.

mod support;

use bulkhead_kernel_abi::call::{Call, CapabilityOperation};
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::{Capability, Code, Kind, NONE};
use bulkhead_objects::{Outcome, ThreadState};
use support::*;

/// Codes as they are in x8.
fn code(code: Code) -> u64 {
    code.number()
}

#[test]
fn a_call_migrates_the_thread_and_return_brings_it_back() {
    // CH-8: same thread, same server, same time; the caller's place is in the kernel alone.
    bench(|b| {
        b.start(&[0]);
        assert_eq!(b.pick(0), Some(0));
        let registers = b.objects.registers().expect("runs");
        for (number, register) in (0..).zip(&mut registers.x) {
            *register = 0xa000 + number;
        }
        (registers.tpidr, registers.pstate) = (0x77, 0xf000_0000);
        let before = *b.thread(0);
        assert_eq!(b.invoke(CALL_SERVICE), 0x1234, "the token");
        let inside = *b.thread(0);
        // Entry 1 of component 1, its first stack.
        assert_eq!((inside.component, inside.stack, inside.depth), (SERVICE, 0, 1));
        assert_eq!((inside.registers.pc, inside.registers.sp), (0x40_0300, 0x80_4000));
        assert_eq!((inside.registers.tpidr, inside.registers.pstate), (0, 0));
        assert_eq!(inside.registers.x[..8], before.registers.x[..8], "arguments");
        assert_eq!(inside.registers.x[9..19], [0; 10], "nothing of the caller's scratch registers");
        assert_eq!(inside.registers.x[19..], before.registers.x[19..], "pass through");
        assert_eq!((inside.runs_on, inside.server), (before.runs_on, before.server));
        assert_eq!(b.component(SERVICE).free_stacks, 0b10);
        assert_eq!(b.objects.loaded(), Some((SERVICE, 0x2_0000_4000_1000)));
        let registers = b.objects.registers().expect("runs");
        registers.x[9..19].fill(0x5ec3e7);
        registers.x[0] = 42;
        registers.pstate = 1 << 31;
        assert_eq!(b.svc(Call::Return, &[]), Outcome::Done);
        let back = *b.thread(0);
        assert_eq!((back.component, back.stack, back.depth, back.life), (APP, NONE, 0, before.life));
        assert_eq!((back.registers.pc, back.registers.sp, back.registers.tpidr), (0x1004, 0x10_0000, 0x77));
        assert_eq!((back.registers.x[0], back.registers.x[8], back.registers.pstate), (42, code(Code::Ok), 0));
        assert_eq!(back.registers.x[9..19], [0; 10], "nothing of the callee's");
        assert_eq!(b.component(SERVICE).free_stacks, 0b11);
    });
}

#[test]
fn invoke_refuses_and_changes_nothing() {
    bench(|b| {
        b.start(&[0, 1]);
        assert_eq!(b.pick(0), Some(0));
        // CH-61: without a capability that can be used there is nothing to call.
        for slot in
            [0, EMPTY, u64::from(SLOTS), u64::MAX, u64::MAX - 3, SCHEDULER, THREAD, COMPONENT_SERVICE, CALL_NOWHERE]
        {
            let before = b.thread(0).registers;
            assert_eq!(b.invoke(slot), code(Code::BadCapability), "{slot}");
            assert_eq!(b.thread(0).registers.x[9..19], [0; 10], "a refusal clears them as well");
            assert_eq!(b.thread(0).registers.x[19..], before.x[19..]);
        }
        assert_eq!(b.invoke(WEAK_CALL), code(Code::Denied));
        b.world.usable[0] = 19;
        assert_eq!(b.invoke(CALL_SERVICE), code(Code::NoTime), "`needs` is 20");
        assert_eq!(b.component(SERVICE).free_stacks, 0b11);
        b.world.usable[0] = 20;
        assert_eq!(b.invoke(CALL_SERVICE), 0x1234);
        assert_eq!(b.invoke(CALL_SERVICE), 0x1234, "recursion takes another stack");
        assert_eq!(b.invoke(CALL_SERVICE), code(Code::NoStack));
        assert_eq!(b.thread(0).depth, 2);
        assert_eq!(b.component(SERVICE).free_stacks, 0);
    });
}

#[test]
fn the_ninth_call_is_too_deep() {
    let mut rows = Rows::new();
    for component in &mut rows.components {
        component.stacks = 10;
    }
    bench_of(&rows, |b| {
        b.start(&[0]);
        b.pick(0);
        for _ in 0..8 {
            assert_eq!(b.invoke(CALL_RT), 0x77);
        }
        let before = *b.thread(0);
        assert_eq!(b.invoke(CALL_RT), code(Code::TooDeep));
        assert_eq!((b.thread(0).depth, b.thread(0).frames), (8, before.frames));
        for depth in (0..8).rev() {
            assert_eq!(b.svc(Call::Return, &[]), Outcome::Done);
            assert_eq!(b.thread(0).depth, depth);
        }
        assert_eq!((b.thread(0).component, b.component(RT).free_stacks), (APP, 0b11_1111_1111));
    });
}

#[test]
fn a_send_and_a_call_look_alike_to_the_caller() {
    // CH-6: the slot may hold either; what comes back has the same registers.
    bench(|b| {
        b.start(&[0]);
        b.pick(0);
        b.objects.registers().expect("runs").x = [0xff; 31];
        assert_eq!(b.invoke(SEND_SUPERVISOR), code(Code::Ok));
        let sent = b.thread(0).registers;
        assert_eq!(b.objects.room().end_points[1].bits, 2);
        b.objects.registers().expect("runs").x = [0xff; 31];
        b.invoke(CALL_SERVICE);
        assert_eq!(b.svc(Call::Return, &[0; 8]), Outcome::Done);
        assert_eq!(b.thread(0).registers.x, sent.x);
        b.objects.registers().expect("runs").x = [0xff; 31];
        assert_eq!(b.invoke(REMOTE), code(Code::Ok));
        assert_eq!(b.thread(0).registers.x, sent.x);
        assert_eq!(b.world.wire, [(0, 5, 0x60)]);
        b.world.is_full = true;
        assert_eq!(b.invoke(REMOTE), code(Code::Busy));
    });
}

#[test]
fn return_from_the_home_component_ends_the_thread() {
    bench(|b| {
        b.start(&[0, 1]);
        b.pick(0);
        assert_eq!(b.svc(Call::Return, &[9]), Outcome::Done);
        assert_eq!((b.thread(0).state, b.objects.running()), (ThreadState::Stopped, None));
        assert_eq!(b.pick(0), Some(1), "the next in the FIFO");
        assert_eq!(b.svc(Call::Return, &[]), Outcome::Done);
        assert_eq!((b.pick(0), b.world.filled[0]), (None, None));
    });
}

#[test]
fn version_is_the_null_call_and_print_takes_seven_registers() {
    bench(|b| {
        b.start(&[0]);
        b.pick(0);
        assert_eq!(b.call(Call::Version, &[]), Code::Ok);
        assert_eq!(b.answers(0), [u64::from(bulkhead_kernel_abi::KERNEL_ABI_VERSION), 0xb1d, 62_500_000]);
        let text = u64::from_le_bytes(*b"bulkhead");
        assert_eq!(b.call(Call::Print, &[11, text, u64::from_le_bytes(*b" is more")]), Code::Ok);
        assert_eq!(b.world.printed, b"bulkhead is");
        assert_eq!(b.call(Call::Print, &[56, text, text, text, text, text, text, text]), Code::Ok);
        assert_eq!(b.world.printed.len(), 11 + 56);
        assert_eq!(b.call(Call::Print, &[57]), Code::BadArgument);
        assert_eq!(b.call(Call::Print, &[u64::MAX]), Code::BadArgument);
        b.world.is_full = true;
        assert_eq!(b.call(Call::Print, &[1]), Code::Busy);
        assert_eq!(b.world.printed.len(), 11 + 56);
    });
}

#[test]
fn a_number_without_a_row_is_no_call() {
    bench(|b| {
        b.start(&[0]);
        b.pick(0);
        for number in 16..300u16 {
            assert_eq!(b.objects.call(&mut b.world, number), Outcome::Done);
            assert_eq!(b.thread(0).registers.x[0], code(Code::BadCall));
        }
        // Operations beyond the table's.
        let of_several =
            [Call::Tcap, Call::Interrupt, Call::Thread, Call::Server, Call::Memory, Call::Capability, Call::Component];
        for call in of_several {
            for operation in [11, u64::MAX] {
                assert_eq!(b.call(call, &[operation, THREAD]), Code::BadCall, "{}", call.name());
            }
        }
    });
}

/// `capability` of the thread that runs.
fn moves(b: &mut Bench<'_>, operation: CapabilityOperation, x: &[u64]) -> Code {
    let mut all = vec![operation.number()];
    all.extend(x);
    b.call(Call::Capability, &all)
}

fn slot(b: &Bench<'_>, component: u16, slot: u64) -> Capability {
    b.objects.room().slots[(u32::from(component) * SLOTS) as usize + slot as usize]
}

#[test]
fn a_copy_never_grants_more_than_its_source() {
    use CapabilityOperation::Copy;
    bench(|b| {
        b.start(&[0]);
        b.pick(0);
        assert_eq!(moves(b, Copy, &[0, CALL_SERVICE, 0, EMPTY, u64::from(right::USE)]), Code::Ok);
        let (source, copy) = (slot(b, APP, CALL_SERVICE), slot(b, APP, EMPTY));
        assert_eq!(copy, Capability { rights: right::USE, ..source });
        assert_eq!(moves(b, Copy, &[0, EMPTY, 0, EMPTY + 1, u64::MAX]), Code::Ok);
        assert_eq!(slot(b, APP, EMPTY + 1).rights, right::USE, "what was dropped does not come back");
        // Into another component's table, by a capability to it.
        assert_eq!(moves(b, Copy, &[0, CALL_RT, TABLE_SERVICE, EMPTY, u64::MAX]), Code::Ok);
        assert_eq!(slot(b, SERVICE, EMPTY), slot(b, APP, CALL_RT));
        assert_eq!(moves(b, Copy, &[0, CALL_RT, TABLE_SERVICE, EMPTY, u64::MAX]), Code::Full);
        assert_eq!(moves(b, Copy, &[0, CALL_RT, 0, 0, u64::MAX]), Code::BadArgument, "slot 0 is null for ever");
        assert_eq!(moves(b, Copy, &[0, CALL_RT, 0, u64::from(SLOTS), u64::MAX]), Code::BadArgument);
        assert_eq!(moves(b, Copy, &[0, EMPTY + 2, 0, EMPTY + 3, u64::MAX]), Code::BadCapability);
        assert_eq!(moves(b, Copy, &[SCHEDULER, CALL_RT, 0, EMPTY + 2, u64::MAX]), Code::BadCapability, "no table");
        // A table to be read only.
        assert_eq!(moves(b, Copy, &[0, TABLE_SERVICE, 0, EMPTY + 2, u64::from(right::READ)]), Code::Ok);
        assert_eq!(moves(b, Copy, &[0, CALL_RT, EMPTY + 2, EMPTY + 1, u64::MAX]), Code::Denied);
        assert_eq!(moves(b, Copy, &[EMPTY + 2, CALL_RT, 0, EMPTY + 3, u64::MAX]), Code::Ok);
    });
}

#[test]
fn move_delete_and_read_act_on_one_slot() {
    use CapabilityOperation::{Delete, Move, Read};
    bench(|b| {
        b.start(&[0]);
        b.pick(0);
        let source = slot(b, APP, CALL_SERVICE);
        assert_eq!(moves(b, Move, &[0, CALL_SERVICE, TABLE_SERVICE, EMPTY]), Code::Ok);
        assert_eq!((slot(b, APP, CALL_SERVICE), slot(b, SERVICE, EMPTY)), (Capability::NULL, source));
        assert_eq!(moves(b, Move, &[0, CALL_SERVICE, 0, EMPTY]), Code::BadCapability);
        assert_eq!(moves(b, Move, &[0, CALL_RT, 0, CALL_RT]), Code::Full);
        assert_eq!(moves(b, Move, &[0, CALL_RT, 0, 0]), Code::BadArgument);
        assert_eq!(moves(b, Read, &[TABLE_SERVICE, EMPTY]), Code::Ok);
        assert_eq!(b.answers(0), [u64::from(Kind::Call.number()), u64::from(Kind::Call.rights()), 0]);
        assert_eq!(moves(b, Read, &[0, 0]), Code::Ok);
        assert_eq!(b.answers(0), [0; 3]);
        assert_eq!(moves(b, Read, &[0, u64::from(SLOTS)]), Code::BadArgument);
        assert_eq!(moves(b, Read, &[CALL_RT, 0]), Code::BadCapability);
        assert_eq!(moves(b, Delete, &[TABLE_SERVICE, EMPTY]), Code::Ok);
        assert_eq!(slot(b, SERVICE, EMPTY), Capability::NULL);
        assert_eq!(moves(b, Delete, &[TABLE_SERVICE, EMPTY]), Code::BadCapability);
        assert_eq!(moves(b, Delete, &[0, u64::MAX]), Code::BadArgument);
        assert_eq!(
            moves(b, CapabilityOperation::Copy, &[0, TABLE_SERVICE, 0, EMPTY, u64::from(right::WRITE)]),
            Code::Ok
        );
        assert_eq!(moves(b, Read, &[EMPTY, 1]), Code::Denied);
        assert_eq!(moves(b, Move, &[EMPTY, 1, 0, EMPTY + 1]), Code::Denied);
        assert_eq!(
            moves(b, CapabilityOperation::Copy, &[0, TABLE_SERVICE, 0, EMPTY + 1, u64::from(right::READ)]),
            Code::Ok
        );
        assert_eq!(moves(b, Delete, &[EMPTY + 1, 1]), Code::Denied);
    });
}

#[test]
fn revocation_makes_all_others_void_at_once() {
    use CapabilityOperation::{Read, Revoke};
    bench(|b| {
        b.start(&[0, 4]);
        b.pick(0);
        assert_eq!(moves(b, Revoke, &[EMPTY]), Code::BadCapability);
        assert_eq!(moves(b, Revoke, &[WEAK_CALL]), Code::Denied);
        assert_eq!(moves(b, Revoke, &[CALL_SERVICE]), Code::Ok);
        assert_eq!(slot(b, APP, CALL_SERVICE).grant, 2);
        // Its own stays valid, those of the same table and of others do not.
        assert_eq!(b.invoke(CALL_SERVICE), 0x1234);
        for slot in [CALL_SERVICE, WEAK_CALL] {
            assert_eq!(b.invoke(slot), code(Code::BadCapability));
        }
        assert_eq!(moves(b, Read, &[0, CALL_SERVICE]), Code::Ok);
        assert_eq!(b.answers::<3>(0)[2], 1, "void");
        assert_eq!(b.call(Call::Component, &[7, COMPONENT_SERVICE]), Code::BadCapability);
    });
}
