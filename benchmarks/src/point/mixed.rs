//! Upserts beside look-ups. Each row has one writer, each of its versions shows in every column, and readers know which
//! version was acknowledged before they asked: an older one is stale, columns of two versions are torn.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::drive::{self, Expect, Outcome, Plan};
use crate::histogram::Histogram;
use crate::random::Random;
use crate::rows::{self, COLUMNS, Mode, Rows, SIZE};
use crate::wire::{self, Connection, failed};

/// `p_size` of version 0 is at most 50; that of version v is this and v.
const SIZE_BASE: u32 = 1000;

/// Batches are made for this much longer than is measured: connections are opened before, and last answers come behind.
const SPARE: Duration = Duration::from_secs(10);

/// How rows are written.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Writer {
    /// PUT to the HTTP port.
    StreamLoad,
    /// A prepared INSERT of a batch's rows.
    Insert,
}

/// The writing half of the load.
pub struct Upserts {
    pub writer: Writer,
    pub http: SocketAddr,
    /// Rows a second over all writers.
    pub rate: f64,
    /// Rows of one statement or load.
    pub batch: usize,
    pub writers: usize,
}

/// Versions of the rows: the last one sent, and the last one acknowledged.
pub struct Versions<'a> {
    rows: &'a Rows,
    sent: Vec<AtomicU32>,
    acknowledged: Vec<AtomicU32>,
}

/// What stands before the version in the columns behind the keys.
const TAGS: [&str; COLUMNS - 2] = ["maker ", "category ", "brand ", "colour ", "type ", "", "container "];

/// The fields of a version of a row.
fn fields((key, name): (u32, &[u8]), version: u32) -> [Vec<u8>; COLUMNS] {
    std::array::from_fn(|at| match at {
        0 => key.to_string().into_bytes(),
        1 => name.to_vec(),
        SIZE => (SIZE_BASE + version).to_string().into_bytes(),
        _ => format!("{}{version}", TAGS[at - 2]).into_bytes(),
    })
}

impl<'a> Versions<'a> {
    pub fn new(rows: &'a Rows) -> Self {
        let zeros = || (0..rows.len()).map(|_| AtomicU32::new(0)).collect();
        Versions { rows, sent: zeros(), acknowledged: zeros() }
    }

    /// The version of an answer; why there is none.
    fn version(&self, row: usize, answer: &[u8]) -> Result<u32, String> {
        let first = self.rows.answer(row);
        if answer == first {
            return Ok(0);
        }
        let show = || String::from_utf8_lossy(answer).into_owned();
        let keys = &first[..self.rows.key_bytes(row).end];
        let rest = answer.strip_prefix(keys).ok_or_else(|| format!("another row: {:?}", show()))?;
        let maker = wire::take_text(&mut &rest[..]).and_then(|text| std::str::from_utf8(text).ok());
        let version = maker.and_then(|text| text.strip_prefix(TAGS[0])?.parse::<u32>().ok());
        let mut whole = Vec::with_capacity(answer.len());
        if let Some(version) = version {
            let fields = fields(self.rows.keys(row), version);
            rows::encode(self.rows.mode(), &std::array::from_fn(|at| &fields[at][..]), &mut whole)
                .map_err(|e| e.to_string())?;
        }
        match version {
            Some(version) if whole == answer => Ok(version),
            _ => Err(format!("torn row: {:?}", show())),
        }
    }
}

impl Expect for Versions<'_> {
    fn sent(&self, row: usize) -> u32 {
        self.acknowledged[row].load(Ordering::SeqCst)
    }

    fn check(&self, row: usize, at_send: u32, answer: &[u8]) -> Result<(), String> {
        let newest = self.sent[row].load(Ordering::SeqCst);
        let version = self.version(row, answer)?;
        if (at_send..=newest).contains(&version) {
            return Ok(());
        }
        let key = self.rows.keys(row).0;
        Err(format!(
            "key {key}: version {version}, while {at_send} was acknowledged before the question and {newest} sent"
        ))
    }
}

