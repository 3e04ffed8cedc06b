//! Damaged and forged calls, from a fixed seed: none is run, and none harms the context.

use crate::client::{
    CallParts, Client, ENCTYPES, INTEGRITY, NONE, PRIVACY, SERVICES, accepted, denied, encoded,
};
use crate::server::{CONNECTION, Host};
use krb5::{ContextKeys, Enctype, ProtocolKey, Role};
use orthrus_server::dispatch::Action;
use rng::SplitMix64;
use rpc::gss::GssCredential;
use rpc::{Accepted, AuthStat, CallHeader, ConnectionId, Denied, OpaqueAuth, ReplyHeader};
use xdr::Encoder;

const ETYPE: Enctype = Enctype::Aes128CtsHmacSha256_128;
/// The sealed body has 68, 72 or 80 bytes. No power of two is a multiple of it, so each bit of the
/// rotation count (RRC, which no checksum covers: RFC 4121 section 4.2.5) makes another token.
const ARGUMENTS: &[u8] = b"arguments of a call.";
const CREDENTIAL_PROBLEM: Denied = Denied::Auth(AuthStat::RPCSEC_GSS_CREDPROBLEM);

/// Returns the offset of a call's body: behind the header that the MIC covers, and the MIC.
fn body_at(client: &Client, parts: &CallParts) -> usize {
    let credential = 20 + parts.handle.len();
    4 * 6 + 8 + credential + 8 + client.keys.mic_len()
}

#[test]
fn no_bit_of_a_call_can_change_and_a_changed_header_uses_up_no_number()
// RFC 2203 sections 5.3.3.1 and 5.3.3.3
{
    for enctype in ENCTYPES {
        let mut host = Host::new();
        let mut client = Client::establish(&mut host, enctype, "alice@TEST");
        for service in SERVICES {
            let template = client.parts(service, ARGUMENTS);
            let (head, length) = (body_at(&client, &template), client.sign(&template).len());
            // Integrity and privacy cover the body; without them only the header is protected.
            let protected = if service == NONE { head } else { length };
            for bit in 0..protected * 8 {
                let parts = client.parts(service, ARGUMENTS);
                let genuine = client.sign(&parts);
                let mut forged = genuine.clone();
                forged[bit / 8] ^= 0x80 >> (bit % 8);
                let what = format!("{enctype}, {service}, bit {bit} of {}", length * 8);
                if let Some(reply) = host.answer(forged) {
                    let executed = ReplyHeader::parse(&reply).map(|reply| {
                        matches!(reply, ReplyHeader::Accepted { status: Accepted::Success, .. })
                    });
                    assert_eq!(executed, Ok(false), "{what}");
                }
                assert!(host.seen().is_empty(), "{what} reached the engine");
                // Only a genuine header uses up the number.
                if bit / 8 < head {
                    let reply = host.answer(genuine).unwrap_or_else(|| panic!("{what}: no answer"));
                    assert_eq!(client.open(&reply, parts.sequence, service), ARGUMENTS, "{what}");
                } else {
                    assert!(host.is_closed_by(genuine), "{what}: the header counts once");
                }
                host.seen();
            }
        }
    }
}

#[test]
fn a_call_signed_with_another_contexts_keys_is_denied_by_any_handle() // RFC 2203 section 5.3.3.3
{
    let mut host = Host::new();
    let mut alice = Client::establish(&mut host, ETYPE, "alice@TEST");
    // Contexts of this host share a key. A thief has different keys.
    let keys = ContextKeys::new(ETYPE, ProtocolKey::AcceptorSubkey(&[5; 16]), Role::Initiator).unwrap();
    let thief = Client { keys, handle: alice.handle.clone(), window: alice.window, sequence: 0 };
    for service in SERVICES {
        for sequence in [1, 2, 100, 1 << 30] {
            let parts = CallParts { sequence, body_sequence: sequence, ..alice.parts(service, ARGUMENTS) };
            let reply = host.answer(thief.sign(&parts)).unwrap();
            assert_eq!(denied(&reply), CREDENTIAL_PROBLEM, "{service} {sequence}");
        }
        // The thief's header in front of a body that alice has protected, and the other way round.
        let parts = alice.parts(service, ARGUMENTS);
        let (own, genuine) = (thief.sign(&parts), alice.sign(&parts));
        let at = body_at(&alice, &parts);
        let mixed = [&own[..at], &genuine[at..]].concat();
        assert_eq!(denied(&host.answer(mixed).unwrap()), CREDENTIAL_PROBLEM, "{service}");
        if service != NONE {
            let mixed = [&genuine[..at], &own[at..]].concat();
            assert_eq!(accepted(&host.answer(mixed).unwrap()).1, Accepted::GarbageArgs, "{service}");
        }
    }
    let destroy = thief.sign(&alice.destroy());
    assert_eq!(denied(&host.answer(destroy).unwrap()), CREDENTIAL_PROBLEM);
    assert!(host.seen().is_empty());
    assert_eq!(host.count("contexts_destroyed"), 0);
    alice.exchange(&mut host, PRIVACY, b"here");
}

