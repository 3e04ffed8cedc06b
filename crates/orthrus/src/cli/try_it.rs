//! `orthrus try`: everything at once, on a folder.

use super::bench::evaluate;
use super::bench::quick::{PlanArguments, request};
use super::own_realm::OwnRealm;
use super::stop::{stop_flag, wait_for};
use crate::output::{errln, outln};
use anyhow::{Context, bail};
use bench::ServerProcess;
use bench::measuring::Record;
use bench::native::{ANSWER_MAX, BenchTarget};
use miniceph::{MiniCeph, MiniCephOptions};
use nix::unistd::{Uid, getegid, geteuid};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Try everything at once: a throw-away realm, a server on FOLDER with all four flavors, a
/// comparison and its report.
///
/// At a terminal the server keeps running until Ctrl-C, so that you can mount it. Realm and server
/// use loopback and end with this command; only the report stays. Other users of this machine reach
/// neither: the server closes their connections, and keys and passwords are random and in a private
/// folder. All clients act as FOLDER's owner, without set-id bits.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Folder to serve [default: a temporary one].
    folder: Option<PathBuf>,
    /// Serve CephFS of a throw-away one-node cluster instead of a folder.
    #[arg(long, conflicts_with = "folder")]
    ceph: bool,
    /// Port of the server on 127.0.0.1; 0 chooses a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Exit after the report, even at a terminal.
    #[arg(long, conflicts_with = "serve")]
    once: bool,
    /// Keep serving after the report, even without a terminal.
    #[arg(long)]
    serve: bool,
    #[command(flatten)]
    plan: PlanArguments,
}

impl Arguments {
    /// Runs everything and cleans up.
    ///
    /// # Errors
    /// A missing package, a folder that cannot be served or written to, a report that cannot be
    /// written.
    pub(super) fn run(self) -> anyhow::Result<()> {
        // Before there is anything to clean up.
        let stop = stop_flag()?;
        let temporary = private::temporary("orthrus-try-")?;
        let settings = self.plan.settings();
        let evaluation = &mut *self.plan.evaluation(&settings);
        let request = request(settings, evaluation);
        if self.plan.run.selection.list {
            return evaluate::list(request);
        }
        let mut record = Record::begin(request.name, request.title, request.settings.clone());
        let folder = if self.ceph { None } else { Some(self.folder(temporary.path())?) };
        // Before the threads of Ceph's library.
        let realm = OwnRealm::start()?;
        let served = ServedFiles::open(folder, &stop)?;
        record.target = format!("this machine, orthrus serving {}", served.name());
        let files = evaluate::begin(&mut record, self.plan.output(), self.plan.run.resume.as_deref())?;
        let program = std::env::current_exe().context("this program cannot find itself")?;
        let arguments = self.server_arguments(&served, &realm, temporary.path())?;
        let server = ServerProcess::start(&program, arguments, &realm.environment())?;
        errln!("serving {} on {}, realm {}", served.name(), server.address(), realm.realm().name());
        let mut target = BenchTarget {
            host: server.address().ip().to_string(),
            service_host: "localhost".to_owned(),
            port: server.address().port(),
            source: None,
            export: "/data".to_owned(),
            credential: realm.credential(),
            others: Vec::new(),
            pid: Some(server.pid()),
            metrics: server.metrics(),
            label: record.target.clone(),
            answer_max: ANSWER_MAX,
            stop: None,
        };
        evaluate::by_client(&mut record, &mut target, &files, &stop, request, true, None)?;
        if self.serve || (std::io::stdin().is_terminal() && !self.once) {
            instructions(&realm, &server);
            wait_for(&stop);
        }
        Ok(())
    }

    /// Returns the folder to serve, which must not show clients the files of the trial.
    fn folder(&self, temporary: &Path) -> anyhow::Result<PathBuf> {
        let Some(folder) = &self.folder else { return make(&temporary.join("data")) };
        let folder = folder.canonicalize().with_context(|| {
            format!("{}: make it with mkdir, or name no folder for a temporary one", folder.display())
        })?;
        if temporary.canonicalize()?.starts_with(&folder) {
            bail!(
                "{} contains the temporary files of this command, keys among them; set TMPDIR to a folder elsewhere",
                folder.display()
            );
        }
        Ok(folder)
    }

