//! Session and global variables: which exist, which values they take, and which of them have an effect.
//!
//! [`Globals`] holds the values that differ from the compiled-in defaults, for the whole process. A session starts with
//! a snapshot of it ([`Variables::new`]) and then changes its own. Both are maps behind an `Arc`, so that a statement's
//! copy of the session costs one reference count.
//!
//! A value has two spellings: `SHOW VARIABLES` says `ON` or `true`, `SELECT @@x` says 1. The first is stored. Names
//! that dipper does not know are stored and returned, with a warning: drivers and scripts set what some version of
//! MySQL, Doris or StarRocks has.
//!
//! | module | question it answers |
//! |---|---|
//! | [`definitions`] | which variables exist, and with which values, scopes and effects? |
//! | [`charset`] | which character sets and collations may a client name? |
//!
//! Invariant: a value is checked before it is stored, so reading one never fails.
//!
//! This crate must not know sessions, statements, plans and users.

pub mod charset;
pub mod definitions;
mod of_consoles;
mod of_mysql;
mod sql_mode;
mod zone;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use datafusion::common::ScalarValue;
use dipper_base::client::{Level, Warning};
use dipper_dialect::parser::ParseOptions;
use dipper_dialect::statement::Scope;
use dipper_exec::aggregate::AggregationSettings;
use dipper_exec::join_filter::JoinFilterSettings;
use dipper_exec::native::ScanSettings;
use dipper_exec::rules::recursion::RecursionSettings;
use dipper_text::hive::EXTENDED_BOOLEAN;
use dipper_text::scan::Strings;
use parking_lot::RwLock;

use definitions::{Definition, Effect, Kind, Settable};
use dipper_node::error::{EngineError, ErrorKind, Result};

pub use definitions::QUERY_TIMEOUT_MAX;
pub use definitions::SERVER_VERSION;

/// MySQL's code of an unknown variable.
const ER_UNKNOWN_VARIABLE: u16 = 1193;
/// MySQL's code of a general note.
const ER_NOTE: u16 = 1105;
/// Most unknown names that one session may store, so that no client can fill the memory with them.
const UNKNOWN_MAX: usize = 1000;
/// Most bytes of an unknown name with its value.
const UNKNOWN_BYTES_MAX: usize = 64 << 10;
/// The value of `sql_select_limit` that means no limit, which is the default.
const SELECT_LIMIT_NONE: u64 = i64::MAX as u64;
/// Longest value of `version`, in bytes.
const VERSION_BYTES_MAX: usize = 60;
/// Name of the variable that holds the selected catalog.
pub const CATALOG: &str = "catalog";
/// The stored form of a character set that is the SQL value NULL.
const NULL: &str = "NULL";

/// Values that differ from the compiled-in defaults, by lower-case name.
type Values = BTreeMap<String, String>;

/// Variables of GLOBAL scope, for the life of the process.
#[derive(Debug)]
pub struct Globals {
    values: RwLock<Arc<Values>>,
    facts: RwLock<Arc<Values>>,
    since: Instant,
}

impl Default for Globals {
    fn default() -> Self {
        Globals { values: RwLock::default(), facts: RwLock::default(), since: Instant::now() }
    }
}

impl Globals {
    /// Time since these globals were made, which is when the engine started.
    pub fn uptime(&self) -> Duration {
        self.since.elapsed()
    }

    /// Publishes a fact about this server that clients may read and nobody may set, such as `port`.
    pub fn publish(&self, name: &str, value: impl Into<String>) {
        Arc::make_mut(&mut *self.facts.write()).insert(name.to_lowercase(), value.into());
    }

    /// The global value of a variable that is a number.
    ///
    /// # Panics
    /// If the value is not a number. The caller names a variable whose values are checked to be numbers before they are
    /// stored.
    pub fn number(&self, name: &'static str) -> u64 {
        let values = Arc::clone(&self.values.read());
        let text = values.get(name).cloned().or_else(|| definitions::find(name).map(default)).unwrap_or_default();
        text.parse().expect("a variable that acts is checked before it is stored")
    }

    /// The global value of a variable that dipper defines, as SHOW GLOBAL VARIABLES spells it.
    pub fn get(&self, name: &str) -> Option<String> {
        let set = self.values.read().get(name).cloned();
        set.or_else(|| definitions::find(name).map(default))
    }

