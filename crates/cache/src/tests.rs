//! The cache above a store in memory, with its directory treated badly.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures::TryStreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;
use rand::{Rng, SeedableRng};

use super::{Anew, CacheOptions, CacheStats, CachedStore, DataCache, IoContext, IoCounts, Populate, TaggedStore};

const BLOCK: u64 = 1 << 16;

struct Rig {
    dir: tempfile::TempDir,
    store: Arc<InMemory>,
}

struct Opened {
    cache: Arc<DataCache>,
    store: Arc<CachedStore>,
}

fn content(n: usize, seed: u64) -> Vec<u8> {
    let mut rng = rand::rngs::StdRng::seed_from_u64(seed);
    (0..n).map(|_| rng.random()).collect()
}

impl Rig {
    fn new() -> Self {
        Rig { dir: tempfile::tempdir().unwrap(), store: Arc::default() }
    }

    fn open(&self, memory_bytes: u64, disk_bytes: u64) -> Opened {
        let dir = Some(self.dir.path().to_path_buf());
        let cache =
            DataCache::open(&CacheOptions { dir, disk_bytes: Some(disk_bytes), memory_bytes, block_bytes: BLOCK });
        let store =
            cache.wrap(Arc::clone(&self.store) as _, "memory", Arc::new(|path: &Path| path.as_ref().starts_with("d/")));
        Opened { cache, store }
    }

    async fn put(&self, name: &str, bytes: &[u8]) -> Path {
        let path = Path::from(name);
        self.store.put(&path, bytes.to_vec().into()).await.unwrap();
        path
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut all = Vec::new();
        for shard in std::fs::read_dir(self.dir.path().join("v1")).unwrap() {
            let shard = shard.unwrap().path();
            if shard.is_dir() {
                all.extend(std::fs::read_dir(shard).unwrap().map(|f| f.unwrap().path()));
            }
        }
        all
    }
}

impl Opened {
    /// Reads a range, checks it, and says what it cost.
    async fn read(&self, path: &Path, range: std::ops::Range<u64>, expected: &[u8], populate: Populate) -> IoCounts {
        let context = Arc::new(IoContext { populate, ..IoContext::default() });
        let bytes = context.scope(self.store.get_range(path, range.clone())).await.unwrap();
        assert_eq!(bytes, expected[range.start as usize..(range.end as usize).min(expected.len())], "{path} {range:?}");
        context.stats.counts()
    }
}

#[tokio::test]
async fn a_miss_fetches_what_was_asked_and_the_next_read_nothing() {
    let bytes = content(1_000_000, 1);
    for memory in [0, 1 << 20] {
        let rig = Rig::new();
        let path = rig.put("d/x", &bytes).await;
        let o = rig.open(memory, 1 << 30);
        let first = o.read(&path, 100..300_000, &bytes, Populate::Auto).await;
        assert_eq!((first.requests, first.request_bytes, first.fill_bytes), (1, 299_900, 299_900));
        o.cache.settle().await;
        let second = o.read(&path, 5_000..200_000, &bytes, Populate::Auto).await;
        assert_eq!((second.requests, second.memory_hit_bytes + second.disk_hit_bytes), (0, 195_000));
        let third = o.read(&path, 0..400_000, &bytes, Populate::Auto).await;
        assert_eq!((third.requests, third.request_bytes), (2, 100_100), "the gaps alone");
        assert_eq!(o.cache.stats().disk_capacity, 1 << 30);
    }
}

#[tokio::test]
async fn gaps_between_small_extents_are_one_request() {
    let bytes = content(1_000_000, 32);
    for memory in [0, 2 << 20] {
        let rig = Rig::new();
        let path = rig.put("d/x", &bytes).await;
        let o = rig.open(memory, 1 << 30);
        for i in 1..10 {
            o.read(&path, i * 100_000..i * 100_000 + 1_000, &bytes, Populate::Auto).await;
        }
        o.cache.settle().await;
        let all = o.read(&path, 0..1_000_000, &bytes, Populate::Auto).await;
        assert_eq!((all.requests, all.request_bytes, all.miss_bytes), (1, 1_000_000, 991_000), "not one for each gap");
        assert_eq!(all.fill_bytes, 991_000);
        o.cache.settle().await;
        let again = o.read(&path, 0..1_000_000, &bytes, Populate::Auto).await;
        assert_eq!((again.requests, again.memory_hit_bytes + again.disk_hit_bytes), (0, 1_000_000));
        // An eighth of a request at most is fetched in vain.
        let far = rig.put("d/y", &bytes).await;
        o.read(&far, 100_000..180_000, &bytes, Populate::Auto).await;
        o.cache.settle().await;
        assert_eq!(o.read(&far, 0..300_000, &bytes, Populate::Auto).await.requests, 2);
    }
}

