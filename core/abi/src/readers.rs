//! Methods of plans that read a field as what it means: the entries of a table that are in use, the word behind a number.
//!
//! Nothing here trusts the plan: a count beyond its table is the whole table, and a number that is no word is `None`.

/// Defines, for tables with a count, methods that return the entries in use.
macro_rules! tables {
    ($plan:ident { $($(#[$about:meta])* $field:ident, $count:ident: $entry:ty;)+ }) => {
        impl $plan {
            $($(#[$about])*
            #[inline]
            #[must_use]
            pub fn $field(&self) -> &[$entry] {
                self.$field.get(..self.$count as usize).unwrap_or(&self.$field)
            })+
        }
    };
}

/// Defines, for fields with the number of a word, methods that return the word.
macro_rules! words {
    ($plan:ident { $($(#[$about:meta])* $name:ident, $field:ident: $word:ident;)+ }) => {
        impl $plan {
            $($(#[$about])*
            #[inline]
            #[must_use]
            pub const fn $name(&self) -> Option<$word> {
                $word::from_number(self.$field)
            })+
        }
    };
}

pub(crate) use {tables, words};
