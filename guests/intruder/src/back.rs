//! A back end of virtio that lies to its front, whose drivers are stock ones (H21, H22).
//!
//! `attack=back`: serves disks of zeros and cards without a network, each by its own lie (`DEVICE=LIE` for the devices of the system, by their names) from
//! request `after=N` on; `second=LIE` is that of cards about what they send, from the third frame on. The lies are `ids` (what is returned was never given), `jump` (the used index is a thousand ahead), `lengths` (what was
//! written is 2^32 - 1 bytes), `status` (one that no device has), `never` (no answer), and `storm` (rings without end, and serves in between).
//!
//! `attack=ring`: rings all its doorbells as often as it can, `rings=N` times in all, as a back end and as a front.

use crate::raw::{read, write};
use crate::virtio::{Queue, WRITE};
use crate::{number, virtio};
use bulkhead_sdk::abi::plan::PortInformation;
use bulkhead_sdk::guest_abi::guest::GUEST_POOL;
use bulkhead_sdk::guest_abi::name_text;
use bulkhead_sdk::{arguments, cpu, hypercall, information, println};
use core::sync::atomic::{Ordering::SeqCst, fence};

const PAGE_BYTES: u64 = 4096;
const RECORDS: u64 = 0x800;
const RECORD_BYTES: u64 = 64;
const MOST_LINKS: u64 = 256;
const MOST_DEVICES: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lie {
    Nothing,
    Ids,
    Jump,
    Lengths,
    Status,
    Never,
    Storm,
}

/// A queue of the front, as this end has it.
struct Served {
    port: &'static PortInformation,
    lie: Lie,
    /// Requests that are served as they should be.
    after: u64,
    /// Number of the queue, and the sequence of the record that is served.
    queue: u64,
    sequence: u64,
    done: u64,
    answered: u64,
}

/// Serves, and lies.
pub(crate) fn run(text: &str) {
    let after = number(text, "after", 16);
    let mut served = [const { None }; 2 * MOST_DEVICES];
    let ports = information::ports().iter().flat_map(|port| [(port, 0), (port, 1)]);
    for (place, (port, queue)) in served.iter_mut().zip(ports) {
        let key = if queue == 0 { name_text(&port.name) } else { "second" };
        let lie = match arguments::value(text, key) {
            Some("ids") => Lie::Ids,
            Some("jump") => Lie::Jump,
            Some("lengths") => Lie::Lengths,
            Some("status") => Lie::Status,
            Some("never") => Lie::Never,
            Some("storm") => Lie::Storm,
            _ => Lie::Nothing,
        };
        let after = if queue == 0 { after } else { 2 };
        *place = Some(Served { port, lie, after, queue, sequence: 0, done: 0, answered: 0 });
    }
    println!("intruder: serves {} devices", information::ports().len());
    loop {
        let is_told = served.iter().flatten().all(|one| one.is_card() || one.queue != 0 || one.answered >= one.after);
        for one in served.iter_mut().flatten() {
            one.look(is_told);
        }
        cpu::yield_now();
    }
}

impl Served {
    fn window(&self, address: u64) -> u64 {
        self.port.window.0 + PAGE_BYTES + address.wrapping_sub(GUEST_POOL.0) % (self.port.window_bytes - PAGE_BYTES)
    }

    fn ring(&self) {
        let _ = hypercall::doorbell(self.port.doorbell);
    }

    /// Does what is there to be done. `is_told`: all lies about disks are, so it is the turn of those about cards, which a front may not survive.
    fn look(&mut self, is_told: bool) {
        let record = self.port.window.0 + RECORDS + RECORD_BYTES * self.queue;
        let sequence = read(record, 4);
        if sequence != self.sequence {
            (self.sequence, self.done) = (sequence, 0);
        }
        let number = read(record + 4, 4);
        if sequence & 1 != 0 || !number.is_power_of_two() {
            return;
        }
        let is_lying = self.answered >= self.after && (is_told || !self.is_card());
        if is_lying && self.lie == Lie::Storm {
            (0..64).for_each(|_| self.ring());
        }
        let [descriptors, available, used] = [8, 16, 24].map(|field| self.window(read(record + field, 8)));
        fence(SeqCst);
        // Buffers for frames are kept, as long as this end is honest.
        let is_kept = self.is_card() && self.queue == 0 && !is_lying;
        let is_silent = is_lying && self.lie == Lie::Never;
        if read(available + 2, 2) == self.done & 0xffff || is_kept || is_silent {
            // A card receives nothing, so what it sends is counted for both of its queues.
            self.answered += u64::from(is_kept && read(available + 2, 2) != self.done & 0xffff);
            return;
        }
        let head = read(available + 4 + 2 * (self.done % number), 2);
        let last = self.answer(descriptors, head % number, number);
        write(last, 1, if is_lying && self.lie == Lie::Status { 77 } else { 0 });
        let (id, length) = match self.lie {
            Lie::Ids if is_lying => (head + 300, 1),
            Lie::Lengths if is_lying => (head, 0xffff_ffff),
            _ => (head, 1),
        };
        write(used + 4 + 8 * (self.done % number), 4, id);
        write(used + 8 + 8 * (self.done % number), 4, length);
        fence(SeqCst);
        self.done += 1;
        self.answered += 1;
        let ahead = if is_lying && self.lie == Lie::Jump { 1000 } else { 0 };
        write(used + 2, 2, (self.done + ahead) & 0xffff);
        fence(SeqCst);
        self.ring();
        if is_lying && self.answered == self.after + 1 && self.lie != Lie::Nothing {
            println!("intruder: lies as {}", name_text(&self.port.name));
        }
    }

    fn is_card(&self) -> bool {
        self.port.kind == bulkhead_sdk::guest_abi::channel::PORT_NET
    }

    /// Puts zeros into what the front takes; returns where the last byte of it is, or a place that is nobody's if it takes nothing.
    fn answer(&self, descriptors: u64, head: u64, number: u64) -> u64 {
        let mut last = self.port.window.0 + PAGE_BYTES - 8;
        let mut index = head;
        for _ in 0..MOST_LINKS {
            let descriptor = descriptors + 16 * index;
            let (address, length) = (read(descriptor, 8), read(descriptor + 8, 4));
            let (flags, next) = (read(descriptor + 12, 2), read(descriptor + 14, 2));
            if flags & WRITE != 0 && !self.is_card() {
                (address..address + length).for_each(|byte| write(self.window(byte), 1, 0));
                last = self.window(address + length - 1);
            }
            if flags & virtio::NEXT == 0 {
                break;
            }
            index = next % number;
        }
        last
    }
}

/// Rings all that it can.
pub(crate) fn ring(text: &str) {
    let rings = number(text, "rings", u64::MAX);
    let is_front = number(text, "fronts", 0) != 0;
    println!("intruder: rings");
    let start = cpu::counter_ticks();
    for _ in 0..rings {
        if is_front {
            Queue::new(0, 0).notify();
        }
        for port in information::ports() {
            let _ = hypercall::doorbell(port.doorbell);
        }
    }
    println!("intruder: rang {rings} times in ticks={}", cpu::counter_ticks() - start);
}
