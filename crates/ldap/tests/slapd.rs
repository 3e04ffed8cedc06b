//! Accounts of a real OpenLDAP server, also while it is stopped or gone.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use identity::{AccountAnswer, AccountSource, Identity, IdentitySource, Mapper, PrincipalError, Rules, Wait};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use orthrus_ldap::{Bind, LdapConfigError, LdapSettings, LdapSource, Members, Schema};
use std::cell::Cell;
use std::fmt::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SLAPD: &str = "/usr/sbin/slapd";
const T0: Duration = Duration::from_secs(1000);
/// How long slapd may take to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// The groups of alice, and of bob.
const FEW: u32 = 40;
const MANY: u32 = 2000;

/// The attributes and classes of all three schemas, as far as this crate uses them.
const DEFINITIONS: &str = "
attributetype ( 1.3.6.1.1.1.1.12 NAME 'memberUid' EQUALITY caseExactIA5Match SYNTAX 1.3.6.1.4.1.1466.115.121.1.26 )
attributetype ( 2.16.840.1.113719.1.301.4.1.1 NAME 'krbPrincipalName' EQUALITY caseExactIA5Match SYNTAX 1.3.6.1.4.1.1466.115.121.1.26 )
attributetype ( 1.2.840.113556.1.4.221 NAME 'sAMAccountName' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 SINGLE-VALUE )
objectclass ( 1.3.6.1.1.1.2.0 NAME 'posixAccount' SUP top AUXILIARY MUST ( uid $ uidNumber $ gidNumber ) MAY krbPrincipalName )
objectclass ( 1.3.6.1.1.1.2.2 NAME 'posixGroup' SUP top AUXILIARY MUST gidNumber MAY ( memberUid $ member ) )
objectclass ( 1.2.840.113556.1.5.9 NAME 'user' SUP top AUXILIARY MUST sAMAccountName MAY ( uidNumber $ gidNumber ) )
objectclass ( 1.2.840.113556.1.5.8 NAME 'group' SUP top AUXILIARY MUST sAMAccountName MAY ( gidNumber $ member ) )
";

/// A running slapd; dropping it ends it.
struct Slapd {
    child: Child,
    port: u16,
    secure_port: u16,
    folder: tempfile::TempDir,
}

/// Returns whether slapd is there; if not, the test is skipped.
fn installed() -> bool {
    let found = Path::new(SLAPD).exists();
    if !found {
        eprintln!("skipped: slapd is not installed (apt install slapd)");
    }
    found
}

fn done(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("the program is installed");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The entries of the directory: two users, their groups by RFC 2307, RFC 2307bis and as in Active
/// Directory.
fn entries() -> String {
    let mut ldif = String::from("dn: dc=t\nobjectClass: domain\ndc: t\n\n");
    for unit in ["people", "groups", "bis", "ad"] {
        write!(ldif, "dn: ou={unit},dc=t\nobjectClass: organizationalUnit\nou: {unit}\n\n").unwrap();
    }
    for (user, uid) in [("alice", 5001), ("bob", 5002), ("zero", 0)] {
        write!(
            ldif,
            "dn: uid={user},ou=people,dc=t\nobjectClass: account\nobjectClass: posixAccount\nobjectClass: user\n\
             uid: {user}\nuidNumber: {uid}\ngidNumber: 5000\nsAMAccountName: {user}\n\
             krbPrincipalName: {user}@ONE\nkrbPrincipalName: {user}.alias@TWO\n\n"
        )
        .unwrap();
    }
    for group in 0..MANY {
        let gid = 10_000 + group;
        let members = if group < FEW { &["alice", "bob"][..] } else { &["bob"][..] };
        write!(ldif, "dn: cn=g{group},ou=groups,dc=t\nobjectClass: device\nobjectClass: posixGroup\ncn: g{group}\ngidNumber: {gid}\n").unwrap();
        members.iter().for_each(|user| writeln!(ldif, "memberUid: {user}").unwrap());
        write!(ldif, "\ndn: cn=g{group},ou=bis,dc=t\nobjectClass: groupOfNames\nobjectClass: posixGroup\ncn: g{group}\ngidNumber: {gid}\n").unwrap();
        members.iter().for_each(|user| writeln!(ldif, "member: uid={user},ou=people,dc=t").unwrap());
        if group < FEW {
            write!(ldif, "\ndn: cn=g{group},ou=ad,dc=t\nobjectClass: groupOfNames\nobjectClass: group\ncn: g{group}\nsAMAccountName: g{group}\ngidNumber: {gid}\nmember: uid=alice,ou=people,dc=t\n").unwrap();
        }
        ldif.push('\n');
    }
    // OpenLDAP returns values in the order of their addition.
    ldif.push_str("dn: uid=carol,ou=people,dc=t\nobjectClass: account\nobjectClass: posixAccount\nuid: csmith\nuid: carol\nuidNumber: 5003\ngidNumber: 5000\n\n");
    for (group, gid, member) in [("old", 20_000, "carol"), ("new", 20_001, "csmith")] {
        write!(ldif, "dn: cn={group},ou=groups,dc=t\nobjectClass: device\nobjectClass: posixGroup\ncn: alias\ncn: {group}\ngidNumber: {gid}\nmemberUid: {member}\n\n").unwrap();
    }
    // A group without a number is none of this system.
    ldif + "dn: cn=mail,ou=ad,dc=t\nobjectClass: groupOfNames\nobjectClass: group\ncn: mail\nsAMAccountName: mail\nmember: uid=alice,ou=people,dc=t\n"
}

/// Makes an authority, and a certificate for localhost and for a client.
fn certificates(folder: &Path) {
    let openssl =
        |arguments: &str| done(Command::new("openssl").args(arguments.split(' ')).current_dir(folder));
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(&format!("req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=authority"));
    std::fs::write(folder.join("san"), "subjectAltName=DNS:localhost\n").unwrap();
    for name in ["server", "client"] {
        openssl(&format!("req {key} -keyout {name}.key -out {name}.csr -subj /CN={name}"));
        openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out {name}.pem -days 2 -extfile san"
        ));
    }
}

