//! SHOW {QUERY|LOAD} PROFILE, SHOW PROFILES and MySQL's SHOW PROFILE.

use std::sync::Arc;

use dipper_lake::sheet::{Kind, Sheet, wall_clock_text};

use crate::error::{EngineError, Result};
use crate::info_schema::millis;
use crate::profile::{Profile, of_load};
use crate::session::Session;

/// Whether the user may see a profile: its own, or any if it may see the statements of others.
fn seen(session: &Session, profile: &Profile) -> bool {
    profile.user == session.client.user || session.sees_others()
}

/// Makes MySQL's list of profiles.
pub(super) fn profiles(session: &Session) -> Sheet {
    let mut sheet = Sheet::texts(&["Query_ID", "Duration", "Query"]);
    for p in session.engine.profiles().list().into_iter().filter(|p| seen(session, p)) {
        let seconds = format!("{:.6}", p.total.as_secs_f64());
        sheet.push([p.number().to_string().into(), seconds.into(), (&p.statement).into()]);
    }
    sheet
}

/// Makes StarRocks' list of profiles.
pub(super) fn profile_list(session: &Session) -> Sheet {
    let zone = session.variables.time_zone();
    let mut sheet = Sheet::texts(&["QueryId", "StartTime", "Time", "State", "Statement"]);
    for p in session.engine.profiles().list().into_iter().filter(|p| seen(session, p)) {
        sheet.push([
            (&p.id).into(),
            wall_clock_text(millis(p.started), &zone),
            format!("{}ms", p.total.as_millis()).into(),
            match p.state {
                "OK" => "Finished",
                "RUNNING" => "Running",
                _ => "Error",
            }
            .into(),
            (&p.statement).into(),
        ]);
    }
    sheet
}

/// Lists how long the steps of a statement took. `query` is its number in SHOW PROFILES; `None` is the newest
/// statement.
pub(super) fn steps(session: &Session, query: Option<u64>) -> Result<Sheet> {
    let mut seen = session.engine.profiles().list().into_iter().filter(|p| seen(session, p));
    let mut sheet = Sheet::texts(&["Status", "Duration"]);
    let found = match query {
        Some(number) => seen.find(|p| p.number() == number),
        None => seen.next(),
    };
    for (name, time) in found.iter().flat_map(|profile| &profile.phases) {
        sheet.push([(*name).into(), format!("{:.6}", time.as_secs_f64()).into()]);
    }
    Ok(sheet)
}

/// Returns the list for no path and for `/`, and for `/id` that profile as text.
pub(super) fn profile(session: &Session, path: Option<&str>, loads: bool) -> Result<Sheet> {
    let id = path.and_then(|path| path.split('/').find(|part| !part.is_empty()));
    if let Some(id) = id {
        let found = session.engine.profile(id).filter(|p| seen(session, p)).ok_or_else(|| {
            EngineError::invalid(format!(
                "no profile '{id}': the last 500 statements under SET enable_profile = true leave one; SHOW {} PROFILE lists them",
                if loads { "LOAD" } else { "QUERY" }
            ))
        })?;
        let mut sheet = Sheet::new(&[("Profile", Kind::Text)]);
        for line in found.to_text().lines() {
            sheet.push([line.into()]);
        }
        return Ok(sheet);
    }
    let zone = session.variables.time_zone();
    let mut sheet = Sheet::texts(&[
        "Profile ID",
        "Task Type",
        "Start Time",
        "End Time",
        "Total",
        "Task State",
        "User",
        "Default Catalog",
        "Default Db",
        "Sql Statement",
        "Why",
    ]);
    let list: Vec<Arc<Profile>> = match loads {
        true => session.engine.loads().list().iter().rev().map(|load| Arc::new(of_load(load))).collect(),
        false => session.engine.profiles().list(),
    };
    for p in list.into_iter().filter(|p| seen(session, p)) {
        sheet.push([
            (&p.id).into(),
            p.task.name().into(),
            wall_clock_text(millis(p.started), &zone),
            wall_clock_text(millis(p.started + p.total), &zone),
            format!("{}ms", p.total.as_millis()).into(),
            p.state.into(),
            (&p.user).into(),
            dipper_base::names::CATALOG.into(),
            (&p.database).into(),
            (&p.statement).into(),
            p.why().into(),
        ]);
    }
    Ok(sheet)
}
