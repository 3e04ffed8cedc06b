//! `orthrus realm shell`: a shell in which the machine's Kerberos files are those of a realm.

use crate::output::errln;
use anyhow::{Context, bail, ensure};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use realm::Realm;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The service of a Linux client that gets tickets for the kernel.
const GSSD: &str = "/usr/sbin/rpc.gssd";
/// The time in which it reports a mistake and ends.
const START_TIME: Duration = Duration::from_millis(300);

/// Start a shell in which /etc/krb5.conf and /etc/krb5.keytab are those of the realm in DIR.
///
/// A Linux client reads these files. The shell has its own mounts, so that the files of the machine
/// stay as they are; mounts that you make in it end with it. It runs rpc.gssd, too. As root.
#[derive(clap::Args)]
pub(super) struct RealmShell {
    /// Folder of the realm.
    dir: PathBuf,
    /// A command to run instead of $SHELL.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl RealmShell {
    /// Runs the shell, and ends with its status.
    ///
    /// # Errors
    /// Names the realm, the right or the file system that is missing.
    pub(super) fn run(self) -> anyhow::Result<()> {
        let realm = Realm::open(&self.dir)?;
        let dir = realm.dir().display();
        ensure!(
            geteuid().is_root(),
            "only root can replace files in a shell; programs of your own need none: . {dir}/env"
        );
        let changes = private::temporary("orthrus-realm-").context("no temporary folder can be made")?;
        let upper = own_etc(&realm, changes.path());
        let ended = upper.and_then(|()| self.run_inside());
        let _ = umount2("/etc", MntFlags::MNT_DETACH);
        let _ = umount2(changes.path(), MntFlags::MNT_DETACH);
        changes.close().context("the temporary folder stays")?;
        let status = ended?;
        let code = status.code().or(status.signal().map(|signal| 128 + signal));
        if status.success() { Ok(()) } else { std::process::exit(code.unwrap_or(1)) }
    }

    fn run_inside(&self) -> anyhow::Result<ExitStatus> {
        let _gssd = Gssd::start()?;
        // The terminal sends these to the shell, too, which decides.
        for signal in [SIGINT, SIGQUIT] {
            signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
        }
        let shell = || vec![std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into())];
        let words = if self.command.is_empty() { shell() } else { self.command.clone() };
        let Some((program, arguments)) = words.split_first() else { bail!("the command is empty") };
        errln!("orthrus: /etc/krb5.conf and /etc/krb5.keytab are those of the realm until this ends");
        let child = Command::new(program).args(arguments).spawn();
        let child = child.with_context(|| program.to_string_lossy().into_owned())?;
        wait_until_ended(child)
    }
}

/// Waits for the shell. The end of the session ends it: SIGHUP does, and for SIGTERM, which shells
/// at a terminal ignore, it gets SIGHUP, too.
fn wait_until_ended(mut child: Child) -> anyhow::Result<ExitStatus> {
    let mut signals = Signals::new([SIGHUP, SIGTERM])?;
    let (handle, pid) = (signals.handle(), Pid::from_raw(i32::try_from(child.id())?));
    let passing = std::thread::spawn(move || {
        for _ in &mut signals {
            // It may have ended.
            let _ = kill(pid, Signal::SIGHUP);
        }
    });
    let status = child.wait();
    handle.close();
    let _ = passing.join();
    Ok(status?)
}

/// Leaves the mounts of the machine, and replaces the two files in `/etc` by those of the realm.
fn own_etc(realm: &Realm, changes: &Path) -> anyhow::Result<()> {
    let none = None::<&str>;
    unshare(CloneFlags::CLONE_NEWNS).context("no mount namespace can be made")?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .context("the mounts of the machine cannot be left")?;
    mount(Some("tmpfs"), changes, Some("tmpfs"), MsFlags::empty(), Some("mode=755"))
        .context("no tmpfs can be mounted")?;
    let (upper, work) = (changes.join("upper"), changes.join("work"));
    for folder in [&upper, &work] {
        fs::create_dir(folder)?;
        fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    }
    for (from, name, mode) in
        [(realm.krb5_conf(), "krb5.conf", 0o644), (realm.client_keytab(), "krb5.keytab", 0o600)]
    {
        fs::copy(&from, upper.join(name)).with_context(|| from.display().to_string())?;
        fs::set_permissions(upper.join(name), Permissions::from_mode(mode))?;
    }
    let options = format!("lowerdir=/etc,upperdir={},workdir={}", upper.display(), work.display());
    mount(Some("overlay"), "/etc", Some("overlay"), MsFlags::empty(), Some(options.as_str()))
        .context("no overlay can be mounted on /etc; `modprobe overlay` loads its module")
}

/// A running rpc.gssd that reads the files of the realm; dropping it ends it.
struct Gssd(Option<Child>);

impl Gssd {
    fn start() -> anyhow::Result<Self> {
        if !Path::new(GSSD).exists() {
            errln!("orthrus: {GSSD} is missing (package nfs-common): the kernel cannot mount with Kerberos");
            return Ok(Self(None));
        }
        if is_running("rpc.gssd") {
            errln!(
                "orthrus: the machine's rpc.gssd runs and answers for the kernel with the machine's files; \
                 stop it first: systemctl stop rpc-gssd"
            );
            return Ok(Self(None));
        }
        // It ends with this process, however that ends.
        let child = Command::new("setpriv").args(["--pdeathsig", "KILL", "--", GSSD, "-f"]).spawn();
        let mut gssd = Self(Some(child.context("setpriv")?));
        gssd.warn_if_ended();
        Ok(gssd)
    }
}

impl Gssd {
    /// Reports that rpc.gssd ends soon after its start, as without /run/rpc_pipefs.
    fn warn_if_ended(&mut self) {
        let end = Instant::now() + START_TIME;
        while let Some(child) = &mut self.0
            && Instant::now() < end
        {
            match child.try_wait() {
                Ok(Some(status)) => {
                    errln!("orthrus: {GSSD} has ended ({status}): the kernel cannot mount with Kerberos");
                    self.0 = None;
                }
                _ => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

impl Drop for Gssd {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns whether a process of this name runs.
fn is_running(name: &str) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut names = processes.filter_map(|entry| fs::read_to_string(entry.path().join("comm")).ok());
    names.any(|found| found.trim_end() == name)
}
