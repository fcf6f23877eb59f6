//! Wires between instances, each a kernel on a fake core: what is sent arrives once, bounded, and whatever the other end writes (CH-39, CH-40, CH-41, CH-42).

use bulkhead_arch::fake::kernel::FakeCore;
use bulkhead_arch::kernel::Entry;
use bulkhead_kernel::signal::Signal;
use bulkhead_kernel::wires::AT_ONCE;
use bulkhead_kernel::{Kernel, Next};
use bulkhead_kernel_abi::accounts::WireAccount;
use bulkhead_kernel_abi::boot::{
    BindingRow, BootHeader, ComponentRow, EndPointRow, ExportRow, ServerRow, Tables, TcapRow, ThreadRow, WireRow,
};
use bulkhead_kernel_abi::call::{Call, Flag};
use bulkhead_kernel_abi::capability::{remote_word, right};
use bulkhead_kernel_abi::{Capability, Code, Kind, MAX_WIRES, NONE};
use std::collections::BTreeMap;
use std::mem::take;
use support::{room, time_room};

mod support;

/// Windows of channels, and their doorbells' INTIDs, by wire.
const WINDOW: u64 = 0x1010_0000;
const WINDOW_BYTES: u64 = 0x1_0000;
const DOORBELL: u32 = 100;
const DEVICE: u32 = 40;
const READER_PAGE: u64 = 0x1000;
const WRITER_PAGE: u64 = 0x2000;
const RING: u64 = WRITER_PAGE + 64;

const fn window(wire: u64) -> u64 {
    WINDOW + wire * WINDOW_BYTES
}

/// Bits that may be sent, by index.
const EXPORTS: [u64; 2] = [0b0111, 0b1000];
/// The slots of the thread that there is.
const RECEIVE: u64 = 1;
const REMOTE: u64 = 2;
const SECOND: u64 = 3;
const NO_WIRE: u64 = 4;
const INTERRUPT: u64 = 5;

fn tables(wires: Vec<WireRow>) -> Tables<'static> {
    let capability =
        |kind: Kind, word: u64| Capability { kind: kind.number(), rights: right::USE, object: 0, grant: 1, word };
    let capabilities = vec![
        Capability::NULL,
        capability(Kind::Receive, 0),
        capability(Kind::RemoteSend, remote_word(0, 0b10)),
        capability(Kind::RemoteSend, remote_word(1, 0b1000)),
        Capability { object: 1, ..capability(Kind::RemoteSend, remote_word(0, 1)) },
        capability(Kind::Interrupt, 0),
    ];
    let component = ComponentRow { root: 0x1000, slots: 6, supervisor: NONE, ..ComponentRow::default() };
    let thread = ThreadRow { entry: 0x40_0010, started: 1, scheduler: NONE, end_point: 0, ..ThreadRow::default() };
    let server = ServerRow { holder: NONE, band: NONE, ..ServerRow::default() };
    let export = |bits: &u64| ExportRow { bits: *bits, ..ExportRow::default() };
    let binding = BindingRow { intid: DEVICE, bits: 1 << 40, default_client: NONE, ..BindingRow::default() };
    Tables {
        header: Box::leak(Box::new(BootHeader::default())),
        components: Vec::leak(vec![component]),
        entries: &[],
        stacks: &[],
        capabilities: Vec::leak(capabilities),
        threads: Vec::leak(vec![thread]),
        servers: Vec::leak(vec![server, ServerRow { level: 1, ..server }]),
        bands: &[],
        schedulers: &[],
        tcaps: Vec::leak(vec![TcapRow::default(), TcapRow { server: 1, ..TcapRow::default() }]),
        end_points: Vec::leak(vec![EndPointRow { tcap: NONE, ..EndPointRow::default() }]),
        bindings: Vec::leak(vec![binding]),
        wires: Vec::leak(wires),
        exports: Vec::leak(EXPORTS.iter().map(export).collect()),
        quotas: &[],
        regions: &[],
        programs: &[],
        segments: &[],
        devices: &[],
        ports: &[],
        data: &[],
        names: &[],
    }
}

const fn source() -> WireRow {
    WireRow {
        window: window(0),
        source: 1,
        doorbell: 3,
        server: NONE,
        exports: 2,
        intid: 0,
        first_export: 0,
        reserved: 0,
    }
}

