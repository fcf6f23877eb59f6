//! Watches a siege: each tick of the victims in time, or what broke and which seed or attack was under way.

use crate::arrangement::{ARRANGEMENTS, Promise};
use crate::siege::{Attack, Siege, VICTIMS};
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{STATE_OFF, STATE_RUNNING, STATE_STOPPED};
use bulkhead_description::board::BUILT_IN;
use bulkhead_run::{CrashReport, Machine, Observer};
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// The longest that nothing may be heard of the attacker. Only a failure waits so long.
const SILENCE: Duration = Duration::from_secs(120);
/// Lines of the attacker that are kept for a report.
const KEPT: usize = 48;
/// A victim whose latest tick is this much older than the attacker's latest line is dead, in counter ticks: 40 ms.
/// Where no time is promised, it has to continue in the end.
const DEAD: u64 = 2_500_000;

/// Where a guest's virtual UART is, as it sees it: where the board has its own.
const UART: std::ops::Range<u64> = 0x0900_0000..0x0900_1000;

/// What a victim wrote down (`guests/ticker`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// Ticks handled.
    pub ticks: u64,
    /// Date of the latest tick, or doorbell, in counter ticks.
    pub date: u64,
    /// Longest time from a date to its handler, in counter ticks.
    pub latest: u64,
    /// Chains begun, or doorbells received.
    pub begun: u64,
    /// Chains ended, or doorbells answered.
    pub ended: u64,
    /// Longest chain, in counter ticks.
    pub longest: u64,
    /// Bounds broken.
    pub failures: u64,
    /// Interrupts that nobody asked for.
    pub strays: u64,
}

/// What was seen of a siege that everybody survived.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What the victims wrote down.
    pub victims: [Words; 3],
    /// Restarts of the attacker.
    pub restarts: u64,
    /// Steps that the attacker did by all seeds, or attacks of the list.
    pub steps: u64,
    /// Accesses of random steps to registers of the attacker's virtual UART, as announced.
    pub uart: u64,
    /// Accesses to the attacker's virtual UART that its monitors counted, its output included.
    pub uart_answered: u64,
    /// Times that a step left a shared interrupt of the attacker's own pending or active.
    pub held: u64,
    /// Doorbells that came for the attacker.
    pub received: u64,
    /// Accesses of random steps to a device of the attacker's own.
    pub device: u64,
    /// Accesses to the attacker's PCI bus that its monitors answered: to configuration space, to registers.
    pub pci: [u64; 2],
    /// Attacks of the list that were skipped, by name.
    pub skipped: Vec<String>,
    /// The last line of the attacker.
    pub done: String,
}

/// What broke.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What it was.
    pub what: String,
    /// The seed under way.
    pub seed: Option<u64>,
    /// The attacker's lines up to then.
    pub lines: Vec<String>,
    arrangement: &'static str,
    attack: Attack,
    board: Box<str>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "arrangement {}: {}", self.arrangement, self.what)?;
        writeln!(f, "the attacker's latest lines:")?;
        for line in &self.lines {
            writeln!(f, "  {line}")?;
        }
        if let (Some(seed), Attack::Seeds { first, .. }) = (self.seed, self.attack) {
            let board =
                if &*self.board == BUILT_IN.default { String::new() } else { format!(" --board {}", self.board) };
            writeln!(f, "seed {seed}; alone: ./x bench soak{board} --seed {seed}")?;
            let count = seed.saturating_sub(first) / ARRANGEMENTS.len() as u64 + 1;
            writeln!(f, "as it happened: ./x bench soak{board} --seed {first} --count {count}")?;
        }
        Ok(())
    }
}

/// What is known while it runs.
struct Watch<'a> {
    siege: &'a Siege,
    /// Lines read of each partition.
    read: [usize; 4],
    words: [Option<PhysicalAddress>; 3],
    lines: VecDeque<String>,
    seed: Option<u64>,
    steps: u64,
    uart: u64,
    held: u64,
    device: u64,
    /// Name of the attack of the list under way.
    attack: String,
    skipped: Vec<String>,
    /// Time of the attacker's latest line.
    now: u64,
    /// Times that the victims' budgets had been used up when the attacks began: by their own starts.
    used_up: Option<[u64; 3]>,
    /// The attacker's partition had ended at the latest look.
    has_ended: bool,
}

enum Event {
    Heard,
    Done(String),
    Broken(String),
}

