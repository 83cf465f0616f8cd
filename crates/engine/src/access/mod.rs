//! Access control: who may do what.
//!
//! Statements are checked before they do anything ([`guard`]). The tables that a query reads are checked where they are
//! looked up (`tables`), because only then it is known which tables these are. Readers of a view need no rights on what
//! the view reads: the rights of its creator were checked.
//!
//! [`Rights`] are computed once for each account and state of the accounts, and its sessions share them. A session asks
//! for them with each statement, so a revoked privilege is gone with the next statement, even a prepared one.

mod needs;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dipper_base::client::ClientInfo;
use dipper_base::names::CATALOG;
use dipper_dialect::statement::privilege_name;
use dipper_exec::hours::Hours;
use dipper_exec::quota::{Connected, Counted, MAX_USER_CONNECTIONS};
use dipper_store::catalog::access::{ANY_HOST, Accounts, Privileges, Rights, User};
use dipper_store::catalog::{CatalogState, TableId};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;

pub(crate) use dipper_exec::hours::{BEHIND_WITH, Hourly};
pub(crate) use needs::guard;

use crate::engine::Engine;
use crate::error::{EngineError, ErrorKind, Result};

/// Longest time after which callers that do not wait for the store see what other processes did to the catalog, while
/// the store answers.
const KNOWN_STALENESS: Duration = Duration::from_secs(1);

/// How long callers that can use the known state wait for a store that does not answer.
const PATIENCE: Duration = Duration::from_millis(300);

/// The state about accounts that the sessions of a process share.
#[derive(Debug, Default)]
pub(crate) struct Access {
    known: Mutex<Known>,
    /// Connections by user, each counted once per session. A connection has two sessions for a moment while its user
    /// changes.
    connections: Counted,
    /// Actions counted in this hour.
    hours: Hours,
    /// When callers that can do without the answer last asked for the catalog.
    asked: Mutex<Option<(Instant, Asked)>>,
}

/// Completes when the catalog has been read or could not be read.
type Asked = Shared<BoxFuture<'static, ()>>;

/// Rights by account, for one state of the accounts.
#[derive(Debug, Default)]
struct Known {
    accounts: Option<Arc<Accounts>>,
    rights: HashMap<TableId, Arc<Rights>>,
}

impl Access {
    /// Returns the rights of an account; `None` if the account no longer exists.
    fn rights(&self, accounts: &Arc<Accounts>, account: TableId) -> Option<Arc<Rights>> {
        let mut known = self.known.lock();
        if !known.accounts.as_ref().is_some_and(|a| Arc::ptr_eq(a, accounts)) {
            *known = Known { accounts: Some(Arc::clone(accounts)), rights: HashMap::new() };
        }
        if let Some(rights) = known.rights.get(&account) {
            return Some(Arc::clone(rights));
        }
        let rights = Arc::new(Rights::of(accounts, accounts.user_by_id(account)?));
        known.rights.insert(account, Arc::clone(&rights));
        Some(rights)
    }
}

impl Engine {
    /// Returns the catalog for logins, and for statements that select a database. These use the state that this process
    /// knows if the store fails or does not answer soon. The catalog is asked for again once the known state is older
    /// than [`KNOWN_STALENESS`].
    pub(crate) async fn known_catalog(&self) -> Arc<CatalogState> {
        if self.catalog.staleness() > KNOWN_STALENESS {
            let (begun, asked) = {
                let mut last = self.access.asked.lock();
                // While a request is open, and for a while after one that failed, nobody asks again. A request that
                // completed while nobody waited is seen only by polling it, not by `peek`.
                let open = |asked: &Asked| asked.clone().now_or_never().is_none();
                match &*last {
                    Some((begun, asked)) if open(asked) || begun.elapsed() < KNOWN_STALENESS => (*begun, asked.clone()),
                    _ => last.insert((Instant::now(), self.ask_for_catalog())).clone(),
                }
            };
            let _ = tokio::time::timeout_at((begun + PATIENCE).into(), asked).await;
        }
        self.catalog.snapshot()
    }

    fn ask_for_catalog(&self) -> Asked {
        let catalog = self.catalog.clone();
        let asked = self.io().spawn(async move {
            if let Err(error) = catalog.refresh().await {
                tracing::warn!(%error, "the catalog cannot be read; logins go by what is known of it");
            }
        });
        asked.map(drop).boxed().shared()
    }

    /// Finds the account of a client that logs in as `name` from `address`, as far as this process knows; `None` if
    /// there is none.
    pub async fn known_account(&self, name: &str, address: IpAddr) -> Option<Arc<User>> {
        self.known_catalog().await.accounts.find(name, address).cloned()
    }

