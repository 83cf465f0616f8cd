//! Tests of statements in trouble: memory is refused, the disk is full, and operators fail, wait or panic at random
//! moments.
//!
//! Whatever happens, a statement ends within [`LIMIT`] with its rows or with one error, leaves no task behind and
//! releases all memory. If it returns rows, they are the same as without trouble. The seed determines a round, but not
//! the order in which threads run, so a seed that failed may need several tries. `TROUBLE_SECONDS=600` runs longer, and
//! `TROUBLE_SEED=7` begins with another seed.

mod node;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::config::ConfigNonZeroUsize;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::disk_manager::{DiskManager, DiskManagerBuilder};
use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool, UnboundedMemoryPool};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionState;
use datafusion::physical_plan::displayable;
use dipper_base::client::ClientInfo;
use dipper_dialect::statement::{QueryText, Statement};
use dipper_exec::on_cpu::{on_cpu, panic_text};
use dipper_exec::spill::SpillFiles;
use futures::StreamExt;
use futures::future::join_all;
use tokio::time::timeout;

use self::node::{Dice, Failure, Refusing, TOLD, Trouble, in_trouble};
use crate::engine::{Engine, EngineOptions};
use crate::error::{EngineError, ErrorKind};
use crate::query::{self, plan, start};
use crate::result::Outcome;
use crate::session::Session;

/// Time within which a statement ends, on a machine that is busy with other tests.
const LIMIT: Duration = Duration::from_secs(10);

/// The message of a shared future to those that wait for it after it has panicked.
const SHARED: &str = "inner future panicked during poll";

/// The memory and the disk that statements share.
struct Resources {
    pool: Arc<dyn MemoryPool>,
    disk: Arc<DiskManager>,
}

impl Resources {
    /// Makes resources with `bytes` of memory, whose pool also refuses once in `one_in` requests, and a disk of
    /// `disk_bytes`. 0 bytes mean no limit.
    fn new(bytes: usize, one_in: u64, disk_bytes: u64, dice: Dice) -> Self {
        let inner: Arc<dyn MemoryPool> = match bytes {
            0 => Arc::new(UnboundedMemoryPool::default()),
            bytes => Arc::new(FairSpillPool::new(bytes)),
        };
        let files = SpillFiles::with_most(None, if disk_bytes == 0 { u64::MAX } else { disk_bytes });
        let disk = DiskManagerBuilder::default().with_temp_file_factory(Arc::new(files)).build().unwrap();
        Resources { pool: Arc::new(Refusing { inner, one_in, dice }), disk: Arc::new(disk) }
    }
}

/// Creates and fills the tables: `big` with 4,000 rows, `few` with 60 rows and some NULLs, `none` without rows.
const TABLES: &str = "
create database d; use d;
create table big (k bigint not null, v bigint, s varchar(40)) duplicate key(k) distributed by hash(k) buckets 3;
create table few (k bigint not null, v bigint, s varchar(40)) duplicate key(k) distributed by hash(k) buckets 2;
create table none (k bigint not null, v bigint, s varchar(40)) duplicate key(k) distributed by hash(k) buckets 1;
insert into big select number, number * 7919 % 1009, concat('name number ', number * 31 % 997) from numbers('number'='2500');
insert into big select number + 2500, if(number % 11 = 0, null, number * 31 % 997), concat('other ', number % 83) from numbers('number'='1500');
insert into few select number * 3, if(number % 7 = 0, null, number), concat('name number ', number) from numbers('number'='60')";

