//! `bench run plan.toml`: one's own plan.

use super::{Blocks, block};
use crate::measuring::{Axes, Case, ClientLayout, Load, Settings, Transfer};
use crate::{Flavor, Unit};
use anyhow::{Result, ensure};
use serde::Deserialize;
use std::path::PathBuf;

/// Name of the evaluation.
pub const PLAN: &str = "plan";

/// The form of the file; docs/report.md has an example.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlanFile {
    /// The title of the report.
    pub title: String,
    /// Flavors, the first to be compared with.
    pub flavors: Vec<String>,
    /// Repetitions of each case.
    pub repetitions: u32,
    /// Length of one repetition.
    pub seconds: f64,
    /// Size of the files of a flavor.
    pub file_size_mib: u64,
    /// The cases to measure.
    pub case: Vec<PlanCase>,
}

/// One case for all flavors.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanCase {
    /// The name of the case, unique in the plan.
    pub name: String,
    /// `random`, `sequential` or `git`.
    pub kind: String,
    /// Bytes of a request.
    #[serde(default = "size")]
    pub size: u64,
    /// Percentage of writes, from 0 to 100.
    #[serde(default)]
    pub writes: u32,
    /// Requests in flight of each client.
    #[serde(default = "one")]
    pub depth: u32,
    /// Requests a second of all clients, on a fixed schedule.
    pub rate: Option<f64>,
    /// Number of clients, each with its own session.
    #[serde(default = "one")]
    pub clients: u32,
    /// Principals that the clients are in turn.
    #[serde(default = "one")]
    pub principals: u32,
    /// Connections of each client.
    #[serde(default = "one")]
    pub connections: u32,
    /// Slots of each session to ask for.
    pub slots: Option<u32>,
    /// Bytes of a READ at most.
    pub rsize: Option<u32>,
    /// Bytes of a WRITE at most.
    pub wsize: Option<u32>,
    /// Draws the repository of `git`.
    #[serde(default)]
    pub seed: u64,
    /// The repository to take instead.
    pub repository: Option<PathBuf>,
}

impl Default for PlanFile {
    fn default() -> Self {
        Self {
            title: "What security costs, by a plan of one's own".to_owned(),
            flavors: Flavor::ALL.map(|flavor| flavor.name().to_owned()).to_vec(),
            repetitions: 6,
            seconds: 1.0,
            file_size_mib: 64,
            case: Vec::new(),
        }
    }
}

const fn size() -> u64 {
    4096
}

const fn one() -> u32 {
    1
}

impl PlanFile {
    /// Checks the rules that the data types do not express.
    ///
    /// # Errors
    /// Names the key and the permitted values.
    pub fn check(&self) -> Result<()> {
        ensure!(!self.case.is_empty(), "the plan has no [[case]]");
        ensure!((1..=1000).contains(&self.repetitions), "repetitions must be 1 to 1000");
        ensure!((0.01..=3600.0).contains(&self.seconds), "seconds must be 0.01 to 3600");
        ensure!((1..=1 << 20).contains(&self.file_size_mib), "file_size_mib must be 1 to 1048576");
        ensure!(!self.flavors.is_empty(), "flavors must not be empty");
        for flavor in &self.flavors {
            flavor.parse::<Flavor>().map_err(|error| anyhow::anyhow!("flavors: {flavor:?}: {error}"))?;
        }
        for (index, case) in self.case.iter().enumerate() {
            let name = &case.name;
            ensure!(
                self.case.iter().skip(index + 1).all(|other| other.name != *name),
                "two cases are called {name:?}"
            );
            case.check().map_err(|error| error.context(format!("case {name:?}")))?;
        }
        Ok(())
    }

    /// Returns the settings of the run.
    pub fn settings(&self) -> Settings {
        Settings::new(self.repetitions, self.seconds, self.file_size_mib << 20, self.flavors.clone())
    }
}

impl PlanCase {
    fn check(&self) -> Result<()> {
        ensure!(
            ["random", "sequential", "git"].contains(&self.kind.as_str()),
            "kind must be random, sequential or git"
        );
        ensure!(
            (512..=64 << 20).contains(&self.size) && self.size.is_power_of_two(),
            "size must be a power of two from 512 bytes to 64 MiB"
        );
        ensure!(self.writes <= 100, "writes must be 0 to 100");
        ensure!((1..=1024).contains(&self.depth), "depth must be 1 to 1024");
        ensure!((1..=256).contains(&self.clients), "clients must be 1 to 256");
        ensure!(
            (1..=self.clients).contains(&self.principals),
            "principals must be 1 to the number of clients"
        );
        ensure!((1..=16).contains(&self.connections), "connections must be 1 to 16");
        ensure!(self.slots.is_none_or(|slots| (1..=1024).contains(&slots)), "slots must be 1 to 1024");
        for (key, size) in [("rsize", self.rsize), ("wsize", self.wsize)] {
            ensure!(
                size.is_none_or(|size| (4096..=1 << 20).contains(&size) && size.is_power_of_two()),
                "{key} must be a power of two from 4096 to 1048576 bytes"
            );
        }
        ensure!(self.rate.is_none_or(|rate| (0.1..=1e7).contains(&rate)), "rate must be 0.1 to 10000000");
        Ok(())
    }

    fn block(&self, variants: &[String]) -> Vec<Case> {
        let layout = ClientLayout {
            clients: self.clients,
            principals: self.principals,
            connections: self.connections,
            slots: self.slots,
            rsize: self.rsize,
            wsize: self.wsize,
            ..ClientLayout::default()
        };
        let (unit, load) = match self.kind.as_str() {
            "git" => {
                let (seed, repository) = (self.seed, self.repository.clone());
                (Unit::OperationsPerSecond, Load::Git { seed, repository, layout })
            }
            kind => {
                let transfer = Transfer {
                    random: kind == "random",
                    size: self.size,
                    writes: self.writes,
                    depth: self.depth,
                    rate: self.rate,
                    layout,
                };
                (transfer.unit(), Load::Transfer(transfer))
            }
        };
        block(variants, &self.name, unit, &Axes::default(), &load)
    }
}

/// Plans the cases of a checked file.
pub fn own_plan(file: &PlanFile) -> Blocks {
    Blocks::new(file.case.iter().map(|case| case.block(&file.flavors)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_cannot_be_used_says_what_is_allowed() {
        let check = |case: &str| -> String {
            let text = format!(r#"{{"case": [{{"name": "a", {case}}}]}}"#);
            let plan: PlanFile = serde_json::from_str(&text).unwrap();
            plan.check().map_or_else(|error| format!("{error:#}"), |()| String::new())
        };
        assert_eq!(check(r#""kind": "random", "size": 8192, "writes": 33"#), "");
        for (case, said) in [
            (r#""kind": "fast""#, "random, sequential or git"),
            (r#""kind": "random", "size": 5000"#, "a power of two"),
            (r#""kind": "random", "writes": 101"#, "0 to 100"),
            (r#""kind": "random", "rate": 0"#, "rate must be"),
            (r#""kind": "random", "connections": 17"#, "1 to 16"),
            (r#""kind": "random", "slots": 0"#, "slots must be"),
            (r#""kind": "random", "rsize": 5000"#, "rsize must be"),
            (r#""kind": "random", "wsize": 2097152"#, "wsize must be"),
        ] {
            assert!(check(case).contains(said), "{case}: {}", check(case));
        }
    }
}
