//! Files in object stores: the objects that a location means, and their bytes.

use dipper_cache::CachedStore;
use futures::TryStreamExt;
use object_store::path::Path as ObjectPath;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt};
use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use super::ahead::ReadAhead;
use super::listings::Listings;
use super::stores::{Remote, StoreProperties, Stores};
use super::{FileEntry, braces, keys, lakes, partitions};
use crate::error::{EngineError, ErrorKind, Result};

/// A listed object.
#[derive(Debug, Clone)]
pub struct RemoteFile {
    /// The store that holds it.
    pub store: Arc<CachedStore>,
    /// Number of the store among those of this process.
    pub store_number: u64,
    /// Path, size, time and tag.
    pub meta: ObjectMeta,
    /// Runtime for its requests.
    pub io: tokio::runtime::Handle,
    /// Memory for data that is read ahead.
    pub ahead: Arc<ReadAhead>,
}

impl PartialEq for RemoteFile {
    fn eq(&self, other: &Self) -> bool {
        self.store_number == other.store_number && self.meta == other.meta
    }
}

impl Eq for RemoteFile {}

/// The values of a partition, and its files.
pub type PartitionFiles = (Vec<Option<String>>, Vec<FileEntry>);

fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

fn failed(location: &str, e: &Error) -> EngineError {
    let kind = match e {
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => ErrorKind::Denied,
        _ => ErrorKind::File,
    };
    let reason = match e {
        Error::NotFound { .. } => "no such object or bucket".to_string(),
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => format!(
            "the store refuses; are 'aws.s3.access_key' and 'aws.s3.secret_key' (or AWS_ACCESS_KEY_ID) right? {e}"
        ),
        other => other.to_string(),
    };
    EngineError::of_store(kind, format!("cannot read '{location}': {reason}"), e)
}

fn hidden(part: &str) -> bool {
    part.starts_with(['_', '.'])
}

/// Lists the objects that `location` means, by name: one object, all visible ones below a prefix, or those that a glob
/// matches. Empty if there are none.
///
/// # Errors
/// `Denied` if the store refuses; `File` if it does not answer; `Invalid` if the glob is invalid; `Unsupported` if an
/// object belongs to a table of a lake format; the errors of [`Stores::open`].
pub async fn list(stores: &Stores, location: &str, properties: &StoreProperties) -> Result<Vec<FileEntry>> {
    let found = list_as_written(stores, location, properties).await?;
    // Hadoop's file systems treat `//` as `/`: look where they have written.
    let other = split_scheme(location).map(|(scheme, rest)| (scheme, keys::without_empty_parts(rest)));
    match other {
        Some((scheme, Cow::Owned(rest))) if found.is_empty() => {
            let slash = if location.ends_with('/') { "/" } else { "" };
            list_as_written(stores, &format!("{scheme}://{rest}{slash}"), properties).await
        }
        _ => Ok(found),
    }
}

fn split_scheme(location: &str) -> Option<(&str, &str)> {
    location.split_once("://").map(|(scheme, rest)| (scheme, rest.trim_end_matches('/')))
}

