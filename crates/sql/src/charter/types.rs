//! Type names in casts and typed literals.

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::common::datatype::DataTypeExt;
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::planner::TypePlanner;
use dipper_base::types::SqlType;
use dipper_dialect::parser::{TYPE_NAME, parse_type};
use sqlparser::ast;

use crate::class::DATETIME;
use crate::metadata::TYPE_KEY;

/// The planner of dipper's own types, and of DATETIME and TIMESTAMP with microseconds.
#[derive(Debug, Default)]
pub struct CharterTypes;

impl TypePlanner for CharterTypes {
    fn plan_type_field(&self, sql_type: &ast::DataType) -> Result<Option<FieldRef>> {
        let parsed = match sql_type {
            ast::DataType::Custom(name, modifiers) if name.to_string() == TYPE_NAME => {
                let text = modifiers.first().map_or("", String::as_str);
                parse_type(text).map_err(|e| DataFusionError::Plan(e.to_string()))?
            }
            ast::DataType::Datetime(Some(digits)) => SqlType::DateTime((*digits).min(6) as u8),
            ast::DataType::Timestamp(_, ast::TimezoneInfo::None | ast::TimezoneInfo::WithoutTimeZone)
            | ast::DataType::Datetime(None) => return Ok(Some(DATETIME.into_nullable_field_ref())),
            _ => return Ok(None),
        };
        let field = parsed.to_arrow().into_nullable_field();
        let text = parsed.to_string();
        // The digits of DATETIME and TIME are not part of Arrow's type.
        Ok(Some(Arc::new(match text.contains("time") {
            true => field.with_metadata([(TYPE_KEY.to_string(), text)].into()),
            false => field,
        })))
    }
}
