//! Serves CB_COMPOUND requests over the connections of the session (RFC 8881 sections 2.10.3.1 and
//! 20).

use std::fmt;

use nfs4::*;
use rpc::{Accepted, CallHeader, Message, OpaqueAuth, RECORD_MARK_LEN, SequenceWindow, record_mark};
use xdr::{Decode, Decoder, Encode, Encoder};

use crate::security::{CallbackContext, Damage};
use crate::session::{BACK_SLOTS, Session};

/// Answers the operations behind CB_SEQUENCE, with a status or a result of its own.
pub(crate) type Handler = dyn FnMut(&NfsCbArgop4<'_>) -> CallbackAnswer + Send;

/// The answer of a handler to a callback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallbackAnswer {
    /// Answers with this status.
    Status(Nfsstat4),
    /// Answers with this result.
    Result(NfsCbResop4<'static>),
    /// Sends no answer, as a dead client would.
    Silence,
}

/// The client's side of a backchannel.
pub(crate) struct ClientBackChannel {
    handler: Box<Handler>,
    slots: [CallbackSlot; BACK_SLOTS as usize],
    /// Sequence numbers of callbacks by RPCSEC_GSS, once the first has arrived.
    window: Option<SequenceWindow>,
    /// The deliberate damage to answers, for tests.
    damage: Damage,
    /// The stateids of recalls that were answered with NFS4_OK.
    recalls: Vec<Stateid4>,
}

/// A slot of the backchannel.
#[derive(Debug, Default)]
struct CallbackSlot {
    /// The last sequence id.
    sequence: u32,
    /// The reply to it, which a repeated callback gets, too, so that none is executed twice (RFC
    /// 8881 section 2.10.6.1.3). `None` if the handler was silent.
    reply: Option<CbCompound4Res<'static>>,
}

/// The place of a callback in its slot.
enum CallbackTurn {
    New(CbSequence4Resok),
    Repeated(CbCompound4Res<'static>),
    Refused(Nfsstat4),
}

impl Default for ClientBackChannel {
    /// Accepts recalls, which [`ClientBackChannel::take_recalls`] returns.
    fn default() -> Self {
        let handler = Box::new(|_: &NfsCbArgop4<'_>| CallbackAnswer::Status(Nfsstat4::NFS4_OK));
        Self { handler, slots: Default::default(), window: None, damage: Damage::None, recalls: Vec::new() }
    }
}

impl fmt::Debug for ClientBackChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackChannel").field("slots", &self.slots).finish_non_exhaustive()
    }
}

impl ClientBackChannel {
    /// Sets the handler of callbacks.
    pub(crate) fn set_handler(&mut self, handler: Box<Handler>) {
        self.handler = handler;
    }

    /// Sets the deliberate damage to answers.
    pub(crate) fn set_damage(&mut self, damage: Damage) {
        self.damage = damage;
    }

    /// Returns the stateids of CB_RECALLs that were answered with NFS4_OK since the last call.
    pub(crate) fn take_recalls(&mut self) -> Vec<Stateid4> {
        std::mem::take(&mut self.recalls)
    }

    /// Resets the slots for a new session.
    pub(crate) fn reset(&mut self) {
        (self.slots, self.window) = (Default::default(), None);
    }

    /// Answers a callback record. Returns `None` if it is not a call or gets no answer.
    pub(crate) fn call_back(&mut self, session: &Session, record: &[u8]) -> Option<Vec<u8>> {
        let Ok(Message::Call(header)) = Message::parse(record) else { return None };
        let mut reply = match &session.called_back_by {
            None => {
                let (status, results) = self.answer(session, &header, record.get(header.arguments_at..))?;
                let mut encoder = Encoder::new();
                encoder.raw(&[0; RECORD_MARK_LEN]);
                status.encode(&mut encoder, header.xid, &OpaqueAuth::NONE);
                encoder.raw(&results);
                encoder.into_vec()
            }
            Some(by) => self.call_back_by(session, by, &header, record)?,
        };
        let mark = record_mark(reply.len().saturating_sub(RECORD_MARK_LEN));
        *reply.first_chunk_mut()? = mark;
        Some(reply)
    }

    /// Answers a callback that must use RPCSEC_GSS.
    fn call_back_by(
        &mut self,
        session: &Session,
        by: &CallbackContext,
        header: &CallHeader<'_>,
        record: &[u8],
    ) -> Option<Vec<u8>> {
        let window = self.window.get_or_insert_with(|| by.window());
        match by.admit(window, header) {
            Ok(sequence) => {
                let arguments = by.arguments(record, header.arguments_at, sequence);
                let (status, results) = self.answer(session, header, arguments.as_deref())?;
                by.answer(header.xid, sequence, status, &results, self.damage).ok()
            }
            Err(denied) => {
                let mut encoder = Encoder::new();
                encoder.raw(&[0; RECORD_MARK_LEN]);
                denied?.encode(&mut encoder, header.xid);
                Some(encoder.into_vec())
            }
        }
    }

    /// Returns the answer to a call with these arguments, if any. Returns `None` if the handler
    /// stays silent.
    fn answer(
        &mut self,
        session: &Session,
        header: &CallHeader<'_>,
        arguments: Option<&[u8]>,
    ) -> Option<(Accepted, Vec<u8>)> {
        let callback = (header.program, header.version) == (NFS4_CALLBACK, NFS_CB);
        if callback && header.procedure == CB_NULL {
            return Some((Accepted::Success, Vec::new()));
        }
        match arguments
            .ok_or(Accepted::GarbageArgs)
            .and_then(|arguments| self.results(session, header, arguments))
        {
            Ok(results) => {
                let mut encoder = Encoder::new();
                results?.encode(&mut encoder);
                Some((Accepted::Success, encoder.into_vec()))
            }
            Err(status) => Some((status, Vec::new())),
        }
    }

    fn results(
        &mut self,
        session: &Session,
        header: &CallHeader<'_>,
        arguments: &[u8],
    ) -> Result<Option<CbCompound4Res<'static>>, Accepted> {
        if header.program != NFS4_CALLBACK {
            return Err(Accepted::ProgUnavail);
        }
        if header.version != NFS_CB {
            return Err(Accepted::ProgMismatch { low: NFS_CB, high: NFS_CB });
        }
        if header.procedure != CB_COMPOUND {
            return Err(Accepted::ProcUnavail);
        }
        let mut decoder = Decoder::new(arguments);
        let args = CbCompound4Args::decode(&mut decoder).map_err(|_| Accepted::GarbageArgs)?;
        let mut operations = args.argarray.iter();
        let Some(NfsCbArgop4::OP_CB_SEQUENCE(sequence)) = operations.next() else {
            let refused =
                args.argarray.first().map(|first| failed(first, Nfsstat4::NFS4ERR_OP_NOT_IN_SESSION));
            return Ok(Some(compound(refused.into_iter().collect())));
        };
        let accepted = match self.turn(session, sequence) {
            CallbackTurn::New(accepted) => NfsCbResop4::OP_CB_SEQUENCE(CbSequence4Res::NFS4_OK(accepted)),
            CallbackTurn::Repeated(reply) => return Ok(Some(reply)),
            CallbackTurn::Refused(status) => {
                let refused = NfsCbResop4::OP_CB_SEQUENCE(CbSequence4Res::Default(status));
                return Ok(Some(compound(vec![refused])));
            }
        };
        let reply = self.execute(accepted, operations);
        if let Some(slot) = self.slot(sequence) {
            slot.reply.clone_from(&reply);
        }
        Ok(reply)
    }

    /// Executes the operations behind CB_SEQUENCE up to the first that fails; `None` if the handler
    /// is silent.
    fn execute<'a>(
        &mut self,
        accepted: NfsCbResop4<'static>,
        operations: impl Iterator<Item = &'a NfsCbArgop4<'a>>,
    ) -> Option<CbCompound4Res<'static>> {
        let mut resarray = vec![accepted];
        for operation in operations {
            let result = match (self.handler)(operation) {
                CallbackAnswer::Silence => return None,
                CallbackAnswer::Status(status) => failed(operation, status),
                CallbackAnswer::Result(result) => result,
            };
            let status = status_of(&result);
            resarray.push(result);
            if status != Nfsstat4::NFS4_OK {
                break;
            }
            if let NfsCbArgop4::OP_CB_RECALL(recall) = operation {
                self.recalls.push(recall.stateid);
            }
        }
        Some(compound(resarray))
    }

    fn slot(&mut self, args: &CbSequence4Args) -> Option<&mut CallbackSlot> {
        self.slots.get_mut(args.csa_slotid as usize)
    }

    /// Begins a callback in its slot.
    fn turn(&mut self, session: &Session, args: &CbSequence4Args) -> CallbackTurn {
        if args.csa_sessionid != session.id {
            return CallbackTurn::Refused(Nfsstat4::NFS4ERR_BADSESSION);
        }
        let Some(slot) = self.slot(args) else { return CallbackTurn::Refused(Nfsstat4::NFS4ERR_BADSLOT) };
        if args.csa_sequenceid == slot.sequence {
            let uncached = CallbackTurn::Refused(Nfsstat4::NFS4ERR_RETRY_UNCACHED_REP);
            return slot.reply.clone().map_or(uncached, CallbackTurn::Repeated);
        }
        if args.csa_sequenceid != slot.sequence.wrapping_add(1) {
            return CallbackTurn::Refused(Nfsstat4::NFS4ERR_SEQ_MISORDERED);
        }
        *slot = CallbackSlot { sequence: args.csa_sequenceid, reply: None };
        CallbackTurn::New(CbSequence4Resok {
            csr_sessionid: session.id,
            csr_sequenceid: args.csa_sequenceid,
            csr_slotid: args.csa_slotid,
            csr_highest_slotid: BACK_SLOTS - 1,
            csr_target_highest_slotid: BACK_SLOTS - 1,
        })
    }
}

