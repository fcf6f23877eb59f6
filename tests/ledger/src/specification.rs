//! Requirements and experiments of `docs/specification/requirements.md`, read from its tables.

use crate::page;
use crate::promises::FAMILIES;

/// Where they are.
pub const FILE: &str = "docs/specification/requirements.md";

/// A row of the specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Identifier.
    pub id: String,
    /// What is asked for, in the paper's sense; of an experiment its name and what has to come out of it. Links lead from `docs`.
    pub text: String,
}

/// Reads the file.
#[must_use]
pub fn requirements() -> Vec<Requirement> {
    rows(&page::read(FILE))
}

/// Reads the tables of a text: rows whose first cell is an identifier of a family. A requirement has its text in the fourth cell,
/// behind level and source; an experiment (`E` before its number) has its name in the second and its claim in the last one; a conflict has
/// what is in conflict in the second and what was proposed in the third one.
#[must_use]
pub fn rows(text: &str) -> Vec<Requirement> {
    text.lines().filter_map(row).collect()
}

fn row(line: &str) -> Option<Requirement> {
    let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix('|')?.trim_end().split(" | ").collect();
    let (id, rest) = cells.split_first()?;
    let (family, number) = id.split_once('-')?;
    let digits = number.trim_start_matches('E');
    let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_ascii_digit());
    if !is_number || FAMILIES.iter().all(|one| one.prefix != family) {
        return None;
    }
    let text = match number.starts_with('E') {
        _ if *family == *"CF" => format!("{}. {}", rest.first()?, rest.get(1)?),
        true => format!("{}: {}", rest.first()?, rest.last()?),
        false => format!("{}. {}", rest.first()?, rest.get(2..)?.join(" | ")),
    };
    Some(Requirement { id: (*id).to_owned(), text: from_docs(&text) })
}

/// Links of the folder `specification`, seen from `docs`.
fn from_docs(text: &str) -> String {
    text.replace("](", "](specification/").replace("](specification/../", "](")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_and_experiments_are_read() {
        let text = "| id | lvl | src | requirement |\n| --- | --- | --- | --- |\n| QV-9 | MUST | S | A | b, see [x](x.md) |\n\
                    | SP-E1 | Table 1 | setup | numbers | claim |\n| CF-1 | two levels | three | built |\n| XX-1 | no | family | of ours |\n| MZ-R1 | a rule |\n";
        let found: Vec<_> = rows(text).into_iter().map(|one| (one.id, one.text)).collect();
        let wanted = [
            ("QV-9".to_owned(), "MUST. A | b, see [x](specification/x.md)".to_owned()),
            ("SP-E1".to_owned(), "Table 1: claim".to_owned()),
            ("CF-1".to_owned(), "two levels. three".to_owned()),
        ];
        assert_eq!(found, wanted);
    }
}
