//! Overrun handlers and accounts: examples, and random histories against a model that counts single ticks.

use bulkhead_world::overrun::{Event, Overruns, Refused};
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};

const TASKS: usize = 3;

/// SG-43: the count stands while another task runs; at zero there is one event and nothing else.
#[test]
fn an_amount_is_spent_while_its_task_runs_and_reported_once() {
    let mut overruns = Overruns::<TASKS>::new();
    overruns.start(1, 100, 0).unwrap();
    assert_eq!(overruns.next_event_ticks(0), None, "it does not run");
    overruns.switch(Some(1), 10, |_| u64::MAX);
    assert_eq!(overruns.next_event_ticks(10), Some(110));
    overruns.switch(Some(0), 40, |_| u64::MAX);
    assert_eq!((overruns.remaining_ticks(1, 90), overruns.next_event_ticks(90)), (Some(70), None));
    overruns.switch(Some(1), 100, |_| u64::MAX);
    assert_eq!((overruns.take_event(169), overruns.next_event_ticks(169)), (None, Some(170)));
    assert_eq!(overruns.take_event(170), Some(Event::UsedUp(1)));
    assert_eq!((overruns.take_event(170), overruns.remaining_ticks(1, 171)), (None, None), "once");
    assert_eq!(overruns.next_event_ticks(500), None);
}

/// SG-43: stop takes the amount back, start replaces it, nonsense is refused.
#[test]
fn amounts_are_stopped_replaced_and_refused() {
    let mut overruns = Overruns::<TASKS>::new();
    overruns.switch(Some(2), 0, |_| u64::MAX);
    overruns.start(2, 50, 0).unwrap();
    assert_eq!(overruns.stop(2, 20), Some(30));
    assert_eq!((overruns.stop(2, 21), overruns.take_event(100)), (None, None));
    overruns.start(2, 50, 100).unwrap();
    overruns.start(2, 7, 140).unwrap();
    assert_eq!(overruns.next_event_ticks(140), Some(147));
    assert_eq!(overruns.start(2, 0, 140), Err(Refused::Nothing));
    assert_eq!(overruns.start(3, 1, 140), Err(Refused::NoTask));
    assert!(matches!(overruns.open(2, 10, 9, 0, 140), Err(Refused::Budget(_))));
    assert_eq!(overruns.remaining_ticks(2, 140), Some(7), "what was refused changes nothing");
    assert_eq!((overruns.stop(9, 150), overruns.remaining_ticks(9, 150)), (None, None));
}

/// SG-42: kept while unused, lost at the end of the period, and the grid is absolute however late somebody looks.
#[test]
fn an_account_is_deferrable() {
    let mut overruns = Overruns::<TASKS>::new();
    overruns.open(0, 2, 30, 0, 0).unwrap();
    assert_eq!(overruns.remaining_ticks(0, 29), Some(2), "kept");
    overruns.switch(Some(0), 29, |_| u64::MAX);
    // One tick of this period; the other one is lost, and the next budget begins: the double hit.
    assert_eq!(overruns.next_event_ticks(29), Some(32));
    assert_eq!((overruns.take_event(31), overruns.take_event(32)), (None, Some(Event::UsedUp(0))));
    overruns.switch(Some(1), 32, |_| u64::MAX);
    assert_eq!(overruns.next_event_ticks(32), Some(60), "filled at a multiple of the period");
    assert_eq!((overruns.take_event(59), overruns.take_event(60)), (None, Some(Event::Filled(0))));
    assert_eq!((overruns.take_event(60), overruns.remaining_ticks(0, 60)), (None, Some(2)));
    overruns.switch(Some(0), 1000, |_| u64::MAX);
    // 1000 is 10 ticks into its period. What was noticed 3 ticks late is a debt.
    assert_eq!((overruns.take_event(1005), overruns.remaining_ticks(0, 1005)), (Some(Event::UsedUp(0)), Some(0)));
    overruns.switch(None, 1005, |_| u64::MAX);
    assert_eq!((overruns.next_event_ticks(1005), overruns.take_event(1020)), (Some(1020), None));
    assert_eq!(overruns.next_event_ticks(1020), Some(1050), "the debt took all of that filling");
    assert_eq!((overruns.take_event(1050), overruns.remaining_ticks(0, 1050)), (Some(Event::Filled(0)), Some(1)));
}

/// SG-42: a budget that ends with its period is not used up: it is filled at that instant.
#[test]
fn a_budget_that_ends_with_its_period_is_followed_by_the_next() {
    let mut overruns = Overruns::<TASKS>::new();
    overruns.open(0, 10, 30, 0, 0).unwrap();
    overruns.switch(Some(0), 20, |_| u64::MAX);
    assert_eq!((overruns.next_event_ticks(20), overruns.take_event(30)), (Some(40), None));
    assert_eq!(overruns.take_event(40), Some(Event::UsedUp(0)));
}

/// SG-43: the tick that switches the task away at the instant of its overrun does not lose the event.
#[test]
fn an_event_that_was_not_taken_stays_due() {
    let mut overruns = Overruns::<TASKS>::new();
    overruns.start(0, 10, 0).unwrap();
    overruns.open(1, 10, 50, 0, 0).unwrap();
    for task in [0, 1] {
        let from = 20 * task as u64;
        overruns.switch(Some(task), from, |_| u64::MAX);
        overruns.switch(None, from + 10, |_| u64::MAX);
        assert_eq!(overruns.next_event_ticks(from + 12), Some(from + 12));
        assert_eq!(overruns.take_event(from + 12), Some(Event::UsedUp(task)));
    }
    assert_eq!(overruns.next_event_ticks(35), Some(50));
}

