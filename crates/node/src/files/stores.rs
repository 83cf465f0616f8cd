//! Object stores by URL: credentials, endpoints, timeouts, and the data cache above them are set up here.
//!
//! A location is `scheme://authority/path`. Stores are made once per scheme, authority and properties, and kept. A new
//! scheme is a new arm of [`Stores::connect`].

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::memory_pool::MemoryPool;
use dipper_base::secret::Secret;
use dipper_cache::{CachedStore, DataCache};
use dipper_store::catalog::TableId;
use dipper_store::table::schema::TableSchema;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::HttpConnector;
use object_store::path::Path as ObjectPath;
use object_store::prefix::PrefixStore;
use object_store::{ClientOptions, ObjectStore};
use parking_lot::Mutex;

use super::ahead::ReadAhead;
use super::aws_profile::{AwsProfile, ProfileFiles};
use super::credentials::{Renewed, Role, Sts};
use super::dialects::{CreateWords, Dialect};
use super::hdfs::{self, Hdfs};
use super::keys;
use super::listings::KnownListings;
use super::requests;
use crate::error::{EngineError, ErrorKind, Result};
use crate::tables::volumes::Uncached;

/// Properties of a store, by lower-case name; each may be a secret.
pub type StoreProperties = BTreeMap<String, Secret>;

/// An object, or a prefix of objects, in an object store.
#[derive(Debug, Clone)]
pub struct Remote {
    /// The store, with the data cache above it.
    pub store: Arc<CachedStore>,
    /// The path in the store.
    pub path: ObjectPath,
    /// The part of the URL before the path: `s3://bucket`.
    pub base: String,
    /// Number of the store among those of this process.
    pub number: u64,
}

impl Remote {
    /// Returns the URL of a path in this store.
    pub fn url(&self, path: &ObjectPath) -> String {
        format!("{}/{}", self.base, keys::from_path(path.as_ref()))
    }
}

/// The key of a store: URL without a path, properties, and whether files with a UUID in their names are known to be
/// written only once.
type StoreKey = (String, StoreProperties, bool);

/// A store, and its endpoint.
type Connected = (Arc<dyn ObjectStore>, String);

/// Returns whether a location is in an object store, rather than in the local file system.
pub fn is_remote(location: &str) -> bool {
    location.split_once("://").is_some_and(|(scheme, _)| !scheme.eq_ignore_ascii_case("file"))
}

/// The property that excludes files of a table from the cache, as for native tables.
const CACHE_PROPERTY: &str = "datacache.enable";

/// Schemes of stores with S3's protocol.
const S3_SCHEMES: [&str; 10] = ["s3", "s3a", "s3n", "oss", "cos", "cosn", "obs", "tos", "ks3", "minio"];

/// The object stores of a process.
pub struct Stores {
    io: tokio::runtime::Handle,
    cache: Arc<DataCache>,
    open: Mutex<HashMap<StoreKey, (u64, Arc<CachedStore>)>>,
    uncached: Uncached,
    known: KnownListings,
    /// Properties for stores whose own properties name no endpoint.
    defaults: StoreProperties,
    ahead: Arc<ReadAhead>,
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").finish_non_exhaustive()
    }
}

impl Stores {
    /// Makes the stores of a process. Requests run on `io`, and reads go through `cache`. `defaults` name the endpoint
    /// of stores whose own properties name none.
    pub fn new(io: tokio::runtime::Handle, cache: Arc<DataCache>, defaults: StoreProperties) -> Self {
        Stores {
            io,
            cache,
            open: Mutex::default(),
            uncached: Uncached::default(),
            known: KnownListings::default(),
            defaults,
            ahead: Arc::default(),
        }
    }

    /// Limits the memory that all scans together may use for reading ahead, and reserves it in a pool.
    pub fn with_read_ahead(self, pool: &Arc<dyn MemoryPool>, bytes: usize) -> Self {
        Stores { ahead: Arc::new(ReadAhead::new(pool, bytes)), ..self }
    }

    /// Returns the memory for reading ahead.
    pub fn ahead(&self) -> &Arc<ReadAhead> {
        &self.ahead
    }

    /// Returns the data cache.
    pub fn cache(&self) -> &Arc<DataCache> {
        &self.cache
    }

    /// Includes the data of a table in the cache or excludes them, as its definition says.
    pub fn heed_cache_property(&self, table: TableId, schema: &TableSchema) {
        let property = schema.properties.get(CACHE_PROPERTY);
        self.uncached.set(table, property.is_some_and(|v| v.eq_ignore_ascii_case("false")));
    }

    /// Returns the cached listings.
    pub fn known(&self) -> &KnownListings {
        &self.known
    }

    /// Returns the runtime for requests.
    pub fn io(&self) -> &tokio::runtime::Handle {
        &self.io
    }

    /// Returns the store and the path of a location. No request is sent yet.
    ///
    /// # Errors
    /// `Unsupported` for an unknown scheme; `Invalid` if properties contradict each other; `File` if the location is
    /// not a path; `Denied` if the endpoint may not be used.
    pub fn open(&self, location: &str, properties: &StoreProperties) -> Result<Remote> {
        self.opened(location, properties, false)
    }

