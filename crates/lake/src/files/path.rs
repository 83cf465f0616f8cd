//! Paths as tables: `FROM 'logs/*.csv.gz'`, `files('path'='...', ...)`, `local('file_path'='...', ...)`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::catalog::view::ViewTable;
use datafusion::common::ScalarValue;
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::logical_expr::{LogicalPlanBuilder, cast, ident, lit};
use dipper_base::unescape::unescape;
use dipper_dialect::statement::Properties;
use dipper_exec::scan::TextGuess;
use dipper_node::error::{EngineError, ErrorKind, Result};
use dipper_node::files::stores::{
    StoreProperties, USUAL_NAMES, is_hadoop_property, is_store_property, object_at, store_properties,
};
use dipper_node::files::{FileEntry, cannot, list_any, partitions};
use dipper_text::dialect::{CsvDialect, DateOrder, Dialect, HiveDialect, JsonDialect, LineEnd, Ragged};
use dipper_text::hive::parse_type;
use dipper_text::infer::{
    Guess, Header, Hints, Union, common_dialect, describe, infer, infer_json, settle_dates, union_by_name,
};
use dipper_text::scan::{BadValue, FileInput, InvalidUtf8};
use dipper_text::source::Compression;

use super::define::LAZY_SIMPLE_SERDE;
use super::file_set::FileSet;
use super::parquet::ParquetTable;
use super::text::TextTable;
use crate::read::ReadContext;
use crate::sheet::{Kind, Sheet, wall_clock_us};
use crate::sink::text_compression;

/// Table functions that read files.
pub const PATH_FUNCTIONS: [&str; 5] = ["files", "local", "file", "s3", "hdfs"];

/// Files from which dialect and types are guessed: enough to meet a file that differs, few enough to be quick.
const FILES_SAMPLED: usize = 8;

/// Makes the table of a quoted path in FROM. The format follows from the name, or from the first bytes.
pub async fn from_path(context: &ReadContext, path: &str) -> Result<Arc<dyn TableProvider>> {
    let mut options = BTreeMap::new();
    options.insert("path".to_string(), path.to_string());
    provider(context, options, "path").await
}

/// Makes the table of a table function's call.
pub async fn from_function(
    context: &ReadContext,
    function: &str,
    properties: &Properties,
) -> Result<Arc<dyn TableProvider>> {
    let mut options = BTreeMap::new();
    for (key, value) in properties {
        let key = if is_hadoop_property(key) { key.clone() } else { key.to_lowercase() };
        if options.insert(key.clone(), value.clone()).is_some() {
            return Err(EngineError::invalid(format!("{function}(...): '{key}' is given twice")));
        }
    }
    if let Some(path) = options.remove("file_path").or_else(|| options.remove("uri")) {
        options.insert("path".into(), path);
    }
    // Doris' options for the backend that has the file, and for whether all backends share it. Here is only one.
    options.remove("backend_id");
    options.remove("shared_storage");
    provider(context, options, function).await
}

/// Options of a path. Each of them is used or refused.
struct Options {
    function: String,
    left: BTreeMap<String, String>,
    /// Options that were looked for, for hints at misspelled ones.
    known: Vec<&'static str>,
}

