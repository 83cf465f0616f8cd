//! Users, roles, grants and properties of users.

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

    /// The text, to make what is kept of it.
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
        /// Name.
        name: String,
        /// Pattern of hosts; `None` where it was not written.
        host: Option<String>,
    },
}

/// How a user shall prove who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identified {
    /// A password.
    By(SecretText),
    /// What PASSWORD() makes of one: `*` and 40 hex digits.
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
    /// What is set for all users of these names: WITH MAX_USER_CONNECTIONS and the like, PROPERTIES (...).
    pub properties: Properties,
    /// PASSWORD_HISTORY and the like, ACCOUNT_LOCK, ACCOUNT_UNLOCK.
    pub policy: PolicyChange,
    /// COMMENT.
    pub comment: Option<String>,
}

/// Who gets or loses a grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GranteeName {
    /// A user; a role where there is no such user and no host was written.
    User(UserName),
    /// ROLE 'r'.
    Role(String),
}

/// What privileges are about.
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

/// What is granted or revoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Granted {
    /// Privileges on something.
    Privileges {
        /// Those that were named.
        privileges: Privileges,
        /// ALL was among them.
        all: bool,
        /// Names that other systems have and that guard nothing here.
        inert: Vec<String>,
        /// On what.
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
    /// What.
    pub what: Granted,
    /// To whom, or from whom.
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
        /// With IF EXISTS.
        if_exists: bool,
    },
    /// CREATE ROLE.
    CreateRole {
        /// The roles.
        names: Vec<String>,
        /// With IF NOT EXISTS.
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
        /// With IF EXISTS.
        if_exists: bool,
    },
    /// GRANT.
    Grant(Grant),
    /// REVOKE.
    Revoke(Grant),
    /// `SET PROPERTY [FOR 'user'] 'key' = 'value', ...`.
    SetProperty {
        /// User name; `None` for one's own.
        user: Option<String>,
        /// What is set.
        properties: Properties,
    },
}

/// What the name of a privilege stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrivilegeName {
    /// These privileges.
    Is(Privileges),
    /// All that can be granted where it is granted.
    All,
    /// Known elsewhere, and guarding nothing here.
    Inert,
}

/// Privileges by the names of MySQL, Doris (`_PRIV`) and StarRocks, in upper case.
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

/// The name by which statements grant a privilege; `None` for a set of several.
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
    /// The statement's text for process lists and logs: without the password that it may hold.
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
        // ASCII only, so that places in it are places in the text.
        let lower = text.to_ascii_lowercase();
        let at = ["identified", "password"].iter().filter_map(|word| lower.find(word)).min();
        Cow::Owned(format!("{}<secret>", &text[..at.unwrap_or(0)]))
    }
}
