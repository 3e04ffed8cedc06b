//! The certificate of the web page. Replaced files come into force with the next connection.

use crate::config::WebTls;
use anyhow::Context;
use rustls::ServerConfig;
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The identity of a file's content: its device, inode, size and time.
type FileState = (u64, u64, u64, i64, i64);

/// The certificate in force, and the files that it was read from.
pub(crate) struct TlsFiles {
    settings: WebTls,
    current: Mutex<(WebCertificate, Option<[FileState; 2]>)>,
}

/// A certificate with its configuration.
struct WebCertificate {
    config: Arc<ServerConfig>,
    certificate: CertificateDer<'static>,
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
        let mut current = self.lock();
        let states = states(&self.settings);
        if states != current.1 {
            current.1 = states;
            match read(&self.settings) {
                Ok(read) => {
                    current.0 = read;
                    tracing::info!("the certificate of the web page was read again");
                }
                Err(error) => tracing::error!("the former certificate of the web page stays: {error:#}"),
            }
        }
        current.0.config.clone()
    }

    /// Returns whether the certificate in force has a name among its alternative names.
    pub(crate) fn is_for(&self, name: &str) -> bool {
        let Ok(name) = ServerName::try_from(name) else { return false };
        let current = self.lock();
        ParsedCertificate::try_from(&current.0.certificate)
            .is_ok_and(|certificate| verify_server_name(&certificate, &name).is_ok())
    }

    fn lock(&self) -> MutexGuard<'_, (WebCertificate, Option<[FileState; 2]>)> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn states(settings: &WebTls) -> Option<[FileState; 2]> {
    let state = |path: &Path| {
        let file = std::fs::metadata(path).ok()?;
        Some((file.dev(), file.ino(), file.size(), file.mtime(), file.mtime_nsec()))
    };
    Some([state(&settings.certificate)?, state(&settings.key)?])
}

fn read(settings: &WebTls) -> anyhow::Result<WebCertificate> {
    let named = |path: &Path| path.display().to_string();
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&settings.certificate)
        .and_then(Iterator::collect)
        .with_context(|| format!("web_certificate {}", named(&settings.certificate)))?;
    let certificate = certificates.first().cloned().with_context(|| {
        format!("web_certificate {} has no certificate in PEM", named(&settings.certificate))
    })?;
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
    Ok(WebCertificate { config: Arc::new(config), certificate })
}

/// How long a TLS handshake may take.
pub(crate) const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(5);