    fn fact(&self, name: &str) -> Option<String> {
        self.facts.read().get(name).cloned()
    }

    fn set(&self, name: String, value: Option<String>) {
        let mut values = self.values.write();
        match value {
            Some(value) => Arc::make_mut(&mut *values).insert(name, value),
            None => Arc::make_mut(&mut *values).remove(&name),
        };
    }
}

/// A change that has been checked but not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    name: String,
    /// The new value; `None` for the default.
    value: Option<String>,
    /// A message for the client: the name is unknown, or the value has no effect.
    pub warning: Option<Warning>,
}

/// Variables of one session.
#[derive(Debug, Clone)]
pub struct Variables {
    globals: Arc<Globals>,
    values: Arc<Values>,
    quick: Quick,
}

/// The values that every command needs, parsed once when a variable changes.
#[derive(Debug, Clone, Copy)]
pub struct Quick {
    /// Each statement is a transaction of its own.
    pub autocommit: bool,
    /// Options of the parser under `sql_mode`.
    pub parse: ParseOptions,
    /// Time that a connection may stay without a statement.
    pub wait_timeout: Duration,
    /// Time from which on a statement is slow.
    pub slow: Duration,
    /// Look-ups by key bypass the planner.
    pub short_circuit: bool,
    /// Look-ups by key also read columns that the row store lacks.
    pub access_column_store: bool,
    /// Hidden columns of native tables are shown.
    pub hidden_columns: bool,
    /// Age in milliseconds that the state of a table may have when a look-up by key reads it.
    pub read_staleness_ms: u64,
    /// Most rows of a SELECT without LIMIT; `None` for no limit.
    pub select_limit: Option<u64>,
    /// Most rows of a query with ORDER BY and without LIMIT; `None` for no limit.
    pub order_by_limit: Option<u64>,
}

impl Variables {
    /// The variables of a new session, which has the current global values.
    pub fn new(globals: Arc<Globals>) -> Self {
        let values = Arc::clone(&globals.values.read());
        let quick = Quick::of(&values);
        Variables { globals, values, quick }
    }

    /// The values that every command needs.
    pub fn quick(&self) -> &Quick {
        &self.quick
    }

    /// Whether all variables of the session have the same values as in `other`.
    pub fn are_as(&self, other: &Variables) -> bool {
        Arc::ptr_eq(&self.values, &other.values) || self.values == other.values
    }

    /// Whether each statement is its own transaction.
    pub fn autocommit(&self) -> bool {
        self.quick.autocommit
    }

    /// Options of the parser under this session's `sql_mode`.
    pub fn parse_options(&self) -> ParseOptions {
        self.quick.parse
    }

    /// Time that a statement may run; `None` for no limit. A `max_execution_time` above 0 replaces `query_timeout`.
    pub fn query_timeout(&self) -> Option<Duration> {
        match (self.number("max_execution_time"), self.number("query_timeout")) {
            (ms, _) if ms > 0 => Some(Duration::from_millis(ms)),
            (_, 0) => None,
            (_, seconds) => Some(Duration::from_secs(seconds)),
        }
    }

    /// Age that the states may have which a query on object storage reads; `None` if the query must ask for the newest.
    pub fn freshness_tolerance(&self) -> Option<Duration> {
        text(&self.values, "query_freshness_tolerance_ms").parse().ok().map(Duration::from_millis)
    }

    /// Number of workers of a query, at least 1; `None` for one per core.
    pub fn parallelism(&self) -> Option<usize> {
        Some(self.number("parallel_pipeline_task_num") as usize).filter(|n| *n > 0)
    }

    /// Settings of scans of native tables.
    pub fn scan_settings(&self) -> ScanSettings {
        ScanSettings {
            split_remote: self.flag("enable_lake_tablet_internal_parallel"),
            split_local: self.flag("enable_tablet_internal_parallel"),
            force_split: self.text("tablet_internal_parallel_mode").eq_ignore_ascii_case("force_split"),
            cents_per_million_requests: self.number("profile_cents_per_million_requests"),
        }
    }

    /// Settings of GROUP BY.
    pub fn aggregation_settings(&self) -> AggregationSettings {
        AggregationSettings {
            enabled: self.flag("enable_radix_aggregation"),
            table_groups: self.number("radix_aggregation_table_groups") as usize,
        }
    }

