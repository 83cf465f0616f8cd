//! The columns of JSON lines, from samples of the files.
//!
//! Strings are STRING, whatever they look like. A column of several kinds is STRING too, and holds numbers, arrays and
//! objects as they are written. A later value that does not fit is a fault (`json/split.rs`), never another value.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};

use super::{Kind, far_samples, unique};
use crate::compress::decoder;
use crate::dialect::JsonDialect;
use crate::error::{ErrorKind, TextError};
use crate::json::text::{Cell, Kind as JsonKind, Members, items, whole};
use crate::json::{has_fraction, name, object};
use crate::parse;
use crate::scan::{BLOCK_BYTES_MAX, FileInput};

/// Number of bytes sampled at the start of all files together, and minimum and maximum for one file.
const SAMPLE_BYTES: usize = 32 << 20;
const FILE_BYTES_MIN: usize = 64 << 10;
const FILE_BYTES_MAX: usize = 4 << 20;
/// Number of bytes sampled in the middle and at the end of a file that allows it.
const FAR_SAMPLE_BYTES: usize = 256 << 10;
/// A nested object with more members is probably a map, whose keys differ between lines: it stays text.
const MEMBERS_MAX: usize = 200;
/// Values that are nested deeper stay text.
const DEPTH_MAX: usize = 32;

/// Guesses the columns of JSON lines in all of these files together, in the order of their first occurrence.
///
/// # Errors
/// `Io` and `Compression` if a file cannot be read; `BadRecord` if a file holds lines but no object, or is one array or
/// object over several lines.
pub fn infer_json(files: &[FileInput]) -> Result<(JsonDialect, SchemaRef), TextError> {
    let most = (SAMPLE_BYTES / files.len().max(1)).clamp(FILE_BYTES_MIN, FILE_BYTES_MAX);
    let mut columns = Columns::default();
    for file in files {
        let (start, complete) = start_of(file, most)?;
        let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&start);
        if let Some((kind, way)) = document(text, complete) {
            let reason =
                format!("the file is one JSON {kind} over several lines, and what is read is an object a line");
            let mut error = TextError::new(ErrorKind::BadRecord, reason).in_file(&file.name);
            error.line = Some(1);
            return Err(error.with_hint(format!("make such lines of it: jq -c '{way}' in.json > out.jsonl")));
        }
        columns.read_start(&file.name, lines(text, true, complete))?;
        for bytes in far_samples(file, start.len(), FAR_SAMPLE_BYTES.min(most))? {
            columns.read(lines(&bytes, false, false));
        }
    }
    let keys: Vec<String> = columns.all.iter().map(|(name, _)| name.clone()).collect();
    let fields: Vec<Field> = (unique(keys.iter().cloned()).iter().zip(&columns.all))
        .map(|(name, (_, shape))| Field::new(name, shape.data_type(), true))
        .collect();
    Ok((JsonDialect { keys, guessed: true }, Arc::new(Schema::new(fields))))
}

/// Returns the kind of a text that is one array or object over several lines, and the filter with which jq makes lines
/// of it.
fn document(text: &[u8], complete: bool) -> Option<(&'static str, &'static str)> {
    let (_, first) = lines(text, true, true).next()?;
    let first = first.trim_ascii();
    // An array with one element per line counts too.
    let (kind, way) = match first {
        [b'[', ..] => ("array", ".[]"),
        [b'{', ..] => ("object", "."),
        _ => return None,
    };
    let is_alone = whole(first, 0).is_ok();
    let goes_on = match complete {
        true => whole(text, 0).is_ok(),
        // Its end is unknown.
        false => matches!(first, b"[" | b"{"),
    };
    (!is_alone && goes_on).then_some((kind, way))
}

/// Reads the first bytes of a file, at least a line. Also returns whether they are the whole file.
fn start_of(file: &FileInput, most: usize) -> Result<(Vec<u8>, bool), TextError> {
    let failed = |error| TextError::io(&file.name, error);
    file.source.ready().map_err(failed)?;
    let mut reader = decoder(file.compression, Arc::clone(&file.source));
    let mut sample = Vec::new();
    let mut wanted = most;
    loop {
        let more = (wanted - sample.len()) as u64;
        reader.by_ref().take(more).read_to_end(&mut sample).map_err(failed)?;
        let complete = sample.len() < wanted;
        if complete || wanted >= BLOCK_BYTES_MAX || sample.contains(&b'\n') {
            return Ok((sample, complete));
        }
        wanted *= 2;
    }
}

