//! `dipper backup` and `dipper restore`.

use std::process::ExitCode;

use clap::Args;
use dipper_engine::{Copied, DataLocation};

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
    /// Where the copy goes: a directory or s3://bucket/prefix that holds neither a backup nor a database.
    #[arg(long)]
    to: DataLocation,
}

/// Arguments of `dipper restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArguments {
    /// What to restore: database.table, a database, or old=new with both as database.table; everything if none is
    /// named.
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

/// Runs `dipper backup`. Exit code 1 if there is no backup.
pub(crate) fn backup(arguments: &BackupArguments) -> ExitCode {
    let BackupArguments { tables, data, remote, to } = arguments;
    let remote = remote.options();
    run(|| dipper_engine::backup(data, to, &remote, tables, |c| told("copied", c)), "backed up")
}

/// Runs `dipper restore`. Exit code 1 if nothing was restored.
pub(crate) fn restore(arguments: &RestoreArguments) -> ExitCode {
    let RestoreArguments { tables, from, data, remote } = arguments;
    let (tables, renamed) = match wanted(tables) {
        Ok(wanted) => wanted,
        Err(message) => {
            eprintln!("dipper: {message}");
            return ExitCode::FAILURE;
        }
    };
    let remote = remote.options();
    run(|| dipper_engine::restore(from, data, &remote, &tables, &renamed, |c| told("copied", c)), "restored")
}

/// Tables and databases to restore under their own names, and tables to restore under new ones (old, new).
type Wanted = (Vec<String>, Vec<(String, String)>);

fn wanted(arguments: &[String]) -> Result<Wanted, String> {
    let is_table = |name: &str| {
        let parts: Vec<&str> = name.split('.').collect();
        parts.len() == 2 && parts.iter().all(|part| !part.is_empty() && !part.contains('='))
    };
    let (mut tables, mut renamed) = (Vec::new(), Vec::new());
    for argument in arguments {
        match argument.split_once('=') {
            None => tables.push(argument.clone()),
            Some((old, new)) if is_table(old) && is_table(new) => renamed.push((old.to_string(), new.to_string())),
            Some(_) => {
                return Err(format!(
                    "'{argument}': expected old=new with both as database.table, such as sales.orders=sales.orders_monday; \
                     a whole database is restored under its own name, by that name alone"
                ));
            }
        }
    }
    Ok((tables, renamed))
}

fn told(what: &str, copied: &Copied) {
    eprintln!("{what} {}: {} rows, {} files, {} bytes", copied.name, copied.rows, copied.files, copied.bytes);
}

fn run<F: Future<Output = dipper_engine::Result<Vec<Copied>>>>(work: impl FnOnce() -> F, done: &str) -> ExitCode {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_restored_under_other_names_one_by_one() {
        let parse = |arguments: &[&str]| wanted(&arguments.iter().map(|a| a.to_string()).collect::<Vec<_>>());
        let (tables, renamed) = parse(&["d.t", "e", "d.u=e.v"]).unwrap();
        assert_eq!((tables, renamed), (vec!["d.t".into(), "e".into()], vec![("d.u".into(), "e.v".into())]));
        for bad in [
            "ck=ck3",
            "ck.a=ck3",
            "ck=ck3.a",
            "ck.a=x.y.z",
            "a.b.c=x.y",
            "ck.a=.y",
            "ck.a=x.",
            "=x.y",
            "ck.a=",
            "a.b=c.d=e.f",
        ] {
            let e = parse(&["d.t", bad]).unwrap_err();
            assert!(e.starts_with(&format!("'{bad}': expected old=new with both as database.table")), "{e}");
        }
    }
}
