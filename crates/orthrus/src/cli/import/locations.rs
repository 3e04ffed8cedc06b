//! The options `refer=` and `replicas=` of exports(5): PATH@HOST[+HOST]..., with colons between.

use super::{ImportedExport, list};
use vfs::Location;

/// The locations of an export at other servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ImportedLocations {
    /// The locations of `refer=`, which replace the files.
    refer: Vec<String>,
    /// The locations of `replicas=`.
    replicas: Vec<String>,
    /// The texts that are no locations, with the reasons.
    faults: Vec<String>,
}

/// Keys that mean nothing to a referral.
const OF_FILES: [&str; 7] = ["path", "read_only", "squash", "anon_uid", "anon_gid", "nested", "stable_names"];

impl ImportedLocations {
    /// Sets the locations of `refer=`.
    pub(super) fn refer(&mut self, value: &str) {
        self.refer = self.parse(value);
    }

    /// Sets the locations of `replicas=`.
    pub(super) fn replicas(&mut self, value: &str) {
        self.replicas = self.parse(value);
    }

    /// Returns the locations as Orthrus writes them, and notes the faults.
    fn parse(&mut self, value: &str) -> Vec<String> {
        let mut locations = Vec::new();
        for place in split_places(value) {
            let Some((path, hosts)) = place.rsplit_once('@') else {
                self.faults.push(format!("{place:?} is not PATH@HOST"));
                continue;
            };
            for host in hosts.split('+') {
                match format!("{host}:{path}").parse::<Location>() {
                    Ok(location) => locations.push(location.to_string()),
                    Err(error) => self.faults.push(error.to_string()),
                }
            }
        }
        locations
    }

    /// Sets the locations of an export from those of its clients. Comments it out if they cannot be
    /// imported: its files may be elsewhere.
    pub(super) fn apply(of_clients: Vec<Self>, export: &mut ImportedExport) {
        let mut of_clients = of_clients.into_iter();
        let Some(first) = of_clients.next() else { return };
        export.notes.extend(first.faults.iter().map(|fault| format!("No location: {fault}.")));
        if !first.faults.is_empty() {
            export.turn_off("not all of its locations can be imported.".to_owned());
        }
        if of_clients.any(|other| other != first) {
            export.turn_off("its clients have different locations, which has no equivalent.".to_owned());
        }
        if !first.refer.is_empty() {
            export.keys.retain(|(key, _)| !OF_FILES.contains(key));
            for rule in &mut export.rules {
                rule.keys.retain(|(key, _)| !OF_FILES.contains(key));
            }
            export.keys.insert(0, ("refer", list(&first.refer)));
        } else if !first.replicas.is_empty() {
            export.keys.push(("locations", list(&first.replicas)));
        }
    }
}

/// Splits at colons outside of the brackets of IPv6 addresses.
fn split_places(value: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    value.split(move |c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ':' && depth == 0
    })
}
