//! `orthrus realm`: a throw-away Kerberos realm in a folder.

use super::realm_shell::RealmShell;
use crate::output::{out, outln};
use realm::{Enctypes, REPLICAS_MAX, Realm, RealmOptions};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Create or remove a throw-away Kerberos realm in a folder, without root.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    Up(Up),
    Shell(RealmShell),
    Down(Down),
}

/// Create a realm in DIR and start its KDC: users alice and bob, keytabs, krb5.conf.
///
/// Only you can enter DIR. To get a ticket: `. DIR/env && kinit -k -t DIR/users.keytab alice`, or
/// `kinit alice` with the random password in DIR/passwords.
#[derive(clap::Args)]
pub(super) struct Up {
    /// A new folder, or an empty one of your own that others may not write to.
    dir: PathBuf,
    /// Name of the realm, in capitals.
    #[arg(long, default_value = "ORTHRUS.TEST")]
    realm: String,
    /// Address and port of the KDC [default: a free port of 127.0.0.1].
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Encryption types of the keys: sha1 (18 and 17), sha2 (20 and 19), all, or some of 17 to 20
    /// with commas.
    #[arg(long, default_value = "sha1")]
    enctypes: Enctypes,
    /// Add a user to alice and bob; may be repeated.
    #[arg(long = "user", value_name = "NAME")]
    users: Vec<String>,
    /// Add a host name of the server to localhost and this machine's name; may be repeated.
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Name of a client machine; may be repeated [default: this machine's name].
    #[arg(long = "client", value_name = "NAME")]
    clients: Vec<String>,
    /// Lifetime of tickets in minutes.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=10_080))]
    ticket_minutes: u64,
    /// Add a service grants/HOST with constrained delegation to nfs/HOST, for `orthrus grants`; its
    /// keys are in DIR/grants.keytab. Needs the packages krb5-kdc-ldap, slapd and ldap-utils.
    #[arg(long)]
    delegation: bool,
    /// Start this many further KDCs (up to 8), each with a replica of the principals that follows
    /// all changes. Needs the packages krb5-kdc-ldap, slapd and ldap-utils.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = replicas)]
    replicas: usize,
}

/// Parses the number of further KDCs.
fn replicas(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number <= REPLICAS_MAX);
    number.ok_or_else(|| format!("must be a number from 0 to {REPLICAS_MAX}"))
}

/// Stop the KDC of the realm in DIR and remove the files that `realm up` created.
///
/// Removes DIR as well if nothing else is left in it.
#[derive(clap::Args)]
pub(super) struct Down {
    /// Folder of the realm.
    dir: PathBuf,
}

impl Command {
    /// Creates or removes the realm, or runs a shell in it.
    ///
    /// # Errors
    /// Names a missing package or a folder of another user, or gives the output of MIT's programs.
    pub(super) fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Up(up) => up.run(),
            Self::Shell(shell) => shell.run(),
            Self::Down(down) => down.run(),
        }
    }
}

impl Up {
    fn run(self) -> anyhow::Result<()> {
        let start = Instant::now();
        let options = RealmOptions {
            realm: self.realm,
            listen: self.listen,
            enctypes: self.enctypes,
            users: self.users,
            hosts: self.hosts,
            clients: self.clients,
            ticket_life: Duration::from_secs(self.ticket_minutes * 60),
            delegation: self.delegation,
            replicas: self.replicas,
            ..RealmOptions::default()
        };
        let realm = Realm::create(&self.dir, &options)?;
        tracing::info!("realm made in {:.2} s", start.elapsed().as_secs_f64());
        out!("{}", realm.instructions(crate::config::NFS_PORT));
        Ok(())
    }
}

impl Down {
    fn run(self) -> anyhow::Result<()> {
        let removed = Realm::down(&self.dir)?;
        for path in &removed.left {
            outln!("left {}: it is not the realm's", path.display());
        }
        let kdc = if removed.kdc_ran { "its KDC ended" } else { "its KDC did not run" };
        outln!("realm in {} removed, {kdc}", self.dir.display());
        Ok(())
    }
}
