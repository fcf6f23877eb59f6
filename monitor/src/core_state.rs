//! What belongs to a core, whichever of its vCPUs is loaded.
//!
//! The vCPUs of a shared core hand it on: the loaded one alone has the scheduler and the true position in the trace ring, so no lock
//! is needed and nobody else can decide or record anything. All that is handed on is handed on by [`Core::take_over`]: a fact of the
//! core that was kept in a vCPU would be a different one after each exchange. On a core of its own a vCPU keeps it for good.
//!
//! Rejected: one structure that all vCPUs of the core point to. It would cost a load in each trace record, whose length is asserted,
//! and a pointer would have to be handed on all the same.

#[cfg(feature = "shared")]
use crate::sharing::scheduler::Scheduler;
use bulkhead_abi::observe::{TRACE_HEADER_BYTES, TraceHeader, TraceRecord};
use bulkhead_abi::plan::VcpuPlan;
use core::mem::offset_of;

/// A core, in the hands of a vCPU.
#[derive(Debug)]
pub struct Core {
    /// Who runs next; `None` while the vCPU is not loaded, and on a core that is not shared.
    #[cfg(feature = "shared")]
    pub scheduler: Option<&'static mut Scheduler>,
    /// Where the core's trace records go.
    pub trace: TraceRing,
}

impl Core {
    pub(crate) fn new(plan: &VcpuPlan) -> Self {
        Self {
            #[cfg(feature = "shared")]
            scheduler: None,
            trace: TraceRing::new(plan),
        }
    }

    /// The vCPU that holds this one is loaded instead of the one that held the other.
    // A part of `shared.switch`: three loads and stores.
    #[cfg(feature = "shared")]
    #[inline(always)]
    pub fn take_over(&mut self, other: &mut Self) {
        self.scheduler = other.scheduler.take();
        self.trace.written = other.trace.written;
    }
}

/// Where this core's trace records go.
#[derive(Clone, Copy, Debug)]
pub struct TraceRing {
    /// Address of record 0.
    pub records: u64,
    /// Records that fit, minus one (a power of two minus one); 0 = no ring.
    pub mask: u64,
    /// Records written.
    pub written: u64,
    /// They are written at all.
    pub enabled: bool,
    /// Core and the partition of this vCPU, in their places in a record's second word.
    pub identity: u64,
    /// Address of [`TraceHeader::written`](bulkhead_abi::observe::TraceHeader::written).
    pub written_word: u64,
}

/// Bytes of a trace record.
const RECORD_BYTES: u64 = size_of::<TraceRecord>() as u64;

impl TraceRing {
    fn new(plan: &VcpuPlan) -> Self {
        let fit = plan.trace_bytes.saturating_sub(TRACE_HEADER_BYTES) / RECORD_BYTES;
        Self {
            records: plan.trace.0.wrapping_add(TRACE_HEADER_BYTES),
            mask: if fit.is_power_of_two() { fit.wrapping_sub(1) } else { 0 },
            written: 0,
            enabled: false,
            identity: u64::from(plan.core & 0xff) << 16 | u64::from(plan.partition & 0xff) << 24,
            written_word: plan.trace.0.wrapping_add(offset_of!(TraceHeader, written) as u64),
        }
    }
}
