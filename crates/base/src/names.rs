//! Names that every part of dipper knows.

/// The catalog of dipper's own databases.
pub const CATALOG: &str = "internal";

/// The database that always exists, and with which `dipper sql` begins.
pub const DEFAULT_DATABASE: &str = "default";

/// StarRocks' name of the storage volume that holds the catalog itself.
pub const BUILTIN_VOLUME: &str = "builtin_storage_volume";

/// The property of a user that limits the memory of each of the user's statements, in bytes.
pub const EXEC_MEM_LIMIT: &str = "exec_mem_limit";
