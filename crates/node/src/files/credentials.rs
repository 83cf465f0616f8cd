//! Keys that expire: those of an AWS profile, whose files others rewrite, of a program, and of assumed roles.
//!
//! The files of a profile are checked before each request (two system calls) and read again if they changed, so that
//! keys that a script renews are used at once. Keys that expire are replaced before; if that fails, they are used until
//! they expire.

use std::fmt;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use dipper_base::retry::{self, Attempts};
use dipper_store::attempts::again;
use futures::future::BoxFuture;
use object_store::CredentialProvider;
use object_store::aws::{AwsAuthorizer, AwsCredential, AwsCredentialProvider};
use object_store::client::{HttpClient, HttpRequest};
use tokio::sync::Mutex;

use super::aws_profile::{KeySource, ProfileFiles, Stamp};
use super::keys::element;

/// Keys are replaced this long before they expire, or when a quarter of their lifetime is left, whichever is later.
const BEFORE_END: TimeDelta = TimeDelta::minutes(5);
/// Timeout of a program that prints keys.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(60);

/// A role to assume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Role {
    pub(super) arn: String,
    pub(super) external_id: Option<String>,
    pub(super) session_name: Option<String>,
    /// Requested lifetime of the role's keys in seconds.
    pub(super) seconds: Option<u32>,
}

impl Role {
    /// Returns the form of the AssumeRole request.
    fn asked(&self) -> String {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.append_pair("Action", "AssumeRole").append_pair("Version", "2011-06-15").append_pair("RoleArn", &self.arn);
        form.append_pair("RoleSessionName", self.session_name.as_deref().unwrap_or("dipper"));
        form.append_pair("DurationSeconds", &self.seconds.unwrap_or(3600).to_string());
        if let Some(id) = &self.external_id {
            form.append_pair("ExternalId", id);
        }
        form.finish()
    }
}

/// The service at which roles are assumed.
#[derive(Debug, Clone)]
pub(super) struct Sts {
    pub(super) client: HttpClient,
    /// URL, for example `https://sts.us-east-1.amazonaws.com`.
    pub(super) endpoint: String,
    pub(super) region: String,
}

/// Keys, and when they expire; `None` if they do not.
type Ending = (AwsCredential, Option<DateTime<Utc>>);

/// A provider that keeps keys until they are about to expire or their source changes.
#[derive(Debug)]
pub(super) struct Renewed {
    way: Way,
    sts: Sts,
    kept: Mutex<Option<Kept>>,
}

#[derive(Debug)]
enum Way {
    Profile(ProfileFiles),
    Role(Role, AwsCredentialProvider),
}

#[derive(Debug)]
struct Kept {
    credential: Arc<AwsCredential>,
    stamp: Option<Stamp>,
    renewed_from: Option<DateTime<Utc>>,
    end: Option<DateTime<Utc>>,
}

/// The error of a request for which there are no keys.
#[derive(Debug)]
struct NoKeys(String);

impl fmt::Display for NoKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoKeys {}

impl Renewed {
    /// Makes a provider of the keys of a profile.
    pub(super) fn profile(files: ProfileFiles, sts: Sts) -> AwsCredentialProvider {
        Arc::new(Renewed { way: Way::Profile(files), sts, kept: Mutex::default() })
    }

    /// Makes a provider of the keys of a role that is assumed with those of `base`.
    pub(super) fn role(role: Role, base: AwsCredentialProvider, sts: Sts) -> AwsCredentialProvider {
        Arc::new(Renewed { way: Way::Role(role, base), sts, kept: Mutex::default() })
    }

    async fn renew(&self) -> Result<Ending, String> {
        match &self.way {
            Way::Profile(files) => {
                let profile = files.read().map_err(|e| e.message)?;
                self.sts.keys(profile.keys).await
            }
            Way::Role(role, base) => {
                let base = base.get_credential().await.map_err(|e| e.to_string())?;
                self.sts.assume(role, &base).await
            }
        }
    }
}

#[async_trait]
impl CredentialProvider for Renewed {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let stamp = match &self.way {
            Way::Profile(files) => Some(files.stamp()),
            Way::Role(..) => None,
        };
        let mut kept = self.kept.lock().await;
        let now = Utc::now();
        if let Some(kept) = &*kept
            && kept.stamp == stamp
            && kept.renewed_from.is_none_or(|from| now < from)
        {
            return Ok(Arc::clone(&kept.credential));
        }
        match self.renew().await {
            Ok((credential, end)) => {
                let credential = Arc::new(credential);
                let renewed_from = end.map(|end| end - BEFORE_END.min((end - now) / 4));
                *kept = Some(Kept { credential: Arc::clone(&credential), stamp, renewed_from, end });
                Ok(credential)
            }
            // A file may be half written, or a service unavailable: the old keys may still be valid.
            Err(reason) => match &*kept {
                Some(kept) if kept.end.is_none_or(|end| now < end) => {
                    tracing::warn!(%reason, "keys of object storage are not renewed; those before are used");
                    Ok(Arc::clone(&kept.credential))
                }
                _ => {
                    let source = Box::new(NoKeys(format!("there are no keys for object storage: {reason}")));
                    Err(object_store::Error::Unauthenticated { path: String::new(), source })
                }
            },
        }
    }
}

