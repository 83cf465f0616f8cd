//! Functions of HLL and BITMAP values, which are encoded as in `dipper_base::sketch`.
//!
//! NULL is treated like in Doris: functions that make or count sets take it for the empty set, so that they can fill
//! NOT NULL columns; BITMAP_OR leaves it out; all others return NULL.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryViewArray, BooleanArray, Int64Array, ListBuilder, StringViewArray};
use arrow::datatypes::{DataType, UInt64Type};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::logical_expr::{ReturnFieldArgs, ScalarUDF};
use dipper_base::sketch::{
    HLL_PRECISION, HyperLogLog, RoaringTreemap, SketchError, bitmap_from_bytes, bitmap_of_one, bitmap_to_bytes,
    exclude, from_doris, hash_bytes, set_of, to_doris, unite,
};

use super::args::{Args, Col, lenient_cast};
use super::func::{Def, MANY, Ret, def};
use super::hash::{MURMUR_SEED, murmur3_32, murmur3_64};
use crate::type_text::Sql;

const HLL: Ret = Ret::Set("hll");
const BITMAP: Ret = Ret::Set("bitmap");
const INTEGERS: Ret = Ret::By(|_: &ReturnFieldArgs| Ok(DataType::new_list(DataType::Int64, true)));

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("hll_empty", &[], (0, 0), HLL, |a| made(a, |_| Some(hll_of(None)))),
    def("hll_hash", &[], (1, 1), HLL, |a| {
        let s = a.text(0)?;
        made(a, |i| Some(hll_of(s.at(i).map(str::as_bytes))))
    }),
    def("hll_cardinality", &[], (1, 1), Ret::Int, |a| {
        let sketches = sets(a, 0)?;
        let count = |bytes| HyperLogLog::from_bytes(bytes).map(|h| h.estimate() as i64).map_err(external);
        ints(a, |i| sketches.at(i).map_or(Ok(0), count).map(Some))
    }),
    def("hll_to_base64", &[], (1, 1), Ret::Text, |a| {
        let sketches = sets(a, 0)?;
        a.texts(|i, out| {
            STANDARD.encode_string(sketches.at(i)?, out);
            Some(())
        })
    }),
    def("hll_from_base64", &[], (1, 1), HLL, hll_from_base64),
    def("bitmap_empty", &[], (0, 0), BITMAP, |a| made(a, |_| Some(RoaringTreemap::new()))),
    def("to_bitmap", &[], (1, 1), BITMAP, to_bitmap),
    def("bitmap_hash", &[], (1, 1), BITMAP, |a| {
        let s = a.text(0)?;
        made(a, |i| {
            let hash = s.at(i).map(|s| murmur3_32(s.as_bytes(), MURMUR_SEED as u32)).map(u64::from);
            Some(AtMostOne(hash))
        })
    }),
    def("bitmap_hash64", &[], (1, 1), BITMAP, |a| {
        let s = a.text(0)?;
        made(a, |i| Some(AtMostOne(s.at(i).map(|s| murmur3_64(s.as_bytes(), 0)))))
    }),
    def("bitmap_from_string", &[], (1, 1), BITMAP, |a| {
        let s = a.text(0)?;
        made(a, |i| from_string(s.at(i)?))
    }),
    def("bitmap_from_array", &["array_to_bitmap"], (1, 1), BITMAP, from_array),
    def("bitmap_to_string", &[], (1, 1), Ret::Text, to_string),
    def("bitmap_to_array", &[], (1, 1), INTEGERS, to_array),
    def("to_bitmap_with_check", &[], (1, 1), BITMAP, |a| {
        let members = unsigned(a, 0)?;
        if let Some(row) = (0..a.rows).find(|row| members.at(*row) == Some(None)) {
            return exec_err!(
                "{}: expected a number from 0 to 18446744073709551615 in each row, found another value in row {}",
                a.name,
                row + 1
            );
        }
        made(a, |i| Some(AtMostOne(members.at(i).flatten())))
    }),
    def("bitmap_remove", &[], (2, 2), BITMAP, |a| {
        let member = unsigned(a, 1)?;
        parts(a, |mut set, i| {
            if let Some(member) = member.at(i)? {
                set.remove(member);
            }
            Some(set)
        })
    }),
    def("sub_bitmap", &[], (3, 3), BITMAP, |a| {
        let (position, limit) = (a.int(1)?, a.int(2)?);
        parts(a, |set, i| {
            let (position, limit) = (position.at(i)?, limit.at(i).filter(|limit| *limit > 0)?);
            if position.unsigned_abs() >= set.len() {
                return None;
            }
            let from = if position < 0 { set.len() - position.unsigned_abs() } else { position as u64 };
            let part: RoaringTreemap = set.iter().skip(usize::try_from(from).ok()?).take(limit as usize).collect();
            (!part.is_empty()).then_some(part)
        })
    }),
    def("bitmap_subset_limit", &[], (3, 3), BITMAP, |a| {
        let (start, limit) = (a.int(1)?, a.int(2)?);
        parts(a, |set, i| {
            let (start, limit) = (u64::try_from(start.at(i)?).ok()?, usize::try_from(limit.at(i)?).ok()?);
            Some(set.iter().skip_while(|member| *member < start).take(limit).collect())
        })
    }),
    def("bitmap_subset_in_range", &[], (3, 3), BITMAP, |a| {
        let (start, end) = (a.int(1)?, a.int(2)?);
        parts(a, |set, i| {
            let (start, end) = (u64::try_from(start.at(i)?).ok()?, u64::try_from(end.at(i)?).ok()?);
            let members = set.iter().skip_while(|member| *member < start).take_while(|member| *member < end);
            (start < end).then(|| members.collect())
        })
    }),
    def("bitmap_to_base64", &[], (1, 1), Ret::Text, |a| {
        let maps = Maps::of(a, 0)?;
        let texts = (0..a.rows).map(|i| Ok(maps.at(i)?.map(|map| STANDARD.encode(to_doris(&map)))));
        let texts = texts.collect::<Result<Vec<_>>>()?;
        a.texts(|i, out| {
            out.push_str(texts[i].as_deref()?);
            Some(())
        })
    }),
    def("bitmap_from_base64", &["base64_to_bitmap"], (1, 1), BITMAP, |a| {
        let s = a.text(0)?;
        made(a, |i| from_doris(&STANDARD.decode(s.at(i)?.trim()).ok()?))
    }),
    // StarRocks's functions; the bytes are those of the base64 text.
    def("bitmap_to_binary", &[], (1, 1), Ret::By(|_| Ok(DataType::BinaryView)), |a| {
        let maps = Maps::of(a, 0)?;
        let bytes = (0..a.rows).map(|i| Ok(maps.at(i)?.map(|map| to_doris(&map))));
        let bytes = bytes.collect::<Result<Vec<_>>>()?;
        a.binaries(|i| bytes[i].as_ref().map(|bytes| bytes.to_vec()))
    }),
    def("bitmap_from_binary", &[], (1, 1), BITMAP, |a| {
        let s = a.bytes(0)?;
        made(a, |i| from_doris(s.at(i)?))
    }),
    def("bitmap_count", &[], (1, 1), Ret::Int, |a| {
        let maps = Maps::of(a, 0)?;
        ints(a, |i| Ok(Some(maps.at(i)?.map_or(0, |m| m.len() as i64))))
    }),
    def("bitmap_min", &[], (1, 1), Ret::Int, |a| one(a, RoaringTreemap::min)),
    def("bitmap_max", &[], (1, 1), Ret::Int, |a| one(a, RoaringTreemap::max)),
    BITMAP_CONTAINS,
    def("bitmap_has_any", &[], (2, 2), Ret::Bool, |a| both(a, |x, y| !x.is_disjoint(y))),
    def("bitmap_has_all", &[], (2, 2), Ret::Bool, |a| both(a, |x, y| y.is_subset(x))),
    def("bitmap_and", &[], (2, MANY), BITMAP, |a| combined(a, AND)),
    def("bitmap_or", &[], (2, MANY), BITMAP, |a| combined(a, OR)),
    def("bitmap_xor", &[], (2, MANY), BITMAP, |a| combined(a, XOR)),
    def("bitmap_not", &["bitmap_and_not", "bitmap_andnot"], (2, 2), BITMAP, |a| combined(a, NOT)),
    def("bitmap_and_count", &[], (2, MANY), Ret::Int, |a| counted(a, AND)),
    def("bitmap_or_count", &[], (2, MANY), Ret::Int, |a| counted(a, OR)),
    def("bitmap_xor_count", &[], (2, MANY), Ret::Int, |a| counted(a, XOR)),
    def("bitmap_and_not_count", &["bitmap_andnot_count"], (2, 2), Ret::Int, |a| counted(a, NOT)),
];

