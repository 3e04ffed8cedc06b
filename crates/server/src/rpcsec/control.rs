//! Control messages: creation of contexts (RFC 2203 section 5.2).

use super::context::{Context, HANDLE_LEN, Handle, SharedContext};
use super::{AcceptError, Rpcsec};
use identity::{Mapped, PrincipalError};
use rpc::gss::{GSS_S_FAILURE, init_argument};
use std::sync::Arc;
use std::time::Duration;

/// The outcome of an INIT.
pub(crate) enum Created {
    /// The context is established and stored.
    Context {
        /// The new context, as the table holds it.
        context: SharedContext,
        /// The token for the client.
        token: Vec<u8>,
    },
    /// The context is refused. The client gets the status; the reason is logged.
    Refused(AcceptError),
    /// The client's account cannot be looked up now, or the server lacks a resource. The client is
    /// to try again; the cause is logged.
    Unavailable(String),
    /// The arguments hold no token.
    GarbageArgs(xdr::Error),
}

impl Rpcsec {
    /// Accepts the token in the arguments of an INIT call. The context is stored before this
    /// returns, because its first call may arrive on another connection before the reply has left.
    pub(crate) fn create(&self, arguments: &[u8], now: Duration, random: &dyn Fn(&mut [u8])) -> Created {
        let token = match init_argument(arguments, self.limits.token_size_max) {
            Ok(token) => token,
            Err(error) => return Created::GarbageArgs(error),
        };
        self.accept(token, now, random).unwrap_or_else(|refusal| refusal)
    }

    /// Establishes a context.
    ///
    /// # Errors
    /// The answer that refuses it.
    fn accept(&self, token: &[u8], now: Duration, random: &dyn Fn(&mut [u8])) -> Result<Created, Created> {
        let mut accepted = self.acceptor.accept(token).map_err(|error| match error.is_temporary {
            true => Created::Unavailable(error.message),
            false => Created::Refused(error),
        })?;
        let account = self.account(&accepted.principal, now)?;
        if !accepted.delegated_through.is_empty() {
            let through = accepted.delegated_through.join(", ");
            tracing::info!("{:?} has a ticket that was delegated through {through:?}", accepted.principal);
        }
        let reply = std::mem::take(&mut accepted.token);
        let mut handle = [0; HANDLE_LEN];
        random(&mut handle);
        let context = Arc::new(Context::new(
            Handle::new(handle),
            self.contexts.next_id(),
            accepted,
            account,
            self.limits.window_size,
            now,
        ));
        context.set_refresh(now.saturating_add(self.identity_refresh()));
        self.contexts.insert(Arc::clone(&context), now);
        Ok(Created::Context { context, token: reply })
    }

    /// Looks up the account of a new context.
    fn account(&self, principal: &str, now: Duration) -> Result<Mapped, Created> {
        let account = self.identities.resolve(principal, now).map_err(|error| match error {
            PrincipalError::Source(error) => Created::Unavailable(error.to_string()),
            refused @ PrincipalError::Refused(..) => {
                let (major, message) = (GSS_S_FAILURE, refused.to_string());
                Created::Refused(AcceptError { major, minor: 0, message, is_temporary: false })
            }
        })?;
        self.nobodies.note(principal, &account, &self.metrics);
        Ok(account)
    }
}
