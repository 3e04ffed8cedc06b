//! Prints the speed of sealing and opening tokens on one core:
//! `cargo run --release -p orthrus-krb5 --example throughput`.
//!
//! Arguments name instruction sets (default: all that the processor has) and select rows whose name
//! contains them. Times are the thread's processor time, the median of several rounds.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed measurement ends by panicking")]
#![expect(clippy::disallowed_methods, reason = "a program has arguments")]

use std::time::Duration;

use orthrus_krb5::{
    ContextKeys, Cpu, Enctype, MicMessage, MicToken, ProtocolKey, Role, Run, Segments, TokenError,
    UnwrapMessage, VerifyMessage, WRAP_HEADROOM, WrapMessage,
};
use rustix::time::{ClockId, clock_gettime};

const ROUND: Duration = Duration::from_millis(20);
const ROUNDS: usize = 15;
const CLOCK_EVERY: Duration = Duration::from_micros(200);

fn main() {
    let (mut cpus, mut wanted) = (Vec::new(), String::new());
    for argument in std::env::args().skip(1) {
        match argument.parse::<Cpu>() {
            Ok(cpu) => cpus.push(cpu),
            Err(_) => wanted = argument,
        }
    }
    if cpus.is_empty() {
        cpus.extend(Cpu::available());
    }
    for cpu in cpus {
        println!("\n{cpu:<42}{:>10}{:>10}", "wrap", "unwrap");
        for enctype in Enctype::ALL {
            rows(cpu, enctype, &wanted);
        }
    }
}

fn rows(cpu: Cpu, enctype: Enctype, wanted: &str) {
    let few = [(1, 1 << 20), (1, 4 << 10), (2, 64 << 10), (4, 64 << 10), (6, 64 << 10), (8, 64 << 10)];
    let many = [(16, 64 << 10, 1), (16, 16 << 10, 1), (16, 4 << 10, 16)];
    for (count, len, users) in few.map(|(count, len)| (count, len, 1)).into_iter().chain(many) {
        let name = format!("{:<28}{:<14}", enctype.name(), format!("{count} x {} KiB", len >> 10));
        if name.contains(wanted) {
            let (wrap, unwrap) = seal_and_open(cpu, enctype, count, len, users);
            println!("{name}{wrap:>10.2}{unwrap:>10.2}  GB/s");
        }
    }
    // Bodies of metadata calls and replies, single and in batches of a tick.
    for (count, len) in
        [(1, 64), (1, 160), (1, 320), (1, 1024), (2, 160), (4, 160), (16, 160), (24, 160), (64, 160)]
    {
        let name = format!("{:<28}{:<14}", enctype.name(), format!("{count} x {len} B"));
        if name.contains(wanted) {
            let (wrap, unwrap) = seal_and_open(cpu, enctype, count, len, 1);
            println!("{name}{:>10.0}{:>10.0}  ns each", len as f64 / wrap, len as f64 / unwrap);
        }
    }
    // Verifiers of replies, and headers of calls.
    for (count, len) in [(1, 4), (1, 128), (4, 4), (16, 4), (16, 128), (64, 128)] {
        let name = format!("{:<28}{:<14}", enctype.name(), format!("MIC {count} x {len} B"));
        if name.contains(wanted) {
            let (sign, verify) = sign_and_verify(cpu, enctype, count, len);
            println!("{name}{sign:>10.0}{verify:>10.0}  ns each");
        }
    }
}

