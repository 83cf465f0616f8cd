//! CREATE TABLE of native tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use dipper_base::names::BUILTIN_VOLUME;
use dipper_base::types::SqlType;
use dipper_dialect::statement::{
    ColumnDef, CreateTable, DistributionClause, Model, Name, PartitionClause, PartitionExpr, PartitionKind,
    TableChange, WithRollups,
};
use dipper_node::tables::volumes::is_enabled;
use dipper_node::tables::{constraints, rules};
use dipper_store::catalog::{CatalogChange, CatalogState, OnExists, TableDef, TableId};
use dipper_store::table::Table;
use dipper_store::table::schema::{
    AutoPartition, Bounds, DELETE_SIGN, DefaultValue, Distribution, Generated, MADE_BY_PRIMARY_KEY, Partition,
    PartitionBy, SEQUENCE, TableColumn, TableSchema,
};
use dipper_store::volumes::STORAGE_VOLUME;

use super::{indexes, partitions, rollups};
use crate::error::{EngineError, ErrorKind, Result};
use crate::generated;
use crate::query;
use crate::result::{Done, Outcome};
use crate::session::Session;
use crate::statements::{ddl, own_name, qualified};

/// The only partition of an unpartitioned table. It has the name of the table, as in Doris.
pub(super) fn only_partition(table: &str, buckets: u32) -> Partition {
    Partition {
        id: 0,
        name: table.to_string(),
        bounds: Bounds::All,
        buckets,
        temporary: false,
        properties: BTreeMap::new(),
    }
}

pub(in crate::statements) async fn create_table(session: &mut Session, create: &CreateTable) -> Result<Outcome> {
    let (database, name) = qualified(session, &create.name)?;
    let engine = create.engine.as_deref().unwrap_or("OLAP");
    if !["olap", "innodb", "myisam", "starrocks", "dipper"].contains(&engine.to_lowercase().as_str()) {
        return Err(EngineError::unsupported(format!(
            "ENGINE={engine}; native tables are ENGINE=OLAP, tables over files are created with STORED AS ... LOCATION"
        )));
    }
    let before = session.engine.catalog.refresh().await?;
    let exists = match create.temporary {
        true => session.temporaries.hidden(&database, &name).is_some(),
        false => before.table(&database, &name).is_some(),
    };
    let replaced = before.table(&database, &name).filter(|_| create.or_replace).cloned();
    if let Some(other) = replaced.as_ref().filter(|found| !found.is_native()) {
        let message = format!("'{database}.{}' is no native table, which OR REPLACE would replace", other.name);
        return Err(EngineError::new(ErrorKind::WrongObject, message));
    }
    if exists && replaced.is_none() {
        if create.if_not_exists {
            session.note(1050, format!("Table '{name}' already exists"));
            return Ok(Outcome::ok());
        }
        return Err(EngineError::new(ErrorKind::TableExists, format!("Table '{database}.{name}' already exists")));
    }
    let mut create = std::borrow::Cow::Borrowed(create);
    // As in MySQL, columns of the query go into the columns of the same names if the statement declares columns with
    // types.
    let mut into = Vec::new();
    if let Some(source) = &create.query {
        let found = columns_of_query(session, source, &create.column_names).await?;
        if create.columns.is_empty() {
            create.to_mut().columns = found;
        } else {
            let is_defined = |name: &str| create.columns.iter().any(|column| column.name.eq_ignore_ascii_case(name));
            if let Some(other) = found.iter().find(|column| !is_defined(&column.name)) {
                return Err(EngineError::unsupported(format!(
                    "CREATE TABLE ... AS: the query's column '{}' is none of those that have types; define it, or give it the name of one",
                    other.name
                )));
            }
            into = found.into_iter().map(|column| column.name).collect();
        }
    }
    let (definition, partitions) = definition(session, &name, &create)?;
    generated::check(session, &Arc::new(definition.clone())).await?;
    let made = match (create.temporary, &replaced) {
        (true, _) => session.temporaries.new_name(),
        (_, Some(_)) => format!("__dipper_new_{}", TableId::fresh()),
        _ => name.clone(),
    };
    make(session, &database, &made, definition, partitions, create.if_not_exists).await?;
    let mut filled = match &create.query {
        Some(source) => super::insert::fill(session, &database, &made, &into, source).await,
        None => Ok(0),
    };
    if let Some(found) = replaced.filter(|_| filled.is_ok()) {
        let with = TableChange::ReplaceWith { table: own_name(&database, &made), swap: false, force: false };
        filled = super::alter(session, &database, &found, &[with]).await.and(filled);
    }
    if filled.is_err() {
        crate::native::dropped::drop_tables(&session.engine, vec![(database, made)]).await?;
    } else if create.temporary {
        session.wrote_alone |= session.in_transaction;
        // Added only after the table is filled, because the query may read another table of the name.
        session.temporaries.add(&database, &name, made);
    }
    Ok(Outcome::Done(Done { affected_rows: filled?, ..Done::default() }))
}

