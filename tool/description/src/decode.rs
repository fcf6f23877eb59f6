//! From TOML to the types of [`crate::description`] and [`crate::board`], with every mistake reported.
//!
//! One macro, [`table!`], makes a struct, its JSON Schema and its reader from one list of fields, so the three cannot
//! differ. The rejected alternative, `serde`, stops at the first mistake of a file and loses positions inside enums.

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::source::{FileId, Span};
use crate::suggest;
use bulkhead_words::Word;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use std::borrow::Cow;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

/// A value and where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Where it was written.
    pub span: Span,
}

impl<T> std::ops::Deref for Located<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: JsonSchema> JsonSchema for Located<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// A TOML value with its place.
pub(crate) type Value<'v, 'i> = &'v Spanned<DeValue<'i>>;

/// Reads one file and collects what is wrong with it.
pub(crate) struct Reader {
    /// The file.
    pub(crate) file: FileId,
    /// What is wrong.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// A part could not be read, so checks between parts would report mistakes that are none.
    pub(crate) incomplete: bool,
}

impl Reader {
    /// Makes a reader for a file.
    pub(crate) fn new(file: FileId) -> Self {
        Self { file, diagnostics: Vec::new(), incomplete: false }
    }

    /// The place of a value.
    pub(crate) fn span<T>(&self, value: &Spanned<T>) -> Span {
        Span::new(self.file, value.span())
    }

    /// Reports a mistake that keeps the part from being read.
    pub(crate) fn refuse(&mut self, diagnostic: Diagnostic) {
        self.incomplete = true;
        self.diagnostics.push(diagnostic);
    }

    /// Reports a value of the wrong type.
    pub(crate) fn wrong_type(&mut self, value: Value<'_, '_>, key: &str, expected: &str) {
        let found = describe(value.get_ref());
        let span = self.span(value);
        let mut diagnostic = Diagnostic::new(Code::WrongType, format!("`{key}` must be {expected}, not {found}"))
            .at(span, format!("expected {expected}"));
        if let (DeValue::Integer(number), true) = (value.get_ref(), expected.starts_with("a string")) {
            diagnostic = diagnostic.suggest(span, format!("\"{}\"", written(number)), "write it as a string");
        }
        self.refuse(diagnostic);
    }
}

