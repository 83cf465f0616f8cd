//! SET: all values are computed and checked first; then all of them take effect, or none does.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::ScalarValue;
use dipper_base::names;
use dipper_dialect::parser::ParseOptions;
use dipper_dialect::statement::{Assignment, Literal, QueryText, Scope, SetValue, Statement};
use dipper_sql::charter::table_refs;
use dipper_store::catalog::CatalogChange;
use dipper_store::catalog::access::Privileges;
use futures::StreamExt;

use super::catalogs;
use crate::access::Object;
use crate::context::QueryContext;
use crate::error::{EngineError, ErrorKind, Result};
use crate::query;
use crate::result::Outcome;
use crate::session::Session;
use dipper_variables::charset;
use dipper_variables::{CATALOG, Checked, Variables};

/// Changes that have been checked but not made.
struct Pending {
    /// The session's variables after the changes.
    variables: Variables,
    globals: Vec<Checked>,
    user: Vec<(String, ScalarValue)>,
    warnings: Vec<dipper_base::client::Warning>,
    passwords: Vec<CatalogChange>,
    /// Whether the next transaction is READ ONLY.
    reads_only: Option<bool>,
    /// The catalog to select; an inner `None` is dipper's own.
    catalog: Option<Option<String>>,
    /// Context of subqueries. The first value that needs it makes it; all values see the session as it was before.
    context: Option<Arc<QueryContext>>,
}

/// Runs SET.
pub(super) async fn set(session: &mut Session, assignments: &[Assignment]) -> Result<Outcome> {
    let mut pending = Pending {
        variables: session.variables.clone(),
        globals: Vec::new(),
        user: Vec::new(),
        warnings: Vec::new(),
        passwords: Vec::new(),
        reads_only: None,
        catalog: None,
        context: None,
    };
    for assignment in assignments {
        pending.add(session, assignment).await?;
    }
    let Pending { variables, globals, user, warnings, passwords, reads_only, catalog, .. } = pending;
    if !user.is_empty() {
        // If a name occurs several times, the last value stays.
        let new: HashMap<&String, &ScalarValue> = user.iter().map(|(name, value)| (name, value)).collect();
        let kept = session.user_variables.iter().filter(|(name, _)| !new.contains_key(name));
        let bytes = kept.chain(new.iter().map(|(name, value)| (*name, *value))).map(|(n, v)| n.len() + v.size()).sum();
        session.hold_variables(bytes)?;
    }
    if !passwords.is_empty() {
        session.engine.catalog.commit(passwords).await?;
    }
    for change in globals {
        variables.apply_global(change);
    }
    // As in MySQL, turning autocommit on commits.
    if variables.autocommit() && !session.variables.autocommit() {
        super::transaction::commit(session, false).await?;
        session.reads_only = false;
    }
    session.reads_only = reads_only.unwrap_or(session.reads_only);
    session.variables = variables;
    if let Some(to) = catalog {
        catalogs::select(session, to);
    }
    session.user_variables.extend(user);
    session.warnings.extend(warnings);
    Ok(Outcome::ok())
}

/// Sets user variables, whose names are in lower case.
///
/// # Errors
/// `Resources` if the session would have too many of them, or there is no memory for them. None is set then.
pub(super) fn keep(session: &mut Session, values: Vec<(String, ScalarValue)>) -> Result<()> {
    let new: HashMap<&String, &ScalarValue> = values.iter().map(|(name, value)| (name, value)).collect();
    let kept = session.user_variables.iter().filter(|(name, _)| !new.contains_key(name));
    let all = kept.chain(new.iter().map(|(name, value)| (*name, *value)));
    let (count, bytes) = all.fold((0, 0), |(count, bytes), (n, v)| (count + 1, bytes + n.len() + v.size()));
    if count > USER_VARIABLES_MAX {
        return Err(too_many(&values[0].0));
    }
    session.hold_variables(bytes)?;
    session.user_variables.extend(values);
    Ok(())
}

fn too_many(name: &str) -> EngineError {
    EngineError::new(ErrorKind::Resources, format!("@{name}: a session may have {USER_VARIABLES_MAX} user variables"))
}

/// Runs UNSET VARIABLE: sets one variable, or all that this session has set, back to the default.
pub(super) async fn unset(session: &mut Session, scope: Scope, name: Option<&str>) -> Result<Outcome> {
    let names = match name {
        Some(name) => vec![name.to_string()],
        None => session.variables.changed(scope),
    };
    let assign = |name| Assignment::Variable { scope, name, value: SetValue::Default };
    set(session, &names.into_iter().map(assign).collect::<Vec<_>>()).await
}

