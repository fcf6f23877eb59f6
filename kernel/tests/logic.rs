//! The kernel's logic on a fake core: calls, faults, waiting, and interrupts that are held (CH-61, CH-64, QV-35).

use bulkhead_arch::fake::kernel::FakeCore;
use bulkhead_arch::kernel::{Entry, KERNEL_WRITER, KernelMachine};
use bulkhead_arm::Intid;
use bulkhead_kernel::{Kernel, Next};
use bulkhead_kernel_abi::boot::{
    BindingRow, BootHeader, ComponentRow, DataRow, EndPointRow, ServerRow, Tables, TcapRow, ThreadRow,
};
use bulkhead_kernel_abi::call::{Call, Flag, ThreadOperation};
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::{Capability, Code, KERNEL_ABI_VERSION, Kind, NONE};
use support::{room, time_room};

mod support;

const DEVICE: u32 = 40;
const PERIOD: u64 = 1000;

/// Two components with a thread each. The first one has the end point 0 in slot 1, the device's interrupt in slot 2 and the periodic one in slot 3, and in
/// slot 4 an end point that is the other's. The second one has the first one's thread in slot 1.
fn tables() -> Tables<'static> {
    let capability = |kind: Kind, object: u16| Capability {
        kind: kind.number(),
        rights: right::USE,
        object,
        grant: 1,
        ..Capability::NULL
    };
    let capabilities = vec![
        Capability::NULL,
        capability(Kind::Receive, 0),
        capability(Kind::Interrupt, 0),
        capability(Kind::Interrupt, 1),
        capability(Kind::Receive, 1),
        Capability { rights: 0, ..capability(Kind::Interrupt, 0) },
        Capability::NULL,
        capability(Kind::Thread, 0),
    ];
    let component = |root: u64, first_slot: u32, slots: u32| ComponentRow {
        root,
        first_slot,
        slots,
        supervisor: NONE,
        ..ComponentRow::default()
    };
    let thread = |component: u16| ThreadRow {
        component,
        entry: 0x40_0010,
        started: 1,
        scheduler: NONE,
        end_point: component,
        ..ThreadRow::default()
    };
    let bindings = vec![
        BindingRow { intid: DEVICE, bits: 0b01, default_client: NONE, ..BindingRow::default() },
        BindingRow {
            intid: Intid::PHYSICAL_TIMER.0,
            bits: 0b10,
            period_ticks: PERIOD,
            default_client: NONE,
            ..BindingRow::default()
        },
    ];
    let end_points = vec![EndPointRow::default(), EndPointRow { thread: 1, ..EndPointRow::default() }];
    Tables {
        header: Box::leak(Box::new(BootHeader { kernel_build: 77, ..BootHeader::default() })),
        components: Vec::leak(vec![component(0x1000, 0, 6), component(0x2000, 6, 2)]),
        entries: &[],
        stacks: &[],
        capabilities: Vec::leak(capabilities),
        threads: Vec::leak(vec![thread(0), thread(1)]),
        servers: Vec::leak(vec![ServerRow { holder: NONE, band: NONE, ..ServerRow::default() }]),
        bands: &[],
        schedulers: &[],
        tcaps: Vec::leak(vec![TcapRow::default()]),
        end_points: Vec::leak(end_points),
        bindings: Vec::leak(bindings),
        wires: &[],
        exports: &[],
        quotas: &[],
        regions: &[],
        programs: &[],
        segments: &[],
        devices: &[],
        ports: &[],
        data: &[],
        names: &[],
    }
}

struct Test {
    kernel: Kernel<'static, FakeCore>,
    running: u16,
}

impl Test {
    fn new() -> Self {
        Self::with(&tables())
    }

    fn with(tables: &Tables<'static>) -> Self {
        let mut kernel = Kernel::new(FakeCore::default(), room(), time_room(), tables, 62_500_000).expect("servers");
        assert_eq!(kernel.choose(), Next::Thread(0));
        Self { kernel, running: 0 }
    }

    fn enter(&mut self, entry: Entry) {
        match self.kernel.enter(entry) {
            Next::Thread(thread) => self.running = thread,
            Next::Nobody => panic!("a thread is left"),
        }
    }

