//! Opening wrap tokens and verifying MIC tokens (RFC 4121 section 4.2), with all enctypes and in
//! both roles.
//!
//! The first byte selects the context, the second the use of the remaining bytes: as the token
//! itself, or as a recipe to damage a genuine token, because a fuzzer does not find a checksum.
#![no_main]

use libfuzzer_sys::fuzz_target;
use orthrus_krb5::{
    ContextKeys, Enctype, ProtocolKey, Role, TokenError, UnwrapMessage, Unwrapped, WRAP_HEADROOM, WrapMessage,
};

fuzz_target!(|data: &[u8]| {
    let [context, action, rest @ ..] = data else { return };
    let enctype = Enctype::ALL[usize::from(context & 3)];
    let key = vec![7; enctype.key_len()];
    let key = if context & 4 != 0 { ProtocolKey::AcceptorSubkey(&key) } else { ProtocolKey::InitiatorKey(&key) };
    let side = |role| ContextKeys::new(enctype, key, role).expect("the right length");
    let (ours, peer) = if context & 8 != 0 {
        (side(Role::Acceptor), side(Role::Initiator))
    } else {
        (side(Role::Initiator), side(Role::Acceptor))
    };
    match action & 3 {
        0 => as_it_is(&ours, rest),
        1 => damaged_mic(&ours, &peer, rest),
        _ => damaged_wrap(&ours, &peer, rest),
    }
});

fn open(keys: &ContextKeys, token: &mut [u8]) -> Result<Unwrapped, TokenError> {
    let len = token.len();
    let mut batch = [UnwrapMessage { keys, token: token.into(), result: Err(TokenError::Malformed) }];
    orthrus_krb5::unwrap(&mut batch);
    let [UnwrapMessage { result, .. }] = batch;
    assert!(
        result.as_ref().is_ok_and(|opened| opened.plain.start <= opened.plain.end && opened.plain.end <= len)
            || result.is_err()
    );
    result
}

fn as_it_is(ours: &ContextKeys, bytes: &[u8]) {
    let _ = open(ours, &mut bytes.to_vec());
    let (token, data) = bytes.split_at(bytes.len().min(ours.mic_len()));
    let _ = ours.verify(data, token);
    let _ = ours.verify(token, data);
}

/// Flips, cuts or rotates the token; returns whether it is still the peer's.
fn damage(token: &mut Vec<u8>, recipe: &[u8]) -> bool {
    let genuine = token.clone();
    for step in recipe.chunks_exact(3).take(16) {
        let [at, how, value] = [step[0], step[1], step[2]];
        let at = usize::from(at) % token.len().max(1);
        match how & 3 {
            0 => token.truncate(at),
            1 => token.extend(std::iter::repeat_n(value, at)),
            _ => token.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= value),
        }
    }
    *token == genuine
}

fn damaged_mic(ours: &ContextKeys, peer: &ContextKeys, recipe: &[u8]) {
    let mut token = peer.mic(3, recipe).to_vec();
    let intact = damage(&mut token, recipe);
    assert_eq!(ours.verify(recipe, &token).is_ok(), intact);
}

fn damaged_wrap(ours: &ContextKeys, peer: &ContextKeys, recipe: &[u8]) {
    let mut buffer = vec![0; WRAP_HEADROOM];
    buffer.extend_from_slice(recipe);
    buffer.resize(buffer.len() + peer.wrap_trailer_len(), 0);
    let token = (&mut buffer).into();
    orthrus_krb5::wrap(&mut [WrapMessage { keys: peer, sequence: 3, confounder: [5; 16], token }]);
    let rotation = buffer[6..8].to_vec();
    let intact = damage(&mut buffer, recipe);
    let rotated = buffer.get(6..8) != Some(&rotation[..]);
    match open(ours, &mut buffer) {
        Ok(opened) => assert!((intact || rotated) && buffer[opened.plain] == *recipe),
        Err(_) => assert!(!intact),
    }
}
