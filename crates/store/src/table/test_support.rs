//! Small tables for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use dipper_base::types::SqlType;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use roaring::RoaringBitmap;

use super::data::{DataObject, ObjectId, Rows, Segment, Tablet};
use super::schema::{
    Bounds, Distribution, Model, Partition, PartitionBy, PartitionKind, TableColumn, TableSchema, Values,
};
use super::{Replace, Rowset, Table};
use crate::catalog::{Catalog, CatalogChange, OnExists, TableDef};
use crate::chain::TxnId;

pub(crate) fn column(id: u32, name: &str, data_type: SqlType) -> TableColumn {
    TableColumn::new(id, name, data_type, true)
}

pub(crate) fn schema(model: Model, partitioned: bool) -> TableSchema {
    TableSchema {
        partition_by: partitioned.then(|| PartitionBy { kind: PartitionKind::Range, columns: vec![0], auto: None }),
        distribution: Distribution::Hash(vec![0]),
        buckets: Some(2),
        ..TableSchema::new(model, vec![column(0, "k", SqlType::BigInt), column(1, "v", SqlType::String)], 1)
    }
}

pub(crate) fn partition(id: u32, name: &str, bounds: Bounds) -> Partition {
    Partition { id, name: name.into(), bounds, buckets: 2, temporary: false, properties: BTreeMap::new() }
}

pub(crate) fn range(lower: i64, upper: i64) -> Bounds {
    let values = |n: i64| -> Option<Values> { Some(vec![Some(n.to_string())]) };
    Bounds::range(values(lower), values(upper))
}

pub(crate) fn segment(tablet: Tablet, rows: u32) -> Segment {
    Segment { tablet, rows, first_group: 0, groups: 1, bytes: 100, key_min: vec![1], key_max: vec![2] }
}

/// Makes an object with one segment of the given number of rows in each of these tablets.
pub(crate) fn object(txn: TxnId, index: u32, segments: &[(u32, u32, u32)]) -> Arc<DataObject> {
    let segments =
        segments.iter().map(|&(partition, bucket, rows)| segment(Tablet { partition, bucket }, rows)).collect();
    Arc::new(DataObject {
        id: ObjectId { txn, index },
        bytes: 1,
        tail_bytes: 1,
        tail_crc: 0,
        schema_version: 1,
        segments,
    })
}

pub(crate) fn rowset(objects: Vec<Arc<DataObject>>) -> Rowset {
    let txn = objects[0].id.txn;
    Rowset {
        txn,
        objects,
        stats: Vec::new(),
        replaces: Replace::None,
        label: None,
        auto_increment: None,
        reads: None,
        condition: None,
    }
}

pub(crate) fn bits(rows: impl IntoIterator<Item = u32>) -> Rows {
    Rows(RoaringBitmap::from_iter(rows))
}

pub(crate) fn memory() -> Arc<dyn ObjectStore> {
    Arc::new(InMemory::new())
}

/// Makes a store with table `d.t`, which has no rows.
pub(crate) async fn database() -> (Arc<dyn ObjectStore>, Table) {
    let store = memory();
    let change = CatalogChange::create("d", "t", TableDef::Native, OnExists::Fail);
    let CatalogChange::Create { id, .. } = &change else { unreachable!("it creates") };
    let partitions = vec![partition(0, "p", Bounds::All)];
    let schema = schema(Model::Duplicate, false);
    let table = Table::create(Arc::clone(&store), *id, schema, partitions).await.unwrap();
    let catalog = Catalog::open(Arc::clone(&store)).await.unwrap();
    catalog.commit(vec![CatalogChange::create_database("d", false), change]).await.unwrap();
    (store, table)
}
