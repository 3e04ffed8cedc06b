//! Creates, uses and removes realms.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Stdio;

use orthrus_realm::{Enctypes, Realm, RealmEnctype, RealmError, RealmOptions, TemporaryRealm};

/// Creates a realm, or reports why the test cannot run here.
fn made(options: &RealmOptions) -> Option<TemporaryRealm> {
    match TemporaryRealm::create(options) {
        Ok(realm) => Some(realm),
        Err(error @ RealmError::Missing { .. }) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn klist(realm: &Realm, arguments: &[&str], file: &Path) -> String {
    let output = realm.command("klist").args(arguments).arg(file).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_realm_gives_tickets() {
    let Some(realm) = made(&RealmOptions::default()) else { return };
    assert!(realm.is_running());
    let ccache = realm.dir().join("ccache");
    for user in ["alice", "bob"] {
        realm.kinit(user, &ccache).unwrap();
        assert!(klist(&realm, &["-c"], &ccache).contains(&format!("{user}@ORTHRUS.TEST")));
    }
    let server = klist(&realm, &["-k"], &realm.server_keytab());
    assert!(server.contains("nfs/localhost@ORTHRUS.TEST") && server.contains("nfs/127.0.0.1@ORTHRUS.TEST"));
    assert!(klist(&realm, &["-k"], &realm.client_keytab()).contains("host/"));
    assert!(matches!(realm.kinit("carol", &ccache), Err(RealmError::Tool { .. })));
}

/// Gets a ticket with a password, and returns whether the password is valid.
fn kinit_with_password(realm: &Realm, user: &str, password: &str) -> bool {
    let mut kinit = realm.command("kinit");
    kinit.arg("-c").arg(realm.dir().join("ccache")).arg(user);
    kinit.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = kinit.spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{password}").unwrap();
    child.wait().unwrap().success()
}

#[test]
fn passwords_are_random_and_good_beside_the_keytab() {
    let Some(realm) = made(&RealmOptions { users: vec!["carol".into()], ..RealmOptions::default() }) else {
        return;
    };
    let text = fs::read_to_string(realm.passwords()).unwrap();
    let passwords: Vec<_> = text.lines().map(|line| line.split_once(' ').unwrap()).collect();
    assert_eq!(passwords.iter().map(|(user, _)| *user).collect::<Vec<_>>(), ["alice", "bob", "carol"]);
    for (user, password) in &passwords {
        assert!(kinit_with_password(&realm, user, password), "{user}");
        assert_eq!(passwords.iter().filter(|(_, other)| other == password).count(), 1);
        for guess in [user, "", "throw-away", "password", "ORTHRUS.TEST"] {
            assert!(!kinit_with_password(&realm, user, guess), "{user}: {guess:?}");
        }
    }
}

#[test]
fn only_the_owner_can_read_a_realm() {
    let Some(realm) = made(&RealmOptions::default()) else { return };
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(realm.dir()), mode(realm.dir().parent().unwrap())), (0o700, 0o700));
    for file in [realm.server_keytab(), realm.client_keytab(), realm.users_keytab(), realm.passwords()] {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[test]
fn a_folder_that_others_may_write_to_becomes_no_realm() {
    let parent = private::temporary("realm-").unwrap();
    let dir = parent.path().join("realm");
    fs::create_dir(&dir).unwrap();
    for bits in [0o770, 0o707] {
        fs::set_permissions(&dir, fs::Permissions::from_mode(bits)).unwrap();
        match Realm::create(&dir, &RealmOptions::default()) {
            Err(error @ RealmError::NotPrivate(_)) => assert!(error.to_string().contains("chmod go-w")),
            Err(RealmError::Missing { .. }) => return,
            other => panic!("{other:?}"),
        }
    }
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    Realm::create(&dir, &RealmOptions::default()).unwrap();
    // A realm that others may have changed is neither used nor executed.
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(Realm::open(&dir), Err(RealmError::NotPrivate(_))));
    assert!(matches!(Realm::down(&dir), Err(RealmError::NotPrivate(_))));
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(Realm::down(&dir).unwrap().kdc_ran);
}

#[test]
fn each_enctype_can_be_had_alone() {
    use RealmEnctype::{Aes128Sha1, Aes128Sha2, Aes256Sha1, Aes256Sha2};
    for enctype in [Aes128Sha1, Aes256Sha1, Aes128Sha2, Aes256Sha2] {
        let options = RealmOptions { enctypes: Enctypes::only(enctype), ..RealmOptions::default() };
        let Some(realm) = made(&options) else { return };
        realm.kinit("alice", &realm.dir().join("ccache")).unwrap();
        for keytab in [realm.server_keytab(), realm.client_keytab(), realm.users_keytab()] {
            let keys = klist(&realm, &["-ke"], &keytab);
            let (all, fit) = (keys.matches("@ORTHRUS").count(), keys.matches(enctype.name()).count());
            assert!(all > 0 && all == fit, "{keys}");
        }
    }
}

#[test]
fn the_service_of_grants_gets_tickets_of_users_for_nfs_only() {
    // MS-SFU sections 3.2.5.1 (S4U2Self) and 3.2.5.2 (S4U2Proxy)
    let options = RealmOptions { delegation: true, ..RealmOptions::default() };
    let Some(realm) = made(&options) else { return };
    let (own, tickets) = (realm.dir().join("ccache"), realm.dir().with_file_name("tickets"));
    realm.kinit_with("grants/localhost", &own, &realm.grants_keytab(), &["-l", "90s"]).unwrap();
    let get = |target: &str| {
        let mut kvno = realm.command("kvno");
        kvno.arg("-k").arg(realm.grants_keytab()).arg("-c").arg(&own).arg("--out-cache").arg(&tickets);
        kvno.args(["-I", "alice", "-P", target]).output().unwrap().status.success()
    };
    assert!(get("nfs/localhost"));
    let listed = klist(&realm, &["-c"], &tickets);
    assert!(listed.contains("alice@ORTHRUS.TEST") && listed.contains("nfs/localhost"), "{listed}");
    assert!(!listed.contains("krbtgt/"), "{listed}");
    assert!(!get("grants/localhost") && !get("kadmin/admin"), "delegation is not limited to nfs");
    // The same request with a key that has no such right.
    realm.kinit_with("nfs/localhost", &own, &realm.server_keytab(), &[]).unwrap();
    let mut kvno = realm.command("kvno");
    kvno.arg("-k").arg(realm.server_keytab()).arg("-c").arg(&own).arg("--out-cache").arg(&tickets);
    assert!(!kvno.args(["-I", "alice", "-P", "nfs/localhost"]).output().unwrap().status.success());
    drop(realm.kadmin("modprinc -allow_tix alice").unwrap());
    realm.kinit_with("grants/localhost", &own, &realm.grants_keytab(), &[]).unwrap();
    assert!(!get("nfs/localhost"), "a disabled account");
    let (dir, _) = (realm.dir().to_owned(), Realm::down(realm.dir()).unwrap());
    assert!(!dir.exists(), "all files of the directory are gone");
}

#[test]
fn a_realm_survives_its_maker_and_down_removes_it() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("a realm with spaces/and 'quotes'");
    match Realm::create(&dir, &RealmOptions::default()) {
        Err(RealmError::Missing { .. }) => return,
        other => drop(other.unwrap()),
    }
    let realm = Realm::open(&dir).unwrap();
    assert!(realm.is_running());
    assert!(matches!(Realm::create(&dir, &RealmOptions::default()), Err(RealmError::Exists(_))));
    let removed = Realm::down(&dir).unwrap();
    assert!(removed.kdc_ran && removed.left.is_empty());
    assert!(!realm.is_running() && !dir.exists());
}

#[test]
fn files_of_others_are_neither_overwritten_nor_removed() {
    let parent = tempfile::tempdir().unwrap();
    fs::write(parent.path().join("thesis.tex"), "years").unwrap();
    assert!(matches!(
        Realm::create(parent.path(), &RealmOptions::default()),
        Err(RealmError::Foreign(_) | RealmError::Missing { .. })
    ));
    assert!(matches!(Realm::down(parent.path()), Err(RealmError::NotARealm(_))));
    let Some(realm) = made(&RealmOptions::default()) else { return };
    let thesis = realm.dir().join("thesis.tex");
    fs::write(&thesis, "years").unwrap();
    let removed = Realm::down(realm.dir()).unwrap();
    assert_eq!(removed.left, std::slice::from_ref(&thesis));
    assert_eq!(fs::read(&thesis).unwrap(), b"years");
}

#[test]
fn an_address_that_is_taken_is_refused_and_leaves_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = RealmOptions { listen: taken.local_addr().ok(), ..RealmOptions::default() };
    let dir = parent.path().join("realm");
    assert!(matches!(
        Realm::create(&dir, &options),
        Err(RealmError::Listen { .. } | RealmError::Missing { .. })
    ));
    assert!(!dir.exists());
}

