//! `orthrus grants` as users, schedulers and nodes run it. Slurm itself runs in `linux_client`; PBS
//! is a stand-in here.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use client::{Client, Flavor, Options, Security};
use e2e::{Ended, World, in_world_with, is_installed, is_root, orthrus, run, status};
use gss::Credential;
use nfs4::ACCESS4_READ;
use nfs4::Nfsstat4::NFS4ERR_WRONGSEC;
use nix::unistd::{User, geteuid};
use realm::RealmOptions;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A long-running command of `orthrus grants`; dropping it ends it.
struct GrantsProcess {
    child: Child,
    _input: ChildStdin,
    /// The last word of its first line.
    word: String,
}

impl GrantsProcess {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let input = child.stdin.take().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).expect("text");
        let word = line.split_whitespace().last().unwrap_or_default().to_owned();
        Self { child, _input: input, word }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for GrantsProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The local user of the tests: any but root.
fn user() -> String {
    if is_root() { "daemon".to_owned() } else { User::from_uid(geteuid()).unwrap().unwrap().name }
}

fn options() -> RealmOptions {
    let clients = vec!["n1".to_owned(), "ctl".to_owned()];
    RealmOptions { delegation: true, clients, users: vec![user()], ..RealmOptions::default() }
}

fn serve(world: &World, listen: &str) -> GrantsProcess {
    let mut command = orthrus(["grants", "serve", "--end-with-input", "--listen", listen]);
    command.arg("--keytab").arg(world.realm.grants_keytab()).arg("--store").arg(world.path("grants"));
    command.args(["--service", "nfs/localhost", "--ticket-life", "4s", "--per-user", "2"]);
    command.args(["--admin", "bob@ORTHRUS.TEST", "--scheduler", "host/ctl@ORTHRUS.TEST"]);
    GrantsProcess::start(&mut command)
}

fn agent(world: &World, server: &str) -> GrantsProcess {
    fs::create_dir_all(world.path("caches")).unwrap();
    let mut command = orthrus(["grants", "agent", "--end-with-input", "--node", "n1", "--server", server]);
    command.arg("--keytab").arg(world.realm.client_keytab());
    command.arg("--dir").arg(world.path("agent")).arg("--caches").arg(world.path("caches"));
    GrantsProcess::start(&mut command)
}

/// Runs a command of a user with a ticket.
fn by(world: &World, user: &str, server: &str, arguments: &[&str]) -> Ended {
    let cache = world.path(&format!("cache-{user}"));
    if !cache.exists() {
        world.realm.kinit(user, &cache).unwrap();
    }
    let mut command = orthrus(["grants"]);
    command.args(arguments).args(["--server", server, "--ccache"]).arg(cache);
    run(&mut command)
}

fn succeeded(ended: Ended) -> Ended {
    assert!(ended.status.success(), "{ended:?}");
    ended
}

