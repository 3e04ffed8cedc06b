//! The results as a table for people.

use super::{Lanl, Side};
use crate::FLAVORS;
use report::Average;

/// Formats the tables: time and rate of each copy by flavor, and the processor time of node and
/// server.
pub fn table(lanl: &Lanl) -> String {
    let mut text = format!(
        "The copies of the paper, scaled down to {} % of their sizes and numbers; {} repetitions, mean and 95 % interval.\n",
        lanl.scale * 100.0,
        lanl.repetitions
    );
    if let Some(link) = lanl.link {
        text.push_str(&format!("Every cable of the lab carried {link}, in each direction.\n"));
    }
    let mut groups: Vec<(usize, &str)> = Vec::new();
    for side in &lanl.sides {
        let group = (side.nodes, side.part.as_str());
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    for (nodes, part) in groups {
        let sides: Vec<&Side> = FLAVORS.iter().filter_map(|flavor| find(lanl, nodes, part, flavor)).collect();
        text.push_str(&format!("\n{}, {}\n", from(nodes), what(&sides)));
        text.push_str(&line("", &sides, |side| side.flavor.clone()));
        text.push_str(&line("time of a node, s", &sides, |side| {
            let average = Average::of(side.copies.iter().map(|copied| copied.seconds));
            average.map_or("-".to_owned(), |average| average.words(|value| format!("{value:.2}")))
        }));
        text.push_str(&line("all nodes, MB/s", &sides, |side| format!("{:.1}", rate(side))));
        text.push_str(&line("processor of a node", &sides, |side| {
            client_cpu(side).map_or("unknown".to_owned(), |part| format!("{:.0} %", part * 100.0))
        }));
        text.push_str(&line("server, s of processor", &sides, |side| {
            format!("{:.3}", side.server_cpu_seconds)
        }));
    }
    text.push_str(
        "\nThe server's time is for all copies of the row, those for warming up, and reading them back to compare. Flavors ran one
after the other, each by itself; PREFIX-alone.html has them interleaved. The nodes share this machine's processors.\n",
    );
    text
}

fn find<'a>(lanl: &'a Lanl, nodes: usize, part: &str, flavor: &str) -> Option<&'a Side> {
    lanl.sides.iter().find(|side| side.nodes == nodes && side.part == part && side.flavor == flavor)
}

fn from(nodes: usize) -> String {
    match nodes {
        1 => "One node alone".to_owned(),
        _ => format!("{nodes} nodes at the same time"),
    }
}

fn what(sides: &[&Side]) -> String {
    match sides.first().and_then(|side| side.copies.first()) {
        Some(copied) => {
            format!("{:.0} files of {:.0} kB each", copied.files, copied.bytes / copied.files / 1000.0)
        }
        None => "nothing".to_owned(),
    }
}

fn line(name: &str, sides: &[&Side], cell: impl Fn(&Side) -> String) -> String {
    let cells: String = sides.iter().map(|side| format!("{:>14}", cell(side))).collect();
    format!("  {name:24}{cells}\n")
}

/// The bytes that all nodes together move in a second, from the mean of their times.
fn rate(side: &Side) -> f64 {
    let sum = |value: fn(&super::Copied) -> f64| side.copies.iter().map(value).sum::<f64>();
    sum(|copied| copied.bytes) / sum(|copied| copied.seconds) / 1e6 * side.nodes as f64
}

/// The part of its only processor that a node used.
fn client_cpu(side: &Side) -> Option<f64> {
    let used: Option<Vec<f64>> = side.copies.iter().map(|copied| copied.client_cpu_seconds).collect();
    let seconds: f64 = side.copies.iter().map(|copied| copied.seconds).sum();
    Some(used?.iter().sum::<f64>() / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanl::{Copied, Scope};
    use crate::options::tests::options;

    #[test]
    fn rates_of_nodes_that_copy_together_add_up() {
        let copied = Copied { seconds: 2.0, bytes: 10e6, files: 10.0, client_cpu_seconds: Some(1.0) };
        let side = Side {
            nodes: 3,
            part: "large".to_owned(),
            flavor: "krb5p".to_owned(),
            copies: vec![copied; 6],
            server_cpu_seconds: 0.25,
        };
        let mut lanl = Lanl::new(&options(), Scope { scale: 0.01, repetitions: 2 });
        lanl.sides.push(side);
        let text = table(&lanl);
        for part in [
            "3 nodes at the same time, 10 files of 1000 kB each",
            "15.0",
            "50 %",
            "2.00 ±0.00",
            "0.250",
            "1 %",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
    }
}
