//! `dipper check`: verifies a data directory.

use std::process::ExitCode;

use clap::Args;
use dipper_engine::DataLocation;

use crate::remote::RemoteArguments;

/// Arguments of `dipper check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// Where the database is, also one that a server uses, or a backup: a directory or s3://bucket/prefix; nothing in
    /// it is changed.
    #[arg(env = "DIPPER_DATA")]
    data: DataLocation,
    #[command(flatten)]
    remote: RemoteArguments,
    /// Do not name tables as they are read.
    #[arg(short, long)]
    quiet: bool,
}

/// Runs `dipper check`. Exit code 1 if anything is wrong.
pub(crate) fn main(arguments: &CheckArguments) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            eprintln!("dipper: cannot start: {e}");
            return ExitCode::FAILURE;
        }
    };
    let progress = |table: &str| {
        if !arguments.quiet {
            eprintln!("checking {table}");
        }
    };
    match runtime.block_on(dipper_engine::check(&arguments.data, &arguments.remote.options(), progress)) {
        Err(e) => {
            eprintln!("dipper: {e}");
            ExitCode::FAILURE
        }
        Ok(report) => {
            for problem in &report.problems {
                println!("{problem}");
            }
            for note in &report.suspicious {
                println!("note: {note}");
            }
            println!(
                "{} tables, {} objects, {} bytes, {} rows; {} unreferenced objects; {} problems",
                report.tables,
                report.objects,
                report.bytes,
                report.rows,
                report.unreferenced,
                report.problems.len()
            );
            ExitCode::from(u8::from(!report.problems.is_empty()))
        }
    }
}
