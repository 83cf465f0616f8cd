//! SHOW in all its forms: rows under MySQL's (or Doris's) column names, then LIKE or WHERE, then LIMIT.

mod catalog;
mod external;
mod lists;
mod native;
mod proc;
mod profile;
mod server;

use dipper_base::names::CATALOG;
use dipper_dialect::error::SqlError;
use dipper_dialect::parser::ParseOptions;
use dipper_dialect::statement::{QueryText, Scope, Show, ShowFilter, ShowKind, Statement};
use dipper_exec::on_cpu::on_cpu;
use dipper_lake::sheet::{self, Kind, Sheet};
use dipper_lake::virtual_tables::{no_rows, partitions};

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::compute::concat_batches;
use arrow::record_batch::RecordBatch;
use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, MemoryCatalogProvider, MemoryCatalogProviderList, MemorySchemaProvider,
    SchemaProvider,
};
use datafusion::datasource::MemTable;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::collect;
use datafusion::sql::parser::Statement as DfStatement;
use dipper_sql::charter::prepare_query;
use dipper_sql::charter::session::{Context, ResolvedTable, Schemas, TableRef};
use sqlparser::ast;

use super::{access, functions};
use crate::error::{EngineError, ErrorKind, Result};
use crate::info_schema::INFORMATION_SCHEMA;
use crate::query;
use crate::result::Outcome;
use crate::session::Session;
use crate::tables::TableSet;

/// Runs SHOW.
pub(super) async fn show(session: &mut Session, show: &Show) -> Result<Outcome> {
    let mut rows = match (&show.kind, &show.filter) {
        // SHOW VARIABLES has Doris's four columns. SHOW GLOBAL VARIABLES has the last two only if the condition names
        // one of them: programs that watch servers read exactly the two columns of MySQL.
        (ShowKind::Variables(Scope::Session), _) => server::verbose_variables(session, "Default_Value", "Changed"),
        (ShowKind::Variables(_), Some(ShowFilter::Where(condition))) if names_changed(condition) => {
            server::verbose_variables(session, "Default_Value", "Changed")
        }
        (kind, _) => rows(session, kind).await?,
    };
    rows.order_by(&show.order_by)?;
    let (offset, count) = show.limit.unwrap_or((0, u64::MAX));
    match &show.filter {
        None => {}
        // As in MySQL, LIKE applies to the first column. The first column of SHOW CATALOGS is a number, so LIKE applies
        // to the name after it.
        Some(ShowFilter::Like(pattern)) => {
            let column = usize::from(matches!(show.kind, ShowKind::Catalogs));
            rows.retain(column, |text| like(pattern, text));
        }
        Some(ShowFilter::Where(condition)) => {
            let batch = filter(session, rows.into_batch()?, condition).await?;
            let offset = usize::try_from(offset).unwrap_or(usize::MAX).min(batch.num_rows());
            let count = usize::try_from(count).unwrap_or(usize::MAX).min(batch.num_rows() - offset);
            return Ok(sheet::outcome(batch.slice(offset, count)));
        }
    }
    rows.limit(offset, count);
    rows.into_outcome()
}

/// Whether a condition names one of the last two columns of Doris's SHOW VARIABLES.
fn names_changed(condition: &ast::Expr) -> bool {
    let is_named = |expr: &ast::Expr| {
        matches!(expr, ast::Expr::Identifier(name)
            if ["changed", "default_value"].iter().any(|column| name.value.eq_ignore_ascii_case(column)))
    };
    ast::visit_expressions(condition, |expr| match is_named(expr) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    })
    .is_break()
}

