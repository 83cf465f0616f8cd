//! One input read in several ways that must agree: vector instructions and portable code, small blocks and big ones.
//!
//! The fuzz targets include this file too, so it needs nothing of the other helpers.

#[path = "../../../../tests/support/input.rs"]
mod input;

use std::sync::Arc;

use self::input::Choices;
use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use dipper_text::hive::parse_type;
use dipper_text::{
    BadValue, Compression, CsvDialect, DateOrder, Dialect, FileInput, HiveDialect, InvalidUtf8, LineEnd, MemorySource,
    Ragged, Scan, ScanOptions, ScanQueue, Strings,
};

/// A CSV dialect and the file that follows it in `bytes`.
pub fn csv(bytes: &[u8]) {
    let mut choices = Choices(bytes);
    let dialect = CsvDialect {
        delimiter: choices.one_of(&[b",".to_vec(), b"||".to_vec(), b"\t".to_vec(), b"aba".to_vec(), b"\xFE".to_vec()]),
        line_end: choices.one_of(&[
            LineEnd::Newline,
            LineEnd::AnyNewline,
            LineEnd::Newline,
            LineEnd::Bytes(b"\n\n".to_vec()),
            LineEnd::Bytes(b"|".to_vec()),
        ]),
        quote: choices.one_of(&[Some(b'"'), Some(b'"'), Some(b'\''), None]),
        escape: choices.one_of(&[None, None, Some(b'\\'), Some(b'"')]),
        comment: choices.one_of(&[None, None, Some(b'#')]),
        header: choices.one_of(&[false, true]),
        skip_lines: choices.one_of(&[0, 0, 1, 3]),
        trim: choices.one_of(&[false, false, true]),
        unquote: choices.one_of(&[false, false, true]),
        null_values: choices.one_of(&[vec![Vec::new()], vec![b"NULL".to_vec(), Vec::new()], Vec::new()]),
        ragged: choices.one_of(&[Ragged::Fill, Ragged::Error]),
        dates: choices.one_of(&[DateOrder::YearFirst, DateOrder::DayFirst, DateOrder::MonthFirst]),
    };
    let types: &[&str] = choices.one_of(&[
        &["string", "string"][..],
        &["string"],
        &["bigint", "string", "double"],
        &["int", "decimal(10,2)", "date", "timestamp", "boolean", "binary"],
        &["array<string>", "map<string,int>", "struct<a:int,b:string>"],
    ]);
    agree(Dialect::Csv(dialect), schema(types), &mut choices);
}

/// A Hive dialect and the file that follows it in `bytes`.
pub fn hive(bytes: &[u8]) {
    let mut choices = Choices(bytes);
    let class = choices.one_of(&[
        "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
        "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
        "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
        "org.apache.hadoop.hive.serde2.MultiDelimitSerDe",
        "org.apache.hadoop.hive.serde2.OpenCSVSerde",
    ]);
    let multi = class.ends_with("MultiDelimitSerDe");
    let mut properties = Vec::new();
    let mut set = |name: &str, value: Option<&str>| {
        properties.extend(value.map(|value| (name.to_owned(), value.to_owned())));
    };
    let delimiter = if multi { choices.one_of(&["||", "aba", ","]) } else { choices.one_of(&[",", "|", "1", "-2"]) };
    set("field.delim", Some(delimiter));
    set("collection.delim", choices.one_of(&[None, Some(";"), Some("a")]));
    set("mapkey.delim", choices.one_of(&[None, Some(":"), Some("|")]));
    set("escape.delim", choices.one_of(&[None, None, Some("\\"), Some(","), Some(":")]));
    set("serialization.null.format", choices.one_of(&[None, None, Some(""), Some("NULL"), Some("0")]));
    set("serialization.last.column.takes.rest", choices.one_of(&[None, None, Some("true")]));
    set("serialization.encoding", choices.one_of(&[None, None, None, None, Some("GBK"), Some("ISO-8859-1")]));
    set("timestamp.formats", choices.one_of(&[None, None, Some("millis,yyyyMMdd HH:mm[:ss]")]));
    set("textinputformat.record.delimiter", choices.one_of(&[None, None, None, Some("||"), Some("|"), Some("aab")]));
    set("skip.header.line.count", choices.one_of(&[None, None, Some("1"), Some("3")]));
    set("skip.footer.line.count", choices.one_of(&[None, None, Some("1"), Some("2")]));
    let dialect = HiveDialect::from_properties(class, &properties, &[], &[]).expect("these properties are fine");
    let types: &[&str] = choices.one_of(&[
        &["string", "string"][..],
        &["bigint", "array<string>", "double"],
        &["tinyint", "float", "decimal(10,2)", "date", "timestamp", "boolean", "binary", "char(3)"],
        &["map<string,array<int>>", "struct<a:int,b:map<double,string>>", "varchar(2)"],
    ]);
    let declared: Vec<_> = schema(types).fields().iter().cloned().collect();
    let schema = Arc::new(Schema::new(dialect.file_fields(&declared)));
    agree(Dialect::Hive(dialect), schema, &mut choices);
}

