//! Results that are written to files: SELECT INTO OUTFILE, COPY TO, INSERT INTO FILES.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, StringArray, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, Time64MicrosecondType, TimeUnit};
use arrow::record_batch::RecordBatch;
use dipper_base::clock;
use dipper_base::unescape::unescape;
use dipper_dialect::statement::{OutfileFields, Properties, QueryText, SelectIntoOutfile};
use dipper_exec::on_cpu::on_cpu;
use dipper_lake::sink::{
    MadeDirectories, MySqlDialect, NewFile, OutputFormat, Place, parquet_codec, publish_drawn, text_compression,
    unique_suffix,
};
use dipper_sql::charter::as_shown;
use dipper_sql::charter::casts::cast_values;
use dipper_sql::functions::datetime::DAY_MICROS;
use dipper_sql::type_text::type_text;
use dipper_text::dialect::{CsvDialect, HiveDialect, LineEnd};
use dipper_text::source::Compression;
use dipper_text::write::CsvWriter;
use futures::StreamExt;

use super::insert::files::{PARTITIONS_MAX, groups};
use crate::context::QueryContext;
use crate::error::{EngineError, ErrorKind, Result};
use crate::files::partitions::directory_name;
use crate::files::stores::{StoreProperties, is_s3_property, store_properties};
use crate::query;
use crate::result::{Column, Done, Outcome, Rows};
use crate::session::Session;

/// Counts of a finished export.
struct Written {
    files: u64,
    rows: u64,
    bytes: u64,
}

/// The target and the form of an export.
struct Export {
    format: OutputFormat,
    /// Returns the place of the n-th file in a directory; the directory is empty without partitions.
    place: Box<dyn Fn(&str, u64) -> Result<Place> + Send + Sync>,
    /// The names of the files are unique ones made here, so no file of these names exists.
    drawn: bool,
    /// Columns whose values become directories `column=value` instead of being written to the files. Only with drawn
    /// names.
    partition_by: Vec<String>,
    /// Size in bytes from which the next rows go to a new file; `None`: one file. Only with drawn names.
    file_bytes_max: Option<u64>,
    /// An existing file of the name is replaced.
    replace: bool,
    /// Text files begin with a byte order mark.
    bom: bool,
    /// The line below the column names has the types of the columns.
    types: bool,
    /// Directory whose old files are deleted once the new ones have their names.
    emptied: Option<Place>,
    /// An empty file that marks the export as complete.
    success: Option<Place>,
}

impl Export {
    /// An export to one new file of this name.
    fn one(place: Place, format: OutputFormat) -> Self {
        Export {
            format,
            place: Box::new(move |_, _| Ok(place.clone())),
            drawn: false,
            partition_by: Vec::new(),
            file_bytes_max: None,
            replace: false,
            bom: false,
            types: false,
            emptied: None,
            success: None,
        }
    }
}

/// The smallest `max_file_size` in bytes, as in Doris.
const FILE_BYTES_MIN: u64 = 5 << 20;

