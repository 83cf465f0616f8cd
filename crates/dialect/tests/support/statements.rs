//! What holds for the parser and any text, for tests and for the fuzz target that includes this file.

use dipper_dialect::parser::{ParseOptions, parse, parse_expr, parse_next, parse_type, skip_statement};
use dipper_dialect::statement::*;

/// Reads bytes as statements: the low bits of the first byte are the options, the rest is the text. Checks that
///
/// - the parser ends without a panic, and its places are places in the text;
/// - a statement read alone is the statement that is read among others;
/// - a printed type, and a printed definition of a table, reads back as what was printed;
/// - the text of a query or expression that is kept (views, functions, generated columns) reads back as the same tree.
///
/// # Panics
/// If one of these does not hold.
pub fn read(bytes: &[u8]) {
    let [choice, text @ ..] = bytes else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let options = ParseOptions {
        ansi_quotes: choice & 1 != 0,
        pipes_as_concat: choice & 2 != 0,
        no_backslash_escapes: choice & 4 != 0,
        high_not_precedence: choice & 8 != 0,
    };
    // Types and expressions are read from texts of their own as well: those of catalogs and of Stream Load.
    if let Ok(data_type) = parse_type(text) {
        let printed = data_type.to_string();
        let again = parse_type(&printed);
        assert!(again.as_ref() == Ok(&data_type), "type {text:?}, printed as {printed:?}: {again:?}");
    }
    if let Err(error) = parse_expr(text, &options) {
        let _ = (error.caret(), error.to_string());
    }
    let mut at = 0;
    loop {
        let skipped = skip_statement(text, at, &options);
        match parse_next(text, at, &options) {
            Ok(Some((parsed, next))) => {
                assert_eq!(skipped.ok().flatten(), Some(next), "where the statement after {at} of {text:?} begins");
                one(text, &parsed, &options);
                assert!(next > at, "the parser does not move on from {at} of {text:?}");
                at = next;
            }
            Ok(None) => {
                assert_eq!(skipped.ok(), Some(None), "the end of {text:?}");
                return;
            }
            Err(error) => {
                let _ = error.to_string();
                let lines = error.caret().split('\n').count();
                assert!(lines <= 2, "the place of an error is two lines, not {lines}: {text:?}");
                let Ok(Some(next)) = skipped else { return };
                assert!(next > at, "skipping does not move on from {at} of {text:?}");
                at = next;
            }
        }
    }
}

/// Checks one statement of a text.
fn one(text: &str, parsed: &Parsed, options: &ParseOptions) {
    let own = &text[parsed.text.clone()];
    let alone = parse(own, options);
    let same = alone.as_ref().is_ok_and(|all| matches!(all.as_slice(), [one] if one.statement == parsed.statement));
    assert!(same, "{own:?} is read alone as\n{alone:?}\nand among others as\n{:?}", parsed.statement);
    let statement = match &parsed.statement {
        Statement::Explain { statement, .. } => statement.as_ref(),
        statement => statement,
    };
    match statement {
        Statement::CreateTable(table) => definition(own, table, parsed.placeholders, options),
        Statement::CreateFunction(function) => {
            let body = parse_expr(&function.text, options);
            assert!(body.is_ok(), "the body {:?} of {own:?} is kept and not read: {body:?}", function.text);
        }
        Statement::CreateView(view) => query(own, &view.query, parsed.placeholders, options),
        Statement::AlterView { change: ViewChange::Query { query: definition, .. }, .. } => {
            query(own, definition, parsed.placeholders, options);
        }
        Statement::Query(all) => query(own, all, parsed.placeholders, options),
        _ => {}
    }
}

/// Checks that the text of a query means the query. A placeholder's number depends on those before it.
fn query(own: &str, kept: &QueryText, placeholders: usize, options: &ParseOptions) {
    if placeholders > 0 {
        return;
    }
    let again = parse(&kept.text, options);
    let ast = again.as_ref().ok().and_then(|all| match all.as_slice() {
        [Parsed { statement: Statement::Query(query), .. }] => Some(&query.ast),
        _ => None,
    });
    assert!(
        ast == Some(&kept.ast),
        "the query {:?} of {own:?} reads back as\n{again:?}\nnot\n{:?}",
        kept.text,
        kept.ast
    );
}

/// Checks that a printed definition reads back, under the `sql_mode` that is the default: the reader of a dump has no
/// other. Texts of queries and of generated columns are printed as written, so they are left out under other modes.
fn definition(own: &str, table: &CreateTable, placeholders: usize, options: &ParseOptions) {
    if let Some(query) = &table.query {
        self::query(own, query, placeholders, options);
    }
    for column in &table.columns {
        if let Some(generated) = &column.generated {
            let read = parse_expr(generated, options);
            assert!(read.is_ok(), "the expression {generated:?} of {own:?} is kept and not read: {read:?}");
        }
    }
    let as_written = table.query.is_some() || table.columns.iter().any(|column| column.generated.is_some());
    if placeholders > 0 || (as_written && *options != ParseOptions::default()) {
        return;
    }
    let printed = table.to_string();
    let again = parse(&printed, &ParseOptions::default());
    let read = again.as_ref().ok().and_then(|all| match all.as_slice() {
        [Parsed { statement: Statement::CreateTable(table), .. }] => Some(table.as_ref()),
        _ => None,
    });
    let Some(read) = read else { panic!("{own:?} is printed as\n{printed}\nwhich is read as\n{again:?}") };
    assert_eq!(read.to_string(), printed, "printed, read and printed again: {own:?}");
    // The places of select items are those in another text.
    let bare = |table: &CreateTable| {
        let mut table = table.clone();
        table.query.iter_mut().for_each(|query| query.items = Default::default());
        table
    };
    assert_eq!(bare(read), bare(table), "{own:?}, printed as\n{printed}");
}
