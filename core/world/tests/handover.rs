//! The hand-over of urgent interrupts on a fake of the interrupt controller, with the source at every instant: both triggers, private and
//! shared, while the world's own handler runs or not (SG-44, SG-85).

use bulkhead_arm::Intid;
use bulkhead_world::flash::{MOST_URGENT, UrgentPlan};
use bulkhead_world::handover::{HandOver, PRIORITY, Registers};
use std::cell::Cell;

/// What the world's own registers say, which nobody may lose.
const OWN_PRIORITY: u8 = 0xa0;

/// One interrupt of the controller (IHI 0069, 4.1): what is latched, and the line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Line {
    group: bool,
    modifier: bool,
    is_enabled: bool,
    is_latched: bool,
    is_active: bool,
    is_edge: bool,
    level: bool,
    priority: u8,
}

impl Line {
    fn is_pending(&self) -> bool {
        self.is_latched || !self.is_edge && self.level
    }

    fn is_signalled(&self) -> bool {
        self.is_enabled && self.is_pending() && !self.is_active
    }

    fn is_secure(&self) -> bool {
        !self.group && self.modifier
    }
}

/// Something that the device does, by the number of the instant.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Device {
    Raise,
    Lower,
}

struct Fake {
    intid: Intid,
    line: Cell<Line>,
    /// Instants so far: one for each access and each step of a world.
    instant: Cell<u32>,
    script: Vec<(u32, Device)>,
    last_raised: Cell<Option<u32>>,
}

impl Fake {
    /// One instant passes, in which the device may do something.
    fn pass(&self) {
        let now = self.instant.get();
        let mut line = self.line.get();
        for (_, what) in self.script.iter().filter(|(at, _)| *at == now) {
            let level = *what == Device::Raise;
            line.is_latched |= line.is_edge && level && !line.level;
            if level && !line.level {
                self.last_raised.set(Some(now));
            }
            line.level = level;
        }
        self.line.set(line);
        self.instant.set(now + 1);
    }

    fn change(&self, change: impl FnOnce(&mut Line)) {
        let mut line = self.line.get();
        change(&mut line);
        self.line.set(line);
    }

    /// The register and the bit of our interrupt in a word, or nothing if the word is another one's.
    fn find(&self, of: Intid, offset: u64) -> u64 {
        assert_eq!(of, self.intid, "of one interrupt alone");
        let register = offset & !0x7f;
        let (per_word, base) = if (0xc00..0xd00).contains(&offset) { (16, 0xc00) } else { (32, register) };
        assert_eq!((offset - base) / 4, u64::from(self.intid.0 / per_word), "its word: {offset:#x}");
        base
    }
}

impl Registers for Fake {
    fn read(&self, of: Intid, offset: u64) -> u32 {
        self.pass();
        let line = self.line.get();
        let (register, bit) = (self.find(of, offset), of.bit());
        let own = match register {
            0x080 => line.group,
            0xd00 => line.modifier,
            0x100 | 0x180 => line.is_enabled,
            0x300 | 0x380 => line.is_active,
            0xc00 => return 0x5555_5555 & !(3 << (of.0 % 16 * 2)) | u32::from(line.is_edge) << (of.0 % 16 * 2 + 1),
            _ => panic!("reads {offset:#x}"),
        };
        // Other interrupts of the word: groups are mixed, the rest is set, so that a write of it would be seen.
        0x3333_3333 & !bit | if own { bit } else { 0 }
    }

    fn write(&mut self, of: Intid, offset: u64, value: u32) {
        self.pass();
        let (register, bit) = (self.find(of, offset), of.bit());
        let is_set = value & bit != 0;
        match register {
            0x080 | 0xd00 => {
                assert_eq!(value & !bit, 0x3333_3333 & !bit, "groups of others");
                assert!(!self.line.get().is_active, "the group of an active interrupt: {:?}", self.line.get());
                self.change(|line| if register == 0x080 { line.group = is_set } else { line.modifier = is_set });
                let line = self.line.get();
                assert!(line.group || line.modifier, "group 0: {line:?}");
            }
            0x100 | 0x180 | 0x200 => {
                assert_eq!(value, bit, "one interrupt alone");
                self.change(|line| match register {
                    0x100 => line.is_enabled = true,
                    0x180 => line.is_enabled = false,
                    _ => line.is_latched = true,
                });
            }
            _ => panic!("writes {offset:#x}"),
        }
    }

