//! Deliberate faults: what the checker has to find, so that it is known to find something.

use nfs4::{Compound4Args, NfsArgop4, NfsLockType4, OPEN4_SHARE_DENY_NONE};
use rpc::Message;
use std::collections::BTreeMap;
use std::str::FromStr;
use xdr::{Decode, Decoder, Encode, Encoder};

/// A fault that is built into the simulated side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mutation {
    /// None.
    #[default]
    None,
    /// A retry is carried out as if it were a new request.
    ReplyCacheBypassed,
    /// Client records are not put on stable storage before the reply that promises it.
    JournalNotSynced,
    /// A lock for writing is handed out as one for reading.
    LocksShared,
    /// COMMIT and stable writes put nothing on stable storage.
    CommitForgets,
    /// The write verifier of a start is that of the one before.
    VerifierStays,
    /// Changes of names are acknowledged before they are put on stable storage.
    SyncAfterReply,
    /// OPEN ignores share_deny.
    DenyIgnored,
    /// The server takes a recalled delegation for returned before its holder has written back.
    RecallNotAwaited,
    /// A copy of an OPEN of NFSv4.0 is executed as if its sequence number were new.
    SeqidIgnored,
}

impl Mutation {
    /// All that do something.
    pub const ALL: [Self; 9] = [
        Self::ReplyCacheBypassed,
        Self::JournalNotSynced,
        Self::LocksShared,
        Self::CommitForgets,
        Self::VerifierStays,
        Self::SyncAfterReply,
        Self::DenyIgnored,
        Self::RecallNotAwaited,
        Self::SeqidIgnored,
    ];

    /// The name that the command line knows it by.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ReplyCacheBypassed => "reply-cache-bypassed",
            Self::JournalNotSynced => "journal-not-synced",
            Self::LocksShared => "locks-shared",
            Self::CommitForgets => "commit-forgets",
            Self::VerifierStays => "verifier-stays",
            Self::SyncAfterReply => "sync-after-reply",
            Self::DenyIgnored => "deny-ignored",
            Self::RecallNotAwaited => "recall-not-awaited",
            Self::SeqidIgnored => "seqid-ignored",
        }
    }
}

impl FromStr for Mutation {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let mut all = [Self::None].into_iter().chain(Self::ALL);
        all.find(|mutation| mutation.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|mutation| mutation.name()).collect();
            format!("{name:?} is no mutation; there are {}", names.join(", "))
        })
    }
}

/// Where SEQUENCE's sa_sequenceid stands in a COMPOUND whose tag is empty: behind tag, minor
/// version, count, operation and session id. In the result sr_sequenceid stands as far behind the
/// status.
const SEQUENCEID_AT: usize = 4 + 4 + 4 + 4 + 16;
const RESULT_SEQUENCEID_AT: usize = 4 + 4 + 4 + 4 + 4 + 16;

/// Changes records on their way into the server and out of it.
#[derive(Default)]
pub(crate) struct Tamper {
    mutation: Mutation,
    /// For each session and slot, or owner: the last request, and how many retries of it were made
    /// new requests.
    slots: BTreeMap<Vec<u8>, (Vec<u8>, u32)>,
    /// What to take off the sequence id of a reply, by its XID.
    replies: BTreeMap<u32, u32>,
}

impl Tamper {
    /// Makes what a mutation needs; the records pass by any other unchanged.
    pub(crate) fn new(mutation: Mutation) -> Self {
        Self { mutation, ..Self::default() }
    }

    /// The server has forgotten all.
    pub(crate) fn restart(&mut self) {
        self.slots.clear();
        self.replies.clear();
    }

    /// A record on its way to the server.
    pub(crate) fn request(&mut self, record: Vec<u8>) -> Vec<u8> {
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

    /// A record on its way from the server, behind the room for its mark.
    pub(crate) fn reply(&mut self, mut record: Vec<u8>) -> Vec<u8> {
        let Some(xid) = record.get(4..8).and_then(|xid| xid.try_into().ok()).map(u32::from_be_bytes) else {
            return record;
        };
        if let Some(offset) = self.replies.remove(&xid) {
            // XID, REPLY, MSG_ACCEPTED, a verifier without a body, SUCCESS.
            let at = 4 + 24 + RESULT_SEQUENCEID_AT;
            add(&mut record, at, offset.wrapping_neg());
        }
        record
    }

    /// Gives the copy of an OPEN of NFSv4.0 another owner, whose sequence begins with it.
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

/// Adds to the number at a place.
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
