//! Clients that no export admits, and floods of clients that an export admits.

use crate::helper::*;
use nfs4::Nfsstat4::*;
use nfs4::*;
use orthrus_server::engine::NfsConfig;
use std::time::Duration;
use vfs::{Export, SecFlavor};

const NOW: Duration = Duration::from_secs(100);

/// An export for other addresses than the one of these tests.
fn elsewhere() -> Export {
    for_network(export("/elsewhere", &memory()), "10.0.0.0/8")
}

#[test]
fn no_state_is_made_for_an_address_that_no_export_admits()
// RFC 8881 sections 18.35 and 18.36, RFC 7530 section 16.33
{
    let server = Setup::with_exports(vec![elsewhere()]).start();
    for security in [sys(0), sys(ALICE), krb5(SecFlavor::Krb5p, "alice", ALICE)] {
        for minor in [1, 2] {
            let ops = [exchange_id(b"stranger", StateProtect4A::SP4_NONE)];
            server.call(&security, 1, NOW, minor, &ops).expect(NFS4ERR_CLID_INUSE);
            let ops = [create_session(1 << 32, 1, FORE)];
            server.call(&security, 1, NOW, minor, &ops).expect(NFS4ERR_CLID_INUSE);
        }
        server.call(&security, 1, NOW, 0, &[setclientid(b"stranger", [1; 8])]).expect(NFS4ERR_CLID_INUSE);
        // Operations without state are answered: the root reveals nothing of exports for other
        // addresses.
        server.call(&security, 1, NOW, 0, &[put_root(), getfh()]).ok();
    }
    assert_eq!(server.nfs.counts(), state::Counts::default());
}

#[test]
fn a_client_id_may_be_made_by_auth_sys_for_an_export_by_kerberos_alone()
// RFC 8881 section 2.10.8.3: without a machine credential a client has nothing better for
// EXCHANGE_ID
{
    let closed = for_flavors(export("/export", &memory()), &[SecFlavor::Krb5p]);
    let server = Setup::with_exports(vec![elsewhere(), closed]).start();
    let mut client = Client::new(&server);
    client.at("export", vec![getfh()]).expect(NFS4ERR_WRONGSEC);
    client.security = krb5(SecFlavor::Krb5p, "alice", ALICE);
    client.at("export", vec![open_create("f", 3), getfh()]).ok();
}

#[test]
fn a_flood_by_auth_sys_keeps_no_user_of_kerberos_out() {
    let mut config = NfsConfig::default();
    config.limits.clients_max = 128;
    config.limits.reply_cache_max = 1 << 20;
    let closed = for_flavors(export("/export", &memory()), &[SecFlavor::Krb5p]);
    let server = Setup { config, ..Setup::with_exports(vec![closed]) }.start();
    for n in 0..1000 {
        let name = format!("bogus {n}");
        let made =
            server.call(&sys(4242), 1, NOW, 1, &[exchange_id(name.as_bytes(), StateProtect4A::SP4_NONE)]);
        let Some(NfsResop4::OP_EXCHANGE_ID(ExchangeId4Res::NFS4_OK(id))) = made.results.last() else {
            continue;
        };
        server.call(&sys(4242), 1, NOW, 1, &[create_session(id.eir_clientid, id.eir_sequenceid, FORE)]);
        let mut setclientid = vec![setclientid(format!("old {n}").as_bytes(), [1; 8])];
        server.call(&sys(4242), 1, NOW, 0, &std::mem::take(&mut setclientid));
        if n % 100 == 99 {
            let name = format!("alice {n}");
            let user = krb5(SecFlavor::Krb5p, &name, ALICE);
            let mut client = Client::with(&server, name.as_bytes(), user, FORE);
            assert_eq!(client.fore.ca_maxrequests, FORE.ca_maxrequests);
            client.at("export", vec![getfh()]).ok();
        }
    }
    let counts = server.nfs.counts();
    assert!(counts.clients <= 128 && counts.session_memory <= 1 << 20, "{counts:?}");
}
