//! "Did you mean ...?"

/// Returns the known word that was meant, if one is close enough to be a slip of the finger.
///
/// Only case and `-` for `_` differ, else a third of the longer word may (as in rustc), where swapped neighbours count as one
/// difference; or a word of three letters and more is cut off. Where two known words are equally close, neither is proposed: a wrong
/// suggestion costs more than none.
#[must_use]
pub fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let fold = |text: &str| text.to_lowercase().replace('-', "_");
    let folded = fold(word);
    let letters = folded.chars().count();
    let distance = |candidate: &str| {
        let name = fold(candidate);
        let limit = letters.max(name.chars().count()) / 3;
        let is_start = letters >= 3 && name != folded && name.starts_with(&folded);
        match strsim::osa_distance(&folded, &name) {
            differences if differences <= limit => Some(differences),
            _ if is_start => Some(letters / 3),
            _ => None,
        }
    };
    let mut near: Vec<(usize, &str)> =
        known.into_iter().filter_map(|candidate| Some((distance(candidate)?, candidate))).collect();
    near.sort_unstable();
    near.dedup();
    match near.as_slice() {
        [(_, only)] => Some(only),
        [(first, meant), (second, _), ..] if first < second => Some(meant),
        _ => None,
    }
}

/// Joins words for a sentence: `a`, `b` or `c`, each in back quotes.
#[must_use]
pub fn list<S: AsRef<str>>(words: &[S]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{}`", word.as_ref())).collect();
    match quoted.split_last() {
        None => String::from("none"),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_other_words_are_not() {
        assert_eq!(closest("memroy", ["memory", "name"]), Some("memory"));
        assert_eq!(closest("Memory", ["memory", "name"]), Some("memory"));
        assert_eq!(closest("best_effort", ["best-effort", "high"]), Some("best-effort"));
        assert_eq!(closest("tele", ["telemetry", "name"]), Some("telemetry"));
        assert_eq!(closest("elephant", ["memory", "name"]), None);
        assert_eq!(closest("", ["memory"]), None);
        assert_eq!(closest("nmae", ["memory", "name"]), Some("name"), "swapped neighbours");
    }

    #[test]
    fn the_same_word_in_another_case_comes_first_and_a_draw_proposes_nothing() {
        assert_eq!(closest("mib", ["B", "KiB", "MiB", "GiB"]), Some("MiB"));
        assert_eq!(closest("xib", ["B", "KiB", "MiB", "GiB"]), None);
        assert_eq!(closest("x", ["a", "b"]), None, "a word that differs in every letter");
        assert_eq!(closest("x", ["a"]), None);
        assert_eq!(closest("quant", ["quanta", "quantum"]), Some("quanta"));
    }

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(list::<&str>(&[]), "none");
        assert_eq!(list(&["a"]), "`a`");
        assert_eq!(list(&["a", "b", "c"]), "`a`, `b` or `c`");
    }
}
