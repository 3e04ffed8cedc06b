//! The status live in the terminal.

use super::rates::StatusRates;
use super::text::{
    CLIENT_TITLES, EXPORT_TITLES, FILE_TITLES, FLAVOR_TITLES, OPERATION_TITLES, about, client_cells,
    export_cells, failure_cells, file_cells, flavor_cells, operation_cells,
};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Sparkline, Table};
use std::collections::VecDeque;
use terminal::escape;

/// Seconds of the curves.
const HISTORY: usize = 300;
/// Lines of the curves with their frame.
const CURVE_LINES: u16 = 4;
/// Lines from which there are curves: a lower terminal needs the room for its tables.
const TALL: u16 = 36;
/// Columns from which tables stand in two columns.
const WIDE: u16 = 160;
/// The least lines of a table: its title, its head and two rows.
const TABLE_LINES: u16 = 4;
/// The least columns of the names in a table, unless they are shorter.
const NAME_COLUMNS: usize = 16;
/// Columns between two cells, and between two tables.
const SPACING: u16 = 2;

/// The figures of the last minutes.
#[derive(Default)]
pub(super) struct StatusHistory {
    requests: VecDeque<u64>,
    megabytes: VecDeque<u64>,
}

impl StatusHistory {
    /// Adds the figures of a second.
    pub(super) fn add(&mut self, rates: &StatusRates<'_>) {
        let (received, sent) = rates.network();
        for (values, value) in
            [(&mut self.requests, rates.requests()), (&mut self.megabytes, received + sent)]
        {
            values.push_back(value.round() as u64);
            if values.len() > HISTORY {
                values.pop_front();
            }
        }
    }
}

