//! The path of a single message in one piece. It uses no lanes: for a short message they cost more
//! than hash and cipher do.

use std::iter::once;

use zeroize::Zeroize;

use crate::{
    Cpu, Segments,
    cipher::{BLOCK, CIPHER_STATE, CbcLane, UNIT},
    cts,
    hash::Hash,
    keys::SuiteKeys,
    suite::{FusedLane, Suite},
    token::{HEADER_LEN, same},
};

/// The longest token of RFC 3962 on this path, in bytes. In longer tokens the cost of the lanes is
/// a small part.
const BYTES_MAX: usize = 16 << 10;
/// The longest token of RFC 8009 on this path, in bytes. Here its hash runs after its cipher.
const BYTES_APART_MAX: usize = 512;

/// Seals a token that is short and complete except for the computed parts. Returns whether it did.
pub(crate) fn seal_if_short<S: Suite>(cpu: Cpu, keys: &SuiteKeys<S>, token: &mut Segments<'_>) -> bool {
    let bytes = bytes::<S>(token);
    let short = bytes.is_some();
    if let Some(bytes) = bytes {
        seal(cpu, keys, bytes);
    }
    short
}

/// Opens a sealed token with valid lengths if it is short. Returns whether its checksum is right,
/// or `None` if the token is not short.
pub(crate) fn open_if_short<S: Suite>(
    cpu: Cpu,
    keys: &SuiteKeys<S>,
    token: &mut Segments<'_>,
) -> Option<bool> {
    bytes::<S>(token).map(|bytes| open(cpu, keys, bytes))
}

/// Returns the bytes of a token if it is short and in one piece.
fn bytes<'b, S: Suite>(token: &'b mut Segments<'_>) -> Option<&'b mut [u8]> {
    let most = if S::ENCTYPE.encrypts_then_macs() { BYTES_APART_MAX } else { BYTES_MAX };
    match token {
        Segments::One(bytes) if bytes.len() <= most => Some(bytes),
        _ => None,
    }
}

/// Splits a token behind its header into the encrypted part and the checksum.
fn split<S: Suite>(token: &mut [u8]) -> (&mut [u8], &mut [u8]) {
    let mac_at = token.len() - S::ENCTYPE.mac_len();
    token[HEADER_LEN..].split_at_mut(mac_at - HEADER_LEN)
}

fn seal<S: Suite>(cpu: Cpu, keys: &SuiteKeys<S>, token: &mut [u8]) {
    let (body, mac) = split::<S>(token);
    let mut chain = [0; BLOCK];
    let digest = if S::ENCTYPE.encrypts_then_macs() {
        encrypt::<S>(cpu, keys, &mut chain, body, 0);
        keys.seal_mac.mac(&[&CIPHER_STATE, body])
    } else {
        let mut state = keys.seal_mac.inner;
        let units = if S::fuses(cpu, 1) { body.len() / UNIT } else { 0 };
        if units > 0 {
            let (chain, state) = (&mut chain, &mut state);
            let lane = FusedLane { keys: &keys.seal.rounds, chain, state, data: &mut *body };
            S::seal(cpu, once(lane), units);
        }
        let mut hmac = keys.seal_mac.go_on(state, (S::Hash::BLOCK + units * UNIT) as u64);
        state.zeroize();
        hmac.update(&body[units * UNIT..]);
        encrypt::<S>(cpu, keys, &mut chain, body, units * UNIT);
        hmac.finish()
    };
    mac.copy_from_slice(&digest[..mac.len()]);
}

/// Encrypts the bytes behind the first `done` ones, whose last block of ciphertext is `chain`.
fn encrypt<S: Suite>(cpu: Cpu, keys: &SuiteKeys<S>, chain: &mut [u8; BLOCK], body: &mut [u8], done: usize) {
    let (key, rest) = (&keys.seal, &mut body[done..]);
    let (blocks, part) = (rest.len() / BLOCK, rest.len() % BLOCK);
    if blocks > 0 {
        S::encrypt(cpu, once(CbcLane { key, chain: &mut *chain, data: &mut *rest }), blocks);
    }
    if part > 0 {
        let mut last = [0; BLOCK];
        last[..part].copy_from_slice(&rest[blocks * BLOCK..]);
        S::encrypt(cpu, once(CbcLane { key, chain: &mut *chain, data: &mut last }), 1);
    }
    if let Some((before, last)) = cts::last_two(&(0..body.len())) {
        let mut stolen = [0; BLOCK];
        stolen.copy_from_slice(&body[before..last]);
        body[before..last].copy_from_slice(chain);
        let part = body.len() - last;
        body[last..].copy_from_slice(&stolen[..part]);
    }
}

fn open<S: Suite>(cpu: Cpu, keys: &SuiteKeys<S>, token: &mut [u8]) -> bool {
    let (body, mac) = split::<S>(token);
    // RFC 8009 section 5: verify the checksum before decrypting. RFC 3962 section 6: the checksum
    // covers the plaintext.
    if S::ENCTYPE.encrypts_then_macs() {
        let genuine = same(&keys.open_mac.mac(&[&CIPHER_STATE, body])[..mac.len()], mac);
        if genuine {
            decrypt::<S>(cpu, keys, body);
        }
        genuine
    } else {
        decrypt::<S>(cpu, keys, body);
        same(&keys.open_mac.mac(&[body])[..mac.len()], mac)
    }
}

fn decrypt<S: Suite>(cpu: Cpu, keys: &SuiteKeys<S>, body: &mut [u8]) {
    let key = &keys.open;
    let mut chain = [0; BLOCK];
    let Some((before, last)) = cts::last_two(&(0..body.len())) else {
        // One block: the lengths have been checked.
        return S::decrypt(cpu, key, &mut chain, body.as_chunks_mut().0);
    };
    let (whole, end) = body.split_at_mut(before);
    let (stolen, front) = end.split_at_mut(last - before);
    let mut block = [0; BLOCK];
    block.copy_from_slice(stolen);
    // This runs first, so that it does not wait for the chain.
    let filled = cts::block_of::<S>(cpu, key, block);
    S::decrypt(cpu, key, &mut chain, whole.as_chunks_mut().0);
    stolen.copy_from_slice(&cts::swap_back::<S>(cpu, key, filled, chain, front));
}