/// Runs `SELECT ... INTO OUTFILE`. With FORMAT or PROPERTIES it is Doris's statement: the path is a prefix, and the
/// answer is a row. Otherwise it is MySQL's: the path is the file, which must not exist.
pub(super) async fn into_outfile(session: &mut Session, outfile: &SelectIntoOutfile) -> Result<Outcome> {
    if let Some(charset) = &outfile.charset
        && !["utf8", "utf8mb4", "utf8mb3", "binary"].contains(&charset.to_lowercase().as_str())
    {
        return Err(EngineError::unsupported(format!("INTO OUTFILE CHARACTER SET {charset}; utf8mb4 is supported")));
    }
    if outfile.format.is_none() && outfile.properties.is_empty() {
        let format = mysql_format(outfile.fields.clone().unwrap_or_default())?;
        let place = Place::of(&session.engine.stores, &outfile.path, &StoreProperties::new())?;
        let written = export(session, &outfile.source, Export::one(place, format)).await?;
        return Ok(Outcome::Done(Done { affected_rows: written.rows, ..Done::default() }));
    }
    if outfile.fields.is_some() {
        return Err(EngineError::invalid(
            "INTO OUTFILE takes FORMAT AS with PROPERTIES, or FIELDS and LINES, not both",
        ));
    }
    let mut options = Options::for_loads(&outfile.properties);
    let name = outfile.format.as_deref().unwrap_or("csv");
    let format = options.format(name)?;
    let prefix = Place::of(&session.engine.stores, &outfile.path, &options.store_properties())?;
    // As in Doris, the names of the files begin with the text after the last `/`.
    let below = outfile.path.ends_with('/');
    let directory = if below { prefix.clone() } else { prefix.around()? };
    let named = move |text: &str| if below { prefix.join(text) } else { prefix.with_suffix(text) };
    let all = named("*");
    let suffix = match options.take("file_suffix") {
        Some(suffix) if suffix.contains('/') => {
            return Err(EngineError::invalid(format!("file_suffix = '{suffix}': expected the end of a file's name")));
        }
        Some(suffix) => suffix.trim_start_matches('.').to_string(),
        None => format.extension(),
    };
    let id = unique_suffix();
    let export_of = Export {
        place: Box::new(move |_, n| named(&format!("{id}_{n}.{suffix}"))),
        drawn: true,
        format,
        file_bytes_max: options.size("max_file_size")?,
        replace: false,
        bom: options.flag("with_bom", false)?,
        types: name.eq_ignore_ascii_case("csv_with_names_and_types"),
        success: match options.take("success_file_name") {
            Some(name) if name.is_empty() || name.contains('/') => {
                return Err(EngineError::invalid(format!("success_file_name = '{name}': expected the name of a file")));
            }
            Some(name) => Some(directory.join(&name)?),
            None => None,
        },
        partition_by: Vec::new(),
        emptied: options.flag("delete_existing_files", false)?.then_some(directory),
    };
    if export_of.bom && !matches!(export_of.format, OutputFormat::Csv(..)) {
        return Err(EngineError::invalid("with_bom is for CSV"));
    }
    options.finish("PROPERTIES of INTO OUTFILE")?;
    let first = (export_of.place)("", 0)?;
    let written = export(session, &outfile.source, export_of).await?;
    let url = if written.files == 1 { first.url() } else { all.map_or(first.url(), |all| all.url()) };
    Ok(Outcome::Rows(summary(&written, &url)?))
}

/// Runs `COPY (query) TO 'path' (FORMAT csv, ...)`. The path is the file; an existing file is replaced.
pub(super) async fn copy_to(
    session: &mut Session,
    source: &QueryText,
    path: &str,
    options: &Properties,
) -> Result<Outcome> {
    let mut options = Options::new(options);
    let format = match options.take("format") {
        Some(format) => options.format(&format)?,
        None => options.format_of_path(Path::new(path))?,
    };
    let place = Place::of(&session.engine.stores, path, &options.store_properties())?;
    options.finish("options of COPY TO")?;
    let written = export(session, source, Export { replace: true, ..Export::one(place, format) }).await?;
    Ok(Outcome::Done(Done { affected_rows: written.rows, ..Done::default() }))
}

