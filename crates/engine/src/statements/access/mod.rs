//! Statements about users, roles, grants and properties of users.

mod names;
mod show;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dipper_base::names::DEFAULT_DATABASE;
use dipper_dialect::statement::{
    AccessStatement, DefineUser, Grant, GrantOn, Granted, GranteeName, Identified, Name, Properties, SecretText,
    UserName,
};
use dipper_store::catalog::access::{
    AccessChange, AccessError, Accounts, Grantee, Password, PolicyChange, Privileges, ROOT, Rights, Scope, User,
    account,
};
use dipper_store::catalog::{CatalogChange, CatalogError, CatalogState, TableId};

use names::property_warning;

pub(super) use show::{all_grants, authentication, create_user, grants, properties, role_grants, roles};

use super::catalogs::now_ms;
use super::{WARNING, qualified};
use crate::access::{self, Object};
use crate::catalogs::{self, Place};
use crate::error::{EngineError, ErrorKind, Result};
use crate::result::Outcome;
use crate::session::Session;

/// `ER_WRONG_USAGE`.
const WRONG_USAGE: u16 = 1221;

/// Runs a statement about users, roles or grants.
pub(super) async fn run(session: &mut Session, statement: &AccessStatement) -> Result<Outcome> {
    let state = session.engine.catalog.refresh().await?;
    let actor = Actor { rights: session.rights(&state)?, state: Arc::clone(&state) };
    let changes = match statement {
        AccessStatement::CreateUser(define) => create_users(session, &actor, define)?,
        AccessStatement::AlterUser(define) => alter_users(session, &actor, define)?,
        AccessStatement::DropUser { users, if_exists } => {
            let mut changes = Vec::new();
            for user in users {
                let (name, host) = actor.resolve(session, user);
                actor.may_manage(&name, &host)?;
                changes.push(AccessChange::DropUser { name, host, if_exists: *if_exists });
            }
            changes
        }
        AccessStatement::RenameUser(pairs) => {
            actor.need(Privileges::CREATE_USER)?;
            let mut changes = Vec::new();
            for (from, to) in pairs {
                let ((name, host), (to_name, to_host)) = (actor.resolve(session, from), actor.resolve(session, to));
                actor.may_manage(&name, &host)?;
                changes.push(AccessChange::RenameUser { name, host, to_name, to_host });
            }
            changes
        }
        AccessStatement::CreateRole { names, if_not_exists, comment } => {
            actor.need(Privileges::CREATE_USER)?;
            let create = |name: &String| AccessChange::CreateRole {
                name: name.clone(),
                comment: comment.clone(),
                if_not_exists: *if_not_exists,
            };
            names.iter().map(create).collect()
        }
        AccessStatement::AlterRole { name, comment } => {
            actor.need(Privileges::CREATE_USER)?;
            vec![AccessChange::AlterRole { name: name.clone(), comment: comment.clone() }]
        }
        AccessStatement::DropRole { names, if_exists } => {
            actor.need(Privileges::CREATE_USER)?;
            for name in names.iter().filter(|name| state.accounts.role(name).is_some()) {
                actor.may_grant_role("DROP ROLE", name)?;
            }
            names.iter().map(|name| AccessChange::DropRole { name: name.clone(), if_exists: *if_exists }).collect()
        }
        AccessStatement::Grant(grant) => return change_grants(session, actor, grant, true).await,
        AccessStatement::Revoke(grant) => return change_grants(session, actor, grant, false).await,
        AccessStatement::SetProperty { user, properties } => {
            let user = user.clone().unwrap_or_else(|| session.client.user.clone());
            set_properties(session, &actor, &user, properties)?.into_iter().collect()
        }
    };
    let after = commit(session, changes).await?;
    if let AccessStatement::CreateUser(define) | AccessStatement::AlterUser(define) = statement
        && (define.policy.failed_logins.is_some() || define.policy.lock_seconds.is_some())
    {
        for (user, _) in &define.users {
            let (name, host) = actor.resolve(session, user);
            let policy = after.accounts.user(&name, &host).map(|user| &user.policy);
            if policy.is_some_and(|p| p.locks().is_none() && (p.failed_logins > 0 || p.lock_seconds > 0)) {
                let message = "FAILED_LOGIN_ATTEMPTS and PASSWORD_LOCK_TIME lock nothing without each other";
                session.warn(WARNING, format!("{}: {message}", account(&name, &host)));
            }
        }
    }
    Ok(Outcome::ok())
}

