//! Places of what was resolved, part by part as written.

use super::partition::span;
use super::schedule::offset_ns;
use crate::decode::Located;
use crate::description::{Description, Device, Partition};
use crate::sharing::{Schedule, Server, Window};
use crate::source::Span;
use crate::spans::{ChannelSpans, DeviceSpans, PartitionSpans, ScheduleSpans, ServerSpans, Spans, TaskSpans};

/// Returns the places of a description whose parts were all resolved.
pub(super) fn of(description: &Description) -> Spans {
    Spans {
        partitions: description.partition.iter().map(|one| partition(&one.value)).collect(),
        schedules: description.schedule.iter().map(schedule).collect(),
        channels: description
            .channel
            .iter()
            .map(|channel| ChannelSpans { name: channel.name.span, doorbell: span(&channel.doorbell) })
            .collect(),
        virtio: description
            .virtio
            .iter()
            .map(|device| ChannelSpans { name: device.name.span, doorbell: span(&device.doorbell) })
            .collect(),
        secure: None,
    }
}

fn partition(partition: &Partition) -> PartitionSpans {
    PartitionSpans {
        name: partition.name.span,
        trust: span(&partition.trust),
        cores: partition.cores.iter().map(|core| core.span).collect(),
        route: span(&partition.route),
        doorbell_limit: span(&partition.doorbell_limit),
        devices: partition.devices.iter().map(device).collect(),
        servers: partition.servers.iter().map(server).collect(),
        tasks: partition
            .tasks
            .iter()
            .map(|task| TaskSpans {
                whole: task.span,
                cost: task.cost.span,
                period: task.period.span,
                deadline: span(&task.deadline),
            })
            .collect(),
    }
}

fn device(device: &Located<Device>) -> DeviceSpans {
    let none = DeviceSpans { whole: device.span, route: None, limit: None, handler: None, deadline: None };
    match &device.value {
        Device::Name(_) => none,
        Device::Table(table) => DeviceSpans {
            route: span(&table.route),
            limit: span(&table.limit),
            handler: span(&table.handler),
            deadline: span(&table.deadline),
            ..none
        },
    }
}

fn server(server: &Located<Server>) -> ServerSpans {
    ServerSpans {
        name: server.name.as_ref().map(|name| name.value.clone()),
        whole: server.span,
        priority: span(&server.priority),
        rule: span(&server.rule),
        budget: span(&server.budget),
        period: span(&server.period),
        anchor: span(&server.anchor),
        chunks: span(&server.chunks),
        minimum: span(&server.minimum),
        least_charge: span(&server.least_charge),
        share: span(&server.share),
        clients: span(&server.clients),
        gate: span(&server.gate),
        payer: span(&server.payer),
    }
}

fn schedule(schedule: &Located<Schedule>) -> ScheduleSpans {
    // The model has windows in the order of time.
    let mut windows: Vec<&Located<Window>> = schedule.windows.iter().collect();
    windows.sort_by_key(|window| offset_ns(window));
    let quanta: Vec<Span> = schedule.quanta.iter().map(|quantum| quantum.span).collect();
    ScheduleSpans {
        whole: schedule.span,
        core: schedule.core.span,
        kind: schedule.kind.span,
        quanta: quanta.into_iter().chain(span(&schedule.quantum)).collect(),
        major_frame: span(&schedule.major_frame),
        windows: windows.into_iter().map(|window| window.span).collect(),
    }
}
