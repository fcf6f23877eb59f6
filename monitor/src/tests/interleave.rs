//! Every order in which the cores of a partition can come to the words that they share.
//!
//! Each core of the fake machine is a coroutine that runs the monitor's own code and stops before each access to a shared word
//! ([`AtomicU32`] stands for the real one in tests). [`explore`] runs a story again and again, each time with
//! another choice of the core that runs next, until all choices with at most a given number of preemptions are done.
//! Memory is sequentially consistent here: what the orders of the accesses promise beyond that is one word's, and is
//! argued where it is used.

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering;

/// Why a core stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It is about to access a word that others see.
    Access,
    /// It would take an interrupt now, if one is pending, or do the next thing of its story (`true`: there is one).
    Poll(bool),
}

thread_local! {
    /// A story is being explored on this thread, and one of its cores runs.
    static EXPLORING: Cell<bool> = const { Cell::new(false) };
    /// Coroutines of stories that are over. Their stacks serve the next ones: a new stack for every core of every run was a third
    /// of what all runs took.
    static ENDED: RefCell<Vec<Coroutine>> = const { RefCell::new(Vec::new()) };
}

type Coroutine = generator::Generator<'static, (), Stop>;

/// Lets another core come first.
pub(crate) fn stop(why: Stop) {
    if EXPLORING.get() {
        #[expect(deprecated, reason = "the way with a scope needs a handle that the monitor's code does not have")]
        generator::yield_with(why);
    }
}

/// The atomic word of the standard library, with a [`stop`] before each access.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct AtomicU32(std::sync::atomic::AtomicU32);

impl AtomicU32 {
    /// Reads.
    pub fn load(&self, order: Ordering) -> u32 {
        stop(Stop::Access);
        self.0.load(order)
    }
    /// Writes. What tells another core something is to be seen with all that was written before it.
    pub fn store(&self, value: u32, order: Ordering) {
        let tells = EXPLORING.get() && value != 0;
        assert!(!tells || order == Ordering::Release, "{value:#x} is written without release order");
        stop(Stop::Access);
        self.0.store(value, order);
    }
    /// Reads and writes.
    pub fn swap(&self, value: u32, order: Ordering) -> u32 {
        stop(Stop::Access);
        self.0.swap(value, order)
    }
    /// Sets bits.
    pub fn fetch_or(&self, bits: u32, order: Ordering) -> u32 {
        stop(Stop::Access);
        self.0.fetch_or(bits, order)
    }
    /// Clears bits.
    pub fn fetch_and(&self, bits: u32, order: Ordering) -> u32 {
        stop(Stop::Access);
        self.0.fetch_and(bits, order)
    }
    /// Writes if the value is what the caller thinks.
    ///
    /// # Errors
    /// The value, when it is another one.
    pub fn compare_exchange(&self, old: u32, new: u32, done: Ordering, not: Ordering) -> Result<u32, u32> {
        stop(Stop::Access);
        self.0.compare_exchange(old, new, done, not)
    }
}

/// One core of a story: a coroutine, and what the explorer has to know of it.
pub(crate) struct Core {
    /// Runs until it stops; ends when its world is over and it polls.
    body: Coroutine,
    /// Why it stopped.
    stop: Stop,
    /// It turns in a wait loop, and nobody else has done anything since.
    waits: bool,
}

impl Core {
    pub(crate) fn new(body: impl FnOnce() + Send + 'static) -> Self {
        let code = move || {
            body();
            Stop::Poll(false)
        };
        let body = match ENDED.with_borrow_mut(Vec::pop) {
            Some(mut ended) => {
                ended.init_code(code);
                ended
            }
            None => generator::Gn::new_opt(0x8000, code),
        };
        Self { body, stop: Stop::Poll(true), waits: false }
    }
}