fn soon(what: &str, mut found: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !found() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn grants_outlive_sigkill_and_are_listed_as_a_table_and_as_json() {
    in_world_with(&options(), |world| {
        let service = serve(world, "127.0.0.1:0");
        let address = service.word.clone();
        let server = format!("localhost:{}", address.rsplit(':').next().unwrap());
        let me = user();
        let missing = run(orthrus(["grants", "submit", "--job", "1", "--ccache", "FILE:/nonexistent"])
            .args(["--server", &server]));
        assert!(!missing.status.success() && missing.stderr.contains("run `kinit`"), "{missing:?}");
        succeeded(by(world, &me, &server, &["submit", "--job", "1", "--node", "n1", "--for", "1h"]));
        succeeded(by(world, &me, &server, &["submit", "--job", "2", "--for", "1h"]));
        let third = by(world, &me, &server, &["submit", "--job", "3"]);
        assert!(!third.status.success() && third.stderr.contains("you have 2 grants"), "{third:?}");
        service.kill();
        let down = by(world, &me, &server, &["list"]);
        assert!(!down.status.success() && down.stderr.contains("no answer of the grant service"), "{down:?}");
        let _service = serve(world, &address);
        let table = succeeded(by(world, &me, &server, &["list"])).stdout;
        assert_eq!(table.lines().count(), 3, "{table}");
        assert!(table.starts_with("PRINCIPAL") && table.contains("nfs/localhost"), "{table}");
        let json = succeeded(by(world, "bob", &server, &["list", "--json"])).stdout;
        let grants: serde_json::Value = serde_json::from_str(&json).unwrap();
        let jobs: Vec<_> = grants.as_array().unwrap().iter().map(|grant| grant["job"].clone()).collect();
        assert_eq!(jobs, ["1", "2"], "the administrator sees them");
        assert_eq!(grants[0]["principal"], format!("{me}@ORTHRUS.TEST"));
        assert_eq!(succeeded(by(world, "alice", &server, &["list", "--json"])).stdout.trim(), "[]");
        assert!(
            !by(world, "alice", &server, &["end", "1", "--of", &format!("{me}@ORTHRUS.TEST")])
                .status
                .success()
        );
        succeeded(by(world, &me, &server, &["end", "1"]));
        assert_eq!(succeeded(by(world, &me, &server, &["list"])).stdout.lines().count(), 2);
        // A KDC that does not delegate: the user hears of the limit of the ticket.
        world.realm.kadmin("modprinc -ok_to_auth_as_delegate grants/localhost").unwrap();
        let renewed = succeeded(by(world, &me, &server, &["submit", "--job", "1", "--for", "5d"]));
        assert!(renewed.stderr.contains("can be renewed only until"), "{renewed:?}");
    });
}

/// The part of PBS's module that a hook uses, for one event in the environment.
const STAND_IN: &str = r#"
import os
RUNJOB, ENDJOB, EXECJOB_BEGIN, EXECJOB_END, LOG_WARNING = range(5)
class Job:
    id, Job_Owner = os.environ["PBS_JOB"], os.environ["PBS_USER"] + "@login"
    euser, exec_host = None, "n1/0*4+n1/1"
class Event:
    type, job = globals()[os.environ["PBS_EVENT"].upper()], Job()
    def accept(self): print("accepted")
def event(): return Event()
def logmsg(level, text): print(text)
"#;

/// Runs the hook as PBS does, with a stand-in for PBS.
fn hook(world: &World, server: &str, event: &str, job: &str) -> String {
    let folder = world.path("pbs");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("pbs.py"), STAND_IN).unwrap();
    let ended = run(Command::new("python3")
        .arg(script("pbs/grants_hook.py"))
        .env("PYTHONPATH", &folder)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("ORTHRUS", orthrus_of_agent(world))
        .envs([("ORTHRUS_GRANTS", server), ("GRANTS_REALM", "ORTHRUS.TEST")])
        .env("GRANTS_KEYTAB", world.realm.client_keytab())
        .env("GRANTS_PRINCIPAL", "host/ctl@ORTHRUS.TEST")
        .envs([("PBS_EVENT", event), ("PBS_JOB", job), ("PBS_USER", user().as_str())])
        .stdin(Stdio::null()));
    succeeded(ended).stdout
}

/// Returns the path of a script for a scheduler.
fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/batch").join(name)
}

