//! Documented constants and enumerators of a source file, for reference pages.
//!
//! The compiler drops doc comments, so they are read from the text. The files concerned declare one item per line.

/// A documented item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Name.
    pub name: String,
    /// Right-hand side as written, without the semicolon; empty for items without one.
    pub value: String,
    /// Doc comment as one line.
    pub documentation: String,
}

/// Returns the public constants of a text whose names start with `prefix`.
#[must_use]
pub fn constants(text: &str, prefix: &str) -> Vec<Item> {
    documented(text)
        .filter_map(|(documentation, line)| {
            let rest = line.strip_prefix("pub const ")?;
            let (name, rest) = rest.split_once(':')?;
            let value = rest.split_once('=')?.1.trim().trim_end_matches(';');
            name.starts_with(prefix).then(|| Item { name: name.to_owned(), value: value.to_owned(), documentation })
        })
        .collect()
}

/// Returns the entries `Name = value, "text";` of a list macro.
#[must_use]
pub fn entries(text: &str) -> Vec<Item> {
    documented(text)
        .filter_map(|(documentation, line)| {
            let (name, rest) = line.strip_suffix(';')?.split_once(" = ")?;
            let is_name = name.chars().all(char::is_alphanumeric) && name.starts_with(char::is_uppercase);
            is_name.then(|| Item { name: name.to_owned(), value: rest.to_owned(), documentation })
        })
        .collect()
}

/// Returns every line that follows a doc comment, with it; links lose their brackets.
fn documented(text: &str) -> impl Iterator<Item = (String, &str)> {
    let mut documentation = String::new();
    text.lines().map(str::trim).filter_map(move |line| {
        if let Some(comment) = line.strip_prefix("///") {
            documentation.push_str(comment);
            return None;
        }
        if line.starts_with("#[") || documentation.is_empty() {
            return None;
        }
        let sentence = std::mem::take(&mut documentation);
        Some((sentence.trim().replace("[`", "`").replace("`]", "`").replace("crate::", ""), line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_with_their_documentation() {
        let text = "/// First\n/// line, see [`X`].\npub const CALL_A: u64 = 1;\n/// Other.\npub const B: u64 = 2;\n";
        let found = constants(text, "CALL_");
        let wanted = Item { name: "CALL_A".into(), value: "1".into(), documentation: "First line, see `X`.".into() };
        assert_eq!(found, [wanted]);
        let found = entries("    /// Said.\n    Exits = 0, \"exits\";\n");
        assert_eq!((found[0].name.as_str(), found[0].value.as_str()), ("Exits", "0, \"exits\""));
    }
}
