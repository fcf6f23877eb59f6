//! A plan is read as it is: nothing that it says makes a reader panic or look beyond a table.

use bulkhead_abi::plan::{MAX_INTERRUPTS, PartitionPlan};
use bulkhead_abi::schedule::{MAX_CORE_SERVERS, RouteRule, Rule, ScheduleKind, SchedulePlan, ServerFlag};
use zerocopy::FromZeros;

#[test]
fn a_table_ends_where_its_count_or_its_room_does() {
    let mut plan = SchedulePlan::new_zeroed();
    assert!(plan.servers().is_empty());
    plan.server_count = 3;
    assert_eq!(plan.servers().len(), 3);
    plan.server_count = u32::MAX;
    assert_eq!(plan.servers().len(), MAX_CORE_SERVERS);
    let mut partition = PartitionPlan::new_zeroed();
    partition.interrupt_count = 33;
    assert_eq!(partition.interrupts().len(), MAX_INTERRUPTS);
}

#[test]
fn a_number_is_a_word_or_nothing() {
    let mut plan = SchedulePlan::new_zeroed();
    assert_eq!(plan.kind(), None, "no schedule has the number 0");
    plan.kind = 2;
    assert_eq!(plan.kind(), Some(ScheduleKind::RoundRobin));
    plan.servers[1].rule = 4;
    plan.servers[1].flags = 5;
    assert_eq!(plan.servers[1].rule(), Some(Rule::Pibs));
    assert!(plan.servers[1].has(ServerFlag::VoluntaryReturn) && !plan.servers[1].has(ServerFlag::PublishedPibs));
    plan.servers[1].rule = 5;
    assert_eq!(plan.servers[1].rule(), None);
    plan.slots[0].timer_route = 2;
    assert_eq!(plan.slots[0].timer_route(), Some(RouteRule::Defer));
}