#[tokio::test]
async fn extents_in_memory_are_handed_out_without_a_copy() {
    let bytes = content(300_000, 33);
    let rig = Rig::new();
    let path = rig.put("d/x", &bytes).await;
    let o = rig.open(2 << 20, 1 << 30);
    o.read(&path, 0..300_000, &bytes, Populate::Auto).await;
    o.cache.settle().await;
    let pieces = async |range: std::ops::Range<u64>| {
        let options = GetOptions::default().with_range(Some(GetRange::Bounded(range)));
        let pieces = o.store.get_opts(&path, options).await.unwrap().into_stream();
        pieces.map_ok(|piece| (piece.as_ptr() as usize, piece.len())).try_collect::<Vec<_>>().await.unwrap()
    };
    let whole = pieces(0..300_000).await;
    assert_eq!(whole.len(), 5, "one for each block of 64 KiB");
    let part = pieces(70_000..250_000).await;
    let (first, skipped) = (whole[1].0, 70_000 - BLOCK as usize);
    assert_eq!(part[0], (first + skipped, BLOCK as usize - skipped), "the same memory");
    assert_eq!(part[1], whole[2]);
}

#[tokio::test]
async fn small_objects_are_kept_when_they_are_put() {
    let rig = Rig::new();
    let o = rig.open(0, 1 << 30);
    let (small, large) = (content(200_000, 11), content((1 << 20) + 1, 12));
    for (name, bytes, requests) in [("d/small", &small, 0), ("d/large", &large, 1), ("v/small", &small, 1)] {
        let path = Path::from(name);
        o.store.put(&path, bytes.clone().into()).await.unwrap();
        o.cache.settle().await;
        let read = o.read(&path, 10..150_000, bytes, Populate::Auto).await;
        assert_eq!(read.requests, requests, "{name}");
    }
    // When a piece of it is lost, the store's time of change is no contradiction.
    let path = Path::from("d/small");
    std::fs::remove_file(rig.files().into_iter().find(|f| f.to_string_lossy().contains("-10000-")).unwrap()).unwrap();
    assert_eq!(o.read(&path, 0..200_000, &small, Populate::Auto).await.requests, 1);
    assert_eq!(o.read(&path, 0..200_000, &small, Populate::Auto).await.requests, 0);
    // A put that fails keeps nothing.
    let taken = PutOptions::from(PutMode::Create);
    o.store.put_opts(&path, vec![1; 10].into(), taken).await.unwrap_err();
    assert_eq!(o.read(&path, 0..200_000, &small, Populate::Auto).await.requests, 0);
}

#[tokio::test]
async fn what_is_cached_is_read_in_place() {
    let bytes = content(400_000, 13);
    for memory in [0, 100_000, 1 << 20] {
        let rig = Rig::new();
        let path = rig.put("d/x", &bytes).await;
        let o = rig.open(memory, 1 << 30);
        o.read(&path, 1_000..300_000, &bytes, Populate::Auto).await;
        o.cache.settle().await;
        let context = Arc::new(IoContext::default());
        let read = |from: u64, len: usize, context| {
            let mut out = vec![0; len];
            let n = o.store.read_cached(&path, None, from, &mut out, Some(context));
            assert_eq!(out[..n], bytes[from as usize..from as usize + n], "{n} bytes at {from}");
            n
        };
        assert_eq!(read(0, 5_000, &context), 0, "its first byte is not there");
        assert_eq!(read(5_000, 100_000, &context), 100_000);
        assert_eq!(read(299_000, 50_000, &context), 1_000, "up to the first that is not there");
        let counts = context.stats.counts();
        assert_eq!((counts.requests, counts.memory_hit_bytes + counts.disk_hit_bytes), (0, 101_000));
        let bypass = Arc::new(IoContext { bypass: true, ..IoContext::default() });
        assert_eq!(read(5_000, 1_000, &bypass), 0);
        let mut out = [0; 10];
        assert_eq!(o.store.read_cached(&path, Some("tag"), 5_000, &mut out, None), 0, "another object");
        // A damaged file on disk counts as missing.
        for file in rig.files() {
            let mut all = std::fs::read(&file).unwrap();
            all.iter_mut().for_each(|b| *b ^= 1);
            std::fs::write(&file, all).unwrap();
        }
        let n = read(5_000, 200_000, &context);
        assert!(if memory < 200_000 { n < 200_000 } else { n == 200_000 }, "{n} with {memory} bytes of memory");
    }
}

