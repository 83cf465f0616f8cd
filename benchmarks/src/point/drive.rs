//! Connections on few threads: each connection has one question open at a time.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::histogram::Histogram;
use crate::poll::Poll;
use crate::random::Random;
use crate::rows::{Mode, Rows};
use crate::wire::{self, Connection, failed};

/// An answer may take this long before the run fails.
const ANSWER_SECONDS: u64 = 30;
/// Wrong answers that are shown.
const SHOWN_MAX: usize = 3;

/// What is run.
#[derive(Clone)]
pub struct Plan {
    pub address: SocketAddr,
    pub user: String,
    pub database: String,
    pub table: String,
    pub connections: usize,
    pub threads: usize,
    pub warm_up: Duration,
    pub duration: Duration,
    /// Questions a second over all connections, sent at equal distances; without it each connection asks as soon as it
    /// is answered.
    pub rate: Option<f64>,
    pub seed: u64,
}

/// What an answer has to be.
pub trait Expect: Sync {
    /// Called when a question is sent; what it returns is given back with the answer.
    fn sent(&self, row: usize) -> u32;

    /// Checks the row that was answered; the reason why it is wrong.
    fn check(&self, row: usize, at_send: u32, answer: &[u8]) -> Result<(), String>;
}

/// The rows never change.
pub struct Exactly<'a>(pub &'a Rows);

impl Expect for Exactly<'_> {
    fn sent(&self, _: usize) -> u32 {
        0
    }

    fn check(&self, row: usize, _: u32, answer: &[u8]) -> Result<(), String> {
        if answer == self.0.answer(row) {
            return Ok(());
        }
        let show = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Err(format!("expected {:?}, found {:?}", show(self.0.answer(row)), show(answer)))
    }
}

/// What came out.
#[derive(Default)]
pub struct Outcome {
    pub latencies: Histogram,
    /// Answers that were not the row asked for, with the first reasons.
    pub wrong: u64,
    pub reasons: Vec<String>,
    /// Most questions that waited for a connection (open loop).
    pub backlog_max: usize,
}

impl Outcome {
    pub fn merge(&mut self, other: Outcome) {
        self.latencies.merge(&other.latencies);
        self.wrong += other.wrong;
        self.reasons.extend(other.reasons);
        self.reasons.truncate(SHOWN_MAX);
        self.backlog_max = self.backlog_max.max(other.backlog_max);
    }

    pub fn count_wrong(&mut self, reason: String) {
        self.wrong += 1;
        if self.reasons.len() < SHOWN_MAX {
            self.reasons.push(reason);
        }
    }
}

/// The statement that looks one row up.
pub fn lookup_sql(table: &str) -> String {
    format!("SELECT * FROM {table} WHERE p_partkey = ? AND p_name = ?")
}

/// One connection and its open question.
struct Asker {
    connection: Connection,
    statement: u32,
    executed: bool,
    row: usize,
    at_send: u32,
    /// When the question was due.
    due: Instant,
    /// Rows of the answer so far.
    rows: u32,
}

struct Worker<'a, E> {
    plan: &'a Plan,
    rows: &'a Rows,
    expect: &'a E,
    askers: Vec<Asker>,
    random: Random,
    request: Vec<u8>,
    outcome: Outcome,
    measure_from: Instant,
}

