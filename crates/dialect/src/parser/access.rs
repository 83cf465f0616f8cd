//! Reading of CREATE, ALTER and DROP of users and roles, GRANT, REVOKE, SET PROPERTY.

use dipper_base::near;
use dipper_base::policy::{PolicyChange, UNBOUNDED};
use dipper_base::privileges::Privileges;
use sqlparser::tokenizer::{Token, Word};

use super::cursor::Cursor;
use super::show;
use crate::error::SqlError;
use crate::statement::{
    AccessStatement, DefineUser, Grant, GrantOn, Granted, GranteeName, Identified, Name, PrivilegeName, Properties,
    SecretText, Statement, UserName, privilege,
};

/// The limits after WITH of a user; the property that a limit sets has the same name.
const LIMITS: [&str; 4] =
    ["MAX_QUERIES_PER_HOUR", "MAX_UPDATES_PER_HOUR", "MAX_CONNECTIONS_PER_HOUR", "MAX_USER_CONNECTIONS"];

/// The clauses in MySQL's SHOW CREATE USER that demand nothing.
const NOTHING: [&[&str]; 4] = [
    &["PASSWORD_REUSE", "INTERVAL", "DEFAULT"],
    &["REQUIRE", "NONE"],
    &["PASSWORD", "REUSE", "INTERVAL", "DEFAULT"],
    &["PASSWORD", "REQUIRE", "CURRENT", "DEFAULT"],
];

/// Reads a user name: `'u'@'h'`, `u@h`, `u`, `CURRENT_USER()`.
pub(super) fn user(c: &mut Cursor<'_>) -> Result<UserName, SqlError> {
    let position = c.position();
    let text = show::user(c)?;
    if text == "CURRENT_USER" {
        return Ok(UserName::Current);
    }
    let refuse = || SqlError::syntax(format!("expected 'name'@'host', found {text}"), Some(position.clone()));
    let (name, rest) = part(&text).ok_or_else(refuse)?;
    let host = match rest.trim_start().strip_prefix('@') {
        None if rest.trim().is_empty() => None,
        None => return Err(refuse()),
        Some(rest) => match part(rest.trim_start()) {
            Some((host, "")) => Some(host),
            _ => return Err(refuse()),
        },
    };
    Ok(UserName::Named { name, host })
}

/// Splits off a quoted or bare part at the start of `text`; also returns the rest.
fn part(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next()?;
    if !matches!(quote, '\'' | '"' | '`') {
        let end = text.find(|c: char| c == '@' || c.is_whitespace()).unwrap_or(text.len());
        return Some((text[..end].to_string(), &text[end..]));
    }
    let mut out = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, ch)) = chars.next() {
        match ch {
            '\\' if quote != '`' => out.push(chars.next()?.1),
            _ if ch == quote => {
                if chars.peek().is_some_and(|(_, next)| *next == quote) {
                    chars.next();
                    out.push(quote);
                } else {
                    return Some((out, &text[at + 1..]));
                }
            }
            _ => out.push(ch),
        }
    }
    None
}

fn users(c: &mut Cursor<'_>) -> Result<Vec<UserName>, SqlError> {
    let mut users = vec![user(c)?];
    while c.accept_token(&Token::Comma) {
        users.push(user(c)?);
    }
    Ok(users)
}

/// Reads a role: `'r'`, `r`, `'r'@'%'`.
pub(super) fn role(c: &mut Cursor<'_>) -> Result<String, SqlError> {
    match user(c)? {
        UserName::Named { name, host } if host.as_deref().is_none_or(|h| h == "%") => Ok(name),
        _ => Err(c.expected("a role, which has no host, before this")),
    }
}

fn roles(c: &mut Cursor<'_>) -> Result<Vec<String>, SqlError> {
    let mut roles = vec![role(c)?];
    while c.accept_token(&Token::Comma) {
        roles.push(role(c)?);
    }
    Ok(roles)
}

fn done(statement: AccessStatement) -> Result<Statement, SqlError> {
    Ok(Statement::Access(statement))
}

/// Reads the rest of CREATE USER.
pub(super) fn create_user(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let if_exists = c.if_not_exists();
    done(AccessStatement::CreateUser(define(c, if_exists)?))
}

