//! The loop of one thread: a tick with a call on each of its slots.

use super::caller::{RawCall, ShardCaller, check, compound};
use super::inside::ShardWork;
use anyhow::Context;
use client::{Create, OpenHow};
use nfs4::*;
use server::dispatch::{Action, Scratch, Server};
use server::engine::Nfs;

/// Calls of one tick, each on a slot of its own.
pub(super) const DEPTH: u32 = 32;

/// Bytes of a READ.
const READ_SIZE: u32 = 4096;

/// Where SEQUENCE's sa_sequenceid is in COMPOUND4args: behind an empty tag, the minor version, the
/// number of operations, SEQUENCE's own number and the session id. The slot follows.
const SEQUENCE_AT: usize = 4 * 4 + 16;

/// A session with a file that is open and locked, and the thread's slots in it.
pub(super) struct ShardWorker {
    caller: ShardCaller,
    scratch: Scratch,
    session: Sessionid4,
    first_slot: u32,
    /// The sequence id of all its slots.
    sequence: u32,
    arguments: Vec<u8>,
    place: WorkerFile,
}

/// The objects of the calls.
#[derive(Clone)]
struct WorkerFile {
    file: Vec<u8>,
    name: String,
    opened: Stateid4,
    locked: Stateid4,
}

impl ShardWorker {
    /// Makes a client with a session, and a file.
    pub(super) fn new(server: &Server<Nfs>, number: u64) -> anyhow::Result<Self> {
        let mut worker = Self {
            caller: ShardCaller::sys(number),
            scratch: Scratch::new(),
            session: [0; 16],
            first_slot: 0,
            sequence: 0,
            arguments: Vec::new(),
            place: WorkerFile {
                file: Vec::new(),
                name: format!("file {number}"),
                opened: Stateid4::ANONYMOUS,
                locked: Stateid4::ANONYMOUS,
            },
        };
        worker.mount(server)?;
        worker.open(server)?;
        Ok(worker)
    }

    /// Another user of the same session and file, with slots of its own.
    pub(super) fn beside(&self, number: u64) -> Self {
        Self {
            caller: ShardCaller::sys(number),
            scratch: Scratch::new(),
            session: self.session,
            first_slot: DEPTH,
            sequence: 0,
            arguments: Vec::new(),
            place: self.place.clone(),
        }
    }

    fn mount(&mut self, server: &Server<Nfs>) -> anyhow::Result<()> {
        let owner = format!("client of {}", self.place.name).into_bytes();
        let reply = self.caller.run(server, &mut self.scratch, &[exchange_id(owner)])?;
        let Some(NfsResop4::OP_EXCHANGE_ID(ExchangeId4Res::NFS4_OK(id))) = reply.resarray.last() else {
            anyhow::bail!("{:?}", reply.resarray)
        };
        let create = create_session(id.eir_clientid, id.eir_sequenceid);
        let reply = self.caller.run(server, &mut self.scratch, &[create])?;
        let Some(NfsResop4::OP_CREATE_SESSION(CreateSession4Res::NFS4_OK(session))) = reply.resarray.last()
        else {
            anyhow::bail!("{:?}", reply.resarray)
        };
        self.session = session.csr_sessionid;
        let complete = NfsArgop4::OP_RECLAIM_COMPLETE(ReclaimComplete4Args { rca_one_fs: false });
        self.run(server, vec![complete]).map(drop)
    }

    fn open(&mut self, server: &Server<Nfs>) -> anyhow::Result<()> {
        let values = AttributeValues { mode: Some(0o600), ..AttributeValues::default() };
        let how = OpenHow { create: Create::Unchecked(Box::new(values)), ..OpenHow::write() };
        let name = self.place.name.clone();
        let operations = vec![NfsArgop4::OP_PUTROOTFH, open(&name, &how, b"owner"), NfsArgop4::OP_GETFH];
        for result in self.run(server, operations)?.resarray {
            match result {
                NfsResop4::OP_OPEN(Open4Res::NFS4_OK(ok)) => self.place.opened = ok.stateid,
                NfsResop4::OP_GETFH(Getfh4Res::NFS4_OK(ok)) => self.place.file = ok.object.to_vec(),
                _ => {}
            }
        }
        let data = vec![7; READ_SIZE as usize];
        let (stateid, stable) = (self.place.opened, StableHow4::UNSTABLE4);
        let write = NfsArgop4::OP_WRITE(Write4Args { stateid, offset: 0, stable, data: data.into() });
        let owner = OpenToLockOwner4 {
            open_seqid: 0,
            open_stateid: stateid,
            lock_seqid: 0,
            lock_owner: StateOwner4 { clientid: 0, owner: b"lock owner".into() },
        };
        let reply = self.run(server, vec![self.put(), write, lock(Locker4::TRUE(owner))])?;
        match reply.resarray.last() {
            Some(NfsResop4::OP_LOCK(Lock4Res::NFS4_OK(ok))) => self.place.locked = ok.lock_stateid,
            other => anyhow::bail!("{other:?}"),
        }
        Ok(())
    }

