//! Commands as lists of words.

use crate::network::LabMachine;
use crate::{LabFolder, LabOptions};
use bench::tools::SBIN;

/// Returns words as a command.
pub(crate) fn words(words: &[impl AsRef<str>]) -> Vec<String> {
    words.iter().map(|word| word.as_ref().to_owned()).collect()
}

/// Returns the command that runs another one on a machine.
pub(crate) fn on(folder: &LabFolder, machine: LabMachine, command: &[&str]) -> Vec<String> {
    let mut all = words(&["nsenter"]);
    all.push(format!("--net={}", folder.net(machine).display()));
    all.extend(words(command));
    all
}

/// Returns the command that runs `orthrus` on a machine.
pub(crate) fn orthrus_on(
    options: &LabOptions,
    folder: &LabFolder,
    machine: LabMachine,
    arguments: &[impl AsRef<str>],
) -> Vec<String> {
    let program = options.program.display().to_string();
    let mut command = on(folder, machine, &[&program]);
    command.extend(words(arguments));
    command
}

/// Returns a PATH with the folders of administrators' programs.
pub(crate) fn path() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{path}:{}", SBIN.join(":"))
}
