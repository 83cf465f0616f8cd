//! The node and the rule: answers beside those of DataFusion's own aggregates.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::datasource::MemTable;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool, UnboundedMemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::{FutureExt, StreamExt, TryStreamExt};

use super::{AggregationSettings, RadixAggregateExec};

/// Rows of the table `t`, in batches of 500.
const ROWS: i64 = 20_000;

/// Makes columns of keys and values: `k` has NULLs and repeats, `u` is different in each row.
fn batch(from: i64, to: i64) -> RecordBatch {
    let rows = || from..to;
    let mixed = |n: i64| n.wrapping_mul(2_654_435_761) % 9973;
    let key: ArrayRef = Arc::new(rows().map(|n| (n % 7 != 0).then(|| mixed(n) % 1000)).collect::<Int64Array>());
    let unique: ArrayRef = Arc::new(rows().map(|n| Some(n * 3 - 7)).collect::<Int64Array>());
    let text = |n: i64| match mixed(n) % 5 {
        0 => None,
        1 => Some(String::new()),
        2 => Some(format!("short {}", mixed(n) % 50)),
        _ => Some(format!("a text that is longer than twelve bytes {}", mixed(n) % 800)),
    };
    let text: ArrayRef = Arc::new(rows().map(text).collect::<StringViewArray>());
    let double = |n: i64| match n % 11 {
        0 => None,
        1 => Some(-0.0),
        2 => Some(0.0),
        3 => Some(f64::NAN),
        _ => Some((n % 100) as f64),
    };
    let double: ArrayRef = Arc::new(rows().map(double).collect::<Float64Array>());
    let value: ArrayRef = Arc::new(rows().map(|n| (n % 5 != 0).then_some(n)).collect::<Int64Array>());
    let decimal = rows().map(|n| (n % 3 != 0).then(|| i128::from(n) * 1_000_003)).collect::<Decimal128Array>();
    let decimal: ArrayRef = Arc::new(decimal.with_precision_and_scale(15, 2).unwrap());
    let columns = [("k", key), ("u", unique), ("s", text), ("f", double), ("v", value), ("d", decimal)];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

/// Makes a session with the table `t` in this many partitions.
fn session(settings: AggregationSettings, partitions: usize, pool: Arc<dyn MemoryPool>) -> SessionContext {
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap();
    let mut config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(700);
    config.options_mut().extensions.insert(settings);
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_physical_optimizer_rules(crate::rules::pushdown::rules())
        .build();
    let context = SessionContext::new_with_state(state);
    for function in [dipper_sql::charter::aggregates::sum(), dipper_sql::charter::aggregates::avg()] {
        context.register_udaf(function.as_ref().clone());
    }
    let batches: Vec<RecordBatch> = (0..ROWS).step_by(500).map(|from| batch(from, from + 500)).collect();
    let mut parts = vec![Vec::new(); partitions];
    batches.iter().enumerate().for_each(|(at, batch)| parts[at % partitions].push(batch.clone()));
    let table = MemTable::try_new(batches[0].schema(), parts).unwrap();
    context.register_table("t", Arc::new(table)).unwrap();
    context
}

fn unlimited() -> Arc<dyn MemoryPool> {
    Arc::new(UnboundedMemoryPool::default())
}

fn settings(enabled: bool, table_groups: usize) -> AggregationSettings {
    AggregationSettings { enabled, table_groups }
}

async fn plan(session: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    session.sql(sql).await.unwrap().create_physical_plan().await.unwrap()
}

/// Returns how many nodes of a plan are ours.
fn own_nodes(plan: &Arc<dyn ExecutionPlan>) -> usize {
    usize::from(plan.is::<RadixAggregateExec>()) + plan.children().into_iter().map(own_nodes).sum::<usize>()
}

/// Returns the sum of a counter over the nodes of a plan that are ours.
fn counted(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    let own = match plan.is::<RadixAggregateExec>() {
        true => plan.metrics().map_or(0, |all| match name {
            "spill_count" => all.spill_count().unwrap_or(0),
            _ => all.sum_by_name(name).map_or(0, |value| value.as_usize()),
        }),
        false => 0,
    };
    own + plan.children().into_iter().map(|child| counted(child, name)).sum::<usize>()
}

/// Returns rows as texts in order.
fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows = Vec::new();
    for batch in batches {
        let options = FormatOptions::default().with_null("NULL");
        let columns: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let cells: Vec<String> = columns.iter().map(|column| column.value(row).to_string()).collect();
            rows.push(cells.join("|"));
        }
    }
    rows.sort_unstable();
    rows
}

