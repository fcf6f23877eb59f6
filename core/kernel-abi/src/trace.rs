//! Kinds of records of an instance that records what happens (record 0065): they follow those of the monitor, whose format they have (`bulkhead_abi::observe`).

/// Of an instance of the real-time kernel, whose slots are its threads: a thread goes into another component; `small` = thread, `first` = component that it leaves,
/// `second` = component that it is in.
pub const TRACE_COMPONENT_CALL: u16 = 13;
/// Of an instance: a thread comes back; `small` = thread, `first` and `second` as above.
pub const TRACE_COMPONENT_RETURN: u16 = 14;
/// Of an instance: a thread sends; `small` = thread, `first` = end point, `second` = bits.
pub const TRACE_SEND: u16 = 15;
/// Of an instance: a server is passed over, since a scheduler says so; `small` = server.
pub const TRACE_VETO: u16 = 16;
/// Of an instance: a thread is stopped where it was; `small` = kind of the fault, `first` = thread and component << 16, `second` = program counter.
pub const TRACE_COMPONENT_FAULT: u16 = 17;
/// Of an instance: an interrupt is signalled to its driver; `small` = INTID, `first` = server that pays.
pub const TRACE_TOP_HALF: u16 = 18;
