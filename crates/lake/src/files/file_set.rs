//! The files of a table, and the partition values that their directories give them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::catalog::Session;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use dipper_node::error::{EngineError, Result};
use dipper_node::files::partitions::{self, PartitionDir};
use dipper_node::files::remote::PartitionFiles;
use dipper_node::files::{FileAccess, FileEntry, lakes, walk};
use dipper_sql::charter::casts::FileCast;

/// The location of a table's files.
#[derive(Debug, Clone)]
pub enum FileSet {
    /// Files that were listed when the statement named the table.
    Listed(Arc<[FileEntry]>),
    /// Partitions in object stores with their files, listed when the statement named the table.
    Known {
        /// Partition columns, outermost directory first.
        columns: Vec<FieldRef>,
        /// Values and files of each partition.
        partitions: Arc<[PartitionFiles]>,
    },
    /// All files below a directory that may be empty or missing (a Hive table without partitions).
    Below(PathBuf),
    /// Partition directories below a root.
    Partitioned {
        /// The table's location; `None` if only the registered partitions belong to the table.
        root: Option<PathBuf>,
        /// Partition columns, outermost directory first.
        columns: Vec<FieldRef>,
        /// Partitions that were added by statement, by values, with their own location if they have one.
        registered: BTreeMap<Vec<Option<String>>, Option<String>>,
    },
}

impl FileSet {
    /// Returns the partition columns.
    pub fn partition_columns(&self) -> &[FieldRef] {
        match self {
            FileSet::Partitioned { columns, .. } | FileSet::Known { columns, .. } => columns,
            _ => &[],
        }
    }

    /// Returns whether a filter can be evaluated on partition values alone.
    pub(super) fn covers(&self, filter: &Expr) -> bool {
        covers(self.partition_columns(), filter)
    }

    /// Returns the files that may hold rows for `filters`, each with its partition values. Filters for which
    /// [`covers`](Self::covers) is false are ignored. Local files of a table of a lake format are refused, as they are
    /// where they are read by path.
    pub(super) fn files(
        &self,
        access: &FileAccess,
        state: &dyn Session,
        filters: &[Expr],
    ) -> Result<Vec<(FileEntry, Arc<[ScalarValue]>)>> {
        match self {
            FileSet::Listed(files) => Ok(files.iter().map(|f| (f.clone(), Arc::from([]))).collect()),
            FileSet::Below(root) => {
                let mut found = Vec::new();
                if root.exists() {
                    walk(root, access, &mut found)?;
                }
                lakes::refuse_local(&root.display().to_string(), &found, access)?;
                Ok(found.into_iter().map(|f| (f, Arc::from([]))).collect())
            }
            FileSet::Known { columns, partitions } => {
                let pruner = self.pruner(columns, state, filters)?;
                let mut found = Vec::new();
                for (values, files) in partitions.iter() {
                    if pruner.keep(values)? {
                        let typed: Arc<[ScalarValue]> = typed(columns, values)?.into();
                        found.extend(files.iter().map(|f| (f.clone(), Arc::clone(&typed))));
                    }
                }
                Ok(found)
            }
            FileSet::Partitioned { root, .. } => {
                let (mut found, mut of_files) = (Vec::new(), Vec::new());
                for (dir, values) in self.partitions(access, state, filters)? {
                    let files = dir.files(access)?;
                    of_files.extend(std::iter::repeat_n(values, files.len()));
                    found.extend(files);
                }
                let location = root.as_deref().or_else(|| found.first().and_then(|file| file.path.parent()));
                let location = location.map(|path| path.display().to_string()).unwrap_or_default();
                lakes::refuse_local(&location, &found, access)?;
                Ok(found.into_iter().zip(of_files).collect())
            }
        }
    }

    fn pruner(&self, columns: &[FieldRef], state: &dyn Session, filters: &[Expr]) -> Result<Pruner> {
        Pruner::try_new(columns, state, filters.iter().filter(|f| self.covers(f)).cloned())
    }

    /// Answers filter pushdown: filters over partition columns alone select files exactly; all others are left to the
    /// scan's rows.
    pub(super) fn pushdown(&self, filters: &[&Expr]) -> Vec<TableProviderFilterPushDown> {
        filters
            .iter()
            .map(|f| match self.covers(f) {
                true => TableProviderFilterPushDown::Exact,
                false => TableProviderFilterPushDown::Unsupported,
            })
            .collect()
    }

    /// Returns the local partitions that `filters` leave, with their typed values. Empty for other tables.
    pub(super) fn partitions(
        &self,
        access: &FileAccess,
        state: &dyn Session,
        filters: &[Expr],
    ) -> Result<Vec<(PartitionDir, Arc<[ScalarValue]>)>> {
        let FileSet::Partitioned { root, columns, registered } = self else { return Ok(Vec::new()) };
        let names: Vec<String> = columns.iter().map(|c| c.name().clone()).collect();
        let pruner = self.pruner(columns, state, filters)?;
        let dirs = partitions::find(root.as_deref(), &names, registered, access, &|values| {
            // Outer levels of directories are always read: not all columns of the filters are known there.
            if values.len() < columns.len() { Ok(true) } else { pruner.keep(values) }
        })?;
        dirs.into_iter()
            .map(|dir| {
                let values = typed(columns, &dir.values)?;
                Ok((dir, Arc::from(values)))
            })
            .collect()
    }
}

