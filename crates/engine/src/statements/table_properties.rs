//! TBLPROPERTIES and SERDEPROPERTIES of tables over files. Misspelt ones cause a warning.

use dipper_text::hive::PROPERTIES;

use super::warn_of_unknown;
use crate::files::stores::{is_hadoop_property, is_s3_property};
use crate::session::Session;

/// Properties of files that INSERT writes: the codec.
const OF_PARQUET: &[&str] = &["parquet.compression"];

/// Properties in which Hive and others keep information of their own. They say nothing about the bytes of files.
const BOOKKEEPING: &[&str] = &[
    "COLUMN_STATS_ACCURATE",
    "EXTERNAL",
    "TRANSLATED_TO_EXTERNAL",
    "auto.purge",
    "bucketing_version",
    "classification",
    "comment",
    "discover.partitions",
    "external.table.purge",
    "immutable",
    "last_modified_by",
    "last_modified_time",
    "numFiles",
    "numFilesErasureCoded",
    "numPartitions",
    "numRows",
    "owner",
    "partition.retention.period",
    "rawDataSize",
    "totalSize",
    "transient_lastDdlTime",
];

/// Prefixes of further properties of this kind.
const BOOKKEEPING_GROUPS: &[&str] = &["spark.sql.", "impala.", "trino_", "presto_", "projection."];

/// Warns of unknown properties.
pub(super) fn check<'a>(session: &mut Session, keys: impl Iterator<Item = &'a String>) {
    for key in keys {
        let known = [PROPERTIES, OF_PARQUET, BOOKKEEPING].into_iter().flatten().copied();
        let is_known = known.clone().any(|known| known == key)
            || BOOKKEEPING_GROUPS.iter().any(|group| key.starts_with(group))
            || is_s3_property(key)
            || is_hadoop_property(key);
        if !is_known {
            warn_of_unknown(session, key, known);
        }
    }
}
