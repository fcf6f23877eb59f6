//! Interfaces with types: one trait for both sides of a call (CH-4, CH-5, CH-7; `kernel.md` 9).
//!
//! ```text
//! bulkhead_component::value! {
//!     /// Why there is no temperature.
//!     pub enum Failure { Unplugged, TooHot, }
//! }
//! bulkhead_component::interface! {
//!     /// Temperatures.
//!     pub trait Thermometer {
//!         /// What was measured last, in millikelvin.
//!         fn measured(place: u8) -> Result<u32, Failure>;
//!     }
//! }
//! ```
//!
//! This stands in a crate, or a file, that both programs have. The callee implements the trait for a type of its own and says `Thermometer!(serve Boiler)`; its functions have the token of the
//! caller's capability in front. The caller says `Thermometer!(call)` and has a function of each name, whose answer is in a `Result` of its own, since a callee may be gone. Both have the interface's types in scope.
//!
//! What passes are the words of [`crate::interface`], eight at most in each direction: integers, `f64`, what [`value!`](crate::value) makes of them, and a `Result` of two of these, with one word for which it is. A value is rebuilt from
//! whatever words come, so a hostile caller makes no value that its type has not: what is too large for an integer loses its upper bits, and a number that no variant has is the last variant.
//!
//! Both sides carry the hash of all types with their names and fields, so a program that was built with another version of the interface is not bound to it (BH1206). A function of `u64` alone has the hash that `import!` and
//! `export!` give it: either side may be untyped, and in C.
//!
//! Rejected: a serializer, which needs memory that both share and a format of its own; and a trait whose functions the caller implements by a macro, which would write the list of functions twice.

use bulkhead_kernel_abi::image::{continued, signature as hash_of};

/// Eight words of a call, filled or read from the first one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    words: [u64; 8],
    next: usize,
}

impl Words {
    /// Zeros.
    pub const EMPTY: Self = Self::of([0; 8]);

    /// Words that came.
    #[must_use]
    pub const fn of(words: [u64; 8]) -> Self {
        Self { words, next: 0 }
    }

    /// All.
    #[must_use]
    pub const fn all(self) -> [u64; 8] {
        self.words
    }

    /// Fills the next one.
    #[inline]
    pub fn put(&mut self, word: u64) {
        if let Some(place) = self.words.get_mut(self.next) {
            *place = word;
        }
        self.next += 1;
    }

    /// Reads the next one.
    #[inline]
    pub fn take(&mut self) -> u64 {
        let word = self.words.get(self.next).copied().unwrap_or(0);
        self.next += 1;
        word
    }
}

/// How a type is called in a signature: its name, and the types that it is made of.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    /// Its name.
    pub text: &'static str,
    /// What it is made of.
    pub parts: &'static [Name],
}

/// What passes through a call as words.
pub trait Value: Sized {
    /// How it is called.
    const NAME: Name;
    /// How many words it has.
    const WORDS: usize;
    /// Writes its words.
    fn put(self, words: &mut Words);
    /// Makes one of as many words, whatever they are.
    fn take(words: &mut Words) -> Self;
}

macro_rules! integers {
    ($($word:ident)+) => {$(
        impl Value for $word {
            const NAME: Name = Name { text: stringify!($word), parts: &[] };
            const WORDS: usize = 1;
            #[inline]
            fn put(self, words: &mut Words) {
                words.put(self as u64);
            }
            #[inline]
            fn take(words: &mut Words) -> Self {
                words.take() as Self
            }
        }
    )+};
}

integers! { u8 u16 u32 u64 i8 i16 i32 i64 }

impl Value for bool {
    const NAME: Name = Name { text: "bool", parts: &[] };
    const WORDS: usize = 1;
    #[inline]
    fn put(self, words: &mut Words) {
        words.put(self.into());
    }
    #[inline]
    fn take(words: &mut Words) -> Self {
        words.take() != 0
    }
}

/// As its bits: no register of floating point passes through a call.
impl Value for f64 {
    const NAME: Name = Name { text: "f64", parts: &[] };
    const WORDS: usize = 1;
    #[inline]
    fn put(self, words: &mut Words) {
        words.put(self.to_bits());
    }
    #[inline]
    fn take(words: &mut Words) -> Self {
        Self::from_bits(words.take())
    }
}

impl Value for () {
    const NAME: Name = Name { text: "()", parts: &[] };
    const WORDS: usize = 0;
    #[inline]
    fn put(self, _words: &mut Words) {}
    #[inline]
    fn take(_words: &mut Words) {}
}