/// Runs CREATE TABLE ... LIKE.
pub(in crate::statements) async fn create_like(
    session: &mut Session,
    (name, temporary): (&Name, bool),
    like: &Name,
    if_not_exists: bool,
    with: &WithRollups,
) -> Result<Outcome> {
    let (database, table) = qualified(session, name)?;
    if temporary && session.temporaries.hidden(&database, &table).is_some() {
        if if_not_exists {
            session.note(1050, format!("Table '{table}' already exists"));
            return Ok(Outcome::ok());
        }
        return Err(EngineError::new(ErrorKind::TableExists, format!("Table '{database}.{table}' already exists")));
    }
    let (source_database, source) = ddl::table_named(session, like).await?;
    if !source.is_native() {
        return Err(EngineError::unsupported(format!(
            "CREATE TABLE LIKE '{source_database}.{}' would make two tables over the same files; SHOW CREATE TABLE prints a definition to copy",
            source.name
        )));
    }
    let state = session.engine.native.get(source.id).await?.refresh().await?;
    let mut definition = TableSchema { version: 1, ..state.schema().as_ref().clone() };
    rollups::like(&mut definition, with)?;
    constraints::clear(&mut definition);
    let partitions = (state.partitions())
        .filter(|p| !p.temporary)
        .map(|p| match p.bounds {
            Bounds::All => only_partition(&table, p.buckets),
            _ => p.as_ref().clone(),
        })
        .collect();
    let made = if temporary { session.temporaries.new_name() } else { table.clone() };
    make(session, &database, &made, definition, partitions, if_not_exists).await?;
    if temporary {
        session.temporaries.add(&database, &table, made);
    }
    Ok(Outcome::ok())
}

/// Creates a table: first its chain, then its name in the catalog.
async fn make(
    session: &Session,
    database: &str,
    name: &str,
    mut definition: TableSchema,
    partitions: Vec<Partition>,
    if_not_exists: bool,
) -> Result<()> {
    let on_exists = if if_not_exists { OnExists::Keep } else { OnExists::Fail };
    let mut change = CatalogChange::create(database, name, TableDef::Native, on_exists);
    let CatalogChange::Create { id, volume, .. } = &mut change else { unreachable!("it creates") };
    let id: TableId = *id;
    let state = session.engine.catalog.snapshot();
    volume.clone_from(&volume_of(&state, database, &definition)?);
    if let Some(volume) = volume {
        // The property is set even if the database or the default named the volume, so that SHOW CREATE TABLE tells
        // where the table is.
        definition.properties.insert(STORAGE_VOLUME.to_string(), volume.clone());
        session.engine.native.volumes().assign(&state, id, volume)?;
    }
    ddl::refuse_virtual(session, database).await?;
    if session.engine.catalog.snapshot().database(database).is_none()
        && database != dipper_base::names::DEFAULT_DATABASE
    {
        return Err(session.engine.catalog.snapshot().no_database(database).into());
    }
    let native = &session.engine.native;
    let table = Table::create(Arc::clone(native.store()), id, definition, partitions).await?;
    if let Err(e) = ddl::commit(session, database, vec![change]).await {
        table.tombstone().await?;
        return Err(e);
    }
    let kept = session.engine.catalog.snapshot().table(database, name).is_some_and(|t| t.id == id);
    match kept {
        true => {
            crate::native::dynamic_partitions(&table).await?;
            native.insert(table);
        }
        // With IF NOT EXISTS, another session may have been first.
        false => table.tombstone().await?,
    }
    Ok(())
}