/// What a TOML value is, for a sentence.
fn describe(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a decimal number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// A type that can be read from a TOML value. `None` means: reported, and the reader is incomplete.
pub(crate) trait Decode: Sized {
    /// Reads the value of `key`.
    fn decode(value: Value<'_, '_>, key: &str, reader: &mut Reader) -> Option<Self>;
}

/// A type that can be a field of a table.
pub(crate) trait Field: Sized {
    /// Reads the field; `table` is where its table is.
    fn field(value: Option<Value<'_, '_>>, key: &str, table: Span, reader: &mut Reader) -> Option<Self>;
}

impl<T: Decode> Decode for Located<T> {
    fn decode(value: Value<'_, '_>, key: &str, reader: &mut Reader) -> Option<Self> {
        let span = reader.span(value);
        T::decode(value, key, reader).map(|value| Self { value, span })
    }
}

impl<T: Decode> Field for Located<T> {
    fn field(value: Option<Value<'_, '_>>, key: &str, table: Span, reader: &mut Reader) -> Option<Self> {
        if let Some(value) = value {
            return Self::decode(value, key, reader);
        }
        reader.refuse(
            Diagnostic::new(Code::MissingKey, format!("the key `{key}` is missing"))
                .at(table, format!("`{key}` is needed here")),
        );
        None
    }
}

impl<T: Decode> Field for Option<T> {
    fn field(value: Option<Value<'_, '_>>, key: &str, _: Span, reader: &mut Reader) -> Option<Self> {
        Some(value.and_then(|value| T::decode(value, key, reader)))
    }
}

impl<T: Decode> Field for Vec<Located<T>> {
    fn field(value: Option<Value<'_, '_>>, key: &str, _: Span, reader: &mut Reader) -> Option<Self> {
        Some(value.and_then(|value| Self::decode(value, key, reader)).unwrap_or_default())
    }
}

/// Most entries of a list. Checks compare entries with each other, and must not take long on a hostile file.
const MOST_ENTRIES: usize = 1024;

impl<T: Decode> Decode for Vec<Located<T>> {
    fn decode(value: Value<'_, '_>, key: &str, reader: &mut Reader) -> Option<Self> {
        let DeValue::Array(items) = value.get_ref() else {
            reader.wrong_type(value, key, "an array");
            return None;
        };
        if let Some(extra) = items.get(MOST_ENTRIES) {
            let message = format!("`{key}` has {} entries", items.len());
            let label = format!("the first one too many; at most {MOST_ENTRIES}");
            let span = reader.span(extra);
            reader.refuse(Diagnostic::new(Code::TooManyEntries, message).at(span, label));
            return None;
        }
        // Elements that cannot be read are reported and left out; the reader is then incomplete.
        Some(items.iter().filter_map(|item| Located::decode(item, key, reader)).collect())
    }
}

impl Decode for String {
    fn decode(value: Value<'_, '_>, key: &str, reader: &mut Reader) -> Option<Self> {
        let DeValue::String(text) = value.get_ref() else {
            reader.wrong_type(value, key, "a string");
            return None;
        };
        Some(text.to_string())
    }
}

impl Decode for bool {
    fn decode(value: Value<'_, '_>, key: &str, reader: &mut Reader) -> Option<Self> {
        let DeValue::Boolean(state) = value.get_ref() else {
            reader.wrong_type(value, key, "true or false");
            return None;
        };
        Some(*state)
    }
}

impl Decode for u64 {
    fn decode(value: Value<'_, '_>, key: &str, reader: &mut Reader) -> Option<Self> {
        let DeValue::Integer(integer) = value.get_ref() else {
            reader.wrong_type(value, key, "a whole number");
            return None;
        };
        let number = Self::from_str_radix(integer.as_str(), integer.radix());
        if number.is_err() {
            let limit = if integer.as_str().starts_with('-') {
                String::from("cannot be negative")
            } else {
                format!("can be at most {}", Self::MAX)
            };
            let message = format!("`{key}` {limit}");
            reader.refuse(Diagnostic::new(Code::BadQuantity, message).at(reader.span(value), "out of range"));
        }
        number.ok()
    }
}

/// An integer as it was written, except that its base is 10 or 16 afterwards.
fn written(integer: &DeInteger<'_>) -> String {
    match (integer.radix(), u64::from_str_radix(integer.as_str(), integer.radix())) {
        (16, _) => format!("0x{}", integer.as_str()),
        (2 | 8, Ok(number)) => number.to_string(),
        _ => integer.as_str().to_owned(),
    }
}

/// A size such as `"4 MiB"`; its text is read when it is used, so that a bad one does not hide other mistakes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size(pub String);

/// A duration such as `"100 ms"`; its text is read when it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duration(pub String);

macro_rules! quantity {
    ($name:ident, $expected:literal, $pattern:literal, $examples:expr) => {
        impl Decode for $name {
            fn decode(value: Value<'_, '_>, key: &str, reader: &mut Reader) -> Option<Self> {
                match value.get_ref() {
                    DeValue::String(text) => Some(Self(text.to_string())),
                    // A bare number is the most usual slip: the message about its unit says more than one about its type.
                    DeValue::Integer(number) => Some(Self(written(number))),
                    _ => {
                        reader.wrong_type(value, key, $expected);
                        None
                    }
                }
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                schemars::json_schema!({ "type": "string", "pattern": $pattern, "examples": $examples })
            }
        }
    };
}

quantity!(
    Size,
    "a string with a unit such as \"4 MiB\"",
    r"^\s*[0-9][0-9_]*\s*(B|KiB|MiB|GiB)\s*$",
    ["64 KiB", "4 MiB", "1 GiB"]
);
quantity!(
    Duration,
    "a string with a unit such as \"100 ms\"",
    r"^\s*[0-9][0-9_]*\s*(ns|us|ms|s|min)\s*$",
    ["500 us", "100 ms", "10 s"]
);

/// Returns the table of a value, or reports that it is none.
pub(crate) fn as_table<'v, 'i>(value: Value<'v, 'i>, key: &str, reader: &mut Reader) -> Option<&'v DeTable<'i>> {
    let DeValue::Table(table) = value.get_ref() else {
        reader.wrong_type(value, key, "a table");
        return None;
    };
    Some(table)
}

/// Reports the keys of a table that are not among the known ones.
pub(crate) fn unknown_keys(table: &DeTable<'_>, known: &[&str], reader: &mut Reader) {
    for key in table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
        let word = key.get_ref().as_ref();
        let span = reader.span(key);
        let mut diagnostic =
            Diagnostic::new(Code::UnknownKey, format!("unknown key `{word}`")).at(span, "not a key of this table");
        diagnostic = match suggest::closest(word, known.iter().copied()) {
            Some(meant) => diagnostic.suggest(span, meant, format!("did you mean `{meant}`?")),
            None => diagnostic.help(format!("the keys of this table are {}", suggest::list(known))),
        };
        reader.diagnostics.push(diagnostic);
    }
}

