//! Users, groups and keys of a real Active Directory domain: Samba's domain controller.

use client::{Client, Filesystem, Flavor, Options, Security};
use e2e::{Ended, Serve, Server, TestDomain, in_domain, orthrus, run};
use gss::Credential;
use nix::sys::signal::Signal;
use nix::unistd::{Gid, chown};
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// One idea about the domain.
type DomainStep = fn(&mut TestDomain);

/// The groups of bob.
const GROUPS: u32 = 60;

/// One controller for all of these: a domain takes 20 seconds to set up.
#[test]
fn users_of_an_active_directory_domain_are_served() {
    in_domain(|domain| {
        let begin = Instant::now();
        fill(domain);
        let steps: [(&str, DomainStep); 11] = [
            ("a keytab without AES", a_keytab_without_aes_keys_is_refused_with_the_remedy),
            ("samba's certificate", the_certificate_that_samba_makes_is_refused_with_the_remedy),
            ("directory", the_directory_is_asked_over_tls_with_a_password),
            ("flavors", a_user_with_a_real_pac_owns_its_files_in_each_flavor),
            ("groups", groups_count_however_deep_and_with_the_primary_one),
            ("no number", a_user_without_a_number_is_nobody_and_the_log_has_the_reason_once),
            ("disabled", a_disabled_user_loses_its_account_while_its_ticket_lasts),
            ("principal", a_user_is_found_by_its_principal_name_and_by_its_account_name),
            ("id", an_identity_is_explained_as_json),
            ("doctor", the_doctor_raises_no_alarm),
            ("rollover", tickets_of_both_keys_fit_while_the_password_is_replaced),
        ];
        for (name, step) in steps {
            eprintln!("{:>6} ms: {name}", begin.elapsed().as_millis());
            step(domain);
        }
        eprintln!("{:>6} ms: done", begin.elapsed().as_millis());
    });
}

/// Makes users, groups and the account of the NFS server.
fn fill(domain: &TestDomain) {
    let mut ldif = format!(
        "dn: CN=Domain Users,CN=Users,{}\nchangetype: modify\nadd: gidNumber\ngidNumber: 5000\n\n",
        TestDomain::BASE
    );
    let principal = |name: &str| format!("userPrincipalName: {name}@{}\n", TestDomain::REALM);
    for (name, uid) in [("alice", 5001), ("bob", 5002), ("dora", 5004)] {
        ldif += &TestDomain::user(name, &format!("uidNumber: {uid}\ngidNumber: 5000\n{}", principal(name)));
    }
    ldif += &TestDomain::user("carol", &principal("carol"));
    ldif +=
        &TestDomain::user("erin", &format!("uidNumber: 5005\ngidNumber: 5000\n{}", principal("erin.smith")));
    // Neither a gidNumber nor a principal of its own.
    ldif += &TestDomain::user("frank", "uidNumber: 5006\n");
    ldif += &TestDomain::user("gina", "uidNumber: 5007\nuserPrincipalName: gina@example.com\n");
    ldif += &TestDomain::user("orthrus", "");
    ldif += &TestDomain::group("staff", Some(6000), &["alice"]);
    ldif += &TestDomain::group("outer", Some(6001), &["staff"]);
    ldif += &TestDomain::group("link", None, &["outer"]);
    ldif += &TestDomain::group("top", Some(6002), &["link"]);
    ldif += &TestDomain::group("everybody", Some(6003), &["Domain Users"]);
    (0..GROUPS).for_each(|i| ldif += &TestDomain::group(&format!("g{i}"), Some(7000 + i), &["bob"]));
    domain.change(&ldif);
    let secret = domain.path("ldap.secret");
    fs::write(&secret, TestDomain::password("orthrus")).expect("the folder is ours");
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).expect("it is ours");
    fs::create_dir(domain.path("export")).expect("a new name");
    fs::set_permissions(domain.path("export"), Permissions::from_mode(0o777)).expect("it is ours");
    let commands = block("identities.md", "### Active Directory", 1);
    let password = TestDomain::password("administrator");
    let commands = replaced(&commands, &[("ldapmodify -x -W", &format!("ldapmodify -x -w {password}"))]);
    domain.shell(&format!("export LDAPTLS_REQCERT=never\n{commands}"));
}