/// Reads the rest of ALTER USER.
pub(super) fn alter_user(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let if_exists = c.if_exists();
    done(AccessStatement::AlterUser(define(c, if_exists)?))
}

fn define(c: &mut Cursor<'_>, if_exists: bool) -> Result<DefineUser, SqlError> {
    let mut users = Vec::new();
    loop {
        let name = user(c)?;
        users.push((name, identified(c)?));
        if !c.accept_token(&Token::Comma) {
            break;
        }
    }
    let policy = PolicyChange::default();
    let mut define = DefineUser { users, if_exists, roles: Vec::new(), properties: Vec::new(), policy, comment: None };
    loop {
        if rule(c, &mut define.policy)?
            || limit(c, &mut define.properties)?
            || NOTHING.iter().any(|words| c.accept(words))
        {
            continue;
        }
        if c.accept(&["DEFAULT", "ROLE"]) {
            // All roles of a user are always in force.
            if c.accept_word("ALL") {
                continue;
            }
            if c.peek_words(&["NONE"]) {
                return Err(
                    c.unsupported("roles of a user are always in force, all of them; REVOKE those that should not be")
                );
            }
            define.roles = roles(c)?;
        } else if c.accept(&["SET", "PROPERTIES"]) || c.accept_word("PROPERTIES") {
            define.properties.extend(c.properties(false)?);
        } else if let Some(comment) = c.comment()? {
            define.comment = Some(comment);
        } else if ["REQUIRE", "ACCOUNT", "PASSWORD", "PASSWORD_REUSE", "SUPERUSER"].iter().any(|w| c.peek_words(&[w])) {
            let what = format!("{} of users is not supported", c.found());
            return Err(c.unsupported(&what));
        } else {
            return Ok(define);
        }
    }
}

/// Reads a limit, which has WITH before the first one; returns false if there is none.
fn limit(c: &mut Cursor<'_>, properties: &mut Properties) -> Result<bool, SqlError> {
    let with = c.accept_word("WITH");
    match c.accept_any(&LIMITS) {
        Some(word) => {
            properties.push((word.to_ascii_lowercase(), c.uint()?.to_string()));
            Ok(true)
        }
        None if with => Err(c.expected(&LIMITS.join(" or "))),
        None => Ok(false),
    }
}

