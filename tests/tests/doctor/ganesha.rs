//! NFS-Ganesha with Kerberos, in a mount namespace of its own.

use e2e::{World, is_installed};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long it may take until the port answers.
const START_MAX: Duration = Duration::from_secs(30);

/// Keeps /run and /var/lib/nfs of the machine as they are.
const SCRIPT: &str = "mount -t tmpfs tmpfs /var/lib/nfs && mkdir -p /var/lib/nfs/ganesha && \
     mount -t tmpfs tmpfs /run && mkdir -p /run/ganesha && \
     exec ganesha.nfsd -F -L \"$0/ganesha.log\" -f \"$0/ganesha.conf\" -p /run/ganesha/pid";

/// A running NFS-Ganesha; dropping it ends it.
pub(crate) struct GaneshaServer {
    child: Child,
    port: u16,
}

impl GaneshaServer {
    /// Exports the world's folder as `/data` with the Kerberos flavors; `None` where it is not
    /// installed.
    pub(crate) fn start(world: &World) -> Option<Self> {
        if !is_installed("ganesha.nfsd", "nfs-ganesha nfs-ganesha-vfs") {
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let work = world.path("ganesha");
        std::fs::create_dir(&work).unwrap();
        // NFS-Ganesha 4.3 exports tmpfs and disks alike.
        std::fs::write(work.join("ganesha.conf"), configuration(world, port)).unwrap();
        std::fs::write(work.join("idmapd.conf"), "[General]\nDomain = orthrus.test\n").unwrap();
        let out = std::fs::File::create(work.join("ganesha.out")).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private"]);
        command.args(["sh", "-c", SCRIPT]).arg(&work).envs(world.realm.env());
        let child =
            command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out).spawn().unwrap();
        let mut ganesha = Self { child, port };
        ganesha.wait(&work);
        Some(ganesha)
    }

    fn wait(&mut self, work: &Path) {
        let end = Instant::now() + START_MAX;
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let log = || std::fs::read_to_string(work.join("ganesha.log")).unwrap_or_default();
            assert!(self.child.try_wait().unwrap().is_none() && Instant::now() < end, "{}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for GaneshaServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn configuration(world: &World, port: u16) -> String {
    format!(
        "NFS_CORE_PARAM {{ Protocols = 4; NFS_Port = {port}; Bind_addr = 127.0.0.1; Enable_NLM = false; Enable_RQUOTA = false; }}\n\
         NFSv4 {{ Graceless = true; Minor_Versions = 1,2; RecoveryRoot = \"/var/lib/nfs/ganesha\"; IdmapConf = \"{work}/idmapd.conf\"; }}\n\
         NFS_KRB5 {{ PrincipalName = nfs; KeytabPath = \"{keytab}\"; CCacheDir = \"/run/ganesha\"; Active_krb5 = true; }}\n\
         DIRECTORY_SERVICES {{ DomainName = \"orthrus.test\"; }}\n\
         EXPORT {{ Export_Id = 1; Path = \"{folder}\"; Pseudo = \"/data\"; Access_Type = RW; Squash = No_Root_Squash;\n\
         Protocols = 4; Transports = TCP; SecType = krb5,krb5i,krb5p; FSAL {{ Name = VFS; }} }}\n\
         LOG {{ Default_Log_Level = EVENT; }}\n",
        work = world.path("ganesha").display(),
        keytab = world.realm.server_keytab().display(),
        folder = world.export().display(),
    )
}
