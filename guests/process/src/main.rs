//! A small kernel with two processes at EL0, which does what a kernel does in steady state: system calls, page-table changes, switches
//! between address spaces, messages, device registers and a timer, and none of it is the monitor's affair (QV-5).
//!
//! A process reads a word of its only page of data, writes it back behind, and calls the kernel. The kernel compares what the process
//! read, what it wrote and how often it called with what they must be, then maps another frame at the page, with another word in it. So
//! a translation that stayed too long, or a register that was lost, is counted as wrong. At each tick of its timer the kernel changes to
//! the other process, publishes a value and reads the clock's register, if the partition has the port `ticks` and the clock.
//!
//! Arguments: `ticks=N` (ends after N ticks, default 100), `period_us=N` (default 100), `clock=1` (the partition has the clock).
#![no_std]
#![no_main]

mod space;

use bulkhead_sdk::{
    arguments, cpu,
    exception::{self, AfterFault, Frame},
    information,
    interrupt::{self, InterruptId, VIRTUAL_TIMER},
    mmio,
    port::SamplingSource,
    println, psci,
    syndrome::Syndrome,
    timer,
};
use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use space::{PROCESSES, Space, USER_TEXT, WINDOW};

bulkhead_sdk::entry!(main);

global_asm!(include_str!("user.s"));

const DEFAULT_TICKS: u64 = 100;
const DEFAULT_PERIOD_MICROSECONDS: u64 = 100;
const MICROSECONDS_PER_SECOND: u64 = 1_000_000;
/// Data register of the PL031 on QEMU `virt`, at the same guest address in a partition.
const CLOCK_DATA: u64 = 0x0901_0000;
/// Exception class of SVC at EL0 in AArch64.
const CLASS_SVC: u64 = 0x15;

/// Register of `user.s` with the word that it read.
const REGISTER_WORD: usize = 1;
/// And with how often it called.
const REGISTER_CALLS: usize = 2;

static PERIOD: AtomicU64 = AtomicU64::new(0);
static NEXT: AtomicU64 = AtomicU64::new(0);
static TICKS: AtomicU64 = AtomicU64::new(0);

/// What a process has in registers while the other one runs.
#[derive(Clone, Copy)]
struct Context {
    registers: [u64; 31],
    program_counter: u64,
    processor_state: u64,
}

impl Context {
    /// At the begin of the program, at EL0 with interrupts unmasked.
    const fn fresh() -> Self {
        let mut registers = [0; 31];
        registers[0] = WINDOW;
        Self { registers, program_counter: USER_TEXT, processor_state: 0 }
    }

    fn exchange(&mut self, frame: &mut Frame) {
        core::mem::swap(&mut self.registers, &mut frame.registers);
        core::mem::swap(&mut self.program_counter, &mut frame.program_counter);
        core::mem::swap(&mut self.processor_state, &mut frame.processor_state);
    }
}

/// The kernel's state; system calls alone use it, with interrupts masked.
struct Kernel {
    spaces: [Space; PROCESSES],
    /// How often each process called.
    calls: [u64; PROCESSES],
    current: usize,
    other: Context,
    last_tick: u64,
    ticks: u64,
    has_clock: bool,
    port: Option<SamplingSource>,
    changes: u64,
    switches: u64,
    messages: u64,
    readings: u64,
    wrong: u64,
}

static mut KERNEL: Option<Kernel> = None;

fn main() {
    let text = information::arguments();
    let number = |key, default| arguments::number(text, key).unwrap_or(default);
    interrupt::on_interrupt(take_interrupt);
    exception::on_fault(take_exception);
    interrupt::start();
    timer::enable_interrupt();
    let kernel = Kernel {
        spaces: [Space::new(0), Space::new(1)],
        calls: [0; PROCESSES],
        current: 0,
        other: Context::fresh(),
        last_tick: 0,
        ticks: number("ticks", DEFAULT_TICKS),
        has_clock: number("clock", 0) != 0,
        port: SamplingSource::open("ticks").ok(),
        changes: 0,
        switches: 0,
        messages: 0,
        readings: 0,
        wrong: 0,
    };
    println!("process start");
    kernel.spaces[0].activate();
    // SAFETY: nothing else uses it yet: no system call was made.
    unsafe { KERNEL = Some(kernel) };
    PERIOD.store(
        cpu::frequency_hz() * number("period_us", DEFAULT_PERIOD_MICROSECONDS) / MICROSECONDS_PER_SECOND,
        Relaxed,
    );
    NEXT.store(cpu::counter_ticks() + PERIOD.load(Relaxed), Relaxed);
    timer::set_compare_ticks(NEXT.load(Relaxed));
    enter(&Context::fresh());
}

/// Goes to EL0; what comes back are exceptions.
fn enter(context: &Context) -> ! {
    // SAFETY: the address space of the first process is active, its text is `user.s`, and exceptions from EL0 use this stack.
    unsafe {
        asm!(
            "msr ELR_EL1, {counter}",
            "msr SPSR_EL1, {state}",
            "mov x2, #0",
            "eret",
            counter = in(reg) context.program_counter,
            state = in(reg) context.processor_state,
            in("x0") context.registers[0],
            options(noreturn),
        );
    }
}

fn take_interrupt(id: InterruptId) {
    if id == VIRTUAL_TIMER {
        TICKS.fetch_add(1, Relaxed);
        NEXT.fetch_add(PERIOD.load(Relaxed), Relaxed);
        timer::set_compare_ticks(NEXT.load(Relaxed));
    }
}

fn take_exception(frame: &mut Frame, syndrome: Syndrome) -> AfterFault {
    let kernel = &raw mut KERNEL;
    // SAFETY: exceptions of EL0 come one at a time, with interrupts masked, after `main` filled it; nothing else refers to it.
    let kernel = unsafe { &mut *kernel };
    match kernel {
        Some(kernel) if syndrome.class() == CLASS_SVC => {
            kernel.serve(frame);
            AfterFault::Resume
        }
        _ => AfterFault::End,
    }
}

impl Kernel {
    /// A system call.
    fn serve(&mut self, frame: &mut Frame) {
        let (space, calls) = (&mut self.spaces[self.current], &mut self.calls[self.current]);
        *calls += 1;
        let is_right =
            frame.registers[REGISTER_CALLS] == *calls && space.is_read_and_written(frame.registers[REGISTER_WORD]);
        self.wrong += u64::from(!is_right);
        space.map_other_frame();
        self.changes += 1;
        let ticks = TICKS.load(Relaxed);
        if ticks != self.last_tick {
            self.last_tick = ticks;
            self.tick(frame);
        }
    }

    fn tick(&mut self, frame: &mut Frame) {
        if self.last_tick >= self.ticks {
            self.end();
        }
        self.current = (self.current + 1) % PROCESSES;
        self.other.exchange(frame);
        self.spaces[self.current].activate();
        self.switches += 1;
        if let Some(port) = &mut self.port {
            self.messages += u64::from(port.write(&self.last_tick.to_le_bytes()).is_ok());
        }
        if self.has_clock {
            // SAFETY: reading the data register of a clock that belongs to this partition changes nothing.
            let _ = unsafe { mmio::read32(CLOCK_DATA) };
            self.readings += 1;
        }
    }

    fn end(&self) -> ! {
        timer::stop();
        println!(
            "process ticks={} calls={} changes={} switches={} messages={} readings={} wrong={}",
            self.last_tick,
            self.calls.iter().sum::<u64>(),
            self.changes,
            self.switches,
            self.messages,
            self.readings,
            self.wrong,
        );
        psci::system_off()
    }
}
