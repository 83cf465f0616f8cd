use super::*;
use object_store::memory::InMemory;

fn orders() -> TableDef {
    TableDef::External(ExternalTable {
        columns: vec![Column::new("id", "BIGINT"), Column::new("tags", "ARRAY<STRING>")],
        partition_columns: vec![Column::new("dt", "STRING")],
        format: "textfile".into(),
        location: "/data/orders".into(),
        ddl: "CREATE EXTERNAL TABLE orders ...".into(),
        ..ExternalTable::default()
    })
}

fn view(sql: &str) -> TableDef {
    TableDef::View(View { sql: sql.into(), ..View::default() })
}

fn part(value: &str) -> Partition {
    Partition { values: vec![Some(value.into())], location: None }
}

fn memory() -> Arc<dyn ObjectStore> {
    Arc::new(InMemory::new())
}

async fn with_orders() -> Catalog {
    let c = Catalog::open(memory()).await.unwrap();
    let changes = vec![
        CatalogChange::create_database("d", false),
        CatalogChange::create("d", "orders", orders(), OnExists::Fail),
    ];
    c.commit(changes).await.unwrap();
    c
}

fn said<T>(r: Result<T, CatalogError>) -> String {
    r.err().map_or_else(|| "no error".to_string(), |e| e.to_string())
}

#[tokio::test]
async fn functions_of_databases_and_of_all() {
    let store = memory();
    let c = Catalog::open(Arc::clone(&store)).await.unwrap();
    let function = |name: &str, types: &[&str]| AliasFunction {
        name: name.into(),
        types: types.iter().map(|t| t.to_string()).collect(),
        parameters: types.iter().enumerate().map(|(i, _)| format!("p{i}")).collect(),
        sql: "1".into(),
        sql_mode: String::new(),
        created_ms: 0,
    };
    let create = |db: Option<&str>, function, if_not_exists| CatalogChange::CreateFunction {
        db: db.map(str::to_string),
        function,
        if_not_exists,
    };
    c.commit(vec![
        CatalogChange::create_database("d", false),
        create(Some("d"), function("f", &["int"]), false),
        create(None, function("f", &["int"]), false),
        create(None, function("F", &[]), false),
    ])
    .await
    .unwrap();
    // Functions of one name differ in the number of their arguments.
    let again = create(None, function("f", &["string"]), false);
    assert!(said(c.commit(vec![again]).await).starts_with("function f(int) exists already"));
    c.commit(vec![create(None, function("f", &["string"]), true)]).await.unwrap();
    let state = Catalog::open(store).await.unwrap().snapshot();
    assert!(state.has_functions());
    assert_eq!(state.functions.iter().map(AliasFunction::signature).collect::<Vec<_>>(), ["F()", "f(int)"]);
    assert_eq!(functions::find(&state.databases["d"].functions, "F", 1).map(|f| f.types.len()), Some(1));
    let drop = |types: &[&str], if_exists| CatalogChange::DropFunction {
        db: None,
        name: "F".into(),
        types: types.iter().map(|t| t.to_string()).collect(),
        if_exists,
    };
    assert!(said(c.commit(vec![drop(&["string"], false)]).await).starts_with("function F(string) does not exist"));
    c.commit(vec![drop(&["string"], true), drop(&["int"], false), drop(&[], false)]).await.unwrap();
    c.commit(vec![CatalogChange::DropDatabase { db: "d".into(), if_exists: false, cascade: false }]).await.unwrap();
    assert!(!c.snapshot().has_functions());
}

#[tokio::test]
async fn what_is_committed_is_there_after_opening_again() {
    let store = memory();
    let c = Catalog::open(Arc::clone(&store)).await.unwrap();
    assert_eq!(c.version(), 0);
    c.commit(vec![CatalogChange::create_database("d", false)]).await.unwrap();
    c.commit(vec![
        CatalogChange::create("d", "orders", orders(), OnExists::Fail),
        CatalogChange::AddPartitions {
            db: "d".into(),
            name: "orders".into(),
            partitions: vec![part("2024-01-01"), Partition { values: vec![None], location: Some("/x".into()) }],
            if_not_exists: false,
        },
        CatalogChange::create("d", "v", view("select 1"), OnExists::Fail),
    ])
    .await
    .unwrap();
    let again = Catalog::open(store).await.unwrap();
    assert_eq!(again.version(), 2);
    assert_eq!(again.snapshot(), c.snapshot());
    let state = again.snapshot();
    let t = state.table("d", "orders").unwrap();
    assert_eq!(t.as_external().unwrap().partitions.len(), 2);
    assert_eq!(t.revision, 2);
    assert_eq!(state.table("d", "v").unwrap().as_view().unwrap().sql, "select 1");
}

