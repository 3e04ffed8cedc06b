//! Contexts between our initiator and our acceptor, in temporary realms.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use orthrus_gss::{Acceptor, Credential, Established, GssError, Initiator, Step};
use realm::{Enctypes, Realm, RealmEnctype, RealmOptions, in_realm};
use rng::SplitMix64;

fn options(enctypes: Enctypes) -> RealmOptions {
    RealmOptions { enctypes, ..RealmOptions::default() }
}

fn ticket(realm: &Realm, user: &str) -> Credential {
    let ccache = realm.dir().join("ccache");
    realm.kinit(user, &ccache).unwrap();
    Credential::Ccache(format!("FILE:{}", ccache.display()))
}

fn first_token(target: &str, credential: &Credential) -> Result<(Initiator, Vec<u8>), GssError> {
    let mut initiator = Initiator::new(target, credential)?;
    match initiator.step(None)? {
        Step::Send(token) => Ok((initiator, token)),
        Step::Done(_) => panic!("a context without the server's answer"),
    }
}

fn establish(
    acceptor: &Acceptor,
    target: &str,
    credential: &Credential,
) -> Result<(Established, Established), GssError> {
    let (mut initiator, token) = first_token(target, credential)?;
    let accepted = acceptor.accept(&token)?;
    match initiator.step(Some(&accepted.token))? {
        Step::Done(initiated) => Ok((*initiated, accepted)),
        Step::Send(_) => panic!("a third token"),
    }
}

fn talk(from: &Established, to: &Established) {
    let mic = from.keys.mic(from.send_sequence, b"call header");
    assert_eq!(to.keys.verify(b"call header", mic.as_ref()), Ok(from.send_sequence));
    assert!(to.keys.verify(b"Call header", mic.as_ref()).is_err());
    assert!(
        from.keys.verify(b"call header", mic.as_ref()).is_err(),
        "a reflected token (RFC 4121 section 4.2.2)"
    );
}

fn established_with(realm: &Realm, enctype: RealmEnctype) {
    let acceptor = Acceptor::from_keytab(&realm.server_keytab()).unwrap();
    let (initiated, accepted) = establish(&acceptor, "nfs@localhost", &ticket(realm, "alice")).unwrap();
    assert_eq!(accepted.principal, "alice@ORTHRUS.TEST");
    assert_eq!(initiated.principal, "nfs/localhost@ORTHRUS.TEST");
    assert_eq!((accepted.enctype, initiated.enctype), (enctype.number(), enctype.number()));
    assert_eq!(accepted.keys.enctype() as i32, enctype.number());
    for side in [&initiated, &accepted] {
        let hours = side.lifetime.as_secs_f64() / 3600.0;
        assert!((9.9..10.2).contains(&hours), "{:?}", side.lifetime);
    }
    talk(&initiated, &accepted);
    talk(&accepted, &initiated);
}

#[test]
fn both_sides_agree_on_keys_with_enctype_17() {
    let e = RealmEnctype::Aes128Sha1;
    let name = "both_sides_agree_on_keys_with_enctype_17";
    in_realm(name, &options(Enctypes::only(e)), |realm| established_with(realm, e));
}

#[test]
fn both_sides_agree_on_keys_with_enctype_18() {
    let e = RealmEnctype::Aes256Sha1;
    let name = "both_sides_agree_on_keys_with_enctype_18";
    in_realm(name, &options(Enctypes::only(e)), |realm| established_with(realm, e));
}

#[test]
fn both_sides_agree_on_keys_with_enctype_19() {
    let e = RealmEnctype::Aes128Sha2;
    let name = "both_sides_agree_on_keys_with_enctype_19";
    in_realm(name, &options(Enctypes::only(e)), |realm| established_with(realm, e));
}

#[test]
fn both_sides_agree_on_keys_with_enctype_20() {
    let e = RealmEnctype::Aes256Sha2;
    let name = "both_sides_agree_on_keys_with_enctype_20";
    in_realm(name, &options(Enctypes::only(e)), |realm| established_with(realm, e));
}

