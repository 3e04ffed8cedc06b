//! Sections and tables of a page, with the structure that screen readers need.

use super::form::escape;
use super::{RowKind, Table, TableRow};
use std::fmt::Write;

/// A section that has begun.
#[must_use]
pub(crate) struct Section(());

impl Section {
    /// Begins a section with its title, and with how to read it where that is said.
    pub(crate) fn begin(out: &mut String, title: &str, how: &str) -> Self {
        let _ = write!(out, "<section><h2>{}</h2>", escape(title));
        if !how.is_empty() {
            let _ = write!(out, "<p class=\"how\">{}</p>", escape(how));
        }
        Self(())
    }

    /// Writes the end of the section.
    pub(crate) fn end(self, out: &mut String) {
        out.push_str("</section>\n");
    }
}

/// Opens a table that scrolls by itself where it is wider than the page.
pub(crate) fn open(out: &mut String, title: &str, class: &str) {
    let title = escape(title);
    let _ = write!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{title}\"><table class=\"{class}\">"
    );
}

/// Writes the end of the table.
pub(crate) fn close(out: &mut String) {
    out.push_str("</tbody></table></div>");
}

/// Rows of a table that paper has on one page.
const SHORT: usize = 20;

/// Writes a table with its title. Where each row has a published one below it they stand side by
/// side.
pub(crate) fn table(out: &mut String, table: &Table) {
    let section = Section::begin(out, &table.title, &table.how);
    let pairs: Vec<(&TableRow, &TableRow)> = table.rows.chunks(2).filter_map(pair).collect();
    if !pairs.is_empty() && pairs.len() * 2 == table.rows.len() {
        side_by_side(out, table, &pairs);
    } else {
        plain(out, table);
    }
    section.end(out);
}

fn pair(rows: &[TableRow]) -> Option<(&TableRow, &TableRow)> {
    match rows {
        [own, published]
            if own.kind == RowKind::Measured
                && published.kind == RowKind::Published
                && own.name == published.name =>
        {
            Some((own, published))
        }
        _ => None,
    }
}

/// Letters of a cell that make its column one of sentences.
const SENTENCE: usize = 44;

/// Figures stand to the right, columns with sentences to the left.
fn has_sentences(table: &Table, column: usize) -> bool {
    table.rows.iter().filter_map(|row| row.cells.get(column)).any(|cell| cell.chars().count() > SENTENCE)
}

fn cell(out: &mut String, class: &str, text: &str) {
    let unsure = if text.contains('≈') { " unsure" } else { "" };
    let class = format!("{class}{unsure}");
    let class = class.trim();
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let _ = write!(out, "<td{class}>{}</td>", escape(text));
}

fn plain(out: &mut String, table: &Table) {
    open(out, &table.title, if table.rows.len() <= SHORT { "plain short" } else { "plain" });
    out.push_str("<thead><tr>");
    for (index, column) in table.columns.iter().enumerate() {
        let long = index.checked_sub(1).is_some_and(|column| has_sentences(table, column));
        let class = if long { " class=\"long\"" } else { "" };
        let _ = write!(out, "<th scope=\"col\"{class}>{}</th>", escape(column));
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in &table.rows {
        if row.kind == RowKind::Head {
            let (columns, name) = (table.columns.len(), escape(&row.name));
            let _ = writeln!(
                out,
                "<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"{columns}\">{name}</th></tr>"
            );
            continue;
        }
        let (class, published) = match row.kind {
            RowKind::Measured | RowKind::Head => ("", ""),
            RowKind::Published => (" class=\"published\"", " <small>published</small>"),
        };
        let _ = write!(out, "<tr{class}><th scope=\"row\">{}{published}</th>", escape(&row.name));
        for (column, text) in row.cells.iter().enumerate() {
            cell(out, if has_sentences(table, column) { "long" } else { "" }, text);
        }
        out.push_str("</tr>\n");
    }
    close(out);
}

fn side_by_side(out: &mut String, table: &Table, pairs: &[(&TableRow, &TableRow)]) {
    open(out, &table.title, "plain short pairs");
    let mut columns = table.columns.iter();
    let first = columns.next().map_or("", String::as_str);
    let _ = write!(out, "<thead><tr><th scope=\"col\" rowspan=\"2\">{}</th>", escape(first));
    for column in columns.clone() {
        let _ = write!(out, "<th scope=\"colgroup\" colspan=\"2\">{}</th>", escape(column));
    }
    out.push_str("</tr><tr>");
    for _ in columns {
        out.push_str(
            "<th scope=\"col\" class=\"own\">here</th><th scope=\"col\" class=\"published\">published</th>",
        );
    }
    out.push_str("</tr></thead><tbody>\n");
    for (own, published) in pairs {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(&own.name));
        for (here, there) in own.cells.iter().zip(&published.cells) {
            cell(out, "own", here);
            cell(out, "published", there);
        }
        out.push_str("</tr>\n");
    }
    close(out);
}
