//! Random small systems are planned and accepted; random damage never makes the verifier panic.

use crate::support::Editor;
use crate::support::verify_bytes;
use bulkhead_abi::{GuestAddress, PhysicalAddress};
use bulkhead_image::assemble;
use bulkhead_plan::model::{
    BudgetRule, Channel, HealthPolicy, InterruptMode, OnEmpty, Partition, PortKind, Schedule, ScheduleKind, Server,
    System,
};
use bulkhead_plan::samples;
use proptest::prelude::*;

/// Choices for one partition.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    is_linux: bool,
    cores: usize,
    blocks: u64,
    extra_pages: u64,
    guest_blocks: u64,
    virtual_uart: bool,
    own_console: bool,
    manages: bool,
    direct: bool,
    restarts: bool,
}

pub(super) fn shape() -> impl Strategy<Value = Shape> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (1..=3_usize, 1..=20_u64, 0..=511_u64, 0..=600_u64, flags).prop_map(
        |(cores, blocks, extra_pages, guest_blocks, flags)| Shape {
            is_linux: flags.0,
            cores,
            blocks,
            extra_pages,
            guest_blocks,
            virtual_uart: flags.1,
            own_console: flags.2,
            manages: flags.3,
            direct: flags.4,
            restarts: flags.5,
        },
    )
}

/// Choices for one channel: source, destination (shifted), slots, message bytes, doorbell.
pub(super) type Link = (usize, usize, u32, u32, bool);

pub(super) fn links() -> impl Strategy<Value = Vec<Link>> {
    prop::collection::vec((0..4_usize, 1..4_usize, 0..40_u32, 1..=4032_u32, any::<bool>()), 0..=7)
}

/// Fills in a partition on the next free cores.
fn partition(index: usize, shape: &Shape, next_core: &mut usize) -> Partition {
    let cores = shape.cores.min(8_usize.saturating_sub(*next_core)).max(1);
    let list: Vec<usize> = (*next_core..*next_core + cores).collect();
    *next_core += cores;
    let name = format!("partition{index}");
    let mut partition = if shape.is_linux { samples::linux(&name, &list) } else { samples::native(&name, &list) };
    if !shape.is_linux {
        partition.virtual_uart = shape.virtual_uart;
        partition.own_console = shape.own_console;
        // The samples' images are linked for the board's RAM base.
        partition.memory_bytes = (shape.blocks << 21) + (shape.extra_pages << 12);
    } else {
        partition.guest_ram = GuestAddress(0x4000_0000 + (shape.guest_blocks << 21));
    }
    partition.manages = shape.manages;
    if shape.direct && cores == 1 && !shape.is_linux {
        partition.mode = InterruptMode::Direct;
    }
    if shape.restarts {
        partition.health = HealthPolicy::Restart { max: 2, within_ns: 1_000_000_000, backoff_ns: 0 };
    }
    partition
}

/// Makes one server from random numbers: priority, budget, periods in budgets, kind.
fn server(&(priority, budget_us, periods, kind): &(u8, u64, u64, u8)) -> Server {
    let (budget_ns, period_ns) = (budget_us * 1_000, budget_us * 1_000 * periods);
    match kind {
        0 => samples::unlimited(priority),
        1 => samples::interrupts(priority, budget_ns + 20_000, period_ns + 20_000),
        2 => Server { on_empty: OnEmpty::Background(63), ..samples::sporadic(priority, budget_ns, period_ns) },
        _ => Server { rule: BudgetRule::Deferrable { budget_ns, period_ns }, ..samples::unlimited(priority) },
    }
}

/// Partitions on cores 0 to 2, all of them shared, each with two servers at most.
pub(super) fn shared(
    partitions: &[(usize, bool, bool)],
    servers: &[(u8, u64, u64, u8)],
    links: &[Link],
    eager: bool,
) -> System {
    let mut supply = servers.iter().cycle();
    let mut list: Vec<Partition> = Vec::new();
    for (index, (core, manages, uart)) in partitions.iter().enumerate() {
        // Core 0 must be used: it starts the machine.
        let core = if index == 0 { 0 } else { *core };
        let mut partition = samples::native(&format!("partition{index}"), &[core]);
        (partition.manages, partition.virtual_uart) = (*manages, *uart);
        let count = 1 + usize::from(*manages);
        partition.servers = supply.by_ref().take(count).map(server).collect();
        list.push(partition);
    }
    let mut shared = samples::system(list, channels(partitions.len(), links));
    let cores = shared.used_cores();
    shared.schedules = cores
        .into_iter()
        .map(|board_core| Schedule {
            board_core,
            kind: ScheduleKind::FixedPriority { quanta: vec![(5, 1_000_000)] },
            eager_floating_point: eager,
        })
        .collect();
    shared
}

