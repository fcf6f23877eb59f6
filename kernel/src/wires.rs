//! Wires: notifications from and to other instances, by the memory of a channel and its doorbell (`kernel.md` 6; CH-39, CH-40, CH-41, CH-42).
//!
//! A RemoteSend writes {index, bits} into the ring of its wire and rings. The receiving kernel reads the ring's write index once when it hears the doorbell, and takes
//! no more than that, [`AT_ONCE`] entries in a piece of work; between two pieces it looks for interrupts. The wire after the one that was first last time is the first, and wires take
//! turns by pieces, so a full one delays another by a piece and not by a ring. A doorbell stays active, which keeps it from ringing again, until all that was heard is taken:
//! who rings without end is heard once for each time that the core goes on to threads. Each wire names the server that pays for this.
//!
//! What an entry says is compared with what the host exports, and nothing in the other one's page is believed twice: [`bulkhead_channel::WireReceiver`] has its own copy of the read index.
//!
//! Rejected: to give what is left over to the next interrupt, as dates are. Nobody would raise one but the timer, and each piece would cost an entry of the kernel more.

use crate::Kernel;
use crate::outside::Outside;
use bulkhead_arch::kernel::KernelMachine;
use bulkhead_arm::Intid;
use bulkhead_channel::{Entry, Look, SharedMemory, WIRE_ENTRIES, WIRE_WINDOW_BYTES, WireReceiver, WireSender};
use bulkhead_kernel_abi::accounts::WireAccount;
use bulkhead_kernel_abi::boot::{ExportRow, Tables, WireRow};
use bulkhead_kernel_abi::{Code, MAX_WIRES};

/// Entries that are taken in one piece of work.
pub const AT_ONCE: usize = 4;
/// Most pieces of work for what was heard: each wire has a ring, and is found empty once more.
const MOST_PIECES: usize = MAX_WIRES * (WIRE_ENTRIES as usize / AT_ONCE + 1);
/// Bytes of a word.
const WORD: u64 = 8;

/// The memory of a wire, as its protocol sees it.
struct Memory<'m, M> {
    machine: &'m M,
    window: u64,
}

impl<M: KernelMachine> Memory<'_, M> {
    /// The address of a word, if it is one of a wire.
    fn at(&self, word: usize) -> Option<u64> {
        let offset = (word as u64).checked_mul(WORD).filter(|offset| *offset < WIRE_WINDOW_BYTES)?;
        self.window.checked_add(offset)
    }
}

impl<M: KernelMachine> SharedMemory for Memory<'_, M> {
    fn words(&self) -> usize {
        (WIRE_WINDOW_BYTES / WORD) as usize
    }

    fn load(&self, word: usize) -> u64 {
        self.load_acquire(word)
    }

    fn load_acquire(&self, word: usize) -> u64 {
        self.at(word).map_or(0, |address| self.machine.load_shared(address))
    }

    fn store(&self, word: usize, value: u64) {
        self.store_release(word, value);
    }

    fn store_release(&self, word: usize, value: u64) {
        if let Some(address) = self.at(word) {
            self.machine.store_shared(address, value);
        }
    }
}

/// This instance's end of a wire.
#[derive(Clone, Copy, Debug)]
enum End {
    /// There is none, or it only rings.
    None,
    Source(WireSender),
    Destination(WireReceiver),
}

/// What an entry came to.
enum Taken {
    /// A signal to an end point of this instance.
    Signal(u16, u64),
    /// It named no export, or bits that are not the export's.
    Refused,
    /// There is none left.
    Nothing,
}

/// The wires of an instance.
#[derive(Debug)]
pub(crate) struct Wires<'a> {
    rows: &'a [WireRow],
    exports: &'a [ExportRow],
    ends: [End; MAX_WIRES],
    /// Wires with entries that were heard of, a bit each.
    due: u64,
    /// Wires whose interrupt is active.
    heard: u64,
    /// Wires whose last doorbell the monitor held back, so that the other end may not know of what is in the ring.
    held_back: u64,
    /// Where the next round begins.
    first: usize,
    /// Where this one is.
    place: usize,
}

