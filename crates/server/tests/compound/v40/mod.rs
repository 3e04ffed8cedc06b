//! Tests of NFSv4.0 (RFC 7530).

mod clients;
mod minor;
mod opens;
mod random;
mod replays;
