//! The PL031 real-time clock (DDI 0224, 3.2 "Summary of registers"): offsets and bits.

/// RTCDR: seconds.
pub(crate) const RTCDR: u64 = 0x00;
/// RTCMR: the second of the alarm.
pub(crate) const RTCMR: u64 = 0x04;
/// RTCCR: control; bit 0 starts the clock, and only a reset stops it.
pub(crate) const RTCCR: u64 = 0x0c;
/// RTCIMSC: whether the alarm is signalled.
pub(crate) const RTCIMSC: u64 = 0x10;
/// RTCMIS: the alarm, if it is signalled.
pub(crate) const RTCMIS: u64 = 0x18;
/// RTCICR: alarm clear.
pub(crate) const RTCICR: u64 = 0x1c;
/// The one bit of control, mask, status and clear.
pub(crate) const BIT: u32 = 1;
