//! The tables of `bench lanl`, reckoned anew from the JSON.

use super::numbers::{cases, differs, find, parts, ratio, table, variants};
use super::shows::shows;
use super::tables::{axis, mean};
use serde_json::Value;

/// Mean and half of Student's interval of four to ten values.
fn average(values: &[f64]) -> [f64; 2] {
    let t = [3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262][values.len() - 4];
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let count = values.len() as f64;
    [mean, t * (squares / (count - 1.0) / count).sqrt()]
}

/// `bench lanl`: its averages, its findings, and copies beside sys.
pub(super) fn lanl(json: &Value, page: &Value) {
    let counted = |case: &Value, value: &dyn Fn(&Value) -> f64| -> Vec<f64> {
        case["samples"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|sample| sample["warm_up"] != true)
            .map(value)
            .collect()
    };
    let seconds = |sample: &Value| sample["seconds"].as_f64().unwrap();
    let rate = |sample: &Value| sample["bytes"].as_f64().unwrap() / 1e6 / seconds(sample);
    let micros = |sample: &Value| seconds(sample) * 1e6;
    type Read<'a> = &'a dyn Fn(&Value) -> f64;
    let figures: [(&str, Read<'_>); 4] = [
        ("Average transfer rate by file size, MB/s", &rate),
        ("Average time to copy", &micros),
        ("Reading with cold and warm caches, MB/s", &rate),
        ("By encryption type", &micros),
    ];
    for (title, value) in figures {
        if !page["tables"].as_array().unwrap().iter().any(|table| table["title"] == title) {
            assert!(
                title.starts_with("By encryption")
                    && cases(json).all(|case| axis(case, "part") != "enctypes")
            );
            continue;
        }
        let head = page["tables"].as_array().unwrap().iter().find(|table| table["title"] == title).unwrap();
        let columns: Vec<&str> =
            head["head"][0].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        for line in table(page, title) {
            for (variant, cell) in columns[1..].iter().zip(&line[1..]) {
                match find(json, &line[0], variant) {
                    Some(case) => {
                        let expected = average(&counted(case, value));
                        // Both have the unit that stands at the end.
                        let unit = cell
                            .rsplit(' ')
                            .next()
                            .filter(|unit| !unit.contains(char::is_numeric))
                            .unwrap_or("");
                        shows(&cell.replace(" ±", &format!(" {unit} ±")), &expected, &line[0]);
                    }
                    None => assert_eq!(cell, "–"),
                }
            }
        }
    }
    for line in table(page, "CPU use by protocol, client / server") {
        for (variant, cell) in variants(json).iter().zip(&line[1..]) {
            let case = find(json, &line[0], variant).unwrap();
            let busy = |end: &'static str| {
                mean(&counted(case, &|sample| sample[end].as_f64().unwrap() / seconds(sample)))
            };
            shows(cell, &[busy("client_cpu_seconds"), busy("server_cpu_seconds")], &line[0]);
        }
    }
    let many = |case: &&Value| {
        ["small", "large"].iter().any(|part| axis(case, "part") == *part) && ratio(case).is_some()
    };
    let expected: Vec<(String, f64, bool)> = cases(json)
        .filter(many)
        .map(|case| (case["side"].as_str().unwrap().to_owned(), ratio(case).unwrap(), differs(case)))
        .collect();
    parts(page, "Copies of many files, beside sys", &expected);
    findings(json, page);
}

/// The statements of the paper that compare a variant with sys in one test have that ratio beside
/// them.
fn findings(json: &Value, page: &Value) {
    let rows = table(page, "What the authors found, and what was measured here");
    assert_eq!(rows.len(), 8);
    for (statement, column, part, variant) in [
        ("krb5 is about equal to sys", 3, "small", "krb5"),
        ("krb5 is about equal to sys", 4, "large", "krb5"),
        ("krb5i is equal to sys with small files", 3, "small", "krb5i"),
        ("krb5i is slower than sys with large files", 4, "large", "krb5i"),
        ("SCP is faster than NFS (sys) with large files", 4, "large", "scp"),
        ("SCP is slower than NFS (sys) with small files", 3, "small", "scp"),
    ] {
        let case = cases(json).find(|case| axis(case, "part") == part && case["side"] == variant).unwrap();
        let interval = &case["figures"]["against"]["ratio"];
        let [middle, low, high] = ["median", "low", "high"].map(|end| interval[end].as_f64().unwrap());
        let line = rows.iter().find(|line| line[0] == statement).unwrap();
        shows(&line[column].replacen(" to", "% to", 1), &[middle, low, high], statement);
    }
}
