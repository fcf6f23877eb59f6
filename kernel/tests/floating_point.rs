//! Floating-point registers on a fake core: who finds what in them, between threads, calls, faults and lives (`kernel.md` 1 and 5).

use bulkhead_arch::fake::kernel::FakeCore;
use bulkhead_arch::kernel::Entry;
use bulkhead_kernel::{Kernel, Next};
use bulkhead_kernel_abi::boot::{
    BootHeader, ComponentRow, EndPointRow, EntryRow, ServerRow, StackRow, Tables, TcapRow, ThreadRow,
};
use bulkhead_kernel_abi::call::{Call, ComponentOperation};
use bulkhead_kernel_abi::capability::{entry_word, right};
use bulkhead_kernel_abi::{Capability, Code, Kind, NONE};
use support::{room, time_room};

mod support;

/// Components, and their threads: two declare floating point.
const CONTROL: u16 = 0;
const FILTER: u16 = 1;
const PLAIN: u16 = 2;
/// Slots in each table: Calls of each component by its number, and one to control's component itself.
const SLOTS: u32 = 4;
const RESET_FILTER: u64 = 3;

fn tables() -> Tables<'static> {
    let call = |component: u16| Capability {
        kind: Kind::Call.number(),
        rights: right::USE,
        object: component,
        grant: 1,
        word: entry_word(0, 0),
    };
    let kind = Kind::Component;
    let filter = Capability { kind: kind.number(), rights: kind.rights(), object: FILTER, grant: 1, word: 0 };
    let table = [call(CONTROL), call(FILTER), call(PLAIN), filter];
    let component = |number: u16| ComponentRow {
        root: u64::from(number + 1) << 12,
        first_slot: u32::from(number) * SLOTS,
        slots: SLOTS,
        first_entry: number.into(),
        entries: 1,
        first_stack: u32::from(number) * 2,
        stacks: 2,
        supervisor: NONE,
        floating_point: u8::from(number != PLAIN),
        ..ComponentRow::default()
    };
    let thread = |component: u16| ThreadRow {
        component,
        entry: 0x40_0010,
        started: 1,
        scheduler: NONE,
        end_point: NONE,
        ..ThreadRow::default()
    };
    let all = [CONTROL, FILTER, PLAIN];
    Tables {
        header: Box::leak(Box::new(BootHeader::default())),
        components: Vec::leak(all.map(component).to_vec()),
        entries: Vec::leak(vec![EntryRow { address: 0x40_0100, signature: 0 }; 3]),
        stacks: Vec::leak(vec![StackRow { top: 0x50_0000 }; 6]),
        capabilities: Vec::leak([table; 3].concat()),
        threads: Vec::leak(all.map(thread).to_vec()),
        servers: Vec::leak(vec![ServerRow { holder: NONE, band: NONE, ..ServerRow::default() }]),
        bands: &[],
        schedulers: &[],
        tcaps: Vec::leak(vec![TcapRow::default()]),
        end_points: Vec::leak(vec![EndPointRow { thread: NONE, ..EndPointRow::default() }]),
        bindings: &[],
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
        Self::with(3)
    }

    fn with(places: u16) -> Self {
        let core = FakeCore { places, ..FakeCore::default() };
        let mut kernel = Kernel::new(core, room(), time_room(), &tables(), 62_500_000).expect("servers");
        assert_eq!(kernel.choose(), Next::Thread(0));
        Self { kernel, running: 0 }
    }

    /// As the vectors do: an entry closes the registers, and who asks for them comes by a way of its own.
    fn enter(&mut self, entry: Entry) {
        self.kernel.machine().is_open = false;
        let asks = matches!(entry, Entry::Synchronous { syndrome, .. } if syndrome >> 26 == 0x07);
        if asks && self.kernel.gives_floating_point() {
            return;
        }
        match self.kernel.enter(entry) {
            Next::Thread(thread) => self.running = thread,
            Next::Nobody => panic!("a thread is left"),
        }
    }

    fn synchronous(&mut self, class: u64, status: u64) {
        self.enter(Entry::Synchronous { syndrome: class << 26 | 1 << 25 | status, address: 0 });
    }

    fn call(&mut self, call: Call, slot: u64, arguments: &[u64]) {
        let registers = self.kernel.registers().expect("it runs");
        registers.x[..8].fill(0);
        registers.x[..arguments.len()].copy_from_slice(arguments);
        registers.x[8] = slot;
        self.synchronous(0x15, call.number().into());
    }

    fn invoke(&mut self, component: u16) {
        self.call(Call::Invoke, component.into(), &[]);
        assert_eq!(self.place().0, component);
    }

    fn place(&mut self) -> (u16, u8) {
        let one = &self.kernel.objects().room().threads[usize::from(self.running)];
        (one.component, one.depth)
    }

    /// The thread that runs uses the registers: what it finds, and leaves; `None` where that is a fault.
    fn computes(&mut self, leaves: u64) -> Option<u64> {
        let (thread, faults) = (self.running, self.kernel.accounts().faults);
        if !self.kernel.machine().is_open {
            self.synchronous(0x07, 0x1e0_0000);
        }
        if self.kernel.accounts().faults != faults {
            assert!(!self.kernel.machine().is_open, "who may not has them");
            return None;
        }
        assert_eq!(self.running, thread);
        assert!(self.kernel.machine().is_open);
        Some(std::mem::replace(&mut self.kernel.machine().floating, leaves))
    }

    fn yields_to(&mut self, thread: u16) {
        for _ in 0..3 {
            if self.running == thread {
                return;
            }
            self.call(Call::Yield, 0, &[]);
            assert!(!self.kernel.machine().is_open, "closed until it is asked for");
        }
        panic!("thread {thread} does not run");
    }
}

