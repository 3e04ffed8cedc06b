//! Accepts and initiates contexts with MIT Kerberos, and passes their keys to the krb5 crate.
//!
//! MIT's library does the work per context: it reads tickets, keytabs and caches and talks to the
//! KDC. It does no work per message: the keys of an established context are exported
//! ([`krb5::ContextKeys`]), and the library deletes the context.
//!
//! [`Acceptor`] is the server's side. It accepts with any key of a keytab, so that one keytab
//! serves many host names. [`Initiator`] is the client's side. [`GssError`] names cause and remedy.
//!
//! All `unsafe` code of this crate is in the `ffi` module.

mod acceptor;
mod configuration;
mod error;
mod established;
mod ffi;
mod initiator;
mod keytab;
mod minor;

pub use acceptor::Acceptor;
pub use configuration::use_configuration;
pub use error::{ConfigurationError, GssError, Status};
pub use established::{Established, ForwardedTicket};
pub use initiator::{Credential, Initiator, Step};
pub use keytab::{KeytabEntry, keytab_entries, select_keys};
pub use minor::{Codes, MinorCode, minor_code};
