//! The tables and the key charts of each evaluation, reckoned anew from the JSON.

use super::numbers::{cases, differs, find, median, parts, ratio, table, variants};
use super::shows::shows;
use serde_json::Value;

const FLAVORS: [&str; 3] = ["krb5", "krb5i", "krb5p"];

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

pub(super) fn axis<'a>(case: &'a Value, name: &str) -> &'a Value {
    &case["axes"][name]
}

/// Cases of a variant that have figures and these axes.
fn with<'a>(json: &'a Value, variant: &str, axes: &[(&str, Value)]) -> Vec<&'a Value> {
    let fits = |case: &&Value| {
        case["side"] == variant
            && !case["figures"].is_null()
            && axes.iter().all(|(name, value)| axis(case, name) == value)
    };
    cases(json).filter(fits).collect()
}

fn added(case: &Value) -> Option<f64> {
    case["figures"]["against"]["added_us"]["median"].as_f64()
}

fn counter(case: &Value, name: &str) -> f64 {
    let samples = case["samples"].as_array().unwrap().iter().filter(|sample| sample["warm_up"] != true);
    samples.filter_map(|sample| sample["counters"][name].as_f64()).sum()
}

/// The cells of a row without its name.
fn row<'a>(rows: &'a [Vec<String>], name: &str) -> &'a [String] {
    &rows.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("no row {name}"))[1..]
}

/// `bench anf`: both tables of the articles, the commands of git, and the ratios at high load.
pub(super) fn anf(json: &Value, page: &Value) {
    let first = table(page, "Added latency at low load, and what is lost of the most");
    let second = table(page, "Averages over the workloads");
    assert_eq!((first.len(), second.len()), (6, 3));
    for (column, variant) in FLAVORS.into_iter().enumerate() {
        let of = |load: &str, workload: &str| {
            with(json, variant, &[("load", load.into()), ("workload", workload.into())])
                .into_iter()
                .cloned()
                .collect::<Vec<Value>>()
        };
        let cell = |rows: &[Vec<String>], name: &str| row(rows, name)[2 * column].clone();
        for (name, workload) in
            [("sequential I/O", "sequential"), ("random I/O", "random"), ("metadata", "metadata")]
        {
            let added: Vec<f64> = of("low", workload).iter().filter_map(added).collect();
            let name = format!("low load, latency of {name}");
            shows(cell(&first, &name).trim_start_matches('+'), &[mean(&added)], &name);
        }
        for (name, workload) in
            [("maximum sequential throughput", "sequential"), ("maximum random I/O", "random")]
        {
            let at = |writes: u32| {
                of("high", workload).iter().find(|case| axis(case, "writes") == writes).and_then(ratio)
            };
            match at(0).zip(at(100)) {
                Some((read, write)) => shows(&cell(&first, name), &[read - 1.0, write - 1.0], name),
                None => assert!(cell(&first, name).starts_with("no answer in "), "{variant}: {name}"),
            }
        }
        let metadata: Vec<f64> = of("high", "metadata").iter().filter_map(ratio).collect();
        let random: Vec<f64> = of("high", "random").iter().filter_map(ratio).collect();
        let sequential: Vec<f64> = of("high", "sequential").iter().filter_map(ratio).collect();
        shows(&cell(&first, "maximum metadata rate"), &[mean(&metadata) - 1.0], "metadata");
        let operations: Vec<f64> = random.iter().chain(&metadata).copied().collect();
        // Failed requests are counted behind the figure.
        let iops = cell(&second, "IOPS");
        let (iops, without) = iops.split_once(", without ").unwrap_or((&iops, ""));
        assert_eq!(without.is_empty(), operations.len() == 6, "{variant}: {without}");
        shows(iops, &[mean(&operations) - 1.0], "IOPS");
        shows(&cell(&second, "throughput"), &[mean(&sequential) - 1.0], "throughput");
        let low = ["random", "sequential", "metadata"].map(|workload| of("low", workload)).concat();
        let added: Vec<f64> = low.iter().filter_map(added).collect();
        shows(&cell(&second, "latency"), &[mean(&added)], "latency");
    }
    left(json, page);
    commands(json, page);
    shares(json, page, |row, case| {
        let workload = row.split([' ', ',']).next().unwrap_or_default();
        axis(case, "load") == "high" && axis(case, "workload") == workload
    });
}

