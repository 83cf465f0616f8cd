//! SHOW GRANTS, SHOW ROLES, SHOW CREATE USER, SHOW PROPERTY.

use std::collections::BTreeMap;
use std::sync::Arc;

use dipper_dialect::statement::UserName;
use dipper_lake::sheet::{Cell, Sheet};
use dipper_store::catalog::CatalogState;
use dipper_store::catalog::access::{Grants, Password, Privileges, Rights, Scope, UNBOUNDED, User, account};

use super::names::{self, PROPERTIES, on_text};
use dipper_exec::quota::MAX_USER_CONNECTIONS;

use crate::access::{self, BEHIND_WITH, Object, connections_max};
use crate::error::{EngineError, Result};
use crate::session::Session;

async fn known(session: &Session) -> Result<(Arc<CatalogState>, Arc<Rights>)> {
    let state = session.engine.catalog.refresh().await?;
    let rights = session.rights(&state)?;
    Ok((state, rights))
}

/// Refuses users who cannot change the rights of others: only those who can may see them.
fn may_look(rights: &Rights) -> Result<()> {
    match rights.on_all().intersects(Privileges::CREATE_USER | Privileges::GRANT) {
        true => Ok(()),
        false => Err(access::denied(rights, "CREATE USER", &Object::All)),
    }
}

/// Returns the account that is meant. Every user may see its own account.
fn user(session: &Session, state: &CatalogState, rights: &Rights, written: Option<&UserName>) -> Result<Arc<User>> {
    let (name, host) = names::resolve(session, rights, written.unwrap_or(&UserName::Current));
    let own = rights.user();
    if own.name != name || own.host != host {
        may_look(rights)?;
    }
    state.accounts.user(&name, &host).cloned().ok_or_else(|| EngineError {
        code: 1141,
        sqlstate: "42000",
        ..EngineError::invalid(format!("There is no such grant defined for user '{name}' on host '{host}'"))
    })
}

fn statements(state: &CatalogState, grants: &Grants, to: &str) -> Vec<String> {
    let mut out = Vec::new();
    // As in MySQL, the first line is about all objects, even if nothing is granted on them.
    if grants.on(&Scope::Global).is_empty() {
        out.push(names::statement("*.*", Privileges::NONE, to));
    }
    for (scope, privileges) in grants.iter() {
        out.extend(on_text(state, scope).map(|on| names::statement(&on, privileges, to)));
    }
    out
}

pub(in crate::statements) async fn grants(session: &Session, written: Option<&UserName>) -> Result<Sheet> {
    let (state, rights) = known(session).await?;
    let user = user(session, &state, &rights, written)?;
    let mut sheet = Sheet::texts(&[""]).rename(0, format!("Grants for {}@{}", user.name, user.host));
    for statement in statements(&state, &user.grants, &user.to_string()) {
        sheet.push([statement.into()]);
    }
    for role in &user.roles {
        sheet.push([format!("GRANT '{}' TO {user}", role.replace('\'', "\\'")).into()]);
    }
    Ok(sheet)
}

pub(in crate::statements) async fn role_grants(session: &Session, role: &str) -> Result<Sheet> {
    let (state, rights) = known(session).await?;
    if !rights.user().roles.contains(role) {
        may_look(&rights)?;
    }
    let Some(found) = state.accounts.role(role) else {
        return Err(EngineError {
            code: 1141,
            sqlstate: "42000",
            ..EngineError::invalid(format!("There is no such grant defined for role '{role}'"))
        });
    };
    let mut sheet = Sheet::texts(&[""]).rename(0, format!("Grants for role {role}"));
    for statement in statements(&state, &found.grants, &format!("ROLE '{role}'")) {
        sheet.push([statement.into()]);
    }
    Ok(sheet)
}

