//! Page views of a web shop: the Hive text table of article 000's shape, and the same rows as CSV and Parquet.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, Float64Builder, Int64Builder, ListBuilder, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::random::{COUNTRIES, Random, WORDS, push_number, push_padded, push_timestamp};

/// Names of the columns, in order.
const COLUMNS: [&str; 16] = [
    "id",
    "user_name",
    "url",
    "country",
    "tags",
    "price",
    "ts",
    "flag",
    "comment",
    "session_id",
    "referer",
    "agent",
    "ip",
    "duration_ms",
    "bytes_sent",
    "city",
];

const CITIES: &[&str] = &[
    "Berlin",
    "Shanghai",
    "New York",
    "São Paulo",
    "Mumbai",
    "London",
    "Paris",
    "Tokyo",
    "Milano",
    "Madrid",
    "Toronto",
    "Seoul",
    "Sydney",
    "Amsterdam",
    "Istanbul",
    "Warszawa",
    "Stockholm",
    "Jakarta",
    "Bangkok",
    "Zürich",
    "München",
    "北京",
];

const AGENTS: &[&str] = &[
    "Mozilla/5.0 (X11; Linux x86_64) Firefox/128.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/126.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5) Safari/604.1",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) Safari/605.1",
    "curl/8.8.0",
];

/// One row. NULL is `None`; buffers are reused from row to row.
#[derive(Default)]
struct Row {
    id: u64,
    user: Vec<u8>,
    url: Vec<u8>,
    country: Option<&'static str>,
    /// Each tag's end in `tags_text`.
    tags: Vec<usize>,
    tags_text: Vec<u8>,
    tags_null: bool,
    /// Hundredths.
    price: Option<u64>,
    /// Seconds since 1970.
    ts: Option<i64>,
    flag: Option<bool>,
    comment: Vec<u8>,
    comment_null: bool,
    /// In the quoted CSV, the comment has a newline and a quote after this byte.
    comment_break: Option<usize>,
    session: u64,
    referer: Vec<u8>,
    referer_null: bool,
    agent: &'static str,
    ip: Vec<u8>,
    duration: Option<u64>,
    bytes_sent: u64,
    city: &'static str,
}

struct Rows {
    random: Random,
    next_id: u64,
}

impl Rows {
    fn new(seed: u64) -> Self {
        Rows { random: Random::new(seed, 1), next_id: 1_000_000_000 }
    }

    fn next(&mut self, row: &mut Row) {
        let random = &mut self.random;
        self.next_id += 1 + random.below(3);
        row.id = self.next_id;

        row.user.clear();
        row.user.extend_from_slice(b"user");
        push_number(&mut row.user, random.skewed(1_000_000));

        row.url.clear();
        push_url(&mut row.url, random);

        row.country = (!random.one_in(50)).then(|| COUNTRIES[random.skewed(COUNTRIES.len() as u64) as usize]);

        row.tags.clear();
        row.tags_text.clear();
        row.tags_null = random.one_in(50);
        for _ in 0..1 + random.below(5) {
            row.tags_text.extend_from_slice(random.pick(WORDS).as_bytes());
            row.tags.push(row.tags_text.len());
        }

        row.price = (!random.one_in(100)).then(|| 99 + random.skewed(200_000));
        row.ts = (!random.one_in(200)).then(|| 1_709_251_200 + random.below(30 * 86_400) as i64);
        row.flag = (!random.one_in(50)).then(|| random.one_in(3));

        row.comment.clear();
        row.comment_null = random.one_in(10);
        row.comment_break = None;
        let broken = random.one_in(1000);
        let rare = random.one_in(1000);
        for i in 0..6 + random.below(14) {
            if i > 0 {
                row.comment.push(b' ');
            }
            row.comment.extend_from_slice(if rare && i == 3 { b"abcdef" } else { random.pick(WORDS).as_bytes() });
            if broken && i == 2 {
                row.comment_null = false;
                row.comment_break = Some(row.comment.len());
            }
        }

        row.session = random.next() >> 1;
        row.referer.clear();
        row.referer_null = random.one_in(4);
        push_url(&mut row.referer, random);
        row.agent = AGENTS[random.skewed(AGENTS.len() as u64) as usize];
        row.ip.clear();
        for i in 0..4 {
            if i > 0 {
                row.ip.push(b'.');
            }
            push_number(&mut row.ip, 1 + random.below(254));
        }
        row.duration = (!random.one_in(20)).then(|| random.skewed(60_000));
        row.bytes_sent = 200 + random.skewed(2_000_000);
        row.city = CITIES[random.skewed(CITIES.len() as u64) as usize];
    }
}