/// Waits for the attacker's end and looks at the victims all the time.
///
/// # Errors
/// With the first thing that broke.
pub fn watch(machine: &mut Machine, siege: &Siege) -> Result<Seen, Failure> {
    let mut watch = Watch {
        siege,
        read: [0; 4],
        words: [None; 3],
        lines: VecDeque::new(),
        seed: None,
        steps: 0,
        uart: 0,
        held: 0,
        device: 0,
        attack: String::new(),
        skipped: Vec::new(),
        now: 0,
        used_up: None,
        has_ended: false,
    };
    let done = loop {
        let event = machine.wait_for("a sign of the attacker", SILENCE, |view| {
            let observer = view.observer?;
            watch.look(view.lines, observer)
        });
        match event {
            Ok(Event::Heard) => {}
            Ok(Event::Done(line)) => break line,
            Ok(Event::Broken(what)) => return Err(watch.failure(what)),
            Err(error) => return Err(watch.failure(error.to_string())),
        }
    };
    // Nobody who died is overlooked, wherever time says nothing.
    let after = machine.observer().map(|observer| watch.all_words(observer)).unwrap_or_default();
    let lives = machine.wait_for("the victims to continue", SILENCE, |view| {
        let now = watch.all_words(view.observer?);
        let goes_on = |victim: usize| now[victim].date > after[victim].date && now[victim].ended >= after[victim].ended;
        ((0..3).all(goes_on) && now[1].ended > after[1].ended).then_some(())
    });
    lives.map_err(|error| watch.failure(error.to_string()))?;
    let observer = machine.observer().ok_or_else(|| watch.failure("the machine has no monitor".to_owned()))?;
    watch.conclude(observer, done)
}

