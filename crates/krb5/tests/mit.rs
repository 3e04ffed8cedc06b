//! Tokens of MIT krb5, in both directions, on every path of this processor. `vectors/README.md`
//! describes their origin.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests may read files")]

use orthrus_krb5::{
    ContextKeys, Cpu, Enctype, MicMessage, MicToken, ProtocolKey, Role, Run, Segments, TokenError,
    UnwrapMessage, Unwrapped, VerifyMessage, WRAP_HEADROOM, WrapMessage,
};
use serde_json::Value;

const TOKENS_PER_ENCTYPE: usize = 54;

struct MitToken {
    sender: Role,
    kind: String,
    message: Vec<u8>,
    bytes: Vec<u8>,
}

struct Vectors {
    key: Vec<u8>,
    has_acceptor_subkey: bool,
    tokens: Vec<MitToken>,
}

impl Vectors {
    fn keys(&self, enctype: Enctype, role: Role) -> ContextKeys {
        let key = if self.has_acceptor_subkey {
            ProtocolKey::AcceptorSubkey(&self.key)
        } else {
            ProtocolKey::InitiatorKey(&self.key)
        };
        ContextKeys::new(enctype, key, role).expect("a key of the right length")
    }
}

fn unhex(value: &Value) -> Vec<u8> {
    let text = value.as_str().expect("a string");
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
}