async fn commit(session: &Session, changes: Vec<AccessChange>) -> Result<Arc<CatalogState>> {
    Ok(session.engine.catalog.commit(changes.into_iter().map(CatalogChange::Access).collect()).await?)
}

/// The rights of the user who runs the statement, and the state of the catalog against which they are checked.
struct Actor {
    rights: Arc<Rights>,
    state: Arc<CatalogState>,
}

impl Actor {
    fn accounts(&self) -> &Accounts {
        &self.state.accounts
    }

    fn need(&self, privileges: Privileges) -> Result<()> {
        access::check(&self.rights, &self.state, privileges, &Object::All)
    }

    /// Returns the name and the host pattern of an account. The pattern is `%` if none is written; CURRENT_USER() is
    /// the account of the session.
    fn resolve(&self, session: &Session, user: &UserName) -> (String, String) {
        names::resolve(session, &self.rights, user)
    }

    /// Checks whether an account may be created, changed or dropped. A user needs every privilege that the account has,
    /// so that nobody gains privileges by taking an account over.
    ///
    /// # Errors
    /// `Denied` (1227).
    fn may_manage(&self, name: &str, host: &str) -> Result<()> {
        match self.accounts().user(name, host) {
            Some(user) => self.may_manage_user(user),
            None => self.need(Privileges::CREATE_USER),
        }
    }

    fn may_manage_user(&self, user: &Arc<User>) -> Result<()> {
        self.need(Privileges::CREATE_USER)?;
        let theirs = Rights::of(self.accounts(), user).on_all();
        if user.name == ROOT && self.rights.user().name != ROOT {
            return Err(EngineError::new(ErrorKind::Denied, "Access denied; only root changes root"));
        }
        // ADMIN_PRIV is checked first, so that the error does not list everything that ADMIN_PRIV includes.
        self.need(theirs & Privileges::ADMIN)?;
        self.need(theirs)
    }

    /// Checks whether a property may be set that applies to all accounts of this name.
    fn may_manage_name(&self, name: &str) -> Result<()> {
        self.need(Privileges::CREATE_USER)?;
        self.accounts().users().filter(|u| u.name == name).try_for_each(|u| self.may_manage_user(u))
    }

    /// Checks whether these privileges may be granted: a user needs the privileges themselves and GRANT.
    fn may_grant(&self, scope: &Scope, privileges: Privileges) -> Result<()> {
        let object = match scope {
            Scope::Global => Object::All,
            Scope::Catalog(name) => Object::Catalog(name.clone()),
            Scope::External { catalog, database, table } => {
                Object::External(catalog.clone(), database.clone(), table.clone())
            }
            Scope::Database(id) => Object::Database(self.database_name(*id).unwrap_or_default().to_string()),
            Scope::Table(id) => match self.state.table_by_id(*id) {
                Some((database, table)) => Object::Table(database.name.clone(), table.name.clone()),
                None => Object::All,
            },
        };
        access::check(&self.rights, &self.state, privileges | Privileges::GRANT, &object)
    }

    fn database_name(&self, id: TableId) -> Option<&str> {
        self.state.databases.values().find(|d| d.id == id).map(|d| d.name.as_str())
    }

