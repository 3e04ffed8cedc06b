//! Tables of text for terminals.

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

/// Escapes characters that steer a terminal, or that hide or reorder others.
pub(super) fn escape(text: &str) -> String {
    let one = |c: char| match c.is_control() || is_invisible(c) {
        true => c.escape_unicode().to_string(),
        false => c.to_string(),
    };
    text.chars().map(one).collect()
}

/// Returns whether a character formats its neighbours and is not seen itself (the category Cf of
/// Unicode, as far as it reorders or joins text).
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_control_characters_escaped() {
        let rows = [["A", "BB"], ["longer", "x\u{1b}[2J\n"]];
        let text = table(rows.map(|row| row.map(str::to_owned).to_vec()));
        assert_eq!(text, "A       BB\nlonger  x\\u{1b}[2J\\u{a}\n");
        assert_eq!(table([]), "");
        assert_eq!(escape("a\u{202e}txt.exe\u{200b}é"), "a\\u{202e}txt.exe\\u{200b}é");
    }
}