    fn call(&mut self, call: Call, arguments: &[u64]) {
        let registers = self.kernel.registers().expect("it runs");
        registers.x[..8].fill(0);
        registers.x[..arguments.len()].copy_from_slice(arguments);
        let syndrome = 0x15 << 26 | 1 << 25 | u64::from(call.number());
        self.enter(Entry::Synchronous { syndrome, address: 0 });
    }

    /// The code and the first two values that a thread was answered.
    fn answer(&mut self, thread: usize) -> (Code, u64, u64) {
        let x = self.kernel.objects().room().threads[thread].registers.x;
        (Code::from_number(x[0]).expect("a code"), x[1], x[2])
    }

    fn core(&mut self) -> &mut FakeCore {
        self.kernel.machine()
    }

    fn raise(&mut self, intid: u32) {
        self.core().pending.insert(intid);
        self.enter(Entry::Interrupt);
    }
}

#[test]
fn version_says_which_kernel_this_is() {
    let mut test = Test::new();
    test.call(Call::Version, &[]);
    let x = test.kernel.registers().expect("it runs").x;
    assert_eq!(x[..4], [0, u64::from(KERNEL_ABI_VERSION), 77, 62_500_000]);
}

#[test]
fn print_writes_what_the_registers_hold_and_no_more() {
    let mut test = Test::new();
    test.call(Call::Print, &[9, u64::from_le_bytes(*b"12345678"), u64::from_le_bytes(*b"9abcdefg")]);
    assert_eq!((test.answer(0).0, test.core().console.as_str()), (Code::Ok, "123456789"));
    test.call(Call::Print, &[57]);
    assert_eq!((test.answer(0).0, test.core().console.as_str()), (Code::BadArgument, "123456789"));
}

/// CH-61: nothing but a capability gives access.
#[test]
fn a_slot_that_is_empty_foreign_or_without_the_right_is_refused() {
    let mut test = Test::new();
    for (slot, code) in
        [(1, Code::BadCapability), (6, Code::BadCapability), (u64::MAX, Code::BadCapability), (5, Code::Denied)]
    {
        test.call(Call::Interrupt, &[0, slot]);
        assert_eq!(test.answer(0).0, code, "slot {slot}");
    }
    test.call(Call::Receive, &[2, Flag::NoWait.number()]);
    assert_eq!(test.answer(0).0, Code::BadCapability);
    test.call(Call::Receive, &[4, Flag::NoWait.number()]);
    assert_eq!(test.answer(0).0, Code::Denied, "another thread's end point");
    test.call(Call::Server, &[u64::MAX]);
    assert_eq!(test.answer(0).0, Code::BadCall);
}

#[test]
fn a_thread_that_waits_gives_the_core_to_the_other_and_its_space() {
    let mut test = Test::new();
    assert_eq!(test.core().space, 0x1000 | 1 << 48);
    test.call(Call::Receive, &[0, 0, 500]);
    assert_eq!((test.running, test.core().space, test.core().timer_ticks), (1, 0x2000 | 2 << 48, 500));
    test.call(Call::Receive, &[0, 0, 300]);
    // Both wait: the core does, until the earlier date.
    assert_eq!((test.running, test.core().now_ticks), (1, 300));
    assert_eq!((test.answer(1).0, test.core().timer_ticks), (Code::TimedOut, 500));
    assert!(test.core().active.is_empty(), "the kernel's own timer is not held");
    // A date that has passed.
    test.call(Call::Receive, &[0, 0, 299]);
    assert_eq!((test.running, test.answer(1).0), (1, Code::TimedOut));
}

/// CH-60, CH-61: what faults while an interrupt waits faults behind it, as if the interrupt had come an instruction earlier.
#[test]
fn an_interrupt_is_taken_before_a_fault() {
    let mut test = Test::new();
    let fault = Entry::Synchronous { syndrome: 0x24 << 26, address: 0x1234 };
    let faulted = |test: &mut Test| test.kernel.objects().room().components[0].fault.number;
    test.core().pending.insert(DEVICE);
    let before = test.kernel.objects().room().threads[0].registers.pc;
    test.enter(fault);
    assert_eq!((faulted(&mut test), test.core().active.contains(&DEVICE)), (0, true));
    assert_eq!(test.kernel.objects().room().threads[0].registers.pc, before, "it is not a call");
    test.enter(fault);
    assert_eq!((faulted(&mut test), test.running), (1, 1));
}

