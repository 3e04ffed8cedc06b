//! A real context with the server, for the machine and for the user.

use client::{Error, ProtectionError, RpcError};
use gss::GssError;
use rpc::AcceptStat;

use super::outcome;
use crate::facts::{Facts, Tickets};
use crate::{CheckOutcome, HealthFinding, nfs};

/// MIT's minor codes begin here; offsets are those of RFC 4120 section 7.5.9 and of MIT's own.
const KRB5_BASE: u32 = 0x96c7_3a00;

/// The codes of a wrong clock: KRB_AP_ERR_SKEW, KRB_AP_ERR_TKT_NYV, KRB_AP_ERR_TKT_EXPIRED.
const CLOCK: [u32; 3] = [37, 33, 32];

/// The codes of a keytab that does not fit: BAD_INTEGRITY, NOT_US, MODIFIED, BADKEYVER, NOKEY,
/// WRONG_PRINC, WRONG_ETYPE, KT_NOTFOUND, KT_KVNONOTFOUND.
const KEYTAB: [u32; 9] = [31, 35, 41, 44, 45, 144, 152, 181, 230];

/// The encryption types with AES (RFC 3962, RFC 8009).
const AES: std::ops::RangeInclusive<u32> = 17..=20;

pub(super) fn machine(facts: &mut Facts) -> CheckOutcome {
    match facts.host.clone() {
        Some(tickets) => establish(facts, &tickets),
        None => CheckOutcome::Skipped("the machine has no ticket".to_owned()),
    }
}

pub(super) fn user(facts: &mut Facts) -> CheckOutcome {
    if facts.acts_as_machine() {
        return CheckOutcome::Skipped("root acts as the machine".to_owned());
    }
    match facts.user.clone() {
        Some(tickets) => establish(facts, &tickets),
        None => CheckOutcome::Skipped("there is no copy of the user's ticket".to_owned()),
    }
}

fn establish(facts: &mut Facts, tickets: &Tickets) -> CheckOutcome {
    let Some(address) = facts.address else {
        return CheckOutcome::Skipped("there is no connection".to_owned());
    };
    let host = facts.service_host().to_owned();
    match nfs::context(address, &host, tickets, facts.machine.limit) {
        Ok(server) => {
            facts.working.push(tickets.clone());
            CheckOutcome::Passed(format!("{} with {server}", tickets.principal))
        }
        Err(error) => {
            let finding = judge(&facts.target.host, &host, &tickets.principal, facts.service_etype, &error);
            let finding = not_accepted(facts, &host).unwrap_or(finding);
            if facts.refusal.as_ref() == Some(&finding.cause) {
                return CheckOutcome::Skipped(
                    "the machine gets no context for a reason of the server's".to_owned(),
                );
            }
            facts.refusal = Some(finding.cause.clone());
            outcome(vec![finding], "")
        }
    }
}

/// The finding for a host whose keys the configuration of this server does not accept.
fn not_accepted(facts: &Facts, host: &str) -> Option<HealthFinding> {
    let server = facts.server.as_ref()?;
    if (server.accepts_host)(host) {
        return None;
    }
    let cause = format!(
        "The configuration accepts keys of {} only (keytab_hosts), and not of {host}.",
        server.hosts.join(", ")
    );
    Some(HealthFinding::error(cause, format!("add \"{host}\" to keytab_hosts, or ask with --host NAME")))
}

fn judge(server: &str, host: &str, principal: &str, etype: Option<u32>, error: &Error) -> HealthFinding {
    let local = format!("orthrus doctor --server    # on {server}");
    match error {
        Error::Protection(ProtectionError::Refused { major, minor }) => {
            let codes = gss::Codes { major: *major, minor: *minor };
            let offset = minor.wrapping_sub(KRB5_BASE);
            if CLOCK.contains(&offset) {
                return HealthFinding::error(
                    format!(
                        "The clock of the server {server} is wrong, since the KDC's agrees with this machine's: {codes}."
                    ),
                    format!("chronyc makestep    # on {server}"),
                );
            }
            let older = etype.filter(|etype| !AES.contains(etype));
            if let Some(etype) = older.filter(|_| KEYTAB.contains(&offset)) {
                return HealthFinding::error(
                    format!(
                        "The KDC encrypts tickets for nfs/{host} with the older type {etype}, of which {server} has no key: {codes}."
                    ),
                    "set msDS-SupportedEncryptionTypes of the service's account to 24 (Active Directory), or its keys to AES; \
                     then kdestroy and kinit here",
                );
            }
            if KEYTAB.contains(&offset) {
                return HealthFinding::error(
                    format!(
                        "The keytab of the server {server} does not fit the KDC's key of nfs/{host}: {codes}."
                    ),
                    format!(
                        "kadmin -q \"ktadd -k KEYTAB nfs/{host}\"    # on {server}, with `keytab` of its configuration, \
                         else /etc/krb5.keytab; then kdestroy and kinit here"
                    ),
                );
            }
            HealthFinding::error(
                format!("The server {server} refuses a context of {principal}: {codes}."),
                local,
            )
        }
        Error::Rpc(RpcError::Auth(_)) => HealthFinding::error(
            format!(
                "The server {server} accepts no Kerberos ({error}); it has no keytab, or the flavor is off."
            ),
            local,
        ),
        Error::Rpc(RpcError::NotExecuted(AcceptStat::SYSTEM_ERR)) => HealthFinding::error(
            format!(
                "The server {server} can make no context now: its directory of users does not answer, or it \
                 is short of descriptors or memory."
            ),
            local,
        ),
        Error::Timeout => HealthFinding::error(
            format!("The server {server} does not answer the request for a context."),
            local,
        ),
        Error::Gss(GssError::WrongKey(status)) => HealthFinding::error(
            format!("The answer of {server} is not from the owner of the key of nfs/{host}: {status}."),
            local,
        ),
        other => HealthFinding::error(format!("{principal} gets no context with {server}: {other}."), local),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_ticket(minor: u32, etype: u32) -> String {
        let error = Error::Protection(ProtectionError::Refused { major: 13 << 16, minor });
        judge("server", "server.a.test", "alice@A.TEST", Some(etype), &error).cause
    }

    fn cause(minor: u32) -> String {
        of_ticket(minor, 18)
    }

    #[test]
    fn a_ticket_of_an_older_type_is_the_cause_only_if_the_keytab_does_not_fit() {
        // RFC 8429: 23 is RC4.
        let said = of_ticket(0x96c7_3a2c, 23);
        assert!(
            said.starts_with("The KDC encrypts tickets for nfs/server.a.test with the older type 23"),
            "{said}"
        );
        assert!(of_ticket(0x96c7_3a25, 23).starts_with("The clock of the server"));
    }

    #[test]
    fn a_server_that_can_make_no_context_now_is_not_said_to_refuse_it() {
        // RFC 5531 section 9
        let error = Error::Rpc(RpcError::NotExecuted(AcceptStat::SYSTEM_ERR));
        let said = judge("server", "server.a.test", "alice@A.TEST", Some(18), &error).cause;
        assert!(said.starts_with("The server server can make no context now"), "{said}");
    }

    #[test]
    fn a_refusal_is_named_by_its_minor_code() {
        assert!(cause(0x96c7_3a25).starts_with("The clock of the server"), "{}", cause(0x96c7_3a25));
        assert!(cause(0x96c7_3a2c).starts_with("The keytab of the server"));
        assert!(cause(0x96c7_3a12).contains("KRB5KDC_ERR_CLIENT_REVOKED"));
    }
}
