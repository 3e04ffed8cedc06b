//! A realm with a grant service, and its agents.

use gss::{Acceptor, Credential, Initiator, Step};
use orthrus_grants::{
    AgentSettings, AttachedRun, GrantCallError, GrantLimits, GrantReply, GrantRequest, GrantServer,
    GrantService, GrantSubmission, NodeAgent, RunStatus, ServiceSettings, attach, detach,
};
use realm::{Realm, RealmOptions};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(crate) const ALICE: &str = "alice@ORTHRUS.TEST";
/// Lifetime of tickets in most tests.
pub(crate) const LIFE: u64 = 3;
/// How long anything else may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn options() -> RealmOptions {
    RealmOptions {
        delegation: true,
        clients: vec!["n1".into(), "n2".into(), "ctl".into()],
        clock_skew: Duration::from_secs(1),
        ..RealmOptions::default()
    }
}

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Waits until `found` returns something.
pub(crate) fn soon<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A realm with a grant service.
pub(crate) struct GrantSite<'a> {
    pub(crate) realm: &'a Realm,
    pub(crate) settings: ServiceSettings,
    pub(crate) service: Option<GrantService>,
}

impl<'a> GrantSite<'a> {
    pub(crate) fn start(realm: &'a Realm) -> Self {
        let settings = ServiceSettings {
            keytab: realm.grants_keytab(),
            folder: realm.dir().with_file_name("grants"),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            services: vec!["nfs/localhost".into()],
            admins: vec!["bob@ORTHRUS.TEST".into()],
            schedulers: vec!["host/ctl@ORTHRUS.TEST".into()],
            ticket_life: LIFE,
            limits: GrantLimits { per_user: 3, ..GrantLimits::default() },
        };
        let mut site = Self { realm, settings, service: None };
        site.restart();
        site
    }

    pub(crate) fn restart(&mut self) {
        self.service = None;
        let service = GrantService::start(self.settings.clone()).unwrap();
        self.settings.listen = service.address();
        self.service = Some(service);
    }

    pub(crate) fn server(&self) -> GrantServer {
        GrantServer { host: "localhost".into(), port: self.settings.listen.port() }
    }

    pub(crate) fn user(&self, name: &str) -> Credential {
        let cache = self.realm.dir().with_file_name(format!("cache-{name}"));
        if !cache.exists() {
            self.realm.kinit(name, &cache).unwrap();
        }
        Credential::Ccache(format!("FILE:{}", cache.display()))
    }

    pub(crate) fn host(&self, name: &str) -> Credential {
        Credential::Keytab {
            path: self.realm.client_keytab(),
            principal: format!("host/{name}@ORTHRUS.TEST"),
        }
    }

    pub(crate) fn call(
        &self,
        credential: &Credential,
        request: GrantRequest,
    ) -> Result<GrantReply, GrantCallError> {
        self.server().call(credential, &request)
    }

    /// Sends a request that the service refuses for good, and returns its text.
    pub(crate) fn refused(&self, credential: &Credential, request: GrantRequest) -> String {
        match self.call(credential, request.clone()) {
            Err(GrantCallError::Refused { transient: false, text }) => text,
            other => panic!("{request:?}: {other:?}"),
        }
    }

    pub(crate) fn submit(&self, user: &str, job: &str, nodes: &[&str]) -> GrantReply {
        self.call(&self.user(user), submission(job, nodes)).unwrap()
    }

    pub(crate) fn agent(&self, node: &str) -> TestAgent {
        let folder = self.realm.dir().with_file_name(format!("agent-{node}"));
        let caches = self.realm.dir().with_file_name(format!("tmp-{node}"));
        fs::create_dir_all(&caches).unwrap();
        let (keytab, server) = (self.realm.client_keytab(), self.server());
        let principal = format!("host/{node}@ORTHRUS.TEST");
        TestAgent::start(AgentSettings { server, keytab, principal, folder, caches })
    }
}

pub(crate) fn submission(job: &str, nodes: &[&str]) -> GrantRequest {
    let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
    let (job, services, deadline) = (job.to_owned(), Vec::new(), now() + 600);
    GrantRequest::Submit(GrantSubmission { job, services, nodes, deadline, forwarded: false })
}

pub(crate) fn tickets(principal: &str, job: &str) -> GrantRequest {
    GrantRequest::Tickets { principal: principal.into(), job: job.into() }
}

pub(crate) fn assign(job: &str, run: &str, nodes: &[&str]) -> GrantRequest {
    let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
    GrantRequest::Assign { principal: ALICE.into(), job: job.into(), run: run.into(), nodes }
}

pub(crate) fn end(job: &str) -> GrantRequest {
    GrantRequest::End { principal: None, job: job.into() }
}

/// An agent on a thread.
pub(crate) struct TestAgent {
    pub(crate) settings: AgentSettings,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl TestAgent {
    pub(crate) fn start(settings: AgentSettings) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (mut agent, flag) = (NodeAgent::open(settings.clone()).unwrap(), stop.clone());
        let thread = Some(std::thread::spawn(move || agent.serve(&flag)));
        Self { settings, stop, thread }
    }

    pub(crate) fn attach(&self, run: &str, job: &str) -> RunStatus {
        self.attach_within(run, job, PATIENCE)
    }

    pub(crate) fn attach_within(&self, run: &str, job: &str, wait: Duration) -> RunStatus {
        let (uid, gid) = own_ids(&self.settings.caches);
        let (run, job, principal) = (run.into(), job.into(), ALICE.into());
        attach(&self.settings.folder, &AttachedRun { run, job, principal, uid, gid }, wait).unwrap()
    }

    pub(crate) fn detach(&self, run: &str) {
        detach(&self.settings.folder, &self.settings.caches, run, PATIENCE).unwrap();
    }

    pub(crate) fn file(&self) -> PathBuf {
        let uid = own_ids(&self.settings.caches).0;
        self.settings.caches.join(format!("krb5cc_{uid}_orthrus"))
    }

    pub(crate) fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for TestAgent {
    fn drop(&mut self) {
        self.stop();
    }
}

pub(crate) fn own_ids(folder: &Path) -> (u32, u32) {
    let found = fs::metadata(folder).unwrap();
    (found.uid(), found.gid())
}

/// Establishes a context with the NFS server by the tickets of a file; returns the principal that
/// the server sees.
pub(crate) fn used(realm: &Realm, file: &Path, server: &str) -> Result<String, String> {
    let acceptor = Acceptor::from_keytab(&realm.server_keytab()).unwrap();
    let credential = Credential::Ccache(format!("FILE:{}", file.display()));
    let mut initiator = Initiator::new(server, &credential).map_err(|error| error.to_string())?;
    let Step::Send(token) = initiator.step(None).map_err(|error| error.to_string())? else { panic!() };
    Ok(acceptor.accept(&token).map_err(|error| error.to_string())?.principal)
}

pub(crate) fn is_ready(status: &RunStatus) -> bool {
    matches!(status, RunStatus::Ready { .. })
}
