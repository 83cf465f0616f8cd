//! Differences between stores with S3's protocol. They are handled below the client, which knows only AWS's form.
//!
//! - An object that may be made but not replaced is asked for in the store's own words ([`CreateWords`]).
//! - Keys that are no paths ([`keys`]) are put into requests and taken out of listings.
//! - Answers that no repetition changes are errors that name the cure: 501, and the bucket of another region.
//! - What AWS says of two creates at the same moment (409 `ConditionalRequestConflict`) is tried again, as AWS wants it
//!   ([`Conflicts`]).
//!
//! A request that was changed here is signed again.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use bytes::Bytes;
use dipper_store::chain::NotDone;
use object_store::aws::{AwsAuthorizer, AwsCredentialProvider};
use object_store::client::{HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService};

use super::google;
use super::keys;
use crate::error::{EngineError, Result as EngineResult};

/// The header that makes a store create an object only if it does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum CreateWords {
    /// `If-None-Match: *`, for AWS and most others.
    #[default]
    S3,
    /// Aliyun's `x-oss-forbid-overwrite: true`.
    Oss,
    /// Tencent's `x-cos-forbid-overwrite: true`.
    Cos,
    /// Google's `x-goog-if-generation-match: 0`.
    Gcs,
}

/// Suffixes of hosts, and the header of their stores.
const HOSTS: [(&str, CreateWords); 4] = [
    ("aliyuncs.com", CreateWords::Oss),
    ("myqcloud.com", CreateWords::Cos),
    ("tencentcos.cn", CreateWords::Cos),
    ("storage.googleapis.com", CreateWords::Gcs),
];

impl CreateWords {
    /// Returns the header that a property names.
    ///
    /// # Errors
    /// `Invalid` if `value` names none.
    pub(super) fn from_property(key: &str, value: &str) -> EngineResult<CreateWords> {
        Ok(match value.to_ascii_lowercase().as_str() {
            "s3" => CreateWords::S3,
            "oss" => CreateWords::Oss,
            "cos" => CreateWords::Cos,
            "gcs" => CreateWords::Gcs,
            _ => {
                return Err(EngineError::invalid(format!(
                    "property '{key}' = '{value}': expected s3 (If-None-Match), oss, cos or gcs"
                )));
            }
        })
    }

    /// Returns the header of the stores with this host.
    pub(super) fn of_host(host: &str) -> CreateWords {
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name).to_ascii_lowercase();
        HOSTS.iter().find(|(end, _)| name.ends_with(end)).map_or(CreateWords::S3, |(_, words)| *words)
    }

    fn header(self) -> (&'static str, &'static str) {
        match self {
            CreateWords::S3 => ("if-none-match", "*"),
            CreateWords::Oss => ("x-oss-forbid-overwrite", "true"),
            CreateWords::Cos => ("x-cos-forbid-overwrite", "true"),
            CreateWords::Gcs => ("x-goog-if-generation-match", "0"),
        }
    }
}

/// The dialect of one store.
#[derive(Debug, Default)]
pub(super) struct Dialect {
    pub(super) create: CreateWords,
    /// Region for which requests are signed.
    pub(super) region: String,
    /// Keys with which the client signs; set once the client has been made.
    pub(super) keys: OnceLock<AwsCredentialProvider>,
}

/// A service with a store's dialect on top.
#[derive(Debug)]
pub(super) struct Speaking<S> {
    pub(super) service: S,
    pub(super) dialect: Arc<Dialect>,
}

/// Makes an error that is not retried.
fn refused(e: impl std::error::Error + Send + Sync + 'static) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, e)
}

fn because(reason: String) -> HttpError {
    refused(std::io::Error::other(reason))
}

/// Sets path and query of a request.
fn with_address(request: &mut HttpRequest, path: &str, query: &str) -> Result<(), HttpError> {
    let uri = request.uri();
    let mut address = match (uri.scheme_str(), uri.authority()) {
        (Some(scheme), Some(authority)) => format!("{scheme}://{authority}{path}"),
        _ => path.to_string(),
    };
    if !query.is_empty() {
        address = format!("{address}?{query}");
    }
    *request.uri_mut() = address.parse().map_err(|e| because(format!("'{address}' is no address: {e}")))?;
    Ok(())
}

