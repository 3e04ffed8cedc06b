//! Whole COMPOUNDs in, whole COMPOUNDs out, against the memory backend at a given time.

mod attributes;
mod helper;
mod io;
mod namespace;
mod open;
mod readdir;
mod sessions;
