//! Interrupts as end points (`kernel.md` 6; QV-35, CH-64).
//!
//! The top half sends and leaves the interrupt active, so that the controller masks it until the driver has done with it. That is free while
//! the driver can run; when its server is empty, or four are held already, the interrupt is masked in the controller and deactivated
//! instead, because one that is held makes every other one dearer. Either way it comes again when the driver says `done`, which it can say when
//! its budget is back: so a storm costs what its server's budget allows, and one top half per replenishment.
//!
//! Only who runs on that server's time says it. A thread of the driver's component on a more important server, or a caller inside, would else have top halves paid by a server that
//! is behind those whom they interrupt: its own time is in their bounds, and what another one pays for is not, even as a debt.
//!
//! Rejected: to unmask it already when the budget comes back. A device that still rings would be heard a second time before its driver has
//! looked at the first, and the kernel would have to know of each budget that comes back whose interrupts it masked.
//!
//! Whose request it is: the client that expects it with the shortest period (the lowest server number: they are in that order),
//! or the default one. The driver corrects it with `serve` and `finish`.

use crate::{Objects, World};
use bulkhead_kernel_abi::boot::BindingRow;
use bulkhead_kernel_abi::{Code, MAX_HELD, NONE};

/// Where an interrupt is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// It may come.
    #[default]
    Idle,
    /// It came and is active.
    Held,
    /// It came and is masked.
    Masked,
}

/// An interrupt that is bound to an end point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    /// Life and grant.
    pub counters: crate::Counters,
    /// What the end point is sent.
    pub bits: u64,
    /// Clients, by number of the server.
    pub clients: u64,
    /// Those of them that expect it.
    pub expecting: u64,
    /// INTID.
    pub intid: u32,
    /// End point.
    pub end_point: u16,
    /// Server that pays.
    pub server: u16,
    /// Client where none expects it, or [`NONE`].
    pub default_client: u16,
    /// Where it is.
    pub hold: Hold,
}

impl Binding {
    /// A binding as the host described it.
    #[must_use]
    pub fn new(row: &BindingRow) -> Self {
        Self {
            counters: crate::Counters { life: 1, grant: 1 },
            bits: row.bits,
            clients: row.clients,
            intid: row.intid,
            end_point: row.end_point,
            server: row.server,
            default_client: row.default_client,
            ..Self::default()
        }
    }

    /// The bit of a client, if it is one.
    fn client(&self, server: u16) -> Result<u64, Code> {
        let bit = if server < 64 { 1u64.wrapping_shl(u32::from(server)) } else { 0 };
        if self.clients & bit == 0 { Err(Code::BadArgument) } else { Ok(bit) }
    }
}

