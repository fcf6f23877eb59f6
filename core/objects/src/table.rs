//! Capability tables: looking up and moving (`kernel.md` 1; CH-61).
//!
//! A look-up is constant: compare with the table's size, load 16 bytes, compare kind and grant. Rights can only be dropped, and
//! the word of a copy is that of its source, so no capability ever grants more than the one that it came from. Revocation raises the
//! object's grant and rewrites the caller's own slot; every other capability to the object is void by that.
//!
//! A table is a component's, and who has a capability to it acts in it: to read or copy out with `READ`, to put in, move out and
//! delete with `WRITE`.

use crate::{Counters, Objects, WORN};
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::{Capability, Code, Kind};

impl Objects<'_> {
    /// Life and grant of an object.
    pub(crate) fn counters(&mut self, kind: Kind, object: u16) -> Option<&mut Counters> {
        let (at, room) = (usize::from(object), &mut self.room);
        match kind {
            Kind::Null => None,
            Kind::Call | Kind::Table | Kind::Component => room.components.get_mut(at).map(|one| &mut one.counters),
            Kind::Send | Kind::Receive => room.end_points.get_mut(at).map(|one| &mut one.counters),
            Kind::Thread => room.threads.get_mut(at).map(|one| &mut one.counters),
            Kind::Scheduler => room.schedulers.get_mut(at).map(|one| &mut one.counters),
            Kind::Server => room.servers.get_mut(at).map(|one| &mut one.counters),
            Kind::Interrupt => room.bindings.get_mut(at).map(|one| &mut one.counters),
            Kind::RemoteSend => room.wires.get_mut(at),
            Kind::TCap => room.tcaps.get_mut(at),
            Kind::Band => room.bands.get_mut(at),
            Kind::Memory => room.regions.get_mut(at).map(|one| &mut one.counters),
            Kind::Quota => room.quotas.get_mut(at).map(|one| &mut one.counters),
        }
    }

    fn index(&self, component: u16, slot: u64) -> Option<usize> {
        let one = self.component(component)?;
        let slot = u32::try_from(slot).ok().filter(|slot| *slot < one.slots)?;
        Some(one.first_slot.checked_add(slot)? as usize)
    }

    /// What is in a slot, void or not.
    pub(crate) fn slot(&self, component: u16, slot: u64) -> Option<Capability> {
        self.room.slots.get(self.index(component, slot)?).copied()
    }

    pub(crate) fn slot_mut(&mut self, component: u16, slot: u64) -> Option<&mut Capability> {
        let place = self.index(component, slot)?;
        self.room.slots.get_mut(place)
    }

    /// States whether a capability still is one.
    pub(crate) fn is_valid(&mut self, capability: &Capability) -> bool {
        let grant = capability.kind().and_then(|kind| self.counters(kind, capability.object)).map(|one| one.grant);
        grant == Some(capability.grant) && grant != Some(WORN)
    }

    /// Looks a capability of a component up.
    pub(crate) fn find(&mut self, component: u16, slot: u64) -> Result<Capability, Code> {
        let found = self.slot(component, slot).ok_or(Code::BadCapability)?;
        if self.is_valid(&found) { Ok(found) } else { Err(Code::BadCapability) }
    }

    /// Looks up which object a capability of a kind is for, with rights.
    pub(crate) fn object_of(&mut self, component: u16, slot: u64, kind: Kind, rights: u8) -> Result<u16, Code> {
        let place = self.index(component, slot).ok_or(Code::BadCapability)?;
        // Its fields one by one: a whole capability in an answer is copied through memory, byte by byte, which takes longer than the look-up.
        let found = self.room.slots.get(place).ok_or(Code::BadCapability)?;
        let (object, grant, has_rights) = (found.object, found.grant, found.has(rights));
        let is_of_kind = found.kind == kind.number() && kind != Kind::Null;
        if !is_of_kind || grant == WORN || self.counters(kind, object).is_none_or(|one| one.grant != grant) {
            return Err(Code::BadCapability);
        }
        if has_rights { Ok(object) } else { Err(Code::Denied) }
    }

    /// The same, for who needs the rest of it as well.
    pub(crate) fn find_as(&mut self, component: u16, slot: u64, kind: Kind, rights: u8) -> Result<Capability, Code> {
        self.object_of(component, slot, kind, rights)?;
        self.slot(component, slot).ok_or(Code::BadCapability)
    }

    /// The component whose table is meant: 0 is the own one.
    fn table(&mut self, component: u16, slot: u64, rights: u8) -> Result<u16, Code> {
        if slot == 0 { Ok(component) } else { self.object_of(component, slot, Kind::Table, rights) }
    }

    /// The place of a slot that something can be put into. Slot 0 is null for ever.
    pub(crate) fn empty(&self, table: u16, slot: u64) -> Result<usize, Code> {
        let place = self.index(table, slot).filter(|_| slot != 0).ok_or(Code::BadArgument)?;
        let there = self.room.slots.get(place).ok_or(Code::BadArgument)?;
        if there.kind == Kind::Null.number() { Ok(place) } else { Err(Code::Full) }
    }

    /// Puts a capability into an empty slot.
    pub(crate) fn put(&mut self, table: u16, slot: u64, capability: Capability) -> Result<(), Code> {
        let place = self.empty(table, slot)?;
        self.put_at(place, capability);
        Ok(())
    }

    /// Puts a capability into a place.
    pub(crate) fn put_at(&mut self, place: usize, capability: Capability) {
        if let Some(slot) = self.room.slots.get_mut(place) {
            *slot = capability;
        }
    }

    /// Copies or moves a capability; x1 to x5 of the call.
    pub(crate) fn copy(&mut self, component: u16, x: [u64; 5], moves: bool) -> Result<(), Code> {
        let [from, from_slot, to, to_slot, rights] = x;
        let from = self.table(component, from, if moves { right::READ | right::WRITE } else { right::READ })?;
        let to = self.table(component, to, right::WRITE)?;
        let source = self.find(from, from_slot)?;
        let place = self.empty(to, to_slot)?;
        let kept = if moves { source.rights } else { source.rights & rights as u8 };
        self.put_at(place, Capability { rights: kept, ..source });
        if moves && let Some(slot) = self.slot_mut(from, from_slot) {
            *slot = Capability::NULL;
        }
        Ok(())
    }

    /// Clears a slot.
    pub(crate) fn delete(&mut self, component: u16, table: u64, slot: u64) -> Result<(), Code> {
        let table = self.table(component, table, right::WRITE)?;
        match self.slot_mut(table, slot) {
            None => Err(Code::BadArgument),
            Some(there) if there.kind == Kind::Null.number() => Err(Code::BadCapability),
            Some(there) => {
                *there = Capability::NULL;
                Ok(())
            }
        }
    }

    /// Makes all other capabilities to an object void. At the end of its counter this one is void as well.
    pub(crate) fn revoke(&mut self, component: u16, slot: u64) -> Result<(), Code> {
        let found = self.find(component, slot)?;
        if !found.has(right::REVOKE) {
            return Err(Code::Denied);
        }
        let kind = found.kind().ok_or(Code::BadCapability)?;
        let grant = self.counters(kind, found.object).ok_or(Code::BadCapability)?.revoke();
        if matches!(kind, Kind::Call | Kind::Table | Kind::Component)
            && let Some(component) = self.component_mut(found.object)
        {
            component.refresh();
        }
        if let Some(slot) = self.slot_mut(component, slot) {
            slot.grant = grant;
        }
        Ok(())
    }

    /// What is in a slot: kind, rights, and whether it is void.
    pub(crate) fn read_slot(&mut self, component: u16, table: u64, slot: u64) -> Result<[u64; 3], Code> {
        let table = self.table(component, table, right::READ)?;
        let there = self.slot(table, slot).ok_or(Code::BadArgument)?;
        let is_void = there.kind != Kind::Null.number() && !self.is_valid(&there);
        Ok([u64::from(there.kind), u64::from(there.rights), u64::from(is_void)])
    }
}

