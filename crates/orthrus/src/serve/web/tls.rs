//! The certificate of the web page. Replaced files come into force with the next connection.

use crate::config::WebTls;
use anyhow::Context;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The identity of a file's content: its device, inode, size and time.
type FileState = (u64, u64, u64, i64, i64);

/// The configuration in force, and the files that it was read from.
pub(crate) struct TlsFiles {
    settings: WebTls,
    current: Mutex<(Arc<ServerConfig>, Option<[FileState; 2]>)>,
}

impl TlsFiles {
    /// Reads certificate and key.
    ///
    /// # Errors
    /// Names the file and the fault.
    pub(crate) fn open(settings: WebTls) -> anyhow::Result<Self> {
        let current = Mutex::new((read(&settings)?, states(&settings)));
        Ok(Self { settings, current })
    }

    /// Returns the configuration for a new connection. If the files have been replaced it is read
    /// again; where that fails the former one stays, and the log has the fault.
    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let states = states(&self.settings);
        if states.is_some() && states != current.1 {
            current.1 = states;
            match read(&self.settings) {
                Ok(config) => {
                    current.0 = config;
                    tracing::info!("the certificate of the web page was read again");
                }
                Err(error) => tracing::error!("the former certificate of the web page stays: {error:#}"),
            }
        }
        current.0.clone()
    }
}

fn states(settings: &WebTls) -> Option<[FileState; 2]> {
    let state = |path: &Path| {
        let file = std::fs::metadata(path).ok()?;
        Some((file.dev(), file.ino(), file.size(), file.mtime(), file.mtime_nsec()))
    };
    Some([state(&settings.certificate)?, state(&settings.key)?])
}

fn read(settings: &WebTls) -> anyhow::Result<Arc<ServerConfig>> {
    let named = |path: &Path| path.display().to_string();
    let certificates: Vec<CertificateDer<'_>> = CertificateDer::pem_file_iter(&settings.certificate)
        .and_then(Iterator::collect)
        .with_context(|| format!("web_certificate {}", named(&settings.certificate)))?;
    anyhow::ensure!(
        !certificates.is_empty(),
        "web_certificate {} has no certificate in PEM",
        named(&settings.certificate)
    );
    let key = PrivateKeyDer::from_pem_file(&settings.key)
        .with_context(|| format!("web_key {}", named(&settings.key)))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .context("web_certificate and web_key do not fit")?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.max_fragment_size = None;
    Ok(Arc::new(config))
}

/// How long a TLS handshake may take.
pub(crate) const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(5);
