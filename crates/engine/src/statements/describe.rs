//! DESCRIBE, and SHOW COLUMNS, which shows the same in MySQL's columns.

use dipper_dialect::statement::{DescribeTarget, Name};
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
use dipper_lake::columns::ColumnInfo;

/// Runs DESCRIBE, with Doris's columns; `extended` adds the comments.
pub(super) async fn describe(session: &mut Session, target: &DescribeTarget, extended: bool) -> Result<Outcome> {
    let (described, pattern) = match target {
        DescribeTarget::Table { name, column } => (of_table(session, name).await?, column.as_deref()),
        DescribeTarget::Query(query) => (of_query(session, query).await?, None),
    };
    let mut heads = vec!["Field", "Type", "Null", "Key", "Default", "Extra"];
    if extended {
        heads.push("Comment");
    }
    let mut sheet = Sheet::texts(&heads);
    for column in described {
        let mut row: Vec<Cell> = vec![
            column.name.into(),
            column.type_text.into(),
            if column.nullable { "Yes" } else { "No" }.into(),
            if column.key { "true" } else { "false" }.into(),
            column.default.into(),
            column.extra.into(),
        ];
        if extended {
            row.push(column.comment.into());
        }
        sheet.push_row(row);
    }
    if let Some(pattern) = pattern {
        sheet.retain(0, |name| like(pattern, name));
    }
    sheet.into_outcome()
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

async fn of_table(session: &Session, name: &Name) -> Result<Vec<ColumnInfo>> {
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