/// Most user variables that one session may have, so that no client can fill the memory with them.
const USER_VARIABLES_MAX: usize = 10_000;

impl Pending {
    async fn add(&mut self, session: &Session, assignment: &Assignment) -> Result<()> {
        match assignment {
            Assignment::Variable { scope, name, value } => {
                let value = match value {
                    SetValue::Default => None,
                    SetValue::Word(word) => Some(word.clone()),
                    SetValue::Literal(literal) => Some(literal.text().unwrap_or_else(|| "NULL".into())),
                    SetValue::Query(query) => Some(self.compute(session, query).await?.to_string()),
                };
                if *scope != Scope::Session {
                    let state = session.engine.catalog.snapshot();
                    crate::access::check(&*session.rights(&state)?, &state, Privileges::SUPER, &Object::All)?;
                }
                if *scope == Scope::Session && name.eq_ignore_ascii_case(CATALOG) {
                    self.catalog =
                        Some(catalogs::selectable(session, value.as_deref().unwrap_or(names::CATALOG)).await?);
                    return Ok(());
                }
                self.variable(*scope, name, value.as_deref())
            }
            Assignment::User { name, value } => {
                let name = name.to_lowercase();
                let value = match value {
                    SetValue::Default => ScalarValue::Null,
                    SetValue::Literal(value) => literal(value),
                    SetValue::Query(query) => self.compute(session, query).await?,
                    // The word is CURRENT_DATE or a similar function; any other word is an unknown column.
                    SetValue::Word(word) => {
                        let query = select(word, &session.variables.parse_options())?;
                        self.compute(session, &query).await?
                    }
                };
                let known = session.user_variables.contains_key(&name);
                if !known && session.user_variables.len() + self.user.len() >= USER_VARIABLES_MAX {
                    return Err(too_many(&name));
                }
                self.user.push((name, value));
                Ok(())
            }
            Assignment::Names { charset, collation } => self.names(charset.as_deref(), collation.as_deref()),
            Assignment::CharacterSet(charset) => {
                for name in ["character_set_client", "character_set_results"] {
                    self.variable(Scope::Session, name, charset.as_deref())?;
                }
                // As in MySQL, literals then have the character set and order of the database.
                self.variable(Scope::Session, "character_set_connection", None)?;
                self.variable(Scope::Session, "collation_connection", None)
            }
            Assignment::Transaction { scope, isolation, read_only } => {
                let Some(scope) = scope else {
                    if session.in_transaction {
                        return Err(EngineError {
                            code: 1568,
                            sqlstate: "25001",
                            ..EngineError::invalid(
                                "Transaction characteristics can't be changed while a transaction is in progress; COMMIT it",
                            )
                        });
                    }
                    // Each statement reads one snapshot at every isolation level.
                    self.reads_only = read_only.or(self.reads_only);
                    return Ok(());
                };
                if let Some(isolation) = isolation {
                    self.variable(*scope, "transaction_isolation", Some(isolation))?;
                }
                if let Some(read_only) = read_only {
                    self.variable(*scope, "transaction_read_only", Some(if *read_only { "ON" } else { "OFF" }))?;
                }
                Ok(())
            }
            Assignment::Password { user, password, plain } => {
                self.passwords.push(super::access::set_password(session, user.as_ref(), password, *plain)?);
                Ok(())
            }
            other => Err(EngineError::unsupported(format!("SET is not supported for {other:?}"))),
        }
    }

    fn variable(&mut self, scope: Scope, name: &str, value: Option<&str>) -> Result<()> {
        let mut checked = self.variables.check(scope, name, value)?;
        self.warnings.extend(checked.warning.take());
        match scope {
            Scope::Session => self.variables.apply(checked),
            _ => self.globals.push(checked),
        }
        Ok(())
    }