const BITMAP_CONTAINS: Def = def("bitmap_contains", &[], (2, 2), Ret::Bool, |a| {
    let (maps, members) = (Maps::of(a, 0)?, unsigned(a, 1)?);
    bools(a, |i| match (maps.at(i)?, members.at(i)) {
        (Some(map), Some(member)) => Ok(Some(member.is_some_and(|m| map.contains(m)))),
        _ => Ok(None),
    })
});

/// Returns the function that tells whether a bitmap contains a number.
pub(crate) fn bitmap_contains_udf() -> ScalarUDF {
    BITMAP_CONTAINS.into_udf()
}

/// A sketch or set that can be encoded as bytes.
trait Bytes {
    fn bytes(self) -> Vec<u8>;
}

impl Bytes for HyperLogLog {
    fn bytes(self) -> Vec<u8> {
        self.to_bytes()
    }
}

impl Bytes for RoaringTreemap {
    fn bytes(self) -> Vec<u8> {
        bitmap_to_bytes(&self)
    }
}

/// A set of one member, or the empty set.
struct AtMostOne(Option<u64>);

impl Bytes for AtMostOne {
    fn bytes(self) -> Vec<u8> {
        match self.0 {
            Some(member) => bitmap_of_one(member).to_vec(),
            None => RoaringTreemap::new().bytes(),
        }
    }
}