#[cfg(test)]
mod tests {
    use crate::{Counters, EndPoint, Links, Objects, Room, WORN};
    use bulkhead_kernel_abi::boot::ComponentRow;
    use bulkhead_kernel_abi::{Capability, Code, Kind, NONE};

    #[test]
    fn an_object_whose_grants_are_used_up_is_not_used_again() {
        let send =
            |grant| Capability { kind: Kind::Send.number(), rights: Kind::Send.rights(), object: 0, grant, word: 1 };
        let mut slots = [Capability::NULL, send(WORN - 1), send(WORN)];
        let mut components = [crate::Component::new(&ComponentRow { slots: 3, ..Default::default() })];
        let counters = Counters { life: 1, grant: WORN - 1 };
        let mut end_points = [EndPoint { counters, ..EndPoint::EMPTY }];
        let room = Room {
            components: &mut components,
            slots: &mut slots,
            threads: &mut [],
            end_points: &mut end_points,
            bindings: &mut [],
            servers: &mut [],
            schedulers: &mut [],
            wires: &mut [],
            tcaps: &mut [],
            bands: &mut [],
            regions: &mut [],
            quotas: &mut [],
            processes: &mut [],
            pages: &mut [],
            entries: &[],
            stacks: &[],
            programs: &[],
            segments: &[],
        };
        let mut objects = Objects {
            room,
            ready: Links::EMPTY,
            listed: Links::EMPTY,
            asleep: Links::EMPTY,
            held: 0,
            ending: 0,
            ends: 0,
            running: NONE,
            first_process: NONE,
            first_tcap: NONE,
            pool_address: 0,
            pool_pages: 0,
            free_page: crate::NO_PAGE,
            free_threads: 0,
        };
        assert_eq!(objects.find(0, 1).map(|found| found.word), Ok(1));
        assert_eq!(objects.find(0, 2), Err(Code::BadCapability));
        // The last revocation makes the caller's own void, too, and a counter that has ended matches nobody.
        assert_eq!(objects.revoke(0, 1), Ok(()));
        assert_eq!(objects.slot(0, 1).map(|there| there.grant), Some(WORN));
        assert_eq!([1, 2].map(|slot| objects.find(0, slot)), [Err(Code::BadCapability); 2]);
    }
}
