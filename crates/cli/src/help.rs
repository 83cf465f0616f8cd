//! `dipper help`: help for a command, or for a topic of SQL as HELP shows it.

use std::process::ExitCode;

use clap::{Args, CommandFactory};
use dipper_engine::help::{self, Answer};

/// Arguments of `dipper help`.
#[derive(Debug, Args)]
pub(crate) struct HelpArguments {
    /// A command; behind `sql` a statement, a function or a variable: dipper help sql CREATE TABLE
    #[arg(value_name = "COMMAND [TOPIC]")]
    words: Vec<String>,
}

pub(crate) fn main(arguments: &HelpArguments) -> ExitCode {
    match text(&arguments.words) {
        Ok(text) => {
            crate::print(&text);
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("dipper: {message}");
            ExitCode::FAILURE
        }
    }
}

fn text(words: &[String]) -> Result<String, String> {
    let mut dipper = crate::Arguments::command();
    dipper.build();
    let Some((name, topic)) = words.split_first() else { return Ok(dipper.render_long_help().to_string()) };
    if name == "sql" && !topic.is_empty() {
        return of_topic(&topic.join(" "));
    }
    let known: Vec<String> = dipper.get_subcommands().map(|command| command.get_name().to_string()).collect();
    let Some(command) = dipper.find_subcommand_mut(name) else {
        let near = dipper_base::near::closest(name, known.iter().map(String::as_str));
        let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        return Err(format!(
            "there is no command '{name}'{near}; `dipper help sql {}` looks up a statement",
            words.join(" ")
        ));
    };
    if let Some(more) = topic.first() {
        return Err(format!("only `dipper help sql` takes a topic, found '{more}' behind '{name}'"));
    }
    let mut text = command.render_help().to_string();
    if name == "sql" {
        text.push_str("\n`dipper help sql TOPIC` explains a statement, a function or a variable; the topic `contents` lists them.\n");
    }
    Ok(text)
}

fn of_topic(wanted: &str) -> Result<String, String> {
    let (_runtime, engine) = crate::reference::engine()?;
    let list = |entries: &[(String, bool)]| entries.iter().map(|(name, _)| format!("  {name}\n")).collect::<String>();
    match help::find(&engine, wanted) {
        Answer::Topic(topic) => {
            let mut text = format!("{}\n\n{}\n", topic.name, topic.description);
            if !topic.example.is_empty() {
                text.push_str(&format!("\nExamples:\n\n{}\n", topic.example));
            }
            Ok(text)
        }
        Answer::Several(entries) => Ok(format!("Topics with '{wanted}' in their name:\n\n{}", list(&entries))),
        Answer::Group { name, entries } => Ok(format!("{name}:\n\n{}", list(&entries))),
        Answer::Nothing => {
            let near = help::nearest(&engine, wanted).map(|near| format!("; did you mean {near}?"));
            let near = near.unwrap_or_else(|| "; `dipper help sql contents` lists the topics".into());
            Err(format!("there is no topic '{wanted}'{near}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(words: &str) -> Result<String, String> {
        text(&words.split(' ').filter(|word| !word.is_empty()).map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn commands_and_topics() {
        assert!(help("").expect("help").contains("Usage: dipper"));
        assert!(help("server").expect("help").contains("--mysql-port"));
        assert!(help("sql").expect("help").contains("dipper help sql TOPIC"));
        assert!(
            help("sql create table")
                .expect("help")
                .starts_with("CREATE TABLE\n\nCREATE [OR REPLACE] [TEMPORARY] TABLE")
        );
        assert!(help("sql CONCAT").expect("help").contains("Arguments: "));
        assert!(help("sql query_timeout").expect("help").contains("Default: 900"));
        assert!(help("sql create").expect("help").contains("  CREATE VIEW\n"));
        assert!(help("sql show grant%").expect("help").starts_with("SHOW GRANTS\n"));
        assert!(help("sql contents").expect("help").contains("  Session variables\n"));
        assert!(help("sql Session variables").expect("help").contains("  query_timeout\n"));
        assert_eq!(help("sql selct").expect_err("no topic"), "there is no topic 'selct'; did you mean SELECT?");
        assert!(help("serve").expect_err("no command").contains("did you mean server?"));
        assert!(help("server x").expect_err("no topic").contains("takes a topic"));
    }
}
