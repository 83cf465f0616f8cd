//! Requests to object storage with timeouts of their own, so that a hanging request is sent again while the client's
//! retries last.
//!
//! HTTP clients limit the duration of a whole request. Such a limit is too short for a large part on a slow line, or
//! too long for a small object. Here the answer may take [`Limits::answer`], plus the time that sending takes at
//! [`Limits::bytes_a_second`], and its body may pause for [`Limits::answer`]. Bodies are read completely here, so that
//! a failure counts as one of the request and is retried.
//!
//! If no request to a store that was reached before gets an answer, requests are retried until this has lasted 20
//! seconds; after that, further requests fail at once until the store is reached again. A store that was never reached
//! more likely has a wrong name, so its requests fail soon.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use dipper_base::retry::{self, Retry, Wait};
use dipper_cache::{DataCache, IoContext, IoStats};
use futures::TryStreamExt;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
    SpawnService,
};
use object_store::{BackoffConfig, ClientOptions, RetryConfig};
use parking_lot::Mutex;

use super::dialects::{Conflicts, Dialect, Speaking};

/// Timeouts of requests.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Time until the answer begins, and between two parts of its body.
    pub answer: Duration,
    /// Rate at which a sent body extends the timeout.
    pub bytes_a_second: u64,
}

impl Limits {
    /// The usual timeouts: 47 seconds for a part of 8 MiB, 15 for a small object.
    pub const USUAL: Limits = Limits { answer: Duration::from_secs(15), bytes_a_second: 256 << 10 };

    fn of(&self, sent: usize) -> Duration {
        self.answer + Duration::from_secs_f64(sent as f64 / self.bytes_a_second as f64)
    }
}

/// Returns the client's retries ([`retry::STORE_REQUEST`]).
pub fn retries() -> RetryConfig {
    let Retry { attempts, wait, .. } = retry::STORE_REQUEST;
    let Wait::Spread { first, most, factor } = wait else { unreachable!("the client spreads its waits") };
    RetryConfig {
        backoff: BackoffConfig { init_backoff: first, max_backoff: most, base: factor },
        max_retries: attempts as usize - 1,
        retry_timeout: retry::STORE_REQUEST_WITHIN,
    }
}

/// Makes HTTP clients whose requests run on a given runtime.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) io: tokio::runtime::Handle,
    /// The cache whose statistics count the requests.
    pub(super) cache: Arc<DataCache>,
    /// The dialect of the store.
    pub(super) dialect: Arc<Dialect>,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(&options.clone().with_timeout_disabled())?;
        let limited = Limited { client, limits: Limits::USUAL, reached: Arc::default() };
        let service = SpawnService::new(limited, self.io.clone());
        Ok(HttpClient::new(spoken(service, &self.cache, &self.dialect)))
    }
}

/// What is between the client and its requests: they are changed, counted, sent, and their answers changed.
fn spoken<S: HttpService>(
    service: S,
    cache: &Arc<DataCache>,
    dialect: &Arc<Dialect>,
) -> Speaking<Counting<Conflicts<S>>> {
    let service = Counting { service: Conflicts { service }, cache: Arc::clone(cache) };
    Speaking { service, dialect: Arc::clone(dialect) }
}

/// Counts what only the client sees: the pages of a listing behind its first, and attempts that it repeats. It runs in the task
/// of who asks, where the statement is known.
#[derive(Debug)]
struct Counting<S> {
    service: S,
    cache: Arc<DataCache>,
}

#[async_trait]
impl<S: HttpService> HttpService for Counting<S> {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let context = request.extensions().get::<Arc<IoContext>>().cloned().or_else(IoContext::current);
        let count = |f: fn(&IoStats)| {
            f(self.cache.io());
            if let Some(context) = &context {
                context.count(f);
            }
        };
        let query = request.uri().query().unwrap_or_default();
        if query.split('&').any(|pair| pair.starts_with("continuation-token=")) {
            count(|stats| {
                stats.lists.fetch_add(1, Ordering::Relaxed);
            });
        }
        let answer = self.service.call(request).await;
        let status = answer.as_ref().map(HttpResponse::status);
        if !status.is_ok_and(|status| !status.is_server_error() && status.as_u16() != 429) {
            count(|stats| {
                stats.failed_attempts.fetch_add(1, Ordering::Relaxed);
            });
        }
        answer
    }
}

/// The first and the last request without an answer since the last one with an answer.
#[derive(Debug)]
struct Down {
    first: Instant,
    last: Instant,
}

/// Whether a store can be reached.
#[derive(Debug)]
struct Reached {
    ever: AtomicBool,
    down: Mutex<Option<Down>>,
    /// How long a store that was never reached is tried.
    new_within: Duration,
    /// How long a store that was reached before is tried.
    known_within: Duration,
}

impl Default for Reached {
    fn default() -> Self {
        Reached {
            ever: AtomicBool::new(false),
            down: Mutex::new(None),
            new_within: retry::NEW_STORE_WITHIN,
            known_within: retry::KNOWN_STORE_WITHIN,
        }
    }
}

