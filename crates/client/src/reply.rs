//! Reads the results of a COMPOUND.

use std::ops::Range;

use nfs4::{NfsOpnum4, NfsResop4, Nfsstat4, Sequence4Resok};
use xdr::{Decode, Decoder, Opaque};

use crate::error::{Error, ResultsError};

/// The results of a call within the record that carries them.
#[derive(Debug)]
pub struct Body {
    /// The record as received.
    pub record: Vec<u8>,
    /// The range of the results in the record.
    pub results: Range<usize>,
}

impl Body {
    /// Returns the encoded results.
    pub fn bytes(&self) -> &[u8] {
        self.record.get(self.results.clone()).unwrap_or_default()
    }
}

/// A reply to a COMPOUND whose SEQUENCE succeeded, if it had one.
#[derive(Debug)]
pub struct Reply {
    body: Body,
    /// Offset behind the result of SEQUENCE.
    rest_at: usize,
    count: u32,
    status: Nfsstat4,
    sequence: Option<Sequence4Resok>,
}

impl Reply {
    /// Reads the header, and the result of SEQUENCE if the COMPOUND belongs to a session.
    ///
    /// # Errors
    /// The status of SEQUENCE or of the whole COMPOUND, and malformed results.
    pub fn new(body: Body, in_session: bool) -> Result<Self, Error> {
        let mut decoder = Decoder::new(body.bytes());
        let status = Nfsstat4::decode(&mut decoder)?;
        Opaque::decode(&mut decoder)?;
        let count = decoder.u32()?;
        if count == 0 && status != Nfsstat4::NFS4_OK {
            return Err(Error::Compound(status));
        }
        let mut results = Results { decoder, count };
        let sequence = if in_session { Some(results.take(NfsOpnum4::OP_SEQUENCE)?) } else { None };
        let (rest_at, count) = (results.decoder.position(), results.count);
        Ok(Self { body, rest_at, count, status, sequence })
    }

    /// Returns the status of the COMPOUND: that of its last operation.
    pub const fn status(&self) -> Nfsstat4 {
        self.status
    }

    /// Returns the result of SEQUENCE.
    pub const fn sequence(&self) -> Option<&Sequence4Resok> {
        self.sequence.as_ref()
    }

    /// Returns the results behind that of SEQUENCE.
    pub fn results(&self) -> Results<'_> {
        let rest = self.body.bytes().get(self.rest_at..).unwrap_or_default();
        Results { decoder: Decoder::new(rest), count: self.count }
    }

    /// Returns the number of results behind that of SEQUENCE.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Returns the error of the failed operation, if one failed.
    ///
    /// # Errors
    /// [`Error::Nfs`], and malformed results.
    pub fn check(&self) -> Result<(), Error> {
        if self.status == Nfsstat4::NFS4_OK {
            return Ok(());
        }
        let mut results = self.results();
        let mut last = None;
        while let Some(result) = results.any()? {
            last = Some(result.discriminant());
        }
        match last {
            Some(operation) => Err(Error::Nfs { operation, status: self.status }),
            None => Err(Error::Compound(self.status)),
        }
    }

    /// Returns the received record, for reuse as a buffer.
    pub fn into_record(self) -> Vec<u8> {
        self.body.record
    }
}

/// The results of a COMPOUND, read in the order of the operations.
#[derive(Clone, Debug)]
pub struct Results<'a> {
    decoder: Decoder<'a>,
    count: u32,
}

impl<'a> Results<'a> {
    /// Skips the result of an operation that returns only a status.
    ///
    /// # Errors
    /// [`Error::Nfs`] if the operation failed, [`Error::Results`] if the next result belongs to
    /// another operation.
    pub fn done(&mut self, operation: NfsOpnum4) -> Result<&mut Self, Error> {
        if self.count == 0 {
            return Err(ResultsError::Missing(operation).into());
        }
        let found = self.decoder.u32()?;
        if found != operation as u32 {
            return Err(ResultsError::Operation { expected: operation, found }.into());
        }
        self.count -= 1;
        match self.decoder.value()? {
            Nfsstat4::NFS4_OK => Ok(self),
            status => Err(Error::Nfs { operation, status }),
        }
    }

