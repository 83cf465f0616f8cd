//! The calls of the trait [`ObjectStore`], each run away from the async threads.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Attributes, CopyMode, CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    RenameOptions, Result,
};

use super::disk::ReadFile;
use super::{Inner, LocalStore, READ_CHUNK_BYTES, STORE, object_name, upload};
use crate::now;

fn refuse(what: &str, way_out: &str) -> Error {
    Error::NotSupported { source: format!("{STORE} does not support {what}; {way_out}").into() }
}

fn no_attributes(attributes: &Attributes, tags: &object_store::TagSet) -> Result<()> {
    if !attributes.is_empty() {
        return Err(refuse("attributes", "put the object without them"));
    }
    if !tags.encoded().is_empty() {
        return Err(refuse("tags", "put the object without them"));
    }
    Ok(())
}

/// Reads a range of an open file.
fn read(file: &dyn ReadFile, range: &Range<u64>) -> io::Result<Bytes> {
    let size = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
    let mut bytes = vec![0; size];
    file.read_at(&mut bytes, range.start)?;
    Ok(bytes.into())
}

#[async_trait]
impl ObjectStore for LocalStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        no_attributes(&options.attributes, &options.tags)?;
        let create = match options.mode {
            PutMode::Create => true,
            PutMode::Overwrite => false,
            PutMode::Update(_) => {
                return Err(refuse("conditional updates", "create a new object (PutMode::Create) instead"));
            }
        };
        let location = location.clone();
        self.blocking(move |s| s.put(&location, &payload, create)).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        no_attributes(&options.attributes, &options.tags)?;
        object_name(location)?;
        let at = location.clone();
        let temp = self.blocking(move |s| s.temp().map_err(|e| s.error(&at, e))).await?;
        Ok(Box::new(upload::LocalUpload::new(self.clone(), location.clone(), temp)))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if options.version.is_some() {
            return Err(refuse("object versions", "read the object without one"));
        }
        if now::is_asked(&options) {
            return self.get_now(location, &options);
        }
        let location = location.clone();
        let store = self.clone();
        self.blocking(move |s| {
            let (file, meta) = s.open(&location)?;
            options.check_preconditions(&meta)?;
            let range = match &options.range {
                Some(wanted) => checked(s, &location, wanted, meta.size)?,
                None => 0..meta.size,
            };
            let payload = if options.head {
                stream::empty().boxed()
            } else {
                // The first chunk, most often the whole range, is read in the same hop to a blocking thread.
                let end = range.end.min(range.start + READ_CHUNK_BYTES);
                let first = read(&*file, &(range.start..end)).map_err(|e| s.error(&location, e))?;
                let first = stream::once(async move { Ok(first) });
                first.chain(rest(store, location, file.into(), end..range.end)).boxed()
            };
            Ok(GetResult { payload: GetResultPayload::Stream(payload), meta, range, attributes: Attributes::new() })
        })
        .await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let location = location.clone();
        let ranges = ranges.to_vec();
        self.blocking(move |s| {
            let (file, meta) = s.open(&location)?;
            let one = |r: Range<u64>| {
                let range = checked(s, &location, &GetRange::Bounded(r), meta.size)?;
                read(&*file, &range).map_err(|e| s.error(&location, e))
            };
            ranges.into_iter().map(one).collect()
        })
        .await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        locations
            .ready_chunks(512)
            .then(move |chunk| {
                let store = store.clone();
                async move {
                    let (paths, mut answers): (Vec<_>, Vec<_>) = chunk.into_iter().partition(Result::is_ok);
                    let paths: Vec<Path> = paths.into_iter().flatten().collect();
                    match store.blocking(move |s| Ok(s.delete(&paths))).await {
                        Ok(done) => answers.extend(done),
                        Err(e) => answers.push(Err(e)),
                    }
                    stream::iter(answers)
                }
            })
            .flatten()
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.list_after(prefix, None)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.list_after(prefix, Some(offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let prefix = prefix.cloned();
        self.blocking(move |s| s.list_level(prefix.as_ref())).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let create = match options.mode {
            CopyMode::Create => true,
            CopyMode::Overwrite => false,
        };
        let (from, to) = (from.clone(), to.clone());
        self.blocking(move |s| s.copy(&from, &to, create)).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let create = matches!(options.target_mode, object_store::RenameTargetMode::Create);
        let (from, to) = (from.clone(), to.clone());
        self.blocking(move |s| {
            s.copy(&from, &to, create)?;
            if from == to {
                return Ok(());
            }
            s.delete(&[from]).into_iter().try_for_each(|r| r.map(|_| ()))
        })
        .await
    }
}

impl LocalStore {
    /// Reads a range whose pages the system has in memory.
    fn get_now(&self, location: &Path, options: &GetOptions) -> Result<GetResult> {
        let store = &*self.inner;
        let (file, meta) = store.open(location)?;
        options.check_preconditions(&meta)?;
        let range = match &options.range {
            Some(wanted) => checked(store, location, wanted, meta.size)?,
            None => 0..meta.size,
        };
        let failed = |e| store.error(location, e);
        let size = usize::try_from(range.end - range.start).map_err(|e| failed(io::Error::other(e)))?;
        let mut bytes = vec![0; size];
        file.read_now(&mut bytes, range.start).map_err(failed)?;
        let payload = stream::once(async move { Ok(Bytes::from(bytes)) }).boxed();
        Ok(GetResult { payload: GetResultPayload::Stream(payload), meta, range, attributes: Attributes::new() })
    }

    fn list_after(&self, prefix: Option<&Path>, after: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (prefix, after) = (prefix.cloned(), after.cloned());
        let store = self.clone();
        let all = async move { store.blocking(move |s| s.list(prefix.as_ref(), after.as_ref())).await };
        stream::once(all).map_ok(|found| stream::iter(found.into_iter().map(Ok))).try_flatten().boxed()
    }
}

fn checked(store: &Inner, location: &Path, wanted: &GetRange, size: u64) -> Result<Range<u64>> {
    wanted.as_range(size).map_err(|e| store.error(location, io::Error::new(ErrorKind::InvalidInput, e.to_string())))
}

/// Streams the rest of a range in chunks, each read when it is asked for.
fn rest(
    store: LocalStore,
    location: Path,
    file: Arc<dyn ReadFile>,
    range: Range<u64>,
) -> impl futures::Stream<Item = Result<Bytes>> + Send + 'static {
    stream::try_unfold(range.start, move |at| {
        let (store, location, file) = (store.clone(), location.clone(), Arc::clone(&file));
        async move {
            if at >= range.end {
                return Ok(None);
            }
            let next = range.end.min(at + READ_CHUNK_BYTES);
            let part = store.blocking(move |s| read(&*file, &(at..next)).map_err(|e| s.error(&location, e))).await?;
            Ok(Some((part, next)))
        }
    })
}
