//! A disposable MIT Kerberos realm in a folder, created without root in a fraction of a second.
//!
//! [`Realm::create`] creates the database, the principals, the keytabs and the configuration in a
//! folder and starts a KDC on a free loopback port. The KDC outlives its creator; [`Realm::down`]
//! stops it and removes its files. [`TemporaryRealm`] does this automatically for tests, and
//! [`in_realm`] runs a test inside a realm.
//!
//! With [`RealmOptions::delegation`] the principals are in an OpenLDAP directory of the realm,
//! because MIT's KDC supports constrained delegation (MS-SFU) only with that back end. With
//! [`RealmOptions::replicas`] there are further KDCs, each with a replica of that directory.
//!
//! The realm is for trials and tests. It exposes nothing to other users of the machine: passwords
//! are random, and all keys are in the folder, which only its owner can enter.

mod configuration;
mod daemon;
mod directory;
mod enctypes;
mod error;
mod folder;
mod harness;
mod kdc;
mod options;
mod principals;
mod removal;
mod replicas;
mod tools;

pub use enctypes::{Enctypes, RealmEnctype};
pub use error::RealmError;
pub use folder::{Realm, Removed};
pub use harness::{TemporaryRealm, in_realm};
pub use options::{REPLICAS_MAX, RealmOptions};

/// The file that marks a realm's folder; a folder without it is never removed.
const MARKER: &str = ".orthrus-realm";

/// The password of the master key. The key itself is stashed in the realm's folder.
const MASTER_PASSWORD: &str = "throw-away";