impl Reached {
    fn answered(&self) {
        self.ever.store(true, Ordering::Relaxed);
        *self.down.lock() = None;
    }

    /// Returns the error of a request that got no answer from this endpoint, and records that the endpoint is down from
    /// `began` on. The error is not retried if that is of no use.
    fn failed(&self, e: HttpError, began: Instant, endpoint: impl FnOnce() -> String) -> HttpError {
        // `Decode` means that there was an answer.
        if matches!(e.kind(), HttpErrorKind::Decode | HttpErrorKind::Unknown) {
            return e;
        }
        let ever = self.ever.load(Ordering::Relaxed);
        let within = if ever { self.known_within } else { self.new_within };
        let since = {
            let mut down = self.down.lock();
            // An old failure without later requests says nothing about the present.
            let down = down.get_or_insert(Down { first: began, last: began });
            if ever && down.last.elapsed() > within {
                down.first = began;
            }
            down.last = Instant::now();
            down.first.elapsed()
        };
        if since < within {
            return e;
        }
        let mut cause: &dyn Error = &e;
        while let Some(source) = cause.source() {
            cause = source;
        }
        let hint = if ever { format!("for {} s now", since.as_secs()) } else { "is the endpoint right?".to_string() };
        let message = format!("{} cannot be reached: {cause}; {hint}", endpoint());
        HttpError::new(HttpErrorKind::Unknown, std::io::Error::new(std::io::ErrorKind::NotConnected, message))
    }
}

#[derive(Debug, Clone)]
struct Limited {
    client: HttpClient,
    limits: Limits,
    reached: Arc<Reached>,
}

async fn within<T>(limit: Duration, work: impl Future<Output = Result<T, HttpError>>) -> Result<T, HttpError> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        let message = format!("the store did not go on within {limit:?}");
        Err(HttpError::new(HttpErrorKind::Timeout, std::io::Error::new(std::io::ErrorKind::TimedOut, message)))
    })
}

#[async_trait]
impl HttpService for Limited {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let has_body = request.method().as_str() != "HEAD";
        let limit = self.limits.of(request.body().content_length());
        let began = Instant::now();
        let uri = request.uri().clone();
        let endpoint = || match (uri.scheme_str(), uri.authority()) {
            (Some(scheme), Some(authority)) => format!("{scheme}://{authority}"),
            _ => uri.to_string(),
        };
        let response = within(limit, self.client.execute(request)).await.map_err(|e| {
            // A timeout says nothing of the time before, in which other requests may have been answered.
            let since = if e.kind() == HttpErrorKind::Timeout { Instant::now() } else { began };
            self.reached.failed(e, since, endpoint)
        })?;
        self.reached.answered();
        if !has_body {
            return Ok(response);
        }
        let size = response.headers().get("content-length").and_then(|v| v.to_str().ok()?.parse().ok());
        let (parts, body) = response.into_parts();
        let mut body = body.bytes_stream();
        let mut next = async || within(self.limits.answer, body.try_next()).await;
        let Some(first) = next().await? else { return Ok(HttpResponse::from_parts(parts, Bytes::new().into())) };
        let Some(second) = next().await? else { return Ok(HttpResponse::from_parts(parts, first.into())) };
        // Do not trust a claimed size that is huge.
        let mut all = BytesMut::with_capacity(size.unwrap_or(0usize).min(64 << 20).max(first.len() + second.len()));
        all.extend_from_slice(&first);
        all.extend_from_slice(&second);
        while let Some(more) = next().await? {
            all.extend_from_slice(&more);
        }
        Ok(HttpResponse::from_parts(parts, all.freeze().into()))
    }
}

#[cfg(test)]
mod tests {
    use dipper_cache::CacheOptions;

    use super::*;

    /// A service that answers after a delay.
    #[derive(Debug)]
    struct Slow(Duration);

    #[async_trait]
    impl HttpService for Slow {
        async fn call(&self, _: HttpRequest) -> Result<HttpResponse, HttpError> {
            tokio::time::sleep(self.0).await;
            Ok(HttpResponse::new(Bytes::from_static(b"done").into()))
        }
    }

    #[tokio::test]
    async fn the_time_for_an_answer_grows_with_what_is_sent() {
        let limits = Limits { answer: Duration::from_millis(20), bytes_a_second: 1000 };
        let client = HttpClient::new(Slow(Duration::from_millis(400)));
        let slow = Limited { client, limits, reached: Arc::default() };
        let e = slow.call(HttpRequest::new(Bytes::from_static(b"short").into())).await.unwrap_err();
        assert_eq!(e.kind(), HttpErrorKind::Timeout);
        assert!(Error::source(&e).unwrap().to_string().contains("within 25ms"));
        let long = slow.call(HttpRequest::new(vec![0; 5000].into())).await.unwrap();
        assert_eq!(long.into_body().bytes().await.unwrap(), "done");
    }

    /// A service that answers only while it is up.
    #[derive(Debug)]
    struct Refusing(Arc<AtomicBool>);

