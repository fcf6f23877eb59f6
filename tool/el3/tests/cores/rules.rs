//! What must hold, whatever the order.

use super::{AFFINITY_INFO, CPU_OFF, CPU_ON, Call, EL2, ENDED, KICKS, STARTS, Search, TURN, WINDOW, line};
use crate::machine::Place;
use bulkhead_world::context::{CORE_BYTES, Context};
use bulkhead_world::cores::{CALL_KICK, CALL_WATCH, MOST_CORES};
use bulkhead_world::flash::secure_ram;

impl Search<'_> {
    /// A call that may be allowed to start a core: the caller is EL2, the core is another's, the entry the world's.
    pub(super) fn is_start(&self, call: &Call) -> bool {
        let function = call.x[0] & 0xffff_ffff;
        call.state == EL2
            && function & 0xbfff_ffff == CPU_ON & 0xbfff_ffff
            && call.x[1] < MOST_CORES as u64
            && call.x[2].is_multiple_of(4)
            && call.x[2] >= WINDOW.0
            && call.x[2] - WINDOW.0 <= WINDOW.1 - 4
    }

    /// A world begins on a core that had none.
    pub(super) fn begins(&mut self, core: usize, entry: u64, state: u64, call: Option<&Call>) {
        let x = self.machine.cores[core].x;
        assert_ne!(core, 0, "the payload's core begins again after {call:x?}");
        assert_eq!(state, EL2);
        assert_eq!(x[1..], [0; 30], "registers of a world that begins");
        assert!(call.is_none_or(Call::is_end), "a world that called begins again: {call:x?}");
        let found = self
            .wanted
            .iter_mut()
            .find(|one| (one.core, one.entry, one.argument, one.is_used) == (core, entry, x[0], false));
        let found = found
            .unwrap_or_else(|| panic!("core {core} begins at {entry:#x} with {:#x}, which nobody asked for", x[0]));
        found.is_used = true;
        self.begun[core] += 1;
        assert_eq!(found.is_payloads, ![0, CPU_OFF].contains(&self.ends[core]), "who lets a world begin");
        self.ends[core] = 0;
        assert_eq!(self.machine.cores[core].ended, 16, "priorities that a world before left active");
        assert_eq!(self.machine.cores[core].read("S3_6_C12_C12_7"), Context::SECURE_GROUP);
        self.seen[0] += 1;
        assert_eq!(self.word(core, TURN) % 2, 1);
        assert_eq!(self.word(core, ENDED), 0);
    }

    pub(super) fn answered(&mut self, call: &Call, answer: u64) {
        let function = call.x[0] & 0xffff_ffff;
        let is_el2 = call.state == EL2;
        let core = call.x[1];
        let is_start = self.is_start(call);
        // What other cores do meanwhile may be seen or not.
        let is_still = core < 4 && self.word(core as usize, TURN) == call.turn;
        let is_on = call.turn % 2 == 1;
        let expected: &[i64] = match function {
            _ if !is_el2 => &[-1],
            CALL_KICK if core < 4 && KICKS[call.by] >> core & 1 == 1 => &[0],
            CALL_KICK => &[-2],
            CALL_WATCH if call.by != 0 => &[0],
            0x8400_0003 | CPU_ON if core >= 4 => &[-2],
            0x8400_0003 | CPU_ON if !is_start => &[-9],
            0x8400_0003 | CPU_ON if !is_still => &[0, -4, -5],
            0x8400_0003 | CPU_ON if is_on => &[-4],
            // The caller's own request for this turn, which no other core writes.
            0x8400_0003 | CPU_ON if call.request[0] == call.turn + 1 => &[-5],
            0x8400_0003 | CPU_ON => &[0],
            0x8400_0004 | AFFINITY_INFO if core >= 4 || call.x[2] != 0 => &[-2],
            0x8400_0004 | AFFINITY_INFO if !is_still => &[0, 1],
            0x8400_0004 | AFFINITY_INFO => &[i64::from(!is_on)],
            _ => &[-1],
        };
        assert!(
            expected.contains(&(answer as i64)),
            "{:x?} of core {}, {:#x}: {answer:#x}",
            &call.x[..4],
            call.by,
            call.state
        );
        self.seen[3] += u64::from(answer as i64 == -1);
        if call.by != 0 && function == CALL_WATCH && is_el2 {
            let one = &self.machine.cores[call.by];
            let ticks = one.read("S3_7_C14_C2_2").wrapping_sub(self.machine.now) as i64;
            let wanted = call.x[1].clamp(625, 625_000_000) as i64;
            let is_soon = ticks <= wanted && ticks > wanted - 2_000;
            assert!(one.read("S3_7_C14_C2_1") == 1 && is_soon, "a watch of {wanted} ends in {ticks}");
        }
        if !is_start || answer != 0 {
            assert_eq!(self.request(call.by, core), call.request, "a call that was refused asks: {call:x?}");
        }
        if is_start && answer == 0 {
            assert!(!call.is_pending, "a request that waits is written over: {call:x?}");
            let made = self.wanted.iter_mut().find(|one| one.argument == call.x[3] && !one.is_payloads);
            made.expect("it was noted").is_accepted = true;
            self.latest[call.by] = Some(core);
        }
        if is_start && answer as i64 != 0 {
            // A refused start never happens.
            let at =
                self.wanted.iter().position(|one| one.argument == call.x[3] && !one.is_payloads).expect("it was noted");
            assert!(!self.wanted[at].is_used, "a core began by a call that was refused: {call:x?}");
            self.wanted.remove(at);
            assert!(
                answer as i64 != -4 || call.turn % 2 == 1 || self.word(core as usize, TURN) > call.turn,
                "ALREADY_ON of a core that is off"
            );
        }
    }

    /// A core writes its own context and line, and its own requests in those of others: each word of a store.
    pub(super) fn stored(&self, core: usize, address: u64, bytes: u64) {
        (address..address + bytes).step_by(8).for_each(|word| self.stored_word(core, word));
    }

    fn stored_word(&self, core: usize, address: u64) {
        let context = secure_ram::CONTEXTS + (CORE_BYTES * core) as u64;
        let is_own = (context..context + CORE_BYTES as u64).contains(&address)
            || (line(core)..line(core) + 64).contains(&address);
        let mut requests = (0..MOST_CORES).map(|other| line(other) + (STARTS + 32 * core) as u64);
        let is_request = requests.any(|first| (first..first + 24).contains(&address));
        assert!(is_own || is_request, "core {core} writes {address:#x}");
    }

    /// What holds of a core without a world.
    pub(super) fn waits(&mut self, core: usize) {
        for timer in ["S3_7_C14_C2_1", "cntp_ctl_el0", "cntv_ctl_el0", "S3_6_C12_C12_7"] {
            assert_eq!(self.machine.cores[core].read(timer), 0, "{timer} of a core without a world");
        }
        let turn = self.word(core, TURN);
        assert!(self.turns[core] <= turn, "turns grow");
        self.turns[core] = turn;
        let ended = if self.ends[core] == CPU_OFF { 0 } else { self.ends[core] };
        assert_eq!((self.word(core, ENDED), self.word(core, TURN) % 2), (ended, u64::from(ended != 0)));
    }

    /// When nobody calls any more, no start waits for ever.
    pub(super) fn settle(&mut self) {
        for _ in 0..4_000 {
            self.one(false);
        }
        for core in 1..MOST_CORES {
            let Place::Waits(_) = self.machine.cores[core].place else { continue };
            assert_eq!(self.machine.pending(core), None, "core {core} sleeps before an interrupt");
            let ticket = self.word(core, TURN) + 1;
            let waits = (0..MOST_CORES).any(|by| self.word(core, STARTS + 32 * by) == ticket);
            assert!(!waits, "core {core} sleeps, and was asked to start");
            self.seen[2] += 1;
        }
        for one in self.wanted.iter().filter(|one| !one.is_used) {
            let has_begun = self.begun[one.core] > one.before;
            assert!(has_begun, "a start that was accepted was no start, and no other one came before it: {one:x?}");
        }
        assert!(matches!(self.machine.cores[0].place, Place::Below { .. }));
        assert_eq!(self.machine.events, self.events, "ends that the payload was told of");
        assert_eq!(self.machine.cores[0].waits, 0, "the payload's core was kicked");
    }
}