async fn run(session: &SessionContext, plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<String>> {
    Ok(rows(&collect(Arc::clone(plan), session.task_ctx()).await?))
}

/// Statements, and how many nodes of ours their plans have.
const STATEMENTS: [(&str, usize); 14] = [
    ("SELECT k, COUNT(*), COUNT(v), SUM(v), AVG(v), MIN(v), MAX(v) FROM t GROUP BY k", 1),
    ("SELECT k FROM t GROUP BY k", 1),
    ("SELECT u, MAX(d) FROM t GROUP BY u", 1),
    ("SELECT s, k, SUM(d), AVG(d), MIN(d) FROM t GROUP BY s, k", 1),
    ("SELECT f, COUNT(s), SUM(v) FROM t GROUP BY f", 1),
    ("SELECT v % 2 = 0, k + 1, SUM(f), AVG(f), COUNT(1) FROM t WHERE u > 100 GROUP BY v % 2 = 0, k + 1", 1),
    ("SELECT DISTINCT s, v % 10 FROM t", 1),
    ("SELECT COUNT(DISTINCT s), MAX(n) FROM (SELECT s, COUNT(*) AS n FROM t GROUP BY s) g", 2),
    ("SELECT k, COUNT(DISTINCT s) FROM t GROUP BY k", 2),
    (
        "SELECT a.k, a.n, b.m FROM (SELECT k, COUNT(*) n FROM t GROUP BY k) a \
      JOIN (SELECT k, MAX(u) m FROM t GROUP BY k) b ON a.k = b.k",
        2,
    ),
    ("SELECT * FROM (SELECT k, COUNT(*) n FROM t GROUP BY k) g WHERE k > 500 AND n > 3", 1),
    ("SELECT k, COUNT(*) FROM t WHERE u < -100 GROUP BY k", 1),
    ("SELECT n, COUNT(*) FROM (SELECT k, COUNT(*) n FROM t GROUP BY k) g GROUP BY n", 2),
    ("SELECT k, RANK() OVER (PARTITION BY n ORDER BY k) FROM (SELECT k, COUNT(*) n FROM t GROUP BY k) g", 1),
];

/// COUNT(DISTINCT) beside another aggregate stays DataFusion's, so fewer nodes than GROUP BYs are ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn answers_are_those_of_datafusions_aggregates() {
    for partitions in [1, 2, 8] {
        let theirs = session(settings(false, 0), partitions, unlimited());
        for (sql, own) in STATEMENTS {
            let expected = plan(&theirs, sql).await;
            assert_eq!(own_nodes(&expected), 0);
            let expected_rows = run(&theirs, &expected).await.unwrap();
            for table_groups in [0, 1, 3, 100] {
                let ours = session(settings(true, table_groups), partitions, unlimited());
                let plan = plan(&ours, sql).await;
                let shown = displayable(plan.as_ref()).indent(true).to_string();
                assert_eq!(own_nodes(&plan), own, "{sql}\n{shown}");
                assert_eq!(plan.schema(), expected.schema(), "{sql}");
                assert_eq!(run(&ours, &plan).await.unwrap(), expected_rows, "{sql}, {partitions}, {table_groups}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_does_not_fit_in_memory_is_spilled() {
    let mut spilled = 0;
    for (partitions, bytes) in [(1, 200 << 10), (2, 400 << 10), (2, 1 << 20), (4, 900 << 10)] {
        for sql in [STATEMENTS[0].0, STATEMENTS[2].0, STATEMENTS[3].0] {
            let theirs = session(settings(false, 0), partitions, unlimited());
            let expected = run(&theirs, &plan(&theirs, sql).await).await.unwrap();
            for table_groups in [0, 7, 300] {
                let pool: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(bytes));
                let ours = session(settings(true, table_groups), partitions, Arc::clone(&pool));
                let plan = plan(&ours, sql).await;
                match run(&ours, &plan).await {
                    Ok(rows) => assert_eq!(rows, expected, "{sql}, {partitions}, {bytes}, {table_groups}"),
                    Err(e) => panic!("{sql}, {partitions}, {bytes}, {table_groups}: {e}"),
                }
                spilled += counted(&plan, "spill_count");
                drop(plan);
                assert_eq!(pool.reserved(), 0);
            }
        }
    }
    assert!(spilled > 64, "{spilled}");
}

#[tokio::test]
async fn too_little_memory_is_an_error() {
    let ours = session(settings(true, 0), 2, Arc::new(FairSpillPool::new(10 << 10)));
    let error = run(&ours, &plan(&ours, STATEMENTS[2].0).await).await.unwrap_err();
    assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error}");
}

#[tokio::test]
async fn what_the_kernel_has_not_stays() {
    let ours = session(settings(true, 0), 2, unlimited());
    for sql in [
        "SELECT MAX(v) FROM t",
        "SELECT k, MAX(s) FROM t GROUP BY k",
        "SELECT k, STDDEV(v) FROM t GROUP BY k",
        "SELECT k, COUNT(*) FILTER (WHERE v > 1) FROM t GROUP BY k",
        "SELECT k, s, COUNT(*) FROM t GROUP BY ROLLUP (k, s)",
        "SELECT k, COUNT(DISTINCT v), COUNT(DISTINCT s) FROM t GROUP BY k",
        "SELECT k, COUNT(*) FROM (SELECT * FROM t ORDER BY k LIMIT 100) o GROUP BY k",
        "SELECT DISTINCT k FROM t LIMIT 3",
        // DataFusion keeps no more groups than LIMIT wants.
        "SELECT MAX(v) m, k FROM t GROUP BY k ORDER BY m DESC LIMIT 5",
        "SELECT k FROM t GROUP BY k ORDER BY k LIMIT 5",
    ] {
        let plan = plan(&ours, sql).await;
        assert_eq!(own_nodes(&plan), 0, "{sql}\n{}", displayable(plan.as_ref()).indent(true));
    }
    for sql in [
        "SELECT k, MAX(v), MIN(v) m FROM t GROUP BY k ORDER BY m DESC LIMIT 5",
        "SELECT k, COUNT(*) c FROM t GROUP BY k ORDER BY c DESC, k LIMIT 5",
        "SELECT MAX(v) m, k FROM t GROUP BY k ORDER BY m DESC",
        "SELECT k, MIN(f) FROM t GROUP BY k",
    ] {
        assert_eq!(own_nodes(&plan(&ours, sql).await), 1, "{sql}");
    }
    // DataFusion's own SUM wraps; its state has no carry.
    ours.register_udaf(datafusion::functions_aggregate::sum::sum_udaf().as_ref().clone());
    assert_eq!(own_nodes(&plan(&ours, "SELECT k, SUM(v) FROM t GROUP BY k").await), 0);
}

#[tokio::test]
async fn only_the_sum_has_to_fit() {
    let ours = session(settings(true, 1), 2, unlimited());
    let values = |values: Vec<i64>| {
        let groups = values.iter().map(|n| n % 2).collect::<Int64Array>();
        let columns: [(_, ArrayRef, _); 2] =
            [("g", Arc::new(groups), true), ("n", Arc::new(Int64Array::from(values)), true)];
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    };
    let largest = i64::MAX - 1;
    for (name, rows) in [("fits", vec![largest, largest, 3, -largest]), ("fits_not", vec![largest, 2, 5, -1])] {
        let batch = values(rows);
        let table = MemTable::try_new(batch.schema(), vec![vec![batch.slice(0, 2)], vec![batch.slice(2, 2)]]);
        ours.register_table(name, Arc::new(table.unwrap())).unwrap();
    }
    let sum = async |table: &str| {
        let plan = plan(&ours, &format!("SELECT g, SUM(n) FROM {table} GROUP BY g")).await;
        assert_eq!(own_nodes(&plan), 1);
        run(&ours, &plan).await
    };
    assert_eq!(sum("fits").await.unwrap(), [format!("0|{largest}"), "1|3".to_string()]);
    let error = sum("fits_not").await.unwrap_err().to_string();
    assert!(error.contains("BIGINT value is out of range in SUM"), "{error}");
    let wide = "SELECT g, SUM(CAST(n AS DECIMAL(38, 19))) FROM fits GROUP BY g";
    assert!(run(&ours, &plan(&ours, wide).await).await.is_ok());
}

/// Finds the node of ours.
fn node(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    match plan.is::<RadixAggregateExec>() {
        true => Some(Arc::clone(plan)),
        false => plan.children().into_iter().find_map(node),
    }
}

#[tokio::test]
async fn each_group_is_in_one_partition_whichever_are_read() {
    let ours = session(settings(true, 3), 4, unlimited());
    let plan = plan(&ours, STATEMENTS[0].0).await;
    let expected = run(&ours, &plan).await.unwrap();
    // One partition after the other.
    let own = node(&reset_plan_states(Arc::clone(&plan)).unwrap()).unwrap();
    assert_eq!(own.output_partitioning().partition_count(), 4);
    let mut all = Vec::new();
    for partition in 0..4 {
        let stream = own.execute(partition, ours.task_ctx()).unwrap();
        all.extend(stream.try_collect::<Vec<_>>().await.unwrap());
    }
    assert_eq!(rows(&all), expected);
    assert!(own.execute(0, ours.task_ctx()).is_err());
    // A partition that nobody reads keeps no group back.
    let own = node(&reset_plan_states(Arc::clone(&plan)).unwrap()).unwrap();
    let streams: Vec<_> = (0..4).map(|partition| own.execute(partition, ours.task_ctx()).unwrap()).collect();
    let mut streams = streams.into_iter();
    let (unread, dropped) = (streams.next().unwrap(), streams.next());
    drop(dropped);
    let mut all = Vec::new();
    for stream in streams {
        all.extend(stream.try_collect::<Vec<_>>().await.unwrap());
    }
    drop(unread);
    assert_eq!(rows(&all), expected);
}

/// Drops the streams after each number of polls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_streams_leave_nothing_behind() {
    let pool: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(400 << 10));
    let ours = session(settings(true, 20), 3, Arc::clone(&pool));
    for polls in 0..40 {
        let plan = plan(&ours, STATEMENTS[2].0).await;
        let own = node(&plan).unwrap();
        let mut streams: Vec<_> = (0..3).map(|at| own.execute(at, ours.task_ctx()).unwrap()).collect();
        for poll in 0..polls {
            if streams[poll % 3].next().now_or_never().is_none() {
                tokio::task::yield_now().await;
            }
        }
        drop((streams, own, plan));
        let gone = async {
            while pool.reserved() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), gone).await.expect("no task keeps memory");
    }
}

