//! Avro files of Iceberg, adapted to the Avro reader.
//!
//! Iceberg's writers name fields of partitions after columns, in letters of any script, which Avro's specification does
//! not allow. They also write a UUID as 16 bytes of logical type `uuid`, which the reader takes for text with a length
//! before it, and may define one type of fixed length twice. Callers that find fields by id are not affected: the
//! schema in the file's header is rewritten to one that the reader accepts, and the blocks behind it stay as they are.

use std::collections::{HashMap, HashSet};
use std::io::{Chain, Cursor, Read};

use apache_avro::Reader;
use apache_avro::types::Value as Avro;
use serde_json::Value as Json;

/// First bytes of an Avro file.
const MAGIC: &[u8] = b"Obj\x01";
/// Key of the schema in the header.
const SCHEMA: &str = "avro.schema";

/// Reader of the records of a file.
pub(crate) type FileReader<'a> = Reader<'static, Chain<Cursor<Vec<u8>>, &'a [u8]>>;

/// Returns a reader of the Avro file in `bytes`.
///
/// # Errors
/// A text, if the header is damaged or its schema is no Avro schema.
pub(crate) fn reader(bytes: &[u8]) -> Result<FileReader<'_>, String> {
    let (header, rest) = header(bytes).ok_or("it does not begin as an Avro file")?;
    Reader::new(Cursor::new(header).chain(rest)).map_err(|e| e.to_string())
}

/// Returns the header of a file with a schema that the reader accepts, and the bytes behind it.
fn header(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = bytes.strip_prefix(MAGIC)?;
    let mut made = MAGIC.to_vec();
    loop {
        let mut count = long(&mut rest)?;
        if count < 0 {
            // A negative count is followed by the size of the block in bytes.
            long(&mut rest)?;
            count = count.checked_neg()?;
        }
        write_long(&mut made, count);
        if count == 0 {
            return Some((made, rest));
        }
        for _ in 0..count {
            let (key, value) = (text(&mut rest)?, text(&mut rest)?);
            write_bytes(&mut made, key);
            match key == SCHEMA.as_bytes() {
                true => write_bytes(&mut made, &known(value)?),
                false => write_bytes(&mut made, value),
            }
        }
    }
}

/// Rewrites a schema to one that the reader accepts.
fn known(schema: &[u8]) -> Option<Vec<u8>> {
    let mut json: Json = serde_json::from_slice(schema).ok()?;
    mend(&mut json, &mut HashSet::new());
    serde_json::to_vec(&json).ok()
}

fn mend(schema: &mut Json, defined: &mut HashSet<String>) {
    match schema {
        Json::Array(branches) => branches.iter_mut().for_each(|branch| mend(branch, defined)),
        Json::Object(of) => {
            let kind = of.get("type").and_then(Json::as_str).unwrap_or_default();
            if kind == "fixed" {
                if of.get("logicalType").and_then(Json::as_str) == Some("uuid") {
                    of.remove("logicalType");
                }
                let name = of.get("name").and_then(Json::as_str).unwrap_or_default().to_string();
                if !defined.insert(name.clone()) {
                    let numbered = format!("{name}_{}", defined.len());
                    of.insert("name".into(), numbered.clone().into());
                    defined.insert(numbered);
                }
            }
            for (at, field) in of.get_mut("fields").and_then(Json::as_array_mut).into_iter().flatten().enumerate() {
                let is_known = field.get("name").and_then(Json::as_str).is_some_and(is_name);
                if let (false, Some(field)) = (is_known, field.as_object_mut()) {
                    field.insert("name".into(), format!("_field_{at}").into());
                }
                if let Some(inner) = field.get_mut("type") {
                    mend(inner, defined);
                }
            }
            for key in ["type", "items", "values"] {
                if let Some(inner) = of.get_mut(key).filter(|inner| !inner.is_string()) {
                    mend(inner, defined);
                }
            }
        }
        _ => {}
    }
}

/// Whether Avro's specification allows the name.
fn is_name(text: &str) -> bool {
    let of_name = |(at, c): (usize, char)| c == '_' || c.is_ascii_alphabetic() || at > 0 && c.is_ascii_digit();
    !text.is_empty() && text.chars().enumerate().all(of_name)
}

/// Reads a number in Avro's form: seven bits per byte, lowest first, zigzag-encoded.
fn long(bytes: &mut &[u8]) -> Option<i64> {
    let mut folded = 0u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        folded |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some((folded >> 1) as i64 ^ -((folded & 1) as i64));
        }
    }
    None
}