#[tokio::test]
async fn it_survives_a_restart() {
    let rig = Rig::new();
    let bytes = content(500_000, 2);
    let path = rig.put("d/x", &bytes).await;
    let first = rig.open(1 << 20, 1 << 30);
    first.read(&path, 0..500_000, &bytes, Populate::Auto).await;
    first.cache.settle().await;
    reopen(&rig, first);
    let second = rig.open(1 << 20, 1 << 30);
    second.cache.settle().await;
    assert!(second.cache.stats().has_disk);
    let again = second.read(&path, 1..499_999, &bytes, Populate::Auto).await;
    assert_eq!((again.requests, again.disk_hit_bytes), (0, 499_998));
}

/// A file under another object's, size's or place's name says nothing of how large an object is.
#[tokio::test]
async fn names_of_files_are_not_believed() {
    let bytes = content(100_000, 21);
    for size in ["10000", "186a1", "7fffffffffffffff"] {
        for all in [false, true] {
            let rig = Rig::new();
            let path = rig.put("d/x", &bytes).await;
            let first = rig.open(0, 1 << 30);
            first.read(&path, 0..100_000, &bytes, Populate::Auto).await;
            first.cache.settle().await;
            reopen(&rig, first);
            let mut files = rig.files();
            files.sort_by_key(|file| !file.to_string_lossy().contains("-0-10000"));
            for file in files.iter().take(if all { 2 } else { 1 }) {
                let name = file.file_name().unwrap().to_str().unwrap();
                let mut parts: Vec<_> = name.split('-').collect();
                assert_eq!(parts[1], "186a0");
                parts[1] = size;
                std::fs::rename(file, file.with_file_name(parts.join("-"))).unwrap();
            }
            for ask in 0..4 {
                let o = rig.open(0, 1 << 30);
                o.cache.settle().await;
                let get = async |range| {
                    let options = GetOptions::default().with_range(range);
                    o.store.get_opts(&path, options).await.unwrap().bytes().await.unwrap()
                };
                match ask {
                    0 => assert_eq!(get(Some(GetRange::Suffix(10))).await, bytes[99_990..]),
                    1 => assert_eq!(get(Some(GetRange::Offset(60_000))).await, bytes[60_000..]),
                    2 => assert_eq!(get(None).await, bytes),
                    _ => drop(o.read(&path, 60_000..100_005, &bytes, Populate::Auto).await),
                }
                o.read(&path, 0..100_000, &bytes, Populate::Auto).await;
                o.cache.settle().await;
                assert_eq!(
                    o.read(&path, 0..100_000, &bytes, Populate::Auto).await.requests,
                    0,
                    "kept under its own name"
                );
                o.cache.settle().await;
                reopen(&rig, o);
            }
        }
    }
}

/// Ends a cache: its thread lets go of the directory when the last handle is gone.
fn reopen(rig: &Rig, opened: Opened) {
    let weak = Arc::downgrade(opened.cache.inner());
    drop(opened);
    while weak.strong_count() > 0 {
        std::thread::yield_now();
    }
    // The last handle is gone before what it held is; the directory may be gone, too.
    if let Ok(lock) = std::fs::File::open(rig.dir.path().join("v1/lock")) {
        lock.lock().unwrap();
    }
}

