//! INSERT INTO and INSERT OVERWRITE of tables over files: new files below the table's directory.
//!
//! Each thread of the query writes files of its own. The files get their names once all of them are written and synced.
//! A statement that fails therefore leaves nothing behind, and a statement that reads the table it writes to (`INSERT
//! INTO t SELECT * FROM t`) does not see its own rows.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::slice;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array, new_null_array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::common::runtime::JoinSet;
use datafusion::physical_plan::execute_stream_partitioned;
use dipper_dialect::statement::Insert;
use dipper_exec::on_cpu::on_cpu;
use dipper_exec::stored::{cast, check_width, misfit, twice};
use dipper_lake::files::define::{self, FORMAT_TEXT};
use dipper_lake::files::typed;
use dipper_lake::sink::{MadeDirectories, NewFile, OutputFormat, Place, parquet_codec, publish_drawn, unique_suffix};
use dipper_sql::charter::casts::FileCast;
use dipper_sql::charter::session::VarValue;
use dipper_sql::functions::LostValues;
use dipper_sql::functions::datetime::Zone;
use dipper_sql::insert_values::apart;
use dipper_store::catalog::{ExternalTable, PartitionValues};
use dipper_text::source::Compression;
use futures::StreamExt;

use super::partitions::{Partitions, text, texts};
use crate::context::QueryContext;
use crate::error::{EngineError, ErrorKind, Result};
use crate::files::FileAccess;
use crate::files::partitions::NULL_PARTITION;
use crate::query;
use crate::session::Session;
use crate::statements::is_strict;
use crate::tables::no_column;

/// Most partitions for which one thread of a statement has open files.
pub(in crate::statements) const PARTITIONS_MAX: usize = 1_000;

/// Inserts into a table over files. Returns the number of rows.
pub(super) async fn insert(
    session: &Session,
    table: &ExternalTable,
    insert: &Insert,
    params: Vec<VarValue>,
) -> Result<u64> {
    if !insert.on_duplicate.is_empty() {
        return Err(EngineError::unsupported("ON DUPLICATE KEY UPDATE: tables over files have no keys"));
    }
    if insert.label.is_some() {
        return Err(EngineError::unsupported("WITH LABEL: tables over files keep no labels"));
    }
    let context = session.query_context().await?;
    let strict = is_strict(session, insert);
    let (table, insert) = (table.clone(), insert.clone());
    let cpu = session.engine.cpu().clone();
    on_cpu(&cpu, async move {
        let partitions = Partitions::find(&context, &table, insert.overwrite).await?;
        let target = Arc::new(Target::try_new(&context, &table, partitions, &insert, strict)?);
        write(&context, &insert.source, params, target, insert.overwrite).await
    })
    .await
}

/// The places to which rows go, and the form in which they are written.
#[derive(Debug)]
struct Target {
    partitions: Partitions,
    format: OutputFormat,
    /// The columns in the files.
    file_schema: SchemaRef,
    /// The source of each column of the table: first the columns in the files, then the partition columns.
    sources: Vec<Source>,
    /// The cuts of the columns that have lengths, such as `VARCHAR(3)`, in the order of `sources`.
    cuts: Vec<Option<FileCast>>,
    /// Number of columns that the query must give.
    wanted: usize,
    /// Counts values that do not fit and become NULL; `None`: they are errors.
    lost: Option<Arc<LostValues>>,
    /// The zone of the session.
    zone: Option<Zone>,
    access: FileAccess,
    made: Arc<MadeDirectories>,
}

#[derive(Debug, Clone)]
enum Source {
    /// A column of the query.
    Query(usize),
    /// A partition value in the statement, the same for all rows.
    Constant(ScalarValue),
    /// The statement does not name the column.
    Null,
}

