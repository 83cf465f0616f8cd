//! Random changes from several handles on one store, against a map that does not know chains.

use std::collections::{BTreeMap, BTreeSet};

use object_store::memory::InMemory;
use proptest::prelude::*;

use super::*;

/// The tables of each database: kind, database in which a view looks up its names, properties, partitions.
type Model = BTreeMap<String, BTreeMap<String, Entry>>;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    kind: TableKind,
    home: String,
    comment: Option<String>,
    properties: BTreeMap<String, String>,
    partitions: BTreeSet<String>,
}

#[derive(Clone, Debug)]
enum Act {
    CreateDatabase { db: u8, if_not_exists: bool },
    DropDatabase { db: u8, if_exists: bool, cascade: bool },
    RenameDatabase { db: u8, to: u8 },
    Create { db: u8, table: u8, view: bool, on_exists: OnExists },
    Drop { db: u8, table: u8, view: bool, if_exists: bool },
    Rename { db: u8, table: u8, to_db: u8, to: u8 },
    Comment { db: u8, table: u8, comment: u8 },
    SetProperty { db: u8, table: u8, key: u8, value: Option<u8> },
    AddPartitions { db: u8, table: u8, values: Vec<u8>, if_not_exists: bool },
    DropPartitions { db: u8, table: u8, values: Vec<u8>, if_exists: bool },
}

fn acts() -> impl Strategy<Value = Act> {
    let (db, table) = (0..3u8, 0..4u8);
    let on_exists = prop_oneof![Just(OnExists::Fail), Just(OnExists::Keep), Just(OnExists::Replace)];
    let values = proptest::collection::vec(0..4u8, 1..3);
    prop_oneof![
        2 => (db.clone(), any::<bool>()).prop_map(|(db, if_not_exists)| Act::CreateDatabase { db, if_not_exists }),
        1 => (db.clone(), any::<bool>(), any::<bool>())
            .prop_map(|(db, if_exists, cascade)| Act::DropDatabase { db, if_exists, cascade }),
        1 => (db.clone(), db.clone()).prop_map(|(db, to)| Act::RenameDatabase { db, to }),
        6 => (db.clone(), table.clone(), any::<bool>(), on_exists)
            .prop_map(|(db, table, view, on_exists)| Act::Create { db, table, view, on_exists }),
        2 => (db.clone(), table.clone(), any::<bool>(), any::<bool>())
            .prop_map(|(db, table, view, if_exists)| Act::Drop { db, table, view, if_exists }),
        2 => (db.clone(), table.clone(), db.clone(), table.clone())
            .prop_map(|(db, table, to_db, to)| Act::Rename { db, table, to_db, to }),
        2 => (db.clone(), table.clone(), any::<u8>())
            .prop_map(|(db, table, comment)| Act::Comment { db, table, comment }),
        2 => (db.clone(), table.clone(), 0..2u8, proptest::option::of(0..3u8))
            .prop_map(|(db, table, key, value)| Act::SetProperty { db, table, key, value }),
        3 => (db.clone(), table.clone(), values.clone(), any::<bool>())
            .prop_map(|(db, table, values, if_not_exists)| Act::AddPartitions { db, table, values, if_not_exists }),
        2 => (db, table, values, any::<bool>())
            .prop_map(|(db, table, values, if_exists)| Act::DropPartitions { db, table, values, if_exists }),
    ]
}

fn db_name(db: u8) -> String {
    format!("db{db}")
}

fn table_name(table: u8) -> String {
    format!("t{table}")
}

fn definition(home: Option<String>, comment: Option<String>) -> TableDef {
    if let Some(database) = home {
        return TableDef::View(View { sql: "select 1".into(), database, comment, ..View::default() });
    }
    TableDef::External(ExternalTable {
        columns: vec![Column::new("a", "INT")],
        partition_columns: vec![Column::new("p", "STRING")],
        comment,
        ..ExternalTable::default()
    })
}

