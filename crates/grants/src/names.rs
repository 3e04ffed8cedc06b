//! Names in requests, checked before anything uses them: they become arguments of programs, parts
//! of file names and lines of logs.

/// Longest name in bytes: a principal, a job, a node or a service.
pub const NAME_MAX: usize = 256;

/// The reason why a name is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {name:?} is not allowed: {rule}")]
pub struct NameError {
    kind: &'static str,
    name: String,
    rule: &'static str,
}

fn check(kind: &'static str, name: &str, more: &str, rule: &'static str) -> Result<(), NameError> {
    let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let allowed = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
    if starts && name.len() <= NAME_MAX && name.chars().all(allowed) {
        return Ok(());
    }
    let name = name.chars().take(NAME_MAX).collect();
    Err(NameError { kind, name, rule })
}

/// Checks the name of a job or of a run, as schedulers write them: `123_4`, `123[4].server`.
///
/// # Errors
/// The rule that the name breaks.
pub fn check_job(name: &str) -> Result<(), NameError> {
    check("job", name, "._-[]:+", "letters, digits and ._-[]:+, a letter or digit first, 256 at most")
}

/// Checks the name of a node.
///
/// # Errors
/// The rule that the name breaks.
pub fn check_node(name: &str) -> Result<(), NameError> {
    check("node", name, ".-_", "letters, digits and ._-, a letter or digit first, 256 at most")
}

/// Checks a service such as `nfs/server.example.org`, without realm. Only `nfs` is allowed.
///
/// # Errors
/// The rule that the name breaks.
pub fn check_service(name: &str) -> Result<(), NameError> {
    let rule = "write nfs/HOST";
    let error = || NameError { kind: "service", name: name.chars().take(NAME_MAX).collect(), rule };
    let host = name.strip_prefix("nfs/").ok_or_else(error)?;
    check("service", host, ".-_", rule).map_err(|_| error())
}

/// Checks the principal of a user: one component and a realm. Names that need escapes are refused.
///
/// # Errors
/// The rule that the name breaks.
pub fn check_user(principal: &str) -> Result<(), NameError> {
    let rule = "write USER@REALM; only users have grants, not hosts or services";
    let error = || NameError { kind: "principal", name: principal.chars().take(NAME_MAX).collect(), rule };
    let (user, realm) = principal.split_once('@').ok_or_else(error)?;
    check("principal", user, "._-", rule).map_err(|_| error())?;
    check("principal", realm, ".-_", rule).map_err(|_| error())
}

/// Returns the node of a host's principal in `realm`: `host/NODE@REALM`.
pub(crate) fn node_of<'a>(principal: &'a str, realm: &str) -> Option<&'a str> {
    let node = principal.strip_prefix("host/")?.strip_suffix(realm)?.strip_suffix('@')?;
    check_node(node).is_ok().then_some(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_programs_could_misread_are_refused() {
        for name in ["", "-k", "a b", "a\nb", "../a", "a/b", "a\0", "é", &"a".repeat(NAME_MAX + 1)] {
            assert!(check_job(name).is_err() && check_node(name).is_err(), "{name:?}");
            assert!(check_service(&format!("nfs/{name}")).is_err(), "{name:?}");
            assert!(check_user(&format!("{name}@R")).is_err(), "{name:?}");
        }
        for name in ["1", "123_4", "123[4].server", "7+1"] {
            assert_eq!(check_job(name), Ok(()));
        }
        assert!(check_service("nfs/server.example.org").is_ok());
        for name in ["host/server", "nfs/", "nfs/a@R", "krbtgt/R", "nfs/a/b"] {
            assert!(check_service(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn only_users_and_hosts_of_the_realm_are_recognised() {
        assert!(check_user("alice@R.TEST").is_ok());
        for name in ["alice", "host/a@R", "alice@", "@R", "a\\@b@R", "alice@R@S"] {
            assert!(check_user(name).is_err(), "{name:?}");
        }
        assert_eq!(node_of("host/n1.example@R", "R"), Some("n1.example"));
        for name in ["host/n1@S", "nfs/n1@R", "alice@R", "host/@R", "host/a/b@R", "host/n1@XR"] {
            assert_eq!(node_of(name, "R"), None, "{name}");
        }
    }
}