fn refuses_enctype(realm: &Realm, number: &str) {
    let acceptor = Acceptor::from_keytab(&realm.server_keytab()).unwrap();
    let error = establish(&acceptor, "nfs@localhost", &ticket(realm, "alice")).unwrap_err();
    assert!(matches!(error, GssError::EnctypeRefused(_)), "{error}");
    assert!(error.to_string().contains(number), "{error}");
}

#[test]
fn rc4_contexts_are_refused_by_name() {
    // RFC 8429: RC4 must not be used.
    in_realm("rc4_contexts_are_refused_by_name", &options(Enctypes::only(RealmEnctype::Rc4)), |realm| {
        refuses_enctype(realm, "enctype 23, RC4");
    });
}

#[test]
fn triple_des_contexts_are_refused_by_name() {
    // RFC 8429: 3DES must not be used.
    in_realm(
        "triple_des_contexts_are_refused_by_name",
        &options(Enctypes::only(RealmEnctype::Des3)),
        |realm| {
            refuses_enctype(realm, "3DES");
        },
    );
}

#[test]
fn any_key_of_the_keytab_serves_its_host_name() {
    let options =
        RealmOptions { hosts: vec!["a.example".into(), "b.example".into()], ..RealmOptions::default() };
    in_realm("any_key_of_the_keytab_serves_its_host_name", &options, |realm| {
        let acceptor = Acceptor::from_keytab(&realm.server_keytab()).unwrap();
        let alice = ticket(realm, "alice");
        for host in ["a.example", "b.example", "localhost", "127.0.0.1"] {
            let (initiated, _) = establish(&acceptor, &format!("nfs@{host}"), &alice).unwrap();
            assert!(initiated.principal.starts_with(&format!("nfs/{host}@")), "{}", initiated.principal);
        }
    });
}

#[test]
fn a_keytab_initiates_as_a_user_or_a_machine() {
    let options = RealmOptions { clients: vec!["client.example".into()], ..RealmOptions::default() };
    in_realm("a_keytab_initiates_as_a_user_or_a_machine", &options, |realm| {
        let acceptor = Acceptor::from_keytab(&realm.server_keytab()).unwrap();
        for (keytab, principal) in [
            (realm.users_keytab(), "bob"),
            (realm.client_keytab(), "host/client.example"),
            (realm.client_keytab(), "nfs/client.example"),
        ] {
            let credential = Credential::Keytab { path: keytab, principal: principal.into() };
            for _ in 0..2 {
                let (_, accepted) = establish(&acceptor, "nfs@localhost", &credential).unwrap();
                assert_eq!(accepted.principal, format!("{principal}@ORTHRUS.TEST"));
            }
        }
    });
}

#[test]
fn a_keytab_fetches_new_tickets_for_a_replaced_key_once_the_earlier_ones_are_forgotten() {
    let name = "a_keytab_fetches_new_tickets_for_a_replaced_key_once_the_earlier_ones_are_forgotten";
    in_realm(name, &RealmOptions::default(), |realm| {
        let bob = Credential::Keytab { path: realm.users_keytab(), principal: "bob".into() };
        let acceptor = Acceptor::from_keytab(&realm.server_keytab()).unwrap();
        establish(&acceptor, "nfs@localhost", &bob).unwrap();
        let fresh = realm.dir().join("fresh.keytab");
        realm.kadmin(&format!("ktadd -k \"{}\" nfs/localhost\n", fresh.display())).unwrap();
        let acceptor = Acceptor::from_keytab(&fresh).unwrap();
        let error = establish(&acceptor, "nfs@localhost", &bob).unwrap_err();
        assert!(matches!(error, GssError::WrongKey(_)), "{error}");
        bob.forget_tickets();
        establish(&acceptor, "nfs@localhost", &bob).unwrap();
    });
}

#[test]
fn the_same_token_twice_gives_contexts_with_different_keys() {
    // With mutual authentication, a replay does not even give the keys of the first context: the
    // acceptor's subkey is new each time (RFC 4121 section 2).
    let name = "the_same_token_twice_gives_contexts_with_different_keys";
    in_realm(name, &RealmOptions::default(), |realm| {
        let acceptor = Acceptor::from_keytab(&realm.server_keytab()).unwrap();
        let (_, token) = first_token("nfs@localhost", &ticket(realm, "alice")).unwrap();
        let (one, two) = (acceptor.accept(&token).unwrap(), acceptor.accept(&token).unwrap());
        let same = |e: &Established| e.keys.mic(1, b"x").as_ref().to_vec();
        assert_ne!(same(&one), same(&two));
    });
}

