//! Tasks and the scheduler's thread as coroutines, on the kernel's own objects.
//!
//! Each thread is a coroutine that stops before each access to the lock, inside what the lock guards, and at each call of the kernel. Between two
//! stops the driver may let interrupts come and time pass; then it asks the objects whose turn it is. So a test decides where each task
//! loses the core, and the rules by which somebody gets it (N1 to N6) are the kernel's own code.
#![allow(dead_code)] // Each test program uses a part of it.

mod machine;

use bulkhead_kernel_abi::Code;
use bulkhead_kernel_abi::boot::{BootHeader, ComponentRow, EndPointRow, SchedulerRow, ServerRow, Tables, ThreadRow};
use bulkhead_kernel_abi::call::{Call, ThreadOperation};
use bulkhead_kernel_abi::{Capability, Kind, NONE};
use bulkhead_objects::{
    Choice, Component, EndPoint, NEVER, Objects, Outcome, Position, Room, Scheduler as Holder, Thread, ThreadState,
};
use bulkhead_rt::{Event, Guarded, Kernel, Lock, Rt, Scheduler, Task, Tasks, Who, Word};
pub(crate) use machine::Fake;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What a coroutine stops for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Stop {
    /// It is about to touch what others see.
    Access,
    /// It asks for the time.
    Now,
    /// It makes this call.
    Call(Call, [u64; 8]),
    /// It computes for so long.
    Work(u64),
    /// Its own code runs, at this point of its program.
    Own(u64),
    /// It is over.
    End,
}

thread_local! {
    /// What the coroutine finds when it continues: registers, or the time.
    static ANSWER: Cell<[u64; 8]> = const { Cell::new([0; 8]) };
    /// A coroutine runs.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

pub(crate) fn stop(why: Stop) -> [u64; 8] {
    if INSIDE.get() {
        #[expect(deprecated, reason = "the way with a scope needs a handle that the lock does not have")]
        generator::yield_with(why);
    }
    ANSWER.get()
}

/// The lock's word, with a stop before each access.
#[derive(Debug, Default)]
pub(crate) struct StopWord(AtomicU64);

impl Word for StopWord {
    fn compare_exchange(&self, current: u64, new: u64) -> Result<(), u64> {
        stop(Stop::Access);
        self.0.compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst).map(|_| ())
    }
    fn swap(&self, new: u64) -> u64 {
        stop(Stop::Access);
        self.0.swap(new, Ordering::SeqCst)
    }
}

/// The state, and whether somebody is inside; two at once are a panic.
#[derive(Clone)]
pub(crate) struct Alone(Arc<(Mutex<Tasks>, AtomicBool)>);

impl Guarded for Alone {
    fn with<R>(&self, what: impl FnOnce(&mut Tasks) -> R) -> R {
        let (tasks, is_taken) = &*self.0;
        assert!(!is_taken.swap(true, Ordering::SeqCst), "one at a time is inside");
        stop(Stop::Access);
        let answer = what(&mut tasks.lock().expect("no test panics inside"));
        stop(Stop::Access);
        is_taken.store(false, Ordering::SeqCst);
        answer
    }
    fn take_back(&self) {
        let (tasks, is_taken) = &*self.0;
        tasks.lock().expect("no test panics inside").put_right();
        is_taken.store(false, Ordering::SeqCst);
    }
}

pub(crate) type TestRt = Rt<StopWord, Alone>;

/// Slots of the table.
const SCHEDULER: u64 = 1;
/// Thread of the scheduler; those of tasks follow.
const THREAD: u64 = 2;
/// Receive of task 0's end point; the others follow.
pub(crate) const RECEIVE: u64 = 16;
const SLOTS: usize = 32;
/// Most tasks of a test.
const MOST: usize = 8;

/// The kernel as a coroutine sees it.
pub(crate) struct Calls;

fn code(answer: [u64; 8]) -> Result<[u64; 8], Code> {
    match Code::from_number(answer[0]).expect("a code") {
        Code::Ok => Ok(answer),
        other => Err(other),
    }
}