/// Returns the indented block of this number below a heading of a page, without its indentation.
fn block(page: &str, heading: &str, number: usize) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page);
    let page = fs::read_to_string(page).expect("the page");
    let section = page.split(&format!("\n{heading}\n")).nth(1).expect("the heading");
    let section = section.split("\n#").next().unwrap_or_default();
    let blocks = section.split("\n\n").filter(|part| part.starts_with("    "));
    let block = blocks.map(|part| part.lines().map(|line| line.trim_start_matches("    ")));
    block.map(|lines| lines.collect::<Vec<_>>().join("\n") + "\n").nth(number).expect("the block")
}

/// Replaces texts that each occur once.
fn replaced(text: &str, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(text.to_owned(), |text, (from, to)| {
        assert_eq!(text.matches(from).count(), 1, "{from:?} in {text}");
        text.replace(from, to)
    })
}

/// Returns the source of the documentation with the paths of this test.
fn source(domain: &TestDomain) -> String {
    let [authority, secret] =
        [domain.authority(), domain.path("ldap.secret")].map(|path| path.display().to_string());
    let text = block("identities.md", "### Active Directory", 0);
    replaced(&text, &[("/etc/ssl/ad-ca.pem", &authority), ("/etc/orthrus/ldap.secret", &secret)])
}

/// Writes a configuration with this source and these settings of identities.
fn config(domain: &TestDomain, settings: &str, source: &str) -> PathBuf {
    let text = format!(
        "keytab = {:?}\nrealms = [\"{}\"]\ndomain = \"ad.example.org\"\ngrace_time = 0\n{settings}\n{source}\n\
         [[export]]\npath = {:?}\npseudo = \"/export\"\nsecure = false\n\
         sec = [\"krb5p\", \"krb5i\", \"krb5\"]\n",
        domain.path("krb5.keytab"),
        TestDomain::REALM,
        domain.path("export"),
    );
    let config = domain.path("orthrus.toml");
    fs::write(&config, text).expect("the folder is ours");
    config
}

/// Starts a server as the documentation configures it.
fn serve(domain: &TestDomain) -> Server {
    let config = config(domain, "", &source(domain));
    Serve::new(domain.path("state")).arg("--config").arg(config).start()
}

fn options(server: &Server, flavor: Flavor, ticket: &Credential) -> Options {
    Options::new("127.0.0.1", Security::of(flavor, TestDomain::SERVER, ticket.clone())).port(server.port())
}

fn connect(server: &Server, ticket: &Credential) -> Result<(), client::Error> {
    Client::connect(options(server, Flavor::Krb5p, ticket)).map(drop)
}

/// Explains a principal of the realm by the configuration alone.
fn id(domain: &TestDomain, settings: &str, source: &str, user: &str) -> Ended {
    let config = config(domain, settings, source);
    let principal = format!("{user}@{}", TestDomain::REALM);
    run(orthrus(["id", &principal, "--offline", "--json", "--config"]).arg(config))
}

/// The identity that [`id`] finds.
fn identity(domain: &TestDomain, source: &str, user: &str) -> Value {
    let ended = id(domain, "", source, user);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
    assert!(ended.status.success(), "{ended:?}");
    report["identity"].clone()
}

