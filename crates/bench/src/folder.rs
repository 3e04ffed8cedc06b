//! The names of the folders that measurements are made in.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the name of this run's own folder on a server or mount, for one variant where there are
/// several. Machines that measure on one export at once meet at no name: beside the process it has
/// the nanosecond of its first use.
pub fn folder_name(variant: Option<&str>) -> String {
    static BEGUN: OnceLock<u32> = OnceLock::new();
    let begun = BEGUN
        .get_or_init(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_nanos()));
    let run = format!(".orthrus-bench-{}-{begun:08x}", std::process::id());
    variant.map_or_else(|| run.clone(), |variant| format!("{run}-{variant}"))
}
