//! Words for areas, sizes and rights.

use bulkhead_plan::AreaKind;
use bulkhead_plan::model::System;
use bulkhead_plan::tables::Attributes;

/// Returns a size in the largest unit that divides it, with few digits.
pub(crate) fn size_text(bytes: u64) -> String {
    for (unit, name) in [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if bytes >= unit {
            let tenths = bytes * 10 / unit;
            return if tenths.is_multiple_of(10) {
                format!("{} {name}", tenths / 10)
            } else {
                format!("{}.{} {name}", tenths / 10, tenths % 10)
            };
        }
    }
    format!("{bytes} B")
}

/// Names an area for people.
pub(crate) fn area_text(system: &System, kind: AreaKind) -> String {
    let partition = |index: usize| system.partitions.get(index).map_or("?", |partition| partition.name.as_str());
    let channel = |index: usize| system.channels.get(index).map_or("?", |channel| channel.name.as_str());
    let device = |index: usize| system.virtio.get(index).map_or("?", |device| device.name.as_str());
    let pool = |index: usize| system.pools().find(|(one, _)| *one == index).map_or("?", |(_, channel)| &channel.name);
    match kind {
        AreaKind::Text => String::from("monitor text"),
        AreaKind::Rodata => String::from("monitor read-only data"),
        AreaKind::Header => String::from("image header"),
        AreaKind::VcpuPlan(index, vcpu) => format!("plan of {}, vCPU {vcpu}", partition(index)),
        AreaKind::Schedule(core) => format!("schedule of core index {core}"),
        AreaKind::PartitionPlan(index) => format!("plan of partition {}", partition(index)),
        AreaKind::Information(index) => format!("information page of {}", partition(index)),
        AreaKind::DevicePlan(index) => format!("devices of {}", partition(index)),
        AreaKind::BootDevices => String::from("what the boot core does to PCI functions"),
        AreaKind::StreamTable => String::from("stream table of the SMMU"),
        AreaKind::Commands => String::from("commands and context descriptors of the SMMU"),
        AreaKind::DeviceTables(index) => format!("tables of context descriptor {index}"),
        AreaKind::El2Tables(core) => format!("EL2 tables of core index {core}"),
        AreaKind::Stage2Tables(index) => format!("stage-2 tables of {}", partition(index)),
        AreaKind::Pristine(index) => format!("pristine image of {}", partition(index)),
        AreaKind::Guard => String::from("guard page, mapped nowhere"),
        AreaKind::Stack(core) => format!("stack of core index {core}"),
        AreaKind::Data(core) => format!("data of core index {core}"),
        AreaKind::Events => String::from("event queue of the SMMU"),
        AreaKind::Counters(index, vcpu) => format!("counters of {}, vCPU {vcpu}", partition(index)),
        AreaKind::Usage(core) => format!("usage of core index {core}"),
        AreaKind::StolenTime(index, vcpu) => format!("stolen time of {}, vCPU {vcpu}", partition(index)),
        AreaKind::Shared(index) => format!("monitor state of {}", partition(index)),
        AreaKind::Status(index) => format!("status of {}", partition(index)),
        AreaKind::Manage(index) => format!("requests of manager {}", partition(index)),
        AreaKind::Doorbell(index) => format!("doorbell words of channel {}", channel(index)),
        AreaKind::AllDoorbells(index) => format!("doorbell words of all channels to {}", partition(index)),
        AreaKind::ChannelReader(index) => format!("channel {}, destination", channel(index)),
        AreaKind::ChannelWriter(index) => format!("channel {}, source", channel(index)),
        AreaKind::Pool(index) => format!("channel {}, pool", pool(index)),
        AreaKind::Notifications(index) => format!("doorbell words of virtio device {}, notifications", device(index)),
        AreaKind::Interrupts(index) => format!("doorbell words of virtio device {}, interrupts", device(index)),
        AreaKind::DevicePage(index) => format!("virtio device {}, device page", device(index)),
        AreaKind::FrontPool(index) => format!("pool of {}'s virtio devices", partition(index)),
        AreaKind::Trace(core) => format!("trace ring of core index {core}"),
        AreaKind::VcpuConsole(index, vcpu) => format!("console of {}, vCPU {vcpu}", partition(index)),
        AreaKind::GuestConsole(index) => format!("guest's console of {}", partition(index)),
        AreaKind::Ram(index) => format!("RAM of {}", partition(index)),
    }
}

/// Names the rights of a mapping of the monitor: `rwx` letters and the memory type.
pub(crate) fn el2_rights_text(attributes: Attributes) -> &'static str {
    match attributes {
        Attributes::EL2_TEXT => "r-x normal",
        Attributes::EL2_READ => "r-- normal",
        Attributes::EL2_WRITE => "rw- normal",
        Attributes::EL2_SHARED_READ => "r-- uncached",
        Attributes::EL2_SHARED_WRITE => "rw- uncached",
        Attributes::EL2_DEVICE => "rw- device",
        _ => "?",
    }
}

/// Names the rights of a mapping of a guest. The same bits mean other things at EL2.
pub(crate) fn stage2_rights_text(attributes: Attributes) -> &'static str {
    match attributes {
        Attributes::STAGE2_RAM => "rwx normal",
        Attributes::STAGE2_READ => "r-- normal",
        Attributes::STAGE2_SHARED_READ => "r-- uncached",
        Attributes::STAGE2_SHARED_WRITE => "rw- uncached",
        Attributes::STAGE2_DEVICE => "rw- device",
        _ => "?",
    }
}
