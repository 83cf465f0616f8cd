//! Results out to files: SELECT INTO OUTFILE, COPY TO, INSERT INTO FILES.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use dipper_sql::statement::{OutfileFields, Properties, QueryText, SelectIntoOutfile};
use dipper_text::dialect::{CsvDialect, HiveDialect, LineEnd};
use dipper_text::source::Compression;
use futures::StreamExt;

use crate::error::{EngineError, Result};
use crate::files::stores::{StoreProperties, is_store_property, store_properties};
use crate::query::{self, QueryContext};
use crate::result::{Column, Done, Outcome, Rows};
use crate::session::Session;
use crate::sink::{NewFile, OutputFormat, Place, parquet_codec, text_compression, unique_suffix};

/// What a finished export says.
struct Written {
    place: Place,
    rows: u64,
    bytes: u64,
}

/// `SELECT ... INTO OUTFILE`: with FORMAT or PROPERTIES it is Doris's (the path is a prefix, the answer a row), else
/// MySQL's (the path is the file, which must not exist).
pub(super) async fn into_outfile(session: &mut Session, outfile: &SelectIntoOutfile) -> Result<Outcome> {
    if let Some(charset) = &outfile.charset
        && !["utf8", "utf8mb4", "utf8mb3", "binary"].contains(&charset.to_lowercase().as_str())
    {
        return Err(EngineError::unsupported(format!("INTO OUTFILE CHARACTER SET {charset}; utf8mb4 is supported")));
    }
    if outfile.format.is_none() && outfile.properties.is_empty() {
        let dialect = mysql_dialect(outfile.fields.clone().unwrap_or_default())?;
        let format = OutputFormat::HiveText(dialect, Compression::None);
        let place = Place::of(&session.engine.stores, &outfile.path, &StoreProperties::new())?;
        let written = export(session, &outfile.source, place, format, false).await?;
        return Ok(Outcome::Done(Done { affected_rows: written.rows, ..Done::default() }));
    }
    if outfile.fields.is_some() {
        return Err(EngineError::invalid(
            "INTO OUTFILE takes FORMAT AS with PROPERTIES, or FIELDS and LINES, not both",
        ));
    }
    let mut options = Options::new(&outfile.properties);
    let format = options.format(outfile.format.as_deref().unwrap_or("csv"))?;
    let prefix = Place::of(&session.engine.stores, &outfile.path, &options.store_properties())?;
    options.finish("PROPERTIES of INTO OUTFILE")?;
    let place = prefix.with_suffix(&format!("{}_0.{}", unique_suffix(), format.extension()))?;
    let written = export(session, &outfile.source, place, format, false).await?;
    Ok(Outcome::Rows(summary(&written)?))
}

/// `COPY (query) TO 'path' (FORMAT csv, ...)`: the path is the file; an existing one is replaced.
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
    let written = export(session, source, place, format, true).await?;
    Ok(Outcome::Done(Done { affected_rows: written.rows, ..Done::default() }))
}

/// `INSERT INTO FILES('path' = 'dir/', 'format' = 'parquet', ...)`: a new file below the directory, or exactly the file
/// with `'single' = 'true'`.
pub(super) async fn insert_into_files(
    session: &mut Session,
    properties: &Properties,
    source: &QueryText,
) -> Result<Outcome> {
    let mut options = Options::new(properties);
    let path = options.take("path").ok_or_else(|| EngineError::invalid("FILES(...) needs 'path' = '...'"))?;
    let single = options.flag("single", false)?;
    let format = match options.take("format") {
        Some(format) => options.format(&format)?,
        None => options.format_of_path(Path::new(&path))?,
    };
    let place = Place::of(&session.engine.stores, &path, &options.store_properties())?;
    options.finish("properties of FILES(...)")?;
    let place = match single {
        true => place,
        false => place.join(&format!("data_{}.{}", unique_suffix(), format.extension()))?,
    };
    let written = export(session, source, place, format, false).await?;
    Ok(Outcome::Done(Done { affected_rows: written.rows, ..Done::default() }))
}

async fn export(
    session: &Session,
    source: &QueryText,
    place: Place,
    format: OutputFormat,
    replace: bool,
) -> Result<Written> {
    place.check(&session.engine.options.access)?;
    place.check_new(replace).await?;
    let context = session.query_context().await?;
    let cpu = session.engine.cpu().clone();
    let source = source.clone();
    query::on_cpu(&cpu, async move { write(&context, &source, place, &format, replace).await }).await
}

async fn write(
    context: &Arc<QueryContext>,
    source: &QueryText,
    place: Place,
    format: &OutputFormat,
    replace: bool,
) -> Result<Written> {
    let planned = query::plan(context, source, None).await?;
    let fields: Vec<_> =
        planned.columns().into_iter().map(|c| Arc::new(c.field.as_ref().clone().with_name(c.name))).collect();
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    let physical = planned.physical().await?;
    let mut batches = query::start(context, &planned.state, physical).await?;
    let mut file = NewFile::create(&place, format, &schema)?;
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        let named = RecordBatch::try_new_with_options(
            Arc::clone(&schema),
            batch.columns().to_vec(),
            &arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows())),
        );
        file.write(&named.map_err(|e| EngineError::invalid(e.to_string()))?).await?;
    }
    file.publish(replace).await?;
    Ok(Written { place, rows: file.rows(), bytes: file.bytes() })
}