async fn rows(session: &mut Session, kind: &ShowKind) -> Result<Sheet> {
    match kind {
        ShowKind::Databases { from } => catalog::databases(session, from.as_ref()).await,
        ShowKind::Tables { full, from } => catalog::tables(session, from.as_ref(), *full).await,
        ShowKind::Views { from } => catalog::views(session, from.as_ref()).await,
        ShowKind::TableStatus { from } => catalog::table_status(session, from.as_ref()).await,
        ShowKind::CreateTable(name) => catalog::create_table(session, name).await,
        ShowKind::CreateView(name) => catalog::create_view(session, name).await,
        ShowKind::CreateMaterializedView { name, table } => {
            catalog::create_materialized_view(session, name, table.as_ref()).await
        }
        ShowKind::ViewsOver(name) => catalog::views_over(session, name).await,
        ShowKind::CreateDatabase(name) => catalog::create_database(session, name).await,
        ShowKind::Columns { full, table } => super::describe::columns(session, table, *full).await,
        ShowKind::Index(table) => catalog::index(session, table).await,
        ShowKind::Partitions { table, temporary, spec } => catalog::partitions(session, table, *temporary, spec).await,
        ShowKind::Tablets { table, partitions } => native::tablets(session, table, partitions).await,
        ShowKind::Data { table, all: _ } => native::data(session, table.as_ref()).await,
        ShowKind::Config { .. } => Ok(server::config(session)),
        ShowKind::TableStats(table) => native::table_stats(session, table).await,
        ShowKind::ColumnStats { table, columns } => native::column_stats(session, table, columns).await,
        ShowKind::Variables(scope) => Ok(server::variables(session, *scope)),
        ShowKind::Status(scope) => Ok(server::status(session, *scope)),
        ShowKind::Processlist { full } => server::processlist(session, *full),
        ShowKind::Warnings { count } => Ok(server::warnings(session, *count, false)),
        ShowKind::Errors { count } => Ok(server::warnings(session, *count, true)),
        ShowKind::Engines => Ok(server::engines()),
        ShowKind::Charset => Ok(server::charset()),
        ShowKind::Collation => Ok(server::collation()),
        ShowKind::Plugins => Ok(server::plugins()),
        ShowKind::Privileges => Ok(server::privileges()),
        ShowKind::Grants { user, all: false } => access::grants(session, user.as_ref()).await,
        ShowKind::Grants { all: true, .. } => access::all_grants(session).await,
        ShowKind::RoleGrants(role) => access::role_grants(session, role).await,
        ShowKind::Authentication { user, all } => access::authentication(session, user.as_ref(), *all).await,
        ShowKind::Roles => access::roles(session).await,
        ShowKind::CreateUser(user) => access::create_user(session, user).await,
        ShowKind::Properties { user, all } => access::properties(session, user.as_deref(), *all).await,
        ShowKind::Functions { full, scope, from } => {
            if let Some(from) = from {
                catalog::database(session, Some(from)).await?;
            }
            Ok(functions::list(session, *full, *scope, from.as_ref()))
        }
        ShowKind::CreateFunction(function) => functions::show_create(session, function).await,
        ShowKind::Triggers => no_rows::list("TRIGGERS"),
        ShowKind::Events => no_rows::list("EVENTS"),
        ShowKind::ProcedureStatus => no_rows::list("PROCEDURE STATUS"),
        ShowKind::OpenTables => Ok(Sheet::new(&[
            ("Database", Kind::Text),
            ("Table", Kind::Text),
            ("In_use", Kind::Int),
            ("Name_locked", Kind::Int),
        ])),
        ShowKind::Catalogs => external::catalogs(session).await,
        ShowKind::Catalog(name) => external::properties(session, name).await,
        ShowKind::CreateCatalog(name) => external::create_catalog(session, name).await,
        ShowKind::Volumes => super::volumes::list(session).await,
        ShowKind::Volume(name) => super::volumes::describe(session, name).await,
        ShowKind::Proc(path) => proc::show(session, path).await,
        ShowKind::Backends => Ok(server::backends(session)),
        ShowKind::Frontends => Ok(server::frontends(session)),
        ShowKind::VerboseVariables => Ok(server::verbose_variables(session, "Default_value", "Is_changed")),
        ShowKind::ProfileSteps(query) => profile::steps(session, *query),
        ShowKind::Profile { list: true, .. } => Ok(profile::profiles(session)),
        ShowKind::Profile { id, loads, .. } => profile::profile(session, id.as_deref(), *loads),
        ShowKind::AlterTable { job, from } if job == "COLUMN" => server::alters(session, from.as_ref()),
        ShowKind::AlterTable { .. } => no_rows::list("ALTER TABLE"),
        ShowKind::Load { stream, from } => server::loads(session, *stream, from.as_ref()).await,
        ShowKind::LoadWarnings { url: Some(url), .. } => server::load_warnings(session, url).await,
        ShowKind::LoadWarnings { url: None, from } => server::load_warnings_of(session, from.as_ref()).await,
        ShowKind::Transaction { from, id } => server::transactions(session, from.as_ref(), *id).await,
        ShowKind::Replicas { distribution: false, table, partitions } => {
            native::replicas(session, table, partitions).await
        }
        ShowKind::Replicas { distribution: true, table, partitions } => {
            native::distribution(session, table, partitions).await
        }
        ShowKind::DataSkew { table, partitions } => native::skew(session, table, partitions).await,
        ShowKind::Tablet(id) => {
            native::numbered(session, Sheet::texts(partitions::TABLET), |sheet, database, table, state| {
                partitions::find_tablet(sheet, *id, database, table, state);
            })
            .await
        }
        ShowKind::Partition(id) => {
            native::numbered(session, Sheet::texts(partitions::PARTITION), |sheet, database, table, state| {
                partitions::find_partition(sheet, *id, database, table, state);
            })
            .await
        }
        ShowKind::Constraints(table) => native::constraints(session, table).await,
        ShowKind::TemporaryTables(from) => catalog::temporary_tables(session, from.as_ref()).await,
        ShowKind::DynamicPartitions(from) => lists::dynamic_partitions(session, from.as_ref()).await,
        ShowKind::Other(words) => match lists::list(session, words).await? {
            Some(sheet) => Ok(sheet),
            None => no_rows::list(words),
        },
    }
}

