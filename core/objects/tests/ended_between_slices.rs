//! A call that makes, forks or replaces a process, interrupted behind each of its slices, and what ends or begins again its caller, or who made that one, is interrupted behind each of its own: no matter who
//! continues first, every page and every object is somebody's all the time, and all of it comes back (QV-E6, CH-60).

mod support;

use bulkhead_kernel_abi::Code;
use bulkhead_kernel_abi::call::{Call, ComponentOperation};
use bulkhead_objects::{ComponentState, Outcome, Sliced, ThreadState};
use support::pool::*;
use support::*;

const SPAWN: u64 = ComponentOperation::Spawn.number();
const FORK: u64 = ComponentOperation::Fork.number();
const EXEC: u64 = ComponentOperation::Exec.number();
const DESTROY: u64 = ComponentOperation::Destroy.number();
const RESET: u64 = ComponentOperation::Reset.number();

/// Threads: of the application, and of a component that can end that one.
const MAKER: u16 = 0;
const ABOVE: u16 = 4;

/// Who is half made or half ended is somebody's: of a thread that comes back to its call, of a server that pays for the rest, or of an end that takes it with it.
fn nobody_is_forgotten(b: &Bench<'_>) {
    check_pool(b);
    let room = b.objects.room();
    let is_called = |number: usize| {
        let mut threads = room.threads.iter().filter(|thread| thread.state != ThreadState::Stopped);
        threads.any(|thread| {
            usize::from(thread.sliced.component) == number
                && thread.sliced.life == room.components[number].counters.life
        })
    };
    let is_paid = |number: usize| room.servers.iter().any(|position| position.work >> number & 1 == 1);
    // Who is destroyed takes along what was made from its quota, the deepest first.
    let is_taken_along = |number: usize| {
        let parent = |number: usize| {
            Some(usize::from(room.processes.get(number)?.parent)).filter(|one| *one < room.components.len())
        };
        core::iter::successors(parent(number), |one| parent(*one)).any(|one| {
            let above = &room.components[one];
            (above.state, above.then) == (ComponentState::Unwinding, ComponentState::Free)
        })
    };
    for (number, component) in room.components.iter().enumerate() {
        let is_somebodys = match component.state {
            ComponentState::Building => is_called(number) || is_taken_along(number),
            ComponentState::Unwinding => is_called(number) || is_paid(number) || is_taken_along(number),
            _ => true,
        };
        assert!(is_somebodys, "component {number} is {:?} and nobody's", component.state);
    }
}

/// What everybody does beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    /// Yields, also who was inside a call.
    Yield,
    /// Makes an interrupted call again.
    Continue,
    /// Yields, and who ends somebody does not come back to it.
    Abandon,
}

/// Lets threads run until this one does. Who is inside a call makes it again, as its text would; or everybody yields.
fn turn(b: &mut Bench<'_>, wanted: u16, others: Others) -> bool {
    for _ in 0..60 {
        b.world.now += SOON;
        b.objects.pass_date(&mut b.world);
        b.world.looks.set(0);
        let running = b.pick(0);
        nobody_is_forgotten(b);
        match running {
            Some(one) if one == wanted => return true,
            Some(one) => {
                let thread = *b.thread(one);
                let again = thread.registers.x;
                // A long look: who is first comes to its end.
                let outcome = match others == Others::Continue && thread.sliced != Sliced::NONE {
                    true => b.svc(Call::Component, &again[..8]),
                    false => b.svc(Call::Yield, &[]),
                };
                assert_eq!(outcome, Outcome::Done);
                nobody_is_forgotten(b);
            }
            None => {}
        }
    }
    false
}

