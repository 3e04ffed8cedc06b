//! The program: found, built, run.

use crate::folders::empty_folder;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Names the domain's folder in a process that runs inside the namespaces of a domain.
pub(crate) const IN_DOMAIN: &str = "ORTHRUS_TEST_DOMAIN";

/// A process that runs inside a realm or a domain was started by one that has built the program.
const INSIDE: [&str; 2] = ["ORTHRUS_TEST_REALM", IN_DOMAIN];

/// The exit status and the output of a program.
#[derive(Debug)]
pub struct Ended {
    /// The program's exit status.
    pub status: ExitStatus,
    /// All text on standard output.
    pub stdout: String,
    /// All text on standard error.
    pub stderr: String,
}

/// Returns the program, built as this test was built: once a process, and not in one that the test
/// has started.
///
/// The variable `ORTHRUS` names another one.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| match std::env::var_os("ORTHRUS") {
        Some(program) => program.into(),
        None => built(),
    })
}

fn built() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    let folder = test.ancestors().nth(2).expect("TARGET/PROFILE/deps/TEST").to_owned();
    let program = folder.join("orthrus");
    if INSIDE.iter().any(|name| std::env::var_os(name).is_some()) && program.exists() {
        return program;
    }
    build(&folder, folder.parent().expect("TARGET/PROFILE"), &[]);
    program
}

/// Builds the program with what `folder` holds already, into the same profile's folder below
/// `target`.
fn build(folder: &Path, target: &Path, arguments: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--package", "orthrus", "--target-dir"]).arg(target);
    build.args(arguments).current_dir(root);
    build.env("CARGO_BUILD_BUILD_DIR", folder.parent().expect("TARGET/PROFILE"));
    if folder.file_name().is_some_and(|profile| profile == "release") {
        build.arg("--release");
    }
    assert!(build.status().expect("cargo starts").success(), "the program does not build");
}

/// Returns a program of the next version: with a later minor version of the handover, and a field
/// in its image that the present one does not know.
///
/// The variable `ORTHRUS_NEXT` names another one.
pub fn next_program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| match std::env::var_os("ORTHRUS_NEXT") {
        Some(program) => program.into(),
        None => next_built(),
    })
}

fn next_built() -> PathBuf {
    let folder = program().parent().expect("TARGET/PROFILE");
    let target = folder.with_file_name("next");
    let next = target.join(folder.file_name().expect("PROFILE")).join("orthrus");
    if !(INSIDE.iter().any(|name| std::env::var_os(name).is_some()) && next.exists()) {
        // Only the crates with the feature are compiled twice.
        build(folder, &target, &["--features", "next-version"]);
    }
    next
}

/// A folder with the program and with others that may follow it, as packages install them: a server
/// starts no program of another folder.
#[derive(Debug)]
pub struct Installation {
    folder: TempDir,
}

impl Installation {
    /// Begins with the program.
    pub fn with_program() -> Self {
        let installation = Self { folder: empty_folder() };
        installation.add("orthrus", program());
        installation
    }

    /// Adds a program, and returns its path.
    pub fn add(&self, name: &str, program: &Path) -> PathBuf {
        let path = self.path(name);
        symlink(program, &path).expect("the folder is ours");
        path
    }

    /// Returns the path of a name.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the path of the program.
    pub fn program(&self) -> PathBuf {
        self.path("orthrus")
    }
}

/// Makes a command of the program. Nothing of the machine's Kerberos or of the user's settings
/// reaches it.
pub fn orthrus<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    orthrus_at(program(), arguments)
}

/// As [`orthrus`], of another program.
pub(crate) fn orthrus_at<S: AsRef<OsStr>>(program: &Path, arguments: impl IntoIterator<Item = S>) -> Command {
    clean(Command::new(program), arguments)
}

/// As [`orthrus`], but as the user `nobody`; only root can do so.
pub fn nobody<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(program());
    command.env("HOME", "/nonexistent");
    clean(command, arguments)
}

fn clean<S: AsRef<OsStr>>(mut command: Command, arguments: impl IntoIterator<Item = S>) -> Command {
    command.args(arguments).stdin(Stdio::null());
    for variable in [
        "ORTHRUS_LOG",
        "ORTHRUS_LOG_FORMAT",
        "JOURNAL_STREAM",
        "XDG_STATE_HOME",
        "KRB5_KTNAME",
        "NOTIFY_SOCKET",
        "SYSTEMD_EXEC_PID",
        "WATCHDOG_USEC",
    ] {
        command.env_remove(variable);
    }
    command
}

/// Runs a command to its end, which has to come within a minute.
pub fn run(command: &mut Command) -> Ended {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    run_within(child, Duration::from_secs(60))
}

/// Waits for a process with both outputs piped; kills it, and fails, when its time is over.
pub fn run_within(mut child: Child, time: Duration) -> Ended {
    let reader = |stream: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stream.map(|mut stream| stream.read_to_end(&mut bytes));
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let stdout = reader(child.stdout.take().map(|pipe| Box::new(pipe) as _));
    let stderr = reader(child.stderr.take().map(|pipe| Box::new(pipe) as _));
    let end = Instant::now() + time;
    let status = loop {
        if let Some(status) = child.try_wait().expect("it is a child") {
            break Some(status);
        }
        if Instant::now() > end {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let (stdout, stderr) = (stdout.join().expect("read"), stderr.join().expect("read"));
    match status {
        Some(status) => Ended { status, stdout, stderr },
        None => panic!("it did not end within {time:?}:\n{stdout}\n{stderr}"),
    }
}

/// Returns the numbers of the processes that a process has started.
pub fn children(process: u32) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let of_task = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children"));
    tasks.filter_map(|task| of_task(task.ok()?).ok()).collect()
}

/// Returns whether a program of a Debian package is there; where it is not, the test is skipped
/// with that reason.
pub fn is_installed(program: &str, package: &str) -> bool {
    let folders = ["/usr/sbin", "/usr/bin", "/usr/local/sbin"];
    let found = folders.iter().any(|folder| Path::new(folder).join(program).exists());
    if !found {
        eprintln!("skipped: {program} is not installed (apt install {package})");
    }
    found
}
