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
/// Columns from which tables stand beside each other.
const WIDE: u16 = 130;

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
    let (about, warnings) = (about(rates), warnings(rates, fault));
    let flavors = rates.flavors();
    let [top, curves, flavor_area, middle, bottom, keys] = Layout::vertical([
        Constraint::Length(about.lines().count() as u16),
        Constraint::Length(CURVE_LINES),
        Constraint::Length(flavors.len() as u16 + 3),
        Constraint::Min(4),
        Constraint::Length(if warnings.is_empty() { 0 } else { warnings.len() as u16 + 2 }),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(Text::raw(about)), top);
    draw_curves(frame, curves, rates, history);
    let widths = [8, 10, 8, 14, 10, 8, 8];
    draw_table(frame, flavor_area, "Flavors", &FLAVOR_TITLES, flavors.iter().map(flavor_cells), &widths);
    draw_tables(frame, middle, rates);
    let lines = warnings.iter().map(|line| Line::raw(line.as_str())).collect::<Vec<_>>();
    let block = framed("Since the start").border_style(Style::new().fg(Color::Yellow));
    frame.render_widget(Paragraph::new(lines).block(block), bottom);
    frame.render_widget(Line::raw("q ends").dim(), keys);
}

/// Draws operations, clients, exports, files and failures: beside each other where there is room.
fn draw_tables(frame: &mut Frame<'_>, area: Rect, rates: &StatusRates<'_>) {
    let [left, right]: [Rect; 2] = match area.width >= WIDE {
        true => Layout::horizontal([Constraint::Fill(1); 2]).areas(area),
        false => Layout::vertical([Constraint::Fill(3), Constraint::Fill(4)]).areas(area),
    };
    let [operations, failures]: [Rect; 2] = match area.width >= WIDE {
        true => Layout::vertical([Constraint::Fill(3), Constraint::Fill(2)]).areas(left),
        false => Layout::horizontal([Constraint::Fill(3), Constraint::Fill(2)]).areas(left),
    };
    let [clients, exports, files] =
        Layout::vertical([Constraint::Fill(3), Constraint::Fill(2), Constraint::Fill(2)]).areas(right);
    let rows = rates.operations();
    let widths = [0, 10, 8, 8];
    draw_table(frame, operations, "Operations", &OPERATION_TITLES, rows.iter().map(operation_cells), &widths);
    let rows = rates.failures();
    let titles = ["STATUS", "PER SECOND"];
    draw_table(frame, failures, "Failed operations", &titles, rows.iter().map(failure_cells), &[0, 10]);
    let rows = rates.clients();
    let widths = [20, 0, 10, 5, 5, 11, 6];
    draw_table(frame, clients, "Clients", &CLIENT_TITLES, rows.iter().map(client_cells), &widths);
    let rows = rates.exports();
    draw_table(frame, exports, "Exports", &EXPORT_TITLES, rows.iter().map(export_cells), &[0, 10, 9, 9]);
    let rows = rates.files();
    draw_table(frame, files, "Files", &FILE_TITLES, rows.iter().map(file_cells), &[0, 14]);
}

/// Returns the warnings, the fault of the connection first.
fn warnings(rates: &StatusRates<'_>, fault: Option<&str>) -> Vec<String> {
    let of_server = rates.warnings().into_iter().map(|warning| warning.to_string());
    fault.map(|fault| format!("not up to date: {fault}")).into_iter().chain(of_server).collect()
}

fn framed(title: &str) -> Block<'_> {
    Block::new().borders(Borders::ALL).border_style(Style::new().dim()).title(title.bold())
}

/// Draws a table with columns of these widths; a width of 0 takes the rest.
fn draw_table(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    titles: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
    widths: &[u16],
) {
    let row = |cells: Vec<String>| Row::new(cells.into_iter().map(|cell| Cell::new(escape(&cell))));
    let widths = widths.iter().map(|width| match width {
        0 => Constraint::Fill(1),
        width => Constraint::Length(*width),
    });
    let head = Row::new(titles.iter().map(|title| Cell::new(*title))).style(Modifier::DIM);
    let table = Table::new(rows.map(row).collect::<Vec<_>>(), widths).header(head).column_spacing(2);
    frame.render_widget(table.block(framed(title)), area);
}

fn draw_curves(frame: &mut Frame<'_>, area: Rect, rates: &StatusRates<'_>, history: &StatusHistory) {
    let (received, sent) = rates.network();
    let halves: [Rect; 2] = Layout::horizontal([Constraint::Fill(1); 2]).areas(area);
    let curves = [
        (format!("Requests a second: {:.0}", rates.requests()), &history.requests, Color::Cyan),
        (format!("MB a second: {:.1}", received + sent), &history.megabytes, Color::Green),
    ];
    for (area, (title, values, color)) in halves.into_iter().zip(curves) {
        // The newest second is at the right edge.
        let shown = usize::from(area.width.saturating_sub(2)).min(values.len());
        let newest = values.iter().skip(values.len() - shown).copied();
        let curve = Sparkline::default().data(newest.collect::<Vec<_>>()).style(color);
        frame.render_widget(curve.block(framed(&title)), area);
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
        assert!(shown(160, 40, None).contains("/srv/data/busy"));
        assert!(shown(100, 40, Some("no server runs")).contains("not up to date: no server runs"));
    }

    #[test]
    fn names_do_not_steer_the_terminal() {
        let screen = shown(100, 40, None);
        assert!(screen.contains("\\u{1b}[2J\\u{202e}evil@R"), "{screen}");
        assert!(!screen.contains('\u{1b}') && !screen.contains('\u{202e}'));
    }

    #[test]
    fn a_small_terminal_shows_the_head_and_none_panics() {
        assert!(shown(80, 24, None).contains("serving"));
        for (width, height) in [(1, 1), (10, 3), (40, 10), (360, 100)] {
            shown(width, height, Some("x"));
        }
    }
}