fn schema(types: &[&str]) -> SchemaRef {
    let fields =
        types.iter().enumerate().map(|(number, text)| parse_type(&format!("c{number}"), text).expect("a type"));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Reads the rest of the bytes in all ways.
fn agree(dialect: Dialect, schema: SchemaRef, choices: &mut Choices<'_>) {
    let mut options = ScanOptions::new(dialect, schema);
    options.bad_value = choices.one_of(&[BadValue::Null, BadValue::Error, BadValue::Reject { max: 2 }]);
    options.invalid_utf8 = choices.one_of(&[InvalidUtf8::Replace, InvalidUtf8::Error, InvalidUtf8::Null]);
    options.block_bytes = 1 << 16;
    let (block_bytes, batch_rows) = (1 + usize::from(choices.byte() % 100), 1 + usize::from(choices.byte() % 9));
    let data = bytes::Bytes::copy_from_slice(choices.0);
    // Dialects that contradict themselves are refused, which is all there is to see.
    if Scan::try_new(options.clone()).is_err() {
        return;
    }
    let whole = read(&options, Scan::try_new, &data);
    let portable = read(&options, Scan::try_new_portable, &data);
    assert_eq!(whole, portable, "vector instructions (left) and portable code (right), {options:?}, {data:?}");
    options.block_bytes = block_bytes;
    options.batch_rows = batch_rows;
    options.strings = Strings::Copy;
    let pieces = read(&options, Scan::try_new, &data);
    if whole.is_err() && pieces.is_err() {
        // The gravest of several errors within one batch is reported, so the error depends on the batches.
        return;
    }
    assert_eq!(whole, pieces, "one block (left) and blocks of {block_bytes} bytes (right), {options:?}, {data:?}");
}

/// All rows in one batch, or the error.
fn read(
    options: &ScanOptions,
    scan: impl Fn(ScanOptions) -> Result<Arc<Scan>, dipper_text::TextError>,
    data: &bytes::Bytes,
) -> Result<RecordBatch, String> {
    let scan = scan(options.clone()).expect("the options are fine");
    let file = FileInput {
        name: "input".to_owned(),
        source: Arc::new(MemorySource(data.clone())),
        compression: Compression::None,
    };
    let queue = ScanQueue::new(scan.clone(), vec![file]);
    let (mut worker, mut batches) = (queue.worker(), Vec::new());
    loop {
        match worker.next_batch() {
            Ok(Some(batch)) => batches.push(batch.rows),
            Ok(None) => break,
            Err(error) => return Err(error.to_string()),
        }
    }
    for batch in &batches {
        for column in batch.columns() {
            column.to_data().validate_full().expect("a valid array");
        }
    }
    Ok(arrow_select::concat::concat_batches(scan.schema(), &batches).expect("batches of one schema"))
}
