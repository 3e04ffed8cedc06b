//! Creates, opens and removes a realm's folder.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::removal::remove_file;
use crate::tools::{KADMIN, KDB5_UTIL, KDC, KINIT};
use crate::{MARKER, RealmError, RealmOptions, directory, kdc, principals, replicas};

/// All files that a realm creates in its folder, the marker last.
const FILES: [&str; 19] = [
    "krb5.conf",
    "kdc.conf",
    "kadm5.acl",
    "env",
    "server.keytab",
    "client.keytab",
    "users.keytab",
    "grants.keytab",
    principals::PASSWORDS,
    "principal",
    "principal.kadm5",
    "principal.kadm5.lock",
    "principal.ok",
    "stash",
    "kdc.log",
    "krb5.log",
    "ccache",
    kdc::PID_FILE,
    MARKER,
];

/// A realm in a folder, with a KDC that runs as a separate process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Realm {
    dir: PathBuf,
    name: String,
    kdc: SocketAddr,
    replicas: Vec<SocketAddr>,
}

/// The result of [`Realm::down`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// Whether a KDC was running.
    pub kdc_ran: bool,
    /// Foreign files, which were kept together with the folder.
    pub left: Vec<PathBuf>,
}

impl Realm {
    /// Creates a realm in a new or empty folder, makes the folder private, and starts the KDC.
    ///
    /// # Errors
    /// `NotPrivate` if another user could read or replace the folder. `Missing` names the package
    /// to install. A failure leaves nothing behind.
    pub fn create(dir: &Path, options: &RealmOptions) -> Result<Self, RealmError> {
        options.check()?;
        for tool in [KDC, KDB5_UTIL, KADMIN, KINIT] {
            tool.find()?;
        }
        if options.has_directory() {
            directory::check()?;
        }
        let made = claim(dir)?;
        let dir = dir.canonicalize().map_err(RealmError::io(dir))?;
        let created = fill(&dir, options);
        if created.is_err() {
            // The original error is more useful than a failure of this cleanup.
            let _ = kdc::stop(&dir);
            let _ = replicas::stop(&dir);
            let _ = directory::stop(&dir);
            let _ = remove_files(&dir);
            if made {
                let _ = fs::remove_dir(&dir);
            }
        }
        created
    }

    /// Opens an existing realm, with or without a running KDC.
    ///
    /// # Errors
    /// `NotARealm` for any other folder, `NotPrivate` if another user could change it.
    pub fn open(dir: &Path) -> Result<Self, RealmError> {
        let not_a_realm = || RealmError::NotARealm(dir.to_owned());
        let marker = fs::read_to_string(dir.join(MARKER)).map_err(|_| not_a_realm())?;
        let field = |key: &str| marker.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let (Some(name), Some(Ok(kdc))) = (field("realm "), field("kdc ").map(str::parse)) else {
            return Err(not_a_realm());
        };
        // MIT's library executes plugins that a configuration names.
        private::check(dir)?;
        let replicas = marker.lines().filter_map(|line| line.strip_prefix("replica ")?.trim().parse().ok());
        let dir = dir.canonicalize().map_err(RealmError::io(dir))?;
        Ok(Self { dir, name: name.to_owned(), kdc, replicas: replicas.collect() })
    }

    /// Stops the KDCs and removes the realm's files, and the folder if it is then empty.
    ///
    /// # Errors
    /// `NotARealm` for a folder without the marker, which stays unchanged.
    pub fn down(dir: &Path) -> Result<Removed, RealmError> {
        if !dir.join(MARKER).is_file() {
            return Err(RealmError::NotARealm(dir.to_owned()));
        }
        private::check(dir)?;
        let dir = dir.canonicalize().map_err(RealmError::io(dir))?;
        let kdc_ran = kdc::stop(&dir)?;
        replicas::stop(&dir)?;
        directory::stop(&dir)?;
        remove_files(&dir)?;
        let left: Vec<PathBuf> = fs::read_dir(&dir)
            .map_err(RealmError::io(&dir))?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .collect();
        if left.is_empty() {
            fs::remove_dir(&dir).map_err(RealmError::io(&dir))?;
        }
        Ok(Removed { kdc_ran, left })
    }

