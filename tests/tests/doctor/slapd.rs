//! A directory with TLS, without entries.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long slapd may take to start on a busy machine.
const START_MAX: Duration = Duration::from_secs(20);

/// A running slapd; dropping it ends it.
pub(crate) struct EmptyDirectory {
    child: Child,
    pub(crate) port: u16,
    folder: tempfile::TempDir,
}

fn done(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Makes an authority and a certificate for these days from now and this name.
fn certificates(folder: &Path, expired: bool, name: &str) -> Result<(), String> {
    let openssl =
        |arguments: &str| done(Command::new("openssl").args(arguments.split(' ')).current_dir(folder));
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(&format!("req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=authority"))?;
    openssl(&format!("req -x509 {key} -keyout other.key -out other.pem -days 2 -subj /CN=other"))?;
    std::fs::write(folder.join("san"), format!("subjectAltName=DNS:{name}\n"))
        .map_err(|error| error.to_string())?;
    openssl(&format!("req {key} -keyout server.key -out server.csr -subj /CN=server"))?;
    if expired {
        // `x509 -req` has no dates in the past; `ca` does.
        let conf = "[ca]\ndefault_ca=own\n[own]\ndatabase=index\nserial=serial\nnew_certs_dir=.\ndefault_md=sha256\npolicy=any\n[any]\ncommonName=supplied\n";
        for (name, text) in [("ca.cnf", conf), ("index", ""), ("serial", "01\n")] {
            std::fs::write(folder.join(name), text).map_err(|error| error.to_string())?;
        }
        return openssl(
            "ca -batch -config ca.cnf -cert ca.pem -keyfile ca.key -in server.csr -out server.pem -startdate 20200101000000Z -enddate 20200201000000Z -extfile san",
        );
    }
    openssl(
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 2 -extfile san",
    )
}

impl EmptyDirectory {
    /// Starts slapd with a certificate for `name`, which has expired if asked for.
    pub(crate) fn start(expired: bool, name: &str) -> Result<Self, String> {
        if !Path::new("/usr/sbin/slapd").exists() {
            return Err("slapd is not installed (apt install slapd)".to_owned());
        }
        let folder = e2e::empty_folder();
        certificates(folder.path(), expired, name)?;
        let dir = folder.path().display().to_string();
        let conf = format!(
            "include /etc/ldap/schema/core.schema\npidfile {dir}/pid\nTLSCertificateFile {dir}/server.pem\nTLSCertificateKeyFile {dir}/server.key\n"
        );
        std::fs::write(folder.path().join("slapd.conf"), conf).map_err(|error| error.to_string())?;
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|socket| socket.local_addr())
            .map_err(|error| error.to_string())?
            .port();
        let child = Command::new("/usr/sbin/slapd")
            .args(["-h", &format!("ldaps://127.0.0.1:{port}"), "-d", "0", "-f"])
            .arg(folder.path().join("slapd.conf"))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        let slapd = Self { child, port, folder };
        let end = Instant::now() + START_MAX;
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < end, "slapd does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(slapd)
    }

    /// Returns a file of its folder, such as `ca.pem` or `other.pem`.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for EmptyDirectory {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
