//! `dipper backup` and `dipper restore`.

use std::process::ExitCode;

use clap::Args;
use dipper_engine::{Copied, DataLocation, Result};

use crate::remote::RemoteArguments;

/// Arguments of `dipper backup`.
#[derive(Debug, Args)]
pub(crate) struct BackupArguments {
    /// What to copy: database.table, or a database; everything if none is named.
    tables: Vec<String>,
    /// Where the database is, also one that a server uses: a directory or s3://bucket/prefix.
    #[arg(long, env = "DIPPER_DATA")]
    data: DataLocation,
    #[command(flatten)]
    remote: RemoteArguments,
    /// Where the copy goes: a directory or s3://bucket/prefix without a backup.
    #[arg(long)]
    to: DataLocation,
}

/// Arguments of `dipper restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArguments {
    /// What to restore: database.table, a database, or old=new with both as database.table; everything if none is named.
    tables: Vec<String>,
    /// What `dipper backup` wrote.
    #[arg(long)]
    from: DataLocation,
    /// Where the database is, also one that a server uses: a directory or s3://bucket/prefix.
    #[arg(long, env = "DIPPER_DATA")]
    data: DataLocation,
    #[command(flatten)]
    remote: RemoteArguments,
}

/// Exit code 1 if there is no backup.
pub(crate) fn backup(arguments: &BackupArguments) -> ExitCode {
    let BackupArguments { tables, data, remote, to } = arguments;
    let remote = remote.options();
    run(|| dipper_engine::backup(data, to, &remote, tables, |c| told("copied", c)), "backed up")
}

/// Exit code 1 if nothing was restored.
pub(crate) fn restore(arguments: &RestoreArguments) -> ExitCode {
    let mut tables = Vec::new();
    let mut renamed = Vec::new();
    for name in &arguments.tables {
        match name.split_once('=') {
            Some((old, new)) => renamed.push((old.to_string(), new.to_string())),
            None => tables.push(name.clone()),
        }
    }
    let RestoreArguments { from, data, remote, .. } = arguments;
    let remote = remote.options();
    run(|| dipper_engine::restore(from, data, &remote, &tables, &renamed, |c| told("copied", c)), "restored")
}

fn told(what: &str, copied: &Copied) {
    eprintln!("{what} {}: {} rows, {} files, {} bytes", copied.name, copied.rows, copied.files, copied.bytes);
}

fn run<F: Future<Output = Result<Vec<Copied>>>>(work: impl FnOnce() -> F, done: &str) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            eprintln!("dipper: cannot start: {e}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(work()) {
        Err(e) => {
            eprintln!("dipper: {e}");
            ExitCode::FAILURE
        }
        Ok(copied) => {
            let sum = |f: fn(&Copied) -> u64| copied.iter().map(f).sum::<u64>();
            println!("{done} {} tables, {} rows, {} bytes", copied.len(), sum(|c| c.rows), sum(|c| c.bytes));
            ExitCode::SUCCESS
        }
    }
}