#[tokio::test]
async fn a_list_of_changes_is_all_or_nothing() {
    let c = with_orders().await;
    let before = c.snapshot();
    let e = c
        .commit(vec![
            CatalogChange::create("d", "a", view("select 1"), OnExists::Fail),
            CatalogChange::create("d", "orders", orders(), OnExists::Fail),
        ])
        .await;
    assert_eq!(said(e), "table \"d.orders\" exists already; drop it first, or say IF NOT EXISTS");
    assert_eq!(c.snapshot(), before);
    assert_eq!(c.version(), 1);
}

#[tokio::test]
async fn changes_that_alter_nothing_make_no_version() {
    let c = with_orders().await;
    c.commit(vec![CatalogChange::create_database("d", true)]).await.unwrap();
    c.commit(vec![CatalogChange::create("d", "orders", orders(), OnExists::Keep)]).await.unwrap();
    c.commit(vec![CatalogChange::Drop { db: "d".into(), name: "x".into(), kind: TableKind::View, if_exists: true }])
        .await
        .unwrap();
    assert_eq!(c.version(), 1);
}

#[tokio::test]
async fn errors_name_what_is_wrong() {
    let c = with_orders().await;
    let drop = |name: &str, kind| CatalogChange::Drop { db: "d".into(), name: name.into(), kind, if_exists: false };
    for (change, message) in [
        (
            CatalogChange::create_database("d", false),
            "database \"d\" exists already; drop it first, or say IF NOT EXISTS",
        ),
        (drop("order", TableKind::Table), "table \"d.order\" does not exist; did you mean \"orders\"?"),
        (drop("orders", TableKind::View), "\"d.orders\" is a table, expected a view"),
        (
            CatalogChange::create("e", "t", view(""), OnExists::Fail),
            "database \"e\" does not exist; did you mean \"d\"?",
        ),
        (CatalogChange::create("d", "orders", view(""), OnExists::Replace), "\"d.orders\" is a table, expected a view"),
        (
            CatalogChange::DropDatabase { db: "d".into(), if_exists: false, cascade: false },
            "database \"d\" is not empty (1 tables and views); drop them first, or use FORCE / CASCADE",
        ),
        (
            CatalogChange::DropPartitions {
                db: "d".into(),
                name: "orders".into(),
                partitions: vec![vec![None]],
                if_exists: false,
            },
            "partition (NULL) of table \"d.orders\" does not exist",
        ),
        (
            CatalogChange::AddPartitions {
                db: "d".into(),
                name: "orders".into(),
                partitions: vec![Partition { values: vec![None, None], location: None }],
                if_not_exists: true,
            },
            "partition (NULL, NULL) of table \"d.orders\" has 2 values, the table has 1 partition columns",
        ),
        (CatalogChange::create_database("", false), "database name \"\" is not allowed: it is empty"),
    ] {
        assert_eq!(said(c.commit(vec![change]).await), message);
    }
}

#[tokio::test]
async fn rename_keeps_id_and_partitions() {
    let c = with_orders().await;
    let id = c.snapshot().table("d", "orders").unwrap().id;
    let rename = |a: &str, b: &str| CatalogChange::Rename {
        db: "d".into(),
        name: a.into(),
        to_db: "d".into(),
        to_name: b.into(),
    };
    c.commit(vec![rename("orders", "bills")]).await.unwrap();
    let state = c.snapshot();
    assert!(state.table("d", "orders").is_none());
    assert_eq!(state.table("d", "bills").unwrap().id, id);
    assert_eq!(state.table("d", "bills").unwrap().name, "bills");
    assert_eq!(state.table_by_id(id).unwrap().1.name, "bills");
    assert_eq!(
        said(c.commit(vec![rename("bills", "bills")]).await),
        "table \"d.bills\" exists already; drop it first, or say IF NOT EXISTS"
    );
}

