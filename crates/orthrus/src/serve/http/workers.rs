//! Threads that compute answers which may wait for locks, files or lookups.

use std::sync::Arc;
use tokio::sync::Semaphore;

/// A bound on the threads that compute answers of one endpoint.
#[derive(Clone)]
pub(crate) struct Workers(Arc<Semaphore>);

/// The work for an answer has panicked.
#[derive(Debug)]
pub(crate) struct Defect;

impl Workers {
    /// Allows so many threads at once; further answers wait for their turn.
    pub(crate) fn new(threads_max: usize) -> Self {
        Self(Arc::new(Semaphore::new(threads_max)))
    }

    /// Runs work on a thread that may wait. It goes on if the connection closes meanwhile.
    ///
    /// # Errors
    /// When the work panics.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Defect> {
        let permit = self.0.clone().acquire_owned().await;
        let work = move || {
            let _permit = permit;
            work()
        };
        tokio::task::spawn_blocking(work).await.map_err(|error| {
            tracing::error!("a defect of the server in an HTTP answer: {error}");
            Defect
        })
    }
}
