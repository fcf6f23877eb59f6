//! Filling the objects from the boot tables (`kernel.md` 8): copies, no decisions.

use crate::{Binding, Component, Counters, EndPoint, Links, Objects, Position, Room, Scheduler, Thread, World};
use bulkhead_kernel_abi::NONE;
use bulkhead_kernel_abi::boot::Tables;

impl<'a> Objects<'a> {
    /// Makes the objects of the boot tables in their room. What the room is too small for is not there; the host sized it.
    #[must_use]
    pub fn new(room: Room<'a>, tables: &Tables<'a>) -> Self {
        let room = Room { entries: tables.entries, stacks: tables.stacks, ..room };
        fill(room.components, tables.components, Component::new);
        fill(room.slots, tables.capabilities, |slot| *slot);
        fill(room.threads, tables.threads, Thread::new);
        fill(room.end_points, tables.end_points, EndPoint::new);
        fill(room.bindings, tables.bindings, Binding::new);
        fill(room.servers, tables.servers, Position::new);
        fill(room.schedulers, tables.schedulers, Scheduler::new);
        for counters in [&mut *room.wires, &mut *room.tcaps, &mut *room.bands, &mut *room.regions, &mut *room.quotas] {
            counters.fill(Counters { life: 1, grant: 1 });
        }
        let mut this = Self { room, ready: Links::EMPTY, listed: Links::EMPTY, dated: 0, ending: 0, running: NONE };
        this.relate();
        this
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
                thread.scheduler = one.parent;
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

fn fill<T, R>(objects: &mut [T], rows: &[R], make: impl Fn(&R) -> T) {
    for (object, row) in objects.iter_mut().zip(rows) {
        *object = make(row);
    }
}
