//! The answers to administrators' requests.

use super::{drain, listings, reload::Reloads, status};
use crate::requests::{AdminReply, AdminRequest, IdReport};
use identity::Mapper;
use net::Stats;
use runtime::NfsService;
use std::sync::Arc;
use vfs::{Caller, Exports};

/// The parts of a running server that requests are about.
pub(super) struct Answers {
    pub(super) identity: Arc<Mapper>,
    pub(super) exports: Arc<Exports>,
    pub(super) service: Arc<NfsService>,
    pub(super) reloads: Arc<Reloads>,
    pub(super) stats: Arc<Stats>,
}

impl Answers {
    /// Answers a request of the user `asker`. The log says who asked for a change.
    pub(super) fn answer(&self, request: AdminRequest, asker: u32) -> AdminReply {
        match request {
            AdminRequest::Id { principal } => self.explain(principal),
            AdminRequest::List { kind } => {
                AdminReply::List(listings::list(kind, &self.service, &self.exports.snapshot()))
            }
            AdminRequest::Status => {
                let exports = self.exports.snapshot().iter().count();
                let report = status::report(&self.service, &self.stats, &self.identity, exports);
                AdminReply::Status(Box::new(report))
            }
            AdminRequest::Evict { client } => self.evict(&client, asker),
            AdminRequest::Reload => match self.reloads.run(&format!("reload by user {asker}")) {
                Ok(lines) => AdminReply::Done(lines),
                Err(error) => AdminReply::Error(format!("{error:#}")),
            },
            AdminRequest::Drain { cancel: false } => match drain::start(self.service.clone(), asker) {
                Ok(line) => AdminReply::Done(vec![line]),
                Err(error) => AdminReply::Error(format!("the server cannot watch its clients: {error}")),
            },
            AdminRequest::Drain { cancel: true } => {
                AdminReply::Done(vec![drain::cancel(&self.service, asker)])
            }
        }
    }

    fn explain(&self, principal: String) -> AdminReply {
        let explanation = self.identity.explain_cached(&principal, self.service.server().now());
        let table = self.exports.snapshot();
        let seen = |caller: Option<&Caller>| {
            table.iter().map(|export| (export.pseudo_path.clone(), export.squash(caller))).collect()
        };
        AdminReply::Id(IdReport::new("server", principal, explanation, seen))
    }

    /// Removes the client with this clientid4, in hexadecimal.
    fn evict(&self, client: &str, asker: u32) -> AdminReply {
        let server = self.service.server();
        match u64::from_str_radix(client, 16) {
            Ok(id) if server.engine().evict(id, server.now()) => {
                tracing::warn!("eviction by user {asker}: client {client} and its state are removed");
                AdminReply::Done(vec![format!("client {client} and its state are removed")])
            }
            _ => AdminReply::Error(format!("there is no client {client}; `orthrus clients` lists the IDs")),
        }
    }
}