fn left(json: &Value, page: &Value) {
    let noise = json["noise"]["relative"].as_f64().unwrap();
    let expected = |workloads: &[&str]| -> Vec<(String, f64, bool)> {
        let of = |variant: &'static str| {
            let cases: Vec<&Value> = cases(json)
                .filter(|case| {
                    case["side"] == variant
                        && axis(case, "load") == "high"
                        && workloads.iter().any(|workload| axis(case, "workload") == *workload)
                })
                .collect();
            let parts: Vec<f64> = cases.iter().filter_map(|case| ratio(case)).collect();
            let shown = cases.iter().any(|case| differs(case))
                && (cases.len() == 1 || (mean(&parts) - 1.0).abs() > noise);
            (variant.to_owned(), mean(&parts), shown)
        };
        FLAVORS.map(of).to_vec()
    };
    parts(page, "IOPS: mean of random I/O and metadata", &expected(&["random", "metadata"]));
    parts(page, "Throughput: mean of sequential I/O", &expected(&["sequential"]));
    parts(page, "Metadata rate", &expected(&["metadata"]));
    let published = page["charts"][0]["published"].as_array().unwrap();
    assert_eq!(published, &["0.47", "0.45", "0.23"]);
}

fn commands(json: &Value, page: &Value) {
    let rows = table(page, "Metadata by command");
    assert_eq!(rows.len(), 6);
    for line in &rows {
        for (variant, cell) in variants(json).iter().zip(&line[1..]) {
            let case = with(json, variant, &[("load", "low".into()), ("workload", "metadata".into())])[0];
            let [count, micros] =
                ["operations", "us"].map(|what| counter(case, &format!("{}_{what}", line[0])));
            let mut expected = vec![count / (micros / 1e6)];
            if *variant != "sys" {
                let base = with(json, "sys", &[("load", "low".into()), ("workload", "metadata".into())])[0];
                expected.push(ratio_of_commands(case, base, &line[0]));
            }
            shows(cell, &expected, &line[0]);
        }
    }
}

/// The median of a command's rate, beside the same repetition of the baseline.
fn ratio_of_commands(case: &Value, base: &Value, command: &str) -> f64 {
    let samples = |case: &Value| {
        let all = case["samples"].as_array().unwrap().iter();
        all.filter(|sample| sample["warm_up"] != true).cloned().collect::<Vec<Value>>()
    };
    let rate = |sample: &Value| {
        let [count, micros] = ["operations", "us"]
            .map(|what| sample["counters"][format!("{command}_{what}")].as_f64().unwrap());
        count / micros
    };
    let base = samples(base);
    let same =
        |own: &Value| base.iter().find(|base| base["repetition"] == own["repetition"]).unwrap().clone();
    let mut ratios: Vec<f64> = samples(case).iter().map(|own| rate(own) / rate(&same(own))).collect();
    ratios.sort_by(f64::total_cmp);
    (ratios[(ratios.len() - 1) / 2] + ratios[ratios.len() / 2]) / 2.0
}

/// The attribution of processor time: means over the cases that a row names.
fn shares(json: &Value, page: &Value, wanted: impl Fn(&str, &Value) -> bool) {
    let rows = table(page, "Whose processor time it is");
    assert!(!rows.is_empty());
    for (line, (column, variant)) in
        rows.iter().flat_map(|line| FLAVORS.iter().enumerate().map(move |at| (line, at)))
    {
        let own: Vec<&Value> =
            cases(json).filter(|case| case["side"] == *variant && wanted(&line[0], case)).collect();
        let added = |figure: &str| {
            let added = |case: &&Value| case["figures"]["against"][figure]["median"].as_f64();
            own.iter().filter_map(added).collect::<Vec<_>>()
        };
        if added("added_client_cpu").is_empty() {
            assert_eq!(line[column + 1], "–", "{variant}: {}", line[0]);
            continue;
        }
        let [client, server] = ["added_client_cpu", "added_server_cpu"].map(|figure| mean(&added(figure)));
        let cell = line[column + 1].replace(" µs", "").replace(" s", "");
        let all = [client + server, client, server];
        shows(&cell, if cell.contains("below the noise") { &all[..1] } else { &all }, &line[0]);
    }
}

