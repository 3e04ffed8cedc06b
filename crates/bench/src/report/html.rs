//! One self-contained page: headline, charts, the table, the machine, the command to repeat it.

use super::overview::{Figure, mark, overview};
use super::{chart, format, headline};
use crate::{Flavor, Report, Series, Spread, Workload};
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");

/// A section: a chart over all workloads, then one for each workload.
struct Part {
    title: &'static str,
    how: &'static str,
    overview: &'static str,
    figure: Figure,
    chart: fn(&[&Series]) -> String,
}

const PARTS: [Part; 3] = [
    Part {
        title: "Speed",
        how: "Longer is better. The percentage is the part of <em>sys</em> that remains, from rounds that ran side by side; \
              the whisker spans all repetitions.",
        overview: "All workloads, speed as a part of sys",
        figure: |series| series.summary.ratio_to_sys.map(|ratio| ratio.median),
        chart: chart::rates,
    },
    Part {
        title: "Latency",
        how: "Further left is better. The filled mark is the median, the open one the 99th percentile; each chart of a \
              workload has its own logarithmic scale.",
        overview: "All workloads, median latency as a part of sys",
        figure: |series| Some(series.summary.p50_us.median),
        chart: chart::latencies,
    },
    Part {
        title: "Processor time",
        how: "Shorter is better. The coloured part is the server\u{2019}s, the outlined part the client\u{2019}s.",
        overview: "All workloads, processor time of both ends as a part of sys",
        figure: |series| {
            let summary = &series.summary;
            Some(summary.client_cpu.median + summary.server_cpu.map_or(0.0, |cpu| cpu.median))
        },
        chart: chart::processor_time,
    },
];

/// Renders the page. It asks nothing of any network and needs no script.
pub fn html(report: &Report) -> String {
    let title = escape(&headline(report));
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>What Kerberos costs</title><style>{STYLE}</style></head><body><main>\n"
    );
    header(&mut out, report, &title);
    for part in &PARTS {
        section(&mut out, report, part);
    }
    figures(&mut out, report);
    environment(&mut out, report);
    out.push_str("</main></body></html>\n");
    out
}

fn header(out: &mut String, report: &Report, headline: &str) {
    let _ = write!(
        out,
        "<header><p class=\"kicker\">What Kerberos costs on {}</p><h1>{headline}</h1>",
        escape(&report.target)
    );
    if !report.complete {
        let why = report.stopped_by.as_deref().unwrap_or("it was interrupted");
        let _ = write!(out, "<p class=\"warning\">This run is not complete: {}.</p>", escape(why));
    }
    for missing in &report.left_out {
        let (name, reason) = (missing.flavor.name(), escape(&missing.reason));
        let _ = write!(out, "<p class=\"warning\">{name} was not measured: {reason}.</p>");
    }
    out.push_str("<ul class=\"key\">");
    for flavor in Flavor::ALL.into_iter().filter(|flavor| report.has(*flavor)) {
        let _ = write!(
            out,
            "<li><svg class=\"sign\" viewBox=\"-8 -8 16 16\" aria-hidden=\"true\">{}</svg><b>{}</b> {}</li>",
            mark(flavor),
            flavor.name(),
            meaning(flavor)
        );
    }
    out.push_str("</ul></header>\n");
}

fn meaning(flavor: Flavor) -> &'static str {
    match flavor {
        Flavor::Sys => "trusts the client's word",
        Flavor::Krb5 => "proves who calls",
        Flavor::Krb5i => "proves it, and that nothing was changed",
        Flavor::Krb5p => "proves it and encrypts everything",
    }
}

