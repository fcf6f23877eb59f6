//! One end of the experiment with messages (QV-E9): parcels of 64 bytes to 256 KiB, each size twice the one before, in pieces that fit a port of 4 KiB.
//!
//! The argument says how often each size is sent (bits 31:0), and that this end sends (bit 32). Bytes are numbers that look random, of size, trial and place, so the other end knows each of them: a
//! piece that is missing, comes twice, is late or is changed is a wrong one. For each parcel the receiver sends back how many of its words were right; then the next one is sent.
#![no_std]
#![no_main]

use bulkhead_component::driver::interrupt_done;
use bulkhead_component::port::{Notified, QueuingDestination, QueuingSource, ReceiveError, SendError};
use bulkhead_component::{Code, call, mixed, println};

bulkhead_component::entry!(main);

bulkhead_component::ports! {
    /// What the other end sends.
    inbox: QueuingDestination;
    /// What is sent to it.
    outbox: QueuingSource;
}

bulkhead_component::slots! {
    /// Where the inbox's doorbell is signalled.
    arrived;
    /// That doorbell.
    bell;
}

/// This end sends parcels.
const SENDS: u64 = 1 << 32;
/// Sizes of parcels, in words.
const SMALLEST: u64 = 64 / 8;
const LARGEST: u64 = (256 << 10) / 8;
/// Most words of a piece: two of them and their heads are a page.
const PIECE: usize = 1936 / 8;

/// Both ports.
struct Ends {
    inbox: QueuingDestination,
    outbox: QueuingSource,
    /// How long to wait for a doorbell before a look.
    look_ticks: u64,
}

/// What a word of a parcel is.
const fn word(words: u64, trial: u64, place: u64) -> u64 {
    mixed(words << 32 | place, trial)
}

impl Ends {
    fn open() -> Option<Self> {
        let hz = call::version().ok()?.counter_hz;
        Some(Self { inbox: inbox::open().ok()?, outbox: outbox::open().ok()?, look_ticks: hz / 1000 })
    }

    /// Waits for the other end.
    fn wait(&self) -> Result<(), Code> {
        match call::receive(arrived(), call::counter_ticks() + self.look_ticks) {
            Ok(_) => {
                let _ = interrupt_done(bell());
                Ok(())
            }
            Err(Code::TimedOut) => Ok(()),
            Err(code) => Err(code),
        }
    }

    /// Sends words as one piece, when there is room.
    fn send(&mut self, words: &[u64]) -> Result<(), &'static str> {
        let mut bytes = [0; PIECE * 8];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let piece = bytes.get(..words.len() * 8).ok_or("a piece is too long")?;
        loop {
            match self.outbox.send(piece) {
                Ok(Notified::Rung) => return Ok(()),
                Ok(_) => return Err("the doorbell is none"),
                Err(SendError::Full) => self.wait().map_err(|_| "no wait")?,
                Err(_) => return Err("the other end is rubbish"),
            }
        }
    }

    /// Takes the next piece into `words`, and says how many there are.
    fn take(&mut self, words: &mut [u64; PIECE]) -> Result<usize, &'static str> {
        let mut bytes = [0; PIECE * 8];
        loop {
            match self.inbox.receive(&mut bytes) {
                Ok(message) => {
                    for (word, place) in words.iter_mut().zip(message.payload.chunks_exact(8)) {
                        *word = place.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
                    }
                    return Ok(message.payload.len() / 8);
                }
                Err(ReceiveError::Empty | ReceiveError::PeerClosed) => self.wait().map_err(|_| "no wait")?,
                Err(ReceiveError::PeerReset { .. }) => return Err("the other end was begun again"),
                Err(_) => return Err("a message is rubbish"),
            }
        }
    }

    /// Sends a parcel, and returns how many of its words arrived.
    fn deliver(&mut self, words: u64, trial: u64) -> Result<u64, &'static str> {
        let (mut piece, mut place) = ([0; PIECE], 0);
        while place < words {
            let length = (words - place).min(PIECE as u64) as usize;
            let own = piece.get_mut(..length).ok_or("a piece is too long")?;
            own.iter_mut().zip(place..).for_each(|(slot, place)| *slot = word(words, trial, place));
            self.send(own)?;
            place += length as u64;
        }
        self.take(&mut piece)?;
        Ok(piece[0])
    }

    /// Takes a parcel, sends back how many of its words were right, and returns that.
    fn accept(&mut self, words: u64, trial: u64) -> Result<u64, &'static str> {
        let (mut piece, mut place, mut right) = ([0; PIECE], 0, 0);
        while place < words {
            let length = self.take(&mut piece)? as u64;
            let good =
                piece.iter().zip(place..place + length).filter(|(found, place)| **found == word(words, trial, *place));
            right += good.count() as u64;
            place += length;
        }
        self.send(&[right])?;
        Ok(right)
    }
}

fn main(argument: u64) {
    let Some(mut ends) = Ends::open() else {
        return println!("parcels: the ports cannot be opened");
    };
    // Whatever rang before this life.
    let _ = interrupt_done(bell());
    let (trials, sends) = (argument & (SENDS - 1), argument & SENDS != 0);
    let (mut parcels, mut bytes, mut wrong, mut words) = (0_u64, 0_u64, 0_u64, SMALLEST);
    while words <= LARGEST {
        for trial in 0..trials {
            let done = if sends { ends.deliver(words, trial) } else { ends.accept(words, trial) };
            match done {
                Ok(right) => (parcels, bytes, wrong) = (parcels + 1, bytes + right * 8, wrong + words - right),
                Err(why) => return println!("parcels: {why}, in parcel {parcels}"),
            }
        }
        words *= 2;
    }
    println!("parcels: {parcels} with {bytes} bytes, {wrong} words wrong");
}
