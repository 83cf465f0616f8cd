//! `dipper-point`: look-ups by key over the MySQL protocol, from as lean a client as can be, checked answer by answer.

mod bare;
mod drive;
mod histogram;
mod mixed;
mod poll;
#[path = "../random.rs"]
#[allow(dead_code)] // the generators use the rest
mod random;
mod rows;
mod wire;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use drive::{Exactly, Outcome, Plan};
use mixed::{Upserts, Writer};
use rows::{Choice, Mode, Rows};
use wire::Connection;

/// Asks a MySQL server for rows of `row_part` by key; prints one line of JSON, ends with 1 if an answer was wrong.
#[derive(Parser)]
#[command(name = "dipper-point", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Look-ups only: as fast as the connections go, or at a fixed rate.
    Read(Reads),
    /// Look-ups at a fixed rate beside upserts; no answer may be stale or torn.
    Mixed {
        #[command(flatten)]
        reads: Reads,
        /// Address of the HTTP port.
        #[arg(long, default_value = "127.0.0.1:8030")]
        http: SocketAddr,
        /// How rows are written.
        #[arg(long, value_enum, default_value_t = Writer::StreamLoad)]
        writer: Writer,
        /// Rows written a second.
        #[arg(long, default_value_t = 20_000.0)]
        write_rate: f64,
        /// Rows of one load or statement.
        #[arg(long, default_value_t = 1000)]
        batch: usize,
        /// Connections that write.
        #[arg(long, default_value_t = 2)]
        writers: usize,
    },
    /// The ceiling: the same rows behind dipper's protocol layer and nothing else.
    Serve {
        /// Where to listen.
        #[arg(long, default_value = "127.0.0.1:9031")]
        address: SocketAddr,
        /// Rows of `row_part`.
        #[arg(long)]
        rows: PathBuf,
        /// Rows of sysbench's tables.
        #[arg(long, default_value_t = 1_000_000)]
        sbtest: u32,
        /// Threads.
        #[arg(long, default_value_t = 2)]
        threads: usize,
    },
    /// Opens connections and holds them until standard input ends.
    Idle {
        #[command(flatten)]
        server: Server,
        /// How many.
        #[arg(long, default_value_t = 10_000)]
        connections: usize,
        /// Each prepares the look-up in this table.
        #[arg(long)]
        prepare: Option<String>,
    },
}

#[derive(Args)]
struct Server {
    /// Address of the MySQL port.
    #[arg(long, default_value = "127.0.0.1:9030")]
    address: SocketAddr,
    /// A user without password.
    #[arg(long, default_value = "root")]
    user: String,
    /// Database.
    #[arg(long, default_value = "bench")]
    database: String,
}

#[derive(Args)]
struct Reads {
    #[command(flatten)]
    server: Server,
    /// Table that is asked.
    #[arg(long, default_value = "row_part")]
    table: String,
    /// Its rows, as `dipper-gen row-part` wrote them.
    #[arg(long)]
    rows: PathBuf,
    /// Ask for the keys of this CSV file only.
    #[arg(long)]
    key_file: Option<PathBuf>,
    /// Ask for this many rows, evenly spread over the file; all by default.
    #[arg(long, default_value_t = u64::MAX >> 32, conflicts_with = "key_file")]
    keys: u64,
    /// Prepared statements or text.
    #[arg(long, value_enum, default_value_t = Mode::Prepared)]
    mode: Mode,
    /// Connections, each with one question at a time.
    #[arg(long, default_value_t = 100)]
    connections: usize,
    /// Threads that serve them.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Seconds before.
    #[arg(long, default_value_t = 2.0)]
    warm_up: f64,
    /// Questions a second; latency counts from when a question was due. Without it as many as the connections carry.
    #[arg(long)]
    rate: Option<f64>,
    /// Changes the order of keys.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Reads {
    fn load(&self) -> io::Result<Rows> {
        let choice = match &self.key_file {
            Some(path) => Choice::Listed(rows::keys(path)?),
            None => Choice::Spread(self.keys),
        };
        Rows::load(&self.rows, &choice, self.mode)
    }

    fn plan(&self) -> Plan {
        Plan {
            address: self.server.address,
            user: self.server.user.clone(),
            database: self.server.database.clone(),
            table: self.table.clone(),
            connections: self.connections,
            threads: self.threads,
            warm_up: Duration::from_secs_f64(self.warm_up),
            duration: Duration::from_secs_f64(self.seconds),
            rate: self.rate,
            seed: self.seed,
        }
    }

