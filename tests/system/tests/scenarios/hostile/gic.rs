//! The interrupt controller's registers, read from outside: QEMU's monitor reads physical memory with the machine stopped.

use bulkhead_run::{ImagePlan, Machine};
use serde_json::json;
use std::collections::BTreeMap;

const DISTRIBUTOR: u64 = 0x0800_0000;
const REDISTRIBUTOR: u64 = 0x080a_0000;
const FRAME_BYTES: u64 = 0x2_0000;
const SGI_FRAME: u64 = 0x1_0000;
/// Interrupts that a plan can name.
const INTERRUPTS: u64 = 256;

/// Register groups with bits per interrupt: name, offset, bits of each. Pending and active come first.
const GROUPS: [(&str, u64, u64); 7] = [
    ("pending", 0x200, 1),
    ("active", 0x300, 1),
    ("group", 0x080, 1),
    ("enabled", 0x100, 1),
    ("priority", 0x400, 8),
    ("trigger", 0xc00, 2),
    ("route", 0x6000, 64),
];

/// Register words by what they are.
pub(super) type Registers = BTreeMap<String, u32>;

/// Reads a word of a device's registers.
pub(super) fn word(machine: &mut Machine, address: u64) -> u32 {
    let command = json!({ "command-line": format!("xp /1wx {address:#x}") });
    let answer = machine.qmp().execute_with("human-monitor-command", command).expect("QEMU answers");
    let text = answer.as_str().unwrap_or_default().trim();
    let value = text.rsplit_once("0x").and_then(|(_, digits)| u32::from_str_radix(digits, 16).ok());
    value.unwrap_or_else(|| panic!("QEMU answers {text:?} for {address:#x}"))
}

/// States whether a shared interrupt is active.
pub(super) fn is_active(machine: &mut Machine, intid: u64) -> bool {
    word(machine, DISTRIBUTOR + 0x300 + intid / 32 * 4) & 1 << (intid % 32) != 0
}

/// Reads what the distributor holds about shared interrupts.
pub(super) fn shared(machine: &mut Machine) -> Registers {
    let mut registers = Registers::from([("control".to_owned(), word(machine, DISTRIBUTOR))]);
    for (name, offset, bits) in GROUPS {
        let bytes = INTERRUPTS * bits / 8;
        // Of a route, the word with Aff0 to Aff2.
        for place in (bytes / 8..bytes).step_by(if bits == 64 { 8 } else { 4 }) {
            let value = word(machine, DISTRIBUTOR + offset + place);
            registers.insert(format!("{name} of interrupts from {}", place * 8 / bits), value);
        }
    }
    registers
}

/// Reads what a core's redistributor holds about its private interrupts, without those that come and go.
pub(super) fn private(machine: &mut Machine, core: u64) -> Registers {
    let frame = REDISTRIBUTOR + core * FRAME_BYTES + SGI_FRAME;
    let mut registers = Registers::new();
    for (name, offset, bits) in GROUPS.into_iter().filter(|(name, ..)| !matches!(*name, "pending" | "active" | "route"))
    {
        for place in (0..4 * bits).step_by(4) {
            let value = word(machine, frame + offset + place);
            registers.insert(format!("core {core}: {name} of interrupts from {}", place * 8 / bits), value);
        }
    }
    registers
}

/// What the plan says about routes: each planned interrupt goes to the core of its owner's first vCPU.
///
/// # Panics
/// With the interrupt that goes elsewhere, or when the plan has no interrupt to look at.
pub(super) fn assert_routes(registers: &Registers, plan: &ImagePlan) {
    let mut routes = 0;
    for partition in &plan.partitions {
        for interrupt in partition.interrupts() {
            let route = registers.get(&format!("route of interrupts from {}", interrupt.intid));
            assert_eq!(
                route.copied().map(u64::from),
                Some(partition.vcpu_mpidr[0]),
                "GICD_IROUTER of interrupt {}, which partition {} owns",
                interrupt.intid,
                partition.index
            );
            routes += 1;
        }
    }
    assert!(routes >= 4, "{routes} planned interrupts");
}

/// Lists what differs between two readings.
pub(super) fn differences(one: &Registers, other: &Registers) -> Vec<String> {
    assert!(one.keys().eq(other.keys()), "both readings are of the same registers");
    let pairs = one.iter().zip(other.values());
    pairs
        .filter(|((_, one), other)| *one != *other)
        .map(|((name, one), other)| format!("{name}: {one:#x}, {other:#x}"))
        .collect()
}