const fn bit(wire: usize) -> u64 {
    if wire < MAX_WIRES { 1u64.wrapping_shl(wire as u32) } else { 0 }
}

impl<'a> Wires<'a> {
    /// Opens the wires of the boot tables. What others wrote before is due: its doorbell may have rung when nobody heard it.
    pub(crate) fn open<M: KernelMachine>(tables: &Tables<'a>, machine: &M) -> Self {
        let mut this = Self {
            rows: tables.wires,
            exports: tables.exports,
            ends: [End::None; MAX_WIRES],
            due: 0,
            heard: 0,
            held_back: 0,
            first: 0,
            place: 0,
        };
        let now = machine.counter_ticks();
        for (row, end) in tables.wires.iter().zip(&mut this.ends).filter(|(row, _)| row.window != 0) {
            *end = match row.source {
                0 => End::Destination(WireReceiver::new()),
                _ => End::Source(WireSender::open(&Memory { machine, window: row.window }, now)),
            };
        }
        this
    }

    /// The interrupts of doorbells that are heard here.
    pub(crate) fn doorbells(&self) -> impl Iterator<Item = Intid> + use<'a> {
        self.rows.iter().filter(|row| row.source == 0).map(|row| Intid(row.intid))
    }

    /// States whether there is something to take.
    pub(crate) const fn is_due(&self) -> bool {
        (self.due | self.heard) != 0
    }

    fn place_of(&self, intid: Intid) -> Option<usize> {
        self.rows.iter().position(|row| row.source == 0 && row.intid == intid.0)
    }

    /// The server that pays for a wire.
    fn payer_of(&self, wire: usize) -> u16 {
        self.rows.get(wire).map_or(bulkhead_kernel_abi::NONE, |row| row.server)
    }

    /// Reads what has been written, once.
    fn look<M: KernelMachine>(&mut self, machine: &M, accounts: &mut [WireAccount], wire: usize) {
        let (Some(row), Some(End::Destination(receiver))) = (self.rows.get(wire), self.ends.get_mut(wire)) else {
            return;
        };
        match receiver.look(&Memory { machine, window: row.window }) {
            Look::Entries(0) => {}
            Look::Entries(_) => self.due |= bit(wire),
            Look::Rubbish => count(accounts, wire, |account| &mut account.refused),
        }
    }

    /// The wire whose turn it is.
    fn next(&mut self) -> Option<usize> {
        if self.due == 0 {
            return None;
        }
        for _ in 0..MAX_WIRES {
            let wire = self.place;
            self.place = (wire.wrapping_add(1)) % MAX_WIRES;
            if self.due & bit(wire) != 0 {
                return Some(wire);
            }
        }
        None
    }

    /// Takes an entry of a wire.
    fn take<M: KernelMachine>(&mut self, machine: &M, accounts: &mut [WireAccount], wire: usize) -> Taken {
        let (Some(row), Some(End::Destination(receiver))) = (self.rows.get(wire), self.ends.get_mut(wire)) else {
            self.due &= !bit(wire);
            return Taken::Nothing;
        };
        let Some(entry) = receiver.take(&Memory { machine, window: row.window }) else {
            self.due &= !bit(wire);
            return Taken::Nothing;
        };
        let Some(export) = export(row, self.exports, entry) else {
            count(accounts, wire, |account| &mut account.refused);
            return Taken::Refused;
        };
        count(accounts, wire, |account| &mut account.received);
        Taken::Signal(export.end_point, entry.bits)
    }

    /// A wire of this instance has room for an entry.
    pub(crate) fn has_room<M: KernelMachine>(&mut self, machine: &M, wire: u16) -> bool {
        let wire = usize::from(wire);
        let (Some(row), Some(End::Source(sender))) = (self.rows.get(wire), self.ends.get_mut(wire)) else {
            return false;
        };
        sender.unread(&Memory { machine, window: row.window }) < WIRE_ENTRIES
    }

    /// Sends by a wire of this instance.
    #[inline(never)] // Apart from other calls, for the same reason.
    pub(crate) fn send<M: KernelMachine>(
        &mut self,
        machine: &mut M,
        accounts: &mut [WireAccount],
        wire: u16,
        entry: Entry,
    ) -> Result<(), Code> {
        let wire = usize::from(wire);
        let row = self.rows.get(wire).filter(|row| row.source != 0).ok_or(Code::BadCapability)?;
        let is_full = match self.ends.get_mut(wire) {
            Some(End::Source(sender)) => !sender.send(&Memory { machine: &*machine, window: row.window }, entry),
            _ => false,
        };
        count(accounts, wire, |account| if is_full { &mut account.busy } else { &mut account.sent });
        // All that is in a full ring may have been held back: nobody would hear of it, and it would be full for ever.
        if !is_full || self.held_back & bit(wire) != 0 {
            if machine.ring(row.doorbell) {
                self.held_back &= !bit(wire);
            } else {
                self.held_back |= bit(wire);
                count(accounts, wire, |account| &mut account.limited);
            }
        }
        if is_full { Err(Code::Busy) } else { Ok(()) }
    }
}

