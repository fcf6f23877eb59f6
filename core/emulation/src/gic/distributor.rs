//! GICD, 64 KiB (Arm IHI 0069, 12.8 and 12.9).

use super::bank::{Bank, is_priority, is_set_clear};
use super::{
    DISTRIBUTOR_CONTROL, GicPort, IMPLEMENTER, OwnedInterrupts, PERIPHERAL_ID2, PERIPHERAL_ID2_OFFSET, Rejected,
    Written, half,
};
use bulkhead_abi::plan::PartitionPlan;

const CONTROL: u64 = 0x0000;
const TYPER: u64 = 0x0004;
const IIDR: u64 = 0x0008;
/// `GICD_IROUTER<n>` is at 0x6000 + 8n, n = 32..=1019.
const ROUTER_FIRST: u64 = 0x6100;
const ROUTER_LAST: u64 = 0x7fdf;
/// Affinity fields of IROUTER and MPIDR: Aff3 39:32, Aff2 23:16, Aff1 15:8, Aff0 7:0.
const AFFINITY: u64 = 0xff_00ff_ffff;
/// GICD_IROUTER.Interrupt_Routing_Mode.
const ANY_CORE: u64 = 1 << 31;
/// End of the bit, byte and pair registers.
const BANK_END: u64 = 0x1000;

/// Reads the distributor. `offset` is relative to its base.
///
/// # Errors
///
/// [`Rejected`] when the register has no access of this width; the guest then reads zero.
#[inline]
pub fn distributor_read(
    owned: &OwnedInterrupts,
    plan: &PartitionPlan,
    port: &impl GicPort,
    offset: u64,
    bytes: u8,
) -> Result<u64, Rejected> {
    let bank = Bank { port, base: 0, owned: &owned.shared };
    if bytes == 4 && offset & 3 == 0 && is_set_clear(offset) {
        return Ok(u64::from(bank.read_set_clear(offset)));
    }
    other_read(owned, plan, port, offset, bytes)
}

#[inline(never)]
fn other_read(
    owned: &OwnedInterrupts,
    plan: &PartitionPlan,
    port: &impl GicPort,
    offset: u64,
    bytes: u8,
) -> Result<u64, Rejected> {
    let bank = Bank { port, base: 0, owned: &owned.shared };
    match bytes {
        4 if offset & 3 == 0 => Ok(match offset {
            0x080..BANK_END => u64::from(bank.read(offset)),
            ROUTER_FIRST..=ROUTER_LAST => half(route_read(owned, plan, port, offset & !7), offset),
            _ => u64::from(identification(plan, offset)),
        }),
        8 if offset & 7 == 0 && matches!(offset, ROUTER_FIRST..=ROUTER_LAST) => {
            Ok(route_read(owned, plan, port, offset))
        }
        1 if offset < BANK_END && is_priority(offset) => Ok(u64::from(bank.read_priority(offset))),
        _ => Err(Rejected::Width),
    }
}

/// Writes the distributor. `offset` is relative to its base; `value` has at most `bytes` bytes.
///
/// # Errors
///
/// [`Rejected`] when the register has no access of this width; nothing was written.
#[inline]
pub fn distributor_write(
    owned: &OwnedInterrupts,
    plan: &PartitionPlan,
    port: &impl GicPort,
    offset: u64,
    bytes: u8,
    value: u64,
) -> Result<Written, Rejected> {
    let bank = Bank { port, base: 0, owned: &owned.shared };
    if bytes == 4 && offset & 3 == 0 && is_set_clear(offset) {
        return Ok(bank.write_set_clear(offset, value as u32));
    }
    other_write(owned, plan, port, offset, bytes, value)
}

#[inline(never)]
fn other_write(
    owned: &OwnedInterrupts,
    plan: &PartitionPlan,
    port: &impl GicPort,
    offset: u64,
    bytes: u8,
    value: u64,
) -> Result<Written, Rejected> {
    let bank = Bank { port, base: 0, owned: &owned.shared };
    match bytes {
        4 if offset & 3 == 0 => Ok(match offset {
            0x080..BANK_END => bank.write(offset, value as u32),
            // The upper half holds Aff3 alone, which is 0 for every vCPU.
            ROUTER_FIRST..=ROUTER_LAST if offset & 4 != 0 => Written::done_if(value as u32 == 0),
            ROUTER_FIRST..=ROUTER_LAST => route_write(owned, plan, port, offset, value & 0xffff_ffff),
            _ => Written::done_if(value as u32 == identification(plan, offset)),
        }),
        8 if offset & 7 == 0 && matches!(offset, ROUTER_FIRST..=ROUTER_LAST) => {
            Ok(route_write(owned, plan, port, offset, value))
        }
        1 if offset < BANK_END && is_priority(offset) => Ok(bank.write_priority(offset, value as u8)),
        _ => Err(Rejected::Width),
    }
}

/// The read-only registers; everything that is not listed is RAZ/WI: TYPER2, STATUSR, message-based
/// SPIs (no MBIS), SGIR and ITARGETSR (RES0 under affinity routing), the extended SPI range.
fn identification(plan: &PartitionPlan, offset: u64) -> u32 {
    match offset {
        CONTROL => DISTRIBUTOR_CONTROL,
        TYPER => type_register(plan),
        IIDR => IMPLEMENTER,
        PERIPHERAL_ID2_OFFSET => PERIPHERAL_ID2,
        _ => 0,
    }
}

/// GICD_TYPER: just enough SPIs, 10 INTID bits, No1N; no LPIs, no message-based SPIs, one security state.
/// Every line less is an IROUTER write less while Linux boots.
fn type_register(plan: &PartitionPlan) -> u32 {
    const INTID_BITS_10: u32 = 9 << 19;
    const NO_1_OF_N: u32 = 1 << 25;
    NO_1_OF_N | INTID_BITS_10 | (plan.highest_intid >> 5).min(31)
}

/// The INTID of a GICD_IROUTER offset.
const fn routed_intid(offset: u64) -> u32 {
    ((offset & 0x1fff) >> 3) as u32
}

/// Reads a route back as virtual affinity: the number of the vCPU that runs on the core.
fn route_read(owned: &OwnedInterrupts, plan: &PartitionPlan, port: &impl GicPort, offset: u64) -> u64 {
    if !owned.owns(routed_intid(offset)) {
        return 0;
    }
    let route = port.read64(offset) & AFFINITY;
    let cores = plan.vcpu_mpidr.iter().take(plan.vcpu_count as usize);
    cores.zip(0u64..).find(|(mpidr, _)| **mpidr & AFFINITY == route).map_or(0, |(_, vcpu)| vcpu)
}

/// Routes an own SPI to the core of a vCPU. "Any core" means vCPU 0: GICD_TYPER.No1N says that the mode does not exist.
fn route_write(owned: &OwnedInterrupts, plan: &PartitionPlan, port: &impl GicPort, offset: u64, value: u64) -> Written {
    if !owned.owns(routed_intid(offset)) {
        return Written::done_if(value == 0);
    }
    let vcpu = if value & ANY_CORE != 0 { 0 } else { value & AFFINITY };
    if vcpu >= u64::from(plan.vcpu_count) {
        return Written::Ignored;
    }
    match plan.vcpu_mpidr.get(vcpu as usize) {
        Some(mpidr) => {
            port.write64(offset, mpidr & AFFINITY);
            Written::Done
        }
        None => Written::Ignored,
    }
}