/// Draws the status. `fault` says why it is not of this second.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    rates: &StatusRates<'_>,
    history: &StatusHistory,
    fault: Option<&str>,
) {
    let Rect { width, height, .. } = frame.area();
    let about = wrapped(&about(rates), width);
    let mut warnings: Vec<_> =
        warnings(rates, fault).iter().flat_map(|warning| wrapped(warning, width)).collect();
    warnings.truncate(usize::from(height / 3));
    let flavors = rates.flavors();
    let [top, curves, flavor_area, middle, bottom, keys] = Layout::vertical([
        Constraint::Length(about.len() as u16),
        Constraint::Length(if height >= TALL { CURVE_LINES } else { 0 }),
        Constraint::Length(flavors.len() as u16 + 2),
        Constraint::Min(TABLE_LINES),
        Constraint::Length(if warnings.is_empty() { 0 } else { warnings.len() as u16 + 1 }),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(Text::raw(about.join("\n"))), top);
    draw_curves(frame, curves, rates, history);
    draw_table(frame, flavor_area, "Flavors", &FLAVOR_TITLES, None, flavors.iter().map(flavor_cells));
    draw_tables(frame, middle, rates);
    let block = titled("Warnings").border_style(Style::new().fg(Color::Yellow));
    frame.render_widget(Paragraph::new(warnings.join("\n")).block(block), bottom);
    frame.render_widget(Line::raw("q ends").dim(), keys);
}

/// Draws operations, clients, exports, files and failures: beside each other where there is room. A
/// low terminal has only the first of them.
fn draw_tables(frame: &mut Frame<'_>, area: Rect, rates: &StatusRates<'_>) {
    let count = usize::from(area.height / TABLE_LINES).clamp(1, 3);
    let halves = |area| Layout::horizontal([Constraint::Fill(1); 2]).spacing(SPACING).areas::<2>(area);
    if area.width >= WIDE {
        let [left, right] = halves(area);
        let parts = Layout::vertical(vec![Constraint::Fill(1); count]).split(right);
        let draw_right = [draw_clients, draw_exports, draw_files];
        draw_right.iter().zip(parts.iter()).for_each(|(draw, part)| draw(frame, *part, rates));
        let parts = Layout::vertical(vec![Constraint::Fill(1); count.min(2)]).split(left);
        let draw_left = [draw_operations, draw_failures];
        return draw_left.iter().zip(parts.iter()).for_each(|(draw, part)| draw(frame, *part, rates));
    }
    let parts = Layout::vertical(vec![Constraint::Fill(1); count]).split(area);
    draw_clients(frame, parts[0], rates);
    if let Some(part) = parts.get(1) {
        let [left, right] = halves(*part);
        draw_operations(frame, left, rates);
        draw_failures(frame, right, rates);
    }
    if let Some(part) = parts.get(2) {
        let [left, right] = halves(*part);
        draw_exports(frame, left, rates);
        draw_files(frame, right, rates);
    }
}

fn draw_clients(frame: &mut Frame<'_>, area: Rect, rates: &StatusRates<'_>) {
    let rows = rates.clients();
    draw_table(frame, area, "Clients", &CLIENT_TITLES, Some(1), rows.iter().map(client_cells));
}

fn draw_operations(frame: &mut Frame<'_>, area: Rect, rates: &StatusRates<'_>) {
    let rows = rates.operations();
    draw_table(frame, area, "Operations", &OPERATION_TITLES, Some(0), rows.iter().map(operation_cells));
}

fn draw_failures(frame: &mut Frame<'_>, area: Rect, rates: &StatusRates<'_>) {
    let rows = rates.failures();
    let titles = ["STATUS", "PER SECOND"];
    draw_table(frame, area, "Failed operations", &titles, Some(0), rows.iter().map(failure_cells));
}

fn draw_exports(frame: &mut Frame<'_>, area: Rect, rates: &StatusRates<'_>) {
    let rows = rates.exports();
    draw_table(frame, area, "Exports", &EXPORT_TITLES, Some(0), rows.iter().map(export_cells));
}

fn draw_files(frame: &mut Frame<'_>, area: Rect, rates: &StatusRates<'_>) {
    let rows = rates.files();
    draw_table(frame, area, "Files", &FILE_TITLES, Some(0), rows.iter().map(file_cells));
}

/// Returns the warnings, the fault of the connection first.
fn warnings(rates: &StatusRates<'_>, fault: Option<&str>) -> Vec<String> {
    let of_server = rates.warnings().into_iter().map(|warning| warning.to_string());
    fault.map(|fault| format!("not up to date: {fault}")).into_iter().chain(of_server).collect()
}

/// Breaks a text into lines of so many columns between its words.
fn wrapped(text: &str, width: u16) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut broken = String::new();
        for word in line.split(' ') {
            let with_word = broken.chars().count() + 1 + word.chars().count();
            if !broken.is_empty() && with_word > width.into() {
                lines.push(std::mem::take(&mut broken));
            }
            if !broken.is_empty() {
                broken.push(' ');
            }
            broken.push_str(word);
        }
        lines.push(broken);
    }
    lines
}

fn titled(title: &str) -> Block<'_> {
    Block::new().borders(Borders::TOP).border_style(Style::new().dim()).title(title.bold())
}

/// Draws a table. Columns are as wide as their cells; that of the names takes the rest. The last
/// columns give way to the names on a narrow terminal.
fn draw_table(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    titles: &[&str],
    names: Option<usize>,
    rows: impl Iterator<Item = Vec<String>>,
) {
    let escaped = |cells: Vec<String>| cells.iter().map(|cell| escape(cell)).collect();
    let rows: Vec<Vec<String>> = rows.map(escaped).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([titles[column].len()]).max().unwrap_or_default()
    };
    let least = |column| if names == Some(column) { width(column).min(NAME_COLUMNS) } else { width(column) };
    let spacing = usize::from(SPACING);
    let fits = |count: &usize| {
        (0..*count).map(|column| least(column) + spacing).sum::<usize>() <= usize::from(area.width) + spacing
    };
    let shown = (1..=titles.len()).rev().find(fits).unwrap_or(1);
    let widths = (0..shown).map(|column| match names {
        Some(names) if names == column => Constraint::Fill(1),
        _ => Constraint::Length(width(column) as u16),
    });
    let row = |cells: Vec<String>| Row::new(cells.into_iter().take(shown).map(Cell::new));
    let head = Row::new(titles[..shown].iter().map(|title| Cell::new(*title))).style(Modifier::DIM);
    let table = Table::new(rows.iter().cloned().map(row).collect::<Vec<_>>(), widths);
    frame.render_widget(table.header(head).column_spacing(SPACING).block(titled(title)), area);
}

