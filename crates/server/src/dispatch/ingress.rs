//! Inbound protection: header MIC, window, body, for all calls of a tick as a batch.

use crate::call::{Job, Verdict};
use crate::metrics::{CryptoStep, ServedCounters};
use crate::rpcsec::paused_run;
use krb5::{Segments, TokenError, UnwrapMessage, VerifyMessage};
use rpc::gss::{IntegrityBody, RpcGssServiceT, integrity_body, privacy_body, protected_data};
use rpc::{Accepted, AuthStat, Denied};
use std::ops::Range;

/// Verifies the header MICs (RFC 2203 section 5.3.3.3). A call whose MIC is wrong is denied with
/// RPCSEC_GSS_CREDPROBLEM and leaves the window alone. Returns how many were wrong.
pub(super) fn verify_headers(jobs: &mut [Job], counters: &ServedCounters) -> u64 {
    let mut batch: Vec<VerifyMessage<'_>> = batch_for(jobs);
    batch.extend(jobs.iter().filter_map(header_message));
    if batch.is_empty() {
        return 0;
    }
    counters.batch(CryptoStep::VerifyHeaders, batch.len());
    krb5::verify_mic(&mut batch);
    if batch.iter().all(|message| message.result.is_ok()) {
        return 0;
    }
    let genuine: Vec<bool> = batch.into_iter().map(|message| message.result.is_ok()).collect();
    let mut failures = 0;
    let signed = jobs.iter_mut().filter(|job| header_message(job).is_some());
    for (job, _) in signed.zip(genuine).filter(|(_, genuine)| !genuine) {
        job.verdict = Verdict::Deny(Denied::Auth(AuthStat::RPCSEC_GSS_CREDPROBLEM));
        failures += 1;
    }
    failures
}

/// Reserves room for one message per job at once, since filters have no exact size hint.
fn batch_for<M>(jobs: &[Job]) -> Vec<M> {
    Vec::with_capacity(jobs.len())
}

/// Returns the header of each call that runs by a context. A range outside of its record is an
/// empty token, which is never genuine.
fn header_message(job: &Job) -> Option<VerifyMessage<'_>> {
    let call = job.runnable_gss()?;
    Some(VerifyMessage {
        keys: call.context.keys(),
        data: job.record.get(..call.signed_len).unwrap_or_default(),
        token: job.record.get(call.verifier.clone()).unwrap_or_default(),
        result: Err(TokenError::Malformed),
    })
}

/// Verifies the bodies with integrity in place; afterwards the arguments lie bare in their records.
/// A body that is not genuine, or whose sequence number is not the header's, is answered with
/// GARBAGE_ARGS (RFC 2203 section 5.3.3.4.2). Returns how many failed.
pub(super) fn verify_integrity(jobs: &mut [Job], counters: &ServedCounters, pause: &mut dyn FnMut()) -> u64 {
    if !jobs.iter().any(|job| job.expects_body(RpcGssServiceT::rpc_gss_svc_integrity)) {
        return 0;
    }
    let frames: Vec<Option<IntegrityBody>> = jobs.iter().map(integrity_frame).collect();
    let mut batch: Vec<VerifyMessage<'_>> = batch_for(jobs);
    batch.extend(jobs.iter().zip(&frames).filter_map(|(job, frame)| integrity_message(job, frame.as_ref()?)));
    counters.batch(CryptoStep::VerifyBodies, batch.len());
    krb5::verify_mic_with(&mut paused_run(pause), &mut batch);
    let mut genuine = batch.into_iter().map(|message| message.result.is_ok()).collect::<Vec<_>>().into_iter();
    let mut failures = 0;
    for (job, frame) in jobs.iter_mut().zip(frames) {
        if !job.expects_body(RpcGssServiceT::rpc_gss_svc_integrity) {
            continue;
        }
        match frame.filter(|_| genuine.next() == Some(true)) {
            Some(frame) => job.arguments = frame.data(),
            None => {
                job.verdict = Verdict::Refuse(Accepted::GarbageArgs);
                failures += 1;
            }
        }
    }
    failures
}

/// Returns the frame of a body with integrity if its sequence number is the header's.
fn integrity_frame(job: &Job) -> Option<IntegrityBody> {
    if !job.expects_body(RpcGssServiceT::rpc_gss_svc_integrity) {
        return None;
    }
    let (frame, sequence) = integrity_body(&job.record, job.arguments.start).ok()?;
    (sequence == job.runnable_gss()?.sequence).then_some(frame)
}

