//! Runs statements and prints their results.

use std::io::{self, BufWriter, Write};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use dipper_base::client::Level;
use dipper_engine::process::Stop;
use dipper_engine::{EngineError, Outcome, Rows, Session};
use futures::StreamExt;
use indicatif::{ProgressBar, ProgressStyle};

use crate::escape;
use crate::format::{Format, Printer};

/// How results are shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    /// Format of rows.
    pub(crate) format: Format,
    /// Most rows that a table shows; 0 for all.
    pub(crate) max_rows: usize,
    /// Whether the time of each statement is printed.
    pub(crate) timing: bool,
    /// Whether a spinner is shown on stderr while a statement runs long.
    pub(crate) progress: bool,
}

/// A statement or its output failed; the error has been reported.
#[derive(Debug)]
pub(crate) struct Failed;

/// Runs statements one after the other in one session.
pub(crate) struct Runner {
    runtime: tokio::runtime::Runtime,
    pub(crate) session: Session,
    pub(crate) style: Style,
    /// The data directory as it was given, for shell commands.
    data: Option<String>,
}

/// Statements that end within this time show no progress.
const PROGRESS_AFTER: Duration = Duration::from_millis(500);

impl Runner {
    pub(crate) fn new(runtime: tokio::runtime::Runtime, session: Session, style: Style, data: Option<String>) -> Self {
        Runner { runtime, session, style, data }
    }

    /// Ends the process. Its statements have ended, and their writes are synced; the system reclaims memory and threads
    /// faster than they could be dropped one by one.
    pub(crate) fn end(self, ran: Result<(), Failed>) -> ! {
        self.session.engine().remove_spilled();
        std::process::exit(ran.is_err() as i32)
    }

    /// Runs all statements of a text; stops at the first error. If `name` is given, messages about a statement begin
    /// with its position, `name:line: `. Only scripts written `by_hand` may contain shell commands.
    pub(crate) fn run_script(&mut self, script: &str, name: Option<&str>, by_hand: bool) -> Result<(), Failed> {
        let place = |line: usize| name.map(|name| format!("{name}:{line}: ")).unwrap_or_default();
        let lines = |from: usize, to: usize| script.as_bytes()[from..to].iter().filter(|byte| **byte == b'\n').count();
        let (mut from, mut line) = (0, 1);
        loop {
            if let Some(found) = escape::find(script, from) {
                let place = place(line + lines(from, found.at));
                let ran = match by_hand {
                    true => escape::run(found.command, self.data.as_deref()),
                    false => Err("commands of the shell (\\!) stand in files of -f and at the prompt only".to_string()),
                };
                if let Err(message) = ran {
                    eprintln!("{place}dipper: {message}");
                    return Err(Failed);
                }
                line += lines(from, found.next);
                from = found.next;
                continue;
            }
            // Parse one statement at a time: SET sql_mode changes how the next one is parsed.
            let options = self.session.variables().parse_options();
            let (parsed, next) = match dipper_dialect::parser::parse_next(script, from, &options) {
                Ok(Some(found)) => found,
                Ok(None) => return Ok(()),
                Err(e) => {
                    report(&place(e.position.as_ref().map_or(line, |position| position.line)), &e.into());
                    return Err(Failed);
                }
            };
            self.run(script, &parsed, &place(line + lines(from, parsed.text.start)))?;
            line += lines(from, next);
            from = next;
        }
    }

