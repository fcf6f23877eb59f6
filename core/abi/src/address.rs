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
