//! Agents of a node without a grant service: runs come and go, with tickets or without.

use super::folder::RUNS;
use super::*;
use crate::cache::tests::cache_of;
use crate::store::replace;
use crate::store::tests::unlocked;
use nix::unistd::{Uid, chown, geteuid};
use std::fs;
use std::os::unix::fs::MetadataExt;

const ALICE: u32 = 1001;
const BOB: u32 = 1002;
/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A node without an agent.
struct AgentlessNode {
    settings: AgentSettings,
    _folder: tempfile::TempDir,
}

impl AgentlessNode {
    /// `None` without the right to give files to users.
    fn new() -> Option<Self> {
        if !geteuid().is_root() {
            eprintln!("skipped: only root can give files to users");
            return None;
        }
        let temporary = private::temporary("orthrus-agent-").unwrap();
        let (folder, caches) = (temporary.path().join("agent"), temporary.path().join("tmp"));
        fs::create_dir(&caches).unwrap();
        let server = GrantServer { host: String::new(), port: 0 };
        let (keytab, principal) = (PathBuf::new(), String::new());
        let settings = AgentSettings { server, keytab, principal, folder, caches };
        folder::claim(&settings.folder).unwrap();
        Some(Self { settings, _folder: temporary })
    }

    fn agent(&self) -> NodeAgent {
        unlocked(|| NodeAgent::open(self.settings.clone()), |error| matches!(error, AgentError::InUse(_)))
    }

    fn cache(&self, uid: u32) -> PathBuf {
        self.settings.caches.join(format!("krb5cc_{uid}_orthrus"))
    }

    /// Does what a prolog does, without waiting.
    fn attach(&self, name: &str, uid: u32) -> AttachedRun {
        let run = run_of(name, uid);
        replace(&self.settings.folder.join(RUNS).join(name), &serde_json::to_vec(&run).unwrap()).unwrap();
        run
    }

    /// Puts a file in the place of a folder, or a circle of links in that of a file, so that it
    /// cannot be read, as with too few descriptors; returns the way back.
    fn unreadable(&self, name: &str) -> impl FnOnce() + use<> {
        // An absolute name stays as it is.
        let (path, aside) = (self.settings.folder.join(name), self.settings.folder.join("aside"));
        let is_folder = path.is_dir();
        fs::rename(&path, &aside).unwrap();
        if is_folder {
            fs::write(&path, "").unwrap();
        } else {
            std::os::unix::fs::symlink(&path, &path).unwrap();
        }
        move || {
            fs::remove_file(&path).unwrap();
            fs::rename(&aside, &path).unwrap();
        }
    }
}

fn run_of(name: &str, uid: u32) -> AttachedRun {
    let user = if uid == ALICE { "alice" } else { "bob" };
    let (run, job, principal) = (name.to_owned(), name.to_owned(), format!("{user}@R"));
    AttachedRun { run, job, principal, uid, gid: uid }
}

impl NodeAgent {
    /// Takes a ticket as if the service had sent it.
    fn receive(&mut self, run: &AttachedRun) {
        self.folder.look().unwrap();
        let user = run.principal.split('@').next().unwrap();
        let ends = u32::try_from(unix_now() + 3600).unwrap();
        self.results_sender.send((run.clone(), Ok(cache_of(user, ends)))).unwrap();
        self.take_results();
    }
}

#[test]
fn a_run_gets_no_tickets_of_an_earlier_run_with_its_name() {
    for restarts in [false, true] {
        let Some(node) = AgentlessNode::new() else { return };
        let mut agent = node.agent();
        agent.receive(&node.attach("7", ALICE));
        assert!(node.cache(ALICE).exists());
        if restarts {
            drop(agent);
            agent = node.agent();
        }
        // Without an epilog in between.
        let run = node.attach("7", BOB);
        agent.folder.look().unwrap();
        agent.folder.update(&run, None);
        assert!(!node.cache(ALICE).exists() && !node.cache(BOB).exists(), "{restarts}");
        agent.receive(&run);
        assert!(node.cache(BOB).exists() && !node.cache(ALICE).exists(), "{restarts}");
    }
}

