//! Names and meanings of status codes: the routine errors of the GSS-API and the minor codes of
//! MIT's Kerberos.
//!
//! A minor code is opaque in RFC 2744, but all implementations in use with NFS send MIT's numbers:
//! Heimdal shares its error tables, and so does `gssproxy`.

use std::fmt;

/// The base of MIT's table of Kerberos errors, as an unsigned number. Codes up to 127 above it are
/// those of RFC 4120 section 7.5.9.
const KRB5_BASE: u32 = 0x96c7_3a00;
/// The base of the table of the ASN.1 decoder.
const ASN1_BASE: u32 = 0x6eda_3600;
/// The base of the table of the Kerberos mechanism's own errors.
const MECHANISM_BASE: u32 = 0x025e_a100;
/// Codes in one table (`com_err`).
const TABLE_CODES: u32 = 256;

/// A minor code with its name and a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinorCode {
    /// The number, as `gss_minor` has it.
    pub code: u32,
    /// MIT's name for it.
    pub name: &'static str,
    /// The cause in one clause, without a full stop.
    pub sentence: &'static str,
}

/// Offsets in the table of Kerberos errors.
const KERBEROS: &[(u32, &str, &str)] = &[
    (1, "KRB5KDC_ERR_NAME_EXP", "the account of the client has expired in the KDC"),
    (2, "KRB5KDC_ERR_SERVICE_EXP", "the principal of the service has expired in the KDC"),
    (6, "KRB5KDC_ERR_C_PRINCIPAL_UNKNOWN", "the KDC does not know the client's principal"),
    (7, "KRB5KDC_ERR_S_PRINCIPAL_UNKNOWN", "the KDC does not know the server's principal"),
    (9, "KRB5KDC_ERR_NULL_KEY", "the principal has no key in the KDC"),
    (11, "KRB5KDC_ERR_NEVER_VALID", "the ticket would never be valid; the clocks disagree"),
    (12, "KRB5KDC_ERR_POLICY", "a policy of the KDC refuses the request"),
    (14, "KRB5KDC_ERR_ETYPE_NOSUPP", "the KDC has no key of an encryption type that was asked for"),
    (18, "KRB5KDC_ERR_CLIENT_REVOKED", "the account of the client is locked in the KDC"),
    (19, "KRB5KDC_ERR_SERVICE_REVOKED", "the principal of the service is locked in the KDC"),
    (20, "KRB5KDC_ERR_TGT_REVOKED", "the ticket-granting ticket has been revoked"),
    (23, "KRB5KDC_ERR_KEY_EXP", "the password or key has expired in the KDC"),
    (24, "KRB5KDC_ERR_PREAUTH_FAILED", "the key or password is not the one that the KDC has"),
    (25, "KRB5KDC_ERR_PREAUTH_REQUIRED", "the KDC asks for pre-authentication"),
    (26, "KRB5KDC_ERR_SERVER_NOMATCH", "the ticket is for another service"),
    (29, "KRB5KDC_ERR_SVC_UNAVAILABLE", "a service that the KDC needs is not available"),
    (31, "KRB5KRB_AP_ERR_BAD_INTEGRITY", "the ticket was made with another key than that of the keytab"),
    (32, "KRB5KRB_AP_ERR_TKT_EXPIRED", "the ticket has expired"),
    (33, "KRB5KRB_AP_ERR_TKT_NYV", "the ticket is not yet valid; the clocks disagree"),
    (34, "KRB5KRB_AP_ERR_REPEAT", "the request is a replay"),
    (35, "KRB5KRB_AP_ERR_NOT_US", "the ticket is for another server"),
    (36, "KRB5KRB_AP_ERR_BADMATCH", "ticket and authenticator name different clients"),
    (37, "KRB5KRB_AP_ERR_SKEW", "the clocks differ by more than the realm allows"),
    (38, "KRB5KRB_AP_ERR_BADADDR", "the ticket is for another network address"),
    (39, "KRB5KRB_AP_ERR_BADVERSION", "the message is of another version of Kerberos"),
    (40, "KRB5KRB_AP_ERR_MSG_TYPE", "the message is of the wrong type"),
    (41, "KRB5KRB_AP_ERR_MODIFIED", "the message was changed on its way, or made with another key"),
    (42, "KRB5KRB_AP_ERR_BADORDER", "the message is out of order"),
    (44, "KRB5KRB_AP_ERR_BADKEYVER", "the keytab lacks the key version (kvno) of the ticket"),
    (45, "KRB5KRB_AP_ERR_NOKEY", "the server has no key of its service"),
    (46, "KRB5KRB_AP_ERR_MUT_FAIL", "the server could not prove its identity"),
    (50, "KRB5KRB_AP_ERR_INAPP_CKSUM", "the checksum is of a type that the server refuses"),
    (52, "KRB5KRB_ERR_RESPONSE_TOO_BIG", "the answer is too long for UDP; TCP is needed"),
    (60, "KRB5KRB_ERR_GENERIC", "the peer reports an error without a code; its log says more"),
    (68, "KRB5KDC_ERR_WRONG_REALM", "the principal belongs to another realm"),
    (133, "KRB5_PARSE_ILLCHAR", "a principal contains a character that it must not contain"),
    (134, "KRB5_PARSE_MALFORMED", "a principal is malformed"),
    (135, "KRB5_CONFIG_CANTOPEN", "krb5.conf cannot be read"),
    (136, "KRB5_CONFIG_BADFORMAT", "krb5.conf is malformed"),
    (138, "KRB5_BADMSGTYPE", "the message is of an unknown type"),
    (141, "KRB5_CC_NOTFOUND", "the credential cache has no such ticket"),
    (142, "KRB5_CC_END", "the credential cache has no further ticket"),
    (143, "KRB5_NO_TKT_SUPPLIED", "the request contains no ticket"),
    (144, "KRB5KRB_AP_WRONG_PRINC", "the keytab has no key of the principal that the ticket is for"),
    (145, "KRB5KRB_AP_ERR_TKT_INVALID", "the ticket is marked invalid"),
    (146, "KRB5_PRINC_NOMATCH", "the principal is not the requested one"),
    (147, "KRB5_KDCREP_MODIFIED", "the KDC's answer does not match the request"),
    (148, "KRB5_KDCREP_SKEW", "the clocks of this machine and of the KDC differ too much"),
    (149, "KRB5_IN_TKT_REALM_MISMATCH", "client and server of the ticket are in different realms"),
    (150, "KRB5_PROG_ETYPE_NOSUPP", "this Kerberos library does not support the encryption type"),
    (152, "KRB5_WRONG_ETYPE", "the keytab has no key of the encryption type of the ticket"),
    (154, "KRB5_REALM_UNKNOWN", "krb5.conf names no KDC of the realm"),
    (155, "KRB5_SERVICE_UNKNOWN", "the service is not known"),
    (156, "KRB5_KDC_UNREACH", "no KDC of the realm answers"),
    (157, "KRB5_NO_LOCALNAME", "no local user belongs to the principal"),
    (158, "KRB5_MUTUAL_FAILED", "the server could not prove its identity"),
    (163, "KRB5_RC_REPLAY", "the request is a replay"),
    (181, "KRB5_KT_NOTFOUND", "the keytab has no key of this principal"),
    (184, "KRB5_KT_IOERR", "the keytab cannot be read"),
    (185, "KRB5_NO_TKT_IN_RLM", "there is no ticket for this realm"),
    (188, "KRB5_BAD_ENCTYPE", "the encryption type is not supported"),
    (193, "KRB5_CC_IO", "the credential cache cannot be read"),
    (194, "KRB5_FCC_PERM", "the credential cache belongs to another user"),
    (195, "KRB5_FCC_NOFILE", "there is no credential cache"),
    (199, "KRB5_CC_FORMAT", "the credential cache is damaged"),
    (203, "KRB5_NOCREDS_SUPPLIED", "there is no ticket"),
    (209, "KRB5_PREAUTH_NO_KEY", "there is no key for pre-authentication"),
    (210, "KRB5_PREAUTH_FAILED", "pre-authentication failed"),
    (213, "KRB5_KEYTAB_BADVNO", "the keytab has a format that is not supported"),
    (216, "KRB5_ERR_BAD_HOSTNAME", "the host name cannot be resolved"),
    (217, "KRB5_ERR_HOST_REALM_UNKNOWN", "krb5.conf maps the host to no realm"),
    (220, "KRB5_REALM_CANT_RESOLVE", "the KDC's name cannot be resolved"),
    (224, "KRB5_CONFIG_NODEFREALM", "krb5.conf has no default_realm"),
    (230, "KRB5_KT_KVNONOTFOUND", "the keytab lacks the key version (kvno) of the ticket"),
    (232, "KRB5_LIB_EXPIRED", "the password has expired"),
    (235, "KRB5_KT_FORMAT", "the keytab is damaged"),
    (236, "KRB5_NOPERM_ETYPE", "permitted_enctypes in krb5.conf forbids the encryption type"),
    (237, "KRB5_CONFIG_ETYPE_NOSUPP", "krb5.conf names no supported encryption type"),
];