    /// Like [`open`](Self::open), for tables whose writers put a UUID into the names of files and write each name only
    /// once (Iceberg): those files are cached by name, without asking for their tags first.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub fn open_drawn(&self, location: &str, properties: &StoreProperties) -> Result<Remote> {
        self.opened(location, properties, true)
    }

    fn opened(&self, location: &str, properties: &StoreProperties, drawn: bool) -> Result<Remote> {
        let (scheme, authority, path) = split(location)?;
        let path = ObjectPath::parse(keys::to_path(path.trim_end_matches('/')))
            .map_err(|e| EngineError::new(ErrorKind::File, format!("'{location}' is no path of an object: {e}")))?;
        let base = format!("{scheme}://{authority}");
        let key = (base.clone(), properties.clone(), drawn);
        if let Some((number, store)) = self.open.lock().get(&key) {
            return Ok(Remote { store: Arc::clone(store), path, base, number: *number });
        }
        let (store, endpoint) = self.connect(&scheme, authority, properties)?;
        let store = match is_cached(properties)? {
            true => {
                let identity = format!("{base} {endpoint}");
                self.cache.wrap(store, &identity, Arc::new(move |path| drawn && has_uuid(path)))
            }
            false => self.cache.beside(store),
        };
        let mut open = self.open.lock();
        let number = open.len() as u64;
        let (number, store) = open.entry(key).or_insert((number, store));
        Ok(Remote { store: Arc::clone(store), path, base, number: *number })
    }

    /// Opens a store whose objects below `location` are dipper's own data. Objects of tables never change, and are
    /// cached by name.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open); `Storage` if the location is not a prefix of objects.
    pub fn open_data(&self, location: &str, properties: &StoreProperties) -> Result<Arc<dyn ObjectStore>> {
        let (scheme, authority, path) = split(location)?;
        let prefix = ObjectPath::parse(path.trim_end_matches('/'))
            .map_err(|e| EngineError::new(ErrorKind::Storage, format!("'{location}' is no prefix of objects: {e}")))?;
        let (mut store, endpoint) = self.connect(&scheme, authority, properties)?;
        let identity = format!("{scheme}://{authority}/{prefix} {endpoint}");
        if prefix.parts().next().is_some() {
            store = Arc::new(PrefixStore::new(store, prefix));
        }
        let uncached = self.uncached.clone();
        Ok(self.cache.wrap(store, &identity, Arc::new(move |path| is_table_data(path) && !uncached.holds(path))))
    }

    /// Makes a store. The returned text distinguishes it from other stores with the same URL.
    fn connect(&self, scheme: &str, authority: &str, properties: &StoreProperties) -> Result<Connected> {
        match scheme {
            s3 if S3_SCHEMES.contains(&s3) => self.s3(s3, authority, properties),
            "hdfs" => {
                let own = properties.iter().filter(|(key, _)| is_hadoop_property(key));
                let configuration: BTreeMap<String, String> =
                    own.map(|(key, value)| (key.clone(), value.reveal().to_string())).collect();
                let (_, store) = Hdfs::new(self.io.clone()).store(authority, &configuration)?;
                // Two clusters may give their name services the same name.
                Ok((store, hdfs::name_nodes(&configuration).collect::<Vec<_>>().join(" ")))
            }
            "gs" => Err(EngineError::unsupported(
                "the scheme gs:// is not supported; Google's buckets are read by their S3 interface: s3://bucket/key with \
                 's3.endpoint' = 'https://storage.googleapis.com' and HMAC keys",
            )),
            "http" | "https" => Err(EngineError::unsupported(format!(
                "{scheme}://{authority}: files are not read by web addresses, presigned ones neither; write s3://bucket/key, with \
                 's3.endpoint', 's3.access_key' and 's3.secret_key' as properties of s3(...) or files(...), or fetch the file"
            ))),
            other => Err(EngineError::unsupported(format!(
                "the scheme {other}:// is not supported; use s3:// (or oss://, cos://, obs://), hdfs://, or a local path"
            ))),
        }
    }

    fn s3(&self, scheme: &str, bucket: &str, properties: &StoreProperties) -> Result<Connected> {
        if !bucket.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)) {
            let what = "letters, digits, '-', '.' and '_'";
            return Err(EngineError::invalid(format!("'{bucket}' is no name of a bucket: they have {what} only")));
        }
        let bad = |e: object_store::Error| EngineError::invalid(format!("{scheme}://{bucket}: {e}"));
        let s3 = S3Properties::try_new(properties)?.or(&S3Properties::try_new(&self.defaults)?);
        let own_keys = s3.access_key.is_some();
        // The keys in the process's environment are used if the properties have none.
        let environment = AmazonS3Builder::from_env();
        let mut builder = if own_keys || s3.anonymous { without_keys(&environment) } else { environment };
        let set = |builder: &AmazonS3Builder, key| builder.get_config_value(&key).is_some();
        let keys = [
            AmazonS3ConfigKey::AccessKeyId,
            AmazonS3ConfigKey::WebIdentityTokenFile,
            AmazonS3ConfigKey::ContainerCredentialsRelativeUri,
            AmazonS3ConfigKey::ContainerCredentialsFullUri,
        ];
        let has_keys = own_keys || s3.anonymous || s3.instance_profile || keys.into_iter().any(|k| set(&builder, k));
        let files = if has_keys { None } else { ProfileFiles::of(|name| std::env::var(name).ok()) };
        let (mut usual_region, mut usual_endpoint) = ("us-east-1".to_string(), None);
        if let Some(files) = &files {
            let AwsProfile { region, endpoint, .. } = files.read()?;
            (usual_region, usual_endpoint) = (region.unwrap_or(usual_region), endpoint);
        }
        if let (Some(key), Some(secret)) = (s3.access_key, s3.secret_key) {
            builder = builder.with_access_key_id(key).with_secret_access_key(secret);
        }
        if let Some(token) = s3.token {
            builder = builder.with_token(token);
        }
        if let Some(region) = s3.region {
            builder = builder.with_region(region);
        } else if !set(&builder, AmazonS3ConfigKey::Region) {
            builder = builder.with_region(usual_region);
        }
        let given = s3.endpoint.map(str::to_string);
        let endpoint = given
            .or_else(|| builder.get_config_value(&AmazonS3ConfigKey::S3Endpoint))
            .or_else(|| builder.get_config_value(&AmazonS3ConfigKey::Endpoint))
            .or(usual_endpoint);
        if endpoint.is_none() && !matches!(scheme, "s3" | "s3a" | "s3n") {
            return Err(EngineError::invalid(format!(
                "{scheme}://{bucket}: no endpoint is given, and {scheme}:// does not say where its buckets are; give 's3.endpoint' = \
                 'https://...' as a property of files(...), s3(...) or the catalog, or AWS_ENDPOINT_URL_S3 to the process"
            )));
        }
        let (mut plain_http, mut reached, mut create) = (false, String::new(), s3.create);
        if let Some(endpoint) = endpoint {
            let Endpoint { secure, host } = Endpoint::parse(&endpoint, s3.ssl)?;
            // Stores other than AWS take the bucket as the first part of the path, except for those that refuse it.
            let wants_host = ["aliyuncs.com", "myqcloud.com", "volces.com", "ksyuncs.com"];
            let name = host.rsplit_once(':').map_or(host.as_str(), |(name, _)| name);
            create = create.or_else(|| Some(CreateWords::of_host(name)));
            let path_style = s3.path_style.unwrap_or_else(|| !wants_host.iter().any(|w| name.ends_with(w)));
            let protocol = if secure { "https" } else { "http" };
            let url = match path_style || host.starts_with(&format!("{bucket}.")) {
                true => format!("{protocol}://{host}"),
                false => format!("{protocol}://{bucket}.{host}"),
            };
            // With an invalid URL, the client panics at its first request.
            if let Err(e) = url::Url::parse(&url) {
                return Err(EngineError::invalid(format!(
                    "endpoint '{endpoint}' makes '{url}', which is no URL ({e}); write http(s)://host:port"
                )));
            }
            plain_http = !secure;
            reached.clone_from(&url);
            // Set both, because an endpoint for S3 alone in the environment would take precedence over the other one.
            builder = builder.with_endpoint(&url).with_config(AmazonS3ConfigKey::S3Endpoint, url);
            builder = builder.with_virtual_hosted_style_request(!path_style);
        } else if let Some(path_style) = s3.path_style {
            builder = builder.with_virtual_hosted_style_request(!path_style);
        }
        let region = builder.get_config_value(&AmazonS3ConfigKey::Region).unwrap_or_default();
        let client = ClientOptions::new().with_connect_timeout(Duration::from_secs(5)).with_allow_http(plain_http);
        let dialect =
            Arc::new(Dialect { create: create.unwrap_or_default(), region: region.clone(), ..Dialect::default() });
        let requests =
            requests::Connector { io: self.io.clone(), cache: Arc::clone(&self.cache), dialect: Arc::clone(&dialect) };
        let sts = || self.sts(&s3, &region);
        let has_keys = own_keys || s3.instance_profile || keys.into_iter().any(|k| set(&builder, k));
        // Without any keys the client would ask the machine's metadata service, at a link-local address.
        if s3.anonymous || !has_keys && files.is_none() {
            builder = builder.with_skip_signature(true);
        }
        if let Some(files) = files {
            builder = builder.with_credentials(Renewed::profile(files, sts()?));
        }
        builder = builder
            .with_bucket_name(bucket)
            .with_client_options(client)
            .with_retry(requests::retries())
            .with_http_connector(requests);
        if let Some(arn) = s3.role {
            if s3.anonymous || builder.get_config_value(&AmazonS3ConfigKey::SkipSignature).as_deref() == Some("true") {
                return Err(EngineError::invalid(format!(
                    "the role '{arn}' is taken on by somebody's keys, and there are none; give 'aws.s3.access_key' and \
                     'aws.s3.secret_key', or keys to this process (AWS_ACCESS_KEY_ID, AWS_PROFILE)"
                )));
            }
            // The keys that would sign without the role assume it.
            let base = builder.clone().build().map_err(bad)?.credentials().clone();
            let text = |value: Option<&str>| value.map(str::to_string);
            let role = Role { arn: arn.into(), external_id: text(s3.external_id), session_name: None, seconds: None };
            builder = builder.with_credentials(Renewed::role(role, base, sts()?));
        }
        let store = builder.build().map_err(bad)?;
        // Only this code sets it.
        let _ = dialect.keys.set(store.credentials().clone());
        Ok((Arc::new(store), reached))
    }

    /// Returns the service at which roles are assumed.
    fn sts(&self, s3: &S3Properties<'_>, region: &str) -> Result<Sts> {
        let region = s3.sts_region.unwrap_or(region).to_string();
        let variable = || std::env::var("AWS_ENDPOINT_URL_STS").ok().filter(|url| !url.is_empty());
        let endpoint = match s3.sts_endpoint.map(str::to_string).or_else(variable) {
            Some(given) => {
                let Endpoint { secure, host } = Endpoint::parse(&given, None)?;
                format!("{}://{host}", if secure { "https" } else { "http" })
            }
            None if region.starts_with("cn-") => format!("https://sts.{region}.amazonaws.com.cn"),
            None => format!("https://sts.{region}.amazonaws.com"),
        };
        let options = ClientOptions::new()
            .with_connect_timeout(Duration::from_secs(5))
            .with_allow_http(endpoint.starts_with("http:"));
        let requests =
            requests::Connector { io: self.io.clone(), cache: Arc::clone(&self.cache), dialect: Arc::default() };
        let client = requests.connect(&options).map_err(|e| EngineError::invalid(format!("{endpoint}: {e}")))?;
        Ok(Sts { client, endpoint, region })
    }
}

