//! Pages of a component that a device of its reads and writes by itself.
//!
//! The description gives a component its pages (`dma_bytes`), and the SMMU lets the function that it drives reach these and nothing else. The program asks for them by a name,
//! as for a device:
//!
//! ```text
//! bulkhead_component::dma!(memory);
//! let first = memory::place().physical();
//! ```

use bulkhead_kernel_abi::image::COMPONENT_DMA;

/// Bytes of a page; a component with pages has one at least.
const PAGE_BYTES: u64 = 4096;

/// Where devices find the pages of a component.
#[derive(Clone, Copy, Debug)]
pub struct Place(u64);

impl Place {
    /// For [`crate::dma`] alone.
    ///
    /// # Safety
    /// The address is what the writer of the instance wrote: the component's own pages, which nobody else has.
    #[doc(hidden)]
    #[must_use]
    pub const unsafe fn new(physical: u64) -> Self {
        Self(physical)
    }

    /// Where devices find the first byte.
    #[must_use]
    pub const fn physical(self) -> u64 {
        self.0
    }

    /// Where a word of the first page is.
    const fn at(offset: u64) -> *mut u64 {
        core::ptr::with_exposed_provenance_mut((COMPONENT_DMA + offset % PAGE_BYTES / 8 * 8) as usize)
    }

    /// Reads a word of the first page, which a device may have written.
    #[must_use]
    pub fn read(self, offset: u64) -> u64 {
        // SAFETY: a word of the component's own first page, which is mapped (`new`); volatile, since a device writes it as well.
        unsafe { Self::at(offset).read_volatile() }
    }

    /// Writes a word of the first page, before everything that comes later is seen by a device.
    pub fn write(self, offset: u64, word: u64) {
        // SAFETY: as for `read`.
        unsafe { Self::at(offset).write_volatile(word) };
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
    }
}

/// Names the component's pages for DMA: `NAME::place()`.
#[macro_export]
macro_rules! dma {
    ($name:ident) => {
        /// The pages that devices of this component may reach.
        mod $name {
            static PLACE: u64 = 0;
            #[used]
            #[unsafe(link_section = ".bulkhead.imports")]
            static RECORD: $crate::interface::Record =
                $crate::interface::Record::dma(stringify!($name), ::core::ptr::from_ref(&PLACE).cast());

            /// Where devices find them.
            pub fn place() -> $crate::dma::Place {
                // SAFETY: the writer of the instance has put the address of this component's pages into the word that the record names.
                unsafe { $crate::dma::Place::new($crate::interface::slot(&PLACE)) }
            }
        }
    };
}
