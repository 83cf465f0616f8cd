//! Indexes: those that have an effect, and those that are only kept in the definition, for scripts that create them.
//!
//! The rules about the columns that an index can have, and about its properties, are Doris's; GIN and VECTOR are
//! StarRocks's.

use dipper_base::types::SqlType;
use dipper_dialect::statement::{IndexDef, Name};
use dipper_store::table::schema::{Index, Model, TableColumn, TableSchema};

use super::create::named;
use crate::error::{EngineError, Result};
use crate::result::Outcome;
use crate::session::Session;
use crate::statements::ddl;

/// Longest name of an index in characters, as in Doris.
const NAME_MAX: usize = 64;

/// Names of the parsers that split text for an inverted index into words.
const PARSERS: &[&str] = &["none", "standard", "english", "unicode", "chinese", "icu", "basic", "ik"];

/// Distance measures of a vector index, for both Doris's and StarRocks's indexes.
const METRICS: &[&str] = &["l2_distance", "inner_product", "cosine_similarity"];

/// Adds an index to a definition.
///
/// # Errors
/// 1061 if the name is taken; `NoColumn` if a column does not exist; `Invalid` if the index cannot have a column of
/// this type or a property is wrong; `Unsupported` for kinds of indexes that do not exist here.
pub(super) fn add(session: &mut Session, schema: &mut TableSchema, if_not_exists: bool, def: &IndexDef) -> Result<()> {
    let index = index(schema, def)?;
    let name = &index.name;
    if schema.indexes.iter().any(|i| i.name.eq_ignore_ascii_case(name)) {
        return match if_not_exists {
            true => Ok(()),
            false => Err(duplicate(name)),
        };
    }
    let twin = |i: &&Index| i.kind == index.kind && i.columns == index.columns && !is_of_mysql(&i.kind);
    if let Some(twin) = schema.indexes.iter().find(twin) {
        return invalid(format!("index {name}: its column has an index of that kind already, {}", twin.name));
    }
    match index.kind.as_str() {
        _ if index.acts() => {}
        kind if is_of_mysql(kind) => {
            session.note(
                1105,
                format!("index {name} is kept, and has no effect: zone maps of every column serve queries"),
            );
        }
        "inverted" | "gin" => {
            let how = "is not built yet: MATCH reads the texts, cut as the index says";
            session.note(1105, format!("index {name} is kept, and {how}"));
        }
        kind => {
            let kind = kind.to_uppercase();
            session.note(1105, format!("index {name} is kept, and has no effect yet: no query uses {kind} indexes"));
        }
    }
    schema.indexes.push(index);
    Ok(())
}

/// Runs RENAME INDEX.
pub(super) fn rename(schema: &mut TableSchema, from: &str, to: &str) -> Result<()> {
    let place = |name: &str| schema.indexes.iter().position(|i| i.name.eq_ignore_ascii_case(name));
    let Some(at) = place(from) else {
        return Err(EngineError {
            code: 1176,
            ..EngineError::invalid(format!("Key '{from}' doesn't exist in the table"))
        });
    };
    if place(to).is_some_and(|other| other != at) {
        return Err(duplicate(to));
    }
    let index = &mut schema.indexes[at];
    index.name = checked_name(to)?;
    Ok(())
}

fn duplicate(name: &str) -> EngineError {
    EngineError { code: 1061, sqlstate: "42000", ..EngineError::invalid(format!("Duplicate key name '{name}'")) }
}

fn checked_name(name: &str) -> Result<String> {
    if name.trim().is_empty() || name.chars().count() > NAME_MAX {
        return invalid(format!("index '{name}': a name has 1 to {NAME_MAX} characters"));
    }
    Ok(name.to_string())
}

fn is_of_mysql(kind: &str) -> bool {
    matches!(kind, "btree" | "hash")
}

fn invalid<T>(message: String) -> Result<T> {
    Err(EngineError::invalid(message))
}

