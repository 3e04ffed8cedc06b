//! Folders of sessions that were given up or could not end: they are removed by another session, or
//! named at the end.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::ExportMount;

/// A session that takes this long to fail hangs; the sessions beside it are not waited for.
pub(crate) const HANGS: Duration = Duration::from_secs(5);

/// A variant, and the choice of instructions of the server that it spoke to.
type Origin = (String, Option<String>);

/// Folders that stay at servers.
#[derive(Debug, Default)]
pub(super) struct Leftovers(Vec<(Origin, String)>);

impl Leftovers {
    /// Adds a folder to the list.
    pub(super) fn add(&mut self, variant: &str, server_cpu: Option<&str>, folder: &str) {
        self.0.push(((variant.to_owned(), server_cpu.map(str::to_owned)), folder.to_owned()));
    }

    /// Returns whether there are any at one place.
    pub(super) fn any(&self, variant: &str, server_cpu: Option<&str>) -> bool {
        self.0.iter().any(|((other, cpu), _)| other == variant && cpu.as_deref() == server_cpu)
    }

    /// Returns where there are any.
    pub(super) fn places(&self) -> BTreeSet<Origin> {
        self.0.iter().map(|(place, _)| place.clone()).collect()
    }

    /// Removes the folders of one place, as far as that succeeds.
    pub(super) fn sweep(&mut self, variant: &str, server_cpu: Option<&str>, mount: &mut ExportMount) {
        let mut stuck = false;
        self.0.retain(|((other, cpu), folder)| {
            if stuck || other != variant || cpu.as_deref() != server_cpu {
                return true;
            }
            let begun = Instant::now();
            let removed = mount.remove_all(folder).is_ok();
            // One that hangs is reason enough not to wait for the next.
            stuck = !removed && begun.elapsed() >= HANGS;
            !removed
        });
    }

    /// Returns sentences on the remaining folders.
    pub(super) fn sentences(&self) -> Vec<String> {
        let folders: Vec<&str> = self.0.iter().map(|(_, folder)| folder.as_str()).collect();
        if folders.is_empty() {
            return Vec::new();
        }
        vec![format!("Folders in the export could not be removed and stay there: {}.", folders.join(", "))]
    }
}

/// Ends sessions of one variant with `finish`, and goes on after one that fails, but waits for none
/// after one that hangs. Returns the ones that have not ended, and the first error.
pub(super) fn end_all<S>(
    sessions: Vec<S>,
    mut finish: impl FnMut(&mut S) -> Result<()>,
) -> (Vec<S>, Result<()>) {
    let (mut left, mut first, mut hangs) = (Vec::new(), Ok(()), false);
    for mut session in sessions {
        if hangs {
            left.push(session);
            continue;
        }
        let begun = Instant::now();
        if let Err(error) = finish(&mut session) {
            hangs = begun.elapsed() >= HANGS;
            first = first.and(Err(error));
            left.push(session);
        }
    }
    (left, first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_cannot_end_is_left_and_the_others_end() {
        let mut asked = Vec::new();
        let (left, first) = end_all(vec![1, 2, 3, 4], |session| {
            asked.push(*session);
            anyhow::ensure!(*session % 2 == 1, "session {session}");
            Ok(())
        });
        assert_eq!((asked, left), (vec![1, 2, 3, 4], vec![2, 4]));
        assert_eq!(first.unwrap_err().to_string(), "session 2");
    }
}
