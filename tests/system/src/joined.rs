//! Lines as they were written.
//!
//! Who watches a console shows what has come when nothing more comes for a while, as a person at a prompt wants. On a busy host that cuts lines where the emulator had no turn.

use bulkhead_run::Line;

/// The texts of one console, each line whole and where it ended; behind them those that did not end.
pub(crate) fn joined<'l>(lines: impl Iterator<Item = &'l Line>) -> Vec<String> {
    let (mut texts, rest) = ended(lines);
    texts.extend(rest);
    texts
}

/// The texts of one console that ended, and those that did not: a machine may be stopped within a line.
pub(crate) fn ended<'l>(lines: impl Iterator<Item = &'l Line>) -> (Vec<String>, Vec<String>) {
    let mut texts: Vec<String> = Vec::new();
    // Each writer has a line of its own under way.
    let mut under_way: Vec<(Option<&str>, String)> = Vec::new();
    for line in lines {
        if line.lost_bytes != 0 {
            texts.push(line.text.clone());
            continue;
        }
        let writer = line.component.as_deref();
        let begun = under_way.iter().position(|(other, _)| *other == writer);
        let text = begun.map_or_else(String::new, |place| under_way.remove(place).1) + &line.text;
        if line.complete {
            texts.push(text);
        } else {
            under_way.push((writer, text));
        }
    }
    (texts, under_way.into_iter().map(|(_, text)| text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, component: Option<&str>, complete: bool) -> Line {
        let (bytes, component) = (text.as_bytes().to_vec(), component.map(str::to_owned));
        Line { console: 0, time_ticks: 0, text: text.to_owned(), bytes, lost_bytes: 0, complete, component }
    }

    #[test]
    fn what_a_busy_host_cut_is_one_line() {
        let lines = [
            line("ticks ", None, false),
            line("other", Some("a"), false),
            line("due: 1", None, false),
            line("2", None, true),
            line(" end", Some("a"), true),
            line("next", None, true),
            line("prompt ", None, false),
        ];
        assert_eq!(joined(lines.iter()), ["ticks due: 12", "other end", "next", "prompt "]);
        assert_eq!(ended(lines.iter()).1, ["prompt "]);
    }
}