    fn put(&self) -> NfsArgop4<'static> {
        NfsArgop4::OP_PUTFH(Putfh4Args { object: self.place.file.clone().into() })
    }

    fn sequence(&self) -> NfsArgop4<'static> {
        NfsArgop4::OP_SEQUENCE(Sequence4Args {
            sa_sessionid: self.session,
            sa_sequenceid: self.sequence,
            sa_slotid: self.first_slot,
            sa_highest_slotid: 2 * DEPTH - 1,
            sa_cachethis: false,
        })
    }

    /// Runs operations on all slots alike, so that their sequence ids stay the same; returns the
    /// first's results.
    fn run(
        &mut self,
        server: &Server<Nfs>,
        operations: Vec<NfsArgop4<'_>>,
    ) -> anyhow::Result<Compound4Res<'static>> {
        self.sequence += 1;
        let all = [vec![self.sequence()], operations].concat();
        let reply = self.caller.run(server, &mut self.scratch, &all)?;
        for slot in self.first_slot + 1..self.first_slot + DEPTH {
            let mut arguments = compound(&[self.sequence()]);
            put_u32(&mut arguments, SEQUENCE_AT + 4, slot)?;
            let call = self.caller.call(&arguments)?;
            server.tick(&mut self.scratch, [call], &mut |_, _| {});
        }
        Ok(reply)
    }

    /// Selects the work of later calls.
    pub(super) fn choose(&mut self, server: &Server<Nfs>, work: ShardWork) -> anyhow::Result<()> {
        if matches!(work, ShardWork::ReadKrb5) {
            self.caller.establish(server, &mut self.scratch)?;
        }
        let place = &self.place;
        let current = Stateid4 { seqid: 0, ..place.locked };
        let operations = match work {
            ShardWork::Sequence => Vec::new(),
            ShardWork::Read | ShardWork::ReadKrb5 => {
                let (stateid, count) = (place.opened, READ_SIZE);
                vec![self.put(), NfsArgop4::OP_READ(Read4Args { stateid, offset: 0, count })]
            }
            ShardWork::OpenClose => {
                let close = Close4Args { seqid: 0, open_stateid: Stateid4::CURRENT };
                let open = open(&place.name, &OpenHow::read(), b"another owner");
                vec![NfsArgop4::OP_PUTROOTFH, open, NfsArgop4::OP_CLOSE(close)]
            }
            ShardWork::Lock => {
                let locker = ExistLockOwner4 { lock_stateid: current, lock_seqid: 0 };
                let unlock = Locku4Args {
                    locktype: NfsLockType4::WRITE_LT,
                    seqid: 0,
                    lock_stateid: current,
                    offset: 0,
                    length: 1,
                };
                vec![self.put(), lock(Locker4::FALSE(locker)), NfsArgop4::OP_LOCKU(unlock)]
            }
        };
        self.arguments = compound(&[vec![self.sequence()], operations].concat());
        Ok(())
    }

    /// Makes the calls of one tick, one for each slot.
    pub(super) fn calls(&mut self) -> anyhow::Result<Vec<RawCall>> {
        self.sequence = self.sequence.wrapping_add(1);
        put_u32(&mut self.arguments, SEQUENCE_AT, self.sequence)?;
        (self.first_slot..self.first_slot + DEPTH)
            .map(|slot| {
                put_u32(&mut self.arguments, SEQUENCE_AT + 4, slot)?;
                self.caller.call(&self.arguments)
            })
            .collect()
    }

    /// Lets the server answer them.
    pub(super) fn tick(&mut self, server: &Server<Nfs>, calls: Vec<RawCall>, replies: &mut Vec<Vec<u8>>) {
        server.tick(&mut self.scratch, calls, &mut |_, action| {
            if let Action::Send(reply) = action {
                replies.push(reply);
            }
        });
    }

    /// Checks the answers, and forgets them.
    pub(super) fn check(replies: &mut Vec<Vec<u8>>) -> anyhow::Result<()> {
        anyhow::ensure!(replies.len() == DEPTH as usize, "{} of {DEPTH} calls were answered", replies.len());
        replies.drain(..).try_for_each(|reply| check(&reply))
    }
}

fn put_u32(bytes: &mut [u8], at: usize, value: u32) -> anyhow::Result<()> {
    bytes.get_mut(at..at + 4).context("a short COMPOUND")?.copy_from_slice(&value.to_be_bytes());
    Ok(())
}

fn exchange_id(owner: Vec<u8>) -> NfsArgop4<'static> {
    NfsArgop4::OP_EXCHANGE_ID(ExchangeId4Args {
        eia_clientowner: ClientOwner4 { co_verifier: [1; 8], co_ownerid: owner.into() },
        eia_flags: 0,
        eia_state_protect: StateProtect4A::SP4_NONE,
        eia_client_impl_id: Vec::new(),
    })
}

fn create_session(clientid: Clientid4, sequence: u32) -> NfsArgop4<'static> {
    let channel = ChannelAttrs4 {
        ca_headerpadsize: 0,
        ca_maxrequestsize: 1 << 20,
        ca_maxresponsesize: 1 << 20,
        ca_maxresponsesize_cached: 4096,
        ca_maxoperations: 16,
        ca_maxrequests: 2 * DEPTH,
        ca_rdma_ird: Vec::new(),
    };
    NfsArgop4::OP_CREATE_SESSION(CreateSession4Args {
        csa_clientid: clientid,
        csa_sequence: sequence,
        csa_flags: 0,
        csa_fore_chan_attrs: channel.clone(),
        csa_back_chan_attrs: channel,
        csa_cb_program: 0x4000_0000,
        csa_sec_parms: vec![CallbackSecParms4::AUTH_NONE],
    })
}

fn open<'a>(name: &'a str, how: &OpenHow, owner: &'a [u8]) -> NfsArgop4<'a> {
    NfsArgop4::OP_OPEN(how.arguments(owner, OpenClaim4::CLAIM_NULL(name.as_bytes().into())))
}

fn lock(locker: Locker4<'static>) -> NfsArgop4<'static> {
    let locktype = NfsLockType4::WRITE_LT;
    NfsArgop4::OP_LOCK(Lock4Args { locktype, reclaim: false, offset: 0, length: 1, locker })
}
