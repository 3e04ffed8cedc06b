//! Two clients with backchannels that compete for a file.

use super::*;

/// Returns the delegation granted by an OPEN.
pub(crate) fn delegation(reply: &Reply) -> &OpenDelegation4<'static> {
    &reply.opened().delegation
}

/// Returns the stateid of the granted delegation.
#[track_caller]
pub(crate) fn granted(reply: &Reply) -> Stateid4 {
    match delegation(reply) {
        OpenDelegation4::OPEN_DELEGATE_READ(read) => read.stateid,
        OpenDelegation4::OPEN_DELEGATE_WRITE(write) => write.stateid,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn delegreturn(deleg_stateid: Stateid4) -> Op {
    NfsArgop4::OP_DELEGRETURN(Delegreturn4Args { deleg_stateid })
}

/// Returns stateid and filehandle of the CB_RECALL in a callback.
#[track_caller]
pub(crate) fn recalled(callback: &Callback) -> (Stateid4, Vec<u8>) {
    match callback.operation() {
        Some(NfsCbArgop4::OP_CB_RECALL(recall)) => (recall.stateid, recall.fh.to_vec()),
        other => panic!("{other:?}"),
    }
}

/// A server, two clients with backchannels, and a file "f" that both may write.
pub(crate) struct Pair<'s> {
    pub server: &'s Server,
    pub wire: Wire,
    pub a: Client<'s>,
    pub b: Client<'s>,
    pub fh: Vec<u8>,
}

impl<'s> Pair<'s> {
    pub(crate) fn new(server: &'s Server) -> Self {
        let wire = Wire::under(server);
        let mut a = Client::delegated(server, &wire, b"a", 11);
        let b = Client::delegated(server, &wire, b"b", 12);
        let reply = a
            .at(
                "export",
                vec![open_create("f", OPEN4_SHARE_ACCESS_BOTH | OPEN4_SHARE_ACCESS_WANT_NO_DELEG), getfh()],
            )
            .ok();
        let (fh, stateid) = (reply.fh(0), reply.opened().stateid);
        a.run(vec![put(&fh), write(stateid, 0, b"data"), close(stateid)]).ok();
        Self { server, wire, a, b, fh }
    }

    /// Opens the file as `a` with a delegation, and keeps it open.
    #[track_caller]
    pub(crate) fn delegate(&mut self, access: u32) -> (Stateid4, Stateid4) {
        let reply = self.a.at("export", vec![open("f", access)]).ok();
        (granted(&reply), reply.opened().stateid)
    }

    /// Runs operations as `b` that conflict with `a`'s delegation: it is recalled and returned,
    /// then they succeed.
    #[track_caller]
    pub(crate) fn conflicts(&mut self, name: &str, stateid: Stateid4, ops: impl Fn(&[u8]) -> Vec<Op>) {
        let reply = self.b.at("export", ops(&self.fh));
        assert_eq!(reply.status, Nfsstat4::NFS4ERR_DELAY, "{name}: {:?}", reply.results);
        let recall = self.wire.one();
        assert_eq!(recalled(&recall), (stateid, self.fh.clone()), "{name}");
        self.server.answer_ok(self.a.now, &recall);
        self.b.at("export", ops(&self.fh)).expect(Nfsstat4::NFS4ERR_DELAY);
        assert!(self.wire.take().is_empty(), "{name}: it is recalled once");
        self.a.run(vec![put(&self.fh), delegreturn(stateid)]).ok();
        let reply = self.b.at("export", ops(&self.fh));
        assert_eq!(reply.status, Nfsstat4::NFS4_OK, "{name}: {:?}", reply.results);
    }
}
