//! `PUT /api/_http_stream`: an INSERT whose query reads the body of the request by `FROM http_stream(...)`.
//!
//! Headers of Stream Load act as they do there, by the corresponding means of INSERT: `label` is WITH LABEL, and
//! `partial_columns` is the variable of that meaning. A header is refused if the statement itself has to say what the
//! header says; see [`misplaced`].

use std::sync::Arc;
use std::time::Instant;

use dipper_base::client::ClientInfo;
use dipper_dialect::statement::{Insert, Parsed, Properties, Statement};
use dipper_exec::stored::Misfit;
use dipper_ingest::answer::{LoadAnswer, RejectedRow};
use dipper_ingest::outcome::{LabelUsed, Rejected, Unqualified};
use dipper_ingest::records::{LoadHeader, LoadKind};
use dipper_ingest::request::{GroupCommit, JsonLayout, MergeType, NewKeys, StreamLoadRequest, UpdateMode};
use dipper_ingest::{errors, job};
use dipper_load::body::BodySource;
use dipper_sql::charter::session::TableRef;
use dipper_sql::charter::table_refs;
use dipper_store::table::schema::Model;
use dipper_text::Compression;
use futures::future::BoxFuture;

use super::body_table::{BodyTable, FUNCTION};
use crate::access;
use crate::engine::Engine;
use crate::error::{EngineError, ErrorKind, Result};
use crate::result::Outcome;
use crate::session::Session;
use crate::statements::qualified;

/// Runs an INSERT over a body. `request` holds the headers besides the statement.
///
/// # Cancellation
/// Dropping the future loads nothing, unless the commit had begun.
pub fn http_stream<'a>(
    engine: &'a Arc<Engine>,
    client: ClientInfo,
    sql: &'a str,
    request: &'a StreamLoadRequest,
    body: BodySource,
) -> BoxFuture<'a, LoadAnswer> {
    Box::pin(run(engine, client, sql, request, body))
}

async fn run(
    engine: &Arc<Engine>,
    client: ClientInfo,
    sql: &str,
    request: &StreamLoadRequest,
    body: BodySource,
) -> LoadAnswer {
    let body = Arc::new(body);
    let mut session = engine.session(client);
    let begun = Instant::now();
    let found = statement(&session, sql, request);
    let label = match &found {
        Ok((_, Insert { label: Some(label), .. })) => label.clone(),
        _ => request.label.clone().unwrap_or_else(|| job::new_label(request.grouped())),
    };
    let mut answer = LoadAnswer::new(label.clone(), request.comment.clone());
    let (parsed, insert) = match found {
        Ok(found) => found,
        Err(e) => return answer.ended_by(e),
    };
    let (database, table) = match qualified(&session, &insert.table) {
        Ok(found) => found,
        Err(e) => return answer.ended_by(e),
    };
    let running = engine.loads.records.begin(LoadHeader {
        kind: LoadKind::Stream,
        user: session.client.user.clone(),
        client: session.client.host.clone(),
        database: database.clone(),
        table: table.clone(),
        label,
        comment: request.comment.clone(),
    });
    let prepared = match prepare(&mut session, request) {
        Ok(()) => check_target(&session, request, &parsed, &database, &table).await,
        Err(e) => Err(e),
    };
    let (prepared, threads) = match prepared {
        // Among rows with equal keys the last one counts, as in a Stream Load. Several threads could not tell which one
        // that is.
        Ok(Order::Matters) => (session.variables.set("parallel_pipeline_task_num", "1").map(drop), 1),
        Ok(Order::Free) => (Ok(()), engine.threads),
        Err(e) => (Err(e), engine.threads),
    };
    let zone = session.variables.time_zone();
    let read = Arc::new(BodyTable::new(engine, zone, request.max_filter_ratio, threads, Arc::clone(&body)));
    session.body = Some(Arc::clone(&read));
    answer.times.plan = begun.elapsed();
    if request.two_phase_commit {
        session.begin_labelled(&answer.label);
        answer.two_phase_commit = true;
    }
    let outcome = match prepared {
        Ok(()) => session.execute(sql, &parsed, Vec::new()).await,
        Err(e) => Err(e),
    };
    answer.bytes = body.bytes_read();
    answer.times.receive = std::time::Duration::from_nanos(body.waited_ns());
    let rows = read.rows();
    let mut rejected = Vec::new();
    if let Some(rows) = &rows {
        (answer.total_rows, answer.filtered_rows, rejected) = rows.counts();
        // Readers end when their rows are no longer wanted.
        rows.cancel();
    }
    // A query does not keep the line numbers of its rows.
    let unplaced = |reason| RejectedRow { line: 0, column: None, reason, row: String::new() };
    if let Some(inserted) = read.inserted() {
        answer.txn = Some(inserted.txn);
        answer.group_commit = request.grouped() && inserted.shared;
        answer.filtered_rows += inserted.rejected;
        rejected.extend(inserted.reasons.into_iter().map(unplaced));
    }
    let outcome = match (outcome, session.take_written()) {
        (Ok(done), Some(written)) => written.prepare().await.map(|_| done),
        (outcome, _) => outcome,
    };
    match outcome {
        Ok(Outcome::Done(done)) => {
            answer.loaded_rows = done.affected_rows;
            answer.unselected_rows = answer.total_rows.saturating_sub(answer.loaded_rows + answer.filtered_rows);
        }
        Ok(Outcome::Rows(_)) => answer = answer.failed("internal error: an INSERT gave rows"),
        Err(e) => match (e.kind, e.cause::<LabelUsed>().cloned()) {
            (ErrorKind::Unknown, _) => answer = answer.ended_by(e),
            (_, Some(used)) => {
                // As with a Stream Load, the answer has only times.
                let nothing = LoadAnswer { times: answer.times, ..LoadAnswer::new(answer.label, answer.comment) };
                answer = nothing.label_used(used);
            }
            (_, None) => match Misfits::of(&e) {
                Some(misfits) => {
                    answer.filtered_rows += misfits.rows;
                    let message = misfits.message(request);
                    rejected.push(unplaced(misfits.reason));
                    answer = answer.ended_by(EngineError { message, ..e });
                }
                None => answer = answer.ended_by(e),
            },
        },
    }
    errors::keep_rejected(&engine.loads.store, &rejected, &mut answer).await;
    answer.times.total = running.elapsed();
    running.end(&answer);
    answer
}

