//! The rights of one user: all its grants and roles together.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::{Accounts, Grants, Password, PasswordPolicy, Privileges, Scope, User};
use crate::catalog::state::{Database, TableId};

/// Name of the catalog of this database itself.
const INTERNAL: &str = "internal";

/// The rights of one user. Made once for a state of the [`Accounts`]; a query costs one or two look-ups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    user: Arc<User>,
    global: Privileges,
    catalogs: BTreeMap<String, Privileges>,
    /// Privileges by id of a database or table; ids of both are drawn from one sequence.
    objects: HashMap<TableId, Privileges>,
    /// Privileges in other catalogs, by catalog, database, and table.
    external: BTreeMap<String, BTreeMap<(String, Option<String>), Privileges>>,
}

impl Rights {
    /// Adds up the privileges that were granted to `user` and its roles.
    pub fn of(accounts: &Accounts, user: &Arc<User>) -> Self {
        let mut rights = Rights {
            user: Arc::clone(user),
            global: Privileges::NONE,
            catalogs: BTreeMap::new(),
            objects: HashMap::new(),
            external: BTreeMap::new(),
        };
        let roles = user.roles.iter().filter_map(|name| accounts.role(name)).map(|role| &role.grants);
        for (scope, privileges) in roles.chain([&user.grants]).flat_map(|grants| grants.iter()) {
            match scope {
                Scope::Global => rights.global |= privileges,
                Scope::Catalog(name) => *rights.catalogs.entry(name.clone()).or_default() |= privileges,
                Scope::Database(id) | Scope::Table(id) => *rights.objects.entry(*id).or_default() |= privileges,
                Scope::External { catalog, database, table } => {
                    let within = rights.external.entry(catalog.clone()).or_default();
                    *within.entry((database.clone(), table.clone())).or_default() |= privileges;
                }
            }
        }
        if rights.global.contains(Privileges::ADMIN) {
            rights.global |= Privileges::EVERYTHING - Privileges::NODE;
        }
        rights
    }

    /// Returns the rights of nobody: none.
    pub fn none(name: &str) -> Self {
        let user = User {
            id: TableId(0),
            name: name.to_string(),
            host: String::new(),
            password: Password::Hashed { sha2: None, sha1: None },
            policy: PasswordPolicy::default(),
            roles: BTreeSet::new(),
            grants: Grants::default(),
            comment: None,
        };
        Rights {
            user: Arc::new(user),
            global: Privileges::NONE,
            catalogs: BTreeMap::new(),
            objects: HashMap::new(),
            external: BTreeMap::new(),
        }
    }

    /// Returns the user whose rights these are.
    pub fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// Returns the privileges on everything.
    pub fn on_all(&self) -> Privileges {
        self.global
    }

    /// Returns the privileges on all databases of a catalog.
    pub fn on_catalog(&self, name: &str) -> Privileges {
        self.global | self.catalogs.get(name).copied().unwrap_or_default()
    }

    /// Returns the privileges on a database of the internal catalog.
    pub fn on_database(&self, database: TableId) -> Privileges {
        self.on_catalog(INTERNAL) | self.objects.get(&database).copied().unwrap_or_default()
    }

    /// Returns the privileges on a table or view.
    pub fn on_table(&self, database: TableId, table: TableId) -> Privileges {
        self.on_database(database) | self.objects.get(&table).copied().unwrap_or_default()
    }

    /// Returns the privileges on a database of another catalog, or on a table in it.
    pub fn on_external(&self, catalog: &str, database: &str, table: Option<&str>) -> Privileges {
        let within = self.external.get(catalog);
        let on = |table: Option<&str>| {
            let granted = within.and_then(|w| w.get(&(database.to_string(), table.map(str::to_string))));
            granted.copied().unwrap_or_default()
        };
        self.on_catalog(catalog) | on(None) | if table.is_some() { on(table) } else { Privileges::NONE }
    }

    /// Returns whether the user has a privilege on another catalog, on one of its databases, or on anything in it.
    pub fn sees_external(&self, catalog: &str, database: Option<&str>) -> bool {
        let mut within = self.external.get(catalog).into_iter().flat_map(|w| w.keys());
        self.on_catalog(catalog).intersects(Privileges::OBJECT)
            || within.any(|(of, _)| database.is_none_or(|database| database == of))
    }

    /// Returns whether the user has a privilege on a table: then its name and columns may be seen.
    pub fn sees_table(&self, database: TableId, table: TableId) -> bool {
        self.on_table(database, table).intersects(Privileges::OBJECT)
    }

    /// Returns whether the user has a privilege on a database or on anything in it.
    pub fn sees_database(&self, database: &Database) -> bool {
        self.on_database(database.id).intersects(Privileges::OBJECT)
            || database.tables.values().any(|t| self.objects.contains_key(&t.id))
    }
}
