//! Parts of the monitor: one program, built with more or fewer rooms. A system carries the smallest part that serves its plan.

/// First four bytes of a part's mark, which follows the arm64 Image header at the front of the text. The part's number is next, a byte,
/// then the version of the layouts that it was built with: boot code reads an image by them before it can compare anything.
pub const PART_MAGIC: [u8; 4] = *b"BHPT";
/// Offset of the mark in the text: the length of the arm64 Image header.
pub const PART_OFFSET: usize = 64;

/// A part. Which one serves a plan is [`Part::is_served_by`]'s to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Part {
    /// Every core is one vCPU's.
    Own = 1,
    /// Several vCPUs may share a core.
    Shared = 2,
    /// Every core is one vCPU's, below a payload: EL3 brings a core to its EL2 whatever its guest masks.
    Hybrid = 3,
    /// As `Shared`, and partitions have PCI functions.
    Devices = 4,
}

impl Part {
    /// Every part, by number.
    #[cfg(not(target_os = "none"))]
    pub const ALL: [Self; 4] = [Self::Own, Self::Shared, Self::Hybrid, Self::Devices];

    /// Its name, in the words of the documentation.
    #[cfg(not(target_os = "none"))]
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Shared => "shared",
            Self::Hybrid => "hybrid",
            Self::Devices => "devices",
        }
    }

    /// States whether a system that needs this part runs with another one too.
    #[cfg(not(target_os = "none"))]
    #[must_use]
    pub const fn is_served_by(self, other: Self) -> bool {
        self as u32 == other as u32
            || matches!((self, other), (Self::Own, Self::Shared) | (Self::Own | Self::Shared, Self::Devices))
    }

    /// The mark of the part in its text.
    #[must_use]
    pub const fn mark(self) -> [u8; 8] {
        let [a, b, c, d] = PART_MAGIC;
        let [e, f, g, h] = (self as u32 | crate::ABI_VERSION << 8).to_le_bytes();
        [a, b, c, d, e, f, g, h]
    }

    /// The part that a monitor's text says it is; `None` when it says none, or one of other layouts.
    #[cfg(not(target_os = "none"))]
    #[must_use]
    pub fn of_text(text: &[u8]) -> Option<Self> {
        let mark = text.get(PART_OFFSET..)?.first_chunk::<8>()?;
        Self::ALL.into_iter().find(|part| part.mark() == *mark)
    }
}

#[cfg(test)]
mod tests {
    use super::{PART_OFFSET, Part};

    #[test]
    fn a_part_is_found_in_its_text_and_nowhere_else() {
        for part in Part::ALL {
            let mut text = [0; PART_OFFSET + 8];
            text[PART_OFFSET..].copy_from_slice(&part.mark());
            assert_eq!(Part::of_text(&text), Some(part));
            assert_eq!(
                text[PART_OFFSET + 5..],
                [crate::ABI_VERSION as u8, 0, 0],
                "one of other layouts has another mark"
            );
            for bit in 0..64 {
                let mut damaged = text;
                damaged[PART_OFFSET + bit / 8] ^= 1 << (bit % 8);
                // One bit may make another part's number, never the same one's.
                assert_ne!(Part::of_text(&damaged), Some(part));
            }
            assert_eq!(Part::of_text(&text[..PART_OFFSET + 7]), None);
        }
    }
}
