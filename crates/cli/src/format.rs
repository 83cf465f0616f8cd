//! Prints results as text: aligned tables, and formats for programs.

use std::io::{self, Write};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type, Schema, SchemaRef};
use arrow::json::writer::{JsonArray, LineDelimited, WriterBuilder};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use arrow::util::display::{ArrayFormatter, DurationFormat, FormatOptions};
use clap::ValueEnum;
use dipper_base::floats;
use dipper_engine::{Column, as_names};
use dipper_sql::charter::casts::texts_of;
use dipper_sql::charter::{TYPE_KEY, digits_of, several_digits_shown, times_shown};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How rows are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns in a frame
    Table,
    /// One line per column, for wide rows
    Vertical,
    /// RFC 4180 with a header; NULL is an empty field
    Csv,
    /// Tabs between fields, a header, backslash escapes; NULL is \N
    Tsv,
    /// One JSON array of objects
    Json,
    /// One JSON object a line
    Jsonl,
    /// Rows as a Markdown table
    Markdown,
}

/// Widest value that a table shows in full, in terminal columns.
const CELL_WIDTH_MAX: usize = 80;
/// Widest value in a table of one column.
const LINE_WIDTH_MAX: usize = 2000;

/// Returns the format of values: timestamps as MySQL prints them, NULL as the word.
fn options() -> FormatOptions<'static> {
    FormatOptions::new()
        .with_null("NULL")
        .with_display_error(true)
        .with_duration_format(DurationFormat::Pretty)
        .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
        .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f"))
        .with_datetime_format(Some("%Y-%m-%d %H:%M:%S%.f"))
}

/// Prints the rows of one result.
pub(crate) struct Printer<W: Write> {
    names: Vec<String>,
    schema: SchemaRef,
    /// Columns of the result, with the metadata that their types have beyond Arrow's.
    fields: Vec<FieldRef>,
    kind: Kind<W>,
}

enum Kind<W: Write> {
    /// Rows that are kept until the end, because the widths of all rows are needed.
    Kept {
        format: Format,
        max_rows: usize,
        rows: Vec<Vec<Cell>>,
        more: usize,
        out: W,
    },
    Lines {
        format: Format,
        out: W,
        row: usize,
    },
    Json(arrow::json::Writer<W, JsonArray>),
    Jsonl(arrow::json::Writer<W, LineDelimited>),
}

struct Cell {
    text: String,
    number: bool,
    null: bool,
}

impl<W: Write> Printer<W> {
    /// Makes a printer for rows with these columns.
    pub(crate) fn new(format: Format, max_rows: usize, columns: &[Column], out: W) -> Self {
        let names: Vec<String> = columns.iter().map(|c| c.name.clone()).collect();
        let fields: Vec<Field> = columns
            .iter()
            .map(|c| c.field.as_ref().clone().with_name(&c.name).with_metadata(Default::default()))
            .collect();
        let kind = match format {
            Format::Table | Format::Markdown => Kind::Kept { format, max_rows, rows: Vec::new(), more: 0, out },
            Format::Json => Kind::Json(WriterBuilder::new().with_explicit_nulls(true).build(out)),
            Format::Jsonl => Kind::Jsonl(WriterBuilder::new().with_explicit_nulls(true).build(out)),
            _ => Kind::Lines { format, out, row: 0 },
        };
        let declared = columns.iter().map(|c| Arc::clone(&c.field)).collect();
        Printer { names, schema: Arc::new(Schema::new(fields)), fields: declared, kind }
    }