impl Target {
    fn try_new(
        context: &Arc<QueryContext>,
        table: &ExternalTable,
        partitions: Partitions,
        insert: &Insert,
        strict: bool,
    ) -> Result<Self> {
        let (format, file_schema) = if table.format == FORMAT_TEXT {
            let (dialect, schema) = define::hive_text(table, &[])?;
            (OutputFormat::HiveText(dialect, Compression::None), schema)
        } else {
            let codec = table.properties.get("parquet.compression").map_or("zstd", String::as_str);
            let fields = define::fields(&table.columns)?;
            if fields.is_empty() {
                return Err(EngineError::unsupported("INSERT into a table whose columns are inferred; declare them"));
            }
            (OutputFormat::Parquet(parquet_codec(codec)?), Arc::new(Schema::new(fields)))
        };
        let own = file_schema.fields().len();
        let names: Vec<&str> =
            file_schema.fields().iter().chain(partitions.columns()).map(|f| f.name().as_str()).collect();
        let mut sources = vec![Source::Null; names.len()];
        let at = |name: &str| {
            names
                .iter()
                .position(|n| n.eq_ignore_ascii_case(name))
                .ok_or_else(|| no_column(name, names.iter().copied()))
        };
        // Partition columns without a value in PARTITION (...), in the order in which the query gives them.
        let mut dynamic = Vec::new();
        for (name, value) in &insert.partition {
            let i = at(name)?;
            if i < own {
                return Err(EngineError::invalid(format!("'{name}' in PARTITION (...) is no partition column")));
            }
            if dynamic.contains(&i) || !matches!(sources[i], Source::Null) {
                return Err(twice(name));
            }
            match value {
                None => dynamic.push(i),
                Some(value) => {
                    // SHOW PARTITIONS and ADD PARTITION use this text for NULL.
                    let text = value.text().filter(|text| text != NULL_PARTITION);
                    sources[i] = Source::Constant(constant(&partitions.columns()[i - own], text, strict)?);
                }
            }
        }
        let mut wanted = 0;
        let mut next = || {
            wanted += 1;
            Source::Query(wanted - 1)
        };
        if insert.columns.is_empty() {
            let mut named = dynamic.iter();
            for next_column in 0..sources.len() {
                let i = match dynamic.contains(&next_column) {
                    true => named.next().copied().unwrap_or(next_column),
                    false => next_column,
                };
                if !matches!(sources[i], Source::Constant(_)) {
                    sources[i] = next();
                }
            }
        } else {
            for name in &insert.columns {
                let i = at(name)?;
                if !matches!(sources[i], Source::Null) {
                    return Err(twice(name));
                }
                sources[i] = next();
            }
            // As in Hive, dynamic partition columns follow the listed columns.
            for i in dynamic {
                if matches!(sources[i], Source::Null) {
                    sources[i] = next();
                }
            }
        }
        let cut =
            |field: &FieldRef| Some(FileCast::new(field.data_type().clone(), field, None)).filter(FileCast::has_limits);
        let cuts = file_schema.fields().iter().chain(partitions.columns()).map(cut).collect();
        Ok(Target {
            cuts,
            partitions,
            format,
            file_schema,
            sources,
            wanted,
            lost: (!strict).then(|| Arc::clone(&context.lost)),
            zone: Zone::parse(&context.variables.time_zone()),
            access: context.engine.options.access.clone(),
            made: Arc::default(),
        })
    }

    /// Converts a batch of the query to a batch of the files, and the values of the partition columns to text.
    fn shape(&self, batch: &RecordBatch) -> Result<(RecordBatch, Vec<ArrayRef>)> {
        let rows = batch.num_rows();
        let own = self.file_schema.fields().len();
        let mut columns = Vec::with_capacity(own);
        let mut partition = Vec::new();
        for (i, source) in self.sources.iter().enumerate() {
            let field = if i < own { &self.file_schema.fields()[i] } else { &self.partitions.columns()[i - own] };
            let array = match source {
                Source::Query(at) => {
                    let stored = cast(batch.column(*at), field, self.lost.as_deref(), self.zone)?;
                    // As Hive does: other readers of the file know nothing of the length.
                    self.cuts[i].as_ref().map_or_else(|| Ok(Arc::clone(&stored)), |cut| cut.cast(&stored))?
                }
                Source::Constant(value) => value.to_array_of_size(rows)?,
                Source::Null => new_null_array(field.data_type(), rows),
            };
            if i < own {
                columns.push(array);
            } else {
                partition.push(texts(&array)?);
            }
        }
        let batch = RecordBatch::try_new(Arc::clone(&self.file_schema), columns)
            .map_err(|e| EngineError::invalid(e.to_string()))?;
        Ok((batch, partition))
    }
}

/// Converts the value that PARTITION (...) gives a column.
fn constant(column: &FieldRef, text: Option<String>, strict: bool) -> Result<ScalarValue> {
    let value = typed(slice::from_ref(column), slice::from_ref(&text))?.remove(0);
    match text {
        Some(text) if strict && value.is_null() => Err(misfit(column, &text)),
        _ => Ok(value),
    }
}

