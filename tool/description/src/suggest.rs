//! "Did you mean ...?"

/// Returns the known word that is closest to `word`, if one is close enough to be a slip of the finger.
///
/// A third of the word may differ, as in rustc; swapped neighbours count as one difference; a word may be cut off.
#[must_use]
pub fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count().max(3)) / 3;
    let folded = word.to_lowercase().replace('-', "_");
    known
        .into_iter()
        .map(|candidate| {
            let name = candidate.to_lowercase().replace('-', "_");
            // A word that was cut off is meant as well, if enough of it is there.
            let is_start = folded.len() >= 3 && name.starts_with(&folded);
            (if is_start { limit } else { distance(&folded, &name) }, candidate)
        })
        .filter(|(differences, _)| *differences <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Optimal string alignment distance.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for (row, from) in left.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, to) in right.iter().enumerate() {
            let cost = usize::from(from != to);
            let mut best = (above[column] + cost).min(above[column + 1] + 1).min(current[column] + 1);
            let swapped = row > 0 && column > 0 && left[row - 1] == *to && *from == right[column - 1];
            if swapped {
                best = best.min(before[column - 1] + 1);
            }
            current.push(best);
        }
        before = std::mem::replace(&mut above, current);
    }
    above[right.len()]
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
        assert_eq!(distance("abcd", "acbd"), 1, "swapped neighbours");
        assert_eq!(distance("", "abc"), 3);
    }

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(list::<&str>(&[]), "none");
        assert_eq!(list(&["a"]), "`a`");
        assert_eq!(list(&["a", "b", "c"]), "`a`, `b` or `c`");
    }
}
