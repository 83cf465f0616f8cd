//! Load requests: Doris' Stream Load headers, parsed once into one typed value.
//!
//! Header names are case-insensitive. A header that is not in the lists below is ignored, as any HTTP server does.
//! Headers that Doris knows and that have no effect here (one process, no write-ahead log of its own) are listed in
//! [`WITHOUT_EFFECT`].
//!
//! Messages are those of Doris where clients match on its words.

use std::time::Duration;

use dipper_store::table::LOAD_TIME_MAX;
use dipper_text::Compression;

/// Bytes of rows above which a load is worth a commit of its own.
pub const MEMBER_BYTES_MAX: u64 = 8 << 20;

/// Headers that Doris knows and that have no effect here, with the reason.
pub const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("send_batch_parallelism", "the receiver and the writer are one process; parsing always uses all query threads"),
    ("load_to_single_tablet", "a load writes one object however many tablets its rows go to"),
    ("memtable_on_sink_node", "the receiver and the writer are one process"),
    ("load_stream_per_node", "the receiver and the writer are one process"),
    ("cloud_cluster", "there is one compute group"),
    ("compute_group", "there is one compute group"),
    ("skip_record_to_audit_log_table", "there is no audit table"),
    ("enable_profile", "every load leaves a profile"),
    ("fuzzy_parse", "fields of JSON objects are found by name whatever their order"),
    ("warehouse", "there is one compute group"),
    ("load_dop", "parsing always uses all query threads"),
    ("enable_replicated_storage", "the store replicates"),
    ("transmission_compression_type", "the receiver and the writer are one process"),
    ("ignore_json_size", "a JSON body of lines has no limit"),
    ("log_rejected_record_num", "the first rejected rows are in the answer, all of them behind its error URL"),
    ("partial_update_mode", "the columns that a partial update brings are written in one way"),
    ("enable_merge_commit", "small loads that come together share a commit, whether they ask for it or not"),
    ("merge_commit_async", "a load is answered when its rows are durable"),
    ("merge_commit_interval_ms", "a load waits for no other"),
    ("merge_commit_parallel", "the receiver and the writer are one process"),
];

/// Names of headers in StarRocks, with ours.
pub const STARROCKS: &[(&str, &str)] = &[
    ("row_delimiter", "line_delimiter"),
    ("skip_header", "skip_lines"),
    ("partial_update", "partial_columns"),
    ("load_mem_limit", "exec_mem_limit"),
    ("compression", "compress_type"),
];

/// Headers that are refused, because they would change what is loaded and are not supported, with a way out.
pub const REFUSED: &[(&str, &str)] = &[
    ("channel_id", "a transaction has one channel, whose loads may come one after the other"),
    ("channel_num", "a transaction has one channel, whose loads may come one after the other"),
];

/// Formats that are not supported, and how to load such a file.
const UNREAD_FORMATS: &[(&str, &str)] = &[
    ("orc", "write it as parquet, which the programs that write ORC do as well"),
    ("avro", "write it as parquet or as json, a value a line"),
    ("wal", "the write-ahead log of a Doris server is of its own; load its source"),
    ("protobuf", "write it as json, a value a line"),
];

/// Compressions that are not supported, and how to load such a file.
const UNREAD_CODECS: &[(&str, &str)] = &[
    ("lzo", "pack it anew as gz or zstd: lzop -dc FILE | zstd"),
    ("lzop", "pack it anew as gz or zstd: lzop -dc FILE | zstd"),
];

/// Returns how to load a file of an unsupported format; `None` for formats that are supported or unknown.
pub fn unread_format(name: &str) -> Option<&'static str> {
    UNREAD_FORMATS.iter().find(|(format, _)| name.eq_ignore_ascii_case(format)).map(|(_, cure)| *cure)
}