fn kind(view: bool) -> TableKind {
    if view { TableKind::View } else { TableKind::Table }
}

/// Returns the change for the catalog; `None` if the caller would have found nothing to alter.
fn change(act: &Act, state: &CatalogState) -> Option<CatalogChange> {
    Some(match act.clone() {
        Act::CreateDatabase { db, if_not_exists } => CatalogChange::create_database(db_name(db), if_not_exists),
        Act::DropDatabase { db, if_exists, cascade } => {
            CatalogChange::DropDatabase { db: db_name(db), if_exists, cascade }
        }
        Act::RenameDatabase { db, to } => CatalogChange::RenameDatabase { db: db_name(db), to: db_name(to) },
        Act::Create { db, table, view, on_exists } => {
            let def = definition(view.then(|| db_name(db)), None);
            CatalogChange::create(db_name(db), table_name(table), def, on_exists)
        }
        Act::Drop { db, table, view, if_exists } => {
            CatalogChange::Drop { db: db_name(db), name: table_name(table), kind: kind(view), if_exists }
        }
        Act::Rename { db, table, to_db, to } => CatalogChange::Rename {
            db: db_name(db),
            name: table_name(table),
            to_db: db_name(to_db),
            to_name: table_name(to),
        },
        Act::Comment { db, table, comment } => {
            let t = state.table(&db_name(db), &table_name(table))?;
            CatalogChange::Redefine {
                db: db_name(db),
                name: table_name(table),
                id: t.id,
                revision: t.revision,
                def: definition(t.as_view().map(|v| v.database.clone()), Some(comment.to_string())),
            }
        }
        Act::SetProperty { db, table, key, value } => CatalogChange::SetProperties {
            db: db_name(db),
            name: table_name(table),
            properties: [(key.to_string(), value.map(|v| v.to_string()))].into(),
        },
        Act::AddPartitions { db, table, values, if_not_exists } => CatalogChange::AddPartitions {
            db: db_name(db),
            name: table_name(table),
            partitions: values
                .iter()
                .map(|v| Partition { values: vec![Some(v.to_string())], location: None })
                .collect(),
            if_not_exists,
        },
        Act::DropPartitions { db, table, values, if_exists } => CatalogChange::DropPartitions {
            db: db_name(db),
            name: table_name(table),
            partitions: values.iter().map(|v| vec![Some(v.to_string())]).collect(),
            if_exists,
        },
    })
}

fn kind_of(e: &CatalogError) -> &'static str {
    match e {
        CatalogError::DatabaseExists { .. } => "database exists",
        CatalogError::DatabaseNotFound { .. } => "no database",
        CatalogError::DatabaseNotEmpty { .. } => "not empty",
        CatalogError::TableExists { .. } => "table exists",
        CatalogError::TableNotFound { .. } => "no table",
        CatalogError::WrongKind { .. } => "wrong kind",
        CatalogError::PartitionExists { .. } => "partition exists",
        CatalogError::PartitionNotFound { .. } => "no partition",
        CatalogError::Changed { .. } => "changed",
        _ => "other",
    }
}

