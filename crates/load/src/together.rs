//! Loads that share a transaction, as one rowset.

use dipper_store::chain::TxnId;
use dipper_store::table::Rowset;
use dipper_store::table::schema::TableSchema;

use crate::stats::merge;

/// Combines the rowsets of loads of one transaction, in their order: of rows with equal keys, those of the later load
/// win. The loads must have [numbered their objects apart](crate::LoadOptions::first_object), ascending. The caller
/// fills in the other parts of the rowset (label, reads, the rowsets that it replaces).
pub fn together(schema: &TableSchema, txn: TxnId, loads: impl IntoIterator<Item = Rowset>) -> Rowset {
    let mut all = Rowset {
        txn,
        objects: Vec::new(),
        stats: Vec::new(),
        replaces: Default::default(),
        label: None,
        auto_increment: None,
        reads: None,
        condition: None,
    };
    let mut rows = 0;
    for load in loads {
        let more: u64 = load.objects.iter().flat_map(|o| &o.segments).map(|s| u64::from(s.rows)).sum();
        if more > 0 {
            // A column that one of the loads does not describe has no statistics.
            all.stats.retain(|old| load.stats.iter().any(|new| new.column == old.column));
            merge(schema, &mut all.stats, load.stats, (rows, more));
            rows += more;
        }
        all.objects.extend(load.objects);
        all.auto_increment = all.auto_increment.max(load.auto_increment);
    }
    all
}