fn section(out: &mut String, report: &Report, part: &Part) {
    let _ =
        write!(out, "<section><h2>{}</h2><p class=\"how\">{}</p><div class=\"cards\">", part.title, part.how);
    let rows = overview(report, part.figure);
    if !rows.is_empty() {
        let _ = write!(
            out,
            "<figure class=\"overview\"><figcaption>{}</figcaption>{rows}</figure>",
            part.overview
        );
    }
    for workload in Workload::ALL {
        let series = of(report, workload);
        if !series.is_empty() {
            let _ = write!(
                out,
                "<figure><figcaption>{}</figcaption>{}</figure>",
                workload.title(),
                (part.chart)(&series)
            );
        }
    }
    out.push_str("</div></section>\n");
}

fn of(report: &Report, workload: Workload) -> Vec<&Series> {
    report.series.iter().filter(|series| series.workload == workload).collect()
}

fn figures(out: &mut String, report: &Report) {
    out.push_str(
        "<section><h2>All figures</h2><div class=\"scroll\"><table><thead><tr><th>Workload</th><th>Flavor</th><th>Rate</th>\
         <th>Spread</th><th>To sys</th><th>p50</th><th>p99</th><th>Client CPU</th><th>Server CPU</th></tr></thead><tbody>\n",
    );
    for series in &report.series {
        figure(out, series);
    }
    out.push_str("</tbody></table></div></section>\n");
}

/// Writes a row; the exact medians stand in `data-` attributes, so that a page can be held against its JSON.
fn figure(out: &mut String, series: &Series) {
    let (summary, unit) = (&series.summary, format::cpu_unit(series.unit));
    let first = if series.flavor == Flavor::Sys { " class=\"first\"" } else { "" };
    let cpu = |spread: Spread| {
        format!("{} {unit} <small>{}</small>", format::digits(spread.median), format::spread(&spread))
    };
    let _ = writeln!(
        out,
        "<tr{first} data-workload=\"{:?}\" data-flavor=\"{}\" data-rate=\"{}\" data-p50=\"{}\" data-p99=\"{}\"><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
        series.workload,
        series.flavor.name(),
        summary.rate.median,
        summary.p50_us.median,
        summary.p99_us.median,
        series.workload.title(),
        series.flavor.name(),
        format::rate(summary.rate.median, series.unit),
        format::spread(&summary.rate),
        summary.ratio_to_sys.map_or("–".into(), |ratio| format::percent(ratio.median)),
        format::latency(summary.p50_us.median),
        format::latency(summary.p99_us.median),
        cpu(summary.client_cpu),
        summary.server_cpu.map_or("unknown".into(), cpu),
    );
}

fn environment(out: &mut String, report: &Report) {
    let machine = &report.environment;
    let plan = &report.plan;
    let facts = [
        ("Server", report.target.clone()),
        ("Processor", format!("{}, {} cores", machine.processor, machine.cores)),
        ("Instructions", machine.instructions.join(", ")),
        ("Memory", format!("{:.0} GiB", machine.memory_bytes as f64 / (1u64 << 30) as f64)),
        ("Kernel", machine.kernel.clone()),
        ("Encryption type", machine.enctype.clone().unwrap_or_else(|| "unknown".into())),
        ("Program", machine.program.clone()),
        (
            "Plan",
            format!(
                "{} rounds of {} s for each pair, interleaved, after a warm-up; a file of {} MiB, {} connection(s)",
                plan.rounds,
                plan.seconds,
                plan.file_size >> 20,
                plan.connections
            ),
        ),
        (
            "Method",
            "every byte that is read is compared with what was written; writes need not be stable until the COMMIT \
             at the end of each repetition, which counts; figures are medians of the rounds, \u{b1} half of their range"
                .to_owned(),
        ),
        ("Started", crate::view::form::utc(report.started_at)),
    ];
    out.push_str("<section><h2>Where and how</h2><dl>");
    for (name, value) in facts {
        let _ = write!(out, "<dt>{name}</dt><dd>{}</dd>", escape(&value));
    }
    let _ = writeln!(
        out,
        "</dl><p class=\"how\">Repeat it with</p><pre>{}</pre></section>",
        escape(&report.command)
    );
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
