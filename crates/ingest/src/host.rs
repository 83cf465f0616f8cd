//! Traits of the program that runs loads: they decide who may load what, and make a session for each load. Loads
//! themselves know neither users nor SQL.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use dipper_base::client::ClientInfo;
use dipper_base::privileges::Privileges;
use dipper_node::error::Result;
use dipper_store::catalog::CatalogState;
use dipper_store::table::schema::TableSchema;
use futures::future::BoxFuture;

use crate::job::LoadSpec;
use crate::request::StreamLoadRequest;
use crate::shaper::Shaper;

/// The program that runs loads, which knows its users.
pub trait LoadHost: Send + Sync {
    /// Refuses a client that lacks one of the privileges on a table, or on the whole database where `table` is `None`.
    ///
    /// # Errors
    /// `Denied` if a privilege is missing or the account was dropped.
    fn check(
        &self,
        client: &ClientInfo,
        catalog: &CatalogState,
        needed: Privileges,
        database: &str,
        table: Option<&str>,
    ) -> Result<()>;

    /// Refuses a client that has no privilege in the database.
    ///
    /// # Errors
    /// `Denied` if it has none or the account was dropped.
    fn check_seen(&self, client: &ClientInfo, catalog: &CatalogState, database: &str) -> Result<()>;

    /// Counts a change among those that the client may make in an hour.
    ///
    /// # Errors
    /// `Denied` if the client has made all of them.
    fn spend(&self, client: &ClientInfo) -> Result<()>;

    /// Makes a session for a load, which the process list shows as long as the load runs.
    ///
    /// # Errors
    /// `BadVariable` if the load names a time zone that does not exist.
    fn session(&self, spec: &LoadSpec) -> Result<Box<dyn LoadSession>>;
}

/// The session of one load.
pub trait LoadSession: Send + Sync {
    /// The time zone of the load.
    fn time_zone(&self) -> String;

    /// Resolves a request against a table. `inferred` are the columns of a body that describes itself (Parquet, Arrow).
    ///
    /// # Errors
    /// An error if a column does not exist or is named twice, an expression cannot be planned, or a NOT NULL column
    /// gets no value.
    fn shape<'a>(
        &'a self,
        table: &'a Arc<TableSchema>,
        request: &'a StreamLoadRequest,
        inferred: Option<&'a SchemaRef>,
    ) -> BoxFuture<'a, Result<Arc<dyn Shaper>>>;

    /// Waits until somebody kills the load; returns what was killed: `Query` or `Connection`.
    fn stopped(&self) -> BoxFuture<'_, String>;
}