#[tokio::test]
async fn objects_that_may_change_are_kept_by_their_tag_only() {
    let rig = Rig::new();
    let (one, two) = (content(10_000, 3), content(10_000, 4));
    let path = rig.put("external.csv", &one).await;
    let o = rig.open(1 << 20, 1 << 30);
    for _ in 0..2 {
        let plain = o.read(&path, 0..5_000, &one, Populate::Always).await;
        assert_eq!((plain.requests, plain.fill_bytes), (1, 0), "no tag, not kept");
    }
    let tagged = TaggedStore::new(o.store.clone(), 7);
    let at = tagged.path(&o.store.head(&path).await.unwrap()).unwrap();
    assert!(at.as_ref().starts_with("7."), "{at}");
    let context = Arc::new(IoContext::default());
    for _ in 0..2 {
        let got = context.scope(tagged.get_range(&at, 10..5_000)).await.unwrap();
        assert_eq!(got, one[10..5_000]);
        let got = context.scope(tagged.get_ranges(&at, &[20..30, 40..50])).await.unwrap();
        assert_eq!(got, [&one[20..30], &one[40..50]]);
    }
    assert_eq!(context.stats.counts().requests, 1);
    rig.put("external.csv", &two).await;
    let changed = context.scope(tagged.get_range(&at, 6_000..7_000)).await.unwrap_err();
    assert!(matches!(changed, Error::Precondition { .. }), "{changed}");
    let at = tagged.path(&o.store.head(&path).await.unwrap()).unwrap();
    assert_eq!(context.scope(tagged.get_range(&at, 10..5_000)).await.unwrap(), two[10..5_000]);
    tagged.get_range(&path, 0..1).await.unwrap_err();
}

#[tokio::test]
async fn what_is_forgotten_is_read_anew_also_after_a_start() {
    let (damaged, repaired) = (content(300_000, 21), content(300_000, 22));
    for settled in [false, true] {
        let rig = Rig::new();
        let path = rig.put("d/x", &damaged).await;
        let o = rig.open(1 << 20, 1 << 30);
        o.read(&path, 0..300_000, &damaged, Populate::Auto).await;
        if settled {
            o.cache.settle().await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        rig.put("d/x", &repaired).await;
        o.store.forget(&path);
        assert_eq!(o.read(&path, 0..300_000, &repaired, Populate::Auto).await.requests, 1);
        o.cache.settle().await;
        assert_eq!(o.cache.stats().memory_bytes, 300_000);
        reopen(&rig, o);
        let o = rig.open(1 << 20, 1 << 30);
        o.cache.settle().await;
        assert_eq!(o.read(&path, 0..300_000, &repaired, Populate::Auto).await.requests, 0);
    }
}

#[tokio::test]
async fn what_came_damaged_is_asked_of_the_store_and_forgotten() {
    let (damaged, sound) = (content(300_000, 26), content(300_000, 27));
    let rig = Rig::new();
    let path = rig.put("d/x", &damaged).await;
    let o = rig.open(1 << 20, 1 << 30);
    o.read(&path, 0..300_000, &damaged, Populate::Auto).await;
    o.cache.settle().await;
    tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    rig.put("d/x", &sound).await;
    o.read(&path, 100..200_000, &damaged, Populate::Auto).await;
    let mut options = GetOptions::default().with_range(Some(GetRange::Bounded(100..200_000)));
    options.extensions.insert(Anew);
    let context = Arc::new(IoContext::default());
    let got = context.scope(o.store.get_opts(&path, options)).await.unwrap().bytes().await.unwrap();
    assert_eq!(got, sound[100..200_000]);
    let counts = context.stats.counts();
    assert_eq!((counts.requests, counts.fill_bytes), (1, 0), "it may be damaged, too");
    assert!(rig.files().is_empty(), "nor is it there after a start");
    let next = o.read(&path, 0..300_000, &sound, Populate::Auto).await;
    assert_eq!((next.requests, next.fill_bytes), (1, 300_000));
}

/// A store that has tags of its own for its objects, and may not heed what is asked of them.
#[derive(Debug)]
struct Tagging {
    store: Arc<InMemory>,
    tag: Mutex<&'static str>,
    heeds: bool,
}

impl std::fmt::Display for Tagging {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("tagging")
    }
}

#[async_trait]
impl ObjectStore for Tagging {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let tag = *self.tag.lock();
        if self.heeds && options.if_match.as_deref().is_some_and(|wanted| wanted != tag) {
            return Err(Error::Precondition { path: location.to_string(), source: "another tag".into() });
        }
        let mut result = self.store.get_opts(location, GetOptions { if_match: None, ..options }).await?;
        result.meta.e_tag = Some(tag.to_string());
        Ok(result)
    }

    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.store.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(&self, at: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(at, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }
}