/// SG-50: who shares the timer is asked at each switch from then on, not before, and the earlier instant counts; it is no task's event.
#[test]
fn what_is_served_beside_has_the_earlier_date() {
    let mut overruns = Overruns::<TASKS>::new();
    overruns.start(1, 100, 0).unwrap();
    assert_eq!(overruns.switch(Some(1), 10, |_| panic!("asked")), 110);
    assert_eq!(overruns.switch(None, 20, |_| panic!("asked")), u64::MAX);
    overruns.serve_beside();
    for (task, beside, next) in [(Some(1), 60, 60), (Some(1), 500, 120), (Some(0), 40, 40), (None, u64::MAX, u64::MAX)]
    {
        let mut asked = None;
        let switched = overruns.switch(task, 30, |number| {
            asked = Some(number);
            beside
        });
        assert_eq!((switched, asked), (next, Some(task.unwrap_or(usize::MAX))));
    }
    assert_eq!((overruns.take_event(100), overruns.next_event_ticks(100)), (None, None));
}

/// One task of the model, which lives tick by tick and owes nothing to the rule under test.
#[derive(Clone, Copy, Debug, Default)]
enum Model {
    #[default]
    None,
    Once(i64),
    Account {
        left: i64,
        budget: i64,
        period: u64,
        start: u64,
        reported: bool,
    },
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Switch(Option<usize>),
    Beside,
    Start(usize, u64),
    Open(usize, u64, u64),
    Stop(usize),
    Advance(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let task = || 0..TASKS;
    let step = prop_oneof![
        2 => (any::<bool>(), task()).prop_map(|(one, task)| Step::Switch(one.then_some(task))),
        1 => (task(), 1..20u64).prop_map(|(task, ticks)| Step::Start(task, ticks)),
        1 => (task(), 1..12u64, 0..20u64).prop_map(|(task, budget, more)| Step::Open(task, budget, budget + more)),
        1 => task().prop_map(Step::Stop),
        1 => Just(Step::Beside),
        5 => (1..40u64).prop_map(Step::Advance),
    ];
    vec(step, 1..60)
}

impl Model {
    fn remaining(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Once(left) | Self::Account { left, .. } => Some(left.max(0) as u64),
        }
    }

    /// The tick that ends at `now`.
    fn tick(&mut self, runs: bool, now: u64) {
        match self {
            Self::None => (),
            Self::Once(left) => *left = (*left - i64::from(runs)).max(0),
            Self::Account { left, budget, period, start, .. } => {
                *left -= i64::from(runs);
                if (now - *start).is_multiple_of(*period) {
                    *left = (*left).min(0) + *budget;
                }
            }
        }
    }

    fn event(&mut self, task: usize) -> Option<Event> {
        match self {
            Self::Once(0) => {
                *self = Self::None;
                Some(Event::UsedUp(task))
            }
            Self::Account { left, reported, .. } if *reported == (*left > 0) => {
                *reported = !*reported;
                Some(if *reported { Event::UsedUp(task) } else { Event::Filled(task) })
            }
            _ => None,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// SG-42, SG-43: what is left is right at every tick, and a caller that looks only when it was told to, in time or late, sees each
    /// event at the first look at which the model has it, once.
    #[test]
    fn histories_agree_with_a_model_of_single_ticks(steps in steps(), late in 0..4u64) {
        let (mut overruns, mut model) = (Overruns::<TASKS>::new(), [Model::None; TASKS]);
        let (mut now, mut running, mut beside) = (0u64, None, None);
        for step in steps {
            match step {
                Step::Switch(task) => {
                    let switched = overruns.switch(task, now, |_| beside.expect("asked"));
                    let own = overruns.next_event_ticks(now).unwrap_or(u64::MAX);
                    assert_eq!(switched, own.min(beside.unwrap_or(u64::MAX)));
                    running = task;
                }
                Step::Beside => {
                    overruns.serve_beside();
                    beside = Some(now + late * 8);
                }
                Step::Start(task, ticks) => {
                    overruns.start(task, ticks, now).unwrap();
                    model[task] = Model::Once(ticks as i64);
                }
                Step::Open(task, budget, period) => {
                    overruns.open(task, budget, period, now, now).unwrap();
                    model[task] = Model::Account { left: budget as i64, budget: budget as i64, period, start: now, reported: false };
                }
                Step::Stop(task) => {
                    assert_eq!(overruns.stop(task, now), model[task].remaining());
                    model[task] = Model::None;
                }
                Step::Advance(ticks) => {
                    let mut due = overruns.next_event_ticks(now);
                    for _ in 0..ticks {
                        now += 1;
                        for (task, one) in model.iter_mut().enumerate() {
                            one.tick(running == Some(task), now);
                        }
                        // Nothing is due before it is said to be, and what is due can be taken then.
                        let is_due = model.iter_mut().enumerate().any(|(task, one)| one.clone().event(task).is_some());
                        assert!(!is_due || due.is_some_and(|due| due <= now), "at {now}: {due:?}, {model:?}");
                        if due.is_some_and(|due| due + late <= now) {
                            let expected: Vec<Event> = model.iter_mut().enumerate().filter_map(|(task, one)| one.event(task)).collect();
                            let mut taken = Vec::new();
                            while let Some(event) = overruns.take_event(now) { taken.push(event); }
                            assert_eq!(taken, expected, "at {now}");
                            due = overruns.next_event_ticks(now);
                            assert!(due.is_none_or(|due| due > now), "an event that was taken is not due again");
                        }
                    }
                    for (task, one) in model.iter().enumerate() {
                        assert_eq!(overruns.remaining_ticks(task, now), one.remaining(), "task {task} at {now}: {model:?}");
                    }
                }
            }
        }
    }
}
