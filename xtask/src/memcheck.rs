//! Runs the tests of `krb5`, which has hand-written assembly and intrinsics, under memory checkers,
//! with every instruction set.
//!
//! The address sanitizer checks every load and store that the compiler emits, including intrinsics,
//! on all paths. It needs a switch that stable rustc hides and a runtime library that not every
//! package of rustc has. Valgrind also finds reads of uninitialised memory, but its processor has
//! no AVX-512, VAES or SHA-NI: it runs the other paths. In addition, the ordinary tests put every
//! buffer between inaccessible pages.

use crate::outcome::CiOutcome;
use anyhow::{Context, bail, ensure};
use krb5::{CPU_VARIABLE, Cpu};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Under valgrind everything takes fifty times as long: of the sweep, the tests with these words in
/// their names.
const UNDER_VALGRIND: [&str; 3] = ["every_size_agree", "one_damaged_message", "of_mit"];

/// A program of tests.
struct TestProgram {
    name: String,
    path: PathBuf,
}

/// Runs all checks that this machine can run.
///
/// # Errors
/// When a checker reports an error or a test fails.
pub(crate) fn run() -> anyhow::Result<CiOutcome> {
    let mut skipped = Vec::new();
    for (name, reason) in [("address sanitizer", sanitizer()?), ("valgrind", valgrind()?)] {
        if let Some(reason) = reason {
            println!("{name}: skipped: {reason}");
            skipped.push(format!("{name}: {reason}"));
        }
    }
    Ok(if skipped.is_empty() { CiOutcome::Passed } else { CiOutcome::Skipped(skipped.join("; ")) })
}

/// Builds the tests of `krb5`, with flags for the compiler.
fn programs(folder: &str, flags: &[(&str, &str)], target: &str) -> anyhow::Result<Vec<TestProgram>> {
    let built = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["test", "--locked", "--quiet", "--package", "orthrus-krb5", "--lib", "--tests", "--no-run"])
        .args(["--message-format=json-render-diagnostics", "--target", target])
        .envs(flags.iter().copied())
        .env("CARGO_TARGET_DIR", steps::target().join(folder))
        .current_dir(steps::root())
        .stderr(Stdio::inherit())
        .output()
        .context("cargo did not start")?;
    ensure!(built.status.success(), "the tests of krb5 do not build with {flags:?}");
    let programs: Vec<_> = String::from_utf8_lossy(&built.stdout).lines().filter_map(program).collect();
    ensure!(!programs.is_empty(), "krb5 has no tests");
    Ok(programs)
}

/// Takes a program from a message of cargo's.
fn program(message: &str) -> Option<TestProgram> {
    let message: Value = serde_json::from_str(message).ok()?;
    let path = message.get("executable")?.as_str()?.into();
    Some(TestProgram { name: message.get("target")?.get("name")?.as_str()?.to_owned(), path })
}

fn host() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("rustc did not start")?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    Ok(host.to_owned())
}

/// The switch, for the compiler of this toolchain.
const SANITIZER: [(&str, &str); 2] = [("RUSTC_BOOTSTRAP", "1"), ("RUSTFLAGS", "-Zsanitizer=address")];

fn sanitizer() -> anyhow::Result<Option<String>> {
    let host = host()?;
    if !sanitizer_links(&host)? {
        return Ok(Some("the runtime library is not in this package of rustc".into()));
    }
    let programs = programs("memcheck-address", &SANITIZER, &host)?;
    for cpu in Cpu::available() {
        for program in &programs {
            // This test covers all paths in one run.
            if program.name == "differential" && cpu != Cpu::Portable {
                continue;
            }
            check("address sanitizer", program, Some(cpu), Command::new(&program.path).arg("--quiet"))?;
        }
    }
    Ok(None)
}

fn sanitizer_links(host: &str) -> anyhow::Result<bool> {
    let folder = private::temporary("orthrus-xtask-")?;
    let source = folder.path().join("nothing.rs");
    std::fs::write(&source, "fn main() {}")?;
    let status = Command::new("rustc")
        .args(["-Zsanitizer=address", "--target", host, "--out-dir"])
        .arg(folder.path())
        .arg(&source)
        .env("RUSTC_BOOTSTRAP", "1")
        .stderr(Stdio::null())
        .status()
        .context("rustc did not start")?;
    Ok(status.success())
}

fn valgrind() -> anyhow::Result<Option<String>> {
    if !steps::have("valgrind", "--version") {
        return Ok(Some("apt-get install valgrind".into()));
    }
    let programs = programs("memcheck-valgrind", &[], &host()?)?;
    for program in programs.iter().filter(|program| ["differential", "mit"].contains(&program.name.as_str()))
    {
        let mut command = Command::new("valgrind");
        // Its report goes to standard error, its verdict is the status.
        command.args(["--quiet", "--error-exitcode=99"]).arg(&program.path).args(UNDER_VALGRIND);
        command.args(["--test-threads=1", "--nocapture"]);
        check("valgrind", program, None, &mut command)?;
    }
    Ok(None)
}

/// Runs a program on one path, or on the paths that it detects, and prints them.
fn check(
    checker: &str,
    program: &TestProgram,
    cpu: Option<Cpu>,
    command: &mut Command,
) -> anyhow::Result<()> {
    let folder = steps::root().join("crates/krb5");
    if let Some(cpu) = cpu {
        command.env(CPU_VARIABLE, cpu.name());
    }
    let output = command
        .current_dir(folder)
        .output()
        .with_context(|| format!("{} did not start", program.path.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!(
            "{checker}, {}: {}\n{text}\n{}",
            program.name,
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let result = text.lines().find_map(|line| line.strip_prefix("test result: ok. ")).unwrap_or_default();
    let paths = text.lines().find_map(|line| Some(line.split_once("paths: ")?.1.to_owned()));
    let paths = paths.or(cpu.map(|cpu| cpu.name().to_owned())).unwrap_or_else(|| "what it knows".to_owned());
    ensure!(
        !result.is_empty() && !result.starts_with("0 passed"),
        "{checker}, {}: no test ran",
        program.name
    );
    println!("{checker}: {} on {paths}: {}", program.name, result.split(';').next().unwrap_or_default());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_program_of_tests_is_found_among_the_messages_of_cargo() {
        let found = program(r#"{"executable":"/t/mit-1","target":{"name":"mit"},"reason":"x"}"#);
        assert!(found.is_some_and(|found| found.name == "mit" && found.path == Path::new("/t/mit-1")));
        assert!(program(r#"{"executable":null,"target":{"name":"mit"}}"#).is_none());
        assert!(program("not JSON").is_none());
    }
}
