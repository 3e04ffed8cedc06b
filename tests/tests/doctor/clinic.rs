//! A realm and a server that all cases share, and a client or a server machine for each case.

use e2e::{Ended, Serve, Server, World, account, orthrus, program, run};
use nix::unistd::User;
use serde_json::Value;
use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The realm and the server.
pub(crate) struct Clinic<'w> {
    pub(crate) world: &'w World,
    pub(crate) server: Server,
    ticket: PathBuf,
}

impl<'w> Clinic<'w> {
    /// Starts a server with the exports `/export`, in all flavors, and `/private`, with privacy.
    pub(crate) fn open(world: &'w World) -> Self {
        let ticket = world.path("ticket-of-alice");
        world.realm.kinit("alice", &ticket).expect("the KDC gives a ticket");
        let file = world.path("orthrus.toml");
        fs::write(&file, configuration(world, 0, "")).unwrap();
        let server = Serve::new(world.path("state")).arg("--config").arg(file).start();
        Self { world, server, ticket }
    }
}

/// Returns the configuration of the server; `more` is added to it.
pub(crate) fn configuration(world: &World, port: u16, more: &str) -> String {
    let export = world.export();
    format!(
        "listen = \"127.0.0.1:{port}\"\nkeytab = \"{}\"\ndomain = \"orthrus.test\"\n\
         [principals]\n\"alice@{}\" = \"{}\"\n{more}\n\
         [[export]]\npath = \"{export}\"\npseudo = \"/export\"\nsecure = false\nsec = [\"krb5p\", \"krb5i\", \"krb5\", \"sys\"]\n\
         [[export]]\npath = \"{export}\"\npseudo = \"/private\"\nsecure = false\nsec = [\"krb5p\"]\n",
        world.realm.server_keytab().display(),
        world.realm.name(),
        account("alice").name,
        export = export.display(),
    )
}

/// A finding of the report.
#[derive(Debug)]
pub(crate) struct ReportedFinding {
    pub(crate) check: String,
    pub(crate) severity: String,
    pub(crate) cause: String,
    pub(crate) remedy: String,
}

/// The report of a run.
#[derive(Debug)]
pub(crate) struct DoctorVerdict {
    pub(crate) status: i32,
    pub(crate) findings: Vec<ReportedFinding>,
    pub(crate) text: String,
}

/// A machine to examine: a folder with its settings, and an environment.
pub(crate) struct Patient<'w> {
    pub(crate) clinic: &'w Clinic<'w>,
    folder: TempDir,
    pub(crate) host: String,
    pub(crate) export: String,
    pub(crate) port: u16,
    pub(crate) flavor: Option<&'static str>,
    pub(crate) more: Vec<OsString>,
    pub(crate) variables: BTreeMap<&'static str, OsString>,
    /// Files that replace others in a mount namespace of the run.
    pub(crate) binds: Vec<(PathBuf, &'static str)>,
    /// Commands of the shell in that namespace, before the run.
    pub(crate) prepare: Vec<String>,
    /// Processes and sockets that live as long as the case.
    pub(crate) keep: Vec<Box<dyn Any>>,
    /// The user as whom the doctor runs, if it is another one.
    user: Option<User>,
    server: bool,
}

/// Linux's list of mounts with one of the server, over eight connections.
pub(crate) fn mountinfo(options: &str) -> String {
    format!(
        "36 1 0:52 / /mnt rw,relatime shared:1 - nfs4 localhost:/export rw,vers=4.2,{options}sec=krb5p,addr=127.0.0.1\n"
    )
}

