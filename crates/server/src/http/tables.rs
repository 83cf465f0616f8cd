//! Requests of connectors about tables: columns, sizes, definitions, plans.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::Array;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use axum::extract::{ConnectInfo, Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use dipper_engine::{EngineError, Outcome, Session};
use futures::StreamExt;
use serde_json::{Map, Value, json};

use super::listener::Client;
use super::query::execute;
use super::{App, authorized, database, parameter, reply};

/// The text that says why connectors get no query plans, and how to read instead.
const NO_PLANS: &str = "dipper has no query plans for the sources of the Spark and Flink connectors: there are no backends whose tablets could be read. Read by JDBC instead (MySQL driver, jdbc:mysql://HOST:QUERY_PORT/DATABASE); the connectors' sinks work";

/// Makes a session of the user of a request, or returns the refusal if its credentials are missing or wrong.
pub(super) async fn begin(app: &App, client: &Client, headers: &HeaderMap) -> Result<Session, Response> {
    let user = authorized(app, client, headers).await?;
    Ok(app.session(&user, client.peer))
}

/// Answers with a result or with its error.
pub(super) fn said(data: Result<Value, EngineError>) -> Response {
    match data {
        Ok(data) => reply::success(&data),
        Err(e) => reply::failure(1, "Error", &e.message),
    }
}

