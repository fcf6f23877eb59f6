//! The calls: `svc #n` at EL0 (`kernel.md` 2).
//!
//! Arguments are in x0 to x7; a call of several operations has the operation's number in x0. The answer's code is in x0 and its values
//! are in x1 to x7; x8 to x30 are preserved. `invoke` and `return` leave x0 to x7 to caller and callee and have their code in x8.
//! No argument is an address that the kernel follows.

// The kernel has a `match`, and no use for names.
#[cfg(not(target_os = "none"))]
mod rows;

#[cfg(not(target_os = "none"))]
use crate::Code;
use crate::numbers::numbers;
#[cfg(not(target_os = "none"))]
use rows::Bound::{Constant, Slices, Steps};
#[cfg(not(target_os = "none"))]
pub use rows::{Bound, Register, Row};

/// Makes the calls, their operations and the table of both from one list. A line says number, name, registers taken and answered, codes besides those
/// that any call may answer, and how long it can be.
macro_rules! calls {
    ($(
        #[doc = $about:literal] $call:ident = $number:literal, $name:literal,
        $(($($argument:literal $means:literal),*) -> ($($answer:literal $says:literal),*) [$($code:ident)*] $bound:expr;)?
        $(operations $set:ident $whole:literal {$(
            #[doc = $does:literal] $operation:ident = $place:literal, $word:literal,
            ($($taken:literal $is:literal),*) -> ($($told:literal $tells:literal),*) [$($refusal:ident)*] $limit:expr;
        )+})?
    )+) => {
        numbers! {
            /// A call, by the number of its SVC instruction.
            pub enum Call: u16 {
                $(#[doc = $about] $call = $number, $name;)+
            }
        }

        $($(numbers! {
            #[doc = $whole]
            pub enum $set: u64 {
                $(#[doc = $does] $operation = $place, $word;)+
            }
        })?)+

        /// Every call and operation.
        #[cfg(not(target_os = "none"))]
        pub const ROWS: &[Row] = &[$(
            $(Row {
                call: Call::$call,
                operation: None,
                arguments: &[$(($argument, $means)),*],
                answers: &[$(($answer, $says)),*],
                codes: &[$(Code::$code),*],
                bound: $bound,
            },)?
            $($(Row {
                call: Call::$call,
                operation: Some(($set::$operation.number(), $set::$operation.name(), $set::$operation.meaning())),
                arguments: &[$(($taken, $is)),*],
                answers: &[$(($told, $tells)),*],
                codes: &[$(Code::$refusal),*],
                bound: $limit,
            },)+)?
        )+];
    };
}

calls! {
    /// Uses a capability to call or to send: which of them, the caller cannot tell (CH-6).
    Invoke = 0, "invoke",
        (8 "slot of a Call, Send or RemoteSend", 0 "x0 to x7: arguments of the callee") ->
            (0 "x0 to x7: what the callee returned") [Denied Gone NoStack TooDeep NoTime Busy Faulted TimedOut] Constant;
    /// Ends a call; in the home component the thread.
    Return = 1, "return",
        (0 "x0 to x7: for the caller") -> () [] Constant;
    /// Takes what was sent to an end point, or waits for it.
    Receive = 2, "receive",
        (0 "slot of a Receive; 0 sleeps", 1 "flags: no_wait, all", 2 "deadline in ticks of the counter; 0 for none") ->
            (1 "bits", 2 "sends since the last one that took all; 0 while bits remain") [WouldBlock TimedOut Denied] Constant;
    /// Takes one of a scheduler's events, or waits for one.
    Events = 3, "events",
        (0 "slot of a Scheduler", 1 "flags: no_wait", 2 "deadline; 0 for none, in a scheduler of one thread only") ->
            (1 "label of the thread", 2 "what happened, bits", 3 "ticks used since its last event", 4 "deadline that it waits for",
            5 "token", 6 "1 if there are more") [Denied WouldBlock TimedOut] Constant;
    /// Says who runs next on the server of a scheduler.
    Switch = 4, "switch",
        (0 "slot of a Scheduler", 1 "slot of a Thread", 2 "slot of a TCap; 0 for its own", 3 "priority; 0 for the permanent one",
         4 "time-out; 0 for none", 5 "token; not looked at for the scheduler's own thread") ->
            () [Stale NoTime Denied Busy] Constant;
    /// Ends the turn in a server that is held by its threads.
    Yield = 5, "yield",
        () -> () [Denied] Constant;
    /// Gives time from one temporal capability to another.
    Delegate = 6, "delegate",
        (0 "slot of a TCap or Send: to", 1 "slot of a TCap: from", 2 "ticks; 0 for all that is usable, all ones for ALL",
         3 "priority; 0 for the permanent one", 4 "flags: notify") ->
            () [Denied NoTime Full Busy] Steps(32);
    /// Makes and changes temporal capabilities.
    Tcap = 7, "tcap", operations TcapOperation "Operations of `tcap`." {
        /// Makes one without time.
        Create = 0, "create",
            (1 "slot of a Scheduler", 2 "slot that gets it") -> () [Denied Full] Steps(64);
        /// Moves time between two of one scheduler.
        Transfer = 1, "transfer",
            (1 "slot: to", 2 "slot: from", 3 "ticks") -> () [Denied NoTime Full Busy] Steps(32);
        /// Gives everything to another one, and ends.
        Merge = 2, "merge",
            (1 "slot: to", 2 "slot: from") -> () [Denied NoTime Full Busy] Steps(64);
        /// Changes the permanent priority.
        Priority = 3, "priority",
            (1 "slot", 2 "priority") -> () [Denied] Constant;
        /// Tells what is left.
        Read = 4, "read",
            (1 "slot") -> (1 "ticks left", 2 "when they expire", 3 "priority") [Denied] Constant;
    }
    /// Handles an interrupt.
    Interrupt = 8, "interrupt", operations InterruptOperation "Operations of `interrupt`." {
        /// The driver has done with it: the controller may raise it again. `Denied` to a thread on the time of another server than that which pays for it.
        Done = 0, "done",
            (1 "slot of an Interrupt") -> () [Denied Busy] Constant;
        /// The next one is the caller's.
        Expect = 1, "expect",
            (1 "slot of an Interrupt") -> () [Denied Full] Constant;
        /// It is not, after all.
        Cancel = 2, "cancel",
            (1 "slot of an Interrupt") -> () [Denied Busy] Constant;
        /// The driver works for this client.
        Serve = 3, "serve",
            (1 "slot of an Interrupt", 2 "client") -> () [Denied Busy] Constant;
        /// The driver has done with this client's request.
        Finish = 4, "finish",
            (1 "slot of an Interrupt", 2 "client") -> () [Denied Busy] Constant;
    }
    /// Controls threads.
    Thread = 9, "thread", operations ThreadOperation "Operations of `thread`." {
        /// Makes a thread that does not run yet.
        Create = 0, "create",
            (1 "slot of a Quota", 2 "slot of a Server or Scheduler", 3 "entry", 4 "stack pointer", 5 "slot that gets it") ->
                () [Denied Full] Constant;
        /// Starts one that does not run.
        Start = 1, "start",
            (1 "slot", 2 "its x0") -> () [Denied Busy Gone] Constant;
        /// Stops it from running until it is resumed.
        Suspend = 2, "suspend",
            (1 "slot") -> () [Denied Busy] Constant;
        /// Lets it run again.
        Resume = 3, "resume",
            (1 "slot") -> () [Denied Busy] Constant;
        /// Unwinds and ends it.
        Stop = 4, "stop",
            (1 "slot") -> () [Denied] Steps(8);
        /// Ends its innermost call: the caller gets `TimedOut`.
        Abort = 5, "abort",
            (1 "slot") -> () [Denied Busy] Constant;
        /// Binds it to another server or scheduler.
        Bind = 6, "bind",
            (1 "slot", 2 "slot of a Server or Scheduler") -> () [Denied Busy] Constant;
        /// Bounds the time that it runs from now on.
        Limit = 7, "limit",
            (1 "slot", 2 "ticks", 3 "slot of a Send: who is told") -> () [Denied] Constant;
        /// Takes the bound away.
        Unlimit = 8, "unlimit",
            (1 "slot") -> () [Denied] Constant;
        /// Tells its state and what is left of its bound.
        Read = 9, "read",
            (1 "slot") -> (1 "state", 2 "calls that it is inside", 3 "ticks left of its limit") [Denied] Constant;
    }
    /// Makes and changes servers.
    Server = 10, "server", operations ServerOperation "Operations of `server`." {
        /// Makes one in a band.
        Create = 0, "create",
            (1 "slot of a Band", 2 "budget in ticks", 3 "period in ticks", 4 "slot that gets it") -> () [Denied NotAdmitted Full] Steps(64);
        /// Changes its budget and period.
        Set = 1, "set",
            (1 "slot", 2 "budget in ticks", 3 "period in ticks") -> () [Denied NotAdmitted] Steps(64);
        /// Ends it, when no thread is bound to it or runs on it.
        Destroy = 2, "destroy",
            (1 "slot") -> () [Denied Busy] Steps(64);
        /// Tells what it has used.
        Read = 3, "read",
            (1 "slot") -> (1 "budget in ticks", 2 "period in ticks", 3 "ticks used") [Denied] Constant;
    }
    /// Maps and unmaps memory.
    Memory = 11, "memory", operations MemoryOperation "Operations of `memory`." {
        /// Maps pages of a region.
        Map = 0, "map",
            (1 "slot of a Memory", 2 "first page of it", 3 "address", 4 "pages", 5 "rights") ->
                (1 "pages that are mapped now: at the first that cannot be, it ends") [Denied Full Busy] Slices;
        /// Takes pages out of the map.
        Unmap = 1, "unmap",
            (1 "slot of the Memory whose pages they are; 0 for any", 2 "address", 3 "pages") ->
                (1 "pages that are not mapped any more") [Denied] Slices;
        /// Drops rights of mapped pages.
        Protect = 2, "protect",
            (1 "slot of the Memory whose pages they are; 0 for any", 2 "address", 3 "pages", 4 "rights that stay") ->
                (1 "pages that are changed") [Denied] Slices;
        /// Makes a capability to part of a region.
        Share = 3, "share",
            (1 "slot of a Memory", 2 "first page of it", 3 "pages", 4 "rights that may stay", 5 "slot that gets it") ->
                () [Denied Full] Constant;
        /// Makes a region of pages that a quota pays for.
        Create = 4, "create",
            (1 "slot of a Quota", 2 "pages, at most 512", 3 "slot that gets it") -> () [Denied Full] Constant;
    }
    /// Moves capabilities between tables.
    Capability = 12, "capability", operations CapabilityOperation "Operations of `capability`." {
        /// Copies it, with fewer rights if wanted.
        Copy = 0, "copy",
            (1 "slot of the Table to copy from; 0 for the own", 2 "slot in it", 3 "slot of the Table to copy to; 0 for the own",
             4 "slot in it, which must be empty", 5 "rights that may stay") ->
                () [Denied Full] Constant;
        /// Moves it.
        Move = 1, "move",
            (1 "slot of the Table to move from; 0 for the own", 2 "slot in it", 3 "slot of the Table to move to; 0 for the own",
             4 "slot in it, which must be empty") ->
                () [Denied Full] Constant;
        /// Clears the slot.
        Delete = 2, "delete",
            (1 "slot of a Table; 0 for the own", 2 "slot in it") -> () [Denied] Constant;
        /// Makes all others to its object void.
        Revoke = 3, "revoke",
            (1 "slot") -> () [Denied] Constant;
        /// Tells what is in the slot.
        Read = 4, "read",
            (1 "slot of a Table; 0 for the own", 2 "slot in it") -> (1 "kind", 2 "rights", 3 "1 if it is void") [Denied] Constant;
    }
    /// Makes, changes and ends components.
    Component = 13, "component", operations ComponentOperation "Operations of `component`." {
        /// Makes a process from a program of the image.
        Spawn = 0, "spawn",
            (1 "program 15:0, what its thread finds in x0 63:16", 2 "slot of a Quota", 3 "slot of a Server or Scheduler", 4 "first slot that is given", 5 "how many",
             6 "slot that gets it", 7 "its quota: pages 31:0, components 39:32, threads 47:40, regions 55:48") ->
                (1 "bits by which the caller's end point is told its end") [Denied Full Gone] Slices;
        /// Makes a copy of the caller's component.
        Fork = 1, "fork",
            (1 "slot of a Quota", 2 "slot of a Server or Scheduler", 3 "slot that gets the child", 4 "its quota, as of spawn") ->
                (1 "0 in the child, 1 in the parent", 2 "bits by which the parent's end point is told its end") [Denied Full Busy Gone] Slices;
        /// Replaces the memory by another program's.
        Exec = 2, "exec",
            (1 "program", 2 "its x0") -> () [Denied Full Busy] Slices;
        /// Ends the caller's component; its maker ends what is left.
        Exit = 3, "exit",
            (1 "code, which the parent finds in the record of its fault") -> () [] Constant;
        /// Ends a component, and first those made from its quota.
        Destroy = 4, "destroy",
            (1 "slot of a Component") -> () [Denied Gone] Slices;
        /// Begins it again.
        Reset = 5, "reset",
            (1 "slot of a Component") -> () [Denied Gone] Slices;
        /// Tells its latest fault.
        Fault = 6, "fault",
            (1 "slot of a Component") -> (1 "kind", 2 "thread", 3 "faults so far", 4 "ESR_EL1", 5 "FAR_EL1", 6 "ELR_EL1") [Denied Gone] Constant;
        /// Tells its state.
        Read = 7, "read",
            (1 "slot of a Component") -> (1 "state", 2 "life", 3 "free stacks") [Denied] Constant;
    }
    /// Writes to the partition's console.
    Print = 14, "print",
        (0 "bytes, at most 56", 1 "x1 to x7: the bytes") -> () [Busy] Constant;
    /// Says which kernel this is; also the null call.
    Version = 15, "version",
        () -> (1 "KERNEL_ABI_VERSION", 2 "build of the kernel", 3 "ticks of the counter per second") [] Constant;
}

numbers! {
    /// Flags of `receive`, `events` and `delegate`: bits.
    pub enum Flag: u64 {
        /// `receive`, `events`: answers `WouldBlock` instead of waiting.
        NoWait = 1, "no_wait";
        /// `receive`: takes all bits, and not the lowest alone.
        All = 2, "all";
        /// `delegate`: also sends, if the target is a Send.
        Notify = 4, "notify";
    }
}