    fn run(&mut self, source: &str, parsed: &dipper_dialect::statement::Parsed, place: &str) -> Result<(), Failed> {
        if parsed.placeholders > 0 {
            eprintln!("{place}dipper: placeholders (?) can only stand in prepared statements");
            return Err(Failed);
        }
        let begun = Instant::now();
        let style = self.style;
        let session = &mut self.session;
        let process = Arc::clone(session.process());
        let result = self.runtime.block_on(async {
            // Ctrl-C ends the statement, but not the program.
            let interrupt = tokio::spawn(async move {
                while tokio::signal::ctrl_c().await.is_ok() {
                    process.stop(Stop::Query);
                }
            });
            let result = execute(session, source, parsed, style).await;
            interrupt.abort();
            result
        });
        match result {
            Ok(summary) => {
                for warning in self.session.warnings() {
                    let level = match warning.level {
                        Level::Note => "note",
                        Level::Warning => "warning",
                        Level::Error => "error",
                    };
                    eprintln!("{place}{level} {}: {}", warning.code, warning.message);
                }
                if style.timing {
                    println!("{summary} ({:.3} s)\n", begun.elapsed().as_secs_f64());
                }
                Ok(())
            }
            // The reader of the output has closed its end, as with `| head`: there is nothing to report.
            Err(Problem::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => Err(Failed),
            Err(Problem::Output(e)) => {
                eprintln!("dipper: cannot write the result: {e}");
                Err(Failed)
            }
            Err(Problem::Engine(e)) => {
                report(place, &e);
                Err(Failed)
            }
        }
    }

    /// Returns the names of tables or databases that completion may offer: the first column of a query's result.
    pub(crate) fn names(&mut self, query: &str) -> Vec<String> {
        let session = &mut self.session;
        self.runtime.block_on(async {
            let Ok(parsed) = session.parse(query) else { return Vec::new() };
            let Some(parsed) = parsed.first() else { return Vec::new() };
            let Ok(Outcome::Rows(mut rows)) = session.execute(query, parsed, Vec::new()).await else {
                return Vec::new();
            };
            let mut names = Vec::new();
            while let Some(Ok(batch)) = rows.batches.next().await {
                for row in 0..batch.num_rows() {
                    names.extend(arrow::util::display::array_value_to_string(batch.column(0), row));
                }
            }
            names
        })
    }
}

enum Problem {
    Engine(EngineError),
    Output(io::Error),
}

async fn execute(
    session: &mut Session,
    source: &str,
    parsed: &dipper_dialect::statement::Parsed,
    style: Style,
) -> Result<String, Problem> {
    let spinner = Spinner::start(style.progress);
    let outcome = session.execute(source, parsed, Vec::new()).await.map_err(Problem::Engine)?;
    match outcome {
        Outcome::Done(done) => {
            drop(spinner);
            let mut summary = format!("OK, {} rows affected", done.affected_rows);
            if !done.info.is_empty() {
                summary = format!("{summary}, {}", done.info);
            }
            Ok(summary)
        }
        Outcome::Rows(rows) => print(rows, style, spinner).await,
    }
}

async fn print(mut rows: Rows, style: Style, spinner: Spinner) -> Result<String, Problem> {
    let out = BufWriter::with_capacity(64 << 10, io::stdout());
    let mut printer = Printer::new(style.format, style.max_rows, &rows.columns, out);
    let mut total = 0;
    let mut spinner = Some(spinner);
    while let Some(batch) = rows.batches.next().await {
        let batch = batch.map_err(Problem::Engine)?;
        total += batch.num_rows();
        if style.format != Format::Table {
            // Rows are printed as they are found; the spinner would write between them.
            spinner = None;
        }
        printer.write(&batch).map_err(Problem::Output)?;
    }
    drop(spinner);
    printer.finish().map_err(Problem::Output)?.flush().map_err(Problem::Output)?;
    Ok(format!("{total} rows"))
}

/// A spinner on stderr with the elapsed time, for statements that take long.
struct Spinner {
    task: Option<tokio::task::JoinHandle<()>>,
    /// The bar, once it is shown. The task alone would not end before the runtime runs again, which at a prompt is the
    /// next statement.
    bar: Arc<OnceLock<ProgressBar>>,
}

impl Spinner {
    fn start(wanted: bool) -> Self {
        let bar: Arc<OnceLock<ProgressBar>> = Arc::default();
        let shown = Arc::clone(&bar);
        let task = wanted.then(|| {
            tokio::spawn(async move {
                tokio::time::sleep(PROGRESS_AFTER).await;
                let bar = ProgressBar::new_spinner();
                bar.set_style(
                    ProgressStyle::with_template("{spinner} running {elapsed_precise} (Ctrl-C stops the statement)")
                        .expect("the template is fixed"),
                );
                bar.enable_steady_tick(Duration::from_millis(100));
                // Only this task sets it.
                let _ = shown.set(bar);
            })
        });
        Spinner { task, bar }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

/// Prints the error like MySQL's client, with the position in the script before it and the position in the statement
/// after it.
fn report(place: &str, e: &EngineError) {
    eprintln!("{place}ERROR {} ({}): {}", e.code, e.sqlstate, e.message);
    if let Some(caret) = &e.caret {
        eprintln!("{caret}");
    }
}