    fn names(&mut self, charset: Option<&str>, collation: Option<&str>) -> Result<()> {
        for name in ["character_set_client", "character_set_connection", "character_set_results"] {
            let before = self.warnings.len();
            self.variable(Scope::Session, name, charset)?;
            // One warning covers all three variables.
            if name != "character_set_client" {
                self.warnings.truncate(before);
            }
        }
        let set = charset.and_then(charset::character_set);
        let Some(collation) = collation else {
            return self.variable(Scope::Session, "collation_connection", set.map(|s| s.default_collation));
        };
        self.variable(Scope::Session, "collation_connection", Some(collation))?;
        let of = charset::collation_named(collation).map(|c| c.charset);
        match set {
            Some(set) if of != Some(set.name) => Err(EngineError {
                code: 1253,
                ..EngineError::new(
                    ErrorKind::BadVariable,
                    format!("COLLATION '{collation}' is not valid for CHARACTER SET '{}'", set.name),
                )
            }),
            _ => Ok(()),
        }
    }

    /// Returns the value of a query of one row and one column; NULL if it has no row.
    async fn compute(&mut self, session: &Session, query: &QueryText) -> Result<ScalarValue> {
        let context = match &self.context {
            Some(context) => Arc::clone(context),
            None if table_refs(query).is_empty() => session.query_context_now(),
            None => Arc::clone(self.context.insert(session.query_context().await?)),
        };
        let (mut rows, _) = query::run(context, query.clone(), Vec::new()).await?;
        if rows.columns.len() != 1 {
            return Err(EngineError {
                code: 1241,
                sqlstate: "21000",
                ..EngineError::invalid(format!("Operand should contain 1 column(s), found {}", rows.columns.len()))
            });
        }
        let mut value = None;
        while let Some(batch) = rows.batches.next().await {
            let batch = batch?;
            if batch.num_rows() == 0 {
                continue;
            }
            if value.is_some() || batch.num_rows() > 1 {
                let e = EngineError::invalid("Subquery returns more than 1 row; add LIMIT 1");
                return Err(EngineError { code: 1242, sqlstate: "21000", ..e });
            }
            value = Some(ScalarValue::try_from_array(batch.column(0), 0)?);
        }
        Ok(value.unwrap_or(ScalarValue::Null))
    }
}

/// Parses `SELECT word`.
fn select(word: &str, options: &ParseOptions) -> Result<QueryText> {
    match dipper_dialect::parser::parse(&format!("SELECT {word}"), options)?.into_iter().next().map(|p| p.statement) {
        Some(Statement::Query(query)) => Ok(query),
        _ => Err(EngineError::invalid(format!("'{word}' is not a value"))),
    }
}

/// Converts a literal to the type that it has in SELECT: whole numbers are BIGINT, numbers with a point DECIMAL, with
/// an exponent DOUBLE.
fn literal(literal: &Literal) -> ScalarValue {
    match literal {
        Literal::Null => ScalarValue::Null,
        Literal::Boolean(b) => ScalarValue::Int64(Some(i64::from(*b))),
        Literal::String(s) => ScalarValue::Utf8(Some(s.clone())),
        Literal::Number(n) => number(n),
    }
}

fn number(text: &str) -> ScalarValue {
    if let Ok(n) = text.parse::<i64>() {
        return ScalarValue::Int64(Some(n));
    }
    if let Ok(n) = text.parse::<u64>() {
        return ScalarValue::UInt64(Some(n));
    }
    decimal(text).unwrap_or_else(|| ScalarValue::Float64(text.parse().ok()))
}

/// Parses `1.50` as DECIMAL(3, 2); `None` if the number has an exponent or more than 38 digits.
fn decimal(text: &str) -> Option<ScalarValue> {
    let (whole, fraction) = text.split_once('.')?;
    let digits: String = [whole, fraction].concat();
    let unscaled: i128 = digits.parse().ok()?;
    let scale = i8::try_from(fraction.len()).ok()?;
    let count = digits.trim_start_matches(['-', '+']).trim_start_matches('0').len().max(fraction.len()).max(1);
    let precision = u8::try_from(count).ok().filter(|p| *p <= 38)?;
    Some(ScalarValue::Decimal128(Some(unscaled), precision, scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_have_types() {
        assert_eq!(number("7"), ScalarValue::Int64(Some(7)));
        assert_eq!(number("18446744073709551615"), ScalarValue::UInt64(Some(u64::MAX)));
        assert_eq!(number("1.50"), ScalarValue::Decimal128(Some(150), 3, 2));
        assert_eq!(number("-0.5"), ScalarValue::Decimal128(Some(-5), 1, 1));
        assert_eq!(number("1e3"), ScalarValue::Float64(Some(1000.0)));
        assert_eq!(number("1.5e1"), ScalarValue::Float64(Some(15.0)));
        assert_eq!(literal(&Literal::Boolean(true)), ScalarValue::Int64(Some(1)));
    }
}