    /// Checks whether a role may be granted and revoked, which needs the right to grant each of its privileges.
    /// `operation` is the statement for the error.
    fn may_grant_role(&self, operation: &'static str, role: &str) -> Result<()> {
        let Some(role) = self.accounts().role(role) else {
            return Err(CatalogError::from(AccessError::NoRole { operation, role: role.to_string() }).into());
        };
        self.need(Privileges::GRANT)?;
        role.grants.iter().try_for_each(|(scope, privileges)| self.may_grant(scope, privileges))
    }
}

/// Converts a password, or its hash, to the form that is stored.
pub(super) fn password(text: &SecretText, plain: bool) -> Result<Password> {
    if plain {
        return Ok(Password::from_plain(text.expose()));
    }
    Password::from_native_hash(text.expose()).ok_or_else(|| EngineError {
        code: 1372,
        ..EngineError::invalid(
            "Password hash should be a 41-digit hexadecimal number ('*' and 40 digits); to give the password itself say PASSWORD('...'), or IDENTIFIED BY '...'",
        )
    })
}

fn identified(by: &Identified) -> Result<Password> {
    match by {
        Identified::By(text) => password(text, true),
        Identified::ByHash(text) => password(text, false),
    }
}

fn create_users(session: &mut Session, actor: &Actor, define: &DefineUser) -> Result<Vec<AccessChange>> {
    actor.need(Privileges::CREATE_USER)?;
    for role in &define.roles {
        actor.may_grant_role("CREATE USER", role)?;
    }
    let mut changes = Vec::new();
    for (user, by) in &define.users {
        let (name, host) = actor.resolve(session, user);
        changes.push(AccessChange::CreateUser {
            id: TableId::fresh(),
            name: name.clone(),
            host,
            password: by.as_ref().map_or(Ok(Password::Empty), identified)?,
            policy: define.policy.clone(),
            roles: define.roles.iter().cloned().collect::<BTreeSet<_>>(),
            comment: define.comment.clone(),
            if_not_exists: define.if_exists,
            at_ms: now_ms(),
        });
        changes.extend(set_properties(session, actor, &name, &define.properties)?);
    }
    Ok(changes)
}

/// Returns the change that sets properties for all accounts of a name; `None` if there are no properties.
fn set_properties(
    session: &mut Session,
    actor: &Actor,
    user: &str,
    properties: &Properties,
) -> Result<Option<AccessChange>> {
    if properties.is_empty() {
        return Ok(None);
    }
    for (key, value) in properties {
        if let Some(warning) = property_warning(key, value)? {
            session.warn(WARNING, warning);
        }
    }
    actor.may_manage_name(user)?;
    let properties: BTreeMap<_, _> =
        properties.iter().map(|(key, value)| (key.to_lowercase(), Some(value.clone()))).collect();
    Ok(Some(AccessChange::SetProperties { user: user.to_string(), properties }))
}

fn alter_users(session: &mut Session, actor: &Actor, define: &DefineUser) -> Result<Vec<AccessChange>> {
    let mut changes = Vec::new();
    for (user, by) in &define.users {
        let (name, host) = actor.resolve(session, user);
        let own = actor.rights.user();
        let only_password = define.roles.is_empty()
            && define.properties.is_empty()
            && define.policy.is_empty()
            && define.comment.is_none();
        // Every user may change its own password.
        if !(only_password && own.name == name && own.host == host) {
            actor.may_manage(&name, &host)?;
        }
        for role in &define.roles {
            actor.may_grant_role("ALTER USER", role)?;
            changes.push(AccessChange::GrantRole { role: role.clone(), name: name.clone(), host: host.clone() });
        }
        changes.extend(set_properties(session, actor, &name, &define.properties)?);
        changes.push(AccessChange::AlterUser {
            name,
            host,
            password: by.as_ref().map(identified).transpose()?,
            policy: define.policy.clone(),
            comment: define.comment.clone(),
            if_exists: define.if_exists,
            at_ms: now_ms(),
        });
    }
    Ok(changes)
}