/// Returns the storage volume of a new table: that of its own property, that of its database, or the default; `None` is
/// the built-in one.
fn volume_of(state: &CatalogState, database: &str, definition: &TableSchema) -> Result<Option<String>> {
    let own = definition.properties.get(STORAGE_VOLUME);
    let of_database = || state.database(database).and_then(|d| d.properties.get(STORAGE_VOLUME));
    let named = match own.or_else(of_database).map(String::as_str) {
        None | Some("" | "default") => state.default_volume.clone(),
        Some(BUILTIN_VOLUME) => None,
        Some(name) => Some(name.to_string()),
    };
    if let Some(name) = &named
        && !is_enabled(state.volume(name)?)
    {
        return Err(EngineError::invalid(format!(
            "storage volume '{name}' is disabled; ALTER STORAGE VOLUME {name} SET ('enabled' = 'true'), or name another"
        )));
    }
    Ok(named)
}

/// Makes column definitions from the columns of a query. A string in the first column becomes VARCHAR so that it can be
/// a key, as in Doris.
async fn columns_of_query(
    session: &Session,
    source: &dipper_dialect::statement::QueryText,
    names: &[String],
) -> Result<Vec<ColumnDef>> {
    let context = session.query_context().await?;
    let planned = query::plan_elsewhere(&context, source).await?;
    let columns = planned.columns();
    if !names.is_empty() && names.len() != columns.len() {
        return Err(EngineError::invalid(format!(
            "CREATE TABLE names {} columns, the query gives {}",
            names.len(),
            columns.len()
        )));
    }
    (columns.into_iter().enumerate())
        .map(|(i, column)| {
            let text = dipper_sql::type_text::type_text(&column.field);
            let mut data_type = dipper_dialect::parser::parse_type(&text)?;
            if i == 0 && data_type == SqlType::String {
                data_type = SqlType::Varchar(Some(65533));
            }
            Ok(ColumnDef {
                name: names.get(i).cloned().unwrap_or(column.name),
                data_type,
                paths: None,
                comment: None,
                not_null: !column.field.is_nullable(),
                key: false,
                aggregate: None,
                auto_increment: None,
                default: None,
                on_update: None,
                generated: None,
            })
        })
        .collect()
}

