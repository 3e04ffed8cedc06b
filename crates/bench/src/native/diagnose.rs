//! Errors between the project's client and a server, in words: the cause, and the remedy.

use std::fmt;
use std::io::ErrorKind;
use std::time::Duration;

use client::{Error, ProtectionError, RpcError, TransportError};
use nfs4::Nfsstat4;
use rpc::AcceptStat;

use crate::measuring::NoAnswer;

/// An error in words.
#[derive(Debug)]
struct Diagnosis(String);

impl fmt::Display for Diagnosis {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Diagnosis {}

/// Replaces the client's error in a chain by a text with cause and remedy; the context around it
/// stays. A call was waited for `answer_max` long.
pub fn explained(error: anyhow::Error, host: &str, port: u16, answer_max: Duration) -> anyhow::Error {
    let found = error.chain().enumerate().find_map(|(at, cause)| Some((at, cause.downcast_ref::<Error>()?)));
    let Some((at, cause)) = found else { return error };
    let outer: Vec<String> = error.chain().take(at).map(ToString::to_string).collect();
    let diagnose = match cause {
        Error::Timeout => anyhow::Error::new(NoAnswer(answer_max)),
        cause => anyhow::Error::new(Diagnosis(words(cause, host, port))),
    };
    outer.into_iter().rev().fold(diagnose, |error, context| error.context(context))
}

fn words(error: &Error, host: &str, port: u16) -> String {
    match error {
        Error::Transport(transport) => lost(transport, host, port),
        Error::Rpc(rpc) => refused(rpc, host, port),
        Error::Protection(ProtectionError::Refused { .. }) => {
            format!(
                "{error}; has the server's keytab the key of nfs/{host}, and does its realm know this one?"
            )
        }
        Error::Compound(Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH) => {
            format!("the server does not speak NFSv4.1 ({error}); turn that minor version on there")
        }
        _ => match error.status().and_then(cure) {
            Some(cure) => format!("{error} ({cure})"),
            None => error.to_string(),
        },
    }
}

/// Returns the remedy for a status.
fn cure(status: Nfsstat4) -> Option<&'static str> {
    Some(match status {
        Nfsstat4::NFS4ERR_WRONGSEC => {
            "the export does not allow this flavor; allow it there, or leave it out with --flavors"
        }
        Nfsstat4::NFS4ERR_NOSPC => {
            "the server is full; make room there, or take smaller files with --file-size"
        }
        Nfsstat4::NFS4ERR_DQUOT => {
            "this user's quota at the server is used up; make room there, or take smaller files with --file-size"
        }
        Nfsstat4::NFS4ERR_ACCESS | Nfsstat4::NFS4ERR_PERM => {
            "this user may not do that there; check the owner and the mode of the exported folder, and whom the server takes this user for"
        }
        Nfsstat4::NFS4ERR_ROFS => {
            "the export is read-only; `/` is no export, so name one, such as SERVER:/data"
        }
        Nfsstat4::NFS4ERR_NOENT => "it is not there; check the export's name",
        Nfsstat4::NFS4ERR_BADSESSION
        | Nfsstat4::NFS4ERR_DEADSESSION
        | Nfsstat4::NFS4ERR_STALE_CLIENTID
        | Nfsstat4::NFS4ERR_EXPIRED => "the server has forgotten this client; was it started anew?",
        Nfsstat4::NFS4ERR_GRACE => "the server is in its grace period; try again when it is over",
        _ => return None,
    })
}