fn draw_curves(frame: &mut Frame<'_>, area: Rect, rates: &StatusRates<'_>, history: &StatusHistory) {
    let (received, sent) = rates.network();
    let halves: [Rect; 2] = Layout::horizontal([Constraint::Fill(1); 2]).spacing(SPACING).areas(area);
    let curves = [
        (format!("Requests a second: {:.0}", rates.requests()), &history.requests, Color::Cyan),
        (format!("MB a second: {:.1}", received + sent), &history.megabytes, Color::Green),
    ];
    for (area, (title, values, color)) in halves.into_iter().zip(curves) {
        // The newest second is at the right edge.
        let shown = usize::from(area.width).min(values.len());
        let newest = values.iter().skip(values.len() - shown).copied();
        let curve = Sparkline::default().data(newest.collect::<Vec<_>>()).style(color);
        frame.render_widget(curve.block(titled(&title)), area);
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::tests::report;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn shown(width: u16, height: u16, fault: Option<&str>) -> String {
        let (before, mut now) = (report(100.0, 1_000, 0.0), report(102.0, 3_000, 2_000.0));
        now.clients[0].principal = "\u{1b}[2J\u{202e}evil@R".to_owned();
        now.recent.insert("panics".to_owned(), 1);
        let rates = StatusRates::between(&before, &now);
        let mut history = StatusHistory::default();
        history.add(&rates);
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &rates, &history, fault)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn a_terminal_of_usual_size_shows_each_part() {
        let screen = shown(100, 50, None);
        for part in [
            "orthrus 1.2.3, up 1 min 42 s, serving",
            "Requests a second: 1000",
            "MB a second: 1000.0",
            "encryption 0.01 cores",
            "krb5p",
            "READ",
            "10.0.0.2",
            "host/node@R",
            "/data",
            "/srv/data/busy",
            "1 defects of the server closed connections",
            "q ends",
        ] {
            assert!(screen.contains(part), "{part} is missing:\n{screen}");
        }
        assert!(!screen.contains("not up to date"), "{screen}");
        assert!(
            shown(160, 40, None).contains("/srv/data/busy") && shown(160, 40, None).contains("host/node@R")
        );
        assert!(shown(100, 40, Some("no server runs")).contains("not up to date: no server runs"));
    }

    #[test]
    fn names_do_not_steer_the_terminal() {
        let screen = shown(100, 40, None);
        assert!(screen.contains("\\u{1b}[2J\\u{202e}evil@R"), "{screen}");
        assert!(!screen.contains('\u{1b}') && !screen.contains('\u{202e}'));
    }

    #[test]
    fn a_small_terminal_shows_clients_and_whole_warnings_and_none_panics() {
        let screen = shown(80, 24, None);
        for part in ["serving", "delegations", "krb5p", "10.0.0.2", "host/node@R", "READ", "/srv/data/busy"] {
            assert!(screen.contains(part), "{part} is missing:\n{screen}");
        }
        let screen = shown(60, 24, Some("no server runs in /var/lib/orthrus"));
        for part in ["Warnings", "host/node@R", "message of the log to the project"] {
            assert!(screen.contains(part), "{part} is missing:\n{screen}");
        }
        for (width, height) in [(1, 1), (10, 3), (40, 10), (360, 100)] {
            shown(width, height, Some("x"));
        }
    }
}
