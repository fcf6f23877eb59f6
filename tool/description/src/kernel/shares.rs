//! What schedulers and bands come to: who has which claim on whose time, by which label and number (`kernel.md` 1, 3 and 4; CH-50 to CH-53, CH-63, QV-37).
//!
//! A thread of a scheduler has a temporal capability of its own, on everything that its server has: so the scheduler's number for it is nobody else's. The
//! thread that takes the events of the scheduler which holds the server has the server's own. Labels are places among a scheduler's threads, in the order of the file.
//!
//! Rejected: temporal capabilities as objects with names of their own in the description. Each of them would have one user, and a reader would have to follow
//! two names to see what a thread runs on.

use super::file::{Component, Thread};
use super::resolve::Resolver;
use super::servers::Servers;
use crate::code::Code;
use crate::decode::Located;
use crate::diagnostic::Diagnostic;
use bulkhead_instance::Member;
use bulkhead_kernel_abi::boot::{BandRow, SchedulerRow, TcapRow};
use bulkhead_kernel_abi::{ALL_TICKS, MAX_TCAPS, NONE};

/// Number of a scheduler's thread for it when the description does not say: behind the scheduler's own, which is 1.
const DEFAULT_PRIORITY: u64 = 2;
/// Bits of a token.
const TOKEN_BITS: u64 = 48;

/// Schedulers, claims and bands, as the writer takes them.
#[derive(Clone, Debug, Default)]
pub(super) struct Shares {
    /// By number.
    pub(super) schedulers: Vec<SchedulerRow>,
    /// By number of the scheduler: by what its parent knows it.
    numbers: Vec<u64>,
    /// Claims that do not go with a server.
    pub(super) tcaps: Vec<TcapRow>,
    /// By number.
    pub(super) bands: Vec<BandRow>,
    /// Threads of schedulers.
    pub(super) members: Vec<Member>,
    /// What each thread runs on, by number.
    claims: Vec<u16>,
}

impl Shares {
    /// As the writer takes them.
    pub(super) fn rows(self) -> bulkhead_instance::Shares {
        let Self { schedulers, numbers, tcaps, bands, members, claims: _ } = self;
        bulkhead_instance::Shares { schedulers, numbers, tcaps, bands, members }
    }

    /// The claim that a thread runs on.
    pub(super) fn claim(&self, thread: usize) -> u16 {
        self.claims.get(thread).copied().unwrap_or(NONE)
    }

    /// Threads of a scheduler, by label.
    pub(super) fn threads_of(&self, scheduler: u16) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(move |member| member.scheduler == scheduler)
    }
}

/// A number of objects that are counted elsewhere.
pub(super) fn short(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(NONE)
}

/// Number of a scheduler in vectors; 0 is the kernel's.
const fn id(scheduler: u16) -> u16 {
    scheduler.saturating_add(1)
}

fn number_of(thread: &Thread) -> u64 {
    thread.priority.as_ref().map_or(DEFAULT_PRIORITY, |priority| priority.value)
}

/// A claim that does not go with a server: on everything of one, or on nothing yet.
fn claim(server: Option<u16>, scheduler: u16, priority: u64) -> TcapRow {
    TcapRow {
        server: server.unwrap_or(NONE),
        scheduler,
        left_ticks: if server.is_some() { ALL_TICKS } else { 0 },
        expires_ticks: ALL_TICKS,
        end_point: NONE,
        priority,
        ..TcapRow::default()
    }
}