fn integrity_message<'a>(job: &'a Job, frame: &IntegrityBody) -> Option<VerifyMessage<'a>> {
    Some(VerifyMessage {
        keys: job.runnable_gss()?.context.keys(),
        data: job.record.get(frame.signed.clone()).unwrap_or_default(),
        token: job.record.get(frame.checksum.clone()).unwrap_or_default(),
        result: Err(TokenError::Malformed),
    })
}

/// Decrypts and verifies the bodies with privacy, as [`verify_integrity`] does with the others.
pub(super) fn decrypt(jobs: &mut [Job], counters: &ServedCounters, pause: &mut dyn FnMut()) -> u64 {
    let mut failures = 0;
    for job in jobs.iter_mut().filter(|job| job.expects_body(RpcGssServiceT::rpc_gss_svc_privacy)) {
        // From here on `arguments` is the range of the token; empty if there is none.
        job.arguments = privacy_body(&job.record, job.arguments.start).unwrap_or_default();
    }
    let mut batch: Vec<UnwrapMessage<'_>> = batch_for(jobs);
    batch.extend(jobs.iter_mut().filter_map(privacy_message));
    if batch.is_empty() {
        return failures;
    }
    counters.batch(CryptoStep::Decrypt, batch.len());
    krb5::unwrap_with(&mut paused_run(pause), &mut batch);
    let opened: Vec<_> = batch.into_iter().map(|message| message.result).collect();
    let sealed = jobs.iter_mut().filter(|job| job.expects_body(RpcGssServiceT::rpc_gss_svc_privacy));
    for (job, opened) in sealed.zip(opened) {
        // A token that is only signed is genuine, but does not match the service.
        let plain = opened.ok().filter(|opened| opened.sealed).map(|opened| opened.plain);
        let start = job.arguments.start;
        let content = plain.map(|plain| start + plain.start..start + plain.end);
        if content.and_then(|content| take_content(job, content)).is_none() {
            job.verdict = Verdict::Refuse(Accepted::GarbageArgs);
            failures += 1;
        }
    }
    failures
}

fn privacy_message(job: &mut Job) -> Option<UnwrapMessage<'_>> {
    if !job.expects_body(RpcGssServiceT::rpc_gss_svc_privacy) {
        return None;
    }
    let token = job.arguments.clone();
    let Job { record, auth, .. } = job;
    let keys = auth.gss()?.context.keys();
    let token = Segments::from(record.get_mut(token)?);
    Some(UnwrapMessage { keys, token, result: Err(TokenError::Malformed) })
}

fn take_content(job: &mut Job, content: Range<usize>) -> Option<()> {
    let (sequence, data) = protected_data(&job.record, content).ok()?;
    if sequence != job.auth.gss()?.sequence {
        return None;
    }
    job.arguments = data;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Auth;
    use crate::metrics::Metrics;
    use crate::rpcsec::{Accepted, Context, HANDLE_LEN, Handle, ReceivedGssCall};
    use identity::{Mapped, NoAccount};
    use krb5::{ContextKeys, Enctype, ProtocolKey, Role};
    use rpc::ConnectionId;
    use rpc::gss::RpcGssProcT;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn a_verifier_outside_of_its_record_is_a_forged_one() {
        let enctype = Enctype::Aes128CtsHmacSha1_96;
        let accepted = Accepted {
            token: Vec::new(),
            principal: "alice@TEST".to_owned(),
            delegated_through: Vec::new(),
            keys: ContextKeys::new(enctype, ProtocolKey::AcceptorSubkey(&[1; 16]), Role::Acceptor).unwrap(),
            lifetime: Duration::from_secs(60),
            send_sequence: 0,
        };
        let account = Mapped { identity: Err(NoAccount::Rule), machine: false };
        let handle = Handle::new([0; HANDLE_LEN]);
        let call = ReceivedGssCall {
            context: Arc::new(Context::new(handle, 1, accepted, account, 64, Duration::ZERO)),
            procedure: RpcGssProcT::RPCSEC_GSS_DATA,
            service: RpcGssServiceT::rpc_gss_svc_none,
            sequence: 1,
            signed_len: 8,
            verifier: 8..36,
        };
        let peer = "127.0.0.1:700".parse().unwrap();
        let job = Job::ended(ConnectionId(1), peer, vec![0; 16], 1, Verdict::Run);
        let (mut jobs, metrics) = ([Job { auth: Auth::Gss(call), ..job }], Metrics::default());
        assert_eq!(verify_headers(&mut jobs, metrics.served.shared()), 1);
        assert_ne!(jobs[0].verdict, Verdict::Run);
    }
}