/// Returns a builder with only the settings that say where stores are, without those that identify the client.
fn without_keys(all: &AmazonS3Builder) -> AmazonS3Builder {
    let place = [
        AmazonS3ConfigKey::S3Endpoint,
        AmazonS3ConfigKey::Endpoint,
        AmazonS3ConfigKey::Region,
        AmazonS3ConfigKey::VirtualHostedStyleRequest,
    ];
    place.into_iter().fold(AmazonS3Builder::new(), |builder, key| match all.get_config_value(&key) {
        Some(value) => builder.with_config(key, value),
        None => builder,
    })
}

/// Returns whether the name of a file contains a UUID.
fn has_uuid(path: &ObjectPath) -> bool {
    let is_uuid = |text: &[u8]| {
        text.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
    };
    path.filename().is_some_and(|name| name.as_bytes().windows(36).any(is_uuid))
}

/// Returns whether a path is that of a native table's data object: `t/<table>/d/<object>`. These names are generated
/// and used only once.
fn is_table_data(path: &ObjectPath) -> bool {
    let path: &str = path.as_ref();
    matches!(path.split('/').collect::<Vec<_>>()[..], ["t", _, "d", _])
}

/// Splits a location into its scheme in lower case, its authority, and its path without the leading slash.
fn split(location: &str) -> Result<(String, &str, &str)> {
    let bad = |what: &str| EngineError::new(ErrorKind::File, format!("'{location}' {what}; write s3://bucket/path"));
    let (scheme, rest) = location.split_once("://").ok_or_else(|| bad("is no URL"))?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if authority.is_empty() {
        return Err(bad("names no bucket"));
    }
    if ["abfs", "abfss", "wasb", "wasbs", "az", "adl"].iter().any(|azure| scheme.eq_ignore_ascii_case(azure)) {
        return Err(EngineError::unsupported(format!(
            "'{location}': Azure's storage ({scheme}://) is not supported; copy the files into an S3-compatible store (s3://), to \
             hdfs:// or to a local path"
        )));
    }
    if authority.contains('@') {
        return Err(bad("holds credentials; give them as properties"));
    }
    Ok((scheme.to_ascii_lowercase(), authority, path))
}

