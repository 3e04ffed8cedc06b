//! The faults of a set of exports.

use crate::locations::LOCATIONS_BYTES_MAX;
use crate::pseudo_path::{PSEUDO_DEPTH_MAX, PSEUDO_NAME_MAX};
use crate::rules::RULES_MAX;

/// The reason why a set of exports is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportsError {
    /// A pseudo path that is not absolute, or with a component that NFS does not allow.
    #[error(
        "pseudo path {0:?}: must begin with \"/\" and have at most {PSEUDO_DEPTH_MAX} names of 1 to {PSEUDO_NAME_MAX} bytes, none of them \".\" or \"..\""
    )]
    Path(String),
    /// Two exports at one place.
    #[error("two exports have the pseudo path {0:?}: give one of them another `pseudo`")]
    SamePath(String),
    /// Two exports with one number.
    #[error("the exports {0:?} and {1:?} have the same number {2}: give one of them another `fsid`")]
    SameId(String, String, u32),
    /// Number 0 is the pseudo file system's.
    #[error("export {0:?}: number 0 is taken by the pseudo file system: give it an `fsid` from 1")]
    ZeroId(String),
    /// A rule of the export has no flavor, so that it would be of no use.
    #[error("export {0:?} allows no security flavor; allowed are sys, krb5, krb5i and krb5p")]
    NoFlavor(String),
    /// More rules than the limit.
    #[error("export {0:?} has more than {RULES_MAX} rules")]
    RulesMax(String),
    /// Locations that clients cannot read.
    #[error(
        "export {path:?}: its locations take {bytes} bytes, but clients read {LOCATIONS_BYTES_MAX}: name fewer"
    )]
    Locations {
        /// The pseudo path of the export.
        path: String,
        /// Their size in fs_locations.
        bytes: usize,
    },
    /// A referral without a location, or at a place where clients cannot follow it.
    #[error("export {path:?}: {why}")]
    Referral {
        /// The pseudo path of the export.
        path: String,
        /// The rule that it breaks.
        why: String,
    },
    /// Two names of the pseudo file system have one fileid (a coincidence of 2^-63).
    #[error("pseudo path {0:?} collides with another name: rename one of the two")]
    Collision(String),
}