fn lost(error: &TransportError, host: &str, port: u16) -> String {
    match error {
        TransportError::Resolve { cause, .. } => {
            format!("{host} cannot be found ({cause}); check the name, or give an address")
        }
        TransportError::Connect(cause) => match cause.kind() {
            ErrorKind::ConnectionRefused => format!(
                "nothing listens on port {port} of {host} ({cause}); does the server run, and is --port right?"
            ),
            ErrorKind::TimedOut => format!(
                "port {port} of {host} does not answer ({cause}); is the machine up, and does no firewall drop what is sent there?"
            ),
            ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
                format!("there is no way to {host} ({cause}); check the address and this machine's routes")
            }
            _ => format!("port {port} of {host} cannot be connected to ({cause})"),
        },
        TransportError::Closed => format!(
            "port {port} of {host} closes the connection instead of answering; is it an NFS server, and does it let this machine in?"
        ),
        TransportError::Record(_) => no_rpc(error, host, port),
        TransportError::GaveUp(time) => {
            format!("the connection was lost, and for {} s no other could be made", time.as_secs())
        }
        TransportError::Io(cause) => format!("the connection is broken ({cause})"),
    }
}

fn no_rpc(error: &dyn fmt::Display, host: &str, port: u16) -> String {
    format!("what port {port} of {host} sends is no RPC ({error}): it is no NFS server; check --port")
}

fn refused(error: &RpcError, host: &str, port: u16) -> String {
    match error {
        RpcError::Malformed(_) => no_rpc(error, host, port),
        RpcError::NotExecuted(AcceptStat::PROG_UNAVAIL) => {
            format!("port {port} of {host} speaks RPC, but is no NFS server ({error}); check --port")
        }
        RpcError::NotExecuted(AcceptStat::PROG_MISMATCH) => {
            format!("the server does not speak NFSv4 ({error}); turn NFSv4.1 on there")
        }
        RpcError::Auth(_) => {
            format!("the server refuses the credential ({error}); does it allow this flavor, and this user?")
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    fn told(error: Error) -> String {
        let failed: Result<(), Error> = Err(error);
        let error = failed.context("no session").context("client 2 of 8").unwrap_err();
        format!("{:#}", explained(error, "server", 2049, Duration::from_secs(20)))
    }

    #[test]
    fn an_error_message_has_context_cause_and_remedy() {
        assert_eq!(told(Error::Timeout), "client 2 of 8: no session: no answer in 20 s");
        let refused = TransportError::Connect(ErrorKind::ConnectionRefused.into());
        let told = told(refused.into());
        assert!(
            told.starts_with("client 2 of 8: no session: nothing listens on port 2049 of server"),
            "{told}"
        );
        assert!(told.contains("--port"), "{told}");
    }

    #[test]
    fn each_diagnosis_names_a_remedy() {
        let status = |status| Error::Nfs { operation: nfs4::NfsOpnum4::OP_WRITE, status };
        let resolve = TransportError::Resolve { host: "server".into(), cause: ErrorKind::NotFound.into() };
        let connect = |kind: ErrorKind| TransportError::Connect(kind.into());
        for (error, cure) in [
            (Error::from(resolve), "check the name"),
            (connect(ErrorKind::TimedOut).into(), "firewall"),
            (connect(ErrorKind::HostUnreachable).into(), "routes"),
            (TransportError::Closed.into(), "is it an NFS server"),
            (RpcError::NotExecuted(AcceptStat::PROG_MISMATCH).into(), "turn NFSv4.1 on"),
            (RpcError::NotExecuted(AcceptStat::PROG_UNAVAIL).into(), "check --port"),
            (Error::Compound(Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH), "minor version"),
            (status(Nfsstat4::NFS4ERR_WRONGSEC), "--flavors"),
            (status(Nfsstat4::NFS4ERR_NOSPC), "--file-size"),
            (status(Nfsstat4::NFS4ERR_ACCESS), "owner"),
        ] {
            let told = told(error);
            assert!(told.contains(cure), "{told}");
        }
    }

    #[test]
    fn errors_that_are_not_the_clients_stay_as_they_are() {
        let error = anyhow::anyhow!("wrong data").context("client 1 of 2");
        assert_eq!(
            format!("{:#}", explained(error, "server", 1, Duration::ZERO)),
            "client 1 of 2: wrong data"
        );
    }
}