/// Reads a rule for passwords, in Doris's words or in MySQL's; returns false if there is none.
fn rule(c: &mut Cursor<'_>, policy: &mut PolicyChange) -> Result<bool, SqlError> {
    if c.accept_word("PASSWORD_HISTORY") || c.accept(&["PASSWORD", "HISTORY"]) {
        policy.history = Some(if c.accept_word("DEFAULT") { 0 } else { c.uint()? });
    } else if c.accept_word("PASSWORD_EXPIRE") || c.accept(&["PASSWORD", "EXPIRE"]) {
        policy.expire_seconds = Some(match c.accept_any(&["DEFAULT", "NEVER", "INTERVAL"]) {
            Some("INTERVAL") => seconds(c)?,
            Some(_) => 0,
            None => return Err(c.expected("NEVER, DEFAULT or INTERVAL")),
        });
    } else if c.accept_word("FAILED_LOGIN_ATTEMPTS") {
        policy.failed_logins = Some(c.uint()?);
    } else if c.accept_word("PASSWORD_LOCK_TIME") {
        policy.lock_seconds = Some(if c.accept_word("UNBOUNDED") { UNBOUNDED } else { seconds(c)? });
    } else if c.accept_word("ACCOUNT_UNLOCK") || c.accept(&["ACCOUNT", "UNLOCK"]) {
        (policy.lock, policy.unlock) = (false, true);
    } else if c.accept_word("ACCOUNT_LOCK") || c.accept(&["ACCOUNT", "LOCK"]) {
        (policy.lock, policy.unlock) = (true, false);
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// Reads `n [DAY | HOUR | SECOND]` as seconds; without a unit it is days.
fn seconds(c: &mut Cursor<'_>) -> Result<u64, SqlError> {
    let from = c.index();
    let n = c.uint()?;
    let unit = match c.accept_any(&["SECOND", "HOUR", "DAY"]) {
        Some("SECOND") => 1,
        Some("HOUR") => 3_600,
        _ => 86_400,
    };
    // A century is as good as forever, and its end can still be represented.
    match n.checked_mul(unit).filter(|seconds| *seconds <= 100 * 366 * 86_400) {
        Some(seconds) => Ok(seconds),
        None => {
            c.seek(from);
            Err(c.expected("a time of at most 100 years"))
        }
    }
}

/// Reads `IDENTIFIED [WITH plugin] BY 'x' | BY PASSWORD '*hex' | AS '*hex'`.
fn identified(c: &mut Cursor<'_>) -> Result<Option<Identified>, SqlError> {
    if !c.accept_word("IDENTIFIED") {
        return Ok(None);
    }
    let mut native = true;
    let with = c.accept_word("WITH");
    if with {
        let plugin = if c.at_string() { c.string()? } else { c.ident()? };
        match plugin.to_ascii_lowercase().as_str() {
            "mysql_native_password" => {}
            "caching_sha2_password" => native = false,
            other => {
                let what = format!(
                    "authentication plugin '{other}' is not supported; there are caching_sha2_password and mysql_native_password"
                );
                return Err(c.unsupported(&what));
            }
        }
    }
    let hash = |c: &mut Cursor<'_>| {
        if !native {
            return Err(c.unsupported("hashes of caching_sha2_password cannot be given; give the password: BY '...'"));
        }
        Ok(Some(Identified::ByHash(SecretText::new(c.string()?))))
    };
    if c.accept_word("BY") {
        if c.accept_word("PASSWORD") {
            return hash(c);
        }
        return Ok(Some(Identified::By(SecretText::new(c.string()?))));
    }
    if c.accept_word("AS") {
        return hash(c);
    }
    if with { Ok(None) } else { Err(c.expected("BY 'password'")) }
}

/// Reads the rest of DROP USER.
pub(super) fn drop_user(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let if_exists = c.if_exists();
    done(AccessStatement::DropUser { users: users(c)?, if_exists })
}

/// Reads the rest of RENAME USER.
pub(super) fn rename_user(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let mut pairs = Vec::new();
    loop {
        let from = user(c)?;
        c.expect(&["TO"])?;
        let to = user(c)?;
        if to == UserName::Current {
            return Err(c.expected("the new name of the user before this"));
        }
        pairs.push((from, to));
        if !c.accept_token(&Token::Comma) {
            return done(AccessStatement::RenameUser(pairs));
        }
    }
}

/// Reads the rest of CREATE ROLE.
pub(super) fn create_role(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let if_not_exists = c.if_not_exists();
    let names = roles(c)?;
    done(AccessStatement::CreateRole { names, if_not_exists, comment: c.comment()? })
}

/// Reads the rest of ALTER ROLE.
pub(super) fn alter_role(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    if c.peek_words(&["IF", "EXISTS"]) {
        return Err(c.unsupported("ALTER ROLE has no IF EXISTS; SHOW ROLES lists the roles"));
    }
    let name = role(c)?;
    // The spelling of StarRocks is SET COMMENT = 'text'.
    c.accept_word("SET");
    match c.comment()? {
        Some(comment) => done(AccessStatement::AlterRole { name, comment }),
        None => Err(c.expected("COMMENT")),
    }
}

/// Reads the rest of DROP ROLE.
pub(super) fn drop_role(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let if_exists = c.if_exists();
    done(AccessStatement::DropRole { names: roles(c)?, if_exists })
}

/// Reads the rest of SET PROPERTY.
pub(super) fn set_property(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let user = if c.accept_word("FOR") { Some(role(c)?) } else { None };
    let mut properties = Vec::new();
    loop {
        let key = if c.at_string() { c.string()? } else { c.ident()? };
        c.expect_token(&Token::Eq)?;
        let value = c.literal()?.text().unwrap_or_default();
        properties.push((key, value));
        if !c.accept_token(&Token::Comma) {
            return done(AccessStatement::SetProperty { user, properties });
        }
    }
}

/// Reads GRANT and REVOKE.
pub(super) fn grant(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let grants = c.accept_any(&["GRANT", "REVOKE"]) == Some("GRANT");
    let (word, other) = if grants { ("TO", "FROM") } else { ("FROM", "TO") };
    let start = c.index();
    let mut items = Vec::new();
    loop {
        items.push(item(c, word)?);
        if !c.accept_token(&Token::Comma) {
            break;
        }
    }
    let mut what = if c.accept_word("ON") {
        let on = on(c)?;
        let end = c.index();
        c.seek(start);
        privileges(c, &items)?;
        c.seek(end);
        let (mut all, mut set, mut inert) = (false, Privileges::NONE, Vec::new());
        for item in &items {
            match privilege(item.as_deref().unwrap_or_default()) {
                Some(PrivilegeName::Is(privileges)) => set |= privileges,
                Some(PrivilegeName::All) => all = true,
                _ => inert.extend(item.clone()),
            }
        }
        Granted::Privileges { privileges: set, all, inert, on }
    } else if !grants && items.iter().flatten().eq(["ALL PRIVILEGES", "GRANT OPTION"]) {
        Granted::Everything
    } else if c.peek_words(&[word]) {
        let end = c.index();
        c.seek(start);
        let names = roles(c)?;
        if c.index() != end {
            return Err(c.expected("ON, or names of roles before TO"));
        }
        Granted::Roles(names)
    } else if c.peek_words(&[other]) {
        return Err(c.expected(word));
    } else {
        return Err(c.expected(&format!("ON or {word}")));
    };
    c.expect(&[word])?;
    let mut grantees = vec![grantee(c)?];
    while c.accept_token(&Token::Comma) {
        grantees.push(grantee(c)?);
    }
    if c.peek_words(&["IDENTIFIED"]) {
        return Err(c.unsupported("GRANT makes no users and sets no passwords; CREATE USER or ALTER USER first"));
    }
    if grants && c.accept(&["WITH", "GRANT", "OPTION"]) {
        match &mut what {
            Granted::Privileges { privileges, .. } => *privileges |= Privileges::GRANT,
            _ => return Err(c.unsupported("WITH GRANT OPTION of a role; grant the role GRANT_PRIV")),
        }
    }
    let grant = Grant { what, grantees };
    done(if grants { AccessStatement::Grant(grant) } else { AccessStatement::Revoke(grant) })
}

/// Reads words up to a comma, ON or the word before the grantees, in upper case; `None` for a quoted name.
fn item(c: &mut Cursor<'_>, end: &str) -> Result<Option<String>, SqlError> {
    if c.at_string() || matches!(c.peek(), Token::Word(Word { quote_style: Some(_), .. })) {
        user(c)?;
        return Ok(None);
    }
    let mut out = String::new();
    while let Token::Word(word) = c.peek().clone() {
        if !out.is_empty() && (c.peek_words(&["ON"]) || c.peek_words(&[end])) {
            break;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&word.value.to_ascii_uppercase());
        c.advance();
    }
    if out.is_empty() {
        return Err(c.expected("a privilege or role"));
    }
    if *c.peek() == Token::LParen {
        return Err(c.unsupported("privileges on columns are not supported; make a view of the columns"));
    }
    Ok(Some(out))
}

/// Privileges of StarRocks on what dipper does not have.
const OTHERS: [&str; 8] =
    ["IMPERSONATE", "OPERATE", "BLACKLIST", "PLUGIN", "REPOSITORY", "REFRESH", "APPLY", "SECURITY"];

/// Refuses a word that is not a privilege, at its place.
fn privileges(c: &mut Cursor<'_>, items: &[Option<String>]) -> Result<(), SqlError> {
    for item in items {
        let known = item.as_deref().is_some_and(|name| privilege(name).is_some());
        if !known && item.as_deref().is_some_and(|name| OTHERS.contains(&name) || name.starts_with("CREATE ")) {
            let what = format!("privilege {} is not supported: there is nothing that it would allow", c.found());
            return Err(c.unsupported(&what));
        }
        if !known {
            let mut error = c.expected("a privilege");
            let all = [
                "SELECT",
                "INSERT",
                "UPDATE",
                "DELETE",
                "CREATE",
                "DROP",
                "ALTER",
                "SELECT_PRIV",
                "LOAD_PRIV",
                "ALTER_PRIV",
                "CREATE_PRIV",
                "DROP_PRIV",
                "GRANT_PRIV",
                "ADMIN_PRIV",
            ];
            if let Some(near) = item.as_deref().and_then(|name| near::closest(name, all.iter().copied())) {
                error.message.push_str(&format!("; did you mean {near}?"));
            }
            return Err(error);
        }
        while !c.accept_token(&Token::Comma) && !c.peek_words(&["ON"]) {
            c.advance();
        }
    }
    Ok(())
}

fn grantee(c: &mut Cursor<'_>) -> Result<GranteeName, SqlError> {
    if c.peek_words(&["EXTERNAL", "GROUP"]) {
        return Err(c.unsupported("groups of users are not known here; grant to users or roles"));
    }
    // `ROLE` may also be a user's name: then no name follows it.
    let named = |c: &Cursor<'_>| !matches!(c.token(c.index() + 1), Token::Comma | Token::EOF | Token::AtSign);
    if c.peek_words(&["ROLE"]) && named(c) {
        c.advance();
        return role(c).map(GranteeName::Role);
    }
    if c.peek_words(&["USER"]) && named(c) {
        c.advance();
    }
    user(c).map(GranteeName::User)
}

/// Reads the rest after ON.
fn on(c: &mut Cursor<'_>) -> Result<GrantOn, SqlError> {
    for kind in [
        "RESOURCE",
        "WORKLOAD",
        "STORAGE",
        "COMPUTE",
        "CLUSTER",
        "STAGE",
        "FUNCTION",
        "PROCEDURE",
        "GLOBAL",
        "MATERIALIZED",
        "MASKING",
        "WAREHOUSE",
        "FAILOVER",
        "PIPE",
    ] {
        if c.peek_words(&[kind]) && !matches!(c.token(c.index() + 1), Token::Period | Token::EOF) {
            return Err(c.unsupported(&format!("privileges on a {kind} are not supported: there is none")));
        }
    }
    if c.accept(&["ALL", "TABLES", "IN"]) || c.accept(&["ALL", "VIEWS", "IN"]) {
        if c.accept(&["ALL", "DATABASES"]) {
            return Ok(GrantOn::Everything);
        }
        c.expect(&["DATABASE"])?;
        return c.name().map(GrantOn::Database);
    }
    if c.accept(&["ALL", "DATABASES"]) || c.accept_word("SYSTEM") {
        return Ok(GrantOn::Everything);
    }
    let follows = |c: &Cursor<'_>| matches!(c.token(c.index() + 1), Token::Word(_) | Token::Mul);
    if c.peek_words(&["DATABASE"]) && follows(c) {
        c.advance();
        return c.name().map(GrantOn::Database);
    }
    if c.peek_words(&["CATALOG"]) && follows(c) {
        c.advance();
        return c.ident().map(GrantOn::Catalog);
    }
    if (c.peek_words(&["TABLE"]) || c.peek_words(&["VIEW"])) && follows(c) {
        c.advance();
    }
    let mut parts = Vec::new();
    loop {
        parts.push(if c.accept_token(&Token::Mul) { None } else { Some(c.ident()?) });
        if !c.accept_token(&Token::Period) {
            break;
        }
    }
    let named = parts.iter().take_while(|p| p.is_some()).count();
    let count = parts.len();
    let names: Vec<String> = parts.into_iter().flatten().collect();
    match (count, named, names.len()) {
        (1, 0, _) => Ok(GrantOn::SelectedDatabase),
        (2 | 3, 0, 0) => Ok(GrantOn::Everything),
        (3, 1, 1) => Ok(GrantOn::Catalog(names.into_iter().next().unwrap_or_default())),
        (2, 1, 1) | (3, 2, 2) => Ok(GrantOn::Database(Name(names))),
        (1..=3, n, _) if n == count => Ok(GrantOn::Table(Name(names))),
        _ => Err(c.expected("*.*, catalog.*.*, database.*, or a table before this")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_user_names() {
        assert_eq!(part("u@h"), Some(("u".into(), "@h")));
        assert_eq!(part("'a''b\\'c'@'%'"), Some(("a'b'c".into(), "@'%'")));
        assert_eq!(part("`x``y`"), Some(("x`y".into(), "")));
        assert_eq!(part("'open"), None);
    }
}