/// Runs `INSERT INTO FILES('path' = 'dir/', 'format' = 'parquet', ...)`. It writes a new file below the directory, or
/// exactly this file with `'single' = 'true'`.
pub(super) async fn insert_into_files(
    session: &mut Session,
    properties: &Properties,
    source: &QueryText,
) -> Result<Outcome> {
    let mut options = Options::for_loads(properties);
    let path = options.take("path").ok_or_else(|| EngineError::invalid("FILES(...) needs 'path' = '...'"))?;
    let single = options.flag("single", false)?;
    let format = match options.take("format") {
        Some(format) => options.format(&format)?,
        None => options.format_of_path(Path::new(&path))?,
    };
    let place = Place::of(&session.engine.stores, &path, &options.store_properties())?;
    let file_bytes_max = options.size("target_max_file_size")?;
    let partition_by = options.take("partition_by").unwrap_or_default();
    let partition_by: Vec<String> =
        partition_by.split(',').map(|c| c.trim().to_string()).filter(|c| !c.is_empty()).collect();
    options.finish("properties of FILES(...)")?;
    let one = Export::one(place.clone(), format);
    let export_of = match single {
        true if file_bytes_max.is_some() || !partition_by.is_empty() => {
            return Err(EngineError::invalid(
                "FILES(...): 'single' = 'true' is one file; leave out target_max_file_size and partition_by",
            ));
        }
        true => one,
        false => {
            let (id, extension) = (unique_suffix(), one.format.extension());
            let name = move |n| match n {
                0 => format!("data_{id}.{extension}"),
                n => format!("data_{id}_{n}.{extension}"),
            };
            let place = move |directory: &str, n| match directory {
                "" => place.join(&name(n)),
                directory => place.join(&format!("{directory}/{}", name(n))),
            };
            Export { place: Box::new(place), drawn: true, file_bytes_max, partition_by, ..one }
        }
    };
    let written = export(session, source, export_of).await?;
    Ok(Outcome::Done(Done { affected_rows: written.rows, ..Done::default() }))
}

async fn export(session: &Session, source: &QueryText, export: Export) -> Result<Written> {
    let access = &session.engine.options.access;
    let first = (export.place)("", 0)?;
    first.check(access)?;
    first.check_new(export.replace).await?;
    if let Some(directory) = &export.emptied {
        directory.check(access)?;
    }
    if let Some(success) = &export.success {
        success.check(access)?;
        success.check_new(true).await?;
    }
    let context = session.query_context().await?;
    let cpu = session.engine.cpu().clone();
    let source = source.clone();
    on_cpu(&cpu, async move { write(&context, &source, &export).await }).await
}

async fn write(context: &Arc<QueryContext>, source: &QueryText, export: &Export) -> Result<Written> {
    let planned = query::plan(context, source, None).await?;
    let columns = planned.columns();
    let fields: Vec<_> = columns.iter().map(|c| Arc::new(c.field.as_ref().clone().with_name(c.name.clone()))).collect();
    let all = Schema::new(fields);
    if matches!(export.format, OutputFormat::Json(_) | OutputFormat::Parquet(_)) {
        refuse_duplicates(all.fields().iter().map(|field| field.name().as_str()))?;
    }
    let keys = partition_columns(&all, &export.partition_by)?;
    let kept: Vec<usize> = (0..all.fields().len()).filter(|at| !keys.contains(at)).collect();
    if kept.is_empty() {
        return Err(EngineError::invalid("partition_by names all columns: nothing is left for the files"));
    }
    let schema: SchemaRef = Arc::new(all.project(&kept).map_err(|e| EngineError::invalid(e.to_string()))?);
    let (format, start) = start(export, &schema)?;
    // Writers of text do not know how many digits of DATETIME to write.
    let is_text = !matches!(export.format, OutputFormat::Parquet(_));
    let fields = || schema.fields().iter().map(AsRef::as_ref);
    let written: SchemaRef = match is_text {
        true => as_shown(&RecordBatch::new_empty(Arc::clone(&schema)), fields())?.schema(),
        false => Arc::clone(&schema),
    };
    let physical = planned.physical().await?;
    let old = match &export.emptied {
        Some(directory) => directory.files(&context.engine.options.access).await?,
        None => Vec::new(),
    };
    let mut batches = query::start(context, &planned.state, physical).await?;
    let made = Arc::new(MadeDirectories::default());
    // The last file of each directory is open. Without partitions there is a file even if there are no rows.
    let mut directories: HashMap<String, Vec<NewFile>> = HashMap::new();
    if keys.is_empty() {
        let first = NewFile::begin(&(export.place)("", 0)?, &format, &written, &start, &made)?;
        directories.insert(String::new(), vec![first]);
    }
    while let Some(batch) = batches.next().await {
        for (directory, part) in parts(&batch?, &keys, &kept, &export.partition_by)? {
            let named = RecordBatch::try_new(Arc::clone(&schema), part.columns().to_vec());
            let named = named.map_err(|e| EngineError::invalid(e.to_string()))?;
            let named = match is_text {
                true => as_shown(&named, fields())?,
                false => {
                    are_of_a_day(&named)?;
                    named
                }
            };
            if directories.len() >= PARTITIONS_MAX && !directories.contains_key(&directory) {
                return Err(EngineError::new(
                    ErrorKind::Resources,
                    format!("partition_by: one statement writes at most {PARTITIONS_MAX} directories"),
                ));
            }
            let files = directories.entry(directory.clone()).or_default();
            let full = |file: &NewFile| export.file_bytes_max.is_some_and(|most| file.bytes() >= most);
            if files.last().is_none_or(full) {
                if let Some(file) = files.last_mut() {
                    file.finish().await?;
                }
                let place = (export.place)(&directory, files.len() as u64)?;
                place.check(&context.engine.options.access)?;
                files.push(NewFile::begin(&place, &format, &written, &start, &made)?);
            }
            files.last_mut().expect("one is open").write(&named).await?;
        }
    }
    let mut files: Vec<NewFile> = directories.into_values().flatten().collect();
    for file in &mut files {
        file.finish().await?;
    }
    match export.drawn {
        true => publish_drawn(&mut files).await?,
        false => files[0].publish(export.replace).await?,
    }
    // This is the last step: whatever fails before, the old files or the new ones exist.
    for place in &old {
        place.remove().await?;
    }
    if let Some(success) = &export.success
        && let Err(e) = write_empty(success).await
    {
        if old.is_empty() {
            for file in &mut files {
                file.withdraw().await;
            }
        }
        return Err(e);
    }
    let sum = |of: fn(&NewFile) -> u64| files.iter().map(of).sum();
    Ok(Written { files: files.len() as u64, rows: sum(NewFile::rows), bytes: sum(NewFile::bytes) })
}

