//! Console input below a payload: the core that has the UART's interrupt, the one to which it hands it over, and the one that is next, in every order,
//! with a thief of active states (A12) beside them.

use super::interleave::{Core, Stop, World, explore, stop};
use super::*;
use bulkhead_arch::fake::Event;
use bulkhead_arm::gic;
use std::cell::RefCell;
use std::rc::Rc;

const UART: u64 = 0x0900_0000;
const INTID: u32 = 33;
const NEXT: u8 = 0x1d;
/// Board cores of the giver, of the `direct` partition, and of who is next.
const MPIDR: [u64; 3] = [1, 2, 3];
const DIRECT: usize = 1;
/// Place of the thief among the coroutines.
const THIEF: usize = 3;

fn status_of(core: usize) -> PhysicalAddress {
    PhysicalAddress(0x5200_0000 + 0x1000 * core as u64)
}

fn vcpu(core: usize, machine: &FakeMachine) -> Vcpu<FakeMachine> {
    let mut partition = partition(1);
    partition.mode = if core == DIRECT { MODE_DIRECT } else { MODE_MAPPED };
    partition.vcpu_mpidr[0] = MPIDR[core];
    let mut plan = VcpuPlan::new_zeroed();
    plan.mode = partition.mode;
    plan.mpidr = MPIDR[core];
    plan.status = status_of(core);
    plan.counters = PhysicalAddress(0x5300_0000 + 0x1000 * core as u64);
    plan.gicd = PhysicalAddress(GICD);
    plan.gicr = PhysicalAddress(0x080a_0000);
    plan.uart = PhysicalAddress(UART);
    plan.uart_interrupt = INTID;
    plan.uart_first = u32::from(core == 0);
    // The focus goes from the giver to the `direct` one without another route.
    plan.uart_next_mpidr = [MPIDR[0], MPIDR[2], MPIDR[0]][core];
    plan.handed_status = status_of([DIRECT, 0, 2][core]);
    plan.handed_mpidr = [MPIDR[DIRECT] as u32, 0, 0][core];
    let (partition, plan) = (Box::leak(Box::new(partition)), Box::leak(Box::new(plan)));
    Vcpu::new(machine.clone(), 0, plan, partition, shared())
}

struct Board {
    vcpus: Vec<RefCell<Vcpu<FakeMachine>>>,
    machine: FakeMachine,
    /// Kicks that the `direct` one has not looked at.
    kicks: Cell<u32>,
    thefts: Cell<u32>,
    over: Cell<bool>,
}

thread_local! {
    static BOARD: RefCell<Option<Rc<Board>>> = const { RefCell::new(None) };
}

/// Others may come before each access.
fn stop_at_each_access(machine: &FakeMachine) {
    machine.at_access.set(Some((0, stop_at_each_access)));
    stop(Stop::Access);
}

impl Board {
    fn new(text: &[u8], thefts: u32) -> Rc<Self> {
        let machine = machine(PhysicalAddress(0x080a_0000));
        machine.payload_mpidr.set(Some(0));
        machine.uart.set(UART);
        let mut vcpus: Vec<_> = (0..3).map(|core| vcpu(core, &machine)).collect();
        vcpus.iter_mut().for_each(Vcpu::begin);
        machine.received.borrow_mut().extend(text);
        machine.take_events();
        machine.active.borrow_mut().clear();
        let vcpus = vcpus.into_iter().map(RefCell::new).collect();
        let (kicks, thefts, over) = (Cell::new(0), Cell::new(thefts), Cell::new(false));
        let board = Rc::new(Self { vcpus, machine, kicks, thefts, over });
        BOARD.set(Some(Rc::clone(&board)));
        board
    }

    fn route(&self) -> u64 {
        self.machine.words.borrow()[&(GICD + gic::route(bulkhead_arm::Intid(INTID)))]
    }

    fn live(&self, me: usize) {
        loop {
            stop(Stop::Poll(me == THIEF && self.thefts.get() != 0));
            if self.over.get() {
                return;
            }
            if me == THIEF {
                self.thefts.set(self.thefts.get() - 1);
                self.machine.active.borrow_mut().remove(&INTID);
            } else if me == DIRECT {
                self.kicks.set(0);
                self.vcpus[me].borrow_mut().interrupt(1023);
            } else {
                self.machine.active.borrow_mut().insert(INTID);
                self.vcpus[me].borrow_mut().interrupt(INTID);
            }
        }
    }

    /// What each guest finds in its UART.
    fn read(&self) -> Vec<Vec<u8>> {
        let all = |vcpu: &RefCell<Vcpu<FakeMachine>>| {
            let uart = &vcpu.borrow().shared.uart;
            let reads = std::iter::repeat_with(|| uart.read(0)).take_while(|read| read.taken);
            reads.map(|read| read.value as u8).collect()
        };
        self.vcpus.iter().map(all).collect()
    }
}