fn a_keytab_without_aes_keys_is_refused_with_the_remedy(domain: &mut TestDomain) {
    // RFC 8429: RC4 is deprecated. It is the controller's default for accounts of services.
    let types = |change: &str| {
        domain.change(&format!(
            "dn: CN=nfs-server,CN=Users,{}\nchangetype: modify\n{change}\n",
            TestDomain::BASE
        ));
    };
    types("delete: msDS-SupportedEncryptionTypes");
    let old = domain.path("rc4.keytab");
    domain.shell("samba-tool domain exportkeytab rc4.keytab --principal=nfs/server.ad.example.org");
    let server = serve(domain);
    let ticket = domain.kinit("frank", "frank");
    connect(&server, &ticket).expect_err("the ticket is encrypted with RC4");
    server.wait_for_log("found in keytab but not with enctype rc4-hmac");
    let mut doctor = orthrus(["doctor"]);
    doctor.arg(format!("{}:/export", TestDomain::SERVER));
    doctor.env("KRB5CCNAME", format!("FILE:{}", domain.path("ticket-frank").display()));
    let ended = run(doctor.args(["--port", &server.port().to_string()]));
    let cause = "The KDC encrypts tickets for nfs/server.ad.example.org with the older type 23";
    assert!(ended.stdout.contains(cause), "{}", ended.stdout);
    types("add: msDS-SupportedEncryptionTypes\nmsDS-SupportedEncryptionTypes: 24");
    let mut serve = orthrus(["serve", "--state-dir"]);
    let refused =
        run(serve.arg(domain.path("no-state")).arg("--keytab").arg(&old).arg(domain.path("export")));
    assert!(!refused.status.success(), "{refused:?}");
    for said in ["of an AES type", "older encryption types 23", "msDS-SupportedEncryptionTypes"] {
        assert!(refused.stderr.contains(said), "{said}: {}", refused.stderr);
    }
}

fn the_certificate_that_samba_makes_is_refused_with_the_remedy(domain: &mut TestDomain) {
    // RFC 9525 section 6.3: the subject's common name does not identify a server.
    let refused = id(domain, "", &source(domain), "alice");
    assert!(!refused.status.success(), "{refused:?}");
    let said = format!("{}{}", refused.stdout, refused.stderr);
    assert!(said.contains("subjectAltName") && said.contains("ldaps://dc1.ad.example.org"), "{said}");
    domain.certify();
}

fn the_directory_is_asked_over_tls_with_a_password(domain: &mut TestDomain) {
    let source = source(domain);
    let (url, secret) = ("servers = [\"ldaps://dc1.ad.example.org\"]", domain.path("ldap.secret"));
    let plain = |more: &str| {
        replaced(&source, &[(url, &format!("servers = [\"ldap://dc1.ad.example.org\"]\n{more}"))])
    };
    for protected in [&source, &plain("starttls = true")] {
        assert_eq!(identity(domain, protected, "alice")["uid"], 5001);
    }
    let refused = |source: &str, remedy: &str| {
        let ended = id(domain, "", source, "alice");
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert!(!ended.status.success() && said.contains(remedy), "{remedy}: {said}");
    };
    refused(&plain(""), "use ldaps:// or starttls = true");
    // Without TLS the controller refuses the password: strongerAuthRequired (RFC 4511 appendix A).
    refused(&plain("insecure = true"), "the server demands TLS: use ldaps:// or starttls = true");
    let lines = source.lines().filter(|line| !line.starts_with("bind_dn") && !line.starts_with("secret"));
    refused(&lines.collect::<Vec<_>>().join("\n"), "the server demands bind_dn and secret");
    fs::write(&secret, "wrong").expect("it is ours");
    refused(&source, "bind_dn or the password in secret is wrong");
    fs::write(&secret, TestDomain::password("orthrus")).expect("it is ours");
}

fn a_user_with_a_real_pac_owns_its_files_in_each_flavor(domain: &mut TestDomain) {
    let server = serve(domain);
    for (user, uid) in [("alice", 5001), ("bob", 5002)] {
        let ticket = domain.kinit(user, user);
        for flavor in [Flavor::Krb5, Flavor::Krb5i, Flavor::Krb5p] {
            let mut files =
                Filesystem::mount(options(&server, flavor, &ticket), "/export").expect("exported");
            let name = format!("{user}-{flavor}");
            files.write_file(&name, b"mine").expect("all users may write");
            assert_eq!(files.read_file(&name).expect("it is there"), b"mine");
            let file = fs::metadata(domain.path("export").join(&name)).expect("it is there");
            assert_eq!((file.uid(), file.gid()), (uid, 5000), "{name}");
            let (_, attributes) = files.lookup(&name).expect("it is there");
            let owner = attributes.values().expect("attributes").owner;
            let name = format!("{user}@ad.example.org");
            assert_eq!(owner.as_deref().map(<[u8]>::to_vec), Some(name.into_bytes()));
        }
    }
    // RFC 4120 section 5.2.6: the PAC of bob's groups is in the ticket.
    let size = |user: &str| fs::metadata(domain.path(&format!("ticket-{user}"))).expect("a cache").len();
    assert!(size("bob") > size("alice") + u64::from(GROUPS) * 4, "{} and {}", size("bob"), size("alice"));
}

