//! `dipper reference`: the generated pages of the documentation.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Arg, Args, Command, CommandFactory};
use dipper_engine::reference::{self, cell};
use dipper_engine::{Engine, EngineOptions};

/// Arguments of `dipper reference`.
#[derive(Debug, Args)]
pub(crate) struct ReferenceArguments {
    /// The directory of the pages; made when it is not there
    directory: PathBuf,
}

pub(crate) fn main(arguments: &ReferenceArguments) -> ExitCode {
    match write(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("dipper: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Opens an engine without data, which knows all functions.
pub(crate) fn engine() -> Result<(tokio::runtime::Runtime, Arc<Engine>), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| format!("cannot start: {e}"))?;
    let engine = runtime.block_on(Engine::open(EngineOptions::default())).map_err(|e| e.to_string())?;
    Ok((runtime, engine))
}

fn write(arguments: &ReferenceArguments) -> Result<(), String> {
    let (_runtime, engine) = engine()?;
    let pages = [
        ("commands.md", commands(crate::Arguments::command())),
        ("errors.md", reference::errors()),
        ("functions.md", reference::functions(&engine)),
        ("information_schema.md", reference::information_schema()),
        ("not-supported.md", reference::not_supported()),
        ("stream-load.md", reference::stream_load()),
        ("variables.md", reference::variables()),
    ];
    let cannot = |path: &PathBuf, e: std::io::Error| format!("cannot write '{}': {e}", path.display());
    std::fs::create_dir_all(&arguments.directory).map_err(|e| cannot(&arguments.directory, e))?;
    for (name, text) in pages {
        let path = arguments.directory.join(name);
        std::fs::write(&path, text).map_err(|e| cannot(&path, e))?;
    }
    Ok(())
}

/// Returns the page of the commands and their options.
fn commands(mut dipper: Command) -> String {
    let introduction = "`dipper COMMAND --help` prints the same. An option goes before the variable of the environment, and \
        the variable before\na file of `--config`.";
    let mut page = reference::head("Commands", introduction);
    dipper.build();
    for command in dipper.get_subcommands() {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = write!(page, "\n## dipper {}\n\n{about}.\n", command.get_name());
        let _ = write!(page, "\n| argument | variable | default | meaning |\n| --- | --- | --- | --- |\n");
        let (named, places): (Vec<_>, Vec<_>) =
            command.get_arguments().filter(|a| a.get_id().as_str() != "help").partition(|a| a.get_long().is_some());
        for argument in places.into_iter().chain(named) {
            let (default, meaning) = (default(argument), meaning(argument));
            let variable = argument.get_env().map(|v| format!("`{}`", v.to_string_lossy())).unwrap_or_default();
            let _ = writeln!(page, "| `{}` | {variable} | {default} | {meaning} |", spelled(argument));
        }
    }
    page
}

/// Returns the spelling of an argument: `-q, --quiet`, `--data DIR`, `FILE`.
fn spelled(argument: &Arg) -> String {
    let names: Vec<&str> = argument.get_value_names().unwrap_or_default().iter().map(|name| name.as_str()).collect();
    let value = if argument.get_action().takes_values() { names.join(" ") } else { String::new() };
    let short = argument.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
    let text = match argument.get_long() {
        Some(long) => format!("{short}--{long} {value}"),
        None => value,
    };
    cell(text.trim_end())
}

fn default(argument: &Arg) -> String {
    if !argument.get_action().takes_values() {
        return String::new();
    }
    let defaults = argument.get_default_values().iter().map(|value| value.to_string_lossy());
    let texts: Vec<String> = defaults.filter(|text| !text.is_empty()).map(|text| format!("`{text}`")).collect();
    texts.join(" ")
}

fn meaning(argument: &Arg) -> String {
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let mut text = cell(help.trim_end_matches('.'));
    let words = argument.get_possible_values();
    if argument.get_action().takes_values() && !words.is_empty() && words.iter().any(|word| word.get_name() != "true") {
        let names: Vec<String> = words.iter().map(|word| format!("`{}`", word.get_name())).collect();
        let _ = write!(text, ": {}", names.join(", "));
    }
    text
}
