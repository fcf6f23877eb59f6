//! A writer of HTML and SVG that escapes everything it is given.
//!
//! Names in a report come from descriptions and traces of others. The only way to put text into a page is through
//! [`Html::text`] and attribute values, which escape, so no name can become markup. A template language would do the same
//! with a second syntax, a build step and files that cannot be read beside the code that fills them.

use std::fmt::{Display, Write};

/// A page, or a piece of one, under construction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Html {
    text: String,
}

/// Attributes of an element.
pub(crate) type Attributes<'a> = &'a [(&'a str, &'a dyn Display)];

impl Html {
    /// Returns the markup.
    pub(crate) fn finish(self) -> String {
        self.text
    }

    /// Adds text.
    pub(crate) fn text(&mut self, text: impl Display) {
        escape(&mut self.text, &text.to_string());
    }

    /// Adds an element with what `content` writes inside.
    pub(crate) fn element(&mut self, name: &str, attributes: Attributes<'_>, content: impl FnOnce(&mut Self)) {
        self.begin(name, attributes);
        self.text.push('>');
        content(self);
        let _ = write!(self.text, "</{name}>");
    }

    /// Adds an element that holds only text.
    pub(crate) fn leaf(&mut self, name: &str, attributes: Attributes<'_>, text: impl Display) {
        self.element(name, attributes, |html| html.text(text));
    }

    /// Adds an element that cannot hold anything.
    pub(crate) fn void(&mut self, name: &str, attributes: Attributes<'_>) {
        self.begin(name, attributes);
        self.text.push_str("/>");
    }

    /// Adds a style sheet. It must be a constant: it is not escaped.
    pub(crate) fn style(&mut self, sheet: &'static str) {
        let _ = write!(self.text, "<style>{sheet}</style>");
    }

    /// Adds another piece.
    pub(crate) fn append(&mut self, piece: Html) {
        self.text.push_str(&piece.text);
    }

    /// Begins a line, for people who read the source.
    pub(crate) fn line(&mut self) {
        self.text.push('\n');
    }

    /// States whether nothing was written.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    fn begin(&mut self, name: &str, attributes: Attributes<'_>) {
        let _ = write!(self.text, "<{name}");
        for (name, value) in attributes {
            let _ = write!(self.text, " {name}=\"");
            escape(&mut self.text, &value.to_string());
            self.text.push('"');
        }
    }
}

fn escape(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Controls other than white space have no place in a page.
            other if other.is_control() && !matches!(other, '\n' | '\t') => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_given_becomes_markup() {
        let mut html = Html::default();
        let name = "<script>\"&'\u{7}";
        html.element("td", &[("title", &name)], |html| html.text(name));
        let escaped = "&lt;script&gt;&quot;&amp;&#39;\u{fffd}";
        assert_eq!(html.finish(), format!("<td title=\"{escaped}\">{escaped}</td>"));
    }
}