impl<'w> Patient<'w> {
    fn new(clinic: &'w Clinic<'w>, server: bool) -> Self {
        let folder = e2e::empty_folder();
        let mut patient = Self {
            clinic,
            folder,
            host: "localhost".into(),
            export: "/export".into(),
            port: clinic.server.port(),
            flavor: None,
            more: Vec::new(),
            variables: BTreeMap::new(),
            binds: Vec::new(),
            prepare: Vec::new(),
            keep: Vec::new(),
            user: None,
            server,
        };
        let uid = uid();
        let realm = &clinic.world.realm;
        patient.write("proc/4242/comm", "rpc.gssd\n");
        patient.write("proc/4242/cmdline", "/usr/sbin/rpc.gssd\0");
        patient.write("proc/modules", "nfsv4 1 0 - Live 0x0\nrpcsec_gss_krb5 1 0 - Live 0x0\n");
        patient.write("proc/sys/kernel/osrelease", "6.12.9-amd64\n");
        patient.write("proc/self/mounts", "rpc_pipefs /run/rpc_pipefs rpc_pipefs rw 0 0\n");
        patient.write("proc/self/mountinfo", mountinfo("nconnect=8,"));
        patient.write("sys/class/bdi/0:52/read_ahead_kb", "4096\n");
        patient.write("etc/idmapd.conf", "[General]\nDomain = orthrus.test\n");
        patient.copy(&realm.krb5_conf(), "etc/krb5.conf");
        patient.copy(&realm.client_keytab(), "etc/krb5.keytab");
        patient.copy(&clinic.ticket, &format!("tmp/krb5cc_{uid}"));
        let config = patient.path("etc/krb5.conf").into();
        patient.variables.insert("KRB5_CONFIG", config);
        patient.ticket_at(&format!("tmp/krb5cc_{uid}"));
        patient
    }

    /// Makes a client on which nothing is wrong.
    pub(crate) fn client(clinic: &'w Clinic<'w>) -> Self {
        Self::new(clinic, false)
    }

    /// Makes a server on which nothing is wrong.
    pub(crate) fn server(clinic: &'w Clinic<'w>) -> Self {
        let mut patient = Self::new(clinic, true);
        patient.configure("");
        patient
    }

    /// Writes the server's configuration, with additions.
    pub(crate) fn configure(&mut self, more: &str) {
        let text = configuration(self.clinic.world, self.port, more);
        self.write("etc/orthrus/orthrus.toml", &text);
    }