/// Supported headers, with their meaning.
pub const HEADERS: &[(&str, &str)] = &[
    ("label", "name that makes the load happen once, at most 128 characters; a random one without it"),
    ("comment", "text for `SHOW LOAD`"),
    (
        "format",
        "`csv` (default), `csv_with_names`, `csv_with_names_and_types`, `json`, `parquet`, `arrow` (stream format) or `hive_text`",
    ),
    (
        "compress_type",
        "compression of the body, such as `gz`, `bz2`, `zstd`, `lz4`, `snappy_block` or `deflate`; `Content-Encoding` without it",
    ),
    ("column_separator", "bytes between fields; a tab without it"),
    ("line_delimiter", "bytes behind rows; `\\n` without it"),
    ("enclose", "byte around fields"),
    ("escape", "byte in front of a byte that stands for itself"),
    (
        "trim_double_quotes",
        "`true` drops the double quotes around fields; unlike those of `enclose` they hold no separators together",
    ),
    ("trim_space", "`true` drops blanks and tabs around fields"),
    ("skip_lines", "lines to leave out at the start"),
    ("empty_field_as_null", "`true` reads an empty field as NULL"),
    ("columns", "columns of the body, and expressions: `a, b, c = upper(b)`; the table's columns without it"),
    ("where", "condition that rows must meet; other rows are counted as unselected"),
    ("delete", "condition under which rows delete, with `merge_type: MERGE`"),
    (
        "merge_type",
        "`APPEND` (default), `DELETE` (rows delete) or `MERGE` (rows that meet `delete` delete, others replace)",
    ),
    ("function_column.sequence_col", "column of the body that fills the sequence column, or the table's own one"),
    ("hidden_columns", "hidden columns that the body has behind those of the table"),
    ("negative", "`true` subtracts from SUM columns"),
    ("max_filter_ratio", "share of the rows that may be rejected, from 0 (default) to 1"),
    ("partitions", "partitions that rows may go to; all without it"),
    ("temporary_partitions", "temporary partitions that rows go to"),
    ("timeout", "seconds for the whole load, at most 14400 (four hours), which is also the default"),
    ("strict_mode", "`true` rejects rows with values that do not fit; `false` (default) reads such values as NULL"),
    ("timezone", "zone of functions of time, and of times with an offset; the server's without it"),
    ("time_zone", "another name of `timezone`"),
    ("exec_mem_limit", "bytes of memory that the load may hold"),
    ("two_phase_commit", "`true` prepares the load, which a second request commits or aborts"),
    ("group_commit", "`sync_mode` or `async_mode` shares a commit with other loads, `off_mode` does not"),
    ("partial_columns", "`true` replaces only the columns that the load brings"),
    (
        "merge_condition",
        "column of a UNIQUE table: a row replaces the one that is there only if its value of the column is not smaller",
    ),
    ("unique_key_update_mode", "`UPSERT` (default), `UPDATE_FIXED_COLUMNS` or `UPDATE_FLEXIBLE_COLUMNS`"),
    ("partial_update_new_key_behavior", "`APPEND` (default) or `ERROR`, for keys that a partial update does not find"),
    ("strip_outer_array", "`true` if the JSON body is one array of rows"),
    ("read_json_by_line", "`true` (default) if each line of the JSON body is one value"),
    ("jsonpaths", "path of each column in a JSON row"),
    ("json_root", "path of the value that holds the rows"),
    ("num_as_string", "`true` keeps the digits of JSON numbers as they are written"),
];

/// HTTP headers whose names are similar to those of loads; and `db` and `table`, which StarRocks' clients send although
/// the URL says the same.
const FOREIGN: &[&str] = &[
    "accept",
    "authorization",
    "connection",
    "cookie",
    "date",
    "db",
    "expect",
    "forwarded",
    "from",
    "host",
    "origin",
    "pragma",
    "priority",
    "range",
    "referer",
    "table",
    "te",
    "token",
    "trailer",
    "upgrade",
    "via",
    "warning",
];

/// Least length of a header's name for which a common beginning with a known name counts as a misspelling.
const PART_CHARS_MIN: usize = 5;

/// The error of a header that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("[INVALID_ARGUMENT]{0}")]
pub struct RequestError(pub String);

type Result<T> = std::result::Result<T, RequestError>;

fn invalid<T>(message: impl Into<String>) -> Result<T> {
    Err(RequestError(message.into()))
}

/// The format of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Delimited text.
    Csv {
        /// Number of header lines: one with the names of columns (1), and another one with their types (2).
        head_lines: u8,
    },
    /// Hive's text: `^A` between fields, `^B` and `^C` within arrays and maps.
    HiveText,
    /// JSON.
    Json,
    /// Parquet.
    Parquet,
    /// Arrow's stream format.
    Arrow,
}

impl Format {
    /// Returns whether the body contains its own schema.
    pub(crate) fn has_schema(self) -> bool {
        matches!(self, Format::Parquet | Format::Arrow)
    }
}

/// The layout of delimited text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvLayout {
    /// Separator between fields; at least one byte.
    pub column_separator: Vec<u8>,
    /// Terminator of rows; at least one byte.
    pub line_delimiter: Vec<u8>,
    /// Quote around fields.
    pub enclose: Option<u8>,
    /// Byte that makes the next byte stand for itself.
    pub escape: Option<u8>,
    /// Fields that begin and end with a double quote lose both.
    pub trim_double_quotes: bool,
    /// Whether blanks and tabs around fields are removed, also those outside of quotes.
    pub trim_space: bool,
    /// Lines to skip at the start. With header lines (`csv_with_names` and others) only those are skipped.
    pub skip_lines: u64,
    /// Whether an empty field is NULL.
    pub empty_field_as_null: bool,
    /// Unquoted fields that mean NULL.
    pub null_values: Vec<Vec<u8>>,
}

