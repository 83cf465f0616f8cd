//! One load, from its request to its answer.

use std::sync::Arc;

use dipper_store::catalog::{Table, TableDef};

use super::answer::LoadAnswer;
use super::body::BodyReceiver;
use super::records::{LoadHeader, LoadKind, Running};
use super::request::StreamLoadRequest;
use crate::engine::Engine;
use crate::error::{EngineError, ErrorKind, Result};
use crate::session::ClientInfo;

/// What a load is, before its body comes.
#[derive(Debug, Clone)]
pub struct LoadSpec {
    /// Where it comes from.
    pub kind: LoadKind,
    /// Who asks.
    pub client: ClientInfo,
    /// Database.
    pub database: String,
    /// Table.
    pub table: String,
    /// What is asked.
    pub request: StreamLoadRequest,
}

/// A load that can take its body.
pub struct LoadJob {
    running: Running,
    answer: LoadAnswer,
}

impl LoadJob {
    /// Checks everything that can be checked without the body.
    ///
    /// # Errors
    /// The answer to give instead.
    pub async fn begin(engine: &Arc<Engine>, spec: LoadSpec) -> std::result::Result<LoadJob, Box<LoadAnswer>> {
        let label = spec.request.label.clone().unwrap_or_else(new_label);
        let running = engine.loads.records.begin(LoadHeader {
            kind: spec.kind,
            user: spec.client.user.clone(),
            client: spec.client.host.clone(),
            database: spec.database.clone(),
            table: spec.table.clone(),
            label: label.clone(),
            comment: spec.request.comment.clone(),
        });
        let mut answer = LoadAnswer::new(label, spec.request.comment.clone());
        answer.two_phase_commit = spec.request.two_phase_commit;
        answer.group_commit = spec.request.grouped();
        match table(engine, &spec).await {
            Ok(_) => Ok(LoadJob { running, answer }),
            Err(e) => {
                let mut answer = answer.failed(e.message);
                answer.times.total = running.elapsed();
                running.end(&answer);
                Err(Box::new(answer))
            }
        }
    }

    /// Label, given or made.
    pub fn label(&self) -> &str {
        &self.answer.label
    }

    /// Takes the body and loads it.
    pub async fn run(self, body: BodyReceiver) -> LoadAnswer {
        let _ = body;
        self.running.end(&self.answer);
        self.answer
    }
}

/// A label for a load that has none.
fn new_label() -> String {
    let mut text = format!("{:032x}", rand::random::<u128>());
    for at in [20, 16, 12, 8] {
        text.insert(at, '-');
    }
    text
}

/// The native table that the load names.
async fn table(engine: &Arc<Engine>, spec: &LoadSpec) -> Result<Arc<Table>> {
    let state = engine.catalog.refresh().await?;
    let found = state.database(&spec.database).ok_or_else(|| state.no_database(&spec.database))?;
    let table = found.tables.get(&spec.table).ok_or_else(|| state.no_table(&spec.database, &spec.table))?;
    match &table.def {
        TableDef::Native => Ok(Arc::clone(table)),
        TableDef::External(_) | TableDef::View(_) => Err(EngineError::new(
            ErrorKind::WrongObject,
            format!(
                "'{}.{}' is no table of rows of its own; loads go to tables made by CREATE TABLE ... DISTRIBUTED BY, files are read by INSERT INTO ... SELECT",
                spec.database, spec.table
            ),
        )),
    }
}