/// Whether the rates of two cases that did not run side by side differ.
fn is_apart(json: &Value, one: &Value, other: &Value) -> bool {
    let [one, other] = [one, other].map(|case| &case["figures"]["rate"]);
    let at = |rate: &Value, end: &str| rate[end].as_f64().unwrap();
    let noise = json["noise"]["relative"].as_f64().unwrap();
    let confident = [one, other].iter().all(|rate| at(rate, "confidence") >= 0.95);
    let meet = at(one, "low") <= at(other, "high") && at(other, "low") <= at(one, "high");
    confident && !meet && (at(other, "median") / at(one, "median") - 1.0).abs() > noise
}

/// `bench ontap`: the highest rate, latencies at the same IOPS, the effect of the instructions, and
/// the ratios.
/// Whether at least 95 % of the requests that were due had begun, in the median repetition.
fn kept_up(case: &Value) -> bool {
    let samples = case["samples"].as_array().unwrap().iter().filter(|sample| sample["warm_up"] != true);
    let begun = |sample: &Value| {
        let [done, left] = ["operations", "unserved"].map(|name| sample[name].as_f64().unwrap_or(0.0));
        done / (done + left)
    };
    let mut begun: Vec<f64> = samples.map(begun).collect();
    begun.sort_by(f64::total_cmp);
    let last = begun.len() - 1;
    (begun[last / 2] + begun[last.div_ceil(2)]) / 2.0 >= 0.95
}

pub(super) fn ontap(json: &Value, page: &Value) {
    let variants = variants(json);
    let most = table(page, "The most that is served");
    let near = table(page, "Latency at the same IOPS");
    let mut curves: Vec<&str> = cases(json).filter_map(|case| axis(case, "curve").as_str()).collect();
    curves.dedup();
    for (curve, variant) in
        curves.iter().flat_map(|curve| variants.iter().map(move |variant| (*curve, *variant)))
    {
        let column = variants.iter().position(|one| *one == variant).unwrap();
        let case = find(json, &format!("{curve}: the most"), variant).unwrap();
        let rate = median(case, "rate").unwrap();
        let mut expected = vec![rate];
        expected.extend(ratio(case).map(|part| part - 1.0));
        shows(&row(&most, curve)[column], &expected, curve);
        if let Some((own, _)) = curve.split_once(", server ") {
            let before = median(find(json, &format!("{own}: the most"), variant).unwrap(), "rate").unwrap();
            let rows = table(page, "What the processor’s AES instructions do in the server");
            let line = rows.iter().find(|line| line[0].starts_with(&format!("{own}, "))).unwrap();
            shows(&line[1 + column], &[before, rate, rate / before], curve);
            let before = find(json, &format!("{own}: the most"), variant).unwrap();
            assert_eq!(line[1 + column].contains('≈'), !is_apart(json, before, case), "{curve}");
        }
        let line = near.iter().find(|line| line[0].rsplit_once(", ").is_some_and(|(name, _)| name == curve));
        let line = line.unwrap_or_else(|| panic!("no latencies of {curve}"));
        let offered = |case: &&Value| case["load"]["rate"].as_f64();
        let steps: Vec<&Value> = cases(json)
            .filter(|case| axis(case, "curve") == curve && !axis(case, "step").is_null())
            .collect();
        let at = steps
            .iter()
            .filter(|case| case["side"] == variants[0] && kept_up(case))
            .filter_map(offered)
            .min_by(|one, other| (one / 5e4).ln().abs().total_cmp(&(other / 5e4).ln().abs()))
            .unwrap();
        shows(line[0].rsplit_once(", ").unwrap().1, &[at], curve);
        match steps.iter().find(|case| case["side"] == variant && offered(case) == Some(at)) {
            Some(case) if line[1 + column] != "saturated" => {
                let [p50, p99] = ["p50_us", "p99_us"].map(|figure| median(case, figure).unwrap());
                shows(&line[1 + column], &[p50, p99], curve);
            }
            _ => assert_eq!(line[1 + column], "saturated", "{curve} {variant}"),
        }
    }
    shares(json, page, |row, case| {
        row.strip_suffix(", a request").is_some_and(|curve| case["group"] == format!("{curve}: the most"))
    });
    for layout in ["12 clients", "12 clients, server portable", "1 client"] {
        let own = curves.iter().filter(|curve| curve.split_once(", ").unwrap().1 == layout);
        let expected = own.flat_map(|curve| {
            FLAVORS.map(|variant| find(json, &format!("{curve}: the most"), variant).unwrap())
        });
        let expected: Vec<(String, f64, bool)> = expected
            .map(|case| (case["side"].as_str().unwrap().to_owned(), ratio(case).unwrap(), differs(case)))
            .collect();
        parts(page, layout, &expected);
    }
}

