//! Who may do what.
//!
//! Statements are checked before they do anything ([`guard`]); the tables that a query reads are checked where they are
//! found (`tables`), because only there it is known which they are. What a view reads is not asked of who reads the
//! view: its maker was asked.
//!
//! [`Rights`] are made once for each account and state of the accounts, and shared by its sessions. A session asks for
//! them with each statement, so what is revoked is gone with the next one, also for statements that were prepared.

mod hours;
mod needs;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dipper_base::client::ClientInfo;
use dipper_base::names::CATALOG;
use dipper_dialect::statement::privilege_name;
use dipper_exec::quota::{Connected, Counted, MAX_USER_CONNECTIONS};
use dipper_store::catalog::access::{ANY_HOST, Accounts, Privileges, Rights, User};
use dipper_store::catalog::{CatalogState, TableId};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;

pub(crate) use hours::{BEHIND_WITH, Hourly};
pub(crate) use needs::guard;

use crate::engine::Engine;
use crate::error::{EngineError, ErrorKind, Result};

/// Who does not wait for the store sees what other processes did to the catalog after this time at the latest, where the
/// store answers.
const KNOWN_STALENESS: Duration = Duration::from_secs(1);

/// How long a store that does not answer is waited for by who can do with what is known.
const PATIENCE: Duration = Duration::from_millis(300);

/// What the sessions of a process share about accounts.
#[derive(Debug, Default)]
pub(crate) struct Access {
    known: Mutex<Known>,
    /// Connections, as often as each has sessions (two for a moment when the user changes).
    connections: Counted,
    /// What was done in this hour.
    hours: hours::Hours,
    /// When the catalog was last asked for by those who can do without the answer.
    asked: Mutex<Option<(Instant, Asked)>>,
}

/// Done when the catalog has been read, or could not be.
type Asked = Shared<BoxFuture<'static, ()>>;

/// Rights by account, for one state of the accounts.
#[derive(Debug, Default)]
struct Known {
    accounts: Option<Arc<Accounts>>,
    rights: HashMap<TableId, Arc<Rights>>,
}

