//! The sockets of metrics and the web page, opened before the sandbox and served behind it, and the
//! socket of the admin API.

use super::api::{self, ApiParts};
use super::http::{self, HttpEndpoint, OwnNames, Workers};
use super::metrics::{METRICS_WORKERS_MAX, MetricsListener, Watched};
use super::same_user;
use super::upgrade::Inherited;
use super::web::{WebLinks, WebListener};
use crate::config::Settings;
use anyhow::Context;
use net::Running;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// The sockets that the settings ask for.
pub(super) struct HttpListeners {
    metrics: Option<MetricsListener>,
    page: Option<WebListener>,
}

/// Copies of the sockets, for the next process.
pub(super) struct HttpSockets {
    pub(super) metrics: Option<OwnedFd>,
    pub(super) page: Option<OwnedFd>,
}

impl HttpListeners {
    /// Opens the sockets; those of a process that is taken over are used as far as the settings
    /// still name them.
    ///
    /// # Errors
    /// An address is taken or foreign, or the certificate of the web page is unusable.
    pub(super) fn open(settings: &Settings, mut inherited: Option<&mut Inherited>) -> anyhow::Result<Self> {
        let metrics = |address| match inherited.as_mut().and_then(|inherited| inherited.metrics(address)) {
            Some(socket) => MetricsListener::inherit(socket).context("the socket of the metrics"),
            None => bind_metrics(address),
        };
        let mut metrics = settings.metrics.map(metrics).transpose()?;
        let page = settings.web.and_then(|address| inherited.as_mut()?.page(address));
        let mut page = WebListener::open(settings, page)?;
        if settings.same_user {
            metrics.iter_mut().for_each(|listener| listener.admit(same_user::admission()));
            page.iter_mut().for_each(|listener| listener.admit(same_user::admission()));
        }
        Ok(Self { metrics, page })
    }

    /// Returns copies of the sockets.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(super) fn sockets(&self) -> anyhow::Result<HttpSockets> {
        Ok(HttpSockets {
            metrics: self.metrics.as_ref().map(MetricsListener::socket).transpose()?,
            page: self.page.as_ref().map(WebListener::socket).transpose()?,
        })
    }

    /// Returns the links to the web page, if it is served.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn links(&self, names: &OwnNames) -> anyhow::Result<Option<Arc<WebLinks>>> {
        Ok(self.page.as_ref().map(|page| page.links(names)).transpose()?)
    }

    /// Serves metrics and the web page, and the admin API on its socket in the state folder.
    /// Returns the address of the metrics, if they are served.
    ///
    /// # Errors
    /// The threads do not start.
    pub(super) fn serve(
        self,
        state_dir: &Path,
        parts: ApiParts,
        running: &Running,
        names: &OwnNames,
    ) -> anyhow::Result<Option<SocketAddr>> {
        let address = self.metrics.as_ref().map(MetricsListener::address).transpose()?;
        let parts = Arc::new(parts);
        api::watch(&parts)?;
        let metrics = self.metrics.map(|listener| {
            let watched = Watched {
                service: parts.service.clone(),
                stats: parts.stats.clone(),
                shards: running.shards().clone(),
                identity: parts.identity.clone(),
                exports: parts.exports.clone(),
                membership: parts.membership.clone(),
                keys: parts.keys.clone(),
                workers: Workers::new(METRICS_WORKERS_MAX),
            };
            listener.endpoint(watched, names.clone())
        });
        let page = self.page.zip(parts.web.clone());
        let page = page.map(|(listener, links)| listener.endpoint(links, parts.clone(), names.clone()));
        let endpoints = metrics.into_iter().chain(page).chain(admin_endpoint(state_dir, parts));
        http::start(endpoints.collect()).context("HTTP endpoints cannot be served")?;
        Ok(address)
    }
}

/// Binds the socket of the metrics.
///
/// # Errors
/// The address is taken or foreign.
pub(super) fn bind_metrics(address: SocketAddr) -> anyhow::Result<MetricsListener> {
    if !address.ip().is_loopback() {
        tracing::warn!(
            "metrics on {address}: whoever reaches it reads them, without a password or encryption"
        );
    }
    MetricsListener::bind(address).with_context(|| {
        format!("metrics cannot be served on {address}; choose another address with --metrics")
    })
}

/// Makes the endpoint of the admin API. A server without it still serves.
fn admin_endpoint(state_dir: &Path, parts: Arc<ApiParts>) -> Option<HttpEndpoint> {
    let endpoint = api::endpoint(state_dir, parts);
    let complain = |error| {
        tracing::warn!(
            "no socket for `orthrus status`, `orthrus clients` and others in {}: {error}",
            state_dir.display()
        );
    };
    endpoint.map_err(complain).ok()
}