    fn read_byte(&self, of: Intid, offset: u64) -> u8 {
        self.pass();
        assert_eq!((of, offset), (self.intid, 0x400 + u64::from(of.0)));
        self.line.get().priority
    }

    fn write_byte(&mut self, of: Intid, offset: u64, value: u8) {
        self.pass();
        assert_eq!((of, offset), (self.intid, 0x400 + u64::from(of.0)));
        self.change(|line| line.priority = value);
    }
}

/// Both worlds on one core, and what they saw.
struct Machine {
    fake: Fake,
    hand_over: HandOver,
    /// The world has acknowledged the interrupt and not ended it: steps of its handler that are left.
    handler_left: u32,
    /// The handlers that began: at which instants.
    handled: Vec<u32>,
    fired: u32,
}

/// Steps of the world's handler, in the second of which it serves the device.
const HANDLER: u32 = 4;

impl Machine {
    fn new(intid: u32, is_edge: bool, is_enabled: bool, script: Vec<(u32, Device)>) -> Self {
        let mut plan = [UrgentPlan { intid: 0, server: 0 }; MOST_URGENT];
        plan[2] = UrgentPlan { intid, server: 1 };
        let line = Line { group: true, is_enabled, is_edge, priority: OWN_PRIORITY, ..Line::default() };
        let (instant, last_raised) = (Cell::new(0), Cell::new(None));
        let fake = Fake { intid: Intid(intid), line: Cell::new(line), instant, script, last_raised };
        Self { fake, hand_over: HandOver::new(&plan), handler_left: 0, handled: Vec::new(), fired: 0 }
    }

    /// The world runs for some steps.
    fn non_secure(&mut self, steps: u32) {
        assert!(!self.hand_over.is_armed());
        for _ in 0..steps {
            let line = self.fake.line.get();
            assert!(line.group && !line.modifier && line.priority == OWN_PRIORITY, "it runs with {line:?}");
            if self.handler_left > 0 {
                self.handler_left -= 1;
                match self.handler_left {
                    // It has served a device whose line stays up until then.
                    2 if !line.is_edge => self.fake.change(|line| line.level = false),
                    0 => self.fake.change(|line| line.is_active = false),
                    _ => (),
                }
            } else if line.is_signalled() {
                self.fake.change(|line| (line.is_active, line.is_latched) = (true, false));
                self.handler_left = HANDLER;
                self.handled.push(self.fake.instant.get());
            }
            self.fake.pass();
        }
    }

    /// The world is absent for some steps of the payload, which takes what is signalled to it.
    fn secure(&mut self, steps: u32) {
        let enabled_before = self.fake.line.get().is_enabled;
        let is_cut_off = self.fake.line.get().is_active;
        let cut_off = self.hand_over.arm(&mut self.fake);
        assert_eq!(cut_off, if is_cut_off { 1 << 1 } else { 0 }, "its server goes on with the handler");
        assert_eq!(self.hand_over.is_armed(), enabled_before && !is_cut_off);
        let mut fired = 0;
        for _ in 0..steps {
            let line = self.fake.line.get();
            if line.is_signalled() && line.is_secure() {
                assert_eq!(line.priority, PRIORITY);
                self.fake.change(|line| (line.is_active, line.is_latched) = (true, false));
                assert_eq!(self.hand_over.fire(self.fake.intid, &mut self.fake), Some(1));
                assert_eq!(self.hand_over.fire(self.fake.intid, &mut self.fake), None);
                assert!(!self.hand_over.hand_back(&mut self.fake), "not while the payload handles it");
                assert!(self.hand_over.is_armed());
                self.fake.pass();
                self.fake.change(|line| line.is_active = false);
                fired += 1;
            }
            self.fake.pass();
        }
        assert!(fired <= 1, "fires once per absence");
        assert!(fired == 0 || !is_cut_off && enabled_before, "neither what is active nor what is disabled fires");
        self.fired += fired;
        assert!(self.hand_over.hand_back(&mut self.fake));
        assert_eq!(self.fake.line.get().is_enabled, enabled_before, "the world's own enable bit");
    }

