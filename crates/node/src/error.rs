//! The errors that clients see: MySQL codes, with a message that names the object and a remedy.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use dipper_base::retry::GivenUp;
use dipper_dialect::error::SqlError;
use dipper_iceberg::IcebergError;
use dipper_load::LoadError;
use dipper_point::PointError;
use dipper_store::catalog::CatalogError;
use dipper_store::catalog::access::AccessError;
use dipper_store::chain::ChainError;
use dipper_store::labels::LabelError;
use dipper_store::route::RouteError;
use dipper_store::segment::SegmentError;
use dipper_store::table::{Refused, TableError};
use dipper_text::error::{ErrorKind as TextKind, TextError};
use dipper_text::hive::HiveError;

use crate::passing::passes;
use crate::words;

/// Result with an [`EngineError`].
pub type Result<T> = std::result::Result<T, EngineError>;

/// Defines the kinds of errors, each with its meaning, MySQL's number and SQLSTATE.
macro_rules! kinds {
    ($(#[doc = $meaning:literal] $name:ident = $number:literal, $sqlstate:literal;)*) => {
        /// The kind of an error. Kinds differ in what the client should do.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $(#[doc = $meaning] $name,)*
        }

        impl ErrorKind {
            /// Every kind.
            pub const ALL: &[ErrorKind] = &[$(ErrorKind::$name),*];

            /// Returns the MySQL error number and SQLSTATE.
            pub fn code(self) -> (u16, &'static str) {
                match self {
                    $(ErrorKind::$name => ($number, $sqlstate),)*
                }
            }

            /// Returns the meaning of the kind, in a sentence.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(ErrorKind::$name => $meaning.trim_ascii(),)*
                }
            }
        }
    };
}

kinds! {
    /// The statement does not parse.
    Syntax = 1064, "42000";
    /// The statement parses and makes no sense: wrong types, wrong number of arguments.
    Invalid = 1105, "HY000";
    /// Understood, but dipper cannot do it.
    Unsupported = 1235, "42000";
    /// No such database.
    NoDatabase = 1049, "42000";
    /// A name without database, and no database is selected.
    NoDatabaseSelected = 1046, "3D000";
    /// The database is there already.
    DatabaseExists = 1007, "HY000";
    /// No such table or view.
    NoTable = 1146, "42S02";
    /// The table or view is there already.
    TableExists = 1050, "42S01";
    /// It is a view where a table is wanted, or the other way round.
    WrongObject = 1347, "HY000";
    /// No such column.
    NoColumn = 1054, "42S22";
    /// The column name is ambiguous.
    AmbiguousColumn = 1052, "23000";
    /// No such function.
    NoFunction = 1305, "42000";
    /// No such variable.
    NoVariable = 1193, "HY000";
    /// The variable cannot be set to this.
    BadVariable = 1231, "42000";
    /// No such file, or the file cannot be read or written as it is.
    File = 29, "HY000";
    /// Not allowed.
    Denied = 1227, "42000";
    /// A value in the data does not fit its type.
    BadValue = 1366, "22007";
    /// A computed value is out of range.
    OutOfRange = 1690, "22003";
    /// The memory or disk budget is used up.
    Resources = 1041, "HY000";
    /// The statement ran longer than query_timeout.
    Timeout = 3024, "HY000";
    /// The statement was killed.
    Killed = 1317, "70100";
    /// No such connection.
    NoThread = 1094, "HY000";
    /// No such prepared statement.
    NoStatement = 1243, "HY000";
    /// Others changed the same rows meanwhile; the statement can be repeated.
    Conflict = 1213, "40001";
    /// The store of the catalog, of a table or of files cannot be read or written: repeat the statement later.
    Storage = 1030, "HY000";
    /// An object of a table, or a file, is gone or is another now: the statement's view of the table is too old.
    Vanished = 1030, "HY000";
    /// Whether a change was committed could not be learned.
    Unknown = 1180, "HY000";
    /// A bug.
    Internal = 1815, "HY000";
}

