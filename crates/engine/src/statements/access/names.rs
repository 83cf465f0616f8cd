//! Accounts, grants and properties as text.

use dipper_sql::statement::{UserName, privilege_name};
use dipper_store::catalog::CatalogState;
use dipper_store::catalog::access::{ANY_HOST, Privileges, Rights, Scope};

use crate::access::MAX_USER_CONNECTIONS;
use crate::error::{EngineError, ErrorKind, Result};
use crate::session::Session;

/// Name and pattern of hosts; without one it is `%`, and for CURRENT_USER() that of the session's account.
pub(super) fn resolve(_session: &Session, rights: &Rights, user: &UserName) -> (String, String) {
    match user {
        UserName::Current => (rights.user().name.clone(), rights.user().host.clone()),
        UserName::Named { name, host } => (name.clone(), host.clone().unwrap_or_else(|| ANY_HOST.to_string())),
    }
}

/// `SELECT, INSERT`.
pub(super) fn list(privileges: Privileges) -> String {
    let names: Vec<&str> = privileges.iter().filter_map(privilege_name).collect();
    names.join(", ")
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// What stands behind ON; `None` when it is gone.
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

/// A grant as the statement that makes it.
pub(super) fn statement(on: &str, privileges: Privileges, to: &str) -> String {
    let all = if on == "*.*" { Privileges::ALL } else { Privileges::OBJECT };
    let named = privileges - Privileges::GRANT;
    let names = match privileges {
        // There is nothing more, so the word is true.
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
    /// Changes what dipper does, and takes whole numbers.
    pub(super) acts: bool,
}

const fn acts(key: &'static str, default: &'static str) -> Property {
    Property { key, default, acts: true }
}

const fn inert(key: &'static str, default: &'static str) -> Property {
    Property { key, default, acts: false }
}

/// Doris's properties of users.
pub(super) const PROPERTIES: &[Property] = &[
    inert("cpu_resource_limit", "-1"),
    inert("default_load_cluster", ""),
    inert("default_workload_group", "normal"),
    inert("exec_mem_limit", "-1"),
    acts("insert_timeout", "-1"),
    inert("load_mem_limit", "-1"),
    inert("max_query_instances", "-1"),
    acts(MAX_USER_CONNECTIONS, "0"),
    inert("parallel_fragment_exec_instance_num", "-1"),
    acts("query_timeout", "-1"),
    inert("resource_tags.location", ""),
    inert("sql_block_rules", ""),
];

/// What the client should be told of a property that is set.
///
/// # Errors
/// A property that acts gets what is no number.
pub(super) fn property_warning(key: &str, value: &str) -> Result<Option<String>> {
    let lower = key.to_lowercase();
    Ok(match PROPERTIES.iter().find(|p| p.key == lower) {
        Some(Property { acts: true, default, .. }) => {
            let unset = value == *default;
            if !unset && !value.parse::<u32>().is_ok_and(|n| i32::try_from(n).is_ok()) {
                return Err(EngineError::new(
                    ErrorKind::BadVariable,
                    format!("property '{key}': expected a whole number from 0, found '{value}'"),
                ));
            }
            None
        }
        Some(_) => Some(format!("property '{key}' is stored and shown, without effect here")),
        None => {
            let near = crate::near::closest(&lower, PROPERTIES.iter().map(|p| p.key));
            let near = near.map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
            Some(format!("unknown property '{key}': stored and shown, without effect{near}"))
        }
    })
}