/// Returns the rows for which `condition` is true, by the rules of queries.
async fn filter(session: &Session, batch: RecordBatch, condition: &ast::Expr) -> Result<RecordBatch> {
    let context = session.query_context_now();
    let options = session.variables.parse_options();
    let query = with_condition(&format!("SELECT * FROM `{RESULT}`"), &options, condition)?;
    let threads = session.engine.short().clone();
    on_cpu(&threads, async move {
        let schema = batch.schema();
        let columns = schema.fields().iter().map(|f| f.name().clone()).collect();
        let prepared = {
            let schemas = OneResult { columns };
            let charter = Context { schemas: &schemas, variables: context.as_ref(), parameters: None };
            prepare_query(&query, &charter)?
        };
        let table = MemTable::try_new(Arc::clone(&schema), vec![vec![batch]])?;
        let database = MemorySchemaProvider::new();
        database.register_table(RESULT.into(), Arc::new(table))?;
        let catalog = MemoryCatalogProvider::new();
        catalog.register_schema(INFORMATION_SCHEMA, Arc::new(database))?;
        let catalogs = MemoryCatalogProviderList::new();
        catalogs.register_catalog(CATALOG.into(), Arc::new(catalog));
        let state = query::session_state(&context, &TableSet::default());
        let state = SessionStateBuilder::new_from_existing(state).with_catalog_list(Arc::new(catalogs)).build();
        let statement = ast::Statement::Query(prepared.query.clone());
        let logical = state.statement_to_plan(DfStatement::Statement(Box::new(statement))).await?;
        let physical = state.create_physical_plan(&logical).await?;
        let batches = collect(physical, state.task_ctx()).await?;
        let batches = batches.iter().map(|b| rebind(&schema, b)).collect::<Result<Vec<_>>>()?;
        concat_batches(&schema, &batches).map_err(|e| EngineError::new(ErrorKind::Internal, e.to_string()))
    })
    .await
}

/// Name of the result as a table while the condition is evaluated.
const RESULT: &str = "show";

/// Resolves the one table to which a condition of SHOW applies.
struct OneResult {
    columns: Vec<String>,
}