impl Watch<'_> {
    fn failure(&self, what: String) -> Failure {
        Failure {
            what,
            seed: self.seed,
            lines: self.lines.iter().cloned().collect(),
            arrangement: self.siege.arrangement.name,
            attack: self.siege.attack,
            board: self.siege.system.board.name.as_str().into(),
        }
    }

    fn look(&mut self, lines: &[bulkhead_run::LineLog], observer: &Observer) -> Option<Event> {
        let mut event = self.listen_to_attacker(lines);
        for (victim, name) in VICTIMS.iter().enumerate() {
            let Some(log) = lines.get(victim) else { continue };
            for (number, line) in log.since(self.read[victim]) {
                self.read[victim] = number + 1;
                if let Some(address) = line.text.strip_prefix("ticker start words=0x") {
                    self.words[victim] = physical(observer, victim, address);
                } else if line.text.contains("FAILED") {
                    return Some(Event::Broken(format!("{name}: {}", line.text)));
                }
            }
        }
        if self.now != 0 && self.used_up.is_none() {
            self.used_up = exhaustions(observer);
        }
        if self.siege.arrangement.promise == Promise::InHand && self.used_up.is_some() {
            let now = exhaustions(observer);
            if now != self.used_up {
                let what = format!(
                    "a budget was used up ({:?}, then {now:?}), which its bounds take for granted",
                    self.used_up
                );
                return Some(Event::Broken(what));
            }
        }
        // Read after the attacker's lines, so they are at least as new.
        let has_bounds = self.siege.arrangement.promise != Promise::Counts;
        let is_dead = |date: u64| has_bounds && date.saturating_add(DEAD) < self.now;
        for (victim, name) in VICTIMS.iter().enumerate() {
            let date = self.words(observer, victim).date;
            if date != 0 && is_dead(date) {
                let what = format!("{name} is dead: its latest interrupt is of {date}, and it is {}", self.now);
                return Some(Event::Broken(what));
            }
            let status = observer.status(victim);
            if self.words[victim].is_some() && (status.state, status.generation, status.faults) != (STATE_RUNNING, 1, 0)
            {
                return Some(Event::Broken(format!("{name} is no longer what it was: {status:?}")));
            }
        }
        let has_ended = matches!(observer.status(VICTIMS.len()).state, STATE_OFF | STATE_STOPPED);
        // What it printed just before its end is read in the next look.
        if event.is_none() && self.has_ended && has_ended {
            event = Some(Event::Broken("the attacker's run ended before its attacks did".to_owned()));
        }
        self.has_ended = has_ended;
        event
    }

    fn listen_to_attacker(&mut self, lines: &[bulkhead_run::LineLog]) -> Option<Event> {
        let place = VICTIMS.len();
        let mut event = None;
        for (number, line) in lines.get(place)?.since(self.read[place]) {
            self.read[place] = number + 1;
            self.now = self.now.max(line.time_ticks);
            if let Some(seed) = line.text.strip_prefix("seed ") {
                self.seed = seed.split(' ').next().and_then(|seed| seed.parse().ok());
            }
            let is_step = line.text.starts_with("step ") || line.text.contains(" result ");
            self.steps += u64::from(is_step);
            self.count(&line.text);
            self.lines.push_back(format!("{:>12} {}", line.time_ticks, line.text));
            if self.lines.len() > KEPT {
                self.lines.pop_front();
            }
            if line.text.starts_with("attacks done") || line.text.starts_with("seeds done") {
                return Some(Event::Done(line.text.clone()));
            }
            event = Some(Event::Heard);
        }
        event
    }

    /// Counts what a line of the attacker says that it reached.
    fn count(&mut self, text: &str) {
        let words: Vec<&str> = text.split(' ').collect();
        match words[..] {
            ["step", _, _, "uart" | "frame", address, ..] => {
                let address = u64::from_str_radix(address, 16).unwrap_or(0);
                self.uart += u64::from(UART.contains(&address));
            }
            ["step", _, _, "device", _, _] => self.device += 1,
            ["held", _, _, _, _, _, pending, active] => self.held += u64::from((pending, active) != ("0", "0")),
            ["attack", _, "result", "skipped:", ..] => self.skipped.push(self.attack.clone()),
            ["attack", number, ..] => {
                let start = "attack ".len() + number.len() + 1;
                let announced = text.get(start..).and_then(|rest| rest.rsplit_once(": expect "));
                if let Some((name, _)) = announced {
                    name.clone_into(&mut self.attack);
                }
            }
            _ => {}
        }
    }

    fn words(&self, observer: &Observer, victim: usize) -> Words {
        let Some(address) = self.words.get(victim).copied().flatten() else { return Words::default() };
        let word = |number: u64| observer.ram().load_u64(PhysicalAddress(address.0 + 8 * number)).unwrap_or(0);
        Words {
            ticks: word(0),
            date: word(1),
            latest: word(2),
            begun: word(3),
            ended: word(4),
            longest: word(5),
            failures: word(6),
            strays: word(7),
        }
    }

    fn all_words(&self, observer: &Observer) -> [Words; 3] {
        [0, 1, 2].map(|victim| self.words(observer, victim))
    }

    /// What must hold in the end.
    fn conclude(&self, observer: &Observer, done: String) -> Result<Seen, Failure> {
        let victims = self.all_words(observer);
        let broken = |what: String| Err(self.failure(format!("{what}: {victims:?}")));
        if let Some(report) = CrashReport::find(observer) {
            return Err(self.failure(report.to_string()));
        }
        if victims.iter().any(|words| words.failures != 0 || words.strays != 0) {
            return broken("a bound was broken, or an interrupt came that nobody asked for".to_owned());
        }
        if victims[0].ticks == 0 || victims[1].ticks == 0 || victims[2].begun == 0 {
            return broken("a victim never ran".to_owned());
        }
        // The host reads while the machine runs.
        if victims[1].begun.saturating_sub(victims[1].ended) > 1 {
            return broken("chains are missing".to_owned());
        }
        if self.siege.arrangement.promise == Promise::InHand && self.used_up != exhaustions(observer) {
            let (before, now) = (self.used_up, exhaustions(observer));
            return broken(format!(
                "a budget was used up ({before:?}, then {now:?}), which its bounds take for granted"
            ));
        }
        // Behind what the plan filled is what the monitor writes.
        let header = &observer.plan().header;
        let planned = usize::try_from(header.image_bytes).ok().and_then(|bytes| self.siege.image.get(..bytes));
        let mut now = vec![0; planned.map_or(0, <[u8]>::len)];
        if !observer.ram().copy_at(header.image_start, &mut now) || planned != Some(now.as_slice()) {
            return broken("the image in RAM changed".to_owned());
        }
        let restarts = observer.status(VICTIMS.len()).restarts;
        let counted = |counter| observer.partition_counter(VICTIMS.len(), counter);
        Ok(Seen {
            victims,
            restarts: u64::from(restarts),
            steps: self.steps,
            uart: self.uart,
            uart_answered: counted(Counter::Console),
            held: self.held,
            received: counted(Counter::DoorbellReceived),
            device: self.device,
            pci: [counted(Counter::PciConfig), counted(Counter::PciRegisters)],
            skipped: self.skipped.clone(),
            done,
        })
    }
}

/// How often the budgets of the victims were used up.
fn exhaustions(observer: &Observer) -> Option<[u64; 3]> {
    let usage = observer.usage(0)?;
    let schedule = observer.plan().cores.first()?.schedule.as_ref()?;
    let of = |victim: usize| {
        let slot = schedule.slots.iter().position(|slot| slot.partition as usize == victim);
        let server = schedule.servers.iter().position(|server| Some(server.slot as usize) == slot);
        server.and_then(|server| usage.servers.get(server)).map_or(0, |server| server.exhaustions)
    };
    Some([0, 1, 2].map(of))
}

fn physical(observer: &Observer, victim: usize, address: &str) -> Option<PhysicalAddress> {
    let address = u64::from_str_radix(address.trim(), 16).ok()?;
    let region = observer.plan().partitions.get(victim)?.ram.first()?;
    let offset = address.checked_sub(region.guest.0).filter(|offset| *offset < region.bytes)?;
    Some(PhysicalAddress(region.physical.0 + offset))
}
