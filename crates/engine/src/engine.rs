//! The [`Engine`]: the state that all sessions of a process share, how it is set up and opened.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use datafusion::common::config::ConfigNonZeroUsize;
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{FunctionRegistry, SessionStateBuilder};
use datafusion::prelude::SessionConfig;
use dipper_base::names::CATALOG;
use dipper_cache::DataCache;
use dipper_exec::budget::Budget;
use dipper_exec::cost::Class;
use dipper_exec::scan::PoolMemory;
use dipper_exec::spill::{BATCHES_PER_FILE, SpillFiles};
use dipper_exec::user_locks::UserLocks;
use dipper_ingest::loads::{LoadResources, Loads};
use dipper_ingest::records::LoadRecords;
use dipper_lake::catalogs::Lake;
use dipper_lake::catalogs::iceberg::Places;
use dipper_load::Generate;
use dipper_node::location::{self, DataLocation, Opened, RemoteOptions};
use dipper_node::pool::{Pool, default_memory_bytes};
use dipper_node::tables::alters::Alters;
use dipper_node::tables::registry::NativeTables;
use dipper_node::tables::volumes::Volumes;
use dipper_store::catalog::Catalog;
use dipper_store::probed::ProbedStore;
use dipper_store::table::schema::TableSchema;
use dipper_store::volumes::VolumeStore;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::access::Access;
use crate::admission::Admission;
use crate::error::{EngineError, ErrorKind, Result};
use crate::files::stores::Stores;
use crate::files::{FileAccess, cannot};
use crate::point::shared::PointEngine;
use crate::process::Processes;
use crate::profile::{self, Profile, Profiles};
use crate::temporary;
use dipper_variables::Globals;

/// Settings of an [`Engine`].
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Location of the database. `None`: the database is in memory and ends with the process.
    pub data: Option<DataLocation>,
    /// Access to remote data: properties of object stores, and the data cache.
    pub remote: RemoteOptions,
    /// The local files that statements may read and write.
    pub access: FileAccess,
    /// Bytes that all statements and caches together may use; `None`: 80% of the memory of the machine (or of its
    /// cgroup).
    pub memory_bytes: Option<u64>,
    /// Number of query threads; `None`: one per core.
    pub threads: Option<usize>,
    /// Directory for what sorts and aggregations spill; `None`: the system's temporary directory.
    pub spill_dir: Option<PathBuf>,
    /// Added to the nice value of this process for query threads. Above 0, query threads give way to the threads that
    /// serve clients.
    pub nice: i32,
    /// Whether the row cache is on (`disable_storage_row_cache`).
    pub row_cache: bool,
    /// Size of the row cache in bytes; `None`: a tenth of the memory (`row_cache_mem_limit`).
    pub row_cache_bytes: Option<u64>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        EngineOptions {
            data: None,
            remote: RemoteOptions::default(),
            access: FileAccess::Any,
            memory_bytes: None,
            threads: None,
            spill_dir: None,
            nice: 0,
            row_cache: true,
            row_cache_bytes: None,
        }
    }
}

/// The page cache of native tables gets 1 / `CACHE_SHARE` of the memory.
const CACHE_SHARE: usize = 4;

/// Text scans may hold 1 / `READ_AHEAD_SHARE` of the memory in bytes that they read ahead from buckets.
const READ_AHEAD_SHARE: usize = 8;

/// The row cache gets 1 / `ROW_CACHE_SHARE` of the memory, unless its size is given.
const ROW_CACHE_SHARE: u64 = 10;

/// Returns names and values for SHOW STATUS: those of a session, given by its number, or of all sessions.
type Counted = Box<dyn Fn(Option<u32>) -> Vec<(&'static str, u64)> + Send + Sync>;

/// The state that all sessions share: catalog, memory pool, function registry, query threads.
pub struct Engine {
    pub(crate) options: EngineOptions,
    pub(crate) catalog: Catalog,
    pub(crate) native: Arc<NativeTables>,
    pub(crate) points: PointEngine,
    pub(crate) stores: Arc<Stores>,
    /// Set only if the database is in a bucket: the layer that proves, before the first write, that put-if-absent works
    /// there.
    pub(crate) proof: Option<Arc<ProbedStore>>,
    pub(crate) lake: Arc<Lake>,
    pub(crate) globals: Arc<Globals>,
    pub(crate) processes: Arc<Processes>,
    pub(crate) profiles: Profiles,
    pub(crate) alters: Alters,
    pub(crate) loads: Arc<Loads>,
    pub(crate) access: Access,
    pub(crate) admission: Arc<Admission>,
    /// Number of statements that all sessions have prepared.
    pub(crate) prepared: Arc<AtomicU64>,
    /// The locks that sessions hold by GET_LOCK.
    pub(crate) user_locks: Arc<UserLocks>,
    counted: OnceLock<Counted>,
    pub(crate) temporary: temporary::Owner,
    /// Functions, rules and runtime. Each statement clones the template and adds the settings of its session.
    pub(crate) template: SessionState,
    pub(crate) threads: usize,
    spilled: Arc<SpillFiles>,
    next_connection: AtomicU32,
    cpu: Pool,
    /// Threads that plan statements and run short ones.
    short: Pool,
    /// Threads that merge small segments.
    merge: Pool,
    /// Threads for the writes of loads and compactions, and for everything else that waits for the store.
    io: Pool,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("options", &self.options).finish_non_exhaustive()
    }
}

