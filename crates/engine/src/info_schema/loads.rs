//! Loads of this process in information_schema, in the form of StarRocks and Doris.

use std::sync::Arc;

use dipper_ingest::answer::{LoadAnswer, txn_number};
use dipper_ingest::records::{LoadKind, LoadRecord};
use dipper_lake::sheet::{Cell, Sheet, wall_clock_us};

use super::{Wanted, millis};
use crate::access;
use crate::context::QueryContext;
use crate::error::Result;

/// Returns the loads that this process has records of and the user may see. Labels that other processes used are in the
/// store.
fn seen(context: &QueryContext) -> impl Iterator<Item = LoadRecord> {
    let sees = move |load: &LoadRecord| {
        access::sees_loads(&context.rights, &context.catalog, &load.header.database, &load.header.table)
    };
    context.engine.loads().list().into_iter().filter(sees)
}

fn answer(load: &LoadRecord) -> Option<&LoadAnswer> {
    load.ended.as_ref().map(|end| &end.answer)
}

fn count(load: &LoadRecord, of: fn(&LoadAnswer) -> u64) -> Cell {
    answer(load).map(|answer| of(answer) as i64).into()
}

/// Returns the error of a load that failed.
fn message(load: &LoadRecord) -> Cell {
    answer(load).map(|answer| answer.message.clone()).filter(|message| message != "OK").into()
}

fn log(load: &LoadRecord) -> Option<String> {
    answer(load).and_then(|answer| answer.error_log.clone())
}

/// Returns the progress, as in SHOW LOAD.
fn progress(load: &LoadRecord) -> &'static str {
    if load.state() == "FINISHED" { "100%" } else { "0%" }
}

/// Returns the times at which a load began and ended.
fn times(load: &LoadRecord, zone: &str) -> [Cell; 2] {
    let ended = load.ended.as_ref().map_or(Cell::Null, |end| wall_clock_us(millis(end.at), zone));
    [wall_clock_us(millis(load.started), zone), ended]
}

/// Returns the statement that shows the rejected rows and the reasons.
fn tracking(load: &LoadRecord) -> Cell {
    let of = |_| format!("select tracking_log from information_schema.load_tracking_logs where job_id={}", load.id);
    log(load).map(of).into()
}

/// Fills `loads` with the columns of StarRocks, and a few of its older ones.
pub(super) fn loads(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    let zone = context.variables.time_zone();
    for load in seen(context) {
        let header = &load.header;
        let [begun, ended] = times(&load, &zone);
        sheet.push_known([
            Cell::Int(load.id as i64),
            (&header.label).into(),
            (&header.database).into(),
            (&header.table).into(),
            (&header.user).into(),
            (&header.client).into(),
            header.kind.name().into(),
            load.state().into(),
            begun.clone(),
            ended.clone(),
            load.txn().map(|t| txn_number(t) as i64).into(),
            count(&load, |a| a.total_rows),
            count(&load, |a| a.loaded_rows),
            count(&load, |a| a.filtered_rows),
            count(&load, |a| a.unselected_rows),
            count(&load, |a| a.bytes),
            count(&load, |a| a.times.total.as_millis() as u64),
            message(&load),
            log(&load).into(),
            load.profile().to_string().into(),
            Cell::Int(load.id as i64),
            load.id.to_string().into(),
            progress(&load).into(),
            count(&load, |a| a.loaded_rows),
            begun,
            ended.clone(),
            ended,
            tracking(&load),
        ]);
    }
    Ok(())
}

/// Fills Stream Loads with the columns of StarRocks.
pub(super) fn stream_loads(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    let zone = context.variables.time_zone();
    for load in seen(context).filter(|load| load.header.kind == LoadKind::Stream) {
        let header = &load.header;
        let [begun, ended] = times(&load, &zone);
        sheet.push([
            (&header.label).into(),
            Cell::Int(load.id as i64),
            load.id.to_string().into(),
            load.txn().map(|t| txn_number(t) as i64).into(),
            (&header.database).into(),
            (&header.table).into(),
            load.state().into(),
            message(&load),
            log(&load).into(),
            count(&load, |a| a.loaded_rows),
            count(&load, |a| a.filtered_rows),
            count(&load, |a| a.unselected_rows),
            count(&load, |a| a.bytes),
            begun,
            ended,
            header.kind.name().into(),
        ]);
    }
    Ok(())
}

/// Fills Doris's list of loads, with the columns of SHOW LOAD.
pub(super) fn load_jobs(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    let zone = context.variables.time_zone();
    for load in seen(context) {
        let [begun, ended] = times(&load, &zone);
        sheet.push([
            load.id.to_string().into(),
            (&load.header.label).into(),
            load.state().into(),
            progress(&load).into(),
            load.header.kind.name().into(),
            Cell::Null,
            Cell::Null,
            message(&load),
            begun.clone(),
            begun.clone(),
            begun.clone(),
            begun,
            ended,
            log(&load).into(),
            load.profile().to_string().into(),
            load.txn().map(|t| txn_number(t).to_string()).into(),
            "{}".into(),
            (&load.header.user).into(),
            (&load.header.comment).into(),
        ]);
    }
    Ok(())
}

/// Fills StarRocks' list of rejected rows of loads with the reasons, which are kept for 48 hours.
pub(super) async fn tracking_logs(context: &Arc<QueryContext>, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    let all: Vec<LoadRecord> = seen(context).collect();
    for load in all {
        let Some(name) = log(&load) else { continue };
        let Some(log) = context.engine.load_error_log(&name).await? else { continue };
        sheet.push([
            Cell::Int(load.id as i64),
            (&load.header.label).into(),
            (&load.header.database).into(),
            String::from_utf8_lossy(&log).trim_end().into(),
            load.header.kind.name().into(),
        ]);
    }
    Ok(())
}
