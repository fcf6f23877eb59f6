//! A GIC model with an owner per bit: it panics on any access that the partition may not cause. The heart of the tests.

use bulkhead_abi::plan::PartitionPlan;
use bulkhead_emulation::gic::{GicPort, PRIORITY_BITS, physical_priority};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// What lies behind the port.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame {
    Distributor,
    Redistributor,
}

/// How many security states the board has: with two, EL2 sees half of its GIC (IHI 0069, 4.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum States {
    One,
    Two,
}

impl States {
    pub(crate) const BOTH: [Self; 2] = [Self::One, Self::Two];

    /// The physical priority, of five bits, of what EL2 writes.
    fn physical(self, written: u8) -> u8 {
        PRIORITY_BITS & if self == Self::One { written } else { 0x80 | written >> 1 }
    }
}

/// Registers as words; writes are checked against the owned INTIDs by arithmetic that shares nothing with the filter.
pub(crate) struct Shadow {
    frame: Frame,
    states: States,
    fill: u32,
    owned: Vec<u32>,
    cores: Vec<u64>,
    pub(crate) words: RefCell<BTreeMap<u64, u32>>,
    pub(crate) accesses: Cell<usize>,
    pub(crate) priorities: RefCell<BTreeMap<u32, u8>>,
}

impl Shadow {
    /// A GIC whose registers hold zero.
    pub(crate) fn new(states: States, frame: Frame, plan: &PartitionPlan) -> Self {
        Self::filled(states, frame, plan, 0)
    }

    /// A GIC whose registers hold this word wherever nothing was set.
    pub(crate) fn filled(states: States, frame: Frame, plan: &PartitionPlan, fill: u32) -> Self {
        let owned: Vec<u32> = match frame {
            Frame::Distributor => {
                let planned = plan.interrupts().iter().map(|interrupt| interrupt.intid);
                planned.filter(|intid| (32..256).contains(intid)).collect()
            }
            Frame::Redistributor => (0..15).chain([27, 30]).collect(),
        };
        let cores = plan.vcpu_mpidr().iter().map(|m| m & 0xff_00ff_ffff).collect();
        Self {
            frame,
            states,
            fill,
            owned,
            cores,
            words: RefCell::default(),
            accesses: Cell::new(0),
            priorities: RefCell::default(),
        }
    }

    /// Offset within the register bank.
    fn bank(&self, offset: u64) -> u64 {
        match self.frame {
            Frame::Distributor => offset,
            Frame::Redistributor => {
                assert_eq!(offset >> 16, 1, "only the SGI frame is forwarded, not {offset:#x}");
                offset & 0xffff
            }
        }
    }

    fn count(&self) {
        self.accesses.set(self.accesses.get() + 1);
    }

    pub(crate) fn set(&self, offset: u64, value: u32) {
        self.words.borrow_mut().insert(offset, value);
    }
}

impl Shadow {
    /// Checks that the guest saw nothing of others in a value that it read from this register of the bank.
    pub(crate) fn check_seen(&self, register: u64, bytes: u8, value: u64) {
        assert!(bytes == 8 || value >> (8 * u32::from(bytes)) == 0, "{bytes} bytes read {value:#x}");
        for byte in 0..u64::from(bytes) {
            let at = register + byte;
            let bits = (value >> (8 * byte)) as u8;
            for bit in (0..8u32).filter(|bit| bits & (1 << bit) != 0) {
                let intid = match at {
                    0x080..0x400 => (at % 0x80) as u32 * 8 + bit,
                    0x400..0x800 => (at - 0x400) as u32,
                    0xc00..0xd00 => (at - 0xc00) as u32 * 4 + bit / 2,
                    _ => continue,
                };
                assert!(self.owned.contains(&intid), "INTID {intid} is visible at {at:#x}");
            }
        }
    }
}

impl GicPort for &Shadow {
    fn read32(&self, offset: u64) -> u32 {
        assert_eq!(offset % 4, 0);
        self.count();
        let register = self.bank(offset);
        // Groups are no question of the hardware, which may hide them; priorities are kept for the guest.
        assert!((0x100..0x400).contains(&register) || (0xc00..0xd00).contains(&register), "read of {register:#x}");
        self.words.borrow().get(&offset).copied().unwrap_or(self.fill)
    }

    fn write32(&self, offset: u64, value: u32) {
        assert_eq!(offset % 4, 0);
        self.count();
        let register = self.bank(offset);
        // A10, A11: only write-one registers are written as words; never GICD_CTLR, IGROUPR, ICFGR, IGRPMODR.
        assert!((0x100..0x400).contains(&register), "word write to {register:#x}");
        let first = (register % 0x80) as u32 * 8;
        for bit in 0..32 {
            assert!(
                value & (1 << bit) == 0 || self.owned.contains(&(first + bit)),
                "INTID {} at {register:#x}",
                first + bit
            );
        }
    }

    fn priority(&self, intid: u32) -> u8 {
        self.count();
        assert!(self.owned.contains(&intid), "priority of {intid}");
        self.priorities.borrow().get(&intid).copied().unwrap_or(self.fill as u8)
    }

    fn write_priority(&self, intid: u32, value: u8) {
        self.count();
        assert!(self.owned.contains(&intid), "priority of {intid}");
        // What the monitor does with it. A8: 0 is the monitor's own, which nothing of a guest is as urgent as; and every interrupt
        // of a guest is signalled by the largest mask.
        let physical = self.states.physical(physical_priority(value));
        assert!(physical > self.states.physical(0), "{:?}: priority {value} is the monitor's", self.states);
        assert!(physical < self.states.physical(0xff), "{:?}: priority {value} is never signalled", self.states);
        self.priorities.borrow_mut().insert(intid, value & PRIORITY_BITS);
    }

    fn read64(&self, offset: u64) -> u64 {
        self.count();
        assert!(self.frame == Frame::Distributor && offset.is_multiple_of(8));
        assert!(self.owned.contains(&((offset - 0x6000) as u32 / 8)));
        let words = self.words.borrow();
        let word = |at| u64::from(words.get(&at).copied().unwrap_or(self.fill));
        word(offset) | word(offset + 4) << 32
    }

    fn write_route(&self, intid: u32, value: u64) {
        self.count();
        assert!(self.frame == Frame::Distributor);
        assert!(self.owned.contains(&intid), "route of {intid}");
        assert!(self.cores.contains(&value), "routed to {value:#x}");
        let offset = 0x6000 + 8 * u64::from(intid);
        self.set(offset, value as u32);
        self.set(offset + 4, (value >> 32) as u32);
    }
}