impl Sts {
    /// Returns the current keys of a source.
    fn keys(&self, source: KeySource) -> BoxFuture<'_, Result<Ending, String>> {
        Box::pin(async move {
            match source {
                KeySource::Written(keys) => Ok((keys, None)),
                KeySource::Process(command) => printed(&command).await,
                KeySource::Role(role, base) => {
                    let (base, _) = self.keys(*base).await?;
                    self.assume(&role, &base).await
                }
            }
        })
    }

    /// Assumes a role; returns its keys.
    async fn assume(&self, role: &Role, base: &AwsCredential) -> Result<Ending, String> {
        let body = role.asked();
        let failed = |reason: String| format!("{}: AssumeRole {}: {reason}", self.endpoint, role.arn);
        let mut attempts = Attempts::of(retry::ROLE_KEYS);
        loop {
            let began = Instant::now();
            let mut request = HttpRequest::new(body.clone().into());
            *request.method_mut() = "POST".parse().map_err(|_| failed("no method".into()))?;
            let address = format!("{}/", self.endpoint.trim_end_matches('/'));
            *request.uri_mut() = address.parse().map_err(|e| failed(format!("no address: {e}")))?;
            let kind = "application/x-www-form-urlencoded; charset=utf-8";
            request.headers_mut().insert("content-type", kind.parse().map_err(|_| failed("no header".into()))?);
            AwsAuthorizer::new(base, "sts", &self.region).authorize(&mut request, None);
            let reason = match self.client.execute(request).await {
                Ok(answer) => {
                    let status = answer.status();
                    let bytes = answer.into_body().bytes().await.map_err(|e| failed(e.to_string()))?;
                    let xml = String::from_utf8_lossy(&bytes);
                    if status.is_success() {
                        return assumed(&xml).ok_or_else(|| failed(format!("an answer that is none: {xml}")));
                    }
                    let told = ["Code", "Message"].map(|name| element(&xml, name).unwrap_or_default());
                    let reason = format!("{status} {}", told.join(": "));
                    if !status.is_server_error() {
                        return Err(failed(reason));
                    }
                    reason
                }
                Err(e) => std::error::Error::source(&e).map_or_else(|| e.to_string(), ToString::to_string),
            };
            if !again(&mut attempts, began.elapsed()).await {
                return Err(failed(reason));
            }
        }
    }
}

/// Parses the keys in an answer of AssumeRole.
fn assumed(xml: &str) -> Option<Ending> {
    let get = |name: &str| element(xml, name).map(|value| value.trim().to_string());
    let end = DateTime::parse_from_rfc3339(&get("Expiration")?).ok()?.to_utc();
    let keys = AwsCredential {
        key_id: get("AccessKeyId")?,
        secret_key: get("SecretAccessKey")?,
        token: Some(get("SessionToken")?),
    };
    Some((keys, Some(end)))
}

