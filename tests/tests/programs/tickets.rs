//! Tickets as a KDC of a large site makes them: with addresses, and with the group list of a
//! Windows domain (PAC). MIT's KDC makes neither, so a program makes them with the service's key.

use client::{Client, Flavor, Options, Security};
use e2e::{Server, World, in_world, pattern, run};
use gss::{Credential, Initiator, Step};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The longest token that the server takes, in bytes.
const TOKEN_MAX: usize = 128 << 10;

/// Builds the program that makes tickets; `None` where MIT's headers are missing.
fn forge(world: &World) -> Option<PathBuf> {
    if !Path::new("/usr/include/krb5.h").exists() {
        eprintln!("skipped: krb5.h is not installed (apt install libkrb5-dev)");
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/forge_ticket.c");
    let program = world.path("forge_ticket");
    let mut cc = Command::new("cc");
    cc.arg("-o").arg(&program).arg(source).args(["-lkrb5", "-lk5crypto"]);
    let built = run(&mut cc);
    assert!(built.status.success(), "{}", built.stderr);
    Some(program)
}

/// Makes alice's ticket with a PAC of so many bytes, and an address if there is one.
fn ticket(world: &World, forge: &Path, pac: usize, address: Option<&str>) -> Credential {
    let (cache, realm) = (world.path(&format!("forged-{pac}")), world.realm.name());
    let name = format!("FILE:{}", cache.display());
    let mut command = Command::new(forge);
    command.arg(world.realm.server_keytab()).arg(format!("nfs/localhost@{realm}"));
    command.args([format!("alice@{realm}"), name.clone(), pac.to_string()]).args(address);
    let made = run(&mut command);
    assert!(made.status.success(), "{}", made.stderr);
    let bytes: usize = made.stdout.trim().parse().expect("the ticket's length");
    assert!(bytes > pac, "{bytes}");
    Credential::Ccache(name)
}

fn options(server: &Server, flavor: Flavor, ticket: Credential) -> Options {
    Options::new("127.0.0.1", Security::of(flavor, "localhost", ticket)).port(server.port())
}

/// Returns the length of the first token of a context.
fn token_length(ticket: &Credential) -> usize {
    let mut initiator = Initiator::new("nfs@localhost", ticket).expect("the ticket is there");
    match initiator.step(None) {
        Ok(Step::Send(token)) => token.len(),
        other => panic!("no first token: {other:?}"),
    }
}

/// RFC 4120 section 5.3: a ticket may name the addresses that it is valid from. Behind address
/// translation the server sees another one; MIT's acceptor ignores them, as docs/kerberos.md says.
#[test]
fn a_ticket_is_accepted_from_an_address_that_it_does_not_name() {
    in_world(|world| {
        let Some(forge) = forge(world) else { return };
        let server = world.server().start();
        for address in [None, Some("192.0.2.7")] {
            let ticket = ticket(world, &forge, 0, address);
            Client::connect(options(&server, Flavor::Krb5p, ticket)).expect("the address does not matter");
        }
    });
}

/// RFC 2203 section 5.2.2: the token of a context is an argument of the call, and not bound by the
/// 400 bytes of a credential.
#[test]
fn tickets_with_large_group_lists_establish_contexts_up_to_the_limit() {
    in_world(|world| {
        let Some(forge) = forge(world) else { return };
        let server = world.server().start();
        std::fs::write(world.export().join("file"), pattern(1, 1 << 20)).expect("the folder is ours");
        for kibibytes in [32, 48, 64, 100] {
            let ticket = ticket(world, &forge, kibibytes << 10, None);
            let length = token_length(&ticket);
            assert!((kibibytes << 10..TOKEN_MAX).contains(&length), "{length}");
            for flavor in [Flavor::Krb5, Flavor::Krb5i, Flavor::Krb5p] {
                let options = options(&server, flavor, ticket.clone());
                let mut files = client::Filesystem::mount(options, "/export").expect("it is accepted");
                assert_eq!(files.read_file("file").expect("it is alice's"), pattern(1, 1 << 20));
            }
        }
        let ticket = ticket(world, &forge, TOKEN_MAX, None);
        assert!(token_length(&ticket) > TOKEN_MAX);
        Client::connect(options(&server, Flavor::Krb5p, ticket)).map(drop).expect_err("it is too long");
        world.mount(&server, "alice", Flavor::Krb5p).read_file("file").expect("the server goes on");
    });
}
