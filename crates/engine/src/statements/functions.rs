//! CREATE ALIAS FUNCTION, DROP FUNCTION, and what SHOW says of functions.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use dipper_base::types::SqlType;
use dipper_dialect::parser::{expr_for, parse_expr};
use dipper_dialect::statement::{CreateFunction, DropFunction, FunctionName, FunctionScope, Name, Statement};
use dipper_lake::sheet::Sheet;
use dipper_sql::charter::alias_functions::misfit;
use dipper_store::catalog::{AliasFunction, CatalogChange, CatalogState};

use super::{ddl, qualified};
use crate::context::QueryContext;
use crate::error::{EngineError, Result};
use crate::query;
use crate::result::Outcome;
use crate::session::Session;

/// `ER_SP_DOES_NOT_EXIST`.
const NO_FUNCTION: u16 = 1305;

pub(super) async fn create(session: &mut Session, create: &CreateFunction) -> Result<Outcome> {
    let (database, name) = place(session, create.global, &create.name)?;
    let refused = |why: &str| Err(EngineError::invalid(format!("function {name}: {why}")));
    let mut seen = create.parameters.iter().enumerate();
    if seen.any(|(at, name)| create.parameters[..at].iter().any(|other| other.eq_ignore_ascii_case(name))) {
        return refused("two parameters have the same name");
    }
    if session.engine.functions().iter().any(|(known, _)| known.eq_ignore_ascii_case(&name)) {
        return refused("this is the name of a function that dipper has");
    }
    let options = session.parse_options();
    if let Some(what) = misfit(&parse_expr(&create.text, &options)?) {
        return Err(EngineError::unsupported(format!("function {name}: {what} in its expression")));
    }
    let function = AliasFunction {
        name: name.clone(),
        types: texts(&create.types),
        parameters: create.parameters.clone(),
        sql: create.text.clone(),
        sql_mode: session.variables.get("sql_mode").unwrap_or_default(),
        created_ms: chrono::Utc::now().timestamp_millis(),
    };
    let change = CatalogChange::CreateFunction { db: database.clone(), function, if_not_exists: create.if_not_exists };
    check(session, &change, database.as_deref(), &name, create.types.len()).await?;
    commit(session, database.as_deref(), vec![change]).await
}

/// Plans a call of the function that a change would make.
async fn check(
    session: &Session,
    change: &CatalogChange,
    database: Option<&str>,
    name: &str,
    arguments: usize,
) -> Result<()> {
    let context = session.query_context().await?;
    let mut state = CatalogState::clone(&context.permanent);
    if let Some(database) = database.filter(|name| state.database(name).is_none()) {
        state.apply(&CatalogChange::create_database(database, true))?;
    }
    state.apply(change)?;
    let context = QueryContext { permanent: Arc::new(state), ..context.as_ref().clone() };
    let name = Name(database.into_iter().chain([name]).map(str::to_string).collect());
    let call = format!("SELECT {name}({})", vec!["NULL"; arguments].join(", "));
    let Some(Statement::Query(call)) = session.parse(&call)?.pop().map(|parsed| parsed.statement) else {
        return Err(EngineError::invalid(format!("'{name}' is no name of a function")));
    };
    let planned = query::plan_elsewhere(&Arc::new(context), &call).await?;
    let mut gathers = false;
    planned.logical.apply(|node| {
        gathers |= matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Unnest(_));
        Ok(TreeNodeRecursion::Continue)
    })?;
    match gathers {
        true => Err(EngineError::unsupported(format!("function {name}: an aggregate or window in its expression"))),
        false => Ok(()),
    }
}

pub(super) async fn drop(session: &mut Session, drop: &DropFunction) -> Result<Outcome> {
    let FunctionName { global, name, types } = &drop.function;
    let (database, name) = place(session, *global, name)?;
    let state = session.engine.catalog.refresh().await?;
    let types = types.as_ref().map(|types| texts(types));
    let of_name = |function: &&AliasFunction| function.name.eq_ignore_ascii_case(&name);
    let found: Vec<Vec<String>> = (functions(&state, database.as_deref()).iter().filter(of_name))
        .map(|function| function.types.clone())
        .filter(|there| types.as_ref().is_none_or(|types| types == there))
        .collect();
    if found.is_empty() {
        let shown = types.map(|types| format!("({})", types.join(", "))).unwrap_or_default();
        let missing = format!("FUNCTION {}{shown} does not exist", own_name(database.as_deref(), &name));
        if drop.if_exists {
            session.note(NO_FUNCTION, missing);
            return Ok(Outcome::ok());
        }
        return Err(EngineError { code: NO_FUNCTION, ..EngineError::invalid(missing) });
    }
    let change = |types| CatalogChange::DropFunction {
        db: database.clone(),
        name: name.clone(),
        types,
        if_exists: drop.if_exists,
    };
    let changes = found.into_iter().map(change).collect();
    commit(session, database.as_deref(), changes).await
}