/// Reads a sketch from the text of HLL_TO_BASE64; NULL for other text.
///
/// # Errors
/// For a sketch of Doris with members: Doris hashes values by another function, so a union with it would count equal
/// values twice.
fn hll_from_base64(a: &Args) -> Result<ArrayRef> {
    let s = a.text(0)?;
    let mut of_doris = false;
    let sketches = made(a, |i| {
        let bytes = STANDARD.decode(s.at(i)?.trim()).ok()?;
        if let [form @ 0..=3, rest @ ..] = bytes.as_slice() {
            of_doris |= *form > 0 && !rest.is_empty();
            return (*form == 0 && rest.is_empty()).then(|| HyperLogLog::new(HLL_PRECISION));
        }
        HyperLogLog::from_bytes(&bytes).ok()
    })?;
    match of_doris {
        true => exec_err!(
            "{}: expected the text of hll_to_base64 of this server, found a sketch of Doris, which hashes values by \
             another function",
            a.name
        ),
        false => Ok(sketches),
    }
}

fn external(e: SketchError) -> DataFusionError {
    DataFusionError::External(Box::new(e))
}

fn made<S: Bytes>(a: &Args, mut f: impl FnMut(usize) -> Option<S>) -> Result<ArrayRef> {
    Ok(Arc::new((0..a.rows).map(|i| f(i).map(Bytes::bytes)).collect::<BinaryViewArray>()))
}

fn ints(a: &Args, f: impl FnMut(usize) -> Result<Option<i64>>) -> Result<ArrayRef> {
    Ok(Arc::new((0..a.rows).map(f).collect::<Result<Int64Array>>()?))
}

fn bools(a: &Args, f: impl FnMut(usize) -> Result<Option<bool>>) -> Result<ArrayRef> {
    Ok(Arc::new((0..a.rows).map(f).collect::<Result<BooleanArray>>()?))
}

/// Returns the bytes in argument `k`; numbers and text are refused.
fn sets(a: &Args, k: usize) -> Result<Col<BinaryViewArray>> {
    let raw = a.raw(k);
    check_set(a.name, raw.array.data_type())?;
    Ok(Col { array: lenient_cast(&raw.array, &DataType::BinaryView)?.as_binary_view().clone(), one: raw.one })
}