#[test]
fn thousands_of_guessed_handles_find_no_context() // RFC 2203 section 5.3.3.3
{
    let mut host = Host::new();
    let mut client = Client::establish(&mut host, ETYPE, "alice@TEST");
    let neighbour = Client::establish(&mut host, ETYPE, "bob@TEST");
    let genuine = client.handle.clone();
    let mut guesses: Vec<Vec<u8>> = Vec::new();
    // Close to a known one: any bit, numbers before and after it, parts of it, parts of two.
    for bit in 0..genuine.len() * 8 {
        let mut near = genuine.clone();
        near[bit / 8] ^= 0x80 >> (bit % 8);
        guesses.push(near);
    }
    let number = u128::from_be_bytes(genuine[..].try_into().unwrap());
    for step in 1..=500 {
        guesses.push(number.wrapping_add(step).to_be_bytes().to_vec());
        guesses.push(number.wrapping_sub(step).to_be_bytes().to_vec());
    }
    for length in 0..genuine.len() {
        guesses.push(genuine[..length].to_vec());
        guesses.push(genuine[genuine.len() - length..].to_vec());
        guesses.push([&genuine[..], &genuine[..=length]].concat());
        guesses.push([&genuine[..length], &neighbour.handle[length..]].concat());
    }
    guesses.retain(|guess| *guess != genuine && *guess != neighbour.handle);
    let mut random = SplitMix64(0x6861_6e64_6c65_7331);
    guesses.extend((0..3000).map(|index| random.bytes(if index % 8 == 0 { index / 8 % 65 } else { 16 })));
    let count = guesses.len();
    for (index, handle) in guesses.into_iter().enumerate() {
        let service = SERVICES[index % 3];
        let parts = CallParts { handle, ..client.parts(service, ARGUMENTS) };
        let reply = host.answer(client.sign(&parts)).unwrap();
        assert_eq!(denied(&reply), CREDENTIAL_PROBLEM, "{:02x?}", parts.handle);
    }
    assert!(count > 4000 && host.seen().is_empty(), "{count} guesses");
    client.sequence = 0;
    client.exchange(&mut host, PRIVACY, b"no guess used up a number");
}

/// Makes a record with a genuine header and any body.
fn with_body(client: &Client, parts: &CallParts, body: &[u8]) -> Vec<u8> {
    let credential = encoded(&GssCredential {
        procedure: parts.procedure,
        sequence: parts.sequence,
        service: parts.service,
        handle: &parts.handle,
    });
    let mut record = Encoder::new();
    CallHeader::encode_signed(&mut record, parts.sequence, parts.target, &OpaqueAuth::gss(&credential));
    let mic = client.keys.mic(77, record.as_slice());
    xdr::Encode::encode(&OpaqueAuth::gss(&mic), &mut record);
    record.raw(body);
    record.into_vec()
}

fn opaque(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = Encoder::new();
    encoder.opaque(bytes);
    encoder.into_vec()
}

/// Makes an invalid body for a call with privacy, in one of several ways.
fn damaged(client: &Client, parts: &CallParts, how: usize, random: &mut SplitMix64) -> Vec<u8> {
    let content = [&parts.sequence.to_be_bytes()[..], &parts.arguments].concat();
    let mut token = client.wrap(&content);
    let body_length = token.len() - 16;
    match how {
        // The clear header: flags, filler, EC and RRC, sequence number.
        0 => token[2] ^= 1 << random.index(3),
        1 => token[3] = token[3].wrapping_add(1 + random.draw().to_be_bytes()[0] % 255),
        2 => token[4..6].copy_from_slice(&(1 + random.index(0xffff) as u16).to_be_bytes()),
        // A rotation by zero bytes is the same token.
        3 => {
            let rotation = 1 + random.index(body_length - 1);
            token[6..8].copy_from_slice(&(rotation as u16).to_be_bytes());
        }
        4 => token[8 + random.index(8)] ^= 1 << random.index(8),
        5 => token[..2].copy_from_slice(&[[4, 4], [5, 5], [0, 0], [0x60, 0x82]][random.index(4)]),
        // The sealed part.
        6 => {
            let at = 16 + random.index(body_length);
            token[at] ^= 1 << random.index(8);
        }
        7 => token.truncate(random.index(token.len())),
        8 => {
            let more = 1 + random.index(64);
            token.extend(random.bytes(more));
        }
        9 => {
            let (from, to) = (16 + random.index(body_length - 16), 16 + random.index(body_length - 16));
            let block = token[from..from + 16].to_vec();
            token[to..to + 16].copy_from_slice(&block);
            // Moving a block onto itself changes nothing.
            token[to] ^= u8::from(from == to);
        }
        10 => {
            let length = random.index(200);
            token = random.bytes(length);
        }
        // Genuine tokens of other data.
        11 => token = client.keys.mic(78, &content).to_vec(),
        12 => token = client.wrap(&parts.arguments),
        13 => token = client.wrap(&content[..random.index(4)]),
        14 => token = client.wrap(&[&(parts.sequence ^ 1).to_be_bytes()[..], &parts.arguments].concat()),
        15 => {
            let keys =
                ContextKeys::new(ETYPE, ProtocolKey::AcceptorSubkey(&[8; 16]), Role::Initiator).unwrap();
            let (handle, window) = (parts.handle.clone(), client.window);
            token = Client { keys, handle, window, sequence: 0 }.wrap(&content);
        }
        // Frames other than that of a token.
        16 => {
            let mut frame = opaque(&token);
            let lie = [0, 1, 15, 16, token.len() - 4, token.len() + 4, 1 << 20, u32::MAX as usize];
            frame[..4].copy_from_slice(&(lie[random.index(lie.len())] as u32).to_be_bytes());
            return frame;
        }
        17 => return parts.arguments.clone(),
        18 => return [opaque(&content), opaque(&client.keys.mic(78, &content))].concat(),
        _ => {
            let frame = opaque(&token);
            return frame[..random.index(frame.len())].to_vec();
        }
    }
    opaque(&token)
}

