//! The vocabulary of time: how a shared core is given to its vCPUs, in words that every part of Bulkhead uses.
//!
//! Each set of words is one enum. A word has a number, which is what plans hold, a name, which is what descriptions and
//! reports say, and a sentence, which is what the schema of the description explains. All three are written in one place,
//! so that a new word is added here and then to the code that acts on it, and to nothing between the two.
//!
//! Numbers are read with [`Word::from_number`], names with [`Word::from_name`]; both answer `None` for what is no word.
//! The numbers are part of the image format: a number that a plan has used keeps its meaning.
//!
//! This crate is linked at EL2 and depends on nothing, so that the scheduler (`core/sched`) can use the words without the
//! layouts of the image. Names and sentences are not in the monitor: nothing there asks for them.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

mod schedule;
mod server;

pub use schedule::{FloatingPoint, OnInterrupt, Reading, Ring, RouteRule, ScheduleKind};
#[cfg(not(target_os = "none"))]
pub use server::Parameter;
pub use server::{Anchor, Gate, OnEmpty, Rule, ServerFlag};

/// What all sets of words can do. For tools alone: a monitor reads numbers and prints nothing.
#[cfg(not(target_os = "none"))]
pub trait Word: Copy + Eq + 'static {
    /// Name of the set: that of its type.
    const SET: &'static str;
    /// What the set is about, a sentence.
    const ABOUT: &'static str;
    /// Every word, in the order of the numbers.
    const ALL: &'static [Self];
    /// The names, in the same order.
    const NAMES: &'static [&'static str];

    /// Returns the number that plans hold.
    fn number(self) -> u32;

    /// Returns the word with this number; `None` when there is none.
    fn from_number(number: u32) -> Option<Self>;

    /// Returns the name, as in a description.
    fn name(self) -> &'static str;

    /// Returns what the word means, a sentence.
    fn meaning(self) -> &'static str;

    /// Returns the word with this name; `None` when there is none.
    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|word| word.name() == name)
    }
}

/// Returns the name of a word by its number, or "unknown", for reports of plans that nobody has checked.
#[must_use]
#[cfg(not(target_os = "none"))]
pub fn name_of<W: Word>(number: u32) -> &'static str {
    W::from_number(number).map_or("unknown", W::name)
}

/// Defines a set: an enum whose words have a number and a name, and whose documentation is what they mean.
macro_rules! words {
    ($(#[doc = $about:literal])+ pub enum $set:ident {
        $(#[doc = $meaning:literal] $word:ident = $number:literal, $name:literal;)+
    }) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum $set { $(#[doc = $meaning] $word = $number,)+ }

        impl $set {
            /// Returns the word with this number; `None` when there is none.
            #[inline]
            #[must_use]
            pub const fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$word),)+
                    _ => None,
                }
            }

            /// Returns the number that plans hold.
            #[inline]
            #[must_use]
            pub const fn number(self) -> u32 {
                self as u32
            }

            /// Returns the name, as in a description.
            #[cfg(not(target_os = "none"))]
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$word => $name,)+ }
            }
        }

        #[cfg(not(target_os = "none"))]
        impl $crate::Word for $set {
            const SET: &'static str = stringify!($set);
            const ABOUT: &'static str = concat!($($about),+).trim_ascii();
            const ALL: &'static [Self] = &[$(Self::$word,)+];
            const NAMES: &'static [&'static str] = &[$($name,)+];

            fn number(self) -> u32 {
                self.number()
            }

            fn from_number(number: u32) -> Option<Self> {
                Self::from_number(number)
            }

            fn name(self) -> &'static str {
                self.name()
            }

            fn meaning(self) -> &'static str {
                match self { $(Self::$word => $meaning.trim_ascii(),)+ }
            }
        }
    };
}

use words;