/// Checks that the type is one of bytes, or that of a bare NULL.
pub fn check_set(name: &str, data_type: &DataType) -> Result<()> {
    if data_type.is_binary() || data_type.is_null() {
        return Ok(());
    }
    exec_err!(
        "{name}: expected an HLL, BITMAP or QUANTILE_STATE value, found {}; make one with hll_hash(), to_bitmap(), bitmap_hash(), bitmap_from_string() or to_quantile_state()",
        Sql(data_type)
    )
}

/// A column of bitmaps. A constant is decoded once.
struct Maps {
    values: Col<BinaryViewArray>,
    constant: Option<RoaringTreemap>,
}

impl Maps {
    fn of(a: &Args, k: usize) -> Result<Self> {
        let values = sets(a, k)?;
        let constant = match values.one {
            true => values.at(0).map(bitmap_from_bytes).transpose().map_err(external)?,
            false => None,
        };
        Ok(Maps { values, constant })
    }

    fn at(&self, i: usize) -> Result<Option<Cow<'_, RoaringTreemap>>> {
        if self.values.one {
            return Ok(self.constant.as_ref().map(Cow::Borrowed));
        }
        self.values.at(i).map(|bytes| bitmap_from_bytes(bytes).map(Cow::Owned)).transpose().map_err(external)
    }
}

/// Returns the sketch of one value, or of none.
fn hll_of(value: Option<&[u8]>) -> HyperLogLog {
    let mut sketch = HyperLogLog::new(HLL_PRECISION);
    value.into_iter().for_each(|v| sketch.add(hash_bytes(v)));
    sketch
}

/// Returns argument `k` as numbers from 0 to 2^64 - 1: `None` for NULL, `Some(None)` for a value that is not a number
/// in this range.
fn unsigned(a: &Args, k: usize) -> Result<Unsigned> {
    let raw = a.raw(k);
    Ok(match raw.array.data_type() {
        DataType::UInt64 => {
            let values = raw.array.as_primitive::<UInt64Type>();
            Unsigned { values: values.iter().map(|v| v.map(Some)).collect(), one: raw.one }
        }
        t if t.is_integer() => {
            let values = a.int(k)?;
            Unsigned { values: values.array.iter().map(|v| v.map(|v| u64::try_from(v).ok())).collect(), one: raw.one }
        }
        _ => {
            let values = a.text(k)?;
            Unsigned { values: values.array.iter().map(|v| v.map(|v| v.trim().parse().ok())).collect(), one: raw.one }
        }
    })
}

struct Unsigned {
    values: Vec<Option<Option<u64>>>,
    one: bool,
}

impl Unsigned {
    fn at(&self, i: usize) -> Option<Option<u64>> {
        self.values[if self.one { 0 } else { i }]
    }
}

/// TO_BITMAP: the set of one number. NULL, and a value that is not a number from 0 to 2^64 - 1, give the empty set.
fn to_bitmap(a: &Args) -> Result<ArrayRef> {
    let members = unsigned(a, 0)?;
    made(a, |i| Some(AtMostOne(members.at(i).flatten())))
}

/// Reads numbers with commas between them and blanks around them; `None` if one is not a number from 0 to 2^64 - 1.
fn from_string(s: &str) -> Option<RoaringTreemap> {
    let parts = s.split(',').filter(|part| !part.is_empty());
    parts.map(|part| part.trim().parse::<u64>().ok()).collect::<Option<Vec<u64>>>().map(set_of)
}

/// BITMAP_FROM_ARRAY: NULL if a member is negative; members that are NULL are ignored.
fn from_array(a: &Args) -> Result<ArrayRef> {
    let raw = a.raw(0);
    if raw.array.data_type().is_null() {
        return Ok(a.nulls());
    }
    let Some(lists) = raw.array.as_list_opt::<i32>() else {
        return exec_err!("{}: expected an array of integers, found {}", a.name, Sql(raw.array.data_type()));
    };
    let lists = Col { array: lists.clone(), one: raw.one };
    let sets = (0..a.rows).map(|i| {
        let Some(list) = lists.at(i) else { return Ok(None) };
        let members = super::args::to_int(a.name, &list)?;
        let members: Option<Vec<u64>> = members.iter().flatten().map(|v| u64::try_from(v).ok()).collect();
        Ok(members.map(|members| set_of(members).bytes()))
    });
    Ok(Arc::new(sets.collect::<Result<BinaryViewArray>>()?))
}

