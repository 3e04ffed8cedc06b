use super::*;
use krb5::{Enctype, ProtocolKey, Role};

const SERVICES: [RpcGssServiceT; 3] = [
    RpcGssServiceT::rpc_gss_svc_none,
    RpcGssServiceT::rpc_gss_svc_integrity,
    RpcGssServiceT::rpc_gss_svc_privacy,
];
const ENCTYPES: [Enctype; 4] = [
    Enctype::Aes128CtsHmacSha1_96,
    Enctype::Aes256CtsHmacSha1_96,
    Enctype::Aes128CtsHmacSha256_128,
    Enctype::Aes256CtsHmacSha384_192,
];
const PLAIN: &[u8] = b"arguments of a callback.....";

fn keys(enctype: Enctype, role: Role) -> ContextKeys {
    ContextKeys::new(enctype, ProtocolKey::AcceptorSubkey(&vec![7; enctype.key_len()]), role)
        .expect("the right length")
}

/// A record of four bytes of header and one body, with the position behind its token.
fn sealed(keys: &ContextKeys, service: RpcGssServiceT, sequence: u32) -> (Vec<u8>, usize) {
    let mut encoder = Encoder::new();
    encoder.u32(0);
    let end = Channel { keys, service, sequence }.seal(
        &mut encoder,
        || 5,
        [9; CONFOUNDER_LEN],
        |encoder| {
            encoder.raw(PLAIN);
        },
    );
    (encoder.into_vec(), end)
}

#[test]
fn each_end_opens_the_bodies_of_the_other() {
    // RFC 2203 sections 5.3.2.2 and 5.3.2.3
    for enctype in ENCTYPES {
        let (initiator, acceptor) = (keys(enctype, Role::Initiator), keys(enctype, Role::Acceptor));
        for (sender, receiver) in [(&initiator, &acceptor), (&acceptor, &initiator)] {
            for service in SERVICES {
                let (record, end) = sealed(sender, service, 3);
                assert!(end <= record.len());
                let opened = Channel { keys: receiver, service, sequence: 3 }.open(&record, 4).unwrap();
                assert_eq!(&*opened, PLAIN, "{enctype:?} {service:?}");
            }
        }
    }
}

#[test]
fn a_body_with_a_flipped_bit_is_refused() {
    // RFC 2203 section 5.3.3.4.2
    for enctype in ENCTYPES {
        let (sender, receiver) = (keys(enctype, Role::Initiator), keys(enctype, Role::Acceptor));
        for service in SERVICES.into_iter().skip(1) {
            let (record, _) = sealed(&sender, service, 3);
            for bit in 4 * 8..record.len() * 8 {
                let mut damaged = record.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                let opened = Channel { keys: &receiver, service, sequence: 3 }.open(&damaged, 4);
                assert!(opened.is_err(), "{enctype:?} {service:?} bit {bit}");
            }
        }
    }
}

#[test]
fn the_sequence_number_of_the_body_is_that_of_the_header() {
    // RFC 2203 section 5.3.3.4.2
    let enctype = Enctype::Aes256CtsHmacSha1_96;
    let (sender, receiver) = (keys(enctype, Role::Initiator), keys(enctype, Role::Acceptor));
    for service in SERVICES.into_iter().skip(1) {
        let (record, _) = sealed(&sender, service, 3);
        let opened = Channel { keys: &receiver, service, sequence: 4 }.open(&record, 4);
        assert_eq!(opened, Err(BodyError::Sequence { expected: 4, found: 3 }));
    }
}

#[test]
fn a_reflected_body_is_refused() {
    // RFC 4121 section 4.2.2: SentByAcceptor
    let keys = keys(Enctype::Aes256CtsHmacSha384_192, Role::Initiator);
    for service in SERVICES.into_iter().skip(1) {
        let (record, _) = sealed(&keys, service, 3);
        assert!(Channel { keys: &keys, service, sequence: 3 }.open(&record, 4).is_err());
    }
}

#[test]
fn a_body_of_another_service_is_refused() {
    let enctype = Enctype::Aes128CtsHmacSha256_128;
    let (sender, receiver) = (keys(enctype, Role::Initiator), keys(enctype, Role::Acceptor));
    for service in SERVICES {
        for other in SERVICES.into_iter().skip(1).filter(|other| *other != service) {
            let (record, _) = sealed(&sender, service, 3);
            assert!(Channel { keys: &receiver, service: other, sequence: 3 }.open(&record, 4).is_err());
        }
    }
}

#[test]
fn a_body_that_ends_early_is_refused() {
    let enctype = Enctype::Aes256CtsHmacSha1_96;
    let (sender, receiver) = (keys(enctype, Role::Initiator), keys(enctype, Role::Acceptor));
    for service in SERVICES.into_iter().skip(1) {
        let (record, _) = sealed(&sender, service, 3);
        for length in 0..record.len() {
            let opened = Channel { keys: &receiver, service, sequence: 3 }.open(&record[..length], 4);
            assert!(opened.is_err(), "{service:?} {length}");
        }
    }
}
