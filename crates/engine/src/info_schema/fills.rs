//! The functions that make the rows of each virtual table.

use std::sync::Arc;

use dipper_lake::sheet::Sheet;
use dipper_lake::virtual_tables::{Rows, keys as of_keys};
use futures::future::BoxFuture;

use super::{Wanted, access, config, keys, loads, measures, objects, server};
use crate::context::QueryContext;
use crate::error::Result;

/// The way in which a virtual table gets its rows.
#[derive(Clone, Copy)]
pub(super) enum Fill {
    /// No rows: dipper has no objects of this kind.
    Empty,
    /// A function that has all data in memory.
    Now(fn(&QueryContext, &Wanted, &mut Sheet) -> Result<()>),
    /// A function that reads or plans the definitions of tables.
    Later(for<'a> fn(&'a Arc<QueryContext>, &'a Wanted, &'a mut Sheet) -> BoxFuture<'a, Result<()>>),
}

/// Returns the function behind the rows of a definition.
pub(super) fn of(rows: Rows) -> Fill {
    match rows {
        Rows::None => Fill::Empty,
        Rows::Accounts => Fill::Now(server::accounts),
        Rows::ActiveQueries => Fill::Now(config::active_queries),
        Rows::Applicability => Fill::Now(server::applicability),
        Rows::ApplicableRoles => Fill::Now(access::applicable_roles),
        Rows::AuditLog => Fill::Now(measures::audit_log),
        Rows::BackendTablets => {
            Fill::Later(|context, wanted, sheet| Box::pin(measures::backend_tablets(context, wanted, sheet)))
        }
        Rows::BeTablets => Fill::Later(|context, wanted, sheet| Box::pin(measures::be_tablets(context, wanted, sheet))),
        Rows::BeThreads => Fill::Now(measures::be_threads),
        Rows::CharacterSets => Fill::Now(server::character_sets),
        Rows::Collations => Fill::Now(server::collations),
        Rows::ColumnDataSizes => {
            Fill::Later(|context, wanted, sheet| Box::pin(config::column_data_sizes(context, wanted, sheet)))
        }
        Rows::ColumnStatistics => {
            Fill::Later(|context, wanted, sheet| Box::pin(measures::column_statistics(context, wanted, sheet)))
        }
        Rows::Columns => Fill::Later(|context, wanted, sheet| Box::pin(objects::columns(context, wanted, sheet))),
        Rows::DataCache => Fill::Now(server::data_cache),
        Rows::DataIo => Fill::Now(server::data_io),
        Rows::DatabaseProperties => Fill::Now(config::database_properties),
        Rows::DorisColumnStatistics => {
            Fill::Later(|context, wanted, sheet| Box::pin(measures::doris_column_statistics(context, wanted, sheet)))
        }
        Rows::EnabledRoles => Fill::Now(access::enabled_roles),
        Rows::Engines => Fill::Now(server::fill_engines),
        Rows::FeThreads => Fill::Now(measures::fe_threads),
        Rows::FlattenedKeys => {
            Fill::Later(|context, wanted, sheet| Box::pin(keys::rows(context, wanted, sheet, of_keys::flattened_keys)))
        }
        Rows::FrontendMetrics => Fill::Now(measures::frontend_metrics),
        Rows::GlobalStatus => Fill::Now(server::global_status),
        Rows::GlobalVariables => Fill::Now(server::global_variables),
        Rows::GrantsToRoles => Fill::Now(access::grants_to_roles),
        Rows::GrantsToUsers => Fill::Now(access::grants_to_users),
        Rows::Hosts => Fill::Now(server::hosts),
        Rows::KeyColumnUsage => Fill::Later(|context, wanted, sheet| {
            Box::pin(keys::rows(context, wanted, sheet, of_keys::key_column_usage))
        }),
        Rows::Keywords => Fill::Now(measures::keywords),
        Rows::LoadJobs => Fill::Now(loads::load_jobs),
        Rows::Loads => Fill::Now(loads::loads),
        Rows::MetadataNameIds => Fill::Now(config::metadata_name_ids),
        Rows::Metrics => Fill::Now(measures::metrics),
        Rows::MysqlDb => Fill::Now(access::mysql_db),
        Rows::MysqlDefaultRoles => Fill::Now(access::mysql_default_roles),
        Rows::MysqlRoleEdges => Fill::Now(access::mysql_role_edges),
        Rows::MysqlTablesPriv => Fill::Now(access::mysql_tables_priv),
        Rows::MysqlUser => Fill::Now(access::mysql_user),
        Rows::ObjectDependencies => Fill::Now(config::object_dependencies),
        Rows::Partitions => Fill::Later(|context, wanted, sheet| Box::pin(objects::partitions(context, wanted, sheet))),
        Rows::PartitionsMeta => {
            Fill::Later(|context, wanted, sheet| Box::pin(config::partitions_meta(context, wanted, sheet)))
        }
        Rows::Processlist => Fill::Now(server::processlist),
        Rows::Profiling => Fill::Now(measures::profiling),
        Rows::ReferentialConstraints => Fill::Later(|context, wanted, sheet| {
            Box::pin(keys::rows(context, wanted, sheet, of_keys::referential_constraints))
        }),
        Rows::RoleEdges => Fill::Now(access::role_edges),
        Rows::RoleTableGrants => Fill::Now(access::role_table_grants),
        Rows::Rowsets => Fill::Later(|context, wanted, sheet| Box::pin(config::rowsets(context, wanted, sheet))),
        Rows::SchemaObjectOverview => Fill::Now(config::schema_object_overview),
        Rows::SchemaPrivileges => Fill::Now(access::schema_privileges),
        Rows::Schemata => Fill::Now(objects::schemata),
        Rows::SessionStatus => Fill::Now(server::session_status),
        Rows::SessionVariables => Fill::Now(server::session_variables),
        Rows::Statistics => {
            Fill::Later(|context, wanted, sheet| Box::pin(keys::rows(context, wanted, sheet, of_keys::statistics)))
        }
        Rows::StreamLoads => Fill::Now(loads::stream_loads),
        Rows::SysMetrics => Fill::Now(server::sys_metrics),
        Rows::SysSessions => Fill::Now(server::sys_sessions),
        Rows::SysVersion => Fill::Now(server::sys_version),
        Rows::SystemVariables => Fill::Now(measures::system_variables),
        Rows::TableConstraints => Fill::Later(|context, wanted, sheet| {
            Box::pin(keys::rows(context, wanted, sheet, of_keys::table_constraints))
        }),
        Rows::TableOptions => {
            Fill::Later(|context, wanted, sheet| Box::pin(config::table_options(context, wanted, sheet)))
        }
        Rows::TablePrivileges => Fill::Now(access::table_privileges),
        Rows::TableProperties => {
            Fill::Later(|context, wanted, sheet| Box::pin(config::table_properties(context, wanted, sheet)))
        }
        Rows::Tables => Fill::Later(|context, wanted, sheet| Box::pin(objects::tables(context, wanted, sheet))),
        Rows::TablesConfig => {
            Fill::Later(|context, wanted, sheet| Box::pin(config::tables_config(context, wanted, sheet)))
        }
        Rows::TemporaryTables => Fill::Now(measures::temporary_tables),
        Rows::Threads => Fill::Now(server::threads),
        Rows::TimeZones => Fill::Now(server::time_zones),
        Rows::TrackingLogs => {
            Fill::Later(|context, wanted, sheet| Box::pin(loads::tracking_logs(context, wanted, sheet)))
        }
        Rows::UserPrivileges => Fill::Now(access::user_privileges),
        Rows::Users => Fill::Now(server::users),
        Rows::VerboseVariables => Fill::Now(measures::verbose_variables),
        Rows::ViewDependency => Fill::Now(config::view_dependency),
        Rows::ViewTableUsage => Fill::Now(config::view_table_usage),
        Rows::Views => Fill::Now(objects::views),
    }
}