/// Lists grants in the columns of Doris: on everything, on catalogs, on databases, on tables.
fn privilege_cells(state: &CatalogState, grants: &[&Grants]) -> [Cell; 4] {
    let mut texts: [Vec<String>; 4] = Default::default();
    let mut all: BTreeMap<&Scope, Privileges> = BTreeMap::new();
    for (scope, privileges) in grants.iter().flat_map(|g| g.iter()) {
        *all.entry(scope).or_default() |= privileges;
    }
    for (scope, privileges) in all {
        let at = match scope {
            Scope::Global => 0,
            Scope::Catalog(_) => 1,
            Scope::Database(_) | Scope::External { table: None, .. } => 2,
            Scope::Table(_) | Scope::External { table: Some(_), .. } => 3,
        };
        let Some(on) = on_text(state, scope) else { continue };
        let names = names::list(privileges);
        texts[at].push(if at == 0 { names } else { format!("{}: {names}", on.replace('`', "")) });
    }
    texts.map(|t| if t.is_empty() { Cell::Null } else { t.join("; ").into() })
}

/// Lists every account with all its privileges, including those of its roles, in the columns of Doris.
pub(in crate::statements) async fn all_grants(session: &Session) -> Result<Sheet> {
    let (state, rights) = known(session).await?;
    may_look(&rights)?;
    let mut sheet = Sheet::texts(&[
        "UserIdentity",
        "Comment",
        "Password",
        "Roles",
        "GlobalPrivs",
        "CatalogPrivs",
        "DatabasePrivs",
        "TablePrivs",
    ]);
    for user in state.accounts.users() {
        let roles = user.roles.iter().filter_map(|r| state.accounts.role(r)).map(|r| &r.grants);
        let grants: Vec<&Grants> = roles.chain([&user.grants]).collect();
        let password = match user.password {
            Password::Hashed { .. } | Password::Startup => "Yes",
            Password::Empty => "No",
        };
        let mut row: Vec<Cell> = vec![user.to_string().into(), user.comment.clone().into(), password.into()];
        row.push(user.roles.iter().cloned().collect::<Vec<_>>().join(",").into());
        row.extend(privilege_cells(&state, &grants));
        sheet.push_row(row);
    }
    Ok(sheet)
}

/// Lists how accounts authenticate, in the columns of StarRocks: one account, or all.
pub(in crate::statements) async fn authentication(
    session: &Session,
    written: Option<&UserName>,
    all: bool,
) -> Result<Sheet> {
    let (state, rights) = known(session).await?;
    let users: Vec<Arc<User>> = match all {
        true => {
            may_look(&rights)?;
            state.accounts.users().cloned().collect()
        }
        false => vec![user(session, &state, &rights, written)?],
    };
    let mut sheet = Sheet::texts(&["UserIdentity", "Password", "AuthPlugin", "UserForAuthPlugin"]);
    for user in users {
        // The client chooses the method of authentication; no other server takes part in it.
        let password = if user.password == Password::Empty { "No" } else { "Yes" };
        sheet.push([user.to_string().into(), password.into(), Cell::Null, Cell::Null]);
    }
    Ok(sheet)
}

/// Lists roles in the columns of Doris: all roles for users who may see the rights of others, else the user's own.
pub(in crate::statements) async fn roles(session: &Session) -> Result<Sheet> {
    let (state, rights) = known(session).await?;
    let all = may_look(&rights).is_ok();
    let mut sheet =
        Sheet::texts(&["Name", "Comment", "Users", "GlobalPrivs", "CatalogPrivs", "DatabasePrivs", "TablePrivs"]);
    for role in state.accounts.roles().filter(|r| all || rights.user().roles.contains(&r.name)) {
        let has = |u: &&Arc<User>| u.roles.contains(&role.name) && (all || u.id == rights.user().id);
        let users: Vec<String> = state.accounts.users().filter(has).map(|u| u.to_string()).collect();
        let mut row: Vec<Cell> = vec![(&role.name).into(), role.comment.clone().into(), users.join(", ").into()];
        row.extend(privilege_cells(&state, &[&role.grants]));
        sheet.push_row(row);
    }
    Ok(sheet)
}

