//! Filling the objects from the boot tables (`kernel.md` 8): copies, no decisions.

use crate::{
    Binding, Component, Counters, EndPoint, Links, NO_PAGE, Objects, Position, Quota, Region, Room, Scheduler, Thread,
    World,
};
use bulkhead_kernel_abi::boot::Tables;
use bulkhead_kernel_abi::{Capability, Kind, NONE};

/// Where the ASID is in TTBR0_EL1 (Arm ARM D17.2.155).
pub(crate) const ASID_SHIFT: u32 = 48;

impl<'a> Objects<'a> {
    /// Makes the objects of the boot tables in their room. What the room is too small for is not there; the host sized it.
    #[must_use]
    pub fn new(room: Room<'a>, tables: &Tables<'a>) -> Self {
        let Tables { entries, stacks, programs, segments, .. } = *tables;
        let room = Room { entries, stacks, programs, segments, ..room };
        fill(room.components, tables.components, Component::new);
        fill(room.slots, tables.capabilities, |slot| *slot);
        fill(room.threads, tables.threads, Thread::new);
        fill(room.end_points, tables.end_points, EndPoint::new);
        fill(room.bindings, tables.bindings, Binding::new);
        fill(room.servers, tables.servers, Position::new);
        fill(room.schedulers, tables.schedulers, Scheduler::new);
        fill(room.regions, tables.regions, Region::new);
        fill(room.quotas, tables.quotas, Quota::new);
        // Numbers that the host left free are for quotas that are split off.
        for quota in room.quotas.iter_mut().skip(tables.quotas.len()) {
            *quota = Quota { counters: Counters { life: 1, grant: 1 }, ..Quota::default() };
        }
        for counters in [&mut *room.wires, &mut *room.tcaps, &mut *room.bands] {
            counters.fill(Counters { life: 1, grant: 1 });
        }
        let mut this = Self {
            room,
            ready: Links::EMPTY,
            listed: Links::EMPTY,
            asleep: Links::EMPTY,
            held: 0,
            ending: 0,
            ends: 0,
            running: NONE,
            first_process: NONE,
            first_tcap: u16::try_from(tables.tcaps.len()).unwrap_or(NONE),
            pool_address: 0,
            pool_pages: 0,
            free_page: NO_PAGE,
            free_threads: u64::MAX.checked_shl(tables.threads.len() as u32).unwrap_or(0),
        };
        this.relate();
        this.bound();
        this.fill_pool(tables);
        this.prepare_processes(tables.components.len(), tables.capabilities.len());
        this
    }

    /// Lets no component have slots, entries or stacks that are not there, since the fast path looks for the ends of a component's own and no others;
    /// and gives each address space its ASID.
    fn bound(&mut self) {
        let Room { components, slots, entries, stacks, .. } = &mut self.room;
        for (asid, one) in (1u64..).zip(components.iter_mut()) {
            one.space |= asid.wrapping_shl(ASID_SHIFT);
            one.slots = within(one.first_slot, one.slots, slots.len());
            one.entries = within(one.first_entry, one.entries.into(), entries.len()) as u16;
            one.stacks = within(one.first_stack, one.stacks.into(), stacks.len()) as u16;
            one.free_all_stacks();
            one.refresh();
        }
        let count = components.len();
        let is_empty = |slot: &Capability| match slot.kind() {
            None | Some(Kind::Null) => true,
            Some(Kind::Call) => usize::from(slot.object) >= count,
            Some(_) => false,
        };
        slots.iter_mut().filter(|slot| is_empty(slot)).for_each(|slot| *slot = Capability::NULL);
    }

    /// Says what rows say of each other: a component's first thread, and whose a scheduler's own thread is.
    fn relate(&mut self) {
        for (number, thread) in (0..u16::MAX).zip(self.room.threads.iter()) {
            let home = self.room.components.get_mut(usize::from(thread.home));
            if let Some(home) = home.filter(|home| home.first_thread == NONE) {
                home.first_thread = number;
            }
        }
        for one in self.room.schedulers.iter() {
            if let Some(thread) = self.room.threads.get_mut(usize::from(one.thread)) {
                (thread.scheduler, thread.is_schedulers) = (one.parent, true);
            }
        }
    }

    /// Starts the threads that run at boot.
    pub fn start_at_boot<W: World>(&mut self, world: &mut W, tables: &Tables<'_>) {
        for (number, row) in (0..u16::MAX).zip(tables.threads).filter(|(_, row)| row.started != 0) {
            // A thread without a home has nowhere to run.
            let _ = self.start(world, number, row.argument);
        }
    }
}

/// The count, or none when not all of them are there.
fn within(first: u32, count: u32, length: usize) -> u32 {
    let end = first.checked_add(count).and_then(|end| usize::try_from(end).ok());
    if end.is_some_and(|end| end <= length) { count } else { 0 }
}

fn fill<T, R>(objects: &mut [T], rows: &[R], make: impl Fn(&R) -> T) {
    for (object, row) in objects.iter_mut().zip(rows) {
        *object = make(row);
    }
}