#[test]
fn a_boot_leaves_no_tickets_of_users_without_a_run() {
    let Some(node) = AgentlessNode::new() else { return };
    let mut agent = node.agent();
    agent.receive(&node.attach("7", ALICE));
    agent.receive(&node.attach("8", BOB));
    drop(agent);
    fs::remove_dir_all(&node.settings.folder).unwrap();
    folder::claim(&node.settings.folder).unwrap();
    let of_user = node.cache(1003);
    fs::write(&of_user, "a file of the user").unwrap();
    chown(&of_user, Some(Uid::from_raw(1003)), None).unwrap();
    node.attach("9", BOB);
    let mut agent = node.agent();
    agent.folder.look().and_then(|()| agent.folder.remove_orphans()).unwrap();
    assert!(!node.cache(ALICE).exists(), "the run has ended");
    assert!(node.cache(BOB).exists() && of_user.exists());
}

#[test]
fn a_run_with_the_name_of_an_ended_one_leaves_the_tickets_of_the_former_users_other_runs() {
    for restarts in [false, true] {
        let Some(node) = AgentlessNode::new() else { return };
        let mut agent = node.agent();
        ["6", "7", "8"].into_iter().for_each(|run| agent.receive(&node.attach(run, ALICE)));
        if restarts {
            drop(agent);
            agent = node.agent();
        }
        // The first two end without epilogs.
        fs::remove_file(node.settings.folder.join("runs/6")).unwrap();
        node.attach("7", BOB);
        agent.folder.look().unwrap();
        assert!(!node.settings.folder.join("tickets/6").exists());
        assert!(!node.settings.folder.join("tickets/7").exists());
        assert_eq!(agent.folder.runs["7"].run.uid, BOB);
        assert!(agent.folder.runs["8"].tickets.is_some() && node.cache(ALICE).exists(), "{restarts}");
    }
}

#[test]
fn a_run_that_cannot_be_followed_keeps_no_other_from_its_begin_and_its_end() {
    for name in ["runs/6", "tickets/6"] {
        let Some(node) = AgentlessNode::new() else { return };
        let (folder, caches) = (&node.settings.folder, &node.settings.caches);
        let mut agent = node.agent();
        agent.receive(&node.attach("6", BOB));
        ["7", "8"].into_iter().for_each(|run| agent.receive(&node.attach(run, ALICE)));
        drop(agent);
        let repair = node.unreadable(name);
        detach(folder, caches, "7", PATIENCE).unwrap();
        let mut agent = node.agent();
        fs::remove_file(folder.join("runs/8")).unwrap();
        node.attach("9", ALICE);
        let looked = agent.folder.look();
        assert!(matches!(&looked, Err(AgentError::NotFollowed { run, .. }) if run == "6"), "{looked:?}");
        assert!(!node.cache(ALICE).exists() && !folder.join("tickets/8").exists(), "{name}");
        assert!(agent.folder.runs.keys().eq(["9"]), "{name}");
        repair();
        agent.folder.look().unwrap();
        assert!(agent.folder.runs["6"].tickets.is_some() && node.cache(BOB).exists(), "{name}");
    }
}

#[test]
fn the_end_of_a_run_without_an_agent_leaves_the_tickets_of_the_users_other_run() {
    let Some(node) = AgentlessNode::new() else { return };
    let mut agent = node.agent();
    ["7_1", "7_2"].into_iter().for_each(|run| agent.receive(&node.attach(run, ALICE)));
    drop(agent);
    let (folder, caches) = (&node.settings.folder, &node.settings.caches);
    detach(folder, caches, "7_1", PATIENCE).unwrap();
    assert!(node.cache(ALICE).exists());
    detach(folder, caches, "7_2", PATIENCE).unwrap();
    assert!(!node.cache(ALICE).exists());
}

