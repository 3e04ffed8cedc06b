//! Errors of the configuration and of context establishment, one variant per remedy.

use std::fmt;

/// The GSS-API's major and minor status, with the library's text for both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The major status of RFC 2744: the `gss_major` of an RPCSEC_GSS reply.
    pub major: u32,
    /// The mechanism's minor status: the `gss_minor` of the reply. MIT's codes, as unsigned
    /// numbers.
    pub minor: u32,
    /// The library's messages for both codes.
    pub text: String,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        // Clients log the number, so that the two logs can be compared.
        match crate::minor_code(self.minor) {
            Some(found) if !self.text.contains(found.name) => {
                write!(f, " [{}, {:#x}]", found.name, found.code)
            }
            _ => Ok(()),
        }
    }
}

/// The reason why the configuration could not be set.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// The environment may only change while no other thread can read it.
    #[error("krb5.conf must be chosen before the program starts threads: {0} run already")]
    Threads(usize),
    /// `/proc` is not mounted, so the threads cannot be counted.
    #[error("cannot count this process's threads in /proc/self/task: {0}")]
    Proc(#[from] std::io::Error),
}

/// The reason why a context could not be established, or a credential not be acquired.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GssError {
    /// There is no ticket, so no context can be initiated.
    #[error("no Kerberos ticket ({0}); get one with kinit, or name a credential cache that has one")]
    NoTicket(Status),
    /// The ticket has expired.
    #[error("the Kerberos ticket has expired ({0}); get a new one with kinit")]
    TicketExpired(Status),
    /// The clocks of the two machines differ by more than the realm allows, or the ticket is not
    /// yet valid.
    #[error(
        "the clocks of client, server and KDC differ too much ({0}); synchronise them, for example with chrony"
    )]
    ClockSkew(Status),
    /// The keytab lacks the key of the ticket: other principal, old key version or other enctype.
    #[error(
        "the ticket does not fit a key of the keytab ({0}); compare `klist -ekt KEYTAB` with `kvno PRINCIPAL`, \
         export the key again, and let clients drop old tickets with kdestroy"
    )]
    WrongKey(Status),
    /// The KDC does not know the client or the service.
    #[error(
        "the KDC does not know the principal ({0}); add it (kadmin: addprinc), and check the host name and its \
         realm in krb5.conf"
    )]
    UnknownPrincipal(Status),
    /// One side does not support the enctype, or this program refuses it (DES, 3DES, RC4,
    /// Camellia).
    #[error(
        "the encryption type is refused ({0}); make the principal's keys of type aes256-cts-hmac-sha1-96 or \
         aes256-cts-hmac-sha384-192"
    )]
    EnctypeRefused(Status),
    /// No KDC of the realm answers.
    #[error(
        "no KDC of the realm answers ({0}); check kdc = in krb5.conf, the network and whether krb5kdc runs"
    )]
    KdcUnreachable(Status),
    /// The keytab cannot be read or has no key.
    #[error("the keytab is of no use ({0}); check its path, its owner and mode, and `klist -k KEYTAB`")]
    KeytabUnusable(Status),
    /// This machine has no descriptor or no memory left at the moment.
    #[error(
        "the machine is short of descriptors or memory ({0}); raise LimitNOFILE= of the unit or `ulimit -n`"
    )]
    Shortage(Status),
    /// The peer's bytes are not a Kerberos token.
    #[error("the peer's token is malformed ({0}); the client is faulty, or something changed its bytes")]
    MalformedToken(Status),
    /// Any other error, with the library's text.
    #[error("Kerberos: {0}")]
    Other(Status),
}

impl GssError {
    /// Returns the library's codes and text.
    pub fn status(&self) -> &Status {
        match self {
            Self::NoTicket(s)
            | Self::TicketExpired(s)
            | Self::ClockSkew(s)
            | Self::WrongKey(s)
            | Self::UnknownPrincipal(s)
            | Self::EnctypeRefused(s)
            | Self::KdcUnreachable(s)
            | Self::KeytabUnusable(s)
            | Self::Shortage(s)
            | Self::MalformedToken(s)
            | Self::Other(s) => s,
        }
    }

    /// Classifies a status by its codes. The minor code is the more specific one.
    pub(crate) fn classify(status: Status) -> Self {
        match kind_of_minor(status.minor).or_else(|| kind_of_major(status.major)) {
            Some(kind) => kind(status),
            None => Self::Other(status),
        }
    }
}

/// Routine errors of RFC 2744 section 3.9.1, in bits 16 to 23 of the major status.
pub(crate) mod major {
    pub(crate) const ROUTINE_MASK: u32 = 0x00ff_0000;
    pub(crate) const CALLING_MASK: u32 = 0xff00_0000;
    pub(crate) const BAD_MECH: u32 = 1 << 16;
    pub(crate) const BAD_NAME: u32 = 2 << 16;
    pub(crate) const NO_CRED: u32 = 7 << 16;
    pub(crate) const DEFECTIVE_TOKEN: u32 = 9 << 16;
    pub(crate) const CREDENTIALS_EXPIRED: u32 = 11 << 16;
    pub(crate) const FAILURE: u32 = 13 << 16;
    pub(crate) const CONTINUE_NEEDED: u32 = 1;
}

type GssErrorKind = fn(Status) -> GssError;