    /// Prints or keeps some rows.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        match &mut self.kind {
            Kind::Json(writer) => writer.write(&members(batch, &self.fields, &self.schema)?).map_err(other),
            Kind::Jsonl(writer) => writer.write(&members(batch, &self.fields, &self.schema)?).map_err(other),
            Kind::Kept { max_rows, rows, more, .. } => {
                let (options, columns) = (options(), printable(batch, &self.fields));
                let columns = shown_columns(&columns, &options)?;
                for row in 0..batch.num_rows() {
                    if *max_rows > 0 && rows.len() >= *max_rows {
                        *more += batch.num_rows() - row;
                        break;
                    }
                    rows.push(cells(&columns, row));
                }
                Ok(())
            }
            Kind::Lines { format, out, row: printed } => {
                let (options, columns) = (options(), printable(batch, &self.fields));
                let columns = shown_columns(&columns, &options)?;
                for row in 0..batch.num_rows() {
                    if *printed == 0 && *format != Format::Vertical {
                        header(*format, &self.names, out)?;
                    }
                    *printed += 1;
                    line(*format, &self.names, &cells(&columns, row), *printed, out)?;
                }
                Ok(())
            }
        }
    }

    /// Prints the kept rows and returns the output.
    pub(crate) fn finish(self) -> io::Result<W> {
        match self.kind {
            Kind::Json(mut writer) => {
                writer.finish().map_err(other)?;
                let mut out = writer.into_inner();
                out.write_all(b"\n")?;
                Ok(out)
            }
            Kind::Jsonl(mut writer) => {
                writer.finish().map_err(other)?;
                Ok(writer.into_inner())
            }
            Kind::Lines { format, mut out, row } => {
                if row == 0 && format != Format::Vertical {
                    header(format, &self.names, &mut out)?;
                }
                Ok(out)
            }
            Kind::Kept { format: Format::Markdown, rows, more, mut out, .. } => {
                markdown(&self.names, &rows, more, &mut out)?;
                Ok(out)
            }
            Kind::Kept { rows, more, mut out, .. } => {
                table(&self.names, &rows, more, &mut out)?;
                Ok(out)
            }
        }
    }
}

fn other(e: arrow::error::ArrowError) -> io::Error {
    match e {
        arrow::error::ArrowError::IoError(_, e) => e,
        e => io::Error::other(e),
    }
}

/// Prepares a batch for the JSON writer: with the result's headers, and TIMEs and keys of maps as text.
fn members(batch: &RecordBatch, fields: &[FieldRef], schema: &SchemaRef) -> io::Result<RecordBatch> {
    let batch = times_shown(batch, fields.iter().map(AsRef::as_ref)).map_err(io::Error::other)?;
    as_names(&renamed(&batch, schema)?).map_err(other)
}

/// Renames the columns of a batch to the result's headers.
fn renamed(batch: &RecordBatch, schema: &SchemaRef) -> io::Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .zip(batch.columns())
        .map(|(f, c)| Field::new(f.name(), c.data_type().clone(), true))
        .collect();
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), batch.columns().to_vec(), &options).map_err(other)
}

/// Returns the columns of a batch with arrays, maps, structs, TIME, and DATETIME of known digits as the texts that the
/// MySQL port sends.
fn printable(batch: &RecordBatch, fields: &[FieldRef]) -> Vec<ArrayRef> {
    let shown = several_digits_shown(batch, fields.iter().map(AsRef::as_ref));
    let batch = shown.as_ref().unwrap_or(batch);
    let text = |(at, column): (usize, &ArrayRef)| {
        let digits = fields.get(at).and_then(|field| digits_of(field));
        match column.data_type() {
            // IPV4 and IPV6.
            DataType::FixedSizeBinary(_) => texts_of(column, None).unwrap_or_else(|_| Arc::clone(column)),
            t if t.is_nested() => texts_of(column, digits).unwrap_or_else(|_| Arc::clone(column)),
            // Arrow prints times of day only.
            DataType::Time32(_) | DataType::Time64(_) => {
                texts_of(column, digits).unwrap_or_else(|_| Arc::clone(column))
            }
            DataType::Timestamp(_, None) if digits.is_some() => {
                texts_of(column, digits).unwrap_or_else(|_| Arc::clone(column))
            }
            // Binary data that is declared as text is shown as text.
            DataType::BinaryView
                if fields.get(at).and_then(|f| f.metadata().get(TYPE_KEY)).is_some_and(|t| t == "string") =>
            {
                let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                Arc::new(column.as_binary_view().iter().map(|bytes| bytes.map(lossy)).collect::<StringArray>())
            }
            _ => Arc::clone(column),
        }
    };
    batch.columns().iter().enumerate().map(text).collect()
}