impl Default for CsvLayout {
    fn default() -> Self {
        CsvLayout {
            column_separator: b"\t".to_vec(),
            line_delimiter: b"\n".to_vec(),
            enclose: None,
            escape: None,
            trim_double_quotes: false,
            trim_space: false,
            skip_lines: 0,
            empty_field_as_null: false,
            null_values: vec![b"\\N".to_vec()],
        }
    }
}

/// The layout of JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JsonLayout {
    /// Whether the value is an array of rows.
    pub strip_outer_array: bool,
    /// Whether each line is a value.
    pub read_json_by_line: bool,
    /// Path of each column of the body, in order; `$.` is the whole object. Never empty.
    pub jsonpaths: Option<Vec<String>>,
    /// Path of the value that holds the rows. If that path begins with a member and the value is an array, it is the
    /// path of the row in each item.
    pub json_root: Option<String>,
    /// Whether numbers keep their digits as written.
    pub num_as_string: bool,
}

/// An item of the header `columns`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnItem {
    /// A column of the body: its values are those of the table's column with this name, or are used in expressions.
    Body(String),
    /// A column of the table, and the expression that computes its values.
    Derived {
        /// Column of the table.
        name: String,
        /// SQL text of the expression.
        expression: String,
    },
}

/// The effect of a load's rows on existing rows with the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MergeType {
    /// Rows are added, or replace existing ones.
    #[default]
    Append,
    /// Rows delete existing ones.
    Delete,
    /// Rows that meet the `delete` condition delete, other rows replace.
    Merge,
}

/// The columns of existing rows that a load replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UpdateMode {
    /// All columns.
    #[default]
    Upsert,
    /// The columns that the load contains.
    FixedColumns,
    /// The columns that each row contains.
    FlexibleColumns,
}

/// The effect of a row in a partial update whose key does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NewKeys {
    /// Adds a new row with defaults.
    #[default]
    Append,
    /// Fails the load.
    Error,
}

/// Whether a load shares its object and its commit with other loads; see [`StreamLoadRequest::may_share`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GroupCommit {
    /// Not specified: share with loads that arrive at the same time, without waiting for others. The answer is like
    /// that of a load by itself.
    #[default]
    Unsaid,
    /// Never share with other loads.
    Off,
    /// Share, and wait for others up to the table's `group_commit_interval_ms`.
    Sync,
    /// Share, and wait for no others. There is no write-ahead log: the load is answered when its rows are durable and
    /// visible.
    Async,
}

/// A load request without its body.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamLoadRequest {
    /// Name under which a repeated load does nothing.
    pub label: Option<String>,
    /// Bytes of the body, if the request's head says so.
    pub body_bytes: Option<u64>,
    /// Text for the records of loads.
    pub comment: String,
    /// Format of the body.
    pub format: Format,
    /// Layout of delimited text.
    pub csv: CsvLayout,
    /// Layout of JSON.
    pub json: JsonLayout,
    /// Compression of the body.
    pub compression: Compression,
    /// Columns of the body, and expressions; empty if the body has the table's columns.
    pub columns: Vec<ColumnItem>,
    /// Condition that rows must meet; other rows are counted as unselected.
    pub where_: Option<String>,
    /// See [`MergeType`].
    pub merge_type: MergeType,
    /// Condition under which rows delete, with [`MergeType::Merge`].
    pub delete: Option<String>,
    /// Column of the body from which the hidden sequence column is filled.
    pub sequence_col: Option<String>,
    /// Column whose values say which rows replace those that are there.
    pub merge_condition: Option<String>,
    /// Hidden columns of the body, behind the table's; only without `columns`.
    pub hidden_columns: Vec<String>,
    /// Whether values of SUM columns are subtracted.
    pub negative: bool,
    /// Share of the rows that may be rejected, 0 to 1.
    pub max_filter_ratio: f64,
    /// Partitions that rows may go to; empty for all.
    pub partitions: Vec<String>,
    /// Whether the partitions are temporary ones.
    pub temporary_partitions: bool,
    /// Time for the whole load, at most [`LOAD_TIME_MAX`].
    pub timeout: Duration,
    /// Whether a row with a value that does not fit is rejected; otherwise the value becomes NULL.
    pub strict_mode: bool,
    /// Time zone for time functions, and to which timestamps with an offset are converted.
    pub timezone: Option<String>,
    /// Limit of the load's memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Whether the load is only prepared, and a second request commits it.
    pub two_phase_commit: bool,
    /// See [`GroupCommit`].
    pub group_commit: GroupCommit,
    /// See [`UpdateMode`].
    pub update_mode: UpdateMode,
    /// See [`NewKeys`].
    pub new_keys: NewKeys,
    /// Whether rows whose keys the UNIQUE table has already are skipped; of several rows of the load with one key the
    /// first counts. No header sets this.
    pub keeps_rows: bool,
    /// The names of [`HEADERS`] that have a value in the request, also where the value is the default.
    pub given: Vec<&'static str>,
}