/// CH-3: a turn that ends where a call is made ends before it; the call is made in the next turn.
#[test]
fn a_turn_ends_before_a_call() {
    let server = ServerRow { holder: NONE, band: NONE, quantum_ticks: 100, ..ServerRow::default() };
    let mut test = Test::with(&Tables { servers: Vec::leak(vec![server]), ..tables() });
    let before = test.kernel.objects().room().threads[0].registers.pc;
    test.core().now_ticks = 100;
    test.call(Call::Version, &[]);
    assert_eq!((test.running, test.kernel.objects().room().threads[0].registers.pc), (1, before - 4));
}

/// QV-35, CH-64: the interrupt stays active until its driver says done; others pass.
#[test]
fn a_held_interrupt_is_masked_until_it_is_done() {
    let mut test = Test::new();
    test.raise(DEVICE);
    assert_eq!(test.core().active.iter().copied().collect::<Vec<_>>(), [DEVICE]);
    // The device rings again: nothing comes.
    test.core().pending.insert(DEVICE);
    assert_eq!(test.core().signalled(), None);
    test.call(Call::Receive, &[1, Flag::All.number() | Flag::NoWait.number()]);
    assert_eq!(test.answer(0), (Code::Ok, 0b01, 1));
    // The kernel's timer passes, and wakes.
    test.call(Call::Receive, &[1, 0, 200]);
    test.core().now_ticks = 200;
    test.enter(Entry::Interrupt);
    assert_eq!((test.running, test.answer(0).0), (1, Code::TimedOut));
    test.call(Call::Receive, &[0, 0, 50_000]);
    assert_eq!(test.running, 0);
    test.call(Call::Interrupt, &[0, 2]);
    assert_eq!((test.answer(0).0, test.core().signalled()), (Code::Ok, Some(DEVICE)));
    // What waits is taken before the next call is made, which is made behind it.
    let before = test.kernel.objects().room().threads[0].registers.pc;
    test.call(Call::Interrupt, &[0, 2]);
    assert_eq!(test.kernel.objects().room().threads[0].registers.pc, before - 4);
    assert_eq!((test.core().signalled(), test.core().active.contains(&DEVICE)), (None, true));
    test.call(Call::Interrupt, &[0, 2]);
    assert_eq!(test.answer(0).0, Code::Ok, "it is held");
    test.call(Call::Interrupt, &[0, 2]);
    assert_eq!(test.answer(0).0, Code::Busy, "it is not held");
    test.call(Call::Receive, &[1, Flag::All.number() | Flag::NoWait.number()]);
    assert_eq!(test.answer(0), (Code::Ok, 0b01, 1));
}

#[test]
fn the_periodic_timer_keeps_its_grid() {
    let mut test = Test::new();
    assert_eq!(test.core().periodic_ticks, PERIOD);
    test.core().now_ticks = PERIOD + 30;
    test.enter(Entry::Interrupt);
    assert_eq!((test.core().periodic_ticks, test.core().signalled()), (2 * PERIOD, None));
    // Three periods later it has rung once, not thrice: it was held.
    test.core().now_ticks = 5 * PERIOD;
    assert_eq!(test.core().signalled(), None);
    test.call(Call::Interrupt, &[0, 3]);
    test.enter(Entry::Interrupt);
    assert_eq!(test.core().periodic_ticks, 6 * PERIOD, "the next date, and none that has passed");
    test.call(Call::Receive, &[1, Flag::NoWait.number()]);
    assert_eq!(test.answer(0), (Code::Ok, 0b10, 2));
}

#[test]
fn bits_are_taken_one_by_one_or_all_at_once() {
    let mut test = Test::new();
    test.core().now_ticks = PERIOD;
    test.raise(DEVICE);
    test.call(Call::Receive, &[1, 0]);
    assert_eq!(test.answer(0), (Code::Ok, 0b01, 0));
    test.call(Call::Receive, &[1, 0]);
    assert_eq!(test.answer(0), (Code::Ok, 0b10, 2));
    test.call(Call::Receive, &[1, Flag::NoWait.number()]);
    assert_eq!(test.answer(0).0, Code::WouldBlock);
    // Who waits gets it at once.
    test.call(Call::Interrupt, &[0, 2]);
    test.call(Call::Receive, &[1, Flag::All.number()]);
    assert_eq!(test.running, 1);
    test.raise(DEVICE);
    assert_eq!((test.running, test.answer(0)), (1, (Code::Ok, 0b01, 1)));
}