fn groups_count_however_deep_and_with_the_primary_one(domain: &mut TestDomain) {
    let source = source(domain);
    assert_eq!(identity(domain, &source, "alice")["groups"], json!([5000, 6000, 6001, 6002, 6003]));
    let expected: Vec<u32> = [5000, 6003].into_iter().chain(7000..7000 + GROUPS).collect();
    assert_eq!(identity(domain, &source, "bob")["groups"], json!(expected));
    let frank = identity(domain, &source, "frank");
    assert_eq!((&frank["uid"], &frank["gid"]), (&5006.into(), &5000.into()), "that of Domain Users");
    let (server, ticket) = (serve(domain), domain.kinit("alice", "alice"));
    let mut files = Filesystem::mount(options(&server, Flavor::Krb5p, &ticket), "/export").expect("exported");
    for (group, readable) in [(6000, true), (6001, true), (6002, true), (6003, true), (7000, false)] {
        let file = domain.path("export").join(format!("of-{group}"));
        fs::write(&file, b"for a group").expect("it is ours");
        chown(&file, None, Some(Gid::from_raw(group))).expect("root may");
        fs::set_permissions(&file, Permissions::from_mode(0o040)).expect("root may");
        assert_eq!(files.read_file(&format!("of-{group}")).is_ok(), readable, "{group}");
    }
}

fn a_user_without_a_number_is_nobody_and_the_log_has_the_reason_once(domain: &mut TestDomain) {
    let ticket = domain.kinit("carol", "carol");
    let server = serve(domain);
    (0..3).for_each(|_| connect(&server, &ticket).expect("nobody may connect"));
    let reason = format!("CN=carol,CN=Users,{} has no uidNumber", TestDomain::BASE);
    let line =
        format!("carol@{} acts as nobody: the account \"carol\" cannot be used: {reason}", TestDomain::REALM);
    server.wait_for_log(&line);
    assert_eq!(server.log().matches("acts as nobody").count(), 1, "{}", server.log());
    drop(server);
    let refusing = config(domain, "identity.unknown = \"refused\"", &source(domain));
    let server = Serve::new(domain.path("state")).arg("--config").arg(refusing).start();
    connect(&server, &ticket).expect_err("the context is refused");
    server.wait_for_log(&reason);
}

