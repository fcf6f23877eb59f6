//! Calls that the SDK has no function for, or not with such values.

use bulkhead_component::Code;
use bulkhead_component::call::call;
use bulkhead_kernel_abi::call::{Call, ComponentOperation, Flag, ThreadOperation};

/// State of a thread that has ended, as `thread read` tells it.
pub const STOPPED: u64 = 1;

/// The code of an answer.
pub fn code(answer: [u64; 8]) -> Code {
    Code::from_number(answer[0]).unwrap_or(Code::BadCall)
}

/// `yield`.
pub fn yield_now() {
    call::<{ Call::Yield.number() }>([0; 8]);
}

/// `capability`, with these arguments: the code.
pub fn capability(arguments: [u64; 6]) -> Code {
    let [x0, x1, x2, x3, x4, x5] = arguments;
    code(call::<{ Call::Capability.number() }>([x0, x1, x2, x3, x4, x5, 0, 0]))
}

/// Starts a thread with an argument.
pub fn start(thread: u64, argument: u64) -> Code {
    code(call::<{ Call::Thread.number() }>([ThreadOperation::Start.number(), thread, argument, 0, 0, 0, 0, 0]))
}

/// Stops a thread.
pub fn stop(thread: u64) -> Code {
    self::thread(ThreadOperation::Stop, thread)
}

/// An operation of a thread that needs nothing more.
pub fn thread(operation: ThreadOperation, thread: u64) -> Code {
    code(call::<{ Call::Thread.number() }>([operation.number(), thread, 0, 0, 0, 0, 0, 0]))
}

/// Destroys or resets a component.
pub fn component(operation: ComponentOperation, component: u64) {
    call::<{ Call::Component.number() }>([operation.number(), component, 0, 0, 0, 0, 0, 0]);
}

/// The state of a thread.
pub fn state(thread: u64) -> u64 {
    call::<{ Call::Thread.number() }>([ThreadOperation::Read.number(), thread, 0, 0, 0, 0, 0, 0])[1]
}

/// A component's latest fault: kind, faults so far, syndrome.
pub fn fault(component: u64) -> [u64; 3] {
    let answer =
        call::<{ Call::Component.number() }>([ComponentOperation::Fault.number(), component, 0, 0, 0, 0, 0, 0]);
    let [_, kind, _, number, syndrome, ..] = answer;
    [kind, number, syndrome]
}

/// Takes what was sent, without waiting.
pub fn poll(end_point: u64) -> Code {
    code(call::<{ Call::Receive.number() }>([end_point, Flag::NoWait.number() | Flag::All.number(), 0, 0, 0, 0, 0, 0]))
}

/// `invoke` of a slot: the code in x8.
pub fn invoke(slot: u64) -> Code {
    let mut put = [0; 33];
    put[8] = slot;
    let found = crate::registers::exchange(usize::from(Call::Invoke.number()), &put);
    Code::from_number(found[8]).unwrap_or(Code::BadCall)
}
