//! Which interrupts a node raises: `interrupts`, `interrupts-extended`, and what lies between a node and the interrupt controller.
//!
//! Devicetree Specification 0.4, 2.4. An interrupt that goes through a controller of its own (GPIO, a power controller) is named
//! and not followed: what number comes out of it is a matter of its registers. Nexus nodes (`interrupt-map`) and the few
//! controllers that pass the GIC's own numbers on are followed, sixteen at most.

use crate::address::{Budget, cells};
use crate::tree::{Node, Tree};
use bulkhead_arm::Intid;

/// Most controllers and nexus nodes between a device and the interrupt controller.
const MOST_STEPS: usize = 16;
/// Most cells of an interrupt that are believed.
const MOST_CELLS: usize = 16;

// First cell of an interrupt of a GIC, Linux `Documentation/devicetree/bindings/interrupt-controller/arm,gic-v3.yaml`.
const SHARED: u32 = 0;
const PRIVATE: u32 = 1;
/// In the third cell: 1 a rising edge, 2 a falling one.
const EDGES: u32 = 3;

/// An interrupt of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Interrupt {
    /// A shared peripheral interrupt.
    Shared {
        /// INTID.
        intid: u32,
        /// It signals by an edge.
        edge: bool,
    },
    /// A private interrupt of each core.
    Private {
        /// INTID.
        intid: u32,
    },
    /// One whose INTID is not known, and why.
    Unknown(String),
}

/// The interrupt controller of a tree, as interrupts are looked up in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines<'t, 'a> {
    tree: &'t Tree<'a>,
    controller: Option<usize>,
    budget: &'t Budget,
}

impl<'t, 'a> Lines<'t, 'a> {
    /// Interrupts of a tree whose interrupt controller is this node.
    #[must_use]
    pub(crate) fn new(tree: &'t Tree<'a>, controller: Option<Node<'_, '_>>, budget: &'t Budget) -> Self {
        Self { tree, controller: controller.map(|node| node.index()), budget }
    }

    /// The tree.
    #[must_use]
    pub(crate) fn tree(&self) -> &'t Tree<'a> {
        self.tree
    }

    /// The interrupts of a node, in the order of the tree.
    #[must_use]
    pub(crate) fn of(&self, node: Node<'t, 'a>) -> Vec<Interrupt> {
        let unit = node.words("reg").unwrap_or_default();
        if let Some(list) = node.words("interrupts-extended") {
            return self.extended(&list, &unit);
        }
        let Some(list) = node.words("interrupts") else { return Vec::new() };
        let Some(parent) = self.parent(node) else {
            return vec![Interrupt::Unknown(String::from("no node is its interrupt parent"))];
        };
        match interrupt_cells(parent) {
            Some(cells) if cells != 0 && self.budget.spend(list.len()).is_some() => {
                list.chunks_exact(cells).map(|one| self.follow(parent, one, &unit)).collect()
            }
            _ => vec![Interrupt::Unknown(format!("{} has no usable #interrupt-cells", short(parent)))],
        }
    }

    /// The interrupts of the controller to which a nexus node (`interrupt-map`) leads.
    #[must_use]
    pub(crate) fn through(&self, nexus: Node<'t, 'a>) -> Vec<Interrupt> {
        let entries = self.entries(nexus).unwrap_or_default();
        entries.iter().map(|entry| self.follow(entry.parent, &entry.interrupt, &entry.unit)).collect()
    }

    fn extended(&self, list: &[u32], unit: &[u32]) -> Vec<Interrupt> {
        let mut found = Vec::new();
        let mut rest = list;
        while let [phandle, behind @ ..] = rest {
            if self.budget.spend(1).is_none() {
                break;
            }
            let Some(parent) = self.tree.by_phandle(*phandle) else {
                found.push(Interrupt::Unknown(format!("no node has the phandle {phandle:#x}")));
                break;
            };
            let Some((one, behind)) = interrupt_cells(parent).and_then(|cells| behind.split_at_checked(cells)) else {
                found.push(Interrupt::Unknown(format!("{} has no usable #interrupt-cells", short(parent))));
                break;
            };
            found.push(self.follow(parent, one, unit));
            rest = behind;
        }
        found
    }

    /// The interrupt parent of a node: the next controller or nexus, by `interrupt-parent` or by place.
    fn parent(&self, node: Node<'t, 'a>) -> Option<Node<'t, 'a>> {
        let mut node = node;
        // As deep as a tree may be, and some links in between; a circle ends here as well.
        for _ in 0..128 {
            self.budget.spend(1)?;
            node = match node.word("interrupt-parent") {
                Some(phandle) => self.tree.by_phandle(phandle)?,
                None => node.parent()?,
            };
            if node.has("#interrupt-cells") {
                return Some(node);
            }
        }
        None
    }

