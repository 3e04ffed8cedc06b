//! The operations, one file each (RFC 8881 section 18, RFC 7862 section 15);
//! [`crate::compound::table`] has their rows.
//!
//! An operation decodes its own arguments from the call, writes its result (without operation
//! number and status) to the reply and returns its status. Rules that many operations share
//! (session, current filehandle, read-only exports, reply size) are columns of the table, checked
//! before the operation runs.

pub mod access;
pub mod allocate;
pub mod backchannel_ctl;
pub mod bind_conn_to_session;
pub mod clone;
pub mod close;
pub mod commit;
pub mod copy;
pub mod create;
pub mod create_session;
pub mod delegreturn;
pub mod destroy_clientid;
pub mod destroy_session;
pub mod exchange_id;
pub mod free_stateid;
pub mod get_dir_delegation;
pub mod getattr;
pub mod getfh;
pub mod io_advise;
pub mod link;
pub mod lock;
pub mod lockt;
pub mod locku;
pub mod lookup;
pub mod lookupp;
pub mod offload;
pub mod open;
pub mod open_downgrade;
pub mod putfh;
pub mod putrootfh;
pub mod read;
pub mod read_plus;
pub mod readdir;
pub mod readlink;
pub mod reclaim_complete;
pub mod remove;
pub mod rename;
pub mod restorefh;
pub mod savefh;
pub mod secinfo;
pub mod secinfo_no_name;
pub mod seek;
pub mod sequence;
pub mod set_ssv;
pub mod setattr;
pub mod test_stateid;
pub mod unsupported;
pub mod v40;
pub mod verify;
pub mod write;
pub mod xattr;