#[test]
fn a_fault_ends_the_thread_and_is_recorded_and_the_last_end_is_the_end() {
    let mut test = Test::new();
    test.enter(Entry::Synchronous { syndrome: 0x9200_0006, address: 0x1234 });
    assert_eq!(test.running, 1);
    let fault = test.kernel.objects().room().components[0].fault;
    assert_eq!(
        (fault.kind, fault.thread, fault.number, fault.address, fault.program_counter),
        (1, 0, 1, 0x1234, 0x40_0010)
    );
    let said = "kernel: component 0x0, thread 0x0, fault 0x1, syndrome 0x92000006, address 0x1234, at 0x400010\n";
    assert_eq!(test.core().console, said);
    // The address register of another exception is nobody's business.
    let next = test.kernel.enter(Entry::Synchronous { syndrome: 0x0200_0000, address: 0x1234 });
    assert_eq!((next, test.kernel.objects().room().components[1].fault.address), (Next::Nobody, 0));
}

#[test]
fn an_interrupt_of_nobody_is_not_kept() {
    let mut test = Test::new();
    test.core().enable_interrupt(Intid(99));
    test.raise(99);
    assert!(test.core().active.is_empty());
}

/// A line on the console takes longer than anything else that the kernel does: a component that faults again and again must not have it.
#[test]
fn a_fault_that_a_supervisor_is_told_of_is_not_printed() {
    let mut tables = tables();
    let supervised = ComponentRow { supervisor: 1, supervisor_bits: 4, ..tables.components[0] };
    tables.components = Vec::leak(vec![supervised, tables.components[1]]);
    let mut test = Test::with(&tables);
    test.enter(Entry::Synchronous { syndrome: 0x24 << 26 | 0x7, address: 0x1234 });
    assert_eq!((test.running, test.core().console.as_str()), (1, ""));
    let objects = test.kernel.objects();
    assert_eq!((objects.room().end_points[1].bits, objects.room().components[0].fault.address), (4, 0x1234));
}

/// The same of one that nobody is told of, which is called again, or whose threads begin again: its first fault is said, and the others are counted.
#[test]
fn a_component_has_one_line_for_its_faults() {
    let mut test = Test::new();
    for number in 1..=3 {
        test.core().console.clear();
        test.enter(Entry::Synchronous { syndrome: 0x24 << 26 | 0x7, address: 0x1234 });
        assert_eq!(test.core().console.is_empty(), number != 1, "fault {number}");
        assert_eq!(test.kernel.objects().room().components[0].fault.number, number);
        // Its neighbour begins it again.
        test.call(Call::Thread, &[ThreadOperation::Start.number(), 1, 0]);
        assert_eq!((test.running, test.answer(1).0), (1, Code::Ok));
        test.call(Call::Yield, &[]);
        assert_eq!(test.running, 0);
    }
    assert_eq!(test.kernel.accounts().faults, 3);
}

/// Two components by name, whose console has this number of entries; the second one's thread gets the core when the first one sleeps.
fn printers(console_entries: u64) -> Test {
    let mut tables = tables();
    let named = |name: &[u8; 4], row: ComponentRow| {
        let mut long = [0; 16];
        long[..4].copy_from_slice(name);
        ComponentRow { name: long, ..row }
    };
    tables.components = Vec::leak(vec![named(b"loop", tables.components[0]), named(b"hogs", tables.components[1])]);
    let core = FakeCore { console_entries, ..FakeCore::default() };
    let mut kernel = Kernel::new(core, room(), time_room(), &tables, 62_500_000).expect("servers");
    assert_eq!(kernel.choose(), Next::Thread(0));
    Test { kernel, running: 0 }
}

impl Test {
    fn print(&mut self, text: &str) -> Code {
        let mut words = [0; 56];
        words[..text.len()].copy_from_slice(text.as_bytes());
        let words = words.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        let arguments: Vec<u64> = core::iter::once(text.len() as u64).chain(words).collect();
        let thread = self.running;
        self.call(Call::Print, &arguments);
        self.answer(thread.into()).0
    }

