//! `lake-proxy`: an object store seen through a slow network. Stands between a client and an S3 server, lets each answer
//! wait for its first byte, and lets bytes through at the rate of one connection and of a link that all share. Counts
//! requests and bytes, and the CPU that it takes itself.
//!
//! HTTP/1.1 with bodies by `Content-Length` or chunked. Control port: `GET /stats` answers JSON, `POST /reset` sets the
//! counters to 0, `POST /fast` and `POST /slow` turn the delays off and on (for loading data).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::Parser;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Bytes that are passed on at a time: about a millisecond of one connection.
const PIECE: usize = 64 << 10;
/// Bytes of a head at most.
const HEAD_MAX: usize = 64 << 10;
/// Time that a sleep may have taken too long, and that is given back: a busy machine must not slow the link.
const BURST: Duration = Duration::from_millis(10);
/// Sleeps shorter than that are saved up: timers are no finer.
const SLEEP_MIN: Duration = Duration::from_millis(1);

/// Delays and counts requests to an S3 server.
#[derive(Parser)]
#[command(name = "lake-proxy", version)]
struct Args {
    /// Where clients connect.
    #[arg(long, default_value = "127.0.0.1:7171")]
    listen: SocketAddr,
    /// Where counters are asked for.
    #[arg(long, default_value = "127.0.0.1:7172")]
    control: SocketAddr,
    /// The server.
    #[arg(long, default_value = "127.0.0.1:7070")]
    to: SocketAddr,
    /// Milliseconds to the first byte of an answer, at least.
    #[arg(long, default_value_t = 30)]
    first_byte_min_ms: u64,
    /// At most; all between are as likely.
    #[arg(long, default_value_t = 100)]
    first_byte_max_ms: u64,
    /// Bytes a second of one connection.
    #[arg(long, default_value_t = 60_000_000)]
    connection_rate: u64,
    /// Bytes a second of all connections.
    #[arg(long, default_value_t = 300_000_000)]
    link_rate: u64,
}

/// When the next byte may go.
#[derive(Debug)]
struct Bucket {
    rate: u64,
    free: Instant,
}

impl Bucket {
    fn new(rate: u64) -> Self {
        Bucket { rate: rate.max(1), free: Instant::now() }
    }

    /// Books so many bytes; they may go at the returned time.
    fn book(&mut self, bytes: usize) -> Instant {
        let at = self.free.max(Instant::now() - BURST);
        self.free = at + Duration::from_nanos(bytes as u64 * 1_000_000_000 / self.rate);
        self.free
    }
}

struct Proxy {
    args: Args,
    link: Mutex<Bucket>,
    slow: AtomicBool,
    random: AtomicU64,
    gets: AtomicU64,
    /// Listings, which are GETs too, but of no object.
    lists: AtomicU64,
    puts: AtomicU64,
    others: AtomicU64,
    bytes_down: AtomicU64,
    bytes_up: AtomicU64,
}

impl Proxy {
    fn delay(&self) -> Duration {
        // SplitMix64: each call its own number.
        let mut z = self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        let (min, max) = (self.args.first_byte_min_ms * 1000, self.args.first_byte_max_ms * 1000);
        Duration::from_micros(min + z % (max.saturating_sub(min) + 1))
    }

    fn reset(&self) {
        for counter in [&self.gets, &self.lists, &self.puts, &self.others, &self.bytes_down, &self.bytes_up] {
            counter.store(0, Relaxed);
        }
    }

    fn stats(&self) -> String {
        format!(
            "{{\"gets\": {}, \"lists\": {}, \"puts\": {}, \"others\": {}, \"bytes_down\": {}, \"bytes_up\": {}, \"cpu_seconds\": {:.3}}}",
            self.gets.load(Relaxed),
            self.lists.load(Relaxed),
            self.puts.load(Relaxed),
            self.others.load(Relaxed),
            self.bytes_down.load(Relaxed),
            self.bytes_up.load(Relaxed),
            cpu_seconds(),
        )
    }
}