/// A URL; 1 in 40 contains `google`.
fn push_url(out: &mut Vec<u8>, random: &mut Random) {
    out.extend_from_slice(b"https://");
    out.extend_from_slice(if random.one_in(40) { b"www.google.com" } else { b"shop.example.com" });
    for _ in 0..2 + random.below(3) {
        out.push(b'/');
        out.extend_from_slice(random.pick(WORDS).as_bytes());
    }
    out.extend_from_slice(b"?item=");
    push_number(out, random.skewed(5_000_000));
    if random.one_in(2) {
        out.extend_from_slice(b"&ref=");
        out.extend_from_slice(random.pick(WORDS).as_bytes());
    }
}

fn push_price(out: &mut Vec<u8>, hundredths: u64) {
    push_number(out, hundredths / 100);
    out.push(b'.');
    push_padded(out, hundredths % 100, 2);
}

fn push_boolean(out: &mut Vec<u8>, value: bool) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

fn push_hive(out: &mut Vec<u8>, row: &Row) {
    const NULL: &[u8] = b"\\N";
    push_number(out, row.id);
    out.push(1);
    out.extend_from_slice(&row.user);
    out.push(1);
    out.extend_from_slice(&row.url);
    out.push(1);
    out.extend_from_slice(row.country.map_or(NULL, str::as_bytes));
    out.push(1);
    if row.tags_null {
        out.extend_from_slice(NULL);
    } else {
        push_tags(out, row, 2);
    }
    out.push(1);
    match row.price {
        Some(price) => push_price(out, price),
        None => out.extend_from_slice(NULL),
    }
    out.push(1);
    match row.ts {
        Some(ts) => push_timestamp(out, ts),
        None => out.extend_from_slice(NULL),
    }
    out.push(1);
    match row.flag {
        Some(flag) => push_boolean(out, flag),
        None => out.extend_from_slice(NULL),
    }
    out.push(1);
    out.extend_from_slice(if row.comment_null { NULL } else { &row.comment });
    out.push(1);
    push_number(out, row.session);
    out.push(1);
    out.extend_from_slice(if row.referer_null { NULL } else { &row.referer });
    out.push(1);
    out.extend_from_slice(row.agent.as_bytes());
    out.push(1);
    out.extend_from_slice(&row.ip);
    out.push(1);
    match row.duration {
        Some(duration) => push_number(out, duration),
        None => out.extend_from_slice(NULL),
    }
    out.push(1);
    push_number(out, row.bytes_sent);
    out.push(1);
    out.extend_from_slice(row.city.as_bytes());
    out.push(b'\n');
}

fn push_tags(out: &mut Vec<u8>, row: &Row, between: u8) {
    let mut start = 0;
    for &end in &row.tags {
        if start > 0 {
            out.push(between);
        }
        out.extend_from_slice(&row.tags_text[start..end]);
        start = end;
    }
}

