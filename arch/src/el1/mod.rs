//! AArch64 at EL1, as a guest's or a kernel's own code uses it: counter, masking and waiting ([`cpu`]), the virtual timer ([`timer`]),
//! the CPU interface of the GIC ([`interface`]), device registers ([`mmio`]) and calls to the level below ([`call`]).
//!
//! Instructions alone are here: no state, no policy, no address of a device. The SDK builds its driver and its console upon them and passes
//! [`cpu`] and [`mmio`] on as they are. One crate has the registers of both levels, so that what is said of a barrier or of an encoding
//! is said once; a feature chooses the level, because each brings assembly that the other's image must not contain.

pub mod call;
pub mod cpu;
pub mod interface;
#[cfg(feature = "kernel")]
pub mod kernel;
pub mod mmio;
pub mod timer;