    /// Reads the `resok` type of an operation, behind its status NFS4_OK.
    ///
    /// # Errors
    /// The same as [`Results::done`].
    pub fn take<T: Decode<'a>>(&mut self, operation: NfsOpnum4) -> Result<T, Error> {
        self.done(operation)?;
        Ok(self.decoder.value()?)
    }

    /// Reads the next result of any operation; `None` at the end.
    ///
    /// # Errors
    /// [`Error::Results`].
    pub fn any(&mut self) -> Result<Option<NfsResop4<'a>>, Error> {
        if self.count == 0 {
            return Ok(None);
        }
        self.count -= 1;
        Ok(Some(self.decoder.value()?))
    }
}

/// Reads the result of an operation that returns only a status.
pub(crate) fn nothing(results: &mut Results<'_>, operation: NfsOpnum4) -> Result<(), Error> {
    results.done(operation).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfs4::{Access4Res, Access4Resok, Compound4Res, Lookup4Res, Putfh4Res, Read4Resok};
    use xdr::{Encode as _, Encoder};

    fn reply(status: Nfsstat4, results: Vec<NfsResop4<'_>>) -> Result<Reply, Error> {
        let mut encoder = Encoder::from_vec(vec![1, 2, 3, 4]);
        Compound4Res { status, tag: b"tag"[..].into(), resarray: results }.encode(&mut encoder);
        let record = encoder.into_vec();
        let results = 4..record.len();
        Reply::new(Body { record, results }, false)
    }

    #[test]
    fn results_are_read_in_the_order_of_the_operations() {
        let access = Access4Resok { supported: 3, access: 1 };
        let reply = reply(
            Nfsstat4::NFS4_OK,
            vec![
                NfsResop4::OP_PUTFH(Putfh4Res { status: Nfsstat4::NFS4_OK }),
                NfsResop4::OP_ACCESS(Access4Res::NFS4_OK(access)),
            ],
        )
        .expect("well formed");
        let mut results = reply.results();
        results.done(NfsOpnum4::OP_PUTFH).expect("it succeeded");
        assert_eq!(results.take::<Access4Resok>(NfsOpnum4::OP_ACCESS).expect("it succeeded"), access);
        let missing = results.take::<Read4Resok>(NfsOpnum4::OP_READ);
        assert!(matches!(missing, Err(Error::Results(ResultsError::Missing(NfsOpnum4::OP_READ)))));
        assert!(reply.check().is_ok());
    }

    #[test]
    fn the_operation_that_failed_is_named() {
        // RFC 8881 section 16.2.3: operations behind the failed one are not executed
        let reply = reply(
            Nfsstat4::NFS4ERR_NOENT,
            vec![
                NfsResop4::OP_PUTFH(Putfh4Res { status: Nfsstat4::NFS4_OK }),
                NfsResop4::OP_LOOKUP(Lookup4Res { status: Nfsstat4::NFS4ERR_NOENT }),
            ],
        )
        .expect("well formed");
        let failed = reply.check().expect_err("LOOKUP failed");
        assert_eq!(failed.to_string(), "OP_LOOKUP: NFS4ERR_NOENT");
        let mut results = reply.results();
        let failed = results.done(NfsOpnum4::OP_PUTFH).and_then(|results| results.done(NfsOpnum4::OP_LOOKUP));
        assert!(failed.is_err_and(|error| error.is(Nfsstat4::NFS4ERR_NOENT)));
    }

    #[test]
    fn a_result_of_another_operation_is_not_taken_for_the_one_asked_for() {
        let status = Nfsstat4::NFS4_OK;
        let reply = reply(status, vec![NfsResop4::OP_PUTFH(Putfh4Res { status })]).expect("well formed");
        let wrong = reply.results().done(NfsOpnum4::OP_LOOKUP).map(drop);
        assert!(matches!(wrong, Err(Error::Results(ResultsError::Operation { found: 22, .. }))));
    }

    #[test]
    fn a_compound_that_failed_as_a_whole_has_no_results() {
        // RFC 8881 section 16.2.3
        let failed = reply(Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH, Vec::new());
        assert!(failed.is_err_and(|error| error.is(Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH)));
    }
}