impl Kernel for Calls {
    fn now_ticks(&mut self) -> u64 {
        stop(Stop::Now)[0]
    }
    fn switch(&mut self, to: Who, number: u64, timeout_ticks: u64, token: u64) -> Result<(), Code> {
        let thread = match to {
            Who::Scheduler => THREAD,
            Who::Task(task) => THREAD + 1 + u64::from(task.number()),
        };
        code(stop(Stop::Call(Call::Switch, [SCHEDULER, thread, 0, number, timeout_ticks, token, 0, 0]))).map(|_| ())
    }
    fn events(&mut self, deadline_ticks: Option<u64>) -> Result<Event, Code> {
        let flags = u64::from(deadline_ticks.is_none());
        let answer = stop(Stop::Call(Call::Events, [SCHEDULER, flags, deadline_ticks.unwrap_or(0), 0, 0, 0, 0, 0]));
        let [_, label, what, used_ticks, _, token, ..] = code(answer)?;
        Ok(Event { label, what: what as u8, used_ticks, token })
    }
    fn send(&mut self, _: u64) -> Result<(), Code> {
        unreachable!("no test sends by the kernel's objects")
    }
    fn rest(&mut self) {
        let now = self.now_ticks();
        stop(Stop::Call(Call::Receive, [0, 0, now + 1, 0, 0, 0, 0, 0]));
    }
}

/// Waits for the own end point in the kernel; returns whether it was notified.
pub(crate) fn receive(me: Task, deadline_ticks: u64) -> bool {
    let slot = RECEIVE + u64::from(me.number());
    code(stop(Stop::Call(Call::Receive, [slot, 2, deadline_ticks, 0, 0, 0, 0, 0]))).is_ok()
}

/// Ends a task's thread, wherever that is.
pub(crate) fn end(task: Task) {
    let thread = THREAD + 1 + u64::from(task.number());
    let _ = stop(Stop::Call(Call::Thread, [ThreadOperation::Stop.number(), thread, 0, 0, 0, 0, 0, 0]));
}

/// Begins it again: with the program [`second_life`].
pub(crate) fn start(task: Task) {
    let thread = THREAD + 1 + u64::from(task.number());
    let _ = stop(Stop::Call(Call::Thread, [ThreadOperation::Start.number(), thread, 0, 0, 0, 0, 0, 0]));
}

/// What a task does that was begun again.
fn second_life(rt: &TestRt, kernel: &mut Calls, me: Task) {
    rt.yield_(kernel, me);
    own(SECOND_LIFE);
}

/// The point of a task that was begun again.
pub(crate) const SECOND_LIFE: u64 = 99;

/// Computes.
pub(crate) fn work(ticks: u64) {
    stop(Stop::Work(ticks));
}

/// Says where a program is.
pub(crate) fn own(point: u64) {
    stop(Stop::Own(point));
}

/// What a thread finds when it continues.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Finds {
    #[default]
    Nothing,
    Time,
    Registers,
    /// It is about to make this call: what comes before it may come.
    Call(Call, [u64; 8]),
}

type Body = generator::Generator<'static, (), Stop>;
pub(crate) type Program = Box<dyn FnOnce(&TestRt, &mut Calls, Task) + Send>;

/// A subsystem under test: thread 0 is the scheduler's, thread n + 1 that of task n.
pub(crate) struct Subsystem<'a> {
    pub(crate) objects: Objects<'a>,
    pub(crate) world: Fake,
    bodies: Vec<Body>,
    /// What each thread finds when it continues.
    finds: Vec<Finds>,
    /// Work that each was stopped in.
    left: Vec<u64>,
    state: Alone,
    rt: Arc<TestRt>,
    /// A task is inside a function of ChaosRT: it has left its own code and not come back.
    pub(crate) inside: Vec<bool>,
    /// Ticks that each thread has run.
    pub(crate) ran: Vec<u64>,
    priorities: Vec<u8>,
    /// Points of programs, in order.
    pub(crate) points: Vec<(u8, u64)>,
    pub(crate) steps: u64,
    /// Dates that passed since a task ran.
    pub(crate) idles: u64,
}

/// What the host would write of a component with the scheduler's thread and tasks.
struct Rows {
    header: BootHeader,
    slots: Vec<Capability>,
    components: [ComponentRow; 1],
    threads: Vec<ThreadRow>,
    servers: [ServerRow; 1],
    schedulers: [SchedulerRow; 1],
    end_points: Vec<EndPointRow>,
}

