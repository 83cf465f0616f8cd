//! Changes of users, roles and grants.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::account;
use super::{
    ADMIN, ADMIN_ROLE, ANY_HOST, Accounts, Grants, OPERATOR_ROLE, Password, PasswordPolicy, PolicyChange, Privileges,
    ROOT, Role, Scope, User,
};
use crate::catalog::state::TableId;

/// Longest name of a user, role or pattern of hosts, in characters.
const NAME_CHARS_MAX: usize = 128;
/// Most wildcards of a pattern of hosts: matching takes time exponential in their number.
const WILDCARDS_MAX: usize = 4;
/// Most users, and most roles, because the catalog is kept in memory.
const ACCOUNTS_MAX: usize = 100_000;
/// Most properties of one user.
const PROPERTIES_MAX: usize = 200;

/// The user or role that gets or loses a privilege.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grantee {
    /// A user.
    User {
        /// Name.
        name: String,
        /// Pattern of hosts.
        host: String,
    },
    /// A role.
    Role(String),
}

impl std::fmt::Display for Grantee {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::User { name, host } => f.write_str(&account(name, host)),
            Self::Role(name) => write!(f, "role '{name}'"),
        }
    }
}

/// One change of [`Accounts`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AccessChange {
    /// CREATE USER.
    CreateUser {
        /// Identity, see [`TableId::fresh`].
        id: TableId,
        /// Name.
        name: String,
        /// Pattern of hosts.
        host: String,
        /// Password.
        password: Password,
        /// Rules for the password.
        #[serde(default, skip_serializing_if = "PolicyChange::is_empty")]
        policy: PolicyChange,
        /// DEFAULT ROLE.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        roles: BTreeSet<String>,
        /// COMMENT.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        comment: Option<String>,
        /// Whether an existing user is accepted instead of an error.
        #[serde(default)]
        if_not_exists: bool,
        /// Milliseconds since 1970, UTC.
        #[serde(default)]
        at_ms: i64,
    },
    /// ALTER USER, SET PASSWORD.
    AlterUser {
        /// Name.
        name: String,
        /// Pattern of hosts.
        host: String,
        /// New password.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        password: Option<Password>,
        /// Changed rules for the password.
        #[serde(default, skip_serializing_if = "PolicyChange::is_empty")]
        policy: PolicyChange,
        /// New COMMENT.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        comment: Option<String>,
        /// Whether a missing user is accepted instead of an error.
        #[serde(default)]
        if_exists: bool,
        /// Milliseconds since 1970, UTC.
        #[serde(default)]
        at_ms: i64,
    },
    /// DROP USER.
    DropUser {
        /// Name.
        name: String,
        /// Pattern of hosts.
        host: String,
        /// Whether a missing user is accepted instead of an error.
        #[serde(default)]
        if_exists: bool,
    },
    /// RENAME USER: an account with another name or pattern of hosts.
    RenameUser {
        /// Name.
        name: String,
        /// Pattern of hosts.
        host: String,
        /// New name.
        to_name: String,
        /// New pattern of hosts.
        to_host: String,
    },
    /// CREATE ROLE.
    CreateRole {
        /// Name.
        name: String,
        /// COMMENT.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        comment: Option<String>,
        /// Whether an existing role is accepted instead of an error.
        #[serde(default)]
        if_not_exists: bool,
    },
    /// ALTER ROLE.
    AlterRole {
        /// Name.
        name: String,
        /// New COMMENT; empty for none.
        comment: String,
    },
    /// DROP ROLE; users lose it.
    DropRole {
        /// Name.
        name: String,
        /// Whether a missing role is accepted instead of an error.
        #[serde(default)]
        if_exists: bool,
    },
    /// GRANT privileges.
    Grant {
        /// User or role that gets them.
        to: Grantee,
        /// Scope on which they are granted.
        scope: Scope,
        /// Privileges to grant.
        privileges: Privileges,
    },
    /// REVOKE privileges.
    Revoke {
        /// User or role that loses them.
        from: Grantee,
        /// Scope from which they are revoked; `None` for every scope on which the grantee has some.
        scope: Option<Scope>,
        /// Privileges to revoke.
        privileges: Privileges,
    },
    /// GRANT of a role.
    GrantRole {
        /// The role.
        role: String,
        /// User name.
        name: String,
        /// Pattern of hosts of the user.
        host: String,
    },
    /// REVOKE of a role.
    RevokeRole {
        /// The role.
        role: String,
        /// User name.
        name: String,
        /// Pattern of hosts of the user.
        host: String,
    },
    /// SET PROPERTY of a user name.
    SetProperties {
        /// User name.
        user: String,
        /// Properties that are added or overwritten; `None` removes one.
        properties: BTreeMap<String, Option<String>>,
    },
}