/// Returns the INSERT that reads the body, with the label that the headers name.
fn statement(session: &Session, sql: &str, request: &StreamLoadRequest) -> Result<(Parsed, Insert)> {
    let mut parsed =
        session.parse(sql).map_err(|e| EngineError { message: format!("Nereids parse failed. {e}"), ..e })?;
    let (Some(mut parsed), true) = (parsed.pop(), parsed.is_empty()) else { return Err(expected(sql)) };
    let Statement::Insert(insert) = &parsed.statement else { return Err(expected(sql)) };
    let mut insert = insert.clone();
    let options_of = |reference: TableRef| match reference {
        TableRef::Function { name, properties, .. } if name == FUNCTION => Some(properties),
        _ => None,
    };
    let functions: Vec<Properties> = table_refs(&insert.source).into_iter().filter_map(options_of).collect();
    let [options] = functions.as_slice() else { return Err(expected(sql)) };
    let given = options.iter().map(|(key, value)| (key.as_str(), value.as_bytes()));
    // Errors in the options are reported where the options are used.
    let function = StreamLoadRequest::from_headers(given).unwrap_or_default();
    if let Some((header, instead)) = misplaced(request, &function) {
        return Err(EngineError::unsupported(format!(
            "header '{header}' has no effect on an INSERT that reads {FUNCTION}(...): {instead}"
        )));
    }
    match (&request.label, &insert.label) {
        // As in Doris, the label of the header wins.
        (Some(header), _) => insert.label = Some(header.clone()),
        (None, Some(_)) if matches!(request.group_commit, GroupCommit::Sync | GroupCommit::Async) => {
            return Err(EngineError::invalid("label and group_commit can't be set at the same time"));
        }
        (None, _) => {}
    }
    let mut run = insert.clone();
    if request.two_phase_commit {
        // The label belongs to the transaction.
        run.label = None;
    }
    parsed.statement = Statement::Insert(run);
    Ok((parsed, insert))
}

