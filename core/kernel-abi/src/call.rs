//! The calls: `svc #n` at EL0 (`kernel.md` 2).
//!
//! Arguments are in x0 to x7; a call of several operations has the operation's number in x0. The answer's code is in x0 and its values
//! are in x1 to x7; x8 to x30 are preserved. `invoke` and `return` leave x0 to x7 to caller and callee and have their code in x8.
//! No argument is an address that the kernel follows.

// The kernel has a `match`, and no use for names.
#[cfg(not(target_os = "none"))]
mod rows;

#[cfg(not(target_os = "none"))]
pub use rows::{Bound, ROWS, Register, Row};

use crate::numbers::numbers;

numbers! {
    /// A call, by the number of its SVC instruction.
    pub enum Call: u16 {
        /// Uses a capability to call or to send: which of them, the caller cannot tell (CH-6).
        Invoke = 0, "invoke";
        /// Ends a call; in the home component the thread.
        Return = 1, "return";
        /// Takes what was sent to an end point, or waits for it.
        Receive = 2, "receive";
        /// Takes one of a scheduler's events, or waits for one.
        Events = 3, "events";
        /// Says who runs next on the server of a scheduler.
        Switch = 4, "switch";
        /// Ends the turn in a server that is held by its threads.
        Yield = 5, "yield";
        /// Gives time from one temporal capability to another.
        Delegate = 6, "delegate";
        /// Makes and changes temporal capabilities.
        Tcap = 7, "tcap";
        /// Handles an interrupt.
        Interrupt = 8, "interrupt";
        /// Controls threads.
        Thread = 9, "thread";
        /// Makes and changes servers.
        Server = 10, "server";
        /// Maps and unmaps memory.
        Memory = 11, "memory";
        /// Moves capabilities between tables.
        Capability = 12, "capability";
        /// Makes, changes and ends components.
        Component = 13, "component";
        /// Writes to the partition's console.
        Print = 14, "print";
        /// Says which kernel this is; also the null call.
        Version = 15, "version";
    }
}

numbers! {
    /// Operations of `tcap`.
    pub enum TcapOperation: u64 {
        /// Makes one without time.
        Create = 0, "create";
        /// Moves time between two of one scheduler.
        Transfer = 1, "transfer";
        /// Gives everything to another one, and ends.
        Merge = 2, "merge";
        /// Changes the permanent priority.
        Priority = 3, "priority";
        /// Tells what is left.
        Read = 4, "read";
    }
}

numbers! {
    /// Operations of `interrupt`.
    pub enum InterruptOperation: u64 {
        /// The driver has done with it: the controller may raise it again.
        Done = 0, "done";
        /// The next one is the caller's.
        Expect = 1, "expect";
        /// It is not, after all.
        Cancel = 2, "cancel";
        /// The driver works for this client.
        Serve = 3, "serve";
        /// The driver has done with this client's request.
        Finish = 4, "finish";
    }
}

numbers! {
    /// Operations of `thread`.
    pub enum ThreadOperation: u64 {
        /// Makes a thread that does not run yet.
        Create = 0, "create";
        /// Starts one that does not run.
        Start = 1, "start";
        /// Stops it from running until it is resumed.
        Suspend = 2, "suspend";
        /// Lets it run again.
        Resume = 3, "resume";
        /// Unwinds and ends it.
        Stop = 4, "stop";
        /// Ends its innermost call: the caller gets `TimedOut`.
        Abort = 5, "abort";
        /// Binds it to another server or scheduler.
        Bind = 6, "bind";
        /// Bounds the time that it runs from now on.
        Limit = 7, "limit";
        /// Takes the bound away.
        Unlimit = 8, "unlimit";
        /// Tells its state and what is left of its bound.
        Read = 9, "read";
    }
}

numbers! {
    /// Operations of `server`.
    pub enum ServerOperation: u64 {
        /// Makes one in a band.
        Create = 0, "create";
        /// Changes its budget and period.
        Set = 1, "set";
        /// Ends it.
        Destroy = 2, "destroy";
        /// Tells what it has used.
        Read = 3, "read";
    }
}

numbers! {
    /// Operations of `memory`.
    pub enum MemoryOperation: u64 {
        /// Maps pages of a region.
        Map = 0, "map";
        /// Takes pages out of the map.
        Unmap = 1, "unmap";
        /// Drops rights of mapped pages.
        Protect = 2, "protect";
        /// Gives a capability to part of a region.
        Share = 3, "share";
    }
}

numbers! {
    /// Operations of `capability`.
    pub enum CapabilityOperation: u64 {
        /// Copies it, with fewer rights if wanted.
        Copy = 0, "copy";
        /// Moves it.
        Move = 1, "move";
        /// Clears the slot.
        Delete = 2, "delete";
        /// Makes all others to its object void.
        Revoke = 3, "revoke";
        /// Tells what is in the slot.
        Read = 4, "read";
    }
}

numbers! {
    /// Operations of `component`.
    pub enum ComponentOperation: u64 {
        /// Makes a process from a program of the image.
        Spawn = 0, "spawn";
        /// Makes a copy of the caller's component.
        Fork = 1, "fork";
        /// Replaces the memory by another program's.
        Exec = 2, "exec";
        /// Ends the caller's component.
        Exit = 3, "exit";
        /// Ends a component, and first those made from its quota.
        Destroy = 4, "destroy";
        /// Begins it again.
        Reset = 5, "reset";
        /// Tells its latest fault.
        Fault = 6, "fault";
        /// Tells its state.
        Read = 7, "read";
    }
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
