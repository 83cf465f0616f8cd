//! Type names in casts and typed literals.

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::datatype::DataTypeExt;
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::planner::TypePlanner;
use sqlparser::ast;

use super::operators::DATETIME;
use crate::parser::{TYPE_NAME, parse_type};

/// Our own types, and DATETIME and TIMESTAMP as microseconds.
#[derive(Debug, Default)]
pub struct CharterTypes;

impl TypePlanner for CharterTypes {
    fn plan_type_field(&self, sql_type: &ast::DataType) -> Result<Option<FieldRef>> {
        let planned: Option<DataType> = match sql_type {
            ast::DataType::Custom(name, modifiers) if name.to_string() == TYPE_NAME => {
                let text = modifiers.first().map_or("", String::as_str);
                let parsed = parse_type(text).map_err(|e| DataFusionError::Plan(e.to_string()))?;
                Some(parsed.to_arrow())
            }
            ast::DataType::Timestamp(_, ast::TimezoneInfo::None | ast::TimezoneInfo::WithoutTimeZone)
            | ast::DataType::Datetime(_) => Some(DATETIME),
            _ => None,
        };
        Ok(planned.map(DataType::into_nullable_field_ref))
    }
}
