//! The two ways of a send on the whole kernel: two instances with one history, of which one takes the fast path wherever that takes anything and the other one never.
//!
//! A send by the fast path is charged with the next entry. So both make a call in front of each send and behind it, by which all is charged and told, and then everything is the same:
//! objects, who runs, who was charged how much, and when the timer rings. Of the objects both ways are the short one where there is one; `core/objects/tests/waits.rs` compares that.

use super::*;

/// How a search sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Way {
    /// By the fast path, and not at all where that takes nothing.
    #[default]
    Fast,
    /// By the fast path, and by a call where that takes nothing.
    Short,
    /// By a call.
    Long,
}

impl Search {
    /// A send by the capability that the thread that runs has, by this search's way; what the fast path took. None while an interrupt waits, which would be taken before a call and
    /// behind the fast path.
    pub(crate) fn send(&mut self, end_point: u16) -> Option<Signal> {
        // Who runs is charged by that: a report by which a server has less left than it may be chosen with is none of a send.
        let _ = self.call(Call::Version, [0; 8], 0);
        let caller = self.running;
        let slot = SEND + u64::from(end_point);
        let objects = self.kernel.objects();
        let first =
            objects.room().components[usize::from(objects.room().threads[usize::from(caller)].component)].first_slot;
        let capability = objects.room().slots[first as usize + slot as usize];
        if self.kernel.machine().signalled().is_some() {
            return None;
        }
        // As the vectors leave it: of who sends, since somebody else may run behind it.
        let registers = self.kernel.registers().expect("it runs");
        registers.x[..19].fill(0);
        registers.pc += 4;
        let done = match self.way {
            Way::Long => Signal::All,
            _ => self.kernel.signal(capability.object, capability.grant, capability.word),
        };
        if done == Signal::All {
            self.kernel.registers().expect("it runs").pc -= 4;
            let _ = self.call(Call::Invoke, [0; 8], slot);
            return Some(done);
        }
        if done == Signal::Switch {
            let next = self.kernel.switch();
            self.take(next);
        }
        self.check();
        Some(done)
    }

    /// All that both ways have to leave the same.
    fn seen(&mut self) -> impl PartialEq + core::fmt::Debug + use<> {
        let running = self.running;
        let core = self.kernel.machine();
        let dates = (core.now_ticks, core.timer_ticks, core.periodic_ticks);
        let interrupts = (core.active.clone(), core.enabled.clone(), core.pending.clone());
        let room = self.kernel.objects().room();
        let (threads, end_points) = (room.threads.to_vec(), room.end_points.to_vec());
        let (servers, schedulers) = (room.servers.to_vec(), room.schedulers.to_vec());
        let (components, slots, bindings) = (room.components.to_vec(), room.slots.to_vec(), room.bindings.to_vec());
        let charged: Vec<_> =
            self.kernel.accounts().servers.iter().map(|one| (one.charged_ticks, one.background_ticks)).collect();
        (running, dates, interrupts, (threads, end_points, servers, schedulers), (components, slots, bindings), charged)
    }
}

/// Sends by who was the sender to who waited: none that the fast path takes, to nobody, to one of its own server, to a less important one, to a more important one.
const SENDERS: [&str; 5] = ["by a call", "to nobody", "to a peer", "to less", "to more"];

/// A send in both instances; which of [`SENDERS`] it was.
fn send(short: &mut Search, long: &mut Search, end_point: u16) -> usize {
    for search in [&mut *short, &mut *long] {
        let _ = search.call(Call::Version, [0; 8], 0);
    }
    let room = short.kernel.objects().room();
    let server = room.threads[usize::from(short.running)].server;
    let waiting = room.threads[usize::from(end_point)];
    let waits = waiting.state == ThreadState::Receiving && waiting.end_point == end_point && !waiting.is_suspended;
    let done = short.send(end_point);
    let _ = long.send(end_point);
    for search in [&mut *short, &mut *long] {
        let _ = search.call(Call::Version, [0; 8], 0);
    }
    assert!(short.seen() == long.seen(), "{done:?} by end point {end_point}:\n{:?}\n{:?}", short.seen(), long.seen());
    match done {
        None | Some(Signal::All) => 0,
        Some(Signal::Nothing) if !waits => 1,
        Some(Signal::Nothing) if waiting.waits_on == server => 2,
        Some(Signal::Nothing) => 3,
        Some(Signal::Switch) => 4,
    }
}

#[test]
fn both_ways_of_a_send_leave_the_same() {
    let mut counts = [0; SENDERS.len()];
    random::check_some("ways", DIVISOR, |random| {
        let (mut seen, mut others) = (Seen::default(), Seen::default());
        let mut same = random.clone();
        let mut short = Search::new(random);
        let mut long = Search::new(&mut same);
        (short.way, long.way) = (Way::Short, Way::Long);
        for search in [&mut short, &mut long] {
            // Two entries at one instant are at one instant.
            let core = search.kernel.machine();
            (core.acknowledging_ticks, core.looking_ticks, core.loading_ticks) = (0, 0, 0);
        }
        for _ in 0..STEPS {
            let (kind, end_point, ticks) = (random.below(10), random.below(END_POINTS as u64), random.below(30));
            match kind {
                0..=2 => counts[send(&mut short, &mut long, end_point as u16)] += 1,
                // Mostly the usual wait.
                3..=5 if short.running != IMMORTAL => {
                    for search in [&mut short, &mut long] {
                        let own = RECEIVE + u64::from(search.running);
                        let date = if ticks < 5 { search.now() + 100 } else { 0 };
                        let _ = search.call(Call::Receive, [own, 2, date, 0, 0, 0, 0, 0], 0);
                    }
                }
                // Who waits is another server's from here on.
                6 => {
                    for search in [&mut short, &mut long] {
                        let bind = [6, THREAD + end_point, SERVER + 1 + ticks % 4, 0, 0, 0, 0, 0];
                        let _ = search.call(Call::Thread, bind, 0);
                    }
                }
                7 => {
                    for search in [&mut short, &mut long] {
                        let until = search.now() + ticks;
                        search.spin(until);
                    }
                }
                _ => {
                    same = random.clone();
                    step(&mut short, random, &mut seen);
                    step(&mut long, &mut same, &mut others);
                }
            }
        }
    });
    println!("{:?}", SENDERS.iter().zip(counts).collect::<Vec<_>>());
    if !random::is_short() {
        assert!(counts.iter().all(|count| *count >= 50), "{counts:?}");
    }
}