/// Why a change of accounts was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// CREATE USER of an existing user.
    #[error("Operation CREATE USER failed for {user}: it exists already; say IF NOT EXISTS, or ALTER USER")]
    UserExists {
        /// The account.
        user: String,
    },
    /// RENAME USER to a name that a user has.
    #[error("Operation RENAME USER failed for {user}: there is a user {to} already")]
    UserInTheWay {
        /// The account.
        user: String,
        /// The account of the new name.
        to: String,
    },
    /// A statement about a user that does not exist.
    #[error("Operation {operation} failed for {user}: there is no such user")]
    NoUser {
        /// Words of the statement.
        operation: &'static str,
        /// The account.
        user: String,
    },
    /// GRANT to a user that does not exist.
    #[error("You are not allowed to create a user with GRANT: {user} does not exist; CREATE USER it first")]
    GrantToNobody {
        /// The account.
        user: String,
    },
    /// A password that the history of its user rules out.
    #[error("Cannot use these credentials for {user} because they contradict the password history policy")]
    FormerPassword {
        /// The account.
        user: String,
    },
    /// REVOKE of privileges that were not granted.
    #[error("There is no such grant defined for {grantee}{}", on(.scope.as_ref()))]
    NoGrant {
        /// The user or role.
        grantee: Grantee,
        /// Scope of the REVOKE.
        scope: Option<Scope>,
    },
    /// CREATE ROLE of an existing role.
    #[error("Operation CREATE ROLE failed for '{role}': it exists already; say IF NOT EXISTS")]
    RoleExists {
        /// The role.
        role: String,
    },
    /// A role that does not exist.
    #[error("Operation {operation} failed for role '{role}': there is no such role; CREATE ROLE it first")]
    NoRole {
        /// Words of the statement.
        operation: &'static str,
        /// The role.
        role: String,
    },
    /// A user or role that must stay as it is.
    #[error("Operation {operation} failed for {what}: it is always there, with all it may do")]
    Fixed {
        /// Words of the statement.
        operation: &'static str,
        /// The user or role.
        what: String,
    },
    /// A name that cannot be stored.
    #[error("{what} '{name}' is not allowed: {reason}")]
    InvalidName {
        /// `user name`, `host` or `role name`.
        what: &'static str,
        /// The name, cut after 64 characters.
        name: String,
        /// The rule it breaks.
        reason: &'static str,
    },
    /// The database or table that a grant names was dropped meanwhile.
    #[error("what the grant is about was dropped meanwhile; repeat the statement")]
    ObjectGone,
    /// A limit was exceeded.
    #[error("no more than {limit} {what} can be kept")]
    TooMany {
        /// The things that are counted.
        what: &'static str,
        /// Most of them.
        limit: usize,
    },
}

fn on(scope: Option<&Scope>) -> &'static str {
    match scope {
        None => "",
        Some(Scope::Global) => " on *.*",
        Some(Scope::Catalog(_)) => " on this catalog",
        Some(Scope::Database(_) | Scope::External { table: None, .. }) => " on this database",
        Some(Scope::Table(_) | Scope::External { table: Some(_), .. }) => " on this table",
    }
}

