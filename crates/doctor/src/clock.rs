//! Asks a KDC for its time: an AS-REQ for a principal that no realm has. The error names the time
//! (RFC 4120 section 5.9.1), and the answer proves that a KDC of the realm listens there.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::der::{context, element, field, integer, read, sequence, string};

/// The longest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 16 << 10;

/// The principal of the request, as it appears in the KDC's log.
const PRINCIPAL: &str = "orthrus-doctor";

/// KDC_ERR_C_PRINCIPAL_UNKNOWN and KDC_ERR_WRONG_REALM of RFC 4120 section 7.5.9.
const UNKNOWN_CLIENT: [u32; 2] = [6, 68];

/// The answer of a KDC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KdcAnswer {
    /// The KDC's clock minus this machine's, in seconds.
    pub ahead: i64,
}

/// The transport of a question to a KDC.
#[derive(Clone, Copy)]
pub(crate) enum Transport {
    Tcp,
    Udp,
}

/// Asks the KDC at `address`.
///
/// # Errors
/// The reason in words.
pub(crate) fn ask(
    address: SocketAddr,
    realm: &str,
    over: Transport,
    limit: Duration,
) -> Result<KdcAnswer, String> {
    let answer = exchange(address, &request(realm, &[PRINCIPAL])?, over, limit)?;
    parse(&answer, now()).map(|(_, answer)| answer).ok_or_else(|| "the answer is not from a KDC".to_owned())
}

/// Returns whether the KDC has the realm: whether it knows the realm's own principal, which exists
/// everywhere. In Active Directory that is a service of the account `krbtgt`, and only the account
/// is known as a client. An answer other than an error counts.
pub(crate) fn serves(
    address: SocketAddr,
    realm: &str,
    over: Transport,
    limit: Duration,
) -> Result<bool, String> {
    let knows = |client: &[&str]| -> Result<bool, String> {
        let answer = exchange(address, &request(realm, client)?, over, limit)?;
        Ok(parse(&answer, now()).is_none_or(|(code, _)| !UNKNOWN_CLIENT.contains(&code)))
    };
    Ok(knows(&["krbtgt", realm])? || knows(&["krbtgt"])?)
}

fn exchange(
    address: SocketAddr,
    request: &[u8],
    over: Transport,
    limit: Duration,
) -> Result<Vec<u8>, String> {
    let answer = match over {
        Transport::Tcp => over_tcp(address, request, limit),
        Transport::Udp => over_udp(address, request, limit),
    };
    answer.map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
            format!("no answer within {} s", limit.as_secs())
        }
        std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        std::io::ErrorKind::UnexpectedEof => "it closes the connection without an answer".to_owned(),
        _ => error.to_string(),
    })
}

fn over_tcp(address: SocketAddr, request: &[u8], limit: Duration) -> std::io::Result<Vec<u8>> {
    let end = std::time::Instant::now() + limit;
    let mut stream = TcpStream::connect_timeout(&address, limit)?;
    let length = u32::try_from(request.len()).unwrap_or(u32::MAX).to_be_bytes();
    stream.set_write_timeout(Some(limit))?;
    stream.write_all(&[&length[..], request].concat())?;
    let mut answer = Vec::new();
    let mut piece = [0; 2048];
    // A peer that sends a byte at a time cannot exceed the limit.
    loop {
        let wanted = answer.first_chunk::<4>().map(|head| u32::from_be_bytes(*head) as usize);
        if let Some(wanted) = wanted {
            let wanted = wanted.min(ANSWER_BYTES_MAX);
            if let Some(body) = answer.get(4..4 + wanted) {
                return Ok(body.to_vec());
            }
        }
        let left = end.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => answer.extend_from_slice(piece.get(..count).unwrap_or_default()),
        }
    }
}

fn over_udp(address: SocketAddr, request: &[u8], limit: Duration) -> std::io::Result<Vec<u8>> {
    let any: SocketAddr = if address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(limit))?;
    socket.send(request)?;
    let mut answer = vec![0; ANSWER_BYTES_MAX];
    let count = socket.recv(&mut answer)?;
    answer.truncate(count);
    Ok(answer)
}