/// The row that Doris answers.
fn summary(written: &Written) -> Result<Rows> {
    let schema = Arc::new(Schema::new(vec![
        Field::new("FileNumber", DataType::Int64, false),
        Field::new("TotalRows", DataType::Int64, false),
        Field::new("FileSize", DataType::Int64, false),
        Field::new("URL", DataType::Utf8, false),
    ]));
    let batch = RecordBatch::try_new(
        Arc::clone(&schema),
        vec![
            Arc::new(Int64Array::from(vec![1])),
            Arc::new(Int64Array::from(vec![written.rows as i64])),
            Arc::new(Int64Array::from(vec![written.bytes as i64])),
            Arc::new(StringArray::from(vec![written.place.url()])),
        ],
    )
    .map_err(|e| EngineError::invalid(e.to_string()))?;
    let columns = schema.fields().iter().map(|f| Column::computed(Arc::clone(f))).collect();
    Ok(Rows { columns, batches: futures::stream::iter([Ok(batch)]).boxed() })
}

/// MySQL's text form: fields between delimiters, NULL as `\N`, escapes with a backslash. That is Hive text.
fn mysql_dialect(fields: OutfileFields) -> Result<HiveDialect> {
    let one = |what: &str, value: &str| match value.as_bytes() {
        [byte] => Ok(*byte),
        _ => Err(EngineError::unsupported(format!(
            "{what} '{value}': one byte is supported; use FORMAT AS csv with PROPERTIES"
        ))),
    };
    if !fields.enclosed_by.is_empty() || !fields.lines_starting_by.is_empty() || fields.lines_terminated_by != "\n" {
        return Err(EngineError::unsupported(
            "ENCLOSED BY, LINES STARTING BY and LINES TERMINATED BY are not supported here; use FORMAT AS csv with PROPERTIES",
        ));
    }
    let mut dialect = HiveDialect::default();
    dialect.separators[0] = one("FIELDS TERMINATED BY", &fields.terminated_by)?;
    dialect.escape = match fields.escaped_by.as_str() {
        "" => None,
        escape => Some(one("ESCAPED BY", escape)?),
    };
    Ok(dialect)
}

/// Options of an export, each of which is used or refused.
struct Options {
    left: BTreeMap<String, String>,
}

impl Options {
    fn new(properties: &Properties) -> Self {
        Options { left: properties.iter().map(|(k, v)| (k.to_lowercase(), v.clone())).collect() }
    }

    fn take(&mut self, key: &str) -> Option<String> {
        self.left.remove(key)
    }

    /// Those that are for an object store.
    fn store_properties(&mut self) -> StoreProperties {
        let own = store_properties(&self.left);
        self.left.retain(|key, _| !is_store_property(key));
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
            Some("csv") => "csv_with_names",
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
            "csv" | "csv_with_names" | "tsv" | "tsv_with_names" | "text" => {
                let tab = name.starts_with("tsv") || name == "text";
                let names = name.ends_with("with_names");
                let dialect = self.csv(tab, names)?;
                Ok(OutputFormat::Csv(dialect, text_compression(codec.as_deref().unwrap_or_default())?))
            }
            other => Err(EngineError::unsupported(format!(
                "format '{other}' is not supported; choose csv, csv_with_names, json or parquet"
            ))),
        }
    }

    fn csv(&mut self, tab: bool, names: bool) -> Result<CsvDialect> {
        let default = if tab { "\t" } else { "," };
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
            None => Some(b'"'),
            Some([]) => None,
            Some([byte]) => Some(*byte),
            Some(_) => return Err(EngineError::invalid("the quote must be one byte")),
        };
        Ok(CsvDialect {
            delimiter,
            line_end: if line == b"\n" { LineEnd::Newline } else { LineEnd::Bytes(line) },
            quote,
            header: self.flag("header", names)?,
            null_values: vec![null.unwrap_or_default().into_bytes()],
            ..CsvDialect::default()
        })
    }
}

/// `\t`, `\n`, `\r`, `\\`, `\0`, `\x01` in delimiters, as Doris writes them.
pub(crate) fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        let hex =
            |at: usize| bytes.get(at..at + 2).and_then(|h| u8::from_str_radix(std::str::from_utf8(h).ok()?, 16).ok());
        match (bytes[i], bytes.get(i + 1)) {
            (b'\\', Some(b't')) => out.push(b'\t'),
            (b'\\', Some(b'n')) => out.push(b'\n'),
            (b'\\', Some(b'r')) => out.push(b'\r'),
            (b'\\', Some(b'0')) => out.push(0),
            (b'\\', Some(b'\\')) => out.push(b'\\'),
            (b'\\', Some(b'x' | b'X')) if hex(i + 2).is_some() => {
                out.extend(hex(i + 2));
                i += 2;
            }
            (byte, _) => {
                out.push(byte);
                i += 1;
                continue;
            }
        }
        i += 2;
    }
    out
}