/// Runs a program that prints keys in the format of `credential_process`.
async fn printed(command: &str) -> Result<Ending, String> {
    let failed = |reason: String| format!("credential_process '{command}': {reason}");
    let run = tokio::process::Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .output();
    let ran = tokio::time::timeout(PROCESS_TIMEOUT, run).await;
    let ran = ran.map_err(|_| failed(format!("it did not end within {} s", PROCESS_TIMEOUT.as_secs())))?;
    let output = ran.map_err(|e| failed(e.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(format!("{}: {}", output.status, said.trim())));
    }
    let json: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|e| failed(format!("what it prints is no JSON: {e}")))?;
    let get = |name: &str| Some(json.get(name)?.as_str()?.to_string());
    let (Some(key_id), Some(secret_key)) = (get("AccessKeyId"), get("SecretAccessKey")) else {
        return Err(failed("it prints no AccessKeyId and SecretAccessKey".into()));
    };
    let end = get("Expiration").map(|text| DateTime::parse_from_rfc3339(&text).map(|end| end.to_utc()));
    let end = end.transpose().map_err(|e| failed(format!("its Expiration is no time: {e}")))?;
    Ok((AwsCredential { key_id, secret_key, token: get("SessionToken") }, end))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use bytes::Bytes;
    use object_store::StaticCredentialProvider;
    use object_store::client::{HttpError, HttpErrorKind, HttpResponse, HttpService};

    use super::*;

    /// An STS whose keys last this many milliseconds; it is unavailable while `down`.
    #[derive(Debug)]
    struct Fake {
        lasts: i64,
        asked: Arc<AtomicU32>,
        down: Arc<std::sync::atomic::AtomicBool>,
    }

    #[async_trait]
    impl HttpService for Fake {
        async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
            let number = self.asked.fetch_add(1, Ordering::Relaxed);
            if self.down.load(Ordering::Relaxed) {
                return Err(HttpError::new(HttpErrorKind::Connect, NoKeys("away".into())));
            }
            let header = request.headers()["authorization"].to_str().unwrap();
            assert!(header.contains("/r/sts/aws4_request"), "{header}");
            let body = request.body().as_bytes().cloned().unwrap_or_default();
            let body = String::from_utf8(body.to_vec()).unwrap();
            assert!(
                body.contains("RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr") && body.contains("ExternalId=x"),
                "{body}"
            );
            let end = (Utc::now() + TimeDelta::milliseconds(self.lasts)).to_rfc3339();
            let xml = format!(
                "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>K{number}</AccessKeyId><SecretAccessKey>S\
                 </SecretAccessKey><SessionToken>T</SessionToken><Expiration>{end}</Expiration></Credentials>\
                 </AssumeRoleResult></AssumeRoleResponse>"
            );
            Ok(HttpResponse::new(Bytes::from(xml).into()))
        }
    }

    #[tokio::test]
    async fn keys_of_a_role_are_replaced_before_they_end() {
        let (asked, down) = (Arc::new(AtomicU32::new(0)), Arc::default());
        let fake = Fake { lasts: 400, asked: Arc::clone(&asked), down: Arc::clone(&down) };
        let sts = Sts { client: HttpClient::new(fake), endpoint: "http://sts".into(), region: "r".into() };
        let own = AwsCredential { key_id: "A".into(), secret_key: "B".into(), token: None };
        let role = Role {
            arn: "arn:aws:iam::1:role/r".into(),
            external_id: Some("x".into()),
            session_name: None,
            seconds: None,
        };
        let keys = Renewed::role(role, Arc::new(StaticCredentialProvider::new(own)), sts);
        let id = async || keys.get_credential().await.map(|c| c.key_id.clone());
        assert_eq!((id().await.unwrap(), id().await.unwrap()), ("K0".into(), "K0".into()));
        tokio::time::sleep(Duration::from_millis(320)).await;
        assert_eq!(id().await.unwrap(), "K1");
        down.store(true, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(450)).await;
        let e = id().await.unwrap_err();
        assert!(e.to_string().contains("AssumeRole arn:aws:iam::1:role/r"), "{e}");
    }

    #[tokio::test]
    async fn programs_print_keys() {
        let json = r#"{"Version":1,"AccessKeyId":"K","SecretAccessKey":"S","SessionToken":"T","Expiration":"2030-01-01T00:00:00Z"}"#;
        let (keys, end) = printed(&format!("echo '{json}'")).await.unwrap();
        assert_eq!((keys.key_id.as_str(), keys.token.as_deref()), ("K", Some("T")));
        assert!(end.is_some());
        for (command, told) in [
            ("echo no >&2; exit 3", "no"),
            ("echo hello", "no JSON"),
            ("echo '{}'", "AccessKeyId"),
            ("echo '{\"AccessKeyId\":\"a\",\"SecretAccessKey\":\"b\",\"Expiration\":\"soon\"}'", "Expiration"),
        ] {
            let e = printed(command).await.unwrap_err();
            assert!(e.contains(told) && e.contains(command), "{e}");
        }
    }

    #[tokio::test]
    async fn a_profile_is_read_anew_when_its_files_change() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("credentials");
        let write = |key: &str| {
            std::fs::write(&file, format!("[default]\naws_access_key_id = {key}\naws_secret_access_key = S\n"))
                .unwrap();
        };
        write("first");
        let files = ProfileFiles::of(|name| match name {
            "AWS_SHARED_CREDENTIALS_FILE" => Some(file.display().to_string()),
            _ => None,
        });
        let fake = Fake { lasts: 0, asked: Arc::default(), down: Arc::default() };
        let sts = Sts { client: HttpClient::new(fake), endpoint: "http://sts".into(), region: "r".into() };
        let keys = Renewed::profile(files.unwrap(), sts);
        let id = async || keys.get_credential().await.map(|c| c.key_id.clone());
        assert_eq!(id().await.unwrap(), "first");
        write("the second");
        assert_eq!(id().await.unwrap(), "the second");
        std::fs::write(&file, "[defa").unwrap();
        assert_eq!(id().await.unwrap(), "the second", "the file is being written");
    }
}
