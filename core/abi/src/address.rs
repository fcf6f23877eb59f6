//! Addresses as types: physical and guest-physical addresses never mix (house rule 9; hafnium `inc/hf/addr.h`).

use core::fmt;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes in a page; the only granule in use, for EL2 and for stage 2.
pub const PAGE_BYTES: u64 = 4096;

macro_rules! address_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// Adds a byte offset; `None` when the sum does not fit in 64 bits.
            #[must_use]
            pub const fn checked_add(self, offset_bytes: u64) -> Option<Self> {
                match self.0.checked_add(offset_bytes) {
                    Some(sum) => Some(Self(sum)),
                    None => None,
                }
            }

            /// States whether the address is a multiple of `alignment` (a power of two).
            #[must_use]
            pub const fn is_aligned(self, alignment: u64) -> bool {
                self.0 & (alignment - 1) == 0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }

        impl fmt::LowerHex for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::LowerHex::fmt(&self.0, f)
            }
        }
    };
}

address_type!(
    /// An address on the board's bus, as the monitor's identity map sees it.
    PhysicalAddress
);
address_type!(
    /// An address as a guest sees it with its own translation off (intermediate physical address, IPA).
    GuestAddress
);
