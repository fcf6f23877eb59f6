//! What the objects need of the outside: the machine, and time by the servers of the instance.

use bulkhead_arch::kernel::KernelMachine;
use bulkhead_arm::Intid;
use bulkhead_channel::Entry;
use bulkhead_kernel_abi::Code;
use bulkhead_kernel_abi::boot::{BindingRow, DataRow, Tables};
use bulkhead_objects::{Machine, Time};

use crate::servers::Servers;
use crate::text::Text;
use crate::wires::Wires;

/// The machine, and what the boot tables say that the objects do not keep.
pub struct Outside<'a, M> {
    pub(crate) machine: M,
    pub(crate) servers: Servers<'a>,
    pub(crate) wires: Wires<'a>,
    pub(crate) text: Text<'a>,
    bindings: &'a [BindingRow],
    data: &'a [DataRow],
    /// When the periodic timer rings next.
    date_ticks: u64,
    build: u64,
    counter_hz: u64,
}

impl<'a, M: KernelMachine> Outside<'a, M> {
    pub(crate) fn new(machine: M, servers: Servers<'a>, tables: &Tables<'a>, counter_hz: u64) -> Self {
        let build = tables.header.kernel_build;
        let wires = Wires::open(tables, &machine);
        let text = Text::new(tables.components, machine.console_entries(), counter_hz);
        let Tables { bindings, data, .. } = *tables;
        Self { machine, servers, wires, text, bindings, data, date_ticks: 0, build, counter_hz }
    }

    /// Enables what is bound, doorbells of wires, and the kernel's own timer; the periodic one begins its grid here.
    pub(crate) fn enable(&mut self, tables: &Tables<'_>) {
        self.machine.enable_interrupt(Intid::VIRTUAL_TIMER);
        self.date_ticks = self.machine.counter_ticks();
        for (number, row) in (0..u16::MAX).zip(tables.bindings) {
            self.machine.set_edge(Intid(row.intid), row.edge != 0);
            self.machine.enable_interrupt(Intid(row.intid));
            self.arm_next(number);
        }
        for doorbell in self.wires.doorbells() {
            self.machine.set_edge(doorbell, true);
            self.machine.enable_interrupt(doorbell);
        }
        self.look_at_wires();
    }

    /// Arms the periodic timer for its next date, if the binding is its: on an absolute grid, so a late top half makes no later date, and dates
    /// that passed while it was held are one.
    pub(crate) fn arm_next(&mut self, binding: u16) {
        let row = self.bindings.get(usize::from(binding));
        let Some(period_ticks) = row.map(|row| row.period_ticks).filter(|period| *period != 0) else { return };
        let late = self.machine.counter_ticks().saturating_sub(self.date_ticks);
        let periods = late.checked_div(period_ticks).unwrap_or(0).saturating_add(1);
        self.date_ticks = self.date_ticks.saturating_add(period_ticks.saturating_mul(periods));
        self.machine.set_periodic(self.date_ticks);
    }
}

impl<M: KernelMachine> Machine for Outside<'_, M> {
    fn now_ticks(&self) -> u64 {
        // The instant of entry: what the kernel does is over at once, as far as its objects go.
        self.servers.now_ticks()
    }

    fn is_interrupted(&self) -> bool {
        self.machine.is_interrupted()
    }

    fn print(&mut self, component: u16, bytes: &[u8]) -> bool {
        let is_done = self.text.print(&mut self.machine, component, bytes, self.servers.now_ticks());
        if !is_done {
            let accounts = &mut *self.servers.room.accounts;
            accounts.print_busy = accounts.print_busy.wrapping_add(1);
            if let Some(busy) = accounts.print_busy_of.get_mut(usize::from(component)) {
                *busy = busy.wrapping_add(1);
            }
        }
        is_done
    }

    fn build_and_frequency(&self) -> (u64, u64) {
        (self.build, self.counter_hz)
    }

    fn remote_send(&mut self, wire: u16, index: u16, bits: u64) -> Result<(), Code> {
        let entry = Entry { index: index.into(), bits };
        self.wires.send(&mut self.machine, &mut self.servers.room.accounts.wires, wire, entry)
    }

    fn set_masked(&mut self, intid: u32, is_masked: bool) {
        match is_masked {
            true => self.machine.disable_interrupt(Intid(intid)),
            false => self.machine.enable_interrupt(Intid(intid)),
        }
    }

    fn deactivate(&mut self, intid: u32) {
        self.machine.deactivate(Intid(intid));
    }

    fn restore(&mut self, component: u16, page: u32) -> bool {
        let mut number = page;
        // At most as many as the host described; a component has few, mostly one.
        for row in self.data.iter().filter(|row| row.component == component && row.outlives == 0) {
            if let Some(left) = number.checked_sub(row.pages) {
                number = left;
                continue;
            }
            let offset = u64::from(number).wrapping_shl(12);
            let kept = (number < row.kept_pages).then_some(row.kept.wrapping_add(offset));
            self.machine.restore_page(row.physical.wrapping_add(offset), kept);
            return true;
        }
        false
    }
}

impl<M: KernelMachine> Time for Outside<'_, M> {
    fn root(&self, tcap: u16) -> Option<u16> {
        self.servers.root(tcap)
    }

    fn fixed_root(&self, tcap: u16) -> Option<u16> {
        if self.servers.divides { None } else { self.servers.root(tcap) }
    }

    fn usable_ticks(&mut self, tcap: u16, _now: u64) -> u64 {
        self.servers.usable_ticks(tcap)
    }

    fn asks(&mut self, tcap: u16, _now: u64) -> bool {
        // Without schedulers a claim is on everything, and may wait for it.
        if self.servers.divides { self.servers.claim_asks(tcap as u8) } else { self.servers.root(tcap).is_some() }
    }

    fn outranks(&mut self, tcap: u16, other: u16, _now: u64) -> bool {
        if self.servers.divides {
            return self.servers.claim_outranks(tcap, other);
        }
        // Of one server, and no scheduler has given either a number.
        self.servers.usable_ticks(tcap) != 0
    }

    fn filled(&mut self, server: u16, tcap: u16, _now: u64) {
        if self.servers.divides { self.servers.fill(server, tcap) } else { self.servers.wake(server) }
    }

    fn emptied(&mut self, server: u16, _now: u64) {
        if self.servers.divides { self.servers.empty(server) } else { self.servers.block(server) }
    }

    fn set_priority(&mut self, tcap: u16, scheduler: u16, priority: u64) -> Result<(), Code> {
        self.servers.set_number(tcap, scheduler, priority)
    }

    fn exchange(&mut self, server: u16, claims: [u16; 2], number: (u16, u64), now: u64) -> bool {
        self.servers.exchange(server, claims, number, now)
    }

    fn hand_over(&mut self, server: u16, claims: [u16; 2], now: u64) -> Option<bool> {
        self.servers.hand_over(server, claims, now)
    }

    fn set_date(&mut self, server: u16, date_ticks: u64) {
        self.servers.set_date(server, date_ticks);
    }

    fn due(&self, now: u64) -> Option<u16> {
        self.servers.room.sleepers.due(now).map(u16::from)
    }

    fn has_budget(&mut self, server: u16, _now: u64) -> bool {
        self.servers.has_budget(server)
    }

    fn request(&mut self, server: u16, client: u16, _now: u64) -> bool {
        self.servers.tell_of_client(server, client, true)
    }

    fn complete(&mut self, server: u16, client: u16, _now: u64) -> bool {
        self.servers.tell_of_client(server, client, false)
    }
}
