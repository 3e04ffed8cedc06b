//! Floods next to honest clients, short where nothing else is said: `cargo xtask hostile` runs them
//! long.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use client::Flavor;
use e2e::hostile::{FLOODS, Flood, MEMORY_MAX_KIB, Plan, Row, flood};
use e2e::{Server, World, in_world, pattern};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// A server that admits 127.0.0.1 alone, and so not the hostile peer.
fn server(world: &World) -> Server {
    let export = world.export();
    let file = export.join("file");
    fs::write(&file, pattern(1, 1 << 20)).expect("the folder is ours");
    let account = e2e::account("alice");
    nix::unistd::chown(&file, Some(account.uid), Some(account.gid)).expect("root may; others own it");
    let config = world.path("orthrus.toml");
    let text = format!(
        "[[export]]\npath = {export:?}\npseudo = \"/export\"\nclients = [\"127.0.0.1/32\"]\n\
         sec = [\"krb5p\", \"krb5i\", \"krb5\", \"sys\"]\nsecure = false\n"
    );
    fs::write(&config, text).expect("the folder is ours");
    world.bare_server().for_everybody().arg("--config").arg(&config).start()
}

fn words(name: &str) -> Option<Vec<String>> {
    let text = std::env::var(name).ok()?;
    Some(text.split(',').map(str::to_owned).collect())
}

/// Floods and flavors that `cargo xtask hostile` asks for; here one flavor a flood, in turn.
fn chosen() -> Vec<(&'static Flood, Flavor)> {
    let (floods, flavors) = (words("ORTHRUS_HOSTILE_FLOODS"), words("ORTHRUS_HOSTILE_FLAVORS"));
    let named =
        |flood: &&Flood| floods.as_ref().is_none_or(|names| names.iter().any(|name| name == flood.name));
    let of = |(number, flood): (usize, &'static Flood)| -> Vec<(&'static Flood, Flavor)> {
        let flavors = match &flavors {
            Some(names) => {
                Flavor::ALL.into_iter().filter(|one| names.iter().any(|name| name == one.name())).collect()
            }
            None => vec![Flavor::ALL[number % Flavor::ALL.len()]],
        };
        flavors.into_iter().map(|flavor| (flood, flavor)).collect()
    };
    FLOODS.iter().filter(named).enumerate().flat_map(of).collect()
}

fn check(row: &Row) {
    assert!(row.losses.is_empty(), "honest clients lost something\n{}\n{row}", Row::HEAD);
    assert!(row.growth() <= MEMORY_MAX_KIB, "the server grew by {} KiB\n{}\n{row}", row.growth(), Row::HEAD);
}

#[test]
fn floods_cost_honest_clients_no_connection_lock_or_request_and_the_server_little_memory() {
    // The peer has no credentials, and its address is admitted by no export.
    in_world(|world| {
        let milliseconds = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
        let phase = Duration::from_millis(milliseconds("ORTHRUS_HOSTILE_PHASE_MS").unwrap_or(700));
        let rounds = milliseconds("ORTHRUS_HOSTILE_ROUNDS").unwrap_or(1) as u32;
        let result = std::env::var_os("ORTHRUS_HOSTILE_RESULT");
        let compares = result.is_some();
        let mut server = server(world);
        eprintln!("{}", Row::HEAD);
        for (of, flavor) in chosen() {
            let row = flood(world, &server, of, flavor, Plan { phase, compares, rounds });
            eprintln!("{row}");
            assert!(server.is_running(), "{}", server.log());
            match &result {
                Some(path) => append(Path::new(path), &row),
                None => check(&row),
            }
        }
        let log = server.log();
        assert!(!log.contains("panicked") && !log.contains("defect"), "{log}");
    });
}

fn append(path: &Path, row: &Row) {
    let mut file = fs::OpenOptions::new().create(true).append(true).open(path).expect("the file of results");
    writeln!(file, "{}", row.json()).expect("the disk has room");
}
