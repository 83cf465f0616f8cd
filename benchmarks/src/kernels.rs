//! `kernels`: the text reader alone, on one core, beside a plain `read(2)` of the same bytes in the same run.
//!
//! Prints GB/s and the ratio to `read`. Files must be in the page cache; each figure is the best of several runs, so that
//! other load on the machine disturbs all of them alike.

use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use arrow_schema::{DataType, Field, Schema, TimeUnit};
use clap::{Parser, ValueEnum};
use dipper_text::scan::BadValue;
use dipper_text::{
    Compression, CsvDialect, Dialect, FileInput, FileSource, HiveDialect, Ragged, Scan, ScanOptions, ScanQueue, Strings,
};

/// Measures the text reader on files that `dipper-gen` wrote.
#[derive(Parser)]
#[command(name = "kernels")]
struct Args {
    /// SSB lineorder as CSV.
    #[arg(long)]
    lineorder: Option<PathBuf>,
    /// Page views as Hive text.
    #[arg(long)]
    hive: Option<PathBuf>,
    /// Page views as CSV.
    #[arg(long)]
    csv: Option<PathBuf>,
    /// Page views as CSV with quotes.
    #[arg(long)]
    quoted: Option<PathBuf>,
    /// Runs of which the best counts.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Bytes a block.
    #[arg(long, default_value_t = 1 << 20)]
    block: usize,
    /// Measure each column alone as well.
    #[arg(long)]
    columns: bool,
    /// Only this kernel.
    #[arg(long)]
    only: Option<Kernel>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kernel {
    Read,
    Count,
    Tokenise,
    Typed,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let csv = CsvDialect { ragged: Ragged::Fill, ..CsvDialect::default() };
    let bare = CsvDialect { quote: None, ..csv.clone() };
    let headless = CsvDialect { header: false, ..bare.clone() };
    let sets = [
        ("lineorder", &args.lineorder, Dialect::Csv(headless), lineorder()),
        ("hive", &args.hive, Dialect::Hive(HiveDialect::default()), page_views(true)),
        ("csv", &args.csv, Dialect::Csv(bare), page_views(false)),
        ("csv, quotes allowed", &args.csv, Dialect::Csv(csv.clone()), page_views(false)),
        ("csv, quoted", &args.quoted, Dialect::Csv(csv), page_views(false)),
    ];
    println!("{:<22}{:<28}{:>10}{:>8}{:>14}", "file", "kernel", "GB/s", "ratio", "rows");
    for (name, path, dialect, schema) in sets {
        let Some(path) = path else { continue };
        measure(&args, name, path, dialect, schema)?;
    }
    Ok(())
}

fn measure(args: &Args, name: &str, path: &PathBuf, dialect: Dialect, schema: Schema) -> Result<(), Box<dyn Error>> {
    let bytes = path.metadata()?.len() as f64;
    let schema = Arc::new(schema);
    let all: Vec<usize> = (0..schema.fields().len()).collect();
    let base = || {
        let mut options = ScanOptions::new(dialect.clone(), Arc::clone(&schema));
        options.block_bytes = args.block;
        options.bad_value = BadValue::Null;
        options
    };
    let mut count = base();
    count.projection.clear();
    // Keeping an account of rejected records needs every field of every record, and no column.
    let mut tokenise = count.clone();
    tokenise.bad_value = BadValue::Reject { max: u64::MAX };
    let mut copies = base();
    copies.strings = Strings::Copy;
    let mut cases = vec![
        ("read(2)".to_string(), Kernel::Read, None),
        ("records counted".to_string(), Kernel::Count, Some(count)),
        ("all fields tokenised".to_string(), Kernel::Tokenise, Some(tokenise)),
        ("all columns typed".to_string(), Kernel::Typed, Some(base())),
        ("all columns, text copied".to_string(), Kernel::Typed, Some(copies)),
    ];
    if args.columns {
        for column in all {
            let mut options = base();
            options.projection = vec![column];
            cases.push((format!("  {}", schema.field(column).name()), Kernel::Typed, Some(options)));
        }
    }
    cases.retain(|(_, kernel, _)| args.only.is_none_or(|only| only == *kernel || *kernel == Kernel::Read));
    let mut best = vec![f64::INFINITY; cases.len()];
    let mut rows = vec![0u64; cases.len()];
    for _ in 0..args.runs {
        // In turns, so that a busy neighbour slows all of them.
        for (i, (_, _, options)) in cases.iter().enumerate() {
            let start = Instant::now();
            rows[i] = match options {
                None => read(path, args.block)?,
                Some(options) => scan(path, options.clone())?,
            };
            best[i] = best[i].min(start.elapsed().as_secs_f64());
        }
    }
    for (i, (case, kernel, _)) in cases.iter().enumerate() {
        let rows = if *kernel == Kernel::Read { String::new() } else { rows[i].to_string() };
        println!("{name:<22}{case:<28}{:>10.2}{:>8.3}{rows:>14}", bytes / best[i] / 1e9, best[0] / best[i]);
    }
    Ok(())
}

fn read(path: &PathBuf, block: usize) -> Result<u64, Box<dyn Error>> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; block];
    let mut total = 0;
    loop {
        match file.read(black_box(&mut buffer))? {
            0 => return Ok(total),
            n => total += n as u64,
        }
    }
}

fn scan(path: &PathBuf, options: ScanOptions) -> Result<u64, Box<dyn Error>> {
    let source = Arc::new(FileSource::open(path)?);
    let input = FileInput { name: path.display().to_string(), source, compression: Compression::None };
    let queue = ScanQueue::new(Scan::try_new(options)?, vec![input]);
    let mut worker = queue.worker();
    let mut rows = 0;
    while let Some(batch) = worker.next_batch()? {
        rows += batch.rows.num_rows() as u64;
        black_box(&batch);
    }
    Ok(rows)
}

fn lineorder() -> Schema {
    let fields = (1..=17).map(|i| {
        let kind = match i {
            6 | 16 => DataType::Int32,
            7 | 17 => DataType::Utf8View,
            1 => DataType::Int64,
            _ => DataType::Int32,
        };
        Field::new(format!("lo_{i}"), kind, true)
    });
    Schema::new(fields.collect::<Vec<_>>())
}

fn page_views(hive: bool) -> Schema {
    let tags = if hive {
        DataType::List(Arc::new(Field::new("element", DataType::Utf8View, true)))
    } else {
        DataType::Utf8View
    };
    let kinds = [
        ("id", DataType::Int64),
        ("user_name", DataType::Utf8View),
        ("url", DataType::Utf8View),
        ("country", DataType::Utf8View),
        ("tags", tags),
        ("price", DataType::Float64),
        ("ts", DataType::Timestamp(TimeUnit::Microsecond, None)),
        ("flag", DataType::Boolean),
        ("comment", DataType::Utf8View),
        ("session_id", DataType::Int64),
        ("referer", DataType::Utf8View),
        ("agent", DataType::Utf8View),
        ("ip", DataType::Utf8View),
        ("duration_ms", DataType::Int64),
        ("bytes_sent", DataType::Int64),
        ("city", DataType::Utf8View),
    ];
    Schema::new(kinds.into_iter().map(|(name, kind)| Field::new(name, kind, true)).collect::<Vec<_>>())
}
