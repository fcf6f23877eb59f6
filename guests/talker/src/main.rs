//! A non-secure world that talks with the payload of the secure one (`guests/freertos/talking-world`): it sends on the channel `answers`, and
//! receives on `telemetry`. Its memory at [`PARAMETERS`] says what to do; what it found is there at the end, for the host to read.
//!
//! - [`PING`]: sends messages one by one, rings, waits for the channel's interrupt, and looks at what came back: the same bytes, inverted.
//! - [`RESTART`]: the same; then it sends until no block is free, leaves what comes back unread, and asks for a reset. The next start finds new
//!   ends: whatever it receives is an answer to what it sent itself.
//! - [`MEASURE`]: the payload answers with the counter as it took the message.
//! - [`HOSTILE`]: writes anything anywhere in both pools, counts and rings that are nearly right among it, and rings.
#![no_std]
#![no_main]

use bulkhead_abi::hypercall::CALL_DOORBELL;
use bulkhead_channel::{MappedWindow, SharedMemory};
use bulkhead_world::pool::{Filter, Geometry, PoolError, Receiver, Sender};
use core::arch::{asm, global_asm};

global_asm!(include_str!("start.s"));

const PARAMETERS: usize = 0x4100_0000;
const DISTRIBUTOR: usize = 0x0800_0000;

const PING: u64 = 0;
const RESTART: u64 = 1;
const MEASURE: u64 = 2;
const HOSTILE: u64 = 3;

const OFF: u64 = 0x8400_0008;
const RESET: u64 = 0x8400_0009;

/// What the host writes, then what it reads. Times are ticks of the counter.
#[repr(C)]
struct Parameters {
    kind: u64,
    /// Messages, or rounds.
    count: u64,
    /// Of random numbers.
    seed: u64,
    /// Where the pools are: `answers` and `telemetry`, by address, blocks, bytes of a block and the channel's number.
    pools: [Pool; 2],
    /// The interrupt of `telemetry`.
    interrupt: u64,
    /// Messages that came back as they must; others.
    good: u64,
    wrong: u64,
    /// Interrupts of the channel.
    interrupts: u64,
    /// `MEASURE`: least and most from the beginning of a send to the payload, and from there to the message in hand.
    to_payload: [u64; 2],
    to_world: [u64; 2],
    /// For all rounds together.
    ticks: u64,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Pool {
    address: u64,
    blocks: u64,
    block_bytes: u64,
    channel: u64,
}

impl Pool {
    fn geometry(&self) -> Option<Geometry> {
        Geometry::new(self.blocks as u32, self.block_bytes as u32)
    }

    fn memory(&self) -> Option<MappedWindow<'static>> {
        let address = core::ptr::with_exposed_provenance_mut::<u8>(self.address as usize);
        // SAFETY: memory of the channel, which the host gives and which is there without translation; this world has one thread, and touches it
        // by atomics alone.
        unsafe { MappedWindow::new(address, self.geometry()?.words() * 8) }
    }
}

unsafe extern "C" {
    static mut interrupts_taken: u64;
}

fn interrupts() -> u64 {
    let place = &raw const interrupts_taken;
    // SAFETY: a word that the vector writes.
    unsafe { place.read_volatile() }
}

fn counter() -> u64 {
    let now;
    // SAFETY: reads the counter.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) now, options(nomem, nostack)) };
    now
}

fn call(function: u64, argument: u64) -> u64 {
    let answer;
    // SAFETY: the payload answers in x0, and changes nothing else but channels.
    unsafe { asm!("smc #0", inout("x0") function => answer, in("x1") argument, options(nostack)) };
    answer
}

/// Waits for an interrupt after `seen` of them. Interrupts are masked but in here.
fn wait(seen: u64) {
    while interrupts() == seen {
        // SAFETY: an interrupt that is masked ends the sleep, and is taken behind it.
        unsafe { asm!("wfi", "msr daifclr, #2", "isb", "msr daifset, #2", options(nostack)) };
    }
}

/// splitmix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

struct Talk {
    sender: Sender<MappedWindow<'static>>,
    receiver: Receiver<MappedWindow<'static>>,
    channel: u64,
    bytes: [u8; 64],
}

impl Talk {
    fn new(what: &Parameters) -> Option<Self> {
        let [to, from] = &what.pools;
        let sender = Sender::new(to.memory()?, to.geometry()?).ok()?;
        let receiver = Receiver::new(from.memory()?, from.geometry()?, Filter::default()).ok()?;
        Some(Self { sender, receiver, channel: to.channel, bytes: [0; 64] })
    }

    /// Sends a message whose bytes follow from its tag; its length does too.
    fn send(&mut self, tag: u64, most: u64) -> Result<(), PoolError> {
        let block = self.sender.allocate()?;
        let length = (1 + tag % most) as usize;
        let bytes = self.bytes.get_mut(..length).ok_or(PoolError::Length)?;
        bytes.iter_mut().zip(tag..).for_each(|(byte, value)| *byte = value as u8);
        self.sender.write(block, bytes)?;
        self.sender.enqueue(block, length as u32, tag as u32)
    }

    fn ring(&self) -> bool {
        call(CALL_DOORBELL, self.channel) == 0
    }

    /// Takes a message; whether it is the answer to this one.
    fn is_answer(&mut self, tag: u64, most: u64) -> Result<bool, PoolError> {
        let message = self.receiver.dequeue()?;
        let bytes = self.receiver.read(&message, &mut self.bytes)?;
        let is_good = bytes.iter().zip(tag..).all(|(byte, value)| *byte == !(value as u8));
        let is_good = is_good && u64::from(message.tag()) == tag && bytes.len() as u64 == 1 + tag % most;
        self.receiver.free(&message)?;
        Ok(is_good)
    }
}

