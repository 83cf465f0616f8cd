//! The virtual databases `information_schema`, `mysql`, `performance_schema`, `sys`, `_statistics_` and
//! `__internal_schema`: data of the catalog, the session and the registry of processes under the column names of MySQL,
//! Doris and StarRocks.
//!
//! A virtual table makes its rows when it is scanned. It gets the filters of the query only to avoid work: a query for
//! the columns of one table plans one view instead of all ([`Wanted`]). The plan evaluates the filters again above the
//! scan.

mod access;
pub(crate) mod columns;
mod config;
pub(crate) mod external;
pub(crate) mod facts;
mod fills;
pub(crate) mod functions;
mod keys;
mod loads;
pub(crate) mod measures;
pub(crate) mod nodes;
mod objects;
mod server;

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::ScalarValue;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use dipper_lake::sheet::{self, Sheet};
pub(crate) use dipper_lake::virtual_tables::{
    INFORMATION_SCHEMA, MYSQL, columns_of, is_everywhere, is_reserved, is_virtual,
};
use dipper_lake::virtual_tables::{Virtual, all, find, words};
use dipper_store::catalog::{CatalogState, ExternalCatalog};

use crate::context::QueryContext;
use crate::error::{EngineError, Result};
use fills::Fill;

pub(crate) use config::views_over;
pub(crate) use objects::{FILES_ENGINE, NATIVE_ENGINE, comment_and_facts, databases, states};
pub(crate) use server::{PRIVILEGES, engines, is_default as is_default_collation, millis, processes, status};

/// The catalog's name in information_schema, as in Doris.
pub(crate) const CATALOG_NAME: &str = dipper_base::names::CATALOG;

/// Returns the names of the tables of a virtual database; empty for another database.
pub(crate) fn tables(state: &CatalogState, database: &str) -> Vec<&'static str> {
    let of = all().filter(|t| t.database.eq_ignore_ascii_case(database) && is_virtual(state, database));
    let mut names: Vec<_> = of.map(|t| t.name).collect();
    names.sort_unstable();
    names
}

/// Returns a table of a virtual database; `None` if there is none of this name. Every catalog has the virtual
/// databases; those of an external catalog describe its objects, and the same server.
pub(crate) fn table(
    context: &Arc<QueryContext>,
    external: Option<Arc<ExternalCatalog>>,
    database: &str,
    table: &str,
) -> Option<Arc<dyn TableProvider>> {
    find(database, table).filter(|_| is_virtual(&context.catalog, database)).map(|definition| {
        let schema = words::marked(definition.database, &sheet::schema(definition.head.iter().copied()));
        Arc::new(InfoTable { context: Arc::clone(context), external, definition, schema }) as Arc<dyn TableProvider>
    })
}

/// Makes the rows of a virtual table that a query may want.
async fn rows(table: &InfoTable, wanted: &Wanted) -> Result<Sheet> {
    let InfoTable { context, external, definition, .. } = table;
    let mut sheet = Sheet::new(&definition.head);
    if let Some(catalog) = external.as_ref().filter(|_| definition.database == INFORMATION_SCHEMA)
        && external::rows(context, catalog, definition.name, wanted, &mut sheet).await?
    {
        return Ok(sheet);
    }
    match fills::of(definition.rows) {
        Fill::Empty => {}
        Fill::Now(fill) => fill(context, wanted, &mut sheet)?,
        Fill::Later(fill) => fill(context, wanted, &mut sheet).await?,
    }
    Ok(sheet)
}

/// Names that a query asks for; `None` = any. Rows of other names may be left out, but do no harm.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    databases: Option<BTreeSet<String>>,
    tables: Option<BTreeSet<String>>,
}

impl Wanted {
    fn from_filters(filters: &[Expr]) -> Wanted {
        let mut wanted = Wanted::default();
        for filter in filters {
            wanted.narrow(filter);
        }
        wanted
    }

