//! QEMU's `edu` (docs/specs/edu): it copies between memory and a buffer of its own, to any address. A transfer takes 100 ms.

use crate::bus::Space;
use crate::raw::{read, write};
use bulkhead_sdk::{cpu, println};
use core::ops::Range;
use core::sync::atomic::{Ordering::SeqCst, fence};

/// Vendor and device.
const IDENTITY: u64 = 0x11e8_1234;
/// Registers: what it is, interrupts that it raises and takes back, where from, where to, how much, go.
const SELF: u64 = 0x00;
const RAISE: u64 = 0x60;
const ACKNOWLEDGE: u64 = 0x64;
const SOURCE: u64 = 0x80;
const DESTINATION: u64 = 0x88;
const COUNT: u64 = 0x90;
const CONTROL: u64 = 0x98;
/// What [`SELF`] says, without the version.
const SELF_VALUE: u64 = 0xed;
const RUN: u64 = 1;
/// Direction: from the function's buffer to memory.
const TO_MEMORY: u64 = 2;
/// The function's own buffer, in addresses of its own, as much of it as is used: QEMU 7.2 ends when a transfer touches its last byte.
const BUFFER: u64 = 0x4_0000;
pub(crate) const BUFFER_BYTES: u64 = 2048;
/// Longest wait for a transfer.
const GUARD_SECONDS: u64 = 2;
/// Times that mastering is switched off and on while a transfer is under way.
const TOGGLES: u32 = 1000;

/// What the function writes everywhere.
const WEAPON: u8 = 0xa5;
/// What is in the function's buffer before it reads.
const BAIT: u8 = 0x3c;

/// Memory of this guest that its function uses, within a page.
#[repr(C, align(4096))]
struct Page([u8; BUFFER_BYTES as usize]);

static mut OWN: Page = Page([0; BUFFER_BYTES as usize]);

/// The function, by where its registers are.
#[derive(Clone, Copy)]
pub(crate) struct Edu {
    space: Space,
    registers: u64,
}

impl Edu {
    /// Looks for all that there are.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Space::all(IDENTITY).map(|space| Self { space, registers: space.base(0) })
    }

    /// Looks for the first one, and makes it a master of the bus.
    pub(crate) fn find() -> Option<Self> {
        Self::all().next().inspect(|edu| edu.space.master())
    }

    fn start(self, source: u64, destination: u64, bytes: u64, direction: u64) {
        // The function sees what was written before.
        fence(SeqCst);
        for (register, value) in [(SOURCE, source), (DESTINATION, destination), (COUNT, bytes)] {
            write(self.registers + register, 8, value);
        }
        write(self.registers + CONTROL, 4, RUN | direction);
    }

    /// Lets the function copy, and waits for its end.
    fn transfer(self, source: u64, destination: u64, bytes: u64, direction: u64) {
        self.start(source, destination, bytes, direction);
        self.finish();
    }

    fn finish(self) {
        let last = cpu::counter_ticks() + GUARD_SECONDS * cpu::frequency_hz();
        while read(self.registers + CONTROL, 4) & RUN != 0 && cpu::counter_ticks() < last {
            core::hint::spin_loop();
        }
    }

    /// Fills the function's buffer from own RAM.
    fn fill(self, value: u8) {
        let page = own();
        for place in 0..BUFFER_BYTES {
            // SAFETY: within the page, which nothing else uses while no transfer runs.
            unsafe { (page as *mut u8).add(place as usize).write_volatile(value) };
        }
        self.transfer(page, BUFFER, BUFFER_BYTES, 0);
    }

    /// Brings the function's buffer to own RAM; states whether its front has a byte that a test does not like.
    fn buffer_has(self, bytes: u64, is_bad: impl Fn(u64, u8) -> bool) -> bool {
        let page = own();
        self.transfer(BUFFER, page, BUFFER_BYTES, TO_MEMORY);
        fence(SeqCst);
        // SAFETY: within the page, and no transfer runs.
        (0..bytes).any(|place| is_bad(place, unsafe { (page as *const u8).add(place as usize).read_volatile() }))
    }

    /// The weapon works on what is the guest's own: otherwise no attack would mean anything.
    pub(crate) fn shows_itself(self) -> bool {
        self.fill(WEAPON);
        let page = own();
        // SAFETY: within the page, and no transfer runs.
        unsafe { (page as *mut u8).write_volatile(BAIT) };
        !self.buffer_has(BUFFER_BYTES, |_, byte| byte != WEAPON)
    }

    /// Its registers are where they were.
    pub(crate) fn answers(self) -> bool {
        read(self.registers + SELF, 4) & 0xff == SELF_VALUE
    }

    /// Writes to a target and reads from it; states whether something came back that is not of its own RAM.
    pub(crate) fn attack(self, target: u64, bytes: u64, ram: &Range<u64>) -> bool {
        self.fill(WEAPON);
        self.transfer(BUFFER, target, bytes, TO_MEMORY);
        self.fill(BAIT);
        self.transfer(target, BUFFER, bytes, 0);
        let is_foreign = |place: u64| !ram.contains(&target.wrapping_add(place));
        let leaked = self.buffer_has(bytes, |place, byte| byte != BAIT && byte != 0 && is_foreign(place));
        println!("intruder: {target:#x} write done, read {}", if leaked { "SOMETHING" } else { "nothing" });
        leaked
    }

    /// The same while mastering goes off and on all the time (H12).
    pub(crate) fn attack_while_toggled(self, target: u64, bytes: u64) -> bool {
        self.fill(WEAPON);
        self.start(BUFFER, target, bytes, TO_MEMORY);
        self.toggle();
        self.fill(BAIT);
        self.start(target, BUFFER, bytes, 0);
        self.toggle();
        self.buffer_has(bytes, |_, byte| byte != BAIT && byte != 0)
    }

    fn toggle(self) {
        for _ in 0..TOGGLES {
            self.space.no_master();
            self.space.master();
        }
        self.finish();
    }

    /// Masters the bus again, whatever was written to its configuration space.
    pub(crate) fn masters_again(self) {
        self.space.master();
    }

    /// Moves all its base addresses, and looks whether it answers at the new place or no longer at the old one (H11).
    pub(crate) fn moves_to(self, place: u64, is_readable: bool) -> bool {
        self.space.move_to(place);
        let found = is_readable && read(place, 4) & 0xff == SELF_VALUE && place != self.registers;
        let kept = self.answers() && self.space.base(0) == self.registers;
        found || !kept
    }

    /// Begins to write to own memory, and does not wait (H13).
    pub(crate) fn write_later(self, target: u64) {
        self.fill(WEAPON);
        self.start(BUFFER, target, BUFFER_BYTES, TO_MEMORY);
    }

    /// Lets all of them write there at the same time (H15).
    pub(crate) fn flood(target: u64) {
        Self::all().for_each(|one| {
            one.space.master();
            one.start(BUFFER, target, BUFFER_BYTES, TO_MEMORY);
        });
        Self::all().for_each(Self::finish);
    }

    /// Raises its interrupt.
    pub(crate) fn raise(self) {
        write(self.registers + RAISE, 4, 1);
    }

    /// Takes it back.
    pub(crate) fn acknowledge(self) {
        write(self.registers + ACKNOWLEDGE, 4, 1);
    }
}

/// Address of the page, which is the same for the function.
fn own() -> u64 {
    &raw mut OWN as u64
}
