//! Conversion of the columns of a body to rows of a table: which column goes where, derived columns, `where`, `delete`.
//!
//! Everything is resolved once per load. A column of the body that no expression uses is read in the type of its column
//! in the table; one that an expression uses is read as text, as in Doris; one without any use is not read. Dates and
//! times are read as text, too, if the load has a time zone to which their offsets are moved. DataFusion compiles the
//! expressions, which see only the columns that they name.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int8Array, RecordBatchOptions, UInt32Array, new_null_array,
};
use arrow::compute::kernels::numeric::neg;
use arrow::compute::{filter_record_batch, take};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::empty::EmptyTable;
use datafusion::logical_expr::{Expr as PlannedExpr, LogicalPlan, Volatility};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::sql::parser::Statement as DfStatement;
use dipper_base::address::is_address;
use dipper_base::names::CATALOG;
use dipper_base::types::SqlType;
use dipper_dialect::statement::Statement;
use dipper_exec::shape::{Now, changed_at, default_value};
use dipper_exec::stored::{stored, target};
use dipper_ingest::op;
use dipper_ingest::request::{ColumnItem, Format, MergeType, StreamLoadRequest, UpdateMode};
use dipper_ingest::shaper::{Reading, Shaped, Shaper};
use dipper_lake::times::Times;
use dipper_load::Given;
use dipper_sql::charter::datetime::rounded;
use dipper_sql::charter::prepare_query;
use dipper_sql::charter::session::Context;
use dipper_sql::charter::text::format_datetime;
use dipper_sql::functions::datetime::Zone;
use dipper_sql::functions::states::arguments_in_query;
use dipper_store::segment::no_elements;
use dipper_store::table::schema::{Aggregate, DELETE_SIGN, DefaultValue, Model, SEQUENCE, TableColumn, TableSchema};
use dipper_text::hive::hive_type;
use sqlparser::ast::{Expr, visit_expressions};

use crate::context::QueryContext;
use crate::error::{EngineError, ErrorKind, Result};
use crate::functions;
use crate::query::session_state;
use crate::session::Session;
use crate::statements::now;
use crate::tables::{FILES_SCHEMA, TableSet};

/// Number of characters of a value that the error of a rejected row shows.
const VALUE_CHARS_SHOWN: usize = 128;

/// Name of the table that expressions read.
const BODY: &str = "__dipper_body";

/// The source of the values of a column of the table.
#[derive(Debug, Clone)]
enum Source {
    /// A column of the body, by its position in the batches that are read.
    Body(usize),
    /// A column of the body that is read as text, which [`Times`] convert to dates or times.
    Time(usize, Times),
    /// The result of a derived column's expression.
    Derived(usize),
    /// A value for new rows. If the load gives only some columns, existing rows keep the value that they have.
    Constant(ScalarValue),
    /// A value for all rows, new and existing.
    Given(ScalarValue),
    /// A value that the load generates.
    Missing,
    /// 1 if the `delete` condition is met, else 0.
    DeleteSign,
}

/// The conversion of the rows of a body to rows of a table.
#[derive(Debug)]
pub(super) struct Shape {
    reading: Reading,
    sources: Vec<Source>,
    derived: Option<Expressions>,
    /// The `where` condition, then the `delete` condition, as far as they are given, over the columns of `seen`.
    conditions: Option<Expressions>,
    /// The columns that conditions can name: columns of the table, then columns of the body that the table does not
    /// have.
    seen: SchemaRef,
    /// Positions of the latter in the batches that are read.
    seen_body: Vec<usize>,
    has_where: bool,
    has_delete: bool,
    /// SUM columns whose values are negated.
    negated: Vec<usize>,
    /// A value of the body that does not fit its column rejects its row.
    strict: bool,
    /// Positions of columns that every row gets even if it does not give them, such as the time of a change.
    always: Vec<usize>,
    output: SchemaRef,
    /// The fields of `output` by which values are converted.
    targets: Vec<FieldRef>,
    /// DATETIME and TIME columns with fewer than six digits: position, and digits.
    rounded: Vec<(usize, u8)>,
    /// The zone of the load.
    zone: Option<Zone>,
}

fn invalid(message: impl Into<String>) -> EngineError {
    EngineError::invalid(message)
}