impl Accounts {
    /// Applies one change; returns true if anything differs afterwards. `exists` returns whether a database or table
    /// has an id.
    ///
    /// # Errors
    /// The [`AccessError`] that says why the change does not fit. The change may then be half applied, so callers work
    /// on a clone.
    pub fn apply(&mut self, change: &AccessChange, exists: impl Fn(TableId) -> bool) -> Result<bool, AccessError> {
        match change {
            AccessChange::CreateUser { id, name, host, password, policy, roles, comment, if_not_exists, at_ms } => {
                check_name("user name", name)?;
                check_host(host)?;
                if self.user(name, host).is_some() {
                    if *if_not_exists {
                        return Ok(false);
                    }
                    return Err(AccessError::UserExists { user: account(name, host) });
                }
                if self.users.len() >= ACCOUNTS_MAX {
                    return Err(AccessError::TooMany { what: "users", limit: ACCOUNTS_MAX });
                }
                roles.iter().try_for_each(|role| self.need_role("CREATE USER", role))?;
                let mut kept = PasswordPolicy { changed_ms: *at_ms, ..PasswordPolicy::default() };
                kept.change(policy, *at_ms)?;
                let user = User {
                    id: *id,
                    name: name.clone(),
                    host: host.clone(),
                    password: password.clone(),
                    policy: kept,
                    roles: roles.clone(),
                    grants: Grants::default(),
                    comment: comment.clone(),
                };
                self.users.insert((name.clone(), host.clone()), Arc::new(user));
                Ok(true)
            }
            AccessChange::AlterUser { name, host, password, policy, comment, if_exists, at_ms } => {
                if *if_exists && self.user(name, host).is_none() {
                    return Ok(false);
                }
                let user = self.user_mut("ALTER USER", name, host)?;
                let before = user.clone();
                if let Some(password) = password {
                    if !user.policy.replace(&user.password, password, *at_ms) {
                        return Err(AccessError::FormerPassword { user: account(name, host) });
                    }
                    user.password = password.clone();
                }
                if !policy.is_empty() {
                    user.policy.change(policy, *at_ms)?;
                }
                if let Some(comment) = comment {
                    user.comment = Some(comment.clone()).filter(|c| !c.is_empty());
                }
                Ok(*user != before)
            }
            AccessChange::DropUser { name, host, if_exists } => {
                if [ROOT, ADMIN].contains(&name.as_str()) && host == ANY_HOST {
                    return Err(AccessError::Fixed { operation: "DROP USER", what: account(name, host) });
                }
                match self.users.remove(&(name.clone(), host.clone())) {
                    None if *if_exists => return Ok(false),
                    None => return Err(AccessError::NoUser { operation: "DROP USER", user: account(name, host) }),
                    Some(_) => {}
                }
                if !self.has_name(name) {
                    self.properties.remove(name);
                }
                Ok(true)
            }
            AccessChange::RenameUser { name, host, to_name, to_host } => {
                if [ROOT, ADMIN].contains(&name.as_str()) && host == ANY_HOST {
                    return Err(AccessError::Fixed { operation: "RENAME USER", what: account(name, host) });
                }
                check_name("user name", to_name)?;
                check_host(to_host)?;
                let Some(user) = self.users.get(&(name.clone(), host.clone())) else {
                    return Err(AccessError::NoUser { operation: "RENAME USER", user: account(name, host) });
                };
                if self.user(to_name, to_host).is_some() {
                    return Err(AccessError::UserInTheWay { user: account(name, host), to: account(to_name, to_host) });
                }
                let mut user = Arc::clone(user);
                self.users.remove(&(name.clone(), host.clone()));
                // Properties are those of all accounts of a name.
                if !self.has_name(name)
                    && let Some(properties) = self.properties.remove(name)
                    && !self.has_name(to_name)
                {
                    self.properties.insert(to_name.clone(), properties);
                }
                let renamed = Arc::make_mut(&mut user);
                (renamed.name, renamed.host) = (to_name.clone(), to_host.clone());
                self.users.insert((to_name.clone(), to_host.clone()), user);
                Ok(true)
            }
            AccessChange::CreateRole { name, comment, if_not_exists } => {
                check_name("role name", name)?;
                if self.roles.contains_key(name) {
                    return if *if_not_exists {
                        Ok(false)
                    } else {
                        Err(AccessError::RoleExists { role: name.clone() })
                    };
                }
                if self.roles.len() >= ACCOUNTS_MAX {
                    return Err(AccessError::TooMany { what: "roles", limit: ACCOUNTS_MAX });
                }
                let role = Role { name: name.clone(), grants: Grants::default(), comment: comment.clone() };
                self.roles.insert(name.clone(), Arc::new(role));
                Ok(true)
            }
            AccessChange::AlterRole { name, comment } => {
                let role = self.role_mut("ALTER ROLE", name)?;
                let comment = Some(comment.clone()).filter(|c| !c.is_empty());
                let changed = role.comment != comment;
                role.comment = comment;
                Ok(changed)
            }
            AccessChange::DropRole { name, if_exists } => {
                if is_fixed_role(name) {
                    return Err(AccessError::Fixed { operation: "DROP ROLE", what: format!("role '{name}'") });
                }
                if self.roles.remove(name).is_none() {
                    return if *if_exists {
                        Ok(false)
                    } else {
                        Err(AccessError::NoRole { operation: "DROP ROLE", role: name.clone() })
                    };
                }
                for user in self.users.values_mut().filter(|u| u.roles.contains(name)) {
                    Arc::make_mut(user).roles.remove(name);
                }
                Ok(true)
            }
            AccessChange::Grant { to, scope, privileges } => {
                if let Scope::Database(id) | Scope::Table(id) = scope
                    && !exists(*id)
                {
                    return Err(AccessError::ObjectGone);
                }
                let grants = match to {
                    Grantee::User { name, host } => match self.user_mut("GRANT", name, host) {
                        Ok(user) => &mut user.grants,
                        Err(_) => return Err(AccessError::GrantToNobody { user: account(name, host) }),
                    },
                    Grantee::Role(name) => &mut self.role_mut("GRANT", name)?.grants,
                };
                if privileges.is_empty() {
                    return Ok(false);
                }
                let set = grants.0.entry(scope.clone()).or_default();
                let before = *set;
                *set |= *privileges;
                Ok(*set != before)
            }
            AccessChange::Revoke { from, scope, privileges } => {
                let fixed = || AccessError::Fixed { operation: "REVOKE", what: from.to_string() };
                let grants = match from {
                    Grantee::User { name, host } => {
                        if name == ROOT && host == ANY_HOST {
                            return Err(fixed());
                        }
                        &mut self.user_mut("REVOKE", name, host)?.grants
                    }
                    Grantee::Role(name) if is_fixed_role(name) => return Err(fixed()),
                    Grantee::Role(name) => &mut self.role_mut("REVOKE", name)?.grants,
                };
                let before = grants.clone();
                match scope {
                    None => grants.0.values_mut().for_each(|set| *set = *set - *privileges),
                    Some(scope) => match grants.0.get_mut(scope) {
                        None => return Err(AccessError::NoGrant { grantee: from.clone(), scope: Some(scope.clone()) }),
                        Some(set) => *set = *set - *privileges,
                    },
                }
                grants.0.retain(|_, set| !set.is_empty());
                Ok(*grants != before)
            }
            AccessChange::GrantRole { role, name, host } => {
                self.need_role("GRANT", role)?;
                match self.user_mut("GRANT", name, host) {
                    Ok(user) => Ok(user.roles.insert(role.clone())),
                    Err(_) => Err(AccessError::GrantToNobody { user: account(name, host) }),
                }
            }
            AccessChange::RevokeRole { role, name, host } => {
                self.need_role("REVOKE", role)?;
                let user = self.user_mut("REVOKE", name, host)?;
                if user.name == ROOT && user.host == ANY_HOST {
                    return Err(AccessError::Fixed { operation: "REVOKE", what: user.to_string() });
                }
                Ok(user.roles.remove(role))
            }
            AccessChange::SetProperties { user, properties } => {
                if !self.has_name(user) {
                    let user = format!("'{user}'");
                    return Err(AccessError::NoUser { operation: "SET PROPERTY", user });
                }
                let kept = self.properties.entry(user.clone()).or_default();
                let changed = crate::catalog::change::merge(kept, properties);
                if kept.len() > PROPERTIES_MAX {
                    return Err(AccessError::TooMany { what: "properties of a user", limit: PROPERTIES_MAX });
                }
                if kept.is_empty() {
                    self.properties.remove(user);
                }
                Ok(changed)
            }
        }
    }