#[test]
fn a_stranger_cannot_keep_a_user_from_tickets() {
    let makers: [fn(&Path); 3] = [
        |path| fs::write(path, "no tickets").unwrap(),
        |path| std::os::unix::fs::symlink("/etc/passwd", path).unwrap(),
        |path| fs::create_dir_all(path.join("full")).unwrap(),
    ];
    for make in makers {
        let Some(node) = AgentlessNode::new() else { return };
        let path = node.cache(ALICE);
        make(&path);
        std::os::unix::fs::lchown(&path, Some(BOB), Some(BOB)).unwrap();
        let mut agent = node.agent();
        agent.receive(&node.attach("7", ALICE));
        let found = fs::symlink_metadata(&path).unwrap();
        assert!(found.is_file() && found.uid() == ALICE, "{:?}", agent.folder.runs["7"].status);
        // The user's own file, and root's, are left alone.
        for uid in [ALICE, 0] {
            fs::write(&path, "precious").unwrap();
            chown(&path, Some(Uid::from_raw(uid)), None).unwrap();
            agent.receive(&node.attach("7", ALICE));
            assert_eq!(fs::read(&path).unwrap(), b"precious");
        }
    }
}

#[test]
fn expired_tickets_are_asked_for_at_once() {
    let Some(node) = AgentlessNode::new() else { return };
    let mut agent = node.agent();
    agent.receive(&node.attach("7", ALICE));
    let state = agent.folder.runs.get_mut("7").unwrap();
    assert!(state.due > Instant::now());
    // The clock is set forward.
    state.tickets = Some(cache_of("alice", 500));
    agent.expire();
    assert!(agent.folder.runs["7"].due <= Instant::now() && !node.cache(ALICE).exists());
}

#[test]
fn a_folder_or_a_file_that_cannot_be_read_is_not_the_end_of_a_run() {
    for name in ["runs", "runs/7", "tickets", "tickets/7"] {
        let Some(node) = AgentlessNode::new() else { return };
        let mut agent = node.agent();
        agent.receive(&node.attach("7", ALICE));
        for restarts in [false, true] {
            if restarts {
                drop(agent);
                agent = node.agent();
            }
            let repair = node.unreadable(name);
            let looked = agent.folder.look();
            // A run that is known does not need its stored tickets.
            assert_eq!(looked.is_err(), restarts || name != "tickets/7", "{name}: {looked:?}");
            repair();
            assert!(node.cache(ALICE).exists(), "{name}");
            agent.folder.look().unwrap();
            assert!(agent.folder.runs["7"].tickets.is_some(), "{name}");
        }
        fs::remove_file(node.settings.folder.join("runs/7")).unwrap();
        agent.folder.look().unwrap();
        assert!(!node.cache(ALICE).exists(), "{name}");
    }
}

#[test]
fn leftover_tickets_that_cannot_be_read_are_kept_and_damaged_ones_are_not() {
    let Some(node) = AgentlessNode::new() else { return };
    let mut agent = node.agent();
    agent.receive(&node.attach("7", ALICE));
    drop(agent);
    let folder = &node.settings.folder;
    fs::remove_file(folder.join("runs/7")).unwrap();
    fs::write(folder.join("tickets/8"), "no tickets").unwrap();
    let (mut agent, repair) = (node.agent(), node.unreadable("tickets/7"));
    agent.folder.look().unwrap_err();
    repair();
    assert!(!folder.join("tickets/8").exists() && node.cache(ALICE).exists());
    agent.folder.look().unwrap();
    assert!(!folder.join("tickets/7").exists() && !node.cache(ALICE).exists());
}

