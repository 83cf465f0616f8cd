use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU8;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStoreExt, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use super::record::{Done, PartObject, decode, encode};
use super::*;

/// Counts of additions by key, and keys that can be taken once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Counts {
    added: BTreeMap<String, u64>,
    taken: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Change {
    Add(String),
    Take(String, u64),
    Nothing,
}

impl State for Counts {
    type Change = Change;
    type Error = String;
    type Part = ();
    const FORMAT: u16 = 1;

    fn apply(&mut self, change: &Change) -> Result<bool, String> {
        match change {
            Change::Add(key) => *self.added.entry(key.clone()).or_default() += 1,
            Change::Take(key, _) if self.taken.contains_key(key) => return Err(format!("{key} is taken")),
            Change::Take(key, by) => drop(self.taken.insert(key.clone(), *by)),
            Change::Nothing => return Ok(false),
        }
        Ok(true)
    }
}

fn prefix() -> Path {
    Path::from("t")
}

async fn open(store: &Arc<dyn ObjectStore>) -> Chain<Counts> {
    open_every(store, 64).await
}

async fn open_every(store: &Arc<dyn ObjectStore>, checkpoint_versions: u64) -> Chain<Counts> {
    let options = Options { checkpoint_versions, ..Options::default() };
    Chain::open(Arc::clone(store), prefix(), options).await.unwrap()
}

fn memory() -> Arc<dyn ObjectStore> {
    Arc::new(InMemory::new())
}

fn add(key: impl ToString) -> Change {
    Change::Add(key.to_string())
}

