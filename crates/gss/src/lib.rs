//! The only bridge to MIT Kerberos: accepts and initiates contexts and hands their keys to the krb5
//! crate.
//!
//! MIT's library does what happens once a context: it reads tickets, keytabs and caches and speaks
//! to the KDC. What happens once a message is not its business: the keys of the finished context
//! are exported and the context is gone ([`krb5::ContextKeys`]).
//!
//! [`Acceptor`] is the server's side and takes any key of a keytab, so that one keytab serves many
//! host names. [`Initiator`] is the client's side. [`GssError`] says in words what is wrong and
//! what helps.
//!
//! `unsafe` lives in the `ffi` module and nowhere else in this crate.

mod acceptor;
mod configuration;
mod error;
mod established;
mod ffi;
mod initiator;
mod keytab;

pub use acceptor::Acceptor;
pub use configuration::{ConfigurationError, use_configuration};
pub use error::{GssError, Status};
pub use established::Established;
pub use initiator::{Credential, Initiator, Step};
pub use keytab::{KeytabEntry, keytab_entries};