#[test]
fn a_forwarded_ticket_is_taken_only_on_request() {
    in_realm("a_forwarded_ticket_is_taken_only_on_request", &RealmOptions::default(), |realm| {
        let acceptor = Acceptor::from_keytab(&realm.server_keytab()).unwrap();
        let mut initiator = Initiator::forwarding("nfs@localhost", &ticket(realm, "alice")).unwrap();
        let Step::Send(token) = initiator.step(None).unwrap() else { panic!("no token") };
        assert!(acceptor.accept(&token).unwrap().forwarded.is_none());
        assert!(acceptor.accept_forwarded(&token).unwrap().forwarded.is_some());
    });
}

#[test]
fn garbage_and_damaged_tokens_are_refused_and_the_acceptor_goes_on() {
    let name = "garbage_and_damaged_tokens_are_refused_and_the_acceptor_goes_on";
    in_realm(name, &RealmOptions::default(), |realm| {
        let acceptor = Acceptor::from_keytab(&realm.server_keytab()).unwrap();
        let alice = ticket(realm, "alice");
        let (_, token) = first_token("nfs@localhost", &alice).unwrap();
        for length in (0..token.len()).step_by(7).chain([1, 2, 3, token.len() - 1]) {
            assert!(acceptor.accept(&token[..length]).is_err(), "{length} bytes");
        }
        for garbage in
            [vec![], vec![0; 1], vec![0xff; 64], vec![0x60; 131_072], b"NTLMSSP\0\x01\0\0\0".to_vec()]
        {
            let error = acceptor.accept(&garbage).unwrap_err();
            assert!(matches!(error, GssError::MalformedToken(_)), "{} bytes: {error}", garbage.len());
        }
        let mut random = SplitMix64(0x2545_f491_4f6c_dd1d);
        for _ in 0..500 {
            let mut damaged = token.clone();
            for _ in 0..3 {
                let at = random.index(damaged.len());
                damaged[at] ^= 1 << random.index(8);
            }
            // Some bits have no effect (ASN.1 that is skipped), so an acceptance is no failure.
            let _ = acceptor.accept(&damaged);
        }
        establish(&acceptor, "nfs@localhost", &alice).unwrap();
    });
}

/// Returns the offsets of possible DER lengths: each byte behind a possible tag.
fn lengths(token: &[u8]) -> Vec<usize> {
    let is_tag = |byte: u8| matches!(byte, 0x02..=0x06 | 0x1b | 0x30 | 0x60..=0x7f | 0xa0..=0xae);
    (1..token.len()).filter(|at| is_tag(token[at - 1])).collect()
}

/// Damages a token in one to five places, or combines it with another one.
fn mutate(token: &[u8], other: &[u8], random: &mut SplitMix64) -> Vec<u8> {
    let mut mutated = token.to_vec();
    for _ in 0..=random.index(5) {
        let at = random.index(mutated.len());
        match random.index(9) {
            0 => mutated[at] ^= 1 << random.index(8),
            1 => mutated[at] = random.bytes(1)[0],
            2 => mutated[at] = [0, 0x7f, 0x80, 0x84, 0xff][random.index(5)],
            3 => drop(mutated.drain(at..(at + 1 + random.index(20)).min(mutated.len()))),
            4 => {
                let more = 1 + random.index(20);
                drop(mutated.splice(at..at, random.bytes(more)));
            }
            // A length that reaches too far, is not minimal or has too many bytes.
            5 => {
                let places = lengths(&mutated);
                if let Some(place) = places.get(random.index(places.len().max(1))) {
                    let forms: [&[u8]; 6] =
                        [&[0x80], &[0x81, 1], &[0x84, 255, 255, 255, 255], &[0x88, 127], &[0xff], &[0]];
                    let form = forms[random.index(forms.len())];
                    drop(mutated.splice(*place..=*place, form.iter().copied()));
                }
            }
            6 => {
                let to = random.index(mutated.len());
                mutated.swap(at, to);
            }
            7 => mutated.truncate(at),
            // The beginning of one token and the end of another, of two users.
            _ => {
                mutated.truncate(at);
                mutated.extend_from_slice(&other[at.min(other.len())..]);
            }
        }
        if mutated.is_empty() {
            mutated.push(0x60);
        }
    }
    mutated
}