fn text<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(long(bytes)?).ok()?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(text)
}

pub(crate) fn write_long(out: &mut Vec<u8>, value: i64) {
    let mut folded = ((value << 1) ^ (value >> 63)) as u64;
    while folded >= 0x80 {
        out.push(folded as u8 | 0x80);
        folded >>= 7;
    }
    out.push(folded as u8);
}

pub(crate) fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_long(out, bytes.len() as i64);
    out.extend_from_slice(bytes);
}

/// An Avro record whose fields are found by name.
#[derive(Default)]
pub(crate) struct Record(Vec<(String, Avro)>);

impl Record {
    pub(crate) fn of(value: Avro) -> Option<Record> {
        match value {
            Avro::Record(fields) => {
                Some(Record(fields.into_iter().map(|(name, value)| (name, plain(value))).collect()))
            }
            Avro::Union(_, inner) => Record::of(*inner),
            _ => None,
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Avro> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    /// Returns the field at an index.
    pub(crate) fn at(&self, place: usize) -> Option<&Avro> {
        self.0.get(place).map(|(_, v)| v)
    }

    pub(crate) fn int(&self, names: &[&str]) -> Option<i64> {
        names.iter().find_map(|n| self.get(n)).and_then(int)
    }

    pub(crate) fn bool(&self, name: &str) -> Option<bool> {
        match self.get(name)? {
            Avro::Boolean(b) => Some(*b),
            _ => None,
        }
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        match self.get(name)? {
            Avro::String(s) | Avro::Enum(_, s) => Some(s.clone()),
            _ => None,
        }
    }

    pub(crate) fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        bytes_of(self.get(name)?)
    }

    /// Reads one of Iceberg's maps by integer: an array of records `key`, `value`.
    pub(crate) fn map<T>(&self, name: &str, read: fn(&Avro) -> Option<T>) -> HashMap<i32, T> {
        let Some(Avro::Array(items)) = self.get(name) else { return HashMap::new() };
        let pair = |item: &Avro| {
            let row = Record::of(item.clone())?;
            Some((id(row.int(&["key"]))?, read(row.get("value")?)?))
        };
        items.iter().filter_map(pair).collect()
    }
}

fn plain(value: Avro) -> Avro {
    match value {
        Avro::Union(_, inner) => *inner,
        other => other,
    }
}

pub(crate) fn int(value: &Avro) -> Option<i64> {
    match value {
        Avro::Int(v) => Some(i64::from(*v)),
        Avro::Long(v) => Some(*v),
        Avro::Union(_, inner) => int(inner),
        _ => None,
    }
}

pub(crate) fn bytes_of(value: &Avro) -> Option<Vec<u8>> {
    match value {
        Avro::Bytes(b) | Avro::Fixed(_, b) => Some(b.clone()),
        Avro::Union(_, inner) => bytes_of(inner),
        _ => None,
    }
}

pub(crate) fn id(n: Option<i64>) -> Option<i32> {
    i32::try_from(n?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_those_of_avro() {
        for value in [0, 1, -1, 63, 64, -64, -65, 8191, 1 << 40, i64::MAX, i64::MIN] {
            let mut made = Vec::new();
            write_long(&mut made, value);
            assert_eq!(long(&mut &made[..]), Some(value));
        }
        assert_eq!(long(&mut &[0x80][..]), None);
        assert_eq!(long(&mut &[0xff; 11][..]), None);
    }

    #[test]
    fn schemas_are_put_into_known_words() {
        let uuid = json!({"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"});
        let schema = json!({"type": "record", "name": "r", "fields": [
            {"name": "日期", "type": ["null", uuid], "field-id": 1000},
            {"name": "a-b", "type": {"type": "array", "items": uuid}},
            {"name": "ok_1", "type": "uuid_fixed"}]});
        let made: Json = serde_json::from_slice(&known(schema.to_string().as_bytes()).unwrap()).unwrap();
        let expected = json!({"type": "record", "name": "r", "fields": [
            {"name": "_field_0", "type": ["null", {"type": "fixed", "name": "uuid_fixed", "size": 16}], "field-id": 1000},
            {"name": "_field_1", "type": {"type": "array", "items": {"type": "fixed", "name": "uuid_fixed_1", "size": 16}}},
            {"name": "ok_1", "type": "uuid_fixed"}]});
        assert_eq!(made, expected);
        apache_avro::Schema::parse(&made).unwrap();
    }
}