impl Schemas for OneResult {
    fn resolve(&self, table: &TableRef) -> std::result::Result<Option<ResolvedTable>, SqlError> {
        let is_result = matches!(table, TableRef::Named { name, .. } if name.0 == [RESULT]);
        Ok(is_result.then(|| ResolvedTable {
            columns: self.columns.clone(),
            reference: Some([CATALOG, INFORMATION_SCHEMA, RESULT].map(String::from).to_vec()),
            place: None,
        }))
    }
}

/// Renames the columns of a batch to those of SHOW; the plan has names of its own.
fn rebind(schema: &arrow::datatypes::SchemaRef, batch: &RecordBatch) -> Result<RecordBatch> {
    RecordBatch::try_new(Arc::clone(schema), batch.columns().to_vec())
        .map_err(|e| EngineError::new(ErrorKind::Internal, e.to_string()))
}

/// Adds a WHERE clause to `sql`, a plain SELECT made here.
fn with_condition(sql: &str, options: &ParseOptions, condition: &ast::Expr) -> Result<QueryText> {
    let parsed = dipper_dialect::parser::parse(sql, options)?;
    let Some(Statement::Query(mut query)) = parsed.into_iter().next().map(|p| p.statement) else {
        return Err(EngineError::new(ErrorKind::Internal, format!("'{sql}' is not a query")));
    };
    match query.ast.body.as_mut() {
        ast::SetExpr::Select(select) => select.selection = Some(condition.clone()),
        _ => return Err(EngineError::new(ErrorKind::Internal, format!("'{sql}' is not a SELECT"))),
    }
    Ok(query)
}

/// Matches MySQL's LIKE without regard to case: `%` is any characters, `_` is one, and `\` takes the next character
/// literally. Needs at most as many steps as the product of the two lengths.
pub fn like(pattern: &str, text: &str) -> bool {
    enum Piece {
        Any,
        One,
        Exactly(char),
    }
    let mut pieces = Vec::new();
    let lower: Vec<char> = pattern.to_lowercase().chars().collect();
    let mut at = 0;
    while at < lower.len() {
        pieces.push(match lower[at] {
            '%' => Piece::Any,
            '_' => Piece::One,
            '\\' if at + 1 < lower.len() => {
                at += 1;
                Piece::Exactly(lower[at])
            }
            c => Piece::Exactly(c),
        });
        at += 1;
    }
    let text: Vec<char> = text.to_lowercase().chars().collect();
    // Position for the next attempt: the last `%`, and how much of the text it has taken.
    let mut again: Option<(usize, usize)> = None;
    let (mut p, mut t) = (0, 0);
    while t < text.len() {
        match pieces.get(p) {
            Some(Piece::Any) => {
                again = Some((p, t));
                p += 1;
                continue;
            }
            Some(Piece::One) => {
                (p, t) = (p + 1, t + 1);
                continue;
            }
            Some(Piece::Exactly(c)) if *c == text[t] => {
                (p, t) = (p + 1, t + 1);
                continue;
            }
            _ => {}
        }
        let Some((any, taken)) = again else { return false };
        again = Some((any, taken + 1));
        (p, t) = (any + 1, taken + 1);
    }
    pieces[p..].iter().all(|piece| matches!(piece, Piece::Any))
}

#[cfg(test)]
mod tests {
    use super::like;

    #[test]
    fn patterns_match_as_in_mysql() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("%", "", true),
            ("_", "", false),
            ("abc", "ABC", true),
            ("a%", "abc", true),
            ("%c", "abc", true),
            ("a%b%c", "aXXbYbZc", true),
            ("a%b%c", "aXXbYbZ", false),
            ("a_c", "abc", true),
            ("a\\_c", "abc", false),
            ("a\\_c", "a_c", true),
            ("%sql\\_mode%", "sql_mode", true),
            ("100\\%", "100%", true),
            ("ü_", "Üx", true),
            ("a\\", "a\\", true),
            ("%%%x", "yyyx", true),
        ] {
            assert_eq!(like(pattern, text), expected, "{text} LIKE {pattern}");
        }
    }

    #[test]
    fn many_wildcards_take_linear_steps() {
        let text = "a".repeat(20_000);
        assert!(!like(&"%a".repeat(500).replace('a', "ab"), &text));
    }
}
