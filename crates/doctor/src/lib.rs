//! Finds the cause why a mount with Kerberos fails, and changes nothing.
//!
//! [`CLIENT`] and [`SERVER`] are the tables of checks, in the order in which a mount needs them. A
//! check gathers facts and judges them. A check that depends on a failed one is skipped with that
//! reason, so that the first finding is the root cause. [`Surroundings`] names each file and
//! program that is read, so that tests can point it at a folder.
//!
//! Each step on the network has a deadline of seconds, and answers have a bounded size.

mod ccache;
mod checks;
mod clock;
mod der;
mod facts;
mod finding;
mod gssd;
mod kinit;
mod krb5_conf;
mod machine;
mod nfs;
mod nfs_conf;
mod report;
mod tool;

pub use checks::{CLIENT, Check, SERVER};
pub use facts::{AcceptsHost, Explain, ExportPlan, Facts, MountTarget, ServerPlan};
pub use finding::{HealthFinding, Severity};
pub use machine::Surroundings;
pub use report::{CheckOutcome, CheckRow, Examination};

/// Runs the checks of a table in order.
///
/// # Errors
/// The private folder for copies of credential caches cannot be created.
pub fn examine(
    table: &'static [Check],
    machine: Surroundings,
    target: MountTarget,
    server: Option<ServerPlan>,
) -> Result<Examination, private::PrivateError> {
    let mut facts = Facts::new(machine, target, server)?;
    let mut rows: Vec<CheckRow> = Vec::new();
    for check in table {
        let blocked = check.needs.iter().find_map(|need| {
            let row = rows.iter().find(|row| row.check == *need)?;
            (row.blocks()).then_some(*need)
        });
        let outcome = match blocked {
            Some(need) => CheckOutcome::Skipped(format!("it needs `{need}`")),
            None => (check.run)(&mut facts),
        };
        rows.push(CheckRow { check: check.name, title: check.title, outcome });
    }
    Ok(Examination::new(rows))
}
