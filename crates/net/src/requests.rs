//! Requests that have arrived on the connections of a shard and are not served yet.

use crate::Request;

/// Requests for which a queue keeps room.
const REQUESTS_KEPT_MAX: usize = 4096;

/// Requests in the order of their arrival.
#[derive(Debug, Default)]
pub(crate) struct RequestQueue {
    requests: Vec<Request>,
    /// Memory of `requests` in bytes.
    bytes: usize,
}

impl RequestQueue {
    pub(crate) fn push(&mut self, request: Request) {
        self.bytes += memory_of(&request.record);
        self.requests.push(request);
    }

    /// Returns the number of requests.
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns the memory of the requests, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes all requests; [`RequestQueue::reuse`] returns the memory of the list.
    pub(crate) fn take(&mut self) -> Vec<Request> {
        self.bytes = 0;
        std::mem::take(&mut self.requests)
    }

    /// Reuses the memory of a list of requests, unless others have arrived meanwhile.
    pub(crate) fn reuse(&mut self, mut taken: Vec<Request>) {
        if self.requests.is_empty() {
            taken.clear();
            taken.shrink_to(REQUESTS_KEPT_MAX);
            self.requests = taken;
        }
    }
}

/// Returns the memory of a waiting request, in bytes.
pub(crate) fn memory_of(record: &Vec<u8>) -> usize {
    record.capacity() + size_of::<Request>()
}