/// CSV: NULL is an empty field without quotes; tags are one string, `a;b;c`.
fn push_csv(out: &mut Vec<u8>, row: &Row, quoted: bool) {
    let string = |out: &mut Vec<u8>, value: Option<&[u8]>| {
        if let Some(value) = value {
            if quoted {
                out.push(b'"');
            }
            out.extend_from_slice(value);
            if quoted {
                out.push(b'"');
            }
        }
        out.push(b',');
    };
    push_number(out, row.id);
    out.push(b',');
    string(out, Some(&row.user));
    string(out, Some(&row.url));
    string(out, row.country.map(str::as_bytes));
    if !row.tags_null {
        if quoted {
            out.push(b'"');
        }
        push_tags(out, row, b';');
        if quoted {
            out.push(b'"');
        }
    }
    out.push(b',');
    if let Some(price) = row.price {
        push_price(out, price);
    }
    out.push(b',');
    if let Some(ts) = row.ts {
        push_timestamp(out, ts);
    }
    out.push(b',');
    if let Some(flag) = row.flag {
        push_boolean(out, flag);
    }
    out.push(b',');
    match row.comment_break {
        Some(at) if quoted => {
            out.push(b'"');
            out.extend_from_slice(&row.comment[..at]);
            out.extend_from_slice(b"\n\"\"");
            out.extend_from_slice(&row.comment[at..]);
            out.extend_from_slice(b"\",");
        }
        _ => string(out, (!row.comment_null).then_some(&row.comment)),
    }
    push_number(out, row.session);
    out.push(b',');
    string(out, (!row.referer_null).then_some(&row.referer));
    string(out, Some(row.agent.as_bytes()));
    string(out, Some(&row.ip));
    if let Some(duration) = row.duration {
        push_number(out, duration);
    }
    out.push(b',');
    push_number(out, row.bytes_sent);
    out.push(b',');
    string(out, Some(row.city.as_bytes()));
    // `string` ended the last field with a comma.
    if let Some(last) = out.last_mut() {
        *last = b'\n';
    }
}

/// Writes Hive text of `bytes`, returns rows and bytes. `partitions` directories take turns by 65,536 rows.
pub fn write_hive(seed: u64, bytes: u64, out: &Path, partitions: u32) -> io::Result<(u64, u64)> {
    let mut files = Vec::new();
    for partition in 0..partitions.max(1) {
        let mut directory = out.to_path_buf();
        if partitions > 0 {
            let (year, month, day) = crate::random::civil(19_783 + i64::from(partition));
            directory.push(format!("dt={year:04}-{month:02}-{day:02}"));
        }
        fs::create_dir_all(&directory)?;
        files.push(File::create(directory.join("000000_0"))?);
    }
    let mut rows = Rows::new(seed);
    let mut row = Row::default();
    let (mut count, mut written) = (0u64, 0);
    let mut turn = 0;
    while written < bytes {
        let file = &mut files[turn % partitions.max(1) as usize];
        turn += 1;
        let mut in_turn = 0u64;
        let mut in_buffer = 0;
        written += crate::stream(file, |buffer| {
            rows.next(&mut row);
            let before = buffer.len();
            push_hive(buffer, &row);
            in_buffer += (buffer.len() - before) as u64;
            in_turn += 1;
            in_turn < 65_536 && written + in_buffer < bytes
        })?;
        count += in_turn;
    }
    for file in &mut files {
        file.flush()?;
    }
    Ok((count, written))
}

/// Writes CSV of `rows` rows with a header line, returns rows and bytes.
pub fn write_csv(seed: u64, rows: u64, out: &mut impl Write, quoted: bool) -> io::Result<(u64, u64)> {
    let mut source = Rows::new(seed);
    let mut row = Row::default();
    let header = COLUMNS.join(",") + "\n";
    out.write_all(header.as_bytes())?;
    let mut left = rows;
    let bytes = crate::stream(out, |buffer| {
        if left > 0 {
            source.next(&mut row);
            push_csv(buffer, &row, quoted);
            left -= 1;
        }
        left > 0
    })?;
    Ok((rows, bytes + header.len() as u64))
}

