//! A throw-away MIT Kerberos realm in a folder: made without root in a fraction of a second, gone
//! with it.
//!
//! [`Realm::create`] makes the database, the principals, the keytabs and the configuration in a
//! folder and starts a KDC on a free loopback port. The KDC outlives its creator; [`Realm::down`]
//! ends it and removes what was made. [`TemporaryRealm`] does so by itself, for tests, and
//! [`in_realm`] runs a test inside one.
//!
//! It is for trying things and for tests. Other users of the machine get nothing from it: passwords
//! are random, and all keys are in the folder, which only its owner can enter.

mod configuration;
mod enctypes;
mod error;
mod folder;
mod harness;
mod kdc;
mod options;
mod principals;
mod tools;

pub use enctypes::{Enctypes, RealmEnctype};
pub use error::RealmError;
pub use folder::{Realm, Removed};
pub use harness::{TemporaryRealm, in_realm};
pub use options::RealmOptions;
