//! Tests of backups, and of tables restored from them.

use super::*;
use crate::table::test_support::{database, memory, object, rowset};

/// Returns all objects, with tags that change when they are put again.
async fn content(of: &Arc<dyn ObjectStore>) -> Vec<(Path, Option<String>)> {
    of.list(None).map_ok(|m| (m.location, m.e_tag)).try_collect().await.unwrap()
}

/// Nothing is written to a directory that holds a database, whether or not it is the one that is copied.
#[tokio::test]
async fn a_database_is_no_target() {
    let ((from, table), (other, _)) = (database().await, database().await);
    let (root, at) = (Path::default(), Path::from("b"));
    for target in [&from, &other] {
        let before = content(target).await;
        let e = backup(&from, target, &root, &[], |_| ()).await.unwrap_err();
        assert!(matches!(&e, BackupError::Database { object, .. } if object.starts_with("catalog/v/")), "{e}");
        assert_eq!(content(target).await, before);
    }
    for (path, is_database) in [("label/x", true), ("lease/x", true), ("t/x/v/1", false)] {
        let target = memory();
        target.put(&at.clone().join("x"), "x".into()).await.unwrap();
        target.put(&Path::from(format!("{at}/{path}")), "x".into()).await.unwrap();
        let before = content(&target).await;
        let e = backup(&from, &target, &at, &[], |_| ()).await.unwrap_err();
        assert_eq!(matches!(e, BackupError::Database { .. }), is_database, "{e}");
        assert_eq!(matches!(e, BackupError::Occupied { .. }), !is_database, "{e}");
        assert!(e.to_string().starts_with("'b' holds ") && e.to_string().contains(path), "{e}");
        assert_eq!(content(&target).await, before);
    }
    // A storage volume of the database itself.
    let volume = memory();
    let version = table_path(table.id()).join("v").join("00000000000000000001");
    volume.put(&version, from.get(&version).await.unwrap().bytes().await.unwrap().into()).await.unwrap();
    let before = content(&volume).await;
    backup(&from, &volume, &root, &[], |_| ()).await.unwrap_err();
    assert_eq!(content(&volume).await, before);
}

/// Directories of backups, and those above them, accept further ones.
#[tokio::test]
async fn backups_are_beside_each_other() {
    let ((from, _), to) = (database().await, memory());
    for at in ["monday", "tuesday", "monday/again", ""] {
        backup(&from, &to, &Path::from(at), &[], |_| ()).await.unwrap();
    }
    for at in ["monday", "tuesday", ""] {
        let e = backup(&from, &to, &Path::from(at), &[], |_| ()).await.unwrap_err();
        assert!(matches!(e, BackupError::Exists(_)), "{e}");
        assert_eq!(restore(&to, &Path::from(at), &memory(), &[], &[], |_| ()).await.unwrap().len(), 1);
    }
}

/// A backup that fails deletes what it has put, and nothing else; then it can be repeated.
#[tokio::test]
async fn a_failed_backup_leaves_what_was_there() {
    let ((from, table), to) = (database().await, memory());
    let lost = object(table.begin(), 0, &[(0, 0, 1)]);
    let path = table.data_path(lost.id);
    table.publish(rowset(vec![lost])).await.unwrap();
    to.put(&Path::from("notes"), "x".into()).await.unwrap();
    let before = content(&to).await;
    for _ in 0..2 {
        let e = backup(&from, &to, &Path::default(), &[], |_| ()).await.unwrap_err();
        assert!(matches!(&e, BackupError::Store { path: at, .. } if *at == path.to_string()), "{e}");
        assert_eq!(content(&to).await, before);
    }
}

/// An object that another backup has put meanwhile is neither replaced nor deleted.
#[tokio::test]
async fn an_object_that_is_there_is_not_replaced() {
    let ((from, table), to) = (database().await, memory());
    let target = Target::new(&to, &Path::from("b"));
    let dir = table_path(table.id());
    let version = dir.clone().join("v").join("00000000000000000001");
    to.put(&Path::from(format!("b/{version}")), "x".into()).await.unwrap();
    let before = content(&to).await;
    let e = copy_table(&from, &target, table.id(), "d.t").await.unwrap_err();
    assert!(matches!(e, BackupError::Occupied { .. }), "{e}");
    target.give_up().await;
    assert_eq!(content(&to).await, before);
}