/// What computes the generated columns of tables, by their definitions.
pub(crate) struct Known {
    pub(crate) engine: Weak<Engine>,
    pub(crate) known: Mutex<Vec<(Weak<TableSchema>, Arc<dyn Generate>)>>,
}

impl Engine {
    /// Opens the data directory and starts the query threads.
    ///
    /// # Errors
    /// `File` if the data directory or the spill directory cannot be used; `Storage` if the catalog cannot be read, for
    /// example because a newer version has written it; `Internal` if the functions cannot be registered.
    pub fn open(options: EngineOptions) -> BoxFuture<'static, Result<Arc<Engine>>> {
        Box::pin(Self::opened(options))
    }

    async fn opened(options: EngineOptions) -> Result<Arc<Engine>> {
        dipper_exec::io::follow_spawned_tasks();
        let threads = options
            .threads
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
            .max(1);
        let nice = rustix::process::getpriority_process(None).unwrap_or(0);
        let cpu = Pool::cpu("query", threads, nice + options.nice)?;
        // Short statements go before long statements on the same cores, and after look-ups.
        let short = Pool::cpu("short", threads, nice + options.nice / 2)?;
        let merge = Pool::cpu("merge", 2, nice)?;
        let (runtime, spilled) = runtime_env(&options)?;
        let pool = Arc::clone(&runtime.memory_pool);
        // Registering functions takes as long as opening everything else, so a query thread does it meanwhile.
        let user_locks = Arc::new(UserLocks::default());
        let locks = Arc::clone(&user_locks);
        let template = cpu.handle().spawn(async move { template(runtime, &locks) });
        let io = Pool::io(nice)?;
        let cache = options.remote.cache(options.data.as_ref(), memory_bytes(&options) as u64);
        let stores = Stores::new(io.handle().clone(), cache, options.remote.properties.clone());
        let stores = Arc::new(stores.with_read_ahead(&pool, memory_bytes(&options) / READ_AHEAD_SHARE));
        let Opened { store: root, proof } = location::open(options.data.as_ref(), &stores)?;
        let catalog = Catalog::open(Arc::clone(&root)).await?;
        let volumes = Volumes::new(Arc::new(VolumeStore::new(root)), Arc::clone(&stores), catalog.clone());
        // Requests to a bucket take long to begin, so they are made ahead of the scan, on threads of their own.
        let requests = matches!(options.data, Some(DataLocation::Remote(_)))
            .then(|| (io.handle().clone(), dipper_exec::io::anew()));
        let native = NativeTables::new(volumes, requests, cpu.handle().clone(), memory_bytes(&options) / CACHE_SHARE);
        let native = Arc::new(native);
        let loads = Loads::new(LoadResources {
            catalog: catalog.clone(),
            tables: Arc::clone(&native),
            stores: Arc::clone(&stores),
            nodes: options.remote.nodes(options.data.as_ref()),
            threads,
            cpu: cpu.handle().clone(),
            io: io.handle().clone(),
            memory: Box::new(move || PoolMemory::of(&pool, "long rows of a load")),
        });
        let points = PointEngine::new(Arc::clone(native.readers()), row_cache_bytes(&options));
        points.lookups.cache().set_on(options.row_cache);
        let globals = Arc::new(Globals::default());
        let admission = Admission::new(Arc::clone(&globals), threads);
        let template = template
            .await
            .map_err(|e| EngineError::new(ErrorKind::Internal, format!("cannot register the functions: {e}")))??;
        let places = Places::new(options.access.clone(), Arc::clone(&stores));
        let temporary = temporary::Owner::new(options.remote.nodes(options.data.as_ref()));
        let engine = Arc::new(Engine {
            native,
            points,
            stores,
            proof,
            lake: Arc::new(Lake::new(places, io.handle().clone())),
            options,
            catalog,
            globals,
            processes: Arc::new(Processes::default()),
            profiles: Profiles::default(),
            alters: Alters::default(),
            loads: Arc::new(loads),
            access: Access::default(),
            admission,
            prepared: Arc::default(),
            user_locks,
            counted: OnceLock::new(),
            temporary,
            template,
            threads,
            spilled,
            // The server numbers MySQL connections from 1 on; the engine's own numbers must not meet them.
            next_connection: AtomicU32::new(1 << 31),
            cpu,
            short,
            merge,
            io,
        });
        engine.loads.generate_by(Arc::new(Known { engine: Arc::downgrade(&engine), known: Mutex::default() }));
        temporary::forget_gone(&engine);
        Ok(engine)
    }

    /// Returns a connection number that no other session of this process has, for sessions that are not MySQL
    /// connections.
    pub fn next_connection_id(&self) -> u32 {
        self.next_connection.fetch_add(1, Ordering::Relaxed)
    }

    /// The sessions of this process.
    pub fn processes(&self) -> &Arc<Processes> {
        &self.processes
    }

    /// The loads of this process.
    pub fn loads(&self) -> &Arc<LoadRecords> {
        &self.loads.records
    }

    /// The profiles of statements that have ended.
    pub fn profiles(&self) -> &Profiles {
        &self.profiles
    }

    /// Finds the profile of a statement by its id, or of a load by its number or label.
    pub fn profile(&self, id: &str) -> Option<Arc<Profile>> {
        profile::find(&self.profiles, &self.loads.records, id)
    }

    /// Reads the log of rejected rows of this name, as text; `None` if no log has this name.
    ///
    /// # Errors
    /// `Storage` if the store cannot be read.
    pub async fn load_error_log(&self, name: &str) -> Result<Option<Vec<u8>>> {
        dipper_ingest::errors::read(&self.loads.store, name).await
    }

    /// Adds the counters of `counted` to SHOW STATUS, which calls it each time with the number of a session, or without
    /// one for all sessions. Only the first call has an effect.
    pub fn count_by(&self, counted: impl Fn(Option<u32>) -> Vec<(&'static str, u64)> + Send + Sync + 'static) {
        let _ = self.counted.set(Box::new(counted));
    }

    /// Names and values of the counters that [`count_by`](Self::count_by) added.
    pub(crate) fn counted(&self, session: Option<u32>) -> Vec<(&'static str, u64)> {
        self.counted.get().map(|counted| counted(session)).unwrap_or_default()
    }

    /// Variables of GLOBAL scope.
    pub fn globals(&self) -> &Arc<Globals> {
        &self.globals
    }

    /// Bytes that all statements and caches together may use.
    pub fn memory_bytes(&self) -> u64 {
        memory_bytes(&self.options) as u64
    }

    /// The state that look-ups by key share: plans and caches.
    pub(crate) fn points(&self) -> &PointEngine {
        &self.points
    }

    /// Sets a variable for sessions that begin later, as SET GLOBAL does.
    ///
    /// # Errors
    /// `BadVariable` if the variable has no global value or cannot have this one; `Unsupported` for a switch of
    /// something that dipper does not have. An unknown name is stored without effect.
    pub fn set_global(&self, name: &str, value: &str) -> Result<()> {
        dipper_variables::Variables::new(Arc::clone(&self.globals)).set_global(name, value)?;
        Ok(())
    }

    /// Deletes the spill files. Meant for a process that ends without waiting for its threads, which keep the files
    /// open; statements that still run will fail.
    pub fn remove_spilled(&self) {
        self.spilled.remove();
    }

    /// Lists the functions that statements may call, sorted by name, each with `scalar`, `aggregate` or `window`.
    pub fn functions(&self) -> Vec<(String, &'static str)> {
        let state = &self.template;
        let mut all: Vec<(String, &str)> = Vec::new();
        all.extend(state.scalar_functions().keys().map(|name| (name.clone(), "scalar")));
        all.extend(state.aggregate_functions().keys().map(|name| (name.clone(), "aggregate")));
        all.extend(state.window_functions().keys().map(|name| (name.clone(), "window")));
        let is_named =
            |name: &str| !dipper_dialect::internal::is_internal(name) && !dipper_sql::functions::is_combined(name);
        all.retain(|(name, _)| is_named(name));
        // The planner knows functions that take a lambda by names of their own.
        let lambdas = dipper_sql::functions::LambdaKind::ALL.into_iter().filter(|kind| !kind.is_plain());
        let names = lambdas.flat_map(|kind| std::iter::once(kind.name()).chain(kind.aliases().iter().copied()));
        all.extend(names.map(|name| (name.to_string(), "scalar")));
        all.sort_unstable();
        all
    }

    /// The data cache.
    pub fn data_cache(&self) -> &Arc<DataCache> {
        self.stores.cache()
    }

    /// The query threads.
    pub(crate) fn cpu(&self) -> &tokio::runtime::Handle {
        self.cpu.handle()
    }

    /// The threads that plan statements, and run those that are [short](Class::Short). Long statements do not occupy
    /// them.
    pub(crate) fn short(&self) -> &tokio::runtime::Handle {
        self.short.handle()
    }

    /// The threads for merges of small segments. The merges are as urgent as the loads that make them necessary.
    pub(crate) fn merge(&self) -> &tokio::runtime::Handle {
        self.merge.handle()
    }

    /// The threads that run plans of this class.
    pub(crate) fn threads_of(&self, class: Class) -> &tokio::runtime::Handle {
        match class {
            Class::Tiny | Class::Short => self.short(),
            Class::Long => self.cpu(),
        }
    }

    /// The threads that wait for the store.
    pub(crate) fn io(&self) -> &tokio::runtime::Handle {
        self.io.handle()
    }
}

