//! States of aggregates in bytes: they give the values of their rows, keep their form, and damaged ones are errors.

use arrow::array::AsArray;
use arrow::datatypes::Field;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use dipper_base::types::{SqlType, StateType};
use dipper_dialect::parser::parse_type;
use dipper_sql::charter::{TYPE_KEY, configure, install};
use dipper_sql::functions::register_all;
use dipper_sql::functions::states::reader;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;

/// Functions, each with its arguments over the columns of [`ROWS`].
const CALLS: &[(&str, &str)] = &[
    ("sum", "i"),
    ("sum", "d"),
    ("avg", "i"),
    ("avg", "f"),
    ("count", "t"),
    ("min", "t"),
    ("max", "f"),
    ("max", "l"),
    ("max_by", "t, i"),
    ("min_by", "l, f"),
    ("any_value", "t"),
    ("group_concat", "t"),
    ("string_agg", "t, ';'"),
    ("collect_list", "i"),
    ("collect_set", "t"),
    ("array_agg", "f"),
    ("array_agg", "named_struct('a', t, 'b', l, 'c', i > 1)"),
    ("map_agg", "t, i"),
    ("bool_or", "i > 1"),
    ("bit_xor", "i"),
    ("stddev", "f"),
    ("corr", "f, i"),
    ("median", "f"),
    ("approx_median", "f"),
    ("percentile_cont", "f, CAST(0.5 AS DOUBLE)"),
    ("approx_percentile_cont", "f, CAST(0.5 AS DOUBLE)"),
    ("ndv", "t"),
    ("topn", "t, 2"),
    ("histogram", "i"),
    ("topn_array", "i, 2"),
];

const ROWS: &str = "(SELECT CAST(1 AS BIGINT) i, CAST(0.5 AS DOUBLE) f, CAST(1.25 AS DECIMAL(10, 2)) d, 'a' t, \
        make_array(1, NULL) l \
    UNION ALL SELECT NULL i, NULL f, NULL d, NULL t, NULL l \
    UNION ALL SELECT CAST(7 AS BIGINT) i, CAST(-0.25 AS DOUBLE) f, CAST(-1 AS DECIMAL(10, 2)) d, '' t, \
        make_array(2, 3) l) r";

fn session() -> SessionContext {
    let config = configure(SessionConfig::new().with_target_partitions(1));
    let builder = SessionStateBuilder::new().with_config(config).with_default_features();
    let mut context = SessionContext::new_with_state(install(builder).build());
    register_all(&mut context).unwrap();
    context
}

/// Returns the function of a field of states.
fn type_of(field: &Field) -> StateType {
    match parse_type(&field.metadata()[TYPE_KEY]).unwrap() {
        SqlType::AggState(of) => of,
        other => panic!("{other}"),
    }
}

/// Returns the type of the states of a call, the states of the rows and the state of all of them.
async fn states(context: &SessionContext, name: &str, arguments: &str) -> (StateType, Vec<Vec<u8>>, Vec<u8>) {
    let sql = format!("SELECT {name}_state({arguments}) s FROM {ROWS}");
    let rows = context.sql(&sql).await.unwrap();
    let of = type_of(rows.schema().field(0));
    let rows = rows.collect().await.unwrap();
    let bytes = rows.iter().flat_map(|batch| batch.column(0).as_binary_view().iter().flatten().map(<[u8]>::to_vec));
    let sql = format!("SELECT {name}_union(s) FROM ({sql}) s");
    let all = context.sql(&sql).await.unwrap().collect().await.unwrap();
    let all = all[0].column(0).as_binary_view().value(0).to_vec();
    (of, bytes.collect(), all)
}

#[tokio::test]
async fn states_give_the_values_of_their_rows() {
    let context = session();
    for (name, arguments) in CALLS {
        let sql = format!(
            "SELECT p, m FROM (SELECT {name}({arguments}) p FROM {ROWS}) a, \
             (SELECT {name}_merge(s) m FROM (SELECT {name}_state({arguments}) s FROM {ROWS}) s) b"
        );
        // What the parser makes of a call.
        let sql = match *name {
            "group_concat" => sql.replacen("group_concat(t)", "string_agg(t, ',')", 1),
            "collect_list" => sql.replacen("collect_list(i)", "array_agg(i) FILTER (WHERE i IS NOT NULL)", 1),
            // Its values come in any order.
            "collect_set" => continue,
            _ => sql,
        };
        let found = context.sql(&sql).await.unwrap_or_else(|e| panic!("{name}: {e}")).collect().await.unwrap();
        // The values, whatever form a function gives its text.
        let shown = |at: usize| arrow::util::display::array_value_to_string(found[0].column(at), 0).unwrap();
        assert_eq!(shown(0), shown(1), "{name}({arguments})");
    }
}

/// The form of states is stored: a change of these bytes needs a new version, and reading of the old one.
#[tokio::test]
async fn the_form_of_states_stays() {
    let context = session();
    let mut found = Vec::new();
    for (name, arguments) in
        [("sum", "i"), ("max_by", "t, i"), ("percentile_cont", "f, CAST(0.5 AS DOUBLE)"), ("avg", "d")]
    {
        let (_, _, all) = states(&context, name, arguments).await;
        found.push(all.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    }
    assert_eq!(
        found,
        [
            "0145c703bc020801",
            "017e227819010207",
            "01dc89599309000000000000e03f0309000000000000e03f09000000000000d0bf",
            "01b47b56530202021901",
        ]
    );
}

#[tokio::test]
async fn damaged_states_are_errors() {
    let context = session();
    let mut runner = TestRunner::default();
    for (name, arguments) in CALLS {
        let (of, rows, all) = states(&context, name, arguments).await;
        let mut known = reader(&of).unwrap();
        let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
        known.check(&all).unwrap();
        let united = known.unite(&rows).unwrap();
        known.check(&united).unwrap();
        let mut refuses = |state: &[u8]| assert!(known.check(state).is_err(), "{name}: {state:?}");
        refuses(&[]);
        refuses(&all[..all.len() - 1]);
        refuses(&[all.as_slice(), &[0]].concat());
        refuses(&[&[2], &all[1..]].concat());
        refuses(&[&all[..1], &[all[1] ^ 1], &all[2..]].concat());
        let damage = (proptest::collection::vec((5..all.len(), any::<u8>()), 1..4), any::<Index>());
        let tried = runner.run(&damage, |(bytes, end)| {
            let mut damaged = all.clone();
            bytes.into_iter().for_each(|(at, byte)| damaged[at] = byte);
            let mut known = reader(&of).unwrap();
            // A state or an error, but not a panic.
            let _ = known.unite(&[&damaged, &all]);
            damaged.truncate(5 + end.index(damaged.len() - 4));
            let _ = known.unite(&[&damaged]);
            Ok(())
        });
        tried.unwrap_or_else(|e| panic!("{name}({arguments}): {e}"));
    }
}

#[test]
fn states_of_other_types_are_told_apart() {
    let of = |text: &str| match parse_type(&format!("agg_state<{text}>")).unwrap() {
        SqlType::AggState(of) => reader(&of),
        other => panic!("{other}"),
    };
    for known in ["sum(int)", "ndv(varchar(10) not null)", "collect_list(array<int>)", "max(datetime(3))"] {
        assert!(of(known).is_ok(), "{known}");
    }
    for unknown in ["no_such(int)", "max_by(int)", "abs(int)", "sum_merge(int)", "sum(array<int>)"] {
        assert!(of(unknown).is_err(), "{unknown}");
    }
}
