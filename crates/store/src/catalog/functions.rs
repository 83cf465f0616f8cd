//! Functions that users define: names for expressions (CREATE ALIAS FUNCTION).

use serde::{Deserialize, Serialize};

use super::error::CatalogError;

/// A function that stands for an expression over its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AliasFunction {
    /// Name as written; it is found whatever its case.
    pub name: String,
    /// Types of the arguments as SQL text.
    pub types: Vec<String>,
    /// Names of the parameters, one for each type.
    pub parameters: Vec<String>,
    /// The expression, as written.
    pub sql: String,
    /// `sql_mode` under which `sql` was written.
    #[serde(default)]
    pub sql_mode: String,
    /// Milliseconds since 1970, UTC.
    pub created_ms: i64,
}

impl AliasFunction {
    /// Returns the name with the types, as statements write them.
    pub fn signature(&self) -> String {
        format!("{}({})", self.name, self.types.join(", "))
    }

    fn is_named(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// Returns the function of this name that takes so many arguments.
pub fn find<'a>(functions: &'a [AliasFunction], name: &str, arguments: usize) -> Option<&'a AliasFunction> {
    functions.iter().find(|function| function.is_named(name) && function.types.len() == arguments)
}

/// Adds a function; returns true if anything differs afterwards.
pub(super) fn create(
    functions: &mut Vec<AliasFunction>,
    function: &AliasFunction,
    if_not_exists: bool,
) -> Result<bool, CatalogError> {
    super::change::check_name("function", &function.name)?;
    if let Some(there) = find(functions, &function.name, function.types.len()) {
        // A call is told from others by the number of its arguments only.
        return match if_not_exists {
            true => Ok(false),
            false => Err(CatalogError::FunctionExists { signature: there.signature() }),
        };
    }
    functions.push(function.clone());
    functions.sort_by_key(|f| (f.name.to_lowercase(), f.types.len()));
    Ok(true)
}

/// Removes a function; returns true if anything differs afterwards.
pub(super) fn remove(
    functions: &mut Vec<AliasFunction>,
    name: &str,
    types: &[String],
    if_exists: bool,
) -> Result<bool, CatalogError> {
    let found = functions.iter().position(|function| function.is_named(name) && function.types == types);
    match found {
        Some(at) => {
            functions.remove(at);
            Ok(true)
        }
        None if if_exists => Ok(false),
        None => Err(CatalogError::FunctionNotFound { signature: format!("{name}({})", types.join(", ")) }),
    }
}
