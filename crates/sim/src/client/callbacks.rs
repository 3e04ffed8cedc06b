//! Replies to callbacks: CB_RECALL and CB_GETATTR.

use super::Client;
use super::callback_security::OpenedGssCallback;
use nfs4::*;
use rpc::{Accepted, AuthFlavor, CallHeader, Message, OpaqueAuth};
use std::rc::Rc;
use xdr::{Decode, Decoder, Encode, Encoder};

impl Client {
    /// Answers callbacks until the client ends.
    pub(crate) async fn answer_callbacks(self: Rc<Self>) {
        while !self.state.borrow().finished {
            let next = self.world.lock().callbacks.get_mut(&self.host).and_then(|all| all.pop_front());
            match next {
                Some((connection, record)) => {
                    if let Some(answer) = self.answer(&record) {
                        self.world.answer(connection, answer);
                    }
                }
                None => self.pause(20, 200).await,
            }
        }
    }
}

impl Client {
    /// Makes the reply to a callback; `None` if it gets none.
    fn answer(&self, record: &[u8]) -> Option<Vec<u8>> {
        let Ok(Message::Call(header)) = Message::parse(record) else { return None };
        if header.credential.known_flavor() == Some(AuthFlavor::RPCSEC_GSS) {
            return self.answer_gss(&header, record);
        }
        let results = self.results(record.get(header.arguments_at..)?)?;
        let mut reply = Encoder::new();
        Accepted::Success.encode(&mut reply, header.xid, &OpaqueAuth::NONE);
        reply.raw(&results);
        Some(reply.into_vec())
    }

    /// Makes the reply to a callback by RPCSEC_GSS.
    fn answer_gss(&self, header: &CallHeader<'_>, record: &[u8]) -> Option<Vec<u8>> {
        let session = self.state.borrow().callbacks.clone()?;
        match session.open(header, record) {
            OpenedGssCallback::Genuine(sequence, arguments) => {
                self.world.note(format_args!("client {} gets callback {sequence} by RPCSEC_GSS", self.host));
                Some(session.reply(header.xid, sequence, &self.results(&arguments)?))
            }
            OpenedGssCallback::Unknown => None,
            OpenedGssCallback::Wrong(reason) => {
                let mut inner = self.world.lock();
                let (now, detail) = (inner.now, format!("client {}: {reason}", self.host));
                inner.history.complain("a callback is genuine and new", detail, now);
                None
            }
        }
    }

    /// Executes a callback, which may queue a recalled delegation, and encodes its results.
    fn results(&self, arguments: &[u8]) -> Option<Vec<u8>> {
        let args = CbCompound4Args::decode(&mut Decoder::new(arguments)).ok()?;
        let Some(NfsCbArgop4::OP_CB_SEQUENCE(sequence)) = args.argarray.first() else { return None };
        let sequence = CbSequence4Res::NFS4_OK(CbSequence4Resok {
            csr_sessionid: sequence.csa_sessionid,
            csr_sequenceid: sequence.csa_sequenceid,
            csr_slotid: sequence.csa_slotid,
            csr_highest_slotid: sequence.csa_highest_slotid,
            csr_target_highest_slotid: sequence.csa_highest_slotid,
        });
        let mut resarray = vec![NfsCbResop4::OP_CB_SEQUENCE(sequence)];
        let mut status = Nfsstat4::NFS4_OK;
        match args.argarray.get(1) {
            Some(NfsCbArgop4::OP_CB_RECALL(recall)) => {
                self.recalled(recall);
                resarray.push(NfsCbResop4::OP_CB_RECALL(CbRecall4Res { status }));
            }
            Some(NfsCbArgop4::OP_CB_GETATTR(args)) => {
                let attributes = self.held_attributes(args);
                status = attributes.discriminant();
                resarray.push(NfsCbResop4::OP_CB_GETATTR(attributes));
            }
            _ => {}
        }
        let mut encoder = Encoder::new();
        CbCompound4Res { status, tag: b"".into(), resarray }.encode(&mut encoder);
        Some(encoder.into_vec())
    }
}
