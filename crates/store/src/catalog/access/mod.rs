//! Users, roles and their privileges.
//!
//! Grants are bound to ids: a renamed table keeps them, one that is dropped and created again has none. `root` and
//! `admin` always exist; their password is the one that the server was started with, until a statement sets another.

mod change;
mod policy;
mod rights;
mod secret;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use change::{AccessChange, AccessError, Grantee};
pub use dipper_base::policy::{PolicyChange, UNBOUNDED};
pub use dipper_base::privileges::Privileges;
pub use policy::{HISTORY_MAX, PasswordPolicy};
pub use rights::Rights;
pub use secret::{Password, Secret};

use super::state::TableId;

/// Name of the user who may do everything.
pub const ROOT: &str = "root";
/// Name of the user who may do everything but change nodes.
pub const ADMIN: &str = "admin";
/// Name of the role with all privileges, as in Doris.
pub const OPERATOR_ROLE: &str = "operator";
/// Name of the role with all privileges but NODE.
pub const ADMIN_ROLE: &str = "admin";
/// Pattern of hosts that every host matches.
pub const ANY_HOST: &str = "%";

/// The object of a grant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Everything.
    Global,
    /// All databases of a catalog, by its name.
    Catalog(String),
    /// A database and everything in it.
    Database(TableId),
    /// A table or view.
    Table(TableId),
    /// A database of another catalog, or a table in it, by name, because they have no ids here.
    External {
        /// The catalog.
        catalog: String,
        /// The database.
        database: String,
        /// The table; `None` for all of the database.
        table: Option<String>,
    },
}

/// Granted privileges by scope; no set is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Grants(#[serde(with = "pairs")] BTreeMap<Scope, Privileges>);

impl Grants {
    fn one(scope: Scope, privileges: Privileges) -> Self {
        Self(BTreeMap::from([(scope, privileges)]))
    }

    /// Returns whether nothing was granted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the privileges that were granted on this scope itself.
    pub fn on(&self, scope: &Scope) -> Privileges {
        self.0.get(scope).copied().unwrap_or_default()
    }

    /// Returns all scopes with the privileges granted on them, the widest scopes first.
    pub fn iter(&self) -> impl Iterator<Item = (&Scope, Privileges)> {
        self.0.iter().map(|(scope, privileges)| (scope, *privileges))
    }
}

/// Serializes a map as a list of pairs, because its keys are not strings.
mod pairs {
    use super::{BTreeMap, Privileges, Scope};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(map: &BTreeMap<Scope, Privileges>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(map)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<Scope, Privileges>, D::Error> {
        Ok(Vec::<(Scope, Privileges)>::deserialize(from)?.into_iter().collect())
    }
}

/// A user: a name, and a pattern of the hosts that it covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// Identity: a user that is dropped and created again is another one.
    pub id: TableId,
    /// Name.
    pub name: String,
    /// Pattern of hosts: `%`, `10.%`, `localhost`, an address.
    pub host: String,
    /// The password, as it is stored.
    pub password: Password,
    /// Rules for the password.
    #[serde(default, skip_serializing_if = "PasswordPolicy::is_new")]
    pub policy: PasswordPolicy,
    /// Roles, all of them always in force.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub roles: BTreeSet<String>,
    /// Privileges granted to the user itself.
    #[serde(default, skip_serializing_if = "Grants::is_empty")]
    pub grants: Grants,
    /// COMMENT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        account(&self.name, &self.host).fmt(f)
    }
}

/// Returns `'name'@'host'`, as statements write an account.
pub fn account(name: &str, host: &str) -> String {
    let quoted = |s: &str| s.replace('\\', "\\\\").replace('\'', "\\'");
    format!("'{}'@'{}'", quoted(name), quoted(host))
}

/// A named set of grants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// Name.
    pub name: String,
    /// Privileges granted to the role.
    #[serde(default, skip_serializing_if = "Grants::is_empty")]
    pub grants: Grants,
    /// COMMENT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// All users and roles. A user's name and host, and a role's name, are unique.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Lists", into = "Lists")]
pub struct Accounts {
    users: BTreeMap<(String, String), Arc<User>>,
    roles: BTreeMap<String, Arc<Role>>,
    /// Properties by user name, for all hosts.
    properties: BTreeMap<String, BTreeMap<String, String>>,
}

/// The stored form of [`Accounts`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lists {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    users: Vec<User>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    roles: Vec<Role>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    properties: BTreeMap<String, BTreeMap<String, String>>,
}

impl From<Accounts> for Lists {
    fn from(from: Accounts) -> Self {
        Lists {
            users: from.users.values().map(|u| User::clone(u)).collect(),
            roles: from.roles.values().map(|r| Role::clone(r)).collect(),
            properties: from.properties,
        }
    }
}

impl From<Lists> for Accounts {
    fn from(from: Lists) -> Self {
        let mut accounts = Accounts { properties: from.properties, ..Accounts::default() };
        for user in from.users {
            accounts.users.insert((user.name.clone(), user.host.clone()), Arc::new(user));
        }
        for role in from.roles {
            accounts.roles.insert(role.name.clone(), Arc::new(role));
        }
        accounts
    }
}

