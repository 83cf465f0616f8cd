//! The pages of `docs/reference` that list what this crate defines, as Markdown.
//!
//! The pages are made from the definitions that statements and loads are checked against, so a page cannot promise
//! something that the code does not do.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use dipper_ingest::request::{HEADERS, REFUSED, STARROCKS, WITHOUT_EFFECT};

use crate::engine::Engine;
use crate::error::ErrorKind;
use crate::info_schema::{self, INFORMATION_SCHEMA};
use dipper_variables::definitions::{self, Definition, Effect, Kind, Settable};

/// The line below the title of each page that says where the page comes from.
pub const GENERATED: &str = "<!-- Written by `dipper reference`; do not edit. -->";

/// The beginning of a page.
pub fn head(title: &str, introduction: &str) -> String {
    format!("# {title}\n\n{GENERATED}\n\n{introduction}\n")
}

/// Escapes a text for a cell of a table.
pub fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// Formats a text as code; an empty text stays empty.
fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{}`", cell(text)) }
}

fn row<const N: usize>(page: &mut String, cells: [&str; N]) {
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}

fn table<const N: usize>(page: &mut String, columns: [&str; N]) {
    page.push('\n');
    row(page, columns);
    row(page, ["---"; N]);
}

/// Describes in words which values a variable takes.
fn values(kind: Kind) -> String {
    match kind {
        Kind::OnOff => "ON, OFF".into(),
        Kind::TrueFalse => "true, false".into(),
        Kind::Int(least, most) => match (least, most) {
            (i64::MIN, i64::MAX) => "integer".into(),
            (least, i64::MAX) => format!("integer from {least}"),
            (least, most) => format!("{least} to {most}"),
        },
        Kind::OneOf(words) => words.join(", "),
        Kind::Text => "text".into(),
        Kind::Version => "version".into(),
        Kind::Instant => "seconds since 1970".into(),
        Kind::Seconds => "seconds from 0 to 31536000".into(),
        Kind::SqlMode => "flags, separated by commas".into(),
        Kind::TimeZone => "`SYSTEM`, an offset such as `+08:00`, or a name such as `Europe/Berlin`".into(),
        Kind::Charset(_) => "character set".into(),
        Kind::Collation => "collation".into(),
    }
}

fn scope(settable: Settable) -> &'static str {
    match settable {
        Settable::Both => "session, global",
        Settable::Global => "global",
        Settable::Session => "session",
        Settable::Never => "read only",
    }
}

/// The page of the session variables.
pub fn variables() -> String {
    let mut all: Vec<(&str, &Definition)> = definitions::all().collect();
    all.sort_unstable_by_key(|(name, _)| *name);
    let mut page = head(
        "Session variables",
        "`SET name = value` changes a variable for the session, `SET GLOBAL` for all new sessions until the server ends.",
    );
    page.push_str("\n## Variables that act\n");
    table(&mut page, ["name", "default", "values", "scope", "meaning"]);
    let own = |effect: Effect| all.iter().filter(move |(name, d)| d.name == *name && d.effect == effect);
    for (name, d) in own(Effect::Acts) {
        row(&mut page, [&code(name), &code(d.default), &values(d.kind), scope(d.settable), &cell(d.doc)]);
    }
    page.push_str("\n## Other names of variables\n");
    table(&mut page, ["name", "stands for"]);
    for (name, d) in all.iter().filter(|(name, d)| d.name != *name) {
        row(&mut page, [&code(name), &code(d.name)]);
    }
    page.push_str(
        "\n## Variables that clients read\n\nClients set and read these variables. What they ask for is so in any case, or \
         there is nothing to do.\n",
    );
    table(&mut page, ["name", "default", "scope", "meaning"]);
    for (name, d) in own(Effect::Echo) {
        row(&mut page, [&code(name), &code(d.default), scope(d.settable), &cell(d.doc)]);
    }
    page.push_str(
        "\n## Variables without effect\n\nThese variables steer parts of Doris, StarRocks or MySQL that dipper does not have. \
         dipper stores and shows\ntheir values, and `SET` says in a note that they have no effect.\n\n",
    );
    let names: Vec<String> = own(Effect::Inert).map(|(name, _)| code(name)).collect();
    let _ = writeln!(page, "{}", names.join(",\n"));
    page
}

/// The page of the headers of Stream Load.
pub fn stream_load() -> String {
    let mut page = head(
        "Headers of Stream Load",
        "[Loading](../loading.md) explains Stream Load. Names of headers are compared without regard to case. A header \
         that is nearly\none of these names is refused.",
    );
    page.push_str("\n## Headers that act\n");
    table(&mut page, ["header", "meaning"]);
    for (name, meaning) in HEADERS {
        row(&mut page, [&code(name), meaning]);
    }
    page.push_str("\n## StarRocks' names\n");
    table(&mut page, ["header", "stands for"]);
    for (name, own) in STARROCKS {
        row(&mut page, [&code(name), &code(own)]);
    }
    page.push_str("\n## Headers that are refused\n");
    table(&mut page, ["header", "what to do instead"]);
    for (name, instead) in REFUSED {
        row(&mut page, [&code(name), instead]);
    }
    page.push_str("\n## Headers without effect\n");
    table(&mut page, ["header", "reason"]);
    for (name, reason) in WITHOUT_EFFECT {
        row(&mut page, [&code(name), reason]);
    }
    page
}

/// Examples of functions, each run by the test of all such files.
const EXAMPLES: &str = include_str!("../../../tests/slt/functions/examples.slt");

/// Returns a call of a function and the result of the call.
fn example(function: &str) -> Option<(&'static str, &'static str)> {
    let head = format!("# {function}\nquery T\nSELECT ");
    let (call, rest) = EXAMPLES.split("\n\n").find_map(|entry| entry.strip_prefix(&head))?.split_once("\n----\n")?;
    Some((call, rest.trim_end()))
}

/// A function that statements may call.
pub(crate) struct Function {
    /// The chapter of the page.
    pub(crate) family: String,
    pub(crate) name: String,
    /// Other names of the function.
    aliases: Vec<&'static str>,
    /// Number of arguments and type of the result, in words; `None` for functions that DataFusion defines.
    shape: Option<(String, String)>,
    /// A call and its result.
    example: Option<(&'static str, &'static str)>,
}

impl Function {
    /// The text that HELP shows.
    pub(crate) fn description(&self) -> String {
        let Some((arguments, result)) = &self.shape else {
            return format!("{}: a function of {}", self.name, self.family);
        };
        let mut text = format!("Arguments: {arguments}\nResult: {result}");
        if !self.aliases.is_empty() {
            let _ = write!(text, "\nOther names: {}", self.aliases.join(", "));
        }
        text
    }

    /// A statement with a call, for HELP.
    pub(crate) fn example(&self) -> String {
        self.example.map(|(call, result)| format!("SELECT {call}; -- {result}")).unwrap_or_default()
    }
}

/// The chapter of the functions that DataFusion defines.
const DATAFUSION: &str = "Functions of DataFusion";

/// Lists all functions, in the order of the page.
pub(crate) fn all_functions(engine: &Engine) -> Vec<Function> {
    let mut told = BTreeSet::new();
    let mut all = Vec::new();
    for function in dipper_sql::functions::listed() {
        told.insert(function.name);
        told.extend(function.aliases);
        let arguments = match function.arguments_max {
            Some(most) if most == function.arguments_min => most.to_string(),
            Some(most) => format!("{} to {most}", function.arguments_min),
            None => format!("{} or more", function.arguments_min),
        };
        all.push(Function {
            family: function.family.to_string(),
            name: function.name.to_string(),
            aliases: function.aliases.to_vec(),
            shape: Some((arguments, function.result)),
            example: example(function.name),
        });
    }
    let taken_over = dipper_sql::functions::taken_over();
    let taken_over = taken_over.iter().flat_map(|f| f.aliases.iter().copied().chain([f.name]));
    let taken_over: BTreeSet<&str> = taken_over.collect();
    let registered = engine.functions();
    let of_kind =
        |kind: &'static str| registered.iter().filter(move |(_, k)| *k == kind).map(|(name, _)| name.as_str());
    let others = of_kind("scalar").filter(|name| !told.contains(*name) && !taken_over.contains(*name));
    let unshaped: [(&str, Vec<&str>); 4] = [
        ("Aggregate functions", of_kind("aggregate").collect()),
        ("Window functions", of_kind("window").collect()),
        (DATAFUSION, taken_over.iter().copied().collect()),
        ("Waiting and locks", others.collect()),
    ];
    for (family, names) in unshaped {
        all.extend(names.into_iter().map(|name| Function {
            family: family.to_string(),
            name: name.to_string(),
            aliases: Vec::new(),
            shape: None,
            example: None,
        }));
    }
    all
}

/// The page of the functions that statements may call.
pub fn functions(engine: &Engine) -> String {
    let mut page = head(
        "Functions",
        "Names are found without regard to case. `SHOW FULL BUILTIN FUNCTIONS` lists the same names in SQL.",
    );
    for family in all_functions(engine).chunk_by(|a, b| a.family == b.family) {
        let _ = writeln!(page, "\n## {}", family[0].family);
        if family[0].shape.is_some() {
            table(&mut page, ["function", "other names", "arguments", "result", "example"]);
        } else if family[0].family == DATAFUSION {
            page.push_str(
                "\nThese scalar functions are those of Apache DataFusion. Statements can call no others of its functions.\n",
            );
        }
        let mut names = Vec::new();
        for function in family {
            let Some((arguments, result)) = &function.shape else {
                names.push(code(&function.name));
                continue;
            };
            let aliases: Vec<String> = function.aliases.iter().map(|alias| code(alias)).collect();
            let example = function.example.map(|(call, gives)| format!("{} = {}", code(call), code(gives)));
            let example = example.unwrap_or_default();
            row(&mut page, [&code(&function.name), &aliases.join(", "), arguments, result, &example]);
        }
        if !names.is_empty() {
            let _ = writeln!(page, "\n{}", names.join(",\n"));
        }
    }
    page
}

/// The page of the statements that are refused by their first words, of kinds of objects, and of functions.
pub fn not_supported() -> String {
    let mut page = head(
        "Statements and functions that are not supported",
        "dipper knows these statements of Doris, StarRocks and MySQL, and refuses them with error 1235 and the reason.",
    );
    table(&mut page, ["statement", "reason"]);
    for (words, reason) in dipper_dialect::parser::refused_statements() {
        row(&mut page, [&code(&words), &cell(reason)]);
    }
    let kinds: Vec<String> = dipper_dialect::parser::refused_kinds().iter().map(|kind| code(kind)).collect();
    let _ = writeln!(
        page,
        "\n## Objects\n\nCREATE, ALTER and DROP of these objects are refused, because dipper does not have them. \
         `DROP ... IF EXISTS` succeeds\nwith a note.\n\n{}",
        kinds.join(",\n")
    );
    page.push_str("\n## Functions\n\nCalls of these functions are refused with error 1235 and the reason.\n");
    table(&mut page, ["function", "reason"]);
    for (name, reason) in dipper_sql::charter::refused::FUNCTIONS {
        row(&mut page, [&code(name), &cell(reason)]);
    }
    page
}

/// Returns the text that HELP shows about a variable.
pub(crate) fn variable(name: &str, definition: &Definition) -> String {
    if definition.name != name {
        return format!("Another name of {}", definition.name);
    }
    let mut text = format!(
        "{}\n\nDefault: {}\nValues: {}\nScope: {}",
        definition.doc,
        definition.default,
        values(definition.kind),
        scope(definition.settable)
    );
    if definition.effect == Effect::Inert {
        text.push_str("\nThe variable is stored and has no effect.");
    }
    text
}

/// The page of the kinds of errors.
pub fn errors() -> String {
    let mut page = head(
        "Errors",
        "A client should act by the number, because texts may change;\n[Operations](../operations.md#errors-and-what-to-do) \
         says what to do. Where MySQL has a number of its own for a case, such as\n1142 for a missing privilege on a table, \
         the error has that number.",
    );
    table(&mut page, ["kind", "number", "SQLSTATE", "meaning"]);
    for kind in ErrorKind::ALL {
        let (number, sqlstate) = kind.code();
        row(&mut page, [&format!("{kind:?}"), &number.to_string(), sqlstate, kind.meaning()]);
    }
    page
}

/// The page of the tables of information_schema.
pub fn information_schema() -> String {
    let mut page = head(
        "information_schema",
        "Types are VARCHAR where the list of columns does not name another type. Tables that describe what dipper does not \
         have\nare empty.",
    );
    for (name, columns) in info_schema::columns_of(INFORMATION_SCHEMA) {
        let _ = writeln!(page, "\n## {name}\n\n{}", columns.join(",\n"));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearly_every_function_has_an_example() {
        // The number of today. It may fall but must not rise.
        const WITHOUT_MAX: usize = 8;
        let all = dipper_sql::functions::listed();
        let without: Vec<&str> = all.iter().map(|f| f.name).filter(|name| example(name).is_none()).collect();
        assert!(
            without.len() <= WITHOUT_MAX,
            "functions without an example in tests/slt/functions/examples.slt: {without:?}"
        );
        let named = EXAMPLES.split("\n\n").filter_map(|entry| entry.strip_prefix("# ")?.split_once("\nquery T\n"));
        for (name, _) in named {
            assert!(all.iter().any(|f| f.name == name), "'{name}' is no function, or is another name of one");
        }
    }

    #[test]
    fn every_header_and_variable_has_a_meaning() {
        for (name, meaning) in HEADERS.iter().chain(REFUSED).chain(WITHOUT_EFFECT) {
            assert!(!meaning.is_empty(), "{name}");
        }
        let page = variables();
        assert!(page.contains("| `query_timeout` | `900` |"), "{page}");
        assert!(page.lines().all(|line| !line.starts_with('|') || line.ends_with('|')));
    }
}
