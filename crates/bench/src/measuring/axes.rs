//! Where a case stands in its evaluation. Each evaluation has its own typed axes, so that a table
//! or a chart cannot ask for a value that no case has.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The place of a case in its evaluation; the fields of the variant in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Axes {
    /// A point of one of the curves of `ontap`.
    Curve(CurveAxes),
    /// A number of connections of `nconnect`.
    Connections(ConnectionAxes),
    /// A part of `lanl`.
    Copies(CopyAxes),
    /// A workload of `anf` and `quick`.
    Workload(WorkloadAxes),
    /// The flavor of a case whose variant is not a flavor.
    Flavor {
        /// As on the command line, such as `krb5p`.
        flavor: String,
    },
    /// A case of a plan, which has no place among others.
    None(NoAxes),
}

/// The empty place. It refuses unknown axes, which would otherwise be dropped silently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoAxes {}

/// The place of a case of `ontap`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurveAxes {
    /// The title of the curve.
    pub curve: String,
    /// Whether the requests write.
    pub write: bool,
    /// Bytes of a request.
    pub size: u64,
    /// How many clients make the load.
    pub clients: u32,
    /// High where the peak is searched for, low on the schedule.
    pub load: LoadLevel,
    /// The offered rate as a fraction of the peak; absent where the peak is searched for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<f64>,
    /// The server's instruction set (`ORTHRUS_CPU`); absent for the server's own choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_cpu: Option<String>,
}

/// The place of a case of `nconnect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionAxes {
    /// TCP connections of the session.
    pub connections: u32,
    /// Whether the client delays connections at random.
    pub reordered: bool,
}

/// The place of a case of `lanl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyAxes {
    /// The part of the evaluation.
    pub part: Part,
    /// Bytes of the file, for [`Part::Sizes`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The client's cache, for [`Part::Caches`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<CacheState>,
    /// The server's cache, for [`Part::Caches`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<CacheState>,
    /// The test that is repeated, for [`Part::Enctypes`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<Part>,
}

impl CopyAxes {
    /// A case of a part without further axes.
    pub fn of(part: Part) -> Self {
        Self { part, bytes: None, client: None, server: None, test: None }
    }
}

/// The place of a case of `anf` or `quick`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadAxes {
    /// Whether latency or the peak is measured.
    pub load: LoadLevel,
    /// The kind of requests.
    pub workload: Workload,
    /// Percentage of writes; absent for metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<u32>,
}

/// Declares an axis with named values: JSON, `Display` and the command line use the same names.
macro_rules! axis {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name { $($(#[$value_doc])* #[serde(rename = $text)] $value),+ }

        impl $name {
            /// All values in the order of tables.
            pub const ALL: &[Self] = &[$(Self::$value),+];

            /// Returns the name as JSON and the command line have it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$value => $text),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.pad(self.name())
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(name: &str) -> Result<Self, String> {
                let found = Self::ALL.iter().copied().find(|value| value.name() == name);
                found.ok_or_else(|| format!("allowed: {}", [$($text),+].join(", ")))
            }
        }
    };
}

axis! {
    /// How much load a case makes.
    LoadLevel {
        /// One request at a time: the case measures latency.
        Low = "low",
        /// Enough requests to keep both ends busy: the case measures the peak.
        High = "high",
    }
}

axis! {
    /// The kind of requests.
    Workload {
        /// Reads and writes of 4 KiB at random offsets.
        Random = "random",
        /// Reads and writes of 1 MiB, one after the other.
        Sequential = "sequential",
        /// Operations on names and small files.
        Metadata = "metadata",
    }
}

axis! {
    /// A part of `lanl`.
    Part {
        /// Transfer rate by file size.
        Sizes = "sizes",
        /// 10,000 files of 5 kB.
        Small = "small",
        /// 20 files of 500 MB.
        Large = "large",
        /// Reading with cold and warm caches.
        Caches = "caches",
        /// The encryption types side by side.
        Enctypes = "enctypes",
    }
}

axis! {
    /// Whether a cache holds the file that is read.
    CacheState {
        /// The file was dropped from the cache.
        Cold = "cold",
        /// The file was read before.
        Warm = "warm",
    }
}

impl Default for Axes {
    fn default() -> Self {
        Self::None(NoAxes {})
    }
}

impl Axes {
    /// Returns the load level, where the evaluation has two of them.
    pub fn level(&self) -> Option<LoadLevel> {
        match self {
            Self::Workload(axes) => Some(axes.load),
            Self::Curve(axes) => Some(axes.load),
            _ => None,
        }
    }

    /// Returns the kind of requests, in `anf` and `quick`.
    pub fn workload(&self) -> Option<Workload> {
        match self {
            Self::Workload(axes) => Some(axes.workload),
            _ => None,
        }
    }

    /// Returns the percentage of writes, in `anf` and `quick`.
    pub fn writes(&self) -> Option<u32> {
        match self {
            Self::Workload(axes) => axes.writes,
            _ => None,
        }
    }

    /// Returns the place on a curve, in `ontap`.
    pub fn curve(&self) -> Option<&CurveAxes> {
        match self {
            Self::Curve(axes) => Some(axes),
            _ => None,
        }
    }

    /// Returns the title of the curve, for a case on the schedule of `ontap`.
    pub fn scheduled_on(&self) -> Option<&str> {
        self.curve().filter(|axes| axes.step.is_some()).map(|axes| axes.curve.as_str())
    }

    /// Returns the connections, in `nconnect`.
    pub fn connections(&self) -> Option<ConnectionAxes> {
        match self {
            Self::Connections(axes) => Some(*axes),
            _ => None,
        }
    }

    /// Returns the place among the copies, in `lanl`.
    pub fn copies(&self) -> Option<CopyAxes> {
        match self {
            Self::Copies(axes) => Some(*axes),
            _ => None,
        }
    }

    /// Returns the part, in `lanl`.
    pub fn part(&self) -> Option<Part> {
        self.copies().map(|axes| axes.part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_evaluation_reads_its_own_axes_and_unknown_ones_are_refused() {
        for (json, expected) in [
            ("{}", Axes::default()),
            (
                r#"{"load":"high","workload":"random","writes":25}"#,
                Axes::Workload(WorkloadAxes {
                    load: LoadLevel::High,
                    workload: Workload::Random,
                    writes: Some(25),
                }),
            ),
            (
                r#"{"connections":8,"reordered":true}"#,
                Axes::Connections(ConnectionAxes { connections: 8, reordered: true }),
            ),
            (
                r#"{"part":"sizes","bytes":5}"#,
                Axes::Copies(CopyAxes { bytes: Some(5), ..CopyAxes::of(Part::Sizes) }),
            ),
            (r#"{"flavor":"krb5"}"#, Axes::Flavor { flavor: "krb5".to_owned() }),
        ] {
            let read: Axes = serde_json::from_str(json).unwrap();
            assert_eq!(read, expected);
            assert_eq!(serde_json::to_string(&read).unwrap(), json);
        }
        let curve = r#"{"curve":"c","write":false,"size":4096,"clients":2,"load":"low","step":0.5}"#;
        let read: Axes = serde_json::from_str(curve).unwrap();
        assert_eq!(read.scheduled_on(), Some("c"));
        for unknown in [r#"{"load":"hihg","workload":"random"}"#, r#"{"speed":3}"#] {
            assert!(serde_json::from_str::<Axes>(unknown).is_err(), "{unknown}");
        }
        assert_eq!("small".parse(), Ok(Part::Small));
        assert!("smal".parse::<Part>().is_err());
    }
}
