//! `dipper load`: loads a file into a table, through a server or into a data directory.

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::remote::RemoteArguments;
use clap::{Args, ValueEnum};
use dipper_engine::load::LoadSpec;
use dipper_engine::load::answer::{LoadAnswer, LoadStatus};
use dipper_engine::load::body::{BodySender, body};
use dipper_engine::load::records::LoadKind;
use dipper_engine::load::request::StreamLoadRequest;
use dipper_engine::{ClientInfo, DataLocation, Engine, EngineOptions, FileAccess};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// Bytes that are read and sent at a time.
const CHUNK_BYTES: usize = 1 << 20;
/// Chunks that are buffered between reading and sending.
const CHUNKS_WAITING: usize = 4;
/// Longest answer of a server in bytes.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// How the outcome is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Summary {
    /// A sentence.
    Text,
    /// The JSON object that Stream Load answers with.
    Json,
}

/// Arguments of `dipper load`.
#[derive(Debug, Args)]
pub(crate) struct LoadArguments {
    /// The file; `-` is stdin. What its name ends with says how it is written (.json .jsonl .parquet, else text; .csv
    /// has commas and quotes, other text tabs) and compressed (.gz .bz2 .zst .lz4 ...)
    file: PathBuf,
    /// The table, as database.table
    #[arg(long, value_name = "DB.TABLE")]
    table: String,
    /// The server's HTTP address [env: DIPPER_SERVER=] [default: http://127.0.0.1:8030]
    #[arg(long, value_name = "URL", conflicts_with = "data")]
    server: Option<String>,
    /// Load into this directory or s3://bucket/prefix without a server (one may use it meanwhile)
    #[arg(long, value_name = "DIR|URL")]
    data: Option<DataLocation>,
    #[command(flatten)]
    remote: RemoteArguments,
    /// User of the server
    #[arg(long, env = "DIPPER_USER", default_value = "root", value_name = "NAME")]
    user: String,
    /// Password of the user
    #[arg(long, env = "DIPPER_PASSWORD", default_value = "", hide_env_values = true, value_name = "PASSWORD")]
    password: String,
    /// Name that makes a repeated load a no-op
    #[arg(long, value_name = "NAME")]
    label: Option<String>,
    /// Columns of the file and derived ones: a,b,c=upper(b)
    #[arg(long, value_name = "LIST")]
    columns: Option<String>,
    /// Condition that rows must meet
    #[arg(long, value_name = "CONDITION")]
    r#where: Option<String>,
    /// csv, csv_with_names, csv_with_names_and_types, json or parquet
    #[arg(long, value_name = "FORMAT")]
    file_format: Option<String>,
    /// Bytes between fields, such as , or \x01
    #[arg(long, value_name = "BYTES")]
    column_separator: Option<String>,
    /// Share of the rows that may be left out, 0 to 1
    #[arg(long, value_name = "SHARE")]
    max_filter_ratio: Option<f64>,
    /// Any other header of Stream Load, as NAME:VALUE; may be given several times
    #[arg(short = 'H', long = "header", value_name = "NAME:VALUE")]
    headers: Vec<String>,
    /// How the outcome is told
    #[arg(long, value_enum, default_value = "text")]
    format: Summary,
    /// No progress bar
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn main(arguments: LoadArguments) -> ExitCode {
    crate::start_log("warn");
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => return fail(&format!("cannot start: {e}")),
    };
    let begun = Instant::now();
    match runtime.block_on(load(&arguments)) {
        Ok(answer) => tell(&arguments, &answer, begun.elapsed()),
        Err(message) => fail(&message),
    }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("dipper: {message}");
    ExitCode::FAILURE
}

