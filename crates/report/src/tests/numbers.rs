//! Numbers that every page has: the table of all figures, the marks and bars of its charts, its
//! limits. Each is held against the JSON.

use super::shows::{figures, shows};
use serde_json::Value;

/// The cases of a record.
pub(super) fn cases(json: &Value) -> impl Iterator<Item = &Value> {
    json["cases"].as_array().unwrap().iter()
}

/// A figure of a case: its median.
pub(super) fn median(case: &Value, figure: &str) -> Option<f64> {
    case["figures"][figure]["median"].as_f64()
}

/// The part of the baseline's rate.
pub(super) fn ratio(case: &Value) -> Option<f64> {
    case["figures"]["against"]["ratio"]["median"].as_f64()
}

/// Whether a case shows a difference to the baseline.
pub(super) fn differs(case: &Value) -> bool {
    matches!(case["figures"]["against"]["verdict"].as_str(), Some("lower" | "higher"))
}

/// Finds a case by its group and variant.
pub(super) fn find<'a>(json: &'a Value, group: &str, variant: &str) -> Option<&'a Value> {
    cases(json).find(|case| case["group"] == group && case["side"] == variant)
}

/// The variants that were measured, in their order.
pub(super) fn variants(json: &Value) -> Vec<&str> {
    let variants =
        json["settings"]["sides"].as_array().unwrap().iter().map(|variant| variant.as_str().unwrap());
    variants
        .filter(|variant| cases(json).any(|case| case["side"] == *variant && !case["figures"].is_null()))
        .collect()
}

fn number(text: &Value) -> f64 {
    text.as_str().unwrap_or_else(|| panic!("no figure: {text}")).parse().unwrap()
}

/// Every cell of the table of all figures, and every dot in it.
pub(super) fn all_figures(json: &Value, page: &Value) {
    let rows = page["cases"].as_array().unwrap();
    assert_eq!(rows.len(), cases(json).filter(|case| !case["figures"].is_null()).count());
    for row in rows {
        let (group, variant) = (row["group"].as_str().unwrap(), row["side"].as_str().unwrap());
        let case = find(json, group, variant).unwrap();
        let what = format!("{group} · {variant}");
        let cell = |at: usize| row["cells"][at].as_str().unwrap();
        assert_eq!(cell(0), variant);
        let rate = &case["figures"]["rate"];
        let [middle, low, high] = ["median", "low", "high"].map(|end| rate[end].as_f64().unwrap());
        shows(cell(1), &[middle], &what);
        shows(cell(2), &[(high - low) / 2.0 / middle], &what);
        match ratio(case) {
            Some(part) => {
                shows(cell(3), &[part], &what);
                assert_eq!(!cell(3).contains('≈'), differs(case), "{what}: {}", cell(3));
                let interval = &case["figures"]["against"]["ratio"];
                let found = figures(cell(4));
                // The unit stands behind the second end only.
                let [low, high] = ["low", "high"].map(|end| interval[end].as_f64().unwrap());
                shows(&cell(4).replacen(" to", "% to", 1), &[low, high], &what);
                assert_eq!(found.len(), 2);
            }
            None => assert_eq!((cell(3), cell(4)), ("–", ""), "{what}"),
        }
        for (at, figure, none) in [
            (5, "p50_us", "–"),
            (6, "p99_us", "–"),
            (7, "client_cpu", "unknown"),
            (8, "server_cpu", "unknown"),
        ] {
            match median(case, figure) {
                // Time for a unit of work is written with the unit that it is counted in.
                Some(value) if at > 6 => shows(cell(at).rsplit_once(' ').unwrap().0, &[value], &what),
                Some(value) => shows(cell(at), &[value], &what),
                None => assert_eq!(cell(at), none, "{what}"),
            }
        }
        let samples = case["samples"].as_array().unwrap().iter();
        let counted = samples.filter(|sample| sample["warm_up"] != true);
        let micros: f64 = counted.map(|sample| sample["seconds"].as_f64().unwrap() * 1e6).sum();
        shows(cell(9), &[micros], &what);
        dots(case, row, &what);
    }
}

/// A dot for each repetition, a ring for each warm-up, as high as its rate.
fn dots(case: &Value, row: &Value, what: &str) {
    let rate = |sample: &Value| {
        let work = if case["unit"] == "IOPS" { "operations" } else { "bytes" };
        sample[work].as_f64().unwrap() / sample["seconds"].as_f64().unwrap()
    };
    let samples = case["samples"].as_array().unwrap();
    let most = samples.iter().map(rate).fold(0.0, f64::max);
    let drawn = row["dots"].as_array().unwrap();
    assert_eq!(drawn.len(), samples.len(), "{what}");
    for (dot, sample) in drawn.iter().zip(samples) {
        assert_eq!(dot[0] == "open", sample["warm_up"] == true, "{what}");
        let height = (17.0 - dot[1].as_f64().unwrap()) / 14.0;
        assert!((height - rate(sample) / most).abs() < 0.01, "{what}: {dot} for {sample}");
    }
}

