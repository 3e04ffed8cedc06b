//! Constants of the grammars that the hand-written part uses, until the generated module takes their place.
#![allow(missing_docs, non_camel_case_types)]

macro_rules! wire_enum {
    ($name:ident { $($variant:ident = $value:expr),* $(,)? }) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum $name { $($variant = $value),* }
        impl $name {
            pub const fn from_u32(value: u32) -> Option<Self> {
                match value { $($value => Some(Self::$variant),)* _ => None }
            }
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant)),* }
            }
        }
    };
}

wire_enum!(AuthFlavor { AUTH_NONE = 0, AUTH_SYS = 1, AUTH_SHORT = 2, AUTH_DH = 3, RPCSEC_GSS = 6 });
wire_enum!(MsgType { CALL = 0, REPLY = 1 });
wire_enum!(ReplyStat { MSG_ACCEPTED = 0, MSG_DENIED = 1 });
wire_enum!(AcceptStat {
    SUCCESS = 0, PROG_UNAVAIL = 1, PROG_MISMATCH = 2, PROC_UNAVAIL = 3, GARBAGE_ARGS = 4, SYSTEM_ERR = 5
});
wire_enum!(RejectStat { RPC_MISMATCH = 0, AUTH_ERROR = 1 });
wire_enum!(AuthStat {
    AUTH_OK = 0, AUTH_BADCRED = 1, AUTH_REJECTEDCRED = 2, AUTH_BADVERF = 3, AUTH_REJECTEDVERF = 4,
    AUTH_TOOWEAK = 5, AUTH_INVALIDRESP = 6, AUTH_FAILED = 7,
    RPCSEC_GSS_CREDPROBLEM = 13, RPCSEC_GSS_CTXPROBLEM = 14
});
wire_enum!(RpcGssProcT {
    RPCSEC_GSS_DATA = 0, RPCSEC_GSS_INIT = 1, RPCSEC_GSS_CONTINUE_INIT = 2, RPCSEC_GSS_DESTROY = 3
});
wire_enum!(RpcGssServiceT { rpc_gss_svc_none = 1, rpc_gss_svc_integrity = 2, rpc_gss_svc_privacy = 3 });
