//! DESCRIBE, and SHOW COLUMNS, which shows the same in MySQL's columns.

use dipper_dialect::statement::{DescribeDetail, DescribeTarget, Name};
use dipper_exec::on_cpu::on_cpu;
use dipper_lake::sheet::{Cell, Sheet};
use dipper_sql::type_text::type_text;

use super::qualified;
use super::show::like;
use crate::catalogs::{self, Place};
use crate::error::Result;
use crate::info_schema::columns;
use crate::query;
use crate::result::Outcome;
use crate::session::Session;
use crate::tables;
use dipper_lake::columns::{ColumnInfo, description, description_by_index};
use dipper_lake::virtual_tables::keys::keys_type;
use dipper_store::table::schema::{ColumnId, Rollup};

/// Runs DESCRIBE, with Doris's columns.
pub(super) async fn describe(
    session: &mut Session,
    target: &DescribeTarget,
    detail: DescribeDetail,
) -> Result<Outcome> {
    let (described, pattern) = match target {
        DescribeTarget::Table { name, column } => (of_table(session, name).await?, column.as_deref()),
        DescribeTarget::Query(query) => (of_query(session, query).await?, None),
    };
    let (mut sheet, field) = match (detail, target) {
        (DescribeDetail::Indexes, DescribeTarget::Table { name, .. }) => {
            (description_by_index(by_index(session, name, described).await?), 2)
        }
        (detail, _) => (description(described, detail != DescribeDetail::Columns), 0),
    };
    if let Some(pattern) = pattern {
        sheet.retain(field, |name| like(pattern, name));
    }
    sheet.into_outcome()
}

/// Returns the columns of the table itself and of its rollups, each with a name and Doris's kind of the keys. Other
/// objects than native tables have no keys.
async fn by_index(
    session: &Session,
    name: &Name,
    columns: Vec<ColumnInfo>,
) -> Result<Vec<(String, &'static str, Vec<ColumnInfo>)>> {
    let context = session.query_context().await?;
    let native = match session.place(name).await? {
        Place::Internal { database: Some(database) } => context.catalog.table(&database, name.object()).cloned(),
        _ => None,
    };
    let Some(table) = native.filter(|table| table.is_native()) else {
        return Ok(vec![(name.object().to_string(), "", columns)]);
    };
    let state = crate::native::snapshot(&context, table.id).await?;
    let schema = state.schema();
    let of_rollup = |rollup: &Rollup| {
        let ids = rollup.columns.iter().filter_map(|id| Some((*id, &schema.columns[schema.position(*id)?].name)));
        let column = |(id, name): (ColumnId, &String)| {
            let found = columns.iter().find(|column| column.name == *name)?;
            let key = if rollup.keys.is_empty() { found.key } else { rollup.keys.contains(&id) };
            Some(ColumnInfo { key, ..found.clone() })
        };
        (rollup.name.clone(), keys_type(schema), ids.filter_map(column).collect())
    };
    let rollups: Vec<_> = schema.rollups.iter().map(of_rollup).collect();
    Ok(std::iter::once((table.name.clone(), keys_type(schema), columns)).chain(rollups).collect())
}

/// Makes the rows of `SHOW [FULL] COLUMNS`.
pub(super) async fn columns(session: &Session, table: &Name, full: bool) -> Result<Sheet> {
    let mut sheet = match full {
        true => {
            Sheet::texts(&["Field", "Type", "Collation", "Null", "Key", "Default", "Extra", "Privileges", "Comment"])
        }
        false => Sheet::texts(&["Field", "Type", "Null", "Key", "Default", "Extra"]),
    };
    for column in of_table(session, table).await? {
        let is_text = ["string", "char", "varchar"].iter().any(|t| column.type_text.starts_with(t));
        let null = if column.nullable { "YES" } else { "NO" };
        let mut row: Vec<Cell> = vec![column.name.into(), column.type_text.into()];
        if full {
            row.push(is_text.then_some("utf8mb4_0900_bin").into());
        }
        let key = if column.unique { "PRI" } else { "" };
        row.extend([null.into(), key.into(), column.default.into(), column.mysql_extra.into()]);
        if full {
            row.extend(["select,insert,update,references".into(), column.comment.into()]);
        }
        sheet.push_row(row);
    }
    Ok(sheet)
}

/// Describes the columns of a table, a view or a virtual table.
pub(super) async fn of_table(session: &Session, name: &Name) -> Result<Vec<ColumnInfo>> {
    if let Place::External { catalog, database } = session.place(name).await? {
        let database = database.ok_or_else(|| catalogs::no_database_selected(name))?;
        let found = session.engine.lake.find(&catalog, &database, name.object()).await?;
        return found.columns();
    }
    let (database, object) = qualified(session, name)?;
    let context = session.query_context().await?;
    let threads = session.engine.short().clone();
    on_cpu(&threads, async move {
        let described = columns::columns(&context, &database, &object).await?;
        described.ok_or_else(|| tables::no_such_table(&context, Some(&database), &object))
    })
    .await
}

async fn of_query(session: &Session, query: &dipper_dialect::statement::QueryText) -> Result<Vec<ColumnInfo>> {
    let context = session.query_context_for(query).await?;
    let threads = session.engine.short().clone();
    let query = query.clone();
    on_cpu(&threads, async move {
        let planned = query::plan(&context, &query, Some(&[])).await?;
        let info = |c: crate::result::Column| {
            let (type_text, nullable) = (type_text(&c.field), c.field.is_nullable());
            ColumnInfo::plain(c.name, type_text, nullable, String::new())
        };
        Ok(planned.columns().into_iter().map(info).collect())
    })
    .await
}
