//! The machine: calls at both levels, what a core does when it is kicked, SGIs, and the desks by which cores talk.
//!
//! Without translation all memory is Device, whose accesses keep their order.

use bulkhead_world::cores::MOST_CORES;
use core::arch::{asm, global_asm};
use core::mem::offset_of;

global_asm!(include_str!("start.s"));

unsafe extern "C" {
    fn below(registers: *mut u64);
    fn here(registers: *mut u64);
    fn masked();
    static masked_loop: u8;
    static masked_end: u8;
}

const DESKS: usize = 0x4110_0000;
const DESK_BYTES: usize = 0x1000;
/// Redistributor of core 0, its frame of private interrupts, and the distance to the next one's.
const PRIVATE: usize = 0x080b_0000;
const NEXT_PRIVATE: usize = 0x2_0000;
/// What a core is asked, in place of a call, to send all SGIs. No function: bit 63 is set.
pub(crate) const SEND_ALL: u64 = 1 << 63;

/// A level that makes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum AtLevel {
    El1 = 1,
    El2 = 2,
}

/// What core 0 and another one have in common; each word has one writer.
#[repr(C)]
struct Words {
    /// How often the core began.
    begun: u64,
    /// How often it was kicked.
    kicks: u64,
    /// How often it was kicked out of the masked loop.
    stopped: u64,
    /// Bits of what was not as it should.
    wrong: u64,
    /// Rounds of the loop.
    rounds: u64,
    /// What core 0 asks: counted, then done.
    requests: u64,
    taken: u64,
    done: u64,
    level: u64,
    arguments: [u64; 4],
    answer: u64,
    /// Core 0 holds it in EL2; it is held there.
    hold: u64,
    held: u64,
    /// The counter when it was kicked latest, and when it made its latest call.
    latest: u64,
    asked: u64,
}

/// A core's desk.
#[derive(Clone, Copy)]
pub(crate) struct Desk(usize);

pub(crate) fn desk(core: usize) -> Desk {
    Desk(DESKS + core * DESK_BYTES)
}

impl Desk {
    fn read(self, offset: usize) -> u64 {
        // SAFETY: memory of this world, which nothing else uses.
        unsafe { core::ptr::with_exposed_provenance::<u64>(self.0 + offset).read_volatile() }
    }

    fn write(self, offset: usize, value: u64) {
        // SAFETY: as for `read`; each word has one writer.
        unsafe { core::ptr::with_exposed_provenance_mut::<u64>(self.0 + offset).write_volatile(value) }
    }

    fn add(self, offset: usize, more: u64) {
        self.write(offset, self.read(offset) + more);
    }

    pub(crate) fn begun(self) -> u64 {
        self.read(offset_of!(Words, begun))
    }

    pub(crate) fn kicks(self) -> u64 {
        self.read(offset_of!(Words, kicks))
    }

    pub(crate) fn stopped(self) -> u64 {
        self.read(offset_of!(Words, stopped))
    }

    pub(crate) fn wrong(self) -> u64 {
        self.read(offset_of!(Words, wrong))
    }

    pub(crate) fn rounds(self) -> u64 {
        self.read(offset_of!(Words, rounds))
    }

    pub(crate) fn latest(self) -> u64 {
        self.read(offset_of!(Words, latest))
    }

    pub(crate) fn asked(self) -> u64 {
        self.read(offset_of!(Words, asked))
    }

    pub(crate) fn progress(self) -> u64 {
        (self.0 + offset_of!(Words, rounds)) as u64
    }

    /// Notes that the core begins; what it was asked before is over.
    pub(crate) fn begin(self) {
        let requests = self.read(offset_of!(Words, requests));
        self.write(offset_of!(Words, taken), requests);
        self.write(offset_of!(Words, done), requests);
        self.add(offset_of!(Words, begun), 1);
    }

    pub(crate) fn ask(self, level: AtLevel, arguments: [u64; 4]) {
        self.write(offset_of!(Words, level), level as u64);
        for (place, argument) in arguments.into_iter().enumerate() {
            self.write(offset_of!(Words, arguments) + 8 * place, argument);
        }
        self.add(offset_of!(Words, requests), 1);
    }

    pub(crate) fn is_taken(self) -> bool {
        self.read(offset_of!(Words, taken)) == self.read(offset_of!(Words, requests))
    }

    pub(crate) fn is_done(self) -> bool {
        self.read(offset_of!(Words, done)) == self.read(offset_of!(Words, requests))
    }

    pub(crate) fn answer(self) -> u64 {
        self.read(offset_of!(Words, answer))
    }

    pub(crate) fn hold(self, holds: bool) {
        self.write(offset_of!(Words, hold), holds.into());
    }

    pub(crate) fn is_held(self) -> bool {
        self.read(offset_of!(Words, held)) != 0
    }

    fn is_wrong(self, bit: u32) {
        self.write(offset_of!(Words, wrong), self.wrong() | 1 << bit);
    }
}

pub(crate) fn counter() -> u64 {
    let now;
    // SAFETY: reads the counter.
    unsafe { asm!("isb", "mrs {}, cntpct_el0", out(reg) now, options(nomem, nostack)) };
    now
}

/// Lets QEMU run another core.
pub(crate) fn yield_core() {
    // SAFETY: a hint.
    unsafe { asm!("yield", options(nomem, nostack)) };
}

/// The core's own EL2: what is below is AArch64, and asks EL3 itself (TSC is 0).
pub(crate) fn begin() {
    // SAFETY: this world's own register.
    unsafe { asm!("msr hcr_el2, {}", "isb", in(reg) 1_u64 << 31, options(nomem, nostack)) };
}