/// Returns an AS-REQ (RFC 4120 section 5.4.1) without pre-authentication.
fn request(realm: &str, client: &[&str]) -> Result<Vec<u8>, String> {
    let mut nonce = [0; 4];
    getrandom::fill(&mut nonce).map_err(|error| error.to_string())?;
    let nonce = u32::from_be_bytes(nonce) >> 1;
    let name = |kind, parts: &[&str]| {
        let parts: Vec<_> = parts.iter().map(|part| string(part)).collect();
        sequence(&[context(0, &integer(kind)), context(1, &sequence(&parts))])
    };
    let etypes: Vec<_> = [18, 17, 20, 19].map(integer).to_vec();
    let body = sequence(&[
        context(0, &element(3, &[0, 0, 0, 0, 0])),
        context(1, &name(1, client)),
        context(2, &string(realm)),
        context(3, &name(2, &["krbtgt", realm])),
        context(5, &element(0x18, b"20370101000000Z")),
        context(7, &integer(nonce)),
        context(8, &sequence(&etypes)),
    ]);
    let request = sequence(&[context(1, &integer(5)), context(2, &integer(10)), context(4, &body)]);
    Ok(element(0x6a, &request))
}

/// Reads a KRB-ERROR: its code, and the clock.
fn parse(answer: &[u8], now: i64) -> Option<(u32, KdcAnswer)> {
    let (0x7e, content, _) = read(answer)? else { return None };
    let (0x30, fields, _) = read(content)? else { return None };
    let time = std::str::from_utf8(field(fields, 4)?).ok()?;
    let code = field(fields, 6)?.iter().fold(0u32, |sum, byte| sum << 8 | u32::from(*byte));
    Some((code, KdcAnswer { ahead: seconds(time)? - now }))
}

/// Returns the seconds since 1970 of a KerberosTime such as `20260131235959Z`.
fn seconds(time: &str) -> Option<i64> {
    let digits = time.strip_suffix('Z').filter(|digits| digits.len() == 14)?;
    let number = |range: std::ops::Range<usize>| digits.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (number(0..4)?, number(4..6)?, number(6..8)?);
    // Days of the civil calendar: years begin in March, so that leap days come last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (153 * month + 2) / 5
        + day
        - 719_469;
    Some(days * 86_400 + number(8..10)? * 3600 + number(10..12)? * 60 + number(12..14)?)
}

/// Returns the seconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_calendar_are_seconds() {
        assert_eq!(seconds("19700101000000Z"), Some(0));
        assert_eq!(seconds("20000229235959Z"), Some(951_868_799));
        assert_eq!(seconds("20261123154346Z"), Some(1_795_448_626));
        assert_eq!(seconds("2026"), None);
    }

    #[test]
    fn garbage_is_not_an_answer() {
        for bytes in
            [&b""[..], b"\x7e", b"\x7e\x84\xff\xff\xff\xff", b"\x7e\x02\x30\x00", &[0x7e, 0x83, 1, 2]]
        {
            assert_eq!(parse(bytes, 0), None);
        }
    }

    /// Starts a KDC that answers with these errors in turn.
    fn kdc(codes: &'static [u32]) -> SocketAddr {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for code in codes {
                let Ok((mut stream, _)) = listener.accept() else { return };
                let _ = stream.read(&mut [0; 4096]);
                let time = context(4, &element(0x18, b"20261123154346Z"));
                let error = element(0x7e, &sequence(&[time, context(6, &integer(*code))]));
                let length = u32::try_from(error.len()).unwrap().to_be_bytes();
                let _ = stream.write_all(&[&length[..], &error].concat());
            }
        });
        address
    }

    #[test]
    fn a_kdc_serves_a_realm_if_it_knows_its_principal_or_its_account() {
        // RFC 4120 section 7.5.9. In Active Directory the account krbtgt is disabled: 18,
        // KDC_ERR_CLIENT_REVOKED.
        let limit = Duration::from_secs(10);
        for (codes, served) in [(&[25][..], true), (&[6, 18], true), (&[6, 6], false), (&[68, 68], false)] {
            assert_eq!(serves(kdc(codes), "A.TEST", Transport::Tcp, limit), Ok(served), "{codes:?}");
        }
    }

    #[test]
    fn a_kdc_that_trickles_does_not_exceed_the_limit() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let Ok((mut stream, _)) = listener.accept() else { return };
            while stream.write_all(&[0]).is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let begin = std::time::Instant::now();
        assert!(ask(address, "A.TEST", Transport::Tcp, Duration::from_millis(300)).is_err());
        assert!(begin.elapsed() < Duration::from_secs(20));
    }
}
