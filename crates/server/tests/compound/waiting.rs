//! COMPOUNDs that would wait for a disk are suspended, and all other requests are served.

use crate::helper::*;
use nfs4::Nfsstat4::*;
use nfs4::*;
use orthrus_server::compound::CompoundStatus;
use orthrus_server::engine::WaitsFor;
use orthrus_server::engine::{Call, CompoundState, WaitPolicy};
use orthrus_server::metrics::ServedCounters;
use rpc::ConnectionId;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;
use vfs::{Export, ExportTable, Timestamp, VfsResult};
use xdr::{Decode, Decoder, Encoder};

/// Bytes in the reply buffer before COMPOUND4res.
const BEFORE: usize = 28;

/// A suspended COMPOUND with its reply so far.
pub(crate) struct Waiting {
    args: Vec<u8>,
    reply: Encoder,
    pub suspended: Box<CompoundState>,
}

/// The outcome of a COMPOUND on a thread that must not block.
pub(crate) enum Tried {
    Answered(Compound4Res<'static>),
    Waits(Waiting),
}

fn with_call<R>(client: &Client<'_>, args: &[u8], now: Duration, with: impl FnOnce(&Call<'_>) -> R) -> R {
    with_pauses(client, args, now, None, with)
}

fn with_pauses<R>(
    client: &Client<'_>,
    args: &[u8],
    now: Duration,
    pause: Option<&dyn Fn()>,
    with: impl FnOnce(&Call<'_>) -> R,
) -> R {
    with(&Call {
        connection: ConnectionId(client.connection),
        peer: ([192, 0, 2, 1], 800).into(),
        xid: 0,
        security: &client.security,
        args,
        request_size: args.len() + 100,
        reply_overhead: 0,
        attached: None,
        operation: &AtomicU32::new(0),
        counters: &ServedCounters::unread(),
        pause,
        now,
    })
}

fn decoded(reply: Encoder) -> Compound4Res<'static> {
    let bytes = reply.into_vec().split_off(BEFORE);
    let mut decoder = Decoder::new(&bytes);
    let reply = Compound4Res::decode(&mut decoder).expect("COMPOUND4res").into_owned();
    decoder.finish().expect("no bytes behind the reply");
    reply
}

fn on_slot(client: &Client<'_>, slot: u32, sequence: u32, operations: Vec<Op>) -> Vec<u8> {
    let begin = NfsArgop4::OP_SEQUENCE(Sequence4Args {
        sa_sessionid: client.session,
        sa_sequenceid: sequence,
        sa_slotid: slot,
        sa_highest_slotid: slot,
        sa_cachethis: client.cache_this,
    });
    encode(client.minor, &[vec![begin], operations].concat())
}

/// Runs operations on a slot, as a shard does.
pub(crate) fn try_on(client: &Client<'_>, slot: u32, sequence: u32, operations: Vec<Op>) -> Tried {
    try_bytes(client, on_slot(client, slot, sequence, operations))
}

pub(crate) fn try_bytes(client: &Client<'_>, args: Vec<u8>) -> Tried {
    let mut reply = Encoder::from_vec(vec![0xaa; BEFORE]);
    let ran = with_call(client, &args, client.now, |call| {
        client.server.nfs.begin(call, &mut reply, WaitPolicy::Suspends)
    });
    match ran {
        CompoundStatus::Done(_) => Tried::Answered(decoded(reply)),
        CompoundStatus::Deferred(suspended) => Tried::Waits(Waiting { args, reply, suspended }),
    }
}

