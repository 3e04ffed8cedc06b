//! A soak, short where nothing else is said: `cargo xtask soak` runs it long.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use e2e::in_world;
use e2e::soak::{Soak, soak};
use std::time::Duration;

/// From here on a soak works on a folder.
const LONG: Duration = Duration::from_secs(30);

/// A number that `cargo xtask soak` gives.
fn told(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn many_clients_that_come_work_and_go_leave_nothing_behind() // RFC 8881 sections 8.3, 9 and 18.50
{
    in_world(|world| {
        let sessions = told("ORTHRUS_SOAK_SESSIONS").unwrap_or(40) as usize;
        let how = Soak {
            time: Duration::from_secs(told("ORTHRUS_SOAK_SECONDS").unwrap_or(6)),
            sessions,
            contexts: (2 * sessions).max(512),
            progress: std::env::var_os("ORTHRUS_SOAK_PROGRESS").map(Into::into),
        };
        let config = world.path("orthrus.toml");
        // A folder's objects are kept open for a minute after their last use: too long for a short
        // soak.
        let export = match how.time < LONG {
            true => "memory = 67108864".to_owned(),
            false => format!("path = {:?}", world.export()),
        };
        let text = format!(
            "lease_time = 60\n[limits]\ncontexts_max = {}\n[[export]]\n{export}\npseudo = \"/export\"\n\
             sec = [\"krb5p\", \"krb5i\", \"krb5\", \"sys\"]\nsecure = false\n",
            how.contexts
        );
        std::fs::write(&config, text).expect("the test's own folder");
        let server = world.bare_server().arg("--config").arg(&config).start();
        let outcome = soak(world, &server, &how);
        if let Some(path) = std::env::var_os("ORTHRUS_SOAK_JSON") {
            std::fs::write(path, outcome.json().to_string()).expect("a file for the result");
        }
        eprintln!("{outcome}");
        assert!(outcome.verdicts.iter().all(|verdict| verdict.good), "the soak found something");
    });
}
