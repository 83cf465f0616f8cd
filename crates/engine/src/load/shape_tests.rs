//! The parts of a shape that need no session. Whole loads are in `tests/http` and `tests/slt/native`.

use arrow::array::StringViewArray;
use proptest::prelude::*;

use super::*;

fn column(name: &str, data_type: SqlType) -> TableColumn {
    TableColumn::new(0, name, data_type, true)
}

/// A UNIQUE table with the key `k`, the value `v`, and a sign of deletion.
fn table() -> TableSchema {
    let mut columns = vec![column("k", SqlType::Int), column("v", SqlType::Int), column(DELETE_SIGN, SqlType::TinyInt)];
    columns.iter_mut().zip(0..).for_each(|(column, id)| column.id = id);
    columns[2].hidden = true;
    TableSchema::new(Model::Unique, columns, 1)
}

/// Shapes a body of one column into a table of one column, DATETIME(0).
fn shape(strict: bool) -> Shape {
    let field = Field::new("t", SqlType::DateTime(0).to_arrow(), true);
    let schema: SchemaRef = Arc::new(Schema::new(vec![field]));
    Shape {
        reading: Reading { body: Arc::clone(&schema), wanted: vec![0], absent: vec![None], required: Vec::new() },
        sources: vec![Source::Body(0)],
        derived: None,
        conditions: None,
        seen: Arc::clone(&schema),
        seen_body: Vec::new(),
        has_where: false,
        has_delete: false,
        negated: Vec::new(),
        strict,
        always: Vec::new(),
        targets: schema.fields().iter().cloned().collect(),
        output: schema,
        rounded: vec![(0, 0)],
        zone: None,
    }
}

proptest! {
    /// A stored time is the second that is nearest, the later one of two, and no second of the year 10000.
    #[test]
    fn times_are_rounded_to_the_nearest(
        near in proptest::collection::vec(proptest::option::of(-3_000_000i64..3_000_000), 1..20),
        late: bool,
        strict: bool,
    ) {
        let end = dipper_base::calendar::LAST_MICROSECOND;
        let times: Vec<Option<i64>> = match late {
            true => near.iter().map(|time| time.map(|time| end - time.abs())).collect(),
            false => near,
        };
        let array: ArrayRef = Arc::new(times.iter().copied().collect::<arrow::array::TimestampMicrosecondArray>());
        let shape = shape(strict);
        let batch = RecordBatch::try_new(Arc::clone(&shape.output), vec![array]).unwrap();
        let shaped = shape.shape(&batch).unwrap();
        let nearest = |time: i64| (time + 500_000).div_euclid(1_000_000) * 1_000_000;
        let misfits: Vec<usize> = shaped.misfits.iter().map(|(row, _)| *row).collect();
        let late_rows = (0..times.len()).filter(|row| times[*row].is_some_and(|time| nearest(time) > end));
        prop_assert_eq!(misfits, if strict { late_rows.collect() } else { Vec::new() });
        let found = shaped.batch.column(0).as_primitive::<arrow::datatypes::TimestampMicrosecondType>();
        for row in 0..found.len() {
            let expected = times[shaped.input_row(row)].map(nearest).filter(|time| *time <= end);
            prop_assert_eq!(found.is_valid(row).then(|| found.value(row)), expected);
        }
    }
}

#[test]
fn expressions_are_cast_where_sql_can_say_so() {
    for (to, expected) in [
        (SqlType::Int, "CAST((a + 1) AS int)"),
        (SqlType::Decimal(10, 2), "CAST((a + 1) AS decimal(10,2))"),
        (SqlType::DateTime(3), "CAST((a + 1) AS datetime(3))"),
        (SqlType::Varchar(Some(5)), "CAST((a + 1) AS STRING)"),
        (SqlType::Char(Some(5)), "CAST((a + 1) AS STRING)"),
        (SqlType::Json, "(a + 1)"),
        (SqlType::Bitmap, "(a + 1)"),
        (SqlType::Array(Box::new(SqlType::Int)), "(a + 1)"),
    ] {
        assert_eq!(typed("a + 1", &to), expected);
    }
}

#[test]
fn rejected_values_are_shown_and_long_ones_cut() {
    let values: ArrayRef = Arc::new(StringViewArray::from(vec!["x1".to_string(), "é".repeat(VALUE_CHARS_SHOWN + 1)]));
    let field = Field::new("v", DataType::Int32, true);
    assert_eq!(wrong(&values, 0, &field), "column(v) value is incorrect while strict mode is 1, src value is \"x1\"");
    assert!(wrong(&values, 1, &field).ends_with(&format!("\"{}\"", "é".repeat(VALUE_CHARS_SHOWN))));
}

