//! Exceptions taken by the guest: interrupts go to [`crate::interrupt`], everything else to a handler or to the end.
//!
//! One frame layout and one Rust entry serve all sixteen vectors. A separate short path for interrupts would save about
//! thirty instructions an interrupt and cost a second piece of assembly; a guest that needs it (`bench`) sets its own
//! VBAR_EL1.

use crate::{interrupt, psci, syndrome::Syndrome};
use core::{
    arch::global_asm,
    sync::atomic::{AtomicPtr, Ordering},
};

/// Registers of the interrupted code. What a handler writes here is in force after the exception's return.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Frame {
    /// x0 to x30.
    pub registers: [u64; 31],
    /// Where the code continues (ELR_EL1).
    pub program_counter: u64,
    /// Its processor state (SPSR_EL1).
    pub processor_state: u64,
    /// Why (ESR_EL1); not written back.
    pub syndrome: u64,
    /// Address of an abort (FAR_EL1); not written back.
    pub address: u64,
    /// Keeps the stack aligned to 16 bytes.
    padding: u64,
}

const _: () = assert!(size_of::<Frame>() == 288, "vectors.s stores at these offsets");
const _: () = assert!(core::mem::offset_of!(Frame, program_counter) == 248);
const _: () = assert!(core::mem::offset_of!(Frame, processor_state) == 256);
const _: () = assert!(core::mem::offset_of!(Frame, syndrome) == 264);
const _: () = assert!(core::mem::offset_of!(Frame, address) == 272);

global_asm!(include_str!("vectors.s"), frame_bytes = const size_of::<Frame>());

/// What happens after a fault handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFault {
    /// Continue with the frame as the handler left it.
    Resume,
    /// Print the exception and end the guest.
    End,
}

/// A guest's own answer to synchronous exceptions and SError.
pub type FaultHandler = fn(&mut Frame, Syndrome) -> AfterFault;

static FAULT_HANDLER: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Installs the handler for synchronous exceptions and SError, on all vCPUs.
pub fn on_fault(handler: FaultHandler) {
    FAULT_HANDLER.store(handler as *mut (), Ordering::Release);
}

fn fault_handler() -> Option<FaultHandler> {
    let handler = FAULT_HANDLER.load(Ordering::Acquire);
    if handler.is_null() {
        return None;
    }
    // SAFETY: the only store is in `on_fault`, of a function pointer of exactly this type.
    Some(unsafe { core::mem::transmute::<*mut (), FaultHandler>(handler) })
}

/// Value and syndrome of a probe, in x0 and x1.
#[repr(C)]
struct Probe {
    value: u64,
    syndrome: u64,
}

unsafe extern "C" {
    fn bulkhead_sdk_probe_read(address: u64) -> Probe;
    static bulkhead_sdk_probe_load: [u8; 0];
}

/// Reads 8 bytes at an address that may not exist; an abort taken to this guest comes back as an error.
///
/// An abort that the monitor takes at stage 2 does not come back: it is this partition's fault and goes to its policy.
///
/// # Errors
/// The abort's syndrome.
pub fn probe_read64(address: u64) -> Result<u64, Syndrome> {
    // SAFETY: the assembly reads memory once and changes nothing; an abort at its load is recognised in
    // `take_exception`. Any 8 bytes are a valid u64.
    let probe = unsafe { bulkhead_sdk_probe_read(address) };
    if probe.syndrome == 0 { Ok(probe.value) } else { Err(Syndrome(probe.syndrome)) }
}

/// Serves an abort of [`probe_read64`]; false when the exception is something else.
fn serve_probe(frame: &mut Frame) -> bool {
    if frame.program_counter != (&raw const bulkhead_sdk_probe_load) as u64 {
        return false;
    }
    // The class of an abort is not 0, so neither is the syndrome.
    frame.registers[1] = frame.syndrome;
    frame.program_counter += 4;
    true
}

/// Rust end of every vector. `vector` counts from VBAR_EL1: source of the exception * 4 + kind (0 synchronous, 1 IRQ,
/// 2 FIQ, 3 SError).
#[unsafe(no_mangle)]
extern "C" fn bulkhead_sdk_take_exception(frame: &mut Frame, vector: u64) {
    match vector & 3 {
        1 => return interrupt::take(),
        0 if serve_probe(frame) => return,
        0 | 3 => {
            let syndrome = Syndrome(frame.syndrome);
            if fault_handler().is_some_and(|handler| handler(frame, syndrome) == AfterFault::Resume) {
                return;
            }
        }
        _ => {}
    }
    end(frame, vector)
}

fn end(frame: &Frame, vector: u64) -> ! {
    let kind = match vector & 3 {
        0 => "synchronous exception",
        1 => "interrupt",
        2 => "fast interrupt",
        _ => "SError",
    };
    crate::println!(
        "guest fault: {kind} on vCPU {}: {}, at {:#x}, address {:#x}, processor state {:#x}, x0 {:#x}, x30 {:#x}",
        crate::cpu::vcpu(),
        Syndrome(frame.syndrome),
        frame.program_counter,
        frame.address,
        frame.processor_state,
        frame.registers[0],
        frame.registers[30],
    );
    psci::give_up()
}
