//! One row for each attribute: number, field, type and permitted uses.

use xdr::{Decoder, Encoder};

use crate::*;

macro_rules! may {
    (get, Get) => {
        true
    };
    (get, GetSet) => {
        true
    };
    (set, Set) => {
        true
    };
    (set, GetSet) => {
        true
    };
    ($what:ident, $access:ident) => {
        false
    };
}

macro_rules! attributes {
    (<$life:lifetime> $($number:ident $field:ident: $type:ty, $access:ident;)*) => {
        /// The values of attributes; `None` for an attribute that was not sent, is unknown or must
        /// not be sent.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct AttributeValues<$life> {
            $(#[doc = concat!("`", stringify!($number), "`.")] pub $field: Option<$type>,)*
        }

        /// All attributes that have a row here.
        pub const KNOWN: Bitmap4 = Bitmap4::of(&[$($number),*]);

        /// The attributes that can be set, where they are supported (RFC 8881 sections 5.5 to 5.7).
        pub const SETTABLE: Bitmap4 = {
            let mut set = Bitmap4::EMPTY;
            $(if may!(set, $access) { set.set($number); })*
            set
        };

        /// The attributes that can be read, where they are supported (RFC 8881 sections 5.5 to
        /// 5.7).
        pub const GETTABLE: Bitmap4 = {
            let mut set = Bitmap4::EMPTY;
            $(if may!(get, $access) { set.set($number); })*
            set
        };

        /// Returns the RFC's name of an attribute: `"FATTR4_SIZE"`.
        pub const fn name(attribute: u32) -> &'static str {
            match attribute {
                $($number => stringify!($number),)*
                _ => "FATTR4_UNKNOWN",
            }
        }

        impl<$life> AttributeValues<$life> {
            /// Returns whether an attribute has a value.
            pub const fn has(&self, attribute: u32) -> bool {
                match attribute {
                    $($number => self.$field.is_some(),)*
                    _ => false,
                }
            }

            /// Returns which attributes have a value.
            pub fn present(&self) -> Bitmap4 {
                KNOWN.iter().filter(|attribute| self.has(*attribute)).collect()
            }

            pub(super) fn encode_one(&self, attribute: u32, encoder: &mut Encoder) {
                match attribute {
                    $($number => {
                        if let Some(value) = &self.$field {
                            encoder.value(value);
                        }
                    })*
                    _ => {}
                }
            }

            pub(super) fn decode_one(
                &mut self,
                attribute: u32,
                decoder: &mut Decoder<$life>,
            ) -> Result<(), xdr::Error> {
                match attribute {
                    $($number => self.$field = Some(decoder.value()?),)*
                    _ => {}
                }
                Ok(())
            }
        }
    };
}