/// Writes an executable script and returns its path.
fn executable(path: PathBuf, text: &str) -> PathBuf {
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Returns a program that names the folders of the test's agent. Scripts name none; the installed
/// ones are root's.
fn orthrus_of_agent(world: &World) -> PathBuf {
    let (dir, caches, program) = (world.path("agent"), world.path("caches"), e2e::program());
    let folders = format!("--dir '{}' --caches '{}'", dir.display(), caches.display());
    let text = format!(
        "case $2 in attach|detach) set -- \"$@\" {folders};; esac\nexec '{}' \"$@\"",
        program.display()
    );
    executable(world.path("orthrus"), &text)
}

#[test]
fn the_hook_of_pbs_gives_tasks_of_an_array_tickets_and_takes_them_away() {
    if !is_installed("python3", "python3") {
        return;
    }
    in_world_with(&options(), |world| {
        let service = serve(world, "127.0.0.1:0");
        let server = format!("localhost:{}", service.word.rsplit(':').next().unwrap());
        let _agent = agent(world, &server);
        let me = user();
        let uid = User::from_name(&me).unwrap().unwrap().uid;
        let file = world.path("caches").join(format!("krb5cc_{uid}_orthrus"));
        succeeded(by(world, &me, &server, &["submit", "--job", "7[].pbs", "--for", "1h"]));
        assert_eq!(hook(world, &server, "runjob", "7[3].pbs"), "accepted\n");
        assert_eq!(hook(world, &server, "execjob_begin", "7[3].pbs"), "accepted\n");
        assert!(file.exists(), "the prologue waits for tickets");
        let klist = run(Command::new("klist").arg("-c").arg(&file));
        assert!(klist.stdout.contains(&format!("{me}@ORTHRUS.TEST")), "{klist:?}");
        assert_eq!(hook(world, &server, "execjob_end", "7[3].pbs"), "accepted\n");
        assert!(!file.exists(), "the epilogue has removed them");
        assert_eq!(hook(world, &server, "endjob", "7[3].pbs"), "accepted\n");
        // The service allows two grants of a user, and jobs that have ended give their places.
        for job in ["8.pbs", "9.pbs"] {
            succeeded(by(world, &me, &server, &["submit", "--job", job, "--for", "1h"]));
            assert_eq!(hook(world, &server, "runjob", job), "accepted\n");
        }
        assert!(!by(world, &me, &server, &["submit", "--job", "10.pbs"]).status.success(), "both run");
        // A hook that cannot reach the service logs it, and does not reject the job.
        drop(service);
        let said = hook(world, &server, "runjob", "8.pbs");
        assert!(said.contains("no answer of the grant service") && said.ends_with("accepted\n"), "{said}");
        soon("no tickets", || !file.exists());
    });
}

#[test]
fn parts_of_an_array_and_of_a_heterogeneous_job_of_slurm_run_by_the_grant_of_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let hook = folder.path().join("grants.sh");
    fs::copy(script("slurm/grants.sh"), &hook).unwrap();
    let said = folder.path().join("said");
    let program = executable(folder.path().join("orthrus"), &format!("echo \"$@\" >'{}'", said.display()));
    let of_site = fs::read_to_string(script("slurm/grants.conf")).unwrap();
    let settings = format!("{of_site}\nORTHRUS='{}'\n", program.display());
    fs::write(folder.path().join("grants.conf"), settings).unwrap();
    for (name, grant) in [("SLURM_ARRAY_JOB_ID", "7"), ("SLURM_HET_JOB_ID", "8"), ("OTHER", "9")] {
        let ended = run(Command::new("sh")
            .arg(&hook)
            .env("SLURM_SCRIPT_CONTEXT", "epilog_slurmctld")
            .envs([("SLURM_JOB_ID", "9"), ("SLURM_JOB_USER", "alice"), (name, grant)]));
        assert!(ended.status.success(), "{ended:?}");
        let said = fs::read_to_string(&said).unwrap();
        assert!(said.contains(&format!("--of alice@EXAMPLE.ORG --job {grant} --run 9 --over")), "{said}");
    }
}