/// Makes the definition and the partitions of the table that a statement defines.
pub(super) fn definition(
    session: &mut Session,
    table: &str,
    create: &CreateTable,
) -> Result<(TableSchema, Vec<Partition>)> {
    let mut columns: Vec<TableColumn> = (create.columns.iter().zip(0..)).map(|(c, id)| column(c, id)).collect();
    let mode = session.variables.get("sql_mode").unwrap_or_default();
    columns.iter_mut().filter_map(|c| c.generated.as_mut()).for_each(|generated| generated.sql_mode.clone_from(&mode));
    let (model, keys) = key(create, &columns)?;
    for c in &mut columns[..keys] {
        if create.key.as_ref().is_some_and(|k| k.primary) {
            c.nullable = false;
        }
    }
    let mut properties: BTreeMap<String, String> = create.properties.iter().cloned().collect();
    // What dipper keeps under these names is printed as part of the table's definition.
    if let Some(key) = properties.keys().find(|key| key.to_lowercase().starts_with("dipper.")) {
        return Err(EngineError::invalid(format!("property '{key}': names that begin with dipper. are dipper's own")));
    }
    let is_primary = create.key.as_ref().is_some_and(|k| k.primary);
    if is_primary {
        properties.insert(MADE_BY_PRIMARY_KEY.into(), "true".into());
    }
    // Users of MySQL's DDL look rows up by key.
    let of_mysql = is_primary && create.distribution.is_none();
    if of_mysql && !["store_row_column", "row_store_columns"].iter().any(|p| properties.contains_key(*p)) {
        properties.insert("store_row_column".into(), "true".into());
    }
    let shown_model = model;
    let model = super::sequences::apply(&mut columns, keys, model, &properties)?;
    let mut next_column = columns.len() as u32;
    let mut sequence = None;
    if model == Model::Unique {
        let mut hide = |name: &str, data_type: SqlType, nullable: bool, default: Option<&str>| {
            let id = next_column;
            next_column += 1;
            columns.push(TableColumn {
                default: default.map(|d| DefaultValue::Literal(Some(d.into()))),
                hidden: true,
                ..TableColumn::new(id, name, data_type, nullable)
            });
            id
        };
        hide(DELETE_SIGN, SqlType::TinyInt, false, Some("0"));
        if let Some(data_type) = properties.get("function_column.sequence_type") {
            sequence = Some(hide(SEQUENCE, dipper_dialect::parser::parse_type(data_type)?, true, None));
        }
        if let Some(name) = properties.get("function_column.sequence_col") {
            sequence = Some(named(&columns, name)?.id);
        }
        if properties.get("enable_unique_key_merge_on_write").is_some_and(|v| v.eq_ignore_ascii_case("false")) {
            session.note(1105, "enable_unique_key_merge_on_write = false: UNIQUE tables are always merge-on-write");
            properties.remove("enable_unique_key_merge_on_write");
        }
    }
    let partition_by = create.partition_by.as_ref().map(|p| partition_by(p, &columns)).transpose()?;
    let (distribution, buckets) = distribution(create.distribution.as_ref(), shown_model, &columns[..keys], &columns)?;
    let mut definition = TableSchema {
        version: 1,
        columns,
        model,
        keys,
        sequence,
        partition_by,
        distribution,
        buckets,
        indexes: Vec::new(),
        cluster_by: Vec::new(),
        rollups: Vec::new(),
        properties,
        comment: create.comment.clone(),
        next_column,
    };
    for (c, id) in create.columns.iter().zip(0..).filter(|(c, _)| c.paths.is_some()) {
        definition.set_variant_paths(id, c.paths.clone());
    }
    super::properties::check(session, &definition, create.properties.iter().map(|(k, v)| (k.as_str(), v.as_str())))?;
    for index in &create.indexes {
        indexes::add(session, &mut definition, false, index)?;
    }
    for rollup in &create.rollups {
        rollups::add(session, &mut definition, rollup)?;
    }
    rollups::cluster_by(session, &mut definition, &create.sort_key)?;
    rules::check(&definition)?;
    rules::buckets(definition.buckets)?;
    for c in &definition.columns {
        rules::column(c)?;
        dipper_exec::shape::default_value(c, &super::now(session))?;
    }
    let partitions = match &create.partition_by {
        None => vec![only_partition(table, partitions::bucket_count(&definition, None))],
        Some(clause) => partitions::initial(&definition, clause)?,
    };
    Ok((definition, partitions))
}

/// Makes a column from its definition. Columns of sets never hold NULL, whatever the statement says; as in
/// Doris, their default is an empty set.
pub(super) fn column(c: &ColumnDef, id: u32) -> TableColumn {
    let (is_set, has_empty) = (c.data_type.is_set(), c.data_type.has_empty());
    TableColumn {
        id,
        name: c.name.clone(),
        data_type: match &c.data_type {
            SqlType::Char(None) => SqlType::Char(Some(1)),
            SqlType::Varchar(None) => SqlType::Varchar(Some(65533)),
            other => other.clone(),
        },
        nullable: !c.not_null && !is_set,
        aggregate: c.aggregate,
        default: match &c.default {
            None | Some(DefaultValue::Literal(None)) if has_empty => Some(DefaultValue::Empty),
            default => default.clone(),
        },
        auto_increment: c.auto_increment,
        on_update: c.on_update,
        generated: c.generated.clone().map(|sql| Generated { sql, sql_mode: String::new() }),
        comment: c.comment.clone(),
        hidden: false,
        added_default: None,
    }
}

pub(in crate::statements) fn named<'a>(columns: &'a [TableColumn], name: &str) -> Result<&'a TableColumn> {
    columns.iter().find(|c| c.name.eq_ignore_ascii_case(name)).ok_or_else(|| {
        let near = dipper_base::near::closest(name, columns.iter().map(|c| c.name.as_str()));
        let hint = near.map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
        EngineError::new(ErrorKind::NoColumn, format!("Unknown column '{name}'{hint}"))
    })
}