/// Returns the lines of a sample with their numbers, from 1. The first is left out unless the sample begins with it
/// (`begins`), the last unless the sample ends with it (`ends`).
fn lines(sample: &[u8], begins: bool, ends: bool) -> impl Iterator<Item = (usize, &[u8])> {
    let lines = sample.split(|byte| *byte == b'\n');
    let count = lines.clone().count();
    let inner = move |number: usize| (begins || number > 1) && (ends || number < count);
    (1..).zip(lines).filter(move |(number, line)| inner(*number) && !line.trim_ascii().is_empty())
}

/// Type of the values of a column, or of a part of it.
#[derive(Debug)]
enum Shape {
    Plain(Kind),
    List(Box<Shape>),
    Struct(Columns),
}

/// Members of objects, in the order of their first occurrence.
#[derive(Debug, Default)]
struct Columns {
    all: Vec<(String, Shape)>,
    places: HashMap<String, usize>,
}

impl Columns {
    /// Adds lines; those that are not objects are ignored. Returns the first such line, and whether there were objects.
    fn read<'a>(&mut self, lines: impl Iterator<Item = (usize, &'a [u8])>) -> (Option<(usize, String)>, bool) {
        let (mut bad, mut any) = (None, false);
        for (number, line) in lines {
            match object(line) {
                Ok(object) => {
                    any = true;
                    for (key, value) in Members::new(line, object).flatten() {
                        self.member(&String::from_utf8_lossy(&name(line, key))).add(line, value, 0);
                    }
                }
                Err(reason) => {
                    bad.get_or_insert((number, reason));
                }
            }
        }
        (bad, any)
    }

    /// Adds lines like [`read`](Self::read), from the start of a file, which must hold an object unless it is empty.
    ///
    /// # Errors
    /// `BadRecord` if there are lines but no object.
    fn read_start<'a>(&mut self, file: &str, lines: impl Iterator<Item = (usize, &'a [u8])>) -> Result<(), TextError> {
        let (Some((number, reason)), false) = self.read(lines) else { return Ok(()) };
        let mut error = TextError::new(ErrorKind::BadRecord, reason).in_file(file).with_hint(
            "what is read is an object a line; jq -c '.[]' makes such lines of an array, jq -c . of objects over several lines",
        );
        error.line = Some(number as u64);
        Err(error)
    }

    fn member(&mut self, name: &str) -> &mut Shape {
        let at = match self.places.get(name) {
            Some(at) => *at,
            None => {
                self.places.insert(name.to_string(), self.all.len());
                self.all.push((name.to_string(), Shape::Plain(Kind::Nothing)));
                self.all.len() - 1
            }
        };
        &mut self.all[at].1
    }

    /// Adds a nested object. Returns false if it cannot be a STRUCT, whose members are found without regard to case.
    fn add(&mut self, text: &[u8], object: Cell, depth: usize) -> bool {
        for (key, value) in Members::new(text, object).flatten() {
            let key = name(text, key);
            let key = String::from_utf8_lossy(&key);
            let is_new = !self.places.contains_key(&*key);
            if is_new
                && (self.all.len() >= MEMBERS_MAX || self.all.iter().any(|(known, _)| known.eq_ignore_ascii_case(&key)))
            {
                return false;
            }
            self.member(&key).add(text, value, depth);
        }
        true
    }
}

impl Shape {
    /// Adds a value at this depth of nesting.
    fn add(&mut self, text: &[u8], value: Cell, depth: usize) {
        if matches!(self, Shape::Plain(Kind::Nothing)) && depth < DEPTH_MAX {
            match value.kind {
                JsonKind::Array => *self = Shape::List(Box::new(Shape::Plain(Kind::Nothing))),
                JsonKind::Object => *self = Shape::Struct(Columns::default()),
                _ => {}
            }
        }
        let fits = match (&mut *self, value.kind) {
            (_, JsonKind::Null) | (Shape::Plain(Kind::Text), _) => true,
            (Shape::List(item), JsonKind::Array) => {
                items(text, value).flatten().for_each(|value| item.add(text, value, depth + 1));
                true
            }
            (Shape::Struct(members), JsonKind::Object) => members.add(text, value, depth + 1),
            (Shape::Plain(known), kind) if !matches!(kind, JsonKind::Array | JsonKind::Object) => {
                *known = known.union(plain(text, value));
                true
            }
            _ => false,
        };
        if !fits {
            *self = Shape::Plain(Kind::Text);
        }
    }

