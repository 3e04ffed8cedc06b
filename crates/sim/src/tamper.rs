//! Changes calls and replies at the server's edge, as a deliberate fault requires.

use crate::gateway::Gateway;
use crate::kerberos::SimRealm;
use crate::mutation::Mutation;
use nfs4::{Compound4Args, NfsArgop4, NfsLockType4, OPEN4_SHARE_DENY_NONE};
use rpc::Message;
use std::collections::BTreeMap;
use xdr::{Decode, Decoder, Encode, Encoder};

/// The offset of SEQUENCE's sa_sequenceid in a COMPOUND with an empty tag: behind tag, minor
/// version, count, operation and session id. In the result, sr_sequenceid is as far behind the
/// status.
const SEQUENCEID_AT: usize = 4 + 4 + 4 + 4 + 16;
const RESULT_SEQUENCEID_AT: usize = 4 + 4 + 4 + 4 + 4 + 16;

/// Changes records on their way into the server and out of it.
pub(crate) struct Tamper {
    mutation: Mutation,
    /// Opens and seals the records of contexts; `None` if the mutation changes no records.
    gateway: Option<Gateway>,
    /// For each session and slot, or owner: the last request, and the number of its retries that
    /// became new requests.
    slots: BTreeMap<Vec<u8>, (Vec<u8>, u32)>,
    /// The number to subtract from the sequence ID of a reply, by its XID.
    replies: BTreeMap<u32, u32>,
}

impl Tamper {
    /// Makes the changes of a mutation. With any that needs none, records pass unchanged.
    pub(crate) fn new(mutation: Mutation, realm: &SimRealm) -> Self {
        let changes = matches!(
            mutation,
            Mutation::ReplyCacheBypassed
                | Mutation::LocksShared
                | Mutation::DenyIgnored
                | Mutation::SeqidIgnored
                | Mutation::GssWindowIgnored
                | Mutation::ContextKept
        );
        let gateway = changes.then(|| Gateway::new(realm.clone(), mutation));
        Self { mutation, gateway, slots: BTreeMap::new(), replies: BTreeMap::new() }
    }

    /// Forgets all calls: the server has restarted.
    pub(crate) fn restart(&mut self) {
        self.slots.clear();
        self.replies.clear();
        if let Some(gateway) = &mut self.gateway {
            gateway.restart();
        }
    }

    /// Changes a record on its way to the server.
    pub(crate) fn request(&mut self, connection: u64, record: Vec<u8>) -> Vec<u8> {
        let Some(mut gateway) = self.gateway.take() else { return record };
        let (record, sealed) = gateway.open_call(connection, record);
        let mut record = self.change_call(record);
        if let Some(call) = sealed {
            record = gateway.seal_call(connection, record, call);
        }
        self.gateway = Some(gateway);
        record
    }

    fn change_call(&mut self, record: Vec<u8>) -> Vec<u8> {
        match self.mutation {
            Mutation::ReplyCacheBypassed => self.renumber(record),
            Mutation::LocksShared => change_operations(record, |operation| {
                if let NfsArgop4::OP_LOCK(lock) = operation {
                    lock.locktype = NfsLockType4::READ_LT;
                }
            }),
            Mutation::SeqidIgnored => self.disown(record),
            Mutation::DenyIgnored => change_operations(record, |operation| {
                if let NfsArgop4::OP_OPEN(open) = operation {
                    open.share_deny = OPEN4_SHARE_DENY_NONE;
                }
            }),
            _ => record,
        }
    }

    /// Changes a record on its way from the server.
    pub(crate) fn reply(&mut self, connection: u64, record: Vec<u8>) -> Vec<u8> {
        let Some(mut gateway) = self.gateway.take() else { return record };
        let (mut record, sealed) = gateway.open_reply(connection, record);
        self.restore_sequence(&mut record);
        if let Some(call) = sealed {
            record = gateway.seal_reply(&record, &call);
        }
        self.gateway = Some(gateway);
        record
    }

    /// Subtracts the offset that a call got from the sequence ID of its reply.
    fn restore_sequence(&mut self, record: &mut [u8]) {
        let Some(xid) = record.get(..4).and_then(|xid| xid.try_into().ok()).map(u32::from_be_bytes) else {
            return;
        };
        if let Some(offset) = self.replies.remove(&xid) {
            // XID, REPLY, MSG_ACCEPTED, a verifier without a body, SUCCESS.
            add(record, 24 + RESULT_SEQUENCEID_AT, offset.wrapping_neg());
        }
    }

    /// Gives the copy of an NFSv4.0 OPEN another owner, so that it begins a sequence.
    fn disown(&mut self, record: Vec<u8>) -> Vec<u8> {
        let Ok(Message::Call(header)) = Message::parse(&record) else { return record };
        let arguments = record.get(header.arguments_at..).unwrap_or_default().to_vec();
        // Behind an empty tag.
        if arguments.get(4..8) != Some(&[0; 4]) {
            return record;
        }
        let copies = &mut self.slots;
        change_operations(record, |operation| {
            if let NfsArgop4::OP_OPEN(open) = operation {
                let (last, count) = copies.entry(open.owner.owner.to_vec()).or_default();
                *count = if *last == arguments { *count + 1 } else { 0 };
                *last = arguments.clone();
                if *count > 0 {
                    open.owner.owner = [&open.owner.owner[..], &count.to_be_bytes()].concat().into();
                }
            }
        })
    }

    fn renumber(&mut self, mut record: Vec<u8>) -> Vec<u8> {
        let Ok(Message::Call(header)) = Message::parse(&record) else { return record };
        let (xid, at) = (header.xid, header.arguments_at);
        let is_sequence = record.get(at + 12..at + 16) == Some(&53u32.to_be_bytes());
        let (session, slot) = (record.get(at + 16..at + 32), record.get(at + 36..at + 40));
        let (true, Some(session), Some(slot)) = (is_sequence, session, slot) else { return record };
        let key = [session, slot].concat();
        let arguments = record.get(at..).unwrap_or_default().to_vec();
        let (last, offset) = self.slots.entry(key).or_default();
        if *last == arguments {
            *offset += 1;
        }
        *last = arguments;
        let offset = *offset;
        add(&mut record, at + SEQUENCEID_AT, offset);
        self.replies.insert(xid, offset);
        record
    }
}

/// Adds to the number at an offset.
fn add(record: &mut [u8], at: usize, offset: u32) {
    if let Some(place) = record.get_mut(at..at + 4) {
        let number = place.iter().fold(0u32, |number, byte| number << 8 | u32::from(*byte));
        place.copy_from_slice(&number.wrapping_add(offset).to_be_bytes());
    }
}

fn change_operations(record: Vec<u8>, change: impl FnMut(&mut NfsArgop4<'_>)) -> Vec<u8> {
    let Ok(Message::Call(header)) = Message::parse(&record) else { return record };
    let (head, arguments) = record.split_at(header.arguments_at);
    let Ok(mut compound) = Compound4Args::decode(&mut Decoder::new(arguments)) else { return record };
    compound.argarray.iter_mut().for_each(change);
    let mut encoder = Encoder::from_vec(head.to_vec());
    compound.encode(&mut encoder);
    encoder.into_vec()
}