/// Builds the state that sessions copy: settings, functions and rules that do not depend on a session.
fn template(runtime: Arc<RuntimeEnv>, locks: &Arc<UserLocks>) -> Result<SessionState> {
    let mut config = dipper_sql::charter::configure(SessionConfig::new());
    let options = config.options_mut();
    options.catalog.create_default_catalog_and_schema = false;
    options.catalog.information_schema = false;
    options.catalog.default_catalog = CATALOG.into();
    options.execution.collect_statistics = true;
    options.execution.max_spill_file_size_bytes = ConfigNonZeroUsize::try_new(BATCHES_PER_FILE)?;
    // Filters run inside the Parquet decoder, which then skips the other columns of rows that fail.
    options.execution.parquet.pushdown_filters = true;
    options.execution.parquet.reorder_filters = true;
    // The filter that MIN(a) and MAX(a) give the scan would also drop rows that MAX(b + 1) beside them needs.
    options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    // Joins have filters of dipper's own.
    options.optimizer.enable_join_dynamic_filter_pushdown = false;
    let builder = SessionStateBuilder::new_with_default_features()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_query_planner(Arc::new(dipper_exec::planner::Planner))
        .with_optimizer_rules(dipper_exec::coop::while_wanted(dipper_exec::rules::logical::rules()))
        .with_physical_optimizer_rules(dipper_exec::coop::physical_while_wanted(dipper_exec::rules::pushdown::rules()))
        .with_physical_optimizer_rule(Arc::new(dipper_exec::coop::GiveWay))
        .with_physical_optimizer_rule(Arc::new(dipper_exec::rules::windows::ChargeWindows));
    let mut builder = dipper_sql::charter::install(builder);
    for rule in &mut builder.analyzer().get_or_insert_default().rules {
        *rule = dipper_exec::coop::analyzed_while_wanted(Arc::clone(rule));
    }
    let mut state = builder.build();
    dipper_sql::functions::register_all(&mut state)?;
    dipper_sql::functions::give_up_when(dipper_exec::coop::has_ended);
    dipper_dialect::parser::give_up_when(dipper_exec::coop::has_ended);
    dipper_base::states::read_by(dipper_sql::functions::states::reader);
    FunctionRegistry::register_udf(&mut state, Arc::new(dipper_exec::sleep::udf()))?;
    for function in dipper_exec::user_locks::functions(locks) {
        FunctionRegistry::register_udf(&mut state, Arc::new(function))?;
    }
    Ok(state)
}