/// Looks up a key of a table.
pub(crate) fn entry<'v, 'i>(table: &'v DeTable<'i>, key: &str) -> Option<Value<'v, 'i>> {
    table.get(key)
}

/// Defines a table: struct, JSON Schema, reader.
macro_rules! table {
    ($(#[$attribute:meta])* pub struct $name:ident { $($(#[$field_attribute:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, Eq, schemars::JsonSchema)]
        #[schemars(deny_unknown_fields)]
        pub struct $name { $($(#[$field_attribute])* pub $field: $type,)* }

        impl $name {
            /// Keys of the table.
            pub const KEYS: &'static [&'static str] = &[$(stringify!($field),)*];

            /// Reads the table; `whole` is its place.
            fn decode_table(table: &toml::de::DeTable<'_>, whole: $crate::source::Span, reader: &mut $crate::decode::Reader) -> Option<Self> {
                $crate::decode::unknown_keys(table, Self::KEYS, reader);
                // Every field is read before the first missing one ends it, so that all mistakes are reported.
                $(let $field = <$type as $crate::decode::Field>::field($crate::decode::entry(table, stringify!($field)), stringify!($field), whole, reader);)*
                Some(Self { $($field: $field?,)* })
            }
        }

        impl $crate::decode::Decode for $name {
            fn decode(value: $crate::decode::Value<'_, '_>, key: &str, reader: &mut $crate::decode::Reader) -> Option<Self> {
                let whole = reader.span(value);
                $crate::decode::as_table(value, key, reader).and_then(|table| Self::decode_table(table, whole, reader))
            }
        }
    };
}

/// Defines a set of words: enum, JSON Schema, reader.
macro_rules! words {
    ($(#[$attribute:meta])* pub enum $name:ident { $($(#[$variant_attribute:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, schemars::JsonSchema)]
        pub enum $name { $($(#[$variant_attribute])* #[schemars(rename = $word)] $variant,)* }

        impl $name {
            /// The words.
            pub const WORDS: &'static [&'static str] = &[$($word,)*];

            /// Returns the word.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl $crate::decode::Decode for $name {
            fn decode(value: $crate::decode::Value<'_, '_>, key: &str, reader: &mut $crate::decode::Reader) -> Option<Self> {
                let text = <String as $crate::decode::Decode>::decode(value, key, reader)?;
                match text.as_str() {
                    $($word => Some(Self::$variant),)*
                    _ => {
                        $crate::decode::unknown_word(value, key, &text, Self::WORDS, reader);
                        None
                    }
                }
            }
        }
    };
}

pub(crate) use {table, words};

/// The words of the crate that all parts share, read by their names.
macro_rules! shared_words {
    ($($set:ident),+) => {
        $(impl Decode for bulkhead_words::$set {
            fn decode(value: Value<'_, '_>, key: &str, reader: &mut Reader) -> Option<Self> {
                shared_word(value, key, reader)
            }
        })+
    };
}

shared_words!(Anchor, FloatingPoint, Gate, OnEmpty, OnInterrupt, Reading, Ring, RouteRule, Rule, ScheduleKind);

fn shared_word<W: Word>(value: Value<'_, '_>, key: &str, reader: &mut Reader) -> Option<W> {
    let text = String::decode(value, key, reader)?;
    let word = W::from_name(&text);
    if word.is_none() {
        unknown_word(value, key, &text, W::NAMES, reader);
    }
    word
}

/// The JSON Schema of a set of shared words: their crate knows no schemas.
pub(crate) struct WordSchema<W>(std::marker::PhantomData<W>);

impl<W: Word> JsonSchema for WordSchema<W> {
    fn schema_name() -> Cow<'static, str> {
        W::SET.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let word =
            |word: &W| serde_json::json!({ "type": "string", "const": word.name(), "description": word.meaning() });
        let words: Vec<serde_json::Value> = W::ALL.iter().map(word).collect();
        schemars::json_schema!({ "description": W::ABOUT, "oneOf": words })
    }
}

/// Reports a word that is not one of the known ones.
pub(crate) fn unknown_word(value: Value<'_, '_>, key: &str, word: &str, known: &[&str], reader: &mut Reader) {
    let span = reader.span(value);
    let mut diagnostic = Diagnostic::new(Code::UnknownWord, format!("`{key}` cannot be `{word}`"))
        .at(span, format!("expected {}", suggest::list(known)));
    if let Some(meant) = suggest::closest(word, known.iter().copied()) {
        diagnostic = diagnostic.suggest(span, format!("\"{meant}\""), format!("did you mean `{meant}`?"));
    }
    reader.refuse(diagnostic);
}