/// Refuses two columns of the same name, in any case: a format or definition with named columns would lose one of them.
pub(super) fn refuse_duplicates<'a>(names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut taken = HashSet::new();
    for name in names {
        if !taken.insert(name.to_lowercase()) {
            return Err(EngineError {
                code: 1060,
                sqlstate: "42S21",
                ..EngineError::invalid(format!("Duplicate column name '{name}'; give it another by AS"))
            });
        }
    }
    Ok(())
}

async fn write_empty(place: &Place) -> Result<()> {
    let (format, made) = (OutputFormat::Json(Compression::None), Arc::new(MadeDirectories::default()));
    NewFile::create(place, &format, &Arc::new(Schema::empty()), &made)?.publish(true).await
}

/// Returns the positions of the columns that `partition_by` names.
fn partition_columns(schema: &Schema, names: &[String]) -> Result<Vec<usize>> {
    let mut keys = Vec::new();
    for name in names {
        let Some((at, field)) =
            schema.fields().iter().enumerate().find(|(_, field)| field.name().eq_ignore_ascii_case(name))
        else {
            return Err(EngineError::invalid(format!("partition_by: the query gives no column {name}")));
        };
        if field.data_type().is_nested() {
            return Err(EngineError::invalid(format!("partition_by: {name} is nested, and names no directory")));
        }
        if keys.contains(&at) {
            return Err(EngineError::invalid(format!("partition_by names {name} twice")));
        }
        keys.push(at);
    }
    Ok(keys)
}

/// Checks the TIMEs of rows for a Parquet file, whose type of that name is a time of day.
fn are_of_a_day(batch: &RecordBatch) -> Result<()> {
    let fields = batch.schema();
    let mut columns = fields.fields().iter().zip(batch.columns());
    match columns.find_map(|(field, column)| Some((field.name(), beyond_a_day(column)?))) {
        None => Ok(()),
        Some((name, time)) => Err(EngineError::invalid(format!(
            "column {name}: Parquet has no TIME such as {}, only times of day: CAST({name} AS STRING) is text",
            clock::text(time, None)
        ))),
    }
}