    /// Returns the folder, as an absolute path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the realm's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the TCP address of the first KDC.
    pub fn kdc(&self) -> SocketAddr {
        self.kdc
    }

    /// Returns the TCP addresses of the further KDCs.
    pub fn replicas(&self) -> &[SocketAddr] {
        &self.replicas
    }

    /// Waits until all changes of the principals have reached the replicas.
    ///
    /// # Errors
    /// `Io` for a replica that does not follow within 20 seconds, `Tool` if the first directory
    /// does not run.
    pub fn wait_for_replicas(&self) -> Result<(), RealmError> {
        replicas::homes(&self.dir).try_for_each(|home| replicas::wait_for(&self.dir, &home))
    }

    /// Ends a KDC and its directory by SIGKILL, as a crash of their machine does: the first for 0,
    /// replicas from 1. Returns whether the KDC was running.
    ///
    /// # Errors
    /// `Io` if a process cannot be signalled.
    pub fn kill_kdc(&self, number: usize) -> Result<bool, RealmError> {
        let home = self.home(number);
        directory::daemon(&home).kill()?;
        kdc::daemon(&home).kill()
    }

    fn home(&self, number: usize) -> PathBuf {
        if number == 0 { self.dir.clone() } else { replicas::home(&self.dir, number) }
    }

    /// Returns whether the first KDC runs.
    pub fn is_running(&self) -> bool {
        kdc::running(&self.dir).is_ok_and(|process| process.is_some())
    }

    /// Stops the first KDC and keeps the files, for tests of an unreachable KDC.
    ///
    /// # Errors
    /// `Io` if the process cannot be signalled.
    pub fn stop_kdc(&self) -> Result<(), RealmError> {
        kdc::stop(&self.dir).map(|_| ())
    }

    /// Returns the file of the users' passwords, one `NAME PASSWORD` per line.
    pub fn passwords(&self) -> PathBuf {
        self.dir.join(principals::PASSWORDS)
    }

    /// Returns the path of krb5.conf.
    pub fn krb5_conf(&self) -> PathBuf {
        self.dir.join("krb5.conf")
    }

    /// Returns the keytab of the server, with `nfs/HOST` for each of its names.
    pub fn server_keytab(&self) -> PathBuf {
        self.dir.join("server.keytab")
    }

    /// Returns the keytab of the client machines, with `host/NAME` and `nfs/NAME`.
    pub fn client_keytab(&self) -> PathBuf {
        self.dir.join("client.keytab")
    }

    /// Returns the keytab of all users.
    pub fn users_keytab(&self) -> PathBuf {
        self.dir.join("users.keytab")
    }

    /// Returns the keytab of the service `grants`, which a realm with delegation has.
    pub fn grants_keytab(&self) -> PathBuf {
        self.dir.join("grants.keytab")
    }

    /// Returns the environment variables that select this realm.
    pub fn env(&self) -> Vec<(&'static str, PathBuf)> {
        vec![("KRB5_CONFIG", self.krb5_conf()), ("KRB5_KDC_PROFILE", self.dir.join("kdc.conf"))]
    }

