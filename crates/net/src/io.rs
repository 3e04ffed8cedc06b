//! Which of the kernel's interfaces moves the bytes.

use std::fmt;
use std::str::FromStr;

/// The kernel's interface to sockets that shards use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Io {
    /// The one that measured better (`cargo xtask bench io`), the other where the kernel refuses it.
    #[default]
    Auto,
    /// epoll and a system call for each read and write.
    Epoll,
    /// io_uring, or epoll where the kernel refuses it.
    Uring,
}

impl Io {
    /// All choices.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Epoll, Self::Uring];

    /// The name by which it is chosen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Epoll => "epoll",
            Self::Uring => "uring",
        }
    }
}

impl fmt::Display for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Io {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|io| io.name() == text);
        found.ok_or_else(|| format!("must be auto, epoll or uring, not {text:?}"))
    }
}
