//! The conditions of a run besides the server.

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::MountFacts;

/// The machine that a run was made on, from /proc and uname.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The processor's model name.
    pub processor: String,
    /// Processors that the client may use.
    pub cores: usize,
    /// Size of the memory in bytes.
    pub memory_bytes: u64,
    /// Instruction sets of the processor that cryptography uses.
    pub instructions: Vec<String>,
    /// Release of the kernel.
    pub kernel: String,
    /// Version of this program.
    pub program: String,
    /// Encryption type of the Kerberos contexts, such as `aes256-cts-hmac-sha1-96`.
    pub enctype: Option<String>,
    /// The link between client and server, where there was one of a stated rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<crate::link::LinkSpec>,
    /// Slots of a session by variant, as the server granted them: the most requests in flight.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub slots: BTreeMap<String, u32>,
    /// The mounts of a run that measured mounts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<MountFacts>,
}

impl Environment {
    /// Adds the encryption type of a session.
    ///
    /// # Errors
    /// When earlier samples of the run are of another one.
    pub(crate) fn add_enctype(&mut self, enctype: Option<String>) -> Result<()> {
        let known = self.enctype.take().or_else(|| enctype.clone());
        self.enctype.clone_from(&known);
        match enctype.zip(known) {
            Some((now, begun)) if now != begun => {
                bail!(
                    "the run was begun with tickets of {begun} and now gets {now}; measure again without --resume"
                )
            }
            _ => Ok(()),
        }
    }

    /// Reads the description of this machine.
    pub fn of_this_machine() -> Self {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
            line.split_once(':').map(|(_, value)| value.trim().to_owned())
        };
        let flags = field("flags").or_else(|| field("Features")).unwrap_or_default();
        let has = |name: &&str| flags.split(' ').any(|flag| flag == *name);
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kilobytes = meminfo.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
        Self {
            processor: field("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: kilobytes.unwrap_or(0) * 1024,
            instructions: ["aes", "vaes", "sha_ni", "avx2", "avx512f"]
                .into_iter()
                .filter(has)
                .map(String::from)
                .collect(),
            kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")
                .unwrap_or_default()
                .trim()
                .to_owned(),
            program: concat!("orthrus ", env!("CARGO_PKG_VERSION")).to_owned(),
            enctype: None,
            link: None,
            slots: BTreeMap::new(),
            mounts: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_does_not_go_on_with_tickets_of_another_type() {
        let mut environment = Environment::default();
        for enctype in [None, Some("aes256"), Some("aes256"), None] {
            environment.add_enctype(enctype.map(str::to_owned)).unwrap();
        }
        assert_eq!(environment.enctype.as_deref(), Some("aes256"));
        let error = environment.add_enctype(Some("aes128".to_owned())).unwrap_err().to_string();
        assert!(error.contains("aes128") && error.contains("without --resume"), "{error}");
    }
}