#[test]
fn a_removal_that_fails_is_tried_again() {
    for how in ["ends", "ends without an agent", "is replaced", "has expired tickets"] {
        let Some(node) = AgentlessNode::new() else { return };
        let (folder, caches) = (&node.settings.folder, &node.settings.caches);
        let mut agent = node.agent();
        agent.receive(&node.attach("7", ALICE));
        let repair = node.unreadable(caches.to_str().unwrap());
        if how == "has expired tickets" {
            agent.folder.runs.get_mut("7").unwrap().tickets = Some(cache_of("alice", 500));
            agent.expire();
        } else if how == "is replaced" {
            node.attach("7", BOB);
        } else {
            fs::remove_file(folder.join("runs/7")).unwrap();
        }
        if how == "ends without an agent" {
            drop(agent);
            agent = node.agent();
        }
        for _ in 0..3 {
            agent.folder.look().unwrap_err();
        }
        assert!(folder.join("tickets/7").exists(), "{how}");
        repair();
        assert!(node.cache(ALICE).exists(), "{how}");
        agent.folder.look().unwrap();
        assert!(!node.cache(ALICE).exists() && !folder.join("tickets/7").exists(), "{how}");
        assert_eq!(folder.join("status/7").exists(), !how.starts_with("ends"), "{how}");
        assert_eq!(agent.folder.runs.contains_key("7"), !how.starts_with("ends"), "{how}");
    }
}

#[test]
fn a_file_of_the_user_does_not_keep_a_run_from_its_end() {
    let Some(node) = AgentlessNode::new() else { return };
    let mut agent = node.agent();
    ["7_1", "7_2"].into_iter().for_each(|run| agent.receive(&node.attach(run, ALICE)));
    fs::write(node.cache(ALICE), "precious").unwrap();
    fs::remove_file(node.settings.folder.join("runs/7_1")).unwrap();
    agent.folder.look().unwrap();
    assert!(!node.settings.folder.join("tickets/7_1").exists());
    assert_eq!(fs::read(node.cache(ALICE)).unwrap(), b"precious");
}

#[test]
fn an_epilog_ends_in_time_and_with_the_cause_when_tickets_cannot_be_removed() {
    let Some(node) = AgentlessNode::new() else { return };
    let (folder, caches) = (node.settings.folder.clone(), node.settings.caches.clone());
    node.agent().receive(&node.attach("7", ALICE));
    let repair = node.unreadable(caches.to_str().unwrap());
    // A folder cannot be removed as a file.
    fs::create_dir(folder.join("tickets/8")).unwrap();
    for run in ["7", "8"] {
        let (sender, receiver) = channel();
        let (folder, caches) = (folder.clone(), caches.clone());
        std::thread::spawn(move || {
            sender.send(detach(&folder, &caches, run, Duration::from_secs(1))).unwrap();
        });
        let detached = receiver.recv_timeout(PATIENCE).expect("it ends");
        assert!(matches!(detached, Err(AgentError::NotRemoved { .. })), "{run}: {detached:?}");
    }
    repair();
    // The failure of another run does not fail this one.
    detach(&folder, &caches, "7", PATIENCE).unwrap();
    assert!(!node.cache(ALICE).exists());
}

#[test]
fn a_prolog_does_not_get_the_status_of_an_earlier_run_with_its_name() {
    let Some(node) = AgentlessNode::new() else { return };
    let mut agent = node.agent();
    let (first, second) = (node.attach("7", ALICE), run_of("7", BOB));
    agent.receive(&first);
    let ready = agent.folder.runs["7"].status.clone();
    assert!(matches!(ready, RunStatus::Ready { .. }));
    let attached = |wait| attach(&node.settings.folder, &second, wait).unwrap();
    std::thread::scope(|scope| {
        let prolog = scope.spawn(|| attached(Duration::from_millis(300)));
        // An agent that has read the runs before the prolog wrote its own.
        while !prolog.is_finished() {
            agent.folder.write_status(&first, &ready);
            std::thread::sleep(Duration::from_millis(5));
        }
        let status = prolog.join().unwrap();
        assert!(matches!(status, RunStatus::Waiting(_)), "{status:?}");
        let prolog = scope.spawn(|| attached(PATIENCE));
        while !prolog.is_finished() {
            agent.receive(&second);
            std::thread::sleep(Duration::from_millis(5));
        }
        let status = prolog.join().unwrap();
        assert!(matches!(&status, RunStatus::Ready { file, .. } if *file == node.cache(BOB)), "{status:?}");
    });
}