impl Objects<'_> {
    fn binding(&mut self, number: u16) -> Result<&mut Binding, Code> {
        self.room.bindings.get_mut(usize::from(number)).ok_or(Code::BadCapability)
    }

    /// Holds an interrupt, or no longer.
    fn set_held(&mut self, number: u16, is_held: bool) {
        let bit = 1u64.wrapping_shl(u32::from(number));
        self.held = if is_held { self.held | bit } else { self.held & !bit };
    }

    /// The binding of an interrupt.
    #[must_use]
    pub fn binding_of(&self, intid: u32) -> Option<u16> {
        (0..u16::MAX)
            .zip(self.room.bindings.iter())
            .find(|(_, binding)| binding.intid == intid)
            .map(|(number, _)| number)
    }

    /// The server that pays for an interrupt; [`NONE`] when there is no such binding.
    #[must_use]
    pub fn payer_of(&self, number: u16) -> u16 {
        self.room.bindings.get(usize::from(number)).map_or(NONE, |binding| binding.server)
    }

    /// The top half: the interrupt was acknowledged and its priority dropped. The caller charges the binding's server for it.
    pub fn top_half<W: World>(&mut self, world: &mut W, number: u16) {
        let now = world.now_ticks();
        let may_hold = self.held.count_ones() < MAX_HELD as u32;
        let Ok(binding) = self.binding(number) else { return };
        let one = *binding;
        let is_held = may_hold && world.has_budget(one.server, now);
        binding.hold = if is_held { Hold::Held } else { Hold::Masked };
        let client = if one.expecting == 0 { one.default_client } else { one.expecting.trailing_zeros() as u16 };
        if one.expecting != 0 {
            binding.expecting &= one.expecting.wrapping_sub(1);
        }
        self.set_held(number, is_held);
        if !is_held {
            world.set_masked(one.intid, true);
            world.deactivate(one.intid);
        }
        if client != NONE {
            world.request(one.server, client, now);
        }
        self.send(world, one.end_point, one.bits);
    }

    /// A server's budget is used up: what its driver holds is masked, until the driver has done with it, for which it needs budget.
    pub fn out_of_budget<W: World>(&mut self, world: &mut W, server: u16) {
        let mut left = self.held;
        for _ in 0..MAX_HELD {
            let number = left.trailing_zeros() as u16;
            left &= left.wrapping_sub(1);
            let Ok(binding) = self.binding(number) else { return };
            if binding.server == server {
                binding.hold = Hold::Masked;
                world.set_masked(binding.intid, true);
                world.deactivate(binding.intid);
                self.set_held(number, false);
            }
        }
    }

    /// A thread has ended: its interrupts are masked and inactive, so that none is dearer for it, until the next life says `done`.
    pub(crate) fn silence<W: World>(&mut self, world: &mut W, thread: u16) {
        for number in 0..self.room.bindings.len() as u16 {
            // Bindings fill the room from its beginning on, and each has an interrupt.
            let Some(one) = self.room.bindings.get(usize::from(number)).filter(|one| one.intid != 0) else { return };
            let end_point = self.room.end_points.get(usize::from(one.end_point));
            if one.hold == Hold::Masked || end_point.is_none_or(|end_point| end_point.thread != thread) {
                continue;
            }
            let Ok(binding) = self.binding(number) else { return };
            let was_held = core::mem::replace(&mut binding.hold, Hold::Masked) == Hold::Held;
            let intid = binding.intid;
            world.set_masked(intid, true);
            if was_held {
                world.deactivate(intid);
            }
            self.set_held(number, false);
        }
    }

    /// The driver has done with it; `server` is the one whose time it says so on.
    pub(crate) fn interrupt_done<W: World>(&mut self, world: &mut W, number: u16, server: u16) -> Result<(), Code> {
        let binding = self.binding(number)?;
        // Who is behind its server is interrupted once while it runs: again is for time that is in their bounds.
        if binding.server != server {
            return Err(Code::Denied);
        }
        match core::mem::take(&mut binding.hold) {
            Hold::Idle => return Err(Code::Busy),
            Hold::Held => world.deactivate(binding.intid),
            Hold::Masked => world.set_masked(binding.intid, false),
        }
        self.set_held(number, false);
        Ok(())
    }

    /// The next interrupt is the client's, or is not, after all.
    pub(crate) fn expect(&mut self, number: u16, client: u16, expects: bool) -> Result<(), Code> {
        let binding = self.binding(number)?;
        let bit = binding.client(client)?;
        match (binding.expecting & bit != 0, expects) {
            (true, true) => Err(Code::Full),
            (false, false) => Err(Code::Busy),
            _ => {
                binding.expecting ^= bit;
                Ok(())
            }
        }
    }

    /// The driver works for a client, or has done with its request.
    pub(crate) fn serve<W: World>(
        &mut self,
        world: &mut W,
        number: u16,
        client: u64,
        is_done: bool,
    ) -> Result<(), Code> {
        let client = u16::try_from(client).map_err(|_| Code::BadArgument)?;
        let binding = self.binding(number)?;
        binding.client(client)?;
        let (server, now) = (binding.server, world.now_ticks());
        let is_so = if is_done { world.complete(server, client, now) } else { world.request(server, client, now) };
        if is_so { Ok(()) } else { Err(Code::Busy) }
    }
}