#[test]
fn each_thread_finds_its_own_and_nobody_finds_anothers() {
    let mut test = Test::new();
    assert_eq!(test.computes(7), Some(0), "zeros at first");
    // Its own are there behind a call and an interrupt, and are not loaded again.
    test.call(Call::Version, 0, &[]);
    assert_eq!(test.computes(8), Some(7));
    test.enter(Entry::Interrupt);
    assert_eq!(test.computes(7), Some(8));
    test.yields_to(FILTER);
    assert_eq!(test.computes(9), Some(0));
    test.yields_to(CONTROL);
    assert_eq!(test.computes(7), Some(7));
    test.yields_to(FILTER);
    assert_eq!(test.computes(9), Some(9));
}

#[test]
fn who_does_not_declare_them_has_none_whoever_has_left_some() {
    let mut test = Test::new();
    assert_eq!(test.computes(7), Some(0));
    test.yields_to(PLAIN);
    assert_eq!(test.computes(1), None);
    assert_eq!(test.kernel.machine().floating, 7, "nothing was touched for it");
    test.yields_to(CONTROL);
    assert_eq!(test.computes(7), Some(7));
    // A callee of who computes.
    test.invoke(PLAIN);
    assert_eq!(test.computes(1), None);
    assert_eq!(test.place(), (CONTROL, 0), "the fault is the callee's");
    let code = test.kernel.registers().expect("it runs").x[8];
    assert_eq!(Code::from_number(code), Some(Code::Faulted));
    assert_eq!(test.computes(0), Some(7));
}

#[test]
fn a_call_hands_nothing_over_in_either_direction() {
    let mut test = Test::new();
    assert_eq!(test.computes(7), Some(0));
    test.invoke(FILTER);
    assert_eq!(test.computes(9), Some(0), "not the caller's");
    test.call(Call::Return, 0, &[]);
    assert_eq!(test.place(), (CONTROL, 0));
    assert_eq!(test.computes(7), Some(0), "not the callee's");
    // From who does not declare them into who does, and deeper into the same component.
    test.yields_to(PLAIN);
    test.invoke(CONTROL);
    assert_eq!(test.computes(5), Some(0));
    test.invoke(CONTROL);
    assert_eq!(test.computes(6), Some(0), "another level of the same component");
    test.call(Call::Return, 0, &[]);
    assert_eq!(test.computes(5), Some(0));
    test.call(Call::Return, 0, &[]);
    assert_eq!(test.computes(5), None);
}

/// The same where the caller's were kept for it meanwhile, and it has not asked for them again.
#[test]
fn what_is_kept_for_a_caller_is_not_loaded_for_its_callee() {
    let mut test = Test::new();
    assert_eq!(test.computes(7), Some(0));
    test.yields_to(FILTER);
    assert_eq!(test.computes(9), Some(0));
    test.yields_to(CONTROL);
    test.invoke(FILTER);
    assert_eq!(test.computes(5), Some(0));
}

#[test]
fn a_callee_that_faults_leaves_nothing() {
    let mut test = Test::new();
    test.invoke(FILTER);
    assert_eq!(test.computes(9), Some(0));
    test.synchronous(0x24, 0x07);
    assert_eq!(test.place(), (CONTROL, 0));
    assert_eq!(test.computes(0), Some(0));
}

#[test]
fn another_life_begins_with_zeros() {
    let mut test = Test::new();
    test.yields_to(FILTER);
    assert_eq!(test.computes(9), Some(0));
    test.yields_to(CONTROL);
    test.call(Call::Component, 0, &[ComponentOperation::Reset.number(), RESET_FILTER]);
    test.yields_to(FILTER);
    assert_eq!(test.computes(9), Some(0));
}

#[test]
fn a_thread_without_a_place_for_them_has_none() {
    let mut test = Test::with(1);
    assert_eq!(test.computes(7), Some(0));
    test.yields_to(FILTER);
    assert_eq!(test.computes(9), None);
}
