use std::convert::Infallible;
use std::sync::Arc;

use dipper_base::types::SqlType;
use object_store::ObjectStore;

use super::data::{ColumnStats, DataObject, Derived, SegmentId, Tablet};
use super::schema::{Bounds, Model, Partition, TableColumn};
use super::test_support::{bits, column, memory, object, partition, range, rowset, schema};
use super::*;
use crate::catalog::TableId;
use crate::chain::{ChainError, Options, State};

async fn table(store: &Arc<dyn ObjectStore>, model: Model) -> Table {
    let partitions = vec![partition(0, "p", Bounds::All)];
    Table::create(Arc::clone(store), TableId(7), schema(model, false), partitions).await.unwrap()
}

async fn reopened(table: &Table) -> Table {
    Table::open(Arc::clone(table.store()), table.id()).await.unwrap()
}

fn id(object: &DataObject, ordinal: u32) -> SegmentId {
    SegmentId { object: object.id, ordinal }
}

type Found = Result<Deletes, Infallible>;

#[tokio::test]
async fn loads_are_there_after_opening_again() {
    let store = memory();
    let t = table(&store, Model::Duplicate).await;
    assert!(matches!(Table::open(memory(), TableId(7)).await, Err(TableError::NotFound { .. })));
    let o = object(t.begin(), 0, &[(0, 0, 10), (0, 1, 5)]);
    let state = t.publish(rowset(vec![Arc::clone(&o)])).await.unwrap();
    assert_eq!((state.rows(), state.seq(), state.segment_count()), (15, 1, 2));
    let found: Vec<SegmentId> = state.tablet_segments(Tablet { partition: 0, bucket: 1 }).map(|s| s.id).collect();
    assert_eq!(found, [id(&o, 1)]);
    assert_eq!(*reopened(&t).await.snapshot(), *state);
    t.vacuum().await.unwrap();
    assert_eq!(*reopened(&t).await.snapshot(), *state, "from the checkpoint");
    // The same transaction again is the same load; another one cannot bring its objects.
    assert_eq!(t.publish(rowset(vec![Arc::clone(&o)])).await.unwrap().rows(), 15);
    let stolen = Rowset { txn: t.begin(), ..rowset(vec![Arc::clone(&o)]) };
    let refused = t.publish(stolen).await;
    assert!(matches!(refused, Err(TableError::Refused(Refused::Invalid(_)))), "{refused:?}");
}

