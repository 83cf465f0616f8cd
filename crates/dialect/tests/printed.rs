//! Tests that printed definitions read back as the same tree.

use dipper_base::types::{SqlType, StateArgument, StateType};
use dipper_dialect::parser::{ParseOptions, parse};
use dipper_dialect::statement::*;
use proptest::prelude::*;

fn read(sql: &str) -> CreateTable {
    match parse(sql, &ParseOptions::default())
        .unwrap_or_else(|e| panic!("{sql}\n{e}\n{}", e.caret()))
        .remove(0)
        .statement
    {
        Statement::CreateTable(t) => *t,
        other => panic!("{other:?}"),
    }
}

/// Names and texts that contain characters with a meaning in SQL.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z_][a-z0-9_]{0,8}",
        "[ -~]{1,12}",
        "[\"'`\\\\%_;\n\t\0/*é中-]{1,8}",
        Just("select".to_string()),
        Just("key".to_string()),
    ]
}

/// A name has no NUL: the parser cannot read one inside backquotes.
fn name() -> impl Strategy<Value = String> {
    text().prop_map(|t| t.replace(['\0', '\n'], "_"))
}

fn data_type() -> impl Strategy<Value = SqlType> {
    let leaf = prop_oneof![
        Just(SqlType::Boolean),
        Just(SqlType::TinyInt),
        Just(SqlType::Int),
        Just(SqlType::UnsignedBigInt),
        Just(SqlType::LargeInt),
        Just(SqlType::Double),
        (1u8..=76).prop_flat_map(|p| (Just(p), 0..=p as i8)).prop_map(|(p, s)| SqlType::Decimal(p, s)),
        proptest::option::of(0u32..70_000).prop_map(SqlType::Varchar),
        proptest::option::of(0u32..255).prop_map(SqlType::Char),
        Just(SqlType::String),
        Just(SqlType::Binary),
        Just(SqlType::Date),
        (0u8..=6).prop_map(SqlType::DateTime),
        (0u8..=6).prop_map(SqlType::Time),
        Just(SqlType::Json),
        Just(SqlType::Variant),
        Just(SqlType::QuantileState),
        Just(SqlType::Hll),
        Just(SqlType::Bitmap),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|t| SqlType::Array(Box::new(t))),
            ("[a-z_]{1,8}", prop::collection::vec((inner.clone(), any::<bool>()), 1..3)).prop_map(|(function, of)| {
                let arguments = of.into_iter().map(|(data_type, nullable)| StateArgument { data_type, nullable });
                SqlType::AggState(StateType { function, arguments: arguments.collect() })
            }),
            (inner.clone(), inner.clone()).prop_map(|(k, v)| SqlType::Map(Box::new(k), Box::new(v))),
            proptest::collection::vec(("[a-z]{1,5}", inner, proptest::option::of("[a-z' ]{0,5}")), 1..3)
                .prop_map(SqlType::Struct),
        ]
    })
}

fn properties(max: usize) -> impl Strategy<Value = Properties> {
    proptest::collection::vec((text(), text()), 0..=max)
}

prop_compose! {
    fn column()(
        name in name(),
        data_type in data_type(),
        comment in proptest::option::of(text()),
        not_null: bool,
        key: bool,
        aggregate in proptest::option::of(prop_oneof![
            Just(Aggregate::Sum), Just(Aggregate::ReplaceIfNotNull), Just(Aggregate::HllUnion), Just(Aggregate::Replace),
        ]),
        auto_increment in proptest::option::of(0i64..),
        default in proptest::option::of(prop_oneof![
            proptest::option::of(text()).prop_map(DefaultValue::Literal),
            (0u8..=6).prop_map(DefaultValue::CurrentTimestamp),
            Just(DefaultValue::CurrentDate),
            Just(DefaultValue::Empty),
        ]),
        on_update in proptest::option::of(0u8..=6),
        generated in proptest::option::of(prop_oneof![
            Just("a + 1".to_string()), Just("concat('x)', `b c`, (1))".to_string()),
        ]),
        paths in proptest::option::of(prop_oneof![
            Just("<'a.b': INT>".to_string()), Just("<MATCH_NAME 'x*' : STRING, 'y' : ARRAY<DATE>>".to_string()),
        ]),
    ) -> ColumnDef {
        let not_null = not_null || auto_increment.is_some();
        // BIGINT UNSIGNED AUTO_INCREMENT is read as BIGINT, which is what AUTO_INCREMENT counts in.
        let data_type = match data_type {
            SqlType::UnsignedBigInt if auto_increment.is_some() => SqlType::BigInt,
            other => other,
        };
        // The empty value of QUANTILE_STATE has no name.
        let default = default.filter(|d| data_type != SqlType::QuantileState || *d != DefaultValue::Empty);
        let paths = paths.filter(|_| data_type == SqlType::Variant);
        ColumnDef {
            name, data_type, paths, comment, not_null, key, aggregate, auto_increment, default, on_update, generated,
        }
    }
}

fn value() -> impl Strategy<Value = PartitionValue> {
    prop_oneof![proptest::option::of(text()).prop_map(PartitionValue::Value), Just(PartitionValue::Max)]
}

fn values() -> impl Strategy<Value = Vec<PartitionValue>> {
    proptest::collection::vec(value(), 1..3)
}