async fn write(
    context: &Arc<QueryContext>,
    source: &dipper_dialect::statement::QueryText,
    params: Vec<VarValue>,
    target: Arc<Target>,
    overwrite: bool,
) -> Result<u64> {
    let planned = query::plan(context, &apart(source.clone()), Some(&params)).await?;
    check_width(target.wanted, planned.logical.schema().fields().len())?;
    let physical = planned.physical().await?;
    let streams = execute_stream_partitioned(physical, dipper_exec::quota::task_context(&planned.state))?;
    let mut tasks = JoinSet::new();
    for mut stream in streams {
        let target = Arc::clone(&target);
        tasks.spawn(async move {
            let mut files = Files { target, open: HashMap::new() };
            while let Some(batch) = stream.next().await {
                files.write(&batch.map_err(EngineError::from)?).await?;
            }
            files.finish().await
        });
    }
    let (mut partitions, mut files) = (BTreeSet::new(), Vec::new());
    while let Some(done) = tasks.join_next().await {
        match done {
            Ok(Ok(written)) => {
                for (values, file) in written {
                    partitions.insert(values);
                    files.push(file);
                }
            }
            Ok(Err(e)) => {
                // The files of the other threads are removed before the client sees the error.
                tasks.shutdown().await;
                return Err(e);
            }
            Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
            Err(_) => return Err(EngineError::new(ErrorKind::Killed, "the statement was cancelled")),
        }
    }
    let old = if overwrite { replaced(&target, &partitions).await? } else { Vec::new() };
    let rows = files.iter().map(NewFile::rows).sum();
    publish_drawn(&mut files).await?;
    for file in old {
        file.remove().await?;
    }
    Ok(rows)
}

/// Returns the files that INSERT OVERWRITE replaces: those of the partitions that it writes, or of the whole table if
/// the table has no partitions.
async fn replaced(target: &Target, written: &BTreeSet<PartitionValues>) -> Result<Vec<Place>> {
    let fixed = constant_partition(target)?.map(|values| [values].into());
    // Keyed by name, because one directory can belong to two partitions.
    let mut old = BTreeMap::new();
    for values in fixed.as_ref().unwrap_or(written) {
        for directory in target.partitions.directories(values)? {
            old.extend(directory.files(&target.access).await?.into_iter().map(|file| (file.name(), file)));
        }
    }
    Ok(old.into_values().collect())
}

/// Returns the one partition that the statement writes to, if it gives every partition column a value. For a table
/// without partition columns that is the partition without values.
fn constant_partition(target: &Target) -> Result<Option<PartitionValues>> {
    target.sources[target.file_schema.fields().len()..]
        .iter()
        .map(|s| match s {
            Source::Constant(value) => Some(text(value)),
            Source::Null => Some(Ok(None)),
            Source::Query(_) => None,
        })
        .collect::<Option<Result<_>>>()
        .transpose()
}

/// The files that one thread writes, by partition.
struct Files {
    target: Arc<Target>,
    open: HashMap<PartitionValues, NewFile>,
}

impl Files {
    async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let (rows, partition) = self.target.shape(batch)?;
        if partition.is_empty() {
            return self.file(Vec::new())?.write(&rows).await;
        }
        for (values, indices) in groups(&partition, rows.num_rows()) {
            let part = match indices.len() == rows.num_rows() {
                true => rows.clone(),
                false => take_record_batch(&rows, &UInt32Array::from(indices))
                    .map_err(|e| EngineError::invalid(e.to_string()))?,
            };
            self.file(values)?.write(&part).await?;
        }
        Ok(())
    }

    fn file(&mut self, values: Vec<Option<String>>) -> Result<&mut NewFile> {
        if self.open.len() >= PARTITIONS_MAX && !self.open.contains_key(&values) {
            return Err(EngineError::new(
                ErrorKind::Resources,
                format!("one statement writes at most {PARTITIONS_MAX} partitions; insert fewer at a time"),
            ));
        }
        let target = &self.target;
        match self.open.entry(values) {
            std::collections::hash_map::Entry::Occupied(found) => Ok(found.into_mut()),
            std::collections::hash_map::Entry::Vacant(new) => {
                let name = format!("part-{}.{}", unique_suffix(), target.format.extension());
                let place = target.partitions.directory(new.key())?.join(&name)?;
                place.check(&target.access)?;
                Ok(new.insert(NewFile::create(&place, &target.format, &target.file_schema, &target.made)?))
            }
        }
    }

    async fn finish(mut self) -> Result<Vec<(PartitionValues, NewFile)>> {
        for file in self.open.values_mut() {
            file.finish().await?;
        }
        Ok(self.open.drain().collect())
    }
}

/// Groups row numbers by partition values, in the order of each partition's first row.
pub(in crate::statements) fn groups(partition: &[ArrayRef], rows: usize) -> Vec<(Vec<Option<String>>, Vec<u32>)> {
    let columns: Vec<_> = partition.iter().map(|a| a.as_string::<i32>()).collect();
    let mut order: Vec<(Vec<Option<String>>, Vec<u32>)> = Vec::new();
    let mut by_values: HashMap<Vec<Option<&str>>, usize> = HashMap::new();
    for row in 0..rows {
        let values: Vec<Option<&str>> = columns.iter().map(|c| c.is_valid(row).then(|| c.value(row))).collect();
        let at = *by_values.entry(values).or_insert_with_key(|values| {
            order.push((values.iter().map(|v| v.map(str::to_string)).collect(), Vec::new()));
            order.len() - 1
        });
        order[at].1.push(row as u32);
    }
    order
}