impl Rig {
    /// The cache above a store that has this tag for what is in it.
    fn tagging(&self, tag: &'static str, heeds: bool) -> (Opened, Arc<Tagging>) {
        let below = Arc::new(Tagging { store: Arc::clone(&self.store), tag: Mutex::new(tag), heeds });
        let cache = self.open(1 << 20, 1 << 30).cache;
        let store = cache.wrap(Arc::clone(&below) as _, "tagging", Arc::new(|_| false));
        (Opened { cache, store }, below)
    }
}

#[tokio::test]
async fn an_empty_tag_tells_nothing() {
    let (one, two) = (content(10_000, 28), content(10_000, 29));
    let rig = Rig::new();
    let path = rig.put("x", &one).await;
    let (o, _) = rig.tagging("", true);
    let read = async |expected: &[u8]| {
        let context = Arc::new(IoContext { populate: Populate::Always, ..IoContext::default() });
        let range = Some(GetRange::Bounded(0..5_000));
        let options = GetOptions { if_match: Some(String::new()), range, ..GetOptions::default() };
        let got = context.scope(o.store.get_opts(&path, options)).await.unwrap().bytes().await.unwrap();
        assert_eq!(got, expected[..5_000]);
        let counts = context.stats.counts();
        assert_eq!((counts.requests, counts.fill_bytes), (1, 0), "it is not kept");
    };
    read(&one).await;
    rig.put("x", &two).await;
    read(&two).await;
    let mut out = [0; 10];
    assert_eq!(o.store.read_cached(&path, Some(""), 0, &mut out, None), 0);
    // An object whose tag is empty is read in any version.
    let tagged = TaggedStore::new(o.store.clone(), 7);
    let meta = o.store.head(&path).await.unwrap();
    assert_eq!(meta.e_tag.as_deref(), Some(""));
    assert_eq!(tagged.get_range(&tagged.path(&meta).unwrap(), 0..100).await.unwrap(), two[..100]);
}

#[tokio::test]
async fn an_answer_of_another_version_is_refused_and_not_kept() {
    let (one, two) = (content(10_000, 30), content(10_000, 31));
    for heeds in [true, false] {
        let rig = Rig::new();
        let path = rig.put("x", &one).await;
        let (o, below) = rig.tagging("\"one\"", heeds);
        let ask = async |tag: &str, range| {
            let range = Some(GetRange::Bounded(range));
            let options = GetOptions { if_match: Some(tag.to_string()), range, ..GetOptions::default() };
            o.store.get_opts(&path, options).await?.bytes().await
        };
        assert_eq!(ask("\"one\"", 0..5_000).await.unwrap(), one[..5_000]);
        rig.put("x", &two).await;
        *below.tag.lock() = "\"two\"";
        assert_eq!(ask("\"one\"", 0..5_000).await.unwrap(), one[..5_000], "what is kept is of that version");
        for range in [5_000..6_000, 4_000..6_000] {
            let refused = ask("\"one\"", range).await.unwrap_err();
            assert!(matches!(refused, Error::Precondition { .. }), "{refused}");
        }
        assert_eq!(ask("\"two\"", 0..6_000).await.unwrap(), two[..6_000]);
        if !heeds {
            // Some put the quotes of a tag aside, or call it weak.
            assert_eq!(ask("two", 0..6_000).await.unwrap(), two[..6_000]);
            assert_eq!(ask("W/\"two\"", 0..6_000).await.unwrap(), two[..6_000]);
        }
    }
}

#[tokio::test]
async fn a_changed_object_of_which_parts_are_kept_is_refused_once() {
    let (before, after) = (content(300_000, 24), content(300_000, 25));
    let rig = Rig::new();
    let path = rig.put("d/x", &before).await;
    let o = rig.open(1 << 20, 1 << 30);
    o.read(&path, 0..100_000, &before, Populate::Auto).await;
    tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    rig.put("d/x", &after).await;
    let refused = o.store.get_range(&path, 0..200_000).await.unwrap_err();
    assert!(refused.to_string().contains("changed while it was read"), "{refused}");
    o.read(&path, 0..200_000, &after, Populate::Auto).await;
}