/// Returns those properties of a table or function that are for a store.
pub fn store_properties<'a>(all: impl IntoIterator<Item = (&'a String, &'a String)>) -> StoreProperties {
    let own = all.into_iter().filter(|(key, _)| is_store_property(key));
    // Hadoop's names are case-sensitive, and contain those of name services.
    let name = |key: &str| if is_hadoop_property(key) { key.to_string() } else { key.to_lowercase() };
    own.map(|(key, value)| (name(key), Secret::new(value))).collect()
}

/// Returns whether a property is for a store.
pub fn is_store_property(key: &str) -> bool {
    is_s3_property(key) || is_hadoop_property(key) || is_cache_property(key)
}

/// Returns whether a property says if files are cached.
pub fn is_cache_property(key: &str) -> bool {
    key.eq_ignore_ascii_case(CACHE_PROPERTY)
}

/// Returns whether the files of a store with these properties are cached.
fn is_cached(properties: &StoreProperties) -> Result<bool> {
    properties.get(CACHE_PROPERTY).map_or(Ok(true), |value| flag(CACHE_PROPERTY, value.reveal()))
}

/// Parses a boolean property.
///
/// # Errors
/// `Invalid` if the value is neither true nor false.
pub fn flag(key: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(EngineError::invalid(format!("property '{key}' = '{value}': expected true or false"))),
    }
}

/// Returns whether a property is for a store with S3's protocol.
pub fn is_s3_property(key: &str) -> bool {
    s3_property(key).is_some()
}

/// Returns whether a property is one of Hadoop's, for HDFS. Names with a prefix of S3 stores are not.
pub fn is_hadoop_property(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["dfs.", "fs.", "hadoop."].iter().any(|p| key.starts_with(p)) && !PREFIXES.iter().any(|p| key.starts_with(p))
}

