//! Credentials and verifiers: the frame (RFC 5531 section 8.2) and AUTH_SYS (RFC 5531 appendix A).

use crate::generated::{AuthFlavor, OPAQUE_AUTH_BODY_MAX};
use xdr::{Decode, Decoder, Encode, Encoder, Error};

/// The most bytes in the body of a credential or verifier (RFC 5531 section 8.2).
pub const OPAQUE_AUTH_MAX: usize = OPAQUE_AUTH_BODY_MAX as usize;

/// The most supplementary groups in an AUTH_SYS credential (RFC 5531 appendix A).
pub const AUTH_SYS_GIDS_MAX: usize = 16;

/// The longest machine name in an AUTH_SYS credential, in bytes (RFC 5531 appendix A).
pub const MACHINE_NAME_MAX: usize = 255;

/// A credential or verifier as it stands in a message.
///
/// The flavor is a plain number: a peer can send any value, and an unknown flavor is answered with
/// AUTH_BADCRED instead of a decoding error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpaqueAuth<'a> {
    /// Flavor number, known or unknown.
    pub flavor: u32,
    /// Body, whose format depends on the flavor; at most [`OPAQUE_AUTH_MAX`] bytes.
    pub body: &'a [u8],
}

impl<'a> OpaqueAuth<'a> {
    /// AUTH_NONE: no body (RFC 5531 section 10.1).
    pub const NONE: OpaqueAuth<'static> = OpaqueAuth { flavor: AuthFlavor::AUTH_NONE as u32, body: &[] };

    /// Makes an AUTH_SYS credential from an encoded [`AuthSys`].
    pub const fn sys(body: &'a [u8]) -> Self {
        Self { flavor: AuthFlavor::AUTH_SYS as u32, body }
    }

    /// Makes an RPCSEC_GSS credential or its verifier.
    pub const fn gss(body: &'a [u8]) -> Self {
        Self { flavor: AuthFlavor::RPCSEC_GSS as u32, body }
    }

    /// Returns the flavor if RFC 5531 or RFC 2203 defines its number.
    pub const fn known_flavor(&self) -> Option<AuthFlavor> {
        AuthFlavor::from_u32(self.flavor)
    }
}

impl Encode for OpaqueAuth<'_> {
    fn encode(&self, encoder: &mut Encoder) {
        encoder.u32(self.flavor).opaque(self.body);
    }
}

impl<'a> Decode<'a> for OpaqueAuth<'a> {
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self, Error> {
        Ok(Self { flavor: decoder.u32()?, body: decoder.opaque(OPAQUE_AUTH_MAX)? })
    }
}

/// The body of an AUTH_SYS credential (`authsys_parms`, RFC 5531 appendix A).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthSys<'a> {
    /// Arbitrary number that the caller chose.
    pub stamp: u32,
    /// Machine name as the caller claims it; it is not authenticated.
    pub machine_name: &'a [u8],
    /// Effective user ID of the caller.
    pub uid: u32,
    /// Effective group ID of the caller.
    pub gid: u32,
    gids: [u32; AUTH_SYS_GIDS_MAX],
    gids_len: usize,
}

impl<'a> AuthSys<'a> {
    /// Makes a credential. Drops groups beyond the 16th and truncates the name to 255 bytes.
    pub fn new(stamp: u32, machine_name: &'a [u8], uid: u32, gid: u32, gids: &[u32]) -> Self {
        let mut kept = [0; AUTH_SYS_GIDS_MAX];
        for (place, group) in kept.iter_mut().zip(gids) {
            *place = *group;
        }
        let machine_name = machine_name.get(..MACHINE_NAME_MAX).unwrap_or(machine_name);
        Self { stamp, machine_name, uid, gid, gids: kept, gids_len: gids.len().min(AUTH_SYS_GIDS_MAX) }
    }

    /// Returns the supplementary groups, at most [`AUTH_SYS_GIDS_MAX`].
    pub fn gids(&self) -> &[u32] {
        self.gids.get(..self.gids_len).unwrap_or_default()
    }

    /// Decodes the body of a credential. Bytes behind it are an error.
    ///
    /// # Errors
    /// Any [`Error`]; answer the call with AUTH_BADCRED.
    pub fn parse(body: &'a [u8]) -> Result<Self, Error> {
        let mut decoder = Decoder::new(body);
        let value = Self::decode(&mut decoder)?;
        decoder.finish()?;
        Ok(value)
    }
}

impl<'a> Decode<'a> for AuthSys<'a> {
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self, Error> {
        let stamp = decoder.u32()?;
        let machine_name = decoder.opaque(MACHINE_NAME_MAX)?;
        let (uid, gid) = (decoder.u32()?, decoder.u32()?);
        let gids_len = decoder.array_len(AUTH_SYS_GIDS_MAX)?;
        let mut gids = [0; AUTH_SYS_GIDS_MAX];
        for place in gids.iter_mut().take(gids_len) {
            *place = decoder.u32()?;
        }
        Ok(Self { stamp, machine_name, uid, gid, gids, gids_len })
    }
}

impl Encode for AuthSys<'_> {
    fn encode(&self, encoder: &mut Encoder) {
        encoder.u32(self.stamp).opaque(self.machine_name).u32(self.uid).u32(self.gid).array(self.gids());
    }
}