/// Returns the statement that creates the account, without its password.
pub(in crate::statements) async fn create_user(session: &Session, written: &UserName) -> Result<Sheet> {
    let (state, rights) = known(session).await?;
    let user = user(session, &state, &rights, Some(written))?;
    let mut text = format!("CREATE USER {user}");
    if user.password != Password::Empty {
        text.push_str(" IDENTIFIED BY <secret>");
    }
    if !user.roles.is_empty() {
        let roles: Vec<String> = user.roles.iter().map(|r| format!("'{}'", r.replace('\'', "\\'"))).collect();
        text.push_str(&format!(" DEFAULT ROLE {}", roles.join(", ")));
    }
    let limit = |key: &&str| Some(format!("{} {}", key.to_uppercase(), state.accounts.property(&user.name, key)?));
    let limits: Vec<String> = BEHIND_WITH.iter().filter_map(limit).collect();
    if !limits.is_empty() {
        text.push_str(&format!(" WITH {}", limits.join(" ")));
    }
    let policy = &user.policy;
    for (words, value) in [("PASSWORD_HISTORY", policy.history), ("FAILED_LOGIN_ATTEMPTS", policy.failed_logins)] {
        if value > 0 {
            text.push_str(&format!(" {words} {value}"));
        }
    }
    for (words, seconds) in
        [("PASSWORD_EXPIRE INTERVAL", policy.expire_seconds), ("PASSWORD_LOCK_TIME", policy.lock_seconds)]
    {
        match seconds {
            0 => {}
            UNBOUNDED => text.push_str(&format!(" {words} UNBOUNDED")),
            seconds => text.push_str(&format!(" {words} {}", interval(seconds))),
        }
    }
    if policy.locked {
        text.push_str(" ACCOUNT_LOCK");
    }
    if let Some(comment) = &user.comment {
        text.push_str(&format!(" COMMENT '{}'", comment.replace('\\', "\\\\").replace('\'', "\\'")));
    }
    let mut sheet = Sheet::texts(&["User Identity", "Create Stmt"]);
    sheet.push([account(&user.name, &user.host).into(), text.into()]);
    Ok(sheet)
}

/// Formats seconds in the largest unit of which they are a whole number.
fn interval(seconds: u64) -> String {
    match seconds {
        s if s % 86_400 == 0 => format!("{} DAY", s / 86_400),
        s if s % 3_600 == 0 => format!("{} HOUR", s / 3_600),
        s => format!("{s} SECOND"),
    }
}

/// Returns the properties of a user with the values that are in force.
fn values(session: &Session, state: &CatalogState, user: &str) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> =
        PROPERTIES.iter().map(|p| (p.key.to_string(), p.default.to_string())).collect();
    if let Some(limit) = connections_max(&session.engine, user) {
        all.insert(MAX_USER_CONNECTIONS.to_string(), limit.to_string());
    }
    if let Some(own) = state.accounts.properties(user) {
        all.extend(own.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    all
}

pub(in crate::statements) async fn properties(session: &Session, name: Option<&str>, of_all: bool) -> Result<Sheet> {
    let (state, rights) = known(session).await?;
    if of_all {
        may_look(&rights)?;
        let mut names: Vec<&String> = state.accounts.users().map(|u| &u.name).collect();
        names.dedup();
        let mut sheet = Sheet::texts(&["User", "Properties"]);
        for name in names {
            let own = serde_json::to_string(&values(session, &state, name)).unwrap_or_default();
            sheet.push([name.into(), own.into()]);
        }
        return Ok(sheet);
    }
    let name = name.unwrap_or(&session.client.user);
    if name != session.client.user {
        may_look(&rights)?;
    }
    if !state.accounts.has_name(name) {
        return Err(EngineError { code: 1396, ..EngineError::invalid(format!("user '{name}' does not exist")) });
    }
    let mut sheet = Sheet::texts(&["Key", "Value"]);
    for (key, value) in values(session, &state, name) {
        sheet.push([key.into(), value.into()]);
    }
    Ok(sheet)
}
