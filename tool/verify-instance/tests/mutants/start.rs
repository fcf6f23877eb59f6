//! How a partition comes to its instance: by its entry, its segments, and the length that the instance says. Whatever is done to them, an instance stays one that is judged.

use crate::sample::{HEAD, Mutant, expected, sample};
use crate::tool::system;
use bulkhead_abi::image::ImageHeader;
use bulkhead_abi::plan::PartitionPlan;
use bulkhead_image::assemble;
use bulkhead_kernel_abi::image::LOAD;
use bulkhead_plan::{AreaKind, samples};
use bulkhead_verify::{Code, Expected, Monitor, Verdict, verify_bytes};
use zerocopy::{FromBytes, IntoBytes};

/// The verdict on a system of which the first partition has these bytes as its guest, and its plan was changed; checksums are right. The change has the bytes of the image and the
/// address of the first of them beside the plan.
fn judge(bytes: Vec<u8>, change: impl FnOnce(&mut PartitionPlan, &[u8], u64)) -> Verdict {
    let monitor = samples::monitor();
    let image = assemble(&system(bytes), &monitor).unwrap_or_else(|error| panic!("{error}"));
    let (mut header, layout, mut bytes) = (image.plan.header, image.plan.layout, image.bytes);
    let start = header.image_start.0;
    let place = (layout.address(AreaKind::PartitionPlan(0)).0 - start) as usize;
    let end = place + size_of::<PartitionPlan>();
    let mut plan = PartitionPlan::read_from_bytes(&bytes[place..end]).expect("a plan");
    change(&mut plan, &bytes, start);
    bytes[place..end].copy_from_slice(plan.as_bytes());
    let first = (header.plan.0 - start) as usize;
    header.plan_crc = crc32c::crc32c(&bytes[first..first + header.plan_bytes as usize]);
    header.header_crc = 0;
    header.header_crc = crc32c::crc32c(header.as_bytes());
    let slot = (header.text_bytes + header.rodata_bytes) as usize;
    bytes[slot..slot + size_of::<ImageHeader>()].copy_from_slice(header.as_bytes());
    let expected = Expected::only(Monitor::new(&monitor.text, &monitor.rodata)).with_kernel(expected());
    verify_bytes(&bytes, &expected)
}

/// CH-61: what is entered elsewhere than where the kernel begins, in a component for instance, runs at EL1 without translation.
#[test]
fn an_instance_is_entered_where_its_kernel_begins() {
    for entry in [LOAD + 4, LOAD + HEAD as u64, LOAD + sample().len() as u64 - 4096] {
        let verdict = judge(sample(), |plan, _, _| plan.entry.0 = entry);
        let found: Vec<_> = verdict.findings.iter().map(|one| (one.code, one.message.as_str())).collect();
        let message =
            format!("partition \"control\": the instance is entered at {entry:#x}, and its kernel begins at {LOAD:#x}");
        assert_eq!(found, [(Code::InstanceStart, message.as_str())]);
    }
}

/// An instance in several pieces is one: it is judged as the guest finds it.
#[test]
fn an_instance_in_pieces_is_judged() {
    for first in [64, 2048, 4096, HEAD as u64] {
        let mut mutant = Mutant(sample());
        mutant.flip(0x800, 1);
        let cut = |plan: &mut PartitionPlan, bytes: &[u8], start: u64| {
            let destination = |one: &bulkhead_abi::plan::Segment| one.bytes > HEAD as u64;
            let index = plan.segments().iter().position(destination).expect("a segment");
            let mut rest = plan.segments[index];
            let crc = |place: u64, length: u64| crc32c::crc32c(&bytes[(place - start) as usize..][..length as usize]);
            let whole = &mut plan.segments[index];
            (whole.bytes, whole.crc) = (first, crc(whole.source.0, first));
            (rest.destination.0, rest.source.0, rest.bytes) =
                (rest.destination.0 + first, rest.source.0 + first, rest.bytes - first);
            rest.crc = crc(rest.source.0, rest.bytes);
            plan.segments[plan.segment_count as usize] = rest;
            plan.segment_count += 1;
        };
        let verdict = judge(sample(), cut);
        assert!(verdict.extent.instances == 1 && !verdict.has(Code::InstanceImage), "{first}: {:?}", verdict.findings);
        let verdict = judge(mutant.sealed().0, cut);
        assert!(verdict.has(Code::InstanceKernel), "{first}: {:?}", verdict.findings);
    }
}

/// An instance is known by what there is, not by how long it says to be.
#[test]
fn an_instance_that_says_another_length_is_refused() {
    for length in [0, 8, 2048, 4096, HEAD as u64, u64::MAX] {
        let mut mutant = Mutant(sample());
        mutant.set(16, length);
        let verdict = judge(mutant.sealed().0, |_, _, _| ());
        assert_eq!(verdict.extent.instances, 1, "{length}");
        let is_refused = verdict.has(Code::InstanceImage) || verdict.has(Code::InstanceHead);
        assert!(is_refused, "{length}: {:?}", verdict.findings);
    }
}