/// Returns a TIME, also one inside of another value, that is no time of day.
fn beyond_a_day(values: &ArrayRef) -> Option<i64> {
    match values.data_type() {
        DataType::Time64(TimeUnit::Microsecond) => {
            let times = values.as_primitive::<Time64MicrosecondType>();
            times.iter().flatten().find(|time| !(0..DAY_MICROS).contains(time))
        }
        DataType::List(_) => beyond_a_day(values.as_list::<i32>().values()),
        DataType::Map(..) => values.as_map().entries().columns().iter().find_map(beyond_a_day),
        DataType::Struct(_) => values.as_struct().columns().iter().find_map(beyond_a_day),
        _ => None,
    }
}

/// Splits a batch by directories; the parts have only the columns of the files.
fn parts(batch: &RecordBatch, keys: &[usize], kept: &[usize], names: &[String]) -> Result<Vec<(String, RecordBatch)>> {
    let failed = |e: arrow::error::ArrowError| EngineError::invalid(e.to_string());
    let shown = batch.project(kept).map_err(failed)?;
    if keys.is_empty() {
        return Ok(vec![(String::new(), shown)]);
    }
    let values = keys.iter().map(|at| Ok(cast_values(batch.column(*at), &DataType::Utf8)?));
    let values: Vec<ArrayRef> = values.collect::<Result<_>>()?;
    let of_group = |(values, rows): (Vec<Option<String>>, Vec<u32>)| {
        let taken = take_record_batch(&shown, &UInt32Array::from(rows)).map_err(failed)?;
        Ok((directory_name(names, &values), taken))
    };
    groups(&values, batch.num_rows()).into_iter().map(of_group).collect()
}

/// Returns the format of the rows, and the bytes before them: a byte order mark, and the lines of names and types,
/// which no format writes on its own.
fn start(export: &Export, schema: &Schema) -> Result<(OutputFormat, Vec<u8>)> {
    let mut start = Vec::new();
    if export.bom {
        start.extend(b"\xef\xbb\xbf");
    }
    let OutputFormat::Csv(dialect, compression) = &export.format else { return Ok((export.format.clone(), start)) };
    if !export.types {
        return Ok((export.format.clone(), start));
    }
    let text = schema.fields().iter().map(|f| Field::new(f.name(), DataType::Utf8, true)).collect::<Vec<_>>();
    let text = Arc::new(Schema::new(text));
    let types =
        schema.fields().iter().map(|f| Arc::new(StringArray::from(vec![type_text(f).to_uppercase()])) as ArrayRef);
    let failed = |e: &dyn std::fmt::Display| EngineError::invalid(e.to_string());
    let types = RecordBatch::try_new(Arc::clone(&text), types.collect()).map_err(|e| failed(&e))?;
    let names = CsvDialect { header: true, ..dialect.clone() };
    let mut lines = CsvWriter::try_new(Vec::new(), names, text).map_err(|e| failed(&e))?;
    lines.write(&types).map_err(|e| failed(&e))?;
    start.extend(lines.finish().map_err(|e| failed(&e))?);
    Ok((OutputFormat::Csv(CsvDialect { header: false, ..dialect.clone() }, *compression), start))
}

/// Makes the row that Doris answers with.
fn summary(written: &Written, url: &str) -> Result<Rows> {
    let schema = Arc::new(Schema::new(vec![
        Field::new("FileNumber", DataType::Int64, false),
        Field::new("TotalRows", DataType::Int64, false),
        Field::new("FileSize", DataType::Int64, false),
        Field::new("URL", DataType::Utf8, false),
    ]));
    let batch = RecordBatch::try_new(
        Arc::clone(&schema),
        vec![
            Arc::new(Int64Array::from(vec![written.files as i64])),
            Arc::new(Int64Array::from(vec![written.rows as i64])),
            Arc::new(Int64Array::from(vec![written.bytes as i64])),
            Arc::new(StringArray::from(vec![url])),
        ],
    )
    .map_err(|e| EngineError::invalid(e.to_string()))?;
    let columns = schema.fields().iter().map(|f| Column::computed(Arc::clone(f))).collect();
    Ok(Rows { columns, batches: futures::stream::iter([Ok(batch)]).boxed() })
}

