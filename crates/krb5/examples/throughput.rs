//! Prints how fast tokens are made and opened on one core: `cargo run --release -p krb5 --example throughput`.
//!
//! An argument picks rows by what their name contains.

// A measurement reads the clock, which the crate itself never does.
#![allow(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

use krb5::{
    ContextKeys, Enctype, MicMessage, MicToken, Role, TokenError, UnwrapMessage, WRAP_HEADROOM, WrapMessage,
};

const ROUND: Duration = Duration::from_millis(200);

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    println!("AES in hardware: {}", krb5::hardware_accelerated());
    println!("{:<28}{:<14}{:>10}{:>10}", "enctype", "batch", "wrap", "unwrap");
    for enctype in Enctype::ALL {
        for (count, len) in
            [(1, 1 << 20), (1, 64 << 10), (2, 64 << 10), (4, 64 << 10), (16, 64 << 10), (16, 4 << 10)]
        {
            let name = format!("{:<28}{:<14}", enctype.name(), format!("{count} x {} KiB", len >> 10));
            if name.contains(&wanted) {
                let (wrap, unwrap) = seal_and_open(enctype, count, len, 1);
                println!("{name}{wrap:>10.2}{unwrap:>10.2}  GB/s");
            }
        }
        let name = format!("{:<28}{:<14}", enctype.name(), "16 users 4 KiB");
        if name.contains(&wanted) {
            let (wrap, unwrap) = seal_and_open(enctype, 16, 4 << 10, 16);
            println!("{name}{wrap:>10.2}{unwrap:>10.2}  GB/s");
        }
        let name = format!("{:<28}{:<14}", enctype.name(), "MIC 128 B x16");
        if name.contains(&wanted) {
            println!("{name}{:>10.0}  ns each", sign(enctype));
        }
    }
}

fn sides(enctype: Enctype, n: usize) -> (ContextKeys, ContextKeys) {
    let key = vec![n as u8; enctype.key_len()];
    let side = |role| ContextKeys::new(enctype, &key, role, true).expect("the right length");
    (side(Role::Acceptor), side(Role::Initiator))
}

/// Returns GB/s of plaintext.
fn seal_and_open(enctype: Enctype, count: usize, len: usize, users: usize) -> (f64, f64) {
    let keys: Vec<_> = (0..users).map(|n| sides(enctype, n)).collect();
    let mut buffers = vec![vec![1u8; WRAP_HEADROOM + len + 40]; count];
    let (mut wrapping, mut unwrapping, mut bytes) = (Duration::ZERO, Duration::ZERO, 0);
    while wrapping + unwrapping < 2 * ROUND {
        for buffer in &mut buffers {
            buffer.truncate(WRAP_HEADROOM + len);
        }
        let started = Instant::now();
        let mut batch: Vec<_> = buffers
            .iter_mut()
            .enumerate()
            .map(|(n, buffer)| WrapMessage {
                keys: &keys[n % users].0,
                sequence: 1,
                confounder: [n as u8; 16],
                buffer,
                start: 0,
            })
            .collect();
        krb5::wrap(&mut batch);
        wrapping += started.elapsed();
        let started = Instant::now();
        let mut batch: Vec<_> = buffers
            .iter_mut()
            .enumerate()
            .map(|(n, token)| UnwrapMessage {
                keys: &keys[n % users].1,
                token,
                result: Err(TokenError::Malformed),
            })
            .collect();
        krb5::unwrap(&mut batch);
        unwrapping += started.elapsed();
        assert!(batch.iter().all(|message| message.result.is_ok()));
        bytes += count * len;
    }
    let rate = |time: Duration| bytes as f64 / time.as_nanos() as f64;
    (rate(wrapping), rate(unwrapping))
}

/// Returns nanoseconds for one token.
fn sign(enctype: Enctype) -> f64 {
    let keys = sides(enctype, 1).0;
    let data = [7; 128];
    let (started, mut count) = (Instant::now(), 0);
    while started.elapsed() < ROUND {
        let mut batch: Vec<_> = (0..16)
            .map(|sequence| MicMessage { keys: &keys, sequence, data: &data, token: MicToken::EMPTY })
            .collect();
        krb5::get_mic(&mut batch);
        count += 16;
    }
    started.elapsed().as_nanos() as f64 / f64::from(count)
}