/// Queries whose rows do not depend on the order of work.
const QUERIES: &str = "
select count(*), sum(a.v), sum(b.k) from big a join big b on a.k = b.v
select a.k, b.k from big a join few b on a.s = b.s
select a.k, b.v from big a left join big b on a.k = b.v and b.k > a.k
select a.k, b.v from few a left join big b on a.v = b.v
select a.k, b.k from few a right join big b on a.v = b.v and a.k < b.k
select a.k, b.k from big a full join few b on a.v = b.v
select a.k, b.k from few a full join big b on a.k = b.v and a.s <> b.s
select a.k, b.k from big a left join none b on a.k = b.k where a.k % 50 = 0
select a.k, b.k from none a right join few b on a.k = b.k
select count(*), sum(a.v * b.v) from big a cross join few b
select count(*) from big a join few b on a.k < b.k * 40 and a.v > b.v
select a.k, b.k from few a left join big b on a.k * 60 > b.k and b.k % 100 = 3
select a.k, b.k from big a left join few b on a.v < b.k and b.k < 30 where a.k % 10 = 0
select a.k, b.k from big a right join few b on a.v < b.k and a.k < 40
select a.k, b.k from few a full join few b on a.k < b.v and a.v % 3 = 0
select a.k, b.k from big a full join few b on a.v + 900 < b.k * 6 and a.k % 9 = 0
select k, s from few a where exists (select 1 from big b where b.k > a.k and b.v < a.v)
select k, s from big a where not exists (select 1 from few b where b.k > a.v and b.v > a.k)
select k from big where v in (select k from few)
select k from big where v not in (select v from few where v is not null)
select k from big where v not in (select v from few)
select k from big a where exists (select 1 from few b where b.k = a.v) or a.k % 97 = 0
select k from big a where k < (select max(b.k) from few b where b.v = a.v % 60)
select k, (select count(*) from big b where b.v = a.k) from few a
select k, (select sum(k) from few) from big where v > (select avg(v) from big)
select a.k, x.n from few a join (select v, count(*) n, max(s) m from big group by v) x on x.v = a.k
select x.v, y.n from (select v, count(*) n from big group by v) x join (select v % 60 v, count(*) n from big group by 1) y on x.v = y.v
select count(*) from big a join big b on a.v = b.k join few c on b.v = c.k join big d on d.s = c.s
select count(*) from big a left join big b on a.v = b.k left join few c on b.s = c.s full join few d on c.k = d.v
select a.k, b.k, c.k from few a join few b on a.k = b.v left join big c on c.v = b.k and c.k <> a.k
select s, count(*), sum(v), min(k), max(s) from big group by s
select k, v, count(*), max(concat(s, k)) from big group by k, v
select v, count(distinct s), sum(distinct k % 7) from big group by v
select count(distinct k, s), count(distinct v) from big
select v % 10, s, count(*) from big group by rollup(v % 10, s)
select v % 5, group_concat(s, ',' order by k) from big group by 1
select v % 50, array_sort(collect_list(k)), percentile(k, 0.5) from big group by 1
select v % 50, max_by(s, k), min_by(struct(k, s), k), bitmap_union_count(to_bitmap(k)) from big group by 1
select distinct v, s from big
select distinct a.v from big a join big b on a.v = b.v
select k, row_number() over (partition by v order by k), sum(k) over (partition by v % 7 order by k) from big
select k, lag(s, 3) over (order by k), max(v) over (order by k rows between 20 preceding and current row) from big
select k, rank() over (order by v), count(*) over (partition by s) from big
select k, group_concat(s) over (partition by v % 400 order by k), percentile(k, 0.5) over (partition by v % 100) from big
select k, s from big order by s, k
select k, s, concat(s, repeat('x', k % 50)) from big order by v, k limit 700 offset 30
select k from big order by v desc, k limit 5
select k, v from big union select v, k from big
select s from big union all select s from few union all select s from none
select v from big intersect select k from few
select v from big except select k from few
select count(*) from (select k from big order by s, k limit 3000) a join (select k from big order by v, k limit 3000) b on a.k = b.k
select a.k from (select k, v from big union all select k, v from few) a join (select v from big union all select v from few) b on a.k = b.v
with recursive r(i) as (select 1 union all select i + 1 from r where i < 40) select r.i, count(b.k) from r left join big b on b.v = r.i group by 1
with c as (select v, count(*) n from big group by v) select a.v, b.n from c a join c b on a.n = b.v
select k, e from big lateral view explode(array(k, v)) t as e where e > 900
select b.k, w.r from big b join (select k, row_number() over (order by v, k) r from big) w on w.r = b.k
select count(*) from (select a.k, row_number() over (partition by b.s order by a.k) r from big a join big b on a.v = b.k) q where r < 3
select x.v, x.n, f.s from (select v, count(*) n from big group by v) x join few f on x.v = f.v join (select k from big where k % 500 = 0) y on y.k = x.v
select y.k, x.n from (select k from big where k % 700 = 1) y join (select g.v, g.n, f.s from few f join (select v, count(*) n from big group by v) g on g.v = f.k) x on x.v = y.k
select x.v, x.n from (select v, count(*) n from big group by v) x left semi join few f on x.v = f.k left semi join (select k from big where k % 300 = 2) y on y.k = x.v";

async fn run(session: &mut Session, text: &str) {
    for parsed in session.parse(text).unwrap() {
        match session.execute(text, &parsed, Vec::new()).await {
            Ok(Outcome::Done(_)) => {}
            Ok(Outcome::Rows(rows)) => query::drain(rows).await.unwrap(),
            Err(e) => panic!("{text}: {e}"),
        }
    }
}

/// Appends the rows of a batch as text, one line each.
fn lines(batch: &RecordBatch, into: &mut Vec<String>) {
    let options = FormatOptions::new().with_null("NULL");
    let columns: Vec<_> =
        batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
    for row in 0..batch.num_rows() {
        let cells: Vec<String> = columns.iter().map(|column| column.value(row).to_string()).collect();
        into.push(cells.join("\t"));
    }
}

