//! The program against the client library, against itself and against bytes that no client sends.

mod access;
mod control;
mod flavors;
mod misuse;
mod realms;
mod restart;