/// What the writers did.
#[derive(Default)]
pub struct Written {
    pub rows: u64,
    pub latencies: Histogram,
    pub seconds: f64,
}

/// One writer's way to the server.
enum Target {
    Http { stream: TcpStream, path: String },
    Sql { connection: Connection, statement: u32 },
}

impl Target {
    fn open(plan: &Plan, upserts: &Upserts) -> io::Result<Self> {
        Ok(match upserts.writer {
            Writer::StreamLoad => {
                let stream = TcpStream::connect(upserts.http)?;
                stream.set_nodelay(true)?;
                Target::Http { stream, path: format!("/api/{}/{}/_stream_load", plan.database, plan.table) }
            }
            Writer::Insert => {
                let mut connection = Connection::open(plan.address, &plan.user, &plan.database)?;
                let values = vec!["(?,?,?,?,?,?,?,?,?)"; upserts.batch].join(",");
                let statement = connection.prepare(&format!("INSERT INTO {} VALUES {values}", plan.table))?;
                Target::Sql { connection, statement }
            }
        })
    }

    /// What writes a batch of rows, `first` of all.
    fn request(&self, rows: &[[Vec<u8>; COLUMNS]], first: bool) -> io::Result<Vec<u8>> {
        match self {
            Target::Http { path, .. } => {
                let body: Vec<u8> = rows.iter().flat_map(|row| [row.join(&b'|'), vec![b'\n']].concat()).collect();
                let mut request = format!(
                    "PUT {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic cm9vdDo=\r\ncolumn_separator: |\r\nformat: csv\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                )
                .into_bytes();
                request.extend_from_slice(&body);
                Ok(request)
            }
            Target::Sql { statement, .. } => {
                let types: Vec<u16> = (0..rows.len() * COLUMNS)
                    .map(|at| if [0, SIZE].contains(&(at % COLUMNS)) { wire::TYPE_LONG } else { wire::TYPE_VAR_STRING })
                    .collect();
                let mut values = Vec::new();
                let mut one = Vec::new();
                for row in rows {
                    one.clear();
                    rows::encode(Mode::Prepared, &std::array::from_fn(|at| &row[at][..]), &mut one)?;
                    values.extend_from_slice(&one[1 + (COLUMNS + 9) / 8..]);
                }
                let mut command = Vec::new();
                wire::execute(&mut command, *statement, types.len(), first.then_some(&types[..]), &values);
                Ok(command)
            }
        }
    }

    /// Sends a request and waits until it is acknowledged.
    fn write(&mut self, request: &[u8]) -> io::Result<()> {
        match self {
            Target::Http { stream, .. } => {
                stream.write_all(request)?;
                let answer = http_answer(stream)?;
                match answer.contains("\"Status\": \"Success\"") || answer.contains("\"Status\":\"Success\"") {
                    true => Ok(()),
                    false => Err(failed(format!("Stream Load: {answer}"))),
                }
            }
            Target::Sql { connection, .. } => connection.ask(request, |_| ()),
        }
    }
}

/// Reads one HTTP answer; its body.
fn http_answer(stream: &mut TcpStream) -> io::Result<String> {
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Err(failed("the server has closed a connection of Stream Load"));
        }
        answer.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&answer);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .and_then(|(_, value)| value.trim().parse::<usize>().ok())
            .ok_or_else(|| failed(format!("an HTTP answer without length: {head}")))?;
        if body.len() >= length {
            return Ok(body.to_string());
        }
    }
}

/// Rows that are written at once.
struct Batch {
    rows: Vec<usize>,
    request: Vec<u8>,
}

/// A connection, and all that it will write: made before anything is measured, since those who write stand for clients on
/// other machines, and their work is no part of what is measured.
struct Upserter {
    target: Target,
    batches: Vec<Batch>,
    /// When the first is due, and the distance of those behind it.
    offset: Duration,
    step: Duration,
}

