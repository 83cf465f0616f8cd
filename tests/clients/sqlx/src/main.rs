//! The client check for sqlx: everything it does is prepared.

use std::env;
use std::fmt::{Debug, Display};

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlSslMode};
use sqlx::types::Decimal;
use sqlx::types::chrono::{NaiveDate, NaiveDateTime};
use sqlx::{ConnectOptions, Connection, Executor, Row};

type Result<T = (), E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

fn equal<T: PartialEq<U> + Debug, U: Debug>(found: T, expected: U) -> Result {
    if found == expected { Ok(()) } else { Err(format!("expected {expected:?}, found {found:?}").into()) }
}

/// Counts failures.
#[derive(Default)]
struct Checks(u32);

impl Checks {
    fn check(&mut self, name: &str, result: Result<(), impl Display>) {
        match result {
            Ok(()) => println!("ok {name}"),
            Err(error) => {
                self.0 += 1;
                let text = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
                println!("FAIL {name}: {text}");
            }
        }
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

fn options() -> MySqlConnectOptions {
    let port = variable("DIPPER_PORT").parse().expect("a port");
    MySqlConnectOptions::new().host(&variable("DIPPER_HOST")).port(port).username("root").ssl_mode(MySqlSslMode::Disabled)
}

async fn types(connection: &mut MySqlConnection) -> Result {
    let sql = variable("DIPPER_TYPES_SQL");
    for _ in 0..3 {
        let row = sqlx::query(&sql).fetch_one(&mut *connection).await?;
        equal(row.try_get::<i8, _>("t_tinyint")?, 1)?;
        equal(row.try_get::<i16, _>("t_smallint")?, -2)?;
        equal(row.try_get::<i32, _>("t_int")?, 3)?;
        equal(row.try_get::<i64, _>("t_bigint")?, 4)?;
        equal(row.try_get::<String, _>("t_largeint")?, "170141183460469231731687303715884105727")?;
        equal(row.try_get::<bool, _>("t_boolean")?, true)?;
        equal(row.try_get::<f32, _>("t_float")?, 1.5)?;
        equal(row.try_get::<f64, _>("t_double")?, -2.25)?;
        equal(row.try_get::<Decimal, _>("t_decimal")?, Decimal::new(125, 2))?;
        equal(row.try_get::<NaiveDate, _>("t_date")?.to_string(), "2020-01-31")?;
        equal(row.try_get::<NaiveDateTime, _>("t_datetime")?.to_string(), "2020-01-31 01:02:03")?;
        equal(row.try_get::<NaiveDateTime, _>("t_micros")?.to_string(), "2020-01-31 01:02:03.500")?;
        equal(row.try_get::<String, _>("t_text")?, "ä漢😀")?;
        equal(row.try_get::<String, _>("t_array")?, "[1, 2]")?;
        equal(row.try_get::<Option<String>, _>("t_null")?, None::<String>)?;
    }
    Ok(())
}

async fn set_up(connection: &mut MySqlConnection) -> Result {
    let sql = variable("DIPPER_LOOKUP_SQL");
    for statement in sql.split(";\n").filter(|statement| !statement.trim().is_empty()) {
        connection.execute(statement).await?;
    }
    Ok(())
}

async fn lookups(connection: &mut MySqlConnection, table: &str) -> Result {
    let sql = format!("select * from {table} where id = ?");
    for _ in 0..3 {
        let row = sqlx::query(&sql).bind(1_i64).fetch_one(&mut *connection).await?;
        equal(row.try_get::<bool, _>("t_boolean")?, true)?;
        equal(row.try_get::<i8, _>("t_tinyint")?, i8::MIN)?;
        equal(row.try_get::<i16, _>("t_smallint")?, i16::MAX)?;
        equal(row.try_get::<i32, _>("t_int")?, i32::MIN)?;
        equal(row.try_get::<i64, _>("t_bigint")?, i64::MAX)?;
        equal(row.try_get::<String, _>("t_largeint")?, "170141183460469231731687303715884105727")?;
        equal(row.try_get::<f32, _>("t_float")?, 1.5)?;
        equal(row.try_get::<f64, _>("t_double")?, -2.25)?;
        equal(row.try_get::<Decimal, _>("t_decimal")?.to_string(), "-1234567890123456.7891")?;
        equal(row.try_get::<NaiveDate, _>("t_date")?.to_string(), "2020-01-31")?;
        equal(row.try_get::<NaiveDateTime, _>("t_datetime")?.to_string(), "2020-01-31 01:02:03")?;
        equal(row.try_get::<NaiveDateTime, _>("t_micros")?.to_string(), "2020-01-31 01:02:03.500")?;
        equal(row.try_get::<String, _>("t_char")?, "abc")?;
        equal(row.try_get::<String, _>("t_varchar")?, "it's ä")?;
        equal(row.try_get::<String, _>("t_string")?, "ä漢😀")?;
        let row = sqlx::query(&sql).bind(2_i64).fetch_one(&mut *connection).await?;
        equal(row.try_get::<i64, _>("id")?, 2)?;
        for at in 1..row.len() {
            equal(row.try_get_unchecked::<Option<String>, _>(at)?, None::<String>)?;
        }
        let none = sqlx::query(&sql).bind(3_i64).fetch_optional(&mut *connection).await?;
        equal(none.is_none(), true)?;
    }
    Ok(())
}

async fn changes(connection: &mut MySqlConnection, table: &str) -> Result {
    let read = format!("select t_int, t_varchar from {table} where id = ?");
    let (insert, update, delete) = (
        format!("insert into {table} (id, t_int, t_varchar) values (?, ?, ?)"),
        format!("update {table} set t_int = ? where id = ?"),
        format!("delete from {table} where id = ?"),
    );
    for round in 0..2 {
        let done = sqlx::query(&insert).bind(7_i64).bind(round).bind(None::<String>).execute(&mut *connection).await?;
        equal(done.rows_affected(), 1)?;
        let found: (i32, Option<String>) = sqlx::query_as(&read).bind(7_i64).fetch_one(&mut *connection).await?;
        equal(found, (round, None))?;
        sqlx::query(&update).bind(10 + round).bind(7_i64).execute(&mut *connection).await?;
        let found: (i32, Option<String>) = sqlx::query_as(&read).bind(7_i64).fetch_one(&mut *connection).await?;
        equal(found.0, 10 + round)?;
        sqlx::query(&delete).bind(7_i64).execute(&mut *connection).await?;
        equal(sqlx::query(&read).bind(7_i64).fetch_optional(&mut *connection).await?.is_none(), true)?;
    }
    Ok(())
}

/// Neither parameters nor columns: the answer to the preparation is nothing but its first packet.
async fn bare_statements(connection: &mut MySqlConnection, table: &str) -> Result {
    for sql in [format!("insert into {table} (id) values (8)"), format!("delete from {table} where id = 8"), "set @a = 1".into()] {
        sqlx::query(&sql).execute(&mut *connection).await?;
    }
    Ok(())
}

async fn parameters(connection: &mut MySqlConnection) -> Result {
    let row = sqlx::query("select ? + 1, ?, ?").bind(41_i64).bind("it's ä").bind(None::<String>).fetch_one(connection).await?;
    equal(row.try_get_unchecked::<i64, _>(0)?, 42)?;
    equal(row.try_get::<String, _>(1)?, "it's ä")?;
    equal(row.try_get::<Option<String>, _>(2)?, None::<String>)
}

fn refused<T>(result: std::result::Result<T, sqlx::Error>, code: &str, state: &str) -> Result {
    match result {
        Err(sqlx::Error::Database(error)) => {
            equal(error.code().as_deref(), Some(state))?;
            match error.to_string().contains(code) || error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>().is_some_and(|e| e.number().to_string() == code) {
                true => Ok(()),
                false => Err(format!("another error than {code}").into()),
            }
        }
        Err(error) => Err(format!("expected error {code}, found {error}").into()),
        Ok(_) => Err(format!("expected error {code}, found none").into()),
    }
}

async fn errors(connection: &mut MySqlConnection) -> Result {
    let wrong = "select * from information_schema.no_such_table";
    refused(sqlx::query(wrong).fetch_all(&mut *connection).await, "1146", "42S02")?;
    refused(connection.execute(wrong).await, "1146", "42S02")?;
    let one: (i64,) = sqlx::query_as("select cast(1 as bigint)").fetch_one(connection).await?;
    equal(one.0, 1)
}

async fn transaction(connection: &mut MySqlConnection) -> Result {
    let transaction = connection.begin().await?;
    transaction.rollback().await?;
    connection.ping().await?;
    Ok(())
}

async fn run(checks: &mut Checks) -> Result {
    let mut connection = options().connect().await?;
    let table = variable("DIPPER_LOOKUP_TABLE");
    checks.check("types", types(&mut connection).await);
    checks.check("parameters", parameters(&mut connection).await);
    checks.check("set-up of a table", set_up(&mut connection).await);
    checks.check("key look-ups", lookups(&mut connection, &table).await);
    checks.check("changes between look-ups", changes(&mut connection, &table).await);
    checks.check("statements without parameters and columns", bare_statements(&mut connection, &table).await);
    checks.check("errors", errors(&mut connection).await);
    checks.check("transaction and ping", transaction(&mut connection).await);
    checks.check("wrong password", refused(options().password("wrong").connect().await, "1045", "28000"));
    connection.close().await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut checks = Checks::default();
    let result = run(&mut checks).await;
    if result.is_err() {
        checks.check("connection", result);
    }
    std::process::exit(i32::from(checks.0 > 0));
}
