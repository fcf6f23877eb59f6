//! `kexec-image`: replaces the Linux that it runs on by an image of a few instructions, with the kernel's own `kexec_load`.
//!
//! What follows is what no supervisor inside of Linux survives: everything is masked and nothing is called any more. It is how a
//! demonstration, and the tests behind it, take the worst of Linux on: who restarts it has to come from outside (SG-60, SG-E8).
//!
//! Rejected: a module of the kernel that masks interrupts and loops. It had to be built for each kernel, and Linux would not even be gone.

use std::io;
use std::process::ExitCode;

/// An image, as words of A64.
struct Image {
    name: &'static str,
    words: &'static [u32],
}

/// `msr daifset, #15`: debug exceptions, SError, IRQ and FIQ are masked.
const MASK_ALL: u32 = 0xd503_4fdf;

const IMAGES: [Image; 2] = [
    // `b .`
    Image { name: "loop", words: &[MASK_ALL, 0x1400_0000] },
    Image {
        name: "jump",
        words: &[
            MASK_ALL,
            0x1000_3fe0, // adr x0, the image + 0x800: zeros, which are `udf`. QEMU would count no instruction, and no time, of vectors out of reach
            0xd518_c000, // msr VBAR_EL1, x0
            0xd503_3fdf, // isb
            0xd51c_c000, // msr VBAR_EL2, x0: undefined at EL1, and then that is where it goes already
            0xd503_3fdf, // isb
            0xd2a1_c000, // movz x0, #0x0e00, lsl #16: secure RAM, which is out of reach
            0xd61f_0000, // br x0: each fault is followed by that of its vector
        ],
    },
];

const USAGE: &str = "usage: kexec-image loop|jump

loop  masks all exceptions and loops
jump  jumps to memory that is not its own, with exception vectors that fault themselves";

/// A page of every granule that the kernel may have been built for.
const PAGE_BYTES: usize = 64 << 10;
/// `KEXEC_ARCH_AARCH64`: EM_AARCH64 in the upper half.
const ARCHITECTURE: libc::c_ulong = 183 << 16;
/// `LINUX_REBOOT_CMD_KEXEC`.
const REBOOT_INTO_IMAGE: libc::c_int = 0x4558_4543;

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    let Some(image) = IMAGES.iter().find(|image| image.name == name) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let outcome = memory().and_then(|end| load(image, end)).and_then(|()| begin());
    if let Err(error) = outcome {
        eprintln!("kexec-image: {error}");
    }
    ExitCode::FAILURE
}

/// First address behind the kernel's memory.
fn memory() -> io::Result<usize> {
    let text = std::fs::read_to_string("/proc/iomem")?;
    end_of_memory(&text).ok_or_else(|| io::Error::other("/proc/iomem names no memory; are you root?"))
}

fn end_of_memory(text: &str) -> Option<usize> {
    let ranges = text.lines().filter_map(|line| line.strip_suffix(" : System RAM"));
    let ends = ranges.filter_map(|range| usize::from_str_radix(range.split_once('-')?.1, 16).ok());
    ends.max().filter(|last| *last > PAGE_BYTES).map(|last| last + 1)
}

/// What the kernel is given: `struct kexec_segment` of its `linux/kexec.h`.
#[repr(C)]
struct Segment {
    from: *const u8,
    from_bytes: usize,
    to: usize,
    to_bytes: usize,
}

/// Lets the kernel keep the image for the last page before `end`.
fn load(image: &Image, end: usize) -> io::Result<()> {
    let bytes: Vec<u8> = image.words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let to = end - end % PAGE_BYTES - PAGE_BYTES;
    let segment = Segment { from: bytes.as_ptr(), from_bytes: bytes.len(), to, to_bytes: PAGE_BYTES };
    // SAFETY: the call reads one segment and the bytes that it names, and both live until it returns.
    let result = unsafe { libc::syscall(libc::SYS_kexec_load, to, 1_usize, &raw const segment, ARCHITECTURE) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Goes over to the image; returns only when the kernel refuses.
fn begin() -> io::Result<()> {
    // SAFETY: the call has no argument besides its number. This program has nothing to lose, and its user wants all others gone.
    unsafe { libc::reboot(REBOOT_INTO_IMAGE) };
    Err(io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::end_of_memory;

    #[test]
    fn the_end_of_memory_is_behind_the_last_range() {
        let text = "09000000-09000fff : pl011@9000000\n40000000-4fffffff : System RAM\n  40210000-4122ffff : Kernel code\n\
                    50000000-5fffffff : System RAM\n  5fff0000-5fffffff : reserved\n";
        assert_eq!(end_of_memory(text), Some(0x6000_0000));
        assert_eq!(end_of_memory("00000000-00000000 : System RAM\n"), None, "who is not root sees zeros");
    }
}