/// 0 in front of what went well, 1 in front of what did not.
impl<T: Value, E: Value> Value for Result<T, E> {
    const NAME: Name = Name { text: "Result", parts: &[T::NAME, E::NAME] };
    const WORDS: usize = 1 + if T::WORDS > E::WORDS { T::WORDS } else { E::WORDS };
    #[inline]
    fn put(self, words: &mut Words) {
        words.put(self.is_err().into());
        match self {
            Ok(value) => value.put(words),
            Err(error) => error.put(words),
        }
    }
    #[inline]
    fn take(words: &mut Words) -> Self {
        if words.take() == 0 { Ok(T::take(words)) } else { Err(E::take(words)) }
    }
}

/// Hash of a function's types, as `bulkhead_kernel_abi::image::signature` makes it of their text.
#[must_use]
pub const fn signature(parameters: &[Name], answer: &Name) -> u64 {
    let mut hash = hash_of("(");
    let (mut rest, mut separator) = (parameters, "");
    while let [first, after @ ..] = rest {
        hash = named(continued(hash, separator), first);
        (rest, separator) = (after, ", ");
    }
    named(continued(hash, ") -> "), answer)
}

/// A type with what it is made of in brackets.
const fn named(hash: u64, name: &Name) -> u64 {
    let mut hash = continued(hash, name.text);
    let (mut rest, mut separator) = (name.parts, "<");
    while let [first, after @ ..] = rest {
        hash = named(continued(hash, separator), first);
        (rest, separator) = (after, ", ");
    }
    if name.parts.is_empty() { hash } else { continued(hash, ">") }
}

/// States that values fit into the words of a call.
pub const fn fit(words: usize) {
    assert!(words <= 8, "what a function takes or answers has more than eight words");
}

