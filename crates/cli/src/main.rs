//! The `dipper` binary: `dipper server`, `dipper sql`, `dipper load`, `dipper check`, `dipper backup`, `dipper
//! restore`, and their documentation: `dipper help`, `dipper reference`, `dipper completions`, `dipper man`.

mod allocator;
mod backup;
mod check;
mod config;
mod escape;
mod format;
mod help;
mod load;
mod prompt;
mod reference;
mod remote;
mod run;
mod server;
mod shell;
mod sql;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A real-time analytical database: SQL over files and tables, on the MySQL protocol.
#[derive(Debug, Parser)]
#[command(name = "dipper", version, about, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run SQL in this process, over files or a data directory.
    Sql(sql::SqlArguments),
    /// Serve the MySQL protocol and HTTP.
    Server(server::ServerArguments),
    /// Load a file into a table, through a server or into a data directory.
    Load(load::LoadArguments),
    /// Verify a data directory: chains, checksums, keys, and that everything named is there.
    Check(check::CheckArguments),
    /// Copy tables of a data directory into another directory, also while a server uses it.
    Backup(backup::BackupArguments),
    /// Make tables from a backup, under the same or other names.
    Restore(backup::RestoreArguments),
    /// Write the reference of functions, variables, headers and options as Markdown pages.
    Reference(reference::ReferenceArguments),
    /// Print the completions of a shell: bash, zsh, fish and others.
    Completions(shell::CompletionsArguments),
    /// Write manual pages.
    Man(shell::ManArguments),
    /// Print help for a command, or for a topic of SQL.
    Help(help::HelpArguments),
}

fn main() -> ExitCode {
    allocator::keep_memory();
    let arguments = match config::with_file(std::env::args_os().collect()) {
        Ok((arguments, warnings)) => {
            warnings.iter().for_each(|warning| eprintln!("dipper: {warning}"));
            Arguments::parse_from(arguments)
        }
        Err(message) => {
            eprintln!("dipper: {message}");
            return ExitCode::FAILURE;
        }
    };
    match arguments.command {
        Command::Sql(arguments) => sql::main(arguments),
        Command::Server(arguments) => server::main(arguments),
        Command::Load(arguments) => load::main(arguments),
        Command::Check(arguments) => check::main(&arguments),
        Command::Backup(arguments) => backup::backup(&arguments),
        Command::Restore(arguments) => backup::restore(&arguments),
        Command::Reference(arguments) => reference::main(&arguments),
        Command::Completions(arguments) => shell::completions(&arguments),
        Command::Man(arguments) => shell::man(&arguments),
        Command::Help(arguments) => help::main(&arguments),
    }
}

/// Starts logging to stderr; `DIPPER_LOG` sets what is logged (`warn`, `dipper_engine=debug`, ...).
fn start_log(default: &str) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("DIPPER_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(is_terminal).init();
}

/// Prints a text. A reader that closes its end, as with `| head`, is not an error.
fn print(text: &str) {
    use std::io::Write as _;
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Parses a size like [`parse_bytes`], or a percentage of the machine's memory: `80%`.
fn parse_memory(text: &str) -> Result<u64, String> {
    match text.trim().strip_suffix('%') {
        None => parse_bytes(text),
        Some(percent) => match percent.trim().parse::<u64>() {
            // The default without the flag is 80%.
            Ok(percent @ 1..=95) => Ok(dipper_engine::default_memory_bytes() / 80 * percent),
            _ => Err(format!("expected a size or a percentage from 1% to 95%, found '{text}'")),
        },
    }
}

/// Parses a number of threads.
fn parse_threads(text: &str) -> Result<usize, String> {
    let threads = text.trim().parse().ok().filter(|n| (1..=4096).contains(n));
    threads.ok_or_else(|| format!("expected 1 to 4096 threads, found '{text}'"))
}

/// Parses a size in bytes: `512MB`, `2GiB`, `1073741824`.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().map_err(|_| format!("'{text}' is not a size; write 512MB or 2GiB"))?;
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        other => return Err(format!("unit '{other}' is not known; use B, KB, MB, GB, TB, KiB, MiB, GiB or TiB")),
    };
    Ok((number * factor) as u64)
}