#[tokio::test]
async fn a_renamed_database_keeps_its_id_and_its_views() {
    let store = memory();
    let c = Catalog::open(Arc::clone(&store)).await.unwrap();
    let of_d = TableDef::View(View { database: "d".into(), ..View::default() });
    let changes = vec![
        CatalogChange::create_database("d", false),
        CatalogChange::create_database("e", false),
        CatalogChange::create("d", "orders", orders(), OnExists::Fail),
        CatalogChange::create("e", "v", of_d, OnExists::Fail),
    ];
    let before = c.commit(changes).await.unwrap();
    let rename = |from: &str, to: &str| CatalogChange::RenameDatabase { db: from.into(), to: to.into() };
    assert!(said(c.commit(vec![rename("d", "e")]).await).contains("\"e\" exists already"));
    assert!(said(c.commit(vec![rename("x", "y")]).await).contains("\"x\" does not exist"));
    assert!(said(c.commit(vec![rename("d", "")]).await).contains("it is empty"));
    c.commit(vec![rename("d", "f")]).await.unwrap();
    for state in [c.snapshot(), Catalog::open(store).await.unwrap().snapshot()] {
        assert!(state.database("d").is_none());
        assert_eq!(state.database("f").unwrap().id, before.database("d").unwrap().id);
        assert_eq!(state.database("f").unwrap().name, "f");
        assert_eq!(state.table("f", "orders"), before.table("d", "orders"));
        let view = state.table("e", "v").unwrap();
        assert_eq!((view.as_view().unwrap().database.as_str(), view.revision), ("f", 2));
    }
}

/// Stands for a later dipper, which makes changes that this one does not know.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
struct Later;

impl State for Later {
    type Change = Vec<serde_json::Value>;
    type Error = CatalogError;
    type Part = ();
    const FORMAT: u16 = CatalogState::FORMAT;

    fn apply(&mut self, _: &Self::Change) -> Result<bool, CatalogError> {
        Ok(true)
    }
}

#[tokio::test]
async fn a_change_that_is_not_known_is_refused() {
    let store = memory();
    let later = Chain::<Later>::open(Arc::clone(&store), Path::from("catalog"), Options::default()).await.unwrap();
    later.commit(vec![serde_json::json!({ "rename_everything": { "to": "x" } })]).await.unwrap();
    let refused = said(Catalog::open(store).await.map(|_| ()));
    assert!(refused.contains("rename_everything") && refused.contains("catalog/v/"), "{refused}");
}

#[tokio::test]
async fn redefine_refuses_what_changed_meanwhile() {
    let c = with_orders().await;
    let t = Arc::clone(c.snapshot().table("d", "orders").unwrap());
    let add = CatalogChange::AddPartitions {
        db: "d".into(),
        name: "orders".into(),
        partitions: vec![part("1")],
        if_not_exists: false,
    };
    c.commit(vec![add]).await.unwrap();
    let redefine =
        |revision| CatalogChange::Redefine { db: "d".into(), name: "orders".into(), id: t.id, revision, def: orders() };
    assert!(said(c.commit(vec![redefine(t.revision)]).await).contains("was changed by another session"));
    c.commit(vec![redefine(t.revision + 1)]).await.unwrap();
    let state = c.snapshot();
    assert_eq!(state.table("d", "orders").unwrap().as_external().unwrap().partitions.len(), 1, "partitions stay");
}

#[tokio::test]
async fn two_handles_see_each_other() {
    let store = memory();
    let a = Catalog::open(Arc::clone(&store)).await.unwrap();
    let b = Catalog::open(store).await.unwrap();
    a.commit(vec![CatalogChange::create_database("d", false)]).await.unwrap();
    assert!(b.snapshot().database("d").is_none());
    assert_eq!(
        said(b.commit(vec![CatalogChange::create_database("d", false)]).await),
        "database \"d\" exists already; drop it first, or say IF NOT EXISTS"
    );
    b.commit(vec![CatalogChange::create_database("e", false)]).await.unwrap();
    assert!(a.refresh().await.unwrap().database("e").is_some());
}

#[test]
fn ids_of_one_process_never_collide() {
    let draw = || (0..20_000).map(|_| TableId::fresh()).collect::<Vec<_>>();
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(draw)).collect();
    let ids: Vec<TableId> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
    let different: std::collections::HashSet<&TableId> = ids.iter().collect();
    assert_eq!(different.len(), ids.len());
}