#[test]
fn columns_without_a_source_get_what_the_kind_of_load_says() {
    let table = table();
    let now = Now::new(0, Zone::Fixed(0));
    let of = |column: &TableColumn, merge_type, update_mode| {
        let request = StreamLoadRequest { merge_type, update_mode, ..StreamLoadRequest::default() };
        unnamed(column, &table, &request, &now).map_err(|e| e.message)
    };
    let is = |found: std::result::Result<Source, String>, expected: &str| {
        let found = match found {
            Ok(source) => format!("{source:?}"),
            Err(message) => message,
        };
        assert_eq!(found, expected);
    };
    let (append, delete, merge) = (MergeType::Append, MergeType::Delete, MergeType::Merge);
    let (upsert, fixed) = (UpdateMode::Upsert, UpdateMode::FixedColumns);
    let sign = &table.columns[2];
    is(of(sign, append, upsert), "Constant(Int8(0))");
    is(of(sign, delete, upsert), "Given(Int8(1))");
    is(of(sign, merge, upsert), "DeleteSign");
    let mut v = table.columns[1].clone();
    v.nullable = false;
    is(of(&v, append, upsert), "Column has no default value, column=v");
    // A row that deletes needs only its key, and one that is changed has a value.
    is(of(&v, delete, upsert), "Constant(Int32(0))");
    is(of(&v, append, fixed), "Missing");
    v.default = Some(DefaultValue::Literal(Some("7".into())));
    is(of(&v, append, upsert), "Constant(Int32(7))");
    v.auto_increment = Some(1);
    is(of(&v, append, upsert), "Missing");
    let mut k = table.columns[0].clone();
    k.nullable = false;
    is(of(&k, delete, upsert), "Column has no default value, column=k");
}

#[test]
fn kinds_of_loads_need_their_kinds_of_tables() {
    let refused =
        |table: &TableSchema, request: StreamLoadRequest| check_model(table, &request).err().map(|e| e.message);
    let default = StreamLoadRequest::default;
    let unique = table();
    let duplicate = TableSchema::new(Model::Duplicate, unique.columns[..2].to_vec(), 1);
    assert_eq!(refused(&unique, default()), None);
    assert_eq!(refused(&duplicate, default()), None);
    let merge = || StreamLoadRequest { merge_type: MergeType::Merge, ..default() };
    assert_eq!(refused(&unique, merge()), None);
    assert_eq!(
        refused(&duplicate, merge()).as_deref(),
        Some("load by MERGE or DELETE is only supported in unique tables.")
    );
    let partial = || StreamLoadRequest { update_mode: UpdateMode::FixedColumns, ..default() };
    assert_eq!(refused(&unique, partial()), None);
    assert_eq!(
        refused(&duplicate, partial()).as_deref(),
        Some("Only unique key merge on write support partial update")
    );
    let negative = || StreamLoadRequest { negative: true, ..default() };
    let sums = |aggregate| {
        let mut columns = unique.columns[..2].to_vec();
        columns[1].aggregate = Some(aggregate);
        TableSchema::new(Model::Aggregate, columns, 1)
    };
    assert_eq!(refused(&sums(Aggregate::Sum), negative()), None);
    for table in [sums(Aggregate::Max), unique.clone(), duplicate] {
        assert_eq!(
            refused(&table, negative()).as_deref(),
            Some("'negative' is for AGGREGATE tables whose value columns are all SUM")
        );
    }
    // A hidden sequence column needs the name of the column that it is copied from.
    let mut columns = unique.columns.clone();
    let mut sequence = column(SEQUENCE, SqlType::BigInt);
    (sequence.id, sequence.hidden) = (3, true);
    columns.push(sequence);
    let ordered = TableSchema { sequence: Some(3), ..TableSchema::new(Model::Unique, columns, 1) };
    let missing = Some("the table has a sequence column, need to specify the sequence column".to_string());
    assert_eq!(refused(&ordered, default()), missing);
    assert_eq!(refused(&ordered, StreamLoadRequest { sequence_col: Some("v".into()), ..default() }), None);
    assert_eq!(refused(&ordered, StreamLoadRequest { merge_type: MergeType::Delete, ..default() }), None);
}

#[test]
fn defaults_of_absent_fields_have_the_type_that_is_read() {
    let now = Now::new(0, Zone::Fixed(0));
    let shown = |column: &TableColumn, read_as: &DataType| {
        let value = default_of(column, read_as, &now).unwrap();
        value.map(|array| (array.data_type().clone(), arrow::util::display::array_value_to_string(&array, 0).unwrap()))
    };
    let mut number = column("n", SqlType::Int);
    assert_eq!(shown(&number, &DataType::Int32), None, "the default is NULL");
    number.default = Some(DefaultValue::Literal(Some("12".into())));
    assert_eq!(shown(&number, &DataType::Int32), Some((DataType::Int32, "12".into())));
    assert_eq!(shown(&number, &DataType::Utf8View), Some((DataType::Utf8View, "12".into())));
    assert_eq!(shown(&number, &DataType::Float64), None, "the reader has no such type for the column");
    let mut time = column("t", SqlType::DateTime(0));
    time.default = Some(DefaultValue::CurrentTimestamp(0));
    assert_eq!(shown(&time, &DataType::Utf8View), Some((DataType::Utf8View, "1970-01-01 00:00:00".into())));
}