async fn names(store: &Arc<dyn ObjectStore>, dir: &str) -> Vec<u64> {
    let dir = Path::from(format!("t/{dir}"));
    let metas: Vec<ObjectMeta> = store.list(Some(&dir)).try_collect().await.unwrap();
    let mut numbers: Vec<u64> = metas.iter().map(|m| m.location.filename().unwrap().parse().unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

/// A store whose answers go wrong: puts that are done but reported as failed, puts that are not done at all, reads that
/// fail.
#[derive(Debug)]
pub(crate) struct Faulty {
    inner: InMemory,
    /// One in this number of puts loses its answer; another one in this number reports a conflict that does not exist.
    lost: u32,
    /// One in this number of reads fails.
    unread: u32,
    /// One in this number of puts of versions and checkpoints sleeps before it writes, long enough for others to free
    /// its number.
    sleepy: u32,
    /// Whether every put fails like on a full disk.
    full: AtomicBool,
    /// Kind of requests that are refused, as by a store that rejects the credentials.
    denied: AtomicU8,
    /// Once it is set, each listing waits for a permit; what it answers is settled before.
    gate: OnceLock<Arc<Semaphore>>,
    /// Listings since then.
    listings: AtomicU64,
}

/// Puts are refused, but an earlier try was done.
const DENIED_WHEN_DONE: u8 = 1;
/// Puts are refused.
const DENIED: u8 = 2;
/// Puts and reads are refused.
const ALL_DENIED: u8 = 3;

fn denied(at: &Path) -> object_store::Error {
    object_store::Error::PermissionDenied { path: at.to_string(), source: "403".into() }
}

impl Faulty {
    pub(crate) fn new(lost: u32, unread: u32) -> Arc<Self> {
        Self::sleepy(lost, unread, 0)
    }

    pub(crate) fn sleepy(lost: u32, unread: u32, sleepy: u32) -> Arc<Self> {
        let (full, denied) = (AtomicBool::new(false), AtomicU8::new(0));
        let (gate, listings) = (OnceLock::new(), AtomicU64::new(0));
        Arc::new(Self { inner: InMemory::new(), lost, unread, sleepy, full, denied, gate, listings })
    }

    /// Makes all puts, reads and listings by directory fail.
    pub(crate) fn deny_all(&self) {
        self.denied.store(ALL_DENIED, Ordering::Release);
    }
}

fn one_in(n: u32) -> bool {
    n > 0 && rand::rng().random_range(0..n) == 0
}

fn generic(text: &str) -> object_store::Error {
    object_store::Error::Generic { store: "Faulty", source: text.into() }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faulty")
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, at: &Path, payload: PutPayload, o: PutOptions) -> object_store::Result<PutResult> {
        if self.full.load(Ordering::Acquire) {
            return Err(generic("no space left on device"));
        }
        let refused = self.denied.load(Ordering::Acquire);
        if refused >= DENIED {
            return Err(denied(at));
        }
        tokio::task::yield_now().await;
        if !at.as_ref().contains("/d/") && one_in(self.sleepy) {
            let ms = rand::rng().random_range(1..40);
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
        if at.as_ref().contains("/v/") && one_in(self.lost) {
            return Err(object_store::Error::AlreadyExists { path: at.to_string(), source: "spurious".into() });
        }
        let put = self.inner.put_opts(at, payload, o).await;
        if at.as_ref().contains("/v/") && one_in(self.lost) {
            return Err(generic("the answer is lost"));
        }
        if refused == DENIED_WHEN_DONE { Err(denied(at)) } else { put }
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        o: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, o).await
    }

    async fn get_opts(&self, at: &Path, o: GetOptions) -> object_store::Result<GetResult> {
        tokio::task::yield_now().await;
        if one_in(self.unread) {
            return Err(generic("the connection was reset"));
        }
        if self.denied.load(Ordering::Acquire) == ALL_DENIED {
            return Err(denied(at));
        }
        self.inner.get_opts(at, o).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        if one_in(self.unread) {
            return futures::stream::once(async { Err(generic("the connection was reset")) }).boxed();
        }
        let Some(gate) = self.gate.get().cloned() else { return self.inner.list(prefix) };
        self.listings.fetch_add(1, Ordering::AcqRel);
        let answer = match self.denied.load(Ordering::Acquire) {
            ALL_DENIED => {
                let refused = denied(prefix.unwrap_or(&Path::default()));
                futures::stream::once(async { Err(refused) }).boxed()
            }
            _ => self.inner.list(prefix),
        };
        futures::stream::once(async move {
            gate.acquire().await.unwrap().forget();
            answer
        })
        .flatten()
        .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        if self.denied.load(Ordering::Acquire) == ALL_DENIED {
            return Err(denied(prefix.unwrap_or(&Path::default())));
        }
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, o: CopyOptions) -> object_store::Result<()> {
        self.inner.copy_opts(from, to, o).await
    }
}

#[tokio::test]
async fn versions_are_there_after_opening_again() {
    let store = memory();
    let a = open(&store).await;
    assert_eq!((a.version(), &*a.snapshot()), (0, &Counts::default()));
    a.commit(add("x")).await.unwrap();
    a.commit(add("x")).await.unwrap();
    let b = open(&store).await;
    assert_eq!((b.version(), b.snapshot().added["x"]), (2, 2));
    assert_eq!(*b.commit(Change::Nothing).await.unwrap(), *a.snapshot());
    assert_eq!(b.version(), 2, "a change that alters nothing makes no version");
    b.commit(add("y")).await.unwrap();
    assert_eq!(a.refresh().await.unwrap().added["y"], 1);
}

#[tokio::test]
async fn a_listing_does_not_read_back_what_was_just_put() {
    let store = memory();
    let io: Io<Counts> = Io::new(Arc::clone(&store), prefix());
    let (id, prev, horizon) = (RecordId::fresh(), RecordId::ROOT, TxnId::default());
    let record = Arc::new(Record { number: 1, id, prev, writer: 7, at_ms: 0, horizon, entries: Vec::new() });
    assert!(io.put_record(&record).await.is_ok_and(|made| made));
    let listed = async || match io.read(&Ask::List { after: 0 }).await.unwrap() {
        Answer::List(mut records) => records.pop().unwrap(),
        other => panic!("{other:?}"),
    };
    assert!(Arc::ptr_eq(&listed().await, &record));
    // Another writer's record under that number, after it was freed, is read, because its tag differs.
    let other: Io<Counts> = Io::new(Arc::clone(&store), prefix());
    store.delete(&Path::from("t/v/00000000000000000001")).await.unwrap();
    let theirs = Arc::new(Record { id: RecordId::fresh(), ..(*record).clone() });
    assert!(other.put_record(&theirs).await.is_ok_and(|made| made));
    assert_eq!(listed().await.id, theirs.id);
}

#[tokio::test]
async fn a_change_is_refused_only_on_the_newest_state() {
    let store = memory();
    let (a, b) = (open(&store).await, open(&store).await);
    a.commit(Change::Take("k".into(), 1)).await.unwrap();
    // b does not know it yet: it loses the number, reads, and finds that its change does not fit.
    let refused = b.commit(Change::Take("k".into(), 2)).await;
    assert!(matches!(refused, Err(CommitError::Refused(e)) if e == "k is taken"));
    assert_eq!(b.snapshot().taken["k"], 1);
    assert_eq!(names(&store, "v").await, [1]);
}

#[tokio::test]
async fn checkpoints_replace_versions() {
    let store = memory();
    let a = open(&store).await;
    let sleeper = open(&store).await;
    for i in 0..10 {
        a.commit(add(i)).await.unwrap();
    }
    a.vacuum().await.unwrap();
    assert_eq!((names(&store, "v").await, names(&store, "c").await), (vec![10], vec![1]));
    assert_eq!(names(&store, "done").await, [10]);
    assert_eq!(*open(&store).await.snapshot(), *a.snapshot());
    // The sleeper's next number is a freed one. Its put succeeds, and is not taken for a version.
    let state = sleeper.commit(add("late")).await.unwrap();
    assert_eq!(state.added.len(), 11);
    assert_eq!(sleeper.version(), 11);
    assert_eq!(names(&store, "v").await, [1, 10, 11]);
    for chain in [&a, &sleeper, &open(&store).await] {
        assert_eq!(chain.refresh().await.unwrap().added["late"], 1);
    }
    a.vacuum().await.unwrap();
    assert_eq!((names(&store, "v").await, names(&store, "c").await), (vec![11], vec![2]));
    assert_eq!(names(&store, "done").await, [10, 11]);
    let before = store.list(None).count().await;
    a.vacuum().await.unwrap();
    assert_eq!(store.list(None).count().await, before, "nothing to do");
}

#[tokio::test]
async fn done_markers_go_when_the_horizon_has_passed_them() {
    let store = memory();
    let options = Options { remember: Duration::from_millis(1), ..Options::default() };
    let a: Chain<Counts> = Chain::open(Arc::clone(&store), prefix(), options).await.unwrap();
    for round in 0..3 {
        a.commit(add(round)).await.unwrap();
        a.vacuum().await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let markers = names(&store, "done").await;
    assert!(markers.len() <= 2, "{markers:?}");
    // A transaction below the horizon: its outcome is forgotten, and it is not aborted either.
    let old = a.abort(TxnId::at_ms(1)).await;
    assert!(matches!(old, Err(ChainError::Unknown { .. })), "{old:?}");
}

#[tokio::test]
async fn an_aborted_transaction_is_never_committed() {
    let store = memory();
    let (a, b) = (open(&store).await, open(&store).await);
    let txn = TxnId::fresh(TxnId::default());
    assert!(b.abort(txn).await.unwrap());
    b.vacuum().await.unwrap();
    let (outcome, _) = a.run(txn, Op::Commit(add("x"))).await.unwrap();
    assert_eq!(outcome, Outcome::Aborted);
    assert!(b.abort(txn).await.unwrap(), "again is fine");
    let other = TxnId::fresh(TxnId::default());
    assert_eq!(a.run(other, Op::Commit(add("y"))).await.unwrap().0, Outcome::Committed);
    assert!(!b.abort(other).await.unwrap());
    b.vacuum().await.unwrap();
    assert!(!open(&store).await.abort(other).await.unwrap(), "the done marker tells");
    assert_eq!(a.run(other, Op::Commit(add("y"))).await.unwrap().0, Outcome::Committed);
    assert_eq!(a.refresh().await.unwrap().added["y"], 1, "and not twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_writers_over_a_faulty_store() {
    for round in 0..8 {
        let faulty = Faulty::new(6, 60);
        let store: Arc<dyn ObjectStore> = faulty;
        let chains: Vec<_> = futures::future::join_all((0..3).map(|_| async {
            loop {
                let options = Options { checkpoint_versions: 5, ..Options::default() };
                if let Ok(c) = Chain::<Counts>::open(Arc::clone(&store), prefix(), options).await {
                    return c;
                }
            }
        }))
        .await;
        let tasks = (0..90).map(|i| {
            let chain = chains[i % 3].clone();
            tokio::spawn(async move {
                (i, chain.commit(add(i)).await, chain.commit(Change::Take("k".into(), i as u64)).await)
            })
        });
        let mut took = Vec::new();
        let mut open_outcomes = Vec::new();
        let mut sure = Vec::new();
        for task in futures::future::join_all(tasks).await {
            let (i, added, taken) = task.unwrap();
            match added {
                Ok(_) => sure.push(i),
                Err(CommitError::Chain(ChainError::Unknown { .. })) => open_outcomes.push(i),
                Err(CommitError::Chain(ChainError::Store { .. })) => {}
                Err(e) => panic!("round {round}: {e}"),
            }
            if taken.is_ok() {
                took.push(i as u64);
            }
        }
        for chain in &chains {
            let state = loop {
                if let Ok(s) = chain.refresh().await {
                    break s;
                }
            };
            for i in &sure {
                assert_eq!(state.added.get(&i.to_string()), Some(&1), "round {round}: {i}");
            }
            assert!(state.added.values().all(|n| *n == 1), "round {round}: something is there twice");
            assert!(state.added.len() <= sure.len() + open_outcomes.len());
            assert!(took.len() <= 1 && took.iter().all(|by| state.taken["k"] == *by), "round {round}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn waiting_commits_share_versions() {
    let store: Arc<dyn ObjectStore> = Faulty::new(0, 0);
    let a = open(&store).await;
    let all = futures::future::join_all((0..200).map(|i| {
        let a = a.clone();
        tokio::spawn(async move { a.commit(add(i)).await.unwrap().added.contains_key(&i.to_string()) })
    }));
    assert!(all.await.into_iter().all(|r| r.unwrap()), "the state returned has the change");
    assert!(a.version() < 150, "{} versions", a.version());
    assert_eq!(open(&store).await.snapshot().added.len(), 200);
}

/// Rows in parts of two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Rows {
    #[serde(skip)]
    parts: Vec<Arc<Shared<Vec<u64>>>>,
}

impl State for Rows {
    type Change = u64;
    type Error = String;
    type Part = Vec<u64>;
    const FORMAT: u16 = 1;

    fn apply(&mut self, row: &u64) -> Result<bool, String> {
        match self.parts.last_mut() {
            Some(last) if last.len() < 2 => Shared::edit(last).push(*row),
            _ => self.parts.push(Shared::new(vec![*row])),
        }
        Ok(true)
    }

    fn parts(&self) -> Vec<Arc<Shared<Vec<u64>>>> {
        self.parts.clone()
    }

    fn without_parts(&self) -> Self {
        Self::default()
    }

    fn with_parts(self, parts: Vec<Arc<Shared<Vec<u64>>>>) -> Result<Self, String> {
        Ok(Self { parts })
    }
}

#[tokio::test]
async fn checkpoints_write_only_parts_that_changed() {
    let store = memory();
    let options = || Options { checkpoint_versions: 1000, ..Options::default() };
    let a = Chain::<Rows>::open(Arc::clone(&store), prefix(), options()).await.unwrap();
    for row in 0..9 {
        a.commit(row).await.unwrap();
    }
    a.vacuum().await.unwrap();
    let parts = async || -> BTreeMap<String, u64> {
        let metas: Vec<ObjectMeta> = store.list(Some(&Path::from("t/p"))).try_collect().await.unwrap();
        let ordinal = |name: &str| name.split_once('-').unwrap().0.parse().unwrap();
        metas.iter().filter_map(|m| m.location.filename()).map(|n| (n.to_string(), ordinal(n))).collect()
    };
    let first = parts().await;
    assert_eq!(first.values().copied().collect::<Vec<u64>>(), [1; 5]);
    // Another process continues from there: it uses the parts that are written, and frees those that it replaces.
    let b = Chain::<Rows>::open(Arc::clone(&store), prefix(), options()).await.unwrap();
    assert_eq!(*b.snapshot(), *a.snapshot());
    for chain in [&b, &a, &a, &b] {
        chain.commit(chain.version()).await.unwrap();
        chain.vacuum().await.unwrap();
    }
    let last = parts().await;
    assert_eq!(first.keys().filter(|name| last.contains_key(*name)).count(), 4, "{last:?}");
    assert_eq!(last.len(), b.snapshot().parts.len());
    let c = Chain::<Rows>::open(Arc::clone(&store), prefix(), options()).await.unwrap();
    assert_eq!(*c.snapshot(), *b.refresh().await.unwrap());
    assert_eq!(names(&store, "c").await, [5]);
}

/// Format 1 of checkpoints: named by the version, without ordinal and parts.
#[tokio::test]
async fn checkpoints_of_format_1_are_read_and_followed() {
    let store = memory();
    let a = open(&store).await;
    for i in 0..7 {
        a.commit(add(i)).await.unwrap();
    }
    let state = serde_json::to_string(&*a.snapshot()).unwrap();
    let id = a.inner.now.read().id;
    let body = format!(
        r#"{{"number":7,"id":"{id}","horizon":"00000000000000000000000000000000","aborted":[],"state":{state}}}"#
    );
    let mut bytes = b"DIPPERch\x01\0\x01\0ckpt".to_vec();
    bytes.extend((body.len() as u64).to_le_bytes());
    bytes.extend(body.as_bytes());
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    store.put(&Path::from("t/c/00000000000000000007"), bytes.into()).await.unwrap();
    let b = open(&store).await;
    b.vacuum().await.unwrap();
    assert_eq!((names(&store, "c").await, names(&store, "v").await), (vec![7], vec![7]), "nothing is new");
    b.commit(add("x")).await.unwrap();
    b.vacuum().await.unwrap();
    assert_eq!((names(&store, "c").await, names(&store, "v").await), (vec![8], vec![8]));
    assert_eq!(*open(&store).await.snapshot(), *a.refresh().await.unwrap());
}

#[tokio::test]
async fn a_full_store_is_an_error_and_goes_on_afterwards() {
    let faulty = Faulty::new(0, 0);
    let store: Arc<dyn ObjectStore> = Arc::<Faulty>::clone(&faulty);
    let a = open(&store).await;
    a.commit(add("x")).await.unwrap();
    faulty.full.store(true, Ordering::Release);
    // This store does not say whether it wrote anything.
    let e = a.commit(add("y")).await.unwrap_err();
    assert!(matches!(&e, CommitError::Chain(ChainError::Unknown { .. })), "{e}");
    assert!(e.to_string().contains("no space left on device"), "{e}");
    faulty.full.store(false, Ordering::Release);
    assert_eq!(a.commit(add("z")).await.unwrap().added.len(), 2);
}

#[tokio::test]
async fn damage_is_told_with_the_objects_name() {
    let store = memory();
    let a = open(&store).await;
    a.commit(add("x")).await.unwrap();
    let path = Path::from("t/v/00000000000000000001");
    let good = store.get(&path).await.unwrap().bytes().await.unwrap();
    for at in 0..good.len() {
        let mut bad = good.to_vec();
        bad[at] ^= 1 << (at % 8);
        store.put(&path, bad.into()).await.unwrap();
        let e = Chain::<Counts>::open(Arc::clone(&store), prefix(), Options::default()).await.unwrap_err();
        assert!(matches!(e, ChainError::Damaged { .. } | ChainError::Newer { .. }), "byte {at}: {e}");
        assert!(e.to_string().starts_with("t/v/00000000000000000001: "), "byte {at}: {e}");
    }
    for length in 0..good.len() {
        store.put(&path, good.slice(..length).into()).await.unwrap();
        let e = Chain::<Counts>::open(Arc::clone(&store), prefix(), Options::default()).await.unwrap_err();
        assert!(matches!(e, ChainError::Damaged { .. }), "{length} bytes: {e}");
    }
    store.put(&path, good.clone().into()).await.unwrap();
    store.put(&Path::from("t/v/00000000000000000002"), good.into()).await.unwrap();
    let e = Chain::<Counts>::open(Arc::clone(&store), prefix(), Options::default()).await.unwrap_err();
    assert!(e.to_string().contains("expected number 2 as in its name, found 1"), "{e}");
    store.delete(&Path::from("t/v/00000000000000000002")).await.unwrap();
}

/// Objects without a version's name are not versions: they stop nobody, and nobody touches them.
#[tokio::test]
async fn strays_are_ignored_and_told() {
    let store = memory();
    let a = open(&store).await;
    a.commit(add("x")).await.unwrap();
    let strays = ["t/v/00000000000000000099/x", "t/v/2", "t/v/notes.txt"].map(Path::from);
    for path in &strays {
        store.put(path, "x".into()).await.unwrap();
    }
    assert_eq!(a.commit(add("y")).await.unwrap().added.len(), 2);
    a.vacuum().await.unwrap();
    let b = open(&store).await;
    assert_eq!((b.version(), b.snapshot().added.len()), (2, 2));
    assert_eq!((a.strays(), b.strays()), (strays.to_vec(), strays.to_vec()));
    for path in &strays {
        store.head(path).await.unwrap();
    }
    // An object with a version's name is a version, and must be sound.
    store.put(&Path::from("t/v/00000000000000000099"), "x".into()).await.unwrap();
    let e = Chain::<Counts>::open(Arc::clone(&store), prefix(), Options::default()).await.unwrap_err();
    assert!(e.to_string().starts_with("t/v/00000000000000000099: "), "{e}");
}

/// The last of several tries may be refused after an earlier one succeeded.
#[tokio::test]
async fn a_refused_put_may_have_come_through() {
    let faulty = Faulty::new(0, 0);
    let store: Arc<dyn ObjectStore> = Arc::<Faulty>::clone(&faulty);
    let a = open(&store).await;
    a.commit(add("x")).await.unwrap();
    faulty.denied.store(DENIED_WHEN_DONE, Ordering::Release);
    assert_eq!(a.commit(add("y")).await.unwrap().added.len(), 2);
    faulty.denied.store(DENIED, Ordering::Release);
    let e = a.commit(add("z")).await.unwrap_err();
    assert!(matches!(&e, CommitError::Chain(ChainError::Store { .. })), "nothing was changed: {e}");
    faulty.deny_all();
    let e = a.commit(add("z")).await.unwrap_err();
    assert!(matches!(&e, CommitError::Chain(ChainError::Unknown { .. })), "{e}");
    faulty.denied.store(0, Ordering::Release);
    assert_eq!(a.refresh().await.unwrap().added.len(), 2);
}

async fn until(what: impl Fn() -> bool) {
    while !what() {
        tokio::task::yield_now().await;
    }
}

/// While a store is away nobody waits for the failures of those before.
#[tokio::test]
async fn a_failed_refresh_answers_all_that_waited_when_it_began() {
    let faulty = Faulty::new(0, 0);
    let store: Arc<dyn ObjectStore> = Arc::<Faulty>::clone(&faulty);
    let a = open(&store).await;
    a.commit(add("x")).await.unwrap();
    let gate = Arc::clone(faulty.gate.get_or_init(|| Arc::new(Semaphore::new(0))));
    let listings = || faulty.listings.load(Ordering::Acquire);
    let asked = || a.inner.refreshes_asked.load(Ordering::Acquire);
    let refresh = || {
        let a = a.clone();
        tokio::spawn(async move { a.refresh().await.map_err(|e| e.to_string()) })
    };
    faulty.deny_all();
    let first = refresh();
    until(|| listings() == 1).await;
    let mut waiting: Vec<_> = std::iter::repeat_with(refresh).take(10).collect();
    until(|| asked() == 11).await;
    gate.add_permits(1);
    let error = first.await.unwrap().unwrap_err();
    // The second began after all of them: its failure is theirs.
    until(|| listings() == 2).await;
    assert!(waiting.iter().all(|call| !call.is_finished()), "a failure that began earlier answers nobody");
    let later = refresh();
    until(|| asked() == 12).await;
    faulty.denied.store(0, Ordering::Release);
    gate.add_permits(1);
    for call in waiting.drain(..) {
        assert_eq!(call.await.unwrap().unwrap_err(), error);
    }
    // It came when that one was under way.
    until(|| listings() == 3).await;
    assert!(!later.is_finished());
    gate.add_permits(1);
    assert_eq!(later.await.unwrap().unwrap().added.len(), 1);
    // A success takes the place of a failure, and who is gone leaves nothing.
    let dropped = refresh();
    until(|| listings() == 4).await;
    dropped.abort();
    assert!(dropped.await.unwrap_err().is_cancelled());
    let last = refresh();
    until(|| listings() == 5).await;
    gate.add_permits(1);
    assert_eq!(last.await.unwrap().unwrap().added.len(), 1);
}

#[test]
fn newer_formats_are_refused() {
    let done = Done { number: 7, txns: [TxnId(1), TxnId(u128::MAX)].into() };
    let bytes = encode::<Counts, _>(&done).unwrap();
    assert_eq!(decode::<Counts, Done>("p", 7, &bytes).unwrap(), done);
    for (at, value) in [(8, 2), (10, 2)] {
        let mut newer = bytes.to_vec();
        newer[at] = value;
        let e = decode::<Counts, Done>("p", 7, &newer).unwrap_err();
        assert_eq!(e.to_string(), "p: format version 2, this dipper reads up to 1; use a newer dipper");
    }
    assert!(
        decode::<Counts, Record<Change>>("p", 7, &bytes).unwrap_err().to_string().contains("expected kind \"vers\"")
    );
}

/// The bytes of format 1, as they must be readable for ever.
#[test]
fn format_1_is_read() {
    let body = br#"{"number":3,"id":"000000000000000000000000000000aa","prev":"000000000000000000000000000000bb","writer":7,"at_ms":1700000000000,"horizon":"00000000000000000000000000000000","entries":[{"txn":"00000000000000000000000000000001","op":{"commit":{"Add":"x"}}},{"txn":"00000000000000000000000000000002","op":"abort"}]}"#;
    let mut bytes = b"DIPPERch\x01\0\x01\0vers".to_vec();
    bytes.extend((body.len() as u64).to_le_bytes());
    bytes.extend(body);
    bytes.extend(0x9bdf_265f_u32.to_le_bytes());
    let record: Record<Change> = decode::<Counts, _>("p", 3, &bytes).unwrap();
    assert_eq!(encode::<Counts, _>(&record).unwrap(), Bytes::from(bytes));
    assert_eq!((record.prev, record.entries.len()), (RecordId(0xbb), 2));
    assert!(matches!(record.entries[1], Entry { txn: TxnId(2), op: Op::Abort }));
}

/// Parts were JSON before they were packed.
#[test]
fn parts_of_format_1_are_read() {
    let part = PartObject { ordinal: 7, part: vec![1u64, 2, 3] };
    let packed = encode::<Counts, _>(&part).unwrap();
    let body = serde_json::to_vec(&part).unwrap();
    let mut bytes = b"DIPPERch\x01\0\x01\0part".to_vec();
    bytes.extend((body.len() as u64).to_le_bytes());
    bytes.extend(&body);
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    for bytes in [&packed[..], &bytes] {
        let read: PartObject<Vec<u64>> = decode::<Counts, _>("p", 7, bytes).unwrap();
        assert_eq!((read.ordinal, read.part), (7, vec![1, 2, 3]));
    }
}

#[tokio::test]
async fn probe_tells_stores_apart() {
    probe_put_if_absent(&memory(), &prefix()).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let local: Arc<dyn ObjectStore> = Arc::new(crate::local::LocalStore::open(dir.path()).unwrap());
    probe_put_if_absent(&local, &prefix()).await.unwrap();
    assert_eq!(local.list(None).count().await, 0, "nothing stays behind");
    // A store that ignores the condition, as some S3 clones do.
    let careless: Arc<dyn ObjectStore> = Arc::new(Careless(InMemory::new()));
    let e = probe_put_if_absent(&careless, &prefix()).await.unwrap_err();
    assert!(e.to_string().contains("32 of 32 creators of one object won, expected 1"), "{e}");
}

#[derive(Debug)]
struct Careless(InMemory);

impl fmt::Display for Careless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Careless")
    }
}

#[async_trait]
impl ObjectStore for Careless {
    async fn put_opts(&self, at: &Path, payload: PutPayload, _: PutOptions) -> object_store::Result<PutResult> {
        self.0.put_opts(at, payload, PutMode::Overwrite.into()).await
    }
    async fn put_multipart_opts(
        &self,
        at: &Path,
        o: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(at, o).await
    }
    async fn get_opts(&self, at: &Path, o: GetOptions) -> object_store::Result<GetResult> {
        self.0.get_opts(at, o).await
    }
    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.0.delete_stream(locations)
    }
    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.0.list(prefix)
    }
    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }
    async fn copy_opts(&self, from: &Path, to: &Path, o: CopyOptions) -> object_store::Result<()> {
        self.0.copy_opts(from, to, o).await
    }
}