#[test]
fn twelve_thousand_mutated_tokens_give_no_context_of_anybody_else() {
    // RFC 4120 section 3.2.3: the ticket and its authenticator name one client, under one key
    let name = "twelve_thousand_mutated_tokens_give_no_context_of_anybody_else";
    in_realm(name, &RealmOptions::default(), |realm| {
        let acceptor = Acceptor::from_keytab(&realm.server_keytab()).unwrap();
        let ticket = |user: &str| {
            let ccache = realm.dir().join(format!("ccache-{user}"));
            realm.kinit(user, &ccache).unwrap();
            Credential::Ccache(format!("FILE:{}", ccache.display()))
        };
        let (alice, bob) = (ticket("alice"), ticket("bob"));
        let (_, of_alice) = first_token("nfs@localhost", &alice).unwrap();
        let (_, of_bob) = first_token("nfs@localhost", &bob).unwrap();
        assert_eq!(acceptor.accept(&of_alice).unwrap().principal, "alice@ORTHRUS.TEST");
        let mut random = SplitMix64(0x6170_2d72_6571_7565);
        let (mut refused, mut accepted) = (0, 0);
        // The end of the sealed authenticator, which identifies the sender.
        let seal = |token: &[u8]| token[token.len() - 128..].to_vec();
        let (by_alice, by_bob) = (seal(&of_alice), seal(&of_bob));
        for _ in 0..12_000 {
            let mutated = mutate(&of_alice, &of_bob, &mut random);
            match acceptor.accept(&mutated) {
                // Some bits have no effect (ASN.1 that is skipped).
                Ok(context) => {
                    let sealed = match &*context.principal {
                        "alice@ORTHRUS.TEST" => &by_alice,
                        "bob@ORTHRUS.TEST" => &by_bob,
                        other => panic!("a context of {other}"),
                    };
                    assert!(
                        mutated.windows(sealed.len()).any(|part| part == sealed),
                        "{}",
                        context.principal
                    );
                    accepted += 1;
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(!text.contains("Success") && !text.contains("Unspecified"), "{text}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 11_000 && accepted < 600, "{refused} refused, {accepted} accepted");
        // The ticket of one user with the authenticator of the other, cut at every offset.
        for at in 1..of_alice.len().min(of_bob.len()) {
            for (first, second) in [(&of_alice, &of_bob), (&of_bob, &of_alice)] {
                let mixed = [&first[..at], &second[at..]].concat();
                if mixed != *first && mixed != *second {
                    let context = acceptor.accept(&mixed);
                    assert!(context.is_err(), "cut at {at}: {}", context.unwrap().principal);
                }
            }
        }
        establish(&acceptor, "nfs@localhost", &alice).unwrap();
        establish(&acceptor, "nfs@localhost", &bob).unwrap();
    });
}

#[test]
fn a_keytab_with_other_keys_is_named_as_the_cause() {
    in_realm("a_keytab_with_other_keys_is_named_as_the_cause", &RealmOptions::default(), |realm| {
        // Right principals, wrong hosts; then the right principal with keys of another version.
        let wrong = Acceptor::from_keytab(&realm.client_keytab()).unwrap();
        let alice = ticket(realm, "alice");
        let (_, token) = first_token("nfs@localhost", &alice).unwrap();
        let error = wrong.accept(&token).unwrap_err();
        assert!(matches!(error, GssError::WrongKey(_)), "{error}");

        let old = realm.dir().join("old.keytab");
        std::fs::copy(realm.server_keytab(), &old).unwrap();
        let fresh = realm.dir().join("fresh.keytab");
        realm.kadmin(&format!("ktadd -k \"{}\" nfs/localhost\n", fresh.display())).unwrap();
        let alice = ticket(realm, "alice");
        let (_, token) = first_token("nfs@localhost", &alice).unwrap();
        let error = Acceptor::from_keytab(&old).unwrap().accept(&token).unwrap_err();
        assert!(matches!(error, GssError::WrongKey(_)), "{error}");
        assert!(error.to_string().contains("klist"), "{error}");
        Acceptor::from_keytab(&fresh).unwrap().accept(&token).unwrap();
    });
}

#[test]
fn a_keytab_that_is_absent_empty_or_no_keytab_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str, bytes: &[u8]| -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let absent = PathBuf::from("/nonexistent/orthrus.keytab");
    for path in [absent, at("empty", b""), at("header", &[5, 2]), at("text", b"not a keytab")] {
        let Err(error) = Acceptor::from_keytab(&path) else { panic!("{} was taken", path.display()) };
        assert!(matches!(error, GssError::KeytabUnusable(_)), "{error}");
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
}

#[test]
fn an_expired_ticket_is_named_on_both_sides() {
    let options = RealmOptions { clock_skew: Duration::from_secs(1), ..RealmOptions::default() };
    in_realm("an_expired_ticket_is_named_on_both_sides", &options, |realm| {
        let acceptor = Acceptor::from_keytab(&realm.server_keytab()).unwrap();
        let ccache = realm.dir().join("ccache");
        realm.kinit_with("alice", &ccache, &realm.users_keytab(), &["-l", "2s"]).unwrap();
        let credential = Credential::Ccache(ccache.display().to_string());
        let (_, token) = first_token("nfs@localhost", &credential).unwrap();
        let accepted = acceptor.accept(&token).unwrap();
        assert!(accepted.lifetime <= Duration::from_secs(4), "{:?}", accepted.lifetime);
        std::thread::sleep(Duration::from_secs(5));
        let ours = first_token("nfs@localhost", &credential).err().unwrap();
        assert!(matches!(ours, GssError::TicketExpired(_)), "{ours}");
        // The token has expired as well; either cause is correct.
        let theirs = acceptor.accept(&token).unwrap_err();
        assert!(matches!(theirs, GssError::TicketExpired(_) | GssError::ClockSkew(_)), "{theirs}");
    });
}

#[test]
fn missing_tickets_unknown_services_and_a_silent_kdc_give_different_errors() {
    let name = "missing_tickets_unknown_services_and_a_silent_kdc_give_different_errors";
    in_realm(name, &RealmOptions::default(), |realm| {
        let none = Credential::Ccache(format!("FILE:{}/no-such-cache", realm.dir().display()));
        let error = first_token("nfs@localhost", &none).err().unwrap();
        assert!(matches!(error, GssError::NoTicket(_)), "{error}");

        let alice = ticket(realm, "alice");
        let error = first_token("nfs@no-such-host.orthrus.test", &alice).err().unwrap();
        assert!(matches!(error, GssError::UnknownPrincipal(_)), "{error}");

        let unknown = Credential::Keytab { path: realm.users_keytab(), principal: "carol".into() };
        let error = first_token("nfs@localhost", &unknown).err().unwrap();
        assert!(matches!(error, GssError::WrongKey(_) | GssError::NoTicket(_)), "{error}");

        realm.stop_kdc().unwrap();
        let error = first_token("nfs@localhost", &alice).err().unwrap();
        assert!(matches!(error, GssError::KdcUnreachable(_)), "{error}");
    });
}

#[test]
fn one_acceptor_serves_many_threads() {
    in_realm("one_acceptor_serves_many_threads", &RealmOptions::default(), |realm| {
        let acceptor = Acceptor::from_keytab(&realm.server_keytab()).unwrap();
        let alice = ticket(realm, "alice");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        let (initiated, accepted) = establish(&acceptor, "nfs@localhost", &alice).unwrap();
                        talk(&initiated, &accepted);
                    }
                });
            }
        });
    });
}

#[test]
fn the_configuration_cannot_change_under_running_threads() {
    // The test harness has several threads, so the call must be refused.
    assert!(orthrus_gss::use_configuration(Path::new("/nonexistent")).is_err());
}