/// Finds a header that would change what a Stream Load does but that an INSERT does not follow, and returns it with the
/// advice what to do instead. A header that says the same as the options of the function is not refused.
///
/// Headers that act are not named here; the tests have the list of them. `exec_mem_limit` changes no row, and an INSERT has
/// the memory of queries.
fn misplaced(request: &StreamLoadRequest, function: &StreamLoadRequest) -> Option<(&'static str, &'static str)> {
    const OPTION: &str = "it is said by the option of that name, as in http_stream(\"format\" = \"csv\", ...)";
    const SIGN: &str =
        "name __DORIS_DELETE_SIGN__ in the INSERT's list of columns, 1 in rows that delete and 0 in others";
    let (csv, own) = (&request.csv, &function.csv);
    let (json, own_json) = (&request.json, &function.json);
    let given = |header: &str| request.given.contains(&header);
    // `Content-Encoding` says it, too.
    let compressed = given("compress_type") || request.compression != Compression::None;
    let array = |json: &JsonLayout| (json.strip_outer_array, json.read_json_by_line);
    [
        (
            "unique_key_update_mode",
            request.update_mode == UpdateMode::FlexibleColumns,
            "all rows of an INSERT have the same columns; UPDATE_FIXED_COLUMNS keeps those that it does not name",
        ),
        ("columns", !request.columns.is_empty(), "the SELECT of the statement names columns and expressions"),
        ("where", request.where_.is_some(), "write WHERE in the statement"),
        ("merge_type", request.merge_type != MergeType::Append, SIGN),
        (
            "merge_condition",
            request.merge_condition.is_some(),
            "rows of an INSERT replace others whatever they have; use a Stream Load, or give the table a sequence column",
        ),
        (
            "function_column.sequence_col",
            request.sequence_col.is_some(),
            "name __DORIS_SEQUENCE_COL__ in the INSERT's list of columns",
        ),
        (
            "hidden_columns",
            !request.hidden_columns.is_empty(),
            "name the hidden columns in the INSERT's list of columns",
        ),
        ("negative", request.negative, "write the minus in the SELECT of the statement"),
        (
            "temporary_partitions",
            request.temporary_partitions,
            "write INSERT INTO db.table TEMPORARY PARTITION (p1, p2)",
        ),
        ("partitions", !request.partitions.is_empty(), "write INSERT INTO db.table PARTITION (p1, p2)"),
        ("format", given("format") && request.format != function.format, OPTION),
        ("compress_type", compressed && request.compression != function.compression, OPTION),
        ("column_separator", given("column_separator") && csv.column_separator != own.column_separator, OPTION),
        ("line_delimiter", given("line_delimiter") && csv.line_delimiter != own.line_delimiter, OPTION),
        ("enclose", given("enclose") && csv.enclose != own.enclose, OPTION),
        ("escape", given("escape") && csv.escape != own.escape, OPTION),
        ("trim_double_quotes", given("trim_double_quotes") && csv.trim_double_quotes != own.trim_double_quotes, OPTION),
        ("trim_space", given("trim_space") && csv.trim_space != own.trim_space, OPTION),
        ("skip_lines", given("skip_lines") && csv.skip_lines != own.skip_lines, OPTION),
        (
            "empty_field_as_null",
            given("empty_field_as_null") && csv.empty_field_as_null != own.empty_field_as_null,
            OPTION,
        ),
        ("jsonpaths", given("jsonpaths") && json.jsonpaths != own_json.jsonpaths, OPTION),
        ("json_root", given("json_root") && json.json_root != own_json.json_root, OPTION),
        ("num_as_string", given("num_as_string") && json.num_as_string != own_json.num_as_string, OPTION),
        (
            "read_json_by_line",
            given("read_json_by_line") && json.read_json_by_line != own_json.read_json_by_line,
            OPTION,
        ),
        // Without the header before, this one says whether lines are values.
        ("strip_outer_array", given("strip_outer_array") && array(json) != array(own_json), OPTION),
    ]
    .into_iter()
    .find(|(_, is_misplaced, _)| *is_misplaced)
    .map(|(header, _, instead)| (header, instead))
}

/// Whether the order of the rows affects the table.
enum Order {
    Matters,
    Free,
}