/// A column whose cells are printed.
struct Shown<'a> {
    array: &'a dyn Array,
    /// Null mask, also for columns of the null type, which have no mask of their own.
    nulls: Option<NullBuffer>,
    formatter: ArrayFormatter<'a>,
}

fn shown_columns<'a>(columns: &'a [ArrayRef], options: &'a FormatOptions<'a>) -> io::Result<Vec<Shown<'a>>> {
    let shown = |array: &'a ArrayRef| {
        let formatter = ArrayFormatter::try_new(array.as_ref(), options).map_err(other)?;
        Ok(Shown { array: array.as_ref(), nulls: array.logical_nulls(), formatter })
    };
    columns.iter().map(shown).collect()
}

fn cells(columns: &[Shown<'_>], row: usize) -> Vec<Cell> {
    columns
        .iter()
        .map(|Shown { array, nulls, formatter }| {
            let null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            // MySQL prints booleans as numbers. What is no finite number has the same word everywhere.
            let text = match array.data_type() {
                DataType::Boolean if !null => u8::from(array.as_boolean().value(row)).to_string(),
                DataType::Float64 if !null && !array.as_primitive::<Float64Type>().value(row).is_finite() => {
                    floats::double(array.as_primitive::<Float64Type>().value(row))
                }
                DataType::Float32 if !null && !array.as_primitive::<Float32Type>().value(row).is_finite() => {
                    floats::float(array.as_primitive::<Float32Type>().value(row))
                }
                _ => formatter.value(row).to_string(),
            };
            let number = array.data_type().is_numeric() || *array.data_type() == DataType::Boolean;
            Cell { text, number, null }
        })
        .collect()
}

fn header(format: Format, names: &[String], out: &mut impl Write) -> io::Result<()> {
    let separator = if format == Format::Csv { "," } else { "\t" };
    let names: Vec<String> =
        names.iter().map(|n| if format == Format::Csv { csv_field(n) } else { tsv_field(n) }).collect();
    writeln!(out, "{}", names.join(separator))
}

fn line(format: Format, names: &[String], cells: &[Cell], number: usize, out: &mut impl Write) -> io::Result<()> {
    if format == Format::Vertical {
        let width = names.iter().map(|n| n.width()).max().unwrap_or_default();
        writeln!(out, "*************************** {number}. row ***************************")?;
        for (name, cell) in names.iter().zip(cells) {
            writeln!(out, "{}{name}: {}", " ".repeat(width - name.width()), cell.text)?;
        }
        return Ok(());
    }
    for (i, cell) in cells.iter().enumerate() {
        if i > 0 {
            out.write_all(if format == Format::Csv { b"," } else { b"\t" })?;
        }
        match (format, cell.null) {
            (Format::Csv, true) => {}
            (Format::Csv, false) if cell.text.is_empty() => out.write_all(b"\"\"")?,
            (Format::Csv, false) => out.write_all(csv_field(&cell.text).as_bytes())?,
            (_, true) => out.write_all(b"\\N")?,
            (_, false) => out.write_all(tsv_field(&cell.text).as_bytes())?,
        }
    }
    out.write_all(b"\n")
}

fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_string() }
}

fn tsv_field(text: &str) -> String {
    if !text.contains(['\\', '\t', '\n', '\r']) {
        return text.to_string();
    }
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}

