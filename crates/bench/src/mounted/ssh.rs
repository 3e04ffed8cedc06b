//! Copies over SSH, by scp or sftp, and the preparation at the other end: by sftp, because a server
//! may permit nothing else.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result, ensure};

use crate::tools::{SCP, SFTP, SSH, run};

/// It never asks, does not wait for a host that is not there, and sees when one has gone.
const OPTIONS: [&str; 4] =
    ["BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=3"];

/// The program that copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyProgram {
    /// The program scp of OpenSSH.
    #[default]
    Scp,
    /// The program sftp of OpenSSH.
    Sftp,
}

impl CopyProgram {
    /// Returns the program's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scp => SCP.name,
            Self::Sftp => SFTP.name,
        }
    }
}

impl std::str::FromStr for CopyProgram {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = [Self::Scp, Self::Sftp].into_iter().find(|program| program.name() == name);
        found.ok_or_else(|| "allowed are scp and sftp".to_owned())
    }
}

/// A folder of a host, as scp names it: `[USER@]HOST:/DIR`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshFolder {
    /// The host as `[USER@]HOST`.
    pub host: String,
    /// The folder at the host.
    pub folder: PathBuf,
}

impl std::str::FromStr for SshFolder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = "it must be [USER@]HOST:/DIR, such as alice@server.example.org:/srv/disk";
        let (host, folder) = text.split_once(":/").ok_or(wanted)?;
        // A leading dash would make it an option.
        let plain = !host.is_empty() && !host.starts_with('-') && !host.contains(char::is_whitespace);
        if !plain || text.chars().any(char::is_control) {
            return Err(wanted.to_owned());
        }
        Ok(Self { host: host.to_owned(), folder: PathBuf::from(format!("/{folder}")) })
    }
}

impl std::fmt::Display for SshFolder {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}:{}", self.host, self.folder.display())
    }
}

/// The way to a host.
#[derive(Clone, Debug)]
pub struct Ssh {
    /// `[USER@]HOST`, as ssh takes it.
    pub host: String,
    /// A configuration in place of the user's own.
    pub config: Option<PathBuf>,
    /// The program that copies.
    pub program: CopyProgram,
}

impl Ssh {
    /// Checks that the programs are installed.
    ///
    /// # Errors
    /// Names the package of one that is not.
    pub fn ensure_installed(&self) -> Result<()> {
        for tool in [SSH, SCP, SFTP] {
            tool.find()?;
        }
        Ok(())
    }

    /// Makes a command that copies `source`, with all that is in it, to `target` there.
    ///
    /// # Errors
    /// A missing program.
    pub fn copy(&self, source: &Path, target: &Path) -> Result<Command> {
        match self.program {
            CopyProgram::Scp => {
                let mut command = SCP.command()?;
                command.arg("-r");
                self.add_options(&mut command);
                command.arg("--").arg(source).arg(format!("{}:{}", self.host, target.display()));
                Ok(command)
            }
            CopyProgram::Sftp => self.batch(&[format!("put -r {} {}", quoted(source), quoted(target))]),
        }
    }

    /// Makes a command of sftp that copies `source`, with all that is in it, from there to
    /// `target`.
    ///
    /// # Errors
    /// A missing program.
    pub fn fetch(&self, source: &Path, target: &Path) -> Result<Command> {
        self.batch(&[format!("get -r {} {}", quoted(source), quoted(target))])
    }

    /// Makes a folder at the host, which shows whether the user may log in at all.
    ///
    /// # Errors
    /// The message of sftp, with the conditions that must hold.
    pub fn make_folder(&self, folder: &Path) -> Result<()> {
        self.ensure_installed()?;
        let made = self.say(&[format!("mkdir {}", quoted(folder))]).map(drop);
        made.with_context(|| {
            format!(
                "no folder can be made at {} as {}; `sftp -b /dev/null {}` has to work without a question: a key that your agent or \
                 configuration has, the host in known_hosts",
                self.host,
                folder.display(),
                self.host
            )
        })
    }

