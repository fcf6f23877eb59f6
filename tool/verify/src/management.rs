//! Management: who reads whose status and who may send requests to whom.

use crate::code::Code;
use crate::finding::Findings;
use crate::image::{Contents, Partition};
use bulkhead_abi::plan::{FLAG_MANAGEABLE, FLAG_MANAGES};

/// Nobody to signal.
const NO_CORE: u64 = u64::MAX;

fn manages(partition: &Partition) -> bool {
    partition.plan.flags & FLAG_MANAGES != 0
}

fn is_manageable(partition: &Partition) -> bool {
    partition.plan.flags & FLAG_MANAGEABLE != 0
}

/// Checks the management entries of every partition.
pub(crate) fn check(contents: &Contents, findings: &mut Findings) {
    for own in &contents.partitions {
        let name = own.name();
        for (index, page) in own.plan.manage.iter().enumerate() {
            let other = contents.partitions.get(index);
            let expected = match other {
                // Where the own page lies is checked with all areas; here it must only exist or not.
                Some(other) if other.index == own.index => (page.0 != 0) == manages(own),
                Some(other) if manages(other) && is_manageable(own) => {
                    other.plan.manage.get(index) == Some(page) && page.0 != 0
                }
                _ => page.0 == 0,
            };
            findings.require(expected, Code::Management, || {
                format!("partition \"{name}\" takes requests of partition {index} from {page}, which is wrong")
            });
        }
        let limited = own.plan.manage_period_ticks != 0 && own.plan.manage_events != 0;
        let plain = own.plan.manage_period_ticks == 0 && own.plan.manage_events == 0;
        let expected = own.plan.reserved == 0 && if manages(own) { limited } else { plain };
        findings.require(expected, Code::Management, || {
            let (events, period) = (own.plan.manage_events, own.plan.manage_period_ticks);
            format!(
                "partition \"{name}\" may make {events} requests to each other one in {period} ticks, which is wrong"
            )
        });
        for (index, page) in own.plan.status.iter().enumerate() {
            let other = contents.partitions.get(index).filter(|_| manages(own));
            let expected = other.map_or(0, |other| other.entry.status.0);
            findings.require(page.0 == expected, Code::Management, || {
                format!("partition \"{name}\" reads the status of partition {index} at {page}, must be {expected:#x}")
            });
        }
        for (index, mpidr) in own.plan.lead_mpidr.iter().enumerate() {
            let other = contents.partitions.get(index).filter(|other| is_manageable(other));
            let expected = other.and_then(|other| other.plan.vcpu_mpidr.first().copied()).unwrap_or(NO_CORE);
            findings.require(*mpidr == expected, Code::Management, || {
                format!(
                    "partition \"{name}\" would signal core {mpidr:#x} for partition {index}, must be {expected:#x}"
                )
            });
        }
    }
}