/// An error for a client.
///
/// The message is for people: code that acts on an error asks for its kind, or by [`cause`](Self::cause) for a typed
/// error in its chain of sources.
#[derive(Debug, Clone)]
pub struct EngineError {
    /// Kind of the error.
    pub kind: ErrorKind,
    /// MySQL error number.
    pub code: u16,
    /// SQLSTATE, five characters.
    pub sqlstate: &'static str,
    /// Message: object, expected, found, position, way out.
    pub message: String,
    /// For syntax errors two lines: the line of the statement, and a caret below the position.
    pub caret: Option<String>,
    /// The underlying error.
    pub source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// Errors are equal if a client sees no difference.
impl PartialEq for EngineError {
    fn eq(&self, other: &Self) -> bool {
        let seen = |e: &Self| (e.kind, e.code, e.sqlstate);
        seen(self) == seen(other) && self.message == other.message && self.caret == other.caret
    }
}

impl Eq for EngineError {}

impl EngineError {
    /// Makes an error of `kind`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let (code, sqlstate) = kind.code();
        EngineError { kind, code, sqlstate, message: without_xml(message.into()), caret: None, source: None }
    }

    /// Makes an error of `kind` with the message of another error, which becomes its source.
    pub fn of(kind: ErrorKind, source: impl StdError + Send + Sync + 'static) -> Self {
        match kind {
            ErrorKind::Storage => Self::of_store(kind, source.to_string(), &source),
            _ => Self::new(kind, source.to_string()),
        }
        .with_source(source)
    }

    /// An error of a store in words that have those of `source` in them: of `kind`, or, where the fault may pass, of
    /// [`ErrorKind::Storage`] with the advice to repeat the statement.
    pub fn of_store(kind: ErrorKind, message: impl Into<String>, source: &(dyn StdError + 'static)) -> Self {
        match passes(source) {
            true => {
                let error = Self::new(ErrorKind::Storage, message);
                EngineError { message: format!("{}; repeat the statement later", error.message.trim_end()), ..error }
            }
            false => Self::new(kind, message),
        }
    }

    /// Sets the source of the error.
    #[must_use]
    pub fn with_source(self, source: impl StdError + Send + Sync + 'static) -> Self {
        EngineError { source: Some(Arc::new(source)), ..self }
    }

    /// Returns the first error of type `T` in the chain of sources.
    pub fn cause<T: StdError + 'static>(&self) -> Option<&T> {
        sources(self).find_map(|e| e.downcast_ref())
    }

    /// Changes the kind to [`ErrorKind::Vanished`], for an object that is gone: the statement may find another if it
    /// looks again.
    pub fn vanished(self) -> Self {
        EngineError { kind: ErrorKind::Vanished, ..self }
    }

    /// Returns whether the statement may succeed if it is computed anew, because others changed what it had read. If the
    /// layer that found the conflict has tried often already, another layer does not begin anew.
    pub fn is_passing_conflict(&self) -> bool {
        let contended = |e: &TableError| matches!(e, TableError::Contended { .. });
        self.kind == ErrorKind::Conflict
            && self.cause::<GivenUp>().is_none()
            && !self.cause::<TableError>().is_some_and(contended)
    }

    /// Makes an error of kind [`ErrorKind::Unsupported`].
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// Makes an error of kind [`ErrorKind::Invalid`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// Wraps this error for its way through DataFusion; [`From<DataFusionError>`] unwraps it again.
    pub fn into_datafusion(self) -> DataFusionError {
        DataFusionError::External(Box::new(self))
    }
}

/// Iterates over the chain of sources of an error, without the error itself.
fn sources<'e>(error: &'e (dyn StdError + 'static)) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    let mut next = error.source();
    std::iter::from_fn(move || {
        let found = next?;
        next = found.source();
        Some(found)
    })
}

/// Replaces the XML document with which an object store answered by its code and message.
fn without_xml(message: String) -> String {
    let whole = || {
        let end = message.find("</Error>")? + "</Error>".len();
        let start = message.find("<?xml").or_else(|| message.find("<Error>"))?;
        let document = message.get(start..end)?;
        let of = |tag: &str| {
            let (_, rest) = document.split_once(&format!("<{tag}>"))?;
            rest.split_once(&format!("</{tag}>")).map(|(text, _)| text)
        };
        Some(format!("{}{}: {}{}", &message[..start], of("Code")?, of("Message")?, &message[end..]))
    };
    whole().unwrap_or(message)
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for EngineError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|e| e as &(dyn StdError + 'static))
    }
}

