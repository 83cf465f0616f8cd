//! Scalar functions as data: name, arity, result type and a body over whole columns.
//!
//! DataFusion asks for a type with a dozen methods per function. Here all functions share [`Fun`], and a file of a
//! family lists [`Def`] values. Arguments arrive without casts: MySQL converts text to numbers and dates with NULL for
//! values that do not fit, while the planner's own casts would fail the statement. So a body converts its arguments
//! itself through [`Args`].

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::args::Args;
use super::tokens::ANALYZER_KEY;
use crate::class::{TIME, charter_type, coerced};
use crate::metadata::TYPE_KEY;

/// `DATETIME`: microseconds since 1970-01-01 without a zone.
pub const DATETIME: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// The name of the function that extracts a part of a document.
pub(super) const PART_OF_JSON: &str = "json_extract_string";

/// The name of the function behind `v['name']` of a document. It is a VARIANT if the document is one. (It is not a name
/// in SQL.)
pub(crate) const ELEMENT_OF_JSON: &str = "dipper_json_element";

/// The SQL type of text that is JSON.
pub const JSON: &str = "json";

/// The SQL type of text that is a VARIANT.
pub(crate) const VARIANT: &str = "variant";

/// The rule by which the result type follows from the arguments.
#[derive(Clone, Copy)]
pub enum Ret {
    /// Text, always as views.
    Text,
    /// BINARY, for text that need not be UTF-8; a table that is created from it has the column as STRING.
    Bytes,
    /// Text that is JSON.
    Json,
    /// The text of a VARIANT.
    Variant,
    /// A set of this type, BITMAP or HLL.
    Set(&'static str),
    /// BIGINT.
    Int,
    /// DOUBLE.
    Double,
    /// BOOLEAN.
    Bool,
    /// DATE.
    Date,
    /// DATETIME with microseconds.
    DateTime,
    /// TIME with microseconds.
    Time,
    /// The type of the argument with this number, counted from 0.
    Arg(usize),
    /// The common type of the arguments from this number on; they are cast to it before the call.
    Common(usize),
    /// A type that is computed from the types and the constant arguments.
    By(fn(&ReturnFieldArgs) -> Result<DataType>),
}

/// A rewrite of a call during planning.
pub type Simplify = fn(Vec<Expr>, &SimplifyContext) -> Result<ExprSimplifyResult>;

/// The description of one function.
#[derive(Clone, Copy)]
pub struct Def {
    /// Name in lower case.
    pub name: &'static str,
    /// Other names of the function.
    pub aliases: &'static [&'static str],
    /// The smallest and the largest number of arguments.
    pub arity: (usize, usize),
    /// The result type.
    pub ret: Ret,
    /// The body: takes columns and returns a column of `Args::rows` values.
    pub eval: fn(&Args) -> Result<ArrayRef>,
    /// The volatility; immutable unless set otherwise.
    pub volatility: Volatility,
    /// The rewrite during planning.
    pub simplify: Option<Simplify>,
}

/// Stands for no upper limit on the number of arguments.
pub const MANY: usize = usize::MAX;

/// Defines a function that has nothing but a body.
pub const fn def(
    name: &'static str,
    aliases: &'static [&'static str],
    arity: (usize, usize),
    ret: Ret,
    eval: fn(&Args) -> Result<ArrayRef>,
) -> Def {
    Def { name, aliases, arity, ret, eval, volatility: Volatility::Immutable, simplify: None }
}

impl Def {
    /// Sets the volatility of a function whose value differs per row or per statement.
    pub const fn with_volatility(self, volatility: Volatility) -> Self {
        Def { volatility, ..self }
    }

    /// Sets the rewrite of a function during planning.
    pub const fn with_simplify(self, simplify: Simplify) -> Self {
        Def { simplify: Some(simplify), ..self }
    }

    /// Turns the definition into a function for the planner's registry.
    pub fn into_udf(self) -> ScalarUDF {
        let aliases = self.aliases.iter().map(|a| (*a).to_owned()).collect();
        ScalarUDF::new_from_impl(Fun { def: self, aliases, signature: Signature::user_defined(self.volatility) })
    }
}

/// A [`Def`] in the form in which DataFusion calls functions.
struct Fun {
    def: Def,
    aliases: Vec<String>,
    signature: Signature,
}

impl std::fmt::Debug for Fun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fun").field("name", &self.def.name).finish()
    }
}