fn a_disabled_user_loses_its_account_while_its_ticket_lasts(domain: &mut TestDomain) {
    let ticket = domain.kinit("dora", "dora");
    let server = serve(domain);
    let private = domain.path("export").join("of-dora");
    fs::write(&private, b"private").expect("it is ours");
    chown(&private, Some(nix::unistd::Uid::from_raw(5004)), None).expect("root may");
    fs::set_permissions(&private, Permissions::from_mode(0o400)).expect("root may");
    let mut files = Filesystem::mount(options(&server, Flavor::Krb5p, &ticket), "/export").expect("exported");
    files.read_file("of-dora").expect("it is the user's");
    domain.shell("samba-tool user disable dora");
    server.signal(Signal::SIGHUP);
    server.wait_for_log(&format!("CN=dora,CN=Users,{} is disabled (userAccountControl)", TestDomain::BASE));
    let end = Instant::now() + Duration::from_secs(20);
    while files.read_file("of-dora").is_ok() {
        assert!(Instant::now() < end, "the live context keeps the account: {}", server.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    connect(&server, &ticket).expect("the ticket lasts, and nobody may connect");
}

fn a_user_is_found_by_its_principal_name_and_by_its_account_name(domain: &mut TestDomain) {
    let server = serve(domain);
    for principal in ["erin", "erin.smith", "ERIN"] {
        let ticket = domain.kinit(principal, "erin");
        let mut files =
            Filesystem::mount(options(&server, Flavor::Krb5p, &ticket), "/export").expect("exported");
        files.write_file(principal, b"mine").expect("all users may write");
        let file = fs::metadata(domain.path("export").join(principal)).expect("it is there");
        assert_eq!(file.uid(), 5005, "{principal}: {}", server.log());
    }
    // Without `principal`, only the name of the account counts.
    let by_name = replaced(&source(domain), &[("principal = \"userPrincipalName\"\n", "")]);
    assert_eq!(identity(domain, &by_name, "erin")["uid"], 5005);
    assert!(!id(domain, "", &by_name, "erin.smith").status.success());
    // A suffix that is no realm, as `kinit -E` without canonicalization names it.
    let rules = r"identity.rules = ['RULE:[1:$1](.*@example\.com)s/@.*//', 'DEFAULT']";
    let gina = id(domain, rules, &source(domain), r"gina\@example.com");
    assert!(gina.stdout.contains("5007"), "{gina:?}");
    let refused = id(domain, "", &source(domain), r"gina\@example.com");
    assert!(refused.stderr.contains("no account can have such a name"), "{refused:?}");
}

fn an_identity_is_explained_as_json(domain: &mut TestDomain) {
    let ended = id(domain, "", &source(domain), "alice");
    let report: Value = serde_json::from_str(&ended.stdout).expect("it is JSON");
    let kinds = ["realm", "rule", "source", "query", "answer"];
    let steps = report["steps"].as_array().expect("a list");
    assert_eq!(steps.iter().map(|step| step["kind"].as_str().expect("text")).collect::<Vec<_>>(), kinds);
    let query = format!(
        "(&(objectClass=user)(|(userPrincipalName=alice@{})(sAMAccountName=alice))) below {:?} at \
         ldaps://dc1.ad.example.org",
        TestDomain::REALM,
        TestDomain::BASE
    );
    assert_eq!(steps[3]["text"], query);
    assert_eq!(steps[4]["text"], "uid 5001, gid 5000, 5 groups");
    assert_eq!(report["exports"]["/export"]["uid"], 5001);
    let carol = id(domain, "", &source(domain), "carol");
    assert_eq!(carol.status.code(), Some(1));
    assert!(carol.stdout.contains("has no uidNumber"), "{carol:?}");
}

fn the_doctor_raises_no_alarm(domain: &mut TestDomain) {
    let server = serve(domain);
    domain.kinit("alice", "alice");
    domain.shell(&format!(
        "mkdir -p root/etc root/proc\necho '[General]\nDomain = ad.example.org' >root/etc/idmapd.conf\n\
         cp krb5.conf root/etc/krb5.conf\nsed -i '1i listen = \"{}\"' orthrus.toml",
        server.address()
    ));
    let examine = || {
        let mut doctor = orthrus(["doctor", "--server", "--json", "--host", TestDomain::SERVER, "--root"]);
        doctor.arg(domain.path("root")).arg("--config").arg(domain.path("orthrus.toml"));
        let ended = run(doctor.args(["--user", &format!("alice@{}", TestDomain::REALM)]));
        let report: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
        assert_eq!((&report["status"], &report["findings"]), (&json!(0), &json!([])), "{}", ended.stdout);
        let state = |name: &str| {
            let checks = report["checks"].as_array().expect("a list");
            checks.iter().find(|check| check["check"] == name).expect("a check").clone()
        };
        ["keys", "machine", "directory", "account"].map(state)
    };
    let [keys, _, directory, account] = examine();
    assert_eq!(keys["state"], "skipped");
    assert!(keys["note"].as_str().is_some_and(|note| note.contains("Active Directory")), "{keys}");
    assert_eq!((&directory["state"], &account["state"]), (&json!("passed"), &json!("passed")));
    // The controller is not mistaken for that of another realm, nor another one's for it.
    let other = "sed s/AD.EXAMPLE.ORG/OTHER.EXAMPLE.ORG/ krb5.conf >other.conf";
    domain.shell(other);
    let mut doctor = orthrus(["doctor", "--server", "--host", TestDomain::SERVER, "--config"]);
    doctor.arg(domain.path("orthrus.toml")).env("KRB5_CONFIG", domain.path("other.conf"));
    let wrong = run(&mut doctor);
    assert!(wrong.stdout.contains("does not serve the realm OTHER.EXAMPLE.ORG"), "{wrong:?}");
    a_client_raises_no_alarm(domain, &server);
    // With the key of the account itself, the server's key is compared.
    domain.shell("samba-tool domain exportkeytab krb5.keytab --principal=nfs-server");
    let [keys, machine, ..] = examine();
    assert_eq!((&keys["state"], &machine["state"]), (&json!("passed"), &json!("passed")), "{keys} {machine}");
}

/// A member of the domain, with the key of its computer account.
fn a_client_raises_no_alarm(domain: &TestDomain, server: &Server) {
    domain.change(&format!(
        "dn: CN=client,CN=Computers,{}\nchangetype: add\nobjectClass: computer\n\
         sAMAccountName: client$\nuserAccountControl: 4096\nmsDS-SupportedEncryptionTypes: 24\n{}\n",
        TestDomain::BASE,
        TestDomain::new_password("client")
    ));
    domain.shell(
        "samba-tool domain exportkeytab root/etc/krb5.keytab --principal='client$'\n\
         mkdir -p root/proc/1 root/tmp\necho rpc.gssd >root/proc/1/comm\n\
         printf /usr/sbin/rpc.gssd >root/proc/1/cmdline\n\
         printf 'nfsv4 1 0 - Live 0x0\nrpcsec_gss_krb5 1 0 - Live 0x0\n' >root/proc/modules\n\
         mkdir -p root/proc/self root/proc/sys/kernel\necho 6.12.9-amd64 >root/proc/sys/kernel/osrelease\n\
         echo 'rpc_pipefs /run/rpc_pipefs rpc_pipefs rw 0 0' >root/proc/self/mounts\n\
         cp ticket-alice root/tmp/krb5cc_0",
    );
    let mut doctor = orthrus(["doctor", "--json", "--root"]);
    doctor.arg(domain.path("root")).arg(format!("{}:/export", TestDomain::SERVER));
    doctor.env("KRB5CCNAME", format!("FILE:{}", domain.path("root/tmp/krb5cc_0").display()));
    let ended = run(doctor.args(["--port", &server.port().to_string()]));
    let report: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
    assert_eq!((&report["status"], &report["findings"]), (&json!(0), &json!([])), "{}", ended.stdout);
}

fn tickets_of_both_keys_fit_while_the_password_is_replaced(domain: &mut TestDomain) {
    let server = serve(domain);
    let [old, new] = ["alice", "bob"].map(|user| domain.kinit(user, user));
    connect(&server, &old).expect("the key fits");
    let commands = block("keytabs.md", "### Active Directory", 0);
    let [password, export] = commands.lines().collect::<Vec<_>>()[..] else { panic!("{commands}") };
    let versions = || {
        let entries = gss::keytab_entries(&domain.path("krb5.keytab")).expect("a keytab");
        let ours = entries.iter().filter(|entry| entry.components[0] == "nfs");
        let mut versions: Vec<u32> = ours.map(|entry| entry.kvno).collect();
        versions.dedup();
        versions
    };
    let before = versions();
    domain.shell(password);
    connect(&server, &new).expect_err("the server has the old key only");
    server.wait_for_log("the ticket does not fit a key of the keytab");
    domain.shell(export);
    assert_eq!(versions(), [before[0], before[0] + 1]);
    connect(&server, &new).expect("the new version fits");
    connect(&server, &old).expect("the old version is still there");
}