impl From<SqlError> for EngineError {
    fn from(e: SqlError) -> Self {
        let kind = match e.code {
            1054 => ErrorKind::NoColumn,
            1052 => ErrorKind::AmbiguousColumn,
            1235 => ErrorKind::Unsupported,
            1064 => ErrorKind::Syntax,
            1044 | 1142 | 1227 => ErrorKind::Denied,
            1690 => ErrorKind::OutOfRange,
            _ => ErrorKind::Invalid,
        };
        let caret = Some(e.caret()).filter(|c| !c.is_empty());
        EngineError { code: e.code, sqlstate: e.sqlstate, message: e.to_string(), caret, ..EngineError::of(kind, e) }
    }
}

impl From<TextError> for EngineError {
    fn from(e: TextError) -> Self {
        // A condition of the statement failed on a row: the file is not at fault.
        if let Some(filter) = e.of_filter() {
            return from_boxed(filter.0.as_ref());
        }
        let kind = match e.kind {
            TextKind::Options => ErrorKind::Invalid,
            TextKind::Io | TextKind::Changed | TextKind::Compression => ErrorKind::File,
            TextKind::BadValue | TextKind::BadRecord | TextKind::InvalidUtf8 | TextKind::Rejected => {
                ErrorKind::BadValue
            }
            TextKind::Limit => ErrorKind::Resources,
            TextKind::Cancelled => ErrorKind::Killed,
            _ => ErrorKind::Invalid,
        };
        let is_gone = match e.kind {
            TextKind::Changed => true,
            TextKind::Io => e.source.as_ref().is_some_and(|e| e.kind() == std::io::ErrorKind::NotFound),
            _ => false,
        };
        // The store of a file, not the file.
        let kind = if kind == ErrorKind::File && passes(&e) { ErrorKind::Storage } else { kind };
        let error = EngineError::of(kind, e);
        if is_gone { error.vanished() } else { error }
    }
}

impl From<CatalogError> for EngineError {
    fn from(e: CatalogError) -> Self {
        let kind = match &e {
            CatalogError::DatabaseExists { .. } => ErrorKind::DatabaseExists,
            CatalogError::DatabaseNotFound { .. } => ErrorKind::NoDatabase,
            CatalogError::TableExists { .. } => ErrorKind::TableExists,
            CatalogError::TableNotFound { .. } => ErrorKind::NoTable,
            CatalogError::WrongKind { .. } => ErrorKind::WrongObject,
            CatalogError::Chain(_) => ErrorKind::Storage,
            CatalogError::Access(e) => return from_access(e.clone()),
            _ => ErrorKind::Invalid,
        };
        EngineError::of(kind, e)
    }
}

/// Converts errors of users and grants, with MySQL's codes for them.
fn from_access(e: AccessError) -> EngineError {
    let (kind, code, sqlstate) = match &e {
        AccessError::UserExists { .. }
        | AccessError::UserInTheWay { .. }
        | AccessError::RoleExists { .. }
        | AccessError::NoUser { .. } => (ErrorKind::Invalid, 1396, "HY000"),
        AccessError::Fixed { .. } => (ErrorKind::Denied, 1396, "HY000"),
        AccessError::GrantToNobody { .. } => (ErrorKind::Invalid, 1410, "42000"),
        AccessError::NoGrant { .. } => (ErrorKind::Invalid, 1141, "42000"),
        AccessError::NoRole { .. } => (ErrorKind::Invalid, 3523, "HY000"),
        AccessError::ObjectGone => (ErrorKind::Conflict, 1213, "40001"),
        AccessError::TooMany { .. } => (ErrorKind::Resources, 1041, "HY000"),
        AccessError::FormerPassword { .. } => (ErrorKind::Invalid, 3638, "HY000"),
        _ => (ErrorKind::Invalid, 1105, "HY000"),
    };
    EngineError { code, sqlstate, ..EngineError::of(kind, e) }
}

