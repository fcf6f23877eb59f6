//! Cores, how firmware starts them, and their timer.

use crate::address::number;
use crate::interrupt::{Interrupt, Lines, short};
use crate::tree::{Node, Tree};
use bulkhead_arm::core_type::CoreType;
use bulkhead_arm::{Affinity, Intid};
use std::collections::BTreeSet;

/// Most bits of a physical address without larger pages.
pub(crate) const MOST_ADDRESS_BITS: u32 = 48;

/// A core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Core {
    /// Affinity fields of MPIDR_EL1.
    pub(crate) mpidr: u64,
    /// Type, such as `cortex-a53`.
    pub(crate) kind: String,
}

/// The cores of a tree.
#[derive(Debug, Default)]
pub(crate) struct Cores {
    /// By affinity.
    pub(crate) cores: Vec<Core>,
    /// What is remarkable about them.
    pub(crate) remarks: Vec<String>,
    /// How they are started, unless it is PSCI or not said.
    pub(crate) other_method: Option<String>,
}

impl Cores {
    /// The most bits that a physical address can have, by those cores whose type is known, and whether that is all of them.
    #[must_use]
    pub(crate) fn address_bits(&self) -> (u32, bool) {
        let known: Vec<CoreType> = self.cores.iter().filter_map(|core| CoreType::named(&core.kind)).collect();
        let least = known.iter().map(|kind| kind.physical_address_bits).min();
        // Without a core nothing is known; one of the types that are known will be written there.
        let most = if self.cores.is_empty() {
            CoreType::KNOWN.iter().map(|kind| kind.physical_address_bits).max()
        } else {
            None
        };
        (least.or(most).unwrap_or(MOST_ADDRESS_BITS), least.is_some() && known.len() == self.cores.len())
    }
}

/// Reads `/cpus`.
#[must_use]
pub(crate) fn cores(tree: &Tree<'_>) -> Cores {
    let mut found = Cores::default();
    let Some(cpus) = tree.at_path("/cpus") else { return found };
    let is_core = |node: &Node<'_, '_>| node.text("device_type") == Some("cpu") || node.base_name() == "cpu";
    let mut seen = BTreeSet::new();
    for node in cpus.children().filter(is_core) {
        // `disabled` says that a core waits to be started; `fail` that it cannot be.
        let status = node.text("status").unwrap_or("okay");
        if status.starts_with("fail") {
            found.remarks.push(format!("{}: left out, its status is `{status}`", short(node)));
            continue;
        }
        let Some(reg) = node.words("reg").and_then(|reg| number(&reg)) else {
            found.remarks.push(format!("{}: left out, it has no readable `reg`", short(node)));
            continue;
        };
        let mpidr = Affinity::of_mpidr(reg).0;
        if mpidr != reg {
            found.remarks.push(format!("{}: `reg` has bits that are no affinity field: {reg:#x}", short(node)));
        }
        if !seen.insert(mpidr) {
            found.remarks.push(format!("{}: left out, another core has the affinity {mpidr:#x}", short(node)));
            continue;
        }
        let method = node.text("enable-method").or_else(|| cpus.text("enable-method"));
        if let Some(method) = method.filter(|method| *method != "psci") {
            found.other_method = Some(method.to_owned());
        }
        found.cores.push(Core { mpidr, kind: kind(node) });
    }
    found.cores.sort_by_key(|core| core.mpidr);
    found
}

/// The type of a core: without the vendor for those of Arm.
fn kind(node: Node<'_, '_>) -> String {
    let kinds: Vec<&str> = node.texts("compatible").collect();
    let arms = kinds.iter().find_map(|kind| kind.strip_prefix("arm,"));
    arms.or(kinds.first().copied()).unwrap_or("unknown").to_owned()
}

/// How firmware is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Psci {
    /// By SMC.
    Smc,
    /// By HVC.
    Hvc,
    /// Not at all, or not in a way that is known.
    None(&'static str),
}

/// Reads the PSCI node.
#[must_use]
pub(crate) fn psci(tree: &Tree<'_>, cores: &Cores) -> Psci {
    const KNOWN: [&str; 2] = ["arm,psci-1.0", "arm,psci-0.2"];
    let nodes = || tree.nodes().filter(|node| node.is_enabled());
    let Some(node) = nodes().find(|node| node.is_compatible(&KNOWN)) else {
        return Psci::None(if nodes().any(|node| node.is_compatible(&["arm,psci"])) {
            "PSCI is older than 0.2, so that each firmware has numbers of its own for its calls"
        } else {
            "no node describes PSCI"
        });
    };
    if cores.other_method.is_some() && cores.cores.len() > 1 {
        return Psci::None("cores are not started by it");
    }
    match node.text("method") {
        Some("smc") => Psci::Smc,
        Some("hvc") => Psci::Hvc,
        _ => Psci::None("its node has no known `method`"),
    }
}

/// What is known of the generic timer.
#[derive(Debug, Default)]
pub(crate) struct Timer {
    /// Where it stands; `None` when there is no node.
    pub(crate) path: Option<String>,
    /// CNTFRQ_EL0, where the tree says what firmware forgot to.
    pub(crate) counter_hz: Option<u32>,
    /// INTID of the physical timer of EL1 (non-secure), the virtual one, and that of EL2.
    pub(crate) interrupts: Option<[u32; 3]>,
    /// Firmware does not set the counter's registers up.
    pub(crate) is_unset: bool,
}

/// The interrupts that the monitor takes the timers at, in the order of [`Timer::interrupts`].
pub(crate) const EXPECTED_TIMERS: [u32; 3] =
    [Intid::PHYSICAL_TIMER.0, Intid::VIRTUAL_TIMER.0, Intid::HYPERVISOR_TIMER.0];

/// Reads the timer node.
#[must_use]
pub(crate) fn timer<'t, 'a>(tree: &'t Tree<'a>, lines: &Lines<'t, 'a>) -> Timer {
    let Some(node) = tree.nodes().find(|node| node.is_compatible(&["arm,armv8-timer"]) && node.is_enabled()) else {
        return Timer::default();
    };
    let interrupts = lines.of(node);
    // Without names the order is that of the binding: secure, physical, virtual, EL2.
    let names: Vec<&str> = node.texts("interrupt-names").collect();
    let place = |name: &str, usual: usize| {
        if names.is_empty() { Some(usual) } else { names.iter().position(|other| *other == name) }
    };
    let private = |name, usual| match interrupts.get(place(name, usual)?)? {
        Interrupt::Private { intid } => Some(*intid),
        Interrupt::Shared { .. } | Interrupt::Unknown(_) => None,
    };
    let found = (private("phys", 1), private("virt", 2), private("hyp-phys", 3));
    Timer {
        path: Some(short(node)),
        counter_hz: node.word("clock-frequency"),
        interrupts: match found {
            (Some(physical), Some(virtual_), Some(hypervisor)) => Some([physical, virtual_, hypervisor]),
            _ => None,
        },
        is_unset: node.has("arm,cpu-registers-not-fw-configured"),
    }
}