#[tokio::test]
async fn names_of_restored_tables() {
    let ((from, _), to, at) = (database().await, memory(), Path::from("b"));
    backup(&from, &to, &at, &[], |_| ()).await.unwrap();
    let data = memory();
    let renamed = async |old: &str, new: &str| {
        let names = [(old.to_string(), new.to_string())];
        restore(&to, &at, &data, &[], &names, |_| ()).await.map(|copied| copied[0].name.clone())
    };
    for (old, new) in [("d", "e"), ("d", "e.t"), ("d.t", "e"), ("d.t", "e.t.u"), ("d.t", ".t"), ("d.t", "e.")] {
        let e = renamed(old, new).await.unwrap_err();
        assert!(matches!(e, BackupError::Rename { .. }), "{old}={new}: {e}");
    }
    assert!(content(&data).await.is_empty());
    assert_eq!(renamed("d.t", "e.u").await.unwrap(), "e.u");
    let e = renamed("d.t", "e.u").await.unwrap_err().to_string();
    assert!(e.starts_with("table 'e.u' exists already; ") && e.contains(": d.t=e.u_restored;"), "{e}");
    assert_eq!(restore(&to, &at, &data, &[], &[], |_| ()).await.unwrap()[0].name, "d.t");
    let e = restore(&to, &at, &data, &[], &[], |_| ()).await.unwrap_err().to_string();
    assert!(e.contains(": d.t=d.t_restored;") && !e.contains("IF NOT EXISTS"), "{e}");
}

/// A restored table is below the database, and does not name the storage volume of its original.
#[tokio::test]
async fn a_restored_table_is_in_no_volume() {
    let ((from, table), to, at) = (database().await, memory(), Path::from("b"));
    let mut schema = TableSchema::clone(table.snapshot().schema());
    schema.version += 1;
    schema.properties.insert("storage_volume".into(), "cold".into());
    schema.properties.insert("bloom_filter_columns".into(), "k".into());
    let expected = schema.version - 1;
    table.commit(TableChange::Schema { expected, schema }).await.unwrap();
    backup(&from, &to, &at, &[], |_| ()).await.unwrap();
    let data = memory();
    restore(&to, &at, &data, &[], &[], |_| ()).await.unwrap();
    let state = Catalog::open(Arc::clone(&data)).await.unwrap().snapshot();
    let id = state.table("d", "t").unwrap().id;
    let restored = Table::open(data, id).await.unwrap().snapshot();
    let names: Vec<_> = restored.schema().properties.keys().cloned().collect();
    assert_eq!(names, ["bloom_filter_columns"]);
}

/// A database into which a backup was mixed is not taken for a backup alone.
#[tokio::test]
async fn a_list_beside_a_database_is_told() {
    let ((from, _), to) = (database().await, memory());
    backup(&from, &to, &Path::default(), &[], |_| ()).await.unwrap();
    let problems = check(&to, |_| ()).await.unwrap().unwrap().problems;
    assert!(problems.is_empty(), "{problems:?}");
    let catalog = Catalog::open(Arc::clone(&to)).await.unwrap();
    catalog.commit(vec![CatalogChange::create_database("x", false)]).await.unwrap();
    let problems = check(&to, |_| ()).await.unwrap().unwrap().problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains("catalog/v/00000000000000000001"), "{problems:?}");
}

/// Objects beside a chain that no writer of the chain has put are not part of the backup: empty ones could not be read
/// in parts.
#[tokio::test]
async fn strays_stay_behind() {
    let ((from, table), to, at) = (database().await, memory(), Path::from("b"));
    let dir = table_path(table.id());
    for kind in ["c", "p", "done", "v"] {
        from.put(&dir.clone().join(kind).join("notes"), Vec::new().into()).await.unwrap();
    }
    let saved = backup(&from, &to, &at, &[], |_| ()).await.unwrap();
    assert_eq!((saved.len(), saved[0].name.as_str()), (1, "d.t"));
    assert_eq!(restore(&to, &at, &memory(), &[], &[], |_| ()).await.unwrap(), saved);
}
