//! Tests tokens of the `krb5` crate against MIT's library: one side of each context stays in the
//! library, the other uses our keys.
//!
//! For each enctype, each role and each instruction set of this processor: messages of random
//! length from 0 to 1 MiB, sealed, only signed, and as MIC, in both directions, ours in batches.
//! The contexts are of a temporary realm with a real KDC. Without MIT's KDC a test prints this and
//! is skipped.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod library;

use krb5::{
    Cpu, MicMessage, MicToken, Run, Segments, TokenError, UnwrapMessage, VerifyMessage, WRAP_HEADROOM,
    WrapMessage,
};
use library::MitContext;
use orthrus_gss::{Acceptor, Credential, Established, Initiator, Step};
use realm::{Enctypes, Realm, RealmEnctype, RealmOptions, in_realm};
use rng::SplitMix64;

const TARGET: &str = "nfs@localhost";
const LENGTH_MAX: usize = 1 << 20;

/// Returns all short lengths, the longest, and random ones of every order of magnitude.
fn lengths(random: &mut SplitMix64) -> Vec<usize> {
    let mut lengths: Vec<_> = (0..60)
        .map(|_| {
            let end = (LENGTH_MAX + 1) >> random.below(14);
            random.index(end)
        })
        .collect();
    lengths.extend(0..=66);
    lengths.push(LENGTH_MAX);
    lengths
}

fn with_enctype(test: &str, enctype: RealmEnctype) {
    let options = RealmOptions { enctypes: Enctypes::only(enctype), ..RealmOptions::default() };
    in_realm(test, &options, |realm| {
        realm.kinit("alice", &realm.dir().join("ccache")).expect("a ticket");
        let (ours, theirs) = accept_from_mit(realm);
        assert_eq!(ours.enctype, enctype.number());
        exchange(&ours, theirs);
        let (ours, theirs) = initiate_to_mit(realm);
        assert_eq!(ours.enctype, enctype.number());
        exchange(&ours, theirs);
    });
}

fn accept_from_mit(realm: &Realm) -> (Established, MitContext) {
    let acceptor = Acceptor::from_keytab(&realm.server_keytab()).expect("the server's keytab");
    let (mut theirs, token) = MitContext::initiate(TARGET);
    let ours = acceptor.accept(&token).expect("a token of alice");
    theirs.finish(TARGET, &ours.token);
    (ours, theirs)
}

fn initiate_to_mit(realm: &Realm) -> (Established, MitContext) {
    let mut initiator = Initiator::new(TARGET, &Credential::Default).expect("alice's ticket");
    let Step::Send(token) = initiator.step(None).expect("a first token") else { panic!("done too early") };
    let (theirs, reply) = MitContext::accept(&realm.server_keytab(), &token);
    let Step::Done(ours) = initiator.step(Some(&reply)).expect("the reply") else { panic!("not done") };
    (*ours, theirs)
}

/// Sends messages in both directions, ours in batches.
fn exchange(ours: &Established, mut theirs: MitContext) {
    let mut numbers = SplitMix64(ours.enctype as u64);
    let mut sequence = ours.send_sequence;
    let mut lengths = &lengths(&mut numbers)[..];
    let mut batch_len = 0;
    while !lengths.is_empty() {
        batch_len = batch_len % 20 + 1;
        let (now, later) = lengths.split_at(batch_len.min(lengths.len()));
        lengths = later;
        let messages: Vec<_> = now.iter().map(|&len| numbers.bytes(len)).collect();
        let sealed: Vec<_> =
            messages.iter().enumerate().map(|(n, message)| theirs.wrap(message, is_sealed(n))).collect();
        let signed: Vec<_> = messages.iter().map(|message| theirs.mic(message)).collect();
        for cpu in Cpu::available() {
            we_seal(ours, &mut theirs, cpu, &messages, &mut numbers, sequence);
            sequence += messages.len() as u64;
            we_sign(ours, &mut theirs, cpu, &messages, sequence);
            sequence += messages.len() as u64;
            we_open(ours, cpu, &messages, &sealed);
            we_verify(ours, cpu, &messages, &signed);
        }
    }
}

/// Returns false for every third wrap token of the library, which is only signed.
fn is_sealed(n: usize) -> bool {
    n % 3 != 2
}

