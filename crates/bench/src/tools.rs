//! The programs that the published evaluations used: found, or named with their package; run, and
//! ended when the run is.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::cpu;

/// Folders of administrators' programs, which a user's PATH leaves out.
pub const SBIN: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// How often a running program is asked whether it is still wanted.
const LOOK: Duration = Duration::from_millis(50);

/// Time that a program has to end after SIGTERM; then it is killed.
const END_MAX: Duration = Duration::from_secs(3);

/// How much of a failed program's words is repeated, in characters from their end.
const SAID_MAX: usize = 600;

/// A program that a measurement needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemTool {
    /// Its name in PATH.
    pub name: &'static str,
    /// Debian's package that has it.
    pub package: &'static str,
}

/// Flexible I/O tester: random and sequential reads and writes.
pub const FIO: SystemTool = SystemTool { name: "fio", package: "fio" };
/// git, for metadata loads.
pub const GIT: SystemTool = SystemTool { name: "git", package: "git" };
/// cp, for copies on a mount.
pub const CP: SystemTool = SystemTool { name: "cp", package: "coreutils" };
/// The client of OpenSSH that copies files.
pub const SCP: SystemTool = SystemTool { name: "scp", package: "openssh-client" };
/// sftp, the client; scp's preparation at the other end uses it, too.
pub const SFTP: SystemTool = SystemTool { name: "sftp", package: "openssh-client" };
/// The connection program of scp and sftp.
pub const SSH: SystemTool = SystemTool { name: "ssh", package: "openssh-client" };
/// Makes keys for scp.
pub const SSH_KEYGEN: SystemTool = SystemTool { name: "ssh-keygen", package: "openssh-client" };
/// The server of scp.
pub const SSHD: SystemTool = SystemTool { name: "sshd", package: "openssh-server" };
/// Ends a program with the one that started it, however that ends.
pub const SETPRIV: SystemTool = SystemTool { name: "setpriv", package: "util-linux" };
/// Gives a program a mount namespace of its own.
pub const UNSHARE: SystemTool = SystemTool { name: "unshare", package: "util-linux" };
/// The program that mounts, as root.
pub const MOUNT: SystemTool = SystemTool { name: "mount", package: "mount" };
/// The program that unmounts, as root.
pub const UMOUNT: SystemTool = SystemTool { name: "umount", package: "mount" };
/// The helper of mount for NFS.
pub const MOUNT_NFS: SystemTool = SystemTool { name: "mount.nfs4", package: "nfs-common" };
/// Lists tickets with their encryption types.
pub const KLIST: SystemTool = SystemTool { name: "klist", package: "krb5-user" };

impl SystemTool {
    /// Finds the program in PATH and in the folders of administrators' programs.
    ///
    /// # Errors
    /// Names the package when it is not there.
    pub fn find(self) -> Result<PathBuf> {
        find(self.name)
            .ok_or_else(|| anyhow!("{} is not installed (apt install {})", self.name, self.package))
    }

    /// Makes a command of it that speaks English and has no input.
    ///
    /// # Errors
    /// As [`SystemTool::find`].
    pub fn command(self) -> Result<Command> {
        let mut command = Command::new(self.find()?);
        command.env("LC_ALL", "C").stdin(Stdio::null());
        Ok(command)
    }
}

