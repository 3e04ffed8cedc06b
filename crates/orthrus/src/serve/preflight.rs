//! Tries what a start does, and collects every fault. It serves nothing and leaves nothing behind.

use super::clients::ClientRules;
use super::clock::ServerClock;
use super::exports::{Backends, CephNode};
use super::http_listeners::bind_metrics;
use super::kerberos::Keys;
use super::observe::AuditLog;
use super::store::Store;
use super::web::WebListener;
use super::{admission, identities, membership, own_files, process, recall_time, sandbox, state_dir};
use crate::config::Settings;
use anyhow::{Context, anyhow};
use identity::Mapper;
use net::{ListenError, Listener};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;

/// The outcome of a check.
#[derive(Default)]
pub(crate) struct Preflight {
    /// Faults with which the server does not start, or does not serve as the settings say.
    pub(crate) faults: Vec<anyhow::Error>,
    /// Facts that are no faults if the server runs already.
    pub(crate) notes: Vec<String>,
}

/// Tries the exports, addresses, keytab, state folder and accounts of the settings.
pub(crate) fn check(settings: &Settings) -> Preflight {
    // As a start does: the rights of the process decide what it can read.
    let prepared = vfs_local::prepare_process(settings.device_nodes);
    let mut check = Preflight::default();
    check.keep(process::check(&prepared));
    check.addresses(settings);
    if let Some(sandbox) = check.keep(sandbox::enter(settings, false)) {
        check.notes.push(sandbox.to_string());
    }
    check.exports(settings);
    let keys = check.keep(Keys::open(settings));
    if let Some(keys) = &keys {
        check.keep(admission::check(&settings.exports, keys.is_some()));
        let misspelt = keys.iter().flat_map(|keys| keys.misspelt(&settings.realms));
        check.faults.extend(misspelt.map(anyhow::Error::msg));
    }
    let audit = check.keep(AuditLog::examine(settings));
    check.notes.extend(audit.flatten());
    check.keep(state_dir(settings).and_then(|folder| try_state_folder(&folder)));
    if let Some(cluster) = &settings.cluster {
        check.keep(membership::examine(cluster));
    }
    if let Some((rules, sources)) = check.keep(identities(settings, keys.flatten().as_ref())) {
        check.principals(settings, &Mapper::with_sources(rules, sources));
    }
    check
}

impl Preflight {
    /// Returns the value, or notes the fault.
    fn keep<T>(&mut self, tried: anyhow::Result<T>) -> Option<T> {
        tried.map_err(|fault| self.faults.push(fault)).ok()
    }

    /// Opens each export, and looks up the names of its clients.
    fn exports(&mut self, settings: &Settings) {
        let clients = ClientRules::new(settings, ServerClock::start(false));
        self.faults.extend(clients.examine(settings).into_iter().map(anyhow::Error::msg));
        // The server may be running.
        let ceph = CephNode { identity: None, sessions: None, recall_time: recall_time(settings) };
        let mut backends = Backends::new(clients, settings.limits.open_files_max, None, ceph);
        for export in &settings.exports {
            self.keep(own_files::check([export], settings));
        }
        let (served, faults) = backends.examine(&settings.exports, &settings.addresses);
        self.faults.extend(faults);
        self.notes.extend(backends.overlaps(&served));
    }

    /// Binds the addresses for a moment, all at once as a start does.
    fn addresses(&mut self, settings: &Settings) {
        let listener = Listener::bind(settings.listen);
        let metrics = settings.metrics.map(bind_metrics).transpose();
        let page = WebListener::open(settings, None);
        let own = [
            listener.is_ok().then_some(settings.listen),
            metrics.as_ref().ok().and(settings.metrics),
            page.as_ref().ok().and(settings.web),
        ];
        match listener {
            Ok(_) => {}
            Err(ListenError::InUse(address)) => self.in_use(address, &own),
            Err(error) => self.faults.push(error.into()),
        }
        let others = [(settings.metrics, metrics.err()), (settings.web, page.err())];
        for (address, error) in others.into_iter().filter_map(|(address, error)| Some((address?, error?))) {
            match error.root_cause().downcast_ref::<std::io::Error>().map(std::io::Error::kind) {
                Some(ErrorKind::AddrInUse) => self.in_use(address, &own),
                _ => self.faults.push(error),
            }
        }
    }

    /// Notes an address that cannot be bound while `own` addresses are.
    fn in_use(&mut self, address: SocketAddr, own: &[Option<SocketAddr>]) {
        match own.iter().flatten().find(|own| overlap(**own, address)) {
            Some(own) => self.faults.push(anyhow!(
                "{address} is taken by {own} of the same settings; give `listen`, `metrics` and `web` ports of \
                 their own"
            )),
            None => self
                .notes
                .push(format!("{address} is in use, which is right only if this server runs already")),
        }
    }

    /// Looks up the accounts that the settings name.
    fn principals(&mut self, settings: &Settings, mapper: &Mapper) {
        let mut principals: Vec<_> = settings.principals.iter().collect();
        principals.sort();
        for (principal, user) in principals {
            let named = || format!("[principals] \"{principal}\" = \"{user}\"");
            match mapper.explain(principal).account {
                Ok(Ok(_)) => {}
                Ok(Err(reason)) => self.faults.push(anyhow!("{}: {reason}", named())),
                Err(error) => self.faults.push(anyhow::Error::from(error).context(named())),
            }
        }
    }
}

/// Returns whether no two sockets can listen at both addresses.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let any = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && (any || one.ip() == other.ip())
}

/// Opens the state folder and reads its files. A folder that is missing is made and removed.
fn try_state_folder(folder: &Path) -> anyhow::Result<()> {
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && path.symlink_metadata().is_err();
    let missing: Vec<&Path> = folder.ancestors().take_while(is_missing).collect();
    let tried = Store::examine(folder).and_then(|()| {
        let access = nix::unistd::AccessFlags::W_OK | nix::unistd::AccessFlags::X_OK;
        nix::unistd::access(folder, access)
            .with_context(|| format!("the state folder {} cannot be written", folder.display()))
    });
    for made in missing {
        let _ = std::fs::remove_dir(made);
    }
    tried
}