fn we_seal(
    ours: &Established,
    theirs: &mut MitContext,
    cpu: Cpu,
    messages: &[Vec<u8>],
    numbers: &mut SplitMix64,
    first: u64,
) {
    let trailer = vec![0; ours.keys.wrap_trailer_len()];
    let mut buffers: Vec<_> =
        messages.iter().map(|message| [&[0; WRAP_HEADROOM][..], message, &trailer].concat()).collect();
    let mut batch: Vec<_> = buffers
        .iter_mut()
        .zip(first..)
        .map(|(buffer, sequence)| {
            let confounder = numbers.bytes(16).try_into().expect("sixteen bytes");
            WrapMessage { keys: &ours.keys, sequence, confounder, token: Segments::from(buffer) }
        })
        .collect();
    krb5::wrap_with(&mut Run::new(cpu), &mut batch);
    for (token, message) in buffers.iter().zip(messages) {
        assert!(theirs.unwrap(token) == *message, "{cpu}: {} bytes", message.len());
    }
}

fn we_sign(ours: &Established, theirs: &mut MitContext, cpu: Cpu, messages: &[Vec<u8>], first: u64) {
    let mut batch: Vec<_> = messages
        .iter()
        .zip(first..)
        .map(|(data, sequence)| MicMessage { keys: &ours.keys, sequence, data, token: MicToken::EMPTY })
        .collect();
    krb5::get_mic_with(&mut Run::new(cpu), &mut batch);
    for (signed, sequence) in batch.iter().zip(first..) {
        theirs.verify(signed.data, &signed.token);
        assert_eq!(signed.token, ours.keys.mic(sequence, signed.data), "{cpu}: alone and in a batch");
    }
}

fn we_open(ours: &Established, cpu: Cpu, messages: &[Vec<u8>], tokens: &[Vec<u8>]) {
    let mut tokens = tokens.to_vec();
    let mut batch: Vec<_> = tokens
        .iter_mut()
        .map(Segments::from)
        .map(|token| UnwrapMessage { keys: &ours.keys, token, result: Err(TokenError::Malformed) })
        .collect();
    krb5::unwrap_with(&mut Run::new(cpu), &mut batch);
    let opened: Vec<_> = batch.into_iter().map(|token| token.result.expect("a token of MIT's")).collect();
    for (n, (opened, message)) in opened.into_iter().zip(messages).enumerate() {
        assert_eq!(opened.sealed, is_sealed(n));
        assert!(tokens[n][opened.plain] == **message, "{cpu}: {} bytes", message.len());
    }
}

fn we_verify(ours: &Established, cpu: Cpu, messages: &[Vec<u8>], tokens: &[Vec<u8>]) {
    let mut batch: Vec<_> = messages
        .iter()
        .zip(tokens)
        .map(|(data, token)| VerifyMessage {
            keys: &ours.keys,
            data,
            token,
            result: Err(TokenError::Malformed),
        })
        .collect();
    krb5::verify_mic_with(&mut Run::new(cpu), &mut batch);
    for verified in &batch {
        let sequence = verified.result.expect("MIT's signature");
        assert_eq!(ours.keys.verify(verified.data, verified.token), Ok(sequence), "{cpu}");
    }
}

#[test]
fn aes128_cts_hmac_sha1_96_agrees_with_mit() {
    // RFC 3962, RFC 4121 section 4.2
    with_enctype("aes128_cts_hmac_sha1_96_agrees_with_mit", RealmEnctype::Aes128Sha1);
}

#[test]
fn aes256_cts_hmac_sha1_96_agrees_with_mit() {
    // RFC 3962, RFC 4121 section 4.2
    with_enctype("aes256_cts_hmac_sha1_96_agrees_with_mit", RealmEnctype::Aes256Sha1);
}

#[test]
fn aes128_cts_hmac_sha256_128_agrees_with_mit() {
    // RFC 8009, RFC 4121 section 4.2
    with_enctype("aes128_cts_hmac_sha256_128_agrees_with_mit", RealmEnctype::Aes128Sha2);
}

#[test]
fn aes256_cts_hmac_sha384_192_agrees_with_mit() {
    // RFC 8009, RFC 4121 section 4.2
    with_enctype("aes256_cts_hmac_sha384_192_agrees_with_mit", RealmEnctype::Aes256Sha2);
}
