use super::*;

fn create(name: &str, host: &str) -> AccessChange {
    AccessChange::CreateUser {
        id: TableId::fresh(),
        name: name.into(),
        host: host.into(),
        password: Password::from_plain("pw"),
        policy: PolicyChange::default(),
        roles: BTreeSet::new(),
        comment: None,
        if_not_exists: false,
        at_ms: 1_000,
    }
}

fn user(name: &str) -> Grantee {
    Grantee::User { name: name.into(), host: "%".into() }
}

fn apply(accounts: &mut Accounts, change: AccessChange) -> String {
    match accounts.apply(&change, |id| id.0 < 1000) {
        Ok(changed) => changed.to_string(),
        Err(e) => e.to_string(),
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn the_most_definite_host_wins() {
    let mut accounts = Accounts::default();
    for host in ["%", "10.%", "10.1.%", "10.1.2.3", "localhost", "::1"] {
        apply(&mut accounts, create("u", host));
    }
    for (from, host) in [
        ("192.168.0.1", Some("%")),
        ("10.9.9.9", Some("10.%")),
        ("10.1.9.9", Some("10.1.%")),
        ("10.1.2.3", Some("10.1.2.3")),
        ("::ffff:10.1.2.3", Some("10.1.2.3")),
        ("127.0.0.1", Some("localhost")),
        ("127.9.0.1", Some("localhost")),
    ] {
        assert_eq!(accounts.find("u", address(from)).map(|u| u.host.as_str()), host, "{from}");
    }
    assert!(accounts.find("U", address("10.1.2.3")).is_none(), "names are case-sensitive");
    assert!(accounts.find("root", address("1.2.3.4")).is_some());
    apply(&mut accounts, create("v", "10.%"));
    assert!(accounts.find("v", address("11.0.0.1")).is_none());
}

#[test]
fn users_come_and_go() {
    let mut accounts = Accounts::default();
    assert!(accounts.is_new());
    assert_eq!(apply(&mut accounts, create("u", "%")), "true");
    assert!(apply(&mut accounts, create("u", "%")).starts_with("Operation CREATE USER failed for 'u'@'%'"));
    for (name, host, part) in
        [("", "%", "it is empty"), ("u", "example.org", "host names are not looked up"), ("u", "%%%%%", "wildcards")]
    {
        let said = apply(&mut accounts, create(name, host));
        assert!(said.contains(part), "{said}");
    }
    let drop = |name: &str| AccessChange::DropUser { name: name.into(), host: "%".into(), if_exists: false };
    assert_eq!(apply(&mut accounts, drop("u")), "true");
    assert!(apply(&mut accounts, drop("u")).contains("there is no such user"));
    assert!(apply(&mut accounts, drop("root")).contains("always there"));
    assert!(accounts.is_new());
}

#[test]
fn a_renamed_user_keeps_what_it_has() {
    let mut accounts = Accounts::default();
    apply(&mut accounts, create("u", "%"));
    apply(&mut accounts, create("v", "%"));
    let grant = AccessChange::Grant { to: user("u"), scope: Scope::Global, privileges: Privileges::SELECT };
    assert_eq!(apply(&mut accounts, grant), "true");
    let properties = [("max_user_connections".to_string(), Some("7".to_string()))].into();
    assert_eq!(apply(&mut accounts, AccessChange::SetProperties { user: "u".into(), properties }), "true");
    let before = accounts.user("u", "%").unwrap().clone();
    let rename = |from: &str, to: &str, host: &str| AccessChange::RenameUser {
        name: from.into(),
        host: "%".into(),
        to_name: to.into(),
        to_host: host.into(),
    };
    assert!(apply(&mut accounts.clone(), rename("u", "v", "%")).contains("there is a user 'v'@'%' already"));
    assert!(apply(&mut accounts.clone(), rename("x", "y", "%")).contains("there is no such user"));
    assert!(apply(&mut accounts.clone(), rename("root", "y", "%")).contains("always there"));
    assert!(apply(&mut accounts.clone(), rename("u", "y", "example.org")).contains("host names"));
    assert_eq!(apply(&mut accounts, rename("u", "w", "10.%")), "true");
    assert!(accounts.user("u", "%").is_none());
    let after = accounts.user("w", "10.%").unwrap();
    assert_eq!((after.id, &after.grants, &after.password), (before.id, &before.grants, &before.password));
    assert!(accounts.properties("u").is_none());
    assert_eq!(accounts.properties("w").unwrap().get("max_user_connections").map(String::as_str), Some("7"));
}

#[test]
fn roles_and_grants_add_up() {
    let mut accounts = Accounts::default();
    apply(&mut accounts, create("u", "%"));
    let role = |name: &str| AccessChange::CreateRole { name: name.into(), comment: None, if_not_exists: false };
    assert_eq!(apply(&mut accounts, role("r")), "true");
    let grant = |to: Grantee, scope, privileges| AccessChange::Grant { to, scope, privileges };
    let database = Scope::Database(TableId(7));
    assert_eq!(apply(&mut accounts, grant(Grantee::Role("r".into()), database.clone(), Privileges::LOAD)), "true");
    assert_eq!(apply(&mut accounts, grant(user("u"), Scope::Table(TableId(8)), Privileges::SELECT)), "true");
    assert_eq!(apply(&mut accounts, grant(user("u"), Scope::Table(TableId(8)), Privileges::SELECT)), "false");
    assert!(
        apply(&mut accounts, grant(user("u"), Scope::Table(TableId(5000)), Privileges::SELECT)).contains("dropped")
    );
    assert!(apply(&mut accounts, grant(user("x"), Scope::Global, Privileges::SELECT)).contains("CREATE USER it first"));
    let member = AccessChange::GrantRole { role: "r".into(), name: "u".into(), host: "%".into() };
    assert_eq!(apply(&mut accounts, member), "true");

    let rights = |accounts: &Accounts| Rights::of(accounts, accounts.user("u", "%").unwrap());
    let r = rights(&accounts);
    assert_eq!(r.on_table(TableId(7), TableId(8)), Privileges::LOAD | Privileges::SELECT);
    assert_eq!(r.on_table(TableId(7), TableId(9)), Privileges::LOAD);
    assert_eq!(r.on_table(TableId(6), TableId(9)), Privileges::NONE);

    let text = serde_json::to_string(&accounts).unwrap();
    assert_eq!(serde_json::from_str::<Accounts>(&text).unwrap(), accounts);

    // OR REPLACE passes them on, DROP does not.
    accounts.forget(&[TableId(8)], Some(TableId(80)));
    assert_eq!(rights(&accounts).on_table(TableId(6), TableId(80)), Privileges::SELECT);
    assert!(accounts.name_any(&[TableId(7)]));
    accounts.forget(&[TableId(7), TableId(80)], None);
    assert!(!accounts.name_any(&[TableId(7), TableId(80)]));
    assert_eq!(rights(&accounts).on_table(TableId(7), TableId(80)), Privileges::NONE);

    let alter = |name: &str, comment: &str| AccessChange::AlterRole { name: name.into(), comment: comment.into() };
    assert_eq!(apply(&mut accounts, alter("r", "readers")), "true");
    assert_eq!(apply(&mut accounts, alter("r", "readers")), "false");
    assert_eq!(accounts.role("r").unwrap().comment.as_deref(), Some("readers"));
    assert_eq!(apply(&mut accounts, alter("r", "")), "true");
    assert_eq!(accounts.role("r").unwrap().comment, None);
    assert!(apply(&mut accounts, alter("x", "c")).contains("Operation ALTER ROLE failed for role 'x'"));

    let revoke = |from: Grantee, scope| AccessChange::Revoke { from, scope, privileges: Privileges::EVERYTHING };
    assert!(apply(&mut accounts, revoke(user("u"), Some(Scope::Global))).contains("no such grant"));
    assert_eq!(apply(&mut accounts, revoke(user("u"), None)), "false");
    assert!(apply(&mut accounts, revoke(user("root"), None)).contains("always there"));
    let drop = AccessChange::DropRole { name: "r".into(), if_exists: false };
    assert_eq!(apply(&mut accounts, drop), "true");
    assert!(accounts.user("u", "%").unwrap().roles.is_empty());
}

#[test]
fn administrators_may_do_everything_but_change_nodes() {
    let mut accounts = Accounts::default();
    apply(&mut accounts, create("u", "%"));
    apply(&mut accounts, AccessChange::Grant { to: user("u"), scope: Scope::Global, privileges: Privileges::ADMIN });
    let rights = Rights::of(&accounts, accounts.user("u", "%").unwrap());
    assert_eq!(rights.on_all(), Privileges::EVERYTHING - Privileges::NODE);
    let root = Rights::of(&accounts, accounts.user("root", "%").unwrap());
    assert_eq!(root.on_table(TableId(1), TableId(2)), Privileges::EVERYTHING);
}

#[test]
fn properties_belong_to_a_name() {
    let mut accounts = Accounts::default();
    let set = |user: &str, value: Option<&str>| AccessChange::SetProperties {
        user: user.into(),
        properties: BTreeMap::from([("max_user_connections".into(), value.map(str::to_string))]),
    };
    assert_eq!(apply(&mut accounts, set("root", Some("10000"))), "true");
    assert_eq!(accounts.property("root", "max_user_connections"), Some("10000"));
    assert!(apply(&mut accounts, set("nobody", Some("1"))).contains("no such user"));
    assert_eq!(apply(&mut accounts, set("root", None)), "true");
    assert!(accounts.is_new());
}

#[test]
fn passwords_have_rules() {
    let mut accounts = Accounts::default();
    let policy = PolicyChange { history: Some(2), expire_seconds: Some(10), ..PolicyChange::default() };
    let AccessChange::CreateUser { id, name, host, password, .. } = create("u", "%") else { unreachable!() };
    let made = AccessChange::CreateUser {
        id,
        name,
        host,
        password,
        policy,
        roles: BTreeSet::new(),
        comment: None,
        if_not_exists: false,
        at_ms: 1_000,
    };
    assert_eq!(apply(&mut accounts, made), "true");
    let alter = |password: Option<&str>, policy: PolicyChange, at_ms| AccessChange::AlterUser {
        name: "u".into(),
        host: "%".into(),
        password: password.map(Password::from_plain),
        policy,
        comment: None,
        if_exists: false,
        at_ms,
    };
    let mut set = |password, at_ms| apply(&mut accounts, alter(Some(password), PolicyChange::default(), at_ms));
    // The last two passwords, including the present one, must not be repeated.
    assert!(set("pw", 2_000).contains("password history policy"));
    assert_eq!(set("b", 2_000), "true");
    assert!(set("pw", 3_000).contains("password history policy"));
    assert_eq!(set("c", 3_000), "true");
    assert_eq!(set("pw", 4_000), "true");
    let of = |accounts: &Accounts| accounts.user("u", "%").unwrap().policy.clone();
    assert_eq!(of(&accounts).former, [Password::from_plain("c"), Password::from_plain("b")]);
    assert!(!of(&accounts).is_expired(13_999) && of(&accounts).is_expired(14_000) && !of(&accounts).is_expired(0));
    let too_many = PolicyChange { history: Some(11), ..PolicyChange::default() };
    assert!(apply(&mut accounts, alter(None, too_many, 5_000)).contains("no more than 10"));

    assert_eq!(of(&accounts).locks(), None);
    let locks = PolicyChange {
        failed_logins: Some(3),
        lock_seconds: Some(60),
        history: Some(0),
        unlock: true,
        ..PolicyChange::default()
    };
    assert_eq!(apply(&mut accounts, alter(None, locks, 6_000)), "true");
    let after = of(&accounts);
    assert_eq!((after.locks(), after.unlocked_ms, after.changed_ms), (Some((3, 60)), 6_000, 4_000));
    assert!(after.former.is_empty());

    let lock = PolicyChange { lock: true, ..PolicyChange::default() };
    assert_eq!(apply(&mut accounts, alter(None, lock, 7_000)), "true");
    assert!(of(&accounts).locked);
    let other = PolicyChange { history: Some(1), ..PolicyChange::default() };
    apply(&mut accounts, alter(None, other, 8_000));
    assert!(of(&accounts).locked, "it stays until it is unlocked");
    let unlock = PolicyChange { unlock: true, ..PolicyChange::default() };
    apply(&mut accounts, alter(None, unlock, 9_000));
    assert!(!of(&accounts).locked);
    let text = serde_json::to_string(&accounts).unwrap();
    assert_eq!(serde_json::from_str::<Accounts>(&text).unwrap(), accounts);
}
