//! The options of rpc.gssd.

use crate::Surroundings;
use crate::nfs_conf::NfsConf;
use std::path::PathBuf;

/// Processes that are looked at.
const PROCESSES_MAX: usize = 65_536;

/// The options of rpc.gssd, from its command line and nfs.conf.
#[derive(Clone, Debug, Default)]
pub(crate) struct GssdOptions {
    pub running: bool,
    pub keytab: Option<PathBuf>,
    pub caches: Vec<String>,
    pub root_needs_ticket: bool,
    pub legacy: bool,
    pub allowed: Option<String>,
    pub reverse_dns: bool,
}

impl GssdOptions {
    /// Reads the options from the command line of the process and from nfs.conf.
    pub(crate) fn read(machine: &Surroundings) -> Self {
        let mut options = Self { caches: vec!["/tmp".into(), "/run/user/%U".into()], ..Self::default() };
        let conf = NfsConf::read(machine, "nfs.conf");
        conf.section("gssd").for_each(|(key, value)| set(&mut options, key, value));
        if let Some(arguments) = process(machine) {
            options.running = true;
            command_line(&mut options, &arguments);
        }
        options
    }
}

fn set(options: &mut GssdOptions, key: &str, value: &str) {
    let on = matches!(value.to_lowercase().as_str(), "1" | "y" | "yes" | "true" | "t" | "on");
    match key {
        "keytab-file" if !value.is_empty() => options.keytab = Some(value.into()),
        "cred-cache-directory" if !value.is_empty() => {
            options.caches = value.split(':').map(str::to_owned).collect();
        }
        "use-machine-creds" => options.root_needs_ticket = !on,
        "limit-to-legacy-enctypes" => options.legacy = on,
        "allowed-enctypes" if !value.is_empty() => options.allowed = Some(value.to_owned()),
        "avoid-dns" => options.reverse_dns = !on,
        _ => {}
    }
}

fn command_line(options: &mut GssdOptions, arguments: &[String]) {
    let mut rest = arguments.iter().skip(1);
    while let Some(argument) = rest.next() {
        let Some(letters) = argument.strip_prefix('-') else { continue };
        for (at, letter) in letters.char_indices() {
            let after = letters.get(at + 1..).unwrap_or_default();
            let valued = matches!(letter, 'k' | 'd' | 'p' | 't' | 'T' | 'R' | 'U');
            let value =
                if valued && after.is_empty() { rest.next().cloned() } else { Some(after.to_owned()) };
            match (letter, value) {
                ('k', Some(path)) => options.keytab = Some(path.into()),
                ('d', Some(folders)) => options.caches = folders.split(':').map(str::to_owned).collect(),
                ('n', _) => options.root_needs_ticket = true,
                ('l', _) => options.legacy = true,
                ('D', _) => options.reverse_dns = true,
                _ => {}
            }
            if valued {
                break;
            }
        }
    }
}

/// Returns the arguments of the running rpc.gssd.
fn process(machine: &Surroundings) -> Option<Vec<String>> {
    let entries = std::fs::read_dir(machine.path("/proc")).ok()?;
    for entry in entries.flatten().take(PROCESSES_MAX) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let file = |leaf: &str| machine.read(&format!("/proc/{name}/{leaf}"));
        if file("comm").is_some_and(|comm| comm.trim() == "rpc.gssd") {
            let line = file("cmdline").unwrap_or_default();
            return Some(line.split('\0').filter(|word| !word.is_empty()).map(str::to_owned).collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_command_line_are_read() {
        let mut options = GssdOptions::default();
        let words = ["rpc.gssd", "-fnl", "-k/a", "-d", "/b:/c", "-vvv"].map(str::to_owned);
        command_line(&mut options, &words);
        assert!(options.root_needs_ticket && options.legacy && !options.reverse_dns);
        assert_eq!(
            (options.keytab, options.caches),
            (Some("/a".into()), vec!["/b".to_owned(), "/c".to_owned()])
        );
    }
}
