//! How far this machine could go: memory, loopback, the link where there is one, and one core's
//! cryptography, measured in the run that they explain.

use crate::link::{self, Link};
use crate::measuring::{Interval, LINK, LOOPBACK, MachineLimit};
use anyhow::{Context as _, Result, ensure};
use krb5::{
    ContextKeys, Enctype, ProtocolKey, Role, Segments, TokenError, UnwrapMessage, WRAP_HEADROOM, WrapMessage,
};
use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// How long each limit is measured.
const LENGTH: Duration = Duration::from_millis(120);

/// Bytes of one message of the cryptography, and how many are sealed at once.
const MESSAGE: usize = 128 << 10;
const MESSAGES: usize = 16;

/// Measures all limits in about a second, longer over a slow link. Limits that cannot be measured
/// are absent.
pub fn limits(link: Option<&Link>) -> Vec<MachineLimit> {
    let mut found = vec![memory_copy()];
    found.extend(rate_over(None).ok());
    found.extend(round_trip(None).ok());
    if link.is_some() {
        found.extend(rate_over(link).ok());
        found.extend(round_trip(link).ok());
    }
    for (enctype, name) in [
        (Enctype::Aes256CtsHmacSha1_96, "aes256-cts-hmac-sha1-96"),
        (Enctype::Aes256CtsHmacSha384_192, "aes256-cts-hmac-sha384-192"),
    ] {
        found.extend(cryptography(enctype, name).unwrap_or_default());
    }
    found
}

/// Repeats a piece of work that moves so many bytes; returns the median of MB/s.
fn rate(bytes: usize, mut piece: impl FnMut() -> Result<()>) -> Result<f64> {
    piece()?;
    let (begin, mut rates) = (Instant::now(), Vec::new());
    while begin.elapsed() < LENGTH || rates.len() < 3 {
        let start = Instant::now();
        piece()?;
        rates.push(bytes as f64 / 1e6 / start.elapsed().as_secs_f64());
    }
    Interval::of(rates).map(|interval| interval.median).context("no figure")
}

fn limit(name: &str, value: f64, unit: &str, how: &str) -> MachineLimit {
    MachineLimit { name: name.to_owned(), value, unit: unit.to_owned(), how: how.to_owned() }
}

fn memory_copy() -> MachineLimit {
    let (from, mut to) = (vec![0x5a_u8; 32 << 20], vec![0; 32 << 20]);
    let copied = rate(from.len(), || {
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
        Ok(())
    });
    limit("memory copy", copied.unwrap_or(0.0), "MB/s", "one core copies 32 MiB that no cache holds")
}

/// A connection over the link, or over loopback: this end and the server's.
fn pair(over: Option<&Link>) -> Result<(TcpStream, TcpStream)> {
    let listener = link::at_server(over, || Ok(TcpListener::bind(link::listen(over))?))?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    for stream in [&near, &far] {
        stream.set_nodelay(true)?;
    }
    Ok((near, far))
}

fn rate_over(over: Option<&Link>) -> Result<MachineLimit> {
    // A slow link carries less in the time that there is.
    let piece =
        over.map_or(16 << 20, |link| (link.spec().bits_per_second / 200) as usize).clamp(64 << 10, 16 << 20);
    let (mut near, mut far) = pair(over)?;
    // It ends when the other end is closed.
    let sender = std::thread::spawn(move || {
        let data = vec![0; 256 << 10];
        while far.write_all(&data).is_ok() {}
    });
    let mut buffer = vec![0; 256 << 10];
    let moved = rate(piece, || {
        let mut left = piece;
        while left > 0 {
            let most = left.min(buffer.len());
            let count = near.read(buffer.get_mut(..most).unwrap_or_default())?;
            ensure!(count > 0, "the connection is closed");
            left -= count;
        }
        Ok(())
    });
    drop(near);
    let _ = sender.join();
    let how = match over {
        Some(link) => format!(
            "one TCP connection over the link of {}, a thread at each end; full frames of its Ethernet would carry {:.1} MB/s",
            link.spec(),
            link.spec().payload()
        ),
        None => "one TCP connection on 127.0.0.1, a thread at each end".to_owned(),
    };
    Ok(limit(name(over), moved?, "MB/s", &how))
}

fn name(over: Option<&Link>) -> &'static str {
    if over.is_some() { LINK } else { LOOPBACK }
}

fn round_trip(over: Option<&Link>) -> Result<MachineLimit> {
    let (mut near, mut far) = pair(over)?;
    let echo = std::thread::spawn(move || {
        let mut data = [0; 128];
        while far.read_exact(&mut data).is_ok() && far.write_all(&data).is_ok() {}
    });
    let (begin, mut times, mut data) = (Instant::now(), Vec::new(), [0; 128]);
    while begin.elapsed() < LENGTH {
        let start = Instant::now();
        near.write_all(&data)?;
        near.read_exact(&mut data)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    drop(near);
    let _ = echo.join();
    // Wake-ups by a scheduler that is busy with others are not the machine's limit: the fastest
    // tenth is nearer to it.
    times.sort_by(f64::total_cmp);
    let fast = *times.get(times.len() / 10).context("no round trip")?;
    let how = "128 bytes there and back over TCP, a thread at each end; the fastest tenth";
    Ok(limit(&format!("{} round trip", name(over)), fast, "us", how))
}

/// Seals and opens messages of the size of a READ's reply.
fn cryptography(enctype: Enctype, name: &str) -> Result<Vec<MachineLimit>> {
    let key = vec![0x42; enctype.key_len()];
    let client = ContextKeys::new(enctype, ProtocolKey::AcceptorSubkey(&key), Role::Initiator)?;
    let server = ContextKeys::new(enctype, ProtocolKey::AcceptorSubkey(&key), Role::Acceptor)?;
    let plain = vec![vec![0xa7; MESSAGE + WRAP_HEADROOM + client.wrap_trailer_len()]; MESSAGES];
    let mut tokens = plain.clone();
    let seal_all = |tokens: &mut [Vec<u8>]| {
        let message = |(token, sequence)| WrapMessage {
            keys: &client,
            sequence,
            confounder: [7; 16],
            token: Segments::from(token),
        };
        krb5::wrap(&mut tokens.iter_mut().zip(0..).map(message).collect::<Vec<_>>());
    };
    let seal = rate(MESSAGE * MESSAGES, || {
        seal_all(&mut tokens);
        Ok(())
    })?;
    let mut sealed = plain;
    seal_all(&mut sealed);
    let mut tokens = sealed.clone();
    let open = rate(MESSAGE * MESSAGES, || {
        tokens.iter_mut().zip(&sealed).for_each(|(token, sealed)| token.copy_from_slice(sealed));
        let mut batch: Vec<UnwrapMessage<'_>> = tokens
            .iter_mut()
            .map(|token| UnwrapMessage {
                keys: &server,
                token: Segments::from(token),
                result: Err(TokenError::Malformed),
            })
            .collect();
        krb5::unwrap(&mut batch);
        ensure!(batch.iter().all(|message| message.result.is_ok()), "a token was refused");
        Ok(())
    })?;
    let how = "one core, 16 messages of 128 KiB at once, by the code that client and server use";
    Ok(vec![
        limit(&format!("sealing, {name}"), seal, "MB/s", how),
        limit(&format!("opening, {name}"), open, "MB/s", &format!("{how}; with a copy of the message")),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_has_a_figure() {
        let found = limits(None);
        assert_eq!(found.len(), 7, "{found:?}");
        assert!(found.iter().all(|limit| limit.value > 0.0), "{found:?}");
    }
}
