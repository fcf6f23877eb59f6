//! Counters, trace records and console rings: plain stores by their single writer.

use crate::state::Vcpu;
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::console::{CONSOLE_MAGIC, ConsoleHeader};
use bulkhead_abi::observe::{COUNTERS_MAGIC, Counter, CounterPage, TRACE_MAGIC, TraceHeader};
use bulkhead_arch::Machine;
use core::mem::offset_of;

/// Offset of the first counter in a counter page.
pub const COUNTER_VALUES_OFFSET: u64 = offset_of!(CounterPage, values) as u64;

pub(crate) const fn at(base: PhysicalAddress, offset: u64) -> PhysicalAddress {
    PhysicalAddress(base.0.wrapping_add(offset))
}

impl<M: Machine> Vcpu<M> {
    /// Prepares the counter page, the trace ring and the console ring of this core.
    pub fn prepare_rings(&mut self) {
        let write = |page, offset: usize, value| self.machine.store64(at(page, offset as u64), value);
        write(self.plan.counters, offset_of!(CounterPage, phase), 1);
        write(self.plan.counters, 0, COUNTERS_MAGIC);
        let has_trace = self.plan.trace.0 != 0 && self.core.trace.mask != 0;
        if has_trace {
            let header = self.plan.trace;
            write(header, offset_of!(TraceHeader, enabled), self.plan.trace_enabled);
            write(header, offset_of!(TraceHeader, capacity), self.core.trace.mask.wrapping_add(1));
            write(header, offset_of!(TraceHeader, written), 0);
            write(header, 0, TRACE_MAGIC);
        }
        if self.plan.console.0 != 0 {
            let header = self.plan.console;
            write(header, offset_of!(ConsoleHeader, capacity), self.console.capacity());
            write(header, offset_of!(ConsoleHeader, written), 0);
            write(header, 0, CONSOLE_MAGIC);
        }
        self.core.trace.enabled = has_trace && self.plan.trace_enabled == 1;
    }

    /// Adds one to a counter.
    // A load, an addition and a store at a constant offset, at least once in each exit.
    #[inline(always)]
    pub fn count(&self, counter: Counter) {
        let slot = PhysicalAddress(self.head.counters.wrapping_add((counter as u64).wrapping_mul(8)));
        self.machine.store64(slot, self.machine.load64(slot).wrapping_add(1));
    }

    /// Reads a counter.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.machine.load64(PhysicalAddress(self.head.counters.wrapping_add((counter as u64).wrapping_mul(8))))
    }

    /// Writes a trace record if recording is on.
    // One comparison when nothing is recorded; as a function, which it is without this, it is a call even then.
    #[inline(always)]
    pub fn trace(&mut self, kind: u16, small: u32, first: u64, second: u64) {
        if self.core.trace.enabled {
            self.write_trace(kind, small, first, second);
        }
    }

    /// Writes a record about another partition of this core, or about nobody (0xff).
    // Only recording comes here: kept out of the interrupts of a system that records nothing.
    #[cold]
    pub(crate) fn trace_for(&mut self, partition: u64, kind: u16, small: u32, first: u64, second: u64) {
        let own = self.core.trace.identity;
        self.core.trace.identity = own & !(0xff << 24) | partition << 24;
        self.write_trace(kind, small, first, second);
        self.core.trace.identity = own;
    }

    /// The cost of a record is asserted, so everything that does not change is computed once.
    // `trace.record` is asserted, and has no room for a call.
    #[inline(always)]
    pub(crate) fn write_trace(&mut self, kind: u16, small: u32, first: u64, second: u64) {
        let trace = &mut self.core.trace;
        let record = PhysicalAddress(trace.records.wrapping_add((trace.written & trace.mask) << 5));
        let head = trace.identity | u64::from(kind) | u64::from(small) << 32;
        self.machine.store_record(record, [self.machine.counter_ticks(), head, first, second]);
        trace.written = trace.written.wrapping_add(1);
        self.machine.publish64(PhysicalAddress(trace.written_word), trace.written);
    }

    /// Appends a byte of the virtual UART to this vCPU's console ring.
    // A part of `console.byte`, which is at its ceiling.
    #[inline(always)]
    pub fn console_byte(&mut self, byte: u8) {
        let ring = &mut self.console;
        if ring.entry == 0 {
            return;
        }
        self.machine.store64(PhysicalAddress(ring.entry), self.machine.counter_ticks() << 8 | u64::from(byte));
        let next = ring.entry.wrapping_add(8);
        ring.entry = if next < ring.end { next } else { ring.first };
        ring.written = ring.written.wrapping_add(1);
        self.machine.publish64(PhysicalAddress(ring.written_word), ring.written);
    }

    /// Tells the host how far this core is (see [`CounterPage::phase`]).
    pub fn set_phase(&self, phase: u64) {
        let page = self.plan.counters;
        let entered = at(page, offset_of!(CounterPage, entered_ticks) as u64);
        if phase == 2 && self.machine.load64(entered) == 0 {
            self.machine.store64(entered, self.machine.counter_ticks());
        }
        self.machine.store64(at(page, offset_of!(CounterPage, phase) as u64), phase);
    }
}
