//! A bucket that is tested before it is written to.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};
use tokio::sync::OnceCell;

use crate::chain::probe_put_if_absent;
use crate::now;

/// A store that is written to only after 32 racing creates have shown that exactly one wins: on a bucket that accepts
/// all of them, two writers would take the same version for theirs. The first write runs the test, once.
#[derive(Debug)]
pub struct ProbedStore {
    store: Arc<dyn ObjectStore>,
    proof: OnceCell<()>,
}

impl ProbedStore {
    /// Wraps a store; nothing is read or written yet.
    pub fn new(store: Arc<dyn ObjectStore>) -> Self {
        ProbedStore { store, proof: OnceCell::new() }
    }

    /// Runs the test, if it was not run before.
    ///
    /// # Errors
    /// [`Error::NotSupported`] if the store failed the test, or if it could not be run; nothing is written to the
    /// store.
    pub async fn prove(&self) -> Result<()> {
        let proof = self.proof.get_or_try_init(|| async {
            probe_put_if_absent(&self.store, &Path::default()).await.map_err(|e| Error::NotSupported {
                source: format!("nothing is written to {}: {e}", self.store).into(),
            })
        });
        proof.await.copied()
    }
}

impl fmt::Display for ProbedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for ProbedStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.prove().await?;
        self.store.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.prove().await?;
        self.store.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if now::is_asked(&options) {
            return Err(Error::NotSupported { source: "a store behind a network has nothing at hand".into() });
        }
        self.store.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.store.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.prove().await?;
        self.store.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.prove().await?;
        self.store.rename_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;
    use object_store::memory::InMemory;
    use object_store::{ObjectStoreExt, PutMode};

    use super::*;

    /// Accepts every create, like buckets that do not know `If-None-Match`.
    #[derive(Debug, Default)]
    struct Lying(InMemory);

    impl fmt::Display for Lying {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a bucket that lies")
        }
    }

    #[async_trait]
    impl ObjectStore for Lying {
        async fn put_opts(&self, location: &Path, payload: PutPayload, _: PutOptions) -> Result<PutResult> {
            self.0.put_opts(location, payload, PutMode::Overwrite.into()).await
        }

        async fn put_multipart_opts(
            &self,
            location: &Path,
            options: PutMultipartOptions,
        ) -> Result<Box<dyn MultipartUpload>> {
            self.0.put_multipart_opts(location, options).await
        }

        async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
            self.0.get_opts(location, options).await
        }

        fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
            self.0.delete_stream(locations)
        }

        fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
            self.0.list(prefix)
        }

        async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
            self.0.list_with_delimiter(prefix).await
        }

        async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
            self.0.copy_opts(from, to, options).await
        }
    }

    #[tokio::test]
    async fn a_bucket_that_lies_is_read_and_not_written() {
        let lying = Lying::default();
        lying.0.put(&Path::from("x"), "1".into()).await.unwrap();
        let store = ProbedStore::new(Arc::new(lying));
        assert_eq!(store.get(&Path::from("x")).await.unwrap().bytes().await.unwrap(), "1");
        for _ in 0..2 {
            let e = store.put(&Path::from("y"), "2".into()).await.unwrap_err();
            assert!(matches!(e, Error::NotSupported { .. }) && e.to_string().contains("32"), "{e}");
        }
        let left: Vec<_> = store.list(None).try_collect().await.unwrap();
        assert_eq!(left.len(), 1, "the probe cleans up");
    }

    #[tokio::test]
    async fn an_honest_one_is_asked_once() {
        let store = ProbedStore::new(Arc::new(InMemory::new()));
        store.put(&Path::from("y"), "2".into()).await.unwrap();
        assert!(store.proof.initialized());
        store.put(&Path::from("y"), "3".into()).await.unwrap();
    }
}