    fn narrow(&mut self, filter: &Expr) {
        let (column, values) = match filter {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
                self.narrow(left);
                self.narrow(right);
                return;
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
                let pair = column_name(left).zip(text(right)).or_else(|| column_name(right).zip(text(left)));
                let Some((column, value)) = pair else { return };
                (column, BTreeSet::from([value]))
            }
            Expr::InList(list) if !list.negated => {
                let values: Option<BTreeSet<String>> = list.list.iter().map(text).collect();
                match column_name(&list.expr).zip(values) {
                    Some(pair) => pair,
                    None => return,
                }
            }
            _ => return,
        };
        let narrowed = match column {
            "TABLE_SCHEMA" | "SCHEMA_NAME" => &mut self.databases,
            "TABLE_NAME" => &mut self.tables,
            _ => return,
        };
        *narrowed = Some(match narrowed.take() {
            Some(before) => before.intersection(&values).cloned().collect(),
            None => values,
        });
    }

    fn database(&self, name: &str) -> bool {
        self.databases.as_ref().is_none_or(|d| d.contains(name))
    }

    fn table(&self, name: &str) -> bool {
        self.tables.as_ref().is_none_or(|t| t.contains(name))
    }
}

/// Returns the name of a column, if the expression is one, perhaps cast to another string type.
fn column_name(e: &Expr) -> Option<&str> {
    match e {
        Expr::Column(c) => Some(&c.name),
        Expr::Cast(c) if c.field.data_type().is_string() => column_name(&c.expr),
        Expr::TryCast(c) if c.field.data_type().is_string() => column_name(&c.expr),
        _ => None,
    }
}

fn text(e: &Expr) -> Option<String> {
    match e {
        Expr::Literal(ScalarValue::Utf8(s) | ScalarValue::Utf8View(s) | ScalarValue::LargeUtf8(s), _) => s.clone(),
        _ => None,
    }
}

struct InfoTable {
    context: Arc<QueryContext>,
    /// The external catalog that the table describes; `None` for dipper's own.
    external: Option<Arc<ExternalCatalog>>,
    definition: &'static Virtual,
    schema: SchemaRef,
}

impl std::fmt::Debug for InfoTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.definition.database, self.definition.name)
    }
}

