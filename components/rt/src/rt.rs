//! What tasks call: create, end, yield, block, sleep, wake (CH-3). Each function returns when its task is the best one again.

use crate::lock::Taken;
use crate::{Chosen, Kernel, Lock, Task, Tasks, Who, Word};
use bulkhead_kernel_abi::Code;
use core::sync::atomic::{AtomicU64, Ordering};

/// The state that only the owner of the lock touches. ChaosRT's program has it in memory that the SDK guards.
pub trait Guarded {
    /// Does something to it.
    fn with<R>(&self, what: impl FnOnce(&mut Tasks) -> R) -> R;

    /// Who was inside was ended there and does not come back: what it left half done is put right ([`Tasks::put_right`]), and others may be inside again.
    fn take_back(&self);
}

/// The scheduler that tasks share.
#[derive(Debug)]
pub struct Rt<W, G> {
    lock: Lock<W>,
    tasks: G,
    /// Newest token that the scheduler's thread has acted on. Read before the state: who then finds newer state has an older token, and is refused.
    token: AtomicU64,
}

impl<W: Word, G: Guarded> Rt<W, G> {
    /// A scheduler with this lock and these tasks.
    pub const fn new(lock: Lock<W>, tasks: G) -> Self {
        Self { lock, tasks, token: AtomicU64::new(0) }
    }

    /// The scheduler's own thread makes a task before it takes events: otherwise nobody would run who could make one.
    ///
    /// # Errors
    /// `BadArgument` for a priority that there is not, `Busy` for a task that is there.
    pub fn introduce(&self, kernel: &mut impl Kernel, task: Task, priority: u8) -> Result<(), Code> {
        self.inside(kernel, Who::Scheduler, |tasks, _| tasks.create(task, priority)).0
    }

    /// Asked by the scheduler's own thread: there is no task any more, and all that were tasks have ended.
    pub fn is_over(&self, kernel: &mut impl Kernel) -> bool {
        self.inside(kernel, Who::Scheduler, |tasks, _| tasks.is_over()).0
    }

    /// Does something else that only one task may do at a time, and lets the best one run.
    pub fn guard<R>(&self, kernel: &mut impl Kernel, me: Task, what: impl FnOnce() -> R) -> R {
        self.act(kernel, me, |_| what())
    }

    /// Makes a task; its thread is started by who asked, after this.
    ///
    /// # Errors
    /// `BadArgument` for a priority that there is not, `Busy` for a task that is there.
    pub fn create(&self, kernel: &mut impl Kernel, me: Task, task: Task, priority: u8) -> Result<(), Code> {
        self.act(kernel, me, |tasks| tasks.create(task, priority))
    }

    /// Forgets a task. One that ends itself comes back, and its thread ends then by returning from its home component.
    ///
    /// # Errors
    /// `Gone` when there is none.
    pub fn end(&self, kernel: &mut impl Kernel, me: Task, task: Task) -> Result<(), Code> {
        if me == task {
            return self.inside(kernel, Who::Task(me), |tasks, _| tasks.leave(me)).0;
        }
        self.act(kernel, me, |tasks| tasks.end(task))
    }

    /// Lets equals run.
    pub fn yield_(&self, kernel: &mut impl Kernel, me: Task) {
        self.act(kernel, me, |tasks| tasks.yield_(me));
    }

    /// Waits until somebody wakes this task, or until a date (`u64::MAX`: none). Returns at once if it was woken since it waited last.
    ///
    /// # Errors
    /// `TimedOut` when the date came first.
    pub fn block(&self, kernel: &mut impl Kernel, me: Task, until_ticks: u64) -> Result<(), Code> {
        self.act(kernel, me, |tasks| tasks.block(me, until_ticks));
        let (is_late, _) = self.inside(kernel, Who::Task(me), |tasks, _| tasks.is_late(me));
        if is_late { Err(Code::TimedOut) } else { Ok(()) }
    }

    /// Waits until a date.
    pub fn sleep(&self, kernel: &mut impl Kernel, me: Task, until_ticks: u64) {
        self.act(kernel, me, |tasks| tasks.sleep(me, until_ticks));
    }

    /// Wakes a task, which runs at once if it is better than the caller.
    ///
    /// # Errors
    /// `Gone` when there is no such task.
    pub fn wake(&self, kernel: &mut impl Kernel, me: Task, task: Task) -> Result<(), Code> {
        self.act(kernel, me, |tasks| tasks.wake(task))
    }

