//! Tables and times as text for terminals.

use terminal::escape;

/// Formats rows, the first of which is the head, with aligned columns. Control characters of names
/// that clients chose are escaped, so that they cannot steer the terminal.
pub(super) fn table(rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let escaped = |row: Vec<String>| row.iter().map(|cell| escape(cell)).collect();
    let rows: Vec<Vec<String>> = rows.into_iter().map(escaped).collect();
    let mut widths = vec![0; rows.first().map_or(0, Vec::len)];
    for row in &rows {
        row.iter().zip(&mut widths).for_each(|(cell, width)| *width = (*width).max(cell.chars().count()));
    }
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Formats a time in its two largest units.
pub(super) fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (1.., ..) => format!("{days} d {hours} h"),
        (0, 1.., _) => format!("{hours} h {minutes} min"),
        (0, 0, 1..) => format!("{minutes} min {} s", seconds % 60),
        _ => format!("{seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_at_most_two_units() {
        let times = [59, 102, 3_660, 36_276, 90_000].map(duration);
        assert_eq!(times, ["59 s", "1 min 42 s", "1 h 1 min", "10 h 4 min", "1 d 1 h"]);
    }

    #[test]
    fn columns_are_aligned_and_control_characters_escaped() {
        let rows = [["A", "BB"], ["longer", "x\u{1b}[2J\n"]];
        let text = table(rows.map(|row| row.map(str::to_owned).to_vec()));
        assert_eq!(text, "A       BB\nlonger  x\\u{1b}[2J\\u{a}\n");
        assert_eq!(table([]), "");
    }
}