/// Most characters of a label.
const LABEL_CHARS_MAX: usize = 128;

impl Default for StreamLoadRequest {
    fn default() -> Self {
        StreamLoadRequest {
            label: None,
            body_bytes: None,
            comment: String::new(),
            format: Format::Csv { head_lines: 0 },
            csv: CsvLayout::default(),
            json: JsonLayout { read_json_by_line: true, ..JsonLayout::default() },
            compression: Compression::None,
            columns: Vec::new(),
            where_: None,
            merge_type: MergeType::Append,
            delete: None,
            sequence_col: None,
            merge_condition: None,
            hidden_columns: Vec::new(),
            negative: false,
            max_filter_ratio: 0.0,
            partitions: Vec::new(),
            temporary_partitions: false,
            timeout: LOAD_TIME_MAX,
            strict_mode: false,
            timezone: None,
            memory_bytes: None,
            two_phase_commit: false,
            group_commit: GroupCommit::Unsaid,
            update_mode: UpdateMode::Upsert,
            new_keys: NewKeys::Append,
            keeps_rows: false,
            given: Vec::new(),
        }
    }
}

impl StreamLoadRequest {
    /// Parses headers.
    ///
    /// # Errors
    /// [`RequestError`] for the first header that cannot be understood, or for headers that exclude each other.
    pub fn from_headers<'a>(headers: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Result<Self> {
        let mut given = Given { headers: Vec::new() };
        for (name, value) in headers {
            let value = std::str::from_utf8(value)
                .map_err(|_| RequestError(format!("Invalid value of '{name}': it is not UTF-8")))?;
            let name = name.to_ascii_lowercase();
            let name =
                STARROCKS.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, name)| (*name).to_string());
            if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
                return invalid(format!("header '{name}' is not supported: {why}"));
            }
            given.headers.push((name, value.trim_matches([' ', '\t'])));
        }
        given.misspelt()?;
        given.check_without_effect()?;
        let mut request = StreamLoadRequest {
            label: given.text("label").map(label).transpose()?,
            // A length that is not a number is refused before.
            body_bytes: given.text("content-length").and_then(|n| n.parse().ok()),
            comment: given.text("comment").unwrap_or_default().to_string(),
            given: HEADERS.iter().map(|(name, _)| *name).filter(|name| given.text(name).is_some()).collect(),
            ..StreamLoadRequest::default()
        };
        (request.format, request.compression) = given.format()?;
        request.csv = given.csv()?;
        request.json = given.json()?;
        if let Some(list) = given.text("columns") {
            request.columns = columns(list)?;
        }
        request.where_ = given.text("where").map(str::to_string);
        request.delete = given.text("delete").map(str::to_string);
        request.merge_type = match given.text("merge_type") {
            None => MergeType::Append,
            Some(v) if v.eq_ignore_ascii_case("append") => MergeType::Append,
            Some(v) if v.eq_ignore_ascii_case("delete") => MergeType::Delete,
            Some(v) if v.eq_ignore_ascii_case("merge") => MergeType::Merge,
            Some(v) => return invalid(format!("Invalid merge type {v}; expected APPEND, DELETE or MERGE")),
        };
        match (request.merge_type, &request.delete) {
            (MergeType::Merge, None) => return invalid("Excepted DELETE ON clause when merge type is MERGE."),
            (MergeType::Append | MergeType::Delete, Some(_)) => {
                return invalid("Not support DELETE ON clause when merge type is not MERGE.");
            }
            _ => {}
        }
        request.sequence_col = given.text("function_column.sequence_col").map(str::to_string);
        request.merge_condition = given
            .text("merge_condition")
            .map(|name| name.trim_matches('`').to_string())
            .filter(|name| !name.is_empty());
        // Doris's rule: a list of columns has the hidden ones in it, where the body has them.
        if request.columns.is_empty() {
            request.hidden_columns = given.list("hidden_columns");
        }
        request.negative = given.flag("negative")?;
        request.max_filter_ratio = given.ratio("max_filter_ratio")?;
        request.partitions = given.list("partitions");
        let temporary = given.list("temporary_partitions");
        if !temporary.is_empty() {
            if !request.partitions.is_empty() {
                return invalid("Can not specify both partitions and temporary partitions");
            }
            request.partitions = temporary;
            request.temporary_partitions = true;
        }
        if let Some(seconds) = given.integer("timeout")? {
            match u64::try_from(seconds) {
                Ok(seconds @ 1..) => request.timeout = Duration::from_secs(seconds).min(LOAD_TIME_MAX),
                _ => return invalid(format!("Invalid 'timeout': {seconds}; expected a number of seconds above 0")),
            }
        }
        request.strict_mode = match given.text("strict_mode") {
            None => false,
            Some(v) if v.eq_ignore_ascii_case("true") => true,
            Some(v) if v.eq_ignore_ascii_case("false") => false,
            Some(_) => return invalid("Invalid strict mode format. Must be bool type"),
        };
        request.timezone = given.text("timezone").or_else(|| given.text("time_zone")).map(str::to_string);
        if let Some(bytes) = given.integer("exec_mem_limit")? {
            match u64::try_from(bytes) {
                Ok(bytes @ 1..) => request.memory_bytes = Some(bytes),
                _ => return invalid(format!("Invalid 'exec_mem_limit': {bytes}; expected a number of bytes above 0")),
            }
        }
        request.two_phase_commit = given.flag("two_phase_commit")?;
        request.group_commit = match given.text("group_commit") {
            None => GroupCommit::Unsaid,
            Some(v) if v.eq_ignore_ascii_case("off_mode") => GroupCommit::Off,
            Some(v) if v.eq_ignore_ascii_case("sync_mode") => GroupCommit::Sync,
            Some(v) if v.eq_ignore_ascii_case("async_mode") => GroupCommit::Async,
            Some(_) => return invalid("group_commit can only be [async_mode, sync_mode, off_mode]"),
        };
        if request.asks_for_group() && request.label.is_some() {
            return invalid("label and group_commit can't be set at the same time");
        }
        request.update_mode = given.update_mode()?;
        request.new_keys = match given.text("partial_update_new_key_behavior") {
            None => NewKeys::Append,
            Some(v) if v.eq_ignore_ascii_case("append") => NewKeys::Append,
            Some(v) if v.eq_ignore_ascii_case("error") => NewKeys::Error,
            Some(v) => {
                return invalid(format!(
                    "Invalid partial_update_new_key_behavior {v}, must be one of {{'APPEND', 'ERROR'}}"
                ));
            }
        };
        request.check_flexible()?;
        if request.merge_condition.is_some() && request.merge_type == MergeType::Delete {
            return invalid(
                "'merge_condition' says nothing about rows that delete, of which merge_type DELETE has no others",
            );
        }
        if request.temporary_partitions && request.update_mode != UpdateMode::Upsert {
            return invalid("partial_columns and temporary_partitions cannot be used together");
        }
        Ok(request)
    }

    /// Returns whether the load has nothing that needs a commit of its own. The label of a load that is large, or turns
    /// out to be, is taken by a transaction of its own.
    pub fn may_share(&self) -> bool {
        self.group_commit != GroupCommit::Off
            && (self.label.is_none() || self.body_bytes.is_none_or(|bytes| bytes <= MEMBER_BYTES_MAX))
            && self.update_mode == UpdateMode::Upsert
            && self.partitions.is_empty()
            && !self.two_phase_commit
            && !self.keeps_rows
            && self.merge_condition.is_none()
    }

    /// Returns whether `columns` has only expressions: then, as in Doris, the body has the table's columns.
    pub fn derives_only(&self) -> bool {
        !self.columns.is_empty() && self.columns.iter().all(|item| matches!(item, ColumnItem::Derived { .. }))
    }

    fn asks_for_group(&self) -> bool {
        matches!(self.group_commit, GroupCommit::Sync | GroupCommit::Async)
    }

    /// Returns whether the load is answered as a group commit: it asks for one, and needs no commit of its own.
    pub fn grouped(&self) -> bool {
        self.asks_for_group() && self.may_share()
    }

    /// Checks the rules of UPDATE_FLEXIBLE_COLUMNS, with which each row names its own columns.
    fn check_flexible(&self) -> Result<()> {
        if self.update_mode != UpdateMode::FlexibleColumns {
            return Ok(());
        }
        let refused = [
            ("jsonpaths", self.json.jsonpaths.is_some()),
            ("columns", !self.columns.is_empty()),
            ("hidden_columns", !self.hidden_columns.is_empty()),
            ("function_column.sequence_col", self.sequence_col.is_some()),
            ("merge_type", self.merge_type != MergeType::Append),
            ("merge_condition", self.merge_condition.is_some()),
            ("where", self.where_.is_some()),
        ];
        if self.format != Format::Json {
            return invalid("flexible partial update only support json format as input file currently");
        }
        match refused.iter().find(|(_, given)| *given) {
            Some((name, _)) => invalid(format!("Don't support flexible partial update when '{name}' is specified")),
            None => Ok(()),
        }
    }
}