/// Returns whether a location is in a store with S3's protocol.
pub fn is_s3(location: &str) -> bool {
    location.split_once("://").is_some_and(|(scheme, _)| S3_SCHEMES.iter().any(|s| s.eq_ignore_ascii_case(scheme)))
}

/// Checks the properties of a store without making it.
///
/// # Errors
/// `Invalid` if a value is invalid, or only one of the two keys is given.
pub fn check(properties: &StoreProperties) -> Result<()> {
    is_cached(properties)?;
    S3Properties::try_new(properties).map(|_| ())
}

/// Properties of an S3 store, whichever product's names they have.
#[derive(Default)]
struct S3Properties<'a> {
    access_key: Option<&'a str>,
    secret_key: Option<&'a str>,
    token: Option<&'a str>,
    region: Option<&'a str>,
    endpoint: Option<&'a str>,
    path_style: Option<bool>,
    ssl: Option<bool>,
    anonymous: bool,
    instance_profile: bool,
    create: Option<CreateWords>,
    role: Option<&'a str>,
    external_id: Option<&'a str>,
    sts_endpoint: Option<&'a str>,
    sts_region: Option<&'a str>,
}

/// Prefixes of the names of properties: those of StarRocks, Doris and Hadoop, and of the products that Doris knows by
/// name.
const PREFIXES: [&str; 12] =
    ["aws.s3.", "s3.", "fs.s3a.", "fs.s3.", "fs.oss.", "fs.cosn.", "fs.obs.", "oss.", "cos.", "obs.", "minio.", "aws."];

/// Common names, to suggest for an unknown one.
pub const USUAL_NAMES: [&str; 14] = [
    "aws.s3.endpoint",
    "aws.s3.region",
    "aws.s3.access_key",
    "aws.s3.secret_key",
    "aws.s3.session_token",
    "aws.s3.enable_path_style_access",
    "aws.s3.iam_role_arn",
    "aws.s3.create_if_absent",
    "s3.endpoint",
    "s3.region",
    "s3.access_key",
    "s3.secret_key",
    "s3.session_token",
    "use_path_style",
];

/// Returns the canonical name of an S3 property, without its product's prefix; `None` for other properties.
fn s3_property(key: &str) -> Option<&'static str> {
    let key = key.to_ascii_lowercase();
    let bare = PREFIXES.iter().find_map(|p| key.strip_prefix(p)).or_else(|| key.strip_prefix("aws_"));
    Some(match bare.unwrap_or(&key) {
        "access_key" | "access_key_id" | "access.key" | "accesskeyid" | "userinfo.secretid" => "access_key",
        "secret_key" | "secret_access_key" | "secret.key" | "accesskeysecret" | "userinfo.secretkey" => "secret_key",
        // Iceberg's names.
        "access-key-id" if bare.is_some() => "access_key",
        "secret-access-key" if bare.is_some() => "secret_key",
        "session-token" if bare.is_some() => "token",
        "path-style-access" if bare.is_some() => "path_style",
        "session_token" | "session.token" | "token" | "securitytoken" => "token",
        "region" | "endpoint.region" if bare.is_some() => "region",
        "endpoint" if bare.is_some() => "endpoint",
        "enable_path_style_access" | "use_path_style" | "path.style.access" | "path_style_access" => "path_style",
        "enable_ssl" | "connection.ssl.enabled" => "ssl",
        "use_anonymous" | "anonymous" if bare.is_some() => "anonymous",
        "use_instance_profile" | "use_aws_sdk_default_behavior" => "instance_profile",
        "create_if_absent" if bare.is_some() => "create",
        "iam_role_arn" | "role_arn" | "assumed.role.arn" if bare.is_some() => "role",
        "external_id" if bare.is_some() => "external_id",
        "sts.endpoint" | "assumed.role.sts.endpoint" if bare.is_some() => "sts_endpoint",
        "sts.region" | "assumed.role.sts.endpoint.region" if bare.is_some() => "sts_region",
        _ => return None,
    })
}

impl<'a> S3Properties<'a> {
    /// Fills in the endpoint from defaults, if these properties name none, and the region.
    fn or(mut self, defaults: &S3Properties<'a>) -> Self {
        if self.endpoint.is_none() {
            self.endpoint = defaults.endpoint;
            self.path_style = self.path_style.or(defaults.path_style);
            self.create = self.create.or(defaults.create);
        }
        self.region = self.region.or(defaults.region);
        self.instance_profile |= defaults.instance_profile && self.access_key.is_none();
        self
    }