/// A call of a thread, which is interrupted at the n-th look of each of its passages, while others have turns.
fn interrupted(b: &mut Bench<'_>, me: u16, x: &[u64], at: u32, others: Others) {
    for _ in 0..300 {
        // An `exec` continues as long as nobody of its own server has a turn, so who ends it has another server.
        let is_in_exec = b.objects.room().threads.iter().any(|thread| thread.is_in_exec);
        if is_in_exec && others != Others::Yield {
            b.objects.set_running(me);
        } else if !turn(b, me, others) {
            return;
        }
        b.world.looks.set(at);
        let outcome = b.svc(Call::Component, x);
        nobody_is_forgotten(b);
        if outcome == Outcome::Done {
            let code = Code::from_number(b.thread(me).registers.x[0]);
            // Who was ended or begun again by somebody else is not asked any more.
            assert!(matches!(code, Some(Code::Ok | Code::BadCapability | Code::Gone)), "{x:?}: {code:?}");
            return;
        }
        if others == Others::Abandon {
            assert_eq!(b.svc(Call::Yield, &[]), Outcome::Done);
            return nobody_is_forgotten(b);
        }
    }
    panic!("{x:?} never ends");
}

/// The calls, by who makes them: the application, or the process that it has made.
fn calls() -> [(bool, [u64; 8]); 5] {
    [
        (false, [SPAWN, 1, QUOTA, SERVER, SERVER, 4, EMPTY + 1, share(12, 0, 0, 0)]),
        (true, [SPAWN, 0, OWN_QUOTA, OWN_SERVER, 0, 0, 20, share(12, 0, 0, 0)]),
        (true, [FORK, OWN_QUOTA, OWN_SERVER, 20, share(12, 0, 0, 0), 0, 0, 0]),
        (true, [EXEC, 1, 42, 0, 0, 0, 0, 0]),
        (true, [EXEC, 0, 42, 0, 0, 0, 0, 0]),
    ]
}

/// One story: a call is interrupted at a look, and somebody ends or begins again its caller or the application.
fn story(call: (bool, [u64; 8]), (at, second): (u32, u32), (operation, is_above): (u64, bool), others: Others) {
    bench_of(&Rows::with_pool(), |b| {
        b.start(&[MAKER, ABOVE]);
        assert!(turn(b, MAKER, Others::Yield));
        assert_eq!(b.call(Call::Component, &USUAL), Code::Ok);
        let me = if call.0 { first_of(b, 5) } else { MAKER };
        assert!(turn(b, me, Others::Yield));
        b.world.looks.set(at);
        let _ = b.svc(Call::Component, &call.1);
        for _ in 1..at {
            // An `exec` is one slice for each choice.
            if b.thread(me).is_in_exec {
                b.world.looks.set(0);
                let _ = b.objects.choose(&mut b.world, 0);
            }
        }
        nobody_is_forgotten(b);
        let (actor, slot) = if is_above { (ABOVE, COMPONENT_APP) } else { (MAKER, EMPTY) };
        interrupted(b, actor, &[operation, slot], second, others);
        // What nobody comes back to is done by who pays for it.
        for _ in 0..400 {
            b.world.looks.set(second);
            let _ = b.objects.choose(&mut b.world, 0);
            nobody_is_forgotten(b);
        }
        while b.objects.work(&mut b.world) {}
        let is_app = |b: &Bench<'_>| b.component(APP).state;
        match (operation, is_above) {
            (DESTROY, true) => assert_eq!(is_app(b), ComponentState::Free),
            (_, true) => assert_eq!(is_app(b), ComponentState::Living),
            (DESTROY, false) => {
                assert!(!b.objects.room().processes[5].is_made || b.component(5).state == ComponentState::Living)
            }
            // Also in the middle of an `exec`: it begins as what it was to become.
            _ => assert_eq!(b.component(5).state, ComponentState::Living),
        }
        assert!(turn(b, ABOVE, Others::Yield));
        if is_app(b) != ComponentState::Free {
            assert_eq!(b.call(Call::Component, &[DESTROY, COMPONENT_APP]), Code::Ok);
        }
        while b.objects.work(&mut b.world) {}
        all_is_back(b);
    });
}

#[test]
fn who_is_ended_between_slices_leaves_nothing() {
    for call in calls() {
        for how in [(RESET, true), (DESTROY, true), (RESET, false), (DESTROY, false)] {
            // The application does not end itself here, but what it makes at the same time.
            if !call.0 && !how.1 {
                continue;
            }
            for at in 1..20 {
                for second in [0, 1, 2, 3, 5, 8] {
                    for others in [Others::Yield, Others::Continue, Others::Abandon] {
                        story(call, (at, second), how, others);
                    }
                }
            }
        }
    }
}
