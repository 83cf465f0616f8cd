//! Printing of table definitions, in the layout of Doris's SHOW CREATE TABLE. The parser reads the printed text back as
//! the same tree.

use std::fmt::{self, Display, Formatter};

use dipper_base::types::SqlType;

use super::table::{
    Aggregate, ColumnDef, CreateTable, DefaultValue, DistributionClause, IndexDef, KeyClause, Model, PartitionClause,
    PartitionDef, PartitionExpr, PartitionItem, PartitionKind, PartitionValue, PartitionValues, RollupDef,
};

/// A name in backquotes.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.0.replace('`', "``"))
    }
}

/// A string literal in quotes of this kind, with backslash escapes.
struct Literal<'a>(char, &'a str);

impl Display for Literal<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Literal(quote, text) = *self;
        write!(f, "{quote}")?;
        for c in text.chars() {
            match c {
                '\0' => f.write_str("\\0")?,
                c if c == quote || c == '\\' => write!(f, "\\{c}")?,
                c => write!(f, "{c}")?,
            }
        }
        write!(f, "{quote}")
    }
}

/// Items with commas between them.
struct List<'a, T>(&'a [T]);

impl<T: Display> Display for List<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, item) in self.0.iter().enumerate() {
            write!(f, "{}{item}", if i > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

fn names(list: &[String]) -> String {
    list.iter().map(|n| Quoted(n).to_string()).collect::<Vec<_>>().join(", ")
}

fn pairs(list: &[(String, String)], between: &str) -> String {
    list.iter().map(|(k, v)| format!("{} = {}", Literal('"', k), Literal('"', v))).collect::<Vec<_>>().join(between)
}

impl Display for CreateTable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let temporary = if self.temporary { "TEMPORARY " } else { "" };
        let if_not_exists = if self.if_not_exists { "IF NOT EXISTS " } else { "" };
        let or_replace = if self.or_replace { "OR REPLACE " } else { "" };
        write!(f, "CREATE {or_replace}{temporary}TABLE {if_not_exists}")?;
        for (i, part) in self.name.0.iter().enumerate() {
            write!(f, "{}{}", if i > 0 { "." } else { "" }, Quoted(part))?;
        }
        if !self.column_names.is_empty() {
            write!(f, " ({}", names(&self.column_names))?;
            self.indexes.iter().try_for_each(|index| write!(f, ", {index}"))?;
            f.write_str(")")?;
        }
        if !self.columns.is_empty() {
            f.write_str(" (\n")?;
            let columns = self.columns.iter().map(ToString::to_string);
            let lines: Vec<String> = columns.chain(self.indexes.iter().map(ToString::to_string)).collect();
            write!(f, "  {}\n)", lines.join(",\n  "))?;
        }
        if let Some(engine) = &self.engine {
            write!(f, " ENGINE={}", super::Name(vec![engine.clone()]))?;
        }
        if let Some(key) = &self.key {
            write!(f, "\n{key}")?;
        }
        if !self.sort_key.is_empty() {
            write!(f, "\nCLUSTER BY({})", names(&self.sort_key))?;
        }
        if let Some(comment) = &self.comment {
            write!(f, "\nCOMMENT {}", Literal('\'', comment))?;
        }
        if let Some(partition_by) = &self.partition_by {
            write!(f, "\n{partition_by}")?;
        }
        if let Some(distribution) = &self.distribution {
            write!(f, "\n{distribution}")?;
        }
        if !self.rollups.is_empty() {
            write!(f, "\nROLLUP ({})", List(&self.rollups))?;
        }
        for (option, value) in &self.options {
            write!(f, "\n{option}={}", Literal('\'', value))?;
        }
        if !self.properties.is_empty() {
            write!(f, "\nPROPERTIES (\n{}\n)", pairs(&self.properties, ",\n"))?;
        }
        if let Some(query) = &self.query {
            write!(f, "\nAS {}", query.text)?;
        }
        Ok(())
    }
}

impl Display for ColumnDef {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", Quoted(&self.name))?;
        match &self.data_type {
            // Like Doris. Clients read the types of columns from SHOW CREATE TABLE, and MySQL has no STRING.
            SqlType::String => f.write_str("text")?,
            other => write!(f, "{other}{}", self.paths.as_deref().unwrap_or_default())?,
        }
        if self.key {
            f.write_str(" KEY")?;
        }
        if let Some(aggregate) = self.aggregate {
            write!(f, " {}", aggregate_name(aggregate))?;
        }
        if let Some(expression) = &self.generated {
            write!(f, " AS ({expression})")?;
        }
        f.write_str(if self.not_null { " NOT NULL" } else { " NULL" })?;
        if let Some(first) = self.auto_increment {
            write!(f, " AUTO_INCREMENT({first})")?;
        }
        match &self.default {
            None => {}
            Some(DefaultValue::Literal(None)) => f.write_str(" DEFAULT NULL")?,
            Some(DefaultValue::Literal(Some(text))) => write!(f, " DEFAULT {}", Literal('"', text))?,
            Some(DefaultValue::CurrentTimestamp(digits)) => write!(f, " DEFAULT {}", Clock(*digits))?,
            Some(DefaultValue::CurrentDate) => f.write_str(" DEFAULT CURRENT_DATE")?,
            Some(DefaultValue::Empty) if self.data_type == SqlType::Hll => f.write_str(" DEFAULT HLL_EMPTY")?,
            // The default has no name in SQL.
            Some(DefaultValue::Empty) if self.data_type == SqlType::QuantileState => {}
            Some(DefaultValue::Empty) => f.write_str(" DEFAULT BITMAP_EMPTY")?,
        }
        if let Some(digits) = self.on_update {
            write!(f, " ON UPDATE {}", Clock(digits))?;
        }
        if let Some(comment) = &self.comment {
            write!(f, " COMMENT {}", Literal('\'', comment))?;
        }
        Ok(())
    }
}