    /// Forgets grants on databases or tables that are gone. `heir` takes them over, for CREATE OR REPLACE.
    pub(in crate::catalog) fn forget(&mut self, gone: &[TableId], heir: Option<TableId>) {
        let of = |scope: &Scope| match scope {
            Scope::Database(id) | Scope::Table(id) => gone.contains(id),
            Scope::Global | Scope::Catalog(_) | Scope::External { .. } => false,
        };
        let pass_on = |grants: &mut Grants| {
            let lost: Vec<Privileges> = grants.0.extract_if(.., |scope, _| of(scope)).map(|(_, set)| set).collect();
            if let Some(heir) = heir {
                grants.0.extend(lost.into_iter().map(|set| (Scope::Table(heir), set)));
            }
        };
        for user in self.users.values_mut().filter(|u| u.grants.0.keys().any(of)) {
            pass_on(&mut Arc::make_mut(user).grants);
        }
        for role in self.roles.values_mut().filter(|r| r.grants.0.keys().any(of)) {
            pass_on(&mut Arc::make_mut(role).grants);
        }
    }

    /// Returns whether anything was granted on one of these.
    pub(in crate::catalog) fn name_any(&self, ids: &[TableId]) -> bool {
        let of = |grants: &Grants| {
            grants.0.keys().any(|s| matches!(s, Scope::Database(id) | Scope::Table(id) if ids.contains(id)))
        };
        self.users.values().any(|u| of(&u.grants)) || self.roles.values().any(|r| of(&r.grants))
    }