fn destination(wire: u64) -> WireRow {
    let intid = DOORBELL + wire as u32;
    WireRow { window: window(wire), intid, doorbell: u32::MAX, server: 1, exports: 2, ..WireRow::default() }
}

struct Instance(Kernel<'static, FakeCore>);

impl Instance {
    fn new(wires: Vec<WireRow>) -> Self {
        Self::on(FakeCore::default(), wires)
    }

    fn on(core: FakeCore, wires: Vec<WireRow>) -> Self {
        let mut kernel = Kernel::new(core, room(), time_room(), &tables(wires), 62_500_000).expect("servers");
        assert_eq!(kernel.choose(), Next::Thread(0));
        Self(kernel)
    }

    fn enter(&mut self, entry: Entry) {
        assert_eq!(self.0.enter(entry), Next::Thread(0));
    }

    /// A call, before whatever rings does so again: it would be made behind that.
    fn call(&mut self, call: Call, arguments: &[u64]) -> [u64; 3] {
        let (ringing, pending) = (take(&mut self.core().ringing), take(&mut self.core().pending));
        let registers = self.0.registers().expect("it runs");
        registers.x[..8].fill(0);
        registers.x[..arguments.len()].copy_from_slice(arguments);
        let syndrome = 0x15 << 26 | 1 << 25 | u64::from(call.number());
        self.enter(Entry::Synchronous { syndrome, address: 0 });
        (self.core().ringing, self.core().pending) = (ringing, pending);
        let x = self.0.registers().expect("it runs").x;
        [x[0], x[1], x[2]]
    }

    /// Uses a slot; the code. As the vectors do it: by the short way, where that does it.
    fn send(&mut self, slot: u64) -> Code {
        let capability = self.0.objects().room().slots[slot as usize];
        if self.0.remote_signal(&capability) == Signal::Nothing {
            return Code::Ok;
        }
        self.call_to_send(slot)
    }

    /// The same by the way of all calls.
    fn call_to_send(&mut self, slot: u64) -> Code {
        self.0.registers().expect("it runs").x[8] = slot;
        self.call(Call::Invoke, &[7; 8]);
        let x = self.0.registers().expect("it runs").x;
        let code = Code::from_number(x[8]).expect("a code");
        assert_eq!(x[0], if code == Code::Ok { 0 } else { 7 }, "a refusal has changed nothing");
        code
    }

    /// What is pending, and how often it was sent.
    fn pending(&mut self) -> Option<(u64, u64)> {
        let [code, bits, count] = self.call(Call::Receive, &[RECEIVE, Flag::All.number() | Flag::NoWait.number()]);
        (code == 0).then_some((bits, count))
    }

    fn core(&mut self) -> &mut FakeCore {
        self.0.machine()
    }

    fn account(&self, wire: usize) -> WireAccount {
        self.0.accounts().wires[wire]
    }

    fn ring(&mut self, wire: u64) {
        self.core().pending.insert(DOORBELL + wire as u32);
    }

    fn poke(&mut self, address: u64, word: u64) {
        self.core().shared.borrow_mut().insert(address, word);
    }

    /// Writes as a source of epoch 1 that has written this number of entries, the same ones.
    fn write(&mut self, wire: u64, entries: u64, index: u64, bits: u64) {
        for place in 0..16 {
            self.poke(window(wire) + RING + place * 16, index);
            self.poke(window(wire) + RING + place * 16 + 8, bits);
        }
        self.poke(window(wire) + WRITER_PAGE, 1 << 32 | entries);
    }
}

/// The other end sees what this one has written.
fn share(from: &mut Instance, to: &mut Instance) {
    let shared = from.core().shared.borrow().clone();
    *to.core().shared.borrow_mut() = shared;
}

/// A sender and a receiver.
fn pair() -> (Instance, Instance) {
    let (mut one, mut other) = (Instance::new(vec![source()]), Instance::new(vec![destination(0)]));
    share(&mut one, &mut other);
    (one, other)
}

/// CH-39, CH-41, CH-42: the caller cannot tell it from another send; several are one signal with their count, and both sides count them.
#[test]
fn what_is_sent_is_signalled_at_the_other_end() {
    let (mut one, mut other) = pair();
    for slot in [REMOTE, REMOTE, SECOND] {
        assert_eq!(one.send(slot), Code::Ok);
    }
    assert_eq!(one.core().rung, [3, 3, 3]);
    share(&mut one, &mut other);
    assert_eq!(other.pending(), None, "nobody has heard it");
    other.ring(0);
    other.enter(Entry::Interrupt);
    assert_eq!(other.pending(), Some((0b1010, 3)));
    assert!(other.core().active.is_empty() && other.core().edges.contains(&DOORBELL));
    assert_eq!((one.account(0).sent, other.account(0).received, other.account(0).refused), (3, 3, 0));
    other.ring(0);
    other.enter(Entry::Interrupt);
    assert_eq!(other.pending(), None, "each of them arrives once");
}

/// CH-40: sixteen entries, then Busy, until some were taken.
#[test]
fn a_full_ring_is_busy() {
    let (mut one, mut other) = pair();
    let sent = (0..20).filter(|_| one.send(REMOTE) == Code::Ok).count();
    assert_eq!((sent, one.send(REMOTE)), (16, Code::Busy));
    assert_eq!((one.account(0).sent, one.account(0).busy, one.core().rung.len()), (16, 5, 16));
    share(&mut one, &mut other);
    other.ring(0);
    other.enter(Entry::Interrupt);
    assert_eq!(other.pending(), Some((0b10, 16)));
    share(&mut other, &mut one);
    assert_eq!(one.send(REMOTE), Code::Ok);
}

/// CH-39, CH-61: by its short way a RemoteSend leaves in the ring and in the accounts what the call leaves, and a void one nothing.
#[test]
fn a_remote_send_by_its_short_way_is_one() {
    let (mut short, mut long) = (pair().0, pair().0);
    for slot in [REMOTE, SECOND, REMOTE] {
        assert_eq!((short.send(slot), long.call_to_send(slot)), (Code::Ok, Code::Ok));
    }
    assert_eq!(short.account(0), long.account(0));
    assert_eq!((short.core().rung.clone(), short.core().rung.len()), (long.core().rung.clone(), 3));
    let shared = short.core().shared.clone();
    assert_eq!(shared, long.core().shared);
    let void = Capability { grant: 2, ..short.0.objects().room().slots[REMOTE as usize] };
    assert_eq!(short.0.remote_signal(&void), Signal::All);
    assert_eq!((short.account(0).sent, short.core().shared == shared), (3, true));
}

/// What the monitor's limiter holds back stays in the ring, and is found with the next doorbell.
#[test]
fn a_doorbell_that_is_held_back_is_counted() {
    let (mut one, mut other) = pair();
    one.core().is_limited = true;
    assert_eq!((one.send(REMOTE), one.account(0).limited), (Code::Ok, 1));
    one.core().is_limited = false;
    assert_eq!((one.send(SECOND), one.account(0).limited), (Code::Ok, 1));
    share(&mut one, &mut other);
    other.ring(0);
    other.enter(Entry::Interrupt);
    assert_eq!(other.pending(), Some((0b1010, 2)));
}

/// CH-31, CH-40: when the limiter held back the doorbells of all that is in a ring, who finds it full rings in the next window; otherwise nobody would ever hear of it.
#[test]
fn a_ring_that_was_filled_behind_a_limiter_is_heard_of() {
    let (mut one, mut other) = pair();
    one.core().is_limited = true;
    let sent = (0..16).filter(|_| one.send(REMOTE) == Code::Ok).count();
    assert_eq!((sent, one.send(REMOTE), one.account(0).limited), (16, Code::Busy, 17));
    one.core().is_limited = false;
    assert_eq!([one.send(REMOTE), one.send(REMOTE)], [Code::Busy; 2]);
    assert_eq!((one.core().rung.len(), one.account(0).limited), (18, 17), "one that is heard is enough");
    share(&mut one, &mut other);
    other.ring(0);
    other.enter(Entry::Interrupt);
    assert_eq!(other.pending(), Some((0b10, 16)));
    share(&mut other, &mut one);
    assert_eq!(one.send(REMOTE), Code::Ok);
}

/// CH-61: a wire that is not there, and one that is taken from, are nobody's to send by.
#[test]
fn a_wire_that_is_not_written_here_is_refused() {
    let mut one = Instance::new(vec![source()]);
    assert_eq!(one.send(NO_WIRE), Code::BadCapability);
    let mut other = Instance::new(vec![destination(0), destination(1)]);
    assert_eq!([other.send(REMOTE), other.send(NO_WIRE)], [Code::BadCapability; 2]);
}

/// CH-40: an index that is not exported, bits that are not the export's, none, and a write index that cannot be are refused and counted; what is right beside them arrives.
#[test]
fn rubbish_is_refused_and_counted() {
    for (index, bits) in [(2, 1), (u64::MAX, 1), (1 << 32, 1), (0, 0b1000), (0, 0b1001), (0, u64::MAX), (1, 0)] {
        let mut other = Instance::new(vec![destination(0), destination(1)]);
        other.write(0, 3, index, bits);
        other.write(1, 1, 1, 0b1000);
        other.ring(0);
        other.ring(1);
        other.enter(Entry::Interrupt);
        assert_eq!(other.pending(), Some((0b1000, 1)), "{index:#x} {bits:#x}");
        assert_eq!((other.account(0).refused, other.account(0).received), (3, 0), "{index:#x} {bits:#x}");
    }
    let mut other = Instance::new(vec![destination(0)]);
    other.write(0, 17, 0, 1);
    other.ring(0);
    other.enter(Entry::Interrupt);
    assert_eq!((other.pending(), other.account(0).refused), (None, 1));
    // From there on it is believed again.
    other.write(0, 18, 0, 1);
    other.ring(0);
    other.enter(Entry::Interrupt);
    assert_eq!((other.pending(), other.account(0).received), (Some((1, 1)), 1));
}

/// Published: the receiver reads until it finds nothing, and a sender that does not stop keeps the core (CH-40). Here it is heard once for each entry of the kernel, and costs a ring.
#[test]
fn who_rings_without_end_is_heard_once_in_an_entry() {
    let mut other = Instance::new(vec![destination(0)]);
    other.core().ringing.insert(DOORBELL);
    other.ring(0);
    for round in 1..=5 {
        other.write(0, 16 * round, 0, 1);
        other.enter(Entry::Interrupt);
        assert_eq!((other.core().acknowledged[&DOORBELL], other.account(0).received), (round, 16 * round));
    }
    assert_eq!(other.pending(), Some((1, 80)));
}

/// Wires take turns by pieces, and who is first changes; what a device wants is not kept waiting for longer than a piece.
#[test]
fn wires_take_turns_and_others_interrupt_them() {
    let wires = (0..MAX_WIRES as u64).map(destination).collect();
    let mut other = Instance::new(wires);
    for wire in 0..MAX_WIRES as u64 {
        other.write(wire, 16, 0, 1);
        other.ring(wire);
    }
    // Four at a time are acknowledged, and the others between pieces.
    other.enter(Entry::Interrupt);
    assert_eq!(other.pending(), Some((1, 16 * MAX_WIRES as u64)));
    assert!(other.core().active.is_empty());
    // A device that rings beside them is held: it was heard in the same entry.
    for wire in 0..MAX_WIRES as u64 {
        other.write(wire, 32, 0, 1);
        other.ring(wire);
    }
    other.core().pending.insert(DEVICE);
    other.enter(Entry::Interrupt);
    assert_eq!(other.pending(), Some((1 | 1 << 40, 16 * MAX_WIRES as u64 + 1)));
    assert_eq!(other.core().active.iter().copied().collect::<Vec<_>>(), [DEVICE]);
    assert_eq!(other.call(Call::Interrupt, &[0, INTERRUPT])[0], 0);
    const { assert!(16 % AT_ONCE == 0 && AT_ONCE < 16) };
}

/// The server of the wire pays, and not the one that was interrupted.
#[test]
fn the_server_of_a_wire_pays_for_it() {
    let mut other = Instance::new(vec![destination(0)]);
    other.core().acknowledging_ticks = 7;
    other.write(0, 1, 0, 1);
    other.ring(0);
    other.enter(Entry::Interrupt);
    let servers = other.0.accounts().servers;
    assert_eq!((servers[0].charged_ticks, servers[1].charged_ticks), (0, 7));
}

/// What was written before this instance began, or while it was begun again, is found at boot.
#[test]
fn what_was_written_before_is_taken_at_boot() {
    let mut before = Instance::new(vec![source()]);
    before.send(REMOTE);
    let shared = before.core().shared.clone();
    let mut other = Instance::on(FakeCore { shared, ..FakeCore::default() }, vec![destination(0)]);
    assert_eq!(other.pending(), Some((0b10, 1)));
    // Begun again, with its page cleared: the source still knows nothing of what was read.
    let mut shared = other.core().shared.clone();
    shared.get_mut().retain(|address, _| *address < window(0) + READER_PAGE || *address >= window(0) + WRITER_PAGE);
    let mut again = Instance::on(FakeCore { shared, ..FakeCore::default() }, vec![destination(0)]);
    assert_eq!(again.pending(), Some((0b10, 1)), "what the source did not see taken comes again");
}

/// Where a hostile peer has its seed: no word of a wire.
const SEED: u64 = 0;

/// xorshift64 on the seed.
fn next(words: &mut BTreeMap<u64, u64>) -> u64 {
    let seed = words.entry(SEED).or_insert(1);
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed >> 8
}

/// One time in four it writes any word of its page: plausible indices and incarnations, exports that are another wire's, anything.
fn scribble(words: &mut BTreeMap<u64, u64>) {
    if !next(words).is_multiple_of(4) {
        return;
    }
    let word = [0, 0, 1, 8 + next(words) % 32][(next(words) % 4) as usize];
    let address = window(0) + WRITER_PAGE + 8 * word;
    let own = words.get(&address).copied().unwrap_or(0);
    let plausible = [
        own.wrapping_add(next(words) % 20),
        own.wrapping_sub(next(words) % 20),
        ((1 + next(words) % 2) << 32) | (next(words) % 40),
    ];
    let index = [0, 0, 0, 1, 2, next(words) << 8];
    let bits = [1, 0b101, 0b111, 0b1000, 0b1001, next(words) << 8];
    let entry = if word.is_multiple_of(2) { index } else { bits };
    let value = if word < 8 { plausible[(next(words) % 3) as usize] } else { entry[(next(words) % 6) as usize] };
    words.insert(address, value);
}

/// CH-40, CH-61: a peer that writes anything at any moment, and rings without end, is given what is exported to it and no more than a ring for each doorbell; another
/// wire, whose export it would like to have, loses nothing, and threads run. The case and its seed are printed.
#[test]
fn a_peer_that_writes_anything_at_any_moment_gets_what_is_exported_to_it() {
    let (mut received, mut refused) = (0, 0);
    for case in 1..400u64 {
        let hostile = WireRow { exports: 1, ..destination(0) };
        let mut other = Instance::new(vec![hostile, destination(1)]);
        other.poke(SEED, case.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        other.core().peer = Some(scribble);
        if case % 2 == 0 {
            other.core().ringing.insert(DOORBELL);
        }
        let mut honest = 0;
        for step in 0..30 {
            other.ring(0);
            let sends = next(&mut other.core().shared.borrow_mut()).is_multiple_of(3);
            if sends {
                honest += 1;
                other.write(1, honest, 1, 0b1000);
                other.ring(1);
            }
            other.enter(Entry::Interrupt);
            let (bits, _) = other.pending().unwrap_or_default();
            let place = format!("case {case}, step {step}");
            assert_eq!(bits & !0b111, u64::from(sends) << 3, "{place}: the other wire's export");
            assert_eq!((other.account(1).received, other.account(1).refused), (honest, 0), "{place}");
            let heard = other.core().acknowledged.get(&DOORBELL).copied().unwrap_or(0);
            let account = other.account(0);
            assert!(account.received + account.refused <= 16 * heard, "{place}: {account:?} for {heard} doorbells");
        }
        (received, refused) = (received + other.account(0).received, refused + other.account(0).refused);
    }
    println!("{received} entries were taken, and {refused} refused");
    assert!(received > 100 && refused > 1_000);
}
