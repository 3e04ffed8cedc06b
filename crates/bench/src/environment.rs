//! The conditions of a run besides the server.

use serde::{Deserialize, Serialize};

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
    /// The mounts of a run that measured mounts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<crate::mounted::MountFacts>,
}

impl Environment {
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
            mounts: Vec::new(),
        }
    }
}
