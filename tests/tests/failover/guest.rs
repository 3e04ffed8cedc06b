//! Linux kernels as clients: user-mode kernels on the switch, each with one job.
//!
//! The files that they run are in `guest/`; their first process and their Kerberos are those of
//! `orthrus lab`.

use crate::machines::{add_tap, plug, unplug};
use e2e::World;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A machine for a guest.
#[derive(Clone, Copy)]
pub(crate) struct GuestMachine {
    /// Its name; the realm has keys for it.
    pub(crate) host: &'static str,
    address: &'static str,
    /// The tap device of its network card.
    tap: &'static str,
}

/// The machine of the guest that holds a lock.
pub(crate) const HOLDER: GuestMachine =
    GuestMachine { host: "guest.orthrus.test", address: "10.79.0.21", tap: "orthrus-guest" };
/// The machine of the guest that wants the lock.
pub(crate) const RIVAL: GuestMachine =
    GuestMachine { host: "rival.orthrus.test", address: "10.79.0.22", tap: "orthrus-rival" };
/// The name of the gateway that a guest mounts; the realm has keys for it.
pub(crate) const GATEWAY_HOST: &str = "gateway.orthrus.test";
/// Connections of a guest to its gateway.
pub(crate) const CONNECTIONS: usize = 8;
/// The newest kernel of `scripts/debian.sh`.
const NEWEST: &str = "linux-7";
/// How long the guest may take to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause between two looks at its notes.
pub(crate) const PAUSE: Duration = Duration::from_millis(2);
/// The scripts of this test.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/failover/guest");
/// The scripts of all guests.
const COMMON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/cluster/src/guest");

/// A user-mode kernel and the folder of its modules.
pub(crate) struct GuestKernel {
    program: PathBuf,
    modules: PathBuf,
}

impl GuestKernel {
    /// Finds the newest kernel that this machine can have; without one, says why.
    pub(crate) fn find() -> Option<Self> {
        let programs =
            [("rpc.gssd", "nfs-common"), ("mount.nfs4", "nfs-common"), ("insmod", "kmod"), ("perl", "perl")];
        if !programs.iter().all(|(program, package)| e2e::is_installed(program, package)) {
            return None;
        }
        let found = Self::newest().or_else(|| Self::of("/usr/bin/linux.uml", "/usr/lib/uml/modules"));
        if found.is_none() {
            eprintln!("skipped: there is no user-mode kernel (apt install user-mode-linux)");
        } else if !Path::new("/dev/net/tun").exists() {
            eprintln!("skipped: /dev/net/tun is missing (modprobe tun)");
            return None;
        }
        found
    }

    fn newest() -> Option<Self> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/debian.sh");
        let unpacked = Command::new(script).arg(NEWEST).output().expect("it is part of the project");
        if !unpacked.status.success() {
            eprint!("{}", String::from_utf8_lossy(&unpacked.stderr));
            return None;
        }
        let folder = PathBuf::from(String::from_utf8_lossy(&unpacked.stdout).trim_end());
        Self::of(folder.join("linux"), folder.join("usr/lib/uml/modules"))
    }

    fn of(program: impl Into<PathBuf>, modules: impl AsRef<Path>) -> Option<Self> {
        let program = program.into();
        let modules = fs::read_dir(modules).ok()?.next()?.ok()?.path();
        program.exists().then_some(Self { program, modules })
    }

    /// Returns the version, as the modules' folder is named.
    pub(crate) fn version(&self) -> String {
        self.modules.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// The job of a guest: `guest/NAME.sh` and `guest/NAME.pl`.
pub(crate) struct GuestJob<'a> {
    pub(crate) name: &'static str,
    /// The address that it mounts.
    pub(crate) gateway: &'a str,
    /// Variables of the script in addition to `CONNECTIONS`.
    pub(crate) settings: String,
}

/// A running guest. It ends with the value and with this thread.
pub(crate) struct LinuxGuest {
    machine: GuestMachine,
    process: Child,
    share: PathBuf,
}

