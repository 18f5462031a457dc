//! Tables, aligned and wrapped to the available width.

use super::{
    Paint,
    width::{width, wrap},
};

/// Space between two columns.
const GAP: usize = 2;

/// Minimum width of a column.
const MIN_COLUMN: usize = 8;

/// Minimum width of a text column that does not break words.
const MIN_TEXT_COLUMN: usize = 16;

/// Width below which a terminal is narrow.
const NARROW_TERMINAL: usize = 60;

/// Lays out `rows` under `head`. Empty columns are left out.
pub(crate) fn table(
    head: &[&str],
    rows: &[Vec<String>],
    columns: usize,
    paint: Paint,
) -> Vec<String> {
    let used: Vec<usize> = (0..head.len())
        .filter(|&column| rows.iter().any(|row| row.get(column).is_some_and(|it| !it.is_empty())))
        .collect();
    let natural: Vec<usize> = used.iter().map(|&column| longest(column, head, rows)).collect();
    let widths = share(&natural, columns);
    if is_too_narrow(&natural, &widths, columns) {
        return paragraphs(&used, head, rows, columns, paint);
    }
    let heads: Vec<String> = used.iter().map(|&column| head[column].to_owned()).collect();
    let mut lines = vec![paint.bold(&aligned(&heads, &widths))];
    for row in rows {
        let cells: Vec<&str> =
            used.iter().map(|&column| row.get(column).map_or("", |it| it)).collect();
        push_row(&cells, &widths, &mut lines);
    }
    lines
}

/// True if words would be broken, or lines would exceed the width.
fn is_too_narrow(natural: &[usize], widths: &[usize], columns: usize) -> bool {
    let gaps = GAP * widths.len().saturating_sub(1);
    let torn = |(natural, width): (&usize, &usize)| width < natural && *width < MIN_TEXT_COLUMN;
    widths.iter().sum::<usize>() + gaps > columns
        || (columns < NARROW_TERMINAL && natural.iter().zip(widths).any(torn))
}

/// Each row as a paragraph: its first cell, and the others below it with their labels.
fn paragraphs(
    used: &[usize],
    head: &[&str],
    rows: &[Vec<String>],
    columns: usize,
    paint: Paint,
) -> Vec<String> {
    let mut lines = Vec::new();
    for row in rows {
        let cells = used.iter().map(|&column| (head[column], row.get(column).map_or("", |it| it)));
        for (at, (name, cell)) in cells.enumerate().filter(|(_, (_, cell))| !cell.is_empty()) {
            if at == 0 {
                lines.extend(wrap(cell, columns).iter().map(|line| paint.bold(line)));
                continue;
            }
            lines.push(format!("  {}", paint.dim(&name.to_lowercase())));
            let cell = wrap(cell, columns.saturating_sub(4));
            lines.extend(cell.into_iter().map(|line| format!("    {line}")));
        }
    }
    lines
}

fn longest(column: usize, head: &[&str], rows: &[Vec<String>]) -> usize {
    let cells = rows.iter().filter_map(|row| row.get(column));
    let lines = cells.flat_map(|cell| cell.split('\n')).map(width);
    lines.chain([width(head[column])]).max().unwrap_or(0)
}

/// Gives every column its natural width; if there is too little room, the widest share the rest.
fn share(natural: &[usize], columns: usize) -> Vec<usize> {
    let gaps = GAP * natural.len().saturating_sub(1);
    let mut left = columns.saturating_sub(gaps);
    let mut order: Vec<usize> = (0..natural.len()).collect();
    order.sort_by_key(|&column| natural[column]);
    let mut widths = vec![0; natural.len()];
    for (done, column) in order.into_iter().enumerate() {
        let fair = left / (natural.len() - done);
        widths[column] = natural[column].min(fair.max(MIN_COLUMN));
        left = left.saturating_sub(widths[column]);
    }
    widths
}

/// Writes one row, over as many lines as its tallest cell needs.
fn push_row(cells: &[&str], widths: &[usize], lines: &mut Vec<String>) {
    let cells: Vec<Vec<String>> =
        cells.iter().zip(widths).map(|(cell, &width)| wrap(cell, width)).collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    for line in 0..height {
        let parts: Vec<String> =
            cells.iter().map(|cell| cell.get(line).cloned().unwrap_or_default()).collect();
        lines.push(aligned(&parts, widths));
    }
}

fn aligned(parts: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (part, &wanted) in parts.iter().zip(widths) {
        line.push_str(part);
        let fill = wanted.saturating_sub(width(part)) + GAP;
        line.extend(std::iter::repeat_n(' ', fill));
    }
    line.truncate(line.trim_end().len());
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[&[&str]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().map(|&cell| cell.to_owned()).collect()).collect()
    }

    #[test]
    fn columns_are_aligned_and_empty_ones_left_out() {
        let rows = rows(&[&["add", "", "Adds."], &["漢字", "", "Wide."]]);
        let lines = table(&["NAME", "TITLE", "WHAT"], &rows, 80, Paint::PLAIN);
        assert_eq!(lines, ["NAME  WHAT", "add   Adds.", "漢字  Wide."]);
    }

    #[test]
    fn long_cells_wrap_within_the_width() {
        let rows = rows(&[&["name", "a description that is far too long for so little room"]]);
        let lines = table(&["NAME", "WHAT"], &rows, 30, Paint::PLAIN);
        assert!(lines.len() > 2 && lines.iter().all(|line| width(line) <= 30), "{lines:#?}");
        assert_eq!(lines[1], "name  a description that is");
    }

    #[test]
    fn narrow_tables_become_paragraphs() {
        let rows = rows(&[
            &["countdown", "from=integer", "Counts down, with progress at each step."],
            &["add", "", "Adds."],
        ]);
        for columns in [20, 30, 40] {
            let lines = table(&["NAME", "ARGUMENTS", "WHAT"], &rows, columns, Paint::PLAIN);
            assert!(lines.iter().all(|line| width(line) <= columns), "{lines:#?}");
            assert_eq!(lines[0], "countdown");
            assert_eq!(lines[1..3], ["  arguments", "    from=integer"]);
            assert_eq!(lines[lines.len() - 3..], ["add", "  what", "    Adds."]);
        }
        let lines = table(&["NAME", "WHAT"], &[vec!["a".into(), "b".into()]], 20, Paint::PLAIN);
        assert_eq!(lines, ["NAME  WHAT", "a     b"]);
    }

    #[test]
    fn the_widest_columns_share_the_remaining_width() {
        assert_eq!(share(&[5, 100, 100], 64), [5, 27, 28]);
        assert_eq!(share(&[3, 4], 80), [3, 4]);
        assert_eq!(share(&[], 80), Vec::<usize>::new());
    }
}
