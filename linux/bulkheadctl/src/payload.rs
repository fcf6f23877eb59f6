//! How a message is shown: as text when it is text, otherwise in hexadecimal.

use std::fmt::Write;

/// A payload in the form that suits it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// UTF-8 without control characters (zero bytes and a line end at the end are left out).
    Text(String),
    /// Two digits per byte.
    Hexadecimal(String),
}

/// Chooses the form.
pub(crate) fn show(payload: &[u8]) -> Shown {
    let end = payload.iter().rposition(|byte| *byte != 0 && *byte != b'\n').map_or(0, |last| last + 1);
    let trimmed = payload.get(..end).unwrap_or_default();
    match std::str::from_utf8(trimmed) {
        Ok(text) if !text.is_empty() && !text.chars().any(char::is_control) => Shown::Text(text.to_owned()),
        _ => Shown::Hexadecimal(payload.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })),
    }
}

/// Reads hexadecimal digits, two per byte; spaces between bytes are allowed.
pub(crate) fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> =
        text.chars().filter(|character| !character.is_whitespace()).map(|character| character.to_digit(16)).collect();
    let (pairs, rest) = digits.as_deref()?.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().filter_map(|[high, low]| u8::try_from(high * 16 + low).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        assert_eq!(show(b"speed 12\0\0\0"), Shown::Text("speed 12".into()));
        assert_eq!(show(b"line\n"), Shown::Text("line".into()));
        assert_eq!(show("é".as_bytes()), Shown::Text("é".into()));
    }

    #[test]
    fn everything_else_is_hexadecimal_and_whole() {
        assert_eq!(show(&[1, 0, 0, 0]), Shown::Hexadecimal("01000000".into()));
        assert_eq!(show(&[0, 0]), Shown::Hexadecimal("0000".into()));
        assert_eq!(show(b"a\nb"), Shown::Hexadecimal("610a62".into()));
        assert_eq!(show(&[0xff, 0xfe]), Shown::Hexadecimal("fffe".into()));
    }

    #[test]
    fn hexadecimal_is_read_back() {
        assert_eq!(from_hexadecimal("00 ff1A"), Some(vec![0, 255, 26]));
        assert_eq!(from_hexadecimal("0"), None);
        assert_eq!(from_hexadecimal("zz"), None);
        assert_eq!(from_hexadecimal(""), Some(vec![]));
    }
}