/// Finds a program in PATH and in the folders of administrators' programs.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SBIN.iter().map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Runs a command to its end with this text on its standard input; returns what it printed.
///
/// # Errors
/// When it does not start, or fails: with the end of its output, in one line.
pub fn fed(command: &mut Command, input: &str) -> Result<String> {
    let name = name(command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("{name} does not start"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends early closes its end; its message tells more than EPIPE does.
        let _ = stdin.write_all(input.as_bytes());
    }
    printed(&name, &child.wait_with_output()?)
}

/// The output of a program.
#[derive(Debug)]
pub struct Ran {
    /// The standard output of the command.
    pub stdout: String,
    /// How long it took.
    pub time: Duration,
    /// Processor time of it and of all that it waited for.
    pub cpu: Duration,
}

/// Runs a command to its end in a process group of its own; `None` when `stop` was set meanwhile
/// and ended it.
///
/// # Errors
/// When it does not start, or fails: with the end of its output.
pub fn run(command: &mut Command, stop: &AtomicBool) -> Result<Option<Ran>> {
    use std::os::unix::process::CommandExt;
    let name = name(command);
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    // Ctrl-C is for this program, which then ends the other one.
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (used, start) = (cpu::of_children(), Instant::now());
    let child = command.spawn().with_context(|| format!("{name} does not start"))?;
    let output = wait(child, stop).with_context(|| format!("{name} was lost"))?;
    let (time, cpu) = (start.elapsed(), cpu::of_children().saturating_sub(used));
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    Ok(Some(Ran { stdout: printed(&name, &output)?, time, cpu }))
}

fn name(command: &Command) -> String {
    Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the standard output of a program that succeeded.
fn printed(name: &str, output: &Output) -> Result<String> {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{}", failure(name, output.status, if stderr.trim().is_empty() { &stdout } else { &stderr }));
    }
    Ok(stdout)
}

/// Waits for a child in this thread, so that its end is seen at once, while another thread looks
/// whether to end it.
fn wait(child: Child, stop: &AtomicBool) -> std::io::Result<Output> {
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    let (alive, ended) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut told: Option<Instant> = None;
            while matches!(ended.recv_timeout(LOOK), Err(RecvTimeoutError::Timeout)) {
                match told {
                    None if stop.load(Ordering::Relaxed) => {
                        let _ = killpg(group, Signal::SIGTERM);
                        told = Some(Instant::now());
                    }
                    Some(since) if since.elapsed() > END_MAX => drop(killpg(group, Signal::SIGKILL)),
                    _ => {}
                }
            }
        });
        let output = child.wait_with_output();
        drop(alive);
        output
    })
}

fn failure(name: &str, status: ExitStatus, said: &str) -> String {
    let said = said.trim();
    let skipped = said.chars().count().saturating_sub(SAID_MAX);
    let said: String = said.chars().skip(skipped).collect();
    if said.is_empty() { format!("{name} ended with {status}") } else { format!("{name}: {said}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null());
        command
    }

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let missing = SystemTool { name: "no-such-program-anywhere", package: "some-package" };
        let error = missing.find().unwrap_err().to_string();
        assert_eq!(error, "no-such-program-anywhere is not installed (apt install some-package)");
        assert!(SystemTool { name: "sh", package: "dash" }.find().is_ok());
    }

    #[test]
    fn a_program_gives_what_it_printed_and_the_time_it_used() {
        let stop = AtomicBool::new(false);
        let ran = run(&mut shell("echo 7; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"), &stop)
            .unwrap()
            .unwrap();
        assert_eq!(ran.stdout, "7\n");
        assert!(ran.cpu > Duration::ZERO && ran.time > Duration::ZERO, "{ran:?}");
    }

    #[test]
    fn a_program_that_fails_is_quoted() {
        let stop = AtomicBool::new(false);
        let error = run(&mut shell("echo 'cp: No space left on device' >&2; exit 3"), &stop).unwrap_err();
        assert_eq!(error.to_string(), "sh: cp: No space left on device");
        let error = run(&mut shell("exit 3"), &stop).unwrap_err();
        assert!(error.to_string().contains("exit status: 3"), "{error}");
    }

    #[test]
    fn a_stopped_run_ends_its_program_and_all_children() {
        let stop = AtomicBool::new(false);
        let start = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(100));
                stop.store(true, Ordering::Relaxed);
            });
            assert!(run(&mut shell("sleep 600 & wait"), &stop).unwrap().is_none());
        });
        // Without the signal it would be ten minutes.
        assert!(start.elapsed() < Duration::from_secs(60));
        assert!(run(&mut shell("exit 3"), &stop).unwrap().is_none(), "what is stopped begins nothing");
    }
}
