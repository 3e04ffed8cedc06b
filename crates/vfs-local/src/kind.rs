//! Kinds of file systems by how long their calls may block.

/// Kinds of file systems by where their metadata comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All of it is in memory.
    Memory,
    /// It is on a disk of this machine. The kernel answers from memory for open objects, and for
    /// cached names and data; RESOLVE_CACHED and RWF_NOWAIT tell which they are.
    LocalDisk,
    /// It comes over a network or from another process: even fstat(2) of an open object can block
    /// for ever. Unknown file systems count as foreign, and so do those stacked on others
    /// (overlayfs, ecryptfs).
    Foreign,
}

impl Kind {
    /// Returns the kind of a file system by its magic number (statfs(2), `f_type`). The list names
    /// file systems that answer from memory: a missing one costs a thread a call, and a wrong one
    /// can stop the server.
    pub(crate) fn of(file_system: i64) -> Self {
        const TMPFS: i64 = 0x0102_1994;
        const RAMFS: i64 = 0x8584_58f6;
        /// ext2 and ext3 as well.
        const EXT4: i64 = 0xef53;
        const XFS: i64 = 0x5846_5342;
        const BTRFS: i64 = 0x9123_683e;
        const F2FS: i64 = 0xf2f5_2010;
        const BCACHEFS: i64 = 0xca45_1a4e;
        match file_system {
            TMPFS | RAMFS => Self::Memory,
            EXT4 | XFS | BTRFS | F2FS | BCACHEFS => Self::LocalDisk,
            _ => Self::Foreign,
        }
    }

    /// As `of`, by the name of the type in the table of mounts: statfs(2) may block.
    pub(crate) fn named(fs_type: &str) -> Self {
        match fs_type {
            "tmpfs" | "ramfs" => Self::Memory,
            "ext2" | "ext3" | "ext4" | "xfs" | "btrfs" | "f2fs" | "bcachefs" => Self::LocalDisk,
            _ => Self::Foreign,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_file_system_is_foreign() {
        let (fuse, nfs, cifs, smb2, ceph, nine_p, overlay) =
            (0x6573_5546, 0x6969, 0xff53_4d42, 0xfe53_4d42, 0x00c3_6400, 0x0102_1997, 0x794c_7630);
        for foreign in [fuse, nfs, cifs, smb2, ceph, nine_p, overlay, 0, -1] {
            assert_eq!(Kind::of(foreign), Kind::Foreign, "{foreign:#x}");
        }
        assert_eq!((Kind::of(0x0102_1994), Kind::of(0xef53)), (Kind::Memory, Kind::LocalDisk));
        for foreign in ["fuse", "fuse.sshfs", "nfs4", "autofs", "overlay", ""] {
            assert_eq!(Kind::named(foreign), Kind::Foreign, "{foreign:?}");
        }
        assert_eq!((Kind::named("tmpfs"), Kind::named("ext4")), (Kind::Memory, Kind::LocalDisk));
    }
}
