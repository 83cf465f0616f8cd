//! What the metadata of an Iceberg table says, as tables beside it: `t$snapshots`, `t$history`, `t$refs` (StarRocks, Spark's
//! columns), and Doris' `iceberg_meta('table' = 'c.d.t', 'query_type' = 'snapshots')`.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, StringArray, TimestampMicrosecondArray};
use arrow::record_batch::RecordBatch;
use chrono::DateTime;
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use dipper_iceberg::metadata::{Snapshot, TableMetadata};
use dipper_sql::functions::datetime::Zone;

use crate::error::Result;
use crate::query::QueryContext;

/// What can be asked.
const KINDS: [About; 3] = [About::Snapshots, About::History, About::Refs];

/// A table about a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    /// All states that are kept.
    Snapshots,
    /// Which state was the current one since when.
    History,
    /// Branches and tags.
    Refs,
}

impl About {
    fn name(self) -> &'static str {
        match self {
            About::Snapshots => "snapshots",
            About::History => "history",
            About::Refs => "refs",
        }
    }

    /// The table that a name is about, and what is asked of it; `None` for names of tables themselves.
    pub(crate) fn of(table: &str) -> Option<(&str, About)> {
        let (base, kind) = table.rsplit_once('$')?;
        let found = KINDS.into_iter().find(|about| about.name().eq_ignore_ascii_case(kind))?;
        (!base.is_empty()).then_some((base, found))
    }

    /// Its rows. Times are those of the session's zone.
    pub(crate) fn provider(self, context: &QueryContext, metadata: &TableMetadata) -> Result<Arc<dyn TableProvider>> {
        let zone = Zone::parse(&context.variables.time_zone()).unwrap_or(Zone::Fixed(0));
        let clock = |ms: i64| DateTime::from_timestamp_millis(ms).map(|at| zone.to_local(at.timestamp_micros()));
        let times = |ms: &mut dyn Iterator<Item = i64>| -> ArrayRef {
            Arc::new(ms.map(clock).collect::<TimestampMicrosecondArray>())
        };
        let snapshots = &metadata.snapshots;
        let parent = |id: i64| snapshots.iter().find(|s| s.id == id).and_then(|s| s.parent_id);
        let columns: Vec<(&str, ArrayRef)> = match self {
            About::Snapshots => {
                let summary = |s: &Snapshot| {
                    let ordered: std::collections::BTreeMap<_, _> = s.summary.iter().collect();
                    serde_json::to_string(&ordered).ok()
                };
                let operation = |s: &Snapshot| s.summary.get("operation").cloned();
                vec![
                    ("committed_at", times(&mut snapshots.iter().map(|s| s.timestamp_ms))),
                    ("snapshot_id", Arc::new(snapshots.iter().map(|s| Some(s.id)).collect::<Int64Array>())),
                    ("parent_id", Arc::new(snapshots.iter().map(|s| s.parent_id).collect::<Int64Array>())),
                    ("operation", Arc::new(snapshots.iter().map(operation).collect::<StringArray>())),
                    (
                        "manifest_list",
                        Arc::new(snapshots.iter().map(|s| s.manifest_list.clone()).collect::<StringArray>()),
                    ),
                    ("summary", Arc::new(snapshots.iter().map(summary).collect::<StringArray>())),
                ]
            }
            About::History => {
                let log = &metadata.snapshot_log;
                let mut ancestors = Vec::new();
                let mut next = metadata.current_snapshot_id;
                while let Some(id) = next.filter(|id| !ancestors.contains(id)) {
                    ancestors.push(id);
                    next = parent(id);
                }
                vec![
                    ("made_current_at", times(&mut log.iter().map(|(ms, _)| *ms))),
                    ("snapshot_id", Arc::new(log.iter().map(|(_, id)| Some(*id)).collect::<Int64Array>())),
                    ("parent_id", Arc::new(log.iter().map(|(_, id)| parent(*id)).collect::<Int64Array>())),
                    (
                        "is_current_ancestor",
                        Arc::new(log.iter().map(|(_, id)| Some(ancestors.contains(id))).collect::<BooleanArray>()),
                    ),
                ]
            }
            About::Refs => {
                let mut refs: Vec<_> = metadata.refs.iter().collect();
                refs.sort_unstable();
                let kind = |branch: bool| if branch { "BRANCH" } else { "TAG" };
                vec![
                    ("name", Arc::new(refs.iter().map(|(name, _)| Some(name.as_str())).collect::<StringArray>())),
                    ("type", Arc::new(refs.iter().map(|(_, r)| Some(kind(r.1))).collect::<StringArray>())),
                    ("snapshot_id", Arc::new(refs.iter().map(|(_, r)| Some(r.0)).collect::<Int64Array>())),
                ]
            }
        };
        let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, array)| (n, array, true)))?;
        Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_is_asked_of_which_table() {
        assert_eq!(About::of("t$Snapshots"), Some(("t", About::Snapshots)));
        assert_eq!(About::of("a$b$refs"), Some(("a$b", About::Refs)));
        for own in ["t", "t$files", "$history", "snapshots"] {
            assert_eq!(About::of(own), None, "{own}");
        }
    }
}