impl From<TableError> for EngineError {
    fn from(e: TableError) -> Self {
        let kind = match &e {
            TableError::Refused(Refused::RowsChanged { .. }) | TableError::Contended { .. } => ErrorKind::Conflict,
            // Nothing was changed, and another transaction may succeed.
            TableError::Chain(ChainError::Aborted { .. } | ChainError::Expired { .. }) => ErrorKind::Conflict,
            TableError::Refused(Refused::SchemaChanged { .. } | Refused::AutoIncrementMoved { .. }) => {
                ErrorKind::Conflict
            }
            TableError::Refused(Refused::Dropped) => ErrorKind::NoTable,
            TableError::Refused(_) => ErrorKind::Invalid,
            TableError::Chain(ChainError::Unknown { .. }) => ErrorKind::Unknown,
            TableError::Resolve(inner) => match inner.downcast_ref::<EngineError>() {
                Some(own) => return own.clone(),
                None => ErrorKind::Storage,
            },
            _ => ErrorKind::Storage,
        };
        EngineError::of(kind, e)
    }
}

impl From<SegmentError> for EngineError {
    fn from(e: SegmentError) -> Self {
        // A condition of the statement failed on a row: the object is not at fault.
        if let SegmentError::Arrow(arrow::error::ArrowError::ExternalError(filter)) = &e {
            return from_boxed(filter.as_ref());
        }
        let kind = match &e {
            SegmentError::Property { .. } => ErrorKind::Invalid,
            SegmentError::Store {
                source: object_store::Error::NotFound { .. } | object_store::Error::Precondition { .. },
                ..
            } => ErrorKind::Vanished,
            SegmentError::Foreign { .. } | SegmentError::Misindexed { .. } | SegmentError::Value { .. } => {
                ErrorKind::File
            }
            _ => ErrorKind::Storage,
        };
        EngineError::of(kind, e)
    }
}

impl From<LoadError> for EngineError {
    fn from(e: LoadError) -> Self {
        match e {
            LoadError::Table(e) => e.into(),
            LoadError::Segment(e) => e.into(),
            LoadError::Route(e) => e.into(),
            LoadError::Partial(_) | LoadError::Generated(_) => EngineError::of(ErrorKind::Invalid, e),
            other => EngineError::of(ErrorKind::Storage, other),
        }
    }
}

impl From<PointError> for EngineError {
    fn from(e: PointError) -> Self {
        match e {
            PointError::Segment(e) => e.into(),
            PointError::Route(e) => e.into(),
            PointError::Row { .. } => EngineError::of(ErrorKind::Storage, e),
            _ => EngineError::of(ErrorKind::Invalid, e),
        }
    }
}

impl From<RouteError> for EngineError {
    fn from(e: RouteError) -> Self {
        // MySQL: "Unknown partition '%s' in table '%s'".
        let code = matches!(e, RouteError::NoPartition { .. }).then_some(1735);
        let error = EngineError::of(ErrorKind::Invalid, e);
        EngineError { code: code.unwrap_or(error.code), ..error }
    }
}

impl From<LabelError> for EngineError {
    fn from(e: LabelError) -> Self {
        match e {
            LabelError::Table(e) => e.into(),
            LabelError::Invalid { .. } | LabelError::InUse { .. } | LabelError::Collision { .. } => {
                EngineError::of(ErrorKind::Invalid, e)
            }
            _ => EngineError::of(ErrorKind::Storage, e),
        }
    }
}

impl From<IcebergError> for EngineError {
    fn from(e: IcebergError) -> Self {
        let kind = match &e {
            IcebergError::Unsupported { .. } => ErrorKind::Unsupported,
            IcebergError::NoSnapshot { .. } => ErrorKind::Invalid,
            e if passes(e) => ErrorKind::Storage,
            _ => ErrorKind::File,
        };
        EngineError::of(kind, e)
    }
}

impl From<HiveError> for EngineError {
    fn from(e: HiveError) -> Self {
        EngineError::of(ErrorKind::Invalid, e)
    }
}

impl From<arrow::error::ArrowError> for EngineError {
    fn from(e: arrow::error::ArrowError) -> Self {
        DataFusionError::ArrowError(Box::new(e), None).into()
    }
}