    fn user_mut(&mut self, operation: &'static str, name: &str, host: &str) -> Result<&mut User, AccessError> {
        match self.users.get_mut(&(name.to_string(), host.to_string())) {
            Some(user) => Ok(Arc::make_mut(user)),
            None => Err(AccessError::NoUser { operation, user: account(name, host) }),
        }
    }

    fn role_mut(&mut self, operation: &'static str, name: &str) -> Result<&mut Role, AccessError> {
        match self.roles.get_mut(name) {
            Some(role) => Ok(Arc::make_mut(role)),
            None => Err(AccessError::NoRole { operation, role: name.to_string() }),
        }
    }

    fn need_role(&self, operation: &'static str, name: &str) -> Result<(), AccessError> {
        match self.roles.contains_key(name) {
            true => Ok(()),
            false => Err(AccessError::NoRole { operation, role: name.to_string() }),
        }
    }
}

fn is_fixed_role(name: &str) -> bool {
    [OPERATOR_ROLE, ADMIN_ROLE].contains(&name)
}

fn check_name(what: &'static str, name: &str) -> Result<(), AccessError> {
    let reason = if name.is_empty() {
        "it is empty"
    } else if name.chars().count() > NAME_CHARS_MAX {
        "it has more than 128 characters"
    } else if name.chars().any(char::is_control) {
        "it contains a control character"
    } else {
        return Ok(());
    };
    Err(AccessError::InvalidName { what, name: name.chars().take(64).collect(), reason })
}

fn check_host(host: &str) -> Result<(), AccessError> {
    check_name("host", host)?;
    let reason = if host.bytes().filter(|b| *b == b'%').count() > WILDCARDS_MAX {
        "it has more than 4 wildcards (%)"
    } else if host.eq_ignore_ascii_case("localhost")
        || host.bytes().all(|b| b.is_ascii_hexdigit() || matches!(b, b'%' | b'_' | b'.' | b':'))
    {
        return Ok(());
    } else {
        "expected 'localhost', an address, or a pattern of addresses such as '10.%'; host names are not looked up"
    };
    Err(AccessError::InvalidName { what: "host", name: host.chars().take(64).collect(), reason })
}
