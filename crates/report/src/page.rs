//! One self-contained page: headline, the key chart, tables, charts, all figures, the machine, the
//! command to repeat it. It needs no script and no network.

use super::chart::{Chart, Plot, Point};
use super::facts::facts;
use super::form::{escape, unbroken};
use super::html::{self, Section};
use super::svg::Drawn;
use super::{
    PageView, Table, bars, figures, limits_table, lines, noise_sentence, parts, ratios, samples,
    server_stages, share, spans, stacks, variant, warnings,
};
use bench::measuring::Record;
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");

/// Renders the page of a run.
pub fn page(record: &Record, view: &PageView) -> String {
    let mut out = head(&record.title);
    header(&mut out, record, view);
    body(&mut out, view);
    notes(&mut out, record);
    samples::table(&mut out, record);
    if let Some(limits) = limits_table(record) {
        html::table(&mut out, &limits);
    }
    environment(&mut out, record);
    out + "</main></body></html>\n"
}

/// Writes the head of a page.
pub(crate) fn head(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{}</title><style>{STYLE}</style></head><body><main>\n",
        escape(title)
    )
}

/// Writes a view: the charts of the first section, the tables, the other charts. The table of the
/// server's stages stands below its charts, which are the last.
pub(crate) fn body(out: &mut String, view: &PageView) {
    let first = view.charts.first().map(|chart| chart.section.as_str());
    let rest = view.charts.iter().position(|chart| Some(chart.section.as_str()) != first);
    let (lead, others) = view.charts.split_at(rest.unwrap_or(view.charts.len()));
    charts(out, lead);
    let (stages, tables): (Vec<&Table>, Vec<&Table>) =
        view.tables.iter().partition(|table| table.title == server_stages::TABLE);
    // All figures have a table of their own below.
    tables.iter().filter(|table| table.title != figures::ALL).for_each(|table| html::table(out, table));
    charts(out, others);
    stages.iter().for_each(|table| html::table(out, table));
}

fn header(out: &mut String, record: &Record, view: &PageView) {
    let (title, target) = (escape(&record.title), escape(&record.target));
    let _ = write!(
        out,
        "<header><p class=\"kicker\">{title} · {target}</p><h1>{}</h1>",
        escape(&unbroken(&view.headline))
    );
    if let Some(share) = share(record) {
        let _ = write!(out, "<p class=\"note\">{}</p>", escape(&share));
    }
    for sentence in warnings(record) {
        let _ = write!(out, "<p class=\"warning\">{}</p>", escape(&sentence));
    }
    key(out, &record.variants());
    out.push_str("</header>\n");
}

/// Writes the legend of all charts.
pub(crate) fn key(out: &mut String, variants: &[&str]) {
    out.push_str("<ul class=\"key\">");
    for name in variants {
        let _ = write!(
            out,
            "<li><svg class=\"sign\" viewBox=\"-6 -6 12 12\" aria-hidden=\"true\">{}</svg><b>{}</b> {}</li>",
            variant::mark(name, 0.0, 0.0),
            escape(name),
            variant::meaning(name)
        );
    }
    out.push_str("<li><b>≈</b> and hollow: no difference is shown, or one below the noise</li></ul>");
}

fn notes(out: &mut String, record: &Record) {
    let section = Section::begin(out, "What to know of this run", "");
    out.push_str("<ul class=\"notes\">");
    for note in record.notes.iter().chain([&noise_sentence(record)]) {
        let _ = write!(out, "<li>{}</li>", escape(note));
    }
    out.push_str("</ul>");
    section.end(out);
}

/// Writes charts, grouped by section.
fn charts(out: &mut String, charts: &[Chart]) {
    for section in charts.chunk_by(|one, other| one.section == other.section) {
        let mut said: Vec<&str> = Vec::new();
        for sentence in section.iter().flat_map(|chart| how(&chart.plot)) {
            if !said.contains(&sentence) {
                said.push(sentence);
            }
        }
        let title = section.first().map_or("", |chart| &chart.section);
        let begun = Section::begin(out, title, &said.join(" "));
        out.push_str("<div class=\"cards\">");
        section.iter().for_each(|chart| card(out, chart));
        out.push_str("</div>");
        begun.end(out);
    }
}