fn channels(count: usize, links: &[Link]) -> Vec<Channel> {
    let link = |(index, (source, step, slots, bytes, rings)): (usize, &Link)| {
        let source = source % count;
        let destination = (source + 1 + step % (count - 1)) % count;
        let kind = if *slots < 2 { PortKind::Sampling } else { PortKind::Queuing { depth: *slots } };
        let mut channel = samples::channel(&format!("channel{index}"), source, destination, kind, *bytes);
        channel.doorbell = channel.doorbell.filter(|_| *rings);
        channel
    };
    links.iter().filter(|_| count > 1).enumerate().map(link).collect()
}

pub(super) fn system(shapes: &[Shape], links: &[Link], fixed: bool) -> System {
    let mut next_core = 0;
    let mut partitions: Vec<Partition> = Vec::new();
    for (index, shape) in shapes.iter().enumerate().filter(|(index, _)| *index < 8) {
        if next_core < 8 {
            partitions.push(partition(index, shape, &mut next_core));
        }
    }
    let channels = channels(partitions.len(), links);
    if fixed && let Some(last) = partitions.last_mut() {
        last.physical_ram = Some(PhysicalAddress(0xb000_1000));
    }
    samples::system(partitions, channels)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// QV-1, QV-2, QV-7, QV-50, CH-36 for systems nobody wrote by hand.
    #[test]
    fn random_systems_are_accepted(
        shapes in prop::collection::vec(shape(), 1..=5),
        links in links(),
        fixed in any::<bool>(),
        together in any::<bool>(),
    ) {
        let mut system = system(&shapes, &links, fixed);
        together.then(|| samples::limit_together(&mut system, 0));
        let image = assemble(&system, &samples::monitor()).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let verdict = verify_bytes(&image.bytes);
        prop_assert!(verdict.is_accepted(), "{:#?}", verdict.findings);
        prop_assert_eq!(verdict.extent.channels, system.channels.len());
    }

    /// The verifier reads bytes from anywhere: it must answer, not panic, whatever they are.
    #[test]
    fn random_damage_is_answered(
        damage in prop::collection::vec((0..70_usize, 0..4096_usize, any::<u8>()), 1..12),
        repaired in any::<bool>(),
    ) {
        let mut image = Editor::demo();
        let first = (image.header.plan.0 - image.header.image_start.0) as usize;
        for (page, offset, value) in damage {
            if let Some(byte) = image.bytes.get_mut(first + page * 4096 + offset) {
                *byte = value;
            }
        }
        let bytes = if repaired { image.finish() } else { image.bytes };
        let verdict = verify_bytes(&bytes);
        prop_assert!(verdict.findings.len() < 1_000_000);
    }

    /// The same in an image with shared cores: damaged schedules, slots and servers.
    #[test]
    fn random_damage_of_schedules_is_answered(
        damage in prop::collection::vec((0..40_usize, 0..4096_usize, any::<u8>()), 1..12),
    ) {
        let mut image = Editor::shared();
        let first = (image.header.plan.0 - image.header.image_start.0) as usize;
        for (page, offset, value) in damage {
            if let Some(byte) = image.bytes.get_mut(first + page * 4096 + offset) {
                *byte = value;
            }
        }
        let verdict = verify_bytes(&image.finish());
        prop_assert!(verdict.findings.len() < 1_000_000);
    }

    /// QV-22, SG-40 for systems nobody wrote by hand: cores shared by one to four partitions with one to three servers.
    #[test]
    fn random_shared_systems_are_accepted(
        partitions in prop::collection::vec((0..3_usize, any::<bool>(), any::<bool>()), 1..=8),
        servers in prop::collection::vec((0..60_u8, 1..1_000_u64, 1..10_u64, 0..4_u8), 3..=24),
        links in links(),
        eager in any::<bool>(),
        together in any::<bool>(),
    ) {
        let mut system = shared(&partitions, &servers, &links, eager);
        together.then(|| samples::limit_together(&mut system, 0));
        let image = assemble(&system, &samples::monitor()).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let verdict = verify_bytes(&image.bytes);
        prop_assert!(verdict.is_accepted(), "{:#?}", verdict.findings);
    }

    /// As above, in the header, with the checksum made right.
    #[test]
    fn random_headers_are_answered(damage in prop::collection::vec((0..2048_usize, any::<u8>()), 1..8)) {
        use bulkhead_abi::image::ImageHeader;
        use zerocopy::{FromBytes, IntoBytes};
        let mut image = Editor::demo();
        let mut bytes = image.header.as_bytes().to_vec();
        let length = bytes.len();
        for (offset, value) in damage {
            bytes[offset % length] = value;
        }
        image.header = ImageHeader::read_from_bytes(&bytes).map_err(|_| TestCaseError::reject("size"))?;
        let plan = image.header.plan.0.wrapping_sub(image.header.image_start.0);
        let readable = plan.checked_add(image.header.plan_bytes).is_some_and(|end| end <= image.bytes.len() as u64);
        prop_assume!(readable);
        let verdict = verify_bytes(&image.finish());
        prop_assert!(verdict.findings.len() < 1_000_000);
    }
}
