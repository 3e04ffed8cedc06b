//! Creates and destroys clients and sessions, over a connection without other calls in flight.

use std::time::Duration;

use nfs4::*;

use crate::compound::Compound;
use crate::error::Error;
use crate::options::{Options, StateProtection};
use crate::raw::RawConnection;
use crate::reply::{Reply, Results, nothing};
use crate::security::{CallbackContext, Head, Identity, random};

/// Room for everything besides the data in requests and replies, in bytes.
const OVERHEAD: u32 = 64 << 10;

/// The longest reply that the client asks the server to cache, in bytes.
const CACHED_RESPONSE_MAX: u32 = 8 << 10;

/// Operations per COMPOUND that the client requests, since a long path needs one LOOKUP per
/// component.
const OPERATIONS_MAX: u32 = 128;

/// Slots of the backchannel that the client offers.
pub(crate) const BACK_SLOTS: u32 = 4;

/// A session as the server granted it.
#[derive(Clone, Debug)]
pub struct Session {
    /// The client ID that EXCHANGE_ID returned.
    pub client_id: u64,
    /// The session ID that CREATE_SESSION returned.
    pub id: [u8; 16],
    /// Channel attributes of the fore channel.
    pub fore: ChannelAttrs4,
    /// `csr_flags` of CREATE_SESSION, as granted.
    pub flags: u32,
    /// `eir_flags` of EXCHANGE_ID, as returned.
    pub exchange_flags: u32,
    /// Whether the server agreed to SP4_MACH_CRED; each further connection then needs a bind.
    pub protected: bool,
    /// `eir_server_scope`, which clients compare to detect trunking.
    pub server_scope: Vec<u8>,
    /// `so_major_id` of the server owner.
    pub server_major_id: Vec<u8>,
    /// `so_minor_id` of the server owner.
    pub server_minor_id: u64,
    /// The context of callbacks by RPCSEC_GSS, if any.
    pub(crate) called_back_by: Option<CallbackContext>,
}

impl Session {
    /// Returns whether an answer to EXCHANGE_ID comes from the server of the session, which then
    /// accepts the session from there (session trunking, RFC 8881 section 2.10.5.1).
    pub fn trunks_with(&self, other: &ExchangeId4Resok<'_>) -> bool {
        let owner = &other.eir_server_owner;
        self.client_id == other.eir_clientid
            && self.server_scope == *other.eir_server_scope
            && self.server_major_id == *owner.so_major_id
            && self.server_minor_id == owner.so_minor_id
    }
}

/// The client owner (RFC 8881 section 2.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// `co_ownerid`, which identifies the client.
    pub id: Vec<u8>,
    /// `co_verifier`: new with each start of the client, which discards the previous instance's
    /// state.
    pub verifier: [u8; 8],
}

/// A connection and an identity for calls about the client and its session.
pub struct Control<'a> {
    /// The connection of the calls.
    pub connection: &'a mut RawConnection,
    /// The identity that makes the calls.
    pub(crate) identity: &'a mut Identity,
    /// The minor version of NFSv4.
    pub minor_version: u32,
    /// The time limit of each call.
    pub timeout: Duration,
}

impl<'a> Control<'a> {
    /// Makes calls on `connection`, as the options of a client say.
    pub(crate) fn new(
        options: &Options,
        identity: &'a mut Identity,
        connection: &'a mut RawConnection,
    ) -> Self {
        Self { connection, identity, minor_version: options.minor_version, timeout: options.call_timeout }
    }
}

