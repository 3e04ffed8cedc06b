//! A Linux kernel as a client: a user-mode kernel on the switch, which holds a lock and appends.
//!
//! The files that it runs are in `guest/`; its first process and its Kerberos are those of
//! `orthrus lab`.

use crate::clients::HolderProgress;
use e2e::World;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The address of the guest.
const ADDRESS: &str = "10.79.0.21";
/// The names of the guest and of the gateway that it mounts; the realm has keys for them.
pub(crate) const GUEST_HOST: &str = "guest.orthrus.test";
pub(crate) const GATEWAY_HOST: &str = "gateway.orthrus.test";
/// The tap device of the guest's network card.
const TAP: &str = "orthrus-guest";
/// The file that it appends to, below the export.
pub(crate) const FILE: &str = "linux";
/// Its connections to the gateway.
pub(crate) const CONNECTIONS: usize = 8;
/// The newest kernel of `scripts/debian.sh`.
const NEWEST: &str = "linux-7";
/// How long the guest may take to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause between two looks at its acknowledgements.
const PAUSE: Duration = Duration::from_millis(2);
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

/// A Linux client that appends to a file under a lock. It ends with the value and with this thread.
pub(crate) struct LinuxHolder {
    pub(crate) progress: Arc<HolderProgress>,
    guest: Child,
    share: PathBuf,
    ends: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl LinuxHolder {
    /// Boots the guest, whose network card `plug` connects to the switch; `gateway` is the address
    /// that it mounts.
    pub(crate) fn start(world: &World, kernel: &GuestKernel, gateway: &str, plug: impl FnOnce(&str)) -> Self {
        let share = world.path("guest");
        prepare(world, &share, gateway);
        plug(TAP);
        let console = fs::File::create(share.join("console.log")).expect("the folder is ours");
        let mut command = Command::new("setpriv");
        // All processes of the guest end with `unshare`, and that with this thread.
        command.args("--pdeathsig KILL unshare --pid --fork --kill-child=KILL --mount-proc sh -c".split(' '));
        command.args([r#""$@"; exit $?"#, "guest"]).args(boot(kernel, &share));
        let errors = console.try_clone().expect("a descriptor is free");
        let command = command.stdin(Stdio::null()).stdout(console).stderr(errors);
        let guest = command.spawn().expect("it is installed");
        let (progress, ends) = (Arc::<HolderProgress>::default(), Arc::<AtomicBool>::default());
        // The lock comes before the first acknowledgement.
        progress.holds.store(true, SeqCst);
        let (shared, asked, path) = (Arc::clone(&progress), Arc::clone(&ends), share.join("acknowledged"));
        let reader = std::thread::spawn(move || read_acknowledgements(&path, &shared, &asked));
        Self { progress, guest, share, ends, reader: Some(reader) }
    }

    /// Lets it unlock and unmount, and waits for its end.
    pub(crate) fn stop(mut self) {
        self.progress.holds.store(false, SeqCst);
        fs::write(self.share.join("stop"), "").expect("the folder is ours");
        let end = Instant::now() + PATIENCE;
        let code = || fs::read_to_string(self.share.join("code")).unwrap_or_default();
        while !code().ends_with('\n') && self.guest.try_wait().is_ok_and(|ended| ended.is_none()) {
            assert!(Instant::now() < end, "the guest does not end\n{}", self.log());
            std::thread::sleep(PAUSE);
        }
        let code = code();
        assert_eq!(code.trim(), "0", "{}", self.log());
    }

    /// Returns the output of the guest.
    pub(crate) fn log(&self) -> String {
        ["out", "gssd.log", "console.log"].map(|name| self.last_lines(name)).concat()
    }

    fn last_lines(&self, name: &str) -> String {
        let text = fs::read(self.share.join(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        format!("== {name}\n{}\n", lines[lines.len().saturating_sub(20)..].join("\n"))
    }
}

impl Drop for LinuxHolder {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
        self.ends.store(true, SeqCst);
        let _ = self.guest.kill();
        let _ = self.guest.wait();
        self.reader.take().map(JoinHandle::join);
        let _ = Command::new("ip").args(["link", "del", TAP]).stderr(Stdio::null()).status();
        let _ = fs::remove_dir_all(&self.share);
    }
}

/// Counts the acknowledgements that the guest writes down.
fn read_acknowledgements(path: &Path, progress: &HolderProgress, ends: &AtomicBool) {
    let mut counted = 0;
    while !ends.load(SeqCst) {
        let all = fs::read(path).unwrap_or_default();
        for kind in &all[counted..] {
            progress.note(if *kind == b'w' { &progress.written } else { &progress.made });
        }
        counted = all.len();
        std::thread::sleep(PAUSE);
    }
}

/// Fills the one folder that the guest shares with this machine.
fn prepare(world: &World, share: &Path, gateway: &str) {
    for folder in ["etc", "jobs", "uml"] {
        fs::create_dir_all(share.join(folder)).expect("a new name");
    }
    // alice, in the guest, passes through it.
    fs::set_permissions(share, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let copy = |from: PathBuf, to: &str| _ = fs::copy(&from, share.join(to)).expect("it is there");
    copy(Path::new(COMMON).join("kerberos.sh"), "kerberos.sh");
    copy(Path::new(COMMON).join("lib.sh"), "lib.sh");
    copy(Path::new(SCRIPTS).join("setup.sh"), "setup.sh");
    copy(Path::new(SCRIPTS).join("append.pl"), "append.pl");
    copy(Path::new(SCRIPTS).join("append.sh"), "jobs/append.sh");
    copy(world.realm.client_keytab(), "client.keytab");
    copy(world.realm.users_keytab(), "users.keytab");
    copy(world.realm.krb5_conf(), "etc/krb5.conf");
    let write = |name: &str, text: String| fs::write(share.join(name), text).expect("the folder is ours");
    write("settings", format!("FILE={FILE} CONNECTIONS={CONNECTIONS}\n"));
    write("etc/hosts", format!("127.0.0.1 localhost\n{ADDRESS} {GUEST_HOST}\n{gateway} {GATEWAY_HOST}\n"));
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
fn boot(kernel: &GuestKernel, share: &Path) -> Vec<OsString> {
    let share = share.display();
    let words = [
        kernel.program.display().to_string(),
        "mem=512M".to_owned(),
        "rootfstype=hostfs".to_owned(),
        "rootflags=/".to_owned(),
        "rw".to_owned(),
        format!("init={COMMON}/init.sh"),
        format!("SHARE={share}"),
        format!("MODULES={}", kernel.modules.display()),
        format!("ADDRESS={ADDRESS}"),
        format!("vec0:transport=tap,ifname={TAP},depth=128,gro=1"),
        "umid=guest".to_owned(),
        format!("uml_dir={share}/uml"),
        // No consoles but the first, which only writes: a closed input makes the kernel spin.
        "con=null".to_owned(),
        "con0=null,fd:1".to_owned(),
    ];
    words.map(OsString::from).to_vec()
}