    #[async_trait]
    impl HttpService for Refusing {
        async fn call(&self, _: HttpRequest) -> Result<HttpResponse, HttpError> {
            match self.0.load(Ordering::Relaxed) {
                true => Ok(HttpResponse::new(Bytes::new().into())),
                false => Err(HttpError::new(HttpErrorKind::Connect, std::io::Error::other("connection refused"))),
            }
        }
    }

    #[tokio::test]
    async fn a_store_is_waited_for_so_long() {
        let up = Arc::new(AtomicBool::new(false));
        let limited = |new_within, known_within| Limited {
            client: HttpClient::new(Refusing(Arc::clone(&up))),
            limits: Limits::USUAL,
            reached: Arc::new(Reached { new_within, known_within, ..Reached::default() }),
        };
        let ask = async |store: &Limited| {
            let mut request = HttpRequest::new(Bytes::new().into());
            *request.uri_mut() = "http://store.example:9000/bucket/x".parse().unwrap();
            store.call(request).await
        };
        const KNOWN: Duration = Duration::from_millis(100);
        let wait = Duration::from_secs(60);
        let (patient, store, known) = (limited(wait, wait), limited(Duration::ZERO, wait), limited(wait, KNOWN));
        assert_eq!(ask(&patient).await.unwrap_err().kind(), HttpErrorKind::Connect);
        let e = ask(&store).await.unwrap_err();
        assert_eq!(e.kind(), HttpErrorKind::Unknown);
        assert!(e.to_string().contains("http://store.example:9000 cannot be reached: connection refused"), "{e}");
        for _ in 0..2 {
            up.store(true, Ordering::Relaxed);
            ask(&store).await.unwrap();
            ask(&known).await.unwrap();
            up.store(false, Ordering::Relaxed);
            assert_eq!(ask(&store).await.unwrap_err().kind(), HttpErrorKind::Connect, "it is waited for");
            assert_eq!(ask(&known).await.unwrap_err().kind(), HttpErrorKind::Connect, "so is this one");
            let began = Instant::now();
            let e = loop {
                match ask(&known).await.unwrap_err() {
                    e if e.kind() == HttpErrorKind::Unknown => break e,
                    _ => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            };
            assert!(began.elapsed() > KNOWN / 2 && e.to_string().contains("connection refused; for "), "{e}");
            tokio::time::sleep(KNOWN * 2).await;
            assert_eq!(ask(&known).await.unwrap_err().kind(), HttpErrorKind::Connect, "nobody asked meanwhile");
        }
    }

    #[tokio::test]
    async fn pages_and_failed_attempts_are_counted() {
        let up = Arc::new(AtomicBool::new(true));
        let cache = DataCache::open(&CacheOptions::default());
        let service = Counting { service: Refusing(Arc::clone(&up)), cache: Arc::clone(&cache) };
        let context = Arc::new(IoContext::default());
        let ask = async |query: &str| {
            let mut request = HttpRequest::new(Bytes::new().into());
            *request.uri_mut() = format!("http://store.example/bucket?{query}").parse().unwrap();
            drop(context.scope(service.call(request)).await);
        };
        ask("list-type=2&prefix=t%2F").await;
        ask("continuation-token=abc&list-type=2").await;
        up.store(false, Ordering::Relaxed);
        ask("list-type=2").await;
        for counts in [cache.io().counts(), context.stats.counts()] {
            assert_eq!((counts.lists, counts.failed_attempts), (1, 1), "the first page counts where it is asked for");
        }
    }

    /// Answers 409 with a code.
    #[derive(Debug)]
    struct Conflicting(&'static str);

    #[async_trait]
    impl HttpService for Conflicting {
        async fn call(&self, _: HttpRequest) -> Result<HttpResponse, HttpError> {
            let mut answer = HttpResponse::new(Bytes::from_static(self.0.as_bytes()).into());
            *answer.status_mut() = 409u16.try_into().unwrap();
            Ok(answer)
        }
    }

    #[tokio::test]
    async fn creates_that_meet_each_other_are_failed_attempts() {
        for (code, status, failed) in
            [("<Code>ConditionalRequestConflict</Code>", 503, 1), ("<Code>FileAlreadyExists</Code>", 409, 0)]
        {
            let cache = DataCache::open(&CacheOptions::default());
            let service = spoken(Conflicting(code), &cache, &Arc::default());
            let mut request = HttpRequest::new(Bytes::new().into());
            *request.method_mut() = "PUT".parse().unwrap();
            *request.uri_mut() = "http://store.example/bucket/x".parse().unwrap();
            request.headers_mut().insert("if-none-match", "*".parse().unwrap());
            let answer = service.call(request).await.unwrap();
            assert_eq!((answer.status().as_u16(), cache.io().counts().failed_attempts), (status, failed), "{code}");
        }
    }

    #[test]
    fn a_part_is_tried_again() {
        let part = Limits::USUAL.of(dipper_store::upload::PART_BYTES);
        assert!(part * 2 < retries().retry_timeout && part > Limits::USUAL.answer * 3);
    }
}
