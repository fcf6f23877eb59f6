//! A less important client gives time to a more important server, in all phases: what the server does then is done on the client's budget and at its level, and no hoarding adds to what the
//! client may use (CH-22, CH-23, TCAP-02).
//!
//! One kernel makes all histories one after the other, with a rest between them after which every budget is whole. A history is: who is between client and server works in each of its
//! periods; the client gives twice, keeps back what it gave, and tells the server later with a third gift. When each of these happens, how much is given and how much work it is, is
//! every combination. Nothing here knows how a claim works: the envelope is that of `real-time.md`, and everything else is who runs.

use bulkhead_kernel_abi::call::{Call, Flag};
use bulkhead_kernel_abi::{Code, NONE};
use shares::{NOTIFY, RECEIVE, Rows, SEND, TCAP, Test, claim, sporadic};

#[path = "support/shares.rs"]
mod shares;
mod support;

/// Threads, and their servers: the most important one serves, the least important one is its client.
const SERVES: u16 = 0;
const BETWEEN: u16 = 1;
const CLIENT: u16 = 2;
/// The client's claim, and that of the end point.
const GIVES: u64 = TCAP + 2;
const GIVEN: u64 = TCAP + 3;
/// What a client may use in each window of a period, with the anchor `dispatch`.
const BUDGET: u64 = 2;
const PERIOD: u64 = 6;
/// Who is between them has a job of a tick in each of these.
const BETWEEN_PERIOD: u64 = 4;
/// What the server has to do: more than it can be given.
const WORK: u64 = 3 * BUDGET;
/// How long a history is watched, and when the next one begins.
const WATCHED: u64 = 28;
const NEXT: u64 = 48;

fn envelope(ticks: u64) -> u64 {
    ticks / PERIOD * BUDGET + BUDGET.min(ticks % PERIOD)
}

/// One of all.
#[derive(Clone, Copy, Debug)]
struct History {
    /// When the first job between them comes.
    phase: u64,
    /// When the client gives, each counted from the one before.
    after: [u64; 3],
    /// How much; 0 is all that it can use.
    amounts: [u64; 2],
    /// The client computes meanwhile, and does not sleep.
    is_busy: bool,
}

fn all() -> impl Iterator<Item = History> {
    let product = |first: u64, second: u64| (0..first).flat_map(move |one| (0..second).map(move |two| (one, two)));
    // Every budget is whole before: when the first gift comes counts beside the jobs between alone.
    product(BETWEEN_PERIOD, PERIOD).flat_map(move |(phase, second)| {
        product(PERIOD + 1, 4 * 2).map(move |(third, how)| History {
            phase,
            after: [BETWEEN_PERIOD, 1 + second, third],
            amounts: [how & 1, how >> 1 & 1],
            is_busy: how & 4 != 0,
        })
    })
}

/// How often histories came to what they are about.
#[derive(Debug, Default)]
struct Seen {
    histories: u64,
    /// The server worked; what it had to do was not done because its time had ended.
    worked: u64,
    ran_dry: u64,
    /// Time that was kept back had expired before it was used.
    expired: u64,
    /// Most that the server had in hand.
    most: u64,
}

/// One history as it goes.
struct Run<'a> {
    test: &'a mut Test,
    history: History,
    base: u64,
    /// When the client gives next, and which.
    gives_at: u64,
    gift: usize,
    /// What the server's claim has left, and until when, as the kernel said behind the latest gift.
    left: u64,
    expires: u64,
    /// What is still to be done.
    work: u64,
    job_at: u64,
    job: u64,
    /// Instants at which the client's server was used, and those at which the server worked.
    used: Vec<u64>,
    worked: u64,
}