/// Offsets in the table of the mechanism.
const MECHANISM: &[(u32, &str, &str)] = &[
    (0, "KG_CCACHE_NOMATCH", "the credential cache belongs to another principal"),
    (1, "KG_KEYTAB_NOMATCH", "the keytab has no key of the requested service"),
    (2, "KG_TGT_MISSING", "the credential cache has no ticket-granting ticket"),
    (3, "KG_NO_SUBKEY", "the authenticator contains no subkey"),
    (4, "KG_CONTEXT_ESTABLISHED", "the context is already established"),
    (7, "KG_CTX_INCOMPLETE", "the context is not yet complete"),
    (8, "KG_CONTEXT", "the context is not valid"),
    (12, "KG_EMPTY_CCACHE", "the credential cache is empty"),
];

/// Routine errors of RFC 2744 section 3.9.1, by number.
const ROUTINE: [&str; 18] = [
    "GSS_S_BAD_MECH",
    "GSS_S_BAD_NAME",
    "GSS_S_BAD_NAMETYPE",
    "GSS_S_BAD_BINDINGS",
    "GSS_S_BAD_STATUS",
    "GSS_S_BAD_SIG",
    "GSS_S_NO_CRED",
    "GSS_S_NO_CONTEXT",
    "GSS_S_DEFECTIVE_TOKEN",
    "GSS_S_DEFECTIVE_CREDENTIAL",
    "GSS_S_CREDENTIALS_EXPIRED",
    "GSS_S_CONTEXT_EXPIRED",
    "GSS_S_FAILURE",
    "GSS_S_BAD_QOP",
    "GSS_S_UNAUTHORIZED",
    "GSS_S_UNAVAILABLE",
    "GSS_S_DUPLICATE_ELEMENT",
    "GSS_S_NAME_NOT_MN",
];