impl Access {
    /// The rights of an account; `None` when it is no longer there.
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
    /// The catalog for logins, and for statements that choose a database: they go on with what this process knows where the
    /// store does not answer soon, or fails. What is known is asked for anew once it is older than [`KNOWN_STALENESS`].
    pub(crate) async fn known_catalog(&self) -> Arc<CatalogState> {
        if self.catalog.staleness() > KNOWN_STALENESS {
            let (begun, asked) = {
                let mut last = self.access.asked.lock();
                // While an answer is open, and for a while after one that was none, nobody asks again. One that came when
                // nobody waited any more is seen by asking for it only, not by `peek`.
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

    /// Who somebody is that says to be `name` and comes from `address`, as far as this process knows; `None` for nobody.
    pub async fn known_account(&self, name: &str, address: IpAddr) -> Option<Arc<User>> {
        self.known_catalog().await.accounts.find(name, address).cloned()
    }

    /// The same by the newest catalog, for whose login fails by what is known: another process may have made the account,
    /// or changed its password, a moment ago. All who wait share a request.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub async fn newest_account(&self, name: &str, address: IpAddr) -> Result<Option<Arc<User>>> {
        Ok(self.catalog.refresh().await?.accounts.find(name, address).cloned())
    }

    /// All accounts, as this process knows them.
    pub fn accounts(&self) -> Arc<Accounts> {
        Arc::clone(&self.catalog.snapshot().accounts)
    }

    /// Counts a connection of a user. A second session of the same connection is not another.
    ///
    /// # Errors
    /// The user has as many as it may have (1203), or has had as many in this hour (1226).
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

    /// Counts something that a user may do so often in an hour.
    ///
    /// # Errors
    /// It has done it as often (1226).
    pub(crate) fn spend(&self, user: &str, what: Hourly) -> Result<()> {
        self.access.hours.spend(&self.accounts(), user, what)
    }

    /// The account of a client, by its name and address: in process it is root.
    pub(crate) fn account_of(&self, state: &CatalogState, client: &ClientInfo) -> Option<TableId> {
        let user = match client.host.parse::<SocketAddr>() {
            Ok(peer) => state.accounts.find(&client.user, peer.ip()),
            Err(_) => state.accounts.user(&client.user, ANY_HOST),
        };
        user.map(|user| user.id)
    }

    /// What an account may do.
    ///
    /// # Errors
    /// It is no longer there (1045).
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

/// How many connections a user may have at once; `None` for as many as the server takes.
pub(crate) fn connections_max(engine: &Engine, user: &str) -> Option<u64> {
    let accounts = engine.accounts();
    match accounts.property(user, MAX_USER_CONNECTIONS).and_then(|v| v.parse::<u64>().ok()) {
        Some(own) => Some(own),
        None => Some(engine.globals.number("max_user_connections")),
    }
    .filter(|limit| *limit > 0)
}

/// What a privilege is asked for on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Object {
    /// Everything.
    All,
    /// All of a catalog that is not this database's own.
    Catalog(String),
    /// A database.
    Database(String),
    /// A table or view of a database.
    Table(String, String),
    /// A database of another catalog, or a table in it.
    External(String, String, Option<String>),
}

/// What may be done with an object as it is now. One that is not there has what its surroundings have: who may do
/// something with everything in a database may do it with whatever comes under that name.
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

/// Refuses who lacks one of `privileges`.
///
/// # Errors
/// 1142 for tables, 1044 for databases, 1227 for the rest.
pub(crate) fn check(rights: &Rights, state: &CatalogState, privileges: Privileges, object: &Object) -> Result<()> {
    let missing = privileges - on(rights, state, object);
    let Some(first) = missing.iter().next() else { return Ok(()) };
    Err(denied(rights, privilege_name(first).unwrap_or_default(), object))
}

/// Refuses who can do nothing with the table, for statements that only look at its definition.
///
/// # Errors
/// 1142.
pub(crate) fn check_seen(rights: &Rights, state: &CatalogState, command: &str, object: &Object) -> Result<()> {
    match sees(rights, state, object) {
        true => Ok(()),
        false => Err(denied(rights, command, object)),
    }
}

/// Whether something may be done with the object, or with anything in it: then it is in lists.
pub(crate) fn sees(rights: &Rights, state: &CatalogState, object: &Object) -> bool {
    match object {
        Object::Database(name) | Object::Table(name, _) if dipper_lake::virtual_tables::is_virtual(state, name) => true,
        Object::Database(name) => match state.database(name) {
            Some(database) => rights.sees_database(database),
            // Always there, and empty: there is nothing to hide.
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

/// Whether loads into a table are in lists, with the names of the logs that have their rejected rows.
pub(crate) fn sees_loads(rights: &Rights, state: &CatalogState, database: &str, table: &str) -> bool {
    let table = Object::Table(database.to_string(), table.to_string());
    on(rights, state, &table).intersects(Privileges::SELECT | Privileges::INSERT)
}

/// Refuses who may not reach files and addresses outside of the database.
///
/// # Errors
/// 1227.
pub(crate) fn check_outside(rights: &Rights, what: &str) -> Result<()> {
    match rights.on_all().contains(Privileges::FILE) {
        true => Ok(()),
        false => {
            let e = denied(rights, "FILE", &Object::All);
            Err(EngineError { message: format!("{what}: {}; GRANT FILE ON *.* TO {}", e.message, rights.user()), ..e })
        }
    }
}

/// MySQL's error for a missing privilege.
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
        // Whoever asked has gone.
        *engine.access.asked.lock() = Some((Instant::now(), engine.ask_for_catalog()));
        tokio::time::sleep(KNOWN_STALENESS * 3 / 2).await;
        assert!(engine.catalog.staleness() > KNOWN_STALENESS);
        engine.known_catalog().await;
        assert!(engine.catalog.staleness() < KNOWN_STALENESS);
    }
}