/// The accounts of a new database: `root` and `admin`, and the roles of their names in Doris.
impl Default for Accounts {
    fn default() -> Self {
        let mut accounts = Accounts { users: BTreeMap::new(), roles: BTreeMap::new(), properties: BTreeMap::new() };
        let rulers = [
            (ROOT, TableId(1), OPERATOR_ROLE, Privileges::EVERYTHING),
            (ADMIN, TableId(2), ADMIN_ROLE, Privileges::EVERYTHING - Privileges::NODE),
        ];
        for (name, id, role, privileges) in rulers {
            let grants = Grants::one(Scope::Global, privileges);
            let (name, host) = (name.to_string(), ANY_HOST.to_string());
            let user = User {
                id,
                name: name.clone(),
                host: host.clone(),
                password: Password::Startup,
                policy: PasswordPolicy::default(),
                roles: BTreeSet::new(),
                grants: grants.clone(),
                comment: None,
            };
            accounts.users.insert((name, host), Arc::new(user));
            accounts.roles.insert(role.to_string(), Arc::new(Role { name: role.into(), grants, comment: None }));
        }
        accounts
    }
}

impl Accounts {
    /// Returns whether these are the accounts of a new database.
    pub fn is_new(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the users in the order of name and host.
    pub fn users(&self) -> impl Iterator<Item = &Arc<User>> {
        self.users.values()
    }

    /// Returns the roles in the order of their names.
    pub fn roles(&self) -> impl Iterator<Item = &Arc<Role>> {
        self.roles.values()
    }

    /// Returns the user with exactly this name and pattern of hosts.
    pub fn user(&self, name: &str, host: &str) -> Option<&Arc<User>> {
        self.users.get(&(name.to_string(), host.to_string()))
    }

    /// Returns the user with this id.
    pub fn user_by_id(&self, id: TableId) -> Option<&Arc<User>> {
        self.users.values().find(|u| u.id == id)
    }

    /// Returns the role of that name.
    pub fn role(&self, name: &str) -> Option<&Arc<Role>> {
        self.roles.get(name)
    }

    /// Returns whether any user has this name.
    pub fn has_name(&self, name: &str) -> bool {
        self.named(name).next().is_some()
    }

    fn named(&self, name: &str) -> impl Iterator<Item = &Arc<User>> {
        let from = (name.to_string(), String::new());
        let name = from.0.clone();
        self.users.range(from..).map(|(_, user)| user).take_while(move |user| user.name == name)
    }

    /// Returns the account of a client that logs in as `name` from `address`: of the users of that name whose pattern
    /// matches, the one with the most specific pattern, as in MySQL. `None` if there is none.
    pub fn find(&self, name: &str, address: IpAddr) -> Option<&Arc<User>> {
        self.named(name).filter(|u| host_fits(&u.host, address)).max_by_key(|u| definiteness(&u.host))
    }

    /// Returns the properties of users of this name.
    pub fn properties(&self, name: &str) -> Option<&BTreeMap<String, String>> {
        self.properties.get(name)
    }

    /// Returns one property of users of this name.
    pub fn property(&self, name: &str, key: &str) -> Option<&str> {
        self.properties.get(name)?.get(key).map(String::as_str)
    }
}

/// Returns whether an address matches a pattern of hosts. `localhost` is the machine itself, in any protocol.
fn host_fits(pattern: &str, address: IpAddr) -> bool {
    let address = address.to_canonical();
    if pattern.eq_ignore_ascii_case("localhost") {
        return address.is_loopback();
    }
    if let Ok(exact) = pattern.parse::<IpAddr>() {
        return exact.to_canonical() == address;
    }
    like(pattern.as_bytes(), address.to_string().as_bytes())
}

/// Matches SQL's LIKE over short ASCII text.
fn like(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        // Several in a row mean the same as one; taken one by one they would take exponential time.
        Some((b'%', rest)) if rest.first() == Some(&b'%') => like(rest, text),
        Some((b'%', rest)) => (0..=text.len()).any(|from| like(rest, &text[from..])),
        Some((b'_', rest)) => !text.is_empty() && like(rest, &text[1..]),
        Some((c, rest)) => text.first().is_some_and(|t| t.eq_ignore_ascii_case(c)) && like(rest, &text[1..]),
    }
}

/// Returns the rank of a pattern's specificity: patterns without a wildcard are most specific; among the others, the
/// one whose first wildcard comes last.
fn definiteness(pattern: &str) -> usize {
    pattern.find(['%', '_']).unwrap_or(usize::MAX)
}

/// Serializes an `Arc` as the value that it points to.
pub(super) mod shared {
    use super::{Accounts, Arc};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(in crate::catalog) fn serialize<S: Serializer>(value: &Arc<Accounts>, to: S) -> Result<S::Ok, S::Error> {
        Accounts::serialize(value, to)
    }

    pub(in crate::catalog) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<Accounts>, D::Error> {
        Accounts::deserialize(from).map(Arc::new)
    }

    pub(in crate::catalog) fn is_new(value: &Arc<Accounts>) -> bool {
        value.is_new()
    }
}

#[cfg(test)]
mod tests;