    /// Settings of the filters that joins give scans.
    pub fn join_filter_settings(&self) -> JoinFilterSettings {
        JoinFilterSettings { enabled: !self.text("runtime_filter_mode").eq_ignore_ascii_case("off") }
    }

    /// Settings of WITH RECURSIVE.
    pub fn recursion_settings(&self) -> RecursionSettings {
        RecursionSettings { steps_max: self.number("cte_max_recursion_depth") }
    }

    /// Whether strings are read as views into the bytes of files.
    pub fn string_view(&self) -> bool {
        self.flag("schema_force_string_view")
    }

    /// How strings of text files are read: as views into the bytes of the file, or as copies.
    pub fn strings(&self) -> Strings {
        if self.string_view() { Strings::View } else { Strings::Copy }
    }

    /// Settings of the session that Hive's text readers use.
    pub fn hive_settings(&self) -> [(String, String); 1] {
        [(EXTENDED_BOOLEAN.to_string(), self.text(EXTENDED_BOOLEAN))]
    }

    /// The session's time zone: an offset such as `+08:00` or an IANA name.
    pub fn time_zone(&self) -> String {
        let zone = self.text("time_zone");
        if zone == "SYSTEM" { zone::system().to_string() } else { zone }
    }

    /// The fixed time that NOW() returns; `None` for the time of the clock.
    pub fn instant(&self) -> Option<DateTime<Utc>> {
        let seconds = self.text("timestamp").parse::<f64>().ok().filter(|seconds| *seconds > 0.0)?;
        DateTime::from_timestamp_micros((seconds * 1e6).round() as i64)
    }

    /// Time that a connection may stay without a statement.
    pub fn wait_timeout(&self) -> Duration {
        self.quick.wait_timeout
    }

    /// Returns a value as SELECT gives it, as text: booleans are 1 and 0. `None` if the name is neither known nor
    /// stored.
    pub fn get(&self, name: &str) -> Option<String> {
        self.look_up(name, false).map(|(d, value)| selected(d, value))
    }

    /// Returns the global value, in the form of [`get`](Self::get).
    pub fn get_global(&self, name: &str) -> Option<String> {
        self.look_up(name, true).map(|(d, value)| selected(d, value))
    }

    /// Returns a value as SELECT gives it: numbers and booleans are integers, and a character set can be NULL.
    pub fn scalar(&self, name: &str, global: bool) -> Option<ScalarValue> {
        let (definition, value) = self.look_up(name, global)?;
        Some(match definition.map(|d| d.kind) {
            Some(Kind::OnOff | Kind::TrueFalse | Kind::Int(..)) => {
                let text = selected(definition, value);
                text.parse().map_or_else(|_| ScalarValue::Utf8(Some(text)), |n| ScalarValue::Int64(Some(n)))
            }
            Some(Kind::Charset(true)) if value == NULL => ScalarValue::Utf8(None),
            // The type of an unknown variable is not known: a value that looks like an integer becomes one.
            None if value.parse::<i64>().is_ok_and(|n| n.to_string() == value) => {
                ScalarValue::Int64(value.parse().ok())
            }
            _ => ScalarValue::Utf8(Some(value)),
        })
    }

    /// Returns the definition, if there is one, and the value in the spelling of SHOW VARIABLES.
    fn look_up(&self, name: &str, global: bool) -> Option<(Option<&'static Definition>, String)> {
        let name = name.to_lowercase();
        if let Some(fact) = self.globals.fact(&name) {
            return Some((definitions::find(&name), fact));
        }
        let definition = definitions::find(&name);
        if global && definition.is_some_and(|d| d.settable == Settable::Session) {
            return None;
        }
        let globals;
        let values = match global || definition.is_some_and(|d| d.settable == Settable::Global) {
            true => {
                globals = Arc::clone(&self.globals.values.read());
                &globals
            }
            false => &self.values,
        };
        let stored = values.get(definitions::followed(&name)).cloned();
        let value = stored.or_else(|| definition.map(default))?;
        Some((definition, value))
    }

    /// Returns the value of a variable that dipper defines, in the spelling of SHOW VARIABLES.
    pub fn text(&self, name: &'static str) -> String {
        text(&self.values, name)
    }