    fn try_new(properties: &'a StoreProperties) -> Result<Self> {
        let mut s3 = S3Properties::default();
        for (key, value) in properties {
            let value = value.reveal();
            match s3_property(key) {
                Some("access_key") => s3.access_key = Some(value),
                Some("secret_key") => s3.secret_key = Some(value),
                Some("token") => s3.token = Some(value),
                Some("region") => s3.region = Some(value),
                Some("endpoint") => s3.endpoint = Some(value),
                Some("path_style") => s3.path_style = Some(flag(key, value)?),
                Some("ssl") => s3.ssl = Some(flag(key, value)?),
                Some("anonymous") => s3.anonymous = flag(key, value)?,
                Some("instance_profile") => s3.instance_profile = flag(key, value)?,
                Some("create") => s3.create = Some(CreateWords::from_property(key, value)?),
                Some("role") => s3.role = Some(value),
                Some("external_id") => s3.external_id = Some(value),
                Some("sts_endpoint") => s3.sts_endpoint = Some(value),
                Some("sts_region") => s3.sts_region = Some(value),
                _ => {}
            }
        }
        let texts = [
            &mut s3.access_key,
            &mut s3.secret_key,
            &mut s3.token,
            &mut s3.region,
            &mut s3.endpoint,
            &mut s3.role,
            &mut s3.external_id,
            &mut s3.sts_endpoint,
            &mut s3.sts_region,
        ];
        for value in texts {
            *value = value.filter(|v| !v.is_empty());
        }
        if s3.access_key.is_some() != s3.secret_key.is_some() {
            let missing = if s3.access_key.is_none() { "access key" } else { "secret key" };
            return Err(EngineError::invalid(format!(
                "the {missing} is missing; give both 'aws.s3.access_key' and 'aws.s3.secret_key', or neither"
            )));
        }
        Ok(s3)
    }
}

/// Converts a URL in the form `http://host/bucket/key` (path style) or `http://bucket.host/key`, which Doris also
/// accepts, to a location. The endpoint is added to the properties unless they name one. `None` if the text is not a
/// URL of this kind.
///
/// The bucket is part of the path if `use_path_style` says so, if the host is that of the given endpoint, or if the
/// host is an address or a single word; otherwise it is the first word of the host, or the part of the host before the
/// given endpoint.
///
/// # Errors
/// `Invalid` if there is no bucket and object, or properties contradict each other or the URL; `Unsupported` for
/// presigned URLs.
pub fn object_at(url: &str, properties: &mut StoreProperties) -> Result<Option<String>> {
    let Some((protocol, rest)) = url.split_once("://") else { return Ok(None) };
    if !["http", "https"].iter().any(|p| protocol.eq_ignore_ascii_case(p)) {
        return Ok(None);
    }
    let no_bucket = || {
        let forms =
            "http(s)://host/bucket/key with 'use_path_style' = 'true', http(s)://bucket.host/key or s3://bucket/key";
        EngineError::invalid(format!("'{url}' names no bucket and object; write {forms}"))
    };
    if let Some((object, query)) = rest.split_once('?')
        && query.contains("Signature=")
    {
        return Err(EngineError::unsupported(format!(
            "'{protocol}://{object}?...': presigned addresses are not read; leave out '?' and what follows it, and give keys: \
             's3.access_key' and 's3.secret_key' (with 's3.session_token' if there is one)"
        )));
    }
    let (host, path) = rest.split_once('/').ok_or_else(no_bucket)?;
    let given = S3Properties::try_new(properties)?;
    let own = given.endpoint.map(|e| e.split_once("://").map_or(e, |(_, host)| host).trim_end_matches('/'));
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let in_path = given.path_style.unwrap_or_else(|| {
        own == Some(host) || name.starts_with('[') || name.parse::<IpAddr>().is_ok() || !name.contains('.')
    });
    let of_other = |own: &str| EngineError::invalid(format!("'{url}' is not at the endpoint given beside it, '{own}'"));
    let (bucket, host, key) = match (in_path, own) {
        (true, Some(own)) if own != host => return Err(of_other(own)),
        (true, _) => path.split_once('/').map(|(bucket, key)| (bucket, host, key)),
        (false, None) => host.split_once('.').map(|(bucket, host)| (bucket, host, path)),
        (false, Some(own)) => {
            let bucket = host.strip_suffix(own).and_then(|bucket| bucket.strip_suffix('.'));
            Some((bucket.ok_or_else(|| of_other(own))?, own, path))
        }
    }
    .ok_or_else(no_bucket)?;
    let (has_endpoint, has_style) = (given.endpoint.is_some(), given.path_style.is_some());
    let location = format!("s3://{bucket}/{key}");
    if !has_endpoint {
        properties.insert("s3.endpoint".into(), Secret::new(format!("{protocol}://{host}")));
    }
    if !has_style {
        properties.insert("use_path_style".into(), Secret::new(in_path.to_string()));
    }
    Ok(Some(location))
}

/// The endpoint of a store.
struct Endpoint {
    secure: bool,
    /// Host, with the port if one is given.
    host: String,
}

impl Endpoint {
    fn parse(text: &str, ssl: Option<bool>) -> Result<Self> {
        let bad = |what: &str| EngineError::invalid(format!("endpoint '{text}' {what}; write http(s)://host:port"));
        let (secure, rest) = match text.split_once("://") {
            Some(("https", rest)) => (Some(true), rest),
            Some(("http", rest)) => (Some(false), rest),
            Some(_) => return Err(bad("is neither http nor https")),
            None => (None, text),
        };
        let host = rest.trim_end_matches('/');
        if host.is_empty() || host.contains(['/', '@', '?', '#', ' ', '\\']) {
            return Err(bad("is no host"));
        }
        let loopback = match addresses(host) {
            // The first request will report a name that cannot be resolved.
            Err(_) => false,
            Ok(found) => {
                if let Some(refused) = found.iter().find(|a| is_link_local(a)) {
                    return Err(EngineError::new(
                        ErrorKind::Denied,
                        format!(
                            "endpoint '{text}' is the link-local address {refused}, where machines keep their secrets"
                        ),
                    ));
                }
                !found.is_empty() && found.iter().all(IpAddr::is_loopback)
            }
        };
        Ok(Endpoint { secure: secure.or(ssl).unwrap_or(!loopback), host: host.to_string() })
    }
}