/// `bench nconnect`: rates by connections, and losses.
pub(super) fn nconnect(json: &Value, page: &Value) {
    for line in table(page, "IOPS by number of connections") {
        for (variant, cell) in variants(json).iter().zip(&line[1..]) {
            let [own, single] = [&line[0], "1 connection"].map(|group| find(json, group, variant).unwrap());
            let [rate, base] = [own, single].map(|case| median(case, "rate").unwrap());
            if line[0] == "1 connection" {
                shows(cell, &[rate], &line[0]);
                continue;
            }
            shows(cell, &[rate, rate / base], &line[0]);
            assert_eq!(cell.contains('≈'), !is_apart(json, single, own), "{} {variant}: {cell}", line[0]);
        }
    }
    let lost = table(page, "What was lost");
    assert_eq!(lost.len(), cases(json).count());
    for line in &lost {
        let (group, variant) = line[0].rsplit_once(" · ").unwrap();
        let case = find(json, group, variant).unwrap();
        let names = ["window_drops", "client_reconnects", "client_calls_repeated", "client_contexts_renewed"];
        for (name, cell) in names.iter().zip(&line[1..]) {
            shows(cell, &[counter(case, name)], &line[0]);
        }
        let behind: f64 = [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]
            .iter()
            .map(|lag| counter(case, &format!("lag_{lag}")))
            .sum();
        shows(&line[5].replace(' ', ""), &[behind / counter(case, "client_calls")], &line[0]);
    }
}

/// `bench run`: every case beside the baseline, four loads in a chart.
pub(super) fn beside(json: &Value, page: &Value, title: &str) {
    let mut groups: Vec<&str> = cases(json).map(|case| case["group"].as_str().unwrap()).collect();
    groups.dedup();
    assert!(groups.len() <= 4, "one chart");
    let own = cases(json).filter(|case| ratio(case).is_some());
    let expected: Vec<(String, f64, bool)> = own
        .map(|case| (case["side"].as_str().unwrap().to_owned(), ratio(case).unwrap(), differs(case)))
        .collect();
    parts(page, title, &expected);
}

/// `bench quick`: rates by flavor, latencies, and the overviews of all loads.
pub(super) fn quick(json: &Value, page: &Value) {
    for line in table(page, "Speed by flavor") {
        for (variant, cell) in variants(json).iter().zip(&line[1..]) {
            let case = find(json, &line[0], variant).unwrap();
            let mut expected = vec![median(case, "rate").unwrap()];
            expected.extend(ratio(case));
            shows(cell, &expected, &line[0]);
            assert_eq!(cell.contains('≈'), ratio(case).is_some() && !differs(case), "{line:?}");
        }
    }
    for chart in page["charts"].as_array().unwrap().iter().filter(|chart| chart["kind"] == "spans") {
        let own: Vec<&Value> = cases(json).filter(|case| case["group"] == chart["title"]).collect();
        for (texts, figure, prefix) in [("values", "p50_us", "p50 "), ("faints", "p99_us", "p99 ")] {
            let texts = chart[texts].as_array().unwrap();
            assert_eq!(texts.len(), own.len());
            for (said, case) in texts.iter().zip(&own) {
                let said = said.as_str().unwrap().trim_start_matches(prefix);
                shows(said, &[median(case, figure).unwrap()], prefix);
            }
        }
    }
    let sum = |case: &Value| median(case, "client_cpu").unwrap() + median(case, "server_cpu").unwrap();
    let part = |of: &dyn Fn(&Value) -> f64, group: &str| {
        of(find(json, group, "krb5p").unwrap()) / of(find(json, group, "sys").unwrap())
    };
    for chart in page["charts"].as_array().unwrap() {
        let title = chart["title"].as_str().unwrap();
        for end in chart["ends"].as_array().unwrap() {
            let [group, said] = [0, 1].map(|at| end[at].as_str().unwrap());
            let expected = match title {
                _ if title.contains("speed") => ratio(find(json, group, "krb5p").unwrap()).unwrap(),
                _ if title.contains("latency") => part(&|case| median(case, "p50_us").unwrap(), group),
                _ => part(&sum, group),
            };
            shows(said.trim_start_matches("krb5p "), &[expected], title);
        }
    }
}

