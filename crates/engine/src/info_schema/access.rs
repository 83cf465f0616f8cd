//! Users and privileges in information_schema and mysql. Users who can change accounts see all of them, others only
//! their own.

use std::sync::Arc;

use dipper_base::names::CATALOG;
use dipper_dialect::statement::privilege_name;
use dipper_lake::sheet::{Cell, Sheet};
use dipper_store::catalog::access::{Grants, Privileges, Scope, User};

use super::{CATALOG_NAME, Wanted};
use crate::access::BEHIND_WITH;
use crate::context::QueryContext;
use crate::error::Result;

/// The accounts that the user of the query may see.
fn users(context: &QueryContext) -> impl Iterator<Item = &Arc<User>> {
    let all = context.rights.on_all().intersects(Privileges::CREATE_USER | Privileges::GRANT);
    context.catalog.accounts.users().filter(move |u| all || u.id == context.rights.user().id)
}

/// Iterates over the grants of a user, including those of its roles.
fn grants<'a>(context: &'a QueryContext, user: &'a User) -> impl Iterator<Item = (&'a Scope, Privileges)> {
    let roles = user.roles.iter().filter_map(|r| context.catalog.accounts.role(r)).map(|r| &r.grants);
    roles.chain([&user.grants]).flat_map(Grants::iter)
}

/// Adds a row for each privilege of a set; USAGE if the set is empty.
fn rows(user: &User, privileges: Privileges, place: &[&str], sheet: &mut Sheet) {
    let grantable = if privileges.contains(Privileges::GRANT) { "YES" } else { "NO" };
    let named = privileges - Privileges::GRANT;
    let mut push = |name: &str| {
        let mut row: Vec<Cell> = vec![user.to_string().into(), CATALOG_NAME.into()];
        row.extend(place.iter().map(|p| Cell::from(*p)));
        row.extend([name.into(), grantable.into()]);
        sheet.push_row(row);
    };
    if named.is_empty() {
        push("USAGE");
    }
    named.iter().filter_map(privilege_name).for_each(&mut push);
}

pub(super) fn user_privileges(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for user in users(context) {
        let global = grants(context, user).filter(|(scope, _)| **scope == Scope::Global);
        let all = global.fold(Privileges::NONE, |all, (_, privileges)| all | privileges);
        rows(user, all, &[], sheet);
    }
    Ok(())
}

/// Lists grants by database. A grant on the whole catalog counts for each of its databases.
pub(super) fn schema_privileges(context: &QueryContext, wanted: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for user in users(context) {
        for database in context.catalog.databases.values().filter(|d| wanted.database(&d.name)) {
            let on = |scope: &Scope| match scope {
                Scope::Database(id) => *id == database.id,
                Scope::Catalog(name) => name == CATALOG,
                Scope::Global | Scope::Table(_) | Scope::External { .. } => false,
            };
            let all =
                grants(context, user).filter(|(scope, _)| on(scope)).fold(Privileges::NONE, |all, (_, p)| all | p);
            if !all.is_empty() {
                rows(user, all, &[&database.name], sheet);
            }
        }
    }
    Ok(())
}

pub(super) fn table_privileges(context: &QueryContext, wanted: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for user in users(context) {
        for (database, table) in super::objects::catalog_tables(context, wanted) {
            let on = |scope: &Scope| matches!(scope, Scope::Table(id) if *id == table.id);
            let all =
                grants(context, user).filter(|(scope, _)| on(scope)).fold(Privileges::NONE, |all, (_, p)| all | p);
            if !all.is_empty() {
                rows(user, all, &[database, &table.name], sheet);
            }
        }
    }
    Ok(())
}

/// The user's roles, which are always in force.
pub(super) fn enabled_roles(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for role in &context.rights.user().roles {
        sheet.push([role.into(), "%".into(), "YES".into(), "NO".into()]);
    }
    Ok(())
}

/// Lists the user's roles, in the columns of MySQL's applicable roles.
pub(super) fn applicable_roles(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    let user = context.rights.user();
    for role in &user.roles {
        sheet.push([
            (&user.name).into(),
            (&user.host).into(),
            (&user.name).into(),
            (&user.host).into(),
            role.into(),
            "%".into(),
            "NO".into(),
            "YES".into(),
            "NO".into(),
        ]);
    }
    Ok(())
}

