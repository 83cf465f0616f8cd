//! `Loads`: the state that all loads of a process share.

use std::fmt;
use std::sync::{Arc, OnceLock};

use dipper_load::Generate;
use dipper_node::error::{EngineError, ErrorKind, Result};
use dipper_node::files::stores::Stores;
use dipper_node::tables::registry::NativeTables;
use dipper_store::catalog::Catalog;
use dipper_store::labels::Labels;
use dipper_store::nodes::Nodes;
use dipper_store::table::schema::TableSchema;
use dipper_text::Memory;
use futures::future::BoxFuture;
use object_store::ObjectStore;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;

use crate::group::Groups;
use crate::records::LoadRecords;
use crate::transactions::Transactions;

/// Resources of the process that loads use.
pub struct LoadResources {
    /// The catalog.
    pub catalog: Catalog,
    /// Native tables.
    pub tables: Arc<NativeTables>,
    /// Stores of files and tables.
    pub stores: Arc<Stores>,
    /// Registry of the processes of this machine that use the database.
    pub nodes: Option<Nodes>,
    /// The number of threads that work on one load.
    pub threads: usize,
    /// Threads for work on rows.
    pub cpu: Handle,
    /// Threads that wait for the store.
    pub io: Handle,
    /// Makes a reservation in the memory budget for the long rows of one load.
    pub memory: Box<dyn Fn() -> Arc<dyn Memory> + Send + Sync>,
}

/// The state that all loads of a process share.
pub struct Loads {
    pub(crate) catalog: Catalog,
    pub(crate) tables: Arc<NativeTables>,
    pub(crate) stores: Arc<Stores>,
    pub(crate) threads: usize,
    pub(crate) cpu: Handle,
    pub(crate) io: Handle,
    /// Store of labels and of the logs of rejected rows.
    pub store: Arc<dyn ObjectStore>,
    /// The loads that this process knows of.
    pub records: Arc<LoadRecords>,
    pub(crate) groups: Groups,
    pub(crate) transactions: Transactions,
    memory: Box<dyn Fn() -> Arc<dyn Memory> + Send + Sync>,
    /// Made by the first load with a label: from then on this process has a lease.
    labels: OnceCell<Labels>,
    nodes: Option<Nodes>,
    generators: OnceLock<Arc<dyn Generators>>,
}

/// What makes the generators of tables with generated columns, whose expressions are SQL.
pub trait Generators: Send + Sync {
    /// Returns what computes the generated columns of a table.
    ///
    /// # Errors
    /// The error of planning an expression.
    fn of<'a>(&'a self, table: &'a Arc<TableSchema>) -> BoxFuture<'a, Result<Arc<dyn Generate>>>;
}

impl fmt::Debug for Loads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loads").field("records", &self.records.running()).finish_non_exhaustive()
    }
}

impl Loads {
    /// Makes the state of a process in which no load has run yet.
    pub fn new(resources: LoadResources) -> Self {
        let LoadResources { catalog, tables, stores, nodes, threads, cpu, io, memory } = resources;
        Loads {
            store: Arc::clone(tables.store()),
            catalog,
            tables,
            stores,
            threads,
            cpu,
            io,
            records: Arc::default(),
            groups: Groups::default(),
            transactions: Transactions::default(),
            memory,
            labels: OnceCell::new(),
            nodes,
            generators: OnceLock::new(),
        }
    }

    /// Sets what makes generators. Only the first call has an effect.
    pub fn generate_by(&self, generators: Arc<dyn Generators>) {
        let _ = self.generators.set(generators);
    }

    /// Returns what computes the generated columns of a table; `None` if it has none.
    ///
    /// # Errors
    /// The error of planning an expression.
    pub async fn generator(&self, table: &Arc<TableSchema>) -> Result<Option<Arc<dyn Generate>>> {
        match self.generators.get().filter(|_| table.has_generated()) {
            Some(generators) => generators.of(table).await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns the labels of all databases.
    ///
    /// # Errors
    /// `Storage` if the lease of this process cannot be written.
    pub async fn labels(&self) -> Result<&Labels> {
        self.labels
            .get_or_try_init(|| async {
                // The lease is renewed on the threads that wait for the store.
                let started = self.io.spawn(Labels::start(Arc::clone(&self.store), self.nodes.clone())).await;
                let started = started.map_err(|e| EngineError::of(ErrorKind::Storage, e))?;
                started.map_err(|e| EngineError::of(ErrorKind::Storage, e))
            })
            .await
    }

    /// Returns a reservation for the long rows of one load, in the memory budget of all statements.
    pub fn text_memory(&self) -> Arc<dyn Memory> {
        (self.memory)()
    }
}
