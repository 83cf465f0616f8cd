//! The bytes of each column in the segments of native tables, as the objects' own footers have them.

use dipper_node::error::Result;
use dipper_store::segment::Readers;
use dipper_store::table::{Table, TableState};

use super::partitions::{NODE, int, partition_id, tablet_id};
use crate::sheet::{Cell, Sheet};
use crate::types::facts;

/// Adds the rows of a table: one for each column of each segment. A segment is what Doris calls a rowset. A column that
/// was dropped keeps its bytes until its segment is merged; its type is not known any more.
///
/// # Errors
/// `Storage` if an object cannot be read: rows that are left out would make sums wrong.
pub async fn rows(sheet: &mut Sheet, table: &Table, state: &TableState, readers: &Readers) -> Result<()> {
    let schema = state.schema();
    for s in state.all_segments() {
        let tablet = s.segment.tablet;
        let reader = readers.get(&table.data_path(s.object.id), s.object).await?;
        for bytes in reader.column_bytes(s.id.ordinal) {
            let column = schema.position(bytes.id).map(|at| &schema.columns[at]);
            sheet.push([
                NODE,
                int(table.id().0),
                int(table.id().0),
                partition_id(table.id(), tablet.partition),
                tablet_id(table.id(), tablet.partition, tablet.bucket),
                s.id.to_string().into(),
                Cell::Int(i64::from(bytes.id)),
                column.map_or(bytes.name.as_str(), |c| c.name.as_str()).into(),
                column.map(|c| facts(&c.data_type.to_string()).data_type.to_uppercase()).into(),
                int(bytes.packed),
                int(bytes.unpacked),
                // The size of the values before they are encoded is not kept.
                Cell::Null,
            ]);
        }
    }
    Ok(())
}