fn tell(arguments: &LoadArguments, answer: &str, time: Duration) -> ExitCode {
    let value: Value = match serde_json::from_str(answer) {
        Ok(value) => value,
        Err(_) => return fail(&format!("the server's answer is no JSON: {answer}")),
    };
    let text = |name: &str| value[name].as_str().unwrap_or_default().to_string();
    let number = |name: &str| value[name].as_u64().unwrap_or_default();
    let status = text("Status");
    let repeated = status == LoadStatus::LabelExists.name() && text("ExistingJobStatus") == "FINISHED";
    let ok = status == LoadStatus::Success.name() || status == LoadStatus::PublishTimeout.name() || repeated;
    if arguments.format == Summary::Json {
        print!("{answer}");
    } else if repeated {
        println!("nothing to do: label {} was loaded before", text("Label"));
    } else if ok {
        let seconds = time.as_secs_f64().max(1e-3);
        let speed = number("LoadBytes") as f64 / 1e6 / seconds;
        let mut line = format!(
            "loaded {} rows in {seconds:.2} s ({speed:.1} MB/s), label {}",
            number("NumberLoadedRows"),
            text("Label")
        );
        for (name, what) in [("NumberFilteredRows", "left out"), ("NumberUnselectedRows", "not selected")] {
            if number(name) > 0 {
                line.push_str(&format!(", {} {what}", number(name)));
            }
        }
        println!("{line}");
    } else if value["Status"].is_null() {
        // The answer is not that of a load: for example there is no such user, or the address is another server's.
        let detail = [text("msg"), text("data")].into_iter().filter(|t| !t.is_empty()).collect::<Vec<_>>();
        eprintln!("dipper: {}", detail.join(": "));
    } else {
        eprintln!("dipper: {status}: {}", text("Message"));
    }
    if arguments.format == Summary::Text {
        for row in value["RejectedRows"].as_array().into_iter().flatten() {
            eprintln!(
                "  line {}: {}: {}",
                row["line"],
                row["reason"].as_str().unwrap_or_default(),
                row["row"].as_str().unwrap_or_default()
            );
        }
    }
    if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the headers for the arguments and the file's name.
fn headers(arguments: &LoadArguments) -> Result<Vec<(String, String)>, String> {
    let mut all: Vec<(String, String)> = Vec::new();
    for header in &arguments.headers {
        let (name, value) =
            header.split_once(':').ok_or_else(|| format!("--header '{header}': expected NAME:VALUE"))?;
        all.push((name.trim().to_lowercase(), value.trim().to_string()));
    }
    let ratio = arguments.max_filter_ratio.map(|r| r.to_string());
    let given = [
        ("label", arguments.label.clone()),
        ("columns", arguments.columns.clone()),
        ("where", arguments.r#where.clone()),
        ("format", arguments.file_format.clone()),
        ("column_separator", arguments.column_separator.clone()),
        ("max_filter_ratio", ratio),
    ];
    all.extend(given.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?))));
    let name = arguments.file.file_name().map(|n| n.to_string_lossy().to_lowercase()).unwrap_or_default();
    let codecs = [
        (".gz", "gz"),
        (".bz2", "bz2"),
        (".zst", "zstd"),
        (".zstd", "zstd"),
        (".lz4", "lz4"),
        (".snappy", "snappy_block"),
        (".deflate", "deflate"),
    ];
    let codec = codecs.iter().find(|(end, _)| name.ends_with(end));
    let plain = codec.map_or(name.as_str(), |(end, _)| name.strip_suffix(end).unwrap_or(&name));
    let ends = |with: &[&str]| with.iter().any(|end| plain.ends_with(end));
    let mut guess = |name: &str, value: &str| {
        if !all.iter().any(|(n, _)| n == name) {
            all.push((name.to_string(), value.to_string()));
        }
    };
    if let Some((_, codec)) = codec {
        guess("compress_type", codec);
    }
    if ends(&[".json", ".jsonl", ".ndjson"]) {
        guess("format", "json");
    } else if ends(&[".parquet"]) {
        guess("format", "parquet");
    } else if ends(&[".csv"]) {
        guess("column_separator", ",");
        guess("enclose", "\"");
    }
    for (name, value) in &all {
        if name.contains(|c: char| c.is_whitespace() || c.is_control()) || value.contains(['\r', '\n', '\0']) {
            return Err(format!("header '{name}': line breaks cannot be in a header; write \\n"));
        }
    }
    Ok(all)
}

/// Loads the file; returns the JSON answer.
async fn load(arguments: &LoadArguments) -> Result<String, String> {
    let (database, table) = arguments
        .table
        .split_once('.')
        .filter(|(d, t)| !d.is_empty() && !t.is_empty())
        .ok_or_else(|| format!("--table '{}': expected database.table", arguments.table))?;
    let mut headers = headers(arguments)?;
    let (length, chunks) = read(&arguments.file)?;
    let bar = Progress::new(arguments, length, &headers);
    let result = match &arguments.data {
        Some(data) => {
            headers.extend(length.map(|bytes| ("content-length".to_string(), bytes.to_string())));
            in_process(data, &arguments.remote, database, table, &headers, chunks, &bar).await
        }
        None => over_http(arguments, database, table, &headers, length, chunks, &bar).await,
    };
    bar.bar.finish_and_clear();
    result
}

