//! Columns in the form that DESCRIBE and information_schema show.

use arrow::datatypes::{FieldRef, Schema};
use dipper_node::error::Result;
use dipper_store::catalog::{Column, ExternalTable};

use crate::files::define;
use crate::sheet::{Cell, Sheet};
use dipper_sql::type_text::type_text;

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnInfo {
    /// Name as written in the definition.
    pub name: String,
    /// SQL type as text, for example `array<string>`.
    pub type_text: String,
    /// False for NOT NULL.
    pub nullable: bool,
    /// Comment; empty if there is none.
    pub comment: String,
    /// Whether the value is in the directory's name, rather than in the file.
    pub partition: bool,
    /// Whether it is a key column of a native table.
    pub key: bool,
    /// Whether it is a key column of a table in which no two rows share a key.
    pub unique: bool,
    /// Kind of key that the column is part of, in the words of Doris and StarRocks: `PRI`, `UNI`, `AGG`, `DUP`, or
    /// empty.
    pub key_kind: &'static str,
    /// DEFAULT, as text.
    pub default: Option<String>,
    /// Doris' column Extra: an aggregation, `NONE`, `AUTO_INCREMENT`.
    pub extra: String,
    /// MySQL's column Extra: `auto_increment`.
    pub mysql_extra: String,
}

impl ColumnInfo {
    /// Makes a column of which nothing else is known. The type STRING is shown as `text`, also inside others, as Doris
    /// does, because MySQL has that type too: a client that asks for types would not know `string`.
    pub fn plain(name: String, type_text: String, nullable: bool, comment: String) -> ColumnInfo {
        let type_text = as_text(&type_text);
        let (extra, mysql_extra) = (String::new(), String::new());
        let (partition, key, unique, key_kind, default) = (false, false, false, "", None);
        ColumnInfo { name, type_text, nullable, comment, partition, key, unique, key_kind, default, extra, mysql_extra }
    }
}

/// Returns the text of a type with `text` for each `string`.
fn as_text(type_text: &str) -> String {
    let mut out = String::with_capacity(type_text.len());
    let mut rest = type_text;
    while let Some(at) = rest.find("string") {
        let end = at + "string".len();
        let is_whole = (at == 0 && out.is_empty() || rest[..at].ends_with(['<', ',', ':']))
            && (end == rest.len() || rest[end..].starts_with(['>', ',']));
        out.push_str(&rest[..at]);
        out.push_str(if is_whole { "text" } else { "string" });
        rest = &rest[end..];
    }
    out + rest
}

/// Returns the columns of a table over files of an external catalog; none if only its files know them.
///
/// # Errors
/// `Invalid` if the definition is inconsistent.
pub fn of_external(external: &ExternalTable) -> Result<Vec<ColumnInfo>> {
    Ok(declared(external)?.map(|fields| described(&fields, external)).unwrap_or_default())
}

/// Returns the cells of DESCRIBE, in Doris's order: name, type, whether NULL is allowed, whether it is a key, DEFAULT,
/// Extra.
fn cells(column: ColumnInfo) -> [Cell; 6] {
    [
        column.name.into(),
        column.type_text.into(),
        if column.nullable { "Yes" } else { "No" }.into(),
        if column.key { "true" } else { "false" }.into(),
        column.default.into(),
        column.extra.into(),
    ]
}

/// Makes the rows of DESCRIBE under Doris's names, and the comments behind them if they are asked for.
pub fn description(columns: Vec<ColumnInfo>, comments: bool) -> Sheet {
    let mut heads = vec!["Field", "Type", "Null", "Key", "Default", "Extra"];
    if comments {
        heads.push("Comment");
    }
    let mut sheet = Sheet::texts(&heads);
    for column in columns {
        let comment = comments.then(|| column.comment.clone());
        sheet.push_row(cells(column).into_iter().chain(comment.map(Cell::from)).collect());
    }
    sheet
}