fn schema() -> Schema {
    let item = DataType::List(Arc::new(Field::new("element", DataType::Utf8, true)));
    let kinds = [
        DataType::Int64,
        DataType::Utf8,
        DataType::Utf8,
        DataType::Utf8,
        item,
        DataType::Float64,
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Boolean,
        DataType::Utf8,
        DataType::Int64,
        DataType::Utf8,
        DataType::Utf8,
        DataType::Utf8,
        DataType::Int64,
        DataType::Int64,
        DataType::Utf8,
    ];
    Schema::new(COLUMNS.iter().zip(kinds).map(|(name, kind)| Field::new(*name, kind, true)).collect::<Vec<_>>())
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// Writes the rows as Parquet.
pub fn write_parquet(seed: u64, rows: u64, out: File, properties: WriterProperties) -> Result<(), ParquetError> {
    let schema = Arc::new(schema());
    let mut writer = ArrowWriter::try_new(out, schema.clone(), Some(properties))?;
    let mut source = Rows::new(seed);
    let mut row = Row::default();
    let mut left = rows;
    while left > 0 {
        let batch = left.min(8192);
        let (mut id, mut session, mut duration, mut sent): (Int64Builder, Int64Builder, Int64Builder, Int64Builder) =
            Default::default();
        let mut strings: [StringBuilder; 8] = Default::default();
        let element = Field::new("element", DataType::Utf8, true);
        let mut tags = ListBuilder::new(StringBuilder::new()).with_field(element);
        let mut price = Float64Builder::new();
        let mut ts = TimestampMicrosecondBuilder::new();
        let mut flag = BooleanBuilder::new();
        for _ in 0..batch {
            source.next(&mut row);
            id.append_value(row.id as i64);
            session.append_value(row.session as i64);
            duration.append_option(row.duration.map(|value| value as i64));
            sent.append_value(row.bytes_sent as i64);
            price.append_option(row.price.map(|value| value as f64 / 100.0));
            ts.append_option(row.ts.map(|value| value * 1_000_000));
            flag.append_option(row.flag);
            let values = [
                Some(text(&row.user)),
                Some(text(&row.url)),
                row.country,
                (!row.comment_null).then(|| text(&row.comment)),
                (!row.referer_null).then(|| text(&row.referer)),
                Some(row.agent),
                Some(text(&row.ip)),
                Some(row.city),
            ];
            for (column, value) in strings.iter_mut().zip(values) {
                column.append_option(value);
            }
            let mut start = 0;
            for &end in &row.tags {
                if !row.tags_null {
                    tags.values().append_value(text(&row.tags_text[start..end]));
                }
                start = end;
            }
            tags.append(!row.tags_null);
        }
        let [mut user, mut url, mut country, mut comment, mut referer, mut agent, mut ip, mut city] = strings;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(id.finish()),
            Arc::new(user.finish()),
            Arc::new(url.finish()),
            Arc::new(country.finish()),
            Arc::new(tags.finish()),
            Arc::new(price.finish()),
            Arc::new(ts.finish()),
            Arc::new(flag.finish()),
            Arc::new(comment.finish()),
            Arc::new(session.finish()),
            Arc::new(referer.finish()),
            Arc::new(agent.finish()),
            Arc::new(ip.finish()),
            Arc::new(duration.finish()),
            Arc::new(sent.finish()),
            Arc::new(city.finish()),
        ];
        writer.write(&RecordBatch::try_new(schema.clone(), columns)?)?;
        left -= batch;
    }
    writer.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(quoted: bool) -> String {
        let mut out = Vec::new();
        let (rows, bytes) = write_csv(1, 5000, &mut out, quoted).unwrap();
        assert_eq!((rows, bytes), (5000, out.len() as u64));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn plain_and_quoted_csv_hold_the_same_rows() {
        let (plain, quoted) = (csv(false), csv(true));
        assert_eq!(plain.lines().count(), 5001);
        assert!(plain.lines().all(|line| line.split(',').count() == 16));
        assert!(!plain.contains('"'));
        let breaks = quoted.matches("\n\"\"").count();
        assert!((1..20).contains(&breaks), "{breaks}");
        let unquoted = quoted.replace("\n\"\"", "").replace('"', "");
        assert!(plain == unquoted);
    }

    #[test]
    fn hive_text_is_of_the_size_asked_for_and_repeats() {
        let read = |name: &str, partitions| {
            let directory = std::env::temp_dir().join(format!("dipper-gen-{}-{name}", std::process::id()));
            let (rows, bytes) = write_hive(1, 200_000, &directory, partitions).unwrap();
            let mut text = String::new();
            let mut paths: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
            paths.sort();
            for path in paths {
                let file = if path.is_dir() { path.join("000000_0") } else { path };
                text.push_str(&fs::read_to_string(file).unwrap());
            }
            fs::remove_dir_all(&directory).unwrap();
            assert_eq!((text.lines().count() as u64, text.len() as u64), (rows, bytes));
            text
        };
        let text = read("one", 0);
        assert!((200_000..201_000).contains(&text.len()));
        let per_row = text.len() / text.lines().count();
        assert!((330..=390).contains(&per_row), "{per_row} bytes a row");
        assert!(text.lines().all(|line| line.split('\x01').count() == 16));
        assert!(text == read("again", 0) && text == read("parts", 2));
    }
}