// Names are unique in a registry, so the name is the identity.
impl PartialEq for Fun {
    fn eq(&self, other: &Self) -> bool {
        self.def.name == other.def.name
    }
}
impl Eq for Fun {}
impl Hash for Fun {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.def.name.hash(state);
    }
}

/// Returns the number of arguments that a function takes as text, for error messages.
fn arity_text((least, most): (usize, usize)) -> String {
    match (least, most) {
        (a, b) if a == b => format!("{a}"),
        (a, MANY) => format!("at least {a}"),
        (a, b) => format!("{a} to {b}"),
    }
}

/// Returns the type to which all of `types` can be converted, as in a UNION.
pub fn common_type(name: &str, types: &[DataType]) -> Result<DataType> {
    if let Some(common) = charter_type(types.iter()) {
        return Ok(common);
    }
    match type_union_resolution(types) {
        Some(t) => Ok(t),
        None if types.iter().all(|t| !t.is_nested()) => Ok(DataType::Utf8View),
        None => plan_err!("{name}: the arguments have no common type, found {types:?}; cast them to one type"),
    }
}

impl ScalarUDFImpl for Fun {
    fn name(&self) -> &str {
        self.def.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        let fields: Vec<FieldRef> =
            arg_types.iter().map(|t| Arc::new(Field::new("a", t.clone(), true)) as FieldRef).collect();
        let none = vec![None; fields.len()];
        let field = self.return_field_from_args(ReturnFieldArgs { arg_fields: &fields, scalar_arguments: &none })?;
        Ok(field.data_type().clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        super::still_wanted()?;
        let data_type = match self.def.ret {
            Ret::Text | Ret::Json | Ret::Variant => DataType::Utf8View,
            Ret::Bytes | Ret::Set(_) => DataType::BinaryView,
            Ret::Int => DataType::Int64,
            Ret::Double => DataType::Float64,
            Ret::Bool => DataType::Boolean,
            Ret::Date => DataType::Date32,
            Ret::DateTime => DATETIME,
            Ret::Time => TIME,
            Ret::Arg(i) => args.arg_fields[i].data_type().clone(),
            Ret::Common(from) => {
                let types: Vec<_> = args.arg_fields[from..].iter().map(|f| f.data_type().clone()).collect();
                common_type(self.def.name, &types)?
            }
            Ret::By(f) => f(&args)?,
        };
        let field = Field::new(self.def.name, data_type, true);
        let declared = match self.def.ret {
            Ret::Bytes => "string",
            Ret::Json => JSON,
            Ret::Variant => VARIANT,
            Ret::Set(name) => name,
            _ => {
                // A part of a document is split into tokens by the analyzer of its column's index.
                let analyzer = args.arg_fields.first().and_then(|field| field.metadata().get(ANALYZER_KEY));
                return Ok(Arc::new(
                    match analyzer.filter(|_| [PART_OF_JSON, ELEMENT_OF_JSON].contains(&self.def.name)) {
                        Some(text) => field.with_metadata([(ANALYZER_KEY.to_string(), text.clone())].into()),
                        None => field,
                    },
                ));
            }
        };
        Ok(Arc::new(field.with_metadata([(TYPE_KEY.to_string(), declared.to_string())].into())))
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let (least, most) = self.def.arity;
        if arg_types.len() < least || arg_types.len() > most {
            return plan_err!(
                "function {} takes {} arguments, found {}",
                self.def.name,
                arity_text(self.def.arity),
                arg_types.len()
            );
        }
        let mut types = arg_types.to_vec();
        if let Ret::Common(from) = self.def.ret {
            let common = common_type(self.def.name, &types[from..])?;
            types[from..].iter_mut().for_each(|t| *t = coerced(t, &common));
        }
        Ok(types)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match self.def.simplify {
            Some(f) => f(args, info),
            None => Ok(ExprSimplifyResult::Original(args)),
        }
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // If all arguments are constants, so is the result: one row is evaluated and the planner folds it. A volatile
        // function has no constant result even with constant arguments.
        let constant = self.def.volatility != Volatility::Volatile
            && call.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { call.number_rows };
        let args = Args::try_new(self.def.name, &call, rows)?;
        let out = (self.def.eval)(&args)?;
        if constant {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&out, 0)?))
        } else {
            Ok(ColumnarValue::Array(out))
        }
    }
}