fn text<'a>(request: &'a HttpRequest, header: &str) -> Option<&'a str> {
    request.headers().get(header)?.to_str().ok()
}

impl Dialect {
    /// Signs a request again that was signed before and changed since. Requests to a public store are not signed.
    async fn sign(&self, request: &mut HttpRequest) -> Result<(), HttpError> {
        if text(request, "authorization").is_none() {
            return Ok(());
        }
        let keys = self.keys.get().ok_or_else(|| because("a request before its client was made".into()))?;
        let credential = keys.get_credential().await.map_err(refused)?;
        let digest = text(request, "x-amz-content-sha256").unwrap_or("UNSIGNED-PAYLOAD").to_string();
        if request.headers().contains_key(CreateWords::Gcs.header().0) {
            return google::sign(request, &credential, &digest).map_err(because);
        }
        let bytes = |hex: &str| -> Option<Vec<u8>> {
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok()).collect()
        };
        let hashed = bytes(&digest);
        AwsAuthorizer::new(&credential, "s3", &self.region)
            .with_sign_payload(hashed.is_some())
            .authorize(request, hashed.as_deref());
        Ok(())
    }
}

#[async_trait]
impl<S: HttpService> HttpService for Speaking<S> {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let dialect = &*self.dialect;
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let is_listing = request.method().as_str() == "GET" && query.split('&').any(|pair| pair == "list-type=2");
        let is_create = text(&request, "if-none-match") == Some("*");
        let asked = keys::in_request(path, query).map_err(because)?;
        let own_words = is_create && dialect.create != CreateWords::S3;
        if let Some((path, query)) = &asked {
            with_address(&mut request, path, query)?;
        }
        if own_words {
            let (name, value) = dialect.create.header();
            request.headers_mut().remove("if-none-match");
            let value = value.parse().map_err(|_| because(format!("'{value}' is no header")))?;
            request.headers_mut().insert(name, value);
        }
        if asked.is_some() || own_words {
            dialect.sign(&mut request).await?;
        }
        let endpoint = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        // A writer that used `a//b` through one of Hadoop's file systems has created `a/b`.
        let other = match (request.method().as_str(), is_listing, &asked) {
            ("GET" | "HEAD", false, Some((path, query))) => keys::collapsed(path).map(|path| (path, query.clone())),
            _ => None,
        };
        let again = other.is_some().then(|| request.clone());
        let mut answer = self.service.call(request).await?;
        if let (404, Some((path, query)), Some(mut request)) = (answer.status().as_u16(), other, again) {
            with_address(&mut request, &path, &query)?;
            dialect.sign(&mut request).await?;
            answer = self.service.call(request).await?;
        }
        self.heard(answer, &endpoint, is_listing, is_create).await
    }
}

impl<S: HttpService> Speaking<S> {
    async fn heard(
        &self,
        answer: HttpResponse,
        endpoint: &str,
        is_listing: bool,
        is_create: bool,
    ) -> Result<HttpResponse, HttpError> {
        let status = answer.status().as_u16();
        let told = answer.headers().get("x-amz-bucket-region").and_then(|region| region.to_str().ok());
        if let (301 | 307 | 400 | 403, Some(region)) = (status, told.filter(|region| *region != self.dialect.region)) {
            return Err(because(format!(
                "the bucket is in region '{region}' and was asked for in '{}'; set 'aws.s3.region' = '{region}' (AWS_REGION, \
                 DIPPER_S3_REGION), and the endpoint if one is given",
                self.dialect.region
            )));
        }
        match status {
            200 if is_listing => {
                let (parts, body) = answer.into_parts();
                let bytes = body.bytes().await?;
                let made = std::str::from_utf8(&bytes).ok().and_then(keys::in_listing).map(Bytes::from);
                Ok(HttpResponse::from_parts(parts, made.unwrap_or(bytes).into()))
            }
            501 => {
                let bytes = answer.into_body().bytes().await?;
                let xml = String::from_utf8_lossy(&bytes);
                let said = keys::element(&xml, "Message").or_else(|| keys::element(&xml, "Code")).unwrap_or_default();
                let what = match is_create {
                    false => format!("{endpoint} does not do this (501 {said})"),
                    true => {
                        let (name, value) = self.dialect.create.header();
                        format!(
                            "{endpoint} does not know '{name}: {value}' (501 {said}), by which an object is made only if there \
                             is none; name its words by 'aws.s3.create_if_absent' (DIPPER_S3_CREATE_IF_ABSENT): s3, oss, cos or gcs"
                        )
                    }
                };
                Err(refused(NotDone(what)))
            }
            _ => Ok(answer),
        }
    }
}

