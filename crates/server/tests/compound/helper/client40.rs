//! A client of NFSv4.0: no session, but owners with sequence numbers.

use super::*;
use std::cell::Cell;

/// A client with a confirmed client ID, one open-owner and one lock-owner.
pub(crate) struct Client40<'s> {
    pub server: &'s Server,
    pub security: Security,
    pub connection: u64,
    pub now: Cell<Duration>,
    pub clientid: Clientid4,
    /// The next sequence numbers of the open-owner and of the lock-owner.
    pub open_seqid: Cell<u32>,
    pub lock_seqid: Cell<u32>,
}

pub(crate) const OPEN_OWNER: &[u8] = b"opener";
pub(crate) const LOCK_OWNER: &[u8] = b"locker";

pub(crate) fn setclientid(name: &[u8], verifier: Verifier4) -> Op {
    NfsArgop4::OP_SETCLIENTID(Setclientid4Args {
        client: NfsClientId4 { verifier, id: bytes(name) },
        callback: CbClient4 {
            cb_program: 0x4000_0000,
            cb_location: Netaddr4 { na_r_netid: bytes(b"tcp"), na_r_addr: bytes(b"192.0.2.1.3.32") },
        },
        callback_ident: 1,
    })
}

pub(crate) fn setclientid_confirm(clientid: Clientid4, setclientid_confirm: Verifier4) -> Op {
    NfsArgop4::OP_SETCLIENTID_CONFIRM(SetclientidConfirm4Args { clientid, setclientid_confirm })
}

