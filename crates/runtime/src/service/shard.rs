//! The service as a shard calls it: ticks, and the steps of deferred calls.

use super::runner::{Deferred, ServiceTask};
use super::{NfsService, Suspended};
use crate::lane_times::{LanePace, StepKind};
use crate::{Executor, TaskPool};
use net::{Action, CompletionEvent, CompletionSender, Reply, Request, Service, WeightedTenant};
use pipes::Attachment;
use rpc::ConnectionId;
use server::dispatch::{self, CompletedCall, DeferredCall, ReplySink, Scratch};
use server::engine::CommitKey;
use server::metrics::Kind;
use server::tenants::TenantShare;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// A step of a deferred call, for the thread of a shard.
pub struct CallStep(ServiceTask);

impl CallStep {
    /// Returns the lane of the file system that the step waits for.
    fn lane(&self) -> u32 {
        match &self.0 {
            ServiceTask::Execute(deferred) => deferred.call.lane(),
            ServiceTask::Sync(key) | ServiceTask::Answer(key, ..) => key.lane(),
        }
    }

    fn kind(&self) -> StepKind {
        match &self.0 {
            ServiceTask::Execute(_) => StepKind::Change,
            ServiceTask::Sync(_) | ServiceTask::Answer(..) => StepKind::Sync,
        }
    }
}

/// Memory that one shard keeps from tick to tick.
pub struct ShardMemory {
    scratch: Scratch,
    /// Steps that the tick has left for the shard's own thread.
    steps: Vec<CallStep>,
    sink: CompletionSender<CompletedCall>,
}

impl<E: Executor> Service for NfsService<E> {
    type Shard = ShardMemory;
    type Completed = CompletedCall;
    type Step = CallStep;

    fn shard(&self, sink: &CompletionSender<CompletedCall>, operation: &Arc<AtomicU32>) -> ShardMemory {
        ShardMemory { scratch: Scratch::reporting(operation), steps: Vec::new(), sink: sink.clone() }
    }

    fn operation_name(&self, operation: u32) -> &'static str {
        dispatch::operation_name(operation)
    }

    fn note_wakeup(&self, shard: &mut ShardMemory, at: Instant) {
        if self.real_time {
            shard.scratch.arrived(self.server().now().saturating_sub(at.elapsed()));
        }
    }

    fn tick(
        &self,
        shard: &mut ShardMemory,
        requests: &mut Vec<Request>,
        completions: &mut Vec<CompletionEvent<CompletedCall>>,
        replies: &mut Vec<Reply>,
        pause: &mut dyn FnMut(&mut Vec<Reply>) -> Duration,
    ) {
        if self.is_silent() {
            let arrived = requests.drain(..).map(|request| request.connection);
            let closed = arrived.chain(completions.drain(..).map(|completion| completion.connection));
            return replies.extend(closed.map(|connection| Reply {
                connection,
                action: Action::Close,
                class: Kind::Other.number(),
            }));
        }
        let (ShardMemory { scratch, steps, sink }, server) = (shard, self.server());
        // Overload reduces the slots of sessions instead of refusing calls.
        server.engine().set_overloaded(self.disk.is_crowded());
        completions.drain(..).for_each(|completion| server.take_completed(scratch, completion.item));
        let arrived = requests.drain(..).map(|request| (request.connection, request.peer, request.record));
        let mut sink = TickSink { service: self, completions: sink, steps, replies, pause };
        server.tick(scratch, arrived, &mut sink);
    }

    fn take_steps(&self, shard: &mut ShardMemory, steps: &mut VecDeque<CallStep>) {
        steps.extend(shard.steps.drain(..));
    }

    fn is_brief(&self, step: &CallStep, alone: bool) -> bool {
        if let CallStep(ServiceTask::Sync(CommitKey::Removals | CommitKey::Puts)) = step {
            return false;
        }
        match self.pace(step.lane(), step.kind()) {
            LanePace::Brief => true,
            LanePace::Moderate => alone,
            LanePace::Slow => false,
        }
    }

    fn run_step(&self, step: CallStep) -> Option<CallStep> {
        let (lane, kind, began) = (step.lane(), step.kind(), self.server().now());
        self.lanes.begin(lane, kind, began);
        let mut next = self.runner.step(step.0);
        // Other calls of the tick join the group before it is synchronised.
        while let Some(task) = next.take_if(|_| kind == StepKind::Sync) {
            next = self.runner.step(task);
        }
        self.lanes.end(lane, kind, began, self.server().now());
        next.map(CallStep)
    }

    fn connection(&self, step: &CallStep) -> Option<ConnectionId> {
        if let CallStep(ServiceTask::Execute(deferred)) = step {
            Some(deferred.call.connection())
        } else {
            None
        }
    }

    fn hand_over(&self, step: CallStep) -> Result<(), CallStep> {
        match step {
            CallStep(ServiceTask::Execute(deferred)) => {
                self.submit_or_decline(deferred);
                Ok(())
            }
            // A group must get its answer, so there is nothing to decline.
            step => {
                let lane = step.lane();
                self.disk.submit(lane, self.weight(lane), step.0, 0).map_err(CallStep)
            }
        }
    }

    fn closed(&self, connection: ConnectionId) {
        self.server().closed(connection);
    }
}