impl Upserter {
    fn new(plan: &Plan, upserts: &Upserts, rows: &Rows, share: usize) -> io::Result<Self> {
        let own = rows.len().saturating_sub(share).div_ceil(upserts.writers);
        if own < upserts.batch {
            return Err(failed(format!("{own} rows are too few for a writer with batches of {}", upserts.batch)));
        }
        let target = Target::open(plan, upserts)?;
        let step = Duration::from_secs_f64(upserts.batch as f64 * upserts.writers as f64 / upserts.rate);
        let count = (plan.warm_up + plan.duration + SPARE).div_duration_f64(step).ceil() as usize + 1;
        let mut random = Random::new(plan.seed ^ 0x5eed, share as u64);
        let mut versions = vec![0; own];
        let mut batch = |first| {
            // A run of neighbours in a random place would be sorted already: every row is drawn by itself, each once.
            let mut seen = HashSet::new();
            let drawn: Vec<usize> = std::iter::repeat_with(|| random.below(own as u64) as usize)
                .filter(|&at| seen.insert(at))
                .take(upserts.batch)
                .collect();
            let lines: Vec<_> = drawn
                .iter()
                .map(|&at| {
                    versions[at] += 1;
                    fields(rows.keys(share + at * upserts.writers), versions[at])
                })
                .collect();
            let request = target.request(&lines, first)?;
            Ok(Batch { rows: drawn.iter().map(|at| share + at * upserts.writers).collect(), request })
        };
        let batches = (0..count).map(|at| batch(at == 0)).collect::<io::Result<_>>()?;
        Ok(Upserter { target, batches, offset: step.mul_f64(share as f64 / upserts.writers as f64), step })
    }

    /// Writes batches when they are due, until told to stop.
    fn run(mut self, versions: &Versions<'_>, stop: &AtomicBool) -> io::Result<Written> {
        let start = Instant::now();
        let mut due = start + self.offset;
        let mut written = Written::default();
        for Batch { rows, request } in &self.batches {
            while Instant::now() < due && !stop.load(Ordering::Relaxed) {
                thread::sleep(due.saturating_duration_since(Instant::now()).min(Duration::from_millis(100)));
            }
            if stop.load(Ordering::Relaxed) {
                written.seconds = start.elapsed().as_secs_f64();
                return Ok(written);
            }
            for &row in rows {
                versions.sent[row].fetch_add(1, Ordering::SeqCst);
            }
            self.target.write(request)?;
            for &row in rows {
                versions.acknowledged[row].fetch_add(1, Ordering::SeqCst);
            }
            written.rows += rows.len() as u64;
            written.latencies.add(due.elapsed().as_nanos() as u64);
            due += self.step;
        }
        Err(failed(format!("{} batches were too few: look-ups went on behind them", self.batches.len())))
    }
}

/// Runs reads and upserts side by side, then reads all rows that were written once more: by key, and by a scan.
pub fn run(plan: &Plan, rows: &Rows, upserts: &Upserts) -> io::Result<(Outcome, Written)> {
    let versions = Versions::new(rows);
    let stop = AtomicBool::new(false);
    let upserters: Vec<_> =
        (0..upserts.writers).map(|share| Upserter::new(plan, upserts, rows, share)).collect::<io::Result<_>>()?;
    let (mut outcome, written) = thread::scope(|scope| {
        let (versions, stop) = (&versions, &stop);
        let writing: Vec<_> =
            upserters.into_iter().map(|upserter| scope.spawn(move || upserter.run(versions, stop))).collect();
        let outcome = drive::run(plan, rows, versions);
        stop.store(true, Ordering::Relaxed);
        let mut written = Written::default();
        for thread in writing {
            let one = thread.join().map_err(|_| failed("a writer panicked"))??;
            written.rows += one.rows;
            written.latencies.merge(&one.latencies);
            written.seconds = written.seconds.max(one.seconds);
        }
        Ok::<_, io::Error>((outcome?, written))
    })?;
    verify(plan, &versions, &mut outcome)?;
    Ok((outcome, written))
}