#[test]
fn damaged_bodies_are_garbage_and_the_genuine_ones_of_the_same_batch_are_not()
// RFC 2203 section 5.3.3.4.3
{
    const KINDS: usize = 20;
    let mut host = Host::new();
    let mut client = Client::establish(&mut host, ETYPE, "alice@TEST");
    let mut random = SplitMix64(0x7772_6170_7365_6564);
    for tick in 0..100 {
        let mut requests = Vec::new();
        let mut sent = Vec::new();
        for index in 0..32 {
            let length = 4 * random.index(if index % 7 == 0 { 600 } else { 20 }) + 16;
            let parts = client.parts(PRIVACY, &random.bytes(length));
            // About one in four is genuine, at positions that differ from tick to tick.
            let how = (random.index(4) != 0).then(|| random.index(KINDS));
            requests.push((
                ConnectionId(index),
                match how {
                    Some(how) => {
                        let body = damaged(&client, &parts, how, &mut random);
                        with_body(&client, &parts, &body)
                    }
                    None => client.sign(&parts),
                },
            ));
            sent.push((parts, how));
        }
        let replies = host.tick(requests);
        assert_eq!(replies.len(), sent.len());
        for (connection, action) in replies {
            let (parts, how) = &sent[usize::try_from(connection.0).unwrap()];
            let Action::Send(reply) = action else { panic!("tick {tick}, {how:?}: closed") };
            match how {
                None => {
                    assert_eq!(client.open(&reply[4..], parts.sequence, PRIVACY), parts.arguments);
                }
                Some(how) => {
                    let (verifier, status, results) = accepted(&reply[4..]);
                    assert_eq!(
                        (status, results.len()),
                        (Accepted::GarbageArgs, 0),
                        "tick {tick}, kind {how}"
                    );
                    client.check_verifier(&verifier, parts.sequence);
                }
            }
        }
        let genuine = sent.iter().filter(|(_, how)| how.is_none()).map(|(parts, _)| &parts.arguments);
        let seen = host.seen();
        assert!(seen.iter().map(|seen| &seen.args).eq(genuine), "tick {tick}");
    }
}

#[test]
fn a_body_with_integrity_is_its_own_calls_and_whole() // RFC 2203 section 5.3.3.4.2
{
    let mut host = Host::new();
    let mut client = Client::establish(&mut host, ETYPE, "alice@TEST");
    let mut random = SplitMix64(0x696e_7465_6772_6974);
    for round in 0..600 {
        let length = 4 * random.index(40) + 8;
        let parts = client.parts(INTEGRITY, &random.bytes(length));
        let content = [&parts.sequence.to_be_bytes()[..], &parts.arguments].concat();
        let mic = client.keys.mic(78, &content);
        let body = match round % 6 {
            // The checksum of the arguments alone, content that is cut or longer.
            0 => [opaque(&content), opaque(&client.keys.mic(78, &content[4..]))].concat(),
            1 => [opaque(&content[..content.len() - 4]), opaque(&mic)].concat(),
            2 => [opaque(&[&content[..], &[0; 4]].concat()), opaque(&mic)].concat(),
            3 => [opaque(&content), opaque(&mic[..random.index(mic.len())])].concat(),
            4 => [opaque(&content), opaque(&client.wrap(&content))].concat(),
            _ => [opaque(&mic), opaque(&content)].concat(),
        };
        let reply = host.answer(with_body(&client, &parts, &body)).unwrap();
        assert_eq!(accepted(&reply).1, Accepted::GarbageArgs, "round {round}");
    }
    assert!(host.seen().is_empty());
    client.exchange(&mut host, INTEGRITY, b"next");
    assert_eq!(host.tick(vec![(CONNECTION, client.call(NONE, b"last"))]).len(), 1);
}
