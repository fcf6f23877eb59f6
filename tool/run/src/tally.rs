//! What a payload's records come to so far, for `bulkhead stats`: secure RAM cannot be looked into, so the run that reads the secure console adds
//! up what comes over it, and tells its visitors.
//!
//! The numbers are the payload's own. What was lost on the way is missing in them; they say how many records were lost, and how many pieces of
//! records came damaged.

use crate::command::time_text;
use crate::diagnosis::{reason_name, state_name};
use crate::worlds::{MOST_TASKS, NOBODY, Records, Task, TracePlan, own_tasks, server_names};
use bulkhead_abi::status::{REASON_NONE, STATE_INITIAL, STATE_RESTARTING, STATE_RUNNING};
use bulkhead_files::table::table;
use bulkhead_plan::model::KERNEL_TICK_NS;
use bulkhead_plan::ticks;
use bulkhead_world::records::{Kind, Record};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// How often a task was given the core, and for how many ticks of the counter.
#[derive(Clone, Copy, Debug, Default)]
struct Ran {
    activations: u64,
    ticks: u64,
}

/// Records in sum.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    plan: TracePlan,
    world: String,
    /// Records and damaged pieces that are in it already.
    taken: (usize, u64),
    tasks: Vec<Task>,
    /// Records of names that found no place among these.
    left_out: u64,
    ran: BTreeMap<u64, Ran>,
    /// Who runs, and since when.
    running: Option<(u64, u64)>,
    latest: u64,
    /// By server: budgets that were used up, and that were whole again.
    budgets: Vec<(u64, u64)>,
    /// The world's state, its reason, its starts and its restarts.
    state: (u32, u32, u64, u64),
    lost: u64,
}

impl Tally {
    /// Nothing yet.
    pub(crate) fn new(plan: TracePlan, world: String) -> Self {
        Self {
            budgets: vec![(0, 0); plan.servers.len()],
            plan,
            world,
            taken: (0, 0),
            tasks: Vec::new(),
            left_out: 0,
            ran: BTreeMap::new(),
            running: None,
            latest: 0,
            state: (STATE_INITIAL, REASON_NONE, 0, 0),
            lost: 0,
        }
    }

    /// Adds what is new in all records of a run so far; false if nothing is.
    pub(crate) fn take(&mut self, records: &Records) -> bool {
        let taken = (records.list.len(), records.damaged);
        if taken == self.taken {
            return false;
        }
        for record in records.list.iter().skip(self.taken.0) {
            self.add(record);
        }
        self.taken = taken;
        true
    }

    fn add(&mut self, record: &Record) {
        let Some(kind) = record.kind() else { return };
        if !Task::note(&mut self.tasks, record) {
            self.left_out = self.left_out.saturating_add(1);
        }
        let server = usize::try_from(record.argument).unwrap_or(usize::MAX);
        match kind {
            Kind::Named | Kind::NamedOn => return,
            Kind::Runs => {
                self.close(record.counter);
                self.running = Some((record.argument, record.counter));
                if let Some(ran) = self.ran_of(record.argument) {
                    ran.activations = ran.activations.saturating_add(1);
                }
            }
            // Until when the last one ran was not seen.
            Kind::Lost => {
                self.lost = self.lost.saturating_add(record.argument);
                self.running = None;
            }
            Kind::State => {
                let (state, reason) = (record.argument as u32, (record.argument >> 32) as u32);
                let (.., starts, restarts) = self.state;
                let [starts, restarts] = [(STATE_RUNNING, starts), (STATE_RESTARTING, restarts)]
                    .map(|(is, count)| count.saturating_add(u64::from(state == is)));
                self.state = (state, reason, starts, restarts);
            }
            Kind::UsedUp => {
                if let Some((used_up, _)) = self.budgets.get_mut(server) {
                    *used_up = used_up.saturating_add(1);
                }
            }
            Kind::Filled => {
                if let Some((_, filled)) = self.budgets.get_mut(server) {
                    *filled = filled.saturating_add(1);
                }
            }
        }
        self.latest = self.latest.max(record.counter);
    }

    /// What a task had. Those with a name have a place, and some without one: their name may follow.
    fn ran_of(&mut self, number: u64) -> Option<&mut Ran> {
        let is_known = self.ran.contains_key(&number) || self.tasks.iter().any(|task| task.number == number);
        (is_known || self.ran.len() < MOST_TASKS).then(|| self.ran.entry(number).or_default())
    }

    /// Ends the turn that was under way.
    fn close(&mut self, counter: u64) {
        let running = self.running.take();
        if let Some((since, ran)) = running.and_then(|(task, since)| Some((since, self.ran_of(task)?))) {
            ran.ticks = ran.ticks.saturating_add(counter.saturating_sub(since));
        }
    }