/// Nothing is being written any more: every row has its last version, by key and in the columns.
fn verify(plan: &Plan, versions: &Versions<'_>, outcome: &mut Outcome) -> io::Result<()> {
    let rows = versions.rows;
    let mut connection = Connection::open(plan.address, &plan.user, &plan.database)?;
    let touched: Vec<usize> = (0..rows.len()).filter(|&row| versions.sent(row) > 0).collect();
    let mut expected = HashMap::new();
    let mut command = Vec::new();
    let statement = connection.prepare(&drive::lookup_sql(&plan.table))?;
    for (at, &row) in touched.iter().enumerate() {
        let version = versions.sent(row);
        expected.insert(rows.keys(row).0, version);
        command.clear();
        match rows.mode() {
            Mode::Prepared => {
                let mut values = Vec::new();
                rows.put_values(row, &mut values);
                let types = [wire::TYPE_LONG, wire::TYPE_VAR_STRING];
                wire::execute(&mut command, statement, 2, (at == 0).then_some(&types[..]), &values);
            }
            Mode::Text => {
                let mut sql = format!("SELECT * FROM {} WHERE ", plan.table).into_bytes();
                rows.put_condition(row, &mut sql);
                wire::query(&mut command, &sql);
            }
        }
        let mut found = Vec::new();
        connection.ask(&command, |answer| found.push(versions.version(row, answer)))?;
        if found != [Ok(version)] {
            outcome.count_wrong(format!("at the end: version {version} was written, found {found:?}"));
        }
    }
    command.clear();
    wire::query(
        &mut command,
        format!("SELECT p_partkey, p_size FROM {} WHERE p_size > {SIZE_BASE}", plan.table).as_bytes(),
    );
    connection.ask(&command, |row| {
        let mut rest = row;
        let mut number = || std::str::from_utf8(wire::take_text(&mut rest)?).ok()?.parse::<u32>().ok();
        let (key, size) = (number(), number());
        let version = key.and_then(|key| expected.remove(&key));
        if version.is_none() || version.map(|v| v + SIZE_BASE) != size {
            outcome.count_wrong(format!("by scan: key {key:?} has size {size:?}, version {version:?} was written"));
        }
    })?;
    if !expected.is_empty() {
        outcome.count_wrong(format!("by scan: {} rows that were written are missing", expected.len()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Choice;

    #[test]
    fn stale_and_torn_rows_are_found() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "5|blush chiffon|a|b|c|d|e|17|f\n").unwrap();
        for mode in [Mode::Prepared, Mode::Text] {
            let rows = Rows::load(file.path(), &Choice::Spread(1), mode).unwrap();
            let versions = Versions::new(&rows);
            let answer = |fields: &[Vec<u8>; COLUMNS]| {
                let mut out = Vec::new();
                rows::encode(mode, &std::array::from_fn(|at| &fields[at][..]), &mut out).unwrap();
                out
            };
            let of = |version| answer(&fields(rows.keys(0), version));
            assert_eq!(versions.check(0, 0, rows.answer(0)), Ok(()));
            assert!(versions.check(0, 0, &of(1)).unwrap_err().contains("version 1"), "from the future");
            versions.sent[0].store(2, Ordering::SeqCst);
            assert_eq!(versions.check(0, 1, &of(2)), Ok(()));
            assert_eq!(versions.check(0, 1, &of(1)), Ok(()));
            assert!(versions.check(0, 1, rows.answer(0)).unwrap_err().contains("version 0"), "stale");
            assert!(versions.check(0, 2, &of(1)).unwrap_err().contains("version 1"), "stale");
            for at in 2..COLUMNS {
                let mut torn = fields(rows.keys(0), 2);
                torn[at] = fields(rows.keys(0), 1)[at].clone();
                assert!(versions.check(0, 0, &answer(&torn)).unwrap_err().contains("torn"), "{at}");
            }
        }
    }
}
