//! Requests to the NFS server, with short deadlines and small replies.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use client::{
    Client, Compound, Error, Flavor, GssContext, GssCredential, Head, Options, Protection, RawConnection,
    Reply, Security, flavor_of,
};
use gss::Credential;
use nfs4::{
    NFS_V4, NFS4_PROGRAM, NFSPROC4_COMPOUND, NFSPROC4_NULL, NfsOpnum4, Nfsstat4, Secinfo4, SecinfoStyle4,
};
use rpc::gss::RpcGssServiceT;
use rpc::{AuthFlavor, AuthSys};
use xdr::{Encode as _, Encoder};

use crate::facts::{RootAttributes, Tickets};
use crate::machine::within;

/// The longest reply that is read, in bytes.
const RECORD_BYTES_MAX: usize = 256 << 10;

/// One call takes at most a third of the time of a session, which needs several.
fn call_limit(limit: Duration) -> Duration {
    limit.max(Duration::from_secs(3))
}

fn connect(address: SocketAddr, limit: Duration) -> Result<RawConnection, Error> {
    Ok(RawConnection::connect(&[address], limit, RECORD_BYTES_MAX)?)
}

fn plain() -> Protection {
    Protection::Plain { flavor: AuthFlavor::AUTH_NONE as u32, body: Arc::default() }
}

/// Returns AUTH_SYS as nobody: some servers answer no COMPOUND without a credential.
fn sys() -> Protection {
    const NOBODY: u32 = 65_534;
    let mut body = Encoder::new();
    AuthSys::new(0, b"orthrus-doctor", NOBODY, NOBODY, &[]).encode(&mut body);
    Protection::Plain { flavor: AuthFlavor::AUTH_SYS as u32, body: body.into_vec().into() }
}

/// Calls NULL of a version of NFS.
pub(crate) fn null(address: SocketAddr, version: u32, limit: Duration) -> Result<(), Error> {
    let mut connection = connect(address, limit)?;
    let head = Head { xid: 1, program: NFS4_PROGRAM, version, procedure: NFSPROC4_NULL, protection: plain() };
    head.call(&mut connection, &[], limit).map(drop)
}

/// Returns whether the server has a minor version of NFSv4, by an empty COMPOUND.
pub(crate) fn has_minor(address: SocketAddr, minor: u32, limit: Duration) -> Result<bool, Error> {
    let mut connection = connect(address, limit)?;
    let head = Head {
        xid: 2,
        program: NFS4_PROGRAM,
        version: NFS_V4,
        procedure: NFSPROC4_COMPOUND,
        protection: sys(),
    };
    let body = head.call(&mut connection, &Compound::sessionless(minor).into_arguments(), limit)?;
    match Reply::new(body, false) {
        Ok(reply) => Ok(!reply.check().is_err_and(|error| error.is(Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH))),
        Err(error) if error.is(Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH) => Ok(false),
        Err(error) => Err(error),
    }
}

fn options(address: SocketAddr, security: Security, limit: Duration) -> Options {
    let limit = call_limit(limit);
    Options {
        slots_max: 1,
        io_size_max: 4096,
        record_size_max: RECORD_BYTES_MAX,
        connect_timeout: limit,
        call_timeout: limit,
        reconnect_max: limit,
        delay_max: limit,
        ..Options::new(address.ip().to_string(), security).port(address.port())
    }
}

/// A deadline for `work` on another thread, since the Kerberos library cannot be interrupted.
fn limited<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    within(call_limit(limit) * 3, work).unwrap_or(Err(Error::Timeout))
}

/// Asks for the flavors of an export with SECINFO_NO_NAME (RFC 8881 section 18.45).
pub(crate) fn secinfo(
    address: SocketAddr,
    export: &str,
    security: Security,
    minor: u32,
    limit: Duration,
) -> Result<Vec<Flavor>, Error> {
    let export = export.to_owned();
    limited(limit, move || {
        let mut options = options(address, security, limit);
        options.minor_version = minor;
        let mut client = Client::connect(options)?;
        let parts = export.split('/').filter(|part| !part.is_empty()).count();
        let found = client.perform(
            |compound| {
                compound
                    .putrootfh()
                    .lookup_path(&export)
                    .secinfo_no_name(SecinfoStyle4::SECINFO_STYLE4_CURRENT_FH)
            },
            |reply| {
                let mut results = reply.results();
                results.done(NfsOpnum4::OP_PUTROOTFH)?;
                for _ in 0..parts {
                    results.done(NfsOpnum4::OP_LOOKUP)?;
                }
                let entries = results.take::<Vec<Secinfo4<'_>>>(NfsOpnum4::OP_SECINFO_NO_NAME)?;
                Ok(entries.iter().filter_map(flavor_of).collect())
            },
        );
        // LOOKUP checks the flavor of the export, and SECINFO does not (RFC 8881 section 2.6.3.1).
        let found = match (found, export.trim_end_matches('/').rsplit_once('/')) {
            (Err(error), Some((parent, name))) if error.is(Nfsstat4::NFS4ERR_WRONGSEC) => client.perform(
                |compound| compound.putrootfh().lookup_path(parent).secinfo(name.as_bytes()),
                |reply| {
                    let mut results = reply.results();
                    results.done(NfsOpnum4::OP_PUTROOTFH)?;
                    for _ in 1..parts {
                        results.done(NfsOpnum4::OP_LOOKUP)?;
                    }
                    let entries = results.take::<Vec<Secinfo4<'_>>>(NfsOpnum4::OP_SECINFO)?;
                    Ok(entries.iter().filter_map(flavor_of).collect())
                },
            ),
            (found, _) => found,
        };
        let _ = client.close();
        found
    })
}

/// Establishes a context for `nfs@HOST` with the tickets of a cache, and destroys it.
pub(crate) fn context(
    address: SocketAddr,
    host: &str,
    tickets: &Tickets,
    limit: Duration,
) -> Result<String, Error> {
    let credential = GssCredential {
        target: format!("nfs@{host}"),
        credential: Credential::Ccache(tickets.cache.clone()),
        service: RpcGssServiceT::rpc_gss_svc_integrity,
    };
    limited(limit, move || {
        let mut connection = connect(address, limit)?;
        let context = GssContext::establish(&mut connection, &credential, call_limit(limit))?;
        let _ = context.destroy(&mut connection, call_limit(limit));
        Ok(context.principal().to_owned())
    })
}

/// Makes a session with a flavor, and reads the attributes of the export.
pub(crate) fn attributes(
    address: SocketAddr,
    export: &str,
    security: Security,
    minor: u32,
    limit: Duration,
) -> Result<RootAttributes, Error> {
    /// MODIFY and EXTEND of RFC 8881 section 18.1.
    const MODIFY: u32 = 0x04 | 0x08;
    let export = export.to_owned();
    limited(limit, move || {
        let mut options = options(address, security, limit);
        options.minor_version = minor;
        let mut client = Client::connect(options)?;
        let found = client.lookup_path(&export).and_then(|(handle, attributes)| {
            let values = attributes.values()?;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let access = client.access(&handle, MODIFY)?;
            Ok(RootAttributes {
                owner: values.owner.as_ref().map(|owner| text(owner)).unwrap_or_default(),
                group: values.owner_group.as_ref().map(|group| text(group)).unwrap_or_default(),
                mode: values.mode.unwrap_or_default(),
                may_modify: access.access & MODIFY != 0,
                principal: None,
            })
        });
        let _ = client.close();
        found
    })
}
