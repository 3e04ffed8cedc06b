//! RPCSEC_GSS messages (RFC 2203): credentials, context creation, and protected bodies.

mod body;
mod credential;
mod init;

pub use crate::generated::{RPCSEC_GSS_VERS_1, RpcGssProcT, RpcGssServiceT};
pub use body::{
    IntegrityBody, SEQUENCE_LEN, begin_body, end_body, integrity_body, privacy_body, protected_data,
};
pub use credential::{CredentialError, GssCredential, HANDLE_MAX};
pub use init::{GSS_S_COMPLETE, GSS_S_FAILURE, InitRes, TOKEN_SIZE_MAX, init_argument};