/// The given headers, with names in lower case.
struct Given<'a> {
    headers: Vec<(String, &'a str)>,
}

impl<'a> Given<'a> {
    /// Returns the header's value; an empty value counts as not given.
    fn text(&self, name: &str) -> Option<&'a str> {
        self.headers.iter().find(|(n, v)| n == name && !v.is_empty()).map(|(_, v)| *v)
    }

    /// Returns a boolean header. Doris takes everything but `true` for false, so that `two_phase_commit: yes` commits
    /// at once; here it is an error.
    fn flag(&self, name: &str) -> Result<bool> {
        match self.text(name).map(str::to_ascii_lowercase).as_deref() {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(found) => invalid(format!("Invalid '{name}': {found}; expected true or false")),
        }
    }

    /// Refuses a name that nearly equals one of the load headers: ignoring it would change what is loaded.
    fn misspelt(&self) -> Result<()> {
        let names: Vec<&str> = HEADERS.iter().map(|(name, _)| *name).collect();
        for (name, _) in &self.headers {
            let known = names.contains(&name.as_str()) || WITHOUT_EFFECT.iter().any(|(known, _)| known == name);
            if known || FOREIGN.contains(&name.as_str()) || name.starts_with("x-") {
                continue;
            }
            // Names like `column-separator`, and names that begin a header or continue one: `strict`, `labels`,
            // `delete_on`.
            let spelled = |known: &&str| name.len() >= 4 && name.replace('-', "_") == **known;
            let part = |known: &&str| {
                let begins = name.len() >= PART_CHARS_MIN && (known.starts_with(name) || name.starts_with(*known));
                begins || known.split_once('.').is_some_and(|(_, last)| last == name)
            };
            let near = (names.iter().copied().find(spelled))
                .or_else(|| dipper_base::near::closest(name, names.iter().copied()).filter(|_| name.len() >= 4))
                .or_else(|| names.iter().copied().find(part));
            if let Some(near) = near {
                return invalid(format!("unknown header '{name}'; did you mean '{near}'?"));
            }
        }
        Ok(())
    }

    /// Checks the values of headers without effect.
    fn check_without_effect(&self) -> Result<()> {
        for (name, _) in WITHOUT_EFFECT {
            match *name {
                "send_batch_parallelism"
                | "load_stream_per_node"
                | "load_dop"
                | "log_rejected_record_num"
                | "merge_commit_interval_ms"
                | "merge_commit_parallel" => drop(self.integer(name)?),
                "cloud_cluster" | "compute_group" | "warehouse" | "transmission_compression_type" => {}
                "partial_update_mode" => match self.text(name).map(str::to_ascii_lowercase).as_deref() {
                    None | Some("auto" | "row" | "column") => {}
                    Some(mode) => {
                        return invalid(format!("Invalid 'partial_update_mode': {mode}; expected auto, row or column"));
                    }
                },
                flag => drop(self.flag(flag)?),
            }
        }
        Ok(())
    }

    fn integer(&self, name: &str) -> Result<Option<i64>> {
        let parse = |v: &str| v.parse().map_err(|_| RequestError(format!("Invalid format of '{name}': '{v}', stoi")));
        self.text(name).map(parse).transpose()
    }

    fn ratio(&self, name: &str) -> Result<f64> {
        let Some(text) = self.text(name) else { return Ok(0.0) };
        match text.parse::<f64>() {
            Ok(v) if (0.0..=1.0).contains(&v) => Ok(v),
            Ok(_) => invalid(format!("Invalid '{name}': {text}; expected a number from 0 to 1")),
            Err(_) => invalid(format!("Invalid format of '{name}': '{text}', stod")),
        }
    }

    fn list(&self, name: &str) -> Vec<String> {
        let item = |v: &str| v.trim().trim_matches('`').to_string();
        self.text(name).map(|v| v.split(',').map(item).filter(|v| !v.is_empty()).collect()).unwrap_or_default()
    }

    fn single_byte(&self, name: &str) -> Result<Option<u8>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match *bytes_of(name, text)? {
            [byte] => Ok(Some(byte)),
            _ => invalid(format!("{name} must be single-char, actually is {text}")),
        }
    }

    fn format(&self) -> Result<(Format, Compression)> {
        let name = self.text("format").unwrap_or("csv");
        let format = match name.to_ascii_lowercase().as_str() {
            "csv" => Format::Csv { head_lines: 0 },
            "csv_with_names" => Format::Csv { head_lines: 1 },
            "csv_with_names_and_types" => Format::Csv { head_lines: 2 },
            "hive_text" => Format::HiveText,
            "json" => Format::Json,
            "parquet" => Format::Parquet,
            "arrow" => Format::Arrow,
            _ => match unread_format(name) {
                Some(cure) => return invalid(format!("data format '{name}' is not supported; {cure}")),
                None => return invalid(format!("unknown data format, format={name}")),
            },
        };
        // HTTP's own header counts if no load header says more.
        let named = self.text("compress_type").map(|codec| ("compress_type", codec));
        let Some((header, codec)) = named.or(self.text("content-encoding").map(|codec| ("Content-Encoding", codec)))
        else {
            return Ok((format, Compression::None));
        };
        let codec = codec.to_ascii_lowercase();
        let compression = match codec.as_str() {
            "none" | "plain" => Compression::None,
            // Java's HttpClient writes a character set there.
            "identity" | "utf-8" | "utf8" if header != "compress_type" => Compression::None,
            "gz" | "gzip" | "x-gzip" => Compression::Gzip,
            "bz2" | "bzip2" => Compression::Bzip2,
            "lz4" | "lz4_block" | "lz4frame" | "lz4_frame" => Compression::Lz4,
            "snappy" | "snappy_block" | "snappyblock" => Compression::Snappy,
            "deflate" => Compression::Deflate,
            "zstd" => Compression::Zstd,
            _ => {
                let cure = UNREAD_CODECS
                    .iter()
                    .find(|(unread, _)| *unread == codec)
                    .map_or("expected gz, bz2, lz4, lz4_block, snappy_block, deflate or zstd", |(_, cure)| *cure);
                return invalid(format!("{header} '{codec}' is not supported; {cure}"));
            }
        };
        if format == Format::Parquet && compression != Compression::None {
            return invalid("compress_type is for csv and json; a parquet file says itself how it is compressed");
        }
        Ok((format, compression))
    }

    fn csv(&self) -> Result<CsvLayout> {
        let mut csv = CsvLayout::default();
        // HTTP trims a value that is a single tab, so it is the default.
        if let Some(text) = self.text("column_separator") {
            csv.column_separator = bytes_of("column_separator", text)?;
        }
        if let Some(text) = self.text("line_delimiter") {
            csv.line_delimiter = bytes_of("line_delimiter", text)?;
        }
        csv.enclose = self.single_byte("enclose")?;
        csv.escape = self.single_byte("escape")?;
        csv.trim_double_quotes = self.flag("trim_double_quotes")?;
        csv.trim_space = self.flag("trim_space")?;
        csv.empty_field_as_null = self.flag("empty_field_as_null")?;
        if let Some(lines) = self.integer("skip_lines")? {
            csv.skip_lines =
                u64::try_from(lines).map_err(|_| RequestError(format!("Invalid 'skip_lines': {lines}")))?;
        }
        Ok(csv)
    }

    fn json(&self) -> Result<JsonLayout> {
        let strip_outer_array = self.flag("strip_outer_array")?;
        let jsonpaths = match self.text("jsonpaths") {
            None => None,
            Some(text) => {
                let paths = serde_json::from_str::<Vec<String>>(text).map_err(|e| {
                    RequestError(format!("Invalid json path: expected an array of strings, found {text}: {e}"))
                })?;
                Some(paths).filter(|paths| !paths.is_empty())
            }
        };
        Ok(JsonLayout {
            strip_outer_array,
            // Without either header, each line is a value.
            read_json_by_line: match self.text("read_json_by_line") {
                Some(_) => self.flag("read_json_by_line")?,
                None => self.text("strip_outer_array").is_none(),
            },
            jsonpaths,
            json_root: self.text("json_root").map(str::to_string),
            num_as_string: self.flag("num_as_string")?,
        })
    }

    fn update_mode(&self) -> Result<UpdateMode> {
        let partial = self.flag("partial_columns")?;
        match self.text("unique_key_update_mode") {
            None if partial => Ok(UpdateMode::FixedColumns),
            None => Ok(UpdateMode::Upsert),
            Some(v) if v.eq_ignore_ascii_case("upsert") && partial => Ok(UpdateMode::FixedColumns),
            Some(v) if v.eq_ignore_ascii_case("upsert") => Ok(UpdateMode::Upsert),
            Some(v) if v.eq_ignore_ascii_case("update_fixed_columns") => Ok(UpdateMode::FixedColumns),
            Some(v) if v.eq_ignore_ascii_case("update_flexible_columns") => Ok(UpdateMode::FlexibleColumns),
            Some(v) => invalid(format!(
                "Invalid unique_key_update_mode {v}, must be one of 'UPSERT', 'UPDATE_FIXED_COLUMNS' or 'UPDATE_FLEXIBLE_COLUMNS'"
            )),
        }
    }
}