#[test]
fn realms_made_at_once_get_ports_of_their_own() {
    let threads: Vec<_> = (0..6).map(|_| std::thread::spawn(|| made(&RealmOptions::default()))).collect();
    let realms: Vec<_> = threads.into_iter().filter_map(|t| t.join().unwrap()).collect();
    for (i, realm) in realms.iter().enumerate() {
        assert!(realm.is_running());
        assert!(realms.iter().skip(i + 1).all(|other| other.kdc() != realm.kdc()));
    }
}

fn replicated(replicas: usize) -> Option<TemporaryRealm> {
    made(&RealmOptions { delegation: true, replicas, ..RealmOptions::default() })
}

/// Gets a service ticket with the tickets of a cache.
fn kvno(realm: &Realm, ccache: &Path, service: &str) -> bool {
    let mut kvno = realm.command("kvno");
    kvno.arg("-q").arg("-c").arg(ccache).arg(service).output().unwrap().status.success()
}

/// Gets a ticket of alice for NFS with the key of the service `grants` (S4U2Self and S4U2Proxy).
fn delegated(realm: &Realm) -> bool {
    let (own, out) = (realm.dir().with_file_name("own"), realm.dir().with_file_name("delegated"));
    if realm.kinit_with("grants/localhost", &own, &realm.grants_keytab(), &[]).is_err() {
        return false;
    }
    let mut kvno = realm.command("kvno");
    kvno.arg("-q").arg("-k").arg(realm.grants_keytab()).arg("-c").arg(own).arg("--out-cache").arg(out);
    kvno.args(["-I", "alice", "-P", "nfs/localhost"]).output().unwrap().status.success()
}

