//! Tables of text that fit a terminal.

/// Columns of a terminal. A wider table is shown in several blocks.
pub const COLUMNS: usize = 80;
/// Spaces between two columns of a table.
const GAP: usize = 2;

/// Writes a table whose first row is its head: the first `left` columns to the left, amounts to the right.
///
/// A table that is wider than a terminal is cut between columns into blocks below each other; each begins with the first `left` columns
/// again, so that its rows have their names.
#[must_use]
pub fn table(rows: &[Vec<String>], left: usize, indent: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let names: Vec<usize> = (0..left.min(columns)).collect();
    let wide = |shown: &[usize]| -> usize {
        shown.iter().filter_map(|column| widths.get(*column)).map(|width| width + GAP).sum::<usize>() + indent
    };
    let mut blocks = vec![names.clone()];
    for column in left..columns {
        // The last gap is cut off with the spaces at the end of a line.
        let fits = blocks.last().is_some_and(|block| wide(block) + widths.get(column).copied().unwrap_or(0) <= COLUMNS);
        let is_empty = blocks.last().is_some_and(|block| block.len() <= names.len());
        if !fits && !is_empty {
            blocks.push(names.clone());
        }
        if let Some(block) = blocks.last_mut() {
            block.push(column);
        }
    }
    let blocks: Vec<String> = blocks.iter().map(|block| lines(rows, block, &widths, left, indent)).collect();
    blocks.join("\n")
}

/// The lines of one block.
fn lines(rows: &[Vec<String>], columns: &[usize], widths: &[usize], left: usize, indent: usize) -> String {
    let mut text = String::new();
    for row in rows {
        let mut line = " ".repeat(indent);
        for (place, column) in columns.iter().enumerate() {
            let cell = row.get(*column).map_or("", String::as_str);
            let padding = widths.get(*column).copied().unwrap_or(0).saturating_sub(cell.chars().count());
            line.push_str(&" ".repeat(if place == 0 { 0 } else { GAP }));
            let (before, after) = if *column < left { (0, padding) } else { (padding, 0) };
            line.push_str(&" ".repeat(before));
            line.push_str(cell);
            line.push_str(&" ".repeat(after));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, table};

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|cell| (*cell).to_owned()).collect()
    }

    #[test]
    fn names_stand_to_the_left_and_amounts_to_the_right() {
        let rows = [row(&["guest", "rule", "ms"]), row(&["a", "sporadic", "1.5"]), row(&["b", "-"])];
        assert_eq!(table(&rows, 2, 1), " guest  rule       ms\n a      sporadic  1.5\n b      -\n");
        assert_eq!(table(&[], 1, 0), "");
    }

    #[test]
    fn a_wide_table_is_shown_in_blocks_that_repeat_the_names() {
        let wide = "x".repeat(30);
        let rows = [row(&["name", "one", "two", "three"]), row(&["guest", &wide, &wide, &wide])];
        let text = table(&rows, 1, 0);
        let blocks: Vec<&str> = text.split("\n\n").collect();
        assert_eq!(blocks.len(), 2, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert!(blocks.iter().all(|block| block.starts_with("name ") && block.contains("\nguest ")), "{text}");
        assert!(text.contains("three") && text.matches(&wide).count() == 3, "nothing is lost: {text}");
        let huge = "x".repeat(100);
        assert_eq!(
            table(&[row(&["n", "v"]), row(&["a", &huge])], 1, 0).matches(&huge).count(),
            1,
            "too wide for any block"
        );
    }
}