/// Returns the text on one line, cut to `width_max` columns of the terminal.
fn shown(text: &str, width_max: usize) -> String {
    let text: String = text
        .chars()
        .map(|c| match c {
            '\n' => '⏎',
            c if c.is_control() => '·',
            c => c,
        })
        .collect();
    if text.width() <= width_max {
        return text;
    }
    let mut cut = String::new();
    let mut width = 0;
    for c in text.chars() {
        width += c.width().unwrap_or(0);
        if width > width_max - 1 {
            break;
        }
        cut.push(c);
    }
    cut.push('…');
    cut
}

fn table(names: &[String], rows: &[Vec<Cell>], more: usize, out: &mut impl Write) -> io::Result<()> {
    // A single column, for example a plan, may be as wide as it is, up to a limit.
    let width_max = if names.len() == 1 { LINE_WIDTH_MAX } else { CELL_WIDTH_MAX };
    let names: Vec<String> = names.iter().map(|n| shown(n, width_max)).collect();
    let rows: Vec<Vec<(String, bool)>> =
        rows.iter().map(|r| r.iter().map(|c| (shown(&c.text, width_max), c.number)).collect()).collect();
    let mut widths: Vec<usize> = names.iter().map(|n| n.width()).collect();
    for row in &rows {
        for (width, (text, _)) in widths.iter_mut().zip(row) {
            *width = (*width).max(text.width());
        }
    }
    let rule: String = widths.iter().map(|w| format!("+{}", "-".repeat(w + 2))).collect::<String>() + "+";
    writeln!(out, "{rule}")?;
    for (name, width) in names.iter().zip(&widths) {
        write!(out, "| {name}{} ", " ".repeat(width - name.width()))?;
    }
    writeln!(out, "|\n{rule}")?;
    for row in &rows {
        for ((text, number), width) in row.iter().zip(&widths) {
            let space = " ".repeat(width - text.width());
            if *number {
                write!(out, "| {space}{text} ")?;
            } else {
                write!(out, "| {text}{space} ")?;
            }
        }
        writeln!(out, "|")?;
    }
    writeln!(out, "{rule}")?;
    if more > 0 {
        writeln!(out, "... and {more} more rows; --max-rows 0 shows all")?;
    }
    Ok(())
}

