//! Calls of a scan to its sources, and its errors when a source fails.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;
use crate::{ErrorKind, Memory};

/// How many sources are open now, and were at most.
#[derive(Debug, Default)]
struct Opened {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// Bytes that are only there between `ready` and `done`, as a file's.
#[derive(Debug)]
struct Watched {
    bytes: Vec<u8>,
    open: Mutex<bool>,
    all: Arc<Opened>,
}

impl Source for Watched {
    fn ready(&self) -> io::Result<()> {
        let mut open = self.open.lock().expect("no panic");
        if !std::mem::replace(&mut *open, true) {
            let now = self.all.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.all.most.fetch_max(now, Ordering::SeqCst);
        }
        Ok(())
    }

    fn done(&self) {
        if std::mem::take(&mut *self.open.lock().expect("no panic")) {
            self.all.now.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.ready()?;
        let rest = &self.bytes[offset as usize..];
        let n = rest.len().min(buf.len());
        buf[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }
}

#[test]
fn few_sources_are_open_at_a_time() {
    let text = "1,\"a\nb\"\n\n2,c\n".repeat(40).into_bytes();
    let mut encoder = crate::encoder(Compression::Gzip, Vec::new()).expect("memory");
    io::Write::write_all(&mut encoder, &text).expect("memory");
    let packed = encoder.finish().expect("memory");
    let none = Vec::new();
    let header = CsvDialect::default();
    let bare = CsvDialect { header: false, ..CsvDialect::default() };
    for (dialect, projection, bytes, compression) in [
        (&bare, vec![0, 1], &text, Compression::None),
        (&header, vec![0, 1], &text, Compression::None),
        (&bare, vec![], &text, Compression::None),
        (&bare, vec![0], &packed, Compression::Gzip),
        (&bare, vec![0], &none, Compression::None),
    ] {
        let mut options = csv(dialect.clone(), strings(2));
        options.projection = projection;
        options.block_bytes = 100;
        let all = Arc::new(Opened::default());
        let file = |_| FileInput {
            name: "f".into(),
            source: Arc::new(Watched { bytes: bytes.clone(), open: Mutex::default(), all: Arc::clone(&all) }),
            compression,
        };
        let rows = scan_all(&Scan::try_new(options).expect("valid"), (0..200).map(file).collect(), 3).expect("read");
        let per_file = if bytes.is_empty() { 0 } else { 80 - dialect.header as usize };
        assert_eq!(rows.len(), 200 * per_file);
        assert_eq!(all.now.load(Ordering::SeqCst), 0, "all are let go");
        assert!(all.most.load(Ordering::SeqCst) <= 4, "{all:?}");
    }
}

/// The line of a record is counted in its file, which may have been let go.
#[test]
fn lines_are_counted_in_files_that_were_let_go() {
    let mut text = "1,2\n".repeat(30).into_bytes();
    text.extend_from_slice(b"1\n");
    let all = Arc::new(Opened::default());
    let source = Arc::new(Watched { bytes: text, open: Mutex::default(), all: Arc::clone(&all) });
    let file = FileInput { name: "f".into(), source, compression: Compression::None };
    let options = csv(CsvDialect { header: false, ..CsvDialect::default() }, strings(2));
    let queue = ScanQueue::new(Scan::try_new(options).expect("valid"), vec![file]);
    let error = queue.worker().next_batch().expect_err("one field");
    assert_eq!((error.line, all.now.load(Ordering::SeqCst)), (Some(31), 0));
}

/// Fails from a place on, after the others have begun to wait.
#[derive(Debug)]
struct Failing {
    bytes: Vec<u8>,
    from: u64,
}

impl Source for Failing {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if (self.from..self.from + 1000).contains(&offset) {
            std::thread::sleep(Duration::from_millis(50));
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the disk is on fire"));
        }
        let rest = &self.bytes[offset as usize..];
        let n = rest.len().min(buf.len());
        buf[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }
}

#[test]
fn workers_that_wait_say_what_happened() {
    let bytes = "1,\"a\nb\"\n".repeat(2000).into_bytes();
    for projection in [vec![], vec![1]] {
        let mut options = csv(CsvDialect { header: false, ..CsvDialect::default() }, strings(2));
        options.projection = projection;
        options.block_bytes = 1000;
        let source = Arc::new(Failing { bytes: bytes.clone(), from: 4900 });
        let file = FileInput { name: "f".into(), source, compression: Compression::None };
        let queue = ScanQueue::new(Scan::try_new(options).expect("valid"), vec![file]);
        let drain = || {
            let mut worker = queue.worker();
            loop {
                match worker.next_batch() {
                    Ok(Some(_)) => {}
                    Ok(None) => return None,
                    Err(e) => return Some(e),
                }
            }
        };
        let errors: Vec<_> = std::thread::scope(|s| {
            let workers: Vec<_> = (0..4).map(|_| s.spawn(drain)).collect();
            workers.into_iter().filter_map(|w| w.join().expect("no panic")).collect()
        });
        assert!(errors.len() > 1, "the others cannot go on");
        for error in errors {
            assert_eq!((error.kind, error.to_string().as_str()), (ErrorKind::Io, "f: the disk is on fire"));
            assert_eq!(error.source.map(|e| e.kind()), Some(io::ErrorKind::PermissionDenied));
        }
    }
}

/// Has nothing to give.
#[derive(Debug)]
struct Spent;

impl Memory for Spent {
    fn grow(&self, _: usize) -> Result<(), String> {
        Err("nothing is left".into())
    }

    fn shrink(&self, _: usize) {}
}

/// Only buffers for long records are asked for.
#[test]
fn what_is_counted_at_once_is_no_long_record() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), "1,\"a\nb\"\n".repeat(4000)).expect("written");
    let mut options = csv(CsvDialect { header: false, ..CsvDialect::default() }, strings(2));
    options.projection = vec![];
    options.block_bytes = 1000;
    options.memory = Some(Arc::new(Spent));
    let source = Arc::new(FileSource::later(file.path()));
    let input = FileInput { name: "f".into(), source, compression: Compression::None };
    let rows = scan_all(&Scan::try_new(options).expect("valid"), vec![input], 2).expect("counted");
    assert_eq!(rows.len(), 4000);
}