impl Slapd {
    /// Starts slapd with these further lines in its configuration.
    fn start(more: &str) -> Self {
        Self::start_with("dc=t", DEFINITIONS, &entries(), more)
    }

    /// Starts slapd with a tree of its own.
    fn start_with(suffix: &str, definitions: &str, entries: &str, more: &str) -> Self {
        let folder = private::temporary("orthrus-slapd-").unwrap();
        let at = |name: &str| folder.path().join(name);
        certificates(folder.path());
        std::fs::create_dir(at("db")).unwrap();
        std::fs::write(at("definitions.schema"), definitions).unwrap();
        let dir = folder.path().display();
        let conf = format!(
            "modulepath /usr/lib/ldap\nmoduleload back_mdb\ninclude /etc/ldap/schema/core.schema\n\
             include /etc/ldap/schema/cosine.schema\ninclude /etc/ldap/schema/inetorgperson.schema\ninclude {dir}/definitions.schema\npidfile {dir}/pid\n\
             TLSCACertificateFile {dir}/ca.pem\nTLSCertificateFile {dir}/server.pem\n\
             TLSCertificateKeyFile {dir}/server.key\nTLSVerifyClient try\n\
             database mdb\nsuffix {suffix}\nrootdn cn=admin,{suffix}\nrootpw open-sesame\ndirectory {dir}/db\n\
             maxsize 268435456\nindex objectClass,uid,uidNumber,gidNumber,member,krbPrincipalName eq\n{more}\n"
        );
        std::fs::write(at("slapd.conf"), conf).unwrap();
        std::fs::write(at("entries.ldif"), entries).unwrap();
        let mut add = Command::new(SLAPD);
        done(add.args(["-T", "add", "-q", "-f"]).arg(at("slapd.conf")).arg("-l").arg(at("entries.ldif")));
        let mut slapd =
            Self { child: Command::new("true").spawn().unwrap(), port: 0, secure_port: 0, folder };
        slapd.run();
        slapd
    }

