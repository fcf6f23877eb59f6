//! Interrupt routes, doorbells and channel windows.

use bulkhead_abi::plan::{FLAG_MANAGEABLE, FLAG_MANAGES, INTERRUPT_CONSOLE, INTERRUPT_DEVICE, INTERRUPT_DOORBELL};
use bulkhead_guest_abi::channel::writer_bytes;
use bulkhead_guest_abi::guest::{GUEST_CHANNELS, GUEST_PCI_MEMORY, GUEST_PCI_REGISTERS};
use bulkhead_plan::maps::console_input;
use bulkhead_plan::model::{InterruptMode, PortKind, System};
use bulkhead_plan::{AreaKind, Plan, plan, samples};

fn demo() -> Plan {
    plan(&samples::demo(), &samples::monitor()).unwrap()
}

/// Consoles first, then doorbells by receiver (record 0002).
#[test]
fn spare_interrupts_are_given_out_in_order() {
    let plan = demo();
    let owned = |index: usize| {
        let described = &plan.partitions[index].plan;
        let used = described.interrupts().iter();
        used.map(|interrupt| (interrupt.intid, interrupt.kind, interrupt.edge)).collect::<Vec<_>>()
    };
    assert_eq!(owned(0), [(82, INTERRUPT_DOORBELL, 1)], "ticks");
    assert_eq!(owned(1), []);
    let linux = [
        (34, INTERRUPT_DEVICE, 0),
        (80, INTERRUPT_CONSOLE, 1),
        (83, INTERRUPT_DOORBELL, 1),
        (84, INTERRUPT_DOORBELL, 1),
    ];
    assert_eq!(owned(2), linux);
    assert_eq!(owned(3), [(81, INTERRUPT_CONSOLE, 1)]);
}

#[test]
fn distributor_words_make_spare_interrupts_edge_triggered() {
    let words = demo().header.gicd_icfgr;
    assert_eq!(words[5], 0b10 | 0b10 << 2 | 0b10 << 4 | 0b10 << 6 | 0b10 << 8, "80 to 84");
    assert_eq!(words[2], 0, "the device is level-sensitive");
}

#[test]
fn highest_interrupt_is_the_partitions_own() {
    let plan = demo();
    let highest: Vec<u32> = plan.partitions.iter().map(|partition| partition.plan.highest_intid).collect();
    assert_eq!(highest, [82, 31, 84, 81]);
}

/// CH-37: the limiter's window is rounded up, so that it never lets more through.
#[test]
fn doorbells_name_the_receivers_interrupt_and_limiter() {
    let plan = demo();
    let doorbell = plan.partitions[0].plan.doorbells[0];
    assert_eq!((doorbell.intid, doorbell.peer, doorbell.events), (83, 2, 10));
    assert_eq!(doorbell.period_ticks, 6_250_000, "100 ms at 62.5 MHz");
    assert_eq!(doorbell.words, plan.layout.address(AreaKind::Doorbell(0)));
    assert_eq!(plan.partitions[2].plan.doorbell_count, 0, "orders are silent");
}

/// CH-35, CH-36: doorbells that are limited together have one word, which the monitor maps where it runs a sender.
#[test]
fn doorbells_to_a_receiver_with_a_limit_count_in_one_word() {
    let mut system = samples::demo();
    samples::limit_together(&mut system, 2);
    let plan = plan(&system, &samples::monitor()).unwrap();
    let doorbell = |partition: usize| plan.partitions[partition].plan.doorbells[0];
    let together = plan.layout.address(AreaKind::AllDoorbells(2));
    assert_ne!(together.0, 0);
    for sender in [0, 3] {
        let doorbell = doorbell(sender);
        assert_eq!((doorbell.words, doorbell.period_ticks, doorbell.events), (together, 6_250_000, 10), "{sender}");
    }
    assert_ne!(doorbell(0).intid, doorbell(3).intid, "the receiver still tells them apart");
    assert_eq!(doorbell(1).words, plan.layout.address(AreaKind::Doorbell(2)), "to another receiver");
    assert!(plan.layout.area(AreaKind::Doorbell(0)).is_none() && plan.layout.area(AreaKind::Doorbell(3)).is_none());
    let mapped = |core: usize| plan.el2[core].iter().filter(|mapping| mapping.output == together).count();
    assert_eq!([0, 1, 2, 3, 4].map(mapped), [1, 0, 0, 0, 1], "control is on core 0, the intruder on core 4");
}

/// QV-50, QV-51: windows of native guests, one per port.
#[test]
fn native_windows_start_at_multiples_of_64_kib() {
    let plan = demo();
    let information = plan.partitions[0].information.unwrap();
    assert_eq!(information.port_count, 3);
    let windows: Vec<u64> = information.ports.iter().take(3).map(|port| port.window.0).collect();
    let first = GUEST_CHANNELS.0;
    assert_eq!(windows, [first, first + 0x1_0000, first + 0x2_0000]);
    assert_eq!(information.ports[2].window_bytes, 8192 + writer_bytes(4032, 4));
    assert_eq!(information.ports[0].doorbell, 0);
    assert_eq!((information.ports[2].doorbell, information.ports[2].interrupt), (u32::MAX, 82));
}