impl Rows {
    fn new(tasks: u16) -> Self {
        let mut slots = vec![Capability::NULL; SLOTS];
        let all = |kind: Kind, object: u16| Capability {
            kind: kind.number(),
            rights: kind.rights(),
            object,
            grant: 1,
            word: 0,
        };
        slots[SCHEDULER as usize] = all(Kind::Scheduler, 0);
        for thread in 0..=tasks {
            slots[THREAD as usize + usize::from(thread)] = all(Kind::Thread, thread);
            slots[RECEIVE as usize + usize::from(thread)] = all(Kind::Receive, thread);
        }
        let thread = |number: u16| ThreadRow {
            entry: 0x40_0000,
            label: u64::from(number).wrapping_sub(1),
            tcap: number,
            scheduler: if number == 0 { NONE } else { 0 },
            end_point: NONE,
            started: 1,
            ..Default::default()
        };
        let end_point = |thread: u16| EndPointRow { thread, tcap: NONE, ..Default::default() };
        Self {
            header: BootHeader::default(),
            slots,
            components: [ComponentRow { slots: SLOTS as u32, supervisor: NONE, quota: NONE, ..Default::default() }],
            threads: (0..=tasks).map(thread).collect(),
            servers: [ServerRow { holder: 0, tcap: 0, ..Default::default() }],
            schedulers: [SchedulerRow { thread: 0, parent: NONE, id: 1, reserved: 0 }],
            end_points: (1..=tasks).map(end_point).collect(),
        }
    }

    fn tables(&self) -> Tables<'_> {
        Tables {
            header: &self.header,
            components: &self.components,
            entries: &[],
            stacks: &[],
            capabilities: &self.slots,
            threads: &self.threads,
            servers: &self.servers,
            bands: &[],
            schedulers: &self.schedulers,
            tcaps: &[],
            end_points: &self.end_points,
            bindings: &[],
            wires: &[],
            exports: &[],
            quotas: &[],
            regions: &[],
            programs: &[],
            segments: &[],
            devices: &[],
            ports: &[],
            data: &[],
            names: &[],
        }
    }
}