impl From<DataFusionError> for EngineError {
    fn from(e: DataFusionError) -> Self {
        let error = from_datafusion(&e);
        // An own error that came through DataFusion has its sources already.
        let is_own = sources(&e).any(|e| e.is::<EngineError>());
        if is_own { error } else { error.with_source(e) }
    }
}

/// `ER_WRONG_FIELD_WITH_GROUP`: a column that is not among the keys of GROUP BY.
pub const NOT_GROUPED: u16 = 1055;
/// `ER_MIX_OF_GROUP_FUNC_AND_FIELDS`: a column beside aggregates without GROUP BY.
pub const MIXED_WITH_AGGREGATES: u16 = 1140;

/// How DataFusion's message begins when the alias that the charter puts around a subquery beside a row names another
/// number of columns. Aliases that users write are checked earlier.
const ROW_WIDTH: &str = "Source table contains ";

/// Names the numbers in such a message as MySQL does.
fn row_width(message: &str) -> Option<String> {
    let (found, rest) = message.strip_prefix(ROW_WIDTH)?.split_once(" columns but only ")?;
    let (wanted, _) = rest.split_once(' ')?;
    Some(format!("Operand should contain {wanted} column(s), found {found}"))
}

/// MySQL's codes for errors that DataFusion distinguishes only by text, with the beginnings of its messages.
const CODES: &[(&str, u16, &str)] = &[
    ("Aggregate functions are not allowed in the WHERE clause", 1111, "HY000"),
    (words::NESTED, 1111, "HY000"),
    (words::NO_SET, 3602, "HY000"),
    (words::NO_OVER, 1064, "42000"),
    ("Window function calls cannot be nested", 3593, "HY000"),
    ("Physical plan does not support logical expression WindowFunction", 3593, "HY000"),
    ("Column in SELECT must be in GROUP BY", NOT_GROUPED, "42000"),
    ("Column in HAVING must be in GROUP BY", NOT_GROUPED, "42000"),
    ("Column in ORDER BY must be in GROUP BY", NOT_GROUPED, "42000"),
    ("HAVING clause references", NOT_GROUPED, "42000"),
    ("For SELECT DISTINCT, ORDER BY expressions", 3065, "HY000"),
    ("Cannot find column with position", 1054, "42S22"),
    ("Order by column out of bounds", 1054, "42S22"),
    ("Invalid qualifier", 1051, "42S02"),
    ("WITH query name", 1066, "42000"),
    ("UNION queries have different number of columns", 1222, "21000"),
    ("Too many columns! The subquery should only return one column", 1241, "21000"),
    (ROW_WIDTH, 1241, "21000"),
    ("Scalar subquery returned more than one row", 1242, "21000"),
    ("a MAP with NULL as a key is not supported", 1235, "42000"),
    ("BINARY values that are no UTF-8 text", 1235, "42000"),
];

/// What stands before the reason why a pattern is none.
const NO_REGEX: &str = " is no regular expression: ";

/// MySQL's numbers for patterns that are no regular expressions, by how the reasons of the `regex` crate begin.
const REGEX_CODES: &[(&str, u16)] = &[
    ("Unicode property", 3685),
    ("incomplete escape", 3689),
    ("invalid escape", 3689),
    ("unrecognized escape", 3689),
    ("hexadecimal literal", 3689),
    ("invalid hexadecimal", 3689),
    ("backreferences", 3690),
    ("look-around", 3690),
    ("unclosed group", 3691),
    ("unopened group", 3691),
    ("unclosed counted repetition", 3692),
    ("repetition quantifier", 3692),
    ("decimal literal", 3692),
    ("invalid repetition count range", 3693),
    ("unclosed character class", 3696),
    ("invalid character class range", 3697),
    ("invalid range boundary", 3697),
    ("exceed the maximum number of nested", 3698),
    ("Compiled regex exceeds", 3700),
    ("it is too large", 3700),
    ("duplicate capture group", 3887),
    ("empty capture group", 3887),
    ("invalid capture group", 3887),
    ("unclosed capture group", 3887),
];
/// `ER_REGEXP_RULE_SYNTAX`: of any other pattern.
const REGEX_SYNTAX: u16 = 3688;

