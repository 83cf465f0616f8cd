//! Aggregates that need all of their rows together: funnels, sequences, histograms, arrays.
//!
//! The rows are kept in an encoding of their own ([`super::kept`]), whose bytes are charged to the query. A partial
//! state is the list of the rows.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, new_null_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use super::adapted::Adapted;
use super::func::MANY;
use super::kept::{RowList, can_keep};
use super::{arrays_of_groups, funnel, histograms, intersections, sequence, statistics};
use crate::metadata::TYPE_KEY;
use crate::type_text::Sql;

/// Returns the specifications of all functions.
fn all() -> impl Iterator<Item = &'static Spec> {
    let tables: [&'static [Spec]; 6] = [
        funnel::SPECS,
        sequence::SPECS,
        histograms::SPECS,
        arrays_of_groups::SPECS,
        intersections::SPECS,
        statistics::SPECS,
    ];
    tables.into_iter().flatten()
}

/// Registers the functions.
///
/// # Errors
/// The registry's error if it refuses a function.
pub(super) fn register(registry: &mut dyn FunctionRegistry) -> Result<()> {
    for spec in all() {
        let aliases = spec.aliases.iter().map(|alias| (*alias).to_owned()).collect();
        let signature = Signature::user_defined(Volatility::Immutable);
        let plain = AggregateUDF::new_from_impl(Function { spec, aliases, signature });
        registry.register_udaf(Adapted::new(Arc::new(plain)).distinct_rows().udaf())?;
    }
    Ok(())
}

/// Returns the type of an argument that counts something (`what`): BIGINT, from integers and from text that holds one.
///
/// # Errors
/// `Plan` for another type: infinities and numbers beyond BIGINT are not counts.
pub(super) fn count_type(name: &str, what: &str, t: &DataType) -> Result<DataType> {
    match t {
        DataType::Decimal128(_, 0) | DataType::Decimal256(_, 0) | DataType::Null => Ok(DataType::Int64),
        t if t.is_integer() || t.is_string() => Ok(DataType::Int64),
        t => plan_err!("{name} takes a whole number as the {what}, found {}", Sql(t)),
    }
}

/// The rows that count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Counts {
    /// All rows.
    All,
    /// Rows whose first argument is not NULL.
    First,
    /// Rows without a NULL.
    Complete,
}

/// The description of one aggregate.
pub(super) struct Spec {
    /// Name in lower case.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// Smallest and largest number of arguments.
    pub arity: (usize, usize),
    /// Returns the types to which the arguments are converted.
    pub takes: fn(&'static str, &[DataType]) -> Result<Vec<DataType>>,
    /// Returns the type of the result, given the converted types of the arguments.
    pub returns: fn(&[DataType]) -> Result<DataType>,
    /// The SQL type of the result, where it says more than Arrow's type.
    pub declared: Option<&'static str>,
    /// The rows that are kept.
    pub counts: Counts,
    /// Returns the result for no rows.
    pub nothing: fn(&DataType) -> Result<ScalarValue>,
    /// Returns the result for the rows, in the order in which they came.
    pub finish: fn(&Rows<'_>) -> Result<ScalarValue>,
}

/// Returns NULL.
pub(super) fn null(t: &DataType) -> Result<ScalarValue> {
    ScalarValue::try_new_null(t)
}

/// Returns an empty array or map.
pub(super) fn empty(t: &DataType) -> Result<ScalarValue> {
    match t {
        DataType::Map(..) => {
            let one = new_null_array(t, 1);
            let (entries, _, parts, _, sorted) = one.as_map().clone().into_parts();
            let offsets = OffsetBuffer::new_zeroed(1);
            Ok(ScalarValue::Map(Arc::new(MapArray::try_new(entries, offsets, parts, None, sorted)?)))
        }
        t => ScalarValue::new_default(t),
    }
}

/// The rows of one group, at least one.
pub(super) struct Rows<'a> {
    /// The function's name, for messages.
    pub name: &'static str,
    /// The arguments.
    pub columns: &'a [ArrayRef],
    /// The number of rows.
    pub len: usize,
    /// The type of the result.
    pub returns: &'a DataType,
}

impl Rows<'_> {
    /// Returns NULL of the result's type.
    pub(super) fn null(&self) -> Result<ScalarValue> {
        ScalarValue::try_new_null(self.returns)
    }
}

