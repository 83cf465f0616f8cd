//! Shell commands between statements: `\! command`, as in MySQL's client.
//!
//! A command may be in a file of `-f`, or typed at the prompt. Text from elsewhere (an argument, standard input) may
//! have been made by a program out of somebody else's words, so commands in it are refused.

use std::process::Command;

/// A command, and the position after its line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Escape<'a> {
    /// The rest of the line after `\!`.
    pub(crate) command: &'a str,
    /// Position at which the next statement begins.
    pub(crate) next: usize,
    /// Position of the `\!`.
    pub(crate) at: usize,
}

/// Returns the command that begins at `from`, after blanks and comments; `None` if a statement begins there.
pub(crate) fn find(script: &str, from: usize) -> Option<Escape<'_>> {
    let mut at = from;
    loop {
        let rest = &script[at..];
        let text = rest.trim_start();
        at += rest.len() - text.len();
        let line_end = text.find('\n').map_or(text.len(), |end| end + 1);
        if let Some(command) = text.strip_prefix("\\!") {
            return Some(Escape { command: command[..line_end - 2].trim(), next: at + line_end, at });
        }
        if text.starts_with('#') || text.starts_with("--") {
            at += line_end;
        } else if text.starts_with("/*") && !text.starts_with("/*!") && !text.starts_with("/*+") {
            at += text.find("*/")? + 2;
        } else {
            return None;
        }
    }
}

/// Runs a command with `sh`. The command finds this program as `DIPPER` and the data directory as `DIPPER_DATA` in its
/// environment.
///
/// # Errors
/// A message if the shell cannot be started, or the command fails.
pub(crate) fn run(command: &str, data: Option<&str>) -> Result<(), String> {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command);
    if let Ok(program) = std::env::current_exe() {
        shell.env("DIPPER", program);
    }
    if let Some(data) = data {
        shell.env("DIPPER_DATA", data);
    }
    let status = shell.status().map_err(|e| format!("cannot run sh: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("the command failed ({status}): {command}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_begin_where_statements_do() {
        let script = "-- a\n# b\n /* c */ \\! echo 1; echo 2\nSELECT '\n\\! no';\n\\!ls";
        let first = find(script, 0).expect("a command");
        assert_eq!((first.command, &script[first.next..first.next + 6]), ("echo 1; echo 2", "SELECT"));
        assert_eq!(find(script, first.next), None);
        let last = find(script, script.rfind('\n').expect("a line")).expect("a command");
        assert_eq!((last.command, last.next), ("ls", script.len()));
        assert_eq!(find("/*! SELECT 1 */", 0), None);
        assert_eq!(find("/* open", 0), None);
        assert_eq!(find("", 0), None);
    }

    #[test]
    fn a_command_that_fails_is_an_error() {
        run("test \"$DIPPER_DATA\" = here && test -x \"$DIPPER\"", Some("here")).expect("runs");
        assert!(run("exit 3", None).expect_err("fails").contains("exit status: 3"));
    }
}
