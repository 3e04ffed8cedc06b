//! An SSH server for one measurement: on loopback or at the other end of a link, with its own keys
//! in a temporary folder. It admits only the user who runs it, with that key, and permits nothing
//! but file transfer. The user's ~/.ssh is neither read nor written.

use std::fs::File;
use std::io::Read as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use nix::unistd::{User, geteuid};

use super::ssh::{CopyProgram, Ssh};
use crate::cpu;
use crate::link::{self, Link};
use crate::tools::{SETPRIV, SSH_KEYGEN, SSHD, UNSHARE, run};

/// How long the server may take to begin.
const START_MAX: Duration = Duration::from_secs(10);

/// How long it may take until it has counted its children's time after they have ended.
const REAP_MAX: Duration = Duration::from_secs(2);

/// How often a port is chosen anew that somebody else took first.
const TRIES: usize = 3;

const LOOK: Duration = Duration::from_millis(10);

/// The empty folder that Debian's sshd wants when root runs it; it is there only while the system's
/// own sshd runs.
const SEPARATION: &str = "/run/sshd";

const LOG: &str = "log";

/// The file name of the clients' configuration.
const CLIENT: &str = "ssh_config";

/// A running SSH server; dropping it ends it.
#[derive(Debug)]
pub struct Sshd {
    child: Child,
    address: SocketAddr,
    user: String,
    folder: tempfile::TempDir,
}

impl Sshd {
    /// Starts the server and waits until it answers.
    ///
    /// # Errors
    /// A missing program with its package, or the message of the server.
    pub fn start(link: Option<&Link>) -> Result<Self> {
        for tool in [SSHD, SSH_KEYGEN, SETPRIV] {
            tool.find()?;
        }
        let user = User::from_uid(geteuid())?.context("this user has no name")?.name;
        let folder = private::temporary("orthrus-sshd-")?;
        for key in ["host_key", "user_key"] {
            let mut command = SSH_KEYGEN.command()?;
            command.args(["-q", "-t", "ed25519", "-N", "", "-C", "bench", "-f"]).arg(folder.path().join(key));
            run(&mut command, &AtomicBool::new(false))?;
        }
        std::fs::copy(folder.path().join("user_key.pub"), folder.path().join("authorized_keys"))?;
        let mut last = anyhow!("sshd was not started");
        for _ in 0..TRIES {
            match listen(folder.path(), &user, link) {
                Ok((child, address)) => return Ok(Self { child, address, user, folder }),
                Err(error) => last = error,
            }
        }
        Err(last.context("sshd does not start"))
    }

    /// Returns the way there, for `program`.
    pub fn way(&self, program: CopyProgram) -> Ssh {
        let host = format!("{}@{}", self.user, self.address.ip());
        Ssh { host, config: Some(self.folder.path().join(CLIENT)), program }
    }