fn kind_of_major(code: u32) -> Option<GssErrorKind> {
    // A calling error for an input token means that the token is too short to be parsed.
    if code & major::CALLING_MASK != 0 {
        return Some(GssError::MalformedToken);
    }
    match code & major::ROUTINE_MASK {
        major::DEFECTIVE_TOKEN | major::BAD_MECH => Some(GssError::MalformedToken),
        major::CREDENTIALS_EXPIRED => Some(GssError::TicketExpired),
        major::NO_CRED => Some(GssError::NoTicket),
        major::BAD_NAME => Some(GssError::UnknownPrincipal),
        _ => None,
    }
}

/// MIT's error tables have one base each: one table for the Kerberos library, one for its ASN.1
/// decoder.
const KRB5_BASE: i64 = -1_765_328_384;
const ASN1_BASE: i64 = 1_859_794_432;
const ASN1_CODES: i64 = 32;

/// The errors of the operating system that pass, which the library returns as they are: ENOMEM,
/// ENFILE, EMFILE.
const SHORTAGES: [i64; 3] = [12, 23, 24];

/// The minor codes with a known cause, as offsets in the Kerberos library's table. Codes up to 127
/// are those of RFC 4120.
const KINDS: &[(&[i64], GssErrorKind)] = &[
    // KDC_ERR_NAME_EXP, KDC_ERR_SERVICE_EXP, AP_ERR_TKT_EXPIRED
    (&[1, 2, 32], GssError::TicketExpired),
    // KDC_ERR_NEVER_VALID, AP_ERR_TKT_NYV, AP_ERR_SKEW, KDCREP_SKEW
    (&[11, 33, 37, 148], GssError::ClockSkew),
    // KDC_ERR_C_PRINCIPAL_UNKNOWN, KDC_ERR_S_PRINCIPAL_UNKNOWN, SERVER_NOMATCH, WRONG_REALM,
    // HOST_REALM_UNKNOWN
    (&[6, 7, 26, 68, 217], GssError::UnknownPrincipal),
    // KDC_ERR_ETYPE_NOSUPP, PROG_ETYPE_NOSUPP, WRONG_ETYPE, BAD_ENCTYPE, NOPERM_ETYPE,
    // CONFIG_ETYPE_NOSUPP
    (&[14, 150, 152, 188, 236, 237], GssError::EnctypeRefused),
    // AP_ERR_BAD_INTEGRITY, NOT_US, BADMATCH, BADKEYVER, NOKEY, WRONG_PRINC, KT_NOTFOUND,
    // KT_KVNONOTFOUND
    (&[31, 35, 36, 44, 45, 144, 181, 230], GssError::WrongKey),
    // AP_ERR_BADVERSION, AP_ERR_MSG_TYPE, AP_ERR_MODIFIED, INAPP_CKSUM, BADMSGTYPE
    (&[39, 40, 41, 50, 138], GssError::MalformedToken),
    // CC_NOTFOUND, CC_END, NO_TKT_SUPPLIED, NO_TKT_IN_RLM, FCC_PERM, FCC_NOFILE, CC_FORMAT,
    // NOCREDS_SUPPLIED
    (&[141, 142, 143, 185, 194, 195, 199, 203], GssError::NoTicket),
    // REALM_UNKNOWN, KDC_UNREACH, REALM_CANT_RESOLVE
    (&[154, 156, 220], GssError::KdcUnreachable),
];

fn kind_of_minor(code: u32) -> Option<GssErrorKind> {
    let code = i64::from(code.cast_signed());
    if (ASN1_BASE..ASN1_BASE + ASN1_CODES).contains(&code) {
        return Some(GssError::MalformedToken);
    }
    if SHORTAGES.contains(&code) {
        return Some(GssError::Shortage);
    }
    KINDS.iter().find(|(codes, _)| codes.contains(&(code - KRB5_BASE))).map(|(_, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classified(major: u32, minor: i64) -> GssError {
        let minor = u32::from_ne_bytes(i32::try_from(minor).unwrap_or(0).to_ne_bytes());
        GssError::classify(Status { major, minor, text: String::new() })
    }

    #[test]
    fn the_minor_code_wins_over_the_major_one() {
        assert!(matches!(classified(major::FAILURE, KRB5_BASE + 37), GssError::ClockSkew(_)));
        assert!(matches!(classified(major::NO_CRED, KRB5_BASE + 156), GssError::KdcUnreachable(_)));
        assert!(matches!(classified(major::NO_CRED, 0), GssError::NoTicket(_)));
        assert!(matches!(classified(major::FAILURE, ASN1_BASE + 3), GssError::MalformedToken(_)));
        assert!(matches!(classified(major::FAILURE, 24), GssError::Shortage(_)));
        assert!(matches!(classified(major::FAILURE, 5), GssError::Other(_)));
    }

    #[test]
    fn a_calling_error_is_a_malformed_token() {
        // RFC 2744 section 3.9.1: calling errors are in the top eight bits.
        assert!(matches!(classified(1 << 24, 0), GssError::MalformedToken(_)));
    }

    #[test]
    fn each_message_names_a_cure() {
        for code in [6, 14, 31, 32, 37, 141, 156] {
            let text = classified(major::FAILURE, KRB5_BASE + code).to_string();
            assert!(text.contains(';'), "{text}");
        }
    }
}