#[test]
fn an_export_may_refuse_tickets_that_were_delegated() {
    // MS-PAC section 2.9: the PAC of a delegated ticket names the services of the chain.
    in_world_with(&options(), |world| {
        let service = serve(world, "127.0.0.1:0");
        let server = format!("localhost:{}", service.word.rsplit(':').next().unwrap());
        let _agent = agent(world, &server);
        let me = user();
        succeeded(by(world, &me, &server, &["submit", "--job", "5", "--for", "1h"]));
        assert_eq!(hook(world, &server, "runjob", "5"), "accepted\n");
        assert_eq!(hook(world, &server, "execjob_begin", "5"), "accepted\n");
        let uid = User::from_name(&me).unwrap().unwrap().uid;
        let delegated = world.path("caches").join(format!("krb5cc_{uid}_orthrus"));
        let direct = world.path("direct");
        world.realm.kinit(&me, &direct).unwrap();

        let export = |pseudo: &str, more: &str| {
            format!("[[export]]\npath = \"{}\"\npseudo = \"/{pseudo}\"\n{more}\n", world.export().display())
        };
        let file = world.path("delegated.toml");
        fs::write(&file, export("open", "") + &export("closed", "delegated = false")).unwrap();
        let nfs = world.bare_server().arg("--config").arg(&file).args(["--metrics", "127.0.0.1:0"]).start();
        let connect = |cache: &Path| {
            let cache = Credential::Ccache(format!("FILE:{}", cache.display()));
            let security = Security::of(Flavor::Krb5p, "localhost", cache);
            Client::connect(Options::new("127.0.0.1", security).port(nfs.port())).expect("the ticket is good")
        };
        let mut user = connect(&direct);
        user.lookup_path("/open").expect("it is exported");
        let (closed, _) = user.lookup_path("/closed").expect("the user has got the ticket");
        assert!(!nfs.log().contains("was delegated through"), "{}", nfs.log());
        let mut job = connect(&delegated);
        job.lookup_path("/open").expect("delegated tickets count there");
        assert_eq!(status(job.lookup_path("/closed")), NFS4ERR_WRONGSEC);
        // A filehandle helps no more than a name.
        let read = |client: &mut Client| client.access(&closed, ACCESS4_READ);
        assert_eq!(status(read(&mut job)), NFS4ERR_WRONGSEC);
        read(&mut user).expect("the user may ask");
        nfs.wait_for_log(&format!(
            "\"{me}@ORTHRUS.TEST\" has a ticket that was delegated through \"grants/localhost@ORTHRUS.TEST\""
        ));
        let mut page = String::new();
        let mut stream = TcpStream::connect(nfs.metrics()).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        stream.read_to_string(&mut page).unwrap();
        let contexts = page.lines().find_map(|line| line.strip_prefix("orthrus_contexts_delegated "));
        assert!(contexts.is_some_and(|count| count.parse::<f64>().unwrap() >= 1.0), "{page}");
    });
}

#[test]
fn the_wrapper_of_qsub_submits_no_job_without_a_ticket_and_keeps_none_without_a_grant() {
    in_world_with(&options(), |world| {
        let service = serve(world, "127.0.0.1:0");
        let server = format!("localhost:{}", service.word.rsplit(':').next().unwrap());
        let qsub = executable(world.path("qsub"), "echo \"$@\" >>\"$QSUB_LOG\"; echo 9.pbs");
        let qdel = executable(world.path("qdel"), "echo \"$1\" >>\"$QDEL_LOG\"");
        let (submitted, deleted) = (world.path("submitted"), world.path("deleted"));
        let submit = |cache: &Path, server: &str| {
            run(Command::new("sh")
                .arg(script("pbs/grants_submit.sh"))
                .args(["-l", "walltime=1:00:00", "job.sh"])
                .env("KRB5CCNAME", format!("FILE:{}", cache.display()))
                .envs([("QSUB", &qsub), ("QDEL", &qdel), ("QSUB_LOG", &submitted), ("QDEL_LOG", &deleted)])
                .env("ORTHRUS", e2e::program())
                .env("ORTHRUS_GRANTS", server))
        };
        let refused = submit(&world.path("absent"), &server);
        assert!(!refused.status.success() && refused.stderr.contains("run kinit"), "{refused:?}");
        assert!(!submitted.exists(), "qsub does not run");
        let cache = world.path("cache");
        world.realm.kinit(&user(), &cache).unwrap();
        let job = succeeded(submit(&cache, &server));
        assert_eq!(job.stdout, "9.pbs\n");
        assert_eq!(fs::read_to_string(&submitted).unwrap(), "-l walltime=1:00:00 job.sh\n");
        assert!(succeeded(by(world, &user(), &server, &["list"])).stdout.contains("9.pbs"));
        assert!(!deleted.exists());
        drop(service);
        let lost = submit(&cache, &server);
        assert!(!lost.status.success() && lost.stdout.is_empty(), "{lost:?}");
        assert_eq!(fs::read_to_string(&deleted).unwrap(), "9.pbs\n");
    });
}

