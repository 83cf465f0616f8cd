//! Texts of accounts, grants and properties.

use std::ops::RangeInclusive;

use dipper_base::names::EXEC_MEM_LIMIT;
use dipper_dialect::statement::{UserName, privilege_name};
use dipper_store::catalog::CatalogState;
use dipper_store::catalog::access::{ANY_HOST, Privileges, Rights, Scope};

use dipper_exec::quota::{EXEC_MEM_MIN, MAX_QUERY_INSTANCES, MAX_USER_CONNECTIONS, QUERY_TIMEOUT};

use crate::access::Hourly;
use crate::error::{EngineError, ErrorKind, Result};
use crate::session::Session;
use dipper_variables::QUERY_TIMEOUT_MAX;

/// Returns the name and the host pattern of an account. The pattern is `%` if none is written; CURRENT_USER() is the
/// account of the session.
pub(super) fn resolve(_session: &Session, rights: &Rights, user: &UserName) -> (String, String) {
    match user {
        UserName::Current => (rights.user().name.clone(), rights.user().host.clone()),
        UserName::Named { name, host } => (name.clone(), host.clone().unwrap_or_else(|| ANY_HOST.to_string())),
    }
}

/// Lists privileges, as in `SELECT, INSERT`.
pub(super) fn list(privileges: Privileges) -> String {
    let names: Vec<&str> = privileges.iter().filter_map(privilege_name).collect();
    names.join(", ")
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// Returns the text that follows ON; `None` if the object no longer exists.
pub(super) fn on_text(state: &CatalogState, scope: &Scope) -> Option<String> {
    Some(match scope {
        Scope::Global => "*.*".into(),
        Scope::Catalog(name) => format!("{}.*.*", quoted(name)),
        Scope::Database(id) => format!("{}.*", quoted(&state.databases.values().find(|d| d.id == *id)?.name)),
        Scope::External { catalog, database, table } => {
            let table = table.as_deref().map_or("*".to_string(), quoted);
            format!("{}.{}.{table}", quoted(catalog), quoted(database))
        }
        Scope::Table(id) => {
            let (database, table) = state.table_by_id(*id)?;
            format!("{}.{}", quoted(&database.name), quoted(&table.name))
        }
    })
}

/// Returns the GRANT statement that makes a grant.
pub(super) fn statement(on: &str, privileges: Privileges, to: &str) -> String {
    let all = if on == "*.*" { Privileges::ALL } else { Privileges::OBJECT };
    let named = privileges - Privileges::GRANT;
    let names = match privileges {
        // The set has every privilege that exists, so the words are true.
        Privileges::EVERYTHING => "ALL PRIVILEGES".into(),
        p if p - Privileges::GRANT == all => "ALL PRIVILEGES".into(),
        _ if named.is_empty() => "USAGE".into(),
        _ => list(named),
    };
    let option = if privileges.contains(Privileges::GRANT) { " WITH GRANT OPTION" } else { "" };
    format!("GRANT {names} ON {on} TO {to}{option}")
}

/// A property of users.
pub(super) struct Property {
    pub(super) key: &'static str,
    pub(super) default: &'static str,
    /// The whole numbers that the property accepts; `None` for a property without effect, which accepts any value.
    pub(super) numbers: Option<RangeInclusive<u64>>,
}

/// The largest value of most properties.
const COUNT_MAX: u64 = 0x7fff_ffff;

const fn acts(key: &'static str, default: &'static str) -> Property {
    Property { key, default, numbers: Some(0..=COUNT_MAX) }
}

const fn inert(key: &'static str, default: &'static str) -> Property {
    Property { key, default, numbers: None }
}

/// Doris's properties of users, and MySQL's limits per user.
pub(super) const PROPERTIES: &[Property] = &[
    inert("cpu_resource_limit", "-1"),
    inert("default_load_cluster", ""),
    inert("default_workload_group", "normal"),
    Property { key: EXEC_MEM_LIMIT, default: "-1", numbers: Some(EXEC_MEM_MIN..=u64::MAX >> 1) },
    acts("insert_timeout", "-1"),
    inert("load_mem_limit", "-1"),
    acts(Hourly::Connections.property(), "0"),
    acts(Hourly::Queries.property(), "0"),
    acts(MAX_QUERY_INSTANCES, "-1"),
    acts(Hourly::Updates.property(), "0"),
    acts(MAX_USER_CONNECTIONS, "0"),
    inert("parallel_fragment_exec_instance_num", "-1"),
    Property { key: QUERY_TIMEOUT, default: "-1", numbers: Some(0..=QUERY_TIMEOUT_MAX) },
    inert("resource_tags.location", ""),
    inert("sql_block_rules", ""),
];

/// Checks a property and returns a warning for the client if the property has no effect.
///
/// # Errors
/// `BadVariable` if a property that has an effect gets a value outside of its range.
pub(super) fn property_warning(key: &str, value: &str) -> Result<Option<String>> {
    let lower = key.to_lowercase();
    Ok(match PROPERTIES.iter().find(|p| p.key == lower) {
        Some(Property { numbers: Some(numbers), default, .. }) => {
            if value != *default && !value.parse::<u64>().is_ok_and(|n| numbers.contains(&n)) {
                let (least, most) = (numbers.start(), numbers.end());
                return Err(EngineError::new(
                    ErrorKind::BadVariable,
                    format!("property '{key}': expected a whole number from {least} to {most}, found '{value}'"),
                ));
            }
            None
        }
        Some(_) => Some(format!("property '{key}' is stored and shown, without effect here")),
        None => {
            let near = dipper_base::near::closest(&lower, PROPERTIES.iter().map(|p| p.key));
            let near = near.map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
            Some(format!("unknown property '{key}': stored and shown, without effect{near}"))
        }
    })
}
