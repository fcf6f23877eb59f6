//! The interrupt controller.

use crate::address::{Budget, Extent, number, place};
use crate::interrupt::short;
use crate::tree::{Node, Tree};
use bulkhead_abi::PAGE_BYTES;

/// What distributor and redistributors of a GICv3 are aligned to (IHI 0069, 12.8).
const FRAME_ALIGNMENT: u64 = 0x1_0000;
/// Distance of redistributor frames of a GICv3.
pub(crate) const FRAME_BYTES: u64 = 0x2_0000;

const GIC_V3: &str = "arm,gic-v3";
/// GICv2 and what is programmed like it, Linux `Documentation/devicetree/bindings/interrupt-controller/arm,gic.yaml`.
const GIC_V2: [&str; 12] = [
    "arm,gic-400",
    "arm,cortex-a15-gic",
    "arm,cortex-a9-gic",
    "arm,cortex-a7-gic",
    "arm,cortex-a5-gic",
    "arm,pl390",
    "arm,arm1176jzf-devchip-gic",
    "arm,arm11mp-gic",
    "arm,eb11mp-gic",
    "brcm,brahma-b15-gic",
    "qcom,msm-qgic2",
    "qcom,msm-8660-qgic",
];

/// What is known of the interrupt controller.
#[derive(Debug, Default)]
pub(crate) struct Controller {
    /// Where it stands; empty when the tree has none that is known.
    pub(crate) path: String,
    /// Version of the architecture; 0 when it is no GIC that is known.
    pub(crate) version: u32,
    /// Distributor.
    pub(crate) distributor: Option<Extent>,
    /// Regions of redistributors.
    pub(crate) redistributors: Vec<Extent>,
    /// Distance of frames where the tree says it.
    pub(crate) stride: Option<u64>,
    /// Other registers: CPU interfaces, virtual ones, translation services.
    pub(crate) others: Vec<Extent>,
    /// What is remarkable about it.
    pub(crate) remarks: Vec<String>,
}

/// The node of the interrupt controller: the one that the timer or the root points at, else the first of its kind.
#[must_use]
pub(crate) fn find<'t, 'a>(tree: &'t Tree<'a>) -> Option<Node<'t, 'a>> {
    let is_known = |node: &Node<'_, '_>| version(*node).is_some() && node.is_enabled();
    let pointed_at = |node: Node<'t, 'a>| node.word("interrupt-parent").and_then(|phandle| tree.by_phandle(phandle));
    let timer = tree.nodes().find(|node| node.is_compatible(&["arm,armv8-timer"]));
    let by_timer = timer.and_then(pointed_at).filter(is_known);
    let by_root = tree.root().and_then(pointed_at).filter(is_known);
    by_timer.or(by_root).or_else(|| tree.nodes().find(is_known))
}

/// States whether a node is an interrupt controller that is known.
#[must_use]
pub(crate) fn is_controller(node: Node<'_, '_>) -> bool {
    version(node).is_some()
}

fn version(node: Node<'_, '_>) -> Option<u32> {
    if node.is_compatible(&[GIC_V3]) {
        return Some(3);
    }
    node.is_compatible(&GIC_V2).then_some(2)
}

/// Reads the interrupt controller.
#[must_use]
pub(crate) fn controller(tree: &Tree<'_>, node: Option<Node<'_, '_>>, ram: &[Extent], budget: &Budget) -> Controller {
    let Some(node) = node else { return unknown(tree) };
    let placed = place(node, budget);
    let mut found = Controller { path: short(node), version: version(node).unwrap_or(0), ..Controller::default() };
    if let Some(trouble) = placed.trouble {
        found.remarks.push(format!("{}: {trouble}", short(node)));
    }
    let granule = if found.version == 3 { FRAME_ALIGNMENT } else { PAGE_BYTES };
    let mut before: Vec<Extent> = ram.to_vec();
    let mut extents = Vec::new();
    for extent in placed.extents {
        if !extent.start().is_multiple_of(granule) || before.iter().any(|other| other.overlaps(extent)) {
            let (start, end) = (extent.start(), extent.end());
            found
                .remarks
                .push(format!("Its registers at {start:#x} to {end:#x} are not aligned, or in RAM, or twice there"));
            // Which registers the others are is told by their order.
            break;
        }
        before.push(extent);
        extents.push(extent);
    }
    let mut extents = extents.into_iter();
    found.distributor = extents.next();
    if found.version == 3 {
        let regions = node.word("#redistributor-regions").unwrap_or(1);
        found.redistributors = extents.by_ref().take(usize::try_from(regions).unwrap_or(0)).collect();
        let stride = node.words("redistributor-stride").and_then(|cells| number(&cells)).filter(|stride| *stride != 0);
        found.stride = stride.filter(|stride| *stride >= FRAME_BYTES && stride.is_multiple_of(FRAME_ALIGNMENT));
        if let Some(stride) = stride.filter(|_| found.stride.is_none()) {
            found.remarks.push(format!("`redistributor-stride` is {stride:#x}, at which redistributors would overlap"));
        }
    }
    found.others = extents.collect();
    for child in node.children().filter(|child| child.has("reg") && child.is_enabled()) {
        let extents = place(child, budget).extents;
        if !extents.is_empty() {
            found
                .remarks
                .push(format!("{} belongs to it: message-signalled interrupts, which are not used", short(child)));
        }
        found.others.extend(extents);
    }
    found
}

fn unknown(tree: &Tree<'_>) -> Controller {
    let phandle = tree.root().and_then(|root| root.word("interrupt-parent"));
    let node = phandle.and_then(|phandle| tree.by_phandle(phandle));
    let node = node.or_else(|| tree.nodes().find(|node| node.has("interrupt-controller")));
    let remark =
        node.map(|node| format!("{} ({}) is none", short(node), node.text("compatible").unwrap_or("of no kind")));
    Controller { remarks: remark.into_iter().collect(), ..Controller::default() }
}
