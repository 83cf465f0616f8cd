//! How the engine runs loads: it checks users, makes a session for each load, and evaluates the SQL expressions of a
//! load.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use dipper_base::client::ClientInfo;
use dipper_ingest::answer::LoadAnswer;
use dipper_ingest::host::{LoadHost, LoadSession};
use dipper_ingest::job::{LoadJob, LoadSpec};
use dipper_ingest::request::StreamLoadRequest;
use dipper_ingest::shaper::Shaper;
use dipper_ingest::transactions::{
    self, Operation, TransactionDone, TransactionError, TransactionLoad, TransactionName, TransactionTimes,
};
use dipper_ingest::two_phase::{self, TwoPhase, TxnName};
use dipper_store::catalog::CatalogState;
use dipper_store::catalog::access::Privileges;
use dipper_store::table::schema::TableSchema;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::shape::Shape;
use crate::access::{self, Hourly, Object};
use crate::engine::Engine;
use crate::error::Result;
use crate::session::Session;

/// The users and sessions of an engine.
struct Host<'a>(&'a Arc<Engine>);

impl LoadHost for Host<'_> {
    fn check(
        &self,
        client: &ClientInfo,
        catalog: &CatalogState,
        needed: Privileges,
        database: &str,
        table: Option<&str>,
    ) -> Result<()> {
        let rights = self.0.rights(catalog, self.0.account_of(catalog, client), client)?;
        let object = match table {
            Some(table) => Object::Table(database.to_string(), table.to_string()),
            None => Object::Database(database.to_string()),
        };
        access::check(&rights, catalog, needed, &object)
    }

    fn check_seen(&self, client: &ClientInfo, catalog: &CatalogState, database: &str) -> Result<()> {
        let rights = self.0.rights(catalog, self.0.account_of(catalog, client), client)?;
        access::check_seen(&rights, catalog, "LOAD", &Object::Database(database.to_string()))
    }

    fn spend(&self, client: &ClientInfo) -> Result<()> {
        self.0.spend(&client.user, Hourly::Updates)
    }

    fn session(&self, spec: &LoadSpec) -> Result<Box<dyn LoadSession>> {
        let mut session = self.0.session(spec.client.clone());
        session.select(None, Some(spec.database.clone()));
        if let Some(zone) = &spec.request.timezone {
            session.variables.set("time_zone", zone)?;
        }
        session.process().begin(&format!("LOAD INTO {}.{}", spec.database, spec.table));
        Ok(Box::new(OfLoad(session)))
    }
}

/// The session of a load.
struct OfLoad(Session);

impl LoadSession for OfLoad {
    fn time_zone(&self) -> String {
        self.0.variables.time_zone()
    }

    fn shape<'a>(
        &'a self,
        table: &'a Arc<TableSchema>,
        request: &'a StreamLoadRequest,
        inferred: Option<&'a SchemaRef>,
    ) -> BoxFuture<'a, Result<Arc<dyn Shaper>>> {
        async move {
            let shape = Shape::try_new(&self.0, table, request, inferred).await?;
            Ok(Arc::new(shape) as Arc<dyn Shaper>)
        }
        .boxed()
    }

    fn stopped(&self) -> BoxFuture<'_, String> {
        async move { format!("{:?}", self.0.process().stopped().await) }.boxed()
    }
}

impl Engine {
    /// Begins a load: checks everything that can be checked without its body.
    ///
    /// # Errors
    /// The answer for the client, if the load is refused.
    pub fn begin_load(
        self: &Arc<Self>,
        spec: LoadSpec,
    ) -> BoxFuture<'_, std::result::Result<LoadJob, Box<LoadAnswer>>> {
        async move { LoadJob::begin(&self.loads, &Host(self), spec).await }.boxed()
    }

    /// Commits or aborts a prepared load of a database; `table` restricts the search. Returns a message that says what
    /// was done.
    ///
    /// # Errors
    /// `Invalid` if there is no such load, or it has ended already. The message says how, in Doris's words: clients
    /// search it to learn that a repeated commit had been done.
    pub fn end_prepared<'a>(
        self: &'a Arc<Self>,
        client: &'a ClientInfo,
        database: &'a str,
        table: Option<&'a str>,
        name: &'a TxnName,
        operation: TwoPhase,
    ) -> BoxFuture<'a, Result<String>> {
        async move { two_phase::two_phase(&self.loads, &Host(self), client, database, table, name, operation).await }
            .boxed()
    }

    /// Returns the state of the load with a label, in Doris's words; `UNKNOWN` for an unused label.
    ///
    /// # Errors
    /// `NoDatabase` if there is no such database; `Storage` if the labels cannot be read.
    pub async fn label_state(&self, database: &str, label: &str) -> Result<&'static str> {
        two_phase::label_state(&self.loads, database, label).await
    }

    /// Begins a transaction of several loads: takes its label. Returns its number.
    ///
    /// # Errors
    /// See [`TransactionError`].
    pub fn begin_transaction<'a>(
        self: &'a Arc<Self>,
        name: &'a TransactionName,
        times: TransactionTimes,
    ) -> BoxFuture<'a, std::result::Result<u64, TransactionError>> {
        async move { transactions::begin(&self.loads, &Host(self), name, times).await }.boxed()
    }

    /// Begins a load of an open transaction. If the transaction has another load that runs, that load ends first.
    ///
    /// # Errors
    /// See [`TransactionError`]; the transaction stays as it is.
    pub fn begin_load_within<'a>(
        self: &'a Arc<Self>,
        name: &'a TransactionName,
        request: StreamLoadRequest,
    ) -> BoxFuture<'a, std::result::Result<TransactionLoad, TransactionError>> {
        async move { transactions::begin_load(&self.loads, &Host(self), name, request).await }.boxed()
    }

    /// Prepares, commits or rolls back a transaction. Repeating an operation that is done succeeds.
    ///
    /// # Errors
    /// See [`TransactionError`].
    pub fn end_transaction<'a>(
        self: &'a Arc<Self>,
        name: &'a TransactionName,
        operation: Operation,
    ) -> BoxFuture<'a, std::result::Result<TransactionDone, TransactionError>> {
        async move { transactions::finish(&self.loads, &Host(self), name, operation).await }.boxed()
    }
}
