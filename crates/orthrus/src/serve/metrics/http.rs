//! A responder for a few pages by HTTP: small, without threads for its peers, and none of them can
//! hold up another.

use net::Admission;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Connections of the metrics endpoint at once; a further one takes the place of the oldest.
const METRICS_CONNECTIONS_MAX: usize = 16;
/// Bytes of a request to the metrics endpoint; a longer one is refused.
const METRICS_REQUEST_MAX: usize = 8 << 10;
/// How long a peer of the metrics endpoint may take, from connecting to having read its answer.
const METRICS_TIME_MAX: Duration = Duration::from_secs(5);
/// How long to wait when the system gives no descriptor for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The path of the page with all metrics.
pub(crate) const PATH: &str = "/metrics";

/// Renders the page of a path; `None` if there is none.
pub(super) type Pages = dyn Fn(&str) -> Option<RenderedPage> + Send;

/// A page, or the reason why it has no good news.
pub(super) enum RenderedPage {
    /// Good news, with status 200.
    Fine(String),
    /// Status 503, so that supervisors and load balancers act.
    Unavailable(String),
}

/// A bound endpoint that does not answer yet.
pub(crate) struct Endpoint {
    socket: TcpListener,
    admission: Option<Box<Admission>>,
}

impl Endpoint {
    /// Binds the address.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpListener::bind(address)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, admission: None })
    }

    /// Closes connections that `admission` does not want before anything is read from them.
    pub(crate) fn admit(&mut self, admission: Box<Admission>) {
        self.admission = Some(admission);
    }

    /// Where it is, with the port that the system gave.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Starts the thread that answers, for as long as the process lives.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn start(self, pages: Box<Pages>) -> io::Result<()> {
        let responder =
            Responder { socket: self.socket, admission: self.admission, pages, peers: Vec::new() };
        std::thread::Builder::new().name("metrics".into()).spawn(move || responder.run()).map(drop)
    }
}

struct Responder {
    socket: TcpListener,
    admission: Option<Box<Admission>>,
    pages: Box<Pages>,
    /// The connections, the oldest first.
    peers: Vec<HttpPeer>,
}

struct HttpPeer {
    stream: TcpStream,
    until: Instant,
    request: Vec<u8>,
    /// The unsent rest of the answer, once the request is complete.
    answer: Option<Vec<u8>>,
}

impl Responder {
    fn run(mut self) {
        loop {
            self.wait();
            self.accept();
            let (now, pages) = (Instant::now(), &*self.pages);
            self.peers.retain_mut(|peer| peer.until > now && peer.advance(pages).unwrap_or(false));
        }
    }

