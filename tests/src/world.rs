//! A realm, a folder and users for one test.

use crate::folders::{empty_folder, is_root};
use crate::program::program;
use crate::server::{Serve, Server};
use client::{Error, Filesystem, Flavor, Options, Security};
use gss::Credential;
use nix::unistd::{User, chown, geteuid};
use realm::{Realm, RealmOptions};
use rng::SplitMix64;
use std::cell::{Cell, RefCell};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// The local accounts that alice and bob act as where the server can serve several: every Linux has
/// them.
const ACCOUNTS: [(&str, &str); 2] = [("alice", "daemon"), ("bob", "games")];

/// The realm and the folders of a test with Kerberos.
pub struct World {
    /// The realm, with its KDC.
    pub realm: Realm,
    folder: TempDir,
    tickets: RefCell<Vec<String>>,
    servers: Cell<u32>,
}

/// The account that a user of the realm acts as: another one for each if the server is root, else
/// this process'.
pub fn account(user: &str) -> User {
    let found = match ACCOUNTS.iter().find(|(name, _)| *name == user) {
        Some((_, account)) if is_root() => User::from_name(account),
        _ => User::from_uid(geteuid()),
    };
    found.expect("accounts can be read").expect("the account exists")
}

/// Runs a test in a realm of its own; skipped, with the reason, where MIT's programs are missing.
///
/// The body runs in a process of its own that sees the realm. It is a closure of the test function
/// itself.
pub fn in_world<F: FnOnce(&World)>(body: F) {
    in_world_with(&RealmOptions::default(), body);
}

/// As [`in_world`], with a realm made to order.
pub fn in_world_with<F: FnOnce(&World)>(options: &RealmOptions, body: F) {
    // The closure's path is the crate's name and the path of the test, which is the name of the
    // test in the harness.
    let name = std::any::type_name::<F>().trim_end_matches("::{{closure}}");
    let test = name.split_once("::").expect("a path").1;
    program();
    realm::in_realm(test, options, |realm| body(&World::new(realm)));
}

impl World {
    fn new(realm: &Realm) -> Self {
        let world = Self {
            realm: realm.clone(),
            folder: empty_folder(),
            tickets: RefCell::default(),
            servers: Cell::default(),
        };
        world.folder_of("alice", "export");
        world
    }

    /// Makes a folder that belongs to the account of a user.
    pub fn folder_of(&self, user: &str, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).expect("a new name");
        let account = account(user);
        chown(&path, Some(account.uid), Some(account.gid)).expect("root may, and others own it already");
        path
    }

    /// Returns a path in the test's own folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the folder that is exported as `/export`: alice's.
    pub fn export(&self) -> PathBuf {
        self.path("export")
    }

    /// Begins a server with the realm's keys, the users' accounts and a state folder of its own,
    /// but without an export.
    pub fn bare_server(&self) -> Serve {
        self.servers.set(self.servers.get() + 1);
        let state = self.path(&format!("state-{}", self.servers.get()));
        let mut serve = Serve::new(state).arg("--keytab").arg(self.realm.server_keytab());
        for (user, _) in ACCOUNTS {
            serve = serve.arg("--map").arg(format!("{user}@{}={}", self.realm.name(), account(user).name));
        }
        serve
    }

    /// Begins a server that exports [`World::export`].
    pub fn server(&self) -> Serve {
        self.bare_server().arg(self.export())
    }

    /// Makes a user's identity: for Kerberos with a ticket, for AUTH_SYS with the account's
    /// numbers.
    pub fn identity(&self, user: &str, flavor: Flavor) -> Security {
        if flavor == Flavor::Sys {
            let account = account(user);
            return Security::sys_as(account.uid.as_raw(), account.gid.as_raw());
        }
        let cache = self.path(&format!("ticket-{user}"));
        if !self.tickets.borrow().iter().any(|had| had == user) {
            self.realm.kinit(user, &cache).expect("the KDC gives a ticket");
            self.tickets.borrow_mut().push(user.to_owned());
        }
        Security::of(flavor, "localhost", Credential::Ccache(format!("FILE:{}", cache.display())))
    }

    /// The options of a user's client.
    pub fn options(&self, server: &Server, user: &str, flavor: Flavor) -> Options {
        Options::new("127.0.0.1", self.identity(user, flavor)).port(server.port())
    }

    /// Mounts `/export` as a user.
    pub fn mount(&self, server: &Server, user: &str, flavor: Flavor) -> Filesystem {
        Filesystem::mount(self.options(server, user, flavor), "/export").expect("the export can be mounted")
    }
}

/// The status that an operation failed with.
pub fn status<T>(result: Result<T, Error>) -> nfs4::Nfsstat4 {
    let error = result.map(drop).expect_err("it has to be refused");
    error.status().unwrap_or_else(|| panic!("not refused by an operation: {error}"))
}

/// Bytes that tell every place from its neighbours.
pub fn pattern(seed: u32, length: usize) -> Vec<u8> {
    SplitMix64(seed.into()).bytes(length)
}