impl Run<'_> {
    fn server_of(&self, thread: u16) -> u16 {
        self.test.kernel.objects().room().threads[usize::from(thread)].server
    }

    fn sleep(&mut self, until: u64) {
        self.test.call(Call::Receive, &[0, 0, until]);
    }

    /// The client gives, and looks what the server can use by it.
    fn give(&mut self, seen: &mut Seen) {
        let (amount, flags) = match self.history.amounts.get(self.gift) {
            Some(amount) => (*amount, 0),
            None => (1, NOTIFY),
        };
        let code = self.test.call(Call::Delegate, &[SEND, GIVES, amount, 0, flags]);
        assert!(matches!(code, Code::Ok | Code::NoTime), "{code:?}: {:?}", self.history);
        if self.gift == 2 && code == Code::Ok {
            self.work = WORK;
        }
        (self.gift, self.gives_at) = (self.gift + 1, u64::MAX);
        if let Some(after) = self.history.after.get(self.gift) {
            self.gives_at = self.test.now() + after;
        }
        let before = self.left;
        // Who gave everything waits, and somebody else looks: all have the same table.
        let looks = self.test.running.expect("somebody runs");
        assert_eq!(self.test.call(Call::Tcap, &[4, GIVEN]), Code::Ok);
        (self.left, self.expires) = (self.test.x(looks, 1), self.test.x(looks, 2));
        seen.most = seen.most.max(self.left);
        seen.expired += u64::from(before > self.left && self.worked == 0);
    }

    /// What who runs does at this instant; false when it changed who runs.
    fn act(&mut self, seen: &mut Seen) -> bool {
        let now = self.test.now();
        match self.test.running.expect("somebody runs") {
            SERVES if self.work == 0 || self.server_of(SERVES) == SERVES => {
                seen.ran_dry += u64::from(self.work != 0);
                self.work = 0;
                self.test.call(Call::Receive, &[RECEIVE, Flag::All.number(), 0]);
            }
            BETWEEN if self.job == 0 && now >= self.job_at => {
                let next = self.job_at + BETWEEN_PERIOD;
                (self.job, self.job_at) = (1, if next < self.base + WATCHED { next } else { self.next() });
            }
            BETWEEN if self.job == 0 => self.sleep(self.job_at),
            CLIENT if now >= self.gives_at => self.give(seen),
            CLIENT if self.gives_at == u64::MAX => {
                let next = self.next();
                self.sleep(next);
            }
            CLIENT if !self.history.is_busy => self.sleep(self.gives_at),
            _ => return true,
        }
        false
    }

    fn next(&self) -> u64 {
        self.base + NEXT
    }

    fn go(&mut self, seen: &mut Seen) {
        let end = self.next();
        while self.test.now() < end {
            if !self.act(seen) {
                continue;
            }
            let (now, running) = (self.test.now(), self.test.running.expect("somebody runs"));
            let payer = self.server_of(running);
            let has_job = self.job != 0 || now >= self.job_at;
            assert_eq!(
                running == BETWEEN,
                has_job,
                "who is between them waits for nobody; at {now}: {:?}",
                self.history
            );
            self.job -= u64::from(running == BETWEEN);
            if running == SERVES {
                assert_eq!(payer, CLIENT, "on whose budget; at {now}: {:?}", self.history);
                assert!(
                    self.worked < self.left && now < self.expires,
                    "what it was given; at {now}: {:?}",
                    self.history
                );
                self.work -= 1;
                self.worked += 1;
            }
            if payer == CLIENT {
                self.used.push(now);
            }
            self.test.spin(now + 1);
        }
        for (place, from) in self.used.iter().enumerate() {
            for (more, until) in (1..).zip(&self.used[place..]) {
                let window = until + 1 - from;
                assert!(more <= envelope(window), "{more} in {window} ticks: {:?}, {:?}", self.used, self.history);
            }
        }
        seen.histories += 1;
        seen.worked += u64::from(self.worked != 0);
    }
}

/// CH-22, TCAP-02: no phase in which who is between them waits for a less important client's server, and none in which hoarded time is more than the client's own envelope.
#[test]
fn a_server_works_at_its_clients_level_and_within_its_envelope() {
    let rows = Rows {
        servers: vec![sporadic(0, 5, 10), sporadic(1, 1, BETWEEN_PERIOD), sporadic(2, BUDGET, PERIOD)],
        tcaps: vec![claim(0, 0, 1), claim(1, 0, 1), claim(2, 0, 1), claim(NONE, 0, 1)],
        threads: vec![(0, NONE), (1, NONE), (2, NONE)],
        ..Rows::default()
    };
    let mut test = Test::new(&rows);
    test.call(Call::Receive, &[RECEIVE, Flag::All.number(), 0]);
    let mut seen = Seen::default();
    let mut base = NEXT;
    for thread in [BETWEEN, CLIENT] {
        assert_eq!(test.running, Some(thread));
        test.call(Call::Receive, &[0, 0, base]);
    }
    for history in all() {
        let job_at = base + history.phase;
        let mut run = Run {
            history,
            base,
            gives_at: base + history.after[0],
            gift: 0,
            left: 0,
            expires: 0,
            work: 0,
            job_at,
            job: 0,
            used: Vec::new(),
            worked: 0,
            test: &mut test,
        };
        run.go(&mut seen);
        test.kernel.machine().waits = 0;
        base += NEXT;
    }
    println!("{seen:?}");
    let Seen { histories, worked, ran_dry, expired, most } = seen;
    assert_eq!(histories, 1344);
    assert!(worked > 500 && ran_dry == histories && expired > 500 && most == BUDGET, "it is about nothing: {seen:?}");
}
