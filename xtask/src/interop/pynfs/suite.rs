//! The suites of pynfs: their location, groups and expectations. The suite for NFSv4.1 runs in both
//! later minor versions.

use super::{EVERY_FLAVOR, SuiteFlavor, TestGroup};

/// One suite in one minor version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum PynfsSuite {
    /// `nfs4.1` with minor version 2
    #[value(name = "4.2")]
    Minor2,
    /// `nfs4.1` with minor version 1
    #[value(name = "4.1")]
    Minor1,
    /// The suite `nfs4.0` of pynfs.
    #[value(name = "4.0")]
    Minor0,
}

/// Tests of the 4.1 suite that are skipped by default, and the reasons.
const LEFT_OUT_41: [&str; 1] = [
    "4.1 and 4.2 reboot with krb5, krb5i, krb5p: the suite makes no new context after RPCSEC_GSS_CREDPROBLEM (RFC 2203 section 5.3.3.3)",
];
/// The same of the 4.0 suite.
const LEFT_OUT_40: [&str; 3] = [
    "4.0 reboot with krb5, krb5i, krb5p: the suite makes no new context after RPCSEC_GSS_CREDPROBLEM (RFC 2203 section 5.3.3.3)",
    "4.0 DELEG1 to DELEG22: clients of NFSv4.0 are granted no delegations (RFC 7530 section 10.4 leaves that to the server)",
    "4.0 FSLOC1 to FSLOC8: for servers whose file systems move (RFC 7530 section 8)",
];

/// Seconds of the lease and of the grace period: many tests wait until one has run out, so a short
/// one; below 10 some of them are too slow themselves.
const LEASE: u32 = 10;
/// The same where 100 clients reclaim after a restart, one after another. The suite takes 40 to 60
/// ms for each on a quiet machine, and the grace period is as long as the lease.
const LEASE_OF_HUNDRED: u32 = 30;
/// The same for 1,000 clients.
const LEASE_OF_MANY: u32 = 120;

/// Python runs this module at its start. It sets TCP_NODELAY on all connections.
const NO_DELAY: &str = "import socket\n\nconnect = socket.socket.connect\n\ndef at_once(self, address):\n    connect(self, address)\n    self.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n\nsocket.socket.connect = at_once\n";

impl PynfsSuite {
    /// As on the command line and in results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Minor2 => "4.2",
            Self::Minor1 => "4.1",
            Self::Minor0 => "4.0",
        }
    }

    /// Its folder in the checkout.
    pub(super) fn folder(self) -> &'static str {
        match self {
            Self::Minor2 | Self::Minor1 => "nfs4.1",
            Self::Minor0 => "nfs4.0",
        }
    }

    /// Returns the file of expectations.
    pub(super) fn expectations(self) -> &'static str {
        match self {
            Self::Minor2 => "specs/interop/pynfs42.txt",
            Self::Minor1 => "specs/interop/pynfs41.txt",
            Self::Minor0 => "specs/interop/pynfs40.txt",
        }
    }

    /// Returns the file of the tests whose results differ where the export is on CephFS, if there
    /// are such.
    pub(super) fn ceph_expectations(self) -> Option<&'static str> {
        (self == Self::Minor2).then_some("specs/interop/pynfs42-ceph.txt")
    }

    /// How long it takes, in minutes.
    pub(super) fn minutes(self) -> u32 {
        match self {
            Self::Minor2 | Self::Minor1 => 11,
            Self::Minor0 => 5,
        }
    }

    /// Returns the tests that are skipped by default.
    pub(super) fn left_out(self) -> &'static [&'static str] {
        match self {
            Self::Minor2 | Self::Minor1 => &LEFT_OUT_41,
            Self::Minor0 => &LEFT_OUT_40,
        }
    }

    /// Returns arguments besides the server. The 4.0 suite has only one minor version.
    pub(super) fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Minor2 => &["--minorversion", "2"],
            Self::Minor1 => &["--minorversion", "1"],
            Self::Minor0 => &[],
        }
    }

    /// Python modules for the suite. Both suites send a call in two pieces, and the second waits
    /// for TCP without TCP_NODELAY. The 4.0 suite imports a module by its name in Python 2, and has
    /// no Kerberos without it.
    pub(super) fn modules(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Minor2 | Self::Minor1 => &[("sitecustomize.py", NO_DELAY)],
            Self::Minor0 => {
                &[("gss_type.py", "from rpc.rpcsec.gss_type import *\n"), ("sitecustomize.py", NO_DELAY)]
            }
        }
    }

    /// Whether the server is restarted before the tests: the stale stateids of the 4.0 suite belong
    /// to a first start.
    pub(super) fn second_start(self) -> bool {
        self == Self::Minor0
    }

    /// Returns the groups that run by default. Tests that restart the server have a server of their
    /// own.
    pub(super) fn groups(self, asked: &[String]) -> Vec<TestGroup> {
        let group = |name, tests: &[&str], flavors, lease| TestGroup {
            name,
            tests: tests.iter().map(|test| (*test).to_owned()).collect(),
            flavors,
            lease,
        };
        if !asked.is_empty() {
            return vec![TestGroup {
                name: "some",
                tests: asked.to_vec(),
                flavors: EVERY_FLAVOR,
                lease: LEASE,
            }];
        }
        let mut groups = vec![group("all", &["all"], EVERY_FLAVOR, LEASE)];
        match self {
            Self::Minor2 | Self::Minor1 => {
                let hundred = ["REBT2b", "REBT3b", "REBT4b"];
                let many = ["REBT2c", "REBT3c", "REBT4c"];
                let without = hundred.iter().chain(&many).map(|test| format!("no{test}"));
                let few: Vec<String> = std::iter::once("reboot".to_owned()).chain(without).collect();
                let few: Vec<&str> = few.iter().map(String::as_str).collect();
                groups.push(group("reboot", &few, &[SuiteFlavor::Sys], LEASE));
                groups.push(group("hundred", &hundred, &[SuiteFlavor::Sys], LEASE_OF_HUNDRED));
                groups.push(group("many", &many, &[SuiteFlavor::Sys], LEASE_OF_MANY));
            }
            // The tests, with the tests that they depend on.
            Self::Minor0 => {
                let tests = ["INIT", "MKDIR", "MKFILE", "reboot"];
                groups.push(group("reboot", &tests, &[SuiteFlavor::Sys], LEASE));
            }
        }
        groups
    }
}