/// Returns the table model and the number of key columns.
fn key(create: &CreateTable, columns: &[TableColumn]) -> Result<(Model, usize)> {
    if let Some(clause) = &create.key {
        for (i, name) in clause.columns.iter().enumerate() {
            named(columns, name)?;
            let found = &columns[i].name;
            if !found.eq_ignore_ascii_case(name) {
                return Err(EngineError::invalid(format!(
                    "Key columns should be a ordered prefix of the schema. KeyColumns[{i}] (starts from zero) is {name}, but corresponding column is {found} in the previous columns declaration."
                )));
            }
        }
        return Ok((clause.model, clause.columns.len()));
    }
    let marked = create.columns.iter().take_while(|c| c.key).count();
    if let Some(late) = create.columns[marked..].iter().find(|c| c.key) {
        return Err(EngineError::invalid(format!(
            "Key columns should be a ordered prefix of the schema: {} follows a column that is no key",
            late.name
        )));
    }
    if let Some(first) = columns.iter().position(|c| c.aggregate.is_some()) {
        return Ok((Model::Aggregate, first));
    }
    if marked > 0 {
        return Ok((Model::Duplicate, marked));
    }
    // As in Doris: the first three columns or 36 bytes, and nothing after a VARCHAR.
    let mut keys = 0;
    let mut bytes = 0;
    for c in columns.iter().take(3) {
        let width = match &c.data_type {
            SqlType::Boolean | SqlType::TinyInt => 1,
            SqlType::SmallInt => 2,
            SqlType::Int | SqlType::Date | SqlType::Ipv4 => 4,
            SqlType::BigInt | SqlType::UnsignedBigInt | SqlType::DateTime(_) | SqlType::Time(_) => 8,
            SqlType::LargeInt | SqlType::Decimal(..) | SqlType::Ipv6 => 16,
            SqlType::Char(n) | SqlType::Varchar(n) => n.unwrap_or(1) as usize,
            _ => break,
        };
        bytes += width;
        let varchar = matches!(c.data_type, SqlType::Varchar(_));
        if bytes > 36 && keys > 0 && !varchar {
            break;
        }
        keys += 1;
        if bytes >= 36 || varchar {
            break;
        }
    }
    if keys == 0 {
        return Err(EngineError::invalid(format!(
            "the first column, {} {}, cannot be a key column; put another first, or name DUPLICATE KEY(...)",
            columns.first().map_or("", |c| &c.name),
            columns.first().map_or(String::new(), |c| c.data_type.to_string()),
        )));
    }
    Ok((Model::Duplicate, keys))
}

fn partition_by(clause: &PartitionClause, columns: &[TableColumn]) -> Result<PartitionBy> {
    let ids = clause.by.iter().map(|e| Ok(named(columns, e.column())?.id)).collect::<Result<Vec<_>>>()?;
    let auto = match (&clause.by[..], clause.auto) {
        (_, false) => None,
        ([PartitionExpr::DateTrunc { unit, .. }], true) => Some(AutoPartition::DateTrunc(unit.clone())),
        (_, true) if clause.kind == PartitionKind::List => Some(AutoPartition::Value),
        _ => {
            return Err(EngineError::invalid("AUTO PARTITION BY RANGE needs date_trunc(column, 'unit') of one column"));
        }
    };
    Ok(PartitionBy { kind: clause.kind, columns: ids, auto })
}

/// Returns the distribution, and the number of buckets or `None` for AUTO.
pub(super) fn distribution(
    clause: Option<&DistributionClause>,
    model: Model,
    keys: &[TableColumn],
    columns: &[TableColumn],
) -> Result<(Distribution, Option<u32>)> {
    let Some(clause) = clause else {
        // Doris refuses a UNIQUE table without DISTRIBUTED BY, but MySQL's statements never have the clause.
        return Ok(match model {
            Model::Duplicate => (Distribution::Random, None),
            _ => (Distribution::Hash(keys.iter().map(|c| c.id).collect()), None),
        });
    };
    let distribution = match &clause.hash {
        None => Distribution::Random,
        Some(names) => Distribution::Hash(names.iter().map(|n| Ok(named(columns, n)?.id)).collect::<Result<Vec<_>>>()?),
    };
    Ok((distribution, clause.buckets))
}
