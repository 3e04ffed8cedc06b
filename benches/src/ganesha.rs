//! NFS-Ganesha as the peer: a package of Debian's, the same folder, the same realm, a port of its
//! own.

use super::disk::{FileSystem, ImageDisk};
use anyhow::{Context, bail};
use bench::link::{self, Link};
use std::ffi::OsString;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long it may take until the port answers.
const START_MAX: Duration = Duration::from_secs(20);

const PROGRAM: &str = "ganesha.nfsd";

/// Runs in a mount namespace of its own: /run and /var/lib/nfs of the machine stay as they are.
const SCRIPT: &str = "mount -t tmpfs tmpfs /var/lib/nfs && mkdir -p /var/lib/nfs/ganesha && \
     mount -t tmpfs tmpfs /run && mkdir -p /run/ganesha && \
     exec \"$@\" -F -L \"$0/ganesha.log\" -f \"$0/ganesha.conf\" -p /run/ganesha/pid";

/// The remark on metadata in every comparison of the two servers.
pub(crate) const METADATA_REMARK: &str = "metadata: where names lie on ext4, Orthrus with its default (stable_names) is \
     slower than NFS-Ganesha, which answers before a change is on the disk; on tmpfs neither waits for one";

/// The version of NFS-Ganesha to compare with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Which {
    /// The one that is installed: 4.3 on Debian 12.
    #[default]
    Installed,
    /// Debian 13's, unpacked beside the system by scripts/debian.sh.
    #[value(name = "6.5")]
    Trixie,
    /// Debian sid's, unpacked in the same way.
    #[value(name = "15")]
    Sid,
}

impl Which {
    /// Returns its name for `tests/linux/run.sh --server`.
    pub(crate) fn lab_name(self) -> &'static str {
        match self {
            Self::Installed => "ganesha",
            Self::Trixie => "ganesha-6.5",
            Self::Sid => "ganesha-15",
        }
    }
}

/// The most that a folder on ext4 in memory takes.
const DISK_SIZE: u64 = 4 << 30;

/// A folder in memory; it is gone with the value.
pub(crate) enum MemoryFolder {
    Tmpfs(tempfile::TempDir),
    Ext4(ImageDisk),
}

impl MemoryFolder {
    /// Returns the folder's path.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Tmpfs(folder) => folder.path().to_owned(),
            Self::Ext4(disk) => disk.path(),
        }
    }

    /// Returns the kind of file system below the folder.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Tmpfs(_) => "tmpfs",
            Self::Ext4(_) => "ext4 in memory",
        }
    }
}

/// The directory that a Ganesha exports as /data.
pub(crate) enum GaneshaExport<'e> {
    /// A folder of the machine.
    Folder(&'e Path),
    /// A directory of CephFS, as `client.admin`.
    Ceph {
        /// The configuration file of the cluster.
        configuration: &'e Path,
        /// The path in its file system.
        path: &'e str,
    },
}

impl<'e> From<&'e PathBuf> for GaneshaExport<'e> {
    fn from(folder: &'e PathBuf) -> Self {
        Self::Folder(folder)
    }
}

/// A Ganesha that can be started.
pub(crate) struct Package {
    /// The program, behind its loader unless that is the machine's.
    command: Vec<OsString>,
    /// The folder that it was unpacked in.
    root: Option<PathBuf>,
    version: String,
}

impl Package {
    /// Looks for it, and unpacks it where it is not installed.
    ///
    /// # Errors
    /// Why it cannot run here.
    pub(crate) fn find(which: Which) -> Result<Self, String> {
        if !nix::unistd::geteuid().is_root() {
            return Err(
                "NFS-Ganesha needs root for its filehandles and a mount namespace of its own".to_owned()
            );
        }
        let root = match which {
            Which::Installed => None,
            Which::Trixie | Which::Sid => Some(unpacked(which.lab_name())?),
        };
        let command = match &root {
            None => vec![PROGRAM.into()],
            Some(root) => below(root),
        };
        let said = Command::new(&command[0]).args(&command[1..]).arg("-v").output();
        let said = said
            .map_err(|_| "NFS-Ganesha is missing; apt-get install nfs-ganesha nfs-ganesha-vfs".to_owned())?;
        let version = version(&String::from_utf8_lossy(&said.stdout)).ok_or_else(|| {
            format!("{PROGRAM} -v names no version: {}", String::from_utf8_lossy(&said.stderr))
        })?;
        Ok(Self { command, root, version })
    }

    /// Returns a command that starts another program with the libraries of the package: for a
    /// comparison with equal libraries. `None` if these are the machine's.
    pub(crate) fn with_libraries(&self, program: &Path) -> Option<Vec<OsString>> {
        let (_, rest) = self.root.as_ref().and_then(|_| self.command.split_last())?;
        Some(rest.iter().cloned().chain([program.into()]).collect())
    }

    /// Returns whether it can export CephFS.
    pub(crate) fn has_ceph(&self) -> bool {
        let folder = self.root.clone().unwrap_or_else(|| "/".into());
        folder.join("usr/lib/x86_64-linux-gnu/ganesha/libfsalceph.so").exists()
    }

    /// Whether it exports a folder on tmpfs: 4.3 does, 6.5 and 15.2 do not look at tmpfs.
    pub(crate) fn exports_tmpfs(&self) -> bool {
        let major = self.version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        major.is_some_and(|major| major < 5)
    }