    /// Changes the state and lets the best task run; returns when that is the caller.
    fn act<R>(&self, kernel: &mut impl Kernel, me: Task, what: impl FnOnce(&mut Tasks) -> R) -> R {
        let mut token = self.token.load(Ordering::Relaxed);
        let ((answer, mut chosen), mut is_wanted) = self.inside(kernel, Who::Task(me), |tasks, now| {
            tasks.runs(me);
            let answer = what(tasks);
            tasks.pass_dates(now);
            (answer, tasks.choose(now))
        });
        while !self.settled(kernel, me, chosen, is_wanted, token) {
            token = self.token.load(Ordering::Relaxed);
            (chosen, is_wanted) = self.inside(kernel, Who::Task(me), |tasks, now| {
                tasks.pass_dates(now);
                tasks.choose(now)
            });
        }
        answer
    }

    /// Gives the core to the one that was chosen; true when that is the caller and nobody waits for the lock.
    fn settled(&self, kernel: &mut impl Kernel, me: Task, chosen: Option<Chosen>, is_wanted: bool, token: u64) -> bool {
        let (task, number, timeout) = match chosen {
            // Who found the lock taken is known to the scheduler's thread, or to the kernel alone.
            Some(Chosen { task, .. }) if task == me => {
                if is_wanted {
                    ask_scheduler(kernel);
                }
                return !is_wanted;
            }
            Some(Chosen { task, number, timeout_ticks }) => (task, number, timeout_ticks),
            None => {
                ask_scheduler(kernel);
                return false;
            }
        };
        match kernel.switch(Who::Task(task), number, timeout, token) {
            Ok(()) => {}
            Err(Code::NoTime) => self.inside(kernel, Who::Task(me), |tasks, _| tasks.is_unpaid(task)).0,
            // Newer events, or one that the kernel knows more of.
            Err(_) => ask_scheduler(kernel),
        }
        false
    }

    /// Does something to the state; also returns whether somebody wanted the lock meanwhile.
    pub(crate) fn inside<R>(
        &self,
        kernel: &mut impl Kernel,
        me: Who,
        what: impl FnOnce(&mut Tasks, u64) -> R,
    ) -> (R, bool) {
        while !self.entered(kernel, me, self.token.load(Ordering::Relaxed)) {
            ask_scheduler(kernel);
        }
        self.do_and_leave(kernel, what)
    }

    /// One attempt to take the lock, which lets its owner run if it is taken; false when the kernel refused that or it has to be tried again.
    /// `token` was read before.
    pub(crate) fn entered(&self, kernel: &mut impl Kernel, me: Who, token: u64) -> bool {
        for _ in 0..ATTEMPTS {
            match self.lock.take(me) {
                Some(Taken::Free) => return true,
                Some(Taken::Left) => {
                    self.tasks.take_back();
                    return true;
                }
                None => {}
                // With the best number, so that nobody in between delays both of them.
                Some(Taken::By(owner)) => {
                    let timeout_ticks = kernel.now_ticks().saturating_add(LONGEST_STAY_TICKS);
                    if kernel.switch(owner, BEST, timeout_ticks, token).is_err() {
                        return false;
                    }
                }
            }
        }
        false
    }

    /// The task that has the lock, which is marked: [`Self::takes_over`].
    pub(crate) fn marked(&self) -> Option<Task> {
        self.lock.mark()
    }

    /// The scheduler's thread enters in place of a task that has ended inside; false when that one has come back since it was marked.
    pub(crate) fn takes_over(&self, from: Task) -> bool {
        let is_taken = self.lock.take_over(from);
        if is_taken {
            self.tasks.take_back();
        }
        is_taken
    }

    /// Behind [`Self::entered`].
    pub(crate) fn do_and_leave<R>(
        &self,
        kernel: &mut impl Kernel,
        what: impl FnOnce(&mut Tasks, u64) -> R,
    ) -> (R, bool) {
        let now = kernel.now_ticks();
        let answer = self.tasks.with(|tasks| what(tasks, now));
        (answer, self.lock.give())
    }

    /// What the scheduler's thread has acted on.
    pub(crate) fn acted_on(&self, token: u64) {
        self.token.store(token, Ordering::Relaxed);
    }
}

/// The number of who has the lock while somebody waits for it.
const BEST: u64 = 2;
/// Looks at the lock before the scheduler is asked.
const ATTEMPTS: u32 = 4;
/// Somebody looks again after this long, if the owner does not come back.
const LONGEST_STAY_TICKS: u64 = 1 << 16;

/// Lets the scheduler's thread run, by `switch` or, where the kernel refuses that, by a short sleep.
fn ask_scheduler(kernel: &mut impl Kernel) {
    if kernel.switch(Who::Scheduler, 0, 0, 0).is_err() {
        kernel.rest();
    }
}
