//! `dipper sql`: runs SQL in this process.

use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use dipper_engine::{ClientInfo, DataLocation, Engine, EngineOptions, FileAccess};

use crate::format::Format;
use crate::prompt;
use crate::remote::RemoteArguments;
use crate::run::{Runner, Style};

/// Arguments of `dipper sql`.
#[derive(Debug, Args)]
pub(crate) struct SqlArguments {
    /// Statements to run, separated by `;`; without them a prompt opens, or stdin is read
    query: Vec<String>,
    /// Statements to run, as an option of the mysql client
    #[arg(short = 'e', long, value_name = "QUERY", conflicts_with_all = ["query", "file"])]
    execute: Vec<String>,
    /// Run the statements of a file; `-` is stdin
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "query")]
    file: Option<PathBuf>,
    /// Where the database is, also one that a server uses: a directory or s3://bucket/prefix; without it nothing
    /// outlives this process
    #[arg(long, env = "DIPPER_DATA", value_name = "DIR|URL")]
    data: Option<DataLocation>,
    #[command(flatten)]
    remote: RemoteArguments,
    /// Database to start in
    #[arg(short = 'D', long, value_name = "NAME")]
    database: Option<String>,
    /// How results are printed; a table on terminals, CSV elsewhere
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// Most rows that a table shows; 0 for all
    #[arg(long, default_value_t = 1000, value_name = "N")]
    max_rows: usize,
    /// No timing, no progress
    #[arg(short, long)]
    quiet: bool,
    /// Memory for queries, e.g. 4GiB or 50% of the machine's; 80% without it
    #[arg(long, env = "DIPPER_MEMORY", value_parser = crate::parse_memory, value_name = "SIZE")]
    memory: Option<u64>,
    /// Threads for queries; one per core without it
    #[arg(long, env = "DIPPER_THREADS", value_name = "N", value_parser = crate::parse_threads)]
    threads: Option<usize>,
    /// Directory for what does not fit in memory
    #[arg(long, env = "DIPPER_SPILL_DIR", value_name = "DIR")]
    spill_dir: Option<PathBuf>,
}

/// Threads for calls of the file system, for example those that read versions of the catalog. Starting one takes about
/// 0.2 ms, and their work is too short to be divided among more.
const BLOCKING_THREADS: usize = 2;

pub(crate) fn main(arguments: SqlArguments) -> ExitCode {
    crate::start_log("warn");
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(BLOCKING_THREADS).build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(e) => return fail(&format!("cannot start: {e}")),
    };
    crate::allocator::watch(arguments.memory.unwrap_or_else(dipper_engine::default_memory_bytes));
    let options = EngineOptions {
        data: arguments.data.clone(),
        remote: arguments.remote.options(),
        access: FileAccess::Any,
        memory_bytes: arguments.memory,
        threads: arguments.threads,
        spill_dir: arguments.spill_dir.clone(),
        ..EngineOptions::default()
    };
    let engine = match runtime.block_on(Engine::open(options)) {
        Ok(engine) => engine,
        Err(e) => return fail(&e.to_string()),
    };
    let mut session = engine.session(ClientInfo::local(engine.next_connection_id()));
    if let Some(database) = &arguments.database
        && let Err(e) = runtime.block_on(session.use_database(database))
    {
        return fail(&e.to_string());
    }
    let on_terminal = std::io::stdout().is_terminal();
    let format = arguments.format.unwrap_or(if on_terminal { Format::Table } else { Format::Csv });
    let style = Style {
        format,
        max_rows: arguments.max_rows,
        timing: !arguments.quiet && on_terminal,
        progress: !arguments.quiet && std::io::stderr().is_terminal(),
    };
    let data = arguments.data.as_ref().map(ToString::to_string);
    let mut runner = Runner::new(runtime, session, style, data);
    let ran = match script(&arguments) {
        Ok(Some(script)) => runner.run_script(&script.text, script.name.as_deref(), script.by_hand),
        Ok(None) => prompt::run(&mut runner),
        Err(message) => return fail(&message),
    };
    runner.end(ran)
}

/// A script of statements to run.
struct Script {
    text: String,
    /// Name for messages, if the script is a file or stdin.
    name: Option<String>,
    /// Whether somebody wrote it into a file, so that it may contain shell commands.
    by_hand: bool,
}

/// Returns the statements to run; `None` for a prompt.
fn script(arguments: &SqlArguments) -> Result<Option<Script>, String> {
    let given = if arguments.query.is_empty() { &arguments.execute } else { &arguments.query };
    if !given.is_empty() {
        // The separator is on a line of its own, because a statement may end with a comment.
        return Ok(Some(Script { text: given.join("\n;\n"), name: None, by_hand: false }));
    }
    let from_stdin = match &arguments.file {
        Some(path) if path.as_os_str() != "-" => {
            let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read '{}': {e}", path.display()))?;
            return Ok(Some(Script { text, name: Some(path.display().to_string()), by_hand: true }));
        }
        Some(_) => true,
        None => !std::io::stdin().is_terminal(),
    };
    if !from_stdin {
        return Ok(None);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|e| format!("cannot read stdin: {e}"))?;
    Ok(Some(Script { text, name: Some("stdin".into()), by_hand: false }))
}

fn fail(message: &str) -> ExitCode {
    eprintln!("dipper: {message}");
    ExitCode::FAILURE
}