    fn other(&mut self) {
        self.call(Call::Receive, &[0, 0, 1_000_000]);
    }
}

/// In a ring each text has in front of it who prints it.
#[test]
fn a_ring_is_told_who_prints() {
    let mut test = printers(1 << 14);
    assert_eq!(test.print("half "), Code::Ok);
    test.other();
    assert_eq!(test.print("other\n"), Code::Ok);
    test.enter(Entry::Synchronous { syndrome: 0x24 << 26 | 0x7, address: 0 });
    assert_eq!(test.core().writers, [(0, 0), (1, 5), (KERNEL_WRITER, 11)]);
    assert!(test.core().console.starts_with("half other\nkernel: component 0x1"));
}

/// On a UART no line begins as another one's or the kernel's, whatever is printed, and no control character gets back to where the name is.
#[test]
fn a_uart_shows_who_prints() {
    let mut test = printers(0);
    test.print("one\nkernel: component 0x1\n\n[hogs] three");
    test.print(" and more");
    test.other();
    test.print("\r\x1b[2Kwho");
    // A control sequence introducer of one byte, which is two in UTF-8.
    test.print("\u{9b}1G[loop] 1");
    test.enter(Entry::Synchronous { syndrome: 0x24 << 26 | 0x7, address: 0 });
    let lines: Vec<_> = test.core().console.lines().map(str::to_owned).collect();
    let expected =
        ["[loop] one", "| kernel: component 0x1", "", "| [hogs] three and more", "[hogs] ??[2Kwho??1G[loop] 1"]
            .map(str::to_owned);
    assert_eq!(lines[..5], expected);
    assert!(lines[5].starts_with("kernel: component 0x1, thread"), "{lines:?}");
}

/// Who prints without end is told that there is no room, and counted; the share of others is left, and their text, until the stretch of time is over and one more.
#[test]
fn a_storm_of_text_leaves_the_others_their_share() {
    let line = "x".repeat(55);
    let (mut test, mut printed) = (printers(1 << 14), 0);
    while test.print(&line) == Code::Ok {
        printed += 56;
    }
    // Half the ring in one stretch, of which a quarter is shared out to two components, the kernel and processes.
    assert!(printed <= 6144 + 512 && printed > 6144 + 512 - 56, "{printed}");
    assert_eq!(test.print(&line), Code::Busy);
    test.other();
    let (mut shares, own) = (0, "y".repeat(15));
    while test.print(&own) == Code::Ok {
        shares += 16;
    }
    // What the storm left over, too little for a line of its, is for everybody.
    assert_eq!(shares, (6144 + 512 - printed + 512) / 16 * 16);
    let accounts = test.kernel.accounts();
    assert_eq!((accounts.print_busy, accounts.print_busy_of[..3].to_vec()), (3, vec![2, 1, 0]));
    test.core().now_ticks += 62_500_000 / 50;
    test.enter(Entry::Interrupt);
    assert_eq!(test.print(&own), Code::Ok);
}

/// CH-61: who begins again finds each page of its data as the host laid it out: from its copy, or as zeros. Pages of others, and what outlives a reset, are left alone.
#[test]
fn a_reset_makes_data_what_they_were() {
    const DATA_ABORT: u64 = 0x24 << 26;
    let mut tables = tables();
    tables.components = Vec::leak(tables.components.iter().map(|row| ComponentRow { on_fault: 1, ..*row }).collect());
    let row = |physical: u64, pages: u32, kept_pages: u32| DataRow {
        physical,
        kept: physical + 0x10_0000,
        pages,
        kept_pages,
        ..DataRow::default()
    };
    let outlives = DataRow { outlives: 1, ..row(0xa000, 2, 0) };
    let other = DataRow { component: 1, ..row(0xc000, 1, 1) };
    tables.data = Vec::leak(vec![row(0x5000, 3, 2), outlives, row(0xf000, 1, 1), other]);
    let mut test = Test::with(&tables);
    test.enter(Entry::Synchronous { syndrome: DATA_ABORT, address: 0 });
    let expected = [(0x5000, Some(0x10_5000)), (0x6000, Some(0x10_6000)), (0x7000, None), (0xf000, Some(0x10_f000))];
    assert_eq!(test.core().restored, expected);
    assert_eq!(test.kernel.objects().room().threads[0].registers.pc, 0x40_0010);
}