/// Every mark of the lines is an interval of the JSON and stands where the axis says; `expected`
/// has group, variant and figure of each.
pub(super) fn marks(page: &Value, expected: Vec<(&Value, &str)>) {
    let mut expected: Vec<String> = expected
        .into_iter()
        .filter(|(case, figure)| median(case, figure).is_some())
        .map(|(case, figure)| {
            let end = |name: &str| case["figures"][figure][name].as_f64().unwrap();
            format!("{} {} {} {}", case["side"].as_str().unwrap(), end("median"), end("low"), end("high"))
        })
        .collect();
    let mut found = Vec::new();
    for chart in page["charts"].as_array().unwrap() {
        let scale = |ticks: &str| -> Vec<(f64, f64)> {
            let ticks = chart[ticks].as_array().unwrap().iter();
            ticks
                .map(|tick| (figures(tick[0].as_str().unwrap())[0].value(), tick[1].as_f64().unwrap()))
                .collect()
        };
        let (x, y) = (scale("xticks"), scale("yticks"));
        for mark in chart["marks"].as_array().unwrap() {
            let [low, high] = ["low", "high"].map(|end| number(&mark[end]));
            let (across, up) = (number(&mark["x"]), number(&mark["y"]));
            found.push(format!("{} {up} {low} {high}", mark["side"].as_str().unwrap()));
            let at = |index: usize| mark["at"][index].as_f64().unwrap();
            for (value, place, ticks) in [(across, at(0), &x), (up, at(1), &y)] {
                let wanted = between(ticks, value);
                assert!(
                    (wanted - place).abs() < 3.0,
                    "{}: {value} is at {place}, not {wanted}: {ticks:?}",
                    chart["title"]
                );
            }
        }
        // Upright limits have no axis with figures.
        let level = chart["limits"].as_array().unwrap().iter().filter(|_| chart["kind"] == "lines");
        for limit in level {
            let (value, place) = (number(&limit[0]), limit[1].as_f64().unwrap());
            assert!((between(&y, value) - place).abs() < 3.0, "{}: limit {limit} at {y:?}", chart["title"]);
        }
    }
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
}

/// Where a value is between two ticks of an axis, linear or logarithmic: three ticks tell which.
fn between(ticks: &[(f64, f64)], value: f64) -> f64 {
    let (first, last) = (ticks[0], ticks[ticks.len() - 1]);
    let linear = |value: f64| first.1 + (value - first.0) / (last.0 - first.0) * (last.1 - first.1);
    let logarithmic =
        |value: f64| first.1 + (value / first.0).ln() / (last.0 / first.0).ln() * (last.1 - first.1);
    let middle = ticks[ticks.len() / 2];
    let is_linear =
        first.0 <= 0.0 || (linear(middle.0) - middle.1).abs() < (logarithmic(middle.0) - middle.1).abs();
    if is_linear { linear(value) } else { logarithmic(value) }
}

/// Every bar is a figure of the JSON, and the text behind it is that figure.
pub(super) fn bars(json: &Value, page: &Value) {
    let variant_has = |variant: &str, value: f64, figures: &[&str]| {
        cases(json)
            .filter(|case| case["side"] == variant)
            .any(|case| figures.iter().any(|figure| median(case, figure) == Some(value)))
    };
    for chart in page["charts"].as_array().unwrap().iter().filter(|chart| chart["kind"] == "bars") {
        let title = &chart["title"];
        // Where a case has failed there is no bar, and words instead of a figure.
        let figure = |said: &&Value| !said.as_str().unwrap().starts_with("no answer in ");
        let figures = |name: &str| chart[name].as_array().unwrap().iter().filter(figure).collect::<Vec<_>>();
        let [values, faints] = ["values", "faints"].map(figures);
        let rows: Vec<&Value> = chart["bars"].as_array().unwrap().iter().collect();
        let first: Vec<&&Value> = rows.iter().filter(|bar| bar["client"] == false).collect();
        let client: Vec<&&Value> = rows.iter().filter(|bar| bar["client"] == true).collect();
        for (bar, said) in first.iter().zip(values) {
            let value = number(&bar["value"]);
            assert!(
                variant_has(bar["side"].as_str().unwrap(), value, &["rate", "server_cpu"]),
                "{title}: {bar}"
            );
            shows(said.as_str().unwrap().trim_end_matches("/op").trim_end_matches("s/GB"), &[value], "bar");
        }
        assert!(client.is_empty() || client.len() == faints.len(), "{title}");
        for (bar, said) in client.iter().zip(faints) {
            let value = number(&bar["value"]);
            assert!(variant_has(bar["side"].as_str().unwrap(), value, &["client_cpu"]), "{title}: {bar}");
            shows(said.as_str().unwrap().trim_end_matches("/op").trim_end_matches("s/GB"), &[value], "bar");
        }
        longer(
            rows.iter().map(|bar| (number(&bar["value"]), bar["width"].as_f64().unwrap())),
            &title.to_string(),
        );
    }
}