impl Tried {
    #[track_caller]
    pub(crate) fn waits(self) -> Waiting {
        match self {
            Self::Waits(waiting) => waiting,
            Self::Answered(reply) => panic!("answered: {reply:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn answered(self, status: Nfsstat4) -> Compound4Res<'static> {
        match self {
            Self::Answered(reply) => {
                assert_eq!(reply.status, status, "{reply:?}");
                reply
            }
            Self::Waits(_) => panic!("it waits"),
        }
    }
}

impl Waiting {
    /// Continues in its lane, to the reply or until it waits again.
    pub(crate) fn go_on(mut self, client: &Client<'_>) -> Result<Compound4Res<'static>, Self> {
        let ran = with_call(client, &self.args, client.now, |call| {
            client.server.nfs.execute(call, &mut self.reply, self.suspended)
        });
        match ran {
            CompoundStatus::Deferred(suspended) => Err(Self { suspended, ..self }),
            CompoundStatus::Done(_) => Ok(decoded(self.reply)),
        }
    }

    /// Continues until only the sync or another lane is left.
    #[track_caller]
    pub(crate) fn execute(self, client: &Client<'_>) -> Self {
        match self.go_on(client) {
            Err(waiting) => waiting,
            Ok(reply) => panic!("answered: {reply:?}"),
        }
    }

    /// Continues in its lane to the reply.
    #[track_caller]
    pub(crate) fn end(self, client: &Client<'_>) -> Compound4Res<'static> {
        match self.go_on(client) {
            Ok(reply) => reply,
            Err(waiting) => panic!("it waits in lane {}", waiting.suspended.lane()),
        }
    }

    /// Ends the COMPOUND after the sync.
    pub(crate) fn complete(mut self, client: &Client<'_>, outcome: VfsResult<()>) -> Compound4Res<'static> {
        with_call(client, &[], client.now, |call| {
            client.server.nfs.complete(call, &mut self.reply, self.suspended, outcome)
        });
        decoded(self.reply)
    }

    pub(crate) fn resume(mut self, client: &Client<'_>) -> Compound4Res<'static> {
        let now = client.now + Duration::from_secs(5);
        let outcome = with_call(client, &self.args, now, |call| {
            client.server.nfs.resume(call, &mut self.reply, self.suspended)
        });
        let reply = decoded(self.reply);
        assert_eq!((outcome.status, outcome.operations as usize), (reply.status, reply.resarray.len()));
        reply
    }

    #[track_caller]
    pub(crate) fn decline(self, client: &Client<'_>) -> Compound4Res<'static> {
        self.try_decline(client).expect("a reply")
    }

    /// Gives the COMPOUND up; `None` if its connection must close.
    pub(crate) fn try_decline(mut self, client: &Client<'_>) -> Option<Compound4Res<'static>> {
        let outcome = with_call(client, &self.args, client.now, |call| {
            client.server.nfs.decline(call, &mut self.reply, self.suspended)
        });
        outcome.map(|_| decoded(self.reply))
    }
}

/// A server on a slow disk with a file of eleven bytes, open for READ and WRITE, and the control of
/// the disk.
pub(crate) struct Site {
    pub server: Server,
    pub disk: Arc<Slow>,
}

impl Site {
    pub(crate) fn new() -> Self {
        let disk = Slow::new();
        let export = all_flavors(Export::new("/export", disk.clone()).expect("an export"));
        Self { server: Setup::with_exports(vec![export]).start(), disk }
    }

    pub(crate) fn client(&self) -> (Client<'_>, Vec<u8>, Stateid4) {
        let mut client = Client::new(&self.server);
        let reply = client.at("export", vec![open_create("f", 3), getfh()]).ok();
        let (fh, stateid) = (reply.fh(0), reply.opened().stateid);
        client.run(vec![put(&fh), write(stateid, 0, b"hello world")]).ok();
        (client, fh, stateid)
    }
}

pub(crate) fn commit() -> Op {
    NfsArgop4::OP_COMMIT(Commit4Args { offset: 0, count: 0 })
}

#[test]
fn a_deferred_call_is_a_sample_if_it_began_as_one() {
    for (counted, sampled) in [(1, 0), (ServedCounters::SAMPLED_ONE_IN, 1)] {
        let site = Site::new();
        let (client, fh, stateid) = site.client();
        let samples = || site.server.nfs.busy_files(10).iter().map(|file| file.samples).sum::<u64>();
        let before = samples();
        let counters = ServedCounters::unread();
        (0..counted).for_each(|_| counters.compound());
        let args = on_slot(&client, 1, 1, vec![put(&fh), write(stateid, 0, b"x")]);
        let mut reply = Encoder::from_vec(vec![0xaa; BEFORE]);
        let begun = with_call(&client, &args, client.now, |call| {
            let call = Call { counters: &counters, ..*call };
            client.server.nfs.begin(&call, &mut reply, WaitPolicy::Suspends)
        });
        let CompoundStatus::Deferred(suspended) = begun else { panic!("it does not wait") };
        // The thread that ends it has counters of its own, which have counted none.
        assert_eq!(Waiting { args, reply, suspended }.resume(&client).status, NFS4_OK);
        assert_eq!(samples() - before, sampled);
    }
}

#[test]
fn cached_data_is_read_at_once_and_the_rest_is_waited_for_elsewhere() {
    let site = Site::new();
    let (client, fh, stateid) = site.client();
    let operations = || vec![put(&fh), read(stateid, 0, 100)];
    let reply = try_on(&client, 1, 1, operations()).answered(NFS4_OK);
    assert_eq!(data(&reply.resarray[2]), (b"hello world".to_vec(), true));
    site.disk.set_cold(true);
    let waiting = try_on(&client, 1, 2, operations()).waits();
    // Neither a second operation nor a part of the first is in the reply.
    assert!(waiting.reply.len() < BEFORE + 100);
    let reply = waiting.resume(&client);
    assert_eq!(data(&reply.resarray[2]), (b"hello world".to_vec(), true));
}

#[test]
fn a_long_write_lets_the_thread_serve_others_in_between() {
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let reply = client.at("export", vec![open_create("f", 3), getfh()]).ok();
    let (fh, stateid) = (reply.fh(0), reply.opened().stateid);
    let written: Vec<u8> = (0..(512 << 10) + 1).map(|at: u32| (at / 1000) as u8).collect();
    let begin = NfsArgop4::OP_SEQUENCE(Sequence4Args {
        sa_sessionid: client.session,
        sa_sequenceid: 1,
        sa_slotid: 1,
        sa_highest_slotid: 1,
        sa_cachethis: false,
    });
    let args = encode(client.minor, &[begin, put(&fh), write(stateid, 7, &written)]);
    let pauses = AtomicU32::new(0);
    let pause = || {
        let sequence = pauses.fetch_add(1, Ordering::Relaxed) + 1;
        try_on(&client, 2, sequence, vec![put(&fh), getattr(&[FATTR4_SIZE])]).answered(NFS4_OK);
    };
    let mut reply = Encoder::from_vec(vec![0xaa; BEFORE]);
    with_pauses(&client, &args, client.now, Some(&pause), |call| server.nfs.compound(call, &mut reply));
    assert_eq!(decoded(reply).status, NFS4_OK);
    assert_eq!(pauses.into_inner(), 4, "after each 128 KiB but the last");
    let reply = try_on(&client, 1, 2, vec![put(&fh), read(stateid, 7, 1 << 20)]).answered(NFS4_OK);
    assert_eq!(data(&reply.resarray[2]).0, written);
}

#[test]
fn while_one_slot_waits_the_session_and_its_connection_go_on() {
    let site = Site::new();
    let (client, fh, _) = site.client();
    let waiting = try_on(&client, 1, 1, vec![put(&fh), commit()]).waits();
    for sequence in 1..4 {
        try_on(&client, 2, sequence, vec![put(&fh), getattr(&[FATTR4_SIZE])]).answered(NFS4_OK);
    }
    assert_eq!(waiting.resume(&client).status, NFS4_OK);
}

#[test]
// RFC 8881 section 2.10.6.2
fn a_retry_of_a_deferred_request_gets_delay_and_later_the_reply() {
    let site = Site::new();
    let (mut client, fh, _) = site.client();
    client.cache_this = true;
    let operations = || vec![put(&fh), commit()];
    let waiting = try_on(&client, 1, 1, operations()).waits();
    try_on(&client, 1, 1, operations()).answered(NFS4ERR_DELAY);
    let first = waiting.resume(&client);
    assert_eq!(first.status, NFS4_OK);
    assert_eq!(try_on(&client, 1, 1, operations()).answered(NFS4_OK), first);
}

#[test]
// RFC 8881 section 15.1.1.3
fn a_call_without_room_is_answered_with_delay_and_its_slot_goes_on() {
    let site = Site::new();
    let (client, fh, stateid) = site.client();
    let operations = vec![put(&fh), getfh(), write(stateid, 0, b"HELLO"), getfh()];
    let reply = try_on(&client, 1, 1, operations).waits().decline(&client);
    assert_eq!((reply.status, reply.resarray.len()), (NFS4ERR_DELAY, 4));
    let reply = try_on(&client, 1, 2, vec![put(&fh), read(stateid, 0, 100)]).answered(NFS4_OK);
    assert_eq!(data(&reply.resarray[2]).0, b"hello world");
    let set = setattr(stateid, mode(0o600));
    let reply = try_on(&client, 1, 3, vec![put(&fh), set]).waits().decline(&client);
    assert_eq!(reply.status, NFS4ERR_DELAY);
}

#[test]
// RFC 7530 section 9.1.7
fn a_sequenced_request_without_room_gets_no_reply_and_its_number_stays_unused() {
    let site = Site::new();
    let (client, ..) = site.client();
    let owner = Client40::new(&site.server);
    let (fh, open_stateid) = owner.opened("g");
    site.disk.set_cold(true);
    let seqid = owner.next_open();
    let close = encode(0, &[put(&fh), NfsArgop4::OP_CLOSE(Close4Args { seqid, open_stateid })]);
    let open = encode(0, &[put_root(), lookup("export"), owner.create_op("h")]);
    // The reply to such a request is kept for a copy of it.
    let kept = encode(0, &[setclientid(b"c", [2; 8]), put_root(), lookup("export"), owner.create_op("i")]);
    for request in [close, open, kept] {
        let refused = || try_bytes(&client, request.clone()).waits().try_decline(&client);
        assert_eq!(refused(), None, "NFS4ERR_DELAY would count in the sequence of the client");
        let reply = try_bytes(&client, request.clone()).waits().resume(&client);
        assert_eq!(reply.status, NFS4_OK, "the same number is the next one");
    }
    let unsequenced = encode(0, &[put(&fh), commit()]);
    let reply = try_bytes(&client, unsequenced).waits().try_decline(&client);
    assert_eq!(reply.map(|reply| reply.status), Some(NFS4ERR_DELAY));
}

#[test]
fn a_file_that_is_closed_while_a_read_waits_is_read_no_more() // RFC 8881 section 18.2.3
{
    let site = Site::new();
    let (client, fh, stateid) = site.client();
    site.disk.set_cold(true);
    let waiting = try_on(&client, 1, 1, vec![put(&fh), read(stateid, 0, 100)]).waits();
    let closing = try_on(&client, 2, 1, vec![put(&fh), close(stateid)]).waits();
    assert_eq!(closing.resume(&client).status, NFS4_OK);
    assert_eq!(waiting.resume(&client).status, NFS4ERR_BAD_STATEID);
}

#[test]
fn destroy_session_gets_delay_while_a_request_is_deferred() // RFC 8881 section 18.37.3
{
    let site = Site::new();
    let (client, fh, _) = site.client();
    let destroy = || {
        let args = DestroySession4Args { dsa_sessionid: client.session };
        try_bytes(&client, encode(1, &[NfsArgop4::OP_DESTROY_SESSION(args)]))
    };
    let waiting = try_on(&client, 1, 1, vec![put(&fh), commit()]).waits();
    destroy().answered(NFS4ERR_DELAY);
    assert_eq!(waiting.resume(&client).status, NFS4_OK);
    destroy().answered(NFS4_OK);
}

#[test]
fn the_lease_of_a_client_lasts_while_a_request_is_deferred() // RFC 8881 section 8.3
{
    let site = Site::new();
    let (client, fh, _) = site.client();
    let waiting = try_on(&client, 1, 1, vec![put(&fh), commit()]).waits();
    site.server.nfs.housekeeping(client.now + Duration::from_secs(100_000));
    assert_eq!(waiting.resume(&client).status, NFS4_OK);
}

#[test]
fn a_resumed_compound_knows_its_earlier_operations() // RFC 8881 section 16.2.3.1
{
    let site = Site::new();
    let (mut client, _, _) = site.client();
    client.make_directory("export", "a");
    site.disk.set_cold(true);
    // Current and saved filehandle and the current stateid, each across a wait.
    let operations = vec![
        put_root(),
        lookup("export"),
        savefh(),
        lookup("a"),
        open_create("g", 3),
        write(Stateid4::CURRENT, 0, b"abc"),
        read(Stateid4::CURRENT, 0, 10),
        close(Stateid4::CURRENT),
        NfsArgop4::OP_RESTOREFH,
        remove("f"),
    ];
    let count = operations.len();
    let reply = try_on(&client, 1, 1, operations).waits().resume(&client);
    assert_eq!((reply.status, reply.resarray.len()), (NFS4_OK, count + 1), "{reply:?}");
    assert_eq!(data(&reply.resarray[7]).0, b"abc");
}

#[test]
fn only_operations_that_would_block_are_deferred() {
    let site = Site::new();
    let (client, fh, stateid) = site.client();
    let at_once = [
        vec![put_root(), lookup("export"), lookup("f"), getattr(&[FATTR4_SIZE])],
        vec![put_root(), lookup("export"), open_how(NOCREATE, by_name("f"), 1, 0, b"another"), getfh()],
        vec![put(&fh), NfsArgop4::OP_ACCESS(Access4Args { access: 1 })],
        vec![put(&fh), read(stateid, 0, 10)],
        vec![put(&fh), read(Stateid4::ANONYMOUS, 0, 10)],
    ];
    for (sequence, operations) in (1..).zip(&at_once) {
        try_on(&client, 1, sequence, operations.clone()).answered(NFS4_OK);
    }
    let away = [
        vec![put_root(), lookup("export"), open_create("g", 1)],
        vec![put_root(), lookup("export"), mkdir("d")],
        vec![put(&fh), write(stateid, 0, b"x")],
        vec![put(&fh), setattr(stateid, mode(0o600))],
        vec![put(&fh), commit()],
    ];
    for (slot, operations) in (2..).zip(&away) {
        let reply = try_on(&client, slot, 1, operations.clone()).waits().resume(&client);
        assert_eq!(reply.status, NFS4_OK, "{reply:?}");
    }
    site.disk.set_cold(true);
    for (slot, operations) in (8..).zip(&at_once) {
        let reply = try_on(&client, slot, 1, operations.clone()).waits().resume(&client);
        assert_eq!(reply.status, NFS4_OK, "{reply:?}");
    }
}

#[test]
fn a_call_that_must_fail_does_not_wait() // RFC 8881 section 15.1.2
{
    let site = Site::new();
    let (client, fh, _) = site.client();
    site.disk.set_cold(true);
    let other = Stateid4 { seqid: 1, other: [7; 12] };
    try_on(&client, 1, 1, vec![commit()]).answered(NFS4ERR_NOFILEHANDLE);
    try_on(&client, 1, 2, vec![put(&fh), read(other, 0, 10)]).answered(NFS4ERR_BAD_STATEID);
}

#[test]
// RFC 7862 section 15.10
fn extents_are_looked_up_where_waiting_is_allowed_and_full_files_need_none() {
    let site = Site::new();
    let (mut client, fh, stateid) = site.client();
    client.minor = 2;
    let plus = || vec![put(&fh), read_plus(stateid, 0, 100)];
    try_on(&client, 1, 1, plus()).answered(NFS4_OK);
    let at = 1 << 30;
    let long = [
        vec![put(&fh), seek(stateid, 0, DataContent4::NFS4_CONTENT_DATA)],
        vec![put(&fh), allocate(stateid, 0, 100)],
        vec![put(&fh), write(stateid, at, b"far")],
        plus(),
    ];
    for (sequence, operations) in (2..).zip(long) {
        let reply = try_on(&client, 1, sequence, operations).waits().resume(&client);
        assert_eq!(reply.status, NFS4_OK, "{reply:?}");
    }
}

#[test]
// RFC 8881 sections 5.8.2.28 to 5.8.2.30
fn quotas_are_reported_to_their_user_and_read_off_the_shard() {
    let site = Site::new();
    let (client, fh, _) = site.client();
    let all = [FATTR4_QUOTA_AVAIL_HARD, FATTR4_QUOTA_AVAIL_SOFT, FATTR4_QUOTA_USED, FATTR4_SUPPORTED_ATTRS];
    let asked = || vec![put(&fh), getattr(&all)];
    let reply = try_on(&client, 1, 1, asked()).waits().resume(&client);
    let NfsResop4::OP_GETATTR(Getattr4Res::NFS4_OK(got)) = &reply.resarray[2] else { panic!("{reply:?}") };
    let got = decode_fattr4(&got.obj_attributes, Purpose::Learn, &attributes::KNOWN).unwrap();
    assert_eq!((got.quota_avail_hard, got.quota_avail_soft, got.quota_used), (Some(30), Some(20), Some(10)));
    assert!(got.supported_attrs.unwrap().contains(FATTR4_QUOTA_USED));
    let mut bob = Client::with(&site.server, b"bob", sys(BOB), FORE);
    let reply = bob.run(asked()).ok();
    assert_eq!(reply.attributes().present(), Bitmap4::of(&[FATTR4_SUPPORTED_ATTRS]));
    let server = Setup::default().start();
    let reply = Client::new(&server).at("export", vec![getattr(&all)]).ok();
    assert!(!reply.attributes().supported_attrs.unwrap().contains(FATTR4_QUOTA_USED));
}

/// Tries a GETATTR of size and change on a thread that must not block.
fn try_getattr(pair: &mut Pair<'_>) -> Tried {
    let ops = vec![put(&pair.fh), getattr(&[FATTR4_CHANGE, FATTR4_SIZE])];
    pair.b.sequence += 1;
    try_on(&pair.b, 0, pair.b.sequence, ops)
}

#[test]
fn getattr_waits_for_the_attributes_of_the_delegation_holder() // RFC 8881 section 10.4.3
{
    let server = Setup::default().start();
    let mut pair = Pair::new(&server);
    pair.delegate(3);
    let waiting = try_getattr(&mut pair).waits();
    let wait = waiting.suspended.getattr_wait().expect("it waits for an answer");
    let asked = pair.wire.one();
    assert!(server.nfs.getattr_pending(wait));
    let says = AttributeValues { change: Some(77), size: Some(12), ..Default::default() };
    server.answer_attributes(pair.a.now, &asked, says);
    assert!(!server.nfs.getattr_pending(wait));
    let reply = waiting.resume(&pair.b);
    let Some(NfsResop4::OP_GETATTR(Getattr4Res::NFS4_OK(ok))) = reply.resarray.last() else {
        panic!("{reply:?}")
    };
    let values = decode_fattr4(&ok.obj_attributes, Purpose::Learn, &attributes::KNOWN).unwrap();
    assert_eq!(values.size, Some(12));
    assert!(pair.wire.take().is_empty());
}

#[test]
// RFC 8881 sections 10.4.3 and 15.1.1.3
fn getattr_gets_delay_while_the_delegation_holder_does_not_answer() {
    let server = Setup::default().start();
    let mut pair = Pair::new(&server);
    let (stateid, _) = pair.delegate(3);
    let waiting = try_getattr(&mut pair).waits();
    let wait = waiting.suspended.getattr_wait().expect("it waits for an answer");
    let asked = pair.wire.one();
    assert_eq!(waiting.resume(&pair.b).status, NFS4ERR_DELAY, "its time is up");
    assert!(server.nfs.getattr_pending(wait), "but the answer would still be its");
    // Refused: the delegation is recalled, and no COMPOUND waits any longer.
    server.answer(pair.a.now, &asked, NFS4_OK, NFS4ERR_BADHANDLE);
    assert!(!server.nfs.getattr_pending(wait));
    assert_eq!(try_getattr(&mut pair).answered(NFS4ERR_DELAY).resarray.len(), 3);
    assert_eq!(recalled(&pair.wire.one()).0, stateid);
}

#[test]
fn parked_calls_resume_when_the_holder_answers() // RFC 8881 section 10.4.3
{
    let server = Setup::default().start();
    let mut pair = Pair::new(&server);
    let woken = Arc::new(AtomicUsize::new(0));
    let count = woken.clone();
    let wake = move || {
        count.fetch_add(1, Ordering::SeqCst);
    };
    server.nfs.connect_answers(Box::new(wake));
    pair.delegate(3);
    let first = try_getattr(&mut pair).waits();
    let asked = pair.wire.one();
    // A third client asks while the callback is in flight: it gets the next answer, not this one.
    let mut c = Client::delegated(&server, &pair.wire, b"c", 13);
    c.sequence += 1;
    let ops = vec![put(&pair.fh), getattr(&[FATTR4_SIZE])];
    let late = try_on(&c, 0, c.sequence, ops).waits();
    let [first_wait, late_wait] = [&first, &late].map(|waiting| waiting.suspended.getattr_wait().unwrap());
    let says = |size| AttributeValues { change: Some(77), size: Some(size), ..Default::default() };
    server.answer_attributes(pair.a.now, &asked, says(12));
    assert_eq!(woken.load(Ordering::SeqCst), 1);
    assert_eq!([first_wait, late_wait].map(|wait| server.nfs.getattr_pending(wait)), [false, true]);
    server.answer_attributes(pair.a.now, &pair.wire.one(), says(13));
    assert!(!server.nfs.getattr_pending(late_wait));
    assert_eq!(first.resume(&pair.b).status, NFS4_OK);
    assert_eq!(late.resume(&c).status, NFS4_OK);
}

#[test]
fn a_name_stands_for_one_file_while_delegations_on_that_are_recalled() // RFC 8881 section 10.4
{
    // In the middle of one client's operation another tries to give the name to another file.
    let intrusions: [fn() -> Vec<Op>; 3] = [
        || [at_export(), vec![savefh()], at_export(), vec![rename("g", "f")]].concat(),
        || [at_export(), vec![lookup("g"), savefh()], at_export(), vec![link("new")]].concat(),
        || [at_export(), vec![open_create("new", 3)]].concat(),
    ];
    let removing: fn() -> Vec<Op> = || [at_export(), vec![remove("f")]].concat();
    let renaming: fn() -> Vec<Op> =
        || [at_export(), vec![savefh()], at_export(), vec![rename("g", "new")]].concat();
    for (operation, intrusion) in
        [(removing, intrusions[0]), (renaming, intrusions[1]), (renaming, intrusions[2])]
    {
        let disk = Slow::new();
        let export = all_flavors(Export::new("/export", disk.clone()).expect("an export"));
        let server = Arc::new(Setup::with_exports(vec![export]).start());
        let mut client = Client::new(&server);
        ["f", "g"].into_iter().for_each(|name| drop(client.make_file("export", name, b"x")));
        let (tried, site) = (Arc::new(AtomicBool::new(false)), server.clone());
        let seen = tried.clone();
        disk.during_lookup(move || {
            let other = Client::with(&site, b"other", sys(ALICE), FORE);
            let waiting = try_on(&other, 0, other.sequence + 1, intrusion()).waits();
            seen.store(true, Ordering::SeqCst);
            // The test's own thread holds the name: it would wait for itself.
            waiting.decline(&other);
        });
        client.run(operation()).ok();
        assert!(tried.load(Ordering::SeqCst), "the name was looked up");
        let mut other = Client::with(&server, b"another", sys(ALICE), FORE);
        other.at("export", vec![open_create("new", 3)]).ok();
    }
}

#[test]
fn other_names_of_a_directory_change_while_one_is_held() {
    let disk = Slow::new();
    let export = all_flavors(Export::new("/export", disk.clone()).expect("an export"));
    let server = Arc::new(Setup::with_exports(vec![export]).start());
    let mut client = Client::new(&server);
    drop(client.make_file("export", "f", b"x"));
    let (made, site) = (Arc::new(AtomicBool::new(false)), server.clone());
    let seen = made.clone();
    disk.during_lookup(move || {
        let other = Client::with(&site, b"other", sys(ALICE), FORE);
        let making = [at_export(), vec![open_create("new", 3)]].concat();
        try_on(&other, 0, other.sequence + 1, making).answered(NFS4_OK);
        seen.store(true, Ordering::SeqCst);
    });
    client.run([at_export(), vec![remove("f")]].concat()).ok();
    assert!(made.load(Ordering::SeqCst), "a file was made while the other was removed");
}

fn at_export() -> Vec<Op> {
    vec![put_root(), lookup("export")]
}

fn table(exports: Vec<Export>) -> ExportTable {
    ExportTable::new(exports, Timestamp::default()).expect("they do not clash")
}

#[test]
fn an_open_that_was_made_in_a_removed_export_is_revoked_when_its_call_has_ended()
// RFC 8881 sections 8.4.2.4 and 15.1.2.9
{
    let disk = Slow::new();
    disk.start_syncing_names();
    let removed = all_flavors(Export::new("/export", disk).expect("an export"));
    let server = Setup::with_exports(vec![removed]).start();
    let mut client = Client::new(&server);
    client.at("export", vec![open_create("f", 3)]).ok();
    let opens = || server.nfs.list_opens(usize::MAX).entries.len();
    let operations = vec![put_root(), lookup("export"), open_create("g", 3)];
    let waiting = try_on(&client, 1, 1, operations).waits();
    let counts = server.nfs.replace_exports(table(vec![export("/other", &memory())]), client.now);
    assert_eq!((counts.opens, opens()), (1, 0));
    let waiting = waiting.execute(&client);
    server.nfs.housekeeping(client.now);
    assert_eq!(opens(), 1, "its call has not ended");
    waiting.complete(&client, Ok(()));
    server.nfs.housekeeping(client.now);
    assert_eq!(opens(), 0);
}

#[test]
fn an_open_that_was_made_in_a_changed_export_is_revoked_when_its_call_has_ended()
// RFC 8881 sections 8.4.2.4 and 15.1.2.9
{
    let disk = Slow::new();
    let former = all_flavors(Export::new("/export", disk).expect("an export"));
    let server = Setup::with_exports(vec![former]).start();
    let client = Client::new(&server);
    let opens = || server.nfs.list_opens(usize::MAX).entries.len();
    let waiting = try_on(&client, 1, 1, vec![put_root(), lookup("export"), open_create("g", 3)]).waits();
    server.nfs.replace_exports(table(vec![export("/export", &memory())]), client.now);
    assert_eq!(waiting.resume(&client).status, NFS4_OK);
    assert_eq!(opens(), 1);
    server.nfs.housekeeping(client.now);
    assert_eq!(opens(), 0);
}

#[test]
fn an_export_with_another_backend_keeps_the_opens_of_files_that_this_one_has() {
    let (kept, gone) = (memory(), memory());
    let exports = vec![export("/kept", &kept), export("/changed", &gone)];
    let server = Setup::with_exports(exports).start();
    let mut client = Client::new(&server);
    for path in ["kept", "changed"] {
        client.at(path, vec![open_create("f", 3)]).ok();
    }
    let same = Export::new("/kept", Slow::of(kept.clone())).expect("an export");
    let changed = export("/changed", &memory());
    let counts = server.nfs.replace_exports(table(vec![all_flavors(same), changed]), client.now);
    assert_eq!((counts.opens, server.nfs.list_opens(usize::MAX).entries.len()), (1, 1));
}
