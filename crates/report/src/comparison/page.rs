//! The page and the Markdown of two runs side by side, in the look of a run's own.

use super::Compared;
use crate::facts::facts;
use crate::form::{escape, utc};
use crate::html::{self, Section};
use crate::{PageView, Table, page, text};
use bench::measuring::Record;
use std::fmt::Write;
use terminal::escape_lines;

/// Names and values of both, side by side.
fn places(compared: &Compared, records: [&Record; 2]) -> Table {
    let [first, second] = &compared.runs;
    let mut table = Table::new("Where and how", "", &["", &first.name, &second.name]);
    let [one, other] = records.map(facts);
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in one.iter().chain(&other) {
        if !names.contains(name) {
            names.push(name);
        }
    }
    for name in names {
        table.measured(name, [&one, &other].map(|facts| fact(facts, name)).to_vec());
    }
    table
}

fn fact(facts: &[(&'static str, String)], name: &str) -> String {
    let found = facts.iter().find(|(same, _)| *same == name);
    found.map_or("–".to_owned(), |(_, value)| value.clone())
}

/// Tells the two servers apart: address and port as named in the command, program and date.
pub(super) fn identities(compared: &Compared, records: [&Record; 2]) -> [String; 2] {
    let [first, second] = &compared.runs;
    [(first, records[0]), (second, records[1])].map(|(run, record)| {
        format!(
            "{}: {}, measured by {} on {}",
            run.name,
            run.target,
            record.environment.program,
            utc(run.started_at)
        )
    })
}

/// Renders the page; `command` makes it again.
pub fn compared_page(compared: &Compared, records: [&Record; 2], command: &str) -> String {
    let view = compared.view(records);
    let [first, second] = &compared.runs;
    let title = format!("{} beside {}", second.name, first.name);
    let mut out = page::head(&title);
    let _ = write!(
        out,
        "<header><p class=\"kicker\">{} · {}</p><h1>{}</h1>",
        escape(&first.title),
        escape(&title),
        escape(&view.headline)
    );
    for line in identities(compared, records) {
        let _ = write!(out, "<p class=\"note\">{}</p>", escape(&line));
    }
    for note in &compared.notes {
        let _ = write!(out, "<p class=\"warning\">{}</p>", escape(note));
    }
    let mut variants: Vec<&str> = compared.cases.iter().map(|case| case.variant.as_str()).collect();
    variants.sort_by_key(|variant| records[0].settings.variants.iter().position(|one| one == variant));
    variants.dedup();
    page::key(&mut out, &variants);
    out.push_str("</header>\n");
    page::body(&mut out, &view);
    html::table(&mut out, &places(compared, records));
    let section = Section::begin(&mut out, "Repeat it", "");
    for line in [&first.command, &second.command, command] {
        let _ = write!(out, "<pre tabindex=\"0\">{}</pre>", escape(line));
    }
    section.end(&mut out);
    out + "</main></body></html>\n"
}

/// Renders it as Markdown.
pub fn compared_markdown(compared: &Compared, records: [&Record; 2], command: &str) -> String {
    let view: PageView = compared.view(records);
    let [first, second] = &compared.runs;
    let title = format!("# {} beside {}\n\n**{}**\n\n", second.name, first.name, view.headline);
    let mut out = escape_lines(&title);
    for line in identities(compared, records).iter().chain(&compared.notes) {
        let _ = writeln!(out, "- {}", terminal::escape(line));
    }
    view.tables
        .iter()
        .chain([&places(compared, records)])
        .for_each(|table| text::markdown_table(&mut out, table));
    let _ = writeln!(out, "\nRepeat it with:\n");
    for line in [&first.command, &second.command, command] {
        let _ = writeln!(out, "    {}", terminal::escape(line));
    }
    out
}
