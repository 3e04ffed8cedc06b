//! Certificates for TLS with a directory. They are read again after a failure, since authorities
//! and certificates are renewed while the server runs.

use crate::{LdapConfigError, LdapSettings};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The files of the certificates, and their contents in force.
pub(crate) struct Certificates {
    files: CertificateFiles,
    current: Mutex<(CertificateContents, Arc<ClientConfig>)>,
}

struct CertificateFiles {
    /// The authorities of the servers; `None`: the system's.
    ca: Option<PathBuf>,
    /// This server's certificate and its key.
    own: Option<(PathBuf, PathBuf)>,
}

#[derive(PartialEq)]
struct CertificateContents {
    authorities: Vec<CertificateDer<'static>>,
    own: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
}

impl Certificates {
    /// Reads the certificates of a directory.
    pub(crate) fn open(settings: &LdapSettings) -> Result<Self, LdapConfigError> {
        let LdapSettings { ca, certificate, key, .. } = settings;
        let own = match (certificate, key) {
            (None, None) => None,
            (Some(path), _) | (_, Some(path)) if ca.is_none() => {
                return Err(wrong(path, "a certificate also needs `ca`, the authorities of the servers"));
            }
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (Some(path), None) | (None, Some(path)) => {
                return Err(wrong(path, "`certificate` and `key` belong together"));
            }
        };
        let files = CertificateFiles { ca: ca.clone(), own };
        let contents = files.read()?;
        let config = files.config(&contents)?;
        Ok(Self { files, current: Mutex::new((contents, config)) })
    }

    /// Returns the TLS configuration of a new connection.
    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// Reads the files again. Returns whether they have other contents, which are in force then.
    /// Files that are of no use change nothing.
    pub(crate) fn refresh(&self) -> bool {
        let Ok(contents) = self.files.read() else { return false };
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if contents == current.0 {
            return false;
        }
        let Ok(config) = self.files.config(&contents) else { return false };
        *current = (contents, config);
        true
    }
}

impl CertificateFiles {
    fn read(&self) -> Result<CertificateContents, LdapConfigError> {
        let authorities = match &self.ca {
            Some(path) => certificates(path)?,
            // Some of them may be of no use.
            None => rustls_native_certs::load_native_certs().certs,
        };
        let own = match &self.own {
            Some((certificate, key)) => {
                let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error))?;
                Some((certificates(certificate)?, secret))
            }
            None => None,
        };
        Ok(CertificateContents { authorities, own })
    }

    fn config(&self, contents: &CertificateContents) -> Result<Arc<ClientConfig>, LdapConfigError> {
        let mut roots = RootCertStore::empty();
        for authority in &contents.authorities {
            match (roots.add(authority.clone()), &self.ca) {
                (Err(error), Some(path)) => return Err(wrong(path, error)),
                // The system may have authorities that the library does not accept.
                (Ok(()), _) | (Err(_), None) => {}
            }
        }
        let builder = ClientConfig::builder().with_root_certificates(roots);
        let config = match (&contents.own, &self.own) {
            (Some((chain, secret)), Some((certificate, _))) => builder
                .with_client_auth_cert(chain.clone(), secret.clone_key())
                .map_err(|error| wrong(certificate, error))?,
            _ => builder.with_no_client_auth(),
        };
        Ok(Arc::new(config))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, LdapConfigError> {
    let found = CertificateDer::pem_file_iter(path).map_err(|error| wrong(path, error))?;
    let found = found.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(path, error))?;
    if found.is_empty() { Err(wrong(path, "there is no certificate in PEM format")) } else { Ok(found) }
}

fn wrong(path: &Path, why: impl ToString) -> LdapConfigError {
    LdapConfigError::Certificate { path: path.to_owned(), why: why.to_string() }
}