/// Checks the target table. A partial update needs a table with keys by which rows are found; an INSERT into another
/// table would add whole rows.
async fn check_target(
    session: &Session,
    request: &StreamLoadRequest,
    parsed: &Parsed,
    database: &str,
    table: &str,
) -> Result<Order> {
    // A user who may not insert learns nothing about the table.
    access::guard(session, &parsed.statement).await?;
    let engine = session.engine();
    let found = engine.catalog.snapshot().table(database, table).filter(|t| t.is_native()).map(|t| t.id);
    // If the table does not exist, or is not known here yet, the INSERT reports that.
    let Some(id) = found else { return Ok(Order::Matters) };
    match engine.native.newest(id).await?.schema().model {
        Model::Unique => Ok(Order::Matters),
        _ if request.update_mode != UpdateMode::Upsert => {
            Err(EngineError::invalid("Only unique key merge on write support partial update"))
        }
        Model::Aggregate => Ok(Order::Matters),
        Model::Duplicate => Ok(Order::Free),
    }
}

/// The rows that did not fit, of an INSERT that failed because of them.
struct Misfits {
    /// Number of such rows before the INSERT failed.
    rows: u64,
    /// The reason for the first of them.
    reason: String,
    /// The message of the INSERT.
    said: String,
}

impl Misfits {
    /// Returns `None` if the INSERT failed for another reason, or because of malformed lines, which the reader counts.
    fn of(error: &EngineError) -> Option<Self> {
        if error.kind != ErrorKind::BadValue || error.cause::<Unqualified>().is_some() {
            return None;
        }
        if let Some(rejected) = error.cause::<Rejected>() {
            let (rows, reason) = (rejected.rejected, rejected.first.clone());
            return Some(Misfits { rows, reason, said: rejected.to_string() });
        }
        // A strict INSERT ends with the first such value. Its variable is a header here.
        let said = match error.cause::<Misfit>() {
            Some(misfit) => misfit.way_out("send strict_mode: false"),
            None => error.message.clone(),
        };
        Some(Misfits { rows: 1, reason: said.clone(), said })
    }

    /// Makes the message of the load.
    fn message(&self, request: &StreamLoadRequest) -> String {
        let most = match request.strict_mode {
            true if request.max_filter_ratio > 0.0 => {
                "; max_filter_ratio has no effect on values with strict_mode: true, where an INSERT ends with the first that does not fit"
                    .to_string()
            }
            true => String::new(),
            false => format!("; max_filter_ratio is {}", request.max_filter_ratio),
        };
        format!("[DATA_QUALITY_ERROR]too many filtered rows: {}{most}", self.said)
    }
}

fn expected(sql: &str) -> EngineError {
    EngineError::invalid(format!(
        "header 'sql': expected one INSERT INTO db.table SELECT ... FROM {FUNCTION}(\"format\" = \"csv\", ...), found: {sql}"
    ))
}