#[tokio::test]
async fn counters_say_that_groups_left_the_table() {
    let sql = "SELECT k, COUNT(*) FROM t GROUP BY k";
    let groups = async |table_groups| {
        let ours = session(settings(true, table_groups), 1, unlimited());
        let plan = plan(&ours, sql).await;
        let rows = run(&ours, &plan).await.unwrap().len();
        (counted(&plan, "table_groups"), counted(&plan, "unmerged_groups"), rows)
    };
    let (kept, unmerged, rows) = groups(0).await;
    assert_eq!((kept, unmerged), (rows, rows));
    let (kept, unmerged, _) = groups(10).await;
    assert!(kept > 2 * rows && unmerged == 0, "{kept} {unmerged}");
}

#[tokio::test]
async fn the_types_of_keys_and_results_stay() {
    let ours = session(settings(true, 0), 2, unlimited());
    let plan = plan(&ours, "SELECT CAST(v AS SMALLINT), SUM(d), AVG(d) FROM t GROUP BY CAST(v AS SMALLINT)").await;
    let types: Vec<DataType> = plan.schema().fields().iter().map(|field| field.data_type().clone()).collect();
    assert_eq!(types, [DataType::Int16, DataType::Decimal128(38, 2), DataType::Decimal128(38, 4)]);
    assert_eq!(own_nodes(&plan), 1);
    run(&ours, &plan).await.unwrap();
}