impl<'r> Resolver<'r> {
    /// Gives each thread its claim, and each scheduler its threads. `takers` are the threads whose end points are to have claims of their own.
    pub(super) fn shares(&mut self, servers: &Servers, takers: &[u16]) -> (Shares, Vec<u16>) {
        let file = self.file;
        let own: Vec<Option<usize>> = file.scheduler.iter().map(|one| self.leads(one)).collect();
        let first_claim = servers.count();
        let mut shares = Shares { bands: servers.bands(), ..Shares::default() };
        shares.schedulers = (0..)
            .zip(file.scheduler.iter().zip(&own))
            .map(|(number, (one, thread))| SchedulerRow {
                thread: thread.map_or(NONE, short),
                parent: one.parent.as_ref().and_then(|parent| self.scheduler_number(parent)).map_or(NONE, short),
                id: id(number),
                reserved: 0,
            })
            .collect();
        let threads: Vec<_> = self.threads().collect();
        let known =
            |leader: &Option<usize>| leader.and_then(|thread| threads.get(thread)).map(|(_, thread)| number_of(thread));
        shares.numbers = own.iter().map(|leader| known(leader).unwrap_or(DEFAULT_PRIORITY)).collect();
        let mut labels = vec![0_u64; file.scheduler.len()];
        for (number, (_, thread)) in self.threads().enumerate() {
            let paid = self.server_of(thread).and_then(|server| Some((server, servers.number(server)?)));
            let Some((server, root)) = paid else {
                shares.claims.push(NONE);
                continue;
            };
            let leads = own.iter().position(|one| *one == Some(number));
            let Some((scheduler, has_own)) = self.scheduler_of(thread, server, leads) else {
                self.has_no_scheduler(thread);
                shares.claims.push(root);
                continue;
            };
            let tcap = if has_own {
                shares.tcaps.push(claim(Some(root), scheduler.map_or(0, |one| id(short(one))), number_of(thread)));
                first_claim.saturating_add(short(shares.tcaps.len() - 1))
            } else {
                root
            };
            shares.claims.push(tcap);
            let label = scheduler.and_then(|one| labels.get_mut(one));
            let member = Member {
                thread: short(number),
                scheduler: scheduler.map_or(NONE, short),
                tcap,
                label: label.map_or(0, |next| core::mem::replace(next, next.saturating_add(1))),
            };
            shares.members.push(member);
        }
        let mut given = Vec::new();
        for thread in takers {
            let scheduler = shares.members.iter().find(|member| member.thread == *thread).map(|one| one.scheduler);
            let scheduler = scheduler.filter(|one| *one != NONE).map_or(0, id);
            shares.tcaps.push(claim(None, scheduler, DEFAULT_PRIORITY));
            given.push(first_claim.saturating_add(short(shares.tcaps.len() - 1)));
        }
        self.count_claims(usize::from(first_claim) + shares.tcaps.len());
        (shares, given)
    }

    /// Whose a thread is that runs on a server which a scheduler holds, and whether it has a claim of its own; `None` where nobody holds the server.
    fn scheduler_of(&self, thread: &Thread, server: &str, leads: Option<usize>) -> Option<(Option<usize>, bool)> {
        let holder = self.holder_of(server)?;
        if let Some(leads) = leads {
            let parent = self.file.scheduler.get(leads)?.parent.as_ref();
            let parent = parent.and_then(|parent| self.scheduler_number(parent));
            return Some((parent, holder != leads));
        }
        let written = thread.scheduler.as_ref().and_then(|name| self.scheduler_number(name));
        Some((Some(written.unwrap_or(holder)), true))
    }

    fn has_no_scheduler(&mut self, thread: &Located<Thread>) {
        if let Some(priority) = &thread.priority {
            let message = format!("thread `{}` takes turns with the others of its server", thread.name.value);
            let diagnostic = Diagnostic::new(Code::KeyDoesNotApply, message).at(priority.span, "remove it");
            self.push(
                diagnostic
                    .help("a priority is what a scheduler in user space goes by: `holder` of the server names it"),
            );
        }
    }

    fn count_claims(&mut self, claims: usize) {
        if claims > MAX_TCAPS {
            let message =
                format!("an instance has at most {MAX_TCAPS} temporal capabilities, and this one has {claims}");
            let diagnostic = Diagnostic::new(Code::TooManyObjects, message).at(self.file.version.span, "this instance");
            self.push(diagnostic.note(
                "each server has one, each thread of a scheduler and each end point that takes time has one besides",
            ));
        }
    }

    /// The token of calls from a component into a scheduler's: the threads of the caller that are that scheduler's, a bit for each label.
    pub(super) fn token(&self, caller: usize, callee: usize, shares: &Shares) -> u64 {
        let own = self.first_thread(caller)..self.first_thread(caller + 1);
        let of_callee =
            (0_u16..).zip(&self.file.scheduler).filter(|(_, one)| self.find(&one.component) == Some(callee));
        let threads = of_callee.flat_map(|(scheduler, _)| shares.threads_of(scheduler));
        let labels = threads.filter(|member| own.contains(&usize::from(member.thread))).map(|member| member.label);
        labels.filter(|label| *label < TOKEN_BITS).fold(0, |set, label| set | 1 << label)
    }

    /// Number of a component's first thread.
    pub(super) fn first_thread(&self, component: usize) -> usize {
        self.file.component.iter().take(component).map(|one| one.threads.len()).sum()
    }

    /// All threads with their components, by number.
    pub(super) fn threads(&self) -> impl Iterator<Item = (&'r Component, &'r Located<Thread>)> + use<'r> {
        let file = self.file;
        file.component.iter().flat_map(|one| one.threads.iter().map(move |thread| (&one.value, thread)))
    }
}
