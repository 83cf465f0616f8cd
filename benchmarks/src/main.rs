//! `dipper-gen`: the data that the benchmarks read. Deterministic by seed, streaming.

mod hits;
mod narrow_hits;
mod page_views;
mod parallel;
mod random;
mod ssb;
mod tpch;
mod uniform;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand, ValueEnum};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

/// Writes benchmark data: the same seed and size always give the same bytes.
#[derive(Parser)]
#[command(name = "dipper-gen", version)]
struct Args {
    /// Changes every value, but those of TPC-H, which are always dbgen's.
    #[arg(long, global = true, default_value_t = 1)]
    seed: u64,
    /// Threads for hits, SSB, TPC-H and uniform; the bytes are the same for every number.
    #[arg(long, global = true, default_value_t = 2)]
    threads: usize,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Page views as Hive text: ^A, ^B, \N; about 360 bytes a row.
    Hive {
        /// Stop at the first row that reaches this size.
        #[arg(long, default_value_t = 1 << 30)]
        bytes: u64,
        /// Directory to write into; created.
        #[arg(long)]
        out: PathBuf,
        /// Partition directories `dt=2024-03-01`, ... to spread the rows over, 0 for one file without partitions.
        #[arg(long, default_value_t = 0)]
        partitions: u32,
    },
    /// The same page views as CSV with a header line.
    Csv {
        /// Rows to write. `dipper-gen hive` prints how many it wrote.
        #[arg(long)]
        rows: u64,
        /// File to write.
        #[arg(long)]
        out: PathBuf,
        /// Every string in quotes, and in 1 of 1,000 comments a newline and a doubled quote.
        #[arg(long)]
        quoted: bool,
    },
    /// The same page views as Parquet, in row groups of 131,072 rows.
    Parquet {
        /// Rows to write.
        #[arg(long)]
        rows: u64,
        /// File to write.
        #[arg(long)]
        out: PathBuf,
        /// Page compression.
        #[arg(long, value_enum, default_value_t = Codec::Snappy)]
        codec: Codec,
    },
    /// The fact table of the Star Schema Benchmark as CSV without header: 17 columns of short fields.
    Lineorder {
        /// About 6,000,000 rows each.
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
        /// File to write.
        #[arg(long)]
        out: PathBuf,
    },
    /// Tables of the Star Schema Benchmark as dbgen writes them: `NAME.tbl`, fields between `|`, one behind the last too.
    Ssb {
        /// Scale factor, also a fraction: 6,000,000 order lines each.
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
        /// Directory to write into; created.
        #[arg(long)]
        out: PathBuf,
        /// Which tables; all five if not given.
        #[arg(long, value_enum, value_delimiter = ',')]
        tables: Vec<ssb::Table>,
    },
    /// Tables of TPC-H as dbgen writes them, `NAME.tbl`.
    Tpch {
        /// Scale factor, also a fraction: 6,000,000 order lines each.
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
        /// Directory to write into; created.
        #[arg(long)]
        out: PathBuf,
        /// Which tables; all eight if not given.
        #[arg(long, value_enum, value_delimiter = ',')]
        tables: Vec<tpch::Table>,
    },
    /// A table of uniform values between `|`, of which a scan can leave nothing out; about 230 bytes a row.
    Uniform {
        /// Rows to write.
        #[arg(long, default_value_t = 3_000_000)]
        rows: u64,
        /// File to write.
        #[arg(long)]
        out: PathBuf,
    },
    /// Parts for key look-ups: SSB's 9 columns between `|`, the key counts from 1.
    RowPart {
        /// Rows to write.
        #[arg(long, default_value_t = 32_000_000)]
        rows: u64,
        /// File to write.
        #[arg(long)]
        out: PathBuf,
    },
    /// ClickBench's `hits` as TSV: 105 columns, about 750 bytes a row.
    Hits {
        /// Rows to write.
        #[arg(long, conflicts_with = "bytes", required_unless_present = "bytes")]
        rows: Option<u64>,
        /// Stop at the first row that reaches this size.
        #[arg(long)]
        bytes: Option<u64>,
        /// File to write.
        #[arg(long)]
        out: PathBuf,
        /// Uniform values, and neighbours that share nothing.
        #[arg(long)]
        spread: bool,
    },
    /// Ten columns shaped like `hits`, as Parquet; about 1 in 100 URLs contains `google`.
    NarrowHits {
        /// Rows to write.
        #[arg(long, default_value_t = 5_000_000)]
        rows: u64,
        /// File to write.
        #[arg(long)]
        out: PathBuf,
        /// Page compression.
        #[arg(long, value_enum, default_value_t = Codec::Snappy)]
        codec: Codec,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Codec {
    None,
    Snappy,
    Zstd,
}

impl Codec {
    fn properties(self) -> WriterProperties {
        let compression = match self {
            Codec::None => Compression::UNCOMPRESSED,
            Codec::Snappy => Compression::SNAPPY,
            Codec::Zstd => Compression::ZSTD(ZstdLevel::default()),
        };
        WriterProperties::builder().set_compression(compression).set_max_row_group_row_count(Some(131_072)).build()
    }
}

fn create(path: &Path) -> io::Result<File> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    File::create(path)
}

/// Lets `fill` append rows to a buffer until it returns false, and writes the buffer out by the MiB. Returns the bytes.
pub(crate) fn stream(out: &mut impl Write, mut fill: impl FnMut(&mut Vec<u8>) -> bool) -> io::Result<u64> {
    let mut buffer = Vec::with_capacity((1 << 20) + (64 << 10));
    let mut written = 0;
    let mut more = true;
    while more {
        while more && buffer.len() < 1 << 20 {
            more = fill(&mut buffer);
        }
        out.write_all(&buffer)?;
        written += buffer.len() as u64;
        buffer.clear();
    }
    Ok(written)
}

fn run(args: Args) -> Result<(), Box<dyn std::error::Error>> {
    let (seed, threads) = (args.seed, args.threads);
    let (rows, bytes) = match args.what {
        What::Hive { bytes, out, partitions } => page_views::write_hive(seed, bytes, &out, partitions)?,
        What::Csv { rows, out, quoted } => page_views::write_csv(seed, rows, &mut create(&out)?, quoted)?,
        What::Parquet { rows, out, codec } => {
            page_views::write_parquet(seed, rows, create(&out)?, codec.properties())?;
            (rows, fs::metadata(&out)?.len())
        }
        What::Lineorder { scale, out } => {
            let comma = ssb::Style { separator: b',', trailing: false };
            ssb::write(seed, ssb::Table::Lineorder, scale, comma, threads, &mut create(&out)?)?
        }
        What::Ssb { scale, out, tables } => {
            let (mut rows, mut bytes) = (0, 0);
            let tables = if tables.is_empty() { ssb::Table::value_variants().to_vec() } else { tables };
            for table in tables {
                let path = out.join(format!("{}.tbl", format!("{table:?}").to_lowercase()));
                let written = ssb::write(seed, table, scale, ssb::DBGEN, threads, &mut create(&path)?)?;
                (rows, bytes) = (rows + written.0, bytes + written.1);
            }
            (rows, bytes)
        }
        What::Tpch { scale, out, tables } => {
            let (mut rows, mut bytes) = (0, 0);
            let tables = if tables.is_empty() { tpch::Table::value_variants().to_vec() } else { tables };
            for table in tables {
                let path = out.join(format!("{}.tbl", format!("{table:?}").to_lowercase()));
                let written = tpch::write(table, scale, threads, &mut create(&path)?)?;
                (rows, bytes) = (rows + written.0, bytes + written.1);
            }
            (rows, bytes)
        }
        What::Uniform { rows, out } => uniform::write(seed, rows, threads, &mut create(&out)?)?,
        What::RowPart { rows, out } => ssb::write_row_part(seed, rows, threads, &mut create(&out)?)?,
        What::Hits { rows, bytes, out, spread } => {
            let shape = if spread { hits::Shape::Spread } else { hits::Shape::Sessions };
            let until = rows.map_or(parallel::Until::Bytes(bytes.unwrap_or(0)), parallel::Until::Units);
            hits::write(seed, shape, until, threads, &mut create(&out)?)?
        }
        What::NarrowHits { rows, out, codec } => {
            narrow_hits::write(seed, rows, create(&out)?, codec.properties())?;
            (rows, fs::metadata(&out)?.len())
        }
    };
    println!("{{\"rows\": {rows}, \"bytes\": {bytes}}}");
    Ok(())
}

fn main() {
    if let Err(error) = run(Args::parse()) {
        eprintln!("dipper-gen: {error}");
        std::process::exit(1);
    }
}
