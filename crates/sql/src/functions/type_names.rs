//! TYPEOF, and values drawn as bars.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};

use super::args::Args;
use super::func::{Def, Ret, def};

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("typeof", &[], (1, 1), Ret::Text, |a| {
        let name = match a.data_type(0) {
            DataType::Null => "null_type".to_string(),
            _ => a.sql_type(0),
        };
        a.texts(|_, out| {
            out.push_str(&name);
            Some(())
        })
    }),
    def("bar", &[], (4, 4), Ret::Text, bar),
];

/// The longest bar, in characters.
const WIDTH_MAX: i64 = 1_000;

/// `BAR(size, min, max, width)`: a bar of `width` characters for `max`, and of none for `min`.
fn bar(a: &Args) -> Result<ArrayRef> {
    let (size, min, max, width) = (a.double(0)?, a.double(1)?, a.double(2)?, a.int(3)?);
    let mut failure = None;
    let out = a.texts(|i, out| {
        let (size, min, max, width) = (size.at(i)?, min.at(i)?, max.at(i)?, width.at(i)?);
        if !(min < max && (min..=max).contains(&size) && (0..=WIDTH_MAX).contains(&width)) {
            failure.get_or_insert((size, min, max, width));
            return None;
        }
        let filled = ((size - min) / (max - min) * width as f64) as usize;
        out.extend(std::iter::repeat_n('▓', filled));
        Some(())
    })?;
    match failure {
        Some((size, min, max, width)) => exec_err!(
            "bar: expected min < max, a size between them and a width from 0 to {WIDTH_MAX}, found the size {size}, min \
             {min}, max {max} and the width {width}"
        ),
        None => Ok(out),
    }
}