fn addresses(host: &str) -> std::io::Result<Vec<IpAddr>> {
    let has_port = host.rsplit_once(':').is_some_and(|(_, p)| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()));
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let found = match bare.parse::<Ipv6Addr>() {
        Ok(ip) => return Ok(vec![ip.into()]),
        Err(_) if has_port => host.to_socket_addrs()?,
        Err(_) => (host, 443).to_socket_addrs()?,
    };
    Ok(found.map(|a| a.ip()).collect())
}

/// Returns whether an address is link-local or unspecified, also if it is mapped to IPv6.
fn is_link_local(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_unspecified(),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => v4.is_link_local() || v4.is_unspecified(),
            // fd00:ec2::254 is AWS's metadata service.
            None => {
                (v6.segments()[0] & 0xffc0) == 0xfe80
                    || v6.is_unspecified()
                    || *v6 == Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(pairs: &[(&str, &str)]) -> StoreProperties {
        pairs.iter().map(|(k, v)| (k.to_string(), Secret::new(*v))).collect()
    }

    #[test]
    fn names_of_all_products_mean_the_same() {
        for (access, secret, endpoint) in [
            ("aws.s3.access_key", "aws.s3.secret_key", "aws.s3.endpoint"),
            ("s3.access_key", "s3.secret_key", "s3.endpoint"),
            ("AWS_ACCESS_KEY", "AWS_SECRET_KEY", "AWS_ENDPOINT"),
            ("fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.endpoint"),
            ("oss.access_key", "oss.secret_key", "oss.endpoint"),
            ("fs.oss.accessKeyId", "fs.oss.accessKeySecret", "fs.oss.endpoint"),
            ("s3.access-key-id", "s3.secret-access-key", "s3.endpoint"),
        ] {
            let given = properties(&[(access, "a"), (secret, "b"), (endpoint, "http://127.0.0.1:9"), ("x", "y")]);
            let s3 = S3Properties::try_new(&given).unwrap();
            assert_eq!((s3.access_key, s3.secret_key, s3.endpoint), (Some("a"), Some("b"), Some("http://127.0.0.1:9")));
        }
        let half = properties(&[("s3.access_key", "a")]);
        assert!(S3Properties::try_new(&half).err().unwrap().message.contains("secret key is missing"));
    }

    #[test]
    fn urls_of_objects_say_where_they_are() {
        let at = |url: &str, own: &[(&str, &str)]| {
            let mut properties = properties(own);
            let location = object_at(url, &mut properties).map_err(|e| e.message)?;
            let s3 = S3Properties::try_new(&properties).map_err(|e| e.message)?;
            Ok::<_, String>(location.map(|l| (l, s3.endpoint.unwrap().to_string(), s3.path_style.unwrap())))
        };
        for (url, own, location, endpoint, path_style) in [
            ("http://127.0.0.1:9000/b/x/y.csv", &[][..], "s3://b/x/y.csv", "http://127.0.0.1:9000", true),
            ("HTTP://minio:9000/b/*.csv", &[], "s3://b/*.csv", "HTTP://minio:9000", true),
            ("https://b-1.cos.ap.myqcloud.com/x/y", &[], "s3://b-1/x/y", "https://cos.ap.myqcloud.com", false),
            ("https://s3.example.com/b/x", &[("use_path_style", "true")], "s3://b/x", "https://s3.example.com", true),
            ("http://m.lan/b/x", &[("s3.endpoint", "http://m.lan")], "s3://b/x", "http://m.lan", true),
            ("http://b.m.lan/x", &[("s3.endpoint", "m.lan")], "s3://b/x", "m.lan", false),
            ("http://b.1.m.lan/x", &[("s3.endpoint", "http://m.lan/")], "s3://b.1/x", "http://m.lan/", false),
        ] {
            assert_eq!(at(url, own), Ok(Some((location.to_string(), endpoint.to_string(), path_style))), "{url}");
        }
        assert_eq!(at("s3://b/x", &[]), Ok(None));
        for bad in ["http://127.0.0.1:9000", "http://127.0.0.1:9000/x", "https://example"] {
            assert!(at(bad, &[]).unwrap_err().contains("names no bucket"), "{bad}");
        }
        for other in ["http://x.lan", "http://b.m.lan"] {
            for style in ["true", "false"] {
                let own = [("s3.endpoint", other), ("use_path_style", style)];
                assert!(at("http://m.lan/b/x", &own).unwrap_err().contains("is not at the endpoint"), "{other}");
            }
        }
    }

    #[test]
    fn properties_of_hadoop_keep_their_case() {
        let given: BTreeMap<String, String> = [
            ("dfs.ha.namenodes.MyCluster", "nn1"),
            ("fs.defaultFS", "hdfs://MyCluster"),
            ("AWS_Region", "r"),
            ("fs.s3a.acess.key", "misspelt"),
            ("skip.header.line.count", "1"),
        ]
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .into();
        let expected =
            [("aws_region", "r"), ("dfs.ha.namenodes.MyCluster", "nn1"), ("fs.defaultFS", "hdfs://MyCluster")];
        assert_eq!(store_properties(&given), properties(&expected));
    }

    #[tokio::test]
    async fn what_is_no_bucket_or_property_is_refused() {
        let cache = DataCache::open(&dipper_cache::CacheOptions::default());
        let stores = Stores::new(tokio::runtime::Handle::current(), cache, StoreProperties::new());
        let keys = [("s3.access_key", "a"), ("s3.secret_key", "b"), ("s3.region", "r")];
        let open = |location: &str, own: &[(&str, &str)]| {
            let opened = stores.open(location, &properties(&[&keys, own].concat()));
            opened.map(|remote| remote.number).map_err(|e| e.message)
        };
        let plain = open("s3://bucket.of-some_Letters9/x", &[]).unwrap();
        assert_eq!(open("s3://bucket.of-some_Letters9/y", &[]), Ok(plain));
        assert_ne!(open("s3://bucket.of-some_Letters9/y", &[("datacache.enable", "false")]), Ok(plain));
        for (location, own, told) in [
            ("s3://two words/x", ("x", ""), "'two words' is no name of a bucket"),
            ("s3://b%41/x", ("x", ""), "'b%41' is no name of a bucket"),
            ("s3://b/x", ("s3.endpoint", "http://127.0.0.1:99999"), "which is no URL"),
            ("s3://b/x", ("datacache.enable", "perhaps"), "'datacache.enable' = 'perhaps': expected true or false"),
        ] {
            let e = open(location, &[own]).unwrap_err();
            assert!(e.contains(told), "{e}");
        }
    }

    #[test]
    fn own_keys_leave_the_place_as_it_is_known() {
        let all = AmazonS3Builder::new()
            .with_endpoint("http://127.0.0.1:9000")
            .with_region("r")
            .with_access_key_id("another's")
            .with_secret_access_key("another's")
            .with_token("another's");
        let left = without_keys(&all);
        let value = |key| left.get_config_value(&key);
        assert_eq!(value(AmazonS3ConfigKey::Endpoint).as_deref(), Some("http://127.0.0.1:9000"));
        assert_eq!(value(AmazonS3ConfigKey::Region).as_deref(), Some("r"));
        for key in [AmazonS3ConfigKey::AccessKeyId, AmazonS3ConfigKey::SecretAccessKey, AmazonS3ConfigKey::Token] {
            assert_eq!(value(key), None);
        }
    }

    #[test]
    fn link_local_endpoints_are_refused() {
        for bad in [
            "http://169.254.169.254",
            "169.254.169.254:80",
            "http://[fe80::1]:9000",
            "[::ffff:169.254.169.254]:80",
            "http://[fd00:ec2::254]",
            "0.0.0.0:80",
            "http://0xa9fea9fe/",
            "http://2852039166",
        ] {
            let e = Endpoint::parse(bad, None).err();
            assert!(e.is_some_and(|e| e.kind == ErrorKind::Denied), "{bad}");
        }
        for (good, secure) in
            [("127.0.0.1:9000", false), ("http://127.0.0.1:9000", false), ("[::1]:9", false), ("10.1.2.3", true)]
        {
            assert_eq!(Endpoint::parse(good, None).unwrap().secure, secure, "{good}");
        }
        for bad in ["ftp://x", "http://a/b", "http://u@h", ""] {
            assert_eq!(Endpoint::parse(bad, None).err().unwrap().kind, ErrorKind::Invalid, "{bad}");
        }
    }

    #[test]
    fn locations_are_taken_apart() {
        assert_eq!(split("S3A://b/x/y").unwrap(), ("s3a".into(), "b", "x/y"));
        assert_eq!(split("s3://b").unwrap(), ("s3".into(), "b", ""));
        assert!(split("s3:///x").is_err() && split("/x").is_err() && split("s3://k:s@b/x").is_err());
        assert!(is_s3("S3A://b/x") && is_s3("oss://b") && !is_s3("hdfs://n/x") && !is_s3("/a"));
        assert!(is_remote("s3://b/x") && is_remote("hdfs://n/x") && !is_remote("file:///x") && !is_remote("/a"));
    }

    #[test]
    fn names_with_a_uuid_are_known() {
        for (path, drawn) in [
            ("w/d/t/data/00000-0-12345678-9abc-4def-8123-456789abcdef-00001.parquet", true),
            ("w/12345678-9abc-4def-8123-456789abcdef/v1.metadata.json", false),
            ("w/d/t/metadata/12345678-9abc-4def-8123-456789abcdef-m0.avro", true),
            ("000000_0", false),
        ] {
            assert_eq!(has_uuid(&ObjectPath::from(path)), drawn, "{path}");
        }
    }

    #[test]
    fn only_data_of_tables_is_immutable() {
        for (path, immutable) in [
            ("t/0001/d/1-2.parquet", true),
            ("t/0001/v/00001", false),
            ("catalog/v/1", false),
            ("t/d/x", false),
            ("t/0001/d", false),
            ("label/1/d/3", false),
        ] {
            assert_eq!(is_table_data(&ObjectPath::from(path)), immutable, "{path}");
        }
    }
}
