//! Endpoints with peers that are slow, silent, deaf or many.

use super::*;
use axum::http::StatusCode;
use axum::routing::{get, post};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// A page that exceeds the kernel's send buffer.
const PAGE: usize = 8 << 20;
const CONNECTIONS_MAX: usize = 4;

fn start(time_max: Duration) -> SocketAddr {
    let socket = bind_tcp(([127, 0, 0, 1], 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    let workers = Workers::new(1);
    let defect = || async move {
        let broken = workers.run(|| -> String { panic!("as the test wants it") }).await;
        broken.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
    };
    let router = Router::new()
        .route("/page", get(|| async { "x".repeat(PAGE) }))
        .route("/defect", get(defect))
        .route("/length", post(|body: String| async move { body.len().to_string() }));
    let listener = HttpListener::Tcp(socket, None);
    super::start(vec![HttpEndpoint { listener, router, connections_max: CONNECTIONS_MAX, time_max }])
        .unwrap();
    address
}

fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // It may have answered, and closed, before all was sent.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

#[test]
fn each_request_has_an_answer_and_a_long_page_arrives_whole() {
    let address = start(Duration::from_secs(60));
    let page = ask(address, b"GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let (head, body) = page.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("connection: close"), "{head}");
    assert_eq!(body.len(), PAGE);
    assert!(ask(address, b"GET /page?x=1 HTTP/1.0\n\n").ends_with(body), "as of an old client");
    let head = ask(address, b"HEAD /page HTTP/1.1\r\n\r\n");
    assert!(status(&head) == "200" && head.ends_with("\r\n\r\n"), "{head}");
    for (request, expected) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
        (b"POST /page HTTP/1.1\r\n\r\n", "405"),
        (b"GET /page\r\n\r\n", "400"),
        (b"GET /\xff HTTP/1.1\r\n\r\n", "400"),
        (b"\x00\xff\x00\xff\n\n", "400"),
        (b"POST /length HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "200"),
        (b"GET /defect HTTP/1.1\r\n\r\n", "500"),
    ] {
        let answer = ask(address, request);
        assert_eq!(status(&answer), expected, "{request:?}: {answer}");
    }
    assert_eq!(status(&ask(address, b"GET /page HTTP/1.0\r\n\r\n")), "200", "after a defect");
}

#[test]
fn a_head_or_a_body_beyond_its_limit_is_refused() {
    let address = start(Duration::from_secs(60));
    let head = [b"GET /page HTTP/1.1\r\nX: ".as_slice(), &vec![b'x'; 1 << 20]].concat();
    // The connection closes with unread input, so the answer may be lost.
    let answer = ask(address, &head);
    assert!(answer.is_empty() || status(&answer) == "431", "{answer}");
    let body = |length: usize| {
        let head = format!("POST /length HTTP/1.1\r\nContent-Length: {length}\r\n\r\n");
        [head.into_bytes(), vec![b'a'; length]].concat()
    };
    assert!(ask(address, &body(HTTP_BODY_MAX)).ends_with("4096"));
    assert_eq!(status(&ask(address, &body(HTTP_BODY_MAX + 1))), "413");
    let endless = b"POST /length HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1001\r\n".to_vec();
    let answer = ask(address, &[endless, vec![b'a'; 0x1001], b"\r\n".to_vec()].concat());
    assert_eq!(status(&answer), "413");
}

#[test]
fn peers_that_say_nothing_or_read_nothing_make_room_for_others() {
    let address = start(Duration::from_secs(60));
    let silent: Vec<TcpStream> =
        (0..4 * CONNECTIONS_MAX).map(|_| TcpStream::connect(address).unwrap()).collect();
    let deaf: Vec<TcpStream> = (0..CONNECTIONS_MAX)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"GET /page HTTP/1.1\r\n\r\n").unwrap();
            stream
        })
        .collect();
    assert_eq!(status(&ask(address, b"HEAD /page HTTP/1.1\r\n\r\n")), "200");
    // The first of them had to go.
    let mut first = silent.into_iter().next().unwrap();
    first.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert!(matches!(first.read(&mut [0; 1]), Ok(0) | Err(_)));
    drop(deaf);
}

#[test]
fn a_peer_that_takes_too_long_is_closed() {
    let address = start(Duration::from_millis(300));
    let mut slow = TcpStream::connect(address).unwrap();
    slow.write_all(b"POST /length HTTP/1.1\r\nContent-Length: 3\r\n\r\na").unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert!(matches!(slow.read(&mut [0; 1]), Ok(0)), "it is closed without an answer");
}
