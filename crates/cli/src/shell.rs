//! `dipper completions` and `dipper man`: files for shells and for `man`, generated from the definition of the
//! arguments.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Arguments of `dipper completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Arguments of `dipper man`.
#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// The directory of the pages, such as /usr/share/man/man1; made when it is not there
    directory: PathBuf,
}

/// Runs `dipper completions`: prints the completions of a shell.
pub(crate) fn completions(arguments: &CompletionsArguments) -> ExitCode {
    let mut out = Vec::new();
    clap_complete::generate(arguments.shell, &mut crate::Arguments::command(), "dipper", &mut out);
    crate::print(&String::from_utf8_lossy(&out));
    ExitCode::SUCCESS
}

/// Runs `dipper man`: writes a page for dipper and for each command.
pub(crate) fn man(arguments: &ManArguments) -> ExitCode {
    match write(&arguments.directory) {
        Ok(()) => ExitCode::SUCCESS,
        Err((path, e)) => {
            eprintln!("dipper: cannot write '{}': {e}", path.display());
            ExitCode::FAILURE
        }
    }
}

fn write(directory: &PathBuf) -> Result<(), (PathBuf, std::io::Error)> {
    std::fs::create_dir_all(directory).map_err(|e| (directory.clone(), e))?;
    clap_mangen::generate_to(crate::Arguments::command(), directory).map_err(|e| (directory.clone(), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page() {
        let directory = tempfile::tempdir().expect("a directory");
        write(&directory.path().to_path_buf()).expect("written");
        for name in ["dipper", "dipper-sql", "dipper-server", "dipper-help"] {
            let page = std::fs::read_to_string(directory.path().join(format!("{name}.1"))).expect(name);
            assert!(page.contains(".TH"), "{name}: {page}");
        }
        let server = std::fs::read_to_string(directory.path().join("dipper-server.1")).expect("a page");
        assert!(server.contains("mysql\\-port") && server.contains("DIPPER_MYSQL_PORT"), "{server}");
    }
}