    /// Whether a variable that dipper defines is ON or true.
    pub fn flag(&self, name: &'static str) -> bool {
        flag(&self.values, name)
    }

    fn number(&self, name: &'static str) -> u64 {
        number(&self.values, name)
    }

    /// Sets a variable of this session. Returns a warning for the client if the name is unknown or the value has no
    /// effect.
    ///
    /// # Errors
    /// The errors of [`check`](Self::check); nothing is changed then.
    pub fn set(&mut self, name: &str, value: &str) -> Result<Option<Warning>> {
        let checked = self.check(Scope::Session, name, Some(value))?;
        let warning = checked.warning.clone();
        self.apply(checked);
        Ok(warning)
    }

    /// Sets a variable for sessions that begin later.
    ///
    /// # Errors
    /// The errors of [`check`](Self::check); nothing is changed then.
    pub fn set_global(&self, name: &str, value: &str) -> Result<Option<Warning>> {
        let checked = self.check(Scope::Global, name, Some(value))?;
        let warning = checked.warning.clone();
        self.apply_global(checked);
        Ok(warning)
    }

    /// Checks a change without making it. `None` asks for the default.
    ///
    /// # Errors
    /// `BadVariable` if the variable cannot be set in this scope or cannot have this value; `Unsupported` for SET
    /// PERSIST and for switches of something that dipper does not have.
    pub fn check(&self, scope: Scope, name: &str, value: Option<&str>) -> Result<Checked> {
        let name = name.to_lowercase();
        if scope == Scope::Persist {
            return Err(EngineError::unsupported(format!(
                "SET PERSIST {name}: global values last as long as the process; use SET GLOBAL"
            )));
        }
        let Some(definition) = definitions::find(&name) else {
            if self.globals.fact(&name).is_some() {
                return Err(read_only(&name));
            }
            return self.check_unknown(name, value);
        };
        match (definition.settable, scope) {
            (Settable::Never, _) => return Err(read_only(&name)),
            (Settable::Global, Scope::Session) => {
                return Err(with_code(
                    1229,
                    "HY000",
                    format!("Variable '{name}' is a GLOBAL variable and should be set with SET GLOBAL"),
                ));
            }
            (Settable::Session, Scope::Global) => {
                return Err(with_code(
                    1228,
                    "HY000",
                    format!("Variable '{name}' is a SESSION variable and can't be used with SET GLOBAL"),
                ));
            }
            _ => {}
        }
        let value = match value {
            Some(value) => Some(canonical(definition, &name, value)?),
            None if scope == Scope::Session => self.globals.values.read().get(definition.name).cloned(),
            None => None,
        };
        let warning = value.as_deref().and_then(|value| warning(definition, &name, value));
        Ok(Checked { name: definition.name.to_string(), value, warning })
    }

    fn check_unknown(&self, name: String, value: Option<&str>) -> Result<Checked> {
        let unknown = self.values.keys().filter(|k| definitions::find(k).is_none()).count();
        if name.len() + value.map_or(0, str::len) > UNKNOWN_BYTES_MAX || unknown >= UNKNOWN_MAX {
            return Err(with_code(
                ER_UNKNOWN_VARIABLE,
                "HY000",
                format!(
                    "Unknown system variable '{}': no more than {UNKNOWN_MAX} unknown names of at most {UNKNOWN_BYTES_MAX} \
                 bytes with their values are stored",
                    name.chars().take(64).collect::<String>()
                ),
            ));
        }
        let mut message = format!("Unknown system variable '{name}': stored without effect");
        if let Some(near) = dipper_base::near::closest(&name, definitions::all().map(|(name, _)| name)) {
            message.push_str(&format!("; did you mean '{near}'?"));
        }
        let warning = Some(Warning { level: Level::Warning, code: ER_UNKNOWN_VARIABLE, message });
        Ok(Checked { name, value: value.map(str::to_string), warning })
    }

    /// Makes a checked change in this session.
    pub fn apply(&mut self, checked: Checked) {
        match checked.value {
            Some(value) => Arc::make_mut(&mut self.values).insert(checked.name, value),
            None => Arc::make_mut(&mut self.values).remove(&checked.name),
        };
        self.quick = Quick::of(&self.values);
    }