/// A query and its rows, in the order of their text.
struct Case {
    text: &'static str,
    query: QueryText,
    rows: Vec<String>,
}

/// The conditions under which one statement runs. All of them follow from its seed.
#[derive(Debug)]
struct Plight {
    partitions: usize,
    batch_rows: usize,
    /// Largest number of rows for which a join collects one side for all partitions.
    collected: usize,
    sort_reserve: usize,
    trouble: Arc<Trouble>,
    /// Number of batches after which the client goes away.
    leaves_after: Option<u64>,
}

impl Plight {
    fn new(seed: u64) -> Self {
        let dice = Dice::new(seed);
        let failures = [Failure::Error, Failure::Error, Failure::NoMemory, Failure::Begin, Failure::Panic];
        Plight {
            partitions: dice.of(&[1, 2, 3, 4, 8]),
            batch_rows: dice.of(&[32, 128, 1024, 8192]),
            collected: dice.of(&[0, 100, 1 << 20]),
            sort_reserve: dice.of(&[0, 4 << 10, 64 << 10]),
            leaves_after: dice.one_in(6).then(|| dice.below(4)),
            trouble: Arc::new(Trouble {
                waits_one_in: dice.of(&[0, 2, 20, 200]),
                waited: AtomicU64::new(0),
                rows: dice.of(&[20, 100, 1000, 100_000]),
                failure: dice.one_in(2).then(|| {
                    let last = dice.of(&[1, 4, 30]);
                    (dice.of(&failures), dice.below(last))
                }),
                dice,
            }),
        }
    }

    /// Sets the options under which the statement is planned and run.
    fn set(&self, state: &mut SessionState) {
        let options = state.config_mut().options_mut();
        options.execution.target_partitions = self.partitions;
        options.execution.batch_size = ConfigNonZeroUsize::try_new(self.batch_rows).unwrap();
        options.execution.sort_spill_reservation_bytes = self.sort_reserve;
        options.optimizer.hash_join_single_partition_threshold = self.collected * 50;
        options.optimizer.hash_join_single_partition_threshold_rows = self.collected;
    }
}

/// The way in which a statement ended.
#[derive(Debug)]
enum End {
    Rows(Vec<String>),
    Failed,
    /// The client left before the end of the rows.
    Left,
}

/// Plans the query and runs it under these conditions. An error describes a violation of the rules.
async fn suffer(
    session: &Session,
    query: &QueryText,
    plight: Option<&Plight>,
    resources: &Resources,
) -> Result<End, String> {
    let context = session.query_context().await.map_err(|e| e.to_string())?;
    let threads = session.engine().short().clone();
    let (of, text) = (Arc::clone(&context), query.clone());
    let planned = on_cpu(&threads, async move { plan(&of, &text, Some(&[])).await }).await;
    let mut planned = planned.map_err(|e| format!("cannot be planned: {e}"))?;
    if let Some(plight) = plight {
        plight.set(&mut planned.state);
    }
    let planned = Arc::new(planned);
    let again = Arc::clone(&planned);
    let physical = on_cpu(&threads, async move { again.physical().await }).await;
    let mut physical = physical.map_err(|e| format!("has no plan: {e}"))?;
    if let Some(plight) = plight {
        physical = in_trouble(physical, &plight.trouble).map_err(|e| e.to_string())?;
    }
    let shown = displayable(physical.as_ref()).indent(false).to_string();
    let runtime = planned.state.runtime_env().as_ref().clone();
    let (memory_pool, disk_manager) = (Arc::clone(&resources.pool), Arc::clone(&resources.disk));
    let runtime = Arc::new(RuntimeEnv { memory_pool, disk_manager, ..runtime });
    let state = SessionStateBuilder::new_from_existing(planned.state.clone()).with_runtime_env(runtime).build();

    let all = async {
        let mut batches = start(&context, &state, physical).await?;
        let (mut rows, mut taken) = (Vec::new(), 0);
        loop {
            if plight.is_some_and(|plight| plight.leaves_after == Some(taken)) {
                return Ok(End::Left);
            }
            match batches.next().await.transpose() {
                Ok(Some(batch)) => lines(&batch, &mut rows),
                Ok(None) => {
                    rows.sort_unstable();
                    return Ok(End::Rows(rows));
                }
                // Nothing may follow an error.
                Err(e) => match batches.next().await {
                    None => return Err(e),
                    Some(_) => return Err(EngineError::new(ErrorKind::Internal, "more rows behind an error")),
                },
            }
            taken += 1;
        }
    };
    match timeout(LIMIT, all).await {
        Err(_) => Err(format!("does not end; its plan:\n{shown}")),
        Ok(Err(e)) if e.kind == ErrorKind::Resources || e.message.contains(TOLD) || e.message.contains(SHARED) => {
            Ok(End::Failed)
        }
        Ok(Err(e)) => Err(format!("an error that tells nothing: {e}; its plan:\n{shown}")),
        Ok(Ok(end)) => Ok(end),
    }
}

