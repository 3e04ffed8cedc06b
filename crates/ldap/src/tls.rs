//! Certificates for TLS with a directory.

use crate::{LdapConfigError, LdapSettings};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;

/// Makes the TLS configuration of a directory; `None` for the system's authorities and no
/// certificate of this server.
pub(crate) fn config(settings: &LdapSettings) -> Result<Option<Arc<ClientConfig>>, LdapConfigError> {
    let LdapSettings { ca, certificate, key, .. } = settings;
    let Some(ca) = ca else {
        return match certificate.as_ref().or(key.as_ref()) {
            None => Ok(None),
            Some(path) => Err(wrong(path, "a certificate also needs `ca`, the authorities of the servers")),
        };
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(ca)? {
        roots.add(certificate).map_err(|error| wrong(ca, error))?;
    }
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let config = match (certificate, key) {
        (None, None) => builder.with_no_client_auth(),
        (Some(certificate), Some(key)) => {
            let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error))?;
            let chain = certificates(certificate)?;
            builder.with_client_auth_cert(chain, secret).map_err(|error| wrong(certificate, error))?
        }
        (Some(path), None) | (None, Some(path)) => {
            return Err(wrong(path, "`certificate` and `key` belong together"));
        }
    };
    Ok(Some(Arc::new(config)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, LdapConfigError> {
    let found = CertificateDer::pem_file_iter(path).map_err(|error| wrong(path, error))?;
    let found = found.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(path, error))?;
    if found.is_empty() { Err(wrong(path, "there is no certificate in PEM format")) } else { Ok(found) }
}

fn wrong(path: &Path, why: impl ToString) -> LdapConfigError {
    LdapConfigError::Certificate { path: path.to_owned(), why: why.to_string() }
}
