//! Tokens that no correct peer sends.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use orthrus_krb5::{
    ContextKeys, Cpu, Enctype, KeyError, ProtocolKey, Role, Run, Segments, TokenError, UnwrapMessage,
    Unwrapped, WRAP_HEADROOM, WrapMessage,
};

fn keys(enctype: Enctype, role: Role) -> ContextKeys {
    let key = vec![7; enctype.key_len()];
    ContextKeys::new(enctype, ProtocolKey::AcceptorSubkey(&key), role).expect("the right length")
}

fn sealed(enctype: Enctype, plain: &[u8]) -> Vec<u8> {
    let keys = keys(enctype, Role::Initiator);
    let mut buffer = [&[0; WRAP_HEADROOM][..], plain, &vec![0; keys.wrap_trailer_len()]].concat();
    let token = Segments::from(&mut buffer);
    orthrus_krb5::wrap(&mut [WrapMessage { keys: &keys, sequence: 5, confounder: [9; 16], token }]);
    buffer
}

/// Opens a token on every path of this processor. All paths must give the same result and bytes.
fn open(keys: &ContextKeys, token: &mut [u8]) -> Result<Unwrapped, TokenError> {
    let opened = Cpu::available().map(|cpu| {
        let mut bytes = token.to_vec();
        let result = Ok(Unwrapped { plain: 0..usize::MAX, sequence: 0, sealed: true });
        let mut batch = [UnwrapMessage { keys, token: Segments::from(&mut bytes), result }];
        orthrus_krb5::unwrap_with(&mut Run::new(cpu), &mut batch);
        let [UnwrapMessage { result, .. }] = batch;
        (result, bytes)
    });
    let same = |one: (Result<_, _>, Vec<u8>), other| {
        assert_eq!(one, other, "the paths disagree");
        other
    };
    let (result, bytes) = opened.reduce(same).expect("the portable path");
    token.copy_from_slice(&bytes);
    result
}

#[test]
fn every_bit_flip_of_a_sealed_token_is_refused() {
    // RFC 4121 section 4.2.4: the plain header has an encrypted copy, which omits only the
    // rotation.
    for enctype in Enctype::ALL {
        let acceptor = keys(enctype, Role::Acceptor);
        for len in [0, 1, 15, 16, 33] {
            let token = sealed(enctype, &vec![3; len]);
            let body_len = token.len() - 16;
            for bit in 0..token.len() * 8 {
                let mut forged = token.clone();
                forged[bit / 8] ^= 0x80 >> (bit % 8);
                let rotation = usize::from(u16::from_be_bytes([forged[6], forged[7]]));
                if rotation != 0 && rotation % body_len == 0 {
                    continue; // a rotation by a multiple of the length
                }
                assert!(open(&acceptor, &mut forged).is_err(), "{enctype}, {len} bytes, bit {bit}");
            }
        }
    }
}

#[test]
fn every_bit_flip_of_a_mic_token_or_its_message_is_refused() {
    // RFC 4121 section 4.2.6.1
    for enctype in Enctype::ALL {
        let (initiator, acceptor) = (keys(enctype, Role::Initiator), keys(enctype, Role::Acceptor));
        let message = *b"the header of a call";
        let token = initiator.mic(77, &message).to_vec();
        assert_eq!(acceptor.verify(&message, &token), Ok(77));
        for bit in 0..token.len() * 8 {
            let mut forged = token.clone();
            forged[bit / 8] ^= 0x80 >> (bit % 8);
            assert!(acceptor.verify(&message, &forged).is_err(), "{enctype}, bit {bit}");
        }
        for bit in 0..message.len() * 8 {
            let mut forged = message;
            forged[bit / 8] ^= 0x80 >> (bit % 8);
            assert_eq!(acceptor.verify(&forged, &token), Err(TokenError::BadIntegrity));
        }
    }
}

#[test]
fn every_truncation_is_refused() {
    for enctype in Enctype::ALL {
        let acceptor = keys(enctype, Role::Acceptor);
        let token = sealed(enctype, b"forty bytes of plaintext, more or less..");
        for len in 0..token.len() {
            assert!(open(&acceptor, &mut token[..len].to_vec()).is_err());
            assert!(open(&acceptor, &mut token[token.len() - len..].to_vec()).is_err());
        }
        let mic = keys(enctype, Role::Initiator).mic(1, b"message");
        for len in 0..mic.len() {
            assert_eq!(acceptor.verify(b"message", &mic[..len]), Err(TokenError::Malformed));
        }
        let longer = [&mic[..], &[0]].concat();
        assert_eq!(acceptor.verify(b"message", &longer), Err(TokenError::Malformed));
    }
}

