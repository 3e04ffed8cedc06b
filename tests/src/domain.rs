//! An Active Directory domain for one test: Samba's domain controller in namespaces of its own.

use crate::folders::{empty_folder, is_root};
use crate::program::{Ended, IN_DOMAIN, is_installed, program, run};
use gss::Credential;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the controller may take to start on a busy machine. It makes RSA keys first.
const PATIENCE: Duration = Duration::from_secs(120);

/// The folders that Samba's programs write to by default. The test has empty ones.
const SAMBA_FOLDERS: [&str; 5] =
    ["/etc/samba", "/var/lib/samba", "/var/cache/samba", "/var/log/samba", "/run/samba"];

/// The administrator's password. [`TestDomain::password`] makes the passwords of users.
const ADMINISTRATOR: &str = "Secret.administrator.1";

/// The controller's TLS files, which it makes itself where they are missing.
const TLS: &str = "/var/lib/samba/private/tls";

/// A running domain controller, as its administrator.
pub struct TestDomain {
    folder: PathBuf,
    samba: Child,
}

/// Runs a test with a domain of its own; skipped, with the reason, where Samba is missing or this
/// process is not root.
///
/// The body runs in a process of its own, in a network without an outside, with mounts and
/// processes of its own: the controller needs fixed ports, /etc/hosts and Samba's folders, and all
/// of its processes end with the test, however that ends. The body is a closure of the test
/// function itself.
pub fn in_domain<F: FnOnce(&mut TestDomain)>(body: F) {
    if let Some(folder) = std::env::var_os(IN_DOMAIN) {
        let folder = PathBuf::from(folder);
        fs::write(folder.join("test-ran"), "").expect("the folder is ours");
        return body(&mut TestDomain::create(folder));
    }
    if !is_root() {
        return eprintln!("skipped: only root can run a domain controller");
    }
    let programs = [
        ("samba", "samba-ad-dc"),
        ("samba-tool", "samba-common-bin"),
        ("ldapmodify", "ldap-utils"),
        ("kinit", "krb5-user"),
        ("openssl", "openssl"),
        ("ip", "iproute2"),
    ];
    if !programs.iter().all(|(program, package)| is_installed(program, package)) {
        return;
    }
    if !Path::new("/usr/share/samba/setup/provision.ldif").exists() {
        return eprintln!("skipped: a domain cannot be provisioned (apt install samba-ad-provision)");
    }
    program();
    let name = std::any::type_name::<F>().trim_end_matches("::{{closure}}");
    let test = name.split_once("::").expect("a path").1;
    let folder = empty_folder();
    fs::write(folder.path().join("krb5.conf"), KRB5_CONF).expect("the folder is ours");
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--net", "--mount", "--pid", "--fork"]);
    command.args(["--kill-child", "--mount-proc"]).arg(std::env::current_exe().expect("a program"));
    command.args([test, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"]);
    command.env(IN_DOMAIN, folder.path()).env("KRB5_CONFIG", folder.path().join("krb5.conf"));
    let output = command.stdin(Stdio::null()).output().expect("setpriv is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{test} failed in its domain:\n{said}");
    assert!(folder.path().join("test-ran").exists(), "no test is named {test:?}, modules included");
    eprint!("{said}");
}

/// Kerberos with the names that the domain has in DNS elsewhere.
const KRB5_CONF: &str = "[libdefaults]
  default_realm = AD.EXAMPLE.ORG
  dns_lookup_kdc = false
  dns_lookup_realm = false
  dns_canonicalize_hostname = false
  rdns = false
[realms]
  AD.EXAMPLE.ORG = {
    kdc = dc1.ad.example.org
  }
[domain_realm]
  .ad.example.org = AD.EXAMPLE.ORG
";

/// The services of the controller that the tests need; its files are where they are by default.
const SMB_CONF: &str = "[global]
  bind interfaces only = Yes
  interfaces = lo
  netbios name = DC1
  realm = AD.EXAMPLE.ORG
  workgroup = AD
  server role = active directory domain controller
  server services = ldap, cldap, kdc
  idmap_ldb:use rfc2307 = yes
  tls cafile = /var/lib/samba/private/tls/ca.pem
  tls certfile = /var/lib/samba/private/tls/cert.pem
  tls keyfile = /var/lib/samba/private/tls/key.pem
[sysvol]
  path = /var/lib/samba/sysvol
[netlogon]
  path = /var/lib/samba/sysvol/ad.example.org/scripts
";

impl TestDomain {
    /// The Kerberos realm of the domain.
    pub const REALM: &str = "AD.EXAMPLE.ORG";
    /// The host of the NFS server.
    pub const SERVER: &str = "server.ad.example.org";
    /// The entry of the domain.
    pub const BASE: &str = "DC=ad,DC=example,DC=org";

    fn create(folder: PathBuf) -> Self {
        let mut setup = String::from("set -eu\nmount --make-rprivate /\nip link set lo up\n");
        for samba in SAMBA_FOLDERS {
            writeln!(setup, "[ ! -d {samba} ] || mount -t tmpfs none {samba}").expect("text");
        }
        setup += "cp /etc/hosts hosts\n\
                  echo '127.0.0.1 dc1.ad.example.org server.ad.example.org' >>hosts\n\
                  mount --bind hosts /etc/hosts\n\
                  mkdir -p /var/lib/samba/private /run/samba /var/cache/samba\n\
                  cp smb.conf /etc/samba/smb.conf\n";
        fs::write(folder.join("smb.conf"), SMB_CONF).expect("the folder is ours");
        let mut provision = String::from(
            "samba-tool domain provision --use-rfc2307 --realm=AD.EXAMPLE.ORG --domain=AD --server-role=dc \
             --dns-backend=NONE --host-name=dc1 --host-ip=127.0.0.1 --adminpass=",
        );
        provision += ADMINISTRATOR;
        done(&folder, &(setup + &provision));
        let samba = start(&folder);
        Self { folder, samba }
    }

    /// Returns a path in the test's own folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns the certificates that the controller's own one is verified with.
    pub fn authority(&self) -> PathBuf {
        Path::new(TLS).join("ca.pem")
    }

    /// Runs a script on the controller, in the test's folder. It has to succeed.
    pub fn shell(&self, script: &str) -> String {
        done(&self.folder, &format!("set -eu\n{script}"))
    }

    /// Changes entries as the administrator, by LDIF. The controller is not verified.
    pub fn change(&self, ldif: &str) {
        fs::write(self.path("change.ldif"), ldif).expect("the folder is ours");
        self.shell(&format!(
            "LDAPTLS_REQCERT=never ldapmodify -x -H ldaps://dc1.ad.example.org \
             -D administrator@ad.example.org -w {ADMINISTRATOR} -f change.ldif"
        ));
    }

    /// Returns the LDIF of a new user whose name is `name`. `more` has further lines.
    pub fn user(name: &str, more: &str) -> String {
        format!(
            "dn: CN={name},CN=Users,{}\nchangetype: add\nobjectClass: user\nsAMAccountName: {name}\n\
             {}\nuserAccountControl: 512\n{more}\n",
            Self::BASE,
            Self::new_password(name)
        )
    }

    /// Returns the line of LDIF that sets the password of an account.
    pub fn new_password(name: &str) -> String {
        let quoted = format!("\"{}\"", Self::password(name));
        let utf16: Vec<u8> = quoted.encode_utf16().flat_map(u16::to_le_bytes).collect();
        format!("unicodePwd:: {}", base64(&utf16))
    }

    /// Returns the LDIF of a new group with these members.
    pub fn group(name: &str, number: Option<u32>, members: &[&str]) -> String {
        let mut text = format!(
            "dn: CN={name},CN=Users,{}\nchangetype: add\nobjectClass: group\nsAMAccountName: {name}\n",
            Self::BASE
        );
        number.map(|number| writeln!(text, "gidNumber: {number}"));
        members
            .iter()
            .for_each(|member| writeln!(text, "member: CN={member},CN=Users,{}", Self::BASE).expect("text"));
        text + "\n"
    }

    /// Returns the password of a user that [`TestDomain::user`] makes.
    pub fn password(name: &str) -> String {
        format!("Secret.{name}.1")
    }

    /// Gets a ticket for `principal` with the password of `user`, in a new cache.
    pub fn kinit(&self, principal: &str, user: &str) -> Credential {
        let cache = format!("FILE:{}", self.path(&format!("ticket-{principal}")).display());
        let mut kinit = Command::new("kinit");
        kinit.args(["-c", &cache, principal]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut kinit = kinit.spawn().expect("kinit is installed");
        let mut input = kinit.stdin.take().expect("a pipe");
        writeln!(input, "{}", Self::password(user)).expect("kinit reads it");
        drop(input);
        assert!(kinit.wait().expect("it is a child").success(), "the KDC gives no ticket to {principal}");
        Credential::Ccache(cache)
    }

    /// Replaces the controller's own certificate by one of an authority that names the host, and
    /// starts the controller again.
    pub fn certify(&mut self) {
        self.shell(&format!(
            "key='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'\n\
             openssl req -x509 $key -keyout ca.key -out ca.pem -days 2 -subj /CN=authority\n\
             echo subjectAltName=DNS:dc1.ad.example.org >san\n\
             openssl req $key -keyout dc.key -out dc.csr -subj /CN=dc1.ad.example.org\n\
             openssl x509 -req -in dc.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out dc.pem -days 2 \
             -extfile san\n\
             chmod 600 dc.key\ncp ca.pem {TLS}/ca.pem\ncp dc.pem {TLS}/cert.pem\ncp dc.key {TLS}/key.pem"
        ));
        self.stop();
        self.samba = start(&self.folder);
    }

    fn stop(&mut self) {
        let _ = self.samba.kill();
        let _ = self.samba.wait();
    }
}

impl Drop for TestDomain {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Starts the controller and waits until it serves.
fn start(folder: &Path) -> Child {
    let log = fs::File::create(folder.join("samba.log")).expect("the folder is ours");
    let mut samba = Command::new("samba");
    samba.args(["--foreground", "--no-process-group", "--model=single", "--debug-stdout"]);
    let copy = log.try_clone().expect("a descriptor");
    let mut samba = samba.stdin(Stdio::null()).stdout(log).stderr(copy).spawn().expect("samba is installed");
    let end = Instant::now() + PATIENCE;
    while [88, 389, 636].iter().any(|port| TcpStream::connect(("127.0.0.1", *port)).is_err()) {
        let log = || fs::read_to_string(folder.join("samba.log")).unwrap_or_default();
        let ended = samba.try_wait().expect("it is a child");
        assert!(ended.is_none() && Instant::now() < end, "samba does not serve ({ended:?}): {}", log());
        std::thread::sleep(Duration::from_millis(50));
    }
    samba
}

/// Runs a script that has to succeed and returns its output.
fn done(folder: &Path, script: &str) -> String {
    let mut shell = Command::new("sh");
    let Ended { status, stdout, stderr } = run(shell.args(["-c", script]).current_dir(folder));
    assert!(status.success(), "{script}:\n{stdout}\n{stderr}");
    stdout
}

/// RFC 4648 section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group =
        |three: &[u8]| {
            let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte))
                << (8 * (3 - three.len()));
            (0..4)
                .map(|at| {
                    if at > three.len() { '=' } else { DIGITS[(bits >> (18 - 6 * at) & 63) as usize].into() }
                })
                .collect::<String>()
        };
    bytes.chunks(3).map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_rfc_4648_section_10() {
        let encoded = ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|text| base64(text.as_bytes()));
        assert_eq!(encoded, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]);
    }
}
