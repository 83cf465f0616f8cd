//! What the charter asks of a session: variables, parameters, and the columns behind a table.

use sqlparser::ast;

use crate::error::SqlError;
use crate::statement::{Name, Properties, Scope};

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
}

impl VarValue {
    /// The literal that stands for the value in a statement.
    pub(super) fn to_ast(&self) -> ast::Expr {
        let number = |text: String| match text.strip_prefix('-') {
            Some(rest) => ast::Expr::UnaryOp {
                op: ast::UnaryOperator::Minus,
                expr: Box::new(ast::Expr::value(ast::Value::Number(rest.to_string(), false))),
            },
            None => ast::Expr::value(ast::Value::Number(text, false)),
        };
        match self {
            VarValue::Null => ast::Expr::value(ast::Value::Null),
            VarValue::Int(n) => number(n.to_string()),
            VarValue::UInt(n) => number(n.to_string()),
            // The planner makes a decimal of it, which is what clients mean that send DOUBLE for all numbers. Those that no
            // decimal of 38 digits holds stay doubles.
            VarValue::Double(n) if *n == 0.0 || (1e-20..1e38).contains(&n.abs()) => number(format!("{n:e}")),
            VarValue::Double(n) => ast::Expr::Cast {
                kind: ast::CastKind::TryCast,
                expr: Box::new(ast::Expr::value(ast::Value::SingleQuotedString(n.to_string()))),
                data_type: ast::DataType::Double(ast::ExactNumberInfo::None),
                array: false,
                format: None,
            },
            VarValue::Decimal(text) => number(text.clone()),
            VarValue::String(text) => ast::Expr::value(ast::Value::SingleQuotedString(text.clone())),
            VarValue::Bytes(bytes) => {
                let hex = bytes.iter().map(|b| format!("{b:02X}")).collect();
                ast::Expr::value(ast::Value::HexStringLiteral(hex))
            }
        }
    }

    /// The whole number that it is, of whatever type; `None` for less than 0 and for all else.
    pub(super) fn whole_number(&self) -> Option<u64> {
        match self {
            VarValue::Int(n) => u64::try_from(*n).ok(),
            VarValue::UInt(n) => Some(*n),
            VarValue::Double(n) => (*n >= 0.0 && n.fract() == 0.0).then_some(*n as u64),
            VarValue::Decimal(text) | VarValue::String(text) => text.parse().ok(),
            VarValue::Bytes(bytes) => str::from_utf8(bytes).ok()?.parse().ok(),
            VarValue::Null => None,
        }
    }
}

/// The variables of a session.
pub trait Variables {
    /// `@name`; `None` when it was never set (it reads as NULL).
    fn user(&self, name: &str) -> Option<VarValue>;
    /// `@@name`, `@@session.name`, `@@global.name`; `scope` is `None` when not written. `None` when there is no such
    /// variable, which is an error (1193).
    fn system(&self, scope: Option<Scope>, name: &str) -> Option<VarValue>;
}

/// Which state of a table is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableVersion {
    /// FOR VERSION AS OF: an id, or the name of a branch or tag.
    Version(String),
    /// FOR TIMESTAMP AS OF: a time in the session's time zone, as written.
    Time(String),
}

/// Something in FROM that the engine must find.
#[derive(Debug, Clone, PartialEq)]
pub enum TableRef {
    /// A name. It may be one of the statement's own common table expressions, where `maybe_cte` says so: then not
    /// finding it is no error.
    Named {
        /// As written.
        name: Name,
        /// The statement defines a common table expression of this name.
        maybe_cte: bool,
        /// The state that is wanted, if not the current one.
        version: Option<TableVersion>,
        /// The partitions that are wanted, as written in `PARTITION (p, ...)`; empty for all.
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

/// What the engine knows of a [`TableRef`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResolvedTable {
    /// Column names, in order, as they are spelled in the table's Arrow schema.
    pub columns: Vec<String>,
    /// The name under which DataFusion's planner shall ask for the table, parts from catalog to table; `None`: as
    /// written (only for [`TableRef::Named`]).
    pub reference: Option<Vec<String>>,
    /// The catalog and the database that it is in, where it is in any.
    pub place: Option<[String; 2]>,
}

/// Finds tables. Everything must be in memory already: collect the references with [`super::table_refs`], load what
/// is needed, then prepare.
pub trait Schemas {
    /// `None` when there is no such table.
    ///
    /// # Errors
    /// Whatever keeps it from being read.
    fn resolve(&self, table: &TableRef) -> Result<Option<ResolvedTable>, SqlError>;
}

/// Everything [`super::prepare_query`] needs besides the query.
pub struct Context<'a> {
    /// Tables.
    pub schemas: &'a dyn Schemas,
    /// Variables.
    pub variables: &'a dyn Variables,
    /// Values of `?`, in order; `None` leaves the placeholders (as `$1`, `$2`, ...) in the tree.
    pub parameters: Option<&'a [VarValue]>,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("parameters", &self.parameters).finish_non_exhaustive()
    }
}