fn ping(what: &mut Parameters, talk: &mut Talk) {
    let most = what.pools[0].block_bytes;
    for tag in 1..=what.count {
        let seen = interrupts();
        let is_sent = talk.send(tag, most).is_ok() && talk.ring();
        wait(seen);
        if is_sent && talk.is_answer(tag, most) == Ok(true) {
            what.good += 1;
        } else {
            what.wrong += 1;
        }
    }
}

fn measure(what: &mut Parameters, talk: &mut Talk) -> Option<()> {
    (what.to_payload[0], what.to_world[0]) = (u64::MAX, u64::MAX);
    let first = counter();
    for tag in 1..=what.count {
        let seen = interrupts();
        let sent = counter();
        talk.send(tag, what.pools[0].block_bytes).ok()?;
        talk.ring();
        wait(seen);
        let message = talk.receiver.dequeue().ok()?;
        let bytes: &[u8] = talk.receiver.read(&message, &mut talk.bytes).ok()?;
        let taken = u64::from_le_bytes(bytes.try_into().ok()?);
        talk.receiver.free(&message).ok()?;
        let now = counter();
        for (bounds, ticks) in [(&mut what.to_payload, taken - sent), (&mut what.to_world, now - taken)] {
            *bounds = [bounds[0].min(ticks), bounds[1].max(ticks)];
        }
        what.good += 1;
    }
    what.ticks = counter() - first;
    Some(())
}

fn attack(what: &mut Parameters) -> Option<()> {
    let memories = [what.pools[0].memory()?, what.pools[1].memory()?];
    let mut sent = 0_u64;
    for round in 0..what.count {
        for _ in 0..random(&mut what.seed) % 24 {
            let choice = random(&mut what.seed);
            let memory = &memories[(choice & 1) as usize];
            // Half of it goes to the rings, where messages are that are nearly right: a block of eight, up to 63 bytes.
            let words = if choice & 2 == 0 { 64 } else { memory.words() };
            let value = random(&mut what.seed);
            let nearly = value & 7 | (value >> 8 & 63) << 16 | value & !0xffff_ffff;
            let values = [value, nearly, nearly, value & 15];
            memory.store(((choice >> 8) as usize % words).max(1), values[(choice >> 2 & 3) as usize]);
        }
        // What the other end looks at first: how many were sent to it, and how many it gets back. No more are sent in two rounds than a ring
        // has, or the rest of the run would be nonsense alone.
        let choice = random(&mut what.seed);
        let is_nonsense = choice & 0xf0 == 0;
        sent += if is_nonsense { 0 } else { choice & 3 };
        let freed = memories[1].load(0).saturating_sub(choice >> 2 & 3);
        memories[0].store_release(0, if is_nonsense { choice } else { sent });
        memories[1].store_release(8, if choice & 0xf00 == 0 { choice } else { freed });
        let channel = if round % 8 == 7 { random(&mut what.seed) } else { what.pools[0].channel };
        what.good += u64::from(call(CALL_DOORBELL, channel) == 0);
    }
    Some(())
}

#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    let parameters = core::ptr::with_exposed_provenance_mut::<Parameters>(PARAMETERS);
    // SAFETY: the host gave this memory, and nobody else writes to it.
    let what = unsafe { &mut *parameters };
    let (word, bit) = ((what.interrupt / 32 * 4) as usize, 1_u32 << (what.interrupt % 32));
    let (kind, edge) = ((what.interrupt / 16 * 4) as usize, 2_u32 << (what.interrupt % 16 * 2));
    // SAFETY: the interrupt controller of the world: the channel's interrupt is an edge, as the device tree says, with a priority of its own, and
    // on; then the CPU interface.
    unsafe {
        core::ptr::with_exposed_provenance_mut::<u32>(DISTRIBUTOR).write_volatile(1 << 1 | 1 << 4);
        core::ptr::with_exposed_provenance_mut::<u32>(DISTRIBUTOR + 0xc00 + kind).write_volatile(edge);
        core::ptr::with_exposed_provenance_mut::<u8>(DISTRIBUTOR + 0x400 + what.interrupt as usize)
            .write_volatile(0xa0);
        core::ptr::with_exposed_provenance_mut::<u32>(DISTRIBUTOR + 0x100 + word).write_volatile(bit);
        asm!("msr S3_0_C4_C6_0, {mask}", "msr S3_0_C12_C12_7, {on}", "isb", mask = in(reg) 0xff_u64, on = in(reg) 1_u64);
    }
    if let Some(mut talk) = Talk::new(what) {
        match what.kind {
            PING => ping(what, &mut talk),
            RESTART => {
                ping(what, &mut talk);
                let most = what.pools[0].block_bytes;
                // With something wrong it stays, and the host sees that no reset comes.
                if what.wrong == 0 {
                    let mut tag = what.count;
                    while talk.send(tag + 1, most).is_ok() {
                        tag += 1;
                        // The first two arrive and are answered, and nobody takes the answers. The others are under way.
                        if tag == what.count + 2 {
                            talk.ring();
                        }
                    }
                    call(RESET, 0);
                }
            }
            MEASURE => drop(measure(what, &mut talk)),
            HOSTILE => drop(attack(what)),
            _ => {}
        }
    }
    what.interrupts = interrupts();
    loop {
        call(OFF, 0);
    }
}

/// Called by every other vector: the host sees that answers are missing.
#[unsafe(no_mangle)]
extern "C" fn unexpected() -> ! {
    loop {
        call(OFF, 0);
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    unexpected()
}
