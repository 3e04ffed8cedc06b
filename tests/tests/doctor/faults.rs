//! The table of faults: a name, the injection, and the finding that has to come first.

use crate::clinic::{Patient, mountinfo, uid};
use crate::slapd::EmptyDirectory;
use e2e::{Serve, is_root};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The finding that has to come first.
pub(crate) struct ExpectedFinding {
    pub(crate) check: &'static str,
    /// Whether it prevents the mount: an error, and not a warning.
    pub(crate) prevents: bool,
    /// Words of the cause.
    pub(crate) words: &'static str,
}

/// Changes a healthy machine; the error is the reason why that is not possible here.
type Inject = fn(&mut Patient<'_>) -> Result<(), String>;

/// A fault, its injection, and the finding that it has to raise.
pub(crate) struct InjectedFault {
    pub(crate) name: &'static str,
    pub(crate) server: bool,
    pub(crate) inject: Inject,
    pub(crate) expected: ExpectedFinding,
}

const fn client(
    name: &'static str,
    check: &'static str,
    words: &'static str,
    inject: Inject,
) -> InjectedFault {
    InjectedFault { name, server: false, inject, expected: ExpectedFinding { check, prevents: true, words } }
}

const fn warns(
    name: &'static str,
    check: &'static str,
    words: &'static str,
    inject: Inject,
) -> InjectedFault {
    InjectedFault { name, server: false, inject, expected: ExpectedFinding { check, prevents: false, words } }
}

const fn server(
    name: &'static str,
    check: &'static str,
    words: &'static str,
    inject: Inject,
) -> InjectedFault {
    InjectedFault { name, server: true, inject, expected: ExpectedFinding { check, prevents: true, words } }
}

/// All faults in the order of the checks.
pub(crate) const FAULTS: &[InjectedFault] = &[
    client("the name is unknown", "names", "cannot be resolved", |p| {
        p.host = "nowhere.invalid".into();
        Ok(())
    }),
    client("an address without a name", "names", "has no name", |p| {
        p.named("127.0.0.1", "\n127.0.0.9 other.test")?;
        fs::write(p.path("hosts"), "127.0.0.9 other.test\n").map_err(|error| error.to_string())
    }),
    client("nothing listens", "port", "Nothing listens", |p| {
        p.port = free_port();
        Ok(())
    }),
    client("a server that is silent", "versions", "does not answer calls", |p| {
        p.port = listen(p, |_| Vec::new());
        Ok(())
    }),
    client("a web server", "versions", "no NFS server", |p| {
        p.port = listen(p, |_| b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec());
        Ok(())
    }),
    client("a server that closes connections", "versions", "closes the connection", |p| {
        let socket = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        p.port = socket.local_addr().map_err(|error| error.to_string())?.port();
        std::thread::spawn(move || {
            for mut stream in socket.incoming().flatten() {
                // Unread bytes would reset the connection.
                let _ = stream.read(&mut [0; 4096]);
            }
        });
        Ok(())
    }),
    client("NFSv3 only", "versions", "NFSv3 only", |p| {
        p.port = listen(p, third_version_only);
        Ok(())
    }),
    client("an export that is not there", "flavors", "no export /absent", |p| {
        p.export = "/absent".into();
        Ok(())
    }),
    client("an address that no export admits", "flavors", "admits this machine to no export", |p| {
        let text = crate::clinic::configuration(p.clinic.world, 0, "");
        let text = text.replace("secure = false", "secure = false\nclients = [\"192.0.2.0/24\"]");
        p.write("server.toml", text);
        let server = Serve::new(p.path("state")).arg("--config").arg(p.path("server.toml")).start();
        p.port = server.port();
        p.keep.push(Box::new(server));
        Ok(())
    }),
    client("a flavor that is not offered", "flavors", "does not offer sec=krb5 for /private", |p| {
        (p.export, p.flavor) = ("/private".into(), Some("krb5"));
        Ok(())
    }),
    client("no krb5.conf", "krb5-conf", "cannot be read", |p| {
        p.remove("etc/krb5.conf");
        Ok(())
    }),
    client("a krb5.conf that is malformed", "krb5-conf", "no relation", |p| {
        p.krb5_conf("[realms]", "[realms]\nthis is no relation\n");
        Ok(())
    }),
    client("no default realm", "krb5-conf", "no default_realm", |p| {
        p.krb5_conf("default_realm = ORTHRUS.TEST", "");
        Ok(())
    }),
    client("no KDC in krb5.conf", "krb5-conf", "names no KDC", |p| {
        let kdc = format!("kdc = {}", p.clinic.world.realm.kdc());
        p.krb5_conf(&kdc, "");
        Ok(())
    }),
    client("encryption types without AES", "krb5-conf", "no AES", |p| {
        p.krb5_conf("permitted_enctypes = ", "permitted_enctypes = arcfour-hmac\n  ignored = ");
        Ok(())
    }),
    client("the KDC is down", "kdc", "connection refused", |p| {
        set_kdc(p, &[free_port()]);
        Ok(())
    }),
    client("the KDC is silent", "kdc", "no answer within", |p| {
        let port = listen(p, |_| Vec::new());
        set_kdc(p, &[port]);
        Ok(())
    }),
    client("the KDC's name is unknown", "kdc", "cannot be resolved", |p| {
        let kdc = format!("kdc = {}", p.clinic.world.realm.kdc());
        p.krb5_conf(&kdc, "kdc = kdc.nowhere.invalid");
        Ok(())
    }),
    warns("one of two KDCs is down", "kdc", "try another one", |p| {
        set_kdc(p, &[p.clinic.world.realm.kdc().port(), free_port()]);
        Ok(())
    }),
    warns("a KDC without TCP", "kdc", "over UDP and not over TCP", |p| {
        let port = kdc_over_udp(p)?;
        set_kdc(p, &[port]);
        p.krb5_conf("udp_preference_limit = 1", "udp_preference_limit = 65000");
        Ok(())
    }),
    client("a KDC of another realm", "kdc", "does not serve the realm WRONG.TEST", |p| {
        p.krb5_conf("ORTHRUS.TEST", "WRONG.TEST");
        Ok(())
    }),
    client("the KDC's clock is ahead", "clock", "ahead of that of this machine", |p| {
        let port = kdc_of_tomorrow(p)?;
        set_kdc(p, &[port]);
        Ok(())
    }),
    client("a realm without KDC", "realm", "realm OTHER.TEST, and names no KDC", |p| {
        p.krb5_conf("localhost = ORTHRUS.TEST", "localhost = OTHER.TEST");
        Ok(())
    }),
    client("no room for the machine's tickets", "room", "No room is left", |p| {
        p.write("proc/4242/cmdline", "/usr/sbin/rpc.gssd\0-d\0/full:/tmp\0");
        p.full("full")
    }),
    client("no room for copies of tickets", "room", "No room is left", |p| {
        p.variables.insert("TMPDIR", p.path("full").into());
        p.full("full")
    }),
    client("no ticket", "ticket", "has no ticket", |p| {
        p.remove(&format!("tmp/krb5cc_{}", uid()));
        Ok(())
    }),
    client("a ticket that has expired", "ticket", "expired", |p| {
        let cache = p.path(&format!("tmp/krb5cc_{}", uid()));
        kinit(p, &cache, "1s")?;
        std::thread::sleep(Duration::from_millis(2100));
        Ok(())
    }),
    warns("a ticket that expires soon", "ticket", "expires in", |p| {
        let cache = p.path(&format!("tmp/krb5cc_{}", uid()));
        kinit(p, &cache, "60s")
    }),
    client("a damaged cache", "ticket", "cannot be read", |p| {
        p.write(&format!("tmp/krb5cc_{}", uid()), b"\x05\x04garbage");
        Ok(())
    }),
    client("a ticket where rpc.gssd does not look", "caches", "rpc.gssd does not find", |p| {
        let name = format!("tmp/krb5cc_{}", uid());
        p.copy(&p.path(&name), "home/krb5cc_own");
        p.ticket_at("home/krb5cc_own");
        Ok(())
    }),
    client("a cache that belongs to another user", "caches", "belongs to the user ID 2", |p| {
        let cache = p.path(&format!("tmp/krb5cc_{}", uid()));
        if !is_root() {
            return Err("only root can give a file away".to_owned());
        }
        std::os::unix::fs::chown(cache, Some(2), None).map_err(|error| error.to_string())
    }),
    warns("a cache that others can read", "caches", "Other users", |p| {
        mode(&p.path(&format!("tmp/krb5cc_{}", uid())), 0o644)
    }),
    client("no keytab", "keytab", "There is no keytab", |p| {
        p.remove("etc/krb5.keytab");
        Ok(())
    }),
    client("a damaged keytab", "keytab", "damaged", |p| {
        p.write("etc/krb5.keytab", b"\x05\x02\0\0\0\x10ab");
        Ok(())
    }),
    client("a keytab of other principals", "keytab", "no key root/, nfs/ or host/", |p| {
        p.copy(&p.clinic.world.realm.users_keytab(), "etc/krb5.keytab");
        Ok(())
    }),
    client("a keytab without AES", "keytab", "no AES key", |p| {
        keytab_of(p, "nfs/weak.test", "-e arcfour-hmac:normal")
    }),
    warns("a keytab that others can read", "keytab", "Other users", |p| {
        mode(&p.path("etc/krb5.keytab"), 0o644)
    }),
    client("a keytab of an old key version", "keys", "but the KDC has version", |p| {
        keytab_of(p, "nfs/old.test", "")?;
        kadmin(p, "cpw -randkey nfs/old.test\n")
    }),
    client("a keytab with another key", "keys", "not the one that the KDC has", |p| {
        let damaged = damaged_keys(&fs::read(p.path("etc/krb5.keytab")).map_err(|error| error.to_string())?);
        p.write("etc/krb5.keytab", damaged);
        Ok(())
    }),
    client("a keytab of a principal that is gone", "keys", "The KDC has no principal", |p| {
        keytab_of(p, "nfs/gone.test", "")?;
        kadmin(p, "delprinc -force nfs/gone.test\n")
    }),
    client("no principal of the server", "service", "The KDC has no principal nfs/other.test", |p| {
        p.named("other.test", "other.test")
    }),
    client("rdns", "service", "rdns is on", |p| {
        kadmin(p, "addprinc -randkey nfs/alias.test\n")?;
        p.krb5_conf("dns_canonicalize_hostname = false", "dns_canonicalize_hostname = true");
        p.krb5_conf("rdns = false", "rdns = true");
        p.named("alias.test", "real.test alias.test")
    }),
    client("the server's clock is behind", "machine", "The clock of the server", |p| {
        let clock = shifted_clock(p)?;
        let server = p.clinic.world.server().arg("--domain").arg("orthrus.test");
        let server = server.env("LD_PRELOAD", clock).env("CLOCK_SHIFT", "-4000").start();
        p.port = server.port();
        p.keep.push(Box::new(server));
        Ok(())
    }),
    client("the server's keytab has another key", "machine", "The keytab of the server", |p| {
        let realm = &p.clinic.world.realm;
        let keys = damaged_keys(&fs::read(realm.server_keytab()).map_err(|error| error.to_string())?);
        p.write("server.keytab", keys);
        let serve = Serve::new(p.path("state")).arg("--keytab").arg(p.path("server.keytab"));
        let server = serve.arg(p.clinic.world.export()).start();
        p.port = server.port();
        p.keep.push(Box::new(server));
        Ok(())
    }),
    warns("no domain of owners", "owners", "has no domain of owners", |p| {
        p.remove("etc/idmapd.conf");
        nameless(p)
    }),
    client("another domain of owners", "owners", "The domain of owners is orthrus.test", |p| {
        p.write("etc/idmapd.conf", "[General]\nDomain = elsewhere.test\n");
        Ok(())
    }),
    warns("an owner without a local user", "owners", "does not exist on this machine", |p| {
        let uid = e2e::account("alice").uid;
        let source =
            format!("[[identity.source]]\nkind = \"static\"\nusers.zaphod = {{ uid = {uid}, gid = 1 }}\n");
        let text = crate::clinic::configuration(p.clinic.world, 0, &source);
        let text = text.replace(&format!("= \"{}\"", e2e::account("alice").name), "= \"zaphod\"");
        p.write("server.toml", text);
        let server = Serve::new(p.path("state")).arg("--config").arg(p.path("server.toml")).start();
        p.port = server.port();
        p.keep.push(Box::new(server));
        Ok(())
    }),
    client("rpc.gssd does not run", "gssd", "does not run", |p| {
        p.remove("proc/4242/comm");
        Ok(())
    }),
    client("rpc.gssd with single DES only", "gssd", "single DES only", |p| {
        p.write("proc/4242/cmdline", "/usr/sbin/rpc.gssd\0-vl\0");
        Ok(())
    }),
    client("rpc.gssd without AES by a drop-in", "gssd", "no AES type", |p| {
        p.write("etc/nfs.conf.d/local.conf", "[gssd]\nallowed-enctypes=des3-cbc-sha1\n");
        Ok(())
    }),
    client("rpc.gssd without AES", "gssd", "no AES type", |p| {
        p.write("etc/nfs.conf", "[gssd]\nallowed-enctypes=des3-cbc-sha1\n");
        Ok(())
    }),
    client("no pipes to the kernel", "gssd", "rpc_pipefs is not mounted", |p| {
        p.write("proc/self/mounts", "proc /proc proc rw 0 0\n");
        Ok(())
    }),
    warns("rpc.gssd looks in a folder that is not there", "gssd", "which is no folder", |p| {
        p.write("proc/4242/cmdline", "/usr/sbin/rpc.gssd\0-d\0/tmp:/nowhere\0");
        Ok(())
    }),
    client("no kernel module", "kernel", "no module rpcsec_gss_krb5", |p| {
        p.write("proc/modules", "nfsv4 1 0 - Live 0x0\n");
        Ok(())
    }),
    client("encryption types that the kernel does not know", "kernel", "types 19 and 20 only", |p| {
        kadmin(p, "addprinc -randkey -e aes256-cts-hmac-sha384-192:normal nfs/modern.test\n")?;
        kadmin(p, "setstr nfs/modern.test session_enctypes aes256-cts-hmac-sha384-192\n")?;
        let keytab = p.clinic.world.realm.dir().join("server.keytab");
        kadmin(p, &format!("ktadd -k {} -norandkey nfs/modern.test\n", keytab.display()))?;
        p.write("proc/sys/kernel/osrelease", "6.1.0-13-amd64\n");
        p.named("modern.test", "modern.test")
    }),
    warns("one connection", "mounts", "nconnect=1", |p| {
        p.write("proc/self/mountinfo", mountinfo(""));
        Ok(())
    }),
    warns("a small read-ahead", "mounts", "128 KiB", |p| {
        p.write("sys/class/bdi/0:52/read_ahead_kb", "128\n");
        Ok(())
    }),
    client("a directory whose certificate has expired", "directory", "has expired", |p| {
        directory(p, true, "localhost", "ca.pem")
    }),
    client("a directory of an unknown authority", "directory", "authority", |p| {
        directory(p, false, "localhost", "other.pem")
    }),
    client("a directory of another name", "directory", "another name", |p| {
        directory(p, false, "elsewhere.test", "ca.pem")
    }),
    client("a directory that is down", "directory", "does not answer", |p| {
        directory(p, false, "localhost", "ca.pem")?;
        p.write("etc/nslcd.conf", format!("uri ldaps://localhost:{}/\nbase dc=t\n", free_port()));
        Ok(())
    }),
    warns("a KDC without UDP", "pitfalls", "not over UDP", |p| {
        p.krb5_conf("udp_preference_limit = 1", "");
        Ok(())
    }),
    warns("weak cryptography", "pitfalls", "allow_weak_crypto", |p| {
        p.krb5_conf("[libdefaults]", "[libdefaults]\n  allow_weak_crypto = true");
        Ok(())
    }),
    server("a configuration with a mistake", "configuration", "no key `mistake`", |p| {
        p.configure("[mistake]\nkey = 1\n");
        Ok(())
    }),
    server("the server does not run", "port", "Nothing listens", |p| {
        p.port = free_port();
        p.configure("");
        Ok(())
    }),
    server("the server has no keytab", "keytab", "There is no keytab", |p| {
        p.more = vec!["--keytab".into(), p.path("absent").into()];
        Ok(())
    }),
    server("the server's keytab has no service key", "keytab", "no key of the service nfs/", |p| {
        p.more = vec!["--keytab".into(), p.clinic.world.realm.users_keytab().into()];
        Ok(())
    }),
    server("the server's key is an old one", "keys", "not the one that the KDC has", |p| {
        keytab_of(p, "nfs/stale.test", "")?;
        kadmin(p, "cpw -randkey nfs/stale.test\n")?;
        p.more = vec!["--keytab".into(), p.path("etc/krb5.keytab").into()];
        Ok(())
    }),
    server("the keytab is of another realm", "realm", "but default_realm", |p| {
        let keytab = fs::read(p.clinic.world.realm.server_keytab()).map_err(|error| error.to_string())?;
        let mut moved = keytab.clone();
        for at in 0..keytab.len() {
            if keytab[at..].starts_with(b"ORTHRUS.TEST") {
                moved[at] = b'X';
            }
        }
        p.write("etc/server.keytab", moved);
        p.more = vec!["--keytab".into(), p.path("etc/server.keytab").into()];
        Ok(())
    }),
    server("a host whose keys are not accepted", "machine", "(keytab_hosts), and not of localhost", |p| {
        let text = crate::clinic::configuration(p.clinic.world, 0, "");
        let machine = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
        let text = format!("keytab_hosts = [\"{machine}*\"]\n{text}");
        p.write("etc/orthrus/orthrus.toml", &text);
        let server =
            Serve::new(p.path("state")).arg("--config").arg(p.path("etc/orthrus/orthrus.toml")).start();
        p.port = server.port();
        p.more = vec!["--port".into(), p.port.to_string().into()];
        p.keep.push(Box::new(server));
        Ok(())
    }),
    server("a user without an account", "account", "has no account here", |p| {
        p.more = vec!["--user".into(), "carol.unknown@ORTHRUS.TEST".into()];
        Ok(())
    }),
    server("an export that the running server lacks", "exports", "does not offer /later", |p| {
        p.configure("[[export]]\nmemory = 1048576\npseudo = \"/later\"\n");
        Ok(())
    }),
    server("the server's directory has an expired certificate", "directory", "has expired", |p| {
        let slapd = EmptyDirectory::start(true, "localhost")?;
        let (port, ca) = (slapd.port, slapd.file("ca.pem"));
        p.configure(&format!(
            "[[identity.source]]\nkind = \"ldap\"\nservers = [\"ldaps://localhost:{port}\"]\nca = \"{}\"\nbase = \"dc=t\"\n",
            ca.display()
        ));
        p.keep.push(Box::new(slapd));
        Ok(())
    }),
];

/// Takes the full name of the machine away.
pub(crate) fn nameless(patient: &mut Patient<'_>) -> Result<(), String> {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.contains('.') {
        return Err(format!("this machine has the full name {name}"));
    }
    patient.named("localhost", &format!("localhost\n127.0.0.3 {name}"))
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Listens at a port for the time of the case, and answers what it reads with `answer`.
fn listen(patient: &mut Patient<'_>, answer: fn(&[u8]) -> Vec<u8>) -> u16 {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    patient.keep.push(Box::new(socket.try_clone().unwrap()));
    std::thread::spawn(move || {
        for mut stream in socket.incoming().flatten() {
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut bytes) {
                    let _ = stream.write_all(&answer(&bytes[..count]));
                }
            });
        }
    });
    port
}

