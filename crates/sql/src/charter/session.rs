//! The interface from the charter to a session: variables, parameters, and the columns of tables.

use std::fmt;

use dipper_dialect::error::SqlError;
use dipper_dialect::statement::{Name, Properties, Scope};
use sqlparser::ast;

/// The value of a variable or of a `?`.
#[derive(Debug, Clone, PartialEq)]
pub enum VarValue {
    /// NULL.
    Null,
    /// An integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A double.
    Double(f64),
    /// A decimal as text: digits, perhaps a sign and a point.
    Decimal(String),
    /// Text.
    String(String),
    /// Bytes; not necessarily UTF-8.
    Bytes(Vec<u8>),
    /// A date by its numbers; it need not exist.
    Date {
        /// Year.
        year: u16,
        /// Month, not checked.
        month: u8,
        /// Day of the month, not checked.
        day: u8,
    },
    /// A date with a time of day, by its numbers.
    DateTime {
        /// Year.
        year: u16,
        /// Month, not checked.
        month: u8,
        /// Day of the month, not checked.
        day: u8,
        /// Hour, not checked.
        hour: u8,
        /// Minute, not checked.
        minute: u8,
        /// Second, not checked.
        second: u8,
        /// Microseconds, not checked.
        micros: u32,
    },
}

/// Each double below this one stands for one whole number only.
const EXACT: f64 = 9_007_199_254_740_992.0;

impl VarValue {
    /// Returns the literal that stands for the value in a statement.
    pub(super) fn to_ast(&self) -> ast::Expr {
        let number = |text: String| match text.strip_prefix('-') {
            Some(rest) => ast::Expr::UnaryOp {
                op: ast::UnaryOperator::Minus,
                expr: Box::new(ast::Expr::value(ast::Value::Number(rest.to_string(), false))),
            },
            None => ast::Expr::value(ast::Value::Number(text, false)),
        };
        let cast = |text: String, data_type| ast::Expr::Cast {
            kind: ast::CastKind::TryCast,
            expr: Box::new(ast::Expr::value(ast::Value::SingleQuotedString(text))),
            data_type,
            array: false,
            format: None,
        };
        match self {
            VarValue::Null => ast::Expr::value(ast::Value::Null),
            VarValue::Int(n) => number(n.to_string()),
            VarValue::UInt(n) => number(n.to_string()),
            // Without an exponent the planner reads a decimal, which is what clients mean that send DOUBLE for all
            // numbers. Numbers that may stand for several whole ones, and very small ones, stay doubles.
            VarValue::Double(n) if n.fract() == 0.0 && n.abs() < EXACT => number(format!("{n}.")),
            VarValue::Double(n) if n.fract() != 0.0 && n.abs() >= 1e-20 => number(n.to_string()),
            VarValue::Double(n) => cast(n.to_string(), ast::DataType::Double(ast::ExactNumberInfo::None)),
            VarValue::Decimal(text) => number(text.clone()),
            VarValue::String(text) => ast::Expr::value(ast::Value::SingleQuotedString(text.clone())),
            VarValue::Bytes(bytes) => {
                let hex = bytes.iter().map(|b| format!("{b:02X}")).collect();
                ast::Expr::value(ast::Value::HexStringLiteral(hex))
            }
            VarValue::Date { .. } => cast(self.point_text().unwrap_or_default(), ast::DataType::Date),
            VarValue::DateTime { micros, .. } => {
                let digits = if *micros == 0 { 0 } else { 6 };
                cast(self.point_text().unwrap_or_default(), ast::DataType::Datetime(Some(digits)))
            }
        }
    }

    /// Formats a date or datetime like MySQL does; `None` for other values.
    pub fn point_text(&self) -> Option<String> {
        match self {
            VarValue::Date { year, month, day } => Some(format!("{year:04}-{month:02}-{day:02}")),
            VarValue::DateTime { year, month, day, hour, minute, second, micros } => {
                let mut text = format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}");
                if *micros != 0 {
                    text.push_str(&format!(".{micros:06}"));
                }
                Some(text)
            }
            _ => None,
        }
    }

    /// Returns the value as a whole number, whatever its type; `None` if it is negative or is not a whole number.
    pub(super) fn whole_number(&self) -> Option<u64> {
        match self {
            VarValue::Int(n) => u64::try_from(*n).ok(),
            VarValue::UInt(n) => Some(*n),
            VarValue::Double(n) => (*n >= 0.0 && n.fract() == 0.0).then_some(*n as u64),
            VarValue::Decimal(text) | VarValue::String(text) => text.parse().ok(),
            VarValue::Bytes(bytes) => str::from_utf8(bytes).ok()?.parse().ok(),
            VarValue::Null | VarValue::Date { .. } | VarValue::DateTime { .. } => None,
        }
    }
}