/// Makes the index that a statement defines.
fn index(schema: &TableSchema, def: &IndexDef) -> Result<Index> {
    let name = def.name.clone().unwrap_or_else(|| def.columns.join("_"));
    let columns = def.columns.iter().map(|n| named(&schema.columns, n)).collect::<Result<Vec<_>>>()?;
    let ids: Vec<u32> = columns.iter().map(|c| c.id).collect();
    if def.unique && !schema.is_key(&ids) {
        return Err(EngineError::unsupported(format!(
            "UNIQUE index {name}: only the table's key is unique; declare it as PRIMARY KEY or UNIQUE KEY(...)"
        )));
    }
    let name = checked_name(&name)?;
    if columns.is_empty() {
        return invalid(format!("index {name} has no column"));
    }
    let kind = match def.using.as_deref().map(str::to_lowercase) {
        Some(kind) => kind,
        None if def.unique => "btree".to_string(),
        // Doris makes an inverted index if no kind is given. An index of a MySQL statement may have several columns,
        // which an inverted index cannot have.
        None if inverted(schema, &name, &columns).is_ok() => "inverted".to_string(),
        None => "btree".to_string(),
    };
    match kind.as_str() {
        "bloom_filter" | "btree" | "hash" => {}
        "inverted" | "gin" => inverted(schema, &name, &columns)?,
        "ngram_bf" => text(&name, &kind, one(&name, &kind, &columns)?)?,
        "bitmap" => {
            value_column(schema, &name, one(&name, &kind, &columns)?)?;
            let column = columns[0];
            if matches!(
                column.data_type,
                SqlType::Json | SqlType::Variant | SqlType::Binary | SqlType::Map(..) | SqlType::Struct(_)
            ) || column.data_type.is_set()
            {
                return type_of(&name, &kind, column);
            }
        }
        "ann" | "vector" => {
            let column = one(&name, &kind, &columns)?;
            if column.data_type != SqlType::Array(Box::new(SqlType::Float)) {
                return type_of(&name, &kind, column);
            }
        }
        other => {
            return Err(EngineError::unsupported(format!(
                "index {name}: there are no {} indexes; there are INVERTED, NGRAM_BF, BITMAP, ANN, GIN, VECTOR and BLOOM_FILTER",
                other.to_uppercase()
            )));
        }
    }
    properties(&name, &kind, columns[0], &def.properties)?;
    Ok(Index {
        name,
        columns: ids,
        kind,
        properties: def.properties.iter().cloned().collect(),
        comment: def.comment.clone(),
    })
}

/// Returns the column of an index of a kind that can have only one.
fn one<'a>(name: &str, kind: &str, columns: &[&'a TableColumn]) -> Result<&'a TableColumn> {
    match columns {
        [one] => Ok(one),
        _ => invalid(format!("index {name}: {} index can only apply to a single column", kind.to_uppercase())),
    }
}

fn type_of<T>(name: &str, kind: &str, column: &TableColumn) -> Result<T> {
    invalid(format!(
        "{} is not supported in {} index. invalid index: {name}, column {}",
        column.data_type.to_string().to_uppercase(),
        kind.to_uppercase(),
        column.name
    ))
}

/// Refuses value columns of AGGREGATE tables, which no index can have.
fn value_column(schema: &TableSchema, name: &str, column: &TableColumn) -> Result<()> {
    let is_key = schema.key_columns().iter().any(|key| key.id == column.id);
    match schema.model == Model::Aggregate && !is_key {
        true => invalid(format!(
            "index should only be used in columns of DUP_KEYS/UNIQUE_KEYS table or key columns of AGG_KEYS table. invalid index: {name}"
        )),
        false => Ok(()),
    }
}

fn inverted(schema: &TableSchema, name: &str, columns: &[&TableColumn]) -> Result<()> {
    let column = one(name, "inverted", columns)?;
    value_column(schema, name, column)?;
    let of_element = match &column.data_type {
        SqlType::Array(element) => element.as_ref(),
        other => other,
    };
    match of_element {
        SqlType::Array(_) | SqlType::Map(..) | SqlType::Struct(_) | SqlType::Binary | SqlType::Time(_) => {
            type_of(name, "inverted", column)
        }
        set if set.is_set() => type_of(name, "inverted", column),
        _ => Ok(()),
    }
}

fn text(name: &str, kind: &str, column: &TableColumn) -> Result<()> {
    match is_text(&column.data_type) {
        true => Ok(()),
        false => type_of(name, kind, column),
    }
}

fn is_text(data_type: &SqlType) -> bool {
    matches!(data_type, SqlType::Char(_) | SqlType::Varchar(_) | SqlType::String)
}

/// The values that a property of an index accepts.
enum Rule {
    OneOf(&'static [&'static str]),
    Number(u64, u64),
    Any,
}

/// Returns the known properties of indexes of a kind; `None` if any property is accepted.
fn rules(kind: &str) -> Option<&'static [(&'static str, Rule)]> {
    const FLAG: Rule = Rule::OneOf(&["true", "false"]);
    const INVERTED: &[(&str, Rule)] = &[
        ("parser", Rule::OneOf(PARSERS)),
        ("built_in_analyzer", Rule::OneOf(PARSERS)),
        ("parser_mode", Rule::OneOf(&["coarse_grained", "fine_grained", "ik_max_word", "ik_smart"])),
        ("support_phrase", FLAG),
        ("char_filter_type", Rule::OneOf(&["char_replace"])),
        ("char_filter_pattern", Rule::Any),
        ("char_filter_replacement", Rule::Any),
        ("ignore_above", Rule::Number(1, u64::MAX)),
        ("lower_case", FLAG),
        ("stopwords", Rule::Any),
        ("dict_compression", FLAG),
        ("analyzer", Rule::Any),
        ("normalizer", Rule::Any),
        ("field_pattern", Rule::Any),
        ("imp_lib", Rule::OneOf(&["clucene", "builtin"])),
        ("omit_term_freq_and_position", FLAG),
    ];
    const NGRAM: &[(&str, Rule)] = &[
        ("gram_size", Rule::Number(1, 255)),
        ("bf_size", Rule::Number(64, 65_536)),
        ("gram_num", Rule::Number(1, 255)),
        ("bloom_filter_fpp", Rule::Any),
        ("case_sensitive", FLAG),
    ];
    const VECTOR: &[(&str, Rule)] = &[
        ("index_type", Rule::OneOf(&["hnsw", "ivf", "ivfpq", "ivf_on_disk"])),
        ("metric_type", Rule::OneOf(METRICS)),
        ("dim", Rule::Number(1, 65_536)),
        ("is_vector_normed", FLAG),
        ("max_degree", Rule::Number(1, 65_536)),
        ("ef_construction", Rule::Number(1, 1 << 20)),
        ("efconstruction", Rule::Number(1, 1 << 20)),
        ("efsearch", Rule::Number(1, 1 << 20)),
        ("m", Rule::Number(1, 65_536)),
        ("m_ivfpq", Rule::Number(1, 65_536)),
        ("nbits", Rule::Number(1, 64)),
        ("nlist", Rule::Number(1, 1 << 20)),
        ("quantizer", Rule::OneOf(&["flat", "sq4", "sq8", "pq"])),
        ("pq_m", Rule::Number(1, 65_536)),
        ("pq_nbits", Rule::Number(1, 64)),
    ];
    match kind {
        "inverted" | "gin" => Some(INVERTED),
        "ngram_bf" => Some(NGRAM),
        "ann" | "vector" => Some(VECTOR),
        _ => None,
    }
}