/// Applies the same act to the map.
fn apply(model: &mut Model, act: &Act) -> Result<(), &'static str> {
    let find = |model: &mut Model, db: u8, table: u8| -> Result<Entry, &'static str> {
        let tables = model.get(&db_name(db)).ok_or("no database")?;
        tables.get(&table_name(table)).cloned().ok_or("no table")
    };
    let store = |model: &mut Model, db: u8, table: u8, entry: Entry| {
        model.get_mut(&db_name(db)).unwrap().insert(table_name(table), entry);
    };
    match act.clone() {
        Act::CreateDatabase { db, if_not_exists } => {
            if model.contains_key(&db_name(db)) {
                return if if_not_exists { Ok(()) } else { Err("database exists") };
            }
            model.insert(db_name(db), BTreeMap::new());
        }
        Act::DropDatabase { db, if_exists, cascade } => match model.get(&db_name(db)) {
            None => return if if_exists { Ok(()) } else { Err("no database") },
            Some(tables) if !tables.is_empty() && !cascade => return Err("not empty"),
            Some(_) => drop(model.remove(&db_name(db))),
        },
        Act::RenameDatabase { db, to } => {
            if !model.contains_key(&db_name(db)) {
                return Err("no database");
            }
            if model.contains_key(&db_name(to)) {
                return Err("database exists");
            }
            let tables = model.remove(&db_name(db)).unwrap();
            model.insert(db_name(to), tables);
            for entry in model.values_mut().flat_map(BTreeMap::values_mut).filter(|e| e.home == db_name(db)) {
                entry.home = db_name(to);
            }
        }
        Act::Create { db, table, view, on_exists } => {
            match find(model, db, table) {
                Err("no table") => {}
                Err(e) => return Err(e),
                Ok(_) if on_exists == OnExists::Keep => return Ok(()),
                Ok(_) if on_exists == OnExists::Fail => return Err("table exists"),
                Ok(there) if there.kind != kind(view) => return Err("wrong kind"),
                Ok(_) => {}
            }
            let home = if view { db_name(db) } else { String::new() };
            let (properties, partitions) = (BTreeMap::new(), BTreeSet::new());
            store(model, db, table, Entry { kind: kind(view), home, comment: None, properties, partitions });
        }
        Act::Drop { db, table, view, if_exists } => match find(model, db, table) {
            Err(_) if if_exists => {}
            Err(e) => return Err(e),
            Ok(there) if there.kind != kind(view) => return Err("wrong kind"),
            Ok(_) => drop(model.get_mut(&db_name(db)).unwrap().remove(&table_name(table))),
        },
        Act::Rename { db, table, to_db, to } => {
            let there = find(model, db, table)?;
            match find(model, to_db, to) {
                Err("no table") => {}
                Err(e) => return Err(e),
                Ok(_) => return Err("table exists"),
            }
            model.get_mut(&db_name(db)).unwrap().remove(&table_name(table));
            store(model, to_db, to, there);
        }
        Act::Comment { db, table, comment } => {
            let mut there = find(model, db, table)?;
            there.comment = Some(comment.to_string());
            there.properties.clear(); // the new definition has none
            store(model, db, table, there);
        }
        Act::SetProperty { db, table, key, value } => {
            let mut there = find(model, db, table)?;
            if there.kind == TableKind::View {
                return Err("wrong kind");
            }
            match value {
                Some(v) => drop(there.properties.insert(key.to_string(), v.to_string())),
                None => drop(there.properties.remove(&key.to_string())),
            }
            store(model, db, table, there);
        }
        Act::AddPartitions { db, table, values, if_not_exists } => {
            let mut there = find(model, db, table)?;
            if there.kind == TableKind::View {
                return Err("wrong kind");
            }
            for v in values {
                if !there.partitions.insert(v.to_string()) && !if_not_exists {
                    return Err("partition exists");
                }
            }
            store(model, db, table, there);
        }
        Act::DropPartitions { db, table, values, if_exists } => {
            let mut there = find(model, db, table)?;
            if there.kind == TableKind::View {
                return Err("wrong kind");
            }
            for v in values {
                if !there.partitions.remove(&v.to_string()) && !if_exists {
                    return Err("no partition");
                }
            }
            store(model, db, table, there);
        }
    }
    Ok(())
}

fn model_of(state: &CatalogState) -> Model {
    let entry = |t: &Table| match &t.def {
        TableDef::External(e) => Entry {
            kind: TableKind::Table,
            home: String::new(),
            comment: e.comment.clone(),
            properties: e.properties.clone(),
            partitions: e.partitions.keys().map(|k| k[0].clone().unwrap()).collect(),
        },
        TableDef::View(v) => Entry {
            kind: TableKind::View,
            home: v.database.clone(),
            comment: v.comment.clone(),
            properties: BTreeMap::new(),
            partitions: BTreeSet::new(),
        },
        TableDef::Native => unreachable!("the model makes no native tables"),
    };
    let tables = |d: &Database| d.tables.iter().map(|(name, t)| (name.clone(), entry(t))).collect();
    state.databases.iter().map(|(name, d)| (name.clone(), tables(d))).collect()
}