    /// Removes files, and folders with the files in them. Missing files are no error.
    ///
    /// # Errors
    /// When the host cannot be reached, or a folder that `empty` names cannot be removed.
    pub fn remove(&self, paths: &[PathBuf], empty: Option<&Path>) -> Result<()> {
        let each = paths.iter().flat_map(|path| {
            let path = quoted(path);
            // The dash makes sftp ignore errors. The glob stands outside of the quotes.
            [format!("-rm {path}/*"), format!("-rmdir {path}"), format!("-rm {path}")]
        });
        let last = empty.map(|folder| format!("rmdir {}", quoted(folder)));
        let lines: Vec<String> = each.chain(last).collect();
        if lines.is_empty() { Ok(()) } else { self.say(&lines).map(drop) }
    }

    /// Returns how many bytes are free at a folder; none where the server does not tell.
    pub fn free(&self, folder: &Path) -> Option<u64> {
        free_of(&self.say(&[format!("df {}", quoted(folder))]).ok()?)
    }

    /// Runs commands of sftp, also when the run is stopped: it cleans up.
    fn say(&self, lines: &[String]) -> Result<String> {
        let ran = run(&mut self.batch(lines)?, &AtomicBool::new(false))?;
        Ok(ran.context("interrupted")?.stdout)
    }

    fn batch(&self, lines: &[String]) -> Result<Command> {
        ensure!(lines.iter().all(|line| !line.contains('\n')), "a name has a line break");
        let mut file: File = tempfile::tempfile()?;
        file.write_all((lines.join("\n") + "\n").as_bytes())?;
        file.rewind()?;
        let mut command = SFTP.command()?;
        command.args(["-b", "-"]);
        self.add_options(&mut command);
        command.arg("--").arg(&self.host).stdin(Stdio::from(file));
        Ok(command)
    }

    fn add_options(&self, command: &mut Command) {
        if let Some(config) = &self.config {
            command.arg("-F").arg(config);
        }
        for option in OPTIONS {
            command.args(["-o", option]);
        }
    }
}

/// Quotes a name for a line of sftp's batch. In quotes patterns mean themselves.
fn quoted(path: &Path) -> String {
    let mut text = String::from("\"");
    for character in path.to_string_lossy().chars() {
        if matches!(character, '\\' | '"') {
            text.push('\\');
        }
        text.push(character);
    }
    text + "\""
}

/// The third column of the last line of `df`, in KiB.
fn free_of(said: &str) -> Option<u64> {
    let columns: Vec<&str> = said.trim().lines().next_back()?.split_whitespace().collect();
    let [_, _, free, _, part] = *columns else { return None };
    if !part.ends_with('%') {
        return None;
    }
    free.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_a_host_is_what_scp_takes() {
        let parse = |text: &str| text.parse::<SshFolder>();
        let found = parse("alice@[fd00::1]:/srv/a b").unwrap();
        assert_eq!((found.host.as_str(), found.folder.as_path()), ("alice@[fd00::1]", Path::new("/srv/a b")));
        assert_eq!(found.to_string(), "alice@[fd00::1]:/srv/a b");
        for wrong in ["host", "host:dir", ":/dir", "-oProxyCommand=x:/dir", "a b:/dir", "host:/a\nb"] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn free_space_is_the_third_column_of_df() {
        // OpenSSH 9.2, `df /tmp`.
        let said = "sftp> df /tmp
        Size         Used        Avail       (root)    %Capacity
    65778172     36157480     26246960     29620692          54%
";
        assert_eq!(free_of(said), Some(26_246_960 * 1024));
        assert_eq!(free_of("sftp> df /tmp\nServer does not support statvfs@openssh.com extension"), None);
        assert_eq!(free_of(""), None);
    }

    #[test]
    fn names_are_quoted_as_sftp_reads_them() {
        assert_eq!(quoted(Path::new("/a b/c*\"d\\")), r#""/a b/c*\"d\\""#);
    }
}