#[test]
fn linux_sees_the_management_function_first() {
    let plan = demo();
    let functions = &plan.partitions[2].plan.pci[..4];
    assert_eq!(functions.iter().map(|function| function.kind).collect::<Vec<_>>(), [2, 1, 1, 1]);
    assert_eq!(functions[2].registers.0, GUEST_PCI_REGISTERS.0 + 2 * 0x1_0000);
    assert_eq!(functions[2].memory.0, GUEST_PCI_MEMORY.0 + 2 * 0x100_0000);
    assert_eq!(functions.iter().map(|function| function.position).collect::<Vec<_>>(), [0, 1, 0, 1]);
    let doorbell = plan.partitions[2].plan.interrupts.iter().find(|interrupt| interrupt.intid == 83).unwrap();
    assert_eq!(doorbell.pci_function, 2, "function index 1, plus one");
}

#[test]
fn restart_clears_exactly_what_the_partition_writes() {
    let plan = demo();
    let clear = plan.partitions[0].plan.channel_clear[0];
    let (writer, readers) =
        (plan.layout.area(AreaKind::ChannelWriter(0)).unwrap(), [1, 2].map(AreaKind::ChannelReader));
    let pages =
        writer.page_bytes() + readers.map(|kind| plan.layout.area(kind).unwrap().page_bytes()).iter().sum::<u64>();
    assert_eq!(clear.bytes, pages);
    assert_eq!(clear.physical, writer.address);
}

/// A partition whose core takes no interrupts of the monitor cannot be asked for anything.
#[test]
fn only_mapped_partitions_can_be_managed() {
    let plan = demo();
    let flags: Vec<u64> = plan.partitions.iter().map(|partition| partition.plan.flags).collect();
    assert_eq!(flags, [0, FLAG_MANAGEABLE, FLAG_MANAGES | FLAG_MANAGEABLE, FLAG_MANAGEABLE]);
    let manage = plan.layout.address(AreaKind::Manage(2));
    assert_eq!(plan.partitions[1].plan.manage[2], manage);
    assert_eq!(plan.partitions[0].plan.manage[2].0, 0);
    assert_eq!(plan.partitions[1].plan.lead_mpidr[..4], [u64::MAX, 1, 2, 4]);
}

#[test]
fn largest_queue_fills_its_window() {
    let deep = samples::channel("deep", 0, 1, PortKind::Queuing { depth: 4000 }, 4032);
    let system = samples::system(vec![samples::native("first", &[0]), samples::native("second", &[1])], vec![deep]);
    let plan = plan(&system, &samples::monitor()).unwrap();
    assert!(plan.partitions[0].information.unwrap().ports[0].window_bytes <= 16 << 20);
}

/// The focus goes round in the order of the description, and the first `mapped` partition has it at boot. The core of a `mapped` one hands over to the
/// `direct` one that follows, of which EL3 can bring the core to its monitor, and its own keeps the interrupt.
#[test]
fn input_of_a_guest_with_its_interrupts_is_handed_over() {
    let input = |system: &System| -> Vec<_> {
        let input = |core| console_input(system, core);
        (0..4).map(|core| input(core).map(|one| (one.is_first, one.next_board_core, one.handed))).collect()
    };
    let mut system = samples::hybrid_with_consoles();
    // Partitions: 0 on core 0, 1 on cores 1 and 2, 2 with its interrupts on core 3.
    let handed = [Some((true, 1, None)), Some((false, 1, Some(2))), None, Some((false, 0, Some(1)))];
    assert_eq!(input(&system), handed);
    // One at the front follows the last one.
    system.partitions.rotate_right(1);
    let rotated = [Some((true, 1, None)), Some((false, 1, Some(0))), None, Some((false, 0, Some(2)))];
    assert_eq!(input(&system), rotated);
    // Two behind each other: the second one gets nothing.
    system.partitions[1].mode = InterruptMode::Direct;
    let payloads = [None, Some((true, 1, Some(0))), None, Some((false, 1, Some(2)))];
    assert_eq!(input(&system), payloads, "nor does one on the payload's core, which nobody kicks");
    system.partitions[1].cores = vec![2];
    system.partitions[2].cores = vec![1];
    assert_eq!(input(&system), [None, Some((true, 1, Some(0))), None, Some((false, 1, Some(2)))]);
    // Nobody hands over, and nobody below no payload.
    system.partitions[2].virtual_uart = false;
    assert_eq!(input(&system), [None; 4]);
    let mut alone = samples::hybrid_with_consoles();
    alone.secure = None;
    assert_eq!(input(&alone), [Some((true, 1, None)), Some((false, 0, None)), None, None]);
}