/// Leaves EL2 for the masked loop.
pub(crate) fn run_below(progress: u64) -> ! {
    // SAFETY: EL1 is this world's; its loop writes the one word that it is given.
    unsafe {
        asm!("msr elr_el2, {entry}", "msr spsr_el2, {state}", "isb", "eret",
             entry = in(reg) masked as *const () as u64, state = in(reg) 0x3c5_u64, in("x0") progress, options(noreturn, nostack));
    }
}

/// A call with these x0 to x3. Registers behind x0 are compared with what they were.
pub(crate) fn call(level: AtLevel, arguments: [u64; 4]) -> u64 {
    let mut registers: [u64; 18] = core::array::from_fn(|number| 0x5a5a_0000 + number as u64);
    registers[..4].copy_from_slice(&arguments);
    let before = registers;
    // SAFETY: both read and write 18 words, and keep what the calling convention says.
    unsafe {
        match level {
            AtLevel::El1 => below(registers.as_mut_ptr()),
            AtLevel::El2 => here(registers.as_mut_ptr()),
        }
    }
    if registers[1..] != before[1..] {
        desk(own_number()).is_wrong(8);
    }
    registers[0]
}

fn own_number() -> usize {
    let affinity: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, mpidr_el1", out(reg) affinity, options(nomem, nostack)) };
    (affinity & 3) as usize
}

/// Registers of what was interrupted: x0 to x30, then ELR and SPSR.
#[repr(C)]
struct Frame {
    x: [u64; 31],
    place: u64,
    state: u64,
}

/// Called by the vector of an FIQ from below.
#[unsafe(no_mangle)]
extern "C" fn kicked(frame: &Frame) {
    let entered = counter();
    let place = desk(own_number());
    let acknowledged: u64;
    // SAFETY: ICC_IAR1_EL1. There is none of group 1, because a kick is EL3's.
    unsafe { asm!("mrs {}, S3_0_C12_C12_0", out(reg) acknowledged, options(nomem, nostack)) };
    if acknowledged != 1023 {
        place.is_wrong(0);
    }
    let text = (&raw const masked_loop) as u64..(&raw const masked_end) as u64;
    let is_stopped = text.contains(&frame.place);
    if frame.state & 0x3cf != 0x3c5 {
        place.is_wrong(1);
    }
    if is_stopped {
        // The loop's registers are what they were.
        let is_kept = |number: usize| frame.x[number] == 0x0101_0101_0101_0101_u64.wrapping_mul(number as u64);
        if !(1..29).all(is_kept) {
            place.is_wrong(2);
        }
        place.add(offset_of!(Words, stopped), 1);
    }
    place.write(offset_of!(Words, latest), entered);
    place.add(offset_of!(Words, kicks), 1);
    if !place.is_taken() {
        place.write(offset_of!(Words, taken), place.read(offset_of!(Words, requests)));
        made_by_kick(place);
    }
    if place.read(offset_of!(Words, hold)) != 0 {
        place.write(offset_of!(Words, held), 1);
        while place.read(offset_of!(Words, hold)) != 0 {
            yield_core();
        }
        place.write(offset_of!(Words, held), 0);
    }
}

/// Does what core 0 asked.
fn made_by_kick(place: Desk) {
    let arguments = core::array::from_fn(|number| place.read(offset_of!(Words, arguments) + 8 * number));
    let level = if place.read(offset_of!(Words, level)) == 1 { AtLevel::El1 } else { AtLevel::El2 };
    place.write(offset_of!(Words, asked), counter());
    let answer = if arguments[0] == SEND_ALL {
        for number in 0..16 {
            for kind in 0..3 {
                sgi(kind, number << 24 | 0xf);
                sgi(kind, number << 24 | 1 << 40);
            }
        }
        0
    } else {
        call(level, arguments)
    };
    place.write(offset_of!(Words, answer), answer);
    place.write(offset_of!(Words, done), place.read(offset_of!(Words, taken)));
}

/// Sends an SGI: by ICC_SGI1R_EL1, ICC_ASGI1R_EL1 or ICC_SGI0R_EL1.
pub(crate) fn sgi(kind: u32, value: u64) {
    // SAFETY: interrupts of this world, if they are; that they are nobody else's is what is tried.
    unsafe {
        match kind {
            0 => asm!("msr S3_0_C12_C11_5, {}", "isb", in(reg) value, options(nostack)),
            1 => asm!("msr S3_0_C12_C11_6, {}", "isb", in(reg) value, options(nostack)),
            _ => asm!("msr S3_0_C12_C11_7, {}", "isb", in(reg) value, options(nostack)),
        }
    }
}

/// The SGIs that wait at a core, as this world sees them; they are none afterwards.
pub(crate) fn take(core: usize) -> u32 {
    let frame = PRIVATE + NEXT_PRIVATE * core.min(MOST_CORES - 1);
    // SAFETY: GICR_ISPENDR0 and GICR_ICPENDR0.
    unsafe {
        let found = core::ptr::with_exposed_provenance::<u32>(frame + 0x200).read_volatile() & 0xffff;
        core::ptr::with_exposed_provenance_mut::<u32>(frame + 0x280).write_volatile(found);
        found
    }
}

/// Called by every other vector.
#[unsafe(no_mangle)]
extern "C" fn unexpected() -> ! {
    let (syndrome, place): (u64, u64);
    // SAFETY: reads registers.
    unsafe { asm!("mrs {}, esr_el2", "mrs {}, elr_el2", out(reg) syndrome, out(reg) place, options(nomem, nostack)) };
    crate::failed("an exception", &[own_number() as u64, syndrome, place])
}
