//! Whole COMPOUNDs in, whole COMPOUNDs out, against the memory backend with a clock that tests set.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod acls;
mod admission;
mod attributes;
mod callbacks;
mod client_names;
mod copies;
mod damaged;
mod delegations;
mod foreign;
mod fuse;
mod grace;
mod helper;
mod identities;
mod io;
mod lanes;
mod limited_file_systems;
mod limits;
mod local;
mod local_locks;
mod locks;
mod metadata;
mod minor2;
mod names;
mod namespace;
mod observers;
mod open;
mod policy;
mod races;
mod random;
mod read_plus;
mod readdir;
mod recalls;
mod referrals;
mod secinfo;
mod security;
mod sessions;
mod setid;
mod shortage;
mod small_disk;
mod syncing;
mod unrecorded;
mod v40;
mod waiting;
mod xattrs;