/// The privilege columns of MySQL's table of users in their order, each with the privilege that is shown as `Y`.
const COLUMNS: [Option<Privileges>; 29] = {
    let mut columns = [None; 29];
    columns[0] = Some(Privileges::SELECT);
    columns[1] = Some(Privileges::INSERT);
    columns[2] = Some(Privileges::UPDATE);
    columns[3] = Some(Privileges::DELETE);
    columns[4] = Some(Privileges::CREATE);
    columns[5] = Some(Privileges::DROP);
    columns[6] = Some(Privileges::ADMIN); // Reload
    columns[7] = Some(Privileges::ADMIN); // Shutdown
    columns[8] = Some(Privileges::PROCESS);
    columns[9] = Some(Privileges::FILE);
    columns[10] = Some(Privileges::GRANT);
    columns[12] = Some(Privileges::ALTER); // Index, behind References
    columns[13] = Some(Privileges::ALTER);
    columns[14] = Some(Privileges::SELECT); // Show_db
    columns[15] = Some(Privileges::SUPER);
    columns[21] = Some(Privileges::CREATE_VIEW);
    columns[22] = Some(Privileges::SHOW_VIEW);
    columns[25] = Some(Privileges::CREATE_USER);
    columns
};

pub(super) fn mysql_user(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for user in users(context) {
        let global = grants(context, user).filter(|(scope, _)| **scope == Scope::Global);
        let all = global.fold(Privileges::NONE, |all, (_, privileges)| all | privileges);
        // Administrators also have the privileges that do not exist here.
        let has = |wanted: Option<Privileges>| match wanted {
            Some(wanted) => all.contains(wanted) || all.contains(Privileges::ADMIN),
            None => all.contains(Privileges::ADMIN),
        };
        let mut row: Vec<Cell> = vec![(&user.host).into(), (&user.name).into()];
        row.extend(COLUMNS.map(|c| Cell::from(if has(c) { "Y" } else { "N" })));
        let limit = |key| context.catalog.accounts.property(&user.name, key)?.parse().ok();
        // No account is bound to a certificate.
        row.extend(["", "", "", ""].map(Cell::from));
        row.extend(BEHIND_WITH.map(|key| Cell::Int(limit(key).unwrap_or(0))));
        // The verifier is a secret, so its column is empty.
        let locked = if user.policy.locked { "Y" } else { "N" };
        row.extend(["caching_sha2_password", "", "N"].map(Cell::from));
        // When a password was set is not kept, and passwords get no older than the account: NULL means the default.
        row.extend([Cell::Null, Cell::Null, locked.into()]);
        row.extend([Privileges::CREATE_USER; 2].map(|c| Cell::from(if has(Some(c)) { "Y" } else { "N" })));
        row.extend([Cell::Null, Cell::Null, Cell::Null, Cell::Null]);
        sheet.push_row(row);
    }
    Ok(())
}

/// The privilege columns of MySQL's table of grants on databases in their order, each with the privilege that is shown
/// as `Y`.
const DATABASE_COLUMNS: [Option<Privileges>; 19] = {
    let mut columns = [None; 19];
    columns[0] = Some(Privileges::SELECT);
    columns[1] = Some(Privileges::INSERT);
    columns[2] = Some(Privileges::UPDATE);
    columns[3] = Some(Privileges::DELETE);
    columns[4] = Some(Privileges::CREATE);
    columns[5] = Some(Privileges::DROP);
    columns[6] = Some(Privileges::GRANT);
    columns[8] = Some(Privileges::ALTER); // Index, behind References
    columns[9] = Some(Privileges::ALTER);
    columns[12] = Some(Privileges::CREATE_VIEW); // behind Create_tmp_table and Lock_tables
    columns[13] = Some(Privileges::SHOW_VIEW);
    columns
};

/// Lists the grants of users on databases, without those of their roles.
pub(super) fn mysql_db(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for user in users(context) {
        for (scope, privileges) in user.grants.iter() {
            let Scope::Database(id) = scope else { continue };
            let Some(database) = context.catalog.databases.values().find(|d| d.id == *id) else { continue };
            let mut row: Vec<Cell> = vec![(&user.host).into(), (&database.name).into(), (&user.name).into()];
            let has = |wanted: Option<Privileges>| wanted.is_some_and(|wanted| privileges.contains(wanted));
            row.extend(DATABASE_COLUMNS.map(|c| Cell::from(if has(c) { "Y" } else { "N" })));
            sheet.push_row(row);
        }
    }
    Ok(())
}

/// The words of MySQL's table of grants on tables.
const TABLE_WORDS: [(Privileges, &str); 9] = [
    (Privileges::SELECT, "Select"),
    (Privileges::INSERT, "Insert"),
    (Privileges::UPDATE, "Update"),
    (Privileges::DELETE, "Delete"),
    (Privileges::CREATE, "Create"),
    (Privileges::DROP, "Drop"),
    (Privileges::GRANT, "Grant"),
    (Privileges::ALTER, "Alter"),
    (Privileges::SHOW_VIEW, "Show view"),
];

