//! `bench ontap`: latency against IOPS, a curve a flavor, with a load that climbs until the server
//! is saturated.

use crate::Unit;
use crate::measuring::{
    Axes, Case, CaseRecord, ClientLayout, CurveAxes, Evaluation, Interval, Load, LoadLevel, Record, Sample,
    Transfer,
};

/// Name of the evaluation.
pub const ONTAP: &str = "ontap";

/// Requests in flight of all clients together while the most is looked for.
const DEPTH: u32 = 64;

/// Steps of the climb, as parts of the most that the baseline did.
const STEPS: [f64; 9] = [0.1, 0.25, 0.4, 0.55, 0.7, 0.8, 0.9, 1.0, 1.15];

/// A variant that begins less than this fraction of the due requests is saturated; its curve ends.
const KEPT_UP: f64 = 0.95;

/// One chart: a size, reads or writes, so many clients, and the server's choice of instructions.
#[derive(Clone, Debug, PartialEq)]
struct Curve {
    size: u64,
    write: bool,
    layout: ClientLayout,
}

impl Curve {
    fn name(&self) -> String {
        let what = if self.write { "writes" } else { "reads" };
        let clients = if self.layout.clients == 1 {
            "1 client".to_owned()
        } else {
            format!("{} clients", self.layout.clients)
        };
        let cpu = self.layout.server_cpu.as_ref().map_or(String::new(), |cpu| format!(", server {cpu}"));
        format!("{} KiB sequential {what}, {clients}{cpu}", self.size >> 10)
    }

    fn most(&self) -> String {
        format!("{}: the most", self.name())
    }

    fn step(&self, step: f64) -> String {
        format!("{}: step {:.0} %", self.name(), step * 100.0)
    }

    fn case(&self, variant: &str, group: String, rate: Option<f64>, step: Option<f64>) -> Case {
        let depth = (DEPTH / self.layout.clients).max(1);
        let axes = Axes::Curve(CurveAxes {
            curve: self.name(),
            write: self.write,
            size: self.size,
            clients: self.layout.clients,
            load: if step.is_none() { LoadLevel::High } else { LoadLevel::Low },
            step,
            server_cpu: self.layout.server_cpu.clone(),
        });
        Case {
            group,
            variant: variant.to_owned(),
            unit: Unit::OperationsPerSecond,
            axes,
            load: Load::Transfer(Transfer {
                random: false,
                size: self.size,
                writes: if self.write { 100 } else { 0 },
                // A client's slots; with a rate all of them may be used.
                depth: if rate.is_some() { DEPTH } else { depth },
                rate,
                layout: self.layout.clone(),
            }),
        }
    }
}

/// The evaluation `bench ontap`.
pub struct OntapClimb {
    curves: Vec<Curve>,
    curve: usize,
    /// The next step of the curve; 0 looks for the most.
    step: usize,
}

impl OntapClimb {
    /// Plans it for so many clients in turn; `server_cpus` are choices of instructions of a server
    /// that the run starts itself, measured with the greatest number of clients beside the server's
    /// own choice.
    pub fn new(clients: &[u32], server_cpus: &[String]) -> Self {
        let most = clients.iter().copied().max().unwrap_or(1);
        let mut layouts: Vec<ClientLayout> = clients
            .iter()
            .map(|clients| ClientLayout { clients: *clients, ..ClientLayout::default() })
            .collect();
        layouts.extend(server_cpus.iter().map(|cpu| ClientLayout {
            clients: most,
            server_cpu: Some(cpu.clone()),
            ..ClientLayout::default()
        }));
        let curve = |layout: &ClientLayout, size, write| Curve { size, write, layout: layout.clone() };
        let curves = layouts
            .iter()
            .flat_map(|layout| {
                [(4096, false), (4096, true), (8192, false), (8192, true)]
                    .map(|(size, write)| curve(layout, size, write))
            })
            .collect();
        Self { curves, curve: 0, step: 0 }
    }

    /// Returns the variants that kept up at the former step, with their next rates.
    fn climb(&self, curve: &Curve, step: usize, record: &Record) -> Vec<Case> {
        let part = STEPS.get(step - 1).copied().unwrap_or(1.0);
        let group = curve.most();
        let top = record.variant(&group, &record.settings.baseline).and_then(CaseRecord::rate);
        // Where the baseline is missing the fastest variant leads.
        let fastest = || {
            record
                .cases
                .iter()
                .filter(|case| case.group == group)
                .filter_map(CaseRecord::rate)
                .reduce(f64::max)
        };
        let Some(top) = top.or_else(fastest) else { return Vec::new() };
        let before = step.checked_sub(2).and_then(|at| STEPS.get(at)).map(|before| curve.step(*before));
        let keeps_up = |variant: &&String| match &before {
            None => record.variant(&group, variant).is_some_and(|case| case.figures.is_some()),
            Some(before) => {
                record.variant(before, variant).is_some_and(|case| case.figures.is_some() && kept_up(case))
            }
        };
        let rate = (top * part / 10.0).round().max(1.0) * 10.0;
        let variants = record.settings.variants.iter().filter(keeps_up);
        variants.map(|variant| curve.case(variant, curve.step(part), Some(rate), Some(part))).collect()
    }
}

/// Returns whether a variant kept up with the rate: nearly all due requests had begun before the
/// end.
pub fn kept_up(case: &CaseRecord) -> bool {
    let begun =
        |sample: &Sample| sample.operations as f64 / (sample.operations + sample.unserved).max(1) as f64;
    Interval::of(case.counted().map(begun)).is_some_and(|begun| begun.median >= KEPT_UP)
}

impl Evaluation for OntapClimb {
    fn next(&mut self, record: &Record) -> Option<Vec<Case>> {
        loop {
            let (curve, step) = (self.curves.get(self.curve)?.clone(), self.step);
            self.step += 1;
            if step == 0 {
                let variants = record.settings.variants.iter();
                return Some(variants.map(|variant| curve.case(variant, curve.most(), None, None)).collect());
            }
            let cases = if step <= STEPS.len() { self.climb(&curve, step, record) } else { Vec::new() };
            if !cases.is_empty() {
                return Some(cases);
            }
            (self.curve, self.step) = (self.curve + 1, 0);
        }
    }

    fn to_come(&self, record: &Record) -> usize {
        let left = (self.curves.len() - self.curve) * (1 + STEPS.len());
        left.saturating_sub(self.step) * record.settings.variants.len()
    }
}