fn properties(name: &str, kind: &str, column: &TableColumn, given: &[(String, String)]) -> Result<()> {
    let Some(rules) = rules(kind) else { return Ok(()) };
    for (key, value) in given {
        let Some((_, rule)) = rules.iter().find(|(known, _)| known.eq_ignore_ascii_case(key)) else {
            let near = dipper_base::near::closest(key, rules.iter().map(|(known, _)| *known));
            let hint = near.map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
            return invalid(format!("index {name}: {} indexes have no property '{key}'{hint}", kind.to_uppercase()));
        };
        let expected = match rule {
            Rule::Any => continue,
            Rule::OneOf(values) if values.iter().any(|v| v.eq_ignore_ascii_case(value)) => continue,
            Rule::OneOf(values) => values.join(", "),
            Rule::Number(least, most) if value.parse().is_ok_and(|n: u64| (*least..=*most).contains(&n)) => continue,
            Rule::Number(least, u64::MAX) => format!("a number from {least}"),
            Rule::Number(least, most) => format!("a number from {least} to {most}"),
        };
        return invalid(format!("index {name}: '{key}' = '{value}': expected {expected}"));
    }
    let has = |key: &str| given.iter().any(|(k, _)| k.eq_ignore_ascii_case(key));
    let cuts = |key: &str| given.iter().any(|(k, v)| k.eq_ignore_ascii_case(key) && !v.eq_ignore_ascii_case("none"));
    let element = match &column.data_type {
        SqlType::Array(element) => element.as_ref(),
        other => other,
    };
    if ["parser", "built_in_analyzer", "analyzer"].iter().any(|k| cuts(k))
        && !is_text(element)
        && !matches!(element, SqlType::Json | SqlType::Variant)
    {
        return invalid(format!(
            "INVERTED index with a parser is not supported for column: {} of type {}. invalid index: {name}",
            column.name, column.data_type
        ));
    }
    let wanted: &[&str] = match kind {
        "ann" | "vector" => &["index_type", "metric_type", "dim"],
        _ if has("char_filter_type") => &["char_filter_pattern"],
        _ => &[],
    };
    match wanted.iter().find(|key| !has(key)) {
        Some(key) => invalid(format!("index {name}: {} indexes need the property '{key}'", kind.to_uppercase())),
        None => Ok(()),
    }
}

/// Runs BUILD INDEX, which only explains itself: loads and merges build the indexes that have an effect, and the others
/// have no data.
pub(in crate::statements) async fn build(
    session: &mut Session,
    index: Option<&str>,
    table: &Name,
    partitions: &[String],
) -> Result<Outcome> {
    let (_, found) = ddl::table_named(session, table).await?;
    if !found.is_native() {
        return Err(EngineError::unsupported(format!("'{table}' lies over files: it has no indexes")));
    }
    let state = session.engine.native.get(found.id).await?.refresh().await?;
    if !partitions.is_empty() && partitions != ["*"] {
        super::partition_ids(&state, partitions)?;
    }
    let indexes = &state.schema().indexes;
    let named = |i: &&Index| index.is_none_or(|name| i.name.eq_ignore_ascii_case(name));
    if let Some(name) = index
        && !indexes.iter().any(|i| named(&i))
    {
        return invalid(format!(
            "index '{name}' does not exist in table '{table}'; SHOW INDEX FROM {table} lists its indexes"
        ));
    }
    for index in indexes.iter().filter(named) {
        let why = match index.acts() {
            true => "loads make it, and merges bring it to rows of before: ADMIN COMPACT TABLE does so at once",
            false => "it is kept in the definition, and has no effect yet",
        };
        session.note(1105, format!("BUILD INDEX {}: {why}", index.name));
    }
    Ok(Outcome::ok())
}