/// The format of MySQL's text files: fields between delimiters, NULL as `\N`, escapes with a backslash. Without quotes
/// this is Hive text.
fn mysql_format(fields: OutfileFields) -> Result<OutputFormat> {
    let one = |what: &str, value: &str| match value.as_bytes() {
        [] => Ok(None),
        [byte] => Ok(Some(*byte)),
        _ => Err(EngineError::invalid(format!("{what} '{value}': expected one byte"))),
    };
    let (quote, escape) = (one("ENCLOSED BY", &fields.enclosed_by)?, one("ESCAPED BY", &fields.escaped_by)?);
    if let (None, [delimiter], "\n", "") =
        (quote, fields.terminated_by.as_bytes(), fields.lines_terminated_by.as_str(), fields.lines_starting_by.as_str())
    {
        let mut dialect = HiveDialect::default();
        dialect.separators[0] = *delimiter;
        dialect.escape = escape;
        return Ok(OutputFormat::HiveText(dialect, Compression::None));
    }
    Ok(OutputFormat::MySqlText(MySqlDialect {
        field_end: fields.terminated_by.into_bytes(),
        quote,
        optionally: fields.optionally,
        escape,
        line_start: fields.lines_starting_by.into_bytes(),
        line_end: fields.lines_terminated_by.into_bytes(),
    }))
}

/// Options of an export. Each option is used or refused.
struct Options {
    left: BTreeMap<String, String>,
    /// The defaults of CSV are those with which Stream Load reads: tabs between fields, `\N` for NULL, no quotes. Files
    /// of Doris's INTO OUTFILE and StarRocks' FILES() have this form.
    for_loads: bool,
}

impl Options {
    fn new(properties: &Properties) -> Self {
        let left = properties.iter().map(|(k, v)| (k.to_lowercase(), v.clone())).collect();
        Options { left, for_loads: false }
    }

    fn for_loads(properties: &Properties) -> Self {
        Options { for_loads: true, ..Self::new(properties) }
    }

    fn take(&mut self, key: &str) -> Option<String> {
        self.left.remove(key)
    }

    /// Takes the options that configure an object store.
    fn store_properties(&mut self) -> StoreProperties {
        let own = store_properties(&self.left);
        self.left.retain(|key, _| !is_s3_property(key));
        own
    }

    fn take_any(&mut self, keys: &[&str]) -> Option<String> {
        keys.iter().filter_map(|k| self.left.remove(*k)).last()
    }

    fn flag(&mut self, key: &str, default: bool) -> Result<bool> {
        match self.take(key).map(|v| v.to_lowercase()).as_deref() {
            None => Ok(default),
            Some("true" | "1" | "on" | "yes" | "") => Ok(true),
            Some("false" | "0" | "off" | "no") => Ok(false),
            Some(other) => Err(EngineError::invalid(format!("{key} = '{other}': expected true or false"))),
        }
    }

    /// Takes a size in bytes: a number, which may have the unit KB, MB or GB.
    fn size(&mut self, key: &str) -> Result<Option<u64>> {
        let Some(text) = self.take(key) else { return Ok(None) };
        let upper = text.trim().to_uppercase();
        let digits = upper.trim_end_matches(|c: char| !c.is_ascii_digit());
        let unit = match upper[digits.len()..].trim() {
            "" | "B" => Some(1),
            "K" | "KB" => Some(1 << 10),
            "M" | "MB" => Some(1 << 20),
            "G" | "GB" => Some(1 << 30),
            _ => None,
        };
        let bytes = digits.parse::<u64>().ok().zip(unit).and_then(|(n, unit)| n.checked_mul(unit));
        match bytes {
            Some(bytes) if bytes >= FILE_BYTES_MIN => Ok(Some(bytes)),
            _ => Err(EngineError::invalid(format!("{key} = '{text}': expected a size of at least 5MB, such as 512MB"))),
        }
    }

