//! Addresses that are not the component's, and what is its own in a way that it has not.

use super::{over, step};
use bulkhead_component::println;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

/// The kernel's half, by physical address.
const HALF: usize = 0xffff_ff80_0000_0000;
const RAM: usize = 0x4000_0000;
const KERNEL: usize = HALF | RAM | 0x8_0000;
/// The component's own text, and one past its stacks.
const OWN_TEXT: usize = 0x40_0000;
const STACKS: usize = 0x4000_0000;
const PAGE: usize = 4096;
const CONSTANT: u64 = 7;
static CONSTANTS: [u64; 2] = [CONSTANT, 8];
static DATA: AtomicU64 = AtomicU64::new(0x1122_3344);

fn load(address: usize) {
    // SAFETY: none: the address is not this component's, or not in this way, and the load must not come back.
    unsafe { asm!("ldr x0, [x1]", out("x0") _, in("x1") address, options(nostack)) };
}

fn store(address: usize) {
    // SAFETY: none, as above.
    unsafe { asm!("str x0, [x1]", in("x0") 0, in("x1") address, options(nostack)) };
}

fn jump(address: usize) {
    // SAFETY: none, as above.
    unsafe { asm!("blr x1", in("x1") address, clobber_abi("C")) };
}

fn pair(address: usize) {
    // SAFETY: none, as above.
    unsafe { asm!("ldp x0, x2, [x1]", out("x0") _, out("x2") _, in("x1") address, options(nostack)) };
}

fn exclusive(address: usize) {
    // SAFETY: none, as above.
    unsafe { asm!("ldxr x0, [x1]", "stxr w2, x0, [x1]", out("x0") _, out("x2") _, in("x1") address, options(nostack)) };
}

fn unprivileged(address: usize) {
    // SAFETY: none, as above.
    unsafe { asm!("ldtr x0, [x1]", out("x0") _, in("x1") address, options(nostack)) };
}

fn prefetch(address: usize) {
    // SAFETY: a hint without an effect that a program sees.
    unsafe {
        asm!("prfm pldl1keep, [x1]", "prfm pstl1keep, [x1]", "prfm plil1keep, [x1]", in("x1") address, options(nostack))
    };
}

/// Where `RET` is written, to be executed: the stack.
fn written() -> usize {
    let code = [0xd65f_03c0_u32; 4];
    core::hint::black_box(&code).as_ptr().expose_provenance()
}

/// Single accesses.
pub(super) fn run(number: u64) {
    let data = (&raw const DATA).expose_provenance();
    match number {
        1 => load(0),
        2 => store(0),
        3 => load(KERNEL),
        4 => store(KERNEL),
        5 => jump(KERNEL),
        6 => exclusive(KERNEL),
        7 => unprivileged(KERNEL),
        8 => prefetch(KERNEL),
        9 => load(KERNEL - HALF),
        10 => store(KERNEL - HALF),
        11 => jump(KERNEL - HALF),
        12 => store(OWN_TEXT),
        13 => store((&raw const CONSTANTS).expose_provenance()),
        14 => jump((&raw const CONSTANTS).expose_provenance()),
        15 => jump(data),
        16 => jump(written()),
        17 => jump(OWN_TEXT + 0x11),
        // A tag in the highest byte is no part of an address here.
        18 => load(data | 0xa5 << 56),
        19 => load(0x0080_0000_0000_0000),
        20 => load(0x80_0000_0000),
        21 => load(HALF - 8),
        22 => load(usize::MAX - 7),
        // The second word would be at 0 again.
        23 => pair(usize::MAX - 7),
        // Half in the own stack, half behind it.
        24 => load(STACKS - 4),
        25 => crosses(),
        26 => {
            recurse(0);
        }
        27 => exclusive(data + 1),
        28 => jump(HALF - 4),
        29 => looks_back(),
        _ => {}
    }
}

/// A store half below the own stack must not write the other half.
fn crosses() {
    let bottom = STACKS - 8192;
    let first = core::ptr::with_exposed_provenance_mut::<u64>(bottom);
    // SAFETY: the lowest word of this thread's own stack, which it does not use so far down.
    unsafe { first.write_volatile(0x5555_5555_5555_5555) };
    store(bottom - 4);
}

/// What [`crosses`] left of that word.
fn looks_back() {
    let first = core::ptr::with_exposed_provenance::<u64>(STACKS - 8192);
    // SAFETY: as there.
    let word = unsafe { first.read_volatile() };
    println!("the word is {word:#x}");
}

/// Uses all of the stack.
#[expect(unconditional_recursion, reason = "it is the attack")]
fn recurse(depth: u64) -> u64 {
    let frame = [depth; 16];
    recurse(core::hint::black_box(&frame)[3] + 1) + frame[5]
}

/// What is done at each address of a sweep.
const WAYS: [fn(usize); 3] = [load, store, jump];

/// Every place of a range, by load, store and jump.
pub(super) fn sweep(number: u64) {
    let (first, stride, places) = match number {
        // Each page of the first 8 MiB of RAM in the kernel's half: kernel, tables, components and their tables.
        200 => (HALF | RAM, PAGE, 2048),
        // The same where it is physically.
        201 => (RAM, PAGE, 2048),
        // The machine: from the distributor to the console ring.
        202 => (HALF | 0x0800_0000, 0x1_0000, 0x240),
        // Each GiB of both halves.
        203 => (0, 1 << 30, 512),
        204 => (HALF, 1 << 30, 512),
        // Each 2 MiB of the own GiB.
        205 => (0, 2 << 20, 512),
        // Each page around the own stacks.
        206 => (STACKS - 64 * PAGE, PAGE, 128),
        // Single bits.
        207 => (0, 0, 64),
        _ => return over(),
    };
    bulkhead_component::noinit! {
        static CAME_BACK: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
    }
    while let Some(at) = step(places * WAYS.len() as u64) {
        let (way, place) = ((at % 3) as usize, (at / 3) as usize);
        let address = if stride == 0 { 1 << place } else { first + place * stride };
        if let (Some(access), Some(count)) = (WAYS.get(way), CAME_BACK.get(way)) {
            // The own text and the own stack are changed by no store: what is there is needed.
            if way == 1 && (address & !(PAGE - 1) == STACKS - PAGE) {
                continue;
            }
            access(address);
            // One core, one thread: no order is needed.
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
    // As above.
    let [loads, stores, jumps] = CAME_BACK.each_ref().map(|count| count.swap(0, Ordering::Relaxed));
    println!("came back: loads {loads}, stores {stores}, jumps {jumps}");
    over();
}
