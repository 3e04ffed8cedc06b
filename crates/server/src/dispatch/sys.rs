//! AUTH_SYS callers (RFC 5531 appendix A), cached so that a call allocates nothing.

use crate::security::Security;
use rpc::AuthSys;
use std::collections::HashMap;
use std::sync::Arc;
use vfs::Caller;

/// AUTH_SYS callers that one thread caches. When the cache is full, it is emptied.
const CALLERS_MAX: usize = 256;

/// Cache of callers by credential. An entry depends on its credential alone, so it cannot go stale.
#[derive(Default)]
pub(super) struct SysCache {
    /// Keyed by the credential's body without its stamp, which may differ from call to call.
    callers: HashMap<Box<[u8]>, Arc<Security>>,
    /// The caller of the last call; the next call mostly has the same.
    last: Option<(Box<[u8]>, Arc<Security>)>,
}

impl SysCache {
    /// Returns the caller of a credential's body.
    pub(super) fn security(&mut self, body: &[u8]) -> Result<Arc<Security>, xdr::Error> {
        let key = body.get(xdr::UNIT..).unwrap_or_default();
        if let Some((_, security)) = self.last.as_ref().filter(|(last, _)| **last == *key) {
            return Ok(Arc::clone(security));
        }
        let security = self.find(key, body)?;
        self.last = Some((key.into(), Arc::clone(&security)));
        Ok(security)
    }

    fn find(&mut self, key: &[u8], body: &[u8]) -> Result<Arc<Security>, xdr::Error> {
        if let Some(security) = self.callers.get(key) {
            return Ok(Arc::clone(security));
        }
        let credential = AuthSys::parse(body)?;
        let groups = credential.gids().into();
        let security = Arc::new(Security::sys(Caller { uid: credential.uid, gid: credential.gid, groups }));
        if self.callers.len() >= CALLERS_MAX {
            self.callers.clear();
        }
        self.callers.insert(key.into(), Arc::clone(&security));
        Ok(security)
    }
}