impl Options {
    fn take(&mut self, keys: &[&'static str]) -> Option<String> {
        self.known.extend(keys);
        let mut found = None;
        for key in keys {
            found = self.left.remove(*key).or(found);
        }
        found
    }

    /// Takes the options that are properties of an object store.
    fn store_properties(&mut self) -> StoreProperties {
        let own = store_properties(&self.left);
        self.left.retain(|key, _| !is_store_property(key));
        own
    }

    fn flag(&mut self, keys: &[&'static str]) -> Result<Option<bool>> {
        match self.take(keys).map(|v| v.to_lowercase()).as_deref() {
            None => Ok(None),
            Some("true" | "1" | "on" | "yes") => Ok(Some(true)),
            Some("false" | "0" | "off" | "no") => Ok(Some(false)),
            Some(other) => Err(EngineError::invalid(format!("{} = '{other}': expected true or false", keys[0]))),
        }
    }

    fn number(&mut self, keys: &[&'static str]) -> Result<Option<u64>> {
        self.take(keys)
            .map(|v| {
                v.parse().map_err(|_| EngineError::invalid(format!("{} = '{v}': expected a number of lines", keys[0])))
            })
            .transpose()
    }

    /// Takes a one-byte option; an empty value means none.
    fn byte(&mut self, keys: &[&'static str]) -> Result<Option<Option<u8>>> {
        self.take(keys)
            .map(|v| match unescape(&v)[..] {
                [] => Ok(None),
                [byte] => Ok(Some(byte)),
                _ => Err(EngineError::invalid(format!("{} = '{v}': expected one byte", keys[0]))),
            })
            .transpose()
    }

    /// Takes the names of the columns whose values are in directory names.
    fn path_columns(&mut self) -> Result<Vec<String>> {
        let names = self.take(&["path_partition_keys", "columns_from_path"]).unwrap_or_default();
        let mut columns: Vec<String> = Vec::new();
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            if columns.iter().any(|column| column.eq_ignore_ascii_case(name)) {
                return Err(EngineError::invalid(format!("columns_from_path names {name} twice")));
            }
            columns.push(name.to_string());
        }
        Ok(columns)
    }

    fn bad_value(&mut self, default: BadValue) -> Result<BadValue> {
        match self.take(&["on_error", "bad_values"]).map(|v| v.to_lowercase()).as_deref() {
            None => Ok(default),
            Some("null") => Ok(BadValue::Null),
            Some("error") => Ok(BadValue::Error),
            Some("skip" | "reject") => Ok(BadValue::Reject { max: u64::MAX }),
            Some(other) => Err(EngineError::invalid(format!("on_error = '{other}': expected error, null or skip"))),
        }
    }

    fn invalid_utf8(&mut self, default: InvalidUtf8) -> Result<InvalidUtf8> {
        match self.take(&["invalid_utf8"]).map(|v| v.to_lowercase()).as_deref() {
            None => Ok(default),
            Some("error") => Ok(InvalidUtf8::Error),
            Some("null") => Ok(InvalidUtf8::Null),
            Some("replace") => Ok(InvalidUtf8::Replace),
            Some(other) => {
                Err(EngineError::invalid(format!("invalid_utf8 = '{other}': expected error, null or replace")))
            }
        }
    }

    fn finish(self) -> Result<()> {
        match self.left.keys().next() {
            None => Ok(()),
            Some(key) => {
                let near = dipper_base::near::closest(key, self.known.iter().copied().chain(USUAL_NAMES));
                let near = near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
                Err(EngineError::unsupported(format!("{}(...): option '{key}' is not known{near}", self.function)))
            }
        }
    }
}

async fn provider(
    context: &ReadContext,
    options: BTreeMap<String, String>,
    function: &str,
) -> Result<Arc<dyn TableProvider>> {
    let mut options = Options { function: function.to_string(), left: options, known: Vec::new() };
    let named = if function == "s3" { "uri" } else { "path" };
    let mut path = options
        .take(&["path"])
        .ok_or_else(|| EngineError::invalid(format!("{function}(...) needs '{named}' = '...', the files to read")))?;
    let access = context.access.clone();
    let mut store_properties = options.store_properties();
    if function == "s3"
        && let Some(location) = object_at(&path, &mut store_properties)?
    {
        path = location;
    }
    let files = list_any((&context.stores, &context.listings), &path, &store_properties, &access).await?;
    if options.flag(&["list_files_only"])?.unwrap_or(false) {
        options.take(&["format"]);
        if let Some(key) = options.left.keys().next() {
            let what = format!("{function}(...): option '{key}' has no use beside 'list_files_only'");
            return Err(EngineError::unsupported(what));
        }
        return listed(context, &files);
    }
    let format = match options.take(&["format"]) {
        Some(format) => format.to_lowercase(),
        None => guess_format(&files[0])?.to_string(),
    };
    match format.as_str() {
        "parquet" => {
            let path_columns = options.path_columns()?;
            options.finish()?;
            let state = context.state();
            let files = file_set(&files, &path_columns)?;
            let table = ParquetTable::try_new(context, &state, files, access, None).await?;
            let schema = table.schema();
            apart(&schema.fields()[..schema.fields().len() - path_columns.len()], &path_columns)?;
            Ok(table)
        }
        "json" | "jsonl" | "ndjson" => json(context, options, &files),
        "csv" | "csv_with_names" | "tsv" | "tsv_with_names" => csv(context, options, &files, &format),
        "hive_text" | "text" | "textfile" => hive_text(context, options, &files),
        other => Err(EngineError::unsupported(format!(
            "{function}(...): format '{other}' is not supported; choose csv, hive_text, parquet or json"
        ))),
    }
}

/// Lists the files themselves as rows, with StarRocks' columns (`list_files_only`). Times are in the session's time
/// zone.
fn listed(context: &ReadContext, files: &[FileEntry]) -> Result<Arc<dyn TableProvider>> {
    let head = [("PATH", Kind::Text), ("SIZE", Kind::Int), ("IS_DIR", Kind::Int), ("MODIFICATION_TIME", Kind::Time)];
    let (mut sheet, zone) = (Sheet::new(&head), &context.time_zone);
    for file in files {
        let modified = chrono::DateTime::<chrono::Utc>::from(file.modified).timestamp_millis();
        let size = i64::try_from(file.len).unwrap_or(i64::MAX);
        // Directories are not listed, only the files below them.
        sheet.push([file.name().into(), size.into(), 0.into(), wall_clock_us(modified, zone)]);
    }
    let batch = sheet.into_batch()?;
    Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
}

/// Returns the files with the values that directories `name=value`, anywhere in their paths, give to each of `columns`.
/// (Doris: `columns_from_path`; the values are strings.)
fn file_set(files: &[FileEntry], columns: &[String]) -> Result<FileSet> {
    if columns.is_empty() {
        return Ok(FileSet::Listed(files.into()));
    }
    let mut all: BTreeMap<Vec<Option<String>>, Vec<FileEntry>> = BTreeMap::new();
    for file in files {
        let name = file.name();
        let values = columns.iter().map(|column| {
            let mut directories = name.split('/').rev().skip(1);
            directories.find_map(|directory| partitions::value(column, directory)).ok_or_else(|| {
                EngineError::new(
                    ErrorKind::File,
                    format!("'{name}': columns_from_path names {column}, but no directory of the path is {column}=..."),
                )
            })
        });
        all.entry(values.collect::<Result<_>>()?).or_default().push(file.clone());
    }
    let columns = columns.iter().map(|column| Arc::new(Field::new(column, DataType::Utf8, true))).collect();
    Ok(FileSet::Known { columns, partitions: all.into_iter().collect() })
}

fn guess_format(file: &FileEntry) -> Result<&'static str> {
    let name = file.name().to_lowercase();
    let stem = match Compression::from_path(&name) {
        Compression::None => name.as_str(),
        _ => name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem),
    };
    Ok(match Path::new(stem).extension().and_then(|e| e.to_str()) {
        Some("parquet" | "pq" | "parq") => "parquet",
        Some("json" | "jsonl" | "ndjson") => "json",
        _ => {
            let mut magic = [0; 4];
            let n = file.source(false).read_at(0, &mut magic).map_err(|e| match e.kind() {
                std::io::ErrorKind::NotFound => cannot(&file.path, "read", &e).vanished(),
                _ => cannot(&file.path, "read", &e),
            })?;
            // The second is that of a file whose footer is encrypted, which the reader refuses by name.
            if matches!(&magic[..n], b"PAR1" | b"PARE") { "parquet" } else { "csv" }
        }
    })
}

/// Local JSON files whose members are read: any file can have members of its own, and beginnings are read quickly.
const JSON_FILES_SAMPLED: usize = 256;

fn json(context: &ReadContext, mut options: Options, files: &[FileEntry]) -> Result<Arc<dyn TableProvider>> {
    for (layout, is_read) in [("read_json_by_line", true), ("strip_outer_array", false)] {
        if options.flag(&[layout])?.is_some_and(|asked| asked != is_read) {
            return Err(EngineError::unsupported(format!(
                "{}(...): '{layout}' = '{}': what is read is an object a line; jq -c '.[]' makes such lines of an array",
                options.function, !is_read
            )));
        }
    }
    let declared = options.take(&["csv_schema", "columns"]).map(|text| schema_option(&text)).transpose()?;
    let text = TextOptions::take(&mut options, BadValue::Error, InvalidUtf8::Error)?;
    options.finish()?;
    let (dialect, schema) = match declared {
        Some(columns) => {
            let keys = columns.iter().map(|column| column.name().clone()).collect();
            (JsonDialect { keys, guessed: false }, Arc::new(Schema::new(columns)))
        }
        None => {
            let most = if files.iter().any(|file| file.remote.is_some()) { FILES_SAMPLED } else { JSON_FILES_SAMPLED };
            let step = files.len().div_ceil(most).max(1);
            let sampled = files.iter().step_by(step).map(|file| input(file, text.compression));
            infer_json(&sampled.collect::<Vec<_>>())?
        }
    };
    text.table(context, files, Dialect::Json(dialect), schema, None)
}

/// Options of text files of every dialect.
struct TextOptions {
    compression: Option<Compression>,
    bad_value: BadValue,
    invalid_utf8: InvalidUtf8,
    path_columns: Vec<String>,
}

impl TextOptions {
    /// Takes these options; `bad_value` and `invalid_utf8` are defaults.
    fn take(options: &mut Options, bad_value: BadValue, invalid_utf8: InvalidUtf8) -> Result<Self> {
        Ok(TextOptions {
            compression: options
                .take(&["compress_type", "compression"])
                .map(|codec| text_compression(&codec))
                .transpose()?,
            bad_value: options.bad_value(bad_value)?,
            invalid_utf8: options.invalid_utf8(invalid_utf8)?,
            path_columns: options.path_columns()?,
        })
    }

