//! The optional configuration file of `dipper server`: TOML, with the names of its flags, or Doris' names for settings
//! that mean the same. A file whose name ends with `.conf` is read in the format of Doris and StarRocks: one `name =
//! value` per line, without quotes.
//!
//! A flag takes precedence over a `DIPPER_*` variable, and that over the file: settings of the file that neither the
//! flags nor the environment have become flags in front of the written ones.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Command, CommandFactory};

/// Doris' names in fe.conf and be.conf, with the flags that mean the same.
const DORIS: &[(&str, &str)] = &[
    ("query_port", "mysql-port"),
    ("http_port", "http-port"),
    ("qe_max_connection", "max-connections"),
    ("mem_limit", "memory"),
    ("storage_root_path", "data"),
];

/// Doris' names without effect: there is a single process, and nothing to tune that they tune.
const IDLE: &[&str] = &[
    "priority_networks",
    "meta_dir",
    "rpc_port",
    "edit_log_port",
    "be_port",
    "brpc_port",
    "webserver_port",
    "heartbeat_service_port",
    "arrow_flight_sql_port",
    "sys_log_level",
    "sys_log_dir",
    "JAVA_OPTS",
    "JAVA_HOME",
    "LOG_DIR",
];

/// Adds the settings of the file to the arguments of the process; also returns warnings for the user.
///
/// # Errors
/// A message if the file cannot be read, cannot be parsed, or has a value that no flag takes.
pub(crate) fn with_file(arguments: Vec<OsString>) -> Result<(Vec<OsString>, Vec<String>), String> {
    let written: Vec<String> = arguments.iter().skip(2).map(|a| a.to_string_lossy().into_owned()).collect();
    if arguments.get(1).is_none_or(|command| command != "server") {
        return Ok((arguments, Vec::new()));
    }
    let Some(path) = path(&written) else { return Ok((arguments, Vec::new())) };
    let shown = path.display();
    let text = std::fs::read_to_string(&path).map_err(|e| format!("cannot read the configuration '{shown}': {e}"))?;
    let arguments_of = crate::Arguments::command();
    let server = arguments_of.find_subcommand("server").expect("there is a server");
    let given = |flag: &str, variable: &str| {
        let prefix = format!("--{flag}=");
        std::env::var_os(variable).is_some()
            || written.iter().any(|a| a == &format!("--{flag}") || a.starts_with(&prefix))
    };
    let is_conf = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("conf"));
    let table = if is_conf { properties(&text) } else { toml(&text) };
    let (flags, warnings) =
        table.and_then(|table| flags(&table, server, given)).map_err(|e| format!("configuration '{shown}': {e}"))?;
    let (before, behind) = arguments.split_at(2);
    let all =
        before.iter().cloned().chain(flags.into_iter().map(OsString::from)).chain(behind.iter().cloned()).collect();
    Ok((all, warnings.into_iter().map(|w| format!("configuration '{shown}': {w}")).collect()))
}

fn path(written: &[String]) -> Option<PathBuf> {
    let flag = written.iter().enumerate().find_map(|(at, argument)| match argument.as_str() {
        "--config" => written.get(at + 1).cloned(),
        other => other.strip_prefix("--config=").map(str::to_string),
    });
    flag.map(PathBuf::from).or_else(|| std::env::var_os("DIPPER_CONFIG").map(PathBuf::from))
}

fn toml(text: &str) -> Result<toml::Table, String> {
    text.parse().map_err(|e: toml::de::Error| e.to_string().trim_end().to_string())
}

/// Parses an fe.conf or be.conf. Comments begin with `#`, or with `--`, which is common in quoted examples.
fn properties(text: &str) -> Result<toml::Table, String> {
    let mut table = toml::Table::new();
    for (number, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || line.starts_with("--") {
            continue;
        }
        let (name, value) = line
            .split_once('=')
            .ok_or_else(|| format!("line {}: expected name = value, found '{line}'", number + 1))?;
        let value = match value.trim().trim_matches('"') {
            "true" => toml::Value::Boolean(true),
            "false" => toml::Value::Boolean(false),
            text => toml::Value::String(text.to_string()),
        };
        table.insert(name.trim().to_string(), value);
    }
    Ok(table)
}

