//! Keys, indexes and declared constraints of native tables in information_schema. A unique key is called PRIMARY,
//! because MySQL's tools look for that name.

use dipper_base::names::CATALOG;
use dipper_node::tables::constraints::{Declared, declared};
use dipper_store::table::schema::{Index, Model, TableColumn, TableSchema};

use crate::sheet::{Cell, Sheet};

const PRIMARY: &str = "PRIMARY";

/// Adds the rows of one table, whose database, name and definition are given, to a virtual table.
pub type Fill = fn(&mut Sheet, &str, &str, &TableSchema);

/// Returns Doris's name of a table's model, such as `UNIQUE_KEYS`.
pub fn keys_type(schema: &TableSchema) -> &'static str {
    match schema.shown_model() {
        Model::Duplicate => "DUP_KEYS",
        Model::Aggregate => "AGG_KEYS",
        Model::Unique => "UNIQUE_KEYS",
    }
}

/// Formats the properties of an index as `("k" = "v", ...)`; empty if there are none.
pub fn properties_text(index: &Index) -> String {
    let pairs: Vec<_> = index.properties.iter().map(|(k, v)| format!("{k:?} = {v:?}")).collect();
    if pairs.is_empty() { String::new() } else { format!("({})", pairs.join(", ")) }
}

fn unique_key(schema: &TableSchema) -> &[TableColumn] {
    match schema.model {
        Model::Duplicate => &[],
        Model::Unique | Model::Aggregate => schema.key_columns(),
    }
}

/// Adds the rows of `statistics`.
pub fn statistics(sheet: &mut Sheet, database: &str, table: &str, schema: &TableSchema) {
    let mut push = |non_unique: i64, name: &str, at: usize, column: &TableColumn, index: Option<&Index>| {
        sheet.push([
            CATALOG.into(),
            database.into(),
            table.into(),
            Cell::Int(non_unique),
            database.into(),
            name.into(),
            Cell::Int(at as i64 + 1),
            (&column.name).into(),
            if non_unique == 0 { "A".into() } else { Cell::Null },
            Cell::Null,
            Cell::Null,
            Cell::Null,
            if column.nullable { "YES" } else { "" }.into(),
            index.map_or("BTREE".to_string(), |i| i.kind.to_uppercase()).into(),
            "".into(),
            index.and_then(|i| i.comment.as_deref()).unwrap_or_default().into(),
            if index.is_none_or(Index::acts) { "YES" } else { "NO" }.into(),
            Cell::Null,
        ]);
    };
    for (at, column) in unique_key(schema).iter().enumerate() {
        push(0, PRIMARY, at, column, None);
    }
    for index in &schema.indexes {
        for (at, place) in index.columns.iter().filter_map(|id| schema.position(*id)).enumerate() {
            push(i64::from(!schema.is_key(&index.columns)), &index.name, at, &schema.columns[place], Some(index));
        }
    }
}

/// Adds the rows of `sys.x$schema_flattened_keys`: each key and index with all of its columns in one text.
pub fn flattened_keys(sheet: &mut Sheet, database: &str, table: &str, schema: &TableSchema) {
    let mut push = |name: &str, non_unique: i64, columns: Vec<&str>| {
        if !columns.is_empty() {
            let columns = columns.join(",");
            sheet.push([
                database.into(),
                table.into(),
                name.into(),
                Cell::Int(non_unique),
                Cell::Int(0),
                columns.into(),
            ]);
        }
    };
    push(PRIMARY, 0, unique_key(schema).iter().map(|column| column.name.as_str()).collect());
    for index in &schema.indexes {
        let places = index.columns.iter().filter_map(|id| schema.position(*id));
        push(
            &index.name,
            i64::from(!schema.is_key(&index.columns)),
            places.map(|place| schema.columns[place].name.as_str()).collect(),
        );
    }
}

/// Adds the rows of `key_column_usage`: the key, then the declared constraints.
pub fn key_column_usage(sheet: &mut Sheet, database: &str, table: &str, schema: &TableSchema) {
    let mut push = |constraint: &str, at: usize, column: &str, referenced: Option<(&[String; 2], &str)>| {
        let place = Cell::Int(at as i64 + 1);
        let (position, of_database, of_table, of_column) = match referenced {
            Some(([database, table], column)) => (place.clone(), database.into(), table.into(), column.into()),
            None => (Cell::Null, Cell::Null, Cell::Null, Cell::Null),
        };
        sheet.push([
            CATALOG.into(),
            database.into(),
            constraint.into(),
            CATALOG.into(),
            database.into(),
            table.into(),
            column.into(),
            place,
            position,
            of_database,
            of_table,
            of_column,
        ]);
    };
    for (at, column) in unique_key(schema).iter().enumerate() {
        push(PRIMARY, at, &column.name, None);
    }
    for constraint in declared(schema) {
        for (at, column) in constraint.columns.iter().enumerate() {
            let referenced =
                constraint.references.as_ref().and_then(|(table, columns)| Some((table, columns.get(at)?)));
            push(&constraint.name, at, column, referenced.map(|(table, column)| (table, column.as_str())));
        }
    }
}

/// Adds the rows of `table_constraints`: the key, which is enforced, and the declared constraints, which are not.
pub fn table_constraints(sheet: &mut Sheet, database: &str, table: &str, schema: &TableSchema) {
    let mut push = |name: &str, kind: &str, enforced: &str| {
        sheet.push([
            CATALOG.into(),
            database.into(),
            name.into(),
            database.into(),
            table.into(),
            kind.into(),
            enforced.into(),
        ]);
    };
    if !unique_key(schema).is_empty() {
        push(PRIMARY, "PRIMARY KEY", "YES");
    }
    for Declared { name, kind, .. } in declared(schema) {
        push(&name, &kind, "NO");
    }
}

/// Adds the rows of `referential_constraints`. The constraint of the other table that makes its columns unique is not
/// known: none need be declared.
pub fn referential_constraints(sheet: &mut Sheet, database: &str, table: &str, schema: &TableSchema) {
    for constraint in declared(schema) {
        let Some(([of_database, of_table], _)) = &constraint.references else { continue };
        sheet.push([
            CATALOG.into(),
            database.into(),
            (&constraint.name).into(),
            CATALOG.into(),
            of_database.into(),
            Cell::Null,
            "NONE".into(),
            "NO ACTION".into(),
            "NO ACTION".into(),
            table.into(),
            of_table.into(),
        ]);
    }
}