/// Answers of conflict that the client shall repeat, as answers that it repeats. It is next to the store, so that who counts
/// failed attempts counts these.
#[derive(Debug)]
pub(super) struct Conflicts<S> {
    pub(super) service: S,
}

#[async_trait]
impl<S: HttpService> HttpService for Conflicts<S> {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let words = [CreateWords::S3, CreateWords::Oss, CreateWords::Cos, CreateWords::Gcs].map(CreateWords::header);
        let is_create = words.iter().any(|(name, value)| text(&request, name) == Some(value));
        let answer = self.service.call(request).await?;
        if !is_create || answer.status().as_u16() != 409 {
            return Ok(answer);
        }
        let (mut parts, body) = answer.into_parts();
        let bytes = body.bytes().await?;
        let code = std::str::from_utf8(&bytes).ok().and_then(|xml| keys::element(xml, "Code"));
        if matches!(code.as_deref(), Some("ConditionalRequestConflict" | "OperationAborted")) {
            // The client repeats this one, and not the other.
            parts.status = 503u16.try_into().map_err(refused)?;
        }
        Ok(HttpResponse::from_parts(parts, bytes.into()))
    }
}

#[cfg(test)]
mod tests {
    use object_store::StaticCredentialProvider;
    use object_store::aws::AwsCredential;
    use parking_lot::Mutex;

    use super::*;

    /// A service that returns prepared answers and records the requests.
    #[derive(Debug, Default)]
    struct Told {
        answers: Mutex<Vec<(u16, &'static str)>>,
        asked: Mutex<Vec<HttpRequest>>,
    }

    #[async_trait]
    impl HttpService for Told {
        async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
            self.asked.lock().push(request);
            let (status, body) = self.answers.lock().remove(0);
            let mut response = HttpResponse::new(Bytes::from_static(body.as_bytes()).into());
            *response.status_mut() = status.try_into().unwrap();
            if status == 301 {
                response.headers_mut().insert("x-amz-bucket-region", "eu-west-1".parse().unwrap());
            }
            Ok(response)
        }
    }