    /// What all tasks that are meant had together.
    fn of(&self, is_meant: impl Fn(Option<&Task>) -> bool) -> Ran {
        let task = |number: u64| self.tasks.iter().find(|task| task.number == number);
        let meant = self.ran.iter().filter(|(number, _)| is_meant(task(**number)));
        meant.fold(Ran::default(), |sum, (_, ran)| Ran {
            activations: sum.activations.saturating_add(ran.activations),
            ticks: sum.ticks.saturating_add(ran.ticks),
        })
    }

    /// For programs, and for [`text`].
    pub(crate) fn value(&self) -> Value {
        let to_ns = |ticks| ticks::to_ns(ticks, self.plan.counter_hz);
        let (state, reason, starts, restarts) = self.state;
        let names = server_names(&self.plan, &self.world);
        let servers = self.plan.servers.iter().zip(names).zip(&self.budgets).enumerate();
        let servers = servers.map(|(place, ((server, name), (used_up, filled)))| {
            let ran = self.of(|task| task.is_some_and(|task| task.place == place + 1));
            let limit = |ns: u64| Some(ns).filter(|_| server.budget_ticks != 0);
            json!({
                "name": name,
                "priority": server.priority,
                "budget_ns": limit(to_ns(server.budget_ticks)),
                "period_ns": limit(u64::from(server.period) * KERNEL_TICK_NS),
                "activations": ran.activations,
                "ran_ns": to_ns(ran.ticks),
                "budgets_used_up": used_up,
                "budgets_filled": filled,
            })
        });
        let own = own_tasks(&self.tasks).map(|(task, name)| {
            let ran = self.ran.get(&task.number).copied().unwrap_or_default();
            json!({ "name": name, "activations": ran.activations, "ran_ns": to_ns(ran.ticks) })
        });
        json!({
            "world": self.world,
            "state": state_name(state),
            "reason": reason_name(reason),
            "starts": starts,
            "restarts": restarts,
            "time_ns": to_ns(self.latest),
            "idle_ns": to_ns(self.of(|task| task.is_some_and(|task| task.name() == NOBODY)).ticks),
            "records_lost": self.lost,
            "pieces_damaged": self.taken.1,
            "servers": servers.collect::<Vec<_>>(),
            "tasks": own.collect::<Vec<_>>(),
            "names_left_out": self.left_out,
        })
    }
}