/// Answers NULL of NFSv3, and PROG_MISMATCH to others (RFC 5531 section 9).
fn third_version_only(call: &[u8]) -> Vec<u8> {
    let version = call.get(20..24).map_or(0, |bytes| u32::from_be_bytes(bytes.try_into().unwrap()));
    let xid = call.get(4..8).unwrap_or_default();
    let words: &[u32] = if version == 3 { &[1, 0, 0, 0, 0] } else { &[1, 0, 0, 0, 2, 3, 3] };
    let body: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    [&(0x8000_0000 | (4 + body.len() as u32)).to_be_bytes()[..], xid, &body].concat()
}

fn mode(path: &PathBuf, mode: u32) -> Result<(), String> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(|error| error.to_string())
}

/// Changes the addresses of the KDC in krb5.conf.
fn set_kdc(patient: &Patient<'_>, ports: &[u16]) {
    let kdc = format!("kdc = {}", patient.clinic.world.realm.kdc());
    let lines: Vec<_> = ports.iter().map(|port| format!("kdc = 127.0.0.1:{port}")).collect();
    patient.krb5_conf(&kdc, &lines.join("\n    "));
}

/// Starts a relay that answers over UDP alone for the realm's KDC; returns its port.
fn kdc_over_udp(patient: &Patient<'_>) -> Result<u16, String> {
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let port = socket.local_addr().map_err(|error| error.to_string())?.port();
    let kdc = patient.clinic.world.realm.kdc();
    let ask = move |request: &[u8]| -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(kdc)?;
        let length = u32::try_from(request.len()).unwrap_or(u32::MAX);
        stream.write_all(&[&length.to_be_bytes()[..], request].concat())?;
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut answer).map(|()| answer)
    };
    std::thread::spawn(move || {
        let mut request = [0; 4096];
        while let Ok((count, from)) = socket.recv_from(&mut request) {
            if let Ok(answer) = ask(&request[..count]) {
                let _ = socket.send_to(&answer, from);
            }
        }
    });
    Ok(port)
}