async fn list_as_written(stores: &Stores, location: &str, properties: &StoreProperties) -> Result<Vec<FileEntry>> {
    let remote = stores.open(location, properties)?;
    let entry = |meta| entry(stores, &remote, meta);
    let path: &str = remote.path.as_ref();
    let mut found: Vec<FileEntry> = Vec::new();
    if is_glob(path) {
        let literal: Vec<&str> = path.split('/').take_while(|part| !is_glob(part)).collect();
        let prefix = ObjectPath::parse(literal.join("/")).unwrap_or_default();
        let patterns = braces(path)?
            .iter()
            .map(|p| glob::Pattern::new(p))
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(|e| EngineError::invalid(format!("'{location}' is not a glob pattern: {}", e.msg)))?;
        let options = glob::MatchOptions {
            case_sensitive: true,
            require_literal_separator: true,
            require_literal_leading_dot: true,
        };
        let all = below(&remote, &prefix, location).await?;
        let matches = |meta: &&ObjectMeta| {
            let name = meta.location.filename().unwrap_or_default();
            !hidden(name) && patterns.iter().any(|p| p.matches_with(meta.location.as_ref(), options))
        };
        lakes::refuse_listed(location, paths(&all), all.iter().filter(matches).map(|m| m.location.as_ref()))?;
        found.extend(all.iter().filter(matches).cloned().map(entry));
    } else {
        let looks_like_file = !location.ends_with('/') && path.rsplit('/').next().is_some_and(|n| n.contains('.'));
        if looks_like_file && let Some(meta) = head(&remote, location).await? {
            return Ok(vec![entry(meta)]);
        }
        let all = below(&remote, &remote.path, location).await?;
        let is_data = |meta: &&ObjectMeta| {
            let rest = relative(&remote.path, &meta.location);
            !rest.is_empty() && !rest.split('/').any(hidden)
        };
        lakes::refuse_listed(location, paths(&all), all.iter().filter(is_data).map(|m| m.location.as_ref()))?;
        found.extend(all.iter().filter(is_data).cloned().map(entry));
        if found.is_empty() && !looks_like_file && !location.ends_with('/') && !path.is_empty() {
            found.extend(head(&remote, location).await?.map(entry));
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Returns the paths of objects.
fn paths(all: &[ObjectMeta]) -> impl Iterator<Item = &str> {
    all.iter().map(|meta| meta.location.as_ref())
}

async fn head(remote: &Remote, location: &str) -> Result<Option<ObjectMeta>> {
    match remote.store.head(&remote.path).await {
        Ok(meta) => Ok(Some(meta)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(e) => {
            let error = failed(location, &e);
            Err(match refusal(remote, &e).await {
                Some(words) => EngineError { message: format!("{}; the store says {words}", error.message), ..error },
                None => error,
            })
        }
    }
}

/// Returns why a HEAD was refused, in the store's words. The answer to a HEAD has no body, but a listing is refused for
/// the same reason, and its answer says it. Other errors are not investigated: the store may not be answering at all.
async fn refusal(remote: &Remote, e: &Error) -> Option<String> {
    let refused = match e {
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => true,
        // The client does not expose the status.
        e => e.to_string().contains("400 Bad Request"),
    };
    if !refused {
        return None;
    }
    let told = remote.store.list(Some(&remote.path)).try_next().await.err()?.to_string();
    Some(told.split_once("status code: ").map_or(told.clone(), |(_, words)| words.trim_end().to_string()))
}

async fn below(remote: &Remote, prefix: &ObjectPath, location: &str) -> Result<Vec<ObjectMeta>> {
    let prefix = Some(prefix).filter(|p| p.parts().next().is_some());
    let listed = remote.store.list(prefix).try_filter(|meta| {
        let is_object = !keys::is_marker(meta.location.as_ref(), meta.size);
        std::future::ready(is_object)
    });
    listed.try_collect().await.map_err(|e| failed(location, &e))
}

/// Returns a path below a root, as text.
fn relative<'a>(root: &ObjectPath, path: &'a ObjectPath) -> &'a str {
    let (root, path): (&str, &str) = (root.as_ref(), path.as_ref());
    path.strip_prefix(root).unwrap_or_default().trim_start_matches('/')
}

fn entry(stores: &Stores, remote: &Remote, meta: ObjectMeta) -> FileEntry {
    FileEntry {
        path: PathBuf::from(remote.url(&meta.location)),
        len: meta.size,
        modified: meta.last_modified.into(),
        remote: Some(RemoteFile {
            store: Arc::clone(&remote.store),
            store_number: remote.number,
            meta,
            io: stores.io().clone(),
            ahead: Arc::clone(stores.ahead()),
        }),
    }
}

/// Returns the directories that contain listed objects, `levels` levels below `root`.
pub fn directories(root: &ObjectPath, levels: usize, files: &[FileEntry]) -> Vec<String> {
    let directory = |file: &FileEntry| {
        let below = relative(root, &file.remote.as_ref()?.meta.location);
        Some(below.split('/').take(levels).collect::<Vec<_>>().join("/"))
    };
    let mut all: Vec<String> = files.iter().filter_map(directory).collect();
    all.dedup();
    all
}

/// Returns the partitions of a table below `location`, by name; a single listing finds them all.
///
/// # Errors
/// `File` if an object is not in a partition's directory `column=value`; the errors of [`list`].
pub async fn partitioned(
    (stores, listings): (&Arc<Stores>, &Listings),
    location: &str,
    properties: &StoreProperties,
    columns: &[String],
) -> Result<Vec<PartitionFiles>> {
    let root = stores.open(location, properties)?.path;
    // The location in which `list` looks if it finds nothing.
    let key = keys::from_path(root.as_ref());
    let other = ObjectPath::parse(keys::without_empty_parts(&key)).unwrap_or_else(|_| root.clone());
    let directory = format!("{}/", location.trim_end_matches('/'));
    let mut all: std::collections::BTreeMap<Vec<Option<String>>, Vec<FileEntry>> = std::collections::BTreeMap::new();
    for file in listings.list(stores, &directory, properties).await?.iter() {
        let Some(remote) = &file.remote else { continue };
        let place = &remote.meta.location;
        let root = if place.prefix_matches(&root) { &root } else { &other };
        let parts: Vec<&str> = relative(root, place).split('/').collect();
        // An empty object with a directory's name stands for the directory itself.
        if parts.len() <= columns.len() && file.len == 0 {
            continue;
        }
        let values =
            columns.iter().zip(&parts[..parts.len() - 1]).map(|(column, part)| partitions::value(column, part));
        let values: Option<Vec<_>> = values.collect();
        match values.filter(|v| v.len() == columns.len()) {
            Some(values) => all.entry(values).or_default().push(file.clone()),
            None => {
                let expected: Vec<_> = columns.iter().map(|c| format!("{c}=...")).collect();
                return Err(EngineError::new(
                    ErrorKind::File,
                    format!(
                        "'{}' is not in a partition directory {}/; move it into one or out of the table",
                        file.name(),
                        expected.join("/")
                    ),
                ));
            }
        }
    }
    Ok(all.into_iter().collect())
}
