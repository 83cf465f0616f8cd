//! Statements about users, roles, grants and properties of users.

use std::borrow::Cow;
use std::fmt;

use dipper_base::policy::PolicyChange;
use dipper_base::privileges::Privileges;

use super::{Assignment, Name, PrepareSource, Properties, Statement};

/// Text that never appears in debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

impl SecretText {
    /// Wraps the text.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// Returns the text, to compute what is stored of it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(..)")
    }
}

/// A user as a statement names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserName {
    /// CURRENT_USER().
    Current,
    /// `'name'@'host'`.
    Named {
        /// The name.
        name: String,
        /// The pattern of hosts; `None` if it was not written.
        host: Option<String>,
    },
}

/// The way in which a user proves who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identified {
    /// A password.
    By(SecretText),
    /// The hash of a password, as PASSWORD() makes it: `*` and 40 hex digits.
    ByHash(SecretText),
}

/// CREATE USER and ALTER USER.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefineUser {
    /// The users, at least one, and how they prove who they are.
    pub users: Vec<(UserName, Option<Identified>)>,
    /// IF NOT EXISTS of CREATE, IF EXISTS of ALTER.
    pub if_exists: bool,
    /// DEFAULT ROLE.
    pub roles: Vec<String>,
    /// Properties of all users of these names: WITH MAX_USER_CONNECTIONS and similar limits, PROPERTIES (...).
    pub properties: Properties,
    /// PASSWORD_HISTORY and similar rules, ACCOUNT_LOCK, ACCOUNT_UNLOCK.
    pub policy: PolicyChange,
    /// COMMENT.
    pub comment: Option<String>,
}

/// The user or role that gets or loses a grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GranteeName {
    /// A user, or a role if there is no such user and no host was written.
    User(UserName),
    /// ROLE 'r'.
    Role(String),
}

/// The objects that privileges apply to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantOn {
    /// `*.*`.
    Everything,
    /// `catalog.*.*`.
    Catalog(String),
    /// `[catalog.]database.*`.
    Database(Name),
    /// `*`: the selected database.
    SelectedDatabase,
    /// `[[catalog.]database.]table`.
    Table(Name),
}

/// The privileges or roles that are granted or revoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Granted {
    /// Privileges on something.
    Privileges {
        /// The privileges that were named.
        privileges: Privileges,
        /// Whether ALL was among them.
        all: bool,
        /// Names of privileges that other systems have and that guard nothing here.
        inert: Vec<String>,
        /// The objects that the privileges apply to.
        on: GrantOn,
    },
    /// Roles.
    Roles(Vec<String>),
    /// `REVOKE ALL PRIVILEGES, GRANT OPTION FROM ...`: all privileges on everything, and all roles.
    Everything,
}

/// GRANT and REVOKE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The privileges or roles.
    pub what: Granted,
    /// The users and roles to whom, or from whom.
    pub grantees: Vec<GranteeName>,
}

/// A statement about users and roles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessStatement {
    /// CREATE USER.
    CreateUser(DefineUser),
    /// ALTER USER.
    AlterUser(DefineUser),
    /// DROP USER.
    DropUser {
        /// The users.
        users: Vec<UserName>,
        /// Whether IF EXISTS was written.
        if_exists: bool,
    },
    /// `RENAME USER a TO b, ...`.
    RenameUser(Vec<(UserName, UserName)>),
    /// CREATE ROLE.
    CreateRole {
        /// The roles.
        names: Vec<String>,
        /// Whether IF NOT EXISTS was written.
        if_not_exists: bool,
        /// COMMENT.
        comment: Option<String>,
    },
    /// ALTER ROLE.
    AlterRole {
        /// The role.
        name: String,
        /// COMMENT; empty for none.
        comment: String,
    },
    /// DROP ROLE.
    DropRole {
        /// The roles.
        names: Vec<String>,
        /// Whether IF EXISTS was written.
        if_exists: bool,
    },
    /// GRANT.
    Grant(Grant),
    /// REVOKE.
    Revoke(Grant),
    /// `SET PROPERTY [FOR 'user'] 'key' = 'value', ...`.
    SetProperty {
        /// The user's name; `None` for the current user.
        user: Option<String>,
        /// The properties that are set.
        properties: Properties,
    },
}

/// The meaning of a privilege's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrivilegeName {
    /// A set of privileges.
    Is(Privileges),
    /// All privileges that can be granted on the object.
    All,
    /// A privilege of other systems that guards nothing here.
    Inert,
}