/// Types of interfaces: a newtype of a value, a structure of values, or an enumeration without any.
#[macro_export]
macro_rules! value {
    ($(#[$about:meta])* $visibility:vis struct $name:ident($inside:ty);) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        $visibility struct $name(pub $inside);

        impl $crate::typed::Value for $name {
            const NAME: $crate::typed::Name = $crate::typed::Name {
                text: stringify!($name),
                parts: &[<$inside as $crate::typed::Value>::NAME],
            };
            const WORDS: usize = <$inside as $crate::typed::Value>::WORDS;
            #[inline]
            fn put(self, words: &mut $crate::typed::Words) {
                $crate::typed::Value::put(self.0, words);
            }
            #[inline]
            fn take(words: &mut $crate::typed::Words) -> Self {
                Self($crate::typed::Value::take(words))
            }
        }
    };
    ($(#[$about:meta])* $visibility:vis struct $name:ident { $($(#[$meaning:meta])* $field:ident: $inside:ty,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        $visibility struct $name { $($(#[$meaning])* pub $field: $inside,)+ }

        impl $crate::typed::Value for $name {
            const NAME: $crate::typed::Name = $crate::typed::Name {
                text: stringify!($name),
                parts: &[$($crate::typed::Name {
                    text: stringify!($field),
                    parts: &[<$inside as $crate::typed::Value>::NAME],
                }),+],
            };
            const WORDS: usize = 0 $(+ <$inside as $crate::typed::Value>::WORDS)+;
            #[inline]
            fn put(self, words: &mut $crate::typed::Words) {
                $($crate::typed::Value::put(self.$field, words);)+
            }
            #[inline]
            fn take(words: &mut $crate::typed::Words) -> Self {
                Self { $($field: $crate::typed::Value::take(words)),+ }
            }
        }
    };
    ($(#[$about:meta])* $visibility:vis enum $name:ident { $($(#[$meaning:meta])* $variant:ident,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        $visibility enum $name { $($(#[$meaning])* $variant),+ }

        impl $crate::typed::Value for $name {
            const NAME: $crate::typed::Name = $crate::typed::Name {
                text: stringify!($name),
                parts: &[$($crate::typed::Name { text: stringify!($variant), parts: &[] }),+],
            };
            const WORDS: usize = 1;
            #[inline]
            fn put(self, words: &mut $crate::typed::Words) {
                words.put(self as u64);
            }
            #[inline]
            fn take(words: &mut $crate::typed::Words) -> Self {
                let (word, all) = (words.take(), [$(Self::$variant),+]);
                let [.., last] = all;
                all.into_iter().find(|one| *one as u64 == word).unwrap_or(last)
            }
        }
    };
}

/// Declares an interface: a trait for the callee, and a macro of the same name with `(call)` for callers and `(serve TYPE)` for the callee.
#[macro_export]
macro_rules! interface {
    ($($all:tt)+) => {
        $crate::interface_with! { ($) $($all)+ }
    };
}

/// [`interface!`] with the sign by which the macro that it makes names what it is given.
#[doc(hidden)]
#[macro_export]
macro_rules! interface_with {
    (($sign:tt) $(#[$about:meta])* $visibility:vis trait $trait:ident {
        $($(#[$meaning:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $answer:ty;)+
    }) => {
        $(#[$about])*
        $visibility trait $trait {
            $($(#[$meaning])* fn $name(token: u64, $($argument: $type),*) -> $answer;)+
        }

        const _: () = {
            $($crate::typed::fit(0 $(+ <$type as $crate::typed::Value>::WORDS)*);
            $crate::typed::fit(<$answer as $crate::typed::Value>::WORDS);)+
        };

        #[doc = concat!("`(call)` for callers, `(serve TYPE)` for who implements [`trait@", stringify!($trait), "`].")]
        #[macro_export]
        macro_rules! $trait {
            (call) => {
                $($crate::stub! { $(#[$meaning])* fn $name($($argument: $type),*) -> $answer; })+
            };
            (serve $sign server:ty) => {
                $($crate::entry_of! { $sign server, $trait, fn $name($($argument: $type),*) -> $answer; })+
            };
        }
    };
}

/// A caller's function.
#[doc(hidden)]
#[macro_export]
macro_rules! stub {
    ($(#[$meaning:meta])* fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;) => {
        $(#[$meaning])*
        ///
        /// # Errors
        /// As `bulkhead_component::interface::invoke`.
        #[inline]
        #[allow(dead_code)]
        pub fn $name($($argument: $type),*) -> ::core::result::Result<$answer, $crate::Code> {
            static SLOT: u64 = 0;
            #[used]
            #[unsafe(link_section = ".bulkhead.imports")]
            static RECORD: $crate::interface::Record = $crate::interface::Record::typed(
                stringify!($name),
                &[$(<$type as $crate::typed::Value>::NAME),*],
                &<$answer as $crate::typed::Value>::NAME,
                ::core::ptr::from_ref(&SLOT).cast(),
            );
            #[allow(unused_mut)]
            let mut words = $crate::typed::Words::EMPTY;
            $($crate::typed::Value::put($argument, &mut words);)*
            let answer = $crate::interface::invoke($crate::interface::slot(&SLOT), words.all());
            answer.map(|words| $crate::typed::Value::take(&mut $crate::typed::Words::of(words)))
        }
    };
}

/// A callee's function, which the kernel enters.
#[doc(hidden)]
#[macro_export]
macro_rules! entry_of {
    ($server:ty, $trait:ident, fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;) => {
        const _: () = {
            #[allow(clippy::too_many_arguments)]
            extern "C" fn body(
                x0: u64, x1: u64, x2: u64, x3: u64, x4: u64, x5: u64, x6: u64, x7: u64, token: u64,
            ) -> $crate::interface::Answer {
                #[allow(unused_mut, unused_variables)]
                let mut words = $crate::typed::Words::of([x0, x1, x2, x3, x4, x5, x6, x7]);
                $(let $argument = <$type as $crate::typed::Value>::take(&mut words);)*
                let mut answer = $crate::typed::Words::EMPTY;
                $crate::typed::Value::put(<$server as $trait>::$name(token, $($argument),*), &mut answer);
                $crate::interface::Answer(answer.all())
            }

            // The kernel enters here on a stack of this component, with the token in x8: the ninth argument, below the place of the answer.
            #[unsafe(naked)]
            extern "C" fn entry() {
                ::core::arch::naked_asm!(
                    "sub sp, sp, #80",
                    "str x8, [sp]",
                    "add x8, sp, #16",
                    "bl {body}",
                    "ldp x0, x1, [sp, #16]",
                    "ldp x2, x3, [sp, #32]",
                    "ldp x4, x5, [sp, #48]",
                    "ldp x6, x7, [sp, #64]",
                    "svc #1",
                    "brk #0",
                    body = sym body,
                )
            }

            #[used]
            #[unsafe(link_section = ".bulkhead.exports")]
            static RECORD: $crate::interface::Record = $crate::interface::Record::typed(
                stringify!($name),
                &[$(<$type as $crate::typed::Value>::NAME),*],
                &<$answer as $crate::typed::Value>::NAME,
                entry as *const (),
            );
        };
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::value! {
        /// A newtype.
        struct Place(u8);
    }
    crate::value! {
        /// Two words.
        struct Reading {
            /// What.
            kelvin: i32,
            /// When.
            at_ticks: u64,
        }
    }

    crate::value! {
        /// Why not.
        enum Failure {
            /// Nobody is there.
            Gone,
            /// It is too late.
            Late,
        }
    }
    crate::interface! {
        /// Only for whether it is taken: no side of it is here.
        trait Clock {
            /// Six words, and three.
            fn at(first: Reading, second: Reading, third: Reading) -> Result<Reading, Failure>;
        }
    }
    struct Late;
    impl Clock for Late {
        fn at(_token: u64, _first: Reading, second: Reading, _third: Reading) -> Result<Reading, Failure> {
            if second.kelvin == 0 { Err(Failure::Late) } else { Ok(second) }
        }
    }

    fn through<T: Value>(value: T) -> (T, usize) {
        let mut words = Words::EMPTY;
        value.put(&mut words);
        let used = words.next;
        (T::take(&mut Words::of(words.all())), used)
    }

    /// CH-7: what is put on one side is what is taken on the other, in as many words as the type says.
    #[test]
    fn values_pass_as_words() {
        assert_eq!(through(-7_i32), (-7, 1));
        assert_eq!(through(Place(200)), (Place(200), Place::WORDS));
        let reading = Reading { kelvin: -40, at_ticks: u64::MAX };
        assert_eq!(through(reading), (reading, 2));
        type Either = Result<Reading, Place>;
        assert_eq!((through::<Either>(Ok(reading)), Either::WORDS), ((Ok(reading), 3), 3));
        assert_eq!(through::<Either>(Err(Place(9))).0, Err(Place(9)));
        assert_eq!(through(()), ((), 0));
        assert_eq!(through(-0.0_f64), (-0.0, 1));
        assert_eq!(through(Failure::Late), (Failure::Late, 1));
        let answer = Late::at(0, reading, Reading { kelvin: 0, at_ticks: 1 }, reading);
        assert_eq!(through(answer), (Err(Failure::Late), 2));
    }

    /// Whatever a hostile caller sends is a value of the type.
    #[test]
    fn any_words_are_a_value() {
        let all = || Words::of([u64::MAX; 8]);
        assert_eq!((u8::take(&mut all()), bool::take(&mut all()), Place::take(&mut all())), (255, true, Place(255)));
        assert_eq!(Result::<u64, Place>::take(&mut all()), Err(Place(255)));
        assert_eq!(Failure::take(&mut all()), Failure::Late);
        assert_eq!(Failure::take(&mut Words::of([0; 8])), Failure::Gone);
    }

    /// CH-4: a function of words has the signature that untyped sides have, and any other type, field or order another one.
    #[test]
    fn each_type_is_in_the_signature() {
        let words = signature(&[u64::NAME, u64::NAME], &u64::NAME);
        assert_eq!(words, bulkhead_kernel_abi::image::signature("(u64, u64) -> u64"));
        assert_eq!(signature(&[], &u64::NAME), bulkhead_kernel_abi::image::signature("() -> u64"));
        let all = [
            words,
            signature(&[u64::NAME], &u64::NAME),
            signature(&[u64::NAME, u32::NAME], &u64::NAME),
            signature(&[u32::NAME, u64::NAME], &u64::NAME),
            signature(&[Place::NAME, u64::NAME], &u64::NAME),
            signature(&[u8::NAME, u64::NAME], &u64::NAME),
            signature(&[Failure::NAME, u64::NAME], &u64::NAME),
            signature(&[f64::NAME, u64::NAME], &u64::NAME),
            signature(&[u64::NAME, u64::NAME], &Reading::NAME),
            signature(&[u64::NAME, u64::NAME], &Result::<Reading, Place>::NAME),
            signature(&[u64::NAME, u64::NAME], &Result::<Place, Reading>::NAME),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{at}");
        }
        // Where one type ends and the next one begins is in it: `(A<B>, C)` is not `(A<B, C>)`.
        const PARTS: [Name; 2] = [u8::NAME, u16::NAME];
        let (one, both) = (Name { text: "A", parts: &PARTS[..1] }, Name { text: "A", parts: &PARTS });
        assert_ne!(signature(&[one, u16::NAME], &u8::NAME), signature(&[both], &u8::NAME));
    }
}