fn item() -> impl Strategy<Value = PartitionItem> {
    let list = (1usize..3).prop_flat_map(|width| {
        proptest::collection::vec(proptest::collection::vec(proptest::option::of(text()), width), 1..3)
    });
    let bounds = prop_oneof![
        values().prop_map(PartitionValues::LessThan),
        (values(), values()).prop_map(|(lower, upper)| PartitionValues::Range { lower, upper }),
        list.prop_map(PartitionValues::In),
        Just(PartitionValues::Rest),
    ];
    let one = (name(), any::<bool>(), bounds, properties(1))
        .prop_map(|(name, if_not_exists, values, properties)| PartitionDef { name, if_not_exists, values, properties });
    let unit = proptest::option::of(prop_oneof![Just("day".to_string()), Just("month".to_string())]);
    prop_oneof![
        4 => one.prop_map(PartitionItem::One),
        1 => (values(), values(), 1u64.., unit)
            .prop_map(|(from, to, step, unit)| PartitionItem::Steps { from, to, step, unit }),
    ]
}

fn partition_by() -> impl Strategy<Value = PartitionClause> {
    let columns = proptest::collection::vec(name().prop_map(PartitionExpr::Column), 1..3);
    let partitions = || proptest::collection::vec(item(), 0..3);
    let kind = prop_oneof![Just(PartitionKind::Range), Just(PartitionKind::List)];
    prop_oneof![
        (any::<bool>(), kind, columns, partitions()).prop_map(|(auto, kind, by, partitions)| PartitionClause {
            auto,
            kind,
            by,
            partitions
        }),
        (name(), partitions()).prop_map(|(column, partitions)| PartitionClause {
            auto: true,
            kind: PartitionKind::Range,
            by: vec![PartitionExpr::DateTrunc { column, unit: "week".into() }],
            partitions,
        }),
    ]
}

prop_compose! {
    fn table()(
        name in proptest::collection::vec(name(), 1..3).prop_map(Name),
        (if_not_exists, temporary) in any::<(bool, bool)>(),
        columns in proptest::collection::vec(column(), 1..4),
        indexes in proptest::collection::vec(
            (name(), proptest::collection::vec(name(), 1..3), properties(1), proptest::option::of(text())), 0..2),
        key in proptest::option::of((
            prop_oneof![Just(Model::Duplicate), Just(Model::Unique), Just(Model::Aggregate)],
            proptest::collection::vec(name(), 0..3),
        )),
        comment in proptest::option::of(text()),
        partition_by in proptest::option::of(partition_by()),
        distribution in proptest::option::of((
            proptest::option::of(proptest::collection::vec(name(), 1..3)), proptest::option::of(1u32..),
        )),
        properties in properties(2),
    ) -> CreateTable {
        CreateTable {
            name,
            if_not_exists,
            or_replace: false,
            temporary,
            columns,
            column_names: Vec::new(),
            indexes: indexes
                .into_iter()
                .map(|(name, columns, properties, comment)| IndexDef {
                    name: Some(name),
                    unique: false,
                    columns,
                    using: Some("BLOOM_FILTER".into()),
                    properties,
                    comment,
                })
                .collect(),
            engine: Some("OLAP".into()),
            key: key.map(|(model, columns)| KeyClause { model, primary: false, columns }),
            sort_key: Vec::new(),
            comment,
            partition_by,
            distribution: distribution.map(|(hash, buckets)| DistributionClause { hash, buckets }),
            rollups: Vec::new(),
            properties,
            options: Vec::new(),
            query: None,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn printed_definitions_read_back(table in table()) {
        let printed = table.to_string();
        let again = read(&printed);
        // HLL_EMPTY and BITMAP_EMPTY are the same default; the column's type decides which of them is printed.
        prop_assert_eq!(&again, &table, "{}", printed);
        prop_assert_eq!(again.to_string(), printed);
    }
}

#[test]
fn printed_as_doris_prints() {
    let t = read(
        r#"create table if not exists d.t (k bigint not null auto_increment, `a b` varchar(10) default 'x"y\\z' comment 'it''s',
        s int sum default 0, h hll hll_union, at datetime(3) replace default current_timestamp(3),
        index i (k) using bloom_filter properties('a'='b') comment 'c')
        engine=olap aggregate key(k, `a b`) comment "t" auto partition by range (date_trunc(at, 'day'))
        (partition p values [('2024-01-01'), (maxvalue))) distributed by hash(k) properties ("replication_num" = "1", "x"="y")"#,
    );
    let expected = r#"CREATE TABLE IF NOT EXISTS `d`.`t` (
  `k` bigint NOT NULL AUTO_INCREMENT(1),
  `a b` varchar(10) NULL DEFAULT "x\"y\\z" COMMENT 'it\'s',
  `s` int SUM NULL DEFAULT "0",
  `h` hll HLL_UNION NULL,
  `at` datetime(3) REPLACE NULL DEFAULT CURRENT_TIMESTAMP(3),
  INDEX `i` (`k`) USING BLOOM_FILTER PROPERTIES("a" = "b") COMMENT 'c'
) ENGINE=OLAP
AGGREGATE KEY(`k`, `a b`)
COMMENT 't'
AUTO PARTITION BY RANGE(date_trunc(`at`, 'day'))
(PARTITION `p` VALUES [("2024-01-01"), (MAXVALUE)))
DISTRIBUTED BY HASH(`k`) BUCKETS AUTO
PROPERTIES (
"replication_num" = "1",
"x" = "y"
)"#;
    assert_eq!(t.to_string().replace("ENGINE=olap", "ENGINE=OLAP"), expected);
    assert_eq!(read(expected).to_string(), expected);
}
