//! PREPARE, EXECUTE and DEALLOCATE PREPARE as statements.

use std::sync::Arc;

use dipper_dialect::parser::ParseOptions;
use dipper_dialect::statement::{Parsed, PrepareSource, Statement};
use dipper_sql::charter::session::VarValue;

use crate::context::var_value;
use crate::error::{EngineError, ErrorKind, Result};
use crate::result::Outcome;
use crate::session::{Session, TextPrepared};

pub(super) fn prepare(session: &mut Session, name: &str, source: &PrepareSource) -> Result<Outcome> {
    // As in MySQL, the earlier statement of this name goes even if the new one fails.
    session.prepared.remove(&name.to_lowercase());
    let text = match source {
        PrepareSource::Text(text) => text.clone(),
        PrepareSource::Variable(variable) => match session.user_variables.get(&variable.to_lowercase()) {
            Some(value) if !value.is_null() => value.to_string(),
            _ => return Err(EngineError::new(ErrorKind::Syntax, format!("PREPARE: @{variable} is NULL"))),
        },
    };
    let parsed = parse(&text, &session.variables.parse_options())?;
    if matches!(parsed.statement, Statement::Prepare { .. } | Statement::Execute { .. } | Statement::Deallocate(_)) {
        return Err(EngineError::unsupported("PREPARE of PREPARE, EXECUTE or DEALLOCATE"));
    }
    let mut held = session.hold_statement(&text)?;
    let prepared = TextPrepared {
        parsed: held.keep_tree(&text).then(|| Arc::new(parsed)),
        source: text.into(),
        selected: session.selected(),
        _held: Arc::new(held),
    };
    session.prepared.insert(name.to_lowercase(), prepared);
    Ok(Outcome::ok())
}

pub(super) async fn execute(session: &mut Session, name: &str, using: &[String]) -> Result<Outcome> {
    let prepared = session.prepared.get(&name.to_lowercase()).cloned().ok_or_else(|| unknown(name, "EXECUTE"))?;
    let mut there = session.at(&prepared.selected);
    let parsed = match prepared.parsed {
        Some(parsed) => parsed,
        None => Arc::new(parse(&prepared.source, &there.parse_options())?),
    };
    if parsed.placeholders != using.len() {
        return Err(EngineError::invalid(format!(
            "EXECUTE {name}: the statement has {} placeholders, {} values are given",
            parsed.placeholders,
            using.len()
        )));
    }
    let params =
        using.iter().map(|v| there.user_variables.get(&v.to_lowercase()).map_or(VarValue::Null, var_value)).collect();
    there.process().counters.count(&parsed.statement);
    super::run(&mut there, &prepared.source, &parsed, params).await
}

fn parse(text: &str, options: &ParseOptions) -> Result<Parsed> {
    let mut statements = dipper_dialect::parser::parse(text, options)?;
    match (statements.pop(), statements.len()) {
        (Some(parsed), 0) => Ok(parsed),
        (last, before) => {
            let found = before + usize::from(last.is_some());
            Err(EngineError::invalid(format!("PREPARE takes one statement, found {found}")))
        }
    }
}

pub(super) fn deallocate(session: &mut Session, name: &str) -> Result<Outcome> {
    session.prepared.remove(&name.to_lowercase()).ok_or_else(|| unknown(name, "DEALLOCATE PREPARE"))?;
    Ok(Outcome::ok())
}

fn unknown(name: &str, statement: &str) -> EngineError {
    EngineError::new(
        ErrorKind::NoStatement,
        format!("Unknown prepared statement handler ({name}) given to {statement}; PREPARE it first"),
    )
}
