//! `cargo xtask chart`: the chart of docs/results, drawn from a result of `cargo xtask bench krb5
//! --json`.

use anyhow::Context;
use serde_json::Value;
use std::fmt::Write;
use std::path::PathBuf;

/// The JSON result to draw, and the path of the picture.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The result of `cargo xtask bench krb5`.
    json: PathBuf,
    /// The picture to write.
    #[arg(default_value = "docs/results/krb5.svg")]
    svg: PathBuf,
}

/// The rows of the chart, with their labels.
const ROWS: [(&str, &str); 4] = [
    ("etype18 wrap 16x64KiB", "AES-256 SHA-1, encrypt"),
    ("etype18 unwrap 16x64KiB", "AES-256 SHA-1, decrypt"),
    ("etype20 wrap 16x64KiB", "AES-256 SHA-384, encrypt"),
    ("etype20 unwrap 16x64KiB", "AES-256 SHA-384, decrypt"),
];
/// The bars of a row: CSS class, field of the result, label.
const BARS: [(&str, &str, &str); 3] = [
    ("ours", "gb_per_s", "Orthrus"),
    ("one", "one_at_a_time_gb_per_s", "one message at a time (OpenSSL)"),
    ("mit", "mit_gb_per_s", "MIT"),
];

const WIDTH: f64 = 720.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 220.0;
const BAR: f64 = 16.0;
const GROUP: f64 = 66.0;
const HEAD: f64 = 40.0;
/// Colours that differ in lightness too, on a light and on a dark page.
const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-weight:600;font-size:15px}.note{fill:#59636e}\
    .ours{fill:#0b5cad}.one{fill:#8fb3d9}.mit{fill:#b9c0c8}\
    @media(prefers-color-scheme:dark){text{fill:#e6edf3}.note{fill:#9198a1}.ours{fill:#58a6ff}.one{fill:#2f5f95}.mit{fill:#4b5259}}";

/// Draws it.
///
/// # Errors
/// When the result cannot be read or lacks a row, or the picture cannot be written.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let json = std::fs::read(&arguments.json)
        .with_context(|| format!("{} cannot be read", arguments.json.display()))?;
    let result: Value = serde_json::from_slice(&json).context("the result is no JSON")?;
    let picture = draw(&result)?;
    std::fs::write(&arguments.svg, picture)
        .with_context(|| format!("{} cannot be written", arguments.svg.display()))
}

fn draw(result: &Value) -> anyhow::Result<String> {
    let rows = result["rows"].as_array().context("the result has no rows")?;
    let find =
        |name: &str| rows.iter().find(|row| row["row"] == name).with_context(|| format!("no row {name}"));
    let groups =
        ROWS.iter().map(|(name, title)| Ok((*title, find(name)?))).collect::<anyhow::Result<Vec<_>>>()?;
    let rates =
        groups.iter().flat_map(|(_, row)| BARS.iter().filter_map(|(_, field, _)| row[*field].as_f64()));
    let scale = (WIDTH - LEFT - RIGHT) / rates.fold(f64::MIN_POSITIVE, f64::max);
    let height = HEAD + GROUP * groups.len() as f64 + 20.0;
    let mut out = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="GB/s of one core by library"><style>{STYLE}</style>"#
    );
    text(&mut out, "title", 0.0, 18.0, "krb5p on one core: GB/s of 16 messages of 64 KiB");
    for (index, (title, row)) in groups.iter().enumerate() {
        group(&mut out, HEAD + GROUP * index as f64, title, row, scale);
    }
    let text_of = |field: &str| result[field].as_str().unwrap_or("unknown").to_owned();
    let date = text_of("date");
    let note =
        format!("cargo xtask bench krb5, {}, {}", date.split('T').next().unwrap_or_default(), text_of("cpu"));
    text(&mut out, "note", 0.0, height - 6.0, &note);
    out.push_str("</svg>\n");
    Ok(out)
}

fn group(out: &mut String, top: f64, title: &str, row: &Value, scale: f64) {
    text(out, "", 0.0, top + BAR * 1.5 + 5.0, title);
    for (index, (class, field, who)) in BARS.iter().enumerate() {
        let Some(rate) = row[*field].as_f64() else { continue };
        let (y, width) = (top + (BAR + 1.0) * index as f64, rate * scale);
        let _ = write!(
            out,
            r#"<rect class="{class}" x="{LEFT}" y="{y:.1}" width="{width:.1}" height="{BAR}" rx="2"/>"#
        );
        text(out, "", LEFT + width + 6.0, y + 12.5, &format!("{rate:.2} {who}"));
    }
}

fn text(out: &mut String, class: &str, x: f64, y: f64, content: &str) {
    let content = content.replace('&', "&amp;").replace('<', "&lt;");
    let _ = write!(out, r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{content}</text>"#);
}

#[cfg(test)]
mod tests {
    use super::{ROWS, draw};
    use serde_json::{Value, json};

    fn result() -> Value {
        let row = |name: &str| json!({"row": name, "gb_per_s": 4.0, "one_at_a_time_gb_per_s": 1.0, "mit_gb_per_s": 0.125});
        json!({"date": "2026-11-21T00:00:00Z", "cpu": "A & B", "rows": ROWS.map(|(name, _)| row(name))})
    }

    #[test]
    fn each_figure_is_written_beside_its_bar() {
        let picture = draw(&result()).expect("a picture");
        assert_eq!(picture.matches("<rect").count(), ROWS.len() * 3);
        assert_eq!(picture.matches("4.00 Orthrus").count(), ROWS.len());
        assert!(picture.contains("A &amp; B"));
    }

    #[test]
    fn a_result_without_a_row_is_refused() {
        let mut result = result();
        result["rows"].as_array_mut().expect("rows").pop();
        assert!(draw(&result).is_err());
    }
}