// Types are the RFC's, except for layout types: the registry grows, and an unknown one must not
// make the whole list unreadable.
attributes! { <'a>
    // RFC 8881.
    FATTR4_SUPPORTED_ATTRS supported_attrs: Bitmap4, Get;
    FATTR4_TYPE r#type: NfsFtype4, Get;
    FATTR4_FH_EXPIRE_TYPE fh_expire_type: u32, Get;
    FATTR4_CHANGE change: Changeid4, Get;
    FATTR4_SIZE size: u64, GetSet;
    FATTR4_LINK_SUPPORT link_support: bool, Get;
    FATTR4_SYMLINK_SUPPORT symlink_support: bool, Get;
    FATTR4_NAMED_ATTR named_attr: bool, Get;
    FATTR4_FSID fsid: Fsid4, Get;
    FATTR4_UNIQUE_HANDLES unique_handles: bool, Get;
    FATTR4_LEASE_TIME lease_time: NfsLease4, Get;
    FATTR4_RDATTR_ERROR rdattr_error: Nfsstat4, Get;
    FATTR4_ACL acl: Vec<Nfsace4<'a>>, GetSet;
    FATTR4_ACLSUPPORT aclsupport: u32, Get;
    FATTR4_ARCHIVE archive: bool, GetSet;
    FATTR4_CANSETTIME cansettime: bool, Get;
    FATTR4_CASE_INSENSITIVE case_insensitive: bool, Get;
    FATTR4_CASE_PRESERVING case_preserving: bool, Get;
    FATTR4_CHOWN_RESTRICTED chown_restricted: bool, Get;
    FATTR4_FILEHANDLE filehandle: NfsFh4<'a>, Get;
    FATTR4_FILEID fileid: u64, Get;
    FATTR4_FILES_AVAIL files_avail: u64, Get;
    FATTR4_FILES_FREE files_free: u64, Get;
    FATTR4_FILES_TOTAL files_total: u64, Get;
    FATTR4_FS_LOCATIONS fs_locations: FsLocations4<'a>, Get;
    FATTR4_HIDDEN hidden: bool, GetSet;
    FATTR4_HOMOGENEOUS homogeneous: bool, Get;
    FATTR4_MAXFILESIZE maxfilesize: u64, Get;
    FATTR4_MAXLINK maxlink: u32, Get;
    FATTR4_MAXNAME maxname: u32, Get;
    FATTR4_MAXREAD maxread: u64, Get;
    FATTR4_MAXWRITE maxwrite: u64, Get;
    FATTR4_MIMETYPE mimetype: xdr::Opaque<'a>, GetSet;
    FATTR4_MODE mode: Mode4, GetSet;
    FATTR4_NO_TRUNC no_trunc: bool, Get;
    FATTR4_NUMLINKS numlinks: u32, Get;
    FATTR4_OWNER owner: xdr::Opaque<'a>, GetSet;
    FATTR4_OWNER_GROUP owner_group: xdr::Opaque<'a>, GetSet;
    FATTR4_QUOTA_AVAIL_HARD quota_avail_hard: u64, Get;
    FATTR4_QUOTA_AVAIL_SOFT quota_avail_soft: u64, Get;
    FATTR4_QUOTA_USED quota_used: u64, Get;
    FATTR4_RAWDEV rawdev: Specdata4, Get;
    FATTR4_SPACE_AVAIL space_avail: u64, Get;
    FATTR4_SPACE_FREE space_free: u64, Get;
    FATTR4_SPACE_TOTAL space_total: u64, Get;
    FATTR4_SPACE_USED space_used: u64, Get;
    FATTR4_SYSTEM system: bool, GetSet;
    FATTR4_TIME_ACCESS time_access: Nfstime4, Get;
    FATTR4_TIME_ACCESS_SET time_access_set: Settime4, Set;
    FATTR4_TIME_BACKUP time_backup: Nfstime4, GetSet;
    FATTR4_TIME_CREATE time_create: Nfstime4, GetSet;
    FATTR4_TIME_DELTA time_delta: Nfstime4, Get;
    FATTR4_TIME_METADATA time_metadata: Nfstime4, Get;
    FATTR4_TIME_MODIFY time_modify: Nfstime4, Get;
    FATTR4_TIME_MODIFY_SET time_modify_set: Settime4, Set;
    FATTR4_MOUNTED_ON_FILEID mounted_on_fileid: u64, Get;
    FATTR4_DIR_NOTIF_DELAY dir_notif_delay: Nfstime4, Get;
    FATTR4_DIRENT_NOTIF_DELAY dirent_notif_delay: Nfstime4, Get;
    FATTR4_DACL dacl: Nfsacl41<'a>, GetSet;
    FATTR4_SACL sacl: Nfsacl41<'a>, GetSet;
    FATTR4_CHANGE_POLICY change_policy: ChangePolicy4, Get;
    FATTR4_FS_STATUS fs_status: Fs4Status<'a>, Get;
    FATTR4_FS_LAYOUT_TYPES fs_layout_types: Vec<u32>, Get;
    FATTR4_LAYOUT_HINT layout_hint: Layouthint4<'a>, Set;
    FATTR4_LAYOUT_TYPES layout_types: Vec<u32>, Get;
    FATTR4_LAYOUT_BLKSIZE layout_blksize: u32, Get;
    FATTR4_LAYOUT_ALIGNMENT layout_alignment: u32, Get;
    FATTR4_FS_LOCATIONS_INFO fs_locations_info: FsLocationsInfo4<'a>, Get;
    FATTR4_MDSTHRESHOLD mdsthreshold: Mdsthreshold4<'a>, Get;
    FATTR4_RETENTION_GET retention_get: RetentionGet4, Get;
    FATTR4_RETENTION_SET retention_set: RetentionSet4, Set;
    FATTR4_RETENTEVT_GET retentevt_get: RetentionGet4, Get;
    FATTR4_RETENTEVT_SET retentevt_set: RetentionSet4, Set;
    FATTR4_RETENTION_HOLD retention_hold: u64, GetSet;
    FATTR4_MODE_SET_MASKED mode_set_masked: ModeMasked4, Set;
    FATTR4_SUPPATTR_EXCLCREAT suppattr_exclcreat: Bitmap4, Get;
    FATTR4_FS_CHARSET_CAP fs_charset_cap: u32, Get;
    // RFC 7862.
    FATTR4_CLONE_BLKSIZE clone_blksize: u32, Get;
    FATTR4_SPACE_FREED space_freed: u64, Get;
    FATTR4_CHANGE_ATTR_TYPE change_attr_type: ChangeAttrType4, Get;
    FATTR4_SEC_LABEL sec_label: SecLabel4<'a>, GetSet;
    // RFC 8275.
    FATTR4_MODE_UMASK mode_umask: ModeUmask4, Set;
    // RFC 8276.
    FATTR4_XATTR_SUPPORT xattr_support: bool, Get;
    // RFC 9754. A client that holds a delegation of the times also answers CB_GETATTR with them.
    FATTR4_OFFLINE offline: bool, Get;
    FATTR4_TIME_DELEG_ACCESS time_deleg_access: Nfstime4, Set;
    FATTR4_TIME_DELEG_MODIFY time_deleg_modify: Nfstime4, Set;
    FATTR4_OPEN_ARGUMENTS open_arguments: OpenArguments4, Get;
}
