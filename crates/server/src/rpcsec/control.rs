//! Control messages: creation of contexts (RFC 2203 section 5.2).

use super::context::{Context, HANDLE_LEN, Handle, SharedContext};
use super::{AcceptError, Rpcsec};
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
        match self.accept(token, now, random) {
            Ok((context, token)) => Created::Context { context, token },
            Err(error) => Created::Refused(error),
        }
    }

    fn accept(
        &self,
        token: &[u8],
        now: Duration,
        random: &dyn Fn(&mut [u8]),
    ) -> Result<(SharedContext, Vec<u8>), AcceptError> {
        let mut accepted = self.acceptor.accept(token)?;
        let account = self.identities.resolve(&accepted.principal, now).map_err(|error| AcceptError {
            major: GSS_S_FAILURE,
            minor: 0,
            message: error.to_string(),
        })?;
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
        self.contexts.insert(Arc::clone(&context), now);
        Ok((context, reply))
    }
}