impl LinuxGuest {
    /// Boots a guest on the switch.
    pub(crate) fn boot(world: &World, kernel: &GuestKernel, machine: GuestMachine, job: &GuestJob) -> Self {
        let share = world.path(machine.host);
        prepare(world, &share, machine, job);
        add_tap(machine.tap);
        let console = fs::File::create(share.join("console.log")).expect("the folder is ours");
        let mut command = Command::new("setpriv");
        // All processes of the guest end with `unshare`, and that with this thread.
        command.args("--pdeathsig KILL unshare --pid --fork --kill-child=KILL --mount-proc sh -c".split(' '));
        command.args([r#""$@"; exit $?"#, "guest"]).args(boot(kernel, machine, &share));
        let errors = console.try_clone().expect("a descriptor is free");
        let command = command.stdin(Stdio::null()).stdout(console).stderr(errors);
        let process = command.spawn().expect("it is installed");
        Self { machine, process, share }
    }

    /// Returns the file of its notes, a letter each.
    pub(crate) fn notes_file(&self) -> PathBuf {
        self.share.join("notes")
    }

    /// Returns how often it has noted a letter.
    pub(crate) fn noted(&self, letter: u8) -> usize {
        self.notes().bytes().filter(|note| *note == letter).count()
    }

    fn notes(&self) -> String {
        fs::read_to_string(self.notes_file()).unwrap_or_default()
    }

    /// Waits until it has noted a letter more often than `before`.
    pub(crate) fn wait_for_note(&mut self, letter: u8, before: usize) -> Instant {
        let end = Instant::now() + PATIENCE;
        while self.noted(letter) <= before {
            let letter = char::from(letter);
            assert!(self.runs(), "the guest has ended without {letter:?}\n{}", self.log());
            let notes = self.notes();
            assert!(Instant::now() < end, "the guest notes no {letter:?} but {notes}\n{}", self.log());
            std::thread::sleep(PAUSE);
        }
        Instant::now()
    }

    /// Shows it a file with this name.
    pub(crate) fn show(&self, name: &str) {
        fs::write(self.share.join(name), "").expect("the folder is ours");
    }

    /// Pulls the plug of its network.
    pub(crate) fn cut(&self) {
        unplug(self.machine.tap);
    }

    /// Puts the plug back.
    pub(crate) fn heal(&self) {
        plug(self.machine.tap);
    }

    /// Waits for its end, and checks that its job has succeeded.
    pub(crate) fn wait(&mut self) {
        let end = Instant::now() + PATIENCE;
        while self.runs() {
            assert!(Instant::now() < end, "the guest does not end\n{}", self.log());
            std::thread::sleep(PAUSE);
        }
        assert_eq!(self.code().trim(), "0", "{}", self.log());
    }

    /// Returns whether its job runs.
    fn runs(&mut self) -> bool {
        !self.code().ends_with('\n') && self.process.try_wait().is_ok_and(|ended| ended.is_none())
    }

    fn code(&self) -> String {
        fs::read_to_string(self.share.join("code")).unwrap_or_default()
    }

    /// Returns the output of the guest.
    fn log(&self) -> String {
        ["out", "gssd.log", "console.log"].map(|name| self.last_lines(name)).concat()
    }

    fn last_lines(&self, name: &str) -> String {
        let text = fs::read(self.share.join(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        format!("== {} {name}\n{}\n", self.machine.host, lines[lines.len().saturating_sub(20)..].join("\n"))
    }
}

impl Drop for LinuxGuest {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = Command::new("ip").args(["link", "del", self.machine.tap]).stderr(Stdio::null()).status();
        let _ = fs::remove_dir_all(&self.share);
    }
}

/// Fills the one folder that the guest shares with this machine.
fn prepare(world: &World, share: &Path, machine: GuestMachine, job: &GuestJob) {
    let (GuestMachine { host, address, .. }, gateway) = (machine, job.gateway);
    for folder in ["etc", "jobs", "uml"] {
        fs::create_dir_all(share.join(folder)).expect("a new name");
    }
    // alice, in the guest, passes through it.
    fs::set_permissions(share, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let copy = |from: PathBuf, to: &str| _ = fs::copy(&from, share.join(to)).expect("it is there");
    copy(Path::new(COMMON).join("kerberos.sh"), "kerberos.sh");
    copy(Path::new(COMMON).join("lib.sh"), "lib.sh");
    copy(Path::new(SCRIPTS).join("setup.sh"), "setup.sh");
    copy(Path::new(SCRIPTS).join("lib.pl"), "lib.pl");
    copy(Path::new(SCRIPTS).join("mount.sh"), "mount.sh");
    copy(Path::new(SCRIPTS).join(format!("{}.pl", job.name)), "job.pl");
    copy(Path::new(SCRIPTS).join(format!("{}.sh", job.name)), "jobs/job.sh");
    copy(world.realm.client_keytab(), "client.keytab");
    copy(world.realm.users_keytab(), "users.keytab");
    copy(world.realm.krb5_conf(), "etc/krb5.conf");
    let write = |name: &str, text: String| fs::write(share.join(name), text).expect("the folder is ours");
    write("settings", format!("HOST={host} CONNECTIONS={CONNECTIONS} {}\n", job.settings));
    write("etc/hosts", format!("127.0.0.1 localhost\n{address} {host}\n{gateway} {GATEWAY_HOST}\n"));
    write("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n".to_owned());
    let realm = world.realm.name();
    let domain = realm.to_lowercase();
    write("etc/idmapd.conf", format!("[General]\nDomain = {domain}\nLocal-Realms = {realm}\n"));
    let account = e2e::account("alice");
    let (user, group) = (account.uid, account.gid);
    for (name, line) in [
        ("passwd", format!("alice:x:{user}:{group}::/tmp:/bin/bash")),
        ("group", format!("alice:x:{group}:")),
    ] {
        let text = fs::read_to_string(Path::new("/etc").join(name)).expect("every Linux has it");
        write(&format!("etc/{name}"), format!("{line}\n{text}"));
    }
}

/// Returns the command that boots the guest.
fn boot(kernel: &GuestKernel, machine: GuestMachine, share: &Path) -> Vec<OsString> {
    let (GuestMachine { address, tap, .. }, share) = (machine, share.display());
    let words = [
        kernel.program.display().to_string(),
        "mem=512M".to_owned(),
        "rootfstype=hostfs".to_owned(),
        "rootflags=/".to_owned(),
        "rw".to_owned(),
        format!("init={COMMON}/init.sh"),
        format!("SHARE={share}"),
        format!("MODULES={}", kernel.modules.display()),
        format!("ADDRESS={address}"),
        format!("vec0:transport=tap,ifname={tap},depth=128,gro=1"),
        "umid=guest".to_owned(),
        format!("uml_dir={share}/uml"),
        // No consoles but the first, which only writes: a closed input makes the kernel spin.
        "con=null".to_owned(),
        "con0=null,fd:1".to_owned(),
    ];
    words.map(OsString::from).to_vec()
}