/// CURRENT_TIMESTAMP with digits of the second.
struct Clock(u8);

impl Display for Clock {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("CURRENT_TIMESTAMP"),
            digits => write!(f, "CURRENT_TIMESTAMP({digits})"),
        }
    }
}

/// Returns the aggregation as statements spell it.
pub fn aggregate_name(aggregate: Aggregate) -> &'static str {
    match aggregate {
        Aggregate::Sum => "SUM",
        Aggregate::Min => "MIN",
        Aggregate::Max => "MAX",
        Aggregate::Replace | Aggregate::ReplaceBySequence(_) => "REPLACE",
        Aggregate::ReplaceIfNotNull => "REPLACE_IF_NOT_NULL",
        Aggregate::HllUnion => "HLL_UNION",
        Aggregate::BitmapUnion => "BITMAP_UNION",
        Aggregate::QuantileUnion => "QUANTILE_UNION",
        Aggregate::Generic => "GENERIC",
    }
}

impl Display for IndexDef {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.unique { "UNIQUE INDEX" } else { "INDEX" })?;
        if let Some(name) = &self.name {
            write!(f, " {}", Quoted(name))?;
        }
        write!(f, " ({})", names(&self.columns))?;
        if let Some(kind) = &self.using {
            write!(f, " USING {kind}")?;
        }
        if !self.properties.is_empty() {
            write!(f, " PROPERTIES({})", pairs(&self.properties, ", "))?;
        }
        if let Some(comment) = &self.comment {
            write!(f, " COMMENT {}", Literal('\'', comment))?;
        }
        Ok(())
    }
}

impl Display for RollupDef {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", Quoted(&self.name), names(&self.columns))?;
        if self.keys.is_empty() { Ok(()) } else { write!(f, " DUPLICATE KEY({})", names(&self.keys)) }
    }
}

impl Display for KeyClause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let words = match (self.model, self.primary) {
            (Model::Unique, true) => "PRIMARY",
            (Model::Unique, false) => "UNIQUE",
            (Model::Aggregate, _) => "AGGREGATE",
            (Model::Duplicate, _) => "DUPLICATE",
        };
        write!(f, "{words} KEY({})", names(&self.columns))
    }
}

impl Display for PartitionClause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let auto = if self.auto { "AUTO " } else { "" };
        let kind = match self.kind {
            PartitionKind::Range => "RANGE",
            PartitionKind::List => "LIST",
        };
        write!(f, "{auto}PARTITION BY {kind}({})\n(", List(&self.by))?;
        for (i, item) in self.partitions.iter().enumerate() {
            write!(f, "{}{item}", if i > 0 { ",\n" } else { "" })?;
        }
        f.write_str(")")
    }
}

impl Display for PartitionExpr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            PartitionExpr::Column(column) => write!(f, "{}", Quoted(column)),
            PartitionExpr::DateTrunc { column, unit } => write!(f, "date_trunc({}, '{unit}')", Quoted(column)),
        }
    }
}

impl Display for PartitionItem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            PartitionItem::One(partition) => partition.fmt(f),
            PartitionItem::Steps { from, to, step, unit } => {
                write!(f, "FROM ({}) TO ({}) INTERVAL {step}", List(from), List(to))?;
                unit.as_ref().map_or(Ok(()), |unit| write!(f, " {unit}"))
            }
        }
    }
}

impl Display for PartitionDef {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let if_not_exists = if self.if_not_exists { "IF NOT EXISTS " } else { "" };
        write!(f, "PARTITION {if_not_exists}{}{}", Quoted(&self.name), self.values)?;
        if !self.properties.is_empty() {
            write!(f, " ({})", pairs(&self.properties, ", "))?;
        }
        Ok(())
    }
}

impl Display for PartitionValues {
    /// Prints with a leading blank; prints nothing for [`PartitionValues::Rest`].
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            PartitionValues::LessThan(values) => write!(f, " VALUES LESS THAN ({})", List(values)),
            PartitionValues::Range { lower, upper } => {
                write!(f, " VALUES [({}), ({}))", List(lower), List(upper))
            }
            PartitionValues::In(rows) => {
                let row = |row: &Vec<Option<String>>| {
                    let values: Vec<_> = row.iter().cloned().map(PartitionValue::Value).collect();
                    if values.len() == 1 { List(&values).to_string() } else { format!("({})", List(&values)) }
                };
                write!(f, " VALUES IN ({})", rows.iter().map(row).collect::<Vec<_>>().join(", "))
            }
            PartitionValues::Rest => Ok(()),
        }
    }
}

impl Display for PartitionValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            PartitionValue::Value(None) => f.write_str("NULL"),
            PartitionValue::Value(Some(text)) => Literal('"', text).fmt(f),
            PartitionValue::Max => f.write_str("MAXVALUE"),
        }
    }
}

impl Display for DistributionClause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.hash {
            Some(columns) => write!(f, "DISTRIBUTED BY HASH({})", names(columns))?,
            None => f.write_str("DISTRIBUTED BY RANDOM")?,
        }
        match self.buckets {
            Some(n) => write!(f, " BUCKETS {n}"),
            None => f.write_str(" BUCKETS AUTO"),
        }
    }
}
