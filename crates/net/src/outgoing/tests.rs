//! Records that the service sends without a request.

use crate::{Action, CompletionEvent, CompletionSender, Limits, Listener, Reply, Request, Running, Service};
use rpc::{ConnectionId, record_mark};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Reports the connections from which records arrive, and the connections that end.
struct Listening(Mutex<Sender<(ConnectionId, &'static str)>>);

impl Listening {
    fn tell(&self, connection: ConnectionId, what: &'static str) {
        let _ = self.0.lock().expect("a lock").send((connection, what));
    }
}

impl Service for Listening {
    type Shard = ();
    type Completed = ();
    type Step = Infallible;

    fn shard(&self, _: &CompletionSender<()>, _: &Arc<AtomicU32>) {}

    fn tick(
        &self,
        _: &mut (),
        requests: &mut Vec<Request>,
        _: &mut Vec<CompletionEvent<()>>,
        replies: &mut Vec<Reply>,
        _: &mut dyn FnMut(&mut Vec<Reply>) -> Duration,
    ) {
        for request in requests.drain(..) {
            self.tell(request.connection, "record");
            let action = Action::Send([&[0; 4], request.record.as_slice()].concat());
            replies.push(Reply { connection: request.connection, action, class: 0 });
        }
    }

    fn take_steps(&self, _: &mut (), _: &mut VecDeque<Infallible>) {}

    fn is_brief(&self, step: &Infallible, _: bool) -> bool {
        match *step {}
    }

    fn run_step(&self, step: Infallible) -> Option<Infallible> {
        match step {}
    }

    fn connection(&self, step: &Infallible) -> Option<ConnectionId> {
        match *step {}
    }

    fn hand_over(&self, step: Infallible) -> Result<(), Infallible> {
        match step {}
    }

    fn closed(&self, connection: ConnectionId) {
        self.tell(connection, "closed");
    }
}

fn start() -> (Running, Receiver<(ConnectionId, &'static str)>) {
    let (tell, told) = channel();
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a free port");
    let service = Arc::new(Listening(Mutex::new(tell)));
    (listener.start(service, 3, Limits::default()).expect("threads"), told)
}

fn wait(told: &Receiver<(ConnectionId, &'static str)>) -> (ConnectionId, &'static str) {
    told.recv_timeout(Duration::from_secs(10)).expect("news of a connection")
}

fn receive(stream: &mut TcpStream) -> Vec<u8> {
    let mut record = [0; 8];
    stream.read_exact(&mut record).expect("a record");
    record.to_vec()
}

#[test]
fn an_outgoing_record_reaches_its_connection_on_any_shard() {
    // RFC 8881 section 2.10.3.1
    let (server, told) = start();
    let mut streams: Vec<(ConnectionId, TcpStream)> = (0..7)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address()).expect("the server listens");
            stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
            stream.write_all(&[&record_mark(4)[..], b"echo"].concat()).expect("sent");
            assert_eq!(receive(&mut stream)[4..], *b"echo");
            (wait(&told).0, stream)
        })
        .collect();
    for (index, (connection, _)) in streams.iter().enumerate() {
        assert!(server.outgoing().send(*connection, vec![0, 0, 0, 0, 1, 2, 3, index as u8]));
    }
    for (index, (_, stream)) in streams.iter_mut().enumerate() {
        assert_eq!(receive(stream), [0x80, 0, 0, 4, 1, 2, 3, index as u8]);
    }
}

#[test]
fn a_record_for_a_closed_connection_reports_the_end_again() {
    // RFC 8881 section 2.10.3.1
    let (server, told) = start();
    let mut stream = TcpStream::connect(server.address()).expect("the server listens");
    stream.write_all(&[&record_mark(4)[..], b"echo"].concat()).expect("sent");
    let (connection, _) = wait(&told);
    drop(stream);
    assert_eq!(wait(&told), (connection, "closed"));
    assert!(server.outgoing().send(connection, vec![0; 8]));
    assert_eq!(wait(&told), (connection, "closed"));
    let nowhere = ConnectionId(u64::MAX);
    assert!(!server.outgoing().send(nowhere, vec![0; 8]));
}