/// Returns the change that SET PASSWORD makes.
pub(super) fn set_password(
    session: &Session,
    user: Option<&UserName>,
    text: &SecretText,
    plain: bool,
) -> Result<CatalogChange> {
    let state = session.engine.catalog.snapshot();
    let actor = Actor { rights: session.rights(&state)?, state };
    let (name, host) = actor.resolve(session, user.unwrap_or(&UserName::Current));
    let own = actor.rights.user();
    if own.name != name || own.host != host {
        actor.may_manage(&name, &host)?;
    }
    let password = Some(password(text, plain)?);
    Ok(CatalogChange::Access(AccessChange::AlterUser {
        name,
        host,
        password,
        policy: PolicyChange::default(),
        comment: None,
        if_exists: false,
        at_ms: now_ms(),
    }))
}

/// Resolves the object of a GRANT or REVOKE to ids.
async fn scope(session: &Session, actor: &mut Actor, on: &GrantOn) -> Result<Scope> {
    let database = match on {
        GrantOn::Everything => return Ok(Scope::Global),
        GrantOn::Catalog(name) => return Ok(Scope::Catalog(name.clone())),
        GrantOn::Table(name) => {
            if let Some((catalog, database)) = external(session, &actor.state, name)? {
                return Ok(Scope::External { catalog, database, table: Some(name.object().to_string()) });
            }
            let (database, table) = qualified(session, name)?;
            let Some(found) = actor.state.table(&database, &table) else {
                let e = EngineError::from(actor.state.no_table(&database, &table));
                let message = format!("{}; privileges are bound to what is there, make it first", e.message);
                return Err(EngineError { message, ..e });
            };
            return Ok(Scope::Table(found.id));
        }
        GrantOn::SelectedDatabase => match session.database() {
            Some(database) => {
                if let Some(catalog) = session.catalog.clone() {
                    return Ok(Scope::External { catalog, database: database.to_string(), table: None });
                }
                database.to_string()
            }
            None => {
                return Err(EngineError::new(
                    ErrorKind::NoDatabaseSelected,
                    "No database selected; say USE database, or name it: database.*",
                ));
            }
        },
        // The catalog of a database is written before it, at the same place of the name as with a table.
        GrantOn::Database(name) => {
            let anything = Name([&name.0[..], &[String::new()]].concat());
            if let Some((catalog, database)) = external(session, &actor.state, &anything)? {
                return Ok(Scope::External { catalog, database, table: None });
            }
            qualified(session, &anything)?.0
        }
    };
    if database == DEFAULT_DATABASE && actor.state.database(DEFAULT_DATABASE).is_none() {
        // The database `default` always exists for users, but has no id before it is created.
        let made = vec![CatalogChange::create_database(DEFAULT_DATABASE, true)];
        actor.state = session.engine.catalog.commit(made).await?;
    }
    match actor.state.database(&database) {
        Some(found) => Ok(Scope::Database(found.id)),
        None if crate::info_schema::is_virtual(&actor.state, &database) => Err(EngineError::invalid(format!(
            "everybody may read '{database}', and sees in it what else it may see: nothing is granted on it"
        ))),
        None => {
            let e = EngineError::from(actor.state.no_database(&database));
            let message = format!("{}; privileges are bound to what is there, make it first", e.message);
            Err(EngineError { message, ..e })
        }
    }
}

/// Returns the external catalog and the database of a name; `None` for names in dipper's own catalog. Privileges on
/// external objects are bound to names; whether the objects exist is not checked.
fn external(session: &Session, state: &CatalogState, name: &Name) -> Result<Option<(String, String)>> {
    match catalogs::place(state, session.catalog.as_deref(), session.database(), name)? {
        Place::Internal { .. } => Ok(None),
        Place::External { database: None, .. } => Err(catalogs::no_database_selected(name)),
        Place::External { catalog, database: Some(database) } => Ok(Some((catalog.name.clone(), database))),
    }
}