/// The variables of a session.
pub trait Variables {
    /// Returns the value of `@name`; `None` when it was never set (it reads as NULL).
    fn user(&self, name: &str) -> Option<VarValue>;
    /// Returns the value of `@@name`, `@@session.name` or `@@global.name`; `scope` is `None` when none is written.
    /// `None` when there is no such variable, which is an error (1193).
    fn system(&self, scope: Option<Scope>, name: &str) -> Option<VarValue>;
}

/// The state of a table that a query asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableVersion {
    /// FOR VERSION AS OF: an id, or the name of a branch or tag.
    Version(String),
    /// FOR TIMESTAMP AS OF: a time in the session's time zone, as written.
    Time(String),
    /// FOR TIMESTAMP AS OF an expression, whose value is a time in the session's time zone.
    TimeOf(Box<ast::Expr>),
    /// `t@branch(name)`.
    Branch(String),
    /// `t@tag(name)`.
    Tag(String),
}

impl fmt::Display for TableVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableVersion::Version(name) => write!(f, "FOR VERSION AS OF {name}"),
            TableVersion::Time(text) => write!(f, "FOR TIMESTAMP AS OF '{text}'"),
            TableVersion::TimeOf(expr) => write!(f, "FOR TIMESTAMP AS OF {expr}"),
            TableVersion::Branch(name) => write!(f, "@branch({name})"),
            TableVersion::Tag(name) => write!(f, "@tag({name})"),
        }
    }
}

/// A reference in FROM that the engine must resolve.
#[derive(Debug, Clone, PartialEq)]
pub enum TableRef {
    /// A name. It may be one of the statement's own common table expressions, where `maybe_cte` says so: then it is not
    /// an error if no table is found.
    Named {
        /// The name as it is written.
        name: Name,
        /// Whether the statement defines a common table expression of this name.
        maybe_cte: bool,
        /// The state that is asked for, if not the current one.
        version: Option<TableVersion>,
        /// The partitions that are asked for, as written in `PARTITION (p, ...)`; empty for all.
        partitions: Vec<String>,
    },
    /// A path or URL in quotes.
    Path(String),
    /// `files('path'='...')`, `local(...)`, `numbers('number'='5')`: a function whose arguments are properties.
    Function {
        /// Name, lower case.
        name: String,
        /// Arguments of the form `'key' = 'value'`, `"key" = "value"` or `key => value`.
        properties: Properties,
        /// Arguments of any other form, as their SQL text; strings without quotes.
        arguments: Vec<String>,
    },
}

/// The engine's answer to a [`TableRef`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResolvedTable {
    /// Column names, in order, as they are spelled in the table's Arrow schema.
    pub columns: Vec<String>,
    /// The name by which DataFusion's planner has to ask for the table, its parts in the order from catalog to table;
    /// `None` if it is the written name (only for [`TableRef::Named`]).
    pub reference: Option<Vec<String>>,
    /// The catalog and the database of the table, if it is in any.
    pub place: Option<[String; 2]>,
}

/// A resolver of tables, which must be able to answer from memory: collect the references with [`super::table_refs`],
/// load what is needed, then prepare the query.
pub trait Schemas {
    /// Returns what is known of a table; `None` if there is no such table.
    ///
    /// # Errors
    /// The reason why the table cannot be read.
    fn resolve(&self, table: &TableRef) -> Result<Option<ResolvedTable>, SqlError>;

    /// Returns the number of columns of all tables together.
    fn width(&self) -> usize {
        0
    }
}

/// The inputs of [`super::prepare_query`] besides the query.
pub struct Context<'a> {
    /// Tables.
    pub schemas: &'a dyn Schemas,
    /// Variables.
    pub variables: &'a dyn Variables,
    /// Values of `?`, in order; `None` leaves the placeholders (as `$1`, `$2`, ...) in the tree.
    pub parameters: Option<&'a [VarValue]>,
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("parameters", &self.parameters).finish_non_exhaustive()
    }
}