    /// Waits until something can be done, or a peer has taken too long.
    fn wait(&self) {
        let next = self.peers.first().map(|peer| peer.until.saturating_duration_since(Instant::now()));
        let timeout = next.map(|time| Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(time.subsec_nanos()),
        });
        let mut fds = vec![PollFd::new(&self.socket, PollFlags::IN)];
        fds.extend(self.peers.iter().map(|peer| {
            let event = if peer.answer.is_some() { PollFlags::OUT } else { PollFlags::IN };
            PollFd::new(&peer.stream, event)
        }));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                tracing::error!("waiting for those who ask for metrics failed: {error}");
                std::thread::sleep(ACCEPT_PAUSE);
            }
        }
    }

    fn accept(&mut self) {
        loop {
            match self.socket.accept() {
                Ok((stream, peer)) if !self.admits(&stream, peer) => {}
                Ok((stream, _)) if stream.set_nonblocking(true).is_ok() => {
                    if self.peers.len() >= METRICS_CONNECTIONS_MAX {
                        self.peers.remove(0);
                    }
                    let until = Instant::now() + METRICS_TIME_MAX;
                    self.peers.push(HttpPeer { stream, until, request: Vec::new(), answer: None });
                    // A peer that fills the backlog must not starve the present ones.
                    if self.peers.len() >= METRICS_CONNECTIONS_MAX {
                        return;
                    }
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error)
                    if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                Err(error) => {
                    // These two mean that the process ends, and has let go of its sockets.
                    let ends = [Errno::NOTSOCK, Errno::INVAL].map(|errno| Some(errno.raw_os_error()));
                    if !ends.contains(&error.raw_os_error()) {
                        tracing::warn!("accepting one who asks for metrics failed: {error}");
                    }
                    std::thread::sleep(ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }
}

impl Responder {
    fn admits(&self, stream: &TcpStream, peer: SocketAddr) -> bool {
        let Some(admission) = &self.admission else { return true };
        stream.local_addr().is_ok_and(|own| admission(peer, own))
    }
}

impl HttpPeer {
    /// Reads and writes without blocking; returns whether the connection goes on.
    fn advance(&mut self, pages: &Pages) -> io::Result<bool> {
        match self.step(pages) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(true),
            other => other.map(|()| false),
        }
    }

    fn step(&mut self, pages: &Pages) -> io::Result<()> {
        while self.answer.is_none() {
            let mut bytes = [0; 2048];
            let count = self.stream.read(&mut bytes)?;
            if count == 0 {
                return Ok(());
            }
            self.request.extend_from_slice(bytes.get(..count).unwrap_or_default());
            self.answer = answer(&self.request, pages);
        }
        let rest = self.answer.get_or_insert_default();
        while !rest.is_empty() {
            let count = self.stream.write(rest)?;
            rest.drain(..count);
        }
        self.stream.shutdown(std::net::Shutdown::Write)
    }
}

/// Returns the answer to the received bytes; `None` while they may still become a request.
fn answer(request: &[u8], pages: &Pages) -> Option<Vec<u8>> {
    let ended = request.windows(4).any(|bytes| bytes == b"\r\n\r\n")
        || request.windows(2).any(|bytes| bytes == b"\n\n");
    if !ended {
        let long = request.len() > METRICS_REQUEST_MAX;
        return long.then(|| response("431 Request Header Fields Too Large", "too long\n", true));
    }
    let line = request.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let (method, target, version) = (words.next(), words.next(), words.next());
    if !version.is_some_and(|version| version.starts_with(b"HTTP/1.")) {
        return Some(response("400 Bad Request", "this is no HTTP request\n", true));
    }
    if !names_this_machine(host(request)) {
        let said = "ask by an IP address, localhost or this machine's host name\n";
        return Some(response("421 Misdirected Request", said, true));
    }
    let path = target.unwrap_or_default().split(|byte| *byte == b'?').next().unwrap_or_default();
    let body = match method {
        Some(b"GET") => true,
        Some(b"HEAD") => false,
        _ => return Some(response("405 Method Not Allowed", "only GET and HEAD\n", true)),
    };
    Some(match std::str::from_utf8(path).ok().and_then(pages) {
        Some(RenderedPage::Fine(page)) => response("200 OK", &page, body),
        Some(RenderedPage::Unavailable(why)) => response("503 Service Unavailable", &why, body),
        None => response("404 Not Found", "there are /metrics, /healthz and /readyz\n", body),
    })
}

/// The Host header of a whole request without its port; nothing when there is none, which browsers
/// never send.
fn host(request: &[u8]) -> Option<&[u8]> {
    let lines = request.split(|byte| *byte == b'\n').skip(1).take_while(|line| !line.trim_ascii().is_empty());
    let fields = lines.filter_map(|line| {
        let (name, value) = line.split_at_checked(line.iter().position(|byte| *byte == b':')?)?;
        name.eq_ignore_ascii_case(b"host").then(|| value.get(1..).unwrap_or_default().trim_ascii())
    });
    // A second one must not hide the first.
    let mut hosts = fields;
    let first = hosts.next()?;
    if hosts.next().is_some() {
        return Some(b"");
    }
    // The colons of an IPv6 address stand in brackets.
    let port = first.iter().rposition(|byte| *byte == b':').filter(|at| {
        let digits = first.get(at + 1..).is_some_and(|port| port.iter().all(u8::is_ascii_digit));
        digits && !first.get(*at..).unwrap_or_default().contains(&b']')
    });
    Some(port.and_then(|at| first.get(..at)).unwrap_or(first))
}

/// Says whether a request was meant for this machine. A page of another site can have its own name
/// resolved to this address (DNS rebinding), but its browser still sends that name.
fn names_this_machine(host: Option<&[u8]>) -> bool {
    let Some(host) = host else { return true };
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let host = host.strip_suffix('.').unwrap_or(host);
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let own = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    literal.parse::<IpAddr>().is_ok()
        || host.eq_ignore_ascii_case("localhost")
        || !host.is_empty() && host.eq_ignore_ascii_case(own().trim())
}

fn response(status: &str, content: &str, body: bool) -> Vec<u8> {
    let length = content.len();
    let content = if body { content } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{content}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page that exceeds the kernel's send buffer.
    const PAGE: usize = 8 << 20;

    fn page(path: &str) -> Option<RenderedPage> {
        match path {
            PATH => Some(RenderedPage::Fine("x".repeat(PAGE))),
            "/ill" => Some(RenderedPage::Unavailable("ill\n".to_owned())),
            _ => None,
        }
    }

    fn start() -> SocketAddr {
        let endpoint = Endpoint::bind(([127, 0, 0, 1], 0).into()).expect("a port");
        let address = endpoint.address().expect("an address");
        endpoint.start(Box::new(page)).expect("a thread");
        address
    }

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        // It may have answered, and closed, before all was sent.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).expect("text")
    }

    #[test]
    fn the_page_is_given_to_those_who_ask_for_it_and_to_nobody_else() {
        let address = start();
        let page = ask(address, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let (head, body) = page.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains(&format!("Content-Length: {PAGE}\r\n")) && body.len() == PAGE, "{head}");
        assert_eq!(ask(address, b"GET /metrics?x=1 HTTP/1.0\n\n").len(), page.len());
        let head = ask(address, b"HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
        for (request, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
            (b"GET /\xff HTTP/1.1\r\n\r\n", "404"),
            (b"GET /ill HTTP/1.1\r\n\r\n", "503"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"GET /metrics\r\n\r\n", "400"),
            (b"\r\n\r\n", "400"),
            (b"\x00\xff\x00\xff\n\n", "400"),
        ] {
            let answer = ask(address, request);
            assert_eq!(answer.split(' ').nth(1), Some(status), "{request:?}: {answer}");
        }
    }

    #[test]
    fn a_page_of_another_site_gets_nothing_by_a_name_that_resolves_to_this_address() {
        let own = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
        let own = own.trim();
        for good in [
            "127.0.0.1",
            "127.0.0.1:9049",
            "[::1]:9049",
            "[::1]",
            "192.0.2.7:80",
            "localhost",
            "LocalHost:9049",
            "localhost.",
            &format!("{}:9049", own.to_uppercase()),
        ] {
            let request = format!("GET /metrics HTTP/1.1\r\nhOsT : {good} \r\n\r\n").replace(" :", ":");
            assert!(names_this_machine(host(request.as_bytes())), "{good}");
        }
        for bad in [
            "attacker.example",
            "attacker.example:9049",
            "127.0.0.1.attacker.example",
            "localhost.attacker.example",
            &format!("{own}.attacker.example"),
            "",
            ":9049",
            "127.0.0.1:x",
            "\u{e9}",
            "localhost\r\nHost: attacker.example",
            "attacker.example\r\nHost: localhost",
        ] {
            let request = format!("GET /metrics HTTP/1.1\r\nAccept: */*\r\nHost: {bad}\r\n\r\n");
            assert!(!names_this_machine(host(request.as_bytes())), "{bad}");
        }
        let answer = ask(start(), b"GET /metrics HTTP/1.1\r\nHost: attacker.example\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 421 "), "{answer}");
    }

    #[test]
    fn a_request_that_does_not_end_is_refused_at_its_limit() {
        let address = start();
        // The connection closes with unread input, so the answer may be lost; the endpoint must
        // survive.
        let answer = ask(address, &vec![b'a'; 1 << 20]);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
        assert_eq!(super::answer(&[b'a'; METRICS_REQUEST_MAX], &page), None);
        assert!(super::answer(&[b'a'; METRICS_REQUEST_MAX + 1], &page).is_some());
        assert!(ask(address, b"HEAD /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
    }

    #[test]
    fn peers_that_say_nothing_or_read_nothing_make_room_for_others() {
        let address = start();
        let silent: Vec<TcpStream> = (0..4 * METRICS_CONNECTIONS_MAX)
            .map(|_| TcpStream::connect(address).expect("it listens"))
            .collect();
        let deaf: Vec<TcpStream> = (0..METRICS_CONNECTIONS_MAX)
            .map(|_| {
                let mut stream = TcpStream::connect(address).expect("it listens");
                stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("room");
                stream
            })
            .collect();
        assert!(ask(address, b"HEAD /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
        // The first of them had to go.
        let mut first = silent.into_iter().next().expect("one");
        first.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        assert!(matches!(first.read(&mut [0; 1]), Ok(0) | Err(_)));
        drop(deaf);
    }
}
