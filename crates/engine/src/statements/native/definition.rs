//! The statement that creates a native table, from the table's definition.

use dipper_dialect::parser::{ParseOptions, expr_for};
use dipper_dialect::statement::{
    ColumnDef, CreateTable, DistributionClause, IndexDef, KeyClause, Name, PartitionClause, PartitionDef,
    PartitionExpr, PartitionItem, PartitionValue, PartitionValues, RollupDef,
};
use dipper_store::table::TableState;
use dipper_store::table::schema::{
    Aggregate, AutoPartition, Bounds, ColumnId, Distribution, Partition, Rollup, TableSchema, Values,
};

/// Returns the statement. Printed, it is the text of SHOW CREATE TABLE for a reader under a mode.
pub(in crate::statements) fn statement(table: &str, state: &TableState, reader: &ParseOptions) -> CreateTable {
    let schema = state.schema().as_ref();
    let partition_by = schema.partition_by.as_ref().map(|by| PartitionClause {
        auto: by.auto.is_some(),
        kind: by.kind,
        by: match &by.auto {
            Some(AutoPartition::DateTrunc(unit)) => (by.columns.iter())
                .map(|id| PartitionExpr::DateTrunc { column: name(schema, *id), unit: unit.clone() })
                .collect(),
            _ => by.columns.iter().map(|id| PartitionExpr::Column(name(schema, *id))).collect(),
        },
        partitions: state.partitions().map(|p| PartitionItem::One(partition(p, by.columns.len()))).collect(),
    });
    CreateTable {
        name: Name(vec![table.to_string()]),
        if_not_exists: false,
        or_replace: false,
        temporary: false,
        columns: schema.columns.iter().filter(|c| !c.hidden).map(|c| column(schema, c, reader)).collect(),
        column_names: Vec::new(),
        indexes: schema.indexes.iter().map(|i| index(schema, i)).collect(),
        engine: Some(crate::info_schema::NATIVE_ENGINE.to_string()),
        key: Some(KeyClause {
            model: schema.shown_model(),
            primary: schema.is_primary(),
            columns: schema.key_columns().iter().map(|c| c.name.clone()).collect(),
        }),
        sort_key: schema.cluster_by.iter().map(|id| name(schema, *id)).collect(),
        comment: schema.comment.clone(),
        partition_by,
        distribution: Some(DistributionClause {
            hash: match &schema.distribution {
                Distribution::Random => None,
                Distribution::Hash(ids) => Some(ids.iter().map(|id| name(schema, *id)).collect()),
            },
            buckets: schema.buckets,
        }),
        rollups: schema.rollups.iter().map(|r| rollup(schema, r)).collect(),
        properties: schema.shown_properties().map(|(k, v)| (k.clone(), v.clone())).collect(),
        options: Vec::new(),
        query: None,
    }
}

fn name(schema: &TableSchema, id: ColumnId) -> String {
    schema.position(id).map(|at| schema.columns[at].name.clone()).unwrap_or_default()
}

fn column(schema: &TableSchema, c: &dipper_store::table::schema::TableColumn, reader: &ParseOptions) -> ColumnDef {
    ColumnDef {
        name: c.name.clone(),
        data_type: c.data_type.clone(),
        paths: schema.variant_paths(c).cloned(),
        comment: c.comment.clone(),
        not_null: !c.nullable,
        key: false,
        aggregate: c.aggregate.filter(|a| !matches!(a, Aggregate::ReplaceBySequence(_))),
        auto_increment: c.auto_increment,
        default: c.default.clone(),
        on_update: c.on_update,
        generated: c.generated.as_ref().map(|generated| expr_for(&generated.sql, &generated.sql_mode, reader)),
    }
}

fn index(schema: &TableSchema, index: &dipper_store::table::schema::Index) -> IndexDef {
    IndexDef {
        name: Some(index.name.clone()),
        unique: false,
        columns: index.columns.iter().map(|id| name(schema, *id)).collect(),
        using: Some(index.kind.to_uppercase()),
        properties: index.properties.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
        comment: index.comment.clone(),
    }
}

fn rollup(schema: &TableSchema, rollup: &Rollup) -> RollupDef {
    let names = |ids: &[ColumnId]| ids.iter().map(|id| name(schema, *id)).collect();
    RollupDef { name: rollup.name.clone(), columns: names(&rollup.columns), keys: names(&rollup.keys) }
}

fn partition(p: &Partition, columns: usize) -> PartitionDef {
    let values = match &p.bounds {
        // This value is never shown: a table without PARTITION BY has no list of partitions.
        Bounds::All => PartitionValues::Rest,
        Bounds::List(rows) => PartitionValues::In(rows.clone()),
        Bounds::Range { lower: None, upper, upper_max, .. } => {
            PartitionValues::LessThan(bound(upper.as_ref(), *upper_max, columns))
        }
        Bounds::Range { lower: Some(lower), upper, lower_max, upper_max } => PartitionValues::Range {
            lower: bound(Some(lower), *lower_max, columns),
            upper: bound(upper.as_ref(), *upper_max, columns),
        },
    };
    let properties = p.properties.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    PartitionDef { name: p.name.clone(), if_not_exists: false, values, properties }
}

fn bound(values: Option<&Values>, max: bool, columns: usize) -> Vec<PartitionValue> {
    let Some(values) = values else { return vec![PartitionValue::Max] };
    let mut all: Vec<PartitionValue> = values.iter().cloned().map(PartitionValue::Value).collect();
    if max {
        all.resize(columns.max(all.len()), PartitionValue::Max);
    }
    all
}
