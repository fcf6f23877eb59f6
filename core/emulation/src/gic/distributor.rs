//! GICD, 64 KiB (Arm IHI 0069, 12.8 and 12.9).

use super::bank::{Bank, is_set_clear};
use super::{DISTRIBUTOR_CONTROL, Filter, GicPort, IMPLEMENTER, PERIPHERAL_ID2, half};
use bulkhead_arm::gic::{self, GICD_CTLR, GICD_IIDR, GICD_TYPER};
use bulkhead_arm::{Affinity, Intid};

/// GICD_TYPER: 10 INTID bits, No1N; no LPIs, no message-based SPIs, one security state.
const TYPE: u32 = gic::GICD_TYPER_NO_1_OF_N | 9 << gic::GICD_TYPER_INTID_BITS_SHIFT;
/// Routes of the interrupts that can be routed.
const ROUTER_FIRST: u64 = gic::route(Intid(Intid::FIRST_SHARED));
const ROUTER_LAST: u64 = gic::route(Intid(Intid::FIRST_SPECIAL)) - 1;
/// The bit, byte and pair registers.
const BANK_FIRST: u64 = gic::BANK.start;
const BANK_END: u64 = gic::BANK.end;

impl<Port: GicPort> Filter<'_, Port> {
    fn shared_bank(&self) -> Bank<'_, Port> {
        Bank { port: &self.port, base: 0, owned: &self.owned.shared }
    }

    /// Reads the distributor. `offset` is relative to its base.
    #[must_use]
    #[inline]
    pub fn distributor_read(self, offset: u64, bytes: u8) -> Option<u64> {
        if bytes == 4 && offset & 3 == 0 && is_set_clear(offset) {
            return Some(u64::from(self.shared_bank().read_set_clear(offset)));
        }
        if bytes == 4 && offset == GICD_TYPER {
            return Some(u64::from(self.kind()));
        }
        self.other_read(offset, bytes)
    }

    #[inline(never)]
    fn other_read(self, offset: u64, bytes: u8) -> Option<u64> {
        match (offset, bytes) {
            (BANK_FIRST..BANK_END, _) => self.shared_bank().read(offset, bytes),
            (ROUTER_FIRST..=ROUTER_LAST, 8) if offset & 7 == 0 => Some(self.route_read(offset)),
            (ROUTER_FIRST..=ROUTER_LAST, 4) if offset & 3 == 0 => Some(half(self.route_read(offset & !7), offset)),
            (_, 4) if offset & 3 == 0 => Some(u64::from(self.identification(offset))),
            _ => None,
        }
    }

    /// Writes the distributor. `offset` is relative to its base; `value` has at most `bytes` bytes.
    #[must_use = "the monitor counts ignored writes"]
    #[inline]
    pub fn distributor_write(self, offset: u64, bytes: u8, value: u64) -> bool {
        if bytes == 4 && offset & 3 == 0 && is_set_clear(offset) {
            return self.shared_bank().write_set_clear(offset, value as u32);
        }
        self.other_write(offset, bytes, value)
    }

    #[inline(never)]
    fn other_write(self, offset: u64, bytes: u8, value: u64) -> bool {
        match (offset, bytes) {
            (BANK_FIRST..BANK_END, _) => self.shared_bank().write(offset, bytes, value),
            (ROUTER_FIRST..=ROUTER_LAST, 8) if offset & 7 == 0 => self.route_write(offset, value),
            (ROUTER_FIRST..=ROUTER_LAST, 4) if offset & 7 == 0 => self.route_write(offset, value & 0xffff_ffff),
            // The upper half of a route holds Aff3 alone, which is 0 for every vCPU.
            (ROUTER_FIRST..=ROUTER_LAST, 4) if offset & 7 == 4 => value as u32 == 0,
            (_, 4) if offset & 3 == 0 => value as u32 == self.identification(offset),
            _ => false,
        }
    }

    /// The read-only registers; everything that is not listed is RAZ/WI: TYPER2, STATUSR, message-based
    /// SPIs (no MBIS), SGIR and ITARGETSR (RES0 under affinity routing), the extended SPI range.
    fn identification(&self, offset: u64) -> u32 {
        match offset {
            GICD_CTLR => DISTRIBUTOR_CONTROL,
            GICD_TYPER => self.kind(),
            GICD_IIDR => IMPLEMENTER,
            gic::PERIPHERAL_ID2 => PERIPHERAL_ID2,
            _ => 0,
        }
    }

    /// GICD_TYPER, which has an instruction budget. Just enough SPIs: every line less is an IROUTER write less while Linux boots.
    #[inline(always)]
    fn kind(&self) -> u32 {
        TYPE | (self.plan.highest_intid >> 5).min(31)
    }

    /// Reads a route back as virtual affinity: the number of the vCPU that runs on the core.
    fn route_read(&self, offset: u64) -> u64 {
        if !self.owned.owns(routed_intid(offset)) {
            return 0;
        }
        let route = self.port.read64(offset) & Affinity::FIELDS;
        let cores = self.plan.vcpu_mpidr().iter();
        cores.zip(0u64..).find(|(mpidr, _)| **mpidr & Affinity::FIELDS == route).map_or(0, |(_, vcpu)| vcpu)
    }

    /// Routes an own SPI to the core of a vCPU. "Any core" means vCPU 0: GICD_TYPER.No1N says that the mode does not exist.
    fn route_write(&self, offset: u64, value: u64) -> bool {
        if !self.owned.owns(routed_intid(offset)) {
            return value == 0;
        }
        let vcpu = if value & gic::IROUTER_ANY_CORE != 0 { 0 } else { value & Affinity::FIELDS };
        let cores = self.plan.vcpu_mpidr().iter();
        let core = cores.zip(0u64..).find(|(_, index)| *index == vcpu);
        if let Some((mpidr, _)) = core {
            self.port.write_route(routed_intid(offset), mpidr & Affinity::FIELDS);
        }
        core.is_some()
    }
}

/// The INTID of a GICD_IROUTER offset.
const fn routed_intid(offset: u64) -> u32 {
    ((offset & 0x1fff) >> 3) as u32
}