    /// Records which catalog is selected; `None` for dipper's own.
    pub fn set_catalog(&mut self, catalog: Option<String>) {
        self.apply(Checked { name: CATALOG.into(), value: catalog, warning: None });
    }

    /// Makes a checked change of GLOBAL scope.
    pub fn apply_global(&self, checked: Checked) {
        self.globals.set(checked.name, checked.value);
    }

    /// Lists all variables by name, with their values in the spelling of SHOW VARIABLES. Session scope includes
    /// variables that are only global.
    pub fn list(&self, scope: Scope) -> Vec<(String, String)> {
        let global = scope != Scope::Session;
        let mut names: Vec<String> = definitions::all()
            .filter(|(_, d)| !(global && d.settable == Settable::Session))
            .map(|(name, _)| name.to_string())
            .collect();
        names.extend(self.globals.facts.read().keys().cloned());
        let values = if global { Arc::clone(&self.globals.values.read()) } else { Arc::clone(&self.values) };
        names.extend(values.keys().cloned());
        names.sort();
        names.dedup();
        names
            .into_iter()
            .filter_map(|name| {
                let (_, value) = self.look_up(&name, global)?;
                Some((name, if value == NULL { String::new() } else { value }))
            })
            .collect()
    }

    /// Lists the variables whose value is not the default. For a session, the default is the global value.
    pub fn changed(&self, scope: Scope) -> Vec<String> {
        match scope {
            Scope::Session => {
                let globals = Arc::clone(&self.globals.values.read());
                // The selected catalog is stored like other variables, but goes with the selected database.
                let settable = |name: &str| {
                    name != CATALOG
                        && definitions::find(name)
                            .is_none_or(|d| matches!(d.settable, Settable::Both | Settable::Session))
                };
                let changed = self.values.iter().filter(|(name, value)| globals.get(*name) != Some(*value));
                changed.map(|(name, _)| name.clone()).filter(|name| settable(name)).collect()
            }
            _ => self.globals.values.read().keys().cloned().collect(),
        }
    }

    /// Lists every defined variable for the documentation, by name: name, default, whether it has an effect, and
    /// meaning.
    pub fn documentation() -> Vec<(&'static str, String, bool, &'static str)> {
        let mut all: Vec<_> =
            definitions::all().map(|(name, d)| (name, default(d), d.effect == Effect::Acts, d.doc)).collect();
        all.sort_unstable();
        all
    }
}

fn text(values: &Values, name: &'static str) -> String {
    match values.get(name) {
        Some(value) => value.clone(),
        None => definitions::find(name).map(default).unwrap_or_default(),
    }
}

fn flag(values: &Values, name: &'static str) -> bool {
    matches!(text(values, name).as_str(), "ON" | "true")
}

fn number(values: &Values, name: &'static str) -> u64 {
    text(values, name).parse().expect("a variable that acts is checked before it is stored")
}

/// Reads a limit of rows; `None` if it limits nothing.
fn limit(values: &Values, name: &'static str) -> Option<u64> {
    text(values, name).parse().ok().filter(|n| *n < SELECT_LIMIT_NONE)
}

impl Quick {
    fn of(values: &Values) -> Self {
        Quick {
            autocommit: flag(values, "autocommit"),
            parse: ParseOptions::from_sql_mode(&text(values, "sql_mode")),
            wait_timeout: Duration::from_secs(number(values, "wait_timeout")),
            slow: Duration::from_secs_f64(text(values, "long_query_time").parse().unwrap_or_default()),
            short_circuit: flag(values, "enable_short_circuit_query"),
            access_column_store: flag(values, "enable_short_circuit_query_access_column_store"),
            hidden_columns: flag(values, "show_hidden_columns"),
            read_staleness_ms: number(values, "read_staleness_ms"),
            select_limit: limit(values, "sql_select_limit"),
            order_by_limit: limit(values, "default_order_by_limit"),
        }
    }
}

/// Returns the default, which for some variables depends on the machine.
fn default(definition: &Definition) -> String {
    match definition.name {
        "system_time_zone" => zone::system().to_string(),
        "open_files_limit" => open_files().unwrap_or_default().to_string(),
        "hostname" => std::fs::read_to_string("/proc/sys/kernel/hostname")
            .map_or_else(|_| "localhost".to_string(), |name| name.trim().to_string()),
        _ => definition.default.to_string(),
    }
}

