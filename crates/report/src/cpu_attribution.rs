//! Attribution of the processor time that a flavor adds to the baseline's, for client and server.

use crate::Table;
use crate::form::digits;
use bench::Unit;
use bench::measuring::{CaseRecord, Interval, Load, Record};

use super::cost::{is_heavy, is_typical, mean};

/// Flavors in the sentence, the strongest first.
const FLAVORS: [&str; 3] = ["krb5p", "krb5i", "krb5"];

const NONE: &str = "–";

/// Processor time that a variant adds to a unit of work: microseconds for an operation, or seconds
/// for a GB (10^9 bytes). Means over cases of the medians.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CpuAttribution {
    /// Time added at the client.
    pub client: f64,
    /// At the server; none where its processor time is not known.
    pub server: Option<f64>,
    /// Whether that is more than the machine's noise is of the baseline's processor time.
    pub is_shown: bool,
}

impl CpuAttribution {
    /// Averages over the cases of a variant that `wanted` picks; `None` where nothing was compared.
    pub(crate) fn of(record: &Record, variant: &str, wanted: impl Fn(&CaseRecord) -> bool) -> Option<Self> {
        let own = record.cases.iter().filter(|case| case.variant == variant && wanted(case));
        let (mut clients, mut servers, mut bases) = (Vec::new(), Vec::new(), Vec::new());
        for case in own {
            let Some(against) = case.figures.as_ref().and_then(|figures| figures.against.as_ref()) else {
                continue;
            };
            let base = record.variant(&case.group, &record.settings.baseline);
            let Some(base) = base.and_then(|base| base.figures.as_ref()) else { continue };
            let median = |interval: Option<Interval>| interval.map(|interval| interval.median);
            clients.extend(median(against.added_client_cpu));
            servers.extend(median(against.added_server_cpu));
            let both = [median(base.client_cpu), median(base.server_cpu)];
            bases.push(both.into_iter().flatten().sum::<f64>());
        }
        let known = servers.len() == clients.len();
        let (client, base) = (mean(clients.into_iter())?, mean(bases.into_iter())?);
        let server = mean(servers.into_iter()).filter(|_| known);
        let noise = record.relative_noise();
        let is_shown = (client + server.unwrap_or(0.0)).abs() > noise * base;
        Some(Self { client, server, is_shown })
    }

    fn sum(&self) -> f64 {
        self.client + self.server.unwrap_or(0.0)
    }

    /// As a cell of a table: `+2.1 µs: 1.0 client, 1.1 server`.
    fn cell(&self, unit: &str) -> String {
        let sign = if self.sum() < 0.0 { "\u{2212}" } else { "+" };
        let sum = format!("{sign}{} {unit}", digits(self.sum().abs()));
        match (self.is_shown, self.server) {
            (false, _) => format!("{sum} (below the noise)"),
            (true, Some(server)) => {
                format!("{sum}: {} client, {} server", signed(self.client), signed(server))
            }
            (true, None) => format!("{sum} client, server unknown"),
        }
    }
}

fn signed(value: f64) -> String {
    digits(value).replace('-', "\u{2212}")
}

/// Selects cases whose unit of work is a request. Other units are GB and metadata operations.
fn is_request(case: &CaseRecord) -> bool {
    is_heavy(case) && case.unit == Unit::OperationsPerSecond && matches!(case.load, Load::Transfer(_))
}

fn is_stream(case: &CaseRecord) -> bool {
    is_heavy(case) && case.unit == Unit::MegabytesPerSecond
}

/// Selects the cases of a row.
type Picks = fn(&CaseRecord) -> bool;

/// Returns a sentence on the time that the strongest compared variant adds, at the client and at
/// the server.
pub(crate) fn attribution_sentence(record: &Record) -> Option<String> {
    let kinds = [("a request", "µs", is_request as Picks), ("a GB", "s", is_stream)];
    FLAVORS.into_iter().find_map(|variant| {
        let said: Vec<String> = kinds
            .iter()
            .filter_map(|(what, unit, wanted)| {
                let wanted = |case: &CaseRecord| wanted(case) && is_typical(record, case);
                Some((what, unit, CpuAttribution::of(record, variant, wanted)?))
            })
            .map(|(what, unit, share)| sentence(variant, what, unit, &share))
            .collect();
        (!said.is_empty()).then(|| said.join(" "))
    })
}

fn sentence(variant: &str, what: &str, unit: &str, share: &CpuAttribution) -> String {
    let amount = |value: f64| format!("{} {unit}", signed(value));
    match share.server {
        _ if !share.is_shown => {
            format!("The processor time that {variant} adds to {what} is below the noise of this machine.")
        }
        Some(server) => format!(
            "{variant} adds {} of processor time to {what}: {} at the client, {} at the server.",
            amount(share.sum()),
            amount(share.client),
            amount(server)
        ),
        None => format!(
            "{variant} adds {} of the client\u{2019}s processor time to {what}; the server\u{2019}s is not known.",
            amount(share.client)
        ),
    }
}

/// A row of the table of shares: its name, its unit, and which cases it is the mean of.
pub(crate) type AttributionRow<'a> = (String, &'a str, Box<dyn Fn(&CaseRecord) -> bool + 'a>);

/// Returns a row for each flavor beside the baseline; `None` without a comparison.
pub(crate) fn attribution_table(record: &Record, rows: Vec<AttributionRow<'_>>) -> Option<Table> {
    let variants: Vec<&str> =
        record.variants().into_iter().filter(|variant| *variant != record.settings.baseline).collect();
    let first = format!("added to {}", record.settings.baseline);
    let how = "Processor time that each flavor adds to that of the baseline for the same work, from repetitions that ran side by side, and whose it is: medians, \
               averaged over the loads of the row. Amounts below the noise of the machine are marked.";
    let mut table = Table::by_variant("Whose processor time it is", how, &first, &variants);
    for (name, unit, wanted) in rows {
        let shares: Vec<Option<CpuAttribution>> =
            variants.iter().map(|variant| CpuAttribution::of(record, variant, &wanted)).collect();
        if shares.iter().any(Option::is_some) {
            let cell =
                |share: &Option<CpuAttribution>| share.map_or(NONE.to_owned(), |share| share.cell(unit));
            table.measured(name, shares.iter().map(cell).collect());
        }
    }
    table.unless_empty()
}