#[test]
fn torque_attaches_and_detaches_a_job_of_which_the_grant_names_the_node() {
    in_world_with(&options(), |world| {
        let service = serve(world, "127.0.0.1:0");
        let server = format!("localhost:{}", service.word.rsplit(':').next().unwrap());
        let _agent = agent(world, &server);
        let me = user();
        let configuration = world.path("grants.conf");
        fs::write(&configuration, format!("ORTHRUS_GRANTS={server}\nGRANTS_REALM=ORTHRUS.TEST\n")).unwrap();
        let torque = |name: &str| {
            let place = world.path(name);
            fs::copy(script("pbs/torque.sh"), &place).unwrap();
            let mut command = Command::new("sh");
            command.arg(place).args(["10.torque", &me]).env("GRANTS_CONF", &configuration);
            succeeded(run(command.env("ORTHRUS", orthrus_of_agent(world))));
        };
        succeeded(by(world, &me, &server, &["submit", "--job", "10.torque", "--node", "n1", "--for", "1h"]));
        let uid = User::from_name(&me).unwrap().unwrap().uid;
        let tickets = world.path("caches").join(format!("krb5cc_{uid}_orthrus"));
        torque("prologue");
        soon("tickets", || tickets.exists());
        torque("epilogue");
        soon("no tickets", || !tickets.exists());
    });
}

#[test]
fn jobs_of_torque_that_have_ended_make_room_for_others() {
    in_world_with(&options(), |world| {
        let service = serve(world, "127.0.0.1:0");
        let server = format!("localhost:{}", service.word.rsplit(':').next().unwrap());
        let me = user();
        let submit = |job: &str| by(world, &me, &server, &["submit", "--job", job, "--for", "1h"]);
        for job in ["11.torque", "12[].torque"] {
            succeeded(submit(job));
        }
        assert!(!submit("13.torque").status.success(), "no end is announced");
        let configuration = world.path("grants.conf");
        let keytab = world.realm.client_keytab();
        let text = format!(
            "ORTHRUS_GRANTS={server}\nGRANTS_REALM=ORTHRUS.TEST\nGRANTS_KEYTAB='{}'\n\
             GRANTS_PRINCIPAL=host/ctl@ORTHRUS.TEST\nORTHRUS='{}'\n",
            keytab.display(),
            e2e::program().display()
        );
        fs::write(&configuration, text).unwrap();
        let accounting = world.path("20261127");
        let line = |event: &str, job: &str| {
            format!("11/27/2026 10:00:00;{event};{job};user={me} group=users jobname=j exec_host=n1/0\n")
        };
        let lines = [
            line("S", "11.torque"),
            line("E", "12[1].torque"),
            line("E", "11.torque"),
            "11/27/2026 10:00:01;D;12[].torque;requestor=root@torque\n".to_owned(),
        ];
        fs::write(&accounting, lines.concat()).unwrap();
        let mut read = Command::new("sh");
        read.arg(script("pbs/torque_ended.sh")).env("GRANTS_CONF", &configuration);
        succeeded(run(read.stdin(fs::File::open(&accounting).unwrap())));
        succeeded(submit("13.torque"));
        let left = succeeded(by(world, &me, &server, &["list"])).stdout;
        assert!(!left.contains("11.torque") && left.contains("12[].torque"), "{left}");
    });
}

#[test]
fn the_installation_for_slurm_keeps_the_prolog_flags_of_the_site() {
    let folder = tempfile::tempdir().unwrap();
    let conf = folder.path().join("slurm.conf");
    let install = |text: &str| {
        fs::write(&conf, text).unwrap();
        let ended = run(Command::new("sh").arg(script("slurm/install.sh")).arg(folder.path()));
        let written = fs::read_to_string(&conf).unwrap();
        let flags = written.lines().filter(|line| line.to_lowercase().starts_with("prologflags"));
        (ended, flags.map(str::to_owned).collect::<Vec<_>>())
    };
    for (text, expected) in [
        ("ClusterName=c\n", "PrologFlags=Alloc"),
        ("PrologFlags=Contain,X11\n", "PrologFlags=Contain,X11"),
        ("prologflags=alloc,Serial\n", "prologflags=alloc,Serial"),
    ] {
        let (ended, flags) = install(text);
        succeeded(ended);
        assert_eq!(flags, [expected], "Slurm uses the last line alone");
    }
    let (ended, _) = install("PrologFlags=Serial\n");
    assert!(!ended.status.success() && ended.stderr.contains("add Alloc"), "{ended:?}");
}