#[test]
fn an_ec_or_rrc_of_any_value_is_refused_or_right() {
    // RFC 4121 section 4.2.6.2: EC is sealed with the message, so no other value passes.
    for enctype in Enctype::ALL {
        let acceptor = keys(enctype, Role::Acceptor);
        let token = sealed(enctype, b"plain");
        for value in (0..0x200).chain((0x200..=u16::MAX).step_by(251)).chain([u16::MAX]) {
            let mut forged = token.clone();
            forged[4..6].copy_from_slice(&value.to_be_bytes());
            assert_eq!(open(&acceptor, &mut forged).is_ok(), value == 0, "EC {value}");

            let mut forged = token.clone();
            forged[6..8].copy_from_slice(&value.to_be_bytes());
            let nothing = usize::from(value) % (token.len() - 16) == 0;
            assert_eq!(open(&acceptor, &mut forged).is_ok(), nothing, "RRC {value}");
        }
    }
}

#[test]
fn an_ec_that_reaches_outside_is_malformed() {
    // RFC 4121 section 4.2.6.2
    let acceptor = keys(Enctype::Aes256CtsHmacSha1_96, Role::Acceptor);
    let mut token = sealed(Enctype::Aes256CtsHmacSha1_96, b"plain");
    token[4..6].copy_from_slice(&6u16.to_be_bytes());
    assert_eq!(open(&acceptor, &mut token), Err(TokenError::Malformed));
}

#[test]
fn a_refused_token_leaves_nothing_that_was_decrypted() {
    for enctype in Enctype::ALL {
        let plain = b"a secret that was not proved genuine";
        let mut token = sealed(enctype, plain);
        let last = token.len() - 1;
        token[last] ^= 1;
        let acceptor = keys(enctype, Role::Acceptor);
        assert_eq!(open(&acceptor, &mut token), Err(TokenError::BadIntegrity));
        assert!(!token.windows(8).any(|window| plain.windows(8).any(|secret| secret == window)));
    }
}

#[test]
fn a_token_of_the_other_key_gets_its_own_error() {
    // RFC 4121 section 4.2.2, AcceptorSubkey
    for enctype in Enctype::ALL {
        let key = vec![7; enctype.key_len()];
        let acceptor = ContextKeys::new(enctype, ProtocolKey::InitiatorKey(&key), Role::Acceptor).unwrap();
        assert_eq!(open(&acceptor, &mut sealed(enctype, b"plain")), Err(TokenError::WrongKey));
        let mic = keys(enctype, Role::Initiator).mic(1, b"message");
        assert_eq!(acceptor.verify(b"message", &mic), Err(TokenError::WrongKey));
    }
}

#[test]
fn a_reflected_token_gets_its_own_error() {
    // RFC 4121 section 4.2.2, SentByAcceptor
    for enctype in Enctype::ALL {
        let initiator = keys(enctype, Role::Initiator);
        assert_eq!(open(&initiator, &mut sealed(enctype, b"plain")), Err(TokenError::Reflected));
        let mic = initiator.mic(1, b"message");
        assert_eq!(initiator.verify(b"message", &mic), Err(TokenError::Reflected));
    }
}

#[test]
fn a_token_of_the_other_kind_is_malformed() {
    let acceptor = keys(Enctype::Aes128CtsHmacSha1_96, Role::Acceptor);
    let mut mic = keys(Enctype::Aes128CtsHmacSha1_96, Role::Initiator).mic(1, b"message").to_vec();
    mic.resize(100, 0);
    assert_eq!(open(&acceptor, &mut mic), Err(TokenError::Malformed));
    let wrap = sealed(Enctype::Aes128CtsHmacSha1_96, b"");
    assert_eq!(acceptor.verify(b"", &wrap), Err(TokenError::Malformed));
}

#[test]
fn weak_enctypes_do_not_exist() {
    // DES, 3DES, RC4 and its export form; RFC 6649 and RFC 8429.
    for etype in [0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 23, 24, 25, 26, -133, -135, i32::MAX] {
        assert_eq!(Enctype::from_etype(etype), None);
    }
    for enctype in Enctype::ALL {
        assert_eq!(Enctype::from_etype(enctype.etype()), Some(enctype));
    }
}

#[test]
fn a_key_of_the_wrong_length_is_an_error() {
    for enctype in Enctype::ALL {
        for actual in [0, 15, 17, 24, 31, 33, 64].into_iter().chain([48 - enctype.key_len()]) {
            let made =
                ContextKeys::new(enctype, ProtocolKey::AcceptorSubkey(&vec![0; actual]), Role::Acceptor);
            let expected = enctype.key_len();
            assert_eq!(made.err(), Some(KeyError::Length { enctype, expected, actual }));
        }
    }
}