/// Runs a test with tasks of these priorities and programs.
pub(crate) fn subsystem(quantum: u64, tasks: Vec<(u8, Program)>, test: impl FnOnce(&mut Subsystem<'_>)) {
    let count = tasks.len();
    let room = Room {
        components: &mut [Component::default()],
        slots: &mut [Capability::NULL; SLOTS],
        threads: &mut [Thread::default(); MOST + 1],
        end_points: &mut [EndPoint::EMPTY; MOST],
        bindings: &mut [],
        servers: &mut [Position::EMPTY],
        schedulers: &mut [Holder::EMPTY],
        wires: &mut [],
        tcaps: &mut [],
        bands: &mut [],
        regions: &mut [],
        quotas: &mut [],
        processes: &mut [],
        pages: &mut [],
        entries: &[],
        stacks: &[],
        programs: &[],
        segments: &[],
    };
    let mut state = Tasks::new(quantum);
    for (number, (priority, _)) in (0..).zip(&tasks) {
        state.create(Task::new(number).expect("a task"), *priority).expect("it is new");
    }
    let state = Alone(Arc::new((Mutex::new(state), AtomicBool::new(false))));
    let rt = Arc::new(Rt::new(Lock::on(StopWord::default()), state.clone()));
    let priorities: Vec<u8> = tasks.iter().map(|(priority, _)| *priority).collect();
    let rows = Rows::new(count as u16);
    let mut objects = Objects::new(room, &rows.tables());
    let mut world = Fake::new(&priorities);
    objects.start_at_boot(&mut world, &rows.tables());
    let mut bodies = vec![holder(rt.clone())];
    bodies.extend((0..).zip(tasks).map(|(number, (_, program))| body(rt.clone(), number, program)));
    let (inside, ran) = (vec![false; count], vec![0; count + 1]);
    let (finds, left) = (vec![Finds::Nothing; count + 1], vec![0; count + 1]);
    let points = Vec::new();
    let mut made = Subsystem {
        objects,
        world,
        bodies,
        finds,
        left,
        state,
        rt,
        inside,
        ran,
        priorities,
        points,
        steps: 0,
        idles: 0,
    };
    test(&mut made);
}

fn holder(rt: Arc<TestRt>) -> Body {
    generator::Gn::new_opt(0x4000, move || {
        let mut scheduler = Scheduler::new();
        loop {
            scheduler.round(&mut Calls, &rt);
        }
    })
}

fn body(rt: Arc<TestRt>, number: u64, program: Program) -> Body {
    generator::Gn::new_opt(0x4000, move || {
        program(&rt, &mut Calls, Task::new(number).expect("a task"));
        Stop::End
    })
}

impl Subsystem<'_> {
    /// The thread that runs.
    pub(crate) fn pick(&mut self) -> Option<usize> {
        for _ in 0..=MOST {
            match self.objects.choose(&mut self.world, 0) {
                Choice::Run(thread) => return Some(usize::from(thread)),
                Choice::Nobody => return None,
                Choice::Again => {}
            }
        }
        panic!("it ends");
    }

    /// States whether every task has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.objects.room().threads[1..=self.priorities.len()].iter().all(|thread| thread.state == ThreadState::Stopped)
    }

    /// An interrupt notifies a task.
    pub(crate) fn notify(&mut self, task: u16) {
        self.objects.send(&mut self.world, task, 1);
    }

    /// Time passes, for the thread that runs if one does.
    pub(crate) fn pass(&mut self, ticks: u64) {
        let running = self.pick();
        self.world.now += ticks;
        if let Some(thread) = running {
            self.ran[thread] += ticks;
            self.objects.used(&mut self.world, ticks);
        }
        while self.objects.pass_date(&mut self.world).is_some() {}
    }

    /// One stretch of the thread that is next, up to its next stop; an idle server waits for its next date. False when there is nothing to wait for.
    pub(crate) fn step(&mut self) -> bool {
        self.steps += 1;
        let Some(thread) = self.pick() else {
            let date = self.world.date_ticks;
            if date == NEVER {
                return false;
            }
            self.pass(date.saturating_sub(self.world.now));
            self.idles += 1;
            return true;
        };
        if self.left[thread] > 0 {
            self.work(thread, self.left[thread]);
            return true;
        }
        match std::mem::take(&mut self.finds[thread]) {
            Finds::Nothing => {}
            Finds::Time => ANSWER.set([self.world.now; 8]),
            Finds::Call(call, x) => {
                self.finds[thread] = Finds::Registers;
                self.call(call, &x);
                return true;
            }
            Finds::Registers => {
                let x = self.objects.registers().expect("runs").x;
                ANSWER.set(*x.first_chunk().expect("registers"));
            }
        }
        let why = self.resume(thread);
        match why {
            Stop::Access => {}
            Stop::Now => self.finds[thread] = Finds::Time,
            Stop::Call(call, x) => self.finds[thread] = Finds::Call(call, x),
            Stop::Work(ticks) => self.work(thread, ticks),
            Stop::Own(point) => {
                let task = thread.checked_sub(1).expect("a task");
                self.points.push((task as u8, point));
                self.inside[task] = false;
                self.check_best(task);
            }
            Stop::End => self.call(Call::Return, &[]),
        }
        if let Some(task) = thread.checked_sub(1) {
            self.idles = 0;
            self.inside[task] = match why {
                Stop::Access | Stop::Now => true,
                Stop::Call(call, [slot, ..]) => call != Call::Receive || slot == 0,
                Stop::Work(_) | Stop::Own(_) | Stop::End => false,
            };
        }
        true
    }

    fn resume(&mut self, thread: usize) -> Stop {
        INSIDE.set(true);
        let why = self.bodies[thread].resume().expect("a thread that ended does not run");
        INSIDE.set(false);
        why
    }

    fn call(&mut self, call: Call, x: &[u64]) {
        let registers = self.objects.registers().expect("somebody runs");
        registers.x[..x.len()].copy_from_slice(x);
        registers.pc = registers.pc.wrapping_add(4);
        assert_eq!(self.objects.call(&mut self.world, call.number()), Outcome::Done);
        if call == Call::Thread {
            self.follow_ends(x);
        }
    }

    /// Somebody was ended, wherever it was, or begun again.
    fn follow_ends(&mut self, x: &[u64]) {
        let thread = (x[1] - THREAD) as usize;
        let task = thread - 1;
        (self.inside[task], self.finds[thread], self.left[thread]) = (false, Finds::Nothing, 0);
        if x[0] == ThreadOperation::Start.number() {
            self.bodies[thread] = body(self.rt.clone(), task as u64, Box::new(second_life));
        }
    }

    /// The thread computes, and loses the core at each date until it is done.
    fn work(&mut self, thread: usize, ticks: u64) {
        let mut left = ticks;
        while left > 0 && self.pick() == Some(thread) {
            let date = self.world.date_ticks.saturating_sub(self.world.now).max(1);
            let now = left.min(date);
            self.pass(now);
            left -= now;
        }
        self.left[thread] = left;
    }

    /// While a task's own code runs, nobody who is better could run, unless one was stopped on the way to say so.
    fn check_best(&self, task: usize) {
        if self.inside.iter().enumerate().any(|(other, inside)| *inside && other != task) {
            return;
        }
        let mut tasks = self.state.0.0.lock().expect("no test panics inside").clone();
        let priority = self.priorities[task];
        let best = tasks.choose(self.world.now).map(|chosen| chosen.task);
        let best = best.map(|best| self.priorities[usize::from(best.number())]);
        assert!(best.is_none_or(|best| best >= priority), "task {task} runs and {best:?} is better: {:?}", self.points);
    }
}