/// Number of files that this process may have open, as the system reports it.
fn open_files() -> Option<u64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Converts a value in the spelling of SHOW VARIABLES to that of SELECT.
fn selected(definition: Option<&Definition>, value: String) -> String {
    match (definition.map(|d| d.kind), value.as_str()) {
        (Some(Kind::OnOff | Kind::TrueFalse), "ON" | "true") => "1".into(),
        (Some(Kind::OnOff | Kind::TrueFalse), "OFF" | "false") => "0".into(),
        _ => value,
    }
}

fn warning(definition: &Definition, name: &str, value: &str) -> Option<Warning> {
    if definition.effect == Effect::Inert && value != definition.default {
        let message = format!("variable '{name}' is stored and shown; it has no effect in dipper");
        return Some(Warning { level: Level::Note, code: ER_NOTE, message });
    }
    if matches!(definition.kind, Kind::Charset(_)) && charset::character_set(value).is_some_and(|c| !c.is_utf8) {
        let message = format!("{name}={value}: text is not converted, it is sent and taken as utf8mb4");
        return Some(Warning { level: Level::Warning, code: ER_NOTE, message });
    }
    None
}

/// Checks a value and returns the form in which it is stored.
fn canonical(definition: &Definition, name: &str, value: &str) -> Result<String> {
    let given = value.trim();
    let boolean = |on: &str, off: &str| match given.to_ascii_lowercase().as_str() {
        "on" | "true" | "1" => Some(on.to_string()),
        "off" | "false" | "0" => Some(off.to_string()),
        _ => None,
    };
    let checked = match definition.kind {
        Kind::OnOff => boolean("ON", "OFF").ok_or_else(|| "ON or OFF".to_string()),
        Kind::TrueFalse => boolean("true", "false").ok_or_else(|| "true or false".to_string()),
        Kind::Int(least, most) => match given.parse::<i64>() {
            Ok(n) if (least..=most).contains(&n) => Ok(n.to_string()),
            // The "no limit" of MySQL is an unsigned number.
            Err(_) if most == i64::MAX && given.parse::<u64>().is_ok() => Ok(given.to_string()),
            _ => Err(format!("an integer from {least} to {most}")),
        },
        Kind::OneOf(words) => words
            .iter()
            .find(|w| w.eq_ignore_ascii_case(given))
            .map(|w| (*w).to_string())
            .ok_or_else(|| format!("one of {}", words.join(", "))),
        Kind::Text => Ok(value.to_string()),
        // Clients split the version at its points, and in the greeting it ends at a zero byte.
        Kind::Version => match given.split('.').take(2).filter(|part| part.parse::<u16>().is_ok()).count() {
            2 if given.len() <= VERSION_BYTES_MAX && given.bytes().all(|b| b.is_ascii_graphic()) => {
                Ok(given.to_string())
            }
            _ => Err("a version such as 8.0.33".to_string()),
        },
        Kind::Seconds => match given.parse::<f64>() {
            Ok(seconds) if (0.0..=31_536_000.0).contains(&seconds) => Ok(given.to_string()),
            _ => Err("seconds from 0 to 31536000".to_string()),
        },
        // NOW() can show times up to the year 9999.
        Kind::Instant => match given.parse::<f64>() {
            Ok(seconds) if (0.0..253_402_300_800.0).contains(&seconds) => Ok(given.to_string()),
            _ => Err("seconds since 1970".to_string()),
        },
        Kind::SqlMode => sql_mode::canonical(given)
            .map_err(|word| format!("a list of {} ('{word}' is none of them)", sql_mode::flags())),
        Kind::TimeZone => {
            return zone::canonical(given).ok_or_else(|| {
                with_code(1298, "HY000", format!(
                    "Unknown or incorrect time zone: '{value}'; expected SYSTEM, an offset from -13:59 to +14:00, or a \
                     name such as 'Europe/Berlin'"
                ))
            });
        }
        Kind::Charset(true) if given.eq_ignore_ascii_case(NULL) || given.is_empty() => Ok(NULL.to_string()),
        Kind::Charset(_) => {
            return charset::character_set(given).map(|c| c.name.to_string()).ok_or_else(|| {
                let known: Vec<_> = charset::CHARACTER_SETS.iter().map(|c| c.name).collect();
                with_code(1115, "42000", format!("Unknown character set: '{value}'; known are {}", known.join(", ")))
            });
        }
        Kind::Collation => {
            return charset::collation_named(given).map(|c| c.name.to_string()).ok_or_else(|| {
                with_code(1273, "HY000", format!("Unknown collation: '{value}'; SHOW COLLATION lists them"))
            });
        }
    };
    match checked {
        Ok(checked) => Ok(checked),
        // The value has no effect here, and some version of MySQL, Doris or StarRocks accepts it.
        Err(_) if definition.effect == Effect::Inert => Ok(value.to_string()),
        Err(expected) => Err(EngineError::new(
            ErrorKind::BadVariable,
            format!("Variable '{name}' can't be set to the value of '{value}'; expected {expected}"),
        )),
    }
}