/// Makes the rows of DESC ALL: the columns of each index, given by its name and Doris's kind of its keys, which only
/// the first row of each index shows. An empty row is between two indexes.
pub fn description_by_index(indexes: Vec<(String, &str, Vec<ColumnInfo>)>) -> Sheet {
    let mut sheet = Sheet::texts(&[
        "IndexName",
        "IndexKeysType",
        "Field",
        "Type",
        "InternalType",
        "Null",
        "Key",
        "Default",
        "Extra",
        "Visible",
        "DefineExpr",
        "WhereClause",
    ]);
    for (number, (name, keys, columns)) in indexes.into_iter().enumerate() {
        if number > 0 {
            sheet.push([""; 12].map(Cell::from));
        }
        for (at, column) in columns.into_iter().enumerate() {
            let [index, keys] = if at == 0 { [name.as_str(), keys] } else { ["", ""] };
            let internal = internal_type(&column.type_text);
            let [field, type_text, null, key, default, extra] = cells(column);
            let shown = [index.into(), keys.into(), field, type_text, internal.into()];
            let rest = [null, key, default, extra, "true".into(), "".into(), "".into()];
            sheet.push_row(shown.into_iter().chain(rest).collect());
        }
    }
    sheet
}

/// Returns a type by the names of Doris's storage: `datev2`, `datetimev2(p)`, `decimalv3(p, s)`.
fn internal_type(type_text: &str) -> String {
    let mut out = String::with_capacity(type_text.len() + 8);
    let mut rest = type_text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        // A word before a colon is the name of a field.
        out.push_str(match word {
            word if after.starts_with(':') => word,
            "date" => "datev2",
            "datetime" if after.starts_with('(') => "datetimev2",
            "datetime" => "datetimev2(0)",
            "decimal" => "decimalv3",
            word => word,
        });
        let next = after.chars().next().map_or(0, char::len_utf8);
        out.push_str(&after[..next]);
        rest = &after[next..];
    }
    out
}

/// Returns the columns of a result. `comment` returns the comment of a column by its name.
pub fn schema_columns(schema: &Schema, comment: impl Fn(&str) -> String) -> Vec<ColumnInfo> {
    schema
        .fields()
        .iter()
        .map(|f| ColumnInfo::plain(f.name().clone(), type_text(f), f.is_nullable(), comment(f.name())))
        .collect()
}

/// Returns the fields that the definition alone determines; `None` if they have to be read from the files.
///
/// # Errors
/// `Invalid` if the definition is inconsistent.
pub fn declared(table: &ExternalTable) -> Result<Option<Vec<FieldRef>>> {
    if table.columns.is_empty() {
        return Ok(None);
    }
    let mut fields = match table.format.as_str() {
        // A SerDe can return other types than the declared ones: OpenCSVSerde returns only strings.
        define::FORMAT_TEXT => define::hive_text(table, &[])?.1.fields().to_vec(),
        define::FORMAT_PARQUET => define::fields(&table.columns)?,
        _ => return Ok(None),
    };
    fields.extend(define::fields(&table.partition_columns)?);
    Ok(Some(fields))
}

/// Returns the columns of a table with these fields, described by its definition.
pub fn described(fields: &[FieldRef], table: &ExternalTable) -> Vec<ColumnInfo> {
    let find = |columns: &[Column], name: &str| columns.iter().find(|c| c.name.eq_ignore_ascii_case(name)).cloned();
    fields
        .iter()
        .map(|f| {
            let in_files = find(&table.columns, f.name());
            let partition = find(&table.partition_columns, f.name());
            let definition = in_files.or_else(|| partition.clone());
            let nullable = definition.as_ref().is_none_or(|c| c.nullable);
            let comment = definition.and_then(|c| c.comment).unwrap_or_default();
            let extra = if partition.is_some() { "PARTITION" } else { "" }.to_string();
            ColumnInfo {
                partition: partition.is_some(),
                mysql_extra: extra.clone(),
                extra,
                ..ColumnInfo::plain(f.name().clone(), type_text(f), nullable, comment)
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{as_text, internal_type};

    #[test]
    fn types_have_names_of_storage() {
        for (shown, internal) in [
            ("int", "int"),
            ("date", "datev2"),
            ("datetime", "datetimev2(0)"),
            ("datetime(3)", "datetimev2(3)"),
            ("decimal(10,2)", "decimalv3(10,2)"),
            ("array<datetime(6)>", "array<datetimev2(6)>"),
            ("struct<date:int,d:date>", "struct<date:int,d:datev2>"),
            ("bigint unsigned", "bigint unsigned"),
        ] {
            assert_eq!(internal_type(shown), internal);
        }
    }

    #[test]
    fn strings_are_shown_as_text() {
        for (declared, shown) in [
            ("string", "text"),
            ("array<string>", "array<text>"),
            ("map<string,array<string>>", "map<text,array<text>>"),
            ("struct<string:string,a:int>", "struct<string:text,a:int>"),
            ("varchar(5)", "varchar(5)"),
        ] {
            assert_eq!(as_text(declared), shown);
        }
    }
}
