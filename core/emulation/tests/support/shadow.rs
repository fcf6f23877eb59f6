//! A GIC model with an owner per bit: it panics on any access that the partition may not cause. The heart of the tests.

use bulkhead_abi::plan::PartitionPlan;
use bulkhead_emulation::gic::GicPort;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// What lies behind the port.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame {
    Distributor,
    Redistributor,
}

/// Registers as words; writes are checked against the owned INTIDs by arithmetic that shares nothing with the filter.
pub(crate) struct Shadow {
    frame: Frame,
    fill: u32,
    owned: Vec<u32>,
    cores: Vec<u64>,
    pub(crate) words: RefCell<BTreeMap<u64, u32>>,
    pub(crate) accesses: Cell<usize>,
    pub(crate) priorities: RefCell<BTreeMap<u32, u8>>,
}

impl Shadow {
    /// A GIC whose registers hold zero.
    pub(crate) fn new(frame: Frame, plan: &PartitionPlan) -> Self {
        Self::filled(frame, plan, 0)
    }

    /// A GIC whose registers hold this word wherever nothing was set.
    pub(crate) fn filled(frame: Frame, plan: &PartitionPlan, fill: u32) -> Self {
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
        assert!((0x100..0x800).contains(&register) || (0xc00..0xd00).contains(&register), "read of {register:#x}");
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

    fn write_priority(&self, offset: u64, intid: u32, value: u8) {
        self.count();
        let register = self.bank(offset);
        assert!((0x400..0x800).contains(&register), "byte write to {register:#x}");
        assert!(self.owned.contains(&((register - 0x400) as u32)), "priority of {}", register - 0x400);
        // A8: 0 is the monitor's.
        assert!(value >= 8, "priority {value}");
        assert_eq!(u64::from(intid), register - 0x400);
        self.priorities.borrow_mut().insert(intid, value);
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
