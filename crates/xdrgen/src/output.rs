//! Formats generated files and writes them, or reports how they differ from the existing ones.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, thread};

use anyhow::{Context as _, Result, bail};

use crate::emit::MARK;

/// Formats source text with rustfmt under the configuration in `root`.
///
/// # Errors
/// If rustfmt is missing or refuses the text.
pub fn formatted(root: &Path, text: String) -> Result<String> {
    let mut rustfmt = Command::new("rustfmt")
        .args(["--edition", "2024", "--config-path"])
        .arg(root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run rustfmt; `rustup component add rustfmt` installs it")?;
    let mut input = rustfmt.stdin.take().context("rustfmt has no input")?;
    let writer = thread::spawn(move || input.write_all(text.as_bytes()));
    let output = rustfmt.wait_with_output().context("cannot wait for rustfmt")?;
    let written = writer.join().is_ok_and(|written| written.is_ok());
    if !written || !output.status.success() {
        bail!("rustfmt failed on generated code: {}", output.status);
    }
    String::from_utf8(output.stdout).context("rustfmt did not write UTF-8")
}

/// Writes `files` into `folder`, and removes files of an earlier run that no longer exist.
///
/// # Errors
/// Any error of the file system, with the path.
pub fn write(folder: &Path, files: &BTreeMap<String, String>) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for stale in stale(folder, files)? {
        fs::remove_file(&stale).with_context(|| format!("cannot remove {}", stale.display()))?;
    }
    for (name, text) in files {
        let path = folder.join(name);
        if fs::read_to_string(&path).is_ok_and(|old| old == *text) {
            continue;
        }
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Reports how `folder` differs from `files`: one line per file, none if it is current.
///
/// # Errors
/// Any error of the file system, with the path.
pub fn differences(folder: &Path, files: &BTreeMap<String, String>) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (name, text) in files {
        let path = folder.join(name);
        match fs::read_to_string(&path) {
            Err(_) => found.push(format!("{} is missing", path.display())),
            Ok(old) if old == *text => {}
            Ok(old) => {
                let same = old.lines().zip(text.lines()).take_while(|(old, new)| old == new).count();
                let line = |text: &str| text.lines().nth(same).unwrap_or("(end of file)").trim().to_owned();
                let (old, new) = (line(&old), line(text));
                found.push(format!("{}:{}: has `{old}`, should be `{new}`", path.display(), same + 1));
            }
        }
    }
    found.extend(stale(folder, files)?.iter().map(|path| format!("{} is no longer made", path.display())));
    Ok(found)
}

/// Returns files in `folder` that an earlier run made and this run did not.
fn stale(folder: &Path, files: &BTreeMap<String, String>) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return Ok(found) };
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read {}", folder.display()))?.path();
        let known = path.file_name().is_some_and(|name| files.contains_key(&*name.to_string_lossy()));
        if !known && fs::read_to_string(&path).is_ok_and(|text| text.starts_with(MARK)) {
            found.push(path);
        }
    }
    Ok(found)
}