#[tokio::test]
async fn stores_beside_the_cache_are_counted_and_not_kept() {
    let rig = Rig::new();
    let bytes = content(10_000, 23);
    let path = rig.put("d/x", &bytes).await;
    let o = rig.open(1 << 20, 1 << 30);
    let o = Opened { store: o.cache.beside(Arc::clone(&rig.store) as _), cache: o.cache };
    for _ in 0..2 {
        let counts = o.read(&path, 0..5_000, &bytes, Populate::Always).await;
        assert_eq!((counts.requests, counts.request_bytes, counts.misses, counts.fill_bytes), (1, 5_000, 0, 0));
    }
}

#[tokio::test]
async fn any_read_is_right_however_the_directory_is_treated() {
    let rig = Rig::new();
    let objects: Vec<(Path, Vec<u8>)> = {
        let mut all = Vec::new();
        for i in 0..6_usize {
            let bytes = content(50_000 + 70_000 * i, i as u64);
            all.push((rig.put(&format!("d/{i}"), &bytes).await, bytes));
        }
        all
    };
    let mut rng = rand::rngs::StdRng::seed_from_u64(9);
    // Room for about a third of it.
    let mut o = rig.open(100_000, 450_000);
    for round in 0..1_500 {
        let (path, bytes) = &objects[rng.random_range(0..objects.len())];
        let size = bytes.len() as u64;
        let from = rng.random_range(0..size);
        let to = (from + rng.random_range(1..150_000)).min(size + 5);
        let populate = [Populate::Auto, Populate::Always, Populate::Never][rng.random_range(0..3)];
        if round % 3 == 0 {
            let context = Arc::new(IoContext { populate, ..IoContext::default() });
            let middle = (from + to) / 2;
            let ranges = [middle.min(size)..to.min(size), from..middle.min(size), from..(from + 1).min(size)];
            let got = context.scope(o.store.get_ranges(path, &ranges)).await.unwrap();
            for (range, got) in ranges.iter().zip(got) {
                assert_eq!(got, bytes[range.start as usize..range.end as usize]);
            }
        } else {
            o.read(path, from..to, bytes, populate).await;
        }
        match rng.random_range(0..40) {
            0 => drop(std::fs::remove_dir_all(rig.dir.path())),
            1..6 => {
                for file in if rig.dir.path().join("v1").is_dir() { rig.files() } else { Default::default() } {
                    if let Ok(mut bytes) = std::fs::read(&file)
                        && !bytes.is_empty()
                    {
                        let at = rng.random_range(0..bytes.len());
                        bytes[at] ^= 1 << rng.random_range(0..8);
                        let _ = std::fs::write(&file, &bytes);
                    }
                }
            }
            6 => {
                o.cache.settle().await;
                reopen(&rig, o);
                o = rig.open(100_000, 450_000);
            }
            7 => o.cache.settle().await,
            8 => {
                let files = if rig.dir.path().join("v1").is_dir() { rig.files() } else { Default::default() };
                files.iter().for_each(|file| drop(std::fs::remove_file(file)));
            }
            _ => {}
        }
        let CacheStats { disk_bytes, disk_capacity, .. } = o.cache.stats();
        assert!(disk_bytes <= disk_capacity, "{disk_bytes} of {disk_capacity}");
    }
    o.cache.settle().await;
    let stats = o.cache.stats();
    assert!(stats.memory_bytes <= stats.memory_capacity && stats.pending_bytes == 0, "{stats:?}");
}

#[tokio::test]
async fn a_directory_that_cannot_be_written_costs_requests_only() {
    let rig = Rig::new();
    let bytes = content(300_000, 5);
    let path = rig.put("d/x", &bytes).await;
    // A file where the directory should be.
    let at = rig.dir.path().join("file");
    std::fs::write(&at, "x").unwrap();
    let options = CacheOptions { dir: Some(at), disk_bytes: Some(1 << 20), memory_bytes: 4 << 20, block_bytes: BLOCK };
    let cache = DataCache::open(&options);
    assert!(!cache.stats().has_disk);
    let store = cache.wrap(Arc::clone(&rig.store) as _, "memory", Arc::new(|_| true));
    let o = Opened { cache, store };
    assert_eq!(o.read(&path, 0..300_000, &bytes, Populate::Auto).await.requests, 1);
    assert_eq!(o.read(&path, 0..300_000, &bytes, Populate::Auto).await.requests, 0, "memory serves");
    // Files where its subdirectories should be: writes fail, reads go on.
    let o = rig.open(0, 1 << 30);
    for shard in 0..=255 {
        std::fs::write(rig.dir.path().join(format!("v1/{shard:02x}")), "x").unwrap();
    }
    for _ in 0..3 {
        assert_eq!(o.read(&path, 0..300_000, &bytes, Populate::Auto).await.requests, 1);
        o.cache.settle().await;
    }
    let stats = o.cache.stats();
    assert!(stats.write_errors == 15 && stats.disk_fails, "those that are not tried count, too: {stats:?}");
}