    /// Makes a folder in memory that the server can export.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub(crate) fn folder(&self) -> anyhow::Result<MemoryFolder> {
        if self.exports_tmpfs() {
            let folder = private::temporary_in("orthrus-peers-", "/dev/shm".as_ref())?;
            return Ok(MemoryFolder::Tmpfs(folder));
        }
        ImageDisk::make("/dev/shm".as_ref(), FileSystem::Ext4, DISK_SIZE).map(MemoryFolder::Ext4)
    }

    /// Such as `ganesha 6.5`: rows and files of each version are its own.
    pub(crate) fn name(&self) -> String {
        format!("ganesha {}", self.version)
    }
}

/// Unpacks the packages of a newer Debian and returns their folder.
fn unpacked(name: &str) -> Result<PathBuf, String> {
    let output = Command::new(steps::root().join("scripts/debian.sh")).arg(name).output();
    let output = output.map_err(|error| format!("scripts/debian.sh does not start: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(said.lines().last().unwrap_or("scripts/debian.sh failed").to_owned());
    }
    said.lines().for_each(|note| println!("{note}"));
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

/// The command that starts an unpacked one with the loader and the libraries beside it.
fn below(root: &Path) -> Vec<OsString> {
    let libraries = root.join("usr/lib/x86_64-linux-gnu");
    let mut path = libraries.clone().into_os_string();
    for more in ["usr/lib/ganesha", "usr/lib/x86_64-linux-gnu/ceph"] {
        path.push(":");
        path.push(root.join(more));
    }
    let program = root.join("usr/bin").join(PROGRAM);
    vec![libraries.join("ld-linux-x86-64.so.2").into(), "--library-path".into(), path, program.into()]
}

/// Reads `NFS-Ganesha Release = V6.5`.
fn version(said: &str) -> Option<String> {
    let word = said.lines().next()?.rsplit_once('=')?.1.trim().trim_start_matches('V');
    word.starts_with(|first: char| first.is_ascii_digit()).then(|| word.to_owned())
}

/// A Ganesha that runs; dropping it ends it.
pub(crate) struct Ganesha {
    child: Child,
}

impl Ganesha {
    /// Exports a folder or a directory of CephFS as /data with all four flavors, at an address of
    /// this machine, or of the other end of the link.
    ///
    /// # Errors
    /// When this is not root, or it does not answer in time.
    pub(crate) fn start<'e>(
        package: &Package,
        work: &Path,
        export: impl Into<GaneshaExport<'e>>,
        realm: &realm::Realm,
        address: SocketAddr,
        link: Option<&Link>,
    ) -> anyhow::Result<Self> {
        std::fs::write(work.join("ganesha.conf"), configuration(package, &export.into(), realm, address))?;
        let out = std::fs::File::create(work.join("ganesha.out"))?;
        // setpriv, unshare and sh become the next one each, so the child is the server; it ends
        // with this process.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private"]);
        command.args(["sh", "-c", SCRIPT]).arg(work).args(&package.command);
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
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Ganesha {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn configuration(
    package: &Package,
    export: &GaneshaExport<'_>,
    realm: &realm::Realm,
    address: SocketAddr,
) -> String {
    let (path, fsal, more) = match export {
        GaneshaExport::Folder(folder) => {
            (folder.display().to_string(), "Name = VFS;".to_owned(), String::new())
        }
        GaneshaExport::Ceph { configuration, path } => (
            (*path).to_owned(),
            "Name = CEPH; User_Id = \"admin\";".to_owned(),
            format!("CEPH {{ Ceph_Conf = \"{}\"; }}\n", configuration.display()),
        ),
    };
    // Its plug-ins are not where it was built for.
    let elsewhere = package.root.as_ref().map_or(String::new(), |root| {
        let plugins = root.join("usr/lib/x86_64-linux-gnu/ganesha");
        format!("Plugins_Dir = \"{}\"; allow_set_io_flusher_fail = true;", plugins.display())
    });
    format!(
        "NFS_CORE_PARAM {{ Protocols = 4; NFS_Port = {port}; Bind_addr = {ip}; Enable_NLM = false; Enable_RQUOTA = false; {elsewhere} }}\n\
         NFSv4 {{ Graceless = true; Minor_Versions = 1,2; RecoveryRoot = \"/var/lib/nfs/ganesha\"; DomainName = \"orthrus.test\"; Slot_Table_Size = 64; }}\n\
         NFS_KRB5 {{ PrincipalName = nfs; KeytabPath = \"{keytab}\"; CCacheDir = \"/run/ganesha\"; Active_krb5 = true; }}\n\
         DIRECTORY_SERVICES {{ DomainName = \"orthrus.test\"; }}\n\
         {more}EXPORT {{ Export_Id = 1; Path = \"{path}\"; Pseudo = \"/data\"; Access_Type = RW; Squash = No_Root_Squash;\n\
         Protocols = 4; Transports = TCP; SecType = sys,krb5,krb5i,krb5p; FSAL {{ {fsal} }} }}\n\
         LOG {{ Default_Log_Level = EVENT; }}\n",
        port = address.port(),
        ip = address.ip(),
        keytab = realm.server_keytab().display(),
    )
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn a_version_is_read_from_what_the_program_says_of_itself() {
        assert_eq!(version("NFS-Ganesha Release = V6.5\nnfs-ganesha compiled on\n").as_deref(), Some("6.5"));
        assert_eq!(version("NFS-Ganesha Release = V15.2").as_deref(), Some("15.2"));
        assert_eq!(version("error while loading shared libraries = none"), None);
        assert_eq!(version(""), None);
    }
}
