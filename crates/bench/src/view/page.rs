//! One self-contained page: headline, tables, charts, all figures, the machine, the command to repeat it. It needs no script and
//! no network.

use super::chart::{Chart, Plot, Point};
use super::facts::facts;
use super::form::{digits, escape};
use super::{Kind, Table, View, bars, figures, limits_table, lines, noise_sentence, parts, side, spans};
use crate::measuring::{CaseRecord, Record, Sample};
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");

/// Renders the page.
pub fn page(record: &Record, view: &View) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{}</title><style>{STYLE}</style></head><body><main>\n",
        escape(&record.title)
    );
    header(&mut out, record, view);
    // All figures have a table of their own below.
    for one in view.tables.iter().filter(|table| table.title != figures::ALL) {
        table(&mut out, one);
    }
    charts(&mut out, &view.charts);
    notes(&mut out, record);
    all_figures(&mut out, record);
    if let Some(limits) = limits_table(record) {
        table(&mut out, &limits);
    }
    environment(&mut out, record);
    out + "</main></body></html>\n"
}

fn header(out: &mut String, record: &Record, view: &View) {
    let (title, target) = (escape(&record.title), escape(&record.target));
    let _ =
        write!(out, "<header><p class=\"kicker\">{title} · {target}</p><h1>{}</h1>", escape(&view.headline));
    if !record.complete {
        let why = record.stopped_by.as_deref().unwrap_or("it was interrupted");
        let _ = write!(out, "<p class=\"warning\">This run is not complete: {}.</p>", escape(why));
    }
    for sentence in record.left_out_sentences() {
        let _ = write!(out, "<p class=\"warning\">{}</p>", escape(&sentence));
    }
    let _ = write!(out, "<p class=\"note\">{}</p><ul class=\"key\">", escape(&noise_sentence(record)));
    for name in record.sides() {
        let _ = write!(
            out,
            "<li><svg class=\"sign\" viewBox=\"-6 -6 12 12\" aria-hidden=\"true\">{}</svg><b>{}</b> {}</li>",
            side::mark(name, 0.0, 0.0),
            escape(name),
            side::meaning(name)
        );
    }
    out.push_str("</ul></header>\n");
}

fn notes(out: &mut String, record: &Record) {
    if record.notes.is_empty() {
        return;
    }
    out.push_str("<section><h2>What to know of this run</h2>");
    for note in &record.notes {
        let _ = write!(out, "<p class=\"note\">{}</p>", escape(note));
    }
    out.push_str("</section>\n");
}

