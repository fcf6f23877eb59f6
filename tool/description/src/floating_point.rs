//! Floating point in an ELF file, found by its instructions.
//!
//! Compilers say nothing about it in the file, so the words of executable segments are looked at, without the constants between them:
//! AArch64 marks those by symbols (`$d`). A file without symbols is looked at whole, and a constant may then be taken for an instruction.

use elf::ElfBytes;
use elf::abi::{PF_X, PT_LOAD};
use elf::endian::LittleEndian;

/// Places of FreeRTOS's own port that save and load floating-point registers of a task that said it has any (`vPortTaskUsesFPU`), and
/// of no other task. Its kernel files are those of the release, so they are in every payload.
const OF_FREERTOS: [&str; 4] =
    ["FreeRTOS_SWI_Handler", "FreeRTOS_IRQ_Handler", "Exit_IRQ_No_Context_Switch", "vPortRestoreTaskContext"];

/// Address of the first instruction that uses a floating-point register, from an address on; with `is_freertos` those of its port do not count.
pub(crate) fn first_use(file: &[u8], from: u64, is_freertos: bool) -> Option<u64> {
    let elf = ElfBytes::<LittleEndian>::minimal_parse(file).ok()?;
    let symbols = Symbols::of(&elf);
    let segments = elf.segments()?;
    for segment in segments.iter().filter(|one| one.p_type == PT_LOAD && one.p_flags & PF_X != 0) {
        let Ok(content) = elf.segment_data(&segment) else { continue };
        for (place, word) in content.chunks_exact(4).enumerate() {
            let address = segment.p_vaddr.saturating_add(4 * place as u64);
            let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            let is_kernels = || is_freertos && is_from(&symbols.kernel, address).unwrap_or(false);
            if address >= from && uses_it(word) && is_from(&symbols.code, address).unwrap_or(true) && !is_kernels() {
                return Some(address);
            }
        }
    }
    None
}

/// What symbols say of the addresses from them on to the next one, ascending.
struct Symbols {
    /// There are instructions, and no constants.
    code: Vec<(u64, bool)>,
    /// It is one of [`OF_FREERTOS`].
    kernel: Vec<(u64, bool)>,
}

impl Symbols {
    fn of(elf: &ElfBytes<'_, LittleEndian>) -> Self {
        let mut all = Self { code: Vec::new(), kernel: Vec::new() };
        let Ok(Some((symbols, names))) = elf.symbol_table() else { return all };
        for symbol in symbols.iter() {
            let Some(name) = usize::try_from(symbol.st_name).ok().and_then(|at| names.get(at).ok()) else { continue };
            match name.split('.').next() {
                Some("$x") => all.code.push((symbol.st_value, true)),
                Some("$d") => all.code.push((symbol.st_value, false)),
                // Neither names of files nor those of sections.
                _ if name.is_empty() || symbol.st_shndx == 0 || symbol.st_value == 0 => {}
                _ => all.kernel.push((symbol.st_value, OF_FREERTOS.contains(&name))),
            }
        }
        all.code.sort_unstable();
        all.kernel.sort_unstable();
        all
    }
}

/// What is said of an address; `None` in front of the first symbol.
fn is_from(marks: &[(u64, bool)], address: u64) -> Option<bool> {
    let before = marks.partition_point(|(start, _)| *start <= address);
    before.checked_sub(1).and_then(|place| marks.get(place)).map(|(_, state)| *state)
}

/// Whether a word is an instruction with a floating-point or vector register (Arm ARM C4.1): bits 27 and 26 are set in data processing with
/// them (op0 = x111) and in loads and stores of them (op0 = x1x0 and bit V, which is 26), and in nothing else that a Cortex-A53 has.
fn uses_it(word: u32) -> bool {
    word >> 26 & 3 == 3
}

#[cfg(test)]
mod tests {
    use super::{is_from, uses_it};

    #[test]
    fn registers_are_seen_in_the_encoding() {
        // fadd d0, d0, d1; ldr q0, [x0]; stp d8, d9, [sp]; movi v0.2d, #0; fmov x0, d0
        for word in [0x1e61_2800, 0x3dc0_0000, 0x6d00_27e8, 0x6f00_e400, 0x9e66_0000] {
            assert!(uses_it(word), "{word:#x}");
        }
        // add x0, x0, x1; ldr x0, [x0]; stp x29, x30, [sp, #-16]!; b .; mrs x0, cntpct_el0; dmb sy; ldr w0, [pc, #8]
        for word in
            [0x8b01_0000, 0xf940_0000, 0xa9bf_7bfd, 0x1400_0000, 0xd53b_e020, 0xd503_3fbf, 0x1800_0040, 0x9ac1_0800]
        {
            assert!(!uses_it(word), "{word:#x}");
        }
    }

    #[test]
    fn constants_between_instructions_are_left_out() {
        let marks = [(0x1000, true), (0x1010, false), (0x1020, true)];
        let found = [0xff0, 0x1000, 0x100c, 0x1010, 0x101c, 0x1020].map(|at| is_from(&marks, at));
        assert_eq!(found, [None, Some(true), Some(true), Some(false), Some(false), Some(true)]);
    }
}