/// The progress bar, and what was sent.
struct Progress {
    bar: ProgressBar,
    /// Number of lines sent, if each line is a row.
    rows: Option<AtomicU64>,
}

impl Progress {
    fn new(arguments: &LoadArguments, length: Option<u64>, headers: &[(String, String)]) -> Self {
        if arguments.quiet || !std::io::stderr().is_terminal() {
            return Progress { bar: ProgressBar::hidden(), rows: None };
        }
        let is = |name: &str, value: &str| headers.iter().any(|(n, v)| n == name && v.eq_ignore_ascii_case(value));
        let is_packed = headers.iter().any(|(n, _)| n == "compress_type") || is("format", "parquet");
        let rows = !is_packed && !is("strip_outer_array", "true");
        let (bar, template) = match length {
            Some(length) => (
                ProgressBar::new(length),
                "{bar:32} {bytes}/{total_bytes}  {msg}{bytes_per_sec}  {elapsed_precise}  ETA {eta}",
            ),
            None => (ProgressBar::no_length(), "{spinner} {bytes}  {msg}{bytes_per_sec}  {elapsed_precise}"),
        };
        bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
        Progress { bar, rows: rows.then(AtomicU64::default) }
    }

    fn sent(&self, chunk: &[u8]) {
        if let Some(rows) = &self.rows {
            let more = chunk.iter().filter(|b| **b == b'\n').count() as u64;
            let rows = rows.fetch_add(more, Ordering::Relaxed) + more;
            self.bar.set_message(format!("{} rows  ", HumanCount(rows)));
        }
        self.bar.inc(chunk.len() as u64);
    }
}

type Chunks = mpsc::Receiver<std::io::Result<Vec<u8>>>;

/// Reads the file on a separate thread. Also returns its length, if it is a regular file.
fn read(path: &Path) -> Result<(Option<u64>, Chunks), String> {
    let cannot = |e: std::io::Error| format!("cannot read '{}': {e}", path.display());
    let (length, mut source): (_, Box<dyn Read + Send>) = if path.as_os_str() == "-" {
        (None, Box::new(std::io::stdin()))
    } else {
        let file = File::open(path).map_err(cannot)?;
        let metadata = file.metadata().map_err(cannot)?;
        if metadata.is_dir() {
            return Err(format!("'{}' is a directory; expected a file", path.display()));
        }
        (metadata.is_file().then_some(metadata.len()), Box::new(file))
    };
    let (sender, chunks) = mpsc::channel(CHUNKS_WAITING);
    std::thread::spawn(move || {
        loop {
            let mut chunk = Vec::with_capacity(CHUNK_BYTES);
            let read = (&mut source).take(CHUNK_BYTES as u64).read_to_end(&mut chunk);
            let next = match read {
                Ok(0) => return,
                Ok(_) => Ok(chunk),
                Err(e) => Err(e),
            };
            let failed = next.is_err();
            if sender.blocking_send(next).is_err() || failed {
                return;
            }
        }
    });
    Ok((length, chunks))
}

async fn in_process(
    data: &DataLocation,
    remote: &RemoteArguments,
    database: &str,
    table: &str,
    headers: &[(String, String)],
    chunks: Chunks,
    bar: &Progress,
) -> Result<String, String> {
    let options = EngineOptions {
        data: Some(data.clone()),
        remote: remote.options(),
        access: FileAccess::Any,
        ..Default::default()
    };
    let engine = Engine::open(options).await.map_err(|e| e.to_string())?;
    let given = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let request = StreamLoadRequest::from_headers(given).map_err(|e| e.to_string())?;
    let spec = LoadSpec {
        kind: LoadKind::File,
        client: ClientInfo::local(engine.next_connection_id()),
        database: database.into(),
        table: table.into(),
        request,
    };
    let answer = match engine.begin_load(spec).await {
        Err(answer) => *answer,
        Ok(job) => {
            let (sender, receiver) = body();
            let running = tokio::spawn(job.run(receiver));
            send(chunks, sender, bar).await;
            running.await.unwrap_or_else(|e| LoadAnswer::new("", "").failed(e.to_string()))
        }
    };
    Ok(answer.to_json(""))
}

