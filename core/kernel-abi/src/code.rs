//! What a call answers.

use crate::numbers::numbers;

numbers! {
    /// The answer of a call: in x0, of `invoke` and `return` in x8. A call that answers another code than `Ok` has changed
    /// nothing, unless its row says that it waits.
    pub enum Code: u64 {
        /// Done.
        Ok = 0, "Ok";
        /// There was nothing to take, and the caller did not want to wait.
        WouldBlock = 1, "WouldBlock";
        /// Somebody else is using it, or it is full for a moment.
        Busy = 2, "Busy";
        /// The time that would pay cannot be used now, or is too little.
        NoTime = 3, "NoTime";
        /// The band's or the instance's admission test fails.
        NotAdmitted = 4, "NotAdmitted";
        /// The capability is there and lacks the right, or the rule of the call forbids it.
        Denied = 5, "Denied";
        /// The slot is empty, out of the table, of another kind, or its capability was revoked.
        BadCapability = 6, "BadCapability";
        /// An argument is out of range.
        BadArgument = 7, "BadArgument";
        /// There are newer events than the token's.
        Stale = 8, "Stale";
        /// The component that was called, or is to be acted on, is not there any more.
        Gone = 9, "Gone";
        /// The callee faulted, and its policy is to return.
        Faulted = 10, "Faulted";
        /// The deadline has passed, or the call was aborted.
        TimedOut = 11, "TimedOut";
        /// The callee has no free stack.
        NoStack = 12, "NoStack";
        /// The thread is inside as many calls as it can be.
        TooDeep = 13, "TooDeep";
        /// A table, a vector or a quota is full.
        Full = 14, "Full";
        /// There is no call or operation of this number.
        BadCall = 15, "BadCall";
    }
}

impl Code {
    /// Codes that any call with a capability or an argument may answer; the table of calls names the others only.
    pub const COMMON: [Self; 3] = [Self::Ok, Self::BadCapability, Self::BadArgument];
}
