//! Tables for the terminal and as Markdown. Others may have written a record, so texts are escaped.

use super::{PageView, RowKind, Table, TableRow, limits_table, noise_sentence, share, warnings};
use bench::measuring::Record;
use std::fmt::Write;
use terminal::escape;

/// Lists the gaps of a record, and remarks that its readers need.
fn remarks(record: &Record) -> Vec<String> {
    let mut remarks: Vec<String> = share(record).into_iter().collect();
    remarks.extend(warnings(record));
    remarks.extend(record.notes.iter().cloned());
    remarks.push(noise_sentence(record));
    remarks
}

/// Renders a view for a terminal: nothing but text, so that it can be piped.
pub fn terminal(record: &Record, view: &PageView) -> String {
    let mut out = tables(view);
    let _ = writeln!(out, "\n{}", escape(&view.headline));
    for remark in remarks(record) {
        let _ = writeln!(out, "{}", escape(&remark));
    }
    out
}

/// Renders a view's tables for a terminal.
pub fn tables(view: &PageView) -> String {
    let mut out = String::new();
    for table in &view.tables {
        let _ = writeln!(out, "\n{}", escape(&table.title));
        out.push_str(&aligned(table));
    }
    out
}

fn aligned(table: &Table) -> String {
    let name = |row: &TableRow| match row.kind {
        RowKind::Measured | RowKind::Head => row.name.clone(),
        RowKind::Published => format!("{} (published)", row.name),
    };
    let cells = |row: &TableRow| std::iter::once(name(row)).chain(row.cells.iter().cloned()).collect();
    let lines = std::iter::once(table.columns.clone()).chain(table.rows.iter().map(cells));
    let escaped = |line: Vec<String>| line.iter().map(|cell| escape(cell)).collect();
    let lines: Vec<Vec<String>> = lines.map(escaped).collect();
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    // Heads stand alone in their lines. The first line has the heads of the columns.
    let is_head = |line: usize| {
        line.checked_sub(1).and_then(|row| table.rows.get(row)).is_some_and(|row| row.kind == RowKind::Head)
    };
    let width = |column: usize| {
        let cells = lines.iter().enumerate().filter(|(index, _)| !is_head(*index));
        cells.filter_map(|(_, line)| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for (index, line) in lines.iter().enumerate() {
        if is_head(index) {
            let _ = writeln!(out, "\n{}", line.concat());
            continue;
        }
        let mut text = String::from(" ");
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let _ =
                if column == 0 { write!(text, " {cell:width$}") } else { write!(text, "  {cell:>width$}") };
        }
        out.push_str(text.trim_end());
        out.push('\n');
    }
    out
}

/// Renders a view as Markdown.
pub fn markdown(record: &Record, view: &PageView) -> String {
    let mut out = format!("# {}\n\n**{}**\n\n", escape(&record.title), escape(&view.headline));
    for remark in remarks(record) {
        let _ = writeln!(out, "- {}", escape(&remark));
    }
    let limits = limits_table(record);
    for table in view.tables.iter().chain(&limits) {
        markdown_table(&mut out, table);
    }
    let _ = writeln!(out, "\n## Where and how\n");
    for (name, value) in super::facts::facts(record) {
        let _ = writeln!(out, "- {name}: {}", escape(&value));
    }
    let _ = writeln!(out, "\nRepeat it with:\n\n    {}", escape(&record.command));
    out
}

/// Writes a table with its title.
pub(crate) fn markdown_table(out: &mut String, table: &Table) {
    let cell = |text: &String| escape(text).replace('|', "\\|");
    let line = |cells: &[String]| cells.iter().map(cell).collect::<Vec<_>>().join(" | ");
    let others = table.columns.len().saturating_sub(1);
    let _ = write!(out, "\n## {}\n\n{}\n\n", escape(&table.title), escape(&table.how));
    let _ = writeln!(out, "| {} |", line(&table.columns));
    let _ = writeln!(out, "|---{}|", "|---:".repeat(others));
    for row in &table.rows {
        let name = cell(&row.name);
        let _ = match row.kind {
            RowKind::Head => writeln!(out, "| **{name}** {}|", "| ".repeat(others)),
            RowKind::Published => writeln!(out, "| {name} *(published)* | {} |", line(&row.cells)),
            RowKind::Measured => writeln!(out, "| {name} | {} |", line(&row.cells)),
        };
    }
}
