//! The table of calls. It is for pages, tests and bindings of other languages: the kernel has a `match`.

use super::{
    Call, CapabilityOperation, ComponentOperation, InterruptOperation, MemoryOperation, ServerOperation, TcapOperation,
    ThreadOperation,
};
use crate::Code;

/// How long a call can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// One path, whatever the tables hold.
    Constant,
    /// At most so many steps of the same kind.
    Steps(u8),
    /// Pieces of one page or one object; between them the kernel looks for interrupts.
    Slices,
}

/// A register and what it holds.
pub type Register = (u8, &'static str);

/// A call, or one operation of it.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The call.
    pub call: Call,
    /// Number and name of the operation, where the call has several.
    pub operation: Option<(u64, &'static str)>,
    /// Registers that it takes; x0 is the operation where there are several.
    pub arguments: &'static [Register],
    /// Registers that it answers, beside the code's.
    pub answers: &'static [Register],
    /// What it may answer besides [`Code::COMMON`].
    pub codes: &'static [Code],
    /// How long it can be.
    pub bound: Bound,
}

impl Row {
    /// The register of the code: x0, or x8 where x0 to x7 belong to caller and callee.
    #[must_use]
    pub const fn code_register(&self) -> u8 {
        if matches!(self.call, Call::Invoke | Call::Return) { 8 } else { 0 }
    }
}

/// Makes the table from lines that read like it.
macro_rules! rows {
    ($($call:ident $(: $set:ident :: $operation:ident)? ($($argument:literal $means:literal),*)
        -> ($($answer:literal $says:literal),*) [$($code:ident)*] $bound:expr;)+) => {
        /// Every call and operation.
        pub const ROWS: &[Row] = &[$(Row {
            call: Call::$call,
            operation: operation!($($set::$operation)?),
            arguments: &[$(($argument, $means)),*],
            answers: &[$(($answer, $says)),*],
            codes: &[$(Code::$code),*],
            bound: $bound,
        }),+];
    };
}

macro_rules! operation {
    () => {
        None
    };
    ($set:ident :: $operation:ident) => {
        Some(($set::$operation.number(), $set::$operation.name()))
    };
}

use Bound::{Constant, Slices, Steps};

rows! {
    Invoke (8 "slot of a Call, Send or RemoteSend", 0 "x0 to x7: arguments of the callee") ->
        (0 "x0 to x7: what the callee returned") [Denied Gone NoStack TooDeep NoTime Busy Faulted TimedOut] Constant;
    Return (0 "x0 to x7: for the caller") -> () [] Constant;
    Receive (0 "slot of a Receive; 0 sleeps", 1 "flags: no_wait, all", 2 "deadline in ticks of the counter; 0 for none") ->
        (1 "bits", 2 "sends since the last one that took all; 0 while bits remain") [WouldBlock TimedOut Denied] Constant;
    Events (0 "slot of a Scheduler", 1 "flags: no_wait", 2 "deadline; 0 for none, in a scheduler of one thread only") ->
        (1 "label of the thread", 2 "what happened, bits", 3 "ticks used since its last event", 4 "deadline that it waits for",
         5 "token", 6 "1 if there are more") [Denied WouldBlock TimedOut] Constant;
    Switch (0 "slot of a Scheduler", 1 "slot of a Thread", 2 "slot of a TCap; 0 for its own", 3 "priority; 0 for the permanent one",
        4 "time-out; 0 for none", 5 "token; not looked at for the scheduler's own thread") -> () [Stale NoTime Denied Busy] Constant;
    Yield () -> () [Denied] Constant;
    Delegate (0 "slot of a TCap or Send: to", 1 "slot of a TCap: from", 2 "ticks; 0 for all that is usable, all ones for ALL",
        3 "priority; 0 for the permanent one", 4 "flags: notify") -> () [Denied NoTime Full Busy] Steps(32);
    Tcap: TcapOperation::Create (1 "slot of a Scheduler", 2 "slot that gets it") -> () [Denied Full] Constant;
    Tcap: TcapOperation::Transfer (1 "slot: to", 2 "slot: from", 3 "ticks") -> () [Denied NoTime Busy] Constant;
    Tcap: TcapOperation::Merge (1 "slot: to", 2 "slot: from") -> () [Denied Full Busy] Steps(32);
    Tcap: TcapOperation::Priority (1 "slot", 2 "priority") -> () [Denied] Constant;
    Tcap: TcapOperation::Read (1 "slot") -> (1 "ticks left", 2 "when they expire", 3 "priority") [Denied] Constant;
    Interrupt: InterruptOperation::Done (1 "slot of an Interrupt") -> () [Denied Busy] Constant;
    Interrupt: InterruptOperation::Expect (1 "slot of an Interrupt") -> () [Denied Full] Constant;
    Interrupt: InterruptOperation::Cancel (1 "slot of an Interrupt") -> () [Denied Busy] Constant;
    Interrupt: InterruptOperation::Serve (1 "slot of an Interrupt", 2 "client") -> () [Denied Busy] Constant;
    Interrupt: InterruptOperation::Finish (1 "slot of an Interrupt", 2 "client") -> () [Denied Busy] Constant;
    Thread: ThreadOperation::Create (1 "slot of a Quota", 2 "slot of a Server or Scheduler", 3 "entry", 4 "stack pointer",
        5 "slot that gets it") -> () [Denied Full] Constant;
    Thread: ThreadOperation::Start (1 "slot", 2 "its x0") -> () [Denied Busy Gone] Constant;
    Thread: ThreadOperation::Suspend (1 "slot") -> () [Denied Busy] Constant;
    Thread: ThreadOperation::Resume (1 "slot") -> () [Denied Busy] Constant;
    Thread: ThreadOperation::Stop (1 "slot") -> () [Denied] Steps(8);
    Thread: ThreadOperation::Abort (1 "slot") -> () [Denied Busy] Constant;
    Thread: ThreadOperation::Bind (1 "slot", 2 "slot of a Server or Scheduler") -> () [Denied Busy] Constant;
    Thread: ThreadOperation::Limit (1 "slot", 2 "ticks", 3 "slot of a Send: who is told") -> () [Denied] Constant;
    Thread: ThreadOperation::Unlimit (1 "slot") -> () [Denied] Constant;
    Thread: ThreadOperation::Read (1 "slot") -> (1 "state", 2 "calls that it is inside", 3 "ticks left of its limit") [Denied] Constant;
    Server: ServerOperation::Create (1 "slot of a Band", 2 "budget in ticks", 3 "period in ticks", 4 "slot that gets it") ->
        () [Denied NotAdmitted Full] Steps(64);
    Server: ServerOperation::Set (1 "slot", 2 "budget in ticks", 3 "period in ticks") -> () [Denied NotAdmitted] Steps(64);
    Server: ServerOperation::Destroy (1 "slot") -> () [Denied Busy] Constant;
    Server: ServerOperation::Read (1 "slot") -> (1 "budget in ticks", 2 "period in ticks", 3 "ticks used") [Denied] Constant;
    Memory: MemoryOperation::Map (1 "slot of a Memory", 2 "first page", 3 "address", 4 "pages", 5 "rights") -> () [Denied Full Busy] Slices;
    Memory: MemoryOperation::Unmap (1 "slot of a Memory", 2 "address", 3 "pages") -> () [Denied] Slices;
    Memory: MemoryOperation::Protect (1 "slot of a Memory", 2 "address", 3 "pages", 4 "rights") -> () [Denied] Slices;
    Memory: MemoryOperation::Share (1 "slot of a Memory", 2 "first page", 3 "pages", 4 "rights", 5 "slot that gets it") ->
        () [Denied Full Busy] Constant;
    Capability: CapabilityOperation::Copy (1 "slot of the Table to copy from; 0 for the own", 2 "slot in it",
        3 "slot of the Table to copy to; 0 for the own", 4 "slot in it, which must be empty", 5 "rights that may stay") ->
        () [Denied Full] Constant;
    Capability: CapabilityOperation::Move (1 "slot of the Table to move from; 0 for the own", 2 "slot in it",
        3 "slot of the Table to move to; 0 for the own", 4 "slot in it, which must be empty") -> () [Denied Full] Constant;
    Capability: CapabilityOperation::Delete (1 "slot of a Table; 0 for the own", 2 "slot in it") -> () [Denied] Constant;
    Capability: CapabilityOperation::Revoke (1 "slot") -> () [Denied] Constant;
    Capability: CapabilityOperation::Read (1 "slot of a Table; 0 for the own", 2 "slot in it") ->
        (1 "kind", 2 "rights", 3 "1 if it is void") [Denied] Constant;
    Component: ComponentOperation::Spawn (1 "program", 2 "slot of a Quota", 3 "slot of a Server or Scheduler", 4 "first slot that is given",
        5 "how many", 6 "slot that gets it") -> () [Denied NotAdmitted Full] Slices;
    Component: ComponentOperation::Fork (1 "slot of a Quota", 2 "slot of a Server", 3 "slot that gets the child") ->
        (1 "0 in the child, 1 in the parent") [Denied NotAdmitted Full Busy] Slices;
    Component: ComponentOperation::Exec (1 "program") -> () [Denied Full] Slices;
    Component: ComponentOperation::Exit (1 "code, for the parent") -> () [] Slices;
    Component: ComponentOperation::Destroy (1 "slot of a Component") -> () [Denied Gone] Slices;
    Component: ComponentOperation::Reset (1 "slot of a Component") -> () [Denied Gone] Slices;
    Component: ComponentOperation::Fault (1 "slot of a Component") ->
        (1 "kind", 2 "thread", 3 "faults so far", 4 "ESR_EL1", 5 "FAR_EL1", 6 "ELR_EL1") [Denied Gone] Constant;
    Component: ComponentOperation::Read (1 "slot of a Component") -> (1 "state", 2 "life", 3 "free stacks") [Denied] Constant;
    Print (0 "bytes, at most 56", 1 "x1 to x7: the bytes") -> () [Busy] Constant;
    Version () -> (1 "KERNEL_ABI_VERSION", 2 "build of the kernel", 3 "ticks of the counter per second") [] Constant;
}