// Names are unique in a registry, so the name is the identity.
impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.spec.name == other.spec.name
    }
}
impl Eq for Function {}
impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.spec.name.hash(state);
    }
}

struct Function {
    spec: &'static Spec,
    aliases: Vec<String>,
    signature: Signature,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Function").field("name", &self.spec.name).finish_non_exhaustive()
    }
}

fn members(types: &[DataType]) -> Fields {
    types.iter().enumerate().map(|(at, t)| Field::new(format!("c{at}"), t.clone(), true)).collect()
}

impl AggregateUDFImpl for Function {
    fn name(&self) -> &str {
        self.spec.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let (name, (least, most)) = (self.spec.name, self.spec.arity);
        if types.len() < least || types.len() > most {
            let wanted = match (least, most) {
                (least, most) if least == most => format!("{least}"),
                (least, MANY) => format!("at least {least}"),
                (least, most) => format!("{least} to {most}"),
            };
            return plan_err!("{name} takes {wanted} arguments, found {}", types.len());
        }
        let plain = |t: &DataType| match t {
            DataType::Dictionary(_, value) => value.as_ref().clone(),
            t => t.clone(),
        };
        let types = (self.spec.takes)(name, &types.iter().map(plain).collect::<Vec<_>>())?;
        match types.iter().find(|t| !can_keep(std::slice::from_ref(t))) {
            Some(t) => plan_err!("{name} does not take values of type {}", Sql(t)),
            None => Ok(types),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        (self.spec.returns)(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        let types: Vec<DataType> = fields.iter().map(|field| field.data_type().clone()).collect();
        let field = Field::new(self.spec.name, self.return_type(&types)?, true);
        Ok(Arc::new(match self.spec.declared {
            Some(text) => field.with_metadata([(TYPE_KEY.to_string(), text.to_string())].into()),
            None => field,
        }))
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        (self.spec.nothing)(data_type)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let types: Vec<DataType> = args.input_fields.iter().map(|field| field.data_type().clone()).collect();
        let list = DataType::List(Arc::new(Field::new_list_field(DataType::Struct(members(&types)), true)));
        Ok(vec![Arc::new(Field::new(format_state_name(args.name, "rows"), list, true))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let types: Vec<DataType> = args.expr_fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(Box::new(Collected {
            spec: self.spec,
            returns: args.return_field.data_type().clone(),
            members: members(&types),
            rows: RowList::new(&types)?,
        }))
    }
}

struct Collected {
    spec: &'static Spec,
    returns: DataType,
    members: Fields,
    rows: RowList,
}

impl std::fmt::Debug for Collected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collected")
            .field("name", &self.spec.name)
            .field("rows", &self.rows.len())
            .finish_non_exhaustive()
    }
}

impl Accumulator for Collected {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let asked = match self.spec.counts {
            Counts::All => &columns[..0],
            Counts::First => &columns[..1],
            Counts::Complete => columns,
        };
        let nulls = asked.iter().fold(None, |nulls: Option<NullBuffer>, column| {
            NullBuffer::union(nulls.as_ref(), column.logical_nulls().as_ref())
        });
        self.rows.extend(columns, |row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for rows in states[0].as_list::<i32>().iter().flatten() {
            self.rows.extend(rows.as_struct().columns(), |_| true)?;
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let rows = StructArray::try_new(self.members.clone(), self.rows.columns()?, None)?;
        let field = Arc::new(Field::new_list_field(rows.data_type().clone(), true));
        let list = ListArray::try_new(field, OffsetBuffer::from_lengths([rows.len()]), Arc::new(rows), None)?;
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.rows.len() == 0 {
            return (self.spec.nothing)(&self.returns);
        }
        let columns = self.rows.columns()?;
        let rows = Rows { name: self.spec.name, columns: &columns, len: self.rows.len(), returns: &self.returns };
        (self.spec.finish)(&rows)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.rows.size()
    }
}
