//! A part of a system as a system of its own, on core 0: for runs that are exact because nobody else is there.

use bulkhead_plan::model::{BudgetRule, Partition, ServerReference, System};

/// Returns the core of a partition that has one.
pub(crate) fn only_core(partition: &Partition) -> Option<usize> {
    match partition.cores.as_slice() {
        [core] => Some(*core),
        _ => None,
    }
}

/// Keeps some partitions of one core, with the core's schedule and without channels. Servers that somebody else pays for, who is
/// not kept, pay themselves.
pub(crate) fn on_core_0(system: &System, core: usize, keep: impl Fn(&Partition) -> bool) -> System {
    let is_kept = |partition: &Partition| only_core(partition) == Some(core) && keep(partition);
    let kept: Vec<usize> =
        system.partitions.iter().enumerate().filter(|(_, one)| is_kept(one)).map(|(number, _)| number).collect();
    let moved = |old: ServerReference| {
        let partition = kept.iter().position(|number| *number == old.partition)?;
        Some(ServerReference { partition, ..old })
    };
    let mut alone = System { channels: Vec::new(), ..system.clone() };
    alone.partitions.retain(|partition| is_kept(partition));
    alone.schedules.retain(|schedule| schedule.board_core == core);
    alone.schedules.iter_mut().for_each(|schedule| schedule.board_core = 0);
    for partition in &mut alone.partitions {
        partition.cores = vec![0];
        for server in &mut partition.servers {
            server.payer = server.payer.and_then(moved);
            if let BudgetRule::Pibs { clients, .. } = &mut server.rule {
                *clients = clients.iter().filter_map(|client| moved(*client)).collect();
            }
        }
    }
    alone
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_plan::model::{Schedule, ScheduleKind, Server};
    use bulkhead_plan::samples;

    fn partition(name: &str, core: usize, payer: Option<usize>) -> Partition {
        let payer = payer.map(|partition| ServerReference { partition, server: 0 });
        let server = Server { payer, ..samples::sporadic(1, 1_000_000, 10_000_000) };
        Partition { servers: vec![server], ..samples::native(name, &[core]) }
    }

    #[test]
    fn the_partitions_of_a_core_move_to_core_0_and_still_know_each_other() {
        let mut system = samples::system(
            vec![partition("far", 3, None), partition("rtos", 2, Some(2)), partition("office", 2, None)],
            Vec::new(),
        );
        let kind = ScheduleKind::FixedPriority { quanta: Vec::new() };
        system.schedules =
            [2, 3].map(|board_core| Schedule { board_core, kind: kind.clone(), eager_floating_point: false }).to_vec();
        let alone = on_core_0(&system, 2, |_| true);
        let names: Vec<_> = alone.partitions.iter().map(|partition| partition.name.as_str()).collect();
        assert_eq!(names, ["rtos", "office"]);
        assert!(alone.partitions.iter().all(|partition| partition.cores == [0]));
        assert_eq!(alone.schedules.iter().map(|schedule| schedule.board_core).collect::<Vec<_>>(), [0]);
        assert_eq!(alone.partitions[0].servers[0].payer, Some(ServerReference { partition: 1, server: 0 }));
        let one = on_core_0(&system, 2, |partition| partition.name == "rtos");
        assert_eq!((one.partitions.len(), one.schedules.len()), (1, 1), "a partition with servers keeps its schedule");
        assert_eq!(one.partitions[0].servers[0].payer, None, "who paid is not there");
    }
}