/// Bytes that all statements and caches together may use.
fn memory_bytes(options: &EngineOptions) -> usize {
    options.memory_bytes.unwrap_or_else(default_memory_bytes) as usize
}

/// Size of the row cache in bytes. It counts while the cache is off, too, because the cache can be switched on later.
fn row_cache_bytes(options: &EngineOptions) -> u64 {
    options.row_cache_bytes.unwrap_or(memory_bytes(options) as u64 / ROW_CACHE_SHARE)
}

fn runtime_env(options: &EngineOptions) -> Result<(Arc<RuntimeEnv>, Arc<SpillFiles>)> {
    let memory = memory_bytes(options);
    let rows = if options.row_cache { row_cache_bytes(options) as usize } else { 0 };
    let pool = TrackConsumersPool::new(
        FairSpillPool::new((memory - memory / CACHE_SHARE).saturating_sub(rows)),
        std::num::NonZero::new(3).expect("3 is not 0"),
    );
    if let Some(dir) = &options.spill_dir {
        std::fs::create_dir_all(dir).map_err(|e| cannot(dir, "create the spill directory", &e))?;
    }
    let spilled = Arc::new(SpillFiles::new(options.spill_dir.clone()));
    let disk = DiskManagerBuilder::default().with_temp_file_factory(Arc::clone(&spilled) as _);
    let runtime =
        RuntimeEnvBuilder::new().with_memory_pool(Arc::new(Budget(pool))).with_disk_manager_builder(disk).build()?;
    Ok((Arc::new(runtime), spilled))
}