    /// Starts the process, or starts it again at the same ports.
    fn run(&mut self) {
        let _ = self.child.wait();
        if self.port == 0 {
            (self.port, self.secure_port) = (free_port(), free_port());
        }
        let urls = format!(
            "ldap://127.0.0.1:{} ldaps://127.0.0.1:{} {}",
            self.port,
            self.secure_port,
            self.socket_url()
        );
        self.child = Command::new(SLAPD)
            .args(["-h", &urls, "-d", "0", "-f"])
            .arg(self.path("slapd.conf"))
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let end = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", self.secure_port)).is_err() {
            assert!(Instant::now() < end, "slapd does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn socket_url(&self) -> String {
        format!("ldapi://{}", self.path("socket").display().to_string().replace('/', "%2F"))
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    fn url(&self) -> String {
        format!("ldap://localhost:{}", self.port)
    }

    fn secure_url(&self) -> String {
        format!("ldaps://localhost:{}", self.secure_port)
    }

    /// Writes the administrator's password to a file.
    fn secret(&self) -> PathBuf {
        let secret = self.path("secret");
        std::fs::write(&secret, "open-sesame\n").unwrap();
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
        secret
    }

    /// Settings for RFC 2307 over TLS with a password.
    fn settings(&self) -> LdapSettings {
        let secret = self.secret();
        LdapSettings {
            servers: vec![self.secure_url()],
            starttls: false,
            insecure: false,
            ca: Some(self.path("ca.pem")),
            certificate: None,
            key: None,
            bind: Bind::Simple { dn: "cn=admin,dc=t".into(), secret },
            user_base: "ou=people,dc=t".into(),
            group_base: "ou=groups,dc=t".into(),
            schema: Schema::rfc2307(),
            timeout: Duration::from_secs(2),
        }
    }
}

impl Drop for Slapd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn open(settings: LdapSettings) -> LdapSource {
    LdapSource::open(settings).unwrap()
}

fn identity(source: &LdapSource, user: &str) -> Identity {
    source.identity(user).unwrap().expect("the directory has the user")
}

fn is_alice(identity: &Identity) -> bool {
    let groups: Vec<u32> = (10_000..10_000 + FEW).collect();
    (identity.uid, identity.gid, &identity.groups[..]) == (5001, 5000, &groups[..])
}

#[test]
fn users_have_all_of_their_groups_in_each_schema() {
    if !installed() {
        return;
    }
    let slapd = Slapd::start("limits * size=unlimited");
    for (schema, group_base) in [(Schema::rfc2307(), "ou=groups,dc=t"), (Schema::rfc2307bis(), "ou=bis,dc=t")]
    {
        let source = open(LdapSettings { schema, group_base: group_base.into(), ..slapd.settings() });
        assert!(is_alice(&identity(&source, "alice")));
        assert!(is_alice(&source.account(5001).unwrap().unwrap()));
        let bob = identity(&source, "bob");
        assert_eq!(bob.groups[..], (10_000..10_000 + MANY).collect::<Vec<_>>()[..], "page by page");
        for absent in ["dave", "*", "alice)(uid=*", ""] {
            assert_eq!(source.identity(absent), Ok(None), "{absent:?}");
        }
        assert_eq!((source.uid("bob"), source.user(5002)), (Ok(Some(5002)), Ok(Some("bob".into()))));
        assert_eq!((source.gid("g7"), source.group(10_007)), (Ok(Some(10_007)), Ok(Some("g7".into()))));
        assert_eq!((source.uid("g7"), source.group(7)), (Ok(None), Ok(None)));
    }
    // OpenLDAP has no matching rule for nested groups.
    let schema = Schema { members: Members::Entries, ..Schema::active_directory() };
    let source = open(LdapSettings { schema, group_base: "ou=ad,dc=t".into(), ..slapd.settings() });
    assert!(is_alice(&identity(&source, "alice")));
    assert_eq!(source.gid("mail"), Ok(None), "it has no number");
    let principal = Some("krbPrincipalName".into());
    let schema = Schema { members: Members::Entries, principal, ..Schema::active_directory() };
    let source = open(LdapSettings { schema, group_base: "ou=ad,dc=t".into(), ..slapd.settings() });
    for (principal, user) in [("alice@ONE", "alice"), ("alice@ONE", "unknown"), ("unknown@ONE", "alice")] {
        let found = source.of_principal(principal, user).unwrap().account();
        assert!(found.is_some_and(|found| is_alice(&found)), "{principal} {user}");
    }
    let failure = source.of_principal("alice@ONE", "bob").expect_err("two users");
    assert!(failure.to_string().contains("several entries match"), "{failure}");
}

#[test]
fn a_user_with_several_names_has_the_groups_of_all_of_them() {
    if !installed() {
        return;
    }
    let slapd = Slapd::start("");
    let source = open(slapd.settings());
    for name in ["carol", "csmith"] {
        assert_eq!(identity(&source, name).groups[..], [20_000, 20_001], "{name}");
    }
    assert_eq!(source.user(5003), Ok(Some("carol".into())), "the name of the entry");
    assert_eq!(source.group(20_000), Ok(Some("old".into())));
}

#[test]
fn a_principal_is_found_by_its_attribute_and_never_becomes_uid_0() {
    if !installed() {
        return;
    }
    let slapd = Slapd::start("limits * size=unlimited");
    let schema = Schema { principal: Some("krbPrincipalName".into()), ..Schema::rfc2307() };
    let accounts = Box::new(open(LdapSettings { schema, ..slapd.settings() }));
    let rules = Rules { realms: vec!["ONE".into(), "TWO".into()], ..Rules::default() };
    let mapper =
        Mapper::with_sources(rules, vec![AccountSource { name: "ldap".into(), realms: vec![], accounts }]);
    let account = |principal: &str| mapper.principal(principal, T0).unwrap().identity;
    assert!(is_alice(&account("alice@ONE").unwrap()) && is_alice(&account("alice.alias@TWO").unwrap()));
    assert!(account("alice@TWO").is_err(), "the directory gives this principal to nobody");
    assert!(account("zero@ONE").is_err());
    let steps = mapper.explain("alice@ONE").steps;
    let query = steps.iter().find(|step| step.kind == "query").unwrap();
    assert!(
        query.text.contains("(krbPrincipalName=alice@ONE)") && query.text.contains("ldaps://"),
        "{query:?}"
    );
}

#[test]
fn a_list_of_groups_that_the_server_cuts_short_is_no_answer() {
    if !installed() {
        return;
    }
    let slapd = Slapd::start("sizelimit size.prtotal=100\nsizelimit 100");
    let source = open(LdapSettings { bind: Bind::Anonymous, ..slapd.settings() });
    assert!(is_alice(&identity(&source, "alice")));
    let failure = source.identity("bob").expect_err("only some of its groups");
    assert!(failure.to_string().contains("rc=4"), "{failure}");
}

#[test]
fn connections_are_protected_and_authenticated() {
    if !installed() {
        return;
    }
    // Only these may read.
    let external =
        "authz-regexp cn=client uid=client,cn=local\nauthz-regexp gidNumber=.* uid=root,cn=local\n";
    let slapd = Slapd::start(
        "access to * by dn.exact=uid=client,cn=local read by dn.exact=uid=root,cn=local read by anonymous auth by * none",
    );
    let conf = std::fs::read_to_string(slapd.path("slapd.conf")).unwrap();
    std::fs::write(
        slapd.path("slapd.conf"),
        conf.replacen("database mdb", &format!("{external}database mdb"), 1),
    )
    .unwrap();
    let mut slapd = slapd;
    slapd.signal(Signal::SIGKILL);
    slapd.run();
    let starttls = || LdapSettings { servers: vec![slapd.url()], starttls: true, ..slapd.settings() };
    assert!(is_alice(&identity(&open(slapd.settings()), "alice")), "LDAPS and a password");
    assert!(is_alice(&identity(&open(starttls()), "alice")), "StartTLS");
    let certificate = LdapSettings {
        bind: Bind::External,
        certificate: Some(slapd.path("client.pem")),
        key: Some(slapd.path("client.key")),
        ..slapd.settings()
    };
    assert!(is_alice(&identity(&open(certificate), "alice")), "EXTERNAL by certificate");
    let local = LdapSettings { bind: Bind::External, servers: vec![slapd.socket_url()], ..slapd.settings() };
    assert!(is_alice(&identity(&open(local), "alice")), "EXTERNAL by a local socket");

    let anonymous = open(LdapSettings { bind: Bind::Anonymous, ..slapd.settings() });
    assert!(!matches!(anonymous.identity("alice"), Ok(Some(_))), "it may not read");
    std::fs::write(slapd.path("secret"), "wrong").unwrap();
    let wrong = open(LdapSettings { ..slapd.settings() });
    std::fs::write(slapd.path("secret"), "wrong").unwrap();
    assert!(wrong.identity("alice").unwrap_err().to_string().contains("rc=49"));
    std::fs::write(slapd.path("secret"), "\n").unwrap();
    assert!(wrong.identity("alice").unwrap_err().to_string().contains("is empty"));
    std::fs::write(slapd.path("secret"), "open-sesame").unwrap();
    assert!(is_alice(&identity(&wrong, "alice")), "a changed secret is read again");
    for servers in [vec![slapd.secure_url()], vec![slapd.url()]] {
        let starttls = servers[0].starts_with("ldap:");
        let system = LdapSettings { ca: None, starttls, servers, ..slapd.settings() };
        open(system).identity("alice").expect_err("an authority that the system does not know");
    }
    let other = LdapSettings {
        servers: vec![format!("ldaps://127.0.0.1:{}", slapd.secure_port)],
        ..slapd.settings()
    };
    open(other).identity("alice").expect_err("a certificate of another name");

    let refused = |settings| LdapSource::open(settings).err().unwrap();
    let plain = LdapSettings { servers: vec![slapd.url()], ..slapd.settings() };
    assert!(matches!(refused(plain.clone()), LdapConfigError::Plaintext(_)));
    assert!(is_alice(&identity(&open(LdapSettings { insecure: true, ..plain }), "alice")));
    let http = LdapSettings { servers: vec!["http://x".into()], ..slapd.settings() };
    assert!(matches!(refused(http), LdapConfigError::Url(_)));
    let shared = slapd.settings();
    std::fs::set_permissions(slapd.path("secret"), std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(refused(shared), LdapConfigError::Readable(_)));
}

#[test]
fn renewed_certificates_are_used_without_a_reload() {
    if !installed() {
        return;
    }
    let mut slapd = Slapd::start("limits * size=unlimited");
    let external = LdapSettings {
        bind: Bind::External,
        certificate: Some(slapd.path("client.pem")),
        key: Some(slapd.path("client.key")),
        ..slapd.settings()
    };
    let sources = [open(slapd.settings()), open(external)];
    assert!(sources.iter().all(|source| is_alice(&identity(source, "alice"))));
    renew(&mut slapd);
    std::fs::write(slapd.path("ca.pem"), "the file is being written").unwrap();
    sources[0].identity("alice").expect_err("an authority that is not known yet");
    renew(&mut slapd);
    assert!(sources.iter().all(|source| is_alice(&identity(source, "alice"))));
}

/// Names the file of the system's authorities, for the library.
const AUTHORITIES: &str = "SSL_CERT_FILE";

#[test]
fn a_changed_authority_of_the_system_is_used_without_a_restart() {
    let name = "a_changed_authority_of_the_system_is_used_without_a_restart";
    let Some(file) = std::env::var_os(AUTHORITIES) else {
        // In a process whose system has the authorities of the test.
        let folder = private::temporary("orthrus-authorities-").unwrap();
        let mut inner = Command::new(std::env::current_exe().unwrap());
        return done(inner.args(["--exact", name]).env(AUTHORITIES, folder.path().join("ca.pem")));
    };
    if !installed() {
        return;
    }
    let mut slapd = Slapd::start("limits * size=unlimited");
    let system = open(LdapSettings { ca: None, ..slapd.settings() });
    for _ in 0..2 {
        system.identity("alice").expect_err("an authority that the system does not know");
        std::fs::copy(slapd.path("ca.pem"), &file).unwrap();
        assert!(is_alice(&identity(&system, "alice")));
        renew(&mut slapd);
    }
}

/// Starts slapd again, with another authority and certificate.
fn renew(slapd: &mut Slapd) {
    certificates(slapd.folder.path());
    slapd.signal(Signal::SIGKILL);
    slapd.run();
}

#[test]
fn another_server_answers_for_one_that_is_stopped_or_gone() {
    if !installed() {
        return;
    }
    let (first, second) = (Slapd::start("limits * size=unlimited"), Slapd::start("limits * size=unlimited"));
    // One authority for both.
    let all =
        [first.path("ca.pem"), second.path("ca.pem")].map(|path| std::fs::read_to_string(path).unwrap());
    std::fs::write(first.path("both.pem"), all.concat()).unwrap();
    let settings = || LdapSettings {
        servers: vec![first.secure_url(), second.secure_url()],
        ca: Some(first.path("both.pem")),
        timeout: Duration::from_secs(1),
        ..first.settings()
    };
    let source = open(settings());
    assert!(is_alice(&identity(&source, "alice")));
    first.signal(Signal::SIGSTOP);
    assert!(is_alice(&identity(&source, "alice")), "the second answers");
    let began = Instant::now();
    (0..5).for_each(|_| assert!(is_alice(&identity(&source, "alice"))));
    assert!(began.elapsed() < Duration::from_secs(1), "the first is not tried again at once");
    assert!(is_alice(&identity(&open(settings()), "alice")), "nor does a new connection hang");
    first.signal(Signal::SIGCONT);
    first.signal(Signal::SIGKILL);
    assert!(is_alice(&identity(&open(settings()), "alice")));
    second.signal(Signal::SIGKILL);
    let failure = source.identity("alice").expect_err("no server is left").to_string();
    assert!(failure.contains(&first.secure_url()) && failure.contains(&second.secure_url()), "{failure}");
}

#[test]
fn known_accounts_outlive_the_directory_and_others_are_to_be_retried() {
    if !installed() {
        return;
    }
    let mut slapd = Slapd::start("limits * size=unlimited");
    let wait = Duration::from_millis(500);
    let rules =
        Rules { lookup_wait_max: wait, realms: vec!["R".into()], domain: "d".into(), ..Rules::default() };
    let expiry = rules.expiry;
    let accounts = Box::new(open(LdapSettings { timeout: Duration::from_secs(1), ..slapd.settings() }));
    let mapper =
        Mapper::with_sources(rules, vec![AccountSource { name: "ldap".into(), realms: vec![], accounts }]);
    let account = |user: &str, now| mapper.principal(&format!("{user}@R"), now);
    let known = |now| is_alice(&account("alice", now).unwrap().identity.unwrap());
    let retried = |now| matches!(account("bob", now), Err(PrincipalError::Source(_)));
    let uid = |owner: &[u8], now| {
        mapper.uid_of_owner_within(owner, now, Wait::Within(&Cell::new(wait))).expect("the wait is permitted")
    };
    let owner = |uid, now| mapper.owner_of_uid_within(uid, now, Wait::Within(&Cell::new(wait)));
    let end = Instant::now() + PATIENCE;
    while account("alice", T0).is_err() {
        assert!(Instant::now() < end, "a busy machine is slow, but not so slow");
    }
    assert_eq!(uid(b"alice@d", T0), Ok(5001));
    let mut now = T0;
    for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
        slapd.signal(signal);
        for _ in 0..3 {
            now += 2 * expiry;
            let began = Instant::now();
            assert!(known(now) && retried(now), "{signal}");
            assert_eq!(uid(b"alice@d", now), Ok(5001));
            assert_eq!(owner(5002, now).as_deref(), Some("5002"), "the number");
            assert!(began.elapsed() < 6 * wait, "{signal}: it took {:?}", began.elapsed());
        }
    }
    slapd.run();
    let end = Instant::now() + PATIENCE;
    while account("bob", now).is_err() {
        assert!(Instant::now() < end, "the directory is back");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(account("bob", now).unwrap().identity.unwrap().groups.len(), MANY as usize);
}

/// The tree, the classes and the nesting of FreeIPA, loaded from files.
#[test]
fn users_of_freeipa_have_all_principals_and_the_groups_of_their_groups() {
    if !installed() {
        return;
    }
    let [definitions, entries] = [include_str!("freeipa/ipa.schema"), include_str!("freeipa/entries.ldif")];
    let slapd = Slapd::start_with("dc=ipa,dc=test", definitions, entries, "");
    let settings = |user_base: &str| LdapSettings {
        bind: Bind::Simple { dn: "cn=admin,dc=ipa,dc=test".into(), secret: slapd.secret() },
        user_base: user_base.into(),
        group_base: "cn=groups,cn=accounts,dc=ipa,dc=test".into(),
        schema: "ipa".parse().unwrap(),
        ..slapd.settings()
    };
    let source = open(settings("cn=users,cn=accounts,dc=ipa,dc=test"));
    let alice = Identity { uid: 51001, gid: 51001, groups: [52001, 52002, 52003].into() };
    for principal in ["alice@IPA.TEST", "al@IPA.TEST"] {
        let found = source.of_principal(principal, "whoever").unwrap();
        assert_eq!(found, AccountAnswer::Account(alice.clone()), "{principal}");
    }
    let bob = source.of_principal("bob@IPA.TEST", "bob").unwrap().account().unwrap();
    assert_eq!((bob.uid, &bob.groups[..]), (51002, &[52002, 52003][..]), "a circle of groups");
    for absent in ["former@IPA.TEST", "host/node1.ipa.test@IPA.TEST", "alice@OTHER", "*"] {
        assert_eq!(source.of_principal(absent, "alice"), Ok(AccountAnswer::Absent), "{absent}");
    }
    assert_eq!((source.uid("alice"), source.user(51002)), (Ok(Some(51001)), Ok(Some("bob".into()))));
    assert_eq!((source.gid("staff"), source.group(52003)), (Ok(Some(52001)), Ok(Some("everybody".into()))));
    assert_eq!(source.gid("umbrella"), Ok(None), "it has no number");
    // Above the users there are removed ones, too.
    let whole = open(settings("dc=ipa,dc=test"));
    assert!(whole.identity("alice").unwrap_err().to_string().contains("several entries match"));
}
