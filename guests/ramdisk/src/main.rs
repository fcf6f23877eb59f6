//! Serves a disk to another partition, with stock `virtio_blk` there, from its own memory: 16 MiB, or less as the description says.
//!
//! Nothing outlives a restart of this partition but the front's requests: they wait, and find a disk of zeros. Arguments: `disk=NAME`, needed if the
//! partition serves more than one device.
//!
//! ```text
//! ramdisk: serves store, 32768 sectors
//! ramdisk: the queue has stopped until its driver starts again: the queue has 3 descriptors, not a power of two up to 256
//! ```
#![no_std]
#![no_main]

use bulkhead_sdk::{
    arguments, cpu,
    guest_abi::name_text,
    information,
    interrupt::{self, InterruptId, VIRTUAL_TIMER},
    println, timer,
};
use bulkhead_serve::{Disk, DiskError, DiskServer, Fault, SECTOR_BYTES, Step, look_ticks};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

bulkhead_sdk::entry!(main);

/// Bytes of the disk.
const DISK_BYTES: u64 = 16 << 20;
/// Bytes of a word of it.
const WORD_BYTES: u64 = 8;
const WORDS: usize = (DISK_BYTES / WORD_BYTES) as usize;

/// The disk. What a front wrote is data, and never looked at here.
static DISK: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
static IS_AWAKE: AtomicBool = AtomicBool::new(false);

struct RamDisk;

impl RamDisk {
    /// The words of whole sectors, which are all that is asked for.
    fn words(at: u64, bytes: usize) -> Result<&'static [AtomicU64], DiskError> {
        let first = usize::try_from(at / WORD_BYTES).map_err(|_| DiskError)?;
        let end = first.checked_add(bytes / WORD_BYTES as usize).ok_or(DiskError)?;
        DISK.get(first..end).ok_or(DiskError)
    }
}

impl Disk for RamDisk {
    fn sectors(&self) -> u64 {
        DISK_BYTES / SECTOR_BYTES
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<(), DiskError> {
        let words = Self::words(at, into.len())?;
        for (bytes, word) in into.chunks_exact_mut(WORD_BYTES as usize).zip(words) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        Ok(())
    }

    fn write(&mut self, at: u64, from: &[u8]) -> Result<(), DiskError> {
        let words = Self::words(at, from.len())?;
        let (chunks, _) = from.as_chunks();
        chunks.iter().zip(words).for_each(|(bytes, word)| word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        Ok(())
    }
}

fn main() {
    let first = information::ports().first().map_or("", |port| name_text(&port.name));
    let name = arguments::value(information::arguments(), "disk").unwrap_or(first);
    match DiskServer::open(name, false, RamDisk) {
        Ok(server) => serve(name, server),
        Err(error) => println!("ramdisk failed: `{name}`: {error}"),
    }
}

fn serve(name: &str, mut server: DiskServer<RamDisk>) -> ! {
    interrupt::on_interrupt(take_interrupt);
    interrupt::start();
    timer::enable_interrupt();
    interrupt::enable(server.interrupt());
    println!("ramdisk: serves {name}, {} sectors", RamDisk.sectors());
    let mut said = None;
    loop {
        match server.work() {
            Step::Worked => {}
            Step::Stopped { fault, .. } => report(&mut said, fault),
            Step::Idle => {
                timer::set_compare_ticks(cpu::counter_ticks() + look_ticks());
                cpu::wait_until(|| IS_AWAKE.swap(false, Ordering::Relaxed));
            }
        }
    }
}

fn take_interrupt(id: InterruptId) {
    if id == VIRTUAL_TIMER {
        timer::stop();
    }
    IS_AWAKE.store(true, Ordering::Relaxed);
}

/// Says what was wrong, at most once a second: a front can do it as often as it likes.
fn report(said: &mut Option<u64>, fault: Fault) {
    let now = cpu::counter_ticks();
    if said.is_none_or(|last| now.wrapping_sub(last) >= cpu::frequency_hz()) {
        *said = Some(now);
        println!("ramdisk: the queue has stopped until its driver starts again: {fault}");
    }
}