    /// Every client acts as the folder's owner: nothing in the folder changes hands. The server
    /// admits this program and the kernel's client, and no other user of the machine.
    fn server_arguments(
        &self,
        served: &ServedFiles,
        realm: &OwnRealm,
        state: &Path,
    ) -> anyhow::Result<Vec<OsString>> {
        let (uid, gid) = served.owner()?;
        let mut arguments = served.arguments();
        arguments.extend(["--listen".into(), format!("127.0.0.1:{}", self.port).into()]);
        arguments.extend([
            "--squash".into(),
            "all".into(),
            "--anonymous".into(),
            format!("{uid}:{gid}").into(),
            "--setid".into(),
            "false".into(),
            "--state-dir".into(),
            state.join("state").into(),
        ]);
        arguments.extend(bench::flavor_arguments(true));
        arguments.extend(realm.server_arguments());
        Ok(arguments)
    }
}

/// The directory of the cluster that is served.
const CEPH_DIRECTORY: &str = "data";
/// Its size in bytes.
const CEPH_SIZE: u64 = 4 << 30;

/// The files that the server shows as `/data`.
enum ServedFiles {
    Folder(PathBuf),
    /// CephFS of a cluster that ends with the value.
    Ceph(MiniCeph),
}

impl ServedFiles {
    /// Serves a folder, or without one the files of a new cluster.
    fn open(folder: Option<PathBuf>, stop: &AtomicBool) -> anyhow::Result<Self> {
        if let Some(folder) = folder {
            return Ok(Self::Folder(folder));
        }
        errln!("starting a one-node Ceph cluster");
        let cluster = MiniCeph::start_unless(&MiniCephOptions::default(), stop)?;
        cluster.make_directory(CEPH_DIRECTORY, CEPH_SIZE)?;
        Ok(Self::Ceph(cluster))
    }

    fn name(&self) -> String {
        match self {
            Self::Folder(folder) => folder.display().to_string(),
            Self::Ceph(_) => "CephFS of a one-node cluster".to_owned(),
        }
    }

    /// Returns the user and the group as which all clients act.
    fn owner(&self) -> anyhow::Result<(u32, u32)> {
        let Self::Folder(folder) = self else { return Ok((geteuid().as_raw(), getegid().as_raw())) };
        let found = std::fs::metadata(folder)?;
        let owner = Uid::from_raw(found.uid());
        if !geteuid().is_root() && owner != geteuid() {
            bail!("{} belongs to another user; name a folder of your own", folder.display());
        }
        Ok((found.uid(), found.gid()))
    }

    /// Returns the arguments that have the server export them.
    fn arguments(&self) -> Vec<OsString> {
        match self {
            Self::Folder(folder) => {
                let mut export = folder.as_os_str().to_owned();
                export.push("=/data");
                vec![export]
            }
            Self::Ceph(cluster) => {
                let path = format!("/{CEPH_DIRECTORY}=/data");
                let named = ["--ceph", &path, "--ceph-user", "admin", "--ceph-conf"].map(OsString::from);
                named.into_iter().chain([cluster.configuration().into()]).collect()
            }
        }
    }
}

fn make(folder: &Path) -> anyhow::Result<PathBuf> {
    std::fs::create_dir(folder).with_context(|| folder.display().to_string())?;
    Ok(folder.to_owned())
}

fn instructions(realm: &OwnRealm, server: &ServerProcess) {
    let dir = terminal::shell_word(&realm.realm().dir().to_string_lossy());
    outln!(
        "
The server goes on until Ctrl-C. A Linux client on this machine, as root, in a shell with the realm's files in /etc:
  orthrus realm shell {dir}
  mount -t nfs4 -o vers=4.2,sec=krb5p,port={port} localhost:/data /mnt
and as the user who works there:
  . {dir}/env && kinit -k -t {dir}/users.keytab alice",
        port = server.address().port()
    );
}