    /// Finds the account by the newest catalog, for a login that fails by the known state: another process may have
    /// created the account, or changed its password, a moment ago. All callers that wait share one request.
    ///
    /// # Errors
    /// `Storage` if the catalog cannot be read.
    pub async fn newest_account(&self, name: &str, address: IpAddr) -> Result<Option<Arc<User>>> {
        Ok(self.catalog.refresh().await?.accounts.find(name, address).cloned())
    }

    /// Returns all accounts, as this process knows them.
    pub fn accounts(&self) -> Arc<Accounts> {
        Arc::clone(&self.catalog.snapshot().accounts)
    }

    /// Counts a connection of a user. A second session of the same connection does not count again.
    ///
    /// # Errors
    /// `ER_TOO_MANY_USER_CONNECTIONS` (1203) if the user has as many connections as it may have;
    /// `ER_USER_LIMIT_REACHED` (1226) if it has used up the logins of this hour.
    pub fn connect(&self, user: &str, connection: u32) -> Result<Connected> {
        let most = connections_max(self, user);
        let connected = self.access.connections.count(user, connection, most).ok_or_else(|| EngineError {
            code: 1203,
            sqlstate: "42000",
            ..EngineError::new(
                ErrorKind::Resources,
                format!(
                    "User {user} already has more than 'max_user_connections' active connections ({}); close some, or SET PROPERTY FOR '{user}' 'max_user_connections' = '...'",
                    most.unwrap_or_default()
                ),
            )
        })?;
        self.spend(user, Hourly::Connections)?;
        Ok(connected)
    }

    /// Counts an action that a user may do only a number of times in an hour.
    ///
    /// # Errors
    /// `ER_USER_LIMIT_REACHED` (1226) if the user has used up its limit for this hour.
    pub(crate) fn spend(&self, user: &str, what: Hourly) -> Result<()> {
        self.access.hours.spend(&self.accounts(), user, what)
    }

    /// Finds the account of a client by its name and address. A client in the same process has the account of its name
    /// on any host.
    pub(crate) fn account_of(&self, state: &CatalogState, client: &ClientInfo) -> Option<TableId> {
        let user = match client.host.parse::<SocketAddr>() {
            Ok(peer) => state.accounts.find(&client.user, peer.ip()),
            Err(_) => state.accounts.user(&client.user, ANY_HOST),
        };
        user.map(|user| user.id)
    }

    /// Returns the rights of an account.
    ///
    /// # Errors
    /// `ER_ACCESS_DENIED_ERROR` (1045) if the account no longer exists.
    pub(crate) fn rights(
        &self,
        state: &CatalogState,
        account: Option<TableId>,
        client: &ClientInfo,
    ) -> Result<Arc<Rights>> {
        account.and_then(|id| self.access.rights(&state.accounts, id)).ok_or_else(|| EngineError {
            code: 1045,
            sqlstate: "28000",
            ..EngineError::new(
                ErrorKind::Denied,
                format!("Access denied for user '{}': it was dropped; connect as another user", client.user),
            )
        })
    }
}

/// Returns how many connections a user may have at once; `None` for as many as the server accepts.
pub(crate) fn connections_max(engine: &Engine, user: &str) -> Option<u64> {
    let accounts = engine.accounts();
    match accounts.property(user, MAX_USER_CONNECTIONS).and_then(|v| v.parse::<u64>().ok()) {
        Some(own) => Some(own),
        None => Some(engine.globals.number("max_user_connections")),
    }
    .filter(|limit| *limit > 0)
}

/// An object on which privileges are needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Object {
    /// Everything, as in `*.*`.
    All,
    /// Everything in an external catalog.
    Catalog(String),
    /// A database.
    Database(String),
    /// A table or view of a database.
    Table(String, String),
    /// A database of an external catalog, or a table in it.
    External(String, String, Option<String>),
}

/// Returns the privileges on an object as it is now. An object that does not exist has those of its surroundings: a
/// user who may do something with everything in a database may do it with any new object in it.
pub(crate) fn on(rights: &Rights, state: &CatalogState, object: &Object) -> Privileges {
    match object {
        Object::All => rights.on_all(),
        Object::Catalog(name) => rights.on_catalog(name),
        Object::External(catalog, database, table) => rights.on_external(catalog, database, table.as_deref()),
        Object::Database(name) => match state.database(name) {
            Some(database) => rights.on_database(database.id),
            None => rights.on_catalog(CATALOG),
        },
        Object::Table(database, name) => match (state.database(database), state.table(database, name)) {
            (Some(database), Some(table)) => rights.on_table(database.id, table.id),
            _ => on(rights, state, &Object::Database(database.clone())),
        },
    }
}

