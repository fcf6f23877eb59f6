//! A life of the front, from its first instruction to whatever ends it.

use crate::driver::{DEPTH, Driver, Kind};
use crate::mark::{self, FIRST, PLACES, REQUEST_BYTES, WORD_BYTES};
use crate::{PORT, REPORT_WORDS, pause};
use bulkhead_abi::status::REASON_BACK_END_BUSY;
use bulkhead_sdk::port::SamplingSource;
use bulkhead_sdk::{arguments, cpu, hypercall, information, println};

const WORDS: u32 = REQUEST_BYTES / WORD_BYTES;

/// What this life has to say.
struct Life {
    number: u64,
    found: u64,
    wrong: u64,
    reads: u64,
}

impl Life {
    fn report(&self, port: &mut SamplingSource) {
        let mut bytes = [0; REPORT_WORDS * 8];
        let words = [self.number, self.found, self.wrong, self.reads];
        bytes
            .as_chunks_mut()
            .0
            .iter_mut()
            .zip(words)
            .for_each(|(to, word): (&mut [u8; 8], u64)| *to = word.to_le_bytes());
        if port.write(&bytes).is_err() {
            println!("lives FAILED: the port takes no report");
        }
    }

    /// Judges a word that came back.
    fn judge(&mut self, number: u32, value: u64) {
        if !mark::is_right(value, number, self.number) {
            if self.wrong == 0 {
                println!("lives FAILED: life {} reads {value:#x} as word {number}", self.number);
            }
            self.wrong += 1;
        }
    }
}

pub(crate) fn live(text: &str) {
    let own = information::information().map_or(0, |page| page.partition);
    let status = hypercall::partition_status(own).ok();
    let number = status.map_or(0, |status| status.generation);
    // Nobody promises such a life a pool of its own, and its end comes from the manager.
    if status.is_some_and(|status| status.reason == u64::from(REASON_BACK_END_BUSY)) {
        return cpu::wait_until(|| false);
    }
    let pool = arguments::value(text, "pool").and_then(|text| usize::from_str_radix(text, 16).ok()).unwrap_or(0);
    let Some(found) = Driver::words_found(pool) else {
        return println!("lives FAILED: no pool");
    };
    let (Ok(mut port), Some(mut driver)) = (SamplingSource::open(PORT), Driver::start(pool)) else {
        return println!("lives FAILED: no port, or no driver");
    };
    let mut life = Life { number, found, wrong: 0, reads: 0 };
    if found != 0 {
        println!("lives FAILED: life {number} finds {found} words of another one");
    }
    write(&mut driver, number);
    let mut next = 0;
    (0..DEPTH).for_each(|_| ask(&mut driver, &mut next));
    let mut oldest = 0;
    loop {
        match driver.take(|word, value| life.judge(oldest * WORDS + word, value)) {
            None => pause(100),
            Some(is_good) => {
                life.reads += 1;
                life.wrong += u64::from(!is_good);
                oldest = (oldest + 1) % PLACES;
                life.report(&mut port);
                ask(&mut driver, &mut next);
            }
        }
    }
}

/// Asks for the next place.
fn ask(driver: &mut Driver, next: &mut u32) {
    driver.ask(Kind::Read, *next);
    *next = (*next + 1) % PLACES;
}

/// Writes the marks of a life, and waits until the disk has them.
fn write(driver: &mut Driver, life: u64) {
    for place in (0..PLACES).filter(|place| life == FIRST || *place == mark::place_of(life)) {
        (0..WORDS).for_each(|word| driver.fill(word, mark::word(life, place * WORDS + word)));
        driver.ask(Kind::Write, place);
        while driver.take(|_, _| ()).is_none() {
            pause(100);
        }
    }
}
