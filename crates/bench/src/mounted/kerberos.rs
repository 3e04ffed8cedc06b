//! The encryption type of the ticket that a mount uses: from `klist -e`, which asks no server.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use crate::tools::{KLIST, run};

/// Where rpc.gssd keeps the tickets of the machine: of root, and of mounts themselves.
const MACHINE_CACHES: &str = "/tmp";
const MACHINE_PREFIX: &str = "krb5ccmachine_";

/// Returns the encryption type of the session key of the ticket for `nfs@host`: from the user's
/// cache, then from the caches of rpc.gssd. `None` without such a ticket, or without klist.
pub(super) fn enctype(host: &str) -> Option<String> {
    let own = std::iter::once(None);
    own.chain(machine_caches().into_iter().map(Some)).find_map(|cache| {
        let mut command = KLIST.command().ok()?;
        command.arg("-e");
        if let Some(cache) = cache {
            command.arg("-c").arg(cache);
        }
        let said = run(&mut command, &AtomicBool::new(false)).ok()??;
        session_enctype(&said.stdout, host)
    })
}

fn machine_caches() -> Vec<PathBuf> {
    let Ok(folder) = std::fs::read_dir(MACHINE_CACHES) else { return Vec::new() };
    let files = folder.flatten().map(|entry| entry.path());
    let ours = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(MACHINE_PREFIX))
    };
    files.filter(ours).collect()
}

/// Finds the first type after the line of the ticket for `nfs/HOST@…`.
fn session_enctype(listing: &str, host: &str) -> Option<String> {
    let service = format!("nfs/{}@", host.to_lowercase());
    let mut lines = listing.lines().skip_while(|line| !line.to_lowercase().contains(&service));
    lines.next()?;
    let types = lines.take_while(|line| line.starts_with(['\t', ' ']));
    let types = types.filter_map(|line| line.split_once("Etype (skey, tkt): ")).map(|(_, types)| types);
    types.filter_map(|types| types.split(',').next()).map(|first| first.trim().to_owned()).next()
}

#[cfg(test)]
mod tests {
    use super::session_enctype;

    const LISTING: &str = "Ticket cache: FILE:/tmp/krb5cc_5001
Default principal: alice@EXAMPLE.ORG

Valid starting     Expires            Service principal
11/22/26 03:00:00  11/22/26 13:00:00  krbtgt/EXAMPLE.ORG@EXAMPLE.ORG
	Etype (skey, tkt): aes128-cts-hmac-sha1-96, aes256-cts-hmac-sha1-96 
11/22/26 03:00:01  11/22/26 13:00:00  nfs/server.example.org@EXAMPLE.ORG
	renew until 11/23/26 03:00:00, Etype (skey, tkt): aes256-cts-hmac-sha384-192, aes256-cts-hmac-sha1-96 
11/22/26 03:00:02  11/22/26 13:00:00  host/other@EXAMPLE.ORG
	Etype (skey, tkt): aes256-cts-hmac-sha1-96, aes256-cts-hmac-sha1-96 
";

    #[test]
    fn it_is_the_session_key_of_the_ticket_for_the_server() {
        let found = session_enctype(LISTING, "Server.example.org");
        assert_eq!(found.as_deref(), Some("aes256-cts-hmac-sha384-192"));
        assert_eq!(session_enctype(LISTING, "other"), None, "a ticket for another service says nothing");
        assert_eq!(session_enctype("klist: No credentials cache found", "server"), None);
    }
}