/// Bars are as long as their values say.
fn longer(bars: impl Iterator<Item = (f64, f64)>, what: &str) {
    let bars: Vec<(f64, f64)> = bars.collect();
    let most = bars.iter().copied().max_by(|one, other| one.0.total_cmp(&other.0)).unwrap();
    for (value, width) in bars {
        assert!(
            (width / most.1 - value / most.0).abs() < 0.02,
            "{what}: {value} is {width} wide beside {most:?}"
        );
    }
}

/// Every ratio to the baseline is the one in `expected`, in its order; so is the text behind it.
pub(super) fn parts(page: &Value, title: &str, expected: &[(String, f64, bool)]) {
    let chart = page["charts"].as_array().unwrap().iter().find(|chart| chart["title"] == title);
    let chart = chart.unwrap_or_else(|| panic!("no chart {title}"));
    let bars = chart["bars"].as_array().unwrap();
    assert_eq!(bars.len(), expected.len(), "{title}");
    let values = chart["values"].as_array().unwrap();
    for ((bar, said), (variant, value, differs)) in bars.iter().zip(values).zip(expected) {
        assert_eq!(bar["side"], variant.as_str(), "{title}");
        assert!((number(&bar["value"]) - value).abs() < 1e-9, "{title}: {bar} is not {value}");
        assert_eq!(
            (bar["unsure"] == false, !said.as_str().unwrap().contains('≈')),
            (*differs, *differs),
            "{title}: {bar}"
        );
        shows(said.as_str().unwrap(), &[*value], title);
    }
    // On a logarithmic axis lengths are ratios.
    if expected.iter().all(|(_, value, _)| *value <= 2.0) {
        longer(bars.iter().map(|bar| (number(&bar["value"]), bar["width"].as_f64().unwrap())), title);
    }
}

/// The table of limits, and each limit of the run's own in every chart of its unit: as a line, or
/// below it.
pub(super) fn limits(json: &Value, page: &Value) {
    let table = table(page, "How far this machine could go");
    let limits = json["limits"].as_array().unwrap();
    assert_eq!(table.len(), limits.len());
    for (row, limit) in table.iter().zip(limits) {
        assert_eq!(row[0], limit["name"].as_str().unwrap());
        shows(
            row[1].trim_end_matches("MB/s").trim_end_matches("µs"),
            &[limit["value"].as_f64().unwrap()],
            &row[0],
        );
    }
    for chart in page["charts"].as_array().unwrap() {
        let kind = chart["kind"].as_str().unwrap();
        // Operations without a size have no limit; neither have processor time and ratios.
        let said = chart["caption"].as_str().unwrap();
        let names: Vec<&str> =
            chart["limit_names"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let values = chart["limits"].as_array().unwrap();
        assert_eq!(names.len(), values.len());
        for (name, limit) in names.iter().zip(values) {
            shows(name, &[number(&limit[0])], "a limit");
        }
        let names_it = |name: &str| names.iter().any(|drawn| drawn.contains(name)) || said.contains(name);
        let of_bytes =
            ["memory copy", "loopback", "one core seals", "one core opens"].into_iter().all(names_it);
        let limited = of_bytes || names_it("round trip");
        let needs = kind == "lines"
            || kind == "spans"
            || kind == "bars"
                && chart["faints"].as_array().is_some_and(|said| {
                    chart["values"][0].as_str().is_some_and(|first| first.ends_with("MB/s"))
                        && !said.is_empty()
                });
        assert!(limited || !needs, "{chart:#}");
    }
}

/// The rows of a table, each with its name first.
pub(super) fn table(page: &Value, title: &str) -> Vec<Vec<String>> {
    let table = page["tables"].as_array().unwrap().iter().find(|table| table["title"] == title);
    let table = table.unwrap_or_else(|| panic!("no table {title}"));
    let rows =
        table["rows"].as_array().unwrap().iter().map(|row| {
            row.as_array().unwrap().iter().map(|cell| cell.as_str().unwrap().to_owned()).collect()
        });
    rows.collect()
}