impl Control<'_> {
    /// Calls a COMPOUND without a session. If the server does not know the context, establishes a
    /// new one, once.
    ///
    /// # Errors
    /// Any [`Error`] but that of a failed operation.
    pub fn call(&mut self, compound: Compound) -> Result<Reply, Error> {
        let arguments = compound.into_arguments();
        let unknown = match self.attempt(&arguments) {
            Err(error) if error.is_context_lost() => error,
            other => return other,
        };
        match self.identity.context().cloned() {
            Some(context) => self.identity.forget(&context),
            None => return Err(unknown),
        }
        self.attempt(&arguments)
    }

    fn attempt(&mut self, arguments: &[u8]) -> Result<Reply, Error> {
        if self.identity.needs_context() {
            self.identity.renew(self.connection, self.timeout)?;
        }
        let xid = u32::from_be_bytes(random()?);
        let head = Head::nfs(xid, NFSPROC4_COMPOUND, self.identity.state_protection()?);
        let body = head.call(self.connection, arguments, self.timeout)?;
        Reply::new(body, false)
    }

    fn one<T>(
        &mut self,
        operation: &NfsArgop4<'_>,
        read: impl FnOnce(&mut Results<'_>, NfsOpnum4) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut compound = Compound::sessionless(self.minor_version);
        compound.operation(operation);
        read(&mut self.call(compound)?.results(), operation.discriminant())
    }

    /// Calls EXCHANGE_ID (RFC 8881 section 18.35).
    pub fn exchange_id(
        &mut self,
        owner: &Owner,
        protection: StateProtection,
    ) -> Result<ExchangeId4Resok<'static>, Error> {
        let protect = match protection {
            StateProtection::None => StateProtect4A::SP4_NONE,
            StateProtection::MachineCredential => StateProtect4A::SP4_MACH_CRED(machine_operations()),
        };
        let arguments = ExchangeId4Args {
            eia_clientowner: ClientOwner4 {
                co_verifier: owner.verifier,
                co_ownerid: owner.id.as_slice().into(),
            },
            eia_flags: EXCHGID4_FLAG_SUPP_MOVED_REFER,
            eia_state_protect: protect,
            eia_client_impl_id: Vec::new(),
        };
        self.one(&NfsArgop4::OP_EXCHANGE_ID(arguments), |results, number| {
            Ok(results.take::<ExchangeId4Resok<'_>>(number)?.into_owned())
        })
    }

    /// Calls CREATE_SESSION (section 18.36) with `sequence` from EXCHANGE_ID or the previous
    /// session.
    pub fn create_session(
        &mut self,
        client_id: u64,
        sequence: u32,
        options: &Options,
    ) -> Result<CreateSession4Resok, Error> {
        self.create_session_with(client_id, sequence, options, vec![CallbackSecParms4::AUTH_NONE])
    }

    /// Calls CREATE_SESSION like [`Control::create_session`], with the security of callbacks.
    pub fn create_session_with(
        &mut self,
        client_id: u64,
        sequence: u32,
        options: &Options,
        csa_sec_parms: Vec<CallbackSecParms4<'_>>,
    ) -> Result<CreateSession4Resok, Error> {
        let (fore, back) = channels(options);
        let arguments = CreateSession4Args {
            csa_clientid: client_id,
            csa_sequence: sequence,
            csa_flags: if options.backchannel { CREATE_SESSION4_FLAG_CONN_BACK_CHAN } else { 0 },
            csa_fore_chan_attrs: fore,
            csa_back_chan_attrs: back,
            csa_cb_program: NFS4_CALLBACK,
            csa_sec_parms,
        };
        self.one(&NfsArgop4::OP_CREATE_SESSION(arguments), |results, number| results.take(number))
    }

    /// Calls BIND_CONN_TO_SESSION (section 18.34) for the channels in `direction`.
    pub fn bind(
        &mut self,
        session: &[u8; 16],
        direction: ChannelDirFromClient4,
    ) -> Result<BindConnToSession4Resok, Error> {
        let arguments = BindConnToSession4Args {
            bctsa_sessid: *session,
            bctsa_dir: direction,
            bctsa_use_conn_in_rdma_mode: false,
        };
        self.one(&NfsArgop4::OP_BIND_CONN_TO_SESSION(arguments), |results, number| results.take(number))
    }

    /// Calls DESTROY_SESSION (section 18.37).
    pub fn destroy_session(&mut self, session: &[u8; 16]) -> Result<(), Error> {
        let arguments = DestroySession4Args { dsa_sessionid: *session };
        self.one(&NfsArgop4::OP_DESTROY_SESSION(arguments), nothing)
    }

    /// Calls DESTROY_CLIENTID (section 18.50).
    pub fn destroy_client(&mut self, client_id: u64) -> Result<(), Error> {
        let arguments = DestroyClientid4Args { dca_clientid: client_id };
        self.one(&NfsArgop4::OP_DESTROY_CLIENTID(arguments), nothing)
    }

    /// Returns the context for callbacks: that of the preceding EXCHANGE_ID.
    fn callback_context(&self, options: &Options) -> Result<Option<CallbackContext>, Error> {
        match (options.callback_service, self.identity.context()) {
            (None, _) => Ok(None),
            (Some(_), None) => Err(Error::Misuse("callbacks by RPCSEC_GSS need a context")),
            (Some(service), Some(context)) => CallbackContext::new(context.clone(), service).map(Some),
        }
    }

    /// Calls EXCHANGE_ID and CREATE_SESSION.
    pub(crate) fn establish(&mut self, owner: &Owner, options: &Options) -> Result<Session, Error> {
        let client = self.exchange_id(owner, options.state_protection)?;
        let called_back_by = self.callback_context(options)?;
        let parms = called_back_by.as_ref().map_or(CallbackSecParms4::AUTH_NONE, CallbackContext::parms);
        let (clientid, sequenceid) = (client.eir_clientid, client.eir_sequenceid);
        let session = self.create_session_with(clientid, sequenceid, options, vec![parms])?;
        Ok(Session {
            client_id: client.eir_clientid,
            id: session.csr_sessionid,
            fore: session.csr_fore_chan_attrs,
            flags: session.csr_flags,
            exchange_flags: client.eir_flags,
            // A server may answer SP4_NONE to a request for more (section 18.35.3).
            protected: matches!(client.eir_state_protect, StateProtect4R::SP4_MACH_CRED(_)),
            server_scope: client.eir_server_scope.into_owned(),
            server_major_id: client.eir_server_owner.so_major_id.into_owned(),
            server_minor_id: client.eir_server_owner.so_minor_id,
            called_back_by,
        })
    }
}

