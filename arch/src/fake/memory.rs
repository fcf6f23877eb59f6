//! Memory made of a map of words.

use super::*;

impl Memory for FakeMachine {
    fn load8(&self, address: PhysicalAddress) -> u8 {
        self.before_access();
        self.seen8(address.0, (self.word(address.0) >> ((address.0 & 7) * 8)) as u8)
    }
    fn load32(&self, address: PhysicalAddress) -> u32 {
        self.before_access();
        if let Some(value) = self.uart_read(address.0) {
            return value;
        }
        if let Some(active) = self.active_word(address.0) {
            return active;
        }
        self.seen32(address.0, (self.word(address.0) >> ((address.0 & 4) * 8)) as u32)
    }
    fn load64(&self, address: PhysicalAddress) -> u64 {
        self.before_access();
        self.word(address.0)
    }
    #[cfg(feature = "devices")]
    fn load16(&self, address: PhysicalAddress) -> u16 {
        self.before_access();
        let value = (self.word(address.0) >> ((address.0 & 6) * 8)) as u16;
        match self.late.borrow_mut().get_mut(&address.0) {
            Some((reads, bits)) if *reads != 0 && value & *bits == 0 => {
                *reads -= 1;
                value | *bits
            }
            _ => value,
        }
    }
    #[cfg(feature = "devices")]
    fn store16(&self, address: PhysicalAddress, value: u16) {
        self.before_access();
        self.merge(address.0, 2, u64::from(value));
    }
    fn store8(&self, address: PhysicalAddress, value: u8) {
        if let Some(value) = self.stored8(address.0, value) {
            self.merge(address.0, 1, u64::from(value));
        }
    }
    fn store32(&self, address: PhysicalAddress, value: u32) {
        self.before_access();
        self.now.set(self.now.get() + self.ticks_per_store.get());
        if let Some(value) = self.stored32(address.0, value) {
            self.set_active(address.0, value);
            self.merge(address.0, 4, u64::from(value));
        }
    }
    fn store64(&self, address: PhysicalAddress, value: u64) {
        self.before_access();
        self.merge(address.0, 8, value);
    }
    fn store_record(&self, address: PhysicalAddress, words: [u64; 4]) {
        for (index, word) in (0..).zip(words) {
            self.store64(PhysicalAddress(address.0 + 8 * index), word);
        }
    }
    fn publish64(&self, address: PhysicalAddress, value: u64) {
        self.store64(address, value);
    }
    fn publish32(&self, address: PhysicalAddress, value: u32) {
        self.store32(address, value);
    }
    fn barrier(&self) {}
    fn atomic(&self, address: PhysicalAddress) -> &'static AtomicU64 {
        self.atomics.borrow_mut().entry(address.0).or_insert_with(|| Box::leak(Box::new(AtomicU64::new(0))))
    }
    fn scrub(&self, address: PhysicalAddress, bytes: u64) {
        // Of the words inside alone: a look at all words was most of what the monitor's searches took.
        self.words.borrow_mut().extract_if(address.0..address.0 + bytes, |_, _| true).for_each(drop);
        self.note(Event::Scrub(address.0, bytes));
    }
    fn copy_and_check(&self, destination: PhysicalAddress, source: PhysicalAddress, bytes: u64, crc: u32) -> u32 {
        let data = self.bytes(source.0, bytes);
        for (offset, byte) in data.iter().enumerate() {
            self.store8(PhysicalAddress(destination.0 + offset as u64), *byte);
        }
        self.note(Event::Copy(destination.0, source.0, bytes));
        self.crc.get().unwrap_or_else(|| crc32c(crc, &data))
    }
    fn synchronise_instructions(&self) {}
}