fn markdown(names: &[String], rows: &[Vec<Cell>], more: usize, out: &mut impl Write) -> io::Result<()> {
    let escape = |s: &str| s.replace('|', "\\|").replace('\n', "<br>");
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    writeln!(out, "{}", line(names.iter().map(|n| escape(n)).collect()))?;
    let numbers = |i: usize| rows.iter().any(|r| r[i].number);
    let rule = (0..names.len()).map(|i| if numbers(i) { "---:" } else { "---" }.to_string()).collect();
    writeln!(out, "{}", line(rule))?;
    for row in rows {
        writeln!(out, "{}", line(row.iter().map(|c| escape(&c.text)).collect()))?;
    }
    if more > 0 {
        writeln!(out, "\n... and {more} more rows")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int32Array, Int32Builder, ListArray, MapBuilder, NullArray, TimestampMicrosecondArray};
    use arrow::buffer::OffsetBuffer;

    fn printed(format: Format, max_rows: usize, batch: &RecordBatch) -> String {
        let columns: Vec<Column> = batch.schema().fields().iter().map(|f| Column::computed(Arc::clone(f))).collect();
        let mut printer = Printer::new(format, max_rows, &columns, Vec::new());
        printer.write(batch).unwrap();
        String::from_utf8(printer.finish().unwrap()).unwrap()
    }

    fn print(format: Format, max_rows: usize) -> String {
        let schema = Schema::new(vec![Field::new("id", DataType::Int32, true), Field::new("名", DataType::Utf8, true)]);
        let batch = RecordBatch::try_new(
            Arc::new(schema),
            vec![
                Arc::new(Int32Array::from(vec![Some(1), None])),
                Arc::new(StringArray::from(vec![Some("a,\"b\"\n"), Some("")])),
            ],
        )
        .unwrap();
        printed(format, max_rows, &batch)
    }

    #[test]
    fn tables_are_aligned_by_display_width() {
        assert_eq!(
            print(Format::Table, 1),
            "+----+--------+\n| id | 名     |\n+----+--------+\n|  1 | a,\"b\"⏎ |\n+----+--------+\n... and 1 more rows; --max-rows 0 shows all\n"
        );
    }

    #[test]
    fn machine_formats_tell_null_from_empty() {
        assert_eq!(print(Format::Csv, 0), "id,名\n1,\"a,\"\"b\"\"\n\"\n,\"\"\n");
        assert_eq!(print(Format::Tsv, 0), "id\t名\n1\ta,\"b\"\\n\n\\N\t\n");
        assert_eq!(print(Format::Jsonl, 0), "{\"id\":1,\"名\":\"a,\\\"b\\\"\\n\"}\n{\"id\":null,\"名\":\"\"}\n");
    }

    #[test]
    fn values_are_printed_as_the_mysql_port_sends_them() {
        let items = StringArray::from(vec![Some("x"), Some("y, z"), None]);
        let item = Arc::new(Field::new_list_field(DataType::Utf8, true));
        let list = ListArray::new(item, OffsetBuffer::from_lengths([3]), Arc::new(items), None);
        let instant = TimestampMicrosecondArray::from(vec![1_500_000]).with_timezone("UTC");
        let columns: [(&str, ArrayRef); 3] =
            [("n", Arc::new(NullArray::new(1))), ("l", Arc::new(list)), ("t", Arc::new(instant))];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let text = "n,l,t\n,\"[\"\"x\"\", \"\"y, z\"\", null]\",1970-01-01 00:00:01.500\n";
        assert_eq!(printed(Format::Csv, 0, &batch), text);
        assert_eq!(printed(Format::Tsv, 0, &batch), "n\tl\tt\n\\N\t[\"x\", \"y, z\", null]\t1970-01-01 00:00:01.500\n");
        assert!(printed(Format::Json, 0, &batch).starts_with("[{\"n\":null,\"l\":[\"x\",\"y, z\",null],"));
    }
    #[test]
    fn keys_of_maps_are_names_in_json() {
        let mut maps = MapBuilder::new(None, Int32Builder::new(), Int32Builder::new());
        maps.keys().append_value(7);
        maps.values().append_value(1);
        maps.append(true).unwrap();
        let maps: ArrayRef = Arc::new(maps.finish());
        let batch = RecordBatch::try_from_iter([("m", maps)]).unwrap();
        assert_eq!(printed(Format::Jsonl, 0, &batch), "{\"m\":{\"7\":1}}\n");
        assert_eq!(printed(Format::Json, 0, &batch), "[{\"m\":{\"7\":1}}]\n");
    }

    #[test]
    fn datetimes_have_the_digits_of_their_type() {
        let instant = TimestampMicrosecondArray::from(vec![1_500_000, 0]);
        let type_key = |text: &str| [(TYPE_KEY.to_string(), text.to_string())].into();
        let field = Field::new("t", instant.data_type().clone(), true).with_metadata(type_key("datetime(3)"));
        let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::new(instant)]).unwrap();
        assert_eq!(printed(Format::Csv, 0, &batch), "t\n1970-01-01 00:00:01.500\n1970-01-01 00:00:00.000\n");
        let part = |name: &str| Arc::new(Field::new(name, batch.column(0).data_type().clone(), true));
        let parts = vec![(part("a"), Arc::clone(batch.column(0))), (part("b"), Arc::clone(batch.column(0)))];
        let both: ArrayRef = Arc::new(arrow::array::StructArray::from(parts));
        let field =
            Field::new("s", both.data_type().clone(), true).with_metadata(type_key("struct<a:datetime,b:datetime(1)>"));
        let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![both]).unwrap();
        let text = printed(Format::Tsv, 0, &batch);
        assert!(text.contains(r#"{"a":"1970-01-01 00:00:01", "b":"1970-01-01 00:00:01.5"}"#), "{text}");
    }
}