impl Reply {
    #[track_caller]
    pub(crate) fn clientid(&self) -> Setclientid4Resok {
        match self.last() {
            NfsResop4::OP_SETCLIENTID(Setclientid4Res::NFS4_OK(ok)) => *ok,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the stateid of the last operation.
    #[track_caller]
    pub(crate) fn stateid(&self) -> Stateid4 {
        match self.last() {
            NfsResop4::OP_OPEN(Open4Res::NFS4_OK(ok)) => ok.stateid,
            NfsResop4::OP_OPEN_CONFIRM(OpenConfirm4Res::NFS4_OK(ok)) => ok.open_stateid,
            NfsResop4::OP_OPEN_DOWNGRADE(OpenDowngrade4Res::NFS4_OK(ok)) => ok.open_stateid,
            NfsResop4::OP_LOCK(Lock4Res::NFS4_OK(ok)) => ok.lock_stateid,
            NfsResop4::OP_LOCKU(Locku4Res::NFS4_OK(stateid)) => *stateid,
            NfsResop4::OP_CLOSE(Close4Res::NFS4_OK(stateid)) => *stateid,
            other => panic!("{other:?}"),
        }
    }
}

impl<'s> Client40<'s> {
    /// Makes a client of alice's by AUTH_SYS.
    pub(crate) fn new(server: &'s Server) -> Self {
        Self::with(server, b"client", sys(ALICE), [1; 8])
    }

    pub(crate) fn with(server: &'s Server, name: &[u8], security: Security, verifier: Verifier4) -> Self {
        let mut client = Self {
            server,
            security,
            connection: 40,
            now: Cell::new(Duration::from_secs(100)),
            clientid: 0,
            open_seqid: Cell::new(1),
            lock_seqid: Cell::new(1),
        };
        let set = client.run(vec![setclientid(name, verifier)]).ok().clientid();
        client.run(vec![setclientid_confirm(set.clientid, set.setclientid_confirm)]).ok();
        client.clientid = set.clientid;
        client
    }

    pub(crate) fn run(&self, ops: Vec<Op>) -> Reply {
        self.server.call(&self.security, self.connection, self.now.get(), 0, &ops)
    }

    /// Runs operations behind PUTROOTFH and LOOKUPs.
    pub(crate) fn at(&self, path: &str, ops: Vec<Op>) -> Reply {
        let mut all = vec![put_root()];
        all.extend(path.split('/').filter(|name| !name.is_empty()).map(lookup));
        all.extend(ops);
        self.run(all)
    }

    pub(crate) fn next_open(&self) -> u32 {
        self.open_seqid.replace(self.open_seqid.get().wrapping_add(1))
    }

    pub(crate) fn next_lock(&self) -> u32 {
        self.lock_seqid.replace(self.lock_seqid.get().wrapping_add(1))
    }

    pub(crate) fn open_op(
        &self,
        openhow: Openflag4<'static>,
        claim: OpenClaim4<'static>,
        access: u32,
        deny: u32,
    ) -> Op {
        self.open_as(OPEN_OWNER, self.next_open(), openhow, claim, access, deny)
    }

    pub(crate) fn open_as(
        &self,
        owner: &[u8],
        seqid: u32,
        openhow: Openflag4<'static>,
        claim: OpenClaim4<'static>,
        share_access: u32,
        share_deny: u32,
    ) -> Op {
        let owner = StateOwner4 { clientid: self.clientid, owner: bytes(owner) };
        NfsArgop4::OP_OPEN(Open4Args { seqid, share_access, share_deny, owner, openhow, claim })
    }

    pub(crate) fn create_op(&self, name: &str) -> Op {
        let how = Openflag4::OPEN4_CREATE(Createhow4::UNCHECKED4(mode(0o644)));
        self.open_op(how, by_name(name), 3, 0)
    }

    pub(crate) fn confirm_op(&self, stateid: Stateid4) -> Op {
        let seqid = self.next_open();
        NfsArgop4::OP_OPEN_CONFIRM(OpenConfirm4Args { open_stateid: stateid, seqid })
    }

    pub(crate) fn close_op(&self, open_stateid: Stateid4) -> Op {
        NfsArgop4::OP_CLOSE(Close4Args { seqid: self.next_open(), open_stateid })
    }

    /// Creates or opens a file of the export, and confirms the open if requested. Returns its
    /// filehandle and stateid.
    #[track_caller]
    pub(crate) fn opened(&self, name: &str) -> (Vec<u8>, Stateid4) {
        let reply = self.at("export", vec![self.create_op(name), getfh()]).ok();
        let (fh, stateid) = (reply.fh(0), reply.opened().stateid);
        if reply.opened().rflags & OPEN4_RESULT_CONFIRM == 0 {
            return (fh, stateid);
        }
        let stateid = self.run(vec![put(&fh), self.confirm_op(stateid)]).ok().stateid();
        (fh, stateid)
    }

    /// The first LOCK of the lock-owner under an open.
    pub(crate) fn first_lock_op(&self, open_stateid: Stateid4, offset: u64, length: u64) -> Op {
        let lock_owner = StateOwner4 { clientid: self.clientid, owner: bytes(LOCK_OWNER) };
        let new = OpenToLockOwner4 {
            open_seqid: self.next_open(),
            open_stateid,
            lock_seqid: self.next_lock(),
            lock_owner,
        };
        lock_op(offset, length, Locker4::TRUE(new))
    }

    pub(crate) fn lock_op(&self, lock_stateid: Stateid4, offset: u64, length: u64) -> Op {
        let existing = ExistLockOwner4 { lock_stateid, lock_seqid: self.next_lock() };
        lock_op(offset, length, Locker4::FALSE(existing))
    }

    pub(crate) fn unlock_op(&self, lock_stateid: Stateid4, offset: u64, length: u64) -> Op {
        let (locktype, seqid) = (NfsLockType4::WRITE_LT, self.next_lock());
        NfsArgop4::OP_LOCKU(Locku4Args { locktype, seqid, lock_stateid, offset, length })
    }
}

fn lock_op(offset: u64, length: u64, locker: Locker4<'static>) -> Op {
    NfsArgop4::OP_LOCK(Lock4Args { locktype: NfsLockType4::WRITE_LT, reclaim: false, offset, length, locker })
}