fn card(out: &mut String, chart: &Chart) {
    // The overview of all loads is as wide as the page.
    let class = if matches!(chart.plot, Plot::LoadParts(_)) { " class=\"overview\"" } else { "" };
    let plain = |svg| Drawn { svg, caption: Vec::new() };
    let drawn = match &chart.plot {
        Plot::Lines(plot) => lines::draw(plot, &chart.title),
        Plot::Bars(plot) => bars::draw(plot, &chart.title),
        Plot::LoadParts(plot) => plain(parts::draw(plot)),
        Plot::Spans(plot) => spans::draw(plot, &chart.title),
        Plot::Ratios(plot) => plain(ratios::draw(plot, &chart.title)),
        Plot::Stacks(plot) => plain(stacks::draw(plot, &chart.title)),
    };
    let (svg, caption) = (drawn.svg, drawn.caption.join(" "));
    let _ = write!(out, "<figure{class}><figcaption>{}</figcaption>{svg}", escape(&chart.title));
    if !caption.is_empty() {
        let _ = write!(out, "<p class=\"caption\">{}</p>", escape(&caption));
    }
    out.push_str("</figure>\n");
}

/// Explains the marks that a chart contains.
fn how(plot: &Plot) -> Vec<&str> {
    let (mut said, mut limited) = (Vec::new(), false);
    match plot {
        Plot::LoadParts(_) => said.push("All loads: further left is better."),
        Plot::Spans(plot) => {
            said.push("The mark of a flavor is the median, the ring the 99th percentile; each chart of a load has its own logarithmic scale.");
            limited = !plot.limits.is_empty();
        }
        Plot::Lines(plot) => {
            said.push("Marks are medians with their intervals, small dots beside them all repetitions, rings those that only warmed up.");
            limited = !plot.limits.is_empty();
            if plot.lines.iter().flat_map(|line| &line.points).any(Point::has_failed) {
                said.push(
                    "A cross at the bottom marks a failed case; the table of all figures has the reason.",
                );
            }
        }
        Plot::Bars(plot) if plot.parts.iter().all(|part| !part.is_empty()) => {
            said.push("Shorter is better. The filled part is the server\u{2019}s, the light one the client\u{2019}s.");
        }
        Plot::Stacks(_) => said.push(stacks::HOW),
        Plot::Bars(plot) => {
            said.push("Longer is better; the whisker is the interval of the median.");
            limited = !plot.limits.is_empty();
        }
        Plot::Ratios(plot) => {
            let rows = || plot.groups.iter().flat_map(|group| &group.rows);
            said.push("Longer is better: bars are rates as parts of the baseline\u{2019}s, with their intervals. The band around the baseline is the noise of the machine.");
            if rows().any(|row| !row.parts.is_empty()) {
                said.push("Dots below a bar are what it was made of.");
            }
            if ratios::has_arrows(plot) {
                said.push("An arrow marks an interval that goes on beyond the chart.");
            }
            if rows().any(|row| row.published.is_some()) {
                said.push("An upright stroke is what others have published.");
            }
        }
    }
    if limited {
        said.push("Dashed lines with a figure are limits of this machine, measured in the same run.");
    }
    said
}

fn environment(out: &mut String, record: &Record) {
    let section = Section::begin(out, "Where and how", "");
    out.push_str("<dl>");
    for (name, value) in facts(record) {
        let _ = write!(out, "<dt>{name}</dt><dd>{}</dd>", escape(&value));
    }
    out.push_str("</dl>");
    section.end(out);
    let section = Section::begin(out, "Repeat it", "");
    let _ = write!(out, "<pre tabindex=\"0\">{}</pre>", escape(&record.command));
    section.end(out);
}