    /// Returns a command that uses this realm.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.envs(self.env());
        command
    }

    /// Gets a ticket for a user into a cache file, with the users' keytab.
    ///
    /// # Errors
    /// `KerberosTool` with the output of kinit.
    pub fn kinit(&self, user: &str, ccache: &Path) -> Result<(), RealmError> {
        self.kinit_with(user, ccache, &self.users_keytab(), &[])
    }

    /// Gets a ticket like [`Realm::kinit`], with another keytab and further arguments such as `-l
    /// 2s`.
    ///
    /// # Errors
    /// `KerberosTool` with the output of kinit.
    pub fn kinit_with(
        &self,
        principal: &str,
        ccache: &Path,
        keytab: &Path,
        more: &[&str],
    ) -> Result<(), RealmError> {
        let mut command = KINIT.command(&self.dir)?;
        command.arg("-k").arg("-t").arg(keytab).arg("-c").arg(ccache).args(more).arg(principal);
        let output = command.output().map_err(RealmError::io(Path::new(KINIT.name)))?;
        if output.status.success() {
            return Ok(());
        }
        Err(KINIT.failed(&String::from_utf8_lossy(&output.stderr)))
    }

    /// Runs queries of kadmin.local, one per line.
    ///
    /// # Errors
    /// `KerberosTool` with the output if a query failed.
    pub fn kadmin(&self, queries: &str) -> Result<String, RealmError> {
        let said = KADMIN.run_with_input(&self.dir, ["-r", &self.name], queries)?;
        if said.lines().any(|line| line.contains(" while ")) { Err(KADMIN.failed(&said)) } else { Ok(said) }
    }

    /// Returns instructions for the user, with a mount of `port` on this machine.
    pub fn instructions(&self, port: u16) -> String {
        let dir = terminal::shell_word(&self.dir.to_string_lossy());
        let further: String = self.replicas.iter().map(|kdc| format!(", {kdc}")).collect();
        let kdcs = match self.replicas.len() {
            0 => format!("its KDC on {}", self.kdc),
            count => format!("its {} KDCs on {}{further}", count + 1, self.kdc),
        };
        format!(
            "realm {name} runs in {dir}, {kdcs}; users alice and bob
Their random passwords are in {dir}/{passwords}, which only you can read.

  . {dir}/env                      see this realm in this shell
  kinit -k -t {dir}/users.keytab alice
  orthrus serve --keytab {dir}/server.keytab /srv/data

A Linux client of this machine, as root, in a shell in which /etc/krb5.conf and /etc/krb5.keytab are the realm's:
  orthrus realm shell {dir}
  mount -t nfs4 -o vers=4.2,sec=krb5p,port={port} localhost:/ /mnt

  orthrus realm down {dir}         end it and remove it
",
            name = self.name,
            kdcs = kdcs,
            passwords = principals::PASSWORDS,
        )
    }
}

/// Creates the folder, or accepts an empty one; returns whether it was created.
fn claim(dir: &Path) -> Result<bool, RealmError> {
    if dir.join(MARKER).exists() {
        return Err(RealmError::Exists(dir.to_owned()));
    }
    // The permissions of a folder with other files stay unchanged.
    let is_empty = |dir: &Path| fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none());
    if dir.exists() && !is_empty(dir) {
        return Err(RealmError::Foreign(dir.to_owned()));
    }
    let made = private::claim(dir)?;
    // From here on no other user can add files.
    if is_empty(dir) { Ok(made) } else { Err(RealmError::Foreign(dir.to_owned())) }
}

fn fill(dir: &Path, options: &RealmOptions) -> Result<Realm, RealmError> {
    let text = dir.display().to_string();
    if text.contains(['\n', '"']) {
        let rule = "MIT's configuration cannot write a path with a quote or a line break";
        return Err(RealmError::Option { what: "folder", value: text, rule });
    }
    let marker = dir.join(MARKER);
    // Written first, so that an interrupted creation can be removed.
    fs::write(&marker, "").map_err(RealmError::io(&marker))?;
    // The principals do not depend on the port, so any port works until the KDC has one.
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 88));
    crate::configuration::write(dir, options, anywhere)?;
    principals::create(dir, options)?;
    let kdc = kdc::start(dir, dir, options, options.listen)?;
    let replicas = replicas::start(dir, options)?;
    crate::configuration::write_clients(dir, options, &[&[kdc], &replicas[..]].concat())?;
    let mut fields =
        format!("A throw-away realm; `orthrus realm down` removes it.\nrealm {}\nkdc {kdc}\n", options.realm);
    replicas.iter().for_each(|replica| fields.push_str(&format!("replica {replica}\n")));
    fs::write(&marker, fields).map_err(RealmError::io(&marker))?;
    Ok(Realm { dir: dir.to_owned(), name: options.realm.clone(), kdc, replicas })
}

fn remove_files(dir: &Path) -> Result<(), RealmError> {
    replicas::remove_files(dir)?;
    directory::remove_files(dir)?;
    // The marker is the last file of all.
    FILES.iter().try_for_each(|name| remove_file(&dir.join(name)))
}
