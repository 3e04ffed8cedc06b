//! NFS-Ganesha as the peer: Debian's package, the same folder, the same realm, a port of its own.

use anyhow::{Context, bail};
use bench::link::{self, Link};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long it may take until the port answers.
const START_MAX: Duration = Duration::from_secs(20);

const PROGRAM: &str = "ganesha.nfsd";

/// Runs in a mount namespace of its own: /run and /var/lib/nfs of the machine stay as they are.
const SCRIPT: &str = "mount -t tmpfs tmpfs /var/lib/nfs && mkdir -p /var/lib/nfs/ganesha && \
     mount -t tmpfs tmpfs /run && mkdir -p /run/ganesha && \
     exec ganesha.nfsd -F -L \"$0/ganesha.log\" -f \"$0/ganesha.conf\" -p /run/ganesha/pid";

/// A Ganesha that runs; dropping it ends it.
pub struct Ganesha {
    child: Child,
}

impl Ganesha {
    /// Says why it cannot run here.
    pub fn missing() -> Option<String> {
        if !nix::unistd::geteuid().is_root() {
            return Some(
                "NFS-Ganesha needs root for its filehandles and a mount namespace of its own".to_owned(),
            );
        }
        let found = ["/usr/bin", "/usr/sbin"].iter().any(|folder| Path::new(folder).join(PROGRAM).exists());
        (!found).then(|| "NFS-Ganesha is missing; apt-get install nfs-ganesha nfs-ganesha-vfs".to_owned())
    }

    /// Names it with its version.
    pub fn version() -> String {
        let said = Command::new(PROGRAM).arg("-v").output();
        let said =
            said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        said.lines().next().unwrap_or("NFS-Ganesha").trim().to_owned()
    }

    /// Exports `folder` as /data with all four flavors at an address of this machine, or of the other end of the link.
    ///
    /// # Errors
    /// When it is not installed, this is not root, or it does not answer in time.
    pub fn start(
        work: &Path,
        folder: &Path,
        realm: &realm::Realm,
        address: SocketAddr,
        link: Option<&Link>,
    ) -> anyhow::Result<Self> {
        std::fs::write(work.join("ganesha.conf"), configuration(folder, realm, address))?;
        let out = std::fs::File::create(work.join("ganesha.out"))?;
        // setpriv, unshare and sh become the next one each, so the child is the server; it ends with this process.
        let mut command = Command::new("setpriv");
        command
            .args([
                "--pdeathsig",
                "KILL",
                "unshare",
                "--mount",
                "--propagation",
                "private",
                "sh",
                "-c",
                SCRIPT,
            ])
            .arg(work);
        command.envs(realm.env()).stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        command.process_group(0);
        let child = link::at_server(link, || command.spawn().context("setpriv did not start"))?;
        let mut ganesha = Self { child };
        ganesha.wait(work, address)?;
        Ok(ganesha)
    }

    fn wait(&mut self, work: &Path, address: SocketAddr) -> anyhow::Result<()> {
        let end = Instant::now() + START_MAX;
        while TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                let said = std::fs::read_to_string(work.join("ganesha.out")).unwrap_or_default();
                bail!("NFS-Ganesha ended with {status}; is nfs-ganesha-vfs installed? {said}");
            }
            if Instant::now() > end {
                bail!("NFS-Ganesha does not answer on {address}; see {}", work.join("ganesha.log").display());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Returns the process to read processor time of.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Ganesha {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn configuration(folder: &Path, realm: &realm::Realm, address: SocketAddr) -> String {
    format!(
        "NFS_CORE_PARAM {{ Protocols = 4; NFS_Port = {port}; Bind_addr = {ip}; Enable_NLM = false; Enable_RQUOTA = false; }}\n\
         NFSv4 {{ Graceless = true; Minor_Versions = 1,2; RecoveryRoot = \"/var/lib/nfs/ganesha\"; DomainName = \"orthrus.test\"; Slot_Table_Size = 64; }}\n\
         NFS_KRB5 {{ PrincipalName = nfs; KeytabPath = \"{keytab}\"; CCacheDir = \"/run/ganesha\"; Active_krb5 = true; }}\n\
         DIRECTORY_SERVICES {{ DomainName = \"orthrus.test\"; }}\n\
         EXPORT {{ Export_Id = 1; Path = \"{folder}\"; Pseudo = \"/data\"; Access_Type = RW; Squash = No_Root_Squash;\n\
         Protocols = 4; Transports = TCP; SecType = sys,krb5,krb5i,krb5p; FSAL {{ Name = VFS; }} }}\n\
         LOG {{ Default_Log_Level = EVENT; }}\n",
        port = address.port(),
        ip = address.ip(),
        keytab = realm.server_keytab().display(),
        folder = folder.display(),
    )
}
