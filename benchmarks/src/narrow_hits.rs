//! Ten columns shaped like ClickBench's `hits`: wide enough to make the reader choose, URLs long and mostly distinct.

use std::fs::File;
use std::sync::Arc;

use arrow_array::builder::{Int16Builder, Int32Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::random::{Random, WORDS, push_number};

const HOSTS: &[&str] = &[
    "news.example.com",
    "shop.example.org",
    "maps.example.net",
    "auto.market.example",
    "video.example.com",
    "mail.example.org",
    "forum.cars.example",
    "kinopoisk.example",
    "pogoda.example",
    "images.example.net",
];

/// Appends a URL; 1 in 100 names google, in the host or in a parameter.
fn push_url(out: &mut Vec<u8>, random: &mut Random) {
    let google = random.below(200);
    out.extend_from_slice(if random.one_in(3) { b"http://" } else { b"https://" });
    out.extend_from_slice(if google == 0 { b"www.google.com" } else { random.pick(HOSTS).as_bytes() });
    for _ in 0..1 + random.below(4) {
        out.push(b'/');
        out.extend_from_slice(random.pick(WORDS).as_bytes());
    }
    if google == 1 {
        out.extend_from_slice(b"?from=google&q=");
        out.extend_from_slice(random.pick(WORDS).as_bytes());
    } else if !random.one_in(3) {
        out.extend_from_slice(b"?id=");
        let id = random.skewed(3_000_000);
        push_number(out, id);
        out.extend_from_slice(b"&section=");
        out.extend_from_slice(random.pick(WORDS).as_bytes());
    }
}

fn push_words(out: &mut Vec<u8>, random: &mut Random, least: u64, spread: u64) {
    for i in 0..least + random.below(spread) {
        if i > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(random.pick(WORDS).as_bytes());
    }
}

/// Writes the rows.
pub fn write(seed: u64, rows: u64, out: File, properties: WriterProperties) -> Result<(), ParquetError> {
    let field = |name: &str, kind: DataType| Field::new(name, kind, false);
    let schema = Arc::new(Schema::new(vec![
        field("WatchID", DataType::Int64),
        field("JavaEnable", DataType::Int16),
        field("Title", DataType::Utf8),
        field("EventTime", DataType::Timestamp(TimeUnit::Microsecond, None)),
        field("CounterID", DataType::Int32),
        field("RegionID", DataType::Int32),
        field("UserID", DataType::Int64),
        field("URL", DataType::Utf8),
        field("Referer", DataType::Utf8),
        field("SearchPhrase", DataType::Utf8),
    ]));
    let mut writer = ArrowWriter::try_new(out, schema.clone(), Some(properties))?;
    let mut random = Random::new(seed, 3);
    let mut text = Vec::new();
    let mut left = rows;
    while left > 0 {
        let batch = left.min(8192);
        let mut watch = Int64Builder::new();
        let mut java = Int16Builder::new();
        let mut time = TimestampMicrosecondBuilder::new();
        let (mut counter, mut region) = (Int32Builder::new(), Int32Builder::new());
        let mut user = Int64Builder::new();
        let mut strings: [StringBuilder; 4] = Default::default();
        for _ in 0..batch {
            watch.append_value((random.next() >> 1) as i64);
            java.append_value(random.below(2) as i16);
            time.append_value((1_372_636_800 + random.below(31 * 86_400) as i64) * 1_000_000);
            counter.append_value(random.skewed(6500) as i32);
            region.append_value(random.skewed(5000) as i32);
            user.append_value(random.skewed(2_000_000) as i64 * 7_919_113);
            for (kind, column) in strings.iter_mut().enumerate() {
                text.clear();
                match kind {
                    0 => push_words(&mut text, &mut random, 4, 8),
                    1 => push_url(&mut text, &mut random),
                    2 if random.one_in(2) => push_url(&mut text, &mut random),
                    3 if random.one_in(8) => push_words(&mut text, &mut random, 1, 4),
                    _ => {}
                }
                column.append_value(std::str::from_utf8(&text).unwrap_or_default());
            }
        }
        let [mut title, mut url, mut referer, mut phrase] = strings;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(watch.finish()),
            Arc::new(java.finish()),
            Arc::new(title.finish()),
            Arc::new(time.finish()),
            Arc::new(counter.finish()),
            Arc::new(region.finish()),
            Arc::new(user.finish()),
            Arc::new(url.finish()),
            Arc::new(referer.finish()),
            Arc::new(phrase.finish()),
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

    #[test]
    fn one_url_in_a_hundred_names_google() {
        let mut random = Random::new(1, 3);
        let hits = (0..100_000)
            .filter(|_| {
                let mut url = Vec::new();
                push_url(&mut url, &mut random);
                String::from_utf8(url).unwrap().contains("google")
            })
            .count();
        assert!((800..1200).contains(&hits), "{hits}");
    }
}
