//! The reasons why a principal acts as `nobody`.

/// The reason why a principal has no account. The display is a log line with its remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAccount {
    /// The text is no principal.
    #[error("it is no principal")]
    Malformed,
    /// The principal belongs to a machine or a service.
    #[error("machines have no account unless [principals] names one")]
    Machine,
    /// The realm is missing, or users of this realm are not local users.
    #[error("users of realm {0:?} are no local users; `realms` lists the realms that are")]
    Realm(String),
    /// No rule applies to the principal.
    #[error("no rule of [identity] rules applies to it")]
    Rule,
    /// The name is too long for an account, or has characters that no account has.
    #[error("no account can have such a name")]
    Name,
    /// The account is that of uid 0, which only `[principals]` gives.
    #[error("its account is uid 0, which only [principals] gives")]
    Superuser,
    /// No source has the account.
    #[error("there is no account {0:?}")]
    Unknown(String),
    /// A source has an entry of the user that is no account, for a reason of its own.
    #[error("the account {0:?} cannot be used: {1}")]
    Unusable(String, String),
    /// No source has an account of this uid.
    #[error("there is no account of uid {0}")]
    UnknownUid(u32),
}
