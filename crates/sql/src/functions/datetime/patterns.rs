//! GET_FORMAT: the formats of dates and times in some countries and standards.

use arrow::array::ArrayRef;
use datafusion::common::{Result, exec_err};

use super::super::args::Args;
use super::super::func::{Def, Ret, def};

/// Functions of this file.
pub const DEFS: &[Def] = &[def("get_format", &[], (2, 2), Ret::Text, get_format)];

/// The formats of one kind of values, in the order of [`NAMES`].
const KINDS: [(&str, [&str; 5]); 3] = [
    ("DATE", ["%m.%d.%Y", "%Y-%m-%d", "%Y-%m-%d", "%d.%m.%Y", "%Y%m%d"]),
    ("DATETIME", ["%Y-%m-%d %H.%i.%s", "%Y-%m-%d %H:%i:%s", "%Y-%m-%d %H:%i:%s", "%Y-%m-%d %H.%i.%s", "%Y%m%d%H%i%s"]),
    ("TIME", ["%h:%i:%s %p", "%H:%i:%s", "%H:%i:%s", "%H.%i.%s", "%H%i%s"]),
];

const NAMES: [&str; 5] = ["USA", "JIS", "ISO", "EUR", "INTERNAL"];

fn get_format(a: &Args) -> Result<ArrayRef> {
    let (kinds, names) = (a.text(0)?, a.text(1)?);
    let known = |kind: &str| KINDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(kind));
    if let Some(kind) = kinds.array.iter().flatten().find(|kind| known(kind).is_none()) {
        return exec_err!("get_format: expected DATE, DATETIME or TIME, found '{kind}'");
    }
    a.texts(|i, out| {
        let (_, formats) = known(kinds.at(i)?)?;
        let name = names.at(i)?;
        out.push_str(formats[NAMES.iter().position(|known| known.eq_ignore_ascii_case(name))?]);
        Some(())
    })
}