impl World for Rc<Board> {
    fn has_interrupt(&self, index: usize) -> bool {
        match index {
            DIRECT => self.kicks.get() != 0,
            THIEF => false,
            _ => {
                let is_signalled = !self.machine.received.borrow().is_empty() && self.route() == MPIDR[index];
                let is_held =
                    [&self.machine.active, &self.machine.disabled].iter().any(|set| set.borrow().contains(&INTID));
                is_signalled && !is_held
            }
        }
    }

    fn show_interrupt(&self, _: usize, _: bool) {}

    fn stopped(&self, _: usize) -> bool {
        let kicks = self.machine.take_events().into_iter().filter(|event| *event == Event::Kick(MPIDR[DIRECT]));
        self.kicks.set(self.kicks.get() + kicks.count() as u32);
        false
    }

    fn let_time_pass(&self) {}

    fn quit(&self) {
        self.over.set(true);
    }
}

/// Tells the story of a text in every order with this number of preemptions.
fn tell(text: &[u8], thefts: u32, preemptions: usize, check: impl Fn(&Board)) -> usize {
    explore(preemptions, |run| {
        let board = Board::new(text, thefts);
        let body = |me| move || BOARD.with_borrow(|board| board.clone().expect("a story is told")).live(me);
        stop_at_each_access(&board.machine);
        run(&board, (0..if thefts == 0 { 3 } else { 4 }).map(|me| Core::new(body(me))).collect());
        board.machine.at_access.set(None);
        check(&board);
    })
}

/// Each byte comes to the guest that has the focus when the UART gives it, once and in order, in whatever order the cores come to their words; and in the
/// end nobody keeps the interrupt.
#[test]
fn input_that_is_handed_over_comes_to_who_has_the_focus() {
    let text = [b'a', NEXT, b'b', b'c', NEXT, b'd', NEXT, b'e', NEXT, NEXT, b'f'];
    let runs = tell(&text, 0, 2, |board| {
        assert_eq!(board.read(), [b"ae".to_vec(), b"bc".to_vec(), b"df".to_vec()]);
        assert!(board.machine.received.borrow().is_empty() && !board.machine.active.borrow().contains(&INTID));
        assert!(!board.machine.disabled.borrow().contains(&INTID));
    });
    println!("{runs} orders");
    assert!(runs > 100, "{runs} orders");
}

/// A thief makes the interrupt come again at any moment. Each byte comes all the same, to who has the focus.
#[test]
fn a_thief_of_the_interrupt_changes_nothing_for_input_that_is_handed_over() {
    let text = [NEXT, b'b', NEXT, b'd'];
    let runs = tell(&text, 1, 2, |board| {
        assert_eq!(board.read(), [b"".to_vec(), b"b".to_vec(), b"d".to_vec()]);
        assert!(board.machine.received.borrow().is_empty() && !board.machine.disabled.borrow().contains(&INTID));
    });
    println!("{runs} orders");
    assert!(runs > 1_000, "{runs} orders");
}

/// A thief beside a guest that is being restarted, whose core looks at no kick: the giver has one interrupt, and not one for each theft.
#[test]
fn thefts_while_nobody_takes_the_input_cost_the_giver_one_interrupt() {
    let board = Board::new(&[NEXT, b'b'], 0);
    let mut interrupts = 0;
    for _ in 0..100 {
        if board.has_interrupt(0) {
            interrupts += 1;
            board.machine.active.borrow_mut().insert(INTID);
            board.vcpus[0].borrow_mut().interrupt(INTID);
        }
        board.machine.active.borrow_mut().remove(&INTID);
    }
    // One to give the focus away, and one to hand over.
    assert_eq!(interrupts, 2);
    board.vcpus[DIRECT].borrow_mut().interrupt(1023);
    assert_eq!(board.read()[DIRECT], b"b");
    assert!(!board.machine.disabled.borrow().contains(&INTID));
}

/// An interrupt controller may still signal what was disabled, for a while. The other core may end and enable the interrupt at each access of the
/// giver meanwhile, and it stays enabled.
#[test]
fn an_interrupt_that_was_disabled_late_is_not_disabled_for_ever() {
    fn take(_: &FakeMachine) {
        let board = BOARD.with_borrow(|board| board.clone().expect("a story is told"));
        board.vcpus[DIRECT].borrow_mut().interrupt(1023);
    }
    for access in 0.. {
        let board = Board::new(&[NEXT, b'b'], 0);
        for accesses in [None, None, Some(access)] {
            board.machine.at_access.set(accesses.map(|accesses| (accesses, take as fn(&FakeMachine))));
            board.machine.active.borrow_mut().insert(INTID);
            board.vcpus[0].borrow_mut().interrupt(INTID);
        }
        let is_over = board.machine.at_access.take().is_some();
        board.vcpus[DIRECT].borrow_mut().interrupt(1023);
        assert_eq!(board.read()[DIRECT], b"b");
        assert!(!board.machine.disabled.borrow().contains(&INTID), "the other core came before access {access}");
        if is_over {
            assert!(access > 5);
            return;
        }
    }
}
