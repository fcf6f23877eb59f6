//! What a component of the real-time kernel links: its entry, the calls of the kernel, and text output.
//!
//! A component is a program at EL0 in an address space of its own. Nothing but its capabilities gives it access to anything; a capability is named by
//! its slot in the component's table.
//!
//! ```text
//! #![no_std]
//! #![no_main]
//! bulkhead_component::entry!(main);
//!
//! fn main(_argument: u64) {
//!     bulkhead_component::print("hello\n");
//! }
//! ```
//!
//! The program's `build.rs` passes `-Tcomponent.ld`, the linker script of this crate.
#![no_std]

#[cfg(target_os = "none")]
pub mod accounts;
pub mod alone;
#[cfg(target_os = "none")]
pub mod call;
pub mod counts;
#[cfg(target_os = "none")]
pub mod dma;
#[cfg(target_os = "none")]
pub mod driver;
#[cfg(target_os = "none")]
pub mod interface;
#[cfg(target_os = "none")]
pub mod port;
#[cfg(target_os = "none")]
pub mod process;
#[cfg(target_os = "none")]
pub mod range;
#[cfg(target_os = "none")]
pub mod schedule;
#[cfg(target_os = "none")]
mod start;
#[cfg(target_os = "none")]
pub mod task;
pub mod typed;
#[cfg(all(target_os = "none", feature = "virtio"))]
pub mod virtio;

use bulkhead_kernel_abi::PRINT_BYTES;
pub use bulkhead_kernel_abi::{Code, KERNEL_ABI_VERSION};
#[cfg(target_os = "none")]
pub use call::print;

/// Packs up to [`PRINT_BYTES`] bytes into the registers of `print`, the first byte lowest; what is over is left out.
#[must_use]
pub fn packed(bytes: &[u8]) -> [u64; 7] {
    let mut words = [0; 7];
    for (index, byte) in bytes.iter().take(PRINT_BYTES).enumerate() {
        if let Some(word) = words.get_mut(index / 8) {
            *word |= u64::from(*byte) << (index % 8 * 8);
        }
    }
    words
}

/// Mixes two words into one, as tests and examples need numbers that look random (SplitMix64's last step).
#[must_use]
pub const fn mixed(word: u64, with: u64) -> u64 {
    let word = word.wrapping_add(with.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// Names the component's main function, `fn(u64)`: the argument is the thread's. When it returns, the thread ends.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        #[unsafe(no_mangle)]
        extern "C" fn bulkhead_component_main(argument: u64) {
            let main: fn(u64) = $main;
            main(argument);
        }
    };
}

#[cfg(test)]
mod tests {
    use super::packed;

    #[test]
    fn bytes_go_into_registers_lowest_first() {
        assert_eq!(packed(b"ab"), [0x6261, 0, 0, 0, 0, 0, 0]);
        assert_eq!(packed(&[0xff; 57]), [u64::MAX; 7]);
        assert_eq!(packed(b"12345678\n")[1], 10);
    }
}