    fn data_type(&self) -> DataType {
        match self {
            Shape::Plain(kind) => kind.data_type(),
            Shape::List(item) => DataType::new_list(item.data_type(), true),
            // An empty STRUCT type is useless.
            Shape::Struct(members) if members.all.is_empty() => DataType::Utf8View,
            Shape::Struct(members) => {
                let field = |(name, shape): &(String, Shape)| Field::new(name, shape.data_type(), true);
                DataType::Struct(members.all.iter().map(field).collect::<Fields>())
            }
        }
    }
}

/// Returns the kind of a plain value. Numbers that no type holds as they are written are text.
fn plain(text: &[u8], value: Cell) -> Kind {
    let number = match value.kind {
        JsonKind::True | JsonKind::False => return Kind::Boolean,
        JsonKind::Number => &text[value.start..value.end],
        _ => return Kind::Text,
    };
    if has_fraction(number) {
        let double = parse::float64(number, 0, number.len());
        return if double.is_some_and(f64::is_finite) { Kind::Double } else { Kind::Text };
    }
    let digits = std::str::from_utf8(number).unwrap_or_default();
    match (digits.parse::<i64>(), digits.parse::<i128>()) {
        (Ok(_), _) => Kind::BigInt,
        (_, Ok(_)) => Kind::LargeInt,
        _ => Kind::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Compression, MemorySource};

    fn guess(texts: &[&str]) -> Result<(JsonDialect, SchemaRef), TextError> {
        let file = |(number, text): (usize, &&str)| FileInput {
            name: format!("{number}.json"),
            source: Arc::new(MemorySource(bytes::Bytes::from(text.to_string()))),
            compression: Compression::None,
        };
        infer_json(&texts.iter().enumerate().map(file).collect::<Vec<_>>())
    }

    /// The type of the only column.
    fn type_of(values: &[&str]) -> DataType {
        let lines: Vec<String> = values.iter().map(|value| format!("{{\"a\":{value}}}\r\n")).collect();
        let (_, schema) = guess(&[&lines.concat()]).expect("columns");
        schema.field(0).data_type().clone()
    }

    #[test]
    fn a_column_has_the_narrowest_type_of_its_values() {
        let text = DataType::Utf8View;
        assert_eq!(type_of(&["1", "null", "-2"]), DataType::Int64);
        assert_eq!(type_of(&["1", "9223372036854775808"]), DataType::Decimal256(39, 0));
        assert_eq!(type_of(&["1", "1.0"]), DataType::Float64);
        assert_eq!(type_of(&["true", "false"]), DataType::Boolean);
        let all_text: [&[&str]; 8] = [
            &["null"],
            &["1", "\"x\""],
            &["true", "1"],
            &["1.5", "1e400"],
            &["1", "[1]"],
            &["{\"x\":1}", "[1]"],
            &["{\"x\":1}", "{\"X\":1}"],
            &["{}"],
        ];
        for values in all_text {
            assert_eq!(type_of(values), text, "{values:?}");
        }
        assert_eq!(type_of(&["[]", "[1]", "[1.5,null]"]), DataType::new_list(DataType::Float64, true));
        let fields = vec![Field::new("x", DataType::Int64, true), Field::new("y", text, true)];
        assert_eq!(type_of(&["{\"x\":1}", "{\"y\":\"a\",\"x\":null}"]), DataType::Struct(fields.into()));
    }

    #[test]
    fn columns_are_those_of_all_files_and_of_the_end_of_long_ones() {
        let long = "{\"b\":1,\"B\":2}\n".repeat(FILE_BYTES_MAX / 8) + "{\"late\":1}\n";
        let (dialect, schema) = guess(&["\u{feff}{\"z\":1}\n\n", &long, ""]).expect("columns");
        assert_eq!(dialect, JsonDialect { keys: ["z", "b", "B", "late"].map(String::from).into(), guessed: true });
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, ["z", "b", "B_1", "late"]);
    }

    #[test]
    fn files_without_objects_say_where_and_why() {
        let wrong = |text: &str| guess(&[text]).expect_err("no object").to_string();
        assert!(wrong("\n[{\"a\":1}]\n").starts_with("0.json: line 2: the line is no JSON object; "));
        assert!(wrong("a,b\n1,2\n").starts_with("0.json: line 1: the line is no JSON: expected a value at column 1; "));
        // Reading, not guessing, reports lines that are no objects if others are.
        assert!(guess(&["a,b\n{\"a\":1}\n"]).is_ok());
    }
}