/// An event on one of the handles.
#[derive(Clone, Debug)]
enum Event {
    Commit(Act),
    Refresh,
    Vacuum,
    Reopen,
}

fn events() -> impl Strategy<Value = Vec<(usize, Event)>> {
    let event = prop_oneof![
        20 => acts().prop_map(Event::Commit),
        1 => Just(Event::Refresh),
        1 => Just(Event::Vacuum),
        1 => Just(Event::Reopen),
    ];
    proptest::collection::vec((0..3usize, event), 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Handles do not refresh between their commits, so most of their knowledge is old, and numbers that they believe
    /// to be next are often freed. Each commit still answers as if it were alone.
    #[test]
    fn handles_agree_with_a_map(events in events()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
            let mut handles = Vec::new();
            for _ in 0..3 {
                handles.push(Catalog::open(Arc::clone(&store)).await.unwrap());
            }
            let mut model = Model::new();
            for (i, event) in events {
                let handle = &mut handles[i];
                match event {
                    Event::Refresh => drop(handle.refresh().await.unwrap()),
                    Event::Vacuum => handle.vacuum().await.unwrap(),
                    Event::Reopen => *handle = Catalog::open(Arc::clone(&store)).await.unwrap(),
                    Event::Commit(act) => {
                        if matches!(act, Act::Comment { .. }) {
                            handle.refresh().await.unwrap(); // the definition to alter is read first
                        }
                        let Some(change) = change(&act, &handle.snapshot()) else { continue };
                        let mut next = model.clone();
                        let expected = apply(&mut next, &act);
                        let found = handle.commit(vec![change]).await;
                        assert_eq!(found.as_ref().map(|_| ()).map_err(kind_of), expected, "{act:?}");
                        if let Ok(state) = found {
                            model = next;
                            assert_eq!(model_of(&state), model, "{act:?}");
                        }
                    }
                }
            }
            handles.push(Catalog::open(store).await.unwrap());
            for handle in handles {
                assert_eq!(model_of(&handle.refresh().await.unwrap()), model);
            }
        });
    }

    /// A written state is read back unchanged, whatever the names and values.
    #[test]
    fn states_round_trip(name in ".{1,20}", value in ".{0,20}", null in any::<bool>()) {
        let mut state = CatalogState::default();
        let def = TableDef::External(ExternalTable {
            columns: vec![Column { nullable: false, comment: Some(value.clone()), ..Column::new("c", "INT") }],
            partition_columns: vec![Column::new("p", value.clone())],
            location: value.clone(),
            serde: Some(value.clone()),
            serde_properties: [(value.clone(), value.clone())].into(),
            ddl: value.clone(),
            ..ExternalTable::default()
        });
        let changes = vec![
            CatalogChange::create_database("d", false),
            CatalogChange::create("d", name.clone(), def, OnExists::Fail),
            CatalogChange::AddPartitions {
                db: "d".into(),
                name,
                partitions: vec![Partition { values: vec![(!null).then(|| value.clone())], location: Some(value) }],
                if_not_exists: false,
            },
        ];
        let fits = State::apply(&mut state, &changes);
        let text = serde_json::to_string(&changes).unwrap();
        prop_assert_eq!(serde_json::from_str::<Vec<CatalogChange>>(&text).unwrap(), changes);
        if fits.is_ok() {
            let text = serde_json::to_string(&state).unwrap();
            prop_assert_eq!(serde_json::from_str::<CatalogState>(&text).unwrap(), state);
        }
    }
}