/// Lists the grants of users on tables, without those of their roles. Who granted them, and when, is not kept.
pub(super) fn mysql_tables_priv(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for user in users(context) {
        for (scope, privileges) in user.grants.iter() {
            let Scope::Table(id) = scope else { continue };
            let Some((database, table)) = context.catalog.table_by_id(*id) else { continue };
            let words = TABLE_WORDS.iter().filter(|(wanted, _)| privileges.contains(*wanted)).map(|(_, word)| *word);
            sheet.push_named([
                ("Host", (&user.host).into()),
                ("Db", (&database.name).into()),
                ("User", (&user.name).into()),
                ("Table_name", (&table.name).into()),
                ("Grantor", "".into()),
                ("Table_priv", words.collect::<Vec<_>>().join(",").into()),
                ("Column_priv", "".into()),
            ]);
        }
    }
    Ok(())
}

/// Lists roles with their users in MySQL's form, where roles are accounts, too.
pub(super) fn mysql_role_edges(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for user in users(context) {
        for role in &user.roles {
            sheet.push(["%".into(), role.into(), (&user.host).into(), (&user.name).into(), "N".into()]);
        }
    }
    Ok(())
}

/// Lists the default roles of users, which are all of their roles, because these are always in force.
pub(super) fn mysql_default_roles(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for user in users(context) {
        for role in &user.roles {
            sheet.push([(&user.host).into(), (&user.name).into(), "%".into(), role.into()]);
        }
    }
    Ok(())
}

/// Lists roles with their users in StarRocks' form. Roles have no roles.
pub(super) fn role_edges(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for user in users(context) {
        for role in &user.roles {
            sheet.push([role.into(), Cell::Null, user.to_string().into()]);
        }
    }
    Ok(())
}

/// Lists the tables on which the user's roles have privileges.
pub(super) fn role_table_grants(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for role in context.rights.user().roles.iter().filter_map(|role| context.catalog.accounts.role(role)) {
        for (scope, privileges) in role.grants.iter() {
            let Scope::Table(id) = scope else { continue };
            let Some((database, table)) = context.catalog.table_by_id(*id) else { continue };
            let grantable = if privileges.contains(Privileges::GRANT) { "YES" } else { "NO" };
            let named = privileges - Privileges::GRANT;
            for name in named.iter().filter_map(privilege_name) {
                sheet.push([
                    Cell::Null,
                    Cell::Null,
                    (&role.name).into(),
                    "%".into(),
                    CATALOG_NAME.into(),
                    (&database.name).into(),
                    (&table.name).into(),
                    name.into(),
                    grantable.into(),
                ]);
            }
        }
    }
    Ok(())
}

/// Lists grants in StarRocks' form: the grantee, the object, and all privileges in one row.
fn granted(context: &QueryContext, to: &str, grants: &Grants, sheet: &mut Sheet) {
    for (scope, privileges) in grants.iter() {
        let [catalog, database, name, kind]: [Cell; 4] = match scope {
            Scope::Global => [Cell::Null, Cell::Null, Cell::Null, "SYSTEM".into()],
            Scope::Catalog(name) => [name.into(), Cell::Null, Cell::Null, "CATALOG".into()],
            Scope::Database(id) => {
                let database = context.catalog.databases.values().find(|database| database.id == *id);
                let Some(database) = database else { continue };
                [CATALOG_NAME.into(), (&database.name).into(), Cell::Null, "DATABASE".into()]
            }
            Scope::Table(id) => {
                let Some((database, table)) = context.catalog.table_by_id(*id) else { continue };
                [CATALOG_NAME.into(), (&database.name).into(), (&table.name).into(), "TABLE".into()]
            }
            Scope::External { catalog, database, table } => {
                let kind = if table.is_some() { "TABLE" } else { "DATABASE" };
                [catalog.into(), database.into(), table.as_ref().into(), kind.into()]
            }
        };
        let names: Vec<_> = (privileges - Privileges::GRANT).iter().filter_map(privilege_name).collect();
        let grantable = if privileges.contains(Privileges::GRANT) { "YES" } else { "NO" };
        sheet.push([to.into(), catalog, database, name, kind, names.join(", ").into(), grantable.into()]);
    }
}

pub(super) fn grants_to_users(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for user in users(context) {
        granted(context, &user.to_string(), &user.grants, sheet);
    }
    Ok(())
}

/// Lists the grants of roles: the user's own, or all for users who can grant them.
pub(super) fn grants_to_roles(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    let all = context.rights.on_all().intersects(Privileges::CREATE_USER | Privileges::GRANT);
    let own = &context.rights.user().roles;
    for role in context.catalog.accounts.roles().filter(|role| all || own.contains(&role.name)) {
        granted(context, &role.name, &role.grants, sheet);
    }
    Ok(())
}