/// Returns the reply with these results and the status of the last.
fn compound(resarray: Vec<NfsCbResop4<'static>>) -> CbCompound4Res<'static> {
    let status = resarray.last().map_or(Nfsstat4::NFS4_OK, status_of);
    CbCompound4Res { status, tag: b"".into(), resarray }
}

/// Returns the result of a failed operation, which is only a status.
fn failed(operation: &NfsCbArgop4<'_>, status: Nfsstat4) -> NfsCbResop4<'static> {
    match operation {
        NfsCbArgop4::OP_CB_RECALL(_) => NfsCbResop4::OP_CB_RECALL(CbRecall4Res { status }),
        NfsCbArgop4::OP_CB_RECALL_ANY(_) => {
            NfsCbResop4::OP_CB_RECALL_ANY(CbRecallAny4Res { crar_status: status })
        }
        NfsCbArgop4::OP_CB_GETATTR(_) => NfsCbResop4::OP_CB_GETATTR(CbGetattr4Res::Default(status)),
        NfsCbArgop4::OP_CB_NOTIFY_LOCK(_) => {
            NfsCbResop4::OP_CB_NOTIFY_LOCK(CbNotifyLock4Res { cnlr_status: status })
        }
        NfsCbArgop4::OP_CB_OFFLOAD(_) => NfsCbResop4::OP_CB_OFFLOAD(CbOffload4Res { cor_status: status }),
        _ => NfsCbResop4::OP_CB_ILLEGAL(CbIllegal4Res { status: Nfsstat4::NFS4ERR_OP_ILLEGAL }),
    }
}

/// Returns the status of a result, which follows the operation's number.
fn status_of(result: &NfsCbResop4<'_>) -> Nfsstat4 {
    let mut encoder = Encoder::new();
    result.encode(&mut encoder);
    let mut decoder = Decoder::new(encoder.as_slice());
    let status = decoder.u32().and_then(|_| Nfsstat4::decode(&mut decoder));
    status.unwrap_or(Nfsstat4::NFS4ERR_SERVERFAULT)
}
