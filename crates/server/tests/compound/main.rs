//! Whole COMPOUNDs in, whole COMPOUNDs out, against the memory backend at a given time.

mod helper;
mod io;
mod sessions;