/// The reply sink of one tick of a shard.
struct TickSink<'t, E: Executor> {
    service: &'t NfsService<E>,
    /// The sender of the deferred calls of the tick.
    completions: &'t CompletionSender<CompletedCall>,
    steps: &'t mut Vec<CallStep>,
    replies: &'t mut Vec<Reply>,
    pause: &'t mut dyn FnMut(&mut Vec<Reply>) -> Duration,
}

impl<E: Executor> TickSink<'_, E> {
    fn push(&mut self, connection: ConnectionId, action: Action, kind: Kind) {
        self.replies.push(Reply { connection, action, class: kind.number() });
    }
}

impl<E: Executor> ReplySink<Suspended> for TickSink<'_, E> {
    fn reply(&mut self, connection: ConnectionId, action: dispatch::Action) {
        let action = match action {
            dispatch::Action::Send(record) => Action::Send(record),
            dispatch::Action::Close => Action::Close,
        };
        self.push(connection, action, Kind::Other);
    }

    fn send(&mut self, connection: ConnectionId, kind: Kind, record: Vec<u8>) {
        self.push(connection, Action::Send(record), kind);
    }

    fn send_attached(&mut self, connection: ConnectionId, kind: Kind, record: Vec<u8>, data: Attachment) {
        self.push(connection, Action::SendAttached(record, data), kind);
    }

    fn vouch(&mut self, connection: ConnectionId, TenantShare { id, weight }: TenantShare) {
        self.push(connection, Action::Trust(WeightedTenant { id, weight }), Kind::Other);
    }

    fn throttle(&mut self, connection: ConnectionId, time: Duration) {
        self.push(connection, Action::Pause(time), Kind::Other);
    }

    fn note_expensive(&mut self, connection: ConnectionId) {
        self.push(connection, Action::Yield, Kind::Other);
    }

    fn pause(&mut self) -> Duration {
        (self.pause)(self.replies)
    }

    fn can_defer(&self) -> bool {
        true
    }

    fn defer(&mut self, call: DeferredCall<Suspended>) -> Result<(), DeferredCall<Suspended>> {
        let (connection, held) = (call.connection(), call.held());
        let brief = call.is_brief() && self.service.pace(call.lane(), StepKind::Change) != LanePace::Slow;
        let flight = self.service.runner.flights.begin();
        let deferred = Deferred { call, sink: self.completions.clone(), held, flight };
        if brief {
            self.steps.push(CallStep(ServiceTask::Execute(deferred)));
        } else {
            self.service.defer(deferred).map_err(|deferred| deferred.call)?;
        }
        self.push(connection, Action::Defer(held), Kind::Other);
        Ok(())
    }
}
