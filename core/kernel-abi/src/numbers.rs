//! Sets of numbers with names.

/// Defines an enum whose words have a number, a name and a meaning, all written in one place. Names and meanings are for the
/// host: the kernel reads numbers and prints none.
macro_rules! numbers {
    ($(#[doc = $about:literal])+ pub enum $set:ident: $word:ident {
        $(#[doc = $meaning:literal] $item:ident = $number:literal, $name:literal;)+
    }) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr($word)]
        pub enum $set { $(#[doc = $meaning] $item = $number,)+ }

        impl $set {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$item,)+];

            /// Returns the one with this number; `None` when there is none.
            #[inline]
            #[must_use]
            pub const fn from_number(number: u64) -> Option<Self> {
                match number {
                    $($number => Some(Self::$item),)+
                    _ => None,
                }
            }

            /// Returns the number.
            #[inline]
            #[must_use]
            pub const fn number(self) -> $word {
                self as $word
            }

            /// Returns the name, as pages and reports say it.
            #[cfg(not(target_os = "none"))]
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$item => $name,)+ }
            }

            /// Returns what it means, a sentence.
            #[cfg(not(target_os = "none"))]
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$item => $meaning.trim_ascii(),)+ }
            }
        }
    };
}

pub(crate) use numbers;