    fn report(&self, outcome: &Outcome) -> String {
        outcome.reasons.iter().for_each(|reason| eprintln!("dipper-point: wrong answer: {reason}"));
        format!(
            "\"qps\": {:.1}, \"answers\": {}, \"wrong\": {}, \"backlog_max\": {}, {}",
            outcome.latencies.total() as f64 / self.seconds,
            outcome.latencies.total(),
            outcome.wrong,
            outcome.backlog_max,
            outcome.latencies.json()
        )
    }
}

/// Runs a command; false if an answer was wrong.
fn run(command: Command) -> io::Result<bool> {
    match command {
        Command::Read(reads) => {
            let rows = reads.load()?;
            let outcome = drive::run(&reads.plan(), &rows, &Exactly(&rows))?;
            println!("{{{}}}", reads.report(&outcome));
            Ok(outcome.wrong == 0)
        }
        Command::Mixed { reads, http, writer, write_rate, batch, writers } => {
            let rows = reads.load()?;
            let upserts = Upserts { writer, http, rate: write_rate, batch, writers: writers.max(1) };
            let (outcome, written) = mixed::run(&reads.plan(), &rows, &upserts)?;
            println!(
                "{{{}, \"writes\": {{\"rows\": {}, \"rows_per_second\": {:.0}, {}}}}}",
                reads.report(&outcome),
                written.rows,
                written.rows as f64 / written.seconds.max(1e-9),
                written.latencies.json()
            );
            Ok(outcome.wrong == 0)
        }
        Command::Serve { address, rows, sbtest, threads } => {
            bare::Bare::new(&rows, sbtest)?.serve(address, threads)?;
            Ok(true)
        }
        Command::Idle { server, connections, prepare } => {
            let mut open = Vec::with_capacity(connections);
            for _ in 0..connections {
                let mut connection = Connection::open(server.address, &server.user, &server.database)?;
                if let Some(table) = &prepare {
                    connection.prepare(&drive::lookup_sql(table))?;
                }
                open.push(connection);
            }
            println!("{{\"connections\": {}}}", open.len());
            io::stdout().flush()?;
            io::copy(&mut io::stdin(), &mut io::sink())?;
            Ok(true)
        }
    }
}

fn main() {
    match run(Arguments::parse().command) {
        Ok(true) => {}
        Ok(false) => std::process::exit(1),
        Err(error) => {
            eprintln!("dipper-point: {error}");
            std::process::exit(2);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Instant;

    use super::*;

    const FILE: &str = "5|blush chiffon|MFGR#1|MFGR#14|MFGR#1428|khaki|PROMO BRUSHED STEEL|17|MED BAG\n\
                        6|aqua mint|MFGR#2|MFGR#21|MFGR#211|lime|SMALL PLATED TIN|5|JUMBO BOX\n";

    fn plan(address: SocketAddr, rate: Option<f64>) -> Plan {
        Plan {
            address,
            user: "root".into(),
            database: "ssb_test".into(),
            table: "row_part".into(),
            connections: 5,
            threads: 2,
            warm_up: Duration::from_millis(20),
            duration: Duration::from_millis(200),
            rate,
            seed: 1,
        }
    }

    /// The client against the bare server: answers are right, and found to be wrong when another row was expected.
    #[test]
    fn answers_are_compared() {
        let [right, other] = [FILE.to_string(), FILE.replace("khaki", "plum ")].map(|text| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(&file, text).unwrap();
            file
        });
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let bare = bare::Bare::new(right.path(), 10).unwrap();
        std::thread::spawn(move || bare.serve(address, 2));
        let begun = Instant::now();
        while Connection::open(address, "root", "ssb_test").is_err() {
            assert!(begun.elapsed().as_secs() < 20, "the bare server does not listen");
        }
        for mode in [Mode::Prepared, Mode::Text] {
            let load = |file: &tempfile::NamedTempFile| Rows::load(file.path(), &Choice::Spread(9), mode).unwrap();
            let rows = load(&right);
            for rate in [None, Some(500.0)] {
                let outcome = drive::run(&plan(address, rate), &rows, &Exactly(&rows)).unwrap();
                assert_eq!((outcome.wrong, outcome.reasons), (0, vec![]));
                assert!(outcome.latencies.total() > 0);
                if rate.is_some() {
                    assert_eq!(outcome.latencies.total(), 100, "200 ms at 500 a second");
                }
            }
            let rows = load(&other);
            let outcome = drive::run(&plan(address, None), &rows, &Exactly(&rows)).unwrap();
            assert!(outcome.wrong > 0 && outcome.reasons[0].contains("plum "), "{:?}", outcome.reasons);
        }
    }
}