/// Returns the operations that need the machine credential, and those that it also permits.
fn machine_operations() -> StateProtectOps4 {
    let set = |operations: &[NfsOpnum4]| {
        operations.iter().fold(Bitmap4::EMPTY, |set, operation| set.with(*operation as u32))
    };
    StateProtectOps4 {
        spo_must_enforce: set(&[
            NfsOpnum4::OP_BIND_CONN_TO_SESSION,
            NfsOpnum4::OP_EXCHANGE_ID,
            NfsOpnum4::OP_CREATE_SESSION,
            NfsOpnum4::OP_DESTROY_SESSION,
            NfsOpnum4::OP_DESTROY_CLIENTID,
        ]),
        spo_must_allow: set(&[
            NfsOpnum4::OP_CLOSE,
            NfsOpnum4::OP_OPEN_DOWNGRADE,
            NfsOpnum4::OP_LOCKU,
            NfsOpnum4::OP_DELEGRETURN,
            NfsOpnum4::OP_TEST_STATEID,
            NfsOpnum4::OP_FREE_STATEID,
        ]),
    }
}

fn channels(options: &Options) -> (ChannelAttrs4, ChannelAttrs4) {
    let record = options.io_size_max.saturating_add(OVERHEAD);
    let fore = ChannelAttrs4 {
        ca_headerpadsize: 0,
        ca_maxrequestsize: record,
        ca_maxresponsesize: record,
        ca_maxresponsesize_cached: CACHED_RESPONSE_MAX,
        ca_maxoperations: OPERATIONS_MAX,
        ca_maxrequests: options.slots_max,
        ca_rdma_ird: Vec::new(),
    };
    let back = ChannelAttrs4 {
        ca_maxrequestsize: 4096,
        ca_maxresponsesize: 4096,
        ca_maxresponsesize_cached: 0,
        ca_maxoperations: 2,
        ca_maxrequests: BACK_SLOTS,
        ..fore.clone()
    };
    (fore, back)
}

impl Owner {
    /// Returns the owner in `options`, or a random one.
    pub(crate) fn new(options: &Options) -> Result<Self, Error> {
        let id = match &options.owner {
            Some(id) => id.clone(),
            None => random::<16>()?.to_vec(),
        };
        Ok(Self { id, verifier: random()? })
    }
}