#[tokio::test]
async fn loads_at_once_share_versions() {
    let store = memory();
    let t = table(&store, Model::Duplicate).await;
    let publish = || t.publish(rowset(vec![object(t.begin(), 0, &[(0, 0, 1)])]));
    let before = t.version();
    futures::future::try_join_all((0..8).map(|_| publish())).await.unwrap();
    let shared = t.version() - before;
    assert!(shared < 8, "{shared} versions of 8 loads");
    assert_eq!(reopened(&t).await.snapshot().rows(), 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replacing_load_is_computed_on_what_came_in_meanwhile() {
    let store = memory();
    let t = table(&store, Model::Unique).await;
    let first = object(t.begin(), 0, &[(0, 0, 10)]);
    let none = |_: Arc<TableState>, _| async { Found::Ok(Deletes::new()) };
    t.publish_replacing(rowset(vec![Arc::clone(&first)]), none).await.unwrap();
    // Another process loads between the computation and the commit.
    let other = reopened(&t).await;
    let second = object(other.begin(), 0, &[(0, 0, 4)]);
    let third = object(t.begin(), 0, &[(0, 0, 3)]);
    let mut calls = 0;
    let (a, b) = (id(&first, 0), id(&second, 0));
    let load = rowset(vec![Arc::clone(&third)]);
    let task = async {
        t.publish_replacing(load, |state: Arc<TableState>, after| {
            calls += 1;
            let (other, second) = (other.clone(), Arc::clone(&second));
            async move {
                let mut found = Deletes::new();
                for s in state.segments_added_after(after) {
                    found.insert(s.id, if s.id == a { bits([0, 1]) } else { bits([2]) });
                }
                if after == 0 {
                    let none = |_: Arc<TableState>, _| async { Found::Ok(Deletes::new()) };
                    other.publish_replacing(rowset(vec![second]), none).await.unwrap();
                }
                Found::Ok(found)
            }
        })
        .await
        .unwrap()
    };
    let state = task.await;
    assert_eq!(calls, 2);
    assert_eq!(state.rows(), 10 + 4 + 3 - 2 - 1);
    assert_eq!(state.segment(a).unwrap().deleted_rows(), 2);
    assert_eq!(state.segment(b).unwrap().deleted_rows(), 1);
    assert_eq!(*reopened(&t).await.snapshot(), *state);
    // A load that does not name the rows that it replaces is refused: keys would be there twice.
    let refused = t.publish(rowset(vec![object(t.begin(), 0, &[(0, 0, 1)])])).await;
    assert!(matches!(refused, Err(TableError::Refused(Refused::Invalid(_)))), "{refused:?}");
}

#[tokio::test]
async fn a_load_computed_from_rows_that_changed_is_refused() {
    let t = table(&memory(), Model::Unique).await;
    let first = object(t.begin(), 0, &[(0, 0, 10)]);
    let a = id(&first, 0);
    let none = |_: Arc<TableState>, _| async { Found::Ok(Deletes::new()) };
    let seq = t.publish_replacing(rowset(vec![first]), none).await.unwrap().seq();
    let update =
        |t: &Table| Rowset { reads: Some(Reads { seq, rows: 2 }), ..rowset(vec![object(t.begin(), 0, &[(0, 0, 2)])]) };
    let two = move |_: Arc<TableState>, _| async move { Found::Ok(Deletes::from([(a, bits([3, 4]))])) };
    let (_, deleted) =
        t.delete(vec![], move |_, _| async move { Found::Ok(Deletes::from([(a, bits([4, 5]))])) }).await.unwrap();
    assert_eq!(deleted, 2);
    let refused = t.publish_replacing(update(&t), two).await;
    let expected = Refused::RowsChanged { expected: 2, found: 1 };
    assert!(matches!(&refused, Err(TableError::Refused(e)) if *e == expected), "{refused:?}");
    let others = move |_: Arc<TableState>, _| async move { Found::Ok(Deletes::from([(a, bits([6, 7]))])) };
    assert_eq!(t.publish_replacing(update(&t), others).await.unwrap().rows(), 8);
}

#[tokio::test]
async fn what_an_overwrite_has_read_must_be_what_it_replaces() {
    let t = table(&memory(), Model::Duplicate).await;
    let first = t.publish(rowset(vec![object(t.begin(), 0, &[(0, 0, 10)])])).await.unwrap();
    let overwrite = |state: &TableState, replaces| Rowset {
        reads: Some(Reads { seq: state.seq(), rows: state.rows() }),
        replaces,
        ..rowset(vec![object(t.begin(), 0, &[(0, 0, 3)])])
    };
    let late = [overwrite(&first, Replace::All), overwrite(&first, Replace::Partitions(vec![0]))];
    let second = t.publish(rowset(vec![object(t.begin(), 0, &[(0, 1, 5)])])).await.unwrap();
    for load in late {
        let refused = t.publish(load).await;
        assert!(matches!(refused, Err(TableError::Refused(Refused::RowsChanged { .. }))), "{refused:?}");
    }
    // A load that was computed without reading replaces the rows that are there.
    let blind = Rowset { reads: None, ..overwrite(&first, Replace::Partitions(vec![0])) };
    assert_eq!((second.rows(), t.publish(blind).await.unwrap().rows()), (15, 3));
    let state = t.snapshot();
    assert_eq!(t.publish(overwrite(&state, Replace::All)).await.unwrap().rows(), 3);
    let state = t.snapshot();
    t.commit(TableChange::Truncate { partitions: None, at_ms: 1 }).await.unwrap();
    let refused = t.publish(overwrite(&state, Replace::All)).await;
    assert!(matches!(refused, Err(TableError::Refused(Refused::RowsChanged { .. }))), "{refused:?}");
    assert_eq!(*reopened(&t).await.snapshot(), *t.snapshot());
}

#[tokio::test]
async fn an_overwrite_brings_no_deleted_row_back() {
    for model in [Model::Duplicate, Model::Aggregate] {
        let t = table(&memory(), model).await;
        let first = object(t.begin(), 0, &[(0, 0, 10)]);
        let a = id(&first, 0);
        let state = t.publish(rowset(vec![first])).await.unwrap();
        t.delete(vec![], move |_, _| async move { Found::Ok(Deletes::from([(a, bits([4, 5]))])) }).await.unwrap();
        let overwrite = Rowset {
            reads: Some(Reads { seq: state.seq(), rows: state.rows() }),
            replaces: Replace::All,
            ..rowset(vec![object(t.begin(), 0, &[(0, 0, 10)])])
        };
        let refused = t.publish(overwrite).await;
        let expected = Refused::RowsChanged { expected: 10, found: 8 };
        assert!(matches!(&refused, Err(TableError::Refused(e)) if *e == expected), "{refused:?}");
    }
}

#[tokio::test]
async fn what_a_transaction_has_written_is_in_a_state_of_its_own() {
    let store = memory();
    let t = table(&store, Model::Duplicate).await;
    let old = object(t.begin(), 0, &[(0, 0, 10)]);
    let base = t.publish(rowset(vec![Arc::clone(&old)])).await.unwrap();
    let own = object(t.begin(), 0, &[(0, 0, 4)]);
    let deletes = Deletes::from([(id(&old, 0), bits([1, 2])), (id(&own, 0), bits([0]))]);
    let seen = base.with_uncommitted(&rowset(vec![own]), deletes, &base).unwrap();
    assert_eq!((seen.rows(), seen.segment_count()), (11, 2));
    assert_eq!((t.snapshot().rows(), t.snapshot().segment_count()), (10, 1));
    // Partitions that were made since it began.
    let parts = vec![partition(0, "p", range(0, 10))];
    let made = Table::create(Arc::clone(&store), TableId(8), schema(Model::Duplicate, true), parts);
    let t = made.await.unwrap();
    let base = t.snapshot();
    let newest = t.ensure_partitions(vec![partition(0, "q", range(10, 20))]).await.unwrap();
    let later = newest.partition_by_name("q").unwrap().id;
    let load = rowset(vec![object(t.begin(), 0, &[(later, 0, 3)])]);
    let refused = base.with_uncommitted(&load, Deletes::new(), &base);
    assert!(matches!(refused, Err(Refused::PartitionNotFound { .. })), "{refused:?}");
    assert_eq!(base.with_uncommitted(&load, Deletes::new(), &newest).unwrap().rows(), 3);
}

#[tokio::test]
async fn a_compaction_carries_deletions_over_or_gives_up() {
    let t = table(&memory(), Model::Unique).await;
    let none = |_: Arc<TableState>, _| async { Found::Ok(Deletes::new()) };
    let (x, y) = (object(t.begin(), 0, &[(0, 0, 10)]), object(t.begin(), 0, &[(0, 0, 5), (0, 1, 1)]));
    t.publish_replacing(rowset(vec![Arc::clone(&x)]), none).await.unwrap();
    t.publish_replacing(rowset(vec![Arc::clone(&y)]), none).await.unwrap();
    t.delete(vec![], |_, _| async { Found::Ok(Deletes::from([(id(&x, 0), bits([0]))])) }).await.unwrap();
    let read: Vec<_> =
        t.snapshot().tablet_segments(Tablet { partition: 0, bucket: 0 }).map(|s| (s.id, s.deleted.cloned())).collect();
    assert_eq!(read.len(), 2);
    let txn = t.begin();
    let out = object(txn, 0, &[(0, 0, 14)]);
    // Rows of both inputs are deleted after they were read.
    let gone = Deletes::from([(id(&x, 0), bits([0, 1, 2])), (id(&y, 0), bits([4]))]);
    t.delete(vec![], |_, _| async { Found::Ok(gone.clone()) }).await.unwrap();
    let (o, a, b) = (id(&out, 0), id(&x, 0), id(&y, 0));
    let state = t
        .compact(txn, read.clone(), vec![out], Deletes::new(), |added| async move {
            assert_eq!(added, Deletes::from([(a, bits([1, 2])), (b, bits([4]))]));
            Found::Ok(Deletes::from([(o, bits([0, 1, 13]))]))
        })
        .await
        .unwrap();
    assert_eq!(state.rows(), 12);
    let s = state.segment(o).unwrap();
    assert_eq!((s.seq, s.added, s.deleted_rows()), (2, 3, 3));
    assert_eq!(state.removed().map(|(o, _)| o.txn).collect::<Vec<_>>(), [x.id.txn], "the other still has a segment");
    let again = t.begin();
    let outputs = vec![object(again, 0, &[(0, 0, 14)])];
    let late = t.compact(again, read, outputs, Deletes::new(), |_| async { Found::Ok(Deletes::new()) });
    assert!(matches!(late.await, Err(TableError::Refused(Refused::SegmentGone { .. }))));
    assert_eq!(*reopened(&t).await.snapshot(), *t.snapshot());
}

#[tokio::test]
async fn prepared_loads_survive_a_restart() {
    let store = memory();
    let t = table(&store, Model::Duplicate).await;
    let loads: Vec<_> = (0..3).map(|_| rowset(vec![object(t.begin(), 0, &[(0, 0, 4)])])).collect();
    for load in &loads {
        assert_eq!(t.prepare(load.clone()).await.unwrap().rows(), 0);
    }
    t.vacuum().await.unwrap();
    let t = reopened(&t).await;
    assert_eq!(t.snapshot().prepared().len(), 3);
    assert!(t.snapshot().names_object(loads[0].objects[0].id));
    assert_eq!(t.commit_prepared(loads[0].txn).await.unwrap().rows(), 4);
    let state = t.abort_prepared(loads[1].txn).await.unwrap();
    assert_eq!((state.prepared_outcome(loads[0].txn), state.prepared_outcome(loads[1].txn)), (Some(true), Some(false)));
    for done in &loads[..2] {
        let refused = t.commit_prepared(done.txn).await;
        assert!(matches!(refused, Err(TableError::Refused(Refused::NotPrepared { .. }))), "{refused:?}");
    }
    t.tombstone().await.unwrap();
    t.tombstone().await.unwrap();
    let t = reopened(&t).await;
    assert!(t.snapshot().is_dropped() && t.snapshot().prepared().is_empty() && t.snapshot().rows() == 0);
    let refused = t.commit_prepared(loads[2].txn).await;
    assert!(matches!(refused, Err(TableError::Refused(Refused::Dropped))), "{refused:?}");
}

#[tokio::test]
async fn partitions_come_go_and_take_each_others_place() {
    let store = memory();
    let partitions = vec![partition(0, "a", range(0, 10)), partition(1, "b", range(10, 20))];
    let t = Table::create(store, TableId(1), schema(Model::Duplicate, true), partitions).await.unwrap();
    let add = |name: &str, bounds: Bounds, temporary: bool, if_not_exists: bool| TableChange::AddPartitions {
        partitions: vec![Partition { temporary, ..partition(99, name, bounds) }],
        if_not_exists,
        free_names: false,
    };
    let overlaps = t.commit(add("c", range(5, 15), false, false)).await;
    assert!(matches!(overlaps, Err(TableError::Refused(Refused::PartitionsOverlap { .. }))), "{overlaps:?}");
    let exists = t.commit(add("A", range(20, 30), false, false)).await;
    assert!(matches!(exists, Err(TableError::Refused(Refused::PartitionExists { .. }))), "{exists:?}");
    let version = t.version();
    t.commit(add("other", range(0, 10), false, true)).await.unwrap();
    assert_eq!(t.version(), version, "the values are there");
    assert!(t.commit(add("other", range(0, 11), false, true)).await.is_err());
    t.commit(add("a", range(20, 30), false, true)).await.unwrap();
    assert_eq!(t.version(), version, "the name is there");
    t.publish(rowset(vec![object(t.begin(), 0, &[(0, 0, 5), (1, 1, 7)])])).await.unwrap();
    let state = t.commit(add("ta", range(0, 10), true, false)).await.unwrap();
    let temp = state.partition_by_name("TA").unwrap().id;
    assert_eq!(temp, 2);
    let state = t.publish(rowset(vec![object(t.begin(), 0, &[(temp, 0, 2)])])).await.unwrap();
    assert_eq!((state.rows(), state.partitions().count(), state.segments().count()), (12, 2, 2));
    let swap = |strict_range, partitions| TableChange::ReplacePartitions {
        partitions,
        by: vec![temp],
        strict_range,
        keep_names: true,
        at_ms: 1,
    };
    let differs = t.commit(swap(true, vec![1])).await;
    assert!(matches!(differs, Err(TableError::Refused(Refused::CoverDiffers { .. }))), "{differs:?}");
    let state = t.commit(swap(true, vec![0])).await.unwrap();
    assert_eq!((state.rows(), state.partition_by_name("a").unwrap().id), (9, temp));
    let state = t.commit(TableChange::DropPartitions { partitions: vec![1], at_ms: 1 }).await.unwrap();
    assert_eq!((state.rows(), state.segment_count()), (2, 1));
    let gone = t.publish(rowset(vec![object(t.begin(), 0, &[(1, 0, 5)])])).await;
    assert!(matches!(gone, Err(TableError::Refused(Refused::PartitionNotFound { .. }))), "{gone:?}");
    let wide = t.publish(rowset(vec![object(t.begin(), 0, &[(temp, 2, 5)])])).await;
    assert!(matches!(wide, Err(TableError::Refused(Refused::NoTablet { .. }))), "{wide:?}");
    let load = rowset(vec![object(t.begin(), 0, &[(temp, 1, 6)])]);
    let state = t.publish(Rowset { replaces: Replace::All, ..load }).await.unwrap();
    assert_eq!((state.rows(), state.segment_count()), (6, 1));
    let state = t.commit(TableChange::Truncate { partitions: None, at_ms: 1 }).await.unwrap();
    assert_eq!((state.rows(), state.segment_count()), (0, 0));
    assert_eq!(*reopened(&t).await.snapshot(), *t.snapshot());
}

#[tokio::test]
async fn definitions_follow_each_other_and_statistics_follow_them() {
    let t = table(&memory(), Model::Duplicate).await;
    let stats = |column, min: &str, max: &str| ColumnStats {
        column,
        min: Some(min.into()),
        max: Some(max.into()),
        nulls: 1,
        sketch: Vec::new(),
        distinct: Derived::default(),
    };
    for (min, max) in [("9", "10"), ("-5", "9")] {
        let load = rowset(vec![object(t.begin(), 0, &[(0, 0, 5)])]);
        t.publish(Rowset { stats: vec![stats(0, min, max), stats(1, "a", "b")], ..load }).await.unwrap();
    }
    let state = t.snapshot();
    assert_eq!((state.stats_rows(), state.rows()), (10, 10));
    assert_eq!(**state.stats(0).unwrap(), ColumnStats { nulls: 2, ..stats(0, "-5", "10") });
    let mut new = (**state.schema()).clone();
    new.version = 2;
    new.columns.push(TableColumn { added_default: Some("7".into()), ..column(2, "w", SqlType::Int) });
    new.columns.remove(1);
    new.next_column = 3;
    let change = TableChange::Schema { expected: 1, schema: new.clone() };
    let state = t.commit(change.clone()).await.unwrap();
    assert_eq!(state.stats(1), None);
    assert_eq!(**state.stats(2).unwrap(), ColumnStats { nulls: 0, ..stats(2, "7", "7") });
    let late = t.commit(change).await;
    assert!(matches!(late, Err(TableError::Refused(Refused::SchemaChanged { expected: 1, found: 2 }))), "{late:?}");
    let mut reuse = new;
    reuse.version = 3;
    reuse.columns.push(column(1, "x", SqlType::Int));
    let refused = t.commit(TableChange::Schema { expected: 2, schema: reuse }).await;
    assert!(matches!(refused, Err(TableError::Refused(Refused::Invalid(_)))), "{refused:?}");
}

#[tokio::test]
async fn values_of_auto_increment_are_given_once() {
    let store = memory();
    let t = table(&store, Model::Duplicate).await;
    let other = reopened(&t).await;
    assert_eq!(t.reserve_auto_increment(10).await.unwrap(), 1..11);
    assert_eq!(other.reserve_auto_increment(5).await.unwrap(), 11..16);
    assert_eq!(t.reserve_auto_increment(1).await.unwrap(), 16..17);
}

#[tokio::test]
async fn a_load_that_took_too_long_is_over() {
    let store = memory();
    drop(table(&store, Model::Duplicate).await);
    let options = Options { remember: std::time::Duration::from_millis(1), ..Options::default() };
    let t = Table::open_with(store, TableId(7), options).await.unwrap();
    let slow = t.begin();
    for _ in 0..3 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        t.publish(rowset(vec![object(t.begin(), 0, &[(0, 0, 1)])])).await.unwrap();
    }
    let late = t.publish(rowset(vec![object(slow, 0, &[(0, 0, 1)])])).await;
    assert!(matches!(late, Err(TableError::Chain(ChainError::Expired { .. }))), "{late:?}");
}

#[test]
fn a_state_that_was_not_created_takes_nothing() {
    let mut s = TableState::default();
    assert_eq!(s.apply(&TableChange::Tombstone { at_ms: 0 }), Err(Refused::NotCreated));
    assert_eq!(s.schema().columns.len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replacing_loads_that_wait_share_versions() {
    // A store on which writing a version takes its time.
    let slow = object_store::throttle::ThrottledStore::new(
        object_store::memory::InMemory::new(),
        object_store::throttle::ThrottleConfig {
            wait_put_per_call: std::time::Duration::from_millis(20),
            ..Default::default()
        },
    );
    let store: Arc<dyn ObjectStore> = Arc::new(slow);
    let t = table(&store, Model::Unique).await;
    let before = t.version();
    // Each load has one row, of one key: it replaces the row of each load before it.
    let loads = (0..20).map(|_| {
        let t = t.clone();
        tokio::spawn(async move {
            let o = object(t.begin(), 0, &[(0, 0, 1)]);
            let replaces = |state: Arc<TableState>, after| async move {
                Found::Ok(state.segments_added_after(after).map(|s| (s.id, bits([0]))).collect())
            };
            t.publish_replacing(rowset(vec![o]), replaces).await.map(|state| state.seq())
        })
    });
    for done in futures::future::join_all(loads).await {
        done.unwrap().unwrap();
    }
    assert_eq!(t.snapshot().rows(), 1);
    assert_eq!(t.snapshot().segments().count(), 20);
    assert!(t.version() - before <= 5, "{} versions for 20 loads", t.version() - before);
    assert_eq!(*reopened(&t).await.snapshot(), *t.snapshot());
}
