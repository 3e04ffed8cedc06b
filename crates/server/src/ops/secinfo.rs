//! SECINFO (RFC 8881 section 18.29).

use crate::engine::{Compound, OpResult, names};
use nfs4::RpcGssSvcT;
use vfs::SecFlavor;
use xdr::{Decoder, Encoder};

/// The object identifier of Kerberos 5, 1.2.840.113554.1.2.2, without the tag and length of DER.
/// Clients compare this form.
const KRB5_OID: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02];
/// Quality of protection: Kerberos has only the default.
const QOP_DEFAULT: u32 = 0;

/// Returns the flavors for a name in the current directory, and consumes the current filehandle.
///
/// # Errors
/// As LOOKUP, without NFS4ERR_WRONGSEC.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let name = names::component(args.opaque(usize::MAX)?)?;
    let child = c.lookup(c.fh()?, name)?;
    encode_flavors(&c.flavors(&child)?, reply);
    c.progress.current = None;
    c.progress.stateid = None;
    Ok(())
}

/// Encodes SECINFO4resok. The client uses the first flavor that it supports.
pub fn encode_flavors(flavors: &[SecFlavor], reply: &mut Encoder) {
    reply.array_len(flavors.len());
    for flavor in flavors {
        let service = match flavor {
            SecFlavor::Sys => {
                reply.u32(nfs4::AUTH_SYS);
                continue;
            }
            SecFlavor::Krb5 => RpcGssSvcT::RPC_GSS_SVC_NONE,
            SecFlavor::Krb5i => RpcGssSvcT::RPC_GSS_SVC_INTEGRITY,
            SecFlavor::Krb5p => RpcGssSvcT::RPC_GSS_SVC_PRIVACY,
        };
        reply.u32(nfs4::RPCSEC_GSS).opaque(&KRB5_OID).u32(QOP_DEFAULT).u32(service as u32);
    }
}