/// Returns the processor time of this thread in nanoseconds.
fn now() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the median nanoseconds of a call of `work`.
fn median(mut work: impl FnMut()) -> f64 {
    // The clock is a system call, so short work is repeated between two readings.
    let started = now();
    work();
    let calls = (CLOCK_EVERY.as_nanos() as u64 / (now() - started).max(1)).clamp(1, 1024) as u32;
    let round = |work: &mut dyn FnMut()| {
        let (started, mut count) = (now(), 0);
        while now() - started < ROUND.as_nanos() as u64 {
            (0..calls).for_each(|_| work());
            count += calls;
        }
        (now() - started) as f64 / f64::from(count)
    };
    let mut rounds: Vec<_> = (0..ROUNDS).map(|_| round(&mut work)).collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn sides(enctype: Enctype, n: usize) -> (ContextKeys, ContextKeys) {
    let key = vec![n as u8; enctype.key_len()];
    let side =
        |role| ContextKeys::new(enctype, ProtocolKey::AcceptorSubkey(&key), role).expect("the right length");
    (side(Role::Acceptor), side(Role::Initiator))
}

/// Returns the speed of sealing and opening in GB/s of plaintext.
fn seal_and_open(cpu: Cpu, enctype: Enctype, count: usize, len: usize, users: usize) -> (f64, f64) {
    let keys: Vec<_> = (0..users).map(|n| sides(enctype, n)).collect();
    let token_len = WRAP_HEADROOM + len + keys[0].0.wrap_trailer_len();
    let mut buffers = vec![vec![1u8; token_len]; count];
    let wrap = |buffers: &mut [Vec<u8>]| {
        let mut batch: Vec<_> = buffers
            .iter_mut()
            .enumerate()
            .map(|(n, buffer)| WrapMessage {
                keys: &keys[n % users].0,
                sequence: 1,
                confounder: [n as u8; 16],
                token: Segments::from(buffer),
            })
            .collect();
        orthrus_krb5::wrap_with(&mut Run::new(cpu), &mut batch);
    };
    let wrapping = median(|| wrap(&mut buffers));
    wrap(&mut buffers);
    let mut tokens = buffers.clone();
    let unwrapping = median(|| {
        // The copy is a small part of the work, and its cost is subtracted below.
        for (token, buffer) in tokens.iter_mut().zip(&buffers) {
            token.copy_from_slice(buffer);
        }
        let mut batch: Vec<_> = tokens
            .iter_mut()
            .enumerate()
            .map(|(n, token)| UnwrapMessage {
                keys: &keys[n % users].1,
                token: Segments::from(token),
                result: Err(TokenError::Malformed),
            })
            .collect();
        orthrus_krb5::unwrap_with(&mut Run::new(cpu), &mut batch);
        assert!(batch.iter().all(|message| message.result.is_ok()));
    });
    let copying = median(|| {
        for (token, buffer) in tokens.iter_mut().zip(&buffers) {
            token.copy_from_slice(std::hint::black_box(buffer));
        }
    });
    let rate = |nanoseconds: f64| (count * len) as f64 / nanoseconds;
    (rate(wrapping), rate(unwrapping - copying))
}

/// Returns the nanoseconds per token for signing and verifying.
fn sign_and_verify(cpu: Cpu, enctype: Enctype, count: usize, len: usize) -> (f64, f64) {
    let (ours, theirs) = sides(enctype, 1);
    let data = vec![7; len];
    let sign = || {
        let message = |sequence| MicMessage { keys: &ours, sequence, data: &data, token: MicToken::EMPTY };
        let mut batch: Vec<_> = (0..count as u64).map(message).collect();
        orthrus_krb5::get_mic_with(&mut Run::new(cpu), &mut batch);
        batch[count - 1].token
    };
    let token = sign();
    let verify = || {
        let result = Err(TokenError::Malformed);
        let message = |_| VerifyMessage { keys: &theirs, data: &data, token: &token, result };
        let mut batch: Vec<_> = (0..count).map(message).collect();
        orthrus_krb5::verify_mic_with(&mut Run::new(cpu), &mut batch);
        assert!(batch.iter().all(|message| message.result.is_ok()));
    };
    let each = |nanoseconds: f64| nanoseconds / count as f64;
    (
        each(median(|| {
            std::hint::black_box(sign());
        })),
        each(median(verify)),
    )
}
