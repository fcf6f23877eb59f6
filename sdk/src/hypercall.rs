//! Bulkhead's calls, typed. On the bare board every one answers "not supported".

use bulkhead_abi::hypercall::{
    CALL_DOORBELL, CALL_HEARTBEAT, CALL_PARTITION_RESTART, CALL_PARTITION_RESUME, CALL_PARTITION_STATUS,
    CALL_PARTITION_SUSPEND, CALL_VERSION, DENIED, INVALID_PARAMETERS, LIMITED, SUCCESS,
};
pub use bulkhead_arch::el1::call::call;

/// Why a call was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallError {
    /// There is no such call: no Bulkhead below, or another version of it.
    NotSupported,
    /// This partition may not do it.
    Denied,
    /// An argument is out of range.
    InvalidParameters,
    /// Too many requests to this partition before it (`manage_limit`); nothing was asked of it.
    Limited,
}

/// What became of a doorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doorbell {
    /// The receiver is being notified.
    Sent,
    /// The limiter held the notification back; the data stays in the channel.
    Limited,
}

/// State of a partition (`bulkhead_abi::status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionStatus {
    /// One of the `STATE_` constants.
    pub state: u64,
    /// One of the `REASON_` constants.
    pub reason: u64,
    /// Times started, the first start included.
    pub generation: u64,
}

/// Makes a request of a manager.
fn manage(function: u64, partition: u32) -> Result<(), CallError> {
    match answer(call(function, [u64::from(partition), 0, 0])[0])? {
        SUCCESS => Ok(()),
        LIMITED => Err(CallError::Limited),
        _ => Err(CallError::NotSupported),
    }
}

fn answer(value: u64) -> Result<u64, CallError> {
    match value {
        DENIED => Err(CallError::Denied),
        INVALID_PARAMETERS => Err(CallError::InvalidParameters),
        value if value.cast_signed() < 0 => Err(CallError::NotSupported),
        value => Ok(value),
    }
}

/// Reads the ABI version of the monitor.
///
/// # Errors
/// [`CallError::NotSupported`] on the bare board.
pub fn version() -> Result<u64, CallError> {
    answer(call(CALL_VERSION, [0; 3])[0])
}

/// Tells the watchdog that this partition works.
///
/// # Errors
/// [`CallError::NotSupported`] on the bare board.
pub fn heartbeat() -> Result<(), CallError> {
    answer(call(CALL_HEARTBEAT, [0; 3])[0]).map(|_| ())
}

/// Rings a doorbell (`PortInformation::doorbell`).
///
/// # Errors
/// [`CallError::InvalidParameters`] when the partition has no such doorbell.
pub fn doorbell(number: u32) -> Result<Doorbell, CallError> {
    match answer(call(CALL_DOORBELL, [u64::from(number), 0, 0])[0])? {
        SUCCESS => Ok(Doorbell::Sent),
        LIMITED => Ok(Doorbell::Limited),
        _ => Err(CallError::NotSupported),
    }
}

/// Reads the state of a partition: its own always, others with `manages = true`.
///
/// # Errors
/// [`CallError::Denied`] for others without `manages`, [`CallError::InvalidParameters`] for an index out of range.
pub fn partition_status(partition: u32) -> Result<PartitionStatus, CallError> {
    let [result, state, reason, generation] = call(CALL_PARTITION_STATUS, [u64::from(partition), 0, 0]);
    answer(result).map(|_| PartitionStatus { state, reason, generation })
}

/// Asks for a partition to be suspended; done when its status says so.
///
/// # Errors
/// As for [`partition_status`], and [`CallError::Limited`] when too many requests to it came before.
pub fn suspend_partition(partition: u32) -> Result<(), CallError> {
    manage(CALL_PARTITION_SUSPEND, partition)
}

/// Asks for a suspended partition to continue.
///
/// # Errors
/// As for [`suspend_partition`].
pub fn resume_partition(partition: u32) -> Result<(), CallError> {
    manage(CALL_PARTITION_RESUME, partition)
}

/// Asks for a partition to be restarted from its pristine image.
///
/// # Errors
/// As for [`suspend_partition`].
pub fn restart_partition(partition: u32) -> Result<(), CallError> {
    manage(CALL_PARTITION_RESTART, partition)
}