/// The export that an entry names, if its bits are among those.
fn export<'e>(row: &WireRow, exports: &'e [ExportRow], entry: Entry) -> Option<&'e ExportRow> {
    let index = u32::try_from(entry.index).ok().filter(|index| *index < row.exports)?;
    let export = exports.get(row.first_export.checked_add(index)? as usize)?;
    (entry.bits != 0 && entry.bits & !export.bits == 0).then_some(export)
}

fn count(accounts: &mut [WireAccount], wire: usize, of: impl FnOnce(&mut WireAccount) -> &mut u64) {
    if let Some(account) = accounts.get_mut(wire) {
        let word = of(account);
        *word = word.wrapping_add(1);
    }
}

impl<M: KernelMachine> Outside<'_, M> {
    /// Looks at all wires, as at boot.
    pub(crate) fn look_at_wires(&mut self) {
        for wire in 0..MAX_WIRES {
            self.wires.look(&self.machine, &mut self.servers.room.accounts.wires, wire);
        }
    }

    fn take_entry(&mut self, wire: usize) -> Taken {
        self.wires.take(&self.machine, &mut self.servers.room.accounts.wires, wire)
    }

    /// The time since the last report was work for a wire.
    fn charge_for_wire(&mut self, wire: usize) {
        let (until, server) = (self.machine.counter_ticks(), self.wires.payer_of(wire));
        self.servers.charge_for(until, server);
    }
}

impl<M: KernelMachine> Kernel<'_, M> {
    /// A doorbell rang; false when the interrupt is none.
    #[inline(never)] // Apart from the way of other interrupts, which would store more registers for it.
    pub(crate) fn hear(&mut self, intid: Intid) -> bool {
        let Some(wire) = self.outside.wires.place_of(intid) else { return false };
        self.outside.wires.heard |= bit(wire);
        self.outside.wires.look(&self.outside.machine, &mut self.outside.servers.room.accounts.wires, wire);
        self.outside.charge_for_wire(wire);
        true
    }

    /// Signals what came by wires, in pieces; the doorbells may ring again behind it.
    #[inline(never)] // Apart from the choice, for the same reason.
    pub(crate) fn drain(&mut self) {
        self.outside.wires.place = self.outside.wires.first;
        for _ in 0..MOST_PIECES {
            let Some(wire) = self.outside.wires.next() else { break };
            for _ in 0..AT_ONCE {
                match self.outside.take_entry(wire) {
                    Taken::Signal(end_point, bits) => self.objects.send(&mut self.outside, end_point, bits),
                    Taken::Refused => {}
                    Taken::Nothing => break,
                }
            }
            self.outside.charge_for_wire(wire);
            if self.outside.machine.is_interrupted() {
                self.take_interrupts();
            }
        }
        let wires = &mut self.outside.wires;
        wires.first = wires.first.wrapping_add(1) % MAX_WIRES;
        let heard = core::mem::take(&mut wires.heard);
        for (wire, row) in wires.rows.iter().enumerate() {
            if heard & bit(wire) != 0 {
                self.outside.machine.deactivate(Intid(row.intid));
            }
        }
    }
}