    /// Makes a table over these files with these columns. `guess` says what was guessed rather than given by the user.
    fn table(
        &self,
        context: &ReadContext,
        files: &[FileEntry],
        dialect: Dialect,
        file_schema: SchemaRef,
        guess: Option<TextGuess>,
    ) -> Result<Arc<dyn TableProvider>> {
        apart(file_schema.fields(), &self.path_columns)?;
        let table = TextTable {
            dialect,
            file_schema,
            files: file_set(files, &self.path_columns)?,
            access: context.access.clone(),
            bad_value: self.bad_value,
            invalid_utf8: self.invalid_utf8,
            strings: context.strings(),
            compression: self.compression,
        };
        Ok(table.into_provider(guess))
    }
}

/// Takes the option `date_order`: the letters of PostgreSQL's DateStyle.
fn date_order(options: &mut Options) -> Result<Option<DateOrder>> {
    Ok(match options.take(&["date_order"]).map(|v| v.to_lowercase()).as_deref() {
        None => None,
        Some("ymd") => Some(DateOrder::YearFirst),
        Some("dmy") => Some(DateOrder::DayFirst),
        Some("mdy") => Some(DateOrder::MonthFirst),
        Some(other) => return Err(EngineError::invalid(format!("date_order = '{other}': expected ymd, dmy or mdy"))),
    })
}

fn csv(
    context: &ReadContext,
    mut options: Options,
    files: &[FileEntry],
    format: &str,
) -> Result<Arc<dyn TableProvider>> {
    let unquote = options.flag(&["trim_double_quotes", "csv.trim_double_quotes"])?.unwrap_or(false);
    let mut hints = Hints {
        delimiter: options
            .take(&["column_separator", "csv.column_separator", "delimiter", "delim", "sep"])
            .map(|v| unescape(&v))
            .or_else(|| format.starts_with("tsv").then(|| b"\t".to_vec())),
        // As in Doris, quotes that are dropped hold nothing together.
        quote: options.byte(&["enclose", "csv.enclose", "quote"])?.or(unquote.then_some(None)),
        unquote,
        escape: options.byte(&["escape", "csv.escape"])?,
        comment: options.byte(&["comment"])?,
        header: options.flag(&["header"])?.or_else(|| format.ends_with("with_names").then_some(true)),
        skip_lines: options.number(&["skip_lines", "csv.skip_header", "skip_header", "skip"])?,
        line_end: options.take(&["line_delimiter", "csv.row_delimiter", "row_delimiter"]).map(|v| {
            match &unescape(&v)[..] {
                b"\n" | b"\r\n" => LineEnd::Newline,
                other => LineEnd::Bytes(other.to_vec()),
            }
        }),
        trim: options.flag(&["trim_space", "csv.trim_space", "trim"])?,
        null_values: options.take(&["null_format", "nullstr"]).map(|v| vec![v.into_bytes()]),
        ragged: options
            .flag(&["fill_missing_columns", "null_padding"])?
            .map(|fill| if fill { Ragged::Fill } else { Ragged::Error }),
        dates: date_order(&mut options)?,
        names: Vec::new(),
        types: Vec::new(),
        all_strings: options.flag(&["all_varchar"])?.unwrap_or(false),
    };
    if hints.delimiter.as_ref().is_some_and(Vec::is_empty) {
        return Err(EngineError::invalid("column_separator must not be empty"));
    }
    let declared = options.take(&["csv_schema", "columns"]).map(|text| schema_option(&text)).transpose()?;
    if let Some(columns) = declared {
        // With a header the list gives types by name; without one it also gives the names of the columns.
        if hints.header != Some(true) && hints.header.is_some() {
            hints.names = columns.iter().map(|column| column.name().clone()).collect();
        }
        hints.types = columns;
    }
    let text = TextOptions::take(&mut options, BadValue::Error, InvalidUtf8::Error)?;
    let union = options.flag(&["union_by_name"])?.unwrap_or(false);
    options.finish()?;
    if union {
        let (sampled, guesses) = sample(files, files.len(), &hints, text.compression)?;
        return united(context, &guesses, &sampled, &text);
    }
    let (sampled, guesses) = sample(files, FILES_SAMPLED, &hints, text.compression)?;
    let (dialect, all) = one_shape(&guesses)?;
    tracing::debug!(guess = %guesses[0], "inferred");
    let unseen = dialect.header && sampled.len() < files.len();
    let guess = TextGuess {
        header: unseen.then(|| Arc::new(Header::new(&all.schema, &dialect))),
        ..guess_of(&dialect, &guesses, all.given.iter().copied())
    };
    text.table(context, files, Dialect::Csv(dialect), all.schema, Some(guess))
}

/// Describes the guesses for a scan of files in one dialect. `given` says for each column, in file order, whether its
/// type was given.
fn guess_of(dialect: &CsvDialect, guesses: &[Guess], given: impl Iterator<Item = bool>) -> TextGuess {
    let ambiguous_dates = guesses.iter().any(|guess| guess.ambiguous_dates);
    let columns = given.enumerate().filter_map(|(column, given)| (!given).then_some(column)).collect();
    TextGuess { written: describe(dialect, ambiguous_dates), columns, header: None }
}

/// Fails if a column is both in the files and in their path, because one of the two would be lost.
fn apart(file_columns: &[FieldRef], path_columns: &[String]) -> Result<()> {
    match path_columns.iter().find(|c| file_columns.iter().any(|f| f.name().eq_ignore_ascii_case(c))) {
        None => Ok(()),
        Some(column) => Err(EngineError::invalid(format!(
            "columns_from_path names {column}, which is a column of the files, too; leave it out of columns_from_path, or \
             name the columns of text otherwise by 'columns' = 'name:type;...' with 'header' = 'false'"
        ))),
    }
}

/// Unites files with different columns to one table that has all of them; columns that a file lacks are NULL.
fn united(
    context: &ReadContext,
    guesses: &[Guess],
    files: &[FileEntry],
    text: &TextOptions,
) -> Result<Arc<dyn TableProvider>> {
    let all = union_by_name(guesses);
    let mut groups: Vec<(&CsvDialect, &[Option<usize>], Vec<FileEntry>)> = Vec::new();
    for ((guess, columns), file) in guesses.iter().zip(&all.columns).zip(files) {
        match groups.iter_mut().find(|(d, c, _)| *d == &guess.dialect && c == columns) {
            Some((_, _, files)) => files.push(file.clone()),
            None => groups.push((&guess.dialect, columns, vec![file.clone()])),
        }
    }
    let mut plan: Option<LogicalPlanBuilder> = None;
    for (i, (dialect, columns, files)) in groups.into_iter().enumerate() {
        let mut own: Vec<(usize, usize)> =
            columns.iter().enumerate().filter_map(|(column, place)| Some(((*place)?, column))).collect();
        own.sort_unstable();
        let own = own.iter().map(|(_, column)| *column);
        let schema = Arc::new(all.schema.project(&own.clone().collect::<Vec<_>>())?);
        let guess = guess_of(dialect, guesses, own.map(|column| all.given[column]));
        let provider = text.table(context, &files, Dialect::Csv(dialect.clone()), schema, Some(guess))?;
        let shown = columns.iter().zip(all.schema.fields()).map(|(place, field)| match place {
            Some(_) => ident(field.name()),
            None => cast(lit(ScalarValue::Null), field.data_type().clone()).alias(field.name()),
        });
        let shown = shown.chain(text.path_columns.iter().map(ident));
        let scan = LogicalPlanBuilder::scan(format!("files{i}"), provider_as_source(provider), None)?.project(shown)?;
        plan = Some(match plan {
            None => scan,
            Some(before) => before.union(scan.build()?)?,
        });
    }
    let plan = plan.ok_or_else(|| EngineError::invalid("no files"))?.build()?;
    Ok(Arc::new(ViewTable::new(plan, None)))
}

/// Returns the input for sampling a file, with the given compression or that of its name.
fn input(file: &FileEntry, compression: Option<Compression>) -> FileInput {
    let name = file.name();
    let compression = compression.unwrap_or_else(|| Compression::from_path(&name));
    FileInput { name, source: file.source(false), compression }
}

/// Samples up to `most` of the files, spread over all of them, and returns a guess for each. Empty files, which Spark
/// and Hive write, are left out because they say nothing, unless all are empty.
fn sample(
    files: &[FileEntry],
    most: usize,
    hints: &Hints,
    compression: Option<Compression>,
) -> Result<(Vec<FileEntry>, Vec<Guess>)> {
    let mut full: Vec<&FileEntry> = files.iter().filter(|file| file.len > 0).collect();
    if full.is_empty() {
        full.extend(files);
    }
    let step = full.len().div_ceil(most).max(1);
    let sampled: Result<Vec<(FileEntry, Guess)>> = full
        .into_iter()
        .step_by(step)
        .map(|file| Ok((file.clone(), infer(&input(file, compression), hints)?)))
        .collect();
    let mut sampled = sampled?;
    if sampled.iter().any(|(_, guess)| !guess.empty) {
        sampled.retain(|(_, guess)| !guess.empty);
    }
    let (sampled, mut guesses): (Vec<_>, Vec<_>) = sampled.into_iter().unzip();
    settle_dates(&mut guesses);
    Ok((sampled, guesses))
}

/// Returns the dialect and the columns that all files share.
///
/// # Errors
/// `File` if the files differ in either.
fn one_shape(guesses: &[Guess]) -> Result<(CsvDialect, Union)> {
    let differ = |a: usize, b: usize| {
        let (a, b) = (&guesses[a], &guesses[b]);
        EngineError::new(
            ErrorKind::File,
            format!(
                "'{}' and '{}' are not written alike:\n{a}\n{b}\nread them with files('path' = ..., 'union_by_name' = 'true'), or give format options",
                a.file, b.file
            ),
        )
    };
    let names = |g: &Guess| g.schema.fields().iter().map(|f| f.name().to_lowercase()).collect::<Vec<_>>();
    let first = names(&guesses[0]);
    if let Some(other) = guesses.iter().position(|g| names(g) != first) {
        return Err(differ(0, other));
    }
    let dialect = common_dialect(guesses).map_err(|(a, b)| differ(a, b))?;
    Ok((dialect, union_by_name(guesses)))
}

/// Parses a list of columns: `name:type;name:type` (Doris' csv_schema) or `name type, name type`.
pub fn schema_option(text: &str) -> Result<Vec<FieldRef>> {
    let mut columns = Vec::new();
    let mut depth = 0;
    let mut part = String::new();
    for c in text.chars().chain([';']) {
        match c {
            '<' | '(' => depth += 1,
            '>' | ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 && (c == ';' || c == ',') {
            let column = part.trim();
            if !column.is_empty() {
                let (name, data_type) = column
                    .split_once([':', ' '])
                    .ok_or_else(|| EngineError::invalid(format!("column '{column}': expected name:type")))?;
                columns.push(Arc::new(csv_field(name.trim().trim_matches('`'), data_type.trim())?));
            }
            part.clear();
        } else {
            part.push(c);
        }
    }
    match columns.is_empty() {
        true => Err(EngineError::invalid("the list of columns is empty; write 'name:type;name:type'")),
        false => Ok(columns),
    }
}

fn csv_field(name: &str, data_type: &str) -> Result<Field> {
    let sql = dipper_dialect::parser::parse_type(data_type)?;
    match super::define::hive_spelling(&sql) {
        Ok(spelling) => Ok(parse_type(name, &spelling)?),
        // LARGEINT and similar types: no Hive type, but CSV can hold them.
        Err(_) => Ok(Field::new(name, sql.to_arrow(), true)),
    }
}

fn hive_text(context: &ReadContext, mut options: Options, files: &[FileEntry]) -> Result<Arc<dyn TableProvider>> {
    let columns = options.take(&["csv_schema", "columns"]).ok_or_else(|| {
        EngineError::invalid("format hive_text needs 'columns' = 'name:type;...': the files do not name theirs")
    })?;
    let columns = schema_option(&columns)?;
    let mut serde_properties = Vec::new();
    let spellings: [(&str, &[&'static str]); 5] = [
        ("field.delim", &["column_separator", "field.delim"]),
        ("collection.delim", &["collection_delimiter", "collection.delim"]),
        ("mapkey.delim", &["map_kv_delimiter", "mapkey.delim"]),
        ("escape.delim", &["escape", "escape.delim"]),
        ("serialization.null.format", &["null_format", "serialization.null.format"]),
    ];
    for (property, keys) in spellings {
        if let Some(value) = options.take(keys) {
            let value = String::from_utf8_lossy(&unescape(&value)).into_owned();
            serde_properties.push((property.to_string(), value));
        }
    }
    if let Some(lines) = options.number(&["skip_lines", "skip.header.line.count"])? {
        serde_properties.push(("skip.header.line.count".into(), lines.to_string()));
    }
    let text = TextOptions::take(&mut options, BadValue::Null, InvalidUtf8::Replace)?;
    options.finish()?;
    let settings = context.hive_settings.clone();
    let dialect = HiveDialect::from_properties(LAZY_SIMPLE_SERDE, &serde_properties, &[], &settings)?;
    dialect.check_fields(&columns)?;
    text.table(context, files, Dialect::Hive(dialect), Arc::new(Schema::new(columns)), None)
}