fn table(out: &mut String, table: &Table) {
    let _ = write!(out, "<section><h2>{}</h2>", escape(&table.title));
    if !table.how.is_empty() {
        let _ = write!(out, "<p class=\"how\">{}</p>", escape(&table.how));
    }
    out.push_str("<div class=\"scroll\"><table class=\"plain\"><thead><tr>");
    for column in &table.columns {
        let _ = write!(out, "<th>{}</th>", escape(column));
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in &table.rows {
        if row.kind == Kind::Head {
            let (columns, name) = (table.columns.len(), escape(&row.name));
            let _ = writeln!(out, "<tr class=\"head\"><td colspan=\"{columns}\">{name}</td></tr>");
            continue;
        }
        let (class, published) = match row.kind {
            Kind::Measured | Kind::Head => ("", ""),
            Kind::Published => (" class=\"published\"", " <small>published</small>"),
        };
        let _ = write!(out, "<tr{class}><td>{}{published}</td>", escape(&row.name));
        for cell in &row.cells {
            let _ = write!(out, "<td>{}</td>", escape(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div></section>\n");
}

fn charts(out: &mut String, charts: &[Chart]) {
    for section in charts.chunk_by(|one, other| one.section == other.section) {
        let title = section.first().map_or("", |chart| &chart.section);
        let mut said: Vec<&str> = section.iter().map(|chart| how(&chart.plot)).collect();
        said.dedup();
        let _ = write!(
            out,
            "<section><h2>{}</h2><p class=\"how\">{}</p><div class=\"cards\">",
            escape(title),
            escape(&said.join(" "))
        );
        for chart in section {
            let (class, drawn) = match &chart.plot {
                Plot::Lines(plot) => ("", lines::draw(plot, &chart.title)),
                Plot::Bars(plot) => ("", bars::draw(plot, &chart.title)),
                Plot::Parts(plot) => (" class=\"overview\"", parts::draw(plot)),
                Plot::Spans(plot) => ("", spans::draw(plot, &chart.title)),
            };
            let title = escape(&chart.title);
            let _ = write!(out, "<figure{class}><figcaption>{title}</figcaption>{drawn}</figure>");
        }
        out.push_str("</div></section>\n");
    }
}

fn how(plot: &Plot) -> &str {
    match plot {
        Plot::Parts(plot) => &plot.how,
        Plot::Spans(_) => {
            "The filled mark is the median, the open one the 99th percentile; each chart of a load has its own logarithmic scale."
        }
        Plot::Lines(plot) if plot.lines.iter().flat_map(|line| &line.points).any(Point::has_failed) => {
            "Marks are medians; the whisker is their interval. Each side has its own mark, its own dashes, and its name at the end of its line. \
             A cross at the bottom: the side has failed there; the reason stands in the table of all figures."
        }
        Plot::Lines(_) => {
            "Marks are medians; the whisker is their interval. Each side has its own mark, its own dashes, and its name at the end of its line."
        }
        Plot::Bars(plot) if plot.parts.iter().all(|part| !part.is_empty()) => {
            "Shorter is better. The filled part is the server\u{2019}s, the outlined part the client\u{2019}s."
        }
        Plot::Bars(_) => "Longer is better; the whisker is the interval of the median.",
    }
}

fn all_figures(out: &mut String, record: &Record) {
    out.push_str(
        "<section><h2>All figures</h2><p class=\"how\">The dots are all repetitions in their order, on a scale from zero; hollow ones are the warm-up, \
         which does not count.</p><div class=\"scroll\"><table><thead><tr><th>Case</th><th>Side</th><th>Rate</th><th></th><th>To baseline</th>\
         <th></th><th>p50</th><th>p99</th><th>Client CPU</th><th>Server CPU</th><th>Repetitions</th></tr></thead><tbody>\n",
    );
    let mut group = "";
    for one in &record.cases {
        let Some(cells) = figures::cells_or_reason(record, one) else { continue };
        let first = if one.case.group == group { "" } else { " class=\"first\"" };
        group = &one.case.group;
        let _ = write!(
            out,
            "<tr{first}{}><td>{}</td><td>{}</td>",
            exact(one),
            escape(group),
            escape(&one.case.side)
        );
        for cell in &cells {
            let _ = write!(out, "<td>{}</td>", escape(cell));
        }
        let _ = writeln!(out, "<td>{}</td></tr>", dots(one));
    }
    out.push_str("</tbody></table></div></section>\n");
}

/// The exact medians, so that a page can be held against its JSON.
fn exact(one: &CaseRecord) -> String {
    let Some(figures) = &one.figures else { return String::new() };
    let p50 = figures.p50_us.map_or(String::new(), |interval| interval.median.to_string());
    let p99 = figures.p99_us.map_or(String::new(), |interval| interval.median.to_string());
    format!(
        " data-group=\"{}\" data-side=\"{}\" data-rate=\"{}\" data-p50=\"{p50}\" data-p99=\"{p99}\"",
        escape(&one.case.group),
        escape(&one.case.side),
        figures.rate.median
    )
}

/// All samples of a case, so that warm-up and outliers are seen.
fn dots(one: &CaseRecord) -> String {
    let rate = |sample: &Sample| sample.rate(one.case.unit);
    let most = one.samples.iter().map(rate).fold(f64::MIN_POSITIVE, f64::max);
    let width = 8 * one.samples.len() + 4;
    let mut out = format!(
        "<svg class=\"dots\" width=\"{width}\" height=\"20\" role=\"img\" aria-label=\"all repetitions\">"
    );
    for (index, sample) in one.samples.iter().enumerate() {
        let class = if sample.warm_up { "open" } else { side::class(&one.case.side) };
        let (x, y) = (6 + 8 * index, 17.0 - 14.0 * rate(sample) / most);
        let said = digits(rate(sample));
        let _ = write!(
            out,
            "<circle class=\"{class}\" cx=\"{x}\" cy=\"{y:.1}\" r=\"2.6\"><title>{said}</title></circle>"
        );
    }
    out + "</svg>"
}

fn environment(out: &mut String, record: &Record) {
    out.push_str("<section><h2>Where and how</h2><dl>");
    for (name, value) in facts(record) {
        let _ = write!(out, "<dt>{name}</dt><dd>{}</dd>", escape(&value));
    }
    let _ = writeln!(
        out,
        "</dl><p class=\"how\">Repeat it with</p><pre>{}</pre></section>",
        escape(&record.command)
    );
}