/// CPU seconds of this process; 0 where /proc is not there.
fn cpu_seconds() -> f64 {
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return 0.0 };
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    // utime and stime, in ticks of 10 ms.
    fields.skip(11).take(2).filter_map(|f| f.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// One direction of a connection, with what was read beyond the last head.
struct Half {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A request's or an answer's head, and how long its body is.
struct Head {
    bytes: Vec<u8>,
    first_line: String,
    length: Option<u64>,
    chunked: bool,
    close: bool,
    expects: bool,
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl Half {
    async fn more(&mut self) -> io::Result<usize> {
        self.buffer.reserve(PIECE);
        self.stream.read_buf(&mut self.buffer).await
    }

    /// The next head; `None` if the other side has ended.
    async fn head(&mut self) -> io::Result<Option<Head>> {
        let end = loop {
            if let Some(at) = self.buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            if self.buffer.len() > HEAD_MAX {
                return Err(bad("a head that is too long"));
            }
            if self.more().await? == 0 {
                return if self.buffer.is_empty() { Ok(None) } else { Err(bad("half a head")) };
            }
        };
        let bytes: Vec<u8> = self.buffer.drain(..end).collect();
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.split("\r\n");
        let first_line = lines.next().unwrap_or_default().to_string();
        let (mut length, mut chunked, mut close, mut expects) = (None, false, false, false);
        for line in lines {
            let Some((name, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = Some(value.parse().map_err(|_| bad("a length that is no number"))?),
                "transfer-encoding" => chunked = value.eq_ignore_ascii_case("chunked"),
                "connection" => close = value.eq_ignore_ascii_case("close"),
                "expect" => expects = true,
                _ => {}
            }
        }
        Ok(Some(Head { first_line, length, chunked, close, expects, bytes }))
    }
}

/// How bytes of a direction are let through.
struct Gate<'a> {
    proxy: &'a Proxy,
    own: Option<&'a mut Bucket>,
    counter: &'a AtomicU64,
}

impl Gate<'_> {
    async fn pass(&mut self, bytes: &[u8], to: &mut TcpStream) -> io::Result<()> {
        self.counter.fetch_add(bytes.len() as u64, Relaxed);
        if self.proxy.slow.load(Relaxed)
            && let Some(own) = &mut self.own
        {
            let at = own.book(bytes.len()).max(self.proxy.link.lock().expect("no panic holds it").book(bytes.len()));
            if at.saturating_duration_since(Instant::now()) > SLEEP_MIN {
                tokio::time::sleep_until(at.into()).await;
            }
        }
        to.write_all(bytes).await
    }

    async fn exactly(&mut self, mut left: u64, from: &mut Half, to: &mut TcpStream) -> io::Result<()> {
        while left > 0 {
            if from.buffer.is_empty() && from.more().await? == 0 {
                return Err(bad("a body that ends early"));
            }
            let n = from.buffer.len().min(PIECE).min(left as usize);
            self.pass(&from.buffer[..n], to).await?;
            from.buffer.drain(..n);
            left -= n as u64;
        }
        Ok(())
    }

    async fn chunks(&mut self, from: &mut Half, to: &mut TcpStream) -> io::Result<()> {
        loop {
            let end = loop {
                if let Some(at) = from.buffer.windows(2).position(|w| w == b"\r\n") {
                    break at + 2;
                }
                if from.more().await? == 0 {
                    return Err(bad("a body that ends early"));
                }
            };
            let line = String::from_utf8_lossy(&from.buffer[..end]).into_owned();
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(size, 16).map_err(|_| bad("a chunk without a size"))?;
            // The line, the chunk, and the end of its line; trailers are not sent by S3 servers.
            self.exactly(end as u64 + size + 2, from, to).await?;
            if size == 0 {
                return Ok(());
            }
        }
    }
}

async fn connection(proxy: Arc<Proxy>, client: TcpStream) -> io::Result<()> {
    client.set_nodelay(true)?;
    let server = TcpStream::connect(proxy.args.to).await?;
    server.set_nodelay(true)?;
    let mut client = Half { stream: client, buffer: Vec::new() };
    let mut server = Half { stream: server, buffer: Vec::new() };
    let mut own = Bucket::new(proxy.args.connection_rate);
    while let Some(request) = client.head().await? {
        let began = Instant::now();
        let method = request.first_line.split(' ').next().unwrap_or_default().to_string();
        let counter = match method.as_str() {
            "GET" if request.first_line.contains("list-type=") => &proxy.lists,
            "GET" => &proxy.gets,
            "PUT" | "POST" => &proxy.puts,
            _ => &proxy.others,
        };
        counter.fetch_add(1, Relaxed);
        server.stream.write_all(&request.bytes).await?;
        if request.expects {
            let go_on = server.head().await?.ok_or_else(|| bad("no answer"))?;
            client.stream.write_all(&go_on.bytes).await?;
        }
        let mut up = Gate { proxy: &proxy, own: None, counter: &proxy.bytes_up };
        match (request.chunked, request.length) {
            (true, _) => up.chunks(&mut client, &mut server.stream).await?,
            (false, length) => up.exactly(length.unwrap_or(0), &mut client, &mut server.stream).await?,
        }
        let answer = server.head().await?.ok_or_else(|| bad("no answer"))?;
        if proxy.slow.load(Relaxed) {
            tokio::time::sleep_until((began + proxy.delay()).into()).await;
        }
        client.stream.write_all(&answer.bytes).await?;
        let status = answer.first_line.split(' ').nth(1).unwrap_or_default();
        let mut down = Gate { proxy: &proxy, own: Some(&mut own), counter: &proxy.bytes_down };
        match (method == "HEAD" || status == "204" || status == "304", answer.chunked) {
            (true, _) => {}
            (false, true) => down.chunks(&mut server, &mut client.stream).await?,
            (false, false) => down.exactly(answer.length.unwrap_or(0), &mut server, &mut client.stream).await?,
        }
        if request.close || answer.close {
            break;
        }
    }
    client.stream.shutdown().await
}

async fn control(proxy: Arc<Proxy>, stream: TcpStream) -> io::Result<()> {
    let mut half = Half { stream, buffer: Vec::new() };
    while let Some(request) = half.head().await? {
        let mut words = request.first_line.split(' ');
        let (status, body) = match (words.next(), words.next()) {
            (Some("GET"), Some("/stats")) => ("200 OK", proxy.stats()),
            (Some("POST"), Some("/reset")) => {
                proxy.reset();
                ("200 OK", proxy.stats())
            }
            (Some("POST"), Some(to @ ("/fast" | "/slow"))) => {
                proxy.slow.store(to == "/slow", Relaxed);
                ("200 OK", proxy.stats())
            }
            _ => ("404 Not Found", "expected GET /stats, POST /reset, POST /fast or POST /slow".to_string()),
        };
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        half.stream.write_all(answer.as_bytes()).await?;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let args = Args::parse();
    let (clients, controls) = (TcpListener::bind(args.listen).await?, TcpListener::bind(args.control).await?);
    let proxy = Arc::new(Proxy {
        link: Mutex::new(Bucket::new(args.link_rate)),
        slow: AtomicBool::new(true),
        random: AtomicU64::new(1),
        gets: AtomicU64::new(0),
        lists: AtomicU64::new(0),
        puts: AtomicU64::new(0),
        others: AtomicU64::new(0),
        bytes_down: AtomicU64::new(0),
        bytes_up: AtomicU64::new(0),
        args,
    });
    println!("ready");
    loop {
        let proxy = Arc::clone(&proxy);
        let (stream, is_client) = tokio::select! {
            accepted = clients.accept() => (accepted?.0, true),
            accepted = controls.accept() => (accepted?.0, false),
        };
        tokio::spawn(async move {
            // A client that goes away, or a server that does: the other side sees its connection end.
            let ended = match is_client {
                true => connection(proxy, stream).await,
                false => control(proxy, stream).await,
            };
            if let Err(e) = ended
                && !matches!(e.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
            {
                eprintln!("lake-proxy: {e}");
            }
        });
    }
}