fn to_string(a: &Args) -> Result<ArrayRef> {
    let maps = Maps::of(a, 0)?;
    let text = |i| {
        let Some(map) = maps.at(i)? else { return Ok(None) };
        let mut out = String::new();
        for member in map.iter() {
            let _ = write!(out, "{}{member}", if out.is_empty() { "" } else { "," });
        }
        Ok(Some(out))
    };
    Ok(Arc::new((0..a.rows).map(text).collect::<Result<StringViewArray>>()?))
}

/// BITMAP_TO_ARRAY: an array of BIGINT; members from 2^63 on appear as negative numbers, as in Doris.
fn to_array(a: &Args) -> Result<ArrayRef> {
    let maps = Maps::of(a, 0)?;
    let mut lists = ListBuilder::new(Int64Array::builder(a.rows));
    for i in 0..a.rows {
        lists.append_option(maps.at(i)?.map(|map| map.iter().map(|m| Some(m as i64)).collect::<Vec<_>>()));
    }
    Ok(Arc::new(lists.finish()))
}

/// Builds a set from each row's set; NULL for NULL.
fn parts(a: &Args, f: impl Fn(RoaringTreemap, usize) -> Option<RoaringTreemap>) -> Result<ArrayRef> {
    let maps = Maps::of(a, 0)?;
    let sets = (0..a.rows).map(|i| Ok(maps.at(i)?.and_then(|set| f(set.into_owned(), i)).map(Bytes::bytes)));
    Ok(Arc::new(sets.collect::<Result<BinaryViewArray>>()?))
}

/// Returns a member of a set, as BIGINT.
fn one(a: &Args, f: impl Fn(&RoaringTreemap) -> Option<u64>) -> Result<ArrayRef> {
    let maps = Maps::of(a, 0)?;
    ints(a, |i| Ok(maps.at(i)?.and_then(|m| f(&m)).map(|member| member as i64)))
}

fn both(a: &Args, f: impl Fn(&RoaringTreemap, &RoaringTreemap) -> bool) -> Result<ArrayRef> {
    let (x, y) = (Maps::of(a, 0)?, Maps::of(a, 1)?);
    bools(a, |i| Ok(x.at(i)?.zip(y.at(i)?).map(|(x, y)| f(&x, &y))))
}

/// An operation that combines two sets.
#[derive(Clone, Copy)]
struct Operation {
    apply: fn(&mut RoaringTreemap, &RoaringTreemap),
    /// Whether NULL is left out; else it makes the result NULL.
    skips_null: bool,
}

const AND: Operation = Operation { apply: |x, y| *x &= y, skips_null: false };
const OR: Operation = Operation { apply: unite, skips_null: true };
const XOR: Operation = Operation { apply: exclude, skips_null: false };
const NOT: Operation = Operation { apply: |x, y| *x -= y, skips_null: false };

impl Operation {
    /// Combines row `i` of all arguments.
    fn of(self, columns: &[Maps], i: usize) -> Result<Option<RoaringTreemap>> {
        let mut result: Option<RoaringTreemap> = None;
        for column in columns {
            match (column.at(i)?, &mut result) {
                (None, _) if self.skips_null => {}
                (None, _) => return Ok(None),
                (Some(map), None) => result = Some(map.into_owned()),
                (Some(map), Some(result)) => (self.apply)(result, &map),
            }
        }
        Ok(result)
    }
}

fn columns(a: &Args) -> Result<Vec<Maps>> {
    (0..a.len()).map(|k| Maps::of(a, k)).collect()
}

fn combined(a: &Args, operation: Operation) -> Result<ArrayRef> {
    let columns = columns(a)?;
    let sets = (0..a.rows).map(|i| Ok(operation.of(&columns, i)?.map(Bytes::bytes)));
    Ok(Arc::new(sets.collect::<Result<BinaryViewArray>>()?))
}

/// Returns the number of members of the combined set; 0 if that is NULL.
fn counted(a: &Args, operation: Operation) -> Result<ArrayRef> {
    let columns = columns(a)?;
    ints(a, |i| Ok(Some(operation.of(&columns, i)?.map_or(0, |set| set.len() as i64))))
}