/// Converts raw directory values to the columns' types, as CAST does. A value that cannot be converted becomes NULL, as
/// in Hive.
pub fn typed(columns: &[FieldRef], values: &[Option<String>]) -> Result<Vec<ScalarValue>> {
    columns
        .iter()
        .zip(values)
        .map(|(column, value)| {
            let text: ArrayRef = Arc::new(StringArray::from(vec![value.as_deref()]));
            let array = FileCast::new(column.data_type().clone(), column, None)
                .cast(&text)
                .map_err(|e| EngineError::invalid(format!("partition column {}: {e}", column.name())))?;
            Ok(ScalarValue::try_from_array(&array, 0)?)
        })
        .collect()
}

/// Returns whether a filter uses partition columns only, and at least one.
pub fn covers(partition_columns: &[FieldRef], filter: &Expr) -> bool {
    let columns = filter.column_refs();
    !columns.is_empty()
        && !filter.is_volatile()
        && columns.iter().all(|c| partition_columns.iter().any(|p| p.name() == &c.name))
}

/// Decides which partitions pass filters over partition columns.
pub struct Pruner {
    columns: Vec<FieldRef>,
    predicate: Option<Arc<dyn datafusion::physical_expr::PhysicalExpr>>,
}

impl Pruner {
    /// Makes a pruner. The filters may use only `columns`, the partition columns.
    pub fn try_new(columns: &[FieldRef], state: &dyn Session, filters: impl Iterator<Item = Expr>) -> Result<Self> {
        let schema = Schema::new(columns.to_vec());
        let predicate = match conjunction(filters.map(unqualified)) {
            None => None,
            Some(filter) => Some(state.create_physical_expr(filter, &DFSchema::try_from(schema)?)?),
        };
        Ok(Pruner { columns: columns.to_vec(), predicate })
    }

    /// Returns whether a partition with these raw values passes the filters.
    pub fn keep(&self, values: &[Option<String>]) -> Result<bool> {
        let Some(predicate) = &self.predicate else { return Ok(true) };
        let arrays = typed(&self.columns, values)?
            .iter()
            .map(|v| v.to_array_of_size(1))
            .collect::<datafusion::error::Result<Vec<_>>>()?;
        let batch = RecordBatch::try_new(Arc::new(Schema::new(self.columns.clone())), arrays)
            .map_err(|e| EngineError::invalid(e.to_string()))?;
        let result = predicate.evaluate(&batch)?.into_array(1)?;
        match result.data_type() {
            DataType::Boolean => Ok(result.is_valid(0) && result.as_boolean().value(0)),
            other => Err(EngineError::invalid(format!("a filter gives {other} where a boolean is expected"))),
        }
    }
}

/// Removes the table names from the columns of an expression.
fn unqualified(e: Expr) -> Expr {
    use datafusion::common::tree_node::{Transformed, TreeNode};
    e.transform(|e| {
        Ok(match e {
            Expr::Column(mut c) if c.relation.is_some() => {
                c.relation = None;
                Transformed::yes(Expr::Column(c))
            }
            other => Transformed::no(other),
        })
    })
    .expect("the closure never fails")
    .data
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;
    use datafusion::prelude::SessionContext;

    use super::*;

    #[test]
    fn files_of_lake_tables_are_refused() {
        let session = SessionContext::new().state();
        for (inside, name) in
            [("_delta_log/0.json", "Delta Lake"), (".hoodie/x", "Hudi"), ("metadata/1.metadata.json", "Iceberg")]
        {
            let dir = tempfile::tempdir().expect("a directory");
            let put = |path: &str| {
                let path = dir.path().join(path);
                std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
                std::fs::write(path, "x").expect("written");
            };
            put("p=1/a.csv");
            let below = FileSet::Below(dir.path().join("p=1"));
            let column = Arc::new(Field::new("p", DataType::Int32, true));
            let partitioned = FileSet::Partitioned {
                root: None,
                columns: vec![column],
                registered: [(vec![Some("1".into())], Some(dir.path().join("p=1").display().to_string()))].into(),
            };
            for set in [&below, &partitioned] {
                assert_eq!(set.files(&FileAccess::Any, &session, &[]).expect("listed").len(), 1);
            }
            put(inside);
            for set in [&below, &partitioned, &FileSet::Below(dir.path().into())] {
                let refused = set.files(&FileAccess::Any, &session, &[]).expect_err("refused").to_string();
                assert!(refused.contains(name), "{refused}");
            }
        }
    }
}