/// Sends the file until it ends or the load does; the load then says why.
async fn send(mut chunks: Chunks, to: BodySender, bar: &Progress) {
    while let Some(chunk) = chunks.recv().await {
        match chunk {
            Ok(chunk) => {
                bar.sent(&chunk);
                if to.send(chunk.into()).await.is_err() {
                    return;
                }
            }
            Err(e) => {
                let _ = to.fail(e).await;
                return;
            }
        }
    }
    let _ = to.end().await;
}

async fn over_http(
    arguments: &LoadArguments,
    database: &str,
    table: &str,
    headers: &[(String, String)],
    length: Option<u64>,
    mut chunks: Chunks,
    bar: &Progress,
) -> Result<String, String> {
    // Not left to clap: a variable that names a server must not forbid --data.
    let set = std::env::var("DIPPER_SERVER").ok().filter(|s| !s.is_empty());
    let server = arguments.server.clone().or(set).unwrap_or_else(|| "http://127.0.0.1:8030".into());
    let server = server.trim_end_matches('/');
    let address = server
        .strip_prefix("http://")
        .filter(|a| !a.is_empty() && !a.contains(['/', '@']))
        .ok_or_else(|| format!("--server '{server}': expected http://host:port"))?;
    let broken = |e: std::io::Error| format!("the connection to {server} broke: {e}");
    let stream = TcpStream::connect(address).await.map_err(|e| format!("cannot reach {server}: {e}"))?;
    let (mut from, mut to) = stream.into_split();
    let framing = match length {
        Some(length) => format!("Content-Length: {length}"),
        None => "Transfer-Encoding: chunked".to_string(),
    };
    let credentials = base64(format!("{}:{}", arguments.user, arguments.password).as_bytes());
    let (database, table) = (percent(database), percent(table));
    let mut head = format!(
        "PUT /api/{database}/{table}/_stream_load HTTP/1.1\r\nHost: {address}\r\nAuthorization: Basic {credentials}\r\n{framing}\r\nConnection: close\r\n"
    );
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    to.write_all(head.as_bytes()).await.map_err(broken)?;
    let upload = async {
        while let Some(chunk) = chunks.recv().await {
            let chunk = chunk.map_err(|e| format!("cannot read '{}': {e}", arguments.file.display()))?;
            if length.is_none() {
                to.write_all(format!("{:x}\r\n", chunk.len()).as_bytes()).await.map_err(broken)?;
            }
            to.write_all(&chunk).await.map_err(broken)?;
            if length.is_none() {
                to.write_all(b"\r\n").await.map_err(broken)?;
            }
            bar.sent(&chunk);
        }
        if length.is_none() {
            to.write_all(b"0\r\n\r\n").await.map_err(broken)?;
        }
        Ok::<(), String>(())
    };
    let mut answer = Vec::new();
    let mut limited = (&mut from).take(ANSWER_BYTES_MAX);
    let download = limited.read_to_end(&mut answer);
    // A server that refuses the load answers before it has read the whole body.
    let (sent, received) = tokio::join!(upload, download);
    let text = String::from_utf8_lossy(&answer);
    match text.split_once("\r\n\r\n") {
        Some((_, body)) if !body.is_empty() => Ok(body.to_string()),
        _ => {
            sent?;
            received.map_err(broken)?;
            Err(format!("{server} closed the connection without an answer"))
        }
    }
}

/// Percent-encodes everything but letters, digits, `_`, `-` and `.`, as `%41`.
fn percent(name: &str) -> String {
    let keep = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    name.bytes().map(|b| if keep(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// Encodes bytes in base64 (RFC 4648).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0u32, |bits, b| bits << 8 | u32::from(*b)) << (8 * (3 - group.len()));
        for i in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * i)) as usize & 63];
            out.push(if i <= group.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_for_http() {
        for (plain, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("root:", "cm9vdDo=")] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        assert_eq!(percent("a b/ü"), "a%20b%2F%C3%BC");
    }
}