/// Checks a label.
///
/// # Errors
/// [`RequestError`] if it is empty, too long, or has other characters than letters, digits, `-`, `_` and `:`.
pub fn label(text: &str) -> Result<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':');
    if text.is_empty() || text.len() > LABEL_CHARS_MAX || !text.chars().all(fits) {
        return invalid(format!("Label format error. regex: ^[-_A-Za-z0-9:]{{1,{LABEL_CHARS_MAX}}}$, label: {text}"));
    }
    Ok(text.to_string())
}

/// Parses a separator: `\x01`, `0x0102`, `\t` as two characters, or the bytes themselves.
///
/// # Errors
/// [`RequestError`] if hexadecimal digits do not come in pairs.
pub fn bytes_of(name: &str, text: &str) -> Result<Vec<u8>> {
    let bytes = text.as_bytes();
    if let Some([b'\\' | b'0', b'x' | b'X']) = bytes.first_chunk::<2>() {
        // `\x01\x02` and `\x0102` mean the same.
        let digits: String = text[2..].split("\\x").flat_map(|part| part.split("\\X")).collect();
        let pairs: Option<Vec<u8>> = digits
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok().filter(|_| pair.len() == 2))
            .collect();
        return match pairs {
            Some(bytes) if !bytes.is_empty() => Ok(bytes),
            _ => invalid(format!("Invalid '{name}': '{text}': expected pairs of hexadecimal digits behind \\x")),
        };
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'\\').then(|| bytes.get(at + 1)).flatten();
        let byte = match escaped {
            Some(b't') => b'\t',
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b'0') => 0,
            Some(b'\\') => b'\\',
            _ => {
                out.push(bytes[at]);
                at += 1;
                continue;
            }
        };
        out.push(byte);
        at += 2;
    }
    Ok(out)
}