#[tokio::test]
async fn a_directory_that_is_removed_is_empty() {
    let rig = Rig::new();
    let bytes = content(300_000, 5);
    let path = rig.put("d/x", &bytes).await;
    let o = rig.open(0, 1 << 30);
    let read = async || o.read(&path, 0..300_000, &bytes, Populate::Auto).await.requests;
    assert_eq!((read().await, o.cache.settle().await, read().await), (1, (), 0));
    assert!(o.cache.stats().disk_bytes > 300_000);
    std::fs::remove_dir_all(rig.dir.path().join("v1")).unwrap();
    let stats = o.cache.stats();
    assert_eq!((stats.disk_bytes, stats.extents, stats.disk_fails), (0, 0, false));
    assert_eq!((read().await, o.cache.settle().await, read().await), (1, (), 0), "it is made and filled again");
}

#[tokio::test]
async fn large_scans_fill_on_the_second_touch() {
    let rig = Rig::new();
    let bytes = content(400_000, 6);
    let path = rig.put("d/x", &bytes).await;
    let o = rig.open(0, 1_000_000);
    let scan = |populate| {
        let (o, path, bytes) = (&o, &path, &bytes);
        async move {
            let context = Arc::new(IoContext { populate, ..IoContext::default() });
            for block in 0..6 {
                let range = block * BLOCK..(block + 1) * BLOCK;
                let got = context.scope(o.store.get_range(path, range.clone())).await.unwrap();
                assert_eq!(got, bytes[range.start as usize..range.end as usize]);
                o.cache.settle().await;
            }
            context.stats.counts()
        }
    };
    assert_eq!(scan(Populate::Never).await.fill_bytes, 0);
    let first = scan(Populate::Auto).await;
    assert_eq!((first.requests, first.fill_bytes), (6, BLOCK), "a tenth, then no more");
    let second = scan(Populate::Auto).await;
    assert!(second.requests == 5 && second.fill_bytes >= 4 * BLOCK, "{second:?}");
    assert_eq!(scan(Populate::Auto).await.requests, 0);
}

#[tokio::test]
async fn other_calls_go_through() {
    let rig = Rig::new();
    let bytes = content(1_000, 7);
    let o = rig.open(1 << 20, 1 << 20);
    let path = Path::from("d/y");
    o.store.put(&path, bytes.clone().into()).await.unwrap();
    let context = Arc::new(IoContext::default());
    let read = |options: GetOptions| context.scope(o.store.get_opts(&path, options));
    assert_eq!(read(GetOptions::default()).await.unwrap().bytes().await.unwrap(), bytes);
    let suffix = GetOptions::default().with_range(Some(GetRange::Suffix(10)));
    assert_eq!(read(suffix).await.unwrap().bytes().await.unwrap(), bytes[990..]);
    let offset = GetOptions::default().with_range(Some(GetRange::Offset(900)));
    let got = read(offset).await.unwrap();
    assert_eq!((got.meta.size, got.range.clone()), (1_000, 900..1_000));
    assert_eq!(got.bytes().await.unwrap(), bytes[900..]);
    assert_eq!(context.stats.counts().requests, 0, "the put left all of it, for reads without a range too");
    let beyond = GetOptions::default().with_range(Some(GetRange::Bounded(1_000..1_001)));
    read(beyond).await.unwrap_err();
    let listed: Vec<_> = o.store.list(None).try_collect().await.unwrap();
    assert_eq!(listed.len(), 1);
    o.store.delete(&path).await.unwrap();
    let counts = o.cache.io().counts();
    assert_eq!((counts.puts, counts.put_bytes, counts.lists, counts.deletes), (1, 1_000, 1, 1));
}
