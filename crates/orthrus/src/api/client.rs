//! The client of the API.

use super::{Problem, open_folder, socket_in};
use anyhow::{Context, anyhow, bail};
use form_urlencoded::Serializer;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the server may take for its answer: the longest wait for a lookup, and some more.
const REPLY_TIME_MAX: Duration = Duration::from_secs(40);
/// Bytes of an answer: a listing of 20,000 files with the longest paths has fewer.
const REPLY_SIZE_MAX: usize = 128 << 20;

/// The reason why the server has given no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// No server can be reached there.
    #[error("{0}")]
    NoServer(String),
    /// This user may not ask the server.
    #[error("{0}")]
    Denied(String),
    /// The server refuses the request.
    #[error("the server of {0}: {1}")]
    Refused(String, String),
    /// The server gives no answer, or none that this version understands.
    #[error(transparent)]
    NoAnswer(#[from] anyhow::Error),
}

/// The client of the server that has a state directory.
pub(crate) struct ApiClient {
    state_dir: PathBuf,
    /// How long the server may take for an answer.
    time_max: Duration,
}

impl ApiClient {
    /// Makes a client; it connects for each request.
    pub(crate) fn new(state_dir: &Path) -> Self {
        Self { state_dir: state_dir.to_owned(), time_max: REPLY_TIME_MAX }
    }

    /// Sets the longest wait for an answer.
    pub(crate) fn patient(self, time_max: Duration) -> Self {
        Self { time_max, ..self }
    }

    /// Asks for a report. Pairs of `query` without a value are left out.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub(crate) fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, Option<&str>)],
    ) -> Result<T, ApiError> {
        self.ask(Method::GET, &target(path, query), Vec::new())
    }

    /// Follows a report that has a JSON object in each line, until the server ends or `each` breaks
    /// off.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub(crate) fn follow<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, Option<&str>)],
        mut each: impl FnMut(T) -> ControlFlow<()>,
    ) -> Result<(), ApiError> {
        let (mut stream, place) = (self.connect()?, self.state_dir.display());
        let target = target(path, query);
        // An answer of HTTP/1.0 is what follows its head.
        let request = format!("GET {target} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).context("the request")?;
        stream.set_read_timeout(Some(REPLY_TIME_MAX)).context("the connection")?;
        let mut lines = BufReader::new(stream).lines();
        let mut next =
            || lines.next().transpose().with_context(|| format!("the server of {place} is silent"));
        let status = next()?.unwrap_or_default();
        while next()?.is_some_and(|line| !line.is_empty()) {}
        if status.split(' ').nth(1) != Some("200") {
            let body = next()?.unwrap_or_default();
            let why = serde_json::from_str(&body).map(|problem: Problem| problem.detail);
            return Err(ApiError::Refused(place.to_string(), why.unwrap_or(status)));
        }
        while let Some(line) = next()? {
            let line = serde_json::from_str(&line);
            let line = line.with_context(|| format!("the server of {place} has another version"))?;
            if each(line).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Asks for a change.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub(crate) fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, ApiError> {
        let body = serde_json::to_vec(body).context("the request")?;
        self.ask(Method::POST, path, body)
    }

    fn ask<T: DeserializeOwned>(&self, method: Method, target: &str, body: Vec<u8>) -> Result<T, ApiError> {
        let stream = self.connect()?;
        let place = self.state_dir.display();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("the program has no event loop")?;
        let exchange = exchange(stream, method, target, body);
        let timed = async { tokio::time::timeout(self.time_max, exchange).await };
        let (status, body) = match runtime.block_on(timed) {
            Ok(answer) => answer,
            Err(_) => Err(anyhow!("it took longer than {} s", self.time_max.as_secs())),
        }
        .with_context(|| format!("the server of {place} gave no answer"))?;
        if status.is_success() {
            let answer = serde_json::from_slice(&body);
            return Ok(answer.with_context(|| format!("the server of {place} has another version"))?);
        }
        let why = serde_json::from_slice(&body).map(|problem: Problem| problem.detail);
        Err(ApiError::Refused(place.to_string(), why.unwrap_or_else(|_| status.to_string())))
    }

    fn connect(&self) -> Result<UnixStream, ApiError> {
        let stream = open_folder(&self.state_dir).and_then(|folder| UnixStream::connect(socket_in(&folder)));
        stream.map_err(|error| unreachable(&self.state_dir, &error))
    }
}

/// Returns why the server of a state directory cannot be reached.
fn unreachable(state_dir: &Path, error: &io::Error) -> ApiError {
    let place = state_dir.display();
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            ApiError::NoServer(format!("no server runs in {place}"))
        }
        ErrorKind::PermissionDenied => ApiError::Denied(format!(
            "{place} is closed to this user: run the command as root or as the server's user"
        )),
        _ => ApiError::NoServer(format!("the server of {place} cannot be asked: {error}")),
    }
}

/// Returns a path with the pairs of a query that have a value.
fn target(path: &str, query: &[(&str, Option<&str>)]) -> String {
    let mut pairs = Serializer::new(String::new());
    query.iter().filter_map(|(key, value)| Some((key, (*value)?))).for_each(|(key, value)| {
        pairs.append_pair(key, value);
    });
    match pairs.finish() {
        none if none.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

/// Sends a request over a connection of its own, and returns the status and the body of the answer.
async fn exchange(
    stream: UnixStream,
    method: Method,
    target: &str,
    body: Vec<u8>,
) -> anyhow::Result<(StatusCode, Bytes)> {
    stream.set_nonblocking(true)?;
    let stream = tokio::net::UnixStream::from_std(stream)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::builder()
        .method(method)
        .uri(target)
        .header(HOST, "localhost")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))?;
    let answer = async move {
        let response = sender.send_request(request).await?;
        let status = response.status();
        match Limited::new(response.into_body(), REPLY_SIZE_MAX).collect().await {
            Ok(body) => Ok((status, body.to_bytes())),
            Err(error) => bail!("{error}"),
        }
    };
    match tokio::join!(answer, connection) {
        (Err(_), Err(cause)) => Err(cause.into()),
        (answer, _) => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_closed_to_the_user_is_no_sign_that_no_server_runs() {
        let error = |kind: ErrorKind| unreachable(Path::new("/st"), &kind.into());
        assert!(matches!(error(ErrorKind::NotFound), ApiError::NoServer(_)));
        let denied = error(ErrorKind::PermissionDenied);
        assert!(matches!(denied, ApiError::Denied(_)));
        assert!(denied.to_string().contains("as root or as the server's user"), "{denied}");
    }
}
