//! Statements about functions that users define.

use dipper_base::types::SqlType;

use super::{IfExists, Name};

/// `CREATE [GLOBAL] ALIAS FUNCTION name(types) WITH PARAMETER(names) AS expression`.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateFunction {
    /// Whether GLOBAL was written: the function belongs to all databases.
    pub global: bool,
    /// The name.
    pub name: Name,
    /// Whether IF NOT EXISTS was written.
    pub if_not_exists: bool,
    /// The types of the arguments.
    pub types: Vec<SqlType>,
    /// The names of the parameters, as many as there are types.
    pub parameters: Vec<String>,
    /// The text of the expression.
    pub text: String,
}

/// The functions that a statement names.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionName {
    /// Whether GLOBAL was written.
    pub global: bool,
    /// The name.
    pub name: Name,
    /// The types of the arguments; `None` if they were not written, which is MySQL's form.
    pub types: Option<Vec<SqlType>>,
}

/// `DROP [GLOBAL] FUNCTION [IF EXISTS] name(types)`.
#[derive(Debug, Clone, PartialEq)]
pub struct DropFunction {
    /// The function.
    pub function: FunctionName,
    /// Whether IF EXISTS was written.
    pub if_exists: IfExists,
}

/// The functions that SHOW FUNCTIONS lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FunctionScope {
    /// Those that a statement in the database can call.
    All,
    /// Those that dipper has (BUILTIN).
    Builtin,
    /// Those of all databases that users have defined (GLOBAL).
    Global,
}
