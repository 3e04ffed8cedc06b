//! Small files: created, looked at, renamed, listed and removed, one operation after the other.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::{Conditions, LoadTally};
use crate::Tree;

/// Files of one turn.
const FILES: usize = 32;

/// Makes small files, looks at them, renames, lists and removes them, one operation after the
/// other, until the time is over; the last turn runs to its end.
///
/// # Errors
/// The server's, and a listing that lacks files.
pub fn metadata(tree: &mut dyn Tree, conditions: &Conditions<'_>, tally: &mut LoadTally) -> Result<()> {
    let start = Instant::now();
    let names: Vec<(String, String)> =
        (0..FILES).map(|index| (format!("file-{index}"), format!("renamed-{index}"))).collect();
    while start.elapsed() < conditions.length && !conditions.stopped() {
        turn(tree, &names, tally)?;
    }
    Ok(())
}

/// A turn leaves the folder as it was.
fn turn(tree: &mut dyn Tree, names: &[(String, String)], tally: &mut LoadTally) -> Result<()> {
    for (name, _) in names {
        timed(tally, || tree.make_file(name))?;
    }
    for (name, _) in names {
        timed(tally, || tree.look_at(name))?;
    }
    for (name, renamed) in names {
        timed(tally, || tree.move_file(name, renamed))?;
    }
    let entries = timed(tally, || tree.list_folder(""))?;
    ensure!(entries >= names.len(), "{entries} entries listed where {} files are", names.len());
    for (_, renamed) in names {
        timed(tally, || tree.remove_file(renamed))?;
    }
    Ok(())
}

fn timed<T>(tally: &mut LoadTally, operation: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    let outcome = operation()?;
    tally.count(0, start.elapsed());
    Ok(outcome)
}