/// Returns the meaning of a privilege's name in MySQL, Doris (`_PRIV`) or StarRocks, given in upper case.
pub fn privilege(name: &str) -> Option<PrivilegeName> {
    use PrivilegeName::{All, Inert, Is};
    Some(match name {
        "SELECT" | "SELECT_PRIV" => Is(Privileges::SELECT),
        "INSERT" => Is(Privileges::INSERT),
        "UPDATE" => Is(Privileges::UPDATE),
        "DELETE" | "TRUNCATE" => Is(Privileges::DELETE),
        "LOAD_PRIV" => Is(Privileges::LOAD),
        "CREATE" | "CREATE TABLE" | "CREATE DATABASE" => Is(Privileges::CREATE),
        "CREATE_PRIV" => Is(Privileges::CREATE | Privileges::CREATE_VIEW),
        "CREATE VIEW" => Is(Privileges::CREATE_VIEW),
        "DROP" | "DROP_PRIV" => Is(Privileges::DROP),
        "ALTER" | "ALTER_PRIV" => Is(Privileges::ALTER),
        "SHOW VIEW" | "SHOW_VIEW_PRIV" => Is(Privileges::SHOW_VIEW),
        "GRANT OPTION" | "GRANT_PRIV" | "GRANT" => Is(Privileges::GRANT),
        "FILE" => Is(Privileges::FILE),
        "PROCESS" => Is(Privileges::PROCESS),
        "SUPER" => Is(Privileges::SUPER),
        "CREATE USER" | "CREATE ROLE" | "DROP ROLE" => Is(Privileges::CREATE_USER),
        "ADMIN_PRIV" => Is(Privileges::ADMIN),
        "NODE_PRIV" | "NODE" => Is(Privileges::NODE),
        "USAGE" | "USAGE_PRIV" => Is(Privileges::NONE),
        "ALL" | "ALL PRIVILEGES" => All,
        "INDEX"
        | "REFERENCES"
        | "TRIGGER"
        | "EVENT"
        | "EXECUTE"
        | "LOCK TABLES"
        | "CREATE TEMPORARY TABLES"
        | "CREATE ROUTINE"
        | "ALTER ROUTINE"
        | "CREATE TABLESPACE"
        | "REPLICATION CLIENT"
        | "REPLICATION SLAVE"
        | "SHOW DATABASES"
        | "RELOAD"
        | "SHUTDOWN"
        | "EXPORT" => Inert,
        _ => return None,
    })
}

/// Returns the name by which statements grant a privilege; `None` for a set of several.
pub fn privilege_name(privilege: Privileges) -> Option<&'static str> {
    const NAMES: &[(Privileges, &str)] = &[
        (Privileges::SELECT, "SELECT"),
        (Privileges::INSERT, "INSERT"),
        (Privileges::UPDATE, "UPDATE"),
        (Privileges::DELETE, "DELETE"),
        (Privileges::CREATE, "CREATE"),
        (Privileges::CREATE_VIEW, "CREATE VIEW"),
        (Privileges::DROP, "DROP"),
        (Privileges::ALTER, "ALTER"),
        (Privileges::SHOW_VIEW, "SHOW VIEW"),
        (Privileges::GRANT, "GRANT OPTION"),
        (Privileges::FILE, "FILE"),
        (Privileges::PROCESS, "PROCESS"),
        (Privileges::SUPER, "SUPER"),
        (Privileges::CREATE_USER, "CREATE USER"),
        (Privileges::ADMIN, "ADMIN_PRIV"),
        (Privileges::NODE, "NODE_PRIV"),
    ];
    NAMES.iter().find(|(p, _)| *p == privilege).map(|(_, name)| *name)
}

impl Statement {
    /// Returns the statement's text for process lists and logs, without a password that it may contain.
    pub fn shown<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let secret = match self {
            Statement::Access(AccessStatement::CreateUser(_) | AccessStatement::AlterUser(_)) => true,
            Statement::Set(assignments) => assignments.iter().any(|a| matches!(a, Assignment::Password { .. })),
            Statement::Prepare { source: PrepareSource::Text(text), .. } => {
                let text = text.to_ascii_lowercase();
                text.contains("identified") || text.contains("password")
            }
            _ => false,
        };
        if !secret {
            return Cow::Borrowed(text);
        }
        // The conversion changes only ASCII letters, so that positions in it are positions in the text.
        let lower = text.to_ascii_lowercase();
        let at = ["identified", "password"].iter().filter_map(|word| lower.find(word)).min();
        Cow::Owned(format!("{}<secret>", &text[..at.unwrap_or(0)]))
    }
}