/// What the explorer asks of a story about its core number `index`.
pub(crate) trait World {
    /// An interrupt is pending.
    fn has_interrupt(&self, index: usize) -> bool;
    /// Says whether the core sees it at its next look, or does what is next in its story first.
    fn show_interrupt(&self, index: usize, shown: bool);
    /// Called after each stop: takes what the core sent; returns whether it turned in a wait loop.
    fn stopped(&self, index: usize) -> bool;
    /// Only cores that turn in wait loops can run: their time is up.
    fn let_time_pass(&self);
    /// The story is over: coroutines end at their next look.
    fn quit(&self);
}

/// The choices of one run, for the next one: what was taken, of how many.
#[derive(Default)]
struct Path {
    taken: Vec<(usize, usize)>,
    place: usize,
}

impl Path {
    fn choose(&mut self, of: usize) -> usize {
        if self.place == self.taken.len() {
            self.taken.push((0, of));
        }
        let (taken, before) = self.taken[self.place];
        assert_eq!(before, of, "a story that is told again must be the same");
        self.place += 1;
        taken
    }

    /// Goes to the next run; false when all are done.
    fn next(&mut self) -> bool {
        self.place = 0;
        while let Some((taken, of)) = self.taken.pop() {
            if taken + 1 < of {
                self.taken.push((taken + 1, of));
                return true;
            }
        }
        false
    }
}

/// Tells a story in every order with at most `most_preemptions`; returns in how many. `tell` makes a new world and its
/// cores, hands them over, and looks at what has become of them.
pub(crate) fn explore<W: World>(most_preemptions: usize, tell: impl Fn(&dyn Fn(&W, Vec<Core>))) -> usize {
    let path = std::cell::RefCell::new(Path::default());
    let mut runs = 0;
    loop {
        tell(&|world, cores| run(world, cores, &mut path.borrow_mut(), most_preemptions));
        runs += 1;
        if !path.borrow_mut().next() {
            return runs;
        }
    }
}

fn run<W: World>(world: &W, mut cores: Vec<Core>, path: &mut Path, most_preemptions: usize) {
    let (mut current, mut left) = (0, most_preemptions);
    loop {
        let ready = |core: &Core, index: usize| match core.stop {
            Stop::Access => !core.waits,
            Stop::Poll(has_more) => has_more || world.has_interrupt(index),
        };
        // Which core may run, whether it sees its interrupt, and what that costs.
        let mut choices = Vec::new();
        let current_is_ready = ready(&cores[current], current);
        // A core that only looks whether an interrupt is pending, and sees none, makes no difference to the others.
        let only_looks = cores[current].stop == Stop::Poll(true) && !world.has_interrupt(current);
        let others = if only_looks { 0..0 } else { 0..current };
        let end = if only_looks { current + 1 } else { cores.len() };
        for index in (current..end).chain(others).filter(|index| ready(&cores[*index], *index)) {
            let cost = usize::from(index != current && current_is_ready);
            choices.push((index, true, cost));
            if cores[index].stop == Stop::Poll(true) && world.has_interrupt(index) {
                choices.push((index, false, cost + 1));
            }
        }
        choices.retain(|(_, _, cost)| *cost <= left);
        if choices.is_empty() {
            if !cores.iter().any(|core| core.waits) {
                break;
            }
            world.let_time_pass();
            cores.iter_mut().for_each(|core| core.waits = false);
            continue;
        }
        let (index, shown, cost) = choices[if choices.len() == 1 { 0 } else { path.choose(choices.len()) }];
        left -= cost;
        current = index;
        world.show_interrupt(index, shown);
        step(&mut cores[index]);
        let waits = world.stopped(index);
        if !waits {
            cores.iter_mut().for_each(|core| core.waits = false);
        }
        cores[index].waits = waits;
    }
    world.quit();
    for mut core in cores {
        while !core.body.is_done() {
            step(&mut core);
        }
        ENDED.with_borrow_mut(|ended| ended.push(core.body));
    }
}

fn step(core: &mut Core) {
    EXPLORING.set(true);
    let stop = core.body.resume();
    EXPLORING.set(false);
    core.stop = stop.unwrap_or(Stop::Poll(false));
}