/// Returns the flags for the settings of a file, without those that are `given` otherwise, by flag or variable; and
/// warnings.
fn flags(
    table: &toml::Table,
    server: &Command,
    given: impl Fn(&str, &str) -> bool,
) -> Result<(Vec<String>, Vec<String>), String> {
    let (mut flags, mut warnings) = (Vec::new(), Vec::new());
    for (key, value) in table {
        if value.is_table() {
            return Err(format!("[{key}]: names stand at the top of the file, without sections"));
        }
        let flag = match DORIS.iter().find(|(name, _)| name == key) {
            Some((_, flag)) => (*flag).to_string(),
            None => key.replace('_', "-"),
        };
        let known = server.get_arguments().find(|a| a.get_long() == Some(&flag)).filter(|_| flag != "config");
        let Some(argument) = known else {
            warnings.push(match IDLE.contains(&key.as_str()) {
                true => format!("'{key}' has no effect here"),
                false => {
                    let names: Vec<&str> = server.get_arguments().filter_map(|a| a.get_long()).collect();
                    let near = dipper_base::near::closest(&flag, names.iter().copied());
                    let near = near.map(|n| format!("; did you mean '{}'?", n.replace('-', "_"))).unwrap_or_default();
                    format!("'{key}' is unknown, and has no effect{near}")
                }
            });
            continue;
        };
        let variable = argument.get_env().map(|v| v.to_string_lossy().into_owned()).unwrap_or_default();
        if given(&flag, &variable) {
            continue;
        }
        let values = match value {
            toml::Value::Array(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        for value in values {
            match value {
                // A switch takes no value.
                toml::Value::Boolean(on) if !argument.get_action().takes_values() => {
                    flags.extend(on.then(|| format!("--{flag}")));
                }
                toml::Value::String(text) => flags.push(format!("--{flag}={text}")),
                toml::Value::Integer(n) => flags.push(format!("--{flag}={n}")),
                other => return Err(format!("'{key}': expected a string, a number or a list of them, found {other}")),
            }
        }
    }
    Ok((flags, warnings))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, given: &[&str]) -> Result<(Vec<String>, Vec<String>), String> {
        let command = crate::Arguments::command();
        let given = |flag: &str, variable: &str| given.contains(&flag) || given.contains(&variable);
        let table = toml(text)?;
        let (mut flags, mut warnings) = flags(&table, command.find_subcommand("server").expect("server"), given)?;
        flags.sort();
        warnings.sort();
        Ok((flags, warnings))
    }

    #[test]
    fn names_of_flags_and_of_doris() {
        let text = "query_port = 9031\nallow_dir = ['/a', '/b']\nrequire_tls = true\nmem_limit = '2GiB'\n";
        let (flags, warnings) = read(text, &[]).expect("a file");
        assert_eq!(flags, ["--allow-dir=/a", "--allow-dir=/b", "--memory=2GiB", "--mysql-port=9031", "--require-tls"]);
        assert!(warnings.is_empty());
    }

    #[test]
    fn flags_and_variables_go_first() {
        let text = "query_port = 1\nhttp_port = 2\nlisten = '::1'";
        let (flags, _) = read(text, &["mysql-port", "DIPPER_HTTP_PORT"]).expect("a file");
        assert_eq!(flags, ["--listen=::1"]);
    }

    #[test]
    fn files_of_doris_are_read_as_they_are() {
        let text = "-- FE\n# comment\nquery_port = 9031\nqe_max_connection=10240 \nLOG_DIR = ${DORIS_HOME}/log\n\
                    disable_storage_row_cache=false \nrow_cache_mem_limit=40% \n";
        let command = crate::Arguments::command();
        let server = command.find_subcommand("server").expect("server");
        let (mut flags, warnings) = flags(&properties(text).expect("a file"), server, |_, _| false).expect("names");
        flags.sort();
        assert_eq!(flags, ["--max-connections=10240", "--mysql-port=9031", "--row-cache-mem-limit=40%"]);
        assert_eq!(warnings, ["'LOG_DIR' has no effect here"]);
        assert_eq!(properties("a=1\nb").expect_err("no value"), "line 2: expected name = value, found 'b'");
    }

    #[test]
    fn what_has_no_effect_is_said() {
        let (flags, warnings) = read("priority_networks = '10.0.0.0/8'\nmax_connection = 5", &[]).expect("a file");
        assert!(flags.is_empty());
        assert_eq!(
            warnings,
            [
                "'max_connection' is unknown, and has no effect; did you mean 'max_connections'?",
                "'priority_networks' has no effect here"
            ]
        );
        assert!(read("listen = 1.5", &[]).expect_err("no value").contains("expected a string"));
        assert!(read("[server]\nlisten = 'x'", &[]).expect_err("a section").contains("without sections"));
        assert!(read("listen", &[]).is_err());
    }
}