/// Makes the error for a message of DataFusion.
fn with_code(message: &str, kind: ErrorKind) -> EngineError {
    let message = words::plain(message);
    if let Some((_, reason)) = message.rsplit_once(NO_REGEX) {
        let known = REGEX_CODES.iter().find(|(begins, _)| reason.starts_with(begins));
        return EngineError { code: known.map_or(REGEX_SYNTAX, |(_, code)| *code), ..EngineError::invalid(message) };
    }
    let Some((_, code, sqlstate)) = CODES.iter().find(|(begins, ..)| message.starts_with(begins)) else {
        return EngineError::new(kind, message);
    };
    let (code, sqlstate) = (*code, *sqlstate);
    let column = message.split_once(": While expanding wildcard, column \"").and_then(|(what, rest)| {
        let (column, _) = rest.split_once("\" must appear")?;
        Some(format!("{what}: '{column}'"))
    });
    let message = match code {
        1111 => format!("Invalid use of group function: {message}"),
        3065 => {
            "SELECT DISTINCT has an ORDER BY by what its select list does not have: write the whole expression in the \
                 select list, too"
                .to_string()
        }
        3593 => {
            "a window function stands where none can be: use it in the select list or in ORDER BY, and filter by it in \
                 a query around"
                .to_string()
        }
        _ => row_width(&message).or(column).unwrap_or(message),
    };
    EngineError { code, sqlstate, ..EngineError::invalid(message) }
}

/// Finds own errors within DataFusion's, and gives DataFusion's own ones their MySQL code.
fn from_datafusion(e: &DataFusionError) -> EngineError {
    match e {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => from_datafusion(inner),
        DataFusionError::Shared(inner) => from_datafusion(inner),
        DataFusionError::Collection(all) if !all.is_empty() => from_datafusion(&all[0]),
        DataFusionError::External(inner) => from_boxed(inner.as_ref()),
        DataFusionError::ArrowError(inner, _) => from_arrow(inner, || e.strip_backtrace()),
        DataFusionError::SQL(inner, _) => EngineError::new(ErrorKind::Syntax, inner.to_string()),
        DataFusionError::NotImplemented(m) => with_code(m, ErrorKind::Unsupported),
        DataFusionError::SchemaError(inner, _) => from_schema(inner),
        DataFusionError::ResourcesExhausted(m) => {
            // The limit has added to the message how to raise it.
            let message =
                format!("the statement needs more memory than its budget: {m}, or select fewer rows or columns");
            EngineError::new(ErrorKind::Resources, message)
        }
        DataFusionError::Plan(m) => with_code(m, plan_kind(m)),
        DataFusionError::Execution(m) => with_code(m, ErrorKind::Invalid),
        DataFusionError::Internal(m) => EngineError::new(ErrorKind::Internal, m),
        DataFusionError::ObjectStore(inner) => {
            EngineError::of_store(ErrorKind::File, inner.to_string(), inner.as_ref())
        }
        DataFusionError::IoError(inner) => from_io(inner),
        other => EngineError::new(ErrorKind::Invalid, other.strip_backtrace()),
    }
}

fn plan_kind(message: &str) -> ErrorKind {
    if message.starts_with("Invalid function") {
        ErrorKind::NoFunction
    } else if message.starts_with("table '") && message.ends_with("not found") {
        ErrorKind::NoTable
    } else {
        ErrorKind::Invalid
    }
}