fn kadmin(patient: &Patient<'_>, queries: &str) -> Result<(), String> {
    patient.clinic.world.realm.kadmin(queries).map(drop).map_err(|error| error.to_string())
}

/// Makes a principal, and the machine's keytab with its key alone.
fn keytab_of(patient: &Patient<'_>, principal: &str, how: &str) -> Result<(), String> {
    let keytab = patient.path("etc/krb5.keytab");
    let _ = fs::remove_file(&keytab);
    kadmin(
        patient,
        &format!(
            "addprinc -randkey {how} {principal}\nktadd -k {} -norandkey {principal}\n",
            keytab.display()
        ),
    )?;
    if keytab.exists() { mode(&keytab, 0o600) } else { Err("kadmin made no keytab".to_owned()) }
}

pub(crate) fn kinit(patient: &Patient<'_>, cache: &std::path::Path, life: &str) -> Result<(), String> {
    let realm = &patient.clinic.world.realm;
    realm.kinit_with("alice", cache, &realm.users_keytab(), &["-l", life]).map_err(|error| error.to_string())
}

/// Flips a bit of each key of a keytab (MIT's format 0x0502): the bytes before the long version.
fn damaged_keys(keytab: &[u8]) -> Vec<u8> {
    let mut bytes = keytab.to_vec();
    let mut at = 2;
    while let Some(size) = bytes.get(at..at + 4).map(|size| i32::from_be_bytes(size.try_into().unwrap())) {
        let end = at + 4 + size.unsigned_abs() as usize;
        if size > 0 {
            bytes[end - 6] ^= 1;
        }
        at = end;
    }
    bytes
}