    /// Two absences between steps of the world; long enough at the end that everything is handled.
    fn run(mut self) -> Self {
        self.non_secure(5);
        self.secure(4);
        self.non_secure(2);
        self.secure(3);
        self.non_secure(3 * HANDLER);
        self
    }
}

/// More instants than a run has: 14 accesses at most each way, and the steps of both worlds.
const INSTANTS: u32 = 110;

/// Private and shared interrupts, at the ends of words.
const INTIDS: [u32; 4] = [27, 31, 32, 79];

/// SG-44, SG-85: the device at each instant, and again at each later one: no edge is lost, and no level while it lasts.
#[test]
fn what_arrives_at_any_instant_is_handled() {
    let (mut fired, mut direct) = (0, 0);
    for intid in INTIDS {
        for is_edge in [false, true] {
            for first in 0..INSTANTS {
                for second in first..INSTANTS {
                    let mut script = vec![(first, Device::Raise)];
                    if is_edge {
                        script.extend([(first + 1, Device::Lower), (second + 2, Device::Raise)]);
                    }
                    let machine = Machine::new(intid, is_edge, true, script).run();
                    if let Some(raised) = machine.fake.last_raised.get() {
                        let last = machine.handled.last();
                        let is_in_time = raised + HANDLER + 1 < machine.fake.instant.get();
                        let is_late = last.is_none_or(|at| *at < raised);
                        assert!(
                            !(is_late && is_in_time),
                            "INTID {intid}, edge {is_edge}, {first} {second}: {raised} {last:?}"
                        );
                        assert!(machine.handled.len() <= 2, "an interrupt that nobody sent");
                    }
                    assert!(machine.fake.instant.get() < INSTANTS);
                    fired += machine.fired;
                    direct += u32::from(machine.fired == 0 && !machine.handled.is_empty());
                    if !is_edge {
                        break;
                    }
                }
            }
        }
    }
    assert!(fired > 1000 && direct > 1000, "both ways are taken: {fired} {direct}");
}

/// SG-44: a level that goes away before the world runs is no interrupt, at whatever instant; it was one for the payload at most.
#[test]
fn a_level_that_went_away_is_not_made_up() {
    for first in 20..40 {
        for second in first + 1..45 {
            let machine = Machine::new(40, false, true, vec![(first, Device::Raise), (second, Device::Lower)]).run();
            let is_in_absence = machine.handled.is_empty();
            assert!(
                is_in_absence || machine.handled.iter().all(|at| *at >= first && *at <= second + 1),
                "{first} {second}"
            );
        }
    }
}

/// SG-44: what the world has disabled stays its own, and is pending when it enables it.
#[test]
fn a_disabled_interrupt_is_never_armed() {
    for is_edge in [false, true] {
        for first in 0..INSTANTS {
            let mut machine = Machine::new(34, is_edge, false, vec![(first, Device::Raise)]).run();
            assert_eq!((machine.fired, machine.handled.len()), (0, 0));
            machine.fake.change(|line| line.is_enabled = true);
            machine.non_secure(2);
            let has_been_raised = machine.fake.last_raised.get().is_some_and(|at| at + 1 < machine.fake.instant.get());
            assert_eq!(machine.handled.len(), usize::from(has_been_raised), "{is_edge} {first}");
        }
    }
}

/// Numbers that are no lines are left out, and an interrupt of another is not fired.
#[test]
fn only_lines_of_the_plan_are_handed_over() {
    let plan = [0, 15, 1020, 1023, 5000, u32::MAX, 0, 0].map(|intid| UrgentPlan { intid, server: 0 });
    assert_eq!(HandOver::new(&plan), HandOver::none());
    let mut machine = Machine::new(40, true, true, vec![]);
    assert_eq!(machine.hand_over.arm(&mut machine.fake), 0);
    assert!(machine.hand_over.is_armed());
    assert_eq!(machine.hand_over.fire(Intid(41), &mut machine.fake), None);
}