    fn speaking(create: CreateWords, answers: &[(u16, &'static str)]) -> Speaking<Told> {
        let credential = AwsCredential { key_id: "K".into(), secret_key: "S".into(), token: Some("T".into()) };
        let keys: AwsCredentialProvider = Arc::new(StaticCredentialProvider::new(credential));
        let dialect = Dialect { create, region: "r".into(), keys: OnceLock::from(keys) };
        Speaking {
            service: Told { answers: Mutex::new(answers.to_vec()), asked: Mutex::default() },
            dialect: Arc::new(dialect),
        }
    }

    fn request(method: &str, address: &str, is_create: bool) -> HttpRequest {
        let mut request = HttpRequest::new(Bytes::new().into());
        *request.method_mut() = method.parse().unwrap();
        *request.uri_mut() = address.parse().unwrap();
        for (name, value) in [
            (
                "authorization",
                "AWS4-HMAC-SHA256 Credential=K/20240101/r/s3/aws4_request, SignedHeaders=host, Signature=0",
            ),
            ("x-amz-content-sha256", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ] {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        if is_create {
            request.headers_mut().insert("if-none-match", "*".parse().unwrap());
        }
        request
    }

    #[tokio::test]
    async fn creates_are_asked_for_in_the_words_of_the_store() {
        let address = "http://h/b/k";
        for words in [CreateWords::S3, CreateWords::Oss, CreateWords::Cos, CreateWords::Gcs] {
            let store = speaking(words, &[(200, ""), (200, "")]);
            store.call(request("PUT", address, true)).await.unwrap();
            store.call(request("PUT", address, false)).await.unwrap();
            let asked = store.service.asked.lock();
            let (name, value) = words.header();
            assert_eq!(text(&asked[0], name), Some(value));
            assert_eq!(text(&asked[0], "if-none-match").is_some(), words == CreateWords::S3);
            assert_eq!(text(&asked[1], name), None);
            let signature = text(&asked[0], "authorization").unwrap();
            assert_eq!(
                signature.contains(&format!(";{name}")) || signature.contains(&format!("={name}")),
                words != CreateWords::S3
            );
            assert_eq!(signature.starts_with("GOOG4-HMAC-SHA256 "), words == CreateWords::Gcs, "{signature}");
            // Google refuses requests with headers of both.
            assert_eq!(
                asked[0].headers().keys().any(|name| name.as_str().starts_with("x-amz-")),
                words != CreateWords::Gcs
            );
        }
        for (host, words) in [
            ("oss-cn-hangzhou.aliyuncs.com", CreateWords::Oss),
            ("b.cos.ap-beijing.myqcloud.com:443", CreateWords::Cos),
            ("Storage.GoogleAPIs.com", CreateWords::Gcs),
            ("127.0.0.1:9000", CreateWords::S3),
        ] {
            assert_eq!(CreateWords::of_host(host), words);
        }
    }

    #[tokio::test]
    async fn answers_that_stay_are_told_with_their_cure() {
        let ask = async |is_create, answer| {
            let store = speaking(CreateWords::S3, &[answer]);
            store.call(request("PUT", "http://h/b/k", is_create)).await
        };
        let e = ask(true, (501, "<Error><Code>NotImplemented</Code></Error>")).await.unwrap_err();
        assert!(
            e.kind() == HttpErrorKind::Unknown && e.to_string().contains("If-None-Match: *")
                || has(&e, "aws.s3.create_if_absent"),
            "{e:?}"
        );
        let e = ask(false, (501, "<Error><Message>no such thing</Message></Error>")).await.unwrap_err();
        assert!(has(&e, "h does not do this (501 no such thing)"), "{e:?}");
        let e = ask(false, (301, "")).await.unwrap_err();
        assert!(has(&e, "'aws.s3.region' = 'eu-west-1'"), "{e:?}");
    }

    #[tokio::test]
    async fn conflicts_of_creates_are_tried_again() {
        const AGAIN: &str = "<Code>ConditionalRequestConflict</Code>";
        for (words, code, status) in [
            (Some(CreateWords::S3), AGAIN, 503),
            (Some(CreateWords::Oss), AGAIN, 503),
            (Some(CreateWords::Gcs), "<Code>OperationAborted</Code>", 503),
            (Some(CreateWords::S3), "<Code>FileAlreadyExists</Code>", 409),
            (None, AGAIN, 409),
        ] {
            let speaking = speaking(words.unwrap_or_default(), &[(409, code)]);
            let store = Speaking { service: Conflicts { service: speaking.service }, dialect: speaking.dialect };
            let answer = store.call(request("PUT", "http://h/b/k", words.is_some())).await.unwrap();
            assert_eq!(answer.status().as_u16(), status, "{words:?} {code}");
            assert_eq!(answer.into_body().bytes().await.unwrap(), code);
        }
    }

    fn has(e: &HttpError, words: &str) -> bool {
        std::error::Error::source(e).is_some_and(|source| source.to_string().contains(words))
    }

    #[tokio::test]
    async fn keys_that_are_no_paths_are_asked_for() {
        let path = |key: &str| {
            let mut url = url::Url::parse("http://h/b").unwrap();
            url.path_segments_mut().unwrap().extend(keys::to_path(key).split('/'));
            url.to_string()
        };
        let store = speaking(CreateWords::S3, &[(404, ""), (200, "x")]);
        let answer = store.call(request("GET", &path("a//b"), false)).await.unwrap();
        assert_eq!(answer.status().as_u16(), 200);
        let asked: Vec<_> = store.service.asked.lock().iter().map(|r| r.uri().path().to_string()).collect();
        assert_eq!(asked, ["/b/a//b", "/b/a/b"]);
        let store = speaking(CreateWords::S3, &[(200, "<Key>a//b</Key>")]);
        let listed = store.call(request("GET", "http://h/b?list-type=2&prefix=a%2F", false)).await.unwrap();
        assert_eq!(listed.into_body().bytes().await.unwrap(), "<Key>a/\u{F02F}/b</Key>");
        let e = store.call(request("GET", &path("a/../b"), false)).await.unwrap_err();
        assert!(has(&e, "'b/a/../b'"), "{e:?}");
    }
}