    fn finish(self, what: &str) -> Result<()> {
        match self.left.keys().next() {
            None => Ok(()),
            Some(key) => Err(EngineError::unsupported(format!("{what}: '{key}' is not known here"))),
        }
    }

    fn format_of_path(&mut self, path: &Path) -> Result<OutputFormat> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let compression = Compression::from_path(&name);
        let stem = match compression {
            Compression::None => name.as_str(),
            _ => name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem),
        };
        let format = match stem.rsplit_once('.').map(|(_, e)| e) {
            Some("csv") => {
                self.for_loads = false;
                "csv_with_names"
            }
            Some("tsv") => "tsv_with_names",
            Some("parquet" | "pq") => "parquet",
            Some("json" | "jsonl" | "ndjson") => "json",
            _ => {
                return Err(EngineError::invalid(format!(
                    "'{}': the format is not clear from the name; say format csv, json or parquet",
                    path.display()
                )));
            }
        };
        Ok(match self.format(format)? {
            OutputFormat::Csv(dialect, Compression::None) => OutputFormat::Csv(dialect, compression),
            OutputFormat::Json(Compression::None) => OutputFormat::Json(compression),
            other => other,
        })
    }

    fn format(&mut self, name: &str) -> Result<OutputFormat> {
        let codec = self.take_any(&["compression", "compress_type", "compression_codec", "codec"]);
        let name = name.to_lowercase();
        match name.as_str() {
            "parquet" => Ok(OutputFormat::Parquet(parquet_codec(codec.as_deref().unwrap_or_default())?)),
            "json" | "jsonl" | "ndjson" => {
                Ok(OutputFormat::Json(text_compression(codec.as_deref().unwrap_or_default())?))
            }
            "csv" | "csv_with_names" | "csv_with_names_and_types" | "tsv" | "tsv_with_names" | "text" => {
                let tab = name.starts_with("tsv") || name == "text";
                let names = name.contains("with_names");
                let dialect = self.csv(tab, names)?;
                Ok(OutputFormat::Csv(dialect, text_compression(codec.as_deref().unwrap_or_default())?))
            }
            other => Err(EngineError::unsupported(format!(
                "format '{other}' is not supported; choose csv, csv_with_names, json or parquet"
            ))),
        }
    }

    fn csv(&mut self, tab: bool, names: bool) -> Result<CsvDialect> {
        let (default, no_value) = match (self.for_loads, tab) {
            (true, _) => ("\t", "\\N"),
            (false, true) => ("\t", ""),
            (false, false) => (",", ""),
        };
        let delimiter = self.take_any(&["column_separator", "csv.column_separator", "delimiter", "sep", "delim"]);
        let line = self.take_any(&["line_delimiter", "csv.row_delimiter", "row_delimiter"]);
        let quote = self.take_any(&["enclose", "csv.enclose", "quote"]);
        let null = self.take_any(&["null_format", "null", "nullstr"]);
        let delimiter = unescape(&delimiter.unwrap_or_else(|| default.into()));
        let line = unescape(&line.unwrap_or_else(|| "\n".into()));
        if delimiter.is_empty() || line.is_empty() {
            return Err(EngineError::invalid("delimiters must not be empty"));
        }
        let quote = match quote.as_deref().map(str::as_bytes) {
            None => (!self.for_loads).then_some(b'"'),
            Some([]) => None,
            Some([byte]) => Some(*byte),
            Some(_) => return Err(EngineError::invalid("the quote must be one byte")),
        };
        Ok(CsvDialect {
            delimiter,
            line_end: if line == b"\n" { LineEnd::Newline } else { LineEnd::Bytes(line) },
            quote,
            header: match self.left.contains_key("csv.include_header") {
                true => self.flag("csv.include_header", names)?,
                false => self.flag("header", names)?,
            },
            null_values: vec![null.unwrap_or_else(|| no_value.into()).into_bytes()],
            ..CsvDialect::default()
        })
    }
}