#[test]
fn logins_services_and_delegation_go_on_while_one_kdc_is_left() {
    let Some(realm) = replicated(2) else { return };
    assert_eq!(realm.replicas().len(), 2);
    assert_eq!(Realm::open(realm.dir()).unwrap(), *realm);
    let (early, late) = (realm.dir().with_file_name("early"), realm.dir().with_file_name("late"));
    realm.kinit("alice", &early).unwrap();
    for killed in 0..2 {
        assert!(realm.kill_kdc(killed).unwrap(), "KDC {killed} ran");
        realm.kinit("bob", &late).unwrap();
        // A ticket of the first KDC is as good at another.
        assert!(kvno(&realm, &early, &format!("nfs/{}", ["localhost", "127.0.0.1"][killed])));
        assert!(delegated(&realm), "{killed}");
    }
    assert!(!realm.kill_kdc(0).unwrap() && realm.kill_kdc(2).unwrap());
    assert!(realm.kinit("bob", &late).is_err() && !delegated(&realm), "no KDC is left");
    let dir = realm.dir().to_owned();
    assert!(Realm::down(&dir).unwrap().left.is_empty() && !dir.exists());
}

#[test]
fn changes_reach_the_replicas_and_stay_when_the_first_kdc_is_gone() // RFC 4533
{
    let Some(realm) = replicated(1) else { return };
    let ccache = realm.dir().with_file_name("ccache");
    realm.kinit("bob", &ccache).unwrap();
    realm.kadmin("addprinc -pw fresh carol\ncpw -pw other alice\nmodprinc -allow_tix bob").unwrap();
    realm.wait_for_replicas().unwrap();
    assert!(realm.kill_kdc(0).unwrap());
    assert!(kinit_with_password(&realm, "carol", "fresh"));
    assert!(kinit_with_password(&realm, "alice", "other"));
    let former = fs::read_to_string(realm.passwords()).unwrap();
    let former = former.lines().find_map(|line| line.strip_prefix("alice ")).unwrap();
    assert!(!kinit_with_password(&realm, "alice", former), "the former password");
    assert!(realm.kinit("bob", &ccache).is_err(), "a disabled account");
    // Replicas are read-only: changes wait for the first directory.
    assert!(realm.kadmin("addprinc -pw late dave").is_err());
}

#[test]
fn too_many_replicas_are_refused() {
    let parent = tempfile::tempdir().unwrap();
    let options = RealmOptions { replicas: orthrus_realm::REPLICAS_MAX + 1, ..RealmOptions::default() };
    let error = Realm::create(&parent.path().join("realm"), &options).unwrap_err();
    assert!(matches!(error, RealmError::Option { what: "replicas", .. }), "{error}");
    assert!(!parent.path().join("realm").exists());
}
