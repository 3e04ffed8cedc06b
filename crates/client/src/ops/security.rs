//! The operations SECINFO and SECINFO_NO_NAME.

use nfs4::*;

use crate::client::Client;
use crate::error::Error;
use crate::options::Flavor;
use crate::reply::Results;

/// The Kerberos mechanism, 1.2.840.113554.1.2.2, as DER without tag and length (RFC 8881 section
/// 2.2.1.1.1.2.1).
const KERBEROS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02];

/// The same with tag and length, as some servers send it.
const KERBEROS_DER: &[u8] = &[0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02];

impl Client {
    /// Returns the security flavors for `name` in a directory, in the server's order of preference.
    pub fn secinfo(&mut self, directory: &[u8], name: &[u8]) -> Result<Vec<Secinfo4<'static>>, Error> {
        self.on(directory, &NfsArgop4::OP_SECINFO(Secinfo4Args { name: name.into() }), flavors)
    }

    /// Returns the security flavors for a filehandle or its parent.
    pub fn secinfo_no_name(
        &mut self,
        handle: &[u8],
        style: SecinfoStyle4,
    ) -> Result<Vec<Secinfo4<'static>>, Error> {
        self.on(handle, &NfsArgop4::OP_SECINFO_NO_NAME(style), flavors)
    }
}

fn flavors(results: &mut Results<'_>, number: NfsOpnum4) -> Result<Vec<Secinfo4<'static>>, Error> {
    Ok(results.take::<Vec<Secinfo4<'_>>>(number)?.into_iter().map(Secinfo4::into_owned).collect())
}

/// Returns the flavor of a SECINFO entry; `None` if this client does not support it.
pub fn flavor_of(entry: &Secinfo4<'_>) -> Option<Flavor> {
    match entry {
        Secinfo4::RPCSEC_GSS(info) if *info.oid == *KERBEROS || *info.oid == *KERBEROS_DER => {
            Some(match info.service {
                RpcGssSvcT::RPC_GSS_SVC_NONE => Flavor::Krb5,
                RpcGssSvcT::RPC_GSS_SVC_INTEGRITY => Flavor::Krb5i,
                RpcGssSvcT::RPC_GSS_SVC_PRIVACY => Flavor::Krb5p,
            })
        }
        Secinfo4::RPCSEC_GSS(_) => None,
        Secinfo4::Default(flavor) => (*flavor == AUTH_SYS).then_some(Flavor::Sys),
    }
}
