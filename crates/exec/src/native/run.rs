//! `Run`: the state of a running scan of a native table.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{ArrayRef, AsArray, UInt32Array};
use arrow::datatypes::{SchemaRef, UInt64Type};
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use dipper_node::error::{EngineError, Result};
use dipper_store::segment::{GroupScan, Scan, ScanIo};
use parking_lot::Mutex;

use super::morsels::{Morsel, Morsels};
use super::prune::OwnZones;
use super::scan::{NativeScanSpec, Source};
use crate::scan::prune::{GroupPruner, Kept, keeps};
use crate::scan::worker::{ScanMetrics, ScanRun, first_rows, rows_of};
use crate::scan::{GroupFilter, ScanFilter};

/// State that all workers of a running scan share.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) spec: Arc<NativeScanSpec>,
    pub(super) morsels: Arc<Morsels>,
    /// Where each output column comes from.
    pub(super) sources: Vec<Source>,
    pub(super) schema: SchemaRef,
    pub(super) filter: Option<GroupFilter>,
    pub(super) pruner: Mutex<GroupPruner>,
    pub(super) fetch: Option<u64>,
    pub(super) io: Arc<ScanIo>,
}

impl Run {
    /// Estimates the stored bytes of the wanted columns of a row group. Columns differ in size, but their share in the
    /// number of columns is all that is known before the footers are read.
    pub(super) fn group_bytes(&self) -> u64 {
        let bytes: u64 = self.spec.segments.iter().map(|s| s.described().bytes).sum();
        let groups: u64 = self.spec.segments.iter().map(|s| u64::from(s.described().groups)).sum();
        let columns = self.spec.state.schema().columns.len().max(1) as u64;
        bytes * self.sources.len() as u64 / columns / groups.max(1)
    }
}

impl ScanRun for Run {
    type Morsel = Morsel;
    /// The index of the segment by age.
    type Tag = u32;

    fn take(&self) -> Option<VecDeque<Morsel>> {
        self.morsels.take()
    }

    async fn open(&self, morsel: Morsel, metrics: &ScanMetrics) -> Result<Option<(u32, GroupScan)>> {
        let (spec, io) = (&self.spec, &self.io);
        let segment = &spec.segments[morsel.0 as usize];
        let path = spec.table.data_path(segment.object.id);
        let reader = spec.readers.get_for(&path, &segment.object, Some(io)).await?;
        assert!(morsel.1 < segment.described().groups, "a morsel is a row group of its segment");
        let group = (segment.described().first_group + morsel.1) as usize;
        let definition = spec.state.schema();
        let predicate = self.pruner.lock().predicate();
        let kept = match predicate {
            None => Kept::All,
            Some(predicate) => keeps(&predicate, &OwnZones { reader: &reader, group, definition }),
        };
        let total = reader.group_rows(group);
        let Some(mut rows) = rows_of(kept, io, total, metrics) else { return Ok(None) };
        let deleted = segment.deleted.as_deref();
        if let (true, Some(most)) = (io.wants_few(), self.fetch) {
            // Some of the first rows may be deleted, so read that many more.
            let first = reader.group_segment(group).1;
            let gone = deleted.map_or(0, |d| d.range_cardinality(first..first + total as u32));
            let left = most.saturating_sub(self.morsels.rows.load(Ordering::Relaxed));
            rows = first_rows(left.saturating_add(gone) as usize, total);
        }
        let columns: Vec<usize> = (self.sources.iter())
            .filter_map(|s| match s {
                Source::Stored(at) => Some(*at),
                Source::Segment | Source::Row => None,
            })
            .collect();
        let rest = self.filter.as_ref().and_then(GroupFilter::rest);
        let scan = Scan {
            filter_columns: rest.map(ScanFilter::columns).unwrap_or_default(),
            deleted,
            row_address: self.sources.contains(&Source::Row),
            rows: rows.as_ref(),
            tests: self.filter.as_ref().and_then(GroupFilter::tests),
            io: Some(io),
            ..Scan::new(definition, &columns)
        };
        let rows = match rest {
            None => reader.scan_group(group, &scan, None).await?,
            Some(filter) => {
                let mut keep =
                    |batch: &RecordBatch| filter.keep(batch).map_err(|e| ArrowError::ExternalError(Box::new(e)));
                reader.scan_group(group, &scan, Some(&mut keep)).await?
            }
        };
        Ok((rows.rows_left() > 0).then_some((segment.age, rows)))
    }

    /// Adds the addresses of rows, and uses the fields of the provider.
    fn output(&self, age: &u32, batch: RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let mut stored = batch.columns().iter();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.sources.len());
        for source in &self.sources {
            columns.push(match source {
                Source::Stored(_) => Arc::clone(stored.next().expect("one array per stored column")),
                Source::Segment => Arc::new(UInt32Array::from(vec![*age; rows])),
                Source::Row => {
                    let addresses =
                        batch.columns().last().expect("the scan adds addresses").as_primitive::<UInt64Type>();
                    // The upper half of the address is the segment's ordinal.
                    Arc::new(addresses.values().iter().map(|a| *a as u32).collect::<UInt32Array>())
                }
            });
        }
        let addresses = usize::from(self.sources.contains(&Source::Row));
        assert_eq!(stored.len(), addresses, "the scan returns the columns that were asked for and no others");
        assert!(columns.iter().all(|column| column.len() == rows), "columns of a batch are equally long");
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|e| EngineError::invalid(e.to_string()))
    }

    fn limit(&self) -> Option<(u64, &AtomicU64)> {
        Some((self.fetch?, &self.morsels.rows))
    }
}