/// Returns the columns of a table.
pub(super) async fn schema(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    Path((db, table)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let mut session = match begin(&app, &client, &headers).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    said(columns(&mut session, None, database(&db), &table).await)
}

/// Returns the columns of a table of a catalog, which may be dipper's own (`internal`).
pub(super) async fn schema_of_catalog(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    Path((catalog, db, table)): Path<(String, String, String)>,
    headers: HeaderMap,
) -> Response {
    let mut session = match begin(&app, &client, &headers).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    said(columns(&mut session, Some(&catalog), &db, &table).await)
}

async fn columns(
    session: &mut Session,
    catalog: Option<&str>,
    database: &str,
    table: &str,
) -> Result<Value, EngineError> {
    let catalog = catalog.filter(|name| *name != "internal" && *name != "default_catalog");
    let place = match catalog {
        Some(catalog) => format!("{}.{}.{}", quoted(catalog), quoted(database), quoted(table)),
        None => format!("{}.{}", quoted(database), quoted(table)),
    };
    let rows = texts(session, &format!("SHOW FULL COLUMNS FROM {place}")).await?;
    let at = |name: &str| rows.names.iter().position(|n| n.eq_ignore_ascii_case(name));
    let cell = |row: &[Option<String>], i: Option<usize>| i.and_then(|i| row[i].clone()).unwrap_or_default();
    let (field, kind, null, comment) = (at("Field"), at("Type"), at("Null"), at("Comment"));
    // Only DESC shows the aggregation of a column, before what else it says of the column.
    let described = texts(session, &format!("DESC {place}")).await?;
    let merged = |row: usize| match described.rows.get(row).and_then(|r| r.last()?.as_deref()?.split(',').next()) {
        Some(
            name @ ("SUM"
            | "MIN"
            | "MAX"
            | "REPLACE"
            | "REPLACE_IF_NOT_NULL"
            | "HLL_UNION"
            | "BITMAP_UNION"
            | "QUANTILE_UNION"
            | "GENERIC"),
        ) => name.to_string(),
        _ => String::new(),
    };
    let properties: Vec<Value> = (rows.rows.iter().enumerate())
        .map(|(at, row)| {
            let declared = cell(row, kind).to_uppercase();
            let name = match declared.split(['(', '<']).next().unwrap_or_default() {
                // The connectors know text only by this name.
                "TEXT" => "STRING",
                name => name,
            };
            let mut column = json!({
                "name": cell(row, field),
                "type": name,
                "column_type": declared,
                "comment": cell(row, comment),
                "aggregation_type": merged(at),
                "is_nullable": if cell(row, null) == "YES" { "Yes" } else { "No" },
            });
            if name == "DECIMAL"
                && let Some([precision, scale]) = numbers(&declared)
            {
                column["precision"] = precision.into();
                column["scale"] = scale.into();
            }
            column
        })
        .collect();
    let mut data = json!({ "properties": properties, "status": 200 });
    if catalog.is_none() {
        let asked = format!(
            "SELECT TABLE_MODEL FROM information_schema.table_options WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {}",
            literal(database),
            literal(table)
        );
        // Without the model, Flink's connector turns deletes into upserts. Tables over files and views have no model.
        if let Some(model) = texts(session, &asked).await?.first() {
            data["keysType"] = model.into();
        }
    }
    Ok(data)
}

/// Returns the two numbers of `DECIMAL(p,s)`.
fn numbers(declared: &str) -> Option<[u64; 2]> {
    let (_, inside) = declared.strip_suffix(')')?.split_once('(')?;
    let (precision, scale) = inside.split_once(',')?;
    Some([precision.trim().parse().ok()?, scale.trim().parse().ok()?])
}

/// Returns the number of rows of a table.
pub(super) async fn count(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    Path((db, table)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let mut session = match begin(&app, &client, &headers).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    let session = &mut session;
    said(
        async {
            session.use_database(database(&db)).await?;
            let rows = texts(session, &format!("SELECT COUNT(*) FROM {}", quoted(&table))).await?;
            let text = rows.first().unwrap_or_default();
            let size = text.parse::<u64>().map_err(|_| EngineError::invalid(format!("COUNT(*) gave '{text}'")))?;
            Ok(json!({ "size": size, "status": 200 }))
        }
        .await,
    )
}

/// Refuses to plan a query for a connector's source, in a form that puts the reason into the connectors' messages,
/// which quote what they cannot read as a plan. Connectors of Doris quote `data`, or `msg` if `code` is not 0; those of
/// StarRocks quote the whole answer or the text in `partitions`.
pub(super) async fn query_plan(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    headers: HeaderMap,
) -> Response {
    if let Err(response) = authorized(&app, &client, &headers).await {
        return response;
    }
    let body = json!({ "msg": NO_PLANS, "code": 1, "data": NO_PLANS, "count": 0, "status": 501, "exception": NO_PLANS,
            "partitions": NO_PLANS });
    reply::json_text(StatusCode::OK, format!("{body}\n"))
}

/// Answers whether columns of a table can be added and dropped without rewriting it. Flink's connector asks that before
/// it follows schema changes of its source.
pub(super) async fn light_schema_change(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    Path((db, table)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let mut session = match begin(&app, &client, &headers).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    let session = &mut session;
    said(
        async {
            if native(session, &db, &table, "1").await?.is_none() {
                return Err(EngineError::invalid(format!(
                    "'{db}.{table}' is no native table, or there is none of this name"
                )));
            }
            Ok(Value::from(""))
        }
        .await,
    )
}

/// Returns the statement that creates a table, named by the parameters `db` and `tbl`.
pub(super) async fn ddl(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let mut session = match begin(&app, &client, &headers).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    let session = &mut session;
    said(
        async {
            let (db, table) = named(&uri, "tbl")?;
            let rows = texts(session, &format!("SHOW CREATE TABLE {}.{}", quoted(&db), quoted(&table))).await?;
            let statement = rows.rows.first().and_then(|row| row.get(1)?.clone()).unwrap_or_default();
            Ok(json!({ "create_table": [statement], "create_partition": [], "create_rollup": [] }))
        }
        .await,
    )
}

/// Returns the bytes of the native tables that the user sees: of all together, or of the database `db`.
pub(super) async fn data_sizes(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let mut session = match begin(&app, &client, &headers).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    said(sizes(&mut session, &uri).await.map(|all| {
        let of = |tables: &Map<String, Value>| tables.values().filter_map(Value::as_u64).sum::<u64>();
        match parameter(&uri, "db") {
            Some(db) => json!({ db.as_str(): all.get(database(&db)).map_or(0, of) }),
            None => json!({ "__total_size": all.values().map(of).sum::<u64>() }),
        }
    }))
}

/// Returns the bytes of native tables by database and table: of all that the user sees, of the database `db`, or of its
/// table `table`.
pub(super) async fn table_sizes(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let mut session = match begin(&app, &client, &headers).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    said(sizes(&mut session, &uri).await.map(|all| json!(all)))
}

/// The bytes of native tables by database and table, of the database and the table that the parameters name.
pub(super) async fn sizes(
    session: &mut Session,
    uri: &Uri,
) -> Result<BTreeMap<String, Map<String, Value>>, EngineError> {
    let mut asked = String::from(
        "SELECT TABLE_SCHEMA, TABLE_NAME, DATA_LENGTH FROM information_schema.tables WHERE ENGINE = 'OLAP'",
    );
    for (name, column) in [("db", "TABLE_SCHEMA"), ("table", "TABLE_NAME")] {
        if let Some(value) = parameter(uri, name) {
            asked.push_str(&format!(" AND {column} = {}", literal(database(&value))));
        }
    }
    let mut all: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for row in texts(session, &asked).await?.rows {
        let mut cells = row.into_iter().map(Option::unwrap_or_default);
        let (db, table) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
        let bytes: u64 = cells.next().and_then(|n| n.parse().ok()).unwrap_or_default();
        all.entry(db).or_default().insert(table, bytes.into());
    }
    Ok(all)
}

/// Returns the number of rows of a native table, named by the parameters `db` and `table`, as counted in its chain.
pub(super) async fn row_count(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let mut session = match begin(&app, &client, &headers).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    let session = &mut session;
    said(
        async {
            let (db, table) = named(&uri, "table")?;
            let counted = native(session, &db, &table, "TABLE_ROWS").await?;
            let rows: Option<u64> = counted.and_then(|n| n.parse().ok());
            let rows = rows.ok_or_else(|| {
                EngineError::invalid(format!("'{db}.{table}' is no native table, or there is none of this name"))
            })?;
            Ok(json!({ table: rows }))
        }
        .await,
    )
}

/// Returns a column of information_schema.tables about a native table; `None` if the user sees no native table of this
/// name.
async fn native(session: &mut Session, db: &str, table: &str, column: &str) -> Result<Option<String>, EngineError> {
    let asked = format!(
        "SELECT {column} FROM information_schema.tables WHERE ENGINE = 'OLAP' AND TABLE_SCHEMA = {} AND TABLE_NAME = {}",
        literal(database(db)),
        literal(table)
    );
    Ok(texts(session, &asked).await?.first())
}

/// Returns the parameter `db`, and the parameter that `table` names.
fn named(uri: &Uri, table: &str) -> Result<(String, String), EngineError> {
    match (parameter(uri, "db"), parameter(uri, table)) {
        (Some(db), Some(name)) => Ok((database(&db).to_string(), name)),
        _ => Err(EngineError::invalid(format!("expected the parameters db and {table}: ?db=DATABASE&{table}=TABLE"))),
    }
}

/// Quotes a string so that it means the same whatever `sql_mode` says about backslashes.
pub(super) fn literal(text: &str) -> String {
    match text.contains('\\') {
        true => format!("x'{}'", text.bytes().map(|b| format!("{b:02X}")).collect::<String>()),
        false => format!("'{}'", text.replace('\'', "''")),
    }
}

/// Quotes a name.
pub(super) fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// The rows of a small result as text.
pub(super) struct Texts {
    /// Names of the columns.
    pub(super) names: Vec<String>,
    /// The rows; `None` is NULL.
    pub(super) rows: Vec<Vec<Option<String>>>,
}

impl Texts {
    /// The first column of the first row.
    fn first(&self) -> Option<String> {
        self.rows.first()?.first()?.clone()
    }
}

/// Reads all rows of a small result as text.
pub(super) async fn texts(session: &mut Session, statement: &str) -> Result<Texts, EngineError> {
    let Outcome::Rows(mut result) = execute(session, statement).await? else {
        return Err(EngineError::invalid("expected rows"));
    };
    let names = result.columns.iter().map(|c| c.name.clone()).collect();
    let mut rows = Vec::new();
    while let Some(batch) = result.batches.next().await {
        let batch = batch?;
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|c| cast(c, &DataType::Utf8).map_err(|e| EngineError::invalid(e.to_string())))
            .collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            let cell = |c: &arrow::array::ArrayRef| {
                let strings = c.as_any().downcast_ref::<arrow::array::StringArray>().expect("cast to Utf8");
                (!strings.is_null(row)).then(|| strings.value(row).to_string())
            };
            rows.push(columns.iter().map(cell).collect());
        }
    }
    Ok(Texts { names, rows })
}