async fn change_grants(session: &mut Session, mut actor: Actor, grant: &Grant, gives: bool) -> Result<Outcome> {
    let mut changes = Vec::new();
    match &grant.what {
        Granted::Roles(roles) => {
            for role in roles {
                actor.may_grant_role(if gives { "GRANT" } else { "REVOKE" }, role)?;
                for grantee in &grant.grantees {
                    let Grantee::User { name, host } = self::grantee(session, &actor, grantee) else {
                        return Err(EngineError::unsupported("a role is granted to users, not to another role"));
                    };
                    let role = role.clone();
                    changes.push(match gives {
                        true => AccessChange::GrantRole { role, name, host },
                        false => AccessChange::RevokeRole { role, name, host },
                    });
                }
            }
        }
        Granted::Everything => {
            for grantee in &grant.grantees {
                let from = self::grantee(session, &actor, grantee);
                if let Grantee::User { name, host } = &from {
                    actor.may_manage(name, host)?;
                    let roles = actor.accounts().user(name, host).map(|u| u.roles.clone()).unwrap_or_default();
                    changes.extend(roles.into_iter().map(|role| AccessChange::RevokeRole {
                        role,
                        name: name.clone(),
                        host: host.clone(),
                    }));
                }
                actor.may_grant(&Scope::Global, Privileges::ALL)?;
                changes.push(AccessChange::Revoke { from, scope: None, privileges: Privileges::EVERYTHING });
            }
        }
        Granted::Privileges { privileges, all, inert, on } => {
            let scope = scope(session, &mut actor, on).await?;
            let global = scope == Scope::Global;
            let mut set = *privileges;
            if *all {
                set |= if global { Privileges::ALL } else { Privileges::OBJECT };
            }
            let misplaced = set - (Privileges::OBJECT | Privileges::GRANT);
            if !global && !misplaced.is_empty() {
                return Err(EngineError {
                    code: WRONG_USAGE,
                    ..EngineError::invalid(format!(
                        "Incorrect usage of {} and {}: such privileges are about everything, ON *.*",
                        if gives { "GRANT" } else { "REVOKE" },
                        names::list(misplaced),
                    ))
                });
            }
            actor.may_grant(&scope, set)?;
            for name in inert {
                session.warn(WARNING, format!("{name} guards nothing here, and is not kept"));
            }
            if set.contains(Privileges::NODE) && !*all {
                session.note(WARNING, "NODE_PRIV is kept, but there is no statement that changes nodes".to_string());
            }
            for grantee in &grant.grantees {
                let who = self::grantee(session, &actor, grantee);
                let (scope, privileges) = (scope.clone(), set);
                if let (false, Grantee::User { name, host }) = (gives, &who) {
                    // Only administrators may take anything from an administrator.
                    if let Some(user) = actor.accounts().user(name, host)
                        && Rights::of(actor.accounts(), user).on_all().contains(Privileges::ADMIN)
                    {
                        actor.need(Privileges::ADMIN)?;
                    }
                }
                changes.push(match gives {
                    true => AccessChange::Grant { to: who, scope, privileges },
                    false => AccessChange::Revoke { from: who, scope: Some(scope), privileges },
                });
            }
        }
    }
    commit(session, changes).await?;
    Ok(Outcome::ok())
}

/// Resolves a grantee: a user, or a role if no user of the name exists and no host was written.
fn grantee(session: &Session, actor: &Actor, written: &GranteeName) -> Grantee {
    match written {
        GranteeName::Role(name) => Grantee::Role(name.clone()),
        GranteeName::User(user) => {
            let (name, host) = actor.resolve(session, user);
            let hostless = matches!(user, UserName::Named { host: None, .. });
            match hostless && actor.accounts().user(&name, &host).is_none() && actor.accounts().role(&name).is_some() {
                true => Grantee::Role(name),
                false => Grantee::User { name, host },
            }
        }
    }
}