/// Returns the name and the meaning of a minor code; `None` if it is in no table.
pub fn minor_code(code: u32) -> Option<MinorCode> {
    let row = |base: u32, table: &[(u32, &'static str, &'static str)]| {
        let offset = code.checked_sub(base)?;
        let (_, name, sentence) = table.iter().find(|(at, ..)| *at == offset)?;
        Some(MinorCode { code, name, sentence })
    };
    let asn1 = (ASN1_BASE..ASN1_BASE + TABLE_CODES).contains(&code);
    let malformed =
        MinorCode { code, name: "ASN1", sentence: "the message is not Kerberos, or was cut short" };
    row(KRB5_BASE, KERBEROS).or_else(|| row(MECHANISM_BASE, MECHANISM)).or(asn1.then_some(malformed))
}

/// Both codes of a refusal in words, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codes {
    /// The major status of RFC 2744.
    pub major: u32,
    /// The minor status, which the mechanism defines.
    pub minor: u32,
}

impl fmt::Display for Codes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(MinorCode { name, sentence, code }) = minor_code(self.minor) {
            return write!(out, "{sentence} ({name}, minor {code:#x})");
        }
        let routine = (self.major >> 16 & 0xff).checked_sub(1).and_then(|at| ROUTINE.get(at as usize));
        match routine {
            Some(name) => write!(out, "{name} (major {:#x}, minor {:#x})", self.major, self.minor),
            None => write!(out, "major {:#x}, minor {:#x}", self.major, self.minor),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_skew_is_named() {
        // RFC 4120 section 7.5.9: KRB_AP_ERR_SKEW is 37.
        let text = Codes { major: 13 << 16, minor: 0x96c7_3a25 }.to_string();
        assert_eq!(
            text,
            "the clocks differ by more than the realm allows (KRB5KRB_AP_ERR_SKEW, minor 0x96c73a25)"
        );
        assert_eq!(
            Codes { major: 9 << 16, minor: 7 }.to_string(),
            "GSS_S_DEFECTIVE_TOKEN (major 0x90000, minor 0x7)"
        );
        assert_eq!(Codes { major: 0, minor: 0 }.to_string(), "major 0x0, minor 0x0");
        assert_eq!(minor_code(0x6eda_3603).map(|found| found.name), Some("ASN1"));
    }

    #[test]
    fn each_row_stands_once_and_in_order() {
        for table in [KERBEROS, MECHANISM] {
            assert!(table.windows(2).all(|pair| pair[0].0 < pair[1].0));
            assert!(table.iter().all(|(at, name, sentence)| *at < TABLE_CODES
                && name.contains('_')
                && !sentence.ends_with('.')));
        }
    }
}