fn no_column(name: &str, table: &TableSchema, header: &str) -> EngineError {
    let near = dipper_base::near::closest(name, table.columns.iter().map(|c| c.name.as_str()));
    let hint = near.map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
    EngineError::new(
        ErrorKind::NoColumn,
        format!("'{header}' names column '{name}', which the table does not have{hint}"),
    )
}

/// Returns the names in an expression, in lower case.
fn names_in(text: &str, session: &Session, header: &str) -> Result<HashSet<String>> {
    let options = session.variables().parse_options();
    let expr = dipper_dialect::parser::parse_expr(text, &options)
        .map_err(|e| EngineError::new(ErrorKind::Syntax, format!("'{header}': {e}")))?;
    let mut names = HashSet::new();
    let _ = visit_expressions(&expr, |e| {
        match e {
            Expr::Identifier(name) => drop(names.insert(name.value.to_lowercase())),
            Expr::CompoundIdentifier(parts) => names.extend(parts.last().map(|p| p.value.to_lowercase())),
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    Ok(names)
}

impl Shape {
    /// Resolves a request against a table. `inferred` are the columns of a body that describes itself (Parquet).
    ///
    /// # Errors
    /// `NoColumn` if a column does not exist; `Invalid` if one is named twice, or a NOT NULL column gets no value;
    /// otherwise the error of parsing or planning an expression.
    pub(super) async fn try_new(
        session: &Session,
        table: &Arc<TableSchema>,
        request: &StreamLoadRequest,
        inferred: Option<&SchemaRef>,
    ) -> Result<Self> {
        let request = &*op::resolved(table, request)?;
        check_model(table, request)?;
        let is_flexible = request.update_mode == UpdateMode::FlexibleColumns;
        let visible = table.columns.iter().filter(|c| !c.hidden && c.generated.is_none()).map(|c| c.name.clone());
        let mut names: Vec<String> = Vec::new();
        let mut derived: Vec<(usize, String)> = Vec::new();
        if request.columns.is_empty() || request.derives_only() {
            // A body that describes itself may lack columns, as a JSON object may.
            let has =
                |name: &String| inferred.is_none_or(|s| s.fields().iter().any(|f| f.name().eq_ignore_ascii_case(name)));
            names = visible.filter(has).chain(request.hidden_columns.iter().cloned()).collect();
            // A row may say that it deletes, and give its sequence value.
            let is_own = |c: &&TableColumn| c.hidden && (c.name == DELETE_SIGN || c.name == SEQUENCE);
            if is_flexible {
                names.extend(table.columns.iter().filter(is_own).map(|c| c.name.clone()));
            }
            if names.is_empty() && inferred.is_some() {
                return Err(EngineError::new(
                    ErrorKind::NoColumn,
                    "the body has none of the table's columns; name its columns in 'columns'",
                ));
            }
            if let Some(hidden) = request.hidden_columns.iter().find(|h| table.column(h).is_none_or(|c| !c.hidden)) {
                return Err(invalid(format!(
                    "'hidden_columns' names '{hidden}', which is no hidden column of the table"
                )));
            }
            // A body with column names may say what its rows do.
            let has_op = request.columns.is_empty()
                && !is_flexible
                && match inferred {
                    Some(schema) => schema.fields().iter().any(|f| op::is_op(f.name())),
                    None => request.format == Format::Json && request.json.jsonpaths.is_none(),
                };
            let sign = table.columns.iter().position(|c| c.name == DELETE_SIGN);
            if let Some(sign) = sign.filter(|_| has_op && op::applies(table) && request.merge_type == MergeType::Append)
                && !request.hidden_columns.iter().any(|h| h.eq_ignore_ascii_case(DELETE_SIGN))
            {
                names.push(op::OP.into());
                derived.push((sign, op::sign(&format!("`{}`", op::OP))));
            }
        }
        let place = |name: &str| table.columns.iter().position(|c| c.name.eq_ignore_ascii_case(name));
        for item in &request.columns {
            match item {
                ColumnItem::Body(name) => names.push(name.clone()),
                ColumnItem::Derived { name, expression } => {
                    let at = place(name).ok_or_else(|| no_column(name, table, "columns"))?;
                    derived.push((at, expression.clone()));
                }
            }
        }
        let given = names.iter().filter_map(|name| place(name)).chain(derived.iter().map(|(at, _)| *at));
        if let Some(column) = given.map(|at| &table.columns[at]).find(|column| column.generated.is_some()) {
            return Err(invalid(format!("The value specified for generated column '{}' is not allowed.", column.name)));
        }
        for (i, name) in names.iter().enumerate() {
            if names[..i].iter().any(|n| n.eq_ignore_ascii_case(name)) {
                return Err(invalid(format!("'columns' names column '{name}' twice")));
            }
        }
        // A hidden sequence column gets a copy of the named column.
        let own = table.sequence.and_then(|id| table.position(id)).map(|at| &table.columns[at]);
        let is_own = |name: &String| own.is_some_and(|c| !c.hidden && c.name.eq_ignore_ascii_case(name));
        if let Some(name) = request.sequence_col.as_ref().filter(|name| !is_own(name)) {
            if let Some(own) = own.filter(|c| !c.hidden) {
                return Err(invalid(format!(
                    "'function_column.sequence_col' names '{name}', but the table's sequence column is '{}'",
                    own.name
                )));
            }
            let at = place(SEQUENCE).ok_or_else(|| invalid("There is no sequence column in the table"))?;
            if !names.iter().any(|n| n.eq_ignore_ascii_case(name)) {
                return Err(no_column(name, table, "function_column.sequence_col"));
            }
            derived.push((at, format!("`{}`", name.replace('`', "``"))));
        }
        let mut used = HashSet::new();
        for (_, expression) in &derived {
            used.extend(names_in(expression, session, "columns")?);
        }
        // A column that is both stored and used by an expression is read as text, and stored by an expression of its
        // own.
        for name in &names {
            if let Some(at) = place(name)
                && used.contains(&name.to_lowercase())
                && !derived.iter().any(|(d, _)| *d == at)
            {
                derived.push((at, format!("`{}`", name.replace('`', "``"))));
            }
        }
        let mut conditions = Vec::new();
        for (header, text) in [("where", &request.where_), ("delete", &request.delete)] {
            if let Some(text) = text {
                names_in(text, session, header)?;
                conditions.push(text.clone());
            }
        }
        let condition_names: HashSet<String> = [("where", &request.where_), ("delete", &request.delete)]
            .into_iter()
            .filter_map(|(header, text)| text.as_ref().map(|t| names_in(t, session, header)))
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .flatten()
            .collect();
        let now = now(session);
        let times = super::times(&session.variables.time_zone(), request);
        let mut fields = Vec::with_capacity(names.len());
        let mut wanted = Vec::new();
        let mut absent = Vec::new();
        let mut sources: Vec<Option<Source>> = vec![None; table.columns.len()];
        let mut temporary = Vec::new();
        for (i, name) in names.iter().enumerate() {
            let at = place(name);
            let own = inferred.and_then(|s| s.fields().iter().find(|f| f.name().eq_ignore_ascii_case(name)));
            if inferred.is_some() && own.is_none() {
                return Err(EngineError::new(ErrorKind::NoColumn, format!("the body has no column '{name}'")));
            }
            let replaced = at.is_some_and(|at| derived.iter().any(|(d, _)| *d == at));
            let stored = at.filter(|_| !replaced);
            let data_type = match (own, stored) {
                (Some(own), _) => own.data_type().clone(),
                (None, Some(at)) => {
                    let own = table.columns[at].data_type.to_arrow();
                    match request.format == Format::HiveText && is_unknown_to_hive(&own) {
                        true => DataType::Utf8View,
                        false => Times::read_as(times, own),
                    }
                }
                (None, None) => DataType::Utf8View,
            };
            let in_condition = at.is_none() && condition_names.contains(&name.to_lowercase());
            if stored.is_some() || used.contains(&name.to_lowercase()) || in_condition {
                if let Some(at) = stored {
                    let to = table.columns[at].data_type.to_arrow();
                    let as_text = own.is_none() && data_type != to && Times::read_as(times, to) == data_type;
                    sources[at] = Some(match times.filter(|_| as_text) {
                        Some(times) => Source::Time(wanted.len(), times),
                        None => Source::Body(wanted.len()),
                    });
                }
                if in_condition {
                    temporary.push((wanted.len(), name.clone()));
                }
                wanted.push(i);
                let changed = match at.filter(|_| is_flexible) {
                    Some(at) => changed_at(&table.columns[at], &now)?,
                    None => None,
                };
                let absent_value = match (changed, at.filter(|_| request.format == Format::Json)) {
                    (Some(changed), _) => Some(changed.to_array()?),
                    (None, Some(at)) => default_of(&table.columns[at], &data_type, &now)?,
                    (None, None) => None,
                };
                absent.push(absent_value);
            }
            fields.push(Field::new(name, data_type, true));
        }
        let body = Arc::new(Schema::new(fields));
        let read: SchemaRef = Arc::new(body.project(&wanted)?);
        for (i, (at, _)) in derived.iter().enumerate() {
            if matches!(sources[*at], Some(Source::Derived(_))) {
                return Err(invalid(format!("'columns' derives column '{}' twice", table.columns[*at].name)));
            }
            sources[*at] = Some(Source::Derived(i));
        }
        let derived = match derived.is_empty() {
            true => None,
            false => {
                let cast = |(at, text): &(usize, String)| typed(text, &table.columns[*at].data_type);
                let texts: Vec<String> = derived.iter().map(cast).collect();
                let fills: Vec<&SqlType> = derived.iter().map(|(at, _)| &table.columns[*at].data_type).collect();
                Some(Expressions::compile(session, &read, &texts, &fills).await?)
            }
        };
        let sources = sources
            .into_iter()
            .zip(&table.columns)
            .map(|(source, column)| match source {
                Some(source) => Ok(source),
                None => unnamed(column, table, request, &now),
            })
            .collect::<Result<Vec<_>>>()?;
        let (mut required, mut always) = (Vec::new(), Vec::new());
        for (at, (source, column)) in sources.iter().zip(&table.columns).enumerate().filter(|_| is_flexible) {
            match source {
                Source::Body(place) | Source::Time(place, _) if at < table.keys => required.push(*place),
                _ if column.on_update.is_some() => always.push(at),
                _ => {}
            }
        }
        let nullable = |f: &FieldRef| Arc::new(f.as_ref().clone().with_nullable(true));
        let output: SchemaRef = Arc::new(Schema::new(table.arrow().fields().iter().map(nullable).collect::<Vec<_>>()));
        let mut seen: Vec<FieldRef> = output.fields().iter().cloned().collect();
        seen.extend(temporary.iter().map(|(i, _)| Arc::clone(&read.fields()[*i])));
        let seen = Arc::new(Schema::new(seen));
        let conditions = match conditions.is_empty() {
            true => None,
            false => {
                let texts: Vec<String> = conditions.iter().map(|c| format!("CAST(({c}) AS BOOLEAN)")).collect();
                Some(Expressions::compile(session, &seen, &texts, &[]).await?)
            }
        };
        let is_sum = |c: &TableColumn| c.aggregate == Some(Aggregate::Sum);
        let negated = match request.negative {
            true => (0..table.columns.len()).filter(|i| is_sum(&table.columns[*i])).collect(),
            false => Vec::new(),
        };
        let digits = |(i, c): (usize, &TableColumn)| match c.data_type {
            SqlType::DateTime(p) | SqlType::Time(p) if p < 6 => Some((i, p)),
            _ => None,
        };
        Ok(Shape {
            reading: Reading { body, wanted, absent, required },
            sources,
            derived,
            conditions,
            seen,
            seen_body: temporary.into_iter().map(|(i, _)| i).collect(),
            has_where: request.where_.is_some(),
            has_delete: request.delete.is_some(),
            negated,
            always,
            strict: request.strict_mode,
            targets: table.columns.iter().zip(output.fields()).map(|(column, field)| target(column, field)).collect(),
            output,
            rounded: table.columns.iter().enumerate().filter_map(digits).collect(),
            zone: Zone::parse(&session.variables.time_zone()),
        })
    }
}

impl Shaper for Shape {
    fn reading(&self) -> &Reading {
        &self.reading
    }

    /// Columns that every row gets: from the body, from an expression, or from the kind of load.
    fn given(&self) -> Vec<usize> {
        let is_given = |source: &Source| !matches!(source, Source::Constant(_) | Source::Missing);
        (0..self.sources.len()).filter(|at| is_given(&self.sources[*at])).collect()
    }

    fn given_by_row(&self, present: &[BooleanArray], shaped: &Shaped) -> Result<Given> {
        let rows = shaped.batch.num_rows();
        let kept = shaped.rows.as_ref().map(|rows| UInt32Array::from(rows.clone()));
        let all = |given: bool| BooleanArray::from(vec![given; rows]);
        let of = |(at, source): (usize, &Source)| match source {
            _ if self.always.contains(&at) => Ok(all(true)),
            Source::Body(place) | Source::Time(place, _) => match &kept {
                Some(kept) => Ok(take(&present[*place], kept, None)?.as_boolean().clone()),
                None => Ok(present[*place].clone()),
            },
            Source::Derived(_) | Source::Given(_) | Source::DeleteSign => Ok(all(true)),
            Source::Constant(_) | Source::Missing => Ok(all(false)),
        };
        self.sources.iter().enumerate().map(of).collect()
    }

    fn shape(&self, batch: &RecordBatch) -> Result<Shaped> {
        let rows = batch.num_rows();
        let derived = self.derived.as_ref().map(|d| d.evaluate(batch)).transpose()?.unwrap_or_default();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.sources.len());
        let mut misfits: BTreeMap<usize, String> = BTreeMap::new();
        for (source, field) in self.sources.iter().zip(&self.targets) {
            columns.push(match source {
                Source::Body(at) => {
                    let (array, rows) = stored(batch.column(*at), field, self.zone)?;
                    for row in rows.into_iter().filter(|_| self.strict) {
                        misfits.entry(row).or_insert_with(|| wrong(batch.column(*at), row, field));
                    }
                    array
                }
                Source::Time(at, times) => {
                    let (array, bad) = times.read(batch.column(*at), field)?;
                    for (row, why) in bad.into_iter().filter(|_| self.strict) {
                        let reason = || format!("{} {why}", wrong(batch.column(*at), row, field));
                        misfits.entry(row).or_insert_with(reason);
                    }
                    array
                }
                Source::Derived(at) => stored(&derived[*at], field, self.zone)?.0,
                Source::Constant(value) | Source::Given(value) => value.to_array_of_size(rows)?,
                Source::Missing => new_null_array(field.data_type(), rows),
                // Filled in below, after the condition is evaluated.
                Source::DeleteSign => Arc::new(Int8Array::from(vec![0_i8; rows])),
            });
        }
        for (at, digits) in &self.rounded {
            let rounded = rounded(&columns[*at], *digits);
            if rounded.null_count() > columns[*at].null_count()
                && let Source::Body(place) | Source::Time(place, _) = &self.sources[*at]
                && self.strict
            {
                for row in (0..rows).filter(|row| rounded.is_null(*row) && columns[*at].is_valid(*row)) {
                    let reason = || wrong(batch.column(*place), row, self.output.field(*at));
                    misfits.entry(row).or_insert_with(reason);
                }
            }
            columns[*at] = rounded;
        }
        if !misfits.is_empty() {
            // The rows are removed, as with text, where the reader rejects these rows.
            let good: Vec<u32> = (0..rows).filter(|row| !misfits.contains_key(row)).map(|row| row as u32).collect();
            let mask: BooleanArray = (0..rows).map(|row| Some(!misfits.contains_key(&row))).collect();
            let shaped = self.shape(&filter_record_batch(batch, &mask)?)?;
            let kept = (0..shaped.batch.num_rows()).map(|row| good[shaped.input_row(row)]).collect();
            return Ok(Shaped { rows: Some(kept), misfits: misfits.into_iter().collect(), ..shaped });
        }
        for at in &self.negated {
            columns[*at] = neg(&columns[*at])?;
        }
        let mut keep = None;
        if let Some(conditions) = &self.conditions {
            let mut all = columns.clone();
            all.extend(self.seen_body.iter().map(|at| Arc::clone(batch.column(*at))));
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            let seen = RecordBatch::try_new_with_options(Arc::clone(&self.seen), all, &options)?;
            let mut results = conditions.evaluate(&seen)?.into_iter();
            if self.has_where {
                keep = results.next();
            }
            if let (true, Some(met)) = (self.has_delete, results.next()) {
                let met = met.as_boolean();
                let sign: Int8Array = (0..rows).map(|i| Some(i8::from(met.is_valid(i) && met.value(i)))).collect();
                if let Some(at) = self.sources.iter().position(|s| matches!(s, Source::DeleteSign)) {
                    columns[at] = Arc::new(sign);
                }
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.output), columns, &options)?;
        let Some(keep) = keep else { return Ok(Shaped { batch, rows: None, unselected: 0, misfits: Vec::new() }) };
        let keep = keep.as_boolean();
        let kept: Vec<u32> = (0..rows).filter(|i| keep.is_valid(*i) && keep.value(*i)).map(|i| i as u32).collect();
        let mask: BooleanArray = (0..rows).map(|i| Some(keep.is_valid(i) && keep.value(i))).collect();
        let unselected = (rows - kept.len()) as u64;
        Ok(Shaped { batch: filter_record_batch(&batch, &mask)?, rows: Some(kept), unselected, misfits: Vec::new() })
    }
}

/// Whether the Hive text reader does not support this type. Its values are read as text and then cast.
fn is_unknown_to_hive(data_type: &DataType) -> bool {
    !data_type.is_nested() && (is_address(data_type) || hive_type(&Field::new("", data_type.clone(), true)).is_err())
}

/// Checks headers that only some tables support.
fn check_model(table: &TableSchema, request: &StreamLoadRequest) -> Result<()> {
    if request.update_mode != UpdateMode::Upsert && table.model != Model::Unique {
        return Err(invalid("Only unique key merge on write support partial update"));
    }
    if request.merge_type != MergeType::Append && table.has_sequences() {
        return Err(EngineError::unsupported(
            "load by MERGE or DELETE into a table whose columns have sequences of their own; use DELETE",
        ));
    }
    if request.merge_type != MergeType::Append && table.model != Model::Unique {
        return Err(invalid("load by MERGE or DELETE is only supported in unique tables."));
    }
    let hidden_sequence = table.columns.iter().any(|c| c.name == SEQUENCE);
    let named = request.columns.iter().any(|c| match c {
        ColumnItem::Body(name) | ColumnItem::Derived { name, .. } => name == SEQUENCE,
    });
    let named = named || request.hidden_columns.iter().any(|h| h == SEQUENCE);
    let whole_rows = request.update_mode == UpdateMode::Upsert;
    // Rows with only some columns need it as well, because any of these may be the one it is mapped from.
    let needs_hidden = hidden_sequence && request.update_mode != UpdateMode::FlexibleColumns;
    // For a visible sequence column: if the columns are listed, it must be among them or have a default.
    let own = table.sequence.and_then(|id| table.position(id)).map(|at| &table.columns[at]);
    let is_listed = |column: &TableColumn| {
        let is = |item: &ColumnItem| match item {
            ColumnItem::Body(name) | ColumnItem::Derived { name, .. } => name.eq_ignore_ascii_case(&column.name),
        };
        request.columns.is_empty() || request.derives_only() || request.columns.iter().any(is)
    };
    let lacks_own = own.is_some_and(|column| !column.hidden && column.default.is_none() && !is_listed(column));
    let is_missing = needs_hidden && request.sequence_col.is_none() && !named || whole_rows && lacks_own;
    if is_missing && request.merge_type != MergeType::Delete {
        return Err(invalid("the table has a sequence column, need to specify the sequence column"));
    }
    if request.negative {
        let sums =
            table.columns[table.keys..].iter().filter(|c| !c.hidden).all(|c| c.aggregate == Some(Aggregate::Sum));
        if table.model != Model::Aggregate || !sums {
            return Err(invalid("'negative' is for AGGREGATE tables whose value columns are all SUM"));
        }
    }
    Ok(())
}

/// Returns the source of a column that neither the body nor an expression gives.
fn unnamed(column: &TableColumn, table: &TableSchema, request: &StreamLoadRequest, now: &Now) -> Result<Source> {
    if column.name == DELETE_SIGN {
        return Ok(match request.merge_type {
            MergeType::Append => Source::Constant(ScalarValue::Int8(Some(0))),
            // Existing rows get it as well, because they do not have it.
            MergeType::Delete => Source::Given(ScalarValue::Int8(Some(1))),
            MergeType::Merge => Source::DeleteSign,
        });
    }
    if column.auto_increment.is_some() || column.generated.is_some() {
        return Ok(Source::Missing);
    }
    // Existing rows get it as well, because the load changes them.
    if request.update_mode == UpdateMode::FixedColumns
        && let Some(changed) = changed_at(column, now)?
    {
        return Ok(Source::Given(changed));
    }
    // A row that deletes needs only its key.
    let is_key = table.key_columns().iter().any(|k| k.id == column.id);
    match default_value(column, now)? {
        Some(value) => Ok(Source::Constant(value)),
        None if request.merge_type == MergeType::Delete && !is_key => {
            Ok(Source::Constant(ScalarValue::new_default(&column.data_type.to_arrow())?))
        }
        // Existing rows have a value; a new row without it is rejected.
        None if request.update_mode == UpdateMode::FixedColumns => Ok(Source::Missing),
        None => Err(invalid(format!("Column has no default value, column={}", column.name))),
    }
}

/// Returns the default of a column as one value of the type in which the column is read; `None` if it is NULL.
fn default_of(column: &TableColumn, read_as: &DataType, now: &Now) -> Result<Option<ArrayRef>> {
    let Some(value) = default_value(column, now)?.filter(|value| !value.is_null()) else { return Ok(None) };
    if value.data_type() == *read_as {
        return Ok(Some(value.to_array()?));
    }
    // Dates and times in lists are read as text; an empty list has the same form in both types.
    if let (DataType::List(element), ScalarValue::List(list)) = (read_as, &value)
        && list.values().is_empty()
    {
        return Ok(Some(Arc::new(no_elements(element))));
    }
    if *read_as != DataType::Utf8View {
        return Ok(None);
    }
    // Text for an expression, or for `Times`.
    let text = match (&column.default, &value) {
        (Some(DefaultValue::Literal(text)), _) => ScalarValue::Utf8View(text.clone()),
        (_, ScalarValue::TimestampMicrosecond(Some(micros), None)) => {
            ScalarValue::Utf8View(Some(format_datetime(*micros)))
        }
        _ => value.cast_to(&DataType::Utf8View)?,
    };
    Ok(Some(text.to_array()?))
}

/// Casts an expression to a type, if the cast can be written in SQL.
fn typed(expression: &str, to: &SqlType) -> String {
    match to {
        SqlType::Char(_) | SqlType::Varchar(_) | SqlType::String => format!("CAST(({expression}) AS STRING)"),
        SqlType::Json | SqlType::Variant | SqlType::Binary => format!("({expression})"),
        set if set.is_set() => format!("({expression})"),
        SqlType::Array(_) | SqlType::Map(..) | SqlType::Struct(_) => format!("({expression})"),
        to => format!("CAST(({expression}) AS {to})"),
    }
}

/// The reason why a strict load rejects a row, in the words of loads of text.
fn wrong(array: &ArrayRef, row: usize, field: &Field) -> String {
    let value = arrow::util::display::array_value_to_string(array, row).unwrap_or_default();
    let shown: String = value.chars().take(VALUE_CHARS_SHOWN).collect();
    format!("column({}) value is incorrect while strict mode is 1, src value is \"{shown}\"", field.name())
}

/// Compiled expressions over one schema.
#[derive(Debug)]
pub(crate) struct Expressions {
    /// Positions of the columns that are used.
    inputs: Vec<usize>,
    schema: SchemaRef,
    /// Projections, each over the one before. The columns of the last one are the results. The layers compute shared
    /// parts of several expressions once.
    layers: Vec<Layer>,
    /// A function whose value depends on more than its arguments.
    varying: Option<String>,
}

#[derive(Debug)]
struct Layer {
    expressions: Vec<Arc<dyn PhysicalExpr>>,
    schema: SchemaRef,
}

impl Expressions {
    /// Returns a function whose value depends on the time, on the session or on chance, if one is called.
    pub(crate) fn varying(&self) -> Option<&str> {
        self.varying.as_deref()
    }

    /// Compiles expressions. `fills` are the types of the columns that the first ones fill.
    pub(crate) async fn compile(
        session: &Session,
        over: &SchemaRef,
        texts: &[String],
        fills: &[&SqlType],
    ) -> Result<Self> {
        // The body has no name that users know.
        let full = format!("{CATALOG}.{FILES_SCHEMA}.{BODY}");
        let unnamed = |text: String| {
            let text = text.replace(&format!("{full}."), "").replace(&format!("{BODY}."), "");
            text.replace(&full, "the body").replace(BODY, "the body")
        };
        let compiled = Self::compiled(session, over, texts, fills).await;
        compiled.map_err(|e| EngineError { message: unnamed(e.message), ..e })
    }

    async fn compiled(session: &Session, over: &SchemaRef, texts: &[String], fills: &[&SqlType]) -> Result<Self> {
        let items: Vec<String> = texts.iter().enumerate().map(|(i, t)| format!("{t} AS `__{i}`")).collect();
        let sql = format!("SELECT {} FROM `{BODY}`", items.join(", "));
        let mut parsed = session.parse(&sql)?;
        let (Some(Statement::Query(query)), true) = (parsed.pop().map(|p| p.statement), parsed.is_empty()) else {
            return Err(invalid("an expression of a load is more than one expression"));
        };
        let context: Arc<QueryContext> = session.query_context().await?;
        let mut query = functions::expand(&context, &query)?.unwrap_or(query);
        arguments_in_query(&mut query.ast, fills);
        let tables = TableSet::only(&query, BODY, Arc::new(EmptyTable::new(Arc::clone(over))))?;
        let prepared =
            prepare_query(&query, &Context { schemas: &tables, variables: context.as_ref(), parameters: None })?;
        let state = session_state(&context, &tables);
        let statement = sqlparser::ast::Statement::Query(prepared.query.clone());
        let logical: LogicalPlan = state.statement_to_plan(DfStatement::Statement(Box::new(statement))).await?;
        let mut varying = None;
        logical.apply(|node| {
            node.apply_expressions(|expr| {
                expr.apply(|part| {
                    if let PlannedExpr::ScalarFunction(call) = part
                        && call.func.signature().volatility != Volatility::Immutable
                    {
                        varying = Some(call.name().to_string());
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        let physical = state.create_physical_plan(&logical).await?;
        Ok(Expressions { varying, ..Self::of(&physical, over)? })
    }

    fn of(plan: &Arc<dyn ExecutionPlan>, over: &SchemaRef) -> Result<Self> {
        let mut layers = Vec::new();
        let mut at = Arc::clone(plan);
        while let Some(projection) = at.downcast_ref::<ProjectionExec>() {
            let expressions = projection.expr().iter().map(|e| Arc::clone(&e.expr)).collect();
            layers.push(Layer { expressions, schema: projection.schema() });
            let input = Arc::clone(projection.input());
            at = input;
        }
        layers.reverse();
        // The input has the columns that are used, and applies no other operation.
        if !at.children().is_empty() {
            return Err(EngineError::unsupported(
                "an expression of a load may use functions of a row's own columns, but no aggregates, windows or subqueries",
            ));
        }
        let schema = at.schema();
        let inputs = schema.fields().iter().map(|f| Ok(over.index_of(f.name())?)).collect::<Result<Vec<_>>>()?;
        Ok(Expressions { inputs, schema, layers, varying: None })
    }

    pub(crate) fn evaluate(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let rows = batch.num_rows();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let inputs = self.inputs.iter().map(|i| Arc::clone(batch.column(*i))).collect();
        let mut current = RecordBatch::try_new_with_options(Arc::clone(&self.schema), inputs, &options)?;
        for layer in &self.layers {
            let columns = layer
                .expressions
                .iter()
                .map(|e| Ok(e.evaluate(&current)?.into_array(rows)?))
                .collect::<Result<Vec<_>>>()?;
            current = RecordBatch::try_new_with_options(Arc::clone(&layer.schema), columns, &options)?;
        }
        Ok(current.columns().to_vec())
    }
}

#[cfg(test)]
#[path = "shape_tests.rs"]
mod tests;
