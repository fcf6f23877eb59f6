//! Arguments of a guest: words separated by blanks, each `key` or `key=value`.

/// Returns the text of a zero-terminated field up to its first zero, or nothing when it is not UTF-8.
#[must_use]
pub fn text(field: &[u8]) -> &str {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    core::str::from_utf8(field.split_at(end).0).unwrap_or("")
}

/// Finds the value of `key=value`; the first one counts.
#[must_use]
pub fn value<'a>(arguments: &'a str, key: &str) -> Option<&'a str> {
    arguments.split_ascii_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

/// Finds the number of `key=number`, decimal or `0x` hexadecimal; `None` when absent or no number.
#[must_use]
pub fn number(arguments: &str, key: &str) -> Option<u64> {
    let text = value(arguments, key)?;
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::{number, text, value};

    #[test]
    fn finds_values_by_whole_key() {
        let arguments = "periods=500 report=0x10 super=7";
        assert_eq!(number(arguments, "periods"), Some(500));
        assert_eq!(number(arguments, "report"), Some(16));
        assert_eq!(number(arguments, "per"), None, "a prefix of a key is not the key");
        assert_eq!(value(arguments, "absent"), None);
        assert_eq!(number("periods=many", "periods"), None);
    }

    #[test]
    fn ends_text_at_the_first_zero() {
        assert_eq!(text(b"abc\0def"), "abc");
        assert_eq!(text(b"abc"), "abc");
        assert_eq!(text(b"\xff\0"), "");
    }
}
