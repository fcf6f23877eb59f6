//! One JSON object at a time, written by hand: the program prints a few kinds of object and reads none.

use std::fmt::Write;

/// A JSON object under construction.
#[derive(Debug, Default)]
pub(crate) struct Object {
    text: String,
}

impl Object {
    /// Adds a string.
    pub(crate) fn text(mut self, key: &str, value: &str) -> Self {
        self.key(key);
        quote(&mut self.text, value);
        self
    }

    /// Adds an integer.
    pub(crate) fn number(mut self, key: &str, value: u64) -> Self {
        self.key(key);
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{value}");
        self
    }

    /// Adds a truth value.
    pub(crate) fn truth(mut self, key: &str, value: bool) -> Self {
        self.key(key);
        self.text.push_str(if value { "true" } else { "false" });
        self
    }

    /// Adds an array of finished objects.
    pub(crate) fn list(mut self, key: &str, objects: &[String]) -> Self {
        self.key(key);
        self.text.push_str(&array(objects));
        self
    }

    /// Ends the object.
    pub(crate) fn finish(self) -> String {
        format!("{{{}}}", self.text)
    }

    fn key(&mut self, key: &str) {
        if !self.text.is_empty() {
            self.text.push(',');
        }
        quote(&mut self.text, key);
        self.text.push(':');
    }
}

/// Makes an array of finished objects.
pub(crate) fn array(objects: &[String]) -> String {
    format!("[{}]", objects.join(","))
}

fn quote(text: &mut String, value: &str) {
    text.push('"');
    for character in value.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            control if control < ' ' || control == '\u{7f}' => {
                let _ = write!(text, "\\u{:04x}", u32::from(control));
            }
            other => text.push(other),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped() {
        let object = Object::default().text("a\"b", "x\\y\n\t\u{1}é").number("n", u64::MAX).truth("t", false).finish();
        assert_eq!(object, "{\"a\\\"b\":\"x\\\\y\\n\\t\\u0001é\",\"n\":18446744073709551615,\"t\":false}");
        assert_eq!(array(&[]), "[]");
        assert_eq!(array(&["{}".into(), "{}".into()]), "[{},{}]");
    }
}