fn load(enctype: Enctype) -> Vectors {
    let path = format!("{}/tests/vectors/mit-1.20.1-{enctype}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect(&path);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let lucid = lines.iter().find(|line| line["lucid"] == "acceptor").expect("the exported context");
    assert_eq!(lucid["acceptor_enctype"], enctype.etype());
    let tokens = lines.iter().filter(|line| line["kind"].is_string()).map(|line| MitToken {
        sender: if line["dir"] == "acceptor" { Role::Acceptor } else { Role::Initiator },
        kind: line["kind"].as_str().expect("a string").to_owned(),
        message: unhex(&line["msg"]),
        bytes: unhex(&line["token"]),
    });
    let tokens: Vec<_> = tokens.collect();
    assert_eq!(tokens.len(), TOKENS_PER_ENCTYPE);
    let has_acceptor_subkey = lucid["have_acceptor_subkey"] == 1;
    Vectors { key: unhex(&lucid["acceptor_subkey"]), has_acceptor_subkey, tokens }
}

fn peer_of(role: Role) -> Role {
    if role == Role::Acceptor { Role::Initiator } else { Role::Acceptor }
}

fn sequence_of(token: &[u8]) -> u64 {
    u64::from_be_bytes(token[8..16].try_into().expect("eight bytes"))
}

/// Opens a token on every path of this processor. Returns the range of the plaintext, and all
/// bytes.
fn open(keys: &ContextKeys, token: &[u8]) -> (Unwrapped, Vec<u8>) {
    let opened = Cpu::available().map(|cpu| {
        let mut bytes = token.to_vec();
        let result = Err(TokenError::Malformed);
        let mut batch = [UnwrapMessage { keys, token: Segments::from(&mut bytes), result }];
        orthrus_krb5::unwrap_with(&mut Run::new(cpu), &mut batch);
        let [UnwrapMessage { result, .. }] = batch;
        (result.expect("a token of MIT's"), bytes)
    });
    let same = |one: (Unwrapped, Vec<u8>), other: (Unwrapped, Vec<u8>)| {
        assert!(one.0 == other.0 && one.1[one.0.plain.clone()] == other.1[one.0.plain.clone()]);
        other
    };
    opened.reduce(same).expect("the portable path")
}

/// Checks a signature alone, and in a batch on every path.
fn verify(keys: &ContextKeys, data: &[u8], token: &[u8], sequence: u64) {
    assert_eq!(keys.verify(data, token), Ok(sequence));
    for cpu in Cpu::available() {
        let mut batch = [VerifyMessage { keys, data, token, result: Err(TokenError::Malformed) }];
        orthrus_krb5::verify_mic_with(&mut Run::new(cpu), &mut batch);
        assert_eq!(batch[0].result, Ok(sequence), "{cpu}");
    }
}

#[test]
fn every_token_of_mit_is_accepted_and_gives_its_message() {
    // RFC 4121 section 4.2
    for enctype in Enctype::ALL {
        let vectors = load(enctype);
        for token in &vectors.tokens {
            let keys = vectors.keys(enctype, peer_of(token.sender));
            let sequence = sequence_of(&token.bytes);
            if token.kind == "mic" {
                verify(&keys, &token.message, &token.bytes, sequence);
                continue;
            }
            let (opened, bytes) = open(&keys, &token.bytes);
            assert_eq!(bytes[opened.plain.clone()], token.message);
            assert_eq!(opened.sequence, sequence);
            assert_eq!(opened.sealed, token.kind == "wrap-sealed");
        }
    }
}

#[test]
fn our_mic_tokens_are_those_of_mit_bit_by_bit() {
    // RFC 4121 section 4.2.6.1
    for enctype in Enctype::ALL {
        let vectors = load(enctype);
        for token in vectors.tokens.iter().filter(|token| token.kind == "mic") {
            let keys = vectors.keys(enctype, token.sender);
            let sequence = sequence_of(&token.bytes);
            let ours = keys.mic(sequence, &token.message);
            assert_eq!(ours.as_ref(), token.bytes);
            for cpu in Cpu::available() {
                let mut batch =
                    [MicMessage { keys: &keys, sequence, data: &token.message, token: MicToken::EMPTY }];
                orthrus_krb5::get_mic_with(&mut Run::new(cpu), &mut batch);
                assert_eq!(batch[0].token, ours, "{cpu}");
            }
            assert_eq!(ours.len(), keys.mic_len());
        }
    }
}

#[test]
fn our_sealed_tokens_are_those_of_mit_given_its_confounder() {
    // RFC 4121 section 4.2.6.2
    for enctype in Enctype::ALL {
        let vectors = load(enctype);
        for token in vectors.tokens.iter().filter(|token| token.kind == "wrap-sealed") {
            let (_, bytes) = open(&vectors.keys(enctype, peer_of(token.sender)), &token.bytes);
            let confounder = bytes[16..32].try_into().expect("sixteen bytes");

            let keys = vectors.keys(enctype, token.sender);
            let sequence = sequence_of(&token.bytes);
            for cpu in Cpu::available() {
                let mut buffer = vec![0; WRAP_HEADROOM];
                buffer.extend_from_slice(&token.message);
                buffer.resize(buffer.len() + keys.wrap_trailer_len(), 0);
                let sealed = Segments::from(&mut buffer);
                let mut batch = [WrapMessage { keys: &keys, sequence, confounder, token: sealed }];
                orthrus_krb5::wrap_with(&mut Run::new(cpu), &mut batch);
                assert_eq!(buffer, token.bytes, "{cpu}");
            }
        }
    }
}

#[test]
fn the_keys_of_one_side_refuse_its_own_tokens() {
    // RFC 4121 section 4.2.2, SentByAcceptor
    for enctype in Enctype::ALL {
        let vectors = load(enctype);
        for token in &vectors.tokens {
            let keys = vectors.keys(enctype, token.sender);
            let result = if token.kind == "mic" {
                keys.verify(&token.message, &token.bytes).map(|_| ())
            } else {
                let mut bytes = token.bytes.clone();
                let result = Ok(Unwrapped { plain: 0..0, sequence: 0, sealed: false });
                let mut batch = [UnwrapMessage { keys: &keys, token: Segments::from(&mut bytes), result }];
                orthrus_krb5::unwrap(&mut batch);
                batch[0].result.clone().map(|_| ())
            };
            assert_eq!(result, Err(TokenError::Reflected));
        }
    }
}
