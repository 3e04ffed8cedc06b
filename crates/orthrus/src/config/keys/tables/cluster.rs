//! The table of a member of a cluster of gateways.

use super::{ConfigKey, ConfigTable, KeyDefault};
use KeyDefault::{Absent, Literal};

pub(super) const CLUSTER: &[ConfigTable] = &[ConfigTable {
    heading: "[cluster]",
    prefix: "cluster",
    about: "The cluster of gateways over one CephFS that this server is a member of.",
    first: "",
    keys: &[
        ConfigKey {
            name: "node",
            meaning: "The name of this member. It goes to another machine together with the address.",
            allowed: "at most 64 letters, digits, \".\", \"_\" and \"-\"",
            default: Absent("required"),
            example: r#""gw1""#,
            reloads: false,
        },
        ConfigKey {
            name: "pool",
            meaning: "The pool of RADOS with the shared state of all members.",
            allowed: "a pool",
            default: Literal(r#""orthrus""#),
            example: r#"".nfs""#,
            reloads: false,
        },
        ConfigKey {
            name: "namespace",
            meaning: "The namespace in the pool. Each cluster of gateways needs its own.",
            allowed: "a namespace",
            default: Literal(r#""""#),
            example: r#""gateways""#,
            reloads: false,
        },
        ConfigKey {
            name: "object",
            meaning: "The object of the grace database, which `ganesha-rados-grace --oid` shows as well.",
            allowed: "the name of an object",
            default: Literal(r#""grace""#),
            example: r#""grace-2""#,
            reloads: false,
        },
        ConfigKey {
            name: "ceph_user",
            meaning: "The user of Ceph for the shared state.",
            allowed: r#"a name without "client.""#,
            default: Literal(r#""orthrus""#),
            example: r#""gateway""#,
            reloads: false,
        },
        ConfigKey {
            name: "ceph_conf",
            meaning: "The configuration file of the Ceph cluster with the shared state.",
            allowed: "a file",
            default: Literal(r#""/etc/ceph/ceph.conf""#),
            example: r#""/etc/ceph/other.conf""#,
            reloads: false,
        },
        ConfigKey {
            name: "ceph_keyring",
            meaning: "The file with the key of the user.",
            allowed: "a file",
            default: Absent("as the configuration of Ceph says"),
            example: r#""/etc/ceph/ceph.client.orthrus.keyring""#,
            reloads: false,
        },
    ],
}];