/// Sets the session's variables by the headers.
fn prepare(session: &mut Session, request: &StreamLoadRequest) -> Result<()> {
    let variables = &mut session.variables;
    if let Some(zone) = &request.timezone {
        variables.set("time_zone", zone)?;
    }
    variables.set("enable_insert_strict", if request.strict_mode { "true" } else { "false" })?;
    variables.set("insert_max_filter_ratio", &request.max_filter_ratio.to_string())?;
    variables.set("query_timeout", &request.timeout.as_secs().to_string())?;
    let mode = match request.group_commit {
        GroupCommit::Unsaid | GroupCommit::Off => "off_mode",
        GroupCommit::Sync => "sync_mode",
        GroupCommit::Async => "async_mode",
    };
    variables.set("group_commit", mode)?;
    if request.update_mode == UpdateMode::FixedColumns {
        variables.set("enable_unique_key_partial_update", "true")?;
        let new_keys = if request.new_keys == NewKeys::Error { "ERROR" } else { "APPEND" };
        variables.set("partial_update_new_key_behavior", new_keys)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use dipper_ingest::request::HEADERS;

    use super::*;

    /// Headers that an INSERT heeds, and `exec_mem_limit`; all others of a Stream Load must be refused.
    const ACTING: [&str; 13] = [
        "label",
        "comment",
        "max_filter_ratio",
        "timeout",
        "strict_mode",
        "timezone",
        "time_zone",
        "exec_mem_limit",
        "two_phase_commit",
        "group_commit",
        "partial_columns",
        "unique_key_update_mode",
        "partial_update_new_key_behavior",
    ];

    fn request(headers: &[(&str, &str)]) -> StreamLoadRequest {
        let headers = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
        StreamLoadRequest::from_headers(headers).unwrap()
    }

    fn refused(headers: &[(&str, &str)], options: &[(&str, &str)]) -> Option<&'static str> {
        misplaced(&request(headers), &request(options)).map(|(header, _)| header)
    }

    /// A value of a header that changes what is loaded, and the header that is refused with it.
    fn sample(header: &'static str) -> (Vec<(&'static str, &'static str)>, &'static str) {
        let value = match header {
            "format" => "json",
            "compress_type" => "gz",
            "column_separator" | "line_delimiter" => ",",
            "enclose" | "escape" => "'",
            "columns" | "function_column.sequence_col" | "merge_condition" => "a",
            "hidden_columns" => "__DORIS_DELETE_SIGN__",
            "where" => "a > 1",
            // It is one of two that go together.
            "delete" => return (vec![("merge_type", "MERGE"), ("delete", "a = 1")], "merge_type"),
            "merge_type" => "DELETE",
            "partitions" | "temporary_partitions" => "p",
            "skip_lines" => "1",
            "jsonpaths" => "[\"$.a\"]",
            "json_root" => "$.a",
            "read_json_by_line" => "false",
            "trim_double_quotes"
            | "trim_space"
            | "empty_field_as_null"
            | "negative"
            | "strip_outer_array"
            | "num_as_string" => "true",
            _ => panic!(
                "header '{header}' of a Stream Load: does it act on an INSERT (ACTING), or is it refused (misplaced)?"
            ),
        };
        (vec![(header, value)], header)
    }

    #[test]
    fn every_header_of_a_stream_load_acts_or_is_refused() {
        for (header, _) in HEADERS.iter().filter(|(header, _)| !ACTING.contains(header)) {
            let (headers, expected) = sample(header);
            assert_eq!(refused(&headers, &[]), Some(expected));
        }
        for header in ACTING {
            assert!(HEADERS.iter().any(|(name, _)| *name == header), "'{header}' is no header of a Stream Load");
        }
        assert_eq!(
            refused(&[("unique_key_update_mode", "UPDATE_FLEXIBLE_COLUMNS"), ("format", "json")], &[]),
            Some("unique_key_update_mode")
        );
        for mode in ["UPSERT", "UPDATE_FIXED_COLUMNS"] {
            assert_eq!(refused(&[("unique_key_update_mode", mode)], &[]), None);
        }
    }

    #[test]
    fn headers_that_say_the_same_as_the_options_are_not_refused() {
        for (header, _) in HEADERS.iter().filter(|(header, _)| !ACTING.contains(header)) {
            let (headers, _) = sample(header);
            let option = refused(&headers, &[]).is_some_and(|_| refused(&headers, &headers).is_none());
            let own_words = [
                "columns",
                "where",
                "delete",
                "merge_type",
                "function_column.sequence_col",
                "hidden_columns",
                "merge_condition",
                "negative",
                "partitions",
                "temporary_partitions",
            ];
            assert_eq!(option, !own_words.contains(header), "{header}");
        }
        // A default that the options contradict, and the two headers that say one thing.
        assert_eq!(refused(&[("format", "csv")], &[("format", "json")]), Some("format"));
        assert_eq!(refused(&[("format", "csv")], &[]), None);
        assert_eq!(
            refused(&[("read_json_by_line", "true")], &[("strip_outer_array", "true")]),
            Some("read_json_by_line")
        );
        assert_eq!(refused(&[("strip_outer_array", "false")], &[]), Some("strip_outer_array"));
        assert_eq!(refused(&[("Content-Encoding", "gzip")], &[]), Some("compress_type"));
        assert_eq!(refused(&[("row_delimiter", ",")], &[]), Some("line_delimiter"));
    }
}
