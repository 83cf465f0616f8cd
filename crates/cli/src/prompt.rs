//! The interactive prompt: history, completion, and statements over several lines.

use std::cell::RefCell;
use std::path::PathBuf;

use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::{CompletionType, Config, Context, Editor, Helper, Highlighter, Hinter, Validator};

use crate::run::{Failed, Runner};

/// Words that completion offers besides names.
const KEYWORDS: [&str; 48] = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "ORDER BY",
    "HAVING",
    "LIMIT",
    "JOIN",
    "LEFT JOIN",
    "ON",
    "AND",
    "OR",
    "NOT",
    "IN",
    "IS NULL",
    "IS NOT NULL",
    "BETWEEN",
    "LIKE",
    "AS",
    "DISTINCT",
    "COUNT(*)",
    "SUM(",
    "AVG(",
    "MIN(",
    "MAX(",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "UNION ALL",
    "WITH",
    "INSERT INTO",
    "VALUES",
    "CREATE EXTERNAL TABLE",
    "CREATE VIEW",
    "CREATE DATABASE",
    "DROP TABLE",
    "SHOW TABLES",
    "SHOW DATABASES",
    "SHOW CREATE TABLE",
    "DESCRIBE",
    "EXPLAIN",
    "EXPLAIN ANALYZE",
    "USE",
    "SET",
    "COPY",
    "files(",
];

#[derive(Helper, Hinter, Highlighter, Validator)]
struct Names {
    names: RefCell<Vec<String>>,
}

impl Completer for Names {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = &line[..at];
        if let Some(quote) = open_quote(before) {
            return Ok((quote + 1, paths(&before[quote + 1..])));
        }
        let start = before
            .rfind(|c: char| !c.is_alphanumeric() && c != '_' && c != '.')
            .map_or(0, |i| i + before[i..].chars().next().map_or(1, char::len_utf8));
        let word = &before[start..];
        if word.is_empty() {
            return Ok((at, Vec::new()));
        }
        let lower = word.to_lowercase();
        let names = self.names.borrow();
        let words = KEYWORDS.iter().map(|k| k.to_string()).chain(names.iter().cloned());
        let found = words
            .filter(|w| w.to_lowercase().starts_with(&lower))
            .map(|w| Pair { display: w.clone(), replacement: w })
            .collect();
        Ok((start, found))
    }
}

/// Returns the start of the string that the cursor is in.
fn open_quote(before: &str) -> Option<usize> {
    let mut open = None;
    for (i, c) in before.char_indices() {
        if c == '\'' {
            open = if open.is_some() { None } else { Some(i) };
        }
    }
    open
}

/// Returns the files whose paths begin with `typed`.
fn paths(typed: &str) -> Vec<Pair> {
    let (dir, prefix) = match typed.rsplit_once('/') {
        Some((dir, prefix)) => (format!("{dir}/"), prefix),
        None => (String::new(), typed),
    };
    let read = std::fs::read_dir(if dir.is_empty() { "." } else { &dir });
    let mut found: Vec<Pair> = read
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let slash = if entry.path().is_dir() { "/" } else { "" };
            (name.starts_with(prefix) && !name.starts_with('.'))
                .then(|| Pair { display: format!("{name}{slash}"), replacement: format!("{dir}{name}{slash}") })
        })
        .collect();
    found.sort_by(|a, b| a.display.cmp(&b.display));
    found
}

fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let dir = state.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")))?.join("dipper");
    std::fs::create_dir_all(&dir).ok()?;
    Some(dir.join("history"))
}

/// Reads and runs statements until the end of input. An error ends the statement, but not the prompt.
pub(crate) fn run(runner: &mut Runner) -> Result<(), Failed> {
    let config = Config::builder().completion_type(CompletionType::List).auto_add_history(false).build();
    let mut editor = match Editor::<Names, _>::with_config(config) {
        Ok(editor) => editor,
        Err(e) => {
            eprintln!("dipper: cannot open the prompt: {e}");
            return Err(Failed);
        }
    };
    let history = history_file();
    if let Some(file) = &history {
        let _ = editor.load_history(file);
    }
    editor.set_helper(Some(Names { names: RefCell::new(table_names(runner)) }));
    println!(
        "dipper {} — SQL over files. End statements with ;  Try: SELECT * FROM 'file.csv' LIMIT 5;  Leave with exit or Ctrl-D.",
        env!("CARGO_PKG_VERSION")
    );
    let mut pending = String::new();
    loop {
        let prompt = match (pending.is_empty(), runner.session.database()) {
            (false, _) => "     -> ".to_string(),
            (true, Some("default") | None) => "dipper> ".to_string(),
            (true, Some(database)) => format!("{database}> "),
        };
        match editor.readline(&prompt) {
            Ok(line) => {
                if pending.is_empty() && is_exit(&line) {
                    break;
                }
                let is_command = pending.is_empty() && line.trim_start().starts_with("\\!");
                pending.push_str(&line);
                pending.push('\n');
                if !is_command && !complete(runner, &pending) {
                    continue;
                }
                let statement = std::mem::take(&mut pending);
                if statement.trim().is_empty() {
                    continue;
                }
                let _ = editor.add_history_entry(statement.trim());
                let _ = runner.run_script(&statement, None, true);
                if let Some(names) = editor.helper() {
                    *names.names.borrow_mut() = table_names(runner);
                }
            }
            // Ctrl-C discards the typed text.
            Err(ReadlineError::Interrupted) => pending.clear(),
            Err(ReadlineError::Eof) => break,
            Err(e) => {
                eprintln!("dipper: cannot read from the terminal: {e}");
                return Err(Failed);
            }
        }
    }
    if let Some(file) = &history {
        let _ = editor.save_history(file);
    }
    Ok(())
}

fn is_exit(line: &str) -> bool {
    matches!(
        line.trim().trim_end_matches(';').to_ascii_lowercase().as_str(),
        "exit" | "quit" | "\\q" | ".exit" | ".quit"
    )
}

/// Returns whether the text ends with `;` outside of strings and comments, so that it can be run.
fn complete(runner: &Runner, text: &str) -> bool {
    let options = runner.session.variables().parse_options();
    let mut from = 0;
    // Each statement, except for an unfinished last one, ends with its `;`.
    loop {
        match dipper_dialect::parser::skip_statement(text, from, &options) {
            Ok(Some(next)) if text[from..next].trim_end().ends_with(';') => from = next,
            Ok(Some(_)) | Err(_) => return false,
            Ok(None) => return true,
        }
    }
}

fn table_names(runner: &mut Runner) -> Vec<String> {
    let mut names = runner.names("SHOW TABLES");
    names.extend(runner.names("SHOW DATABASES"));
    names.sort();
    names.dedup();
    names
}