    /// Follows one interrupt from a controller or nexus to the interrupt controller.
    fn follow(&self, parent: Node<'t, 'a>, one: &[u32], unit: &[u32]) -> Interrupt {
        let (mut parent, mut one, mut unit) = (parent, one.to_vec(), unit.to_vec());
        for _ in 0..MOST_STEPS {
            if self.controller == Some(parent.index()) {
                return decode(&one);
            }
            if parent.has("interrupt-map") {
                let Some(entry) = self.mapped(parent, &one, &unit) else {
                    return Interrupt::Unknown(format!("the interrupt-map of {} does not have it", short(parent)));
                };
                (parent, one, unit) = (entry.parent, entry.interrupt, entry.unit);
            } else if passes_on(parent) {
                match self.parent(parent) {
                    Some(next) => parent = next,
                    None => return Interrupt::Unknown(format!("{} has no interrupt parent", short(parent))),
                }
            } else {
                return Interrupt::Unknown(format!("through {}, which is not followed", short(parent)));
            }
        }
        Interrupt::Unknown(format!("its interrupt parents lead in a circle, or too far: {}", short(parent)))
    }

    /// The entry of a nexus for one interrupt of one unit.
    fn mapped(&self, nexus: Node<'t, 'a>, one: &[u32], unit: &[u32]) -> Option<Entry<'t, 'a>> {
        let (unit_cells, _) = cells(nexus);
        let mut wanted: Vec<u32> =
            unit.iter().copied().chain(std::iter::repeat(0)).take(unit_cells.min(MOST_CELLS)).collect();
        wanted.extend(one);
        let mask = nexus.words("interrupt-map-mask").unwrap_or_else(|| vec![u32::MAX; wanted.len()]);
        let is_it = |entry: &Entry<'_, '_>| {
            entry.from.len() == wanted.len()
                && entry.from.iter().zip(&wanted).zip(&mask).all(|((have, want), mask)| (have ^ want) & mask == 0)
        };
        self.entries(nexus)?.into_iter().find(is_it)
    }

    fn entries(&self, nexus: Node<'t, 'a>) -> Option<Vec<Entry<'t, 'a>>> {
        let map = nexus.words("interrupt-map")?;
        self.budget.spend(map.len())?;
        let (unit_cells, _) = cells(nexus);
        let from_cells = unit_cells.checked_add(interrupt_cells(nexus)?).filter(|cells| *cells <= 2 * MOST_CELLS)?;
        let mut entries = Vec::new();
        let mut rest = map.as_slice();
        while let Some((from, [phandle, behind @ ..])) = rest.split_at_checked(from_cells) {
            let parent = self.tree.by_phandle(*phandle)?;
            let parent_units = if parent.has("#address-cells") { cells(parent).0 } else { 0 };
            let (unit, behind) = behind.split_at_checked(parent_units)?;
            let (interrupt, behind) = behind.split_at_checked(interrupt_cells(parent)?)?;
            entries.push(Entry { from: from.to_vec(), parent, unit: unit.to_vec(), interrupt: interrupt.to_vec() });
            rest = behind;
        }
        Some(entries)
    }
}

/// An entry of an `interrupt-map`.
struct Entry<'t, 'a> {
    /// Unit and interrupt below the nexus.
    from: Vec<u32>,
    parent: Node<'t, 'a>,
    unit: Vec<u32>,
    interrupt: Vec<u32>,
}

fn interrupt_cells(node: Node<'_, '_>) -> Option<usize> {
    let cells = usize::try_from(node.word("#interrupt-cells")?).ok()?;
    (cells <= MOST_CELLS).then_some(cells)
}

/// States whether a controller stands in front of the GIC and passes its numbers on as they are: it wakes the board up.
fn passes_on(node: Node<'_, '_>) -> bool {
    node.texts("compatible").any(|kind| {
        (kind.starts_with("fsl,imx") && kind.ends_with("-gpc"))
            || (kind.starts_with("nvidia,tegra") && kind.ends_with("-ictlr"))
            || (kind.starts_with("mediatek,") && kind.ends_with("-sysirq"))
    })
}

/// An interrupt of a GIC: kind, number, flags.
fn decode(one: &[u32]) -> Interrupt {
    let (kind, number, flags) = match one {
        [kind, number, flags, ..] => (*kind, *number, *flags),
        _ => return Interrupt::Unknown(String::from("it has fewer than three cells, which no GIC has")),
    };
    let shared = number.checked_add(Intid::FIRST_SHARED).filter(|intid| *intid < Intid::FIRST_SPECIAL);
    let private = number.checked_add(Intid::SOFTWARE_END).filter(|intid| *intid < Intid::FIRST_SHARED);
    match (kind, shared, private) {
        (SHARED, Some(intid), _) => Interrupt::Shared { intid, edge: flags & EDGES != 0 },
        (PRIVATE, _, Some(intid)) => Interrupt::Private { intid },
        (SHARED | PRIVATE, ..) => Interrupt::Unknown(format!("number {number} is out of range")),
        _ => Interrupt::Unknown(format!(
            "kind {kind} is neither a shared nor a private interrupt (extended ranges are not known)"
        )),
    }
}

/// The path of a node for a message, cut in the middle when it is long.
#[must_use]
pub(crate) fn short(node: Node<'_, '_>) -> String {
    const MOST: usize = 100;
    let path = node.path();
    let (front, back) = (MOST / 2, path.len().saturating_sub(MOST / 2));
    match (path.get(..front), path.get(back..)) {
        (Some(start), Some(end)) if path.len() > MOST => format!("{start}...{end}"),
        _ => path,
    }
}