    /// Lets a user run the doctor: everyone can read the machine's settings, and only root its
    /// keytab. The user has the ticket.
    pub(crate) fn examined_by(&mut self, user: &str) {
        let user = account(user);
        let (uid, gid) = (user.uid.as_raw(), user.gid.as_raw());
        let cache = format!("tmp/krb5cc_{uid}");
        self.copy(&self.clinic.ticket, &cache);
        chown(self.path(&cache), Some(uid), Some(gid)).expect("root may");
        self.ticket_at(&cache);
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
            for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                let secret = path.ends_with("krb5.keytab") || path.starts_with(self.path("tmp"));
                match path.is_dir() {
                    true => folders.push(path),
                    false if secret => {}
                    false => fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap(),
                }
            }
        }
        self.user = Some(user);
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    pub(crate) fn copy(&self, from: &Path, name: &str) {
        self.write(name, fs::read(from).expect("the realm has it"));
    }

    pub(crate) fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap();
    }

    /// Changes the user's cache to a file of the machine.
    pub(crate) fn ticket_at(&mut self, name: &str) {
        let cache = format!("FILE:{}", self.path(name).display());
        self.variables.insert("KRB5CCNAME", cache.into());
    }

    /// Replaces text in krb5.conf.
    pub(crate) fn krb5_conf(&self, from: &str, to: &str) {
        let text = fs::read_to_string(self.path("etc/krb5.conf")).unwrap();
        assert!(text.contains(from), "{from:?} is not in krb5.conf");
        self.write("etc/krb5.conf", text.replace(from, to));
    }

    /// Names the host of the mount, which /etc/hosts of the run gives the names of loopback.
    pub(crate) fn named(&mut self, host: &str, names: &str) -> Result<(), String> {
        needs_namespace()?;
        self.host = host.to_owned();
        self.write("hosts", format!("127.0.0.1 {names}\n"));
        self.binds.push((self.path("hosts"), "/etc/hosts"));
        Ok(())
    }

    /// Mounts a file system without room at a folder.
    pub(crate) fn full(&mut self, name: &str) -> Result<(), String> {
        needs_namespace()?;
        let folder = self.path(name);
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let folder = folder.display();
        self.prepare.push(format!(
            "mount -t tmpfs -o size=64k none '{folder}' && {{ head -c 65536 /dev/zero >'{folder}/all'; true; }}"
        ));
        Ok(())
    }

    /// Runs the doctor and reads its report.
    pub(crate) fn examine(&self) -> DoctorVerdict {
        let ended = self.run(&["--json"]);
        let text = format!("{}{}", ended.stdout, ended.stderr);
        let report: Value =
            serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {text}"));
        let found = |finding: &Value| {
            let field = |name: &str| finding[name].as_str().expect("a string").to_owned();
            ReportedFinding {
                check: field("check"),
                severity: field("severity"),
                cause: field("cause"),
                remedy: field("remedy"),
            }
        };
        let findings: Vec<_> = report["findings"].as_array().expect("a list").iter().map(found).collect();
        let status = ended.status.code().expect("no signal ends it");
        assert_eq!(report["status"], status, "{text}");
        DoctorVerdict { status, findings, text }
    }

    /// Runs the program with further arguments.
    pub(crate) fn run(&self, more: &[&str]) -> Ended {
        let mut arguments: Vec<OsString> = vec!["doctor".into(), "--timeout".into(), "2".into()];
        arguments.extend(["--root".into(), self.folder.path().into()]);
        if self.server {
            arguments.extend(["--server".into(), "--host".into(), self.host.clone().into()]);
        } else {
            arguments.push(format!("{}:{}", self.host, self.export).into());
            arguments.extend(["--port".into(), self.port.to_string().into()]);
        }
        if let Some(flavor) = self.flavor {
            arguments.extend(["--sec".into(), flavor.into()]);
        }
        arguments.extend(more.iter().map(OsString::from));
        arguments.extend(self.more.iter().cloned());
        let mut command = self.command(&arguments);
        command.env_remove("KRB5_KTNAME").env_remove("KRB5CCNAME");
        command.envs(&self.variables);
        run(&mut command)
    }

    fn command(&self, arguments: &[OsString]) -> Command {
        if let Some(user) = &self.user {
            let mut command = Command::new("setpriv");
            command.arg(format!("--reuid={}", user.uid)).arg(format!("--regid={}", user.gid));
            command.arg("--clear-groups").arg(program()).args(arguments);
            return command;
        }
        if self.binds.is_empty() && self.prepare.is_empty() {
            return orthrus(arguments);
        }
        let mut script: String = self.prepare.iter().map(|command| format!("{command} && ")).collect();
        for (file, target) in &self.binds {
            script.push_str(&format!("mount --bind '{}' {target} && ", file.display()));
        }
        script.push_str("exec \"$0\" \"$@\"");
        let mut command = Command::new("unshare");
        command.args(namespace()).args(["sh", "-c", &script]).arg(program()).args(arguments);
        command
    }

    /// Returns all files of the machine with their bytes.
    pub(crate) fn contents(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                if entry.path().is_dir() {
                    folders.push(entry.path());
                } else {
                    found.insert(entry.path(), fs::read(entry.path()).unwrap());
                }
            }
        }
        found
    }
}

/// The arguments of unshare for a mount namespace.
fn namespace() -> &'static [&'static str] {
    if e2e::is_root() { &["--mount"] } else { &["--mount", "--map-root-user"] }
}

fn needs_namespace() -> Result<(), String> {
    let unshare = Command::new("unshare").args(namespace()).arg("true").output();
    let works = unshare.is_ok_and(|output| output.status.success());
    works.then_some(()).ok_or_else(|| "no mount namespace can be created here".to_owned())
}

/// The user ID of this process.
pub(crate) fn uid() -> u32 {
    nix::unistd::geteuid().as_raw()
}