fn tasks(engine: &Engine) -> usize {
    engine.cpu().metrics().num_alive_tasks() + engine.short().metrics().num_alive_tasks()
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Runs some statements at once that share a pool. An error describes a violation of the rules.
async fn round(session: &Session, cases: &[Case], seed: u64) -> Result<[usize; 3], String> {
    let dice = Dice::new(!seed);
    let bytes = dice.of(&[0, 200 << 10, 1 << 20, 4 << 20]);
    let (one_in, disk_bytes) = (dice.of(&[0, 3, 30, 300]), dice.of(&[0, 0, 20 << 10, 200 << 10]));
    let resources = &Resources::new(bytes, one_in, disk_bytes, Dice::new(seed));
    let statements = dice.of(&[1, 1, 2, 4]);
    let chosen: Vec<(&Case, Plight)> = (0..statements)
        .map(|at| (&cases[dice.below(cases.len() as u64) as usize], Plight::new(seed * 8 + at)))
        .collect();
    let begun = tasks(session.engine());
    let all = chosen.iter().map(|(case, plight)| async move {
        let said = |what: String| {
            format!(
                "seed {seed}, {bytes} bytes, refuses one in {one_in}, a disk of {disk_bytes}, {plight:?}\n{}\n{what}",
                case.text
            )
        };
        match suffer(session, &case.query, Some(plight), resources).await.map_err(said)? {
            End::Rows(rows) if rows != case.rows => {
                let missing = case.rows.iter().filter(|row| rows.binary_search(row).is_err()).count();
                let more = rows.iter().filter(|row| case.rows.binary_search(row).is_err()).count();
                let counts = (case.rows.len(), rows.len());
                Err(said(format!(
                    "{counts:?} rows wanted and found, {missing} are missing, {more} are none of its rows"
                )))
            }
            End::Rows(_) => Ok(0),
            End::Failed => Ok(1),
            End::Left => Ok(2),
        }
    });
    let mut ends = [0; 3];
    for end in join_all(all).await {
        ends[end?] += 1;
    }
    let late = Instant::now() + LIMIT;
    while tasks(session.engine()) > begun || resources.pool.reserved() > 0 {
        if Instant::now() > late {
            let texts: Vec<&str> = chosen.iter().map(|(case, _)| case.text).collect();
            let left = (tasks(session.engine()).saturating_sub(begun), resources.pool.reserved());
            return Err(format!("seed {seed}: {left:?} tasks and bytes are left by\n{}", texts.join("\n")));
        }
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    Ok(ends)
}

#[test]
fn statements_in_trouble_end() {
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // Shared futures report themselves that they have panicked.
        let text = panic_text(info.payload());
        if !text.starts_with(TOLD) && text != SHARED {
            quiet(info);
        }
    }));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (seconds, first) = (number("TROUBLE_SECONDS", 10), number("TROUBLE_SEED", 1));
    let (rounds, wrong) = runtime.block_on(async {
        let options = EngineOptions { threads: Some(4), memory_bytes: Some(1 << 30), ..EngineOptions::default() };
        let engine = Engine::open(options).await.unwrap();
        let mut session = engine.session(ClientInfo::local(engine.next_connection_id()));
        run(&mut session, TABLES).await;
        let plenty = Resources::new(0, 0, 0, Dice::new(0));
        let mut cases = Vec::new();
        for text in QUERIES.lines().filter(|line| !line.is_empty()) {
            let parsed = session.parse(text).unwrap();
            let Statement::Query(query) = &parsed[0].statement else { panic!("{text}: no query") };
            match suffer(&session, query, None, &plenty).await {
                Ok(End::Rows(rows)) => cases.push(Case { text, query: query.clone(), rows }),
                other => panic!("{text}: {other:?}"),
            }
        }
        let (begin, mut rounds, mut all, mut wrong) = (Instant::now(), 0, [0; 3], Vec::new());
        while begin.elapsed() < Duration::from_secs(seconds) && wrong.len() < 5 {
            match round(&session, &cases, first + rounds).await {
                Ok(ends) => ends.iter().zip(&mut all).for_each(|(n, all)| *all += n),
                Err(e) => wrong.push(e),
            }
            rounds += 1;
        }
        println!("{rounds} rounds: {all:?} statements gave rows, failed, were left");
        (rounds, wrong)
    });
    assert!(rounds > 0 && wrong.is_empty(), "{} of {rounds} rounds:\n{}", wrong.len(), wrong.join("\n\n"));
}