fn from_boxed(inner: &(dyn std::error::Error + Send + Sync + 'static)) -> EngineError {
    if let Some(e) = inner.downcast_ref::<EngineError>() {
        e.clone()
    } else if let Some(e) = inner.downcast_ref::<DataFusionError>() {
        from_datafusion(e)
    } else if let Some(e) = inner.downcast_ref::<SqlError>() {
        e.clone().into()
    } else if let Some(e) = inner.downcast_ref::<arrow::error::ArrowError>() {
        from_arrow(e, || e.to_string())
    } else {
        with_code(&inner.to_string(), ErrorKind::Invalid)
    }
}

/// Converts an Arrow error. `shown` returns the whole message, for errors without a code of their own.
fn from_arrow(inner: &arrow::error::ArrowError, shown: impl FnOnce() -> String) -> EngineError {
    use arrow::error::ArrowError;
    match inner {
        ArrowError::ExternalError(e) => from_boxed(e.as_ref()),
        ArrowError::ArithmeticOverflow(m) => EngineError::new(
            ErrorKind::OutOfRange,
            format!("value is out of range: {m}; cast an operand to a wider type"),
        ),
        ArrowError::IoError(_, e) => from_io(e),
        ArrowError::CastError(m) | ArrowError::ParseError(m) => EngineError::new(ErrorKind::BadValue, m),
        ArrowError::ComputeError(m) | ArrowError::InvalidArgumentError(m) => with_code(m, ErrorKind::Invalid),
        _ => EngineError::invalid(shown()),
    }
}

/// Converts an error of DataFusion's own files, which are the spill files. It may be wrapped more than once.
fn from_io(e: &std::io::Error) -> EngineError {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    let mut kind = e.kind();
    let mut inner = e.get_ref().map(|e| e as &dyn std::error::Error);
    while let Some(error) = inner {
        kind = error.downcast_ref::<std::io::Error>().map_or(kind, std::io::Error::kind);
        inner = error.source();
    }
    match kind {
        StorageFull | QuotaExceeded | FileTooLarge => EngineError::new(
            ErrorKind::Resources,
            format!(
                "the statement needs more memory than its budget, and there is no room on disk for the rest: {e}; free \
                 space in the spill directory, choose another with --spill-dir, or raise --memory"
            ),
        ),
        _ => EngineError::of_store(ErrorKind::File, e.to_string(), e),
    }
}

fn from_schema(e: &SchemaError) -> EngineError {
    match e {
        SchemaError::FieldNotFound { field, valid_fields } => {
            // The addresses of rows that statements change are internal columns.
            let valid_fields: Vec<_> = valid_fields.iter().filter(|c| !c.name.starts_with("__dipper_")).collect();
            let near = dipper_base::near::closest(&field.name, valid_fields.iter().map(|c| c.name.as_str()));
            let hint = match near {
                Some(name) => format!("; did you mean {name}?"),
                None if valid_fields.is_empty() => String::new(),
                None => {
                    let mut names: Vec<_> = valid_fields.iter().take(12).map(|c| c.name.as_str()).collect();
                    if valid_fields.len() > 12 {
                        names.push("...");
                    }
                    format!("; columns are: {}", names.join(", "))
                }
            };
            EngineError::new(
                ErrorKind::NoColumn,
                format!("Unknown column '{}' in 'field list'{hint}", field.flat_name()),
            )
        }
        SchemaError::AmbiguousReference { field } => EngineError::new(
            ErrorKind::AmbiguousColumn,
            format!("Column '{}' in field list is ambiguous; write table.{}", field.flat_name(), field.name),
        ),
        SchemaError::DuplicateQualifiedField { qualifier, .. } => EngineError {
            code: 1066,
            sqlstate: "42000",
            ..EngineError::invalid(format!(
                "Not unique table/alias: '{}'; give it another name by AS",
                qualifier.table()
            ))
        },
        other => EngineError::invalid(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use dipper_base::retry;

    use super::*;

    #[test]
    fn what_a_store_answers_is_cut() {
        let xml =
            "GET x: 404: <?xml version=\"1.0\"?>\n<Error><Code>NoSuchBucket</Code><Message>None.</Message></Error>!";
        assert_eq!(EngineError::new(ErrorKind::Storage, xml).message, "GET x: 404: NoSuchBucket: None.!");
        assert_eq!(EngineError::new(ErrorKind::Storage, "a <Error> b").message, "a <Error> b");
    }

    /// Otherwise the 200 attempts of a commit would be made by each of the 50 of a statement.
    #[test]
    fn a_conflict_that_was_tried_often_is_not_begun_anew() {
        let changed = || Refused::RowsChanged { expected: 2, found: 1 };
        let own = || EngineError::new(ErrorKind::Conflict, "others changed the rows");
        for e in [EngineError::from(TableError::Refused(changed())), own()] {
            assert!(e.is_passing_conflict(), "{e}");
        }
        let contended = || TableError::Contended { path: "t/1".into(), attempts: 200, last: changed() };
        for e in [
            EngineError::from(contended()),
            EngineError::from(own().with_source(retry::STATEMENT.given_up()).into_datafusion()),
            EngineError::of(ErrorKind::Conflict, EngineError::from(contended())),
            EngineError::new(ErrorKind::Storage, "503"),
        ] {
            assert!(!e.is_passing_conflict(), "{e}");
        }
    }

    #[test]
    fn faults_of_stores_that_pass_are_one_kind_for_every_read() {
        let store = |status: &str| object_store::Error::Generic {
            store: "S3",
            source: format!("Server returned non-2xx status code: {status}").into(),
        };
        let read_by = |status: &str, io_kind| -> Vec<EngineError> {
            let chain = || ChainError::Store { path: "catalog/v".into(), source: store(status) };
            vec![
                CatalogError::Chain(chain()).into(),
                TableError::Chain(chain()).into(),
                SegmentError::Store { object: "t/1".into(), source: store(status) }.into(),
                TextError::io("s3://b/a.csv", std::io::Error::new(io_kind, store(status).to_string())).into(),
                IcebergError::read("s3://b/m.avro", store(status)).into(),
                DataFusionError::ObjectStore(Box::new(store(status))).into(),
                EngineError::of_store(
                    ErrorKind::File,
                    format!("cannot write 's3://b/a.csv': {}", store(status)),
                    &store(status),
                ),
            ]
        };
        for e in read_by("503 Service Unavailable: ", std::io::ErrorKind::Other) {
            assert_eq!((e.kind, e.code), (ErrorKind::Storage, 1030), "{e}");
            assert!(e.message.ends_with("503 Service Unavailable:; repeat the statement later"), "{e}");
        }
        let lasting = read_by("400 Bad Request", std::io::ErrorKind::Other);
        assert!(lasting.iter().all(|e| !e.message.contains("later")), "{lasting:?}");
        let codes: Vec<u16> = lasting.iter().map(|e| e.code).collect();
        assert_eq!(codes, [1030, 1030, 1030, 29, 29, 29, 29]);
        // What a worker is told of another one's error keeps the kind of the layer below.
        let busy = TextError::io("s3://b/a.csv", std::io::Error::new(std::io::ErrorKind::ResourceBusy, "busy"));
        assert_eq!(EngineError::from(busy).kind, ErrorKind::Storage);
    }

    #[test]
    fn patterns_that_are_none_have_mysqls_numbers() {
        for (reason, code) in [("unclosed group", 3691), ("unclosed character class", 3696), ("something new", 3688)] {
            let message = format!("regexp_extract: 'a is no regular expression: b' is no regular expression: {reason}");
            let e = EngineError::from(DataFusionError::Execution(message.clone()));
            assert_eq!((e.code, e.sqlstate, e.message), (code, "HY000", message));
        }
        let drawn =
            "Regular expression did not compile: Syntax(\nregex parse error:\n    (x\n    ^\nerror: unclosed group\n)";
        let e = EngineError::from(arrow::error::ArrowError::ComputeError(drawn.into()));
        assert_eq!((e.code, e.message.as_str()), (3691, "'(x' is no regular expression: unclosed group"));
    }

    #[test]
    fn words_of_the_planner_have_mysqls_numbers() {
        let of = |message: &str| {
            let e = EngineError::from(DataFusionError::Plan(message.into()));
            (e.code, e.sqlstate, e.message)
        };
        let message = "Column in SELECT must be in GROUP BY or an aggregate function: While expanding wildcard, column \
            \"t.a\" must appear in the GROUP BY clause or must be part of an aggregate function, currently only \"x\" ...";
        let expected = "Column in SELECT must be in GROUP BY or an aggregate function: 't.a'";
        assert_eq!(of(message), (1055, "42000", expected.to_string()));
        let message = "Order by column out of bounds, specified: 2, max: 1";
        assert_eq!(of(message), (1054, "42S22", message.to_string()));
        assert_eq!(of("something else"), (1105, "HY000", "something else".to_string()));
    }
}