/// Lists functions: those that users have defined, then those that dipper has.
pub(super) fn list(session: &Session, full: bool, scope: FunctionScope, from: Option<&Name>) -> Sheet {
    let mut sheet = match full {
        true => Sheet::texts(&["Function Name", "Function Type"]),
        false => Sheet::texts(&["Function Name"]),
    };
    let mut push = |name: &str, kind: &str| match full {
        true => sheet.push([name.into(), kind.into()]),
        false => sheet.push([name.into()]),
    };
    let state = session.engine.catalog.snapshot();
    let database = from.map(Name::object).or(session.database());
    let (own, global): (&[AliasFunction], &[AliasFunction]) = match scope {
        FunctionScope::All => (database.map_or(&[], |name| functions(&state, Some(name))), functions(&state, None)),
        FunctionScope::Global => (&[], functions(&state, None)),
        FunctionScope::Builtin => (&[], &[]),
    };
    for function in own.iter().chain(global) {
        push(&if full { function.signature() } else { function.name.clone() }, "alias");
    }
    if scope != FunctionScope::Global {
        session.engine.functions().iter().for_each(|(name, kind)| push(name, kind));
    }
    sheet
}

/// Shows the statement that would define a function anew.
pub(super) async fn show_create(session: &Session, function: &FunctionName) -> Result<Sheet> {
    let FunctionName { global, name, types } = function;
    // As in Doris, FROM says nothing of a GLOBAL function.
    let (database, name) = match global {
        true => (None, name.object().to_string()),
        false => place(session, false, name)?,
    };
    let state = session.engine.catalog.refresh().await?;
    let types = types.as_ref().map(|types| texts(types));
    let mut sheet = Sheet::texts(&["Function Signature", "Create Function"]);
    for function in functions(&state, database.as_deref()) {
        let is_it = function.name.eq_ignore_ascii_case(&name);
        if is_it && types.as_ref().is_none_or(|types| *types == function.types) {
            let global = if *global { "GLOBAL " } else { "" };
            let (signature, parameters) = (function.signature(), function.parameters.join(", "));
            let body = expr_for(&function.sql, &function.sql_mode, &session.parse_options());
            let text = format!("CREATE {global}ALIAS FUNCTION {signature} WITH PARAMETER({parameters}) AS {body}");
            sheet.push([signature.as_str().into(), text.as_str().into()]);
            return Ok(sheet);
        }
    }
    let missing = format!("FUNCTION {} does not exist", own_name(database.as_deref(), &name));
    Err(EngineError { code: NO_FUNCTION, ..EngineError::invalid(missing) })
}

/// The database of a function and its name; no database if the function belongs to all of them.
fn place(session: &Session, global: bool, name: &Name) -> Result<(Option<String>, String)> {
    if !global {
        let (database, name) = qualified(session, name)?;
        return Ok((Some(database), name));
    }
    match name.database() {
        Some(_) => Err(EngineError::invalid(format!("'{name}': a GLOBAL function is in no database"))),
        None => Ok((None, name.object().to_string())),
    }
}

fn functions<'a>(state: &'a CatalogState, database: Option<&str>) -> &'a [AliasFunction] {
    match database {
        Some(name) => state.database(name).map_or(&[], |database| &database.functions),
        None => &state.functions,
    }
}

fn texts(types: &[SqlType]) -> Vec<String> {
    types.iter().map(SqlType::to_string).collect()
}

fn own_name(database: Option<&str>, name: &str) -> String {
    database.into_iter().chain([name]).collect::<Vec<_>>().join(".")
}

async fn commit(session: &Session, database: Option<&str>, changes: Vec<CatalogChange>) -> Result<Outcome> {
    match database {
        Some(database) => ddl::commit(session, database, changes).await?,
        None => {
            session.engine.catalog.commit(changes).await?;
        }
    }
    Ok(Outcome::ok())
}
