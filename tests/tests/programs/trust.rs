//! Users of another realm, which the server's realm trusts.

use client::{Client, Filesystem, Flavor};
use e2e::{Serve, Server, World, in_world, is_root, status};
use nfs4::Nfsstat4::NFS4ERR_ACCESS;
use nix::unistd::{Uid, chown};
use realm::{Realm, RealmOptions};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

const TRUSTING: &str = "TRUSTING.TEST";

/// Makes a realm for the server that trusts the realm of the users (RFC 4120 section 1.2): both
/// have the key krbtgt/TRUSTING.TEST. The one krb5.conf of this test puts localhost into it.
fn trusting_realm(world: &World) -> Realm {
    let options = RealmOptions { realm: TRUSTING.to_owned(), ..RealmOptions::default() };
    let trusting = Realm::create(&world.path("trusting"), &options).expect("a realm");
    let query = format!("addprinc -pw shared-by-both krbtgt/{TRUSTING}@{}", world.realm.name());
    for realm in [&world.realm, &trusting] {
        realm.kadmin(&query).expect("a new principal");
    }
    let path = world.realm.krb5_conf();
    let text = fs::read_to_string(&path).expect("it is there");
    let host = format!("localhost = {}", world.realm.name());
    assert!(text.contains(&host), "{text}");
    let text = text.replace(&host, &format!("localhost = {TRUSTING}"));
    let realms = format!("[realms]\n  {TRUSTING} = {{\n    kdc = {}\n  }}\n", trusting.kdc());
    fs::write(&path, text.replace("[realms]\n", &realms)).expect("it is ours");
    trusting
}

fn serve(world: &World, trusting: &Realm, settings: &str) -> Server {
    let config = world.path("orthrus.toml");
    let text = format!(
        "keytab = {:?}\ngrace_time = 0\n{settings}\n[[identity.source]]\nkind = \"static\"\nusers.alice = {{ uid = 5001, gid = 5001 }}\n\
        [[export]]\npath = {:?}\n",
        trusting.server_keytab(),
        world.export()
    );
    fs::write(&config, text).expect("the folder is ours");
    Serve::new(world.path("state")).arg("--config").arg(&config).start()
}

#[test]
fn a_user_of_a_trusted_realm_is_a_local_user_only_where_its_realm_is_listed() {
    in_world(|world| {
        if !is_root() {
            return println!("skipped: only root can act as another user");
        }
        let trusting = trusting_realm(world);
        let file = world.export().join("private");
        fs::write(&file, b"private").expect("it is ours");
        chown(&file, Some(Uid::from_raw(5001)), None).expect("root may");
        fs::set_permissions(&file, Permissions::from_mode(0o400)).expect("root may");
        fs::set_permissions(world.export(), Permissions::from_mode(0o755)).expect("root may");
        let mount = |server: &Server| -> Filesystem { world.mount(server, "alice", Flavor::Krb5p) };

        // The realms of the keytab by default: a namesake from another realm is nobody.
        let server = serve(world, &trusting, "");
        assert_eq!(status(mount(&server).read_file("private")), NFS4ERR_ACCESS);
        drop(server);
        let own = world.realm.name();
        let server = serve(world, &trusting, &format!("realms = [{TRUSTING:?}, {own:?}]"));
        assert_eq!(mount(&server).read_file("private").expect("it is hers"), b"private");
        drop(server);
        let server = serve(world, &trusting, "identity.unknown = \"refused\"");
        let refused = Client::connect(world.options(&server, "alice", Flavor::Krb5p));
        assert!(refused.is_err(), "a context for nobody");
        drop(server);
        Realm::down(trusting.dir()).expect("it is ours");
    });
}