impl<E: Expect> Worker<'_, E> {
    fn send(&mut self, at: usize, due: Instant) -> io::Result<()> {
        let asker = &mut self.askers[at];
        asker.row = self.random.below(self.rows.len() as u64) as usize;
        asker.due = due;
        asker.rows = 0;
        self.request.clear();
        match self.rows.mode() {
            Mode::Prepared => {
                let types = [wire::TYPE_LONG, wire::TYPE_VAR_STRING];
                let types = (!std::mem::replace(&mut asker.executed, true)).then_some(&types[..]);
                let start = self.request.len();
                wire::execute(&mut self.request, asker.statement, 2, types, &[]);
                self.rows.put_values(asker.row, &mut self.request);
                let length = (self.request.len() - start - 4) as u32;
                self.request[start..start + 3].copy_from_slice(&length.to_le_bytes()[..3]);
            }
            Mode::Text => wire::packet(&mut self.request, |out| {
                out.push(3);
                out.extend_from_slice(b"SELECT * FROM ");
                out.extend_from_slice(self.plan.table.as_bytes());
                out.extend_from_slice(b" WHERE ");
                self.rows.put_condition(asker.row, out);
            }),
        }
        asker.at_send = self.expect.sent(asker.row);
        let sent = io::Write::write(&mut asker.connection.stream, &self.request)?;
        match sent == self.request.len() {
            true => Ok(()),
            false => Err(failed("the socket takes no more although its last question was answered")),
        }
    }

    /// Reads what came; true when the answer is whole.
    fn receive(&mut self, at: usize, buffer: &mut [u8]) -> io::Result<bool> {
        let Asker { connection, row, at_send, rows, .. } = &mut self.askers[at];
        let (expect, outcome) = (self.expect, &mut self.outcome);
        let ended = connection.read(buffer, |payload| {
            *rows += 1;
            if let Err(reason) = expect.check(*row, *at_send, payload) {
                outcome.count_wrong(reason);
            }
        })?;
        if ended && *rows != 1 {
            outcome.count_wrong(format!("{rows} rows for key {}", self.rows.keys(*row).0));
        }
        Ok(ended)
    }

    fn run(mut self, start: Instant, share: usize, shares: usize) -> io::Result<Outcome> {
        let mut poll = Poll::new(256)?;
        for (at, asker) in self.askers.iter().enumerate() {
            asker.connection.stream.set_nonblocking(true)?;
            poll.add(&asker.connection.stream, at as u64)?;
        }
        thread::sleep(start.saturating_duration_since(Instant::now()));
        let end = self.measure_from + self.plan.duration;
        let step = self.plan.rate.map(|rate| Duration::from_secs_f64(shares as f64 / rate));
        // Threads take turns in the one row of questions.
        let mut next_due = start + step.unwrap_or_default().mul_f64(share as f64 / shares as f64);
        // The one that was answered longest ago asks next: all connections take part, as those of many clients do.
        let mut idle: VecDeque<usize> = VecDeque::new();
        let mut waiting: VecDeque<Instant> = VecDeque::new();
        match step {
            Some(_) => idle.extend(0..self.askers.len()),
            None => (0..self.askers.len()).try_for_each(|at| self.send(at, Instant::now()))?,
        }
        let mut open = self.askers.len() - idle.len();
        let mut buffer = vec![0; 64 << 10];
        let mut ready = Vec::new();
        let mut heard = Instant::now();
        loop {
            let mut now = Instant::now();
            if let Some(step) = step {
                while next_due <= now && next_due < end {
                    waiting.push_back(next_due);
                    next_due += step;
                }
                self.outcome.backlog_max = self.outcome.backlog_max.max(waiting.len());
                while let (Some(&at), Some(&due)) = (idle.front(), waiting.front()) {
                    self.send(at, due)?;
                    open += 1;
                    idle.pop_front();
                    waiting.pop_front();
                }
            }
            if open == 0 && waiting.is_empty() && now >= end {
                return Ok(self.outcome);
            }
            if now.duration_since(heard).as_secs() > ANSWER_SECONDS && open > 0 {
                return Err(failed(format!("{open} questions are not answered after {ANSWER_SECONDS} s")));
            }
            let timeout = match step {
                Some(_) if next_due < end => next_due.saturating_duration_since(now),
                _ => Duration::from_secs(1),
            };
            poll.wait(timeout, &mut ready)?;
            if !ready.is_empty() {
                heard = Instant::now();
            }
            for &at in &ready {
                let at = at as usize;
                if !self.receive(at, &mut buffer)? {
                    continue;
                }
                now = Instant::now();
                let due = self.askers[at].due;
                if due >= self.measure_from && due < end {
                    self.outcome.latencies.add(now.duration_since(due).as_nanos() as u64);
                }
                match step {
                    None if now < end => self.send(at, now)?,
                    None => open -= 1,
                    Some(_) => {
                        idle.push_back(at);
                        open -= 1;
                    }
                }
            }
        }
    }
}

/// Opens the connections, asks until the time is over, and waits for the last answers.
pub fn run(plan: &Plan, rows: &Rows, expect: &impl Expect) -> io::Result<Outcome> {
    let threads = plan.threads.clamp(1, plan.connections.max(1));
    let sql: Arc<str> = Arc::from(lookup_sql(&plan.table));
    let connect = |share: usize| -> io::Result<Vec<Asker>> {
        (share..plan.connections)
            .step_by(threads)
            .map(|_| {
                let mut connection = Connection::open(plan.address, &plan.user, &plan.database)?;
                let statement = if rows.mode() == Mode::Prepared { connection.prepare(&sql)? } else { 0 };
                Ok(Asker { connection, statement, executed: false, row: 0, at_send: 0, due: Instant::now(), rows: 0 })
            })
            .collect()
    };
    let connect = &connect;
    let all: Vec<Vec<Asker>> = thread::scope(|scope| {
        let opening: Vec<_> = (0..threads).map(|share| scope.spawn(move || connect(share))).collect();
        opening
            .into_iter()
            .map(|thread| thread.join().map_err(|_| failed("a thread panicked"))?)
            .collect::<io::Result<_>>()
    })?;
    let start = Instant::now() + Duration::from_millis(20);
    thread::scope(|scope| {
        let running: Vec<_> = all
            .into_iter()
            .enumerate()
            .map(|(share, askers)| {
                let worker = Worker {
                    plan,
                    rows,
                    expect,
                    askers,
                    random: Random::new(plan.seed, share as u64),
                    request: Vec::new(),
                    outcome: Outcome::default(),
                    measure_from: start + plan.warm_up,
                };
                scope.spawn(move || worker.run(start, share, threads))
            })
            .collect();
        let mut outcome = Outcome::default();
        for thread in running {
            outcome.merge(thread.join().map_err(|_| failed("a thread panicked"))??);
        }
        Ok(outcome)
    })
}