fn read_only(name: &str) -> EngineError {
    with_code(1238, "HY000", format!("Variable '{name}' is a read only variable"))
}

/// Makes an error about a variable, with the code that MySQL has for the case.
fn with_code(code: u16, sqlstate: &'static str, message: String) -> EngineError {
    EngineError { code, sqlstate, ..EngineError::new(ErrorKind::BadVariable, message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> Variables {
        Variables::new(Arc::new(Globals::default()))
    }

    #[test]
    fn defaults_are_those_that_act() {
        let v = variables();
        assert!(v.autocommit());
        assert_eq!(v.query_timeout(), Some(Duration::from_secs(900)));
        assert_eq!(v.parallelism(), None);
        assert!(v.string_view());
        assert_eq!(v.parse_options(), ParseOptions::default());
        assert_eq!(v.wait_timeout(), Duration::from_secs(28800));
        assert!(!v.time_zone().is_empty() && v.time_zone() != "SYSTEM");
    }

    #[test]
    fn values_that_act_are_checked() {
        let mut v = variables();
        for (name, bad) in [
            ("autocommit", "maybe"),
            ("query_timeout", "-1"),
            ("query_timeout", "soon"),
            ("parallel_pipeline_task_num", "99999"),
            ("schema_force_string_view", "NULL"),
            ("sql_mode", "ANSI_QUOTES,NOPE"),
        ] {
            let e = v.set(name, bad).unwrap_err();
            assert_eq!((e.code, e.sqlstate), (1231, "42000"), "{name}={bad}: {e}");
            assert!(e.message.contains("expected"), "{e}");
        }
        assert_eq!(v.set("time_zone", "Mars").unwrap_err().code, 1298);
        assert_eq!(v.set("character_set_results", "klingon").unwrap_err().code, 1115);
        assert_eq!(v.set("collation_connection", "klingon_ci").unwrap_err().code, 1273);
        assert_eq!(v.set("version_comment", "9").unwrap_err().code, 1238);
        assert_eq!(v.set("connect_timeout", "5").unwrap_err().code, 1229);
        assert_eq!(v.set_global("last_insert_id", "5").unwrap_err().code, 1228);
        assert_eq!(v.query_timeout(), Some(Duration::from_secs(900)), "nothing has changed");
    }

    #[test]
    fn what_acts_is_read_back_by_every_name() {
        let mut v = variables();
        assert_eq!(v.set("Query_Timeout", "0").unwrap(), None);
        assert_eq!(v.query_timeout(), None);
        v.set("max_execution_time", "1500").unwrap();
        assert_eq!(v.query_timeout(), Some(Duration::from_millis(1500)));
        v.set("PIPELINE_DOP", "3").unwrap();
        assert_eq!(v.parallelism(), Some(3));
        assert_eq!(v.get("parallel_fragment_exec_instance_num").as_deref(), Some("3"));
        v.set("schema_force_view_types", "OFF").unwrap();
        assert!(!v.string_view());
        assert_eq!(v.get("schema_force_string_view").as_deref(), Some("0"));
        v.set("autocommit", "0").unwrap();
        assert!(!v.autocommit());
        v.set("time_zone", "+8:00").unwrap();
        assert_eq!(v.time_zone(), "+08:00");
        v.set("sql_mode", "ansi_quotes,no_backslash_escapes").unwrap();
        assert!(v.parse_options().ansi_quotes && v.parse_options().no_backslash_escapes);
        assert!(!v.parse_options().pipes_as_concat);
    }

    #[test]
    fn unknown_names_are_stored_with_a_warning() {
        let mut v = variables();
        assert_eq!(v.get("sql_moed"), None);
        let w = v.set("SQL_moed", "x").unwrap().unwrap();
        assert_eq!((w.level, w.code), (Level::Warning, 1193));
        assert_eq!(v.get("sql_Moed").as_deref(), Some("x"));
        assert!(v.list(Scope::Session).contains(&("sql_moed".into(), "x".into())));
        for i in 0..UNKNOWN_MAX - 1 {
            v.set(&format!("unknown_{i}"), "1").unwrap();
        }
        assert_eq!(v.set("one_too_many", "1").unwrap_err().code, 1193);
        let note = v.set("enable_nereids_planner", "false").unwrap().unwrap();
        assert_eq!(note.level, Level::Note);
        assert_eq!(v.set("enable_nereids_planner", "true").unwrap(), None, "the default says what is so");
    }

    #[test]
    fn globals_reach_later_sessions_only() {
        let globals = Arc::new(Globals::default());
        let mut first = Variables::new(Arc::clone(&globals));
        first.set_global("query_timeout", "7").unwrap();
        assert_eq!(first.query_timeout(), Some(Duration::from_secs(900)));
        assert_eq!(first.get_global("query_timeout").as_deref(), Some("7"));
        assert_eq!(Variables::new(Arc::clone(&globals)).query_timeout(), Some(Duration::from_secs(7)));
        let back = first.check(Scope::Session, "query_timeout", None).unwrap();
        first.apply(back);
        assert_eq!(first.query_timeout(), Some(Duration::from_secs(7)), "DEFAULT is the global value");
        let back = first.check(Scope::Global, "query_timeout", None).unwrap();
        first.apply_global(back);
        assert_eq!(first.get_global("query_timeout").as_deref(), Some("900"));
    }

    #[test]
    fn a_session_has_changed_what_it_can_change() {
        let globals = Arc::new(Globals::default());
        let first = Variables::new(Arc::clone(&globals));
        first.clone().set_global("max_connections", "9999").unwrap();
        first.clone().set_global("query_timeout", "7").unwrap();
        let mut later = Variables::new(globals);
        assert_eq!(later.changed(Scope::Session), Vec::<String>::new());
        later.set("query_timeout", "8").unwrap();
        assert_eq!(later.changed(Scope::Session), ["query_timeout"]);
    }

    #[test]
    fn facts_are_read_only() {
        let globals = Arc::new(Globals::default());
        globals.publish("port", "9030");
        let mut v = Variables::new(globals);
        assert_eq!(v.get("PORT").as_deref(), Some("9030"));
        assert_eq!(v.set("port", "1").unwrap_err().code, 1238);
    }

    #[test]
    fn scalars_have_the_type_of_the_variable() {
        let mut v = variables();
        assert_eq!(v.scalar("autocommit", false), Some(ScalarValue::Int64(Some(1))));
        assert_eq!(v.scalar("wait_timeout", true), Some(ScalarValue::Int64(Some(28800))));
        assert_eq!(v.scalar("version", false), Some(ScalarValue::Utf8(Some("5.7.99".into()))));
        v.set("character_set_results", "NULL").unwrap();
        assert_eq!(v.scalar("character_set_results", false), Some(ScalarValue::Utf8(None)));
        assert_eq!(v.scalar("no_such_thing", false), None);
        v.set("character_set_results", "latin1").unwrap().unwrap();
    }

    #[test]
    fn what_connector_j_asks_for_is_there() {
        let v = variables();
        for name in "auto_increment_increment character_set_client character_set_connection character_set_results \
                     character_set_server collation_server collation_connection init_connect interactive_timeout license \
                     lower_case_table_names max_allowed_packet net_write_timeout performance_schema query_cache_size \
                     query_cache_type sql_mode system_time_zone time_zone transaction_isolation wait_timeout \
                     tx_isolation transaction_read_only tx_read_only version version_comment"
            .split_whitespace()
        {
            assert!(v.get(name).is_some(), "{name}");
        }
    }
}