/// Refuses a user who lacks one of `privileges`.
///
/// # Errors
/// `Denied`: 1142 for tables, 1044 for databases and catalogs, 1227 for everything else.
pub(crate) fn check(rights: &Rights, state: &CatalogState, privileges: Privileges, object: &Object) -> Result<()> {
    let missing = privileges - on(rights, state, object);
    let Some(first) = missing.iter().next() else { return Ok(()) };
    Err(denied(rights, privilege_name(first).unwrap_or_default(), object))
}

/// Refuses a user who has no privilege on the object, for statements that only read its definition.
///
/// # Errors
/// `Denied`, with the numbers of [`check`].
pub(crate) fn check_seen(rights: &Rights, state: &CatalogState, command: &str, object: &Object) -> Result<()> {
    match sees(rights, state, object) {
        true => Ok(()),
        false => Err(denied(rights, command, object)),
    }
}

/// Whether the user has any privilege on the object or on anything in it. Only then do lists show the object.
pub(crate) fn sees(rights: &Rights, state: &CatalogState, object: &Object) -> bool {
    match object {
        Object::Database(name) | Object::Table(name, _) if dipper_lake::virtual_tables::is_virtual(state, name) => true,
        Object::Database(name) => match state.database(name) {
            Some(database) => rights.sees_database(database),
            // The database always exists and is empty, so there is nothing to hide.
            None => {
                name == dipper_base::names::DEFAULT_DATABASE
                    || rights.on_catalog(CATALOG).intersects(Privileges::OBJECT)
            }
        },
        Object::Catalog(name) if name != CATALOG => rights.sees_external(name, None),
        Object::External(catalog, database, None) => rights.sees_external(catalog, Some(database)),
        object => on(rights, state, object).intersects(Privileges::OBJECT),
    }
}

/// Whether lists show the user the loads into a table, with the names of the logs of their rejected rows.
pub(crate) fn sees_loads(rights: &Rights, state: &CatalogState, database: &str, table: &str) -> bool {
    let table = Object::Table(database.to_string(), table.to_string());
    on(rights, state, &table).intersects(Privileges::SELECT | Privileges::INSERT)
}

/// Refuses a user who may not access files and addresses outside of the database.
///
/// # Errors
/// `Denied` (1227) without the privilege FILE.
pub(crate) fn check_outside(rights: &Rights, what: &str) -> Result<()> {
    match rights.on_all().contains(Privileges::FILE) {
        true => Ok(()),
        false => {
            let e = denied(rights, "FILE", &Object::All);
            Err(EngineError { message: format!("{what}: {}; GRANT FILE ON *.* TO {}", e.message, rights.user()), ..e })
        }
    }
}

/// Makes MySQL's error for a missing privilege.
pub(crate) fn denied(rights: &Rights, command: &str, object: &Object) -> EngineError {
    let user = rights.user();
    let (code, message) = match object {
        Object::Table(database, table) => {
            (1142, format!("{command} command denied to user {user} for table '{database}.{table}'"))
        }
        Object::External(catalog, database, Some(table)) => {
            (1142, format!("{command} command denied to user {user} for table '{catalog}.{database}.{table}'"))
        }
        Object::External(catalog, database, None) => {
            (1044, format!("Access denied for user {user} to database '{catalog}.{database}': {command} is needed"))
        }
        Object::Database(name) | Object::Catalog(name) => {
            (1044, format!("Access denied for user {user} to database '{name}': {command} is needed"))
        }
        Object::All => {
            (1227, format!("Access denied; you need (at least one of) the {command} privilege(s) for this operation"))
        }
    };
    EngineError { code, sqlstate: "42000", ..EngineError::new(ErrorKind::Denied, message) }
}

#[cfg(test)]
mod quota_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineOptions;

    #[tokio::test]
    async fn an_answer_that_came_too_late_for_its_asker_is_no_open_one() {
        let engine = Engine::open(EngineOptions { threads: Some(1), ..EngineOptions::default() }).await.unwrap();
        // The caller that asked is gone.
        *engine.access.asked.lock() = Some((Instant::now(), engine.ask_for_catalog()));
        tokio::time::sleep(KNOWN_STALENESS * 3 / 2).await;
        assert!(engine.catalog.staleness() > KNOWN_STALENESS);
        engine.known_catalog().await;
        assert!(engine.catalog.staleness() < KNOWN_STALENESS);
    }
}