/// Starts a directory, and names it in the client's nslcd.conf.
fn directory(patient: &mut Patient<'_>, expired: bool, name: &str, authority: &str) -> Result<(), String> {
    let slapd = EmptyDirectory::start(expired, name)?;
    let ca = slapd.file(authority);
    patient.write(
        "etc/nslcd.conf",
        format!("uri ldaps://localhost:{}/\nbase dc=t\ntls_cacertfile {}\n", slapd.port, ca.display()),
    );
    patient.keep.push(Box::new(slapd));
    Ok(())
}

/// Compiles a library that shifts the clock which MIT's library reads.
fn shifted_clock(patient: &Patient<'_>) -> Result<PathBuf, String> {
    const SOURCE: &str = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdlib.h>\n#include <sys/time.h>\n#include <time.h>\n\
        static long shift(void) { const char *by = getenv(\"CLOCK_SHIFT\"); return by ? atol(by) : 0; }\n\
        int gettimeofday(struct timeval *restrict tv, void *restrict tz) { (void)tz; struct timespec now;\n\
        int result = clock_gettime(CLOCK_REALTIME, &now); tv->tv_sec = now.tv_sec + shift(); tv->tv_usec = now.tv_nsec / 1000; return result; }\n\
        time_t time(time_t *to) { struct timespec now; clock_gettime(CLOCK_REALTIME, &now);\n\
        time_t shifted = now.tv_sec + shift(); if (to) *to = shifted; return shifted; }\n";
    let library = patient.path("clock.so");
    patient.write("clock.c", SOURCE);
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(patient.path("clock.c"))
        .output();
    match built {
        Ok(output) if output.status.success() => Ok(library),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(_) => Err("no C compiler is installed".to_owned()),
    }
}

/// A process that ends with the case.
struct KdcProcess(Child);

impl Drop for KdcProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a second KDC of the realm, whose clock is an hour ahead; returns its port.
fn kdc_of_tomorrow(patient: &mut Patient<'_>) -> Result<u16, String> {
    let clock = shifted_clock(patient)?;
    let realm = &patient.clinic.world.realm;
    let port = free_port();
    let text = fs::read_to_string(realm.dir().join("kdc.conf")).map_err(|error| error.to_string())?;
    patient.write("kdc.conf", text.replace(&realm.kdc().to_string(), &format!("127.0.0.1:{port}")));
    let mut command = Command::new("krb5kdc");
    let path = std::env::var("PATH").unwrap_or_default();
    command.args(["-n", "-r", realm.name()]).env("PATH", format!("{path}:/usr/sbin"));
    command.env("KRB5_CONFIG", realm.krb5_conf()).env("KRB5_KDC_PROFILE", patient.path("kdc.conf"));
    command.env("LD_PRELOAD", clock).env("CLOCK_SHIFT", "3600").stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.spawn().map_err(|error| error.to_string())?;
    patient.keep.push(Box::new(KdcProcess(child)));
    let end = Instant::now() + Duration::from_secs(20);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if Instant::now() > end {
            return Err("the second KDC does not start".to_owned());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(port)
}
