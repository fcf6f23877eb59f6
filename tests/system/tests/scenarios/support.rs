//! What several scenarios use.

/// Cuts the text of a serial line into lines.
pub(crate) fn lines(text: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(text).lines().map(str::to_owned).collect()
}