    /// Returns the server's log.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.folder.path().join(LOG)).unwrap_or_default().trim().to_owned()
    }

    /// Returns the processor time of the server and of its closed connections, in steps of 10 ms.
    /// Waits for connections that are about to end.
    pub fn cpu(&self) -> Option<Duration> {
        let end = Instant::now() + REAP_MAX;
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        while std::fs::read_to_string(&children).is_ok_and(|list| !list.trim().is_empty())
            && Instant::now() < end
        {
            std::thread::sleep(LOOK);
        }
        cpu::of_family(self.child.id())
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        // Connections that are about to end are its children, and would be left to others.
        let _ = self.cpu();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes a configuration with a free port and starts the server on it.
fn listen(folder: &Path, user: &str, link: Option<&Link>) -> Result<(Child, SocketAddr)> {
    let free = || Ok(TcpListener::bind(link::listen(link))?.local_addr()?);
    let address = link::at_server(link, free)?;
    std::fs::write(folder.join("sshd_config"), configuration(folder, user, address))?;
    let host_key = std::fs::read_to_string(folder.join("host_key.pub"))?;
    std::fs::write(folder.join("known_hosts"), format!("[{}]:{} {host_key}", address.ip(), address.port()))?;
    std::fs::write(folder.join(CLIENT), client_configuration(folder, address))?;
    let log = folder.join(LOG);
    let mut command = command()?;
    command.args(["-D", "-e", "-f"]).arg(folder.join("sshd_config"));
    let output = File::create(&log)?;
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    let mut child = link::at_server(link, || Ok(command.spawn()?))?;
    let answered = wait_until_it_answers(&mut child, address);
    answered.map(|()| address).map_err(|error| {
        let _ = child.kill();
        let _ = child.wait();
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        if said.trim().is_empty() { error } else { anyhow!("{}", said.trim()) }
    })?;
    Ok((child, address))
}

fn wait_until_it_answers(child: &mut Child, address: SocketAddr) -> Result<()> {
    let end = Instant::now() + START_MAX;
    while Instant::now() < end {
        if let Some(status) = child.try_wait()? {
            bail!("it ended with {status}");
        }
        let greets = |mut stream: TcpStream| -> std::io::Result<bool> {
            stream.set_read_timeout(Some(Duration::from_secs(2)))?;
            let mut greeting = [0; 4];
            stream.read_exact(&mut greeting)?;
            Ok(&greeting == b"SSH-")
        };
        if TcpStream::connect(address).and_then(greets).unwrap_or(false) {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
    bail!("it does not answer")
}

/// The server's command. It starts itself again for each connection, for which it needs its whole
/// path.
fn command() -> Result<Command> {
    let sshd = SSHD.find()?;
    let mut command = if geteuid().is_root() && !Path::new(SEPARATION).exists() {
        // The folder is made where only this server sees it: in a mount namespace of its own.
        let mut command = UNSHARE.command()?;
        let script = format!(
            "mount -t tmpfs -o mode=755 none /run && mkdir -m 755 {SEPARATION} && exec \"$0\" \"$@\""
        );
        command.args(["--mount", "--propagation", "private", "--", "sh", "-c", &script]).arg(SETPRIV.find()?);
        command
    } else {
        SETPRIV.command()?
    };
    command.args(["--pdeathsig", "KILL", "--"]).arg(sshd);
    Ok(command)
}

fn configuration(folder: &Path, user: &str, address: SocketAddr) -> String {
    let (folder, ip, port) = (folder.display(), address.ip(), address.port());
    format!(
        "Port {port}
ListenAddress {ip}
HostKey \"{folder}/host_key\"
AuthorizedKeysFile \"{folder}/authorized_keys\"
PidFile none
StrictModes no
UsePAM no
AuthenticationMethods publickey
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AllowUsers {user}
AllowTcpForwarding no
AllowAgentForwarding no
X11Forwarding no
PermitTunnel no
PermitTTY no
PrintMotd no
Subsystem sftp internal-sftp
ForceCommand internal-sftp
LogLevel ERROR
"
    )
}

fn client_configuration(folder: &Path, address: SocketAddr) -> String {
    let (folder, port) = (folder.display(), address.port());
    format!(
        "Port {port}
IdentityFile \"{folder}/user_key\"
UserKnownHostsFile \"{folder}/known_hosts\"
GlobalKnownHostsFile /dev/null
StrictHostKeyChecking yes
IdentitiesOnly yes
IdentityAgent none
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::{SCP, SFTP};

    #[test]
    fn a_folder_goes_there_by_scp_and_sftp_and_the_server_ends_with_its_owner() {
        if let Err(missing) = SSHD.find().and(SSH_KEYGEN.find()).and(SCP.find()).and(SFTP.find()) {
            return eprintln!("skipped: {missing}");
        }
        let (dir, stop) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
        let source = dir.path().join("a \"source\" [*]");
        std::fs::create_dir(&source).unwrap();
        std::fs::write(source.join("file"), b"contents").unwrap();
        let sshd = Sshd::start(None).unwrap();
        let (pid, before) = (sshd.child.id(), sshd.cpu().unwrap());
        for program in [CopyProgram::Scp, CopyProgram::Sftp] {
            let (ssh, there) = (sshd.way(program), dir.path().join(format!("by {}", program.name())));
            ssh.make_folder(&there).unwrap();
            let ran = run(&mut ssh.copy(&source, &there.join("copy")).unwrap(), &stop).unwrap().unwrap();
            assert_eq!(std::fs::read(there.join("copy/file")).unwrap(), b"contents");
            assert!(ran.cpu > Duration::ZERO && sshd.cpu().unwrap() >= before);
            let back = dir.path().join("back");
            run(&mut ssh.fetch(&there.join("copy"), &back).unwrap(), &stop).unwrap();
            assert_eq!(std::fs::read(back.join("file")).unwrap(), b"contents");
            std::fs::remove_dir_all(&back).unwrap();
            assert!(ssh.free(&there).is_some_and(|bytes| bytes > 0));
            std::fs::write(there.join("alone"), b"x").unwrap();
            ssh.remove(&["copy", "alone", "nothing"].map(|name| there.join(name)), Some(&there)).unwrap();
            assert!(!there.exists());
        }
        // Another key is not let in.
        std::fs::remove_file(sshd.folder.path().join("user_key")).unwrap();
        let mut other = SSH_KEYGEN.command().unwrap();
        other.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(sshd.folder.path().join("user_key"));
        run(&mut other, &stop).unwrap();
        let refused = sshd.way(CopyProgram::Scp).make_folder(&dir.path().join("again")).unwrap_err();
        let said = format!("{refused:#}");
        assert!(
            said.contains("Permission denied") && said.contains("has to work without a question"),
            "{said}"
        );
        drop(sshd);
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "the server goes on");
    }
}