/// What a visitor was told, as tables for people.
pub(crate) fn text(value: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let count = |value: &Value| value.as_u64().map_or_else(|| "-".to_owned(), |count| count.to_string());
    let time = |value: &Value| value.as_u64().map_or_else(|| "-".to_owned(), time_text);
    let list = |key: &str| value[key].as_array().map(Vec::as_slice).unwrap_or_default().to_vec();
    let damaged = match value["pieces_damaged"].as_u64() {
        Some(pieces @ 1..) => format!(", {pieces} pieces of records damaged"),
        _ => String::new(),
    };
    let mut text = format!(
        "payload of the secure world: idle {}, {} records lost{damaged}, as of {}\n",
        time(&value["idle_ns"]),
        count(&value["records_lost"]),
        time(&value["time_ns"]),
    );
    let head = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let mut rows = vec![head(&["world", "state", "reason", "starts", "restarts"])];
    let row = ["world", "state", "reason"].map(|key| word(&value[key])).into_iter();
    rows.push(row.chain(["starts", "restarts"].map(|key| count(&value[key]))).collect());
    text.push_str(&table(&rows, 1, 2));
    let mut rows = vec![head(&["server", "priority", "budget", "period", "turns", "ran", "used up", "filled"])];
    rows.extend(list("servers").iter().map(|server| {
        vec![
            word(&server["name"]),
            count(&server["priority"]),
            time(&server["budget_ns"]),
            time(&server["period_ns"]),
            count(&server["activations"]),
            time(&server["ran_ns"]),
            count(&server["budgets_used_up"]),
            count(&server["budgets_filled"]),
        ]
    }));
    text.push('\n');
    text.push_str(&table(&rows, 1, 2));
    let mut rows = vec![head(&["task", "turns", "ran"])];
    let row = |task: &Value| vec![word(&task["name"]), count(&task["activations"]), time(&task["ran_ns"])];
    rows.extend(list("tasks").iter().map(row));
    text.push('\n');
    text.push_str(&table(&rows, 1, 2));
    if let Some(left_out @ 1..) = value["names_left_out"].as_u64() {
        text.push_str(&format!("\n{left_out} more names of tasks are left out: {MOST_TASKS} are kept apart\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{MOST_TASKS, Tally, text};
    use crate::control::GREETING_BYTES;
    use crate::worlds::Records;
    use crate::worlds::tests::{named, plan, record};
    use bulkhead_world::records::Kind;

    /// A tick is 16 ns, a millisecond 62,500 of them.
    const MS: u64 = 62_500;

    fn records() -> Records {
        let mut list: Vec<_> = named(7, "trajectory", 0).into_iter().chain(named(8, "itask", 1)).collect();
        list.extend(named(9, "btask", 2).into_iter().chain(named(1, "IDLE", 0)));
        let runs = [(0, 7), (1, 8), (3, 9), (10, 7), (12, 8), (13, 1)];
        list.extend(runs.map(|(at, task)| record(Kind::Runs, at * MS, task)));
        list.push(record(Kind::UsedUp, 3 * MS, 0));
        list.push(record(Kind::Filled, 12 * MS, 0));
        // Running, restarting because of no progress, running.
        list.extend([1, 4 | 6 << 32, 1].map(|state| record(Kind::State, 13 * MS, state)));
        list.push(record(Kind::Runs, 20 * MS, 9));
        Records { list, damaged: 0 }
    }

    #[test]
    fn activations_overruns_and_restarts_are_added_up() {
        let (mut tally, records) = (Tally::new(plan(), "linux".to_owned()), records());
        // In two pieces, as they come.
        let some = Records { list: records.list[..9].to_vec(), damaged: 0 };
        assert!(tally.take(&some) && tally.take(&records) && !tally.take(&records), "each record once");
        let value = tally.value();
        let server = |place: usize| {
            let one = &value["servers"][place];
            [&one["activations"], &one["ran_ns"], &one["budgets_used_up"], &one["budgets_filled"]]
                .map(|value| value.as_u64().expect("a number"))
        };
        assert_eq!((server(0), server(1)), ([2, 3_000_000, 1, 1], [2, 7_000_000, 0, 0]));
        assert_eq!(
            (&value["tasks"][0]["name"], &value["tasks"][0]["ran_ns"]),
            (&"trajectory".into(), &3_000_000.into())
        );
        assert_eq!(
            (&value["starts"], &value["restarts"], &value["idle_ns"]),
            (&2.into(), &1.into(), &7_000_000.into())
        );
        assert_eq!(value["tasks"].as_array().map(Vec::len), Some(1), "nobody is no task");
        let shown = text(&value);
        for part in ["as of 20.000 ms", "linux.itask", "2.000 ms", "30.000 ms", "trajectory"] {
            assert!(shown.contains(part), "{part} is missing in:\n{shown}");
        }
    }

    /// What ran while records were lost is nobody's, and the sum says that some are missing.
    #[test]
    fn lost_records_are_said_and_no_time_is_made_up() {
        let mut tally = Tally::new(plan(), "linux".to_owned());
        let mut list: Vec<_> = named(9, "btask", 2).into();
        list.extend([record(Kind::Runs, 0, 9), record(Kind::Lost, 50 * MS, 7), record(Kind::Runs, 60 * MS, 9)]);
        assert!(tally.take(&Records { list, damaged: 2 }));
        let value = tally.value();
        assert_eq!((&value["records_lost"], &value["pieces_damaged"]), (&7.into(), &2.into()));
        assert_eq!((&value["servers"][1]["activations"], &value["servers"][1]["ran_ns"]), (&2.into(), &0.into()));
        assert!(text(&value).contains("7 records lost, 2 pieces of records damaged"), "{}", text(&value));
    }

    /// A visitor believes no longer greeting, so a payload that names many tasks must not make one.
    #[test]
    fn many_names_do_not_make_the_greeting_too_long() {
        let mut tally = Tally::new(plan(), "linux".to_owned());
        // What JSON writes longest.
        let name = "\u{1}".repeat(15);
        let mut list: Vec<_> = named(7, "trajectory", 0).into();
        list.extend((10..5_010).flat_map(|number| named(number, &name, 0)));
        list.extend((0..6_000).map(|number| record(Kind::Runs, number * MS, number)));
        list.push(record(Kind::Runs, 6_000 * MS, 7));
        assert!(tally.take(&Records { list, damaged: 0 }));
        let value = tally.value();
        let (tasks, greeting) = (value["tasks"].as_array().map(Vec::len), value.to_string());
        assert_eq!((tasks, &value["names_left_out"]), (Some(MOST_TASKS), &(5_001 - MOST_TASKS).into()));
        assert!(greeting.len() < GREETING_BYTES as usize / 2, "{}", greeting.len());
        assert_eq!(value["tasks"][0]["activations"], 2, "one with a name is counted");
        assert!(tally.ran.len() <= 2 * MOST_TASKS, "{}", tally.ran.len());
        assert!(text(&value).ends_with("4937 more names of tasks are left out: 64 are kept apart\n"));
    }

    /// A payload writes what it likes, and a visitor may be told anything.
    #[test]
    fn nothing_that_a_payload_writes_stops_the_sum() {
        let mut tally = Tally::new(plan(), "linux".to_owned());
        let words = [0, 1, 2, 255, u64::from(u32::MAX), u64::MAX];
        let kinds = [Kind::Runs, Kind::Named, Kind::NamedOn, Kind::Lost, Kind::State, Kind::UsedUp, Kind::Filled];
        let list = kinds
            .into_iter()
            .flat_map(|kind| words.into_iter().flat_map(move |one| words.map(|other| record(kind, one, other))));
        assert!(tally.take(&Records { list: list.collect(), damaged: 0 }));
        assert!(!text(&tally.value()).is_empty() && !text(&serde_json::json!([1])).is_empty());
    }
}
