//! Functions of QUANTILE_STATE values, which are encoded as in `dipper_base::quantile`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray};
use arrow::datatypes::DataType;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use datafusion::common::{DataFusionError, Result, exec_err};
use dipper_base::quantile::{COMPRESSION, Quantiles};
use dipper_base::sketch::SketchError;

use super::args::{Args, Col, lenient_cast};
use super::func::{Def, Ret, def};
use super::sketch::check_set;

const QUANTILE_STATE: Ret = Ret::Set("quantile_state");

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("quantile_state_empty", &[], (0, 0), QUANTILE_STATE, |a| made(a, |_| Some(Quantiles::new(COMPRESSION)))),
    // A NULL is no value, so that the result can fill columns that are NOT NULL.
    def("to_quantile_state", &[], (2, 2), QUANTILE_STATE, |a| {
        let (values, compressions) = (a.double(0)?, a.double(1)?);
        made(a, |i| {
            let mut set = Quantiles::new(compressions.at(i).map_or(COMPRESSION, |c| c as f32));
            if let Some(value) = values.at(i) {
                set.add(value);
            }
            Some(set)
        })
    }),
    def("quantile_percent", &[], (2, 2), Ret::Double, quantile_percent),
    def("quantile_state_to_base64", &[], (1, 1), Ret::Text, |a| {
        let sets = sets(a)?;
        a.texts(|i, out| {
            STANDARD.encode_string(sets.at(i)?, out);
            Some(())
        })
    }),
    def("quantile_state_from_base64", &[], (1, 1), QUANTILE_STATE, |a| {
        let texts = a.text(0)?;
        made(a, |i| Quantiles::from_bytes(&STANDARD.decode(texts.at(i)?.trim()).ok()?).ok())
    }),
];

fn external(e: SketchError) -> DataFusionError {
    DataFusionError::External(Box::new(e))
}

fn made(a: &Args, mut f: impl FnMut(usize) -> Option<Quantiles>) -> Result<ArrayRef> {
    Ok(Arc::new((0..a.rows).map(|i| f(i).map(|mut set| set.to_bytes())).collect::<BinaryViewArray>()))
}

fn sets(a: &Args) -> Result<Col<BinaryViewArray>> {
    let raw = a.raw(0);
    check_set(a.name, raw.array.data_type())?;
    Ok(Col { array: lenient_cast(&raw.array, &DataType::BinaryView)?.as_binary_view().clone(), one: raw.one })
}

fn quantile_percent(a: &Args) -> Result<ArrayRef> {
    let (sets, parts) = (sets(a)?, a.double(1)?);
    let mut values = Vec::with_capacity(a.rows);
    for i in 0..a.rows {
        values.push(match (sets.at(i), parts.at(i)) {
            (_, Some(part)) if !(0.0..=1.0).contains(&part) => {
                return exec_err!("{}: expected a part from 0 to 1, found {part}", a.name);
            }
            (Some(bytes), Some(part)) => Quantiles::from_bytes(bytes).map_err(external)?.quantile(part),
            _ => None,
        });
    }
    a.doubles(|i| values[i])
}