#[async_trait]
impl TableProvider for InfoTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DfResult<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let wanted = Wanted::from_filters(filters);
        let sheet = rows(self, &wanted).await.map_err(EngineError::into_datafusion)?;
        let batch = sheet.into_batch().map_err(EngineError::into_datafusion)?.with_schema(Arc::clone(&self.schema))?;
        Ok(MemorySourceConfig::try_new_exec(&[vec![batch]], Arc::clone(&self.schema), projection.cloned())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::util::display::array_value_to_string;
    use datafusion::prelude::{col, lit};
    use futures::StreamExt;

    #[test]
    fn names_are_found_in_any_case() {
        assert!(
            ["INFORMATION_SCHEMA", "mysql", "performance_schema", "Sys"].iter().all(|name| is_reserved(name))
                && !is_everywhere("sys")
                && !is_reserved("default")
        );
        assert!(find("Information_Schema", "COLUMNS").is_some());
        assert!(find("mysql", "columns").is_none());
        let names = tables(&CatalogState::default(), "information_schema");
        assert!(names.contains(&"tables") && names.is_sorted());
    }

    /// Runs a statement. Returns its rows, cells joined by commas, or the number of its error.
    async fn run(session: &mut crate::Session, sql: &str) -> std::result::Result<Vec<String>, u16> {
        let parsed = session.parse(sql).map_err(|e| e.code)?.remove(0);
        let mut lines = Vec::new();
        if let crate::Outcome::Rows(rows) = session.execute(sql, &parsed, Vec::new()).await.map_err(|e| e.code)? {
            for batch in rows.batches.collect::<Vec<_>>().await {
                let batch = batch.unwrap();
                let text = |column: &arrow::array::ArrayRef, row| array_value_to_string(column, row).unwrap();
                let line = |row| batch.columns().iter().map(|c| text(c, row)).collect::<Vec<_>>().join(",");
                lines.extend((0..batch.num_rows()).map(line));
            }
        }
        Ok(lines)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_database_that_had_the_name_before_is_read_and_guarded() {
        let options = crate::EngineOptions { threads: Some(2), ..crate::EngineOptions::default() };
        let engine = crate::Engine::open(options).await.unwrap();
        let client = |user: &str| crate::ClientInfo {
            user: user.into(),
            ..crate::ClientInfo::local(engine.next_connection_id())
        };
        let mut root = engine.session(client("root"));
        run(&mut root, "create user u").await.unwrap();
        let mut other = engine.session(client("u"));
        for name in ["sys", "mysql"] {
            for sql in [format!("create database {name}"), format!("create database if not exists {name}")] {
                assert_eq!(run(&mut root, &sql).await, Err(1007), "{sql}");
            }
            assert_eq!(run(&mut root, &format!("create table {name}.t (k int)")).await, Err(1227));
            let before = run(&mut root, &format!("show tables from {name}")).await.unwrap();
            assert!(before.len() > 3, "{before:?}");

            // A database that an older version created.
            let made = dipper_store::catalog::CatalogChange::create_database(name, false);
            engine.catalog.commit(vec![made]).await.unwrap();
            let table = format!("create table {name}.t (k int) duplicate key(k) distributed by hash(k) buckets 1");
            run(&mut root, &table).await.unwrap();
            run(&mut root, &format!("insert into {name}.t values (7)")).await.unwrap();
            let read = format!("select * from {name}.t");
            assert_eq!(run(&mut root, &read).await.unwrap(), ["7"]);
            assert_eq!(run(&mut root, &format!("show tables from {name}")).await.unwrap(), ["t"]);
            let told = format!("select table_name from information_schema.tables where table_schema = '{name}'");
            assert_eq!(run(&mut root, &told).await.unwrap(), ["t"]);
            let databases = run(&mut root, "show databases").await.unwrap();
            assert_eq!(databases.iter().filter(|d| *d == name).count(), 1);

            // The right to read the virtual tables is not a right to read this database.
            assert_eq!(run(&mut other, &read).await, Err(1142));
            assert_eq!(run(&mut other, &format!("use {name}")).await, Err(1044));
            run(&mut root, &format!("grant select on {name}.* to u")).await.unwrap();
            assert_eq!(run(&mut other, &read).await.unwrap(), ["7"]);

            run(&mut root, &format!("alter database {name} rename kept_{name}")).await.unwrap();
            assert_eq!(run(&mut root, &format!("select * from kept_{name}.t")).await.unwrap(), ["7"]);
            assert_eq!(run(&mut root, &format!("show tables from {name}")).await.unwrap(), before);
        }
    }

    #[test]
    fn filters_narrow_only_where_they_are_sure() {
        let schema = || Expr::Column(datafusion::common::Column::from_name("TABLE_SCHEMA"));
        let name = || Expr::Column(datafusion::common::Column::from_name("TABLE_NAME"));
        let w = Wanted::from_filters(&[schema().eq(lit("a")).and(name().in_list(vec![lit("x"), lit("y")], false))]);
        assert!(w.database("a") && !w.database("b") && w.table("y") && !w.table("z"));
        let w = Wanted::from_filters(&[schema().eq(lit("a")).or(name().eq(lit("x")))]);
        assert_eq!(w, Wanted::default());
        let w = Wanted::from_filters(&[name().in_list(vec![lit("x")], true), schema().eq(col("other"))]);
        assert_eq!(w, Wanted::default());
        let w = Wanted::from_filters(&[schema().eq(lit("a")), schema().eq(lit("b"))]);
        assert!(!w.database("a") && !w.database("b"));
    }
}
