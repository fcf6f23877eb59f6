//! How the world below is watched, and what happens when it fails.

use crate::code::Code;
use crate::decode::Located;
use crate::description::Health;
use crate::diagnostic::Diagnostic;
use crate::resolve::Resolver;
use crate::resolve::partition::span;
use crate::secure::{Secure, WorldHealth};
use crate::unit::format_duration;
use bulkhead_plan::model;

/// Signs of life that may be missing when the description does not say.
const DEFAULT_MISSED: u32 = 3;
/// Most of them.
const MOST_MISSED: u64 = 255;
/// Times between two signs of life: below, looking for them would be the load; above, it is no watch.
const HEARTBEAT_NS: std::ops::RangeInclusive<u64> = 1_000_000..=600_000_000_000;
/// Samples without progress when the description does not say: a second of the world's own time, of which no healthy one spends as much
/// with its interrupts masked.
const DEFAULT_STUCK_SAMPLES: u32 = 1_000;
/// Fewest, unless it is 0: a kernel that starts masks its interrupts for some milliseconds.
const LEAST_STUCK_SAMPLES: u32 = 10;
/// Most: ten minutes of the world's own time.
const MOST_STUCK_SAMPLES: u32 = 600_000;

impl Resolver<'_> {
    /// What is looked at and done when the world below fails; `None` within when the description leaves it to the payload.
    pub(super) fn world_health(&mut self, secure: &Secure) -> Option<Option<model::WorldHealth>> {
        let Some(health) = &secure.health else { return Some(None) };
        if secure.non_secure.is_none() {
            let message = "`health` means nothing without a world below";
            self.push(Diagnostic::new(Code::KeyDoesNotApply, message).at(health.span, "remove it"));
        }
        let heartbeat = self.heartbeat(health);
        let stuck_samples = self.stuck_samples(health);
        let written = Health {
            on_fault: Located { value: health.on_fault.value, span: health.on_fault.span },
            max: health.max.clone(),
            within: health.within.clone(),
            backoff: health.backoff.clone(),
            dma_poll: None,
            dma_faults: None,
        };
        let policy = self.health_policy("the non-secure world", &Located { value: written, span: health.span });
        Some(Some(model::WorldHealth { heartbeat: heartbeat?, stuck_samples: stuck_samples?, policy: policy? }))
    }

    fn stuck_samples(&mut self, health: &WorldHealth) -> Option<u32> {
        let Some(written) = &health.stuck_samples else { return Some(DEFAULT_STUCK_SAMPLES) };
        let is_good = |count: &u32| *count == 0 || (LEAST_STUCK_SAMPLES..=MOST_STUCK_SAMPLES).contains(count);
        let found = u32::try_from(written.value).ok().filter(is_good);
        if found.is_none() {
            let message = format!("{} samples without progress do not tell a stuck world", written.value);
            let label = format!("expected {LEAST_STUCK_SAMPLES} to {MOST_STUCK_SAMPLES}");
            let note =
                "there is at most one sample in each tick of the payload's kernel, and only while the world runs";
            let diagnostic = Diagnostic::new(Code::BadStuckSamples, message).at(written.span, label).note(note);
            self.push(diagnostic.help("write 0 if progress is not to be judged"));
        }
        found
    }

    fn heartbeat(&mut self, health: &WorldHealth) -> Option<Option<model::Heartbeat>> {
        let Some(heartbeat) = &health.heartbeat else {
            self.does_not_apply(span(&health.missed), "missed", "no `heartbeat`");
            return Some(None);
        };
        let missed = match &health.missed {
            None => Some(DEFAULT_MISSED),
            Some(missed) => {
                let found = u32::try_from(missed.value).ok().filter(|_| (1..=MOST_MISSED).contains(&missed.value));
                if found.is_none() {
                    let message = format!("{} signs of life cannot be missing", missed.value);
                    let label = format!("expected 1 to {MOST_MISSED}");
                    self.push(Diagnostic::new(Code::BadHeartbeat, message).at(missed.span, label));
                }
                found
            }
        };
        let period_ns = self.duration(heartbeat)?;
        if !HEARTBEAT_NS.contains(&period_ns) {
            let message = format!("nobody looks for a sign of life every {}", format_duration(period_ns));
            self.push(Diagnostic::new(Code::BadHeartbeat, message).at(heartbeat.span, "expected 1 ms to 10 min"));
            return None;
        }
        Some(Some(model::Heartbeat { period_ns, missed: missed? }))
    }
}