/// Parses the header `columns`: `a, b, c = upper(b)`.
///
/// # Errors
/// [`RequestError`] if an item is neither a name nor `name = expression`, or a quote or bracket is not closed.
pub fn columns(list: &str) -> Result<Vec<ColumnItem>> {
    let mut items = Vec::new();
    for piece in split_commas(list)? {
        let piece = piece.trim();
        let (name, rest) = leading_name(piece).ok_or_else(|| {
            RequestError(format!("Invalid 'columns': expected a name or name = expression, found '{piece}'"))
        })?;
        let rest = rest.trim_start();
        if rest.is_empty() {
            items.push(ColumnItem::Body(name));
            continue;
        }
        match rest.strip_prefix('=').map(str::trim) {
            Some(expression) if !expression.is_empty() => {
                items.push(ColumnItem::Derived { name, expression: expression.to_string() });
            }
            _ => {
                return invalid(format!(
                    "Invalid 'columns': expected '=' and an expression behind '{name}', found '{rest}'"
                ));
            }
        }
    }
    Ok(items)
}

/// Splits a name at the start of the text from the rest.
fn leading_name(text: &str) -> Option<(String, &str)> {
    if let Some(quoted) = text.strip_prefix('`') {
        let end = quoted.find('`')?;
        return Some((quoted[..end].to_string(), &quoted[end + 1..])).filter(|(name, _)| !name.is_empty());
    }
    let end = text.find(|c: char| c == '=' || c == ',' || c == '(' || c.is_whitespace()).unwrap_or(text.len());
    (end > 0).then(|| (text[..end].to_string(), &text[end..]))
}

/// Splits at the commas that are not within brackets or quotes.
fn split_commas(text: &str) -> Result<Vec<&str>> {
    let mut pieces = Vec::new();
    let mut depth = 0usize;
    let mut quote = None;
    let mut start = 0;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match (quote, c) {
            (Some('\'' | '"'), '\\') => {
                chars.next();
            }
            (Some(q), c) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"' | '`') => quote = Some(c),
            (None, '(' | '[') => depth += 1,
            (None, ')' | ']') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                pieces.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if let Some(quote) = quote {
        return invalid(format!("Invalid 'columns': {quote} is not closed in '{text}'"));
    }
    if depth > 0 {
        return invalid(format!("Invalid 'columns': a bracket is not closed in '{text}'"));
    }
    pieces.push(&text[start..]);
    Ok(pieces)
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