/// `bench compare`: every case of both runs.
pub(super) fn compared(first: &Value, second: &Value, page: &Value) {
    let noise =
        [first, second].map(|json| json["noise"]["relative"].as_f64().unwrap()).into_iter().sum::<f64>();
    let both: Vec<(&Value, &Value)> = cases(first)
        .filter_map(|one| Some((one, find(second, one["group"].as_str()?, one["side"].as_str()?)?)))
        .filter(|(one, other)| !one["figures"].is_null() && !other["figures"].is_null())
        .collect();
    let rows = table(page, "All cases of both runs");
    let lines: Vec<&Vec<String>> = rows.iter().filter(|row| row.len() > 1).collect();
    assert_eq!(lines.len(), both.len());
    let (mut slower, mut faster) = (0, 0);
    for (line, (one, other)) in lines.iter().zip(&both) {
        assert_eq!(line[0], one["side"].as_str().unwrap());
        let [rate, after] = [one, other].map(|case| &case["figures"]["rate"]);
        let end = |interval: &Value, name: &str| interval[name].as_f64().unwrap();
        let change = end(after, "median") / end(rate, "median") - 1.0;
        let what = format!("{} · {}", one["group"], one["side"]);
        shows(&line[1], &[end(rate, "median")], &what);
        shows(&line[2], &[end(after, "median")], &what);
        shows(&line[3], &[change], &what);
        let confident = [rate, after].iter().all(|interval| end(interval, "confidence") >= 0.95);
        let apart = end(rate, "low") > end(after, "high") || end(after, "low") > end(rate, "high");
        let significant = confident && apart && change.abs() > noise;
        assert_eq!(!line[3].contains('≈'), significant, "{what}: {line:?}");
        if significant {
            *(if change > 0.0 { &mut faster } else { &mut slower }) += 1;
        }
        match median(one, "p50_us").zip(median(other, "p50_us")) {
            Some((own, other)) => {
                shows(&line[4], &[own], &what);
                shows(&line[5], &[other], &what);
                shows(&line[6], &[other / own - 1.0], &what);
            }
            None => assert_eq!(line.len(), 5, "{what}"),
        }
    }
    let said = page["headline"].as_str().unwrap();
    let all = both.len();
    let same = format!("; {} show no significant difference.", all - slower - faster);
    let begins = format!("Of {all} cases, ganesha is slower in {slower}");
    assert!(said.starts_with(&begins) && said.contains(&format!("faster in {faster}")), "{said}");
    assert!(said.ends_with(&same), "{said}");
    // One scale for all charts: the baseline stands at the same place in each.
    let bases: Vec<f64> =
        page["charts"].as_array().unwrap().iter().filter_map(|chart| chart["base"].as_f64()).collect();
    let [first, rest @ ..] = &bases[..] else { panic!("no baseline is drawn") };
    assert!(rest.iter().all(|base| (base - first).abs() < 0.6), "{bases:?}");
    let charts = page["charts"].as_array().unwrap();
    let bars: Vec<&Value> = charts.iter().flat_map(|chart| chart["bars"].as_array().unwrap()).collect();
    assert_eq!(bars.len(), both.len());
    let values: Vec<&Value> = charts.iter().flat_map(|chart| chart["values"].as_array().unwrap()).collect();
    for ((bar, said), (one, other)) in bars.iter().zip(values).zip(&both) {
        let ratio = median(other, "rate").unwrap() / median(one, "rate").unwrap();
        assert!((bar["value"].as_str().unwrap().parse::<f64>().unwrap() - ratio).abs() < 1e-9);
        shows(said.as_str().unwrap(), &[ratio], "a bar of two runs");
    }
}
