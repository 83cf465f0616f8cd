//! Rewrites DataFusion's messages in SQL terms.

use crate::type_words::{has_names, in_sql};

/// Removes from a message what only developers of DataFusion understand: its names of types, and dumps of expression
/// trees.
pub fn plain(message: &str) -> String {
    // The rest of the message is a dump of the tree.
    if message.starts_with("Dot access not supported for non-string expr") {
        return "a field of a STRUCT is named behind a dot: a column, then names of fields; for other values write \
                struct_element(value, 'field')"
            .to_string();
    }
    if message == "map key cannot be null" {
        return "a MAP with NULL as a key is not supported".to_string();
    }
    if message.contains("non UTF-8 data") || message.contains("non-UTF-8 data") {
        return "BINARY values that are no UTF-8 text are not supported here; hex(x) and to_base64(x) are text"
            .to_string();
    }
    if message.starts_with("string_agg delimiter must be a string literal") {
        return "the separator of an aggregate is a constant text".to_string();
    }
    if message.starts_with("There is only support Literal types for field at idx") {
        return "the offset and the default of LEAD, LAG and their like are constants".to_string();
    }
    if message.starts_with("Aggregate function calls cannot be nested") {
        return format!("{NESTED}; compute the inner one in a query in FROM");
    }
    if message.starts_with("Argument ") && message.contains(" to grouping function is not in grouping columns") {
        return NO_SET.to_string();
    }
    if message == "Aggregate ORDER BY is not implemented for window functions" {
        return "an aggregate with OVER takes no ORDER BY between its parentheses, but for those that make lists or texts; \
                the order of rows stands in OVER (ORDER BY ..)"
            .to_string();
    }
    if message.starts_with("physical plan is not yet implemented for GROUPING") {
        return NO_SET.to_string();
    }
    if message == "WITHIN GROUP is only supported for ordered-set aggregate functions" {
        return "this function does not take WITHIN GROUP: its arguments, and ORDER BY where it has one, stand between \
                its parentheses"
            .to_string();
    }
    let known = wrong_arguments(message).or_else(|| wrong_field(message)).or_else(|| no_cast(message));
    let known = known.or_else(|| no_regex(message)).or_else(|| wrong_operands(message));
    let known = known.or_else(|| without_over(message));
    known.unwrap_or_else(|| if has_names(message) { in_sql(message) } else { message.to_string() })
}

/// The beginning of the message about an aggregate inside an aggregate.
pub(crate) const NESTED: &str = "aggregates cannot be nested";

/// The beginning of the message about an argument of GROUPING that no grouping set has.
pub(crate) const NO_SET: &str = "grouping takes a key of GROUP BY with ROLLUP, CUBE or GROUPING SETS";

/// The beginning of the message about a window function without OVER.
pub(crate) const NO_OVER: &str = "a window function needs OVER";

/// The functions that go with OVER only.
const OVER_ONLY: [&str; 9] =
    ["row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead", "nth_value"];

/// Rewrites the error of a window function that was looked for among the others. `None` for other messages.
fn without_over(message: &str) -> Option<String> {
    let (name, _) = message.strip_prefix("Invalid function '")?.split_once('\'')?;
    let name = name.to_lowercase();
    OVER_ONLY.contains(&name.as_str()).then(|| format!("{NO_OVER}: {name}(...) OVER (PARTITION BY ... ORDER BY ...)"))
}

/// Rewrites the errors of operators and arrays whose operands have types that do not go together. `None` for other
/// messages.
fn wrong_operands(message: &str) -> Option<String> {
    if let Some(rest) = message.strip_prefix("Cannot coerce arithmetic expression ") {
        return Some(format!("there is no {}", in_sql(rest.strip_suffix(" to valid types")?)));
    }
    if let Some(rest) = message.strip_prefix("Cannot infer common argument type for comparison operation ") {
        return Some(format!("values of these types cannot be compared: {}", in_sql(rest)));
    }
    if let Some(rest) = message.strip_prefix("Cannot infer common argument type for ") {
        return Some(format!("an operator does not take values of these types: {}", in_sql(rest)));
    }
    if let Some(rest) = message.strip_prefix("There isn't a common type to coerce ") {
        let (types, operator) = rest.rsplit_once(" in ")?;
        let operator = operator.strip_suffix(" expression")?;
        return Some(format!("{operator} compares texts, found {}", in_sql(types)));
    }
    let types = message.strip_prefix("Failed to unify argument types of make_array: [")?.strip_suffix(']')?;
    Some(format!("the values of an array have one type, found {}", in_sql(types)))
}

/// Rewrites the error of an unsupported cast. `None` for other messages.
fn no_cast(message: &str) -> Option<String> {
    let (_, types) =
        message.split_once("Unsupported TRY_CAST from ").or_else(|| message.split_once("Unsupported CAST from "))?;
    let (from, to) = types.split_once(" to ")?;
    // The bytes of IPV4 and IPV6 differ in number only; the parts of nested types say nothing of the cast.
    let kind = |text: &str| match text.trim().starts_with("FixedSizeBinary(") {
        true => in_sql(text.trim()),
        false => in_sql(text.split('(').next().unwrap_or(text).trim()),
    };
    Some(format!("CAST of {} AS {} is not supported", kind(from), kind(to)))
}

/// Rewrites the error of a regular expression without its drawing. `None` for other messages.
fn no_regex(message: &str) -> Option<String> {
    // Of arrow's kernel, and of DataFusion's rule for constant patterns.
    if !["Regular expression did not compile: ", "regex parse error:"].iter().any(|begin| message.starts_with(begin)) {
        return None;
    }
    let lines = || message.lines().map(str::trim);
    let reason = lines().find_map(|line| line.strip_prefix("error: ")).unwrap_or("it is too large");
    let pattern = lines().skip_while(|line| !line.starts_with("regex parse error")).nth(1);
    // The flag that REGEXP puts before each pattern.
    let pattern = pattern.map(|pattern| pattern.strip_prefix("(?s)").unwrap_or(pattern));
    Some(match pattern {
        Some(pattern) => format!("'{pattern}' is no regular expression: {reason}"),
        None => format!("a pattern is no regular expression: {reason}"),
    })
}

/// Rewrites the error of an access to a field. `None` for other messages.
fn wrong_field(message: &str) -> Option<String> {
    let of_type = message.strip_prefix("Cannot access field at argument ").and_then(|rest| rest.split_once(": type "));
    if let Some((_, rest)) = of_type {
        let found = in_sql(rest.strip_suffix(" is not Struct, Map, or Null")?);
        return Some(format!(
            "a value of type {found} has no fields; value.field and value['field'] are for STRUCT, MAP and JSON"
        ));
    }
    let field = message.strip_prefix("Field ")?.strip_suffix(" not found in struct")?;
    Some(format!("the STRUCT has no field '{field}'; DESC of the table shows those that it has"))
}

/// Rewrites DataFusion's message about the arguments of a call, which mentions internals and calls itself a bug, to say
/// what the call has and what its function takes. `None` for other messages.
fn wrong_arguments(message: &str) -> Option<String> {
    let (reason, rest) = message.split_once("No function matches the given name and argument types '")?;
    let (call, rest) = rest.split_once("'. ")?;
    let (name, given) = call.split_once('(')?;
    let given = given.strip_suffix(')')?;
    let (_, candidates) = rest.split_once("Candidate functions:")?;
    let takes = candidates.lines().filter_map(|line| line.trim().strip_prefix(name));
    let takes: Vec<&str> = takes.filter(|arguments| *arguments != "(UserDefined)").collect();
    if takes == ["(NullAry())"] {
        return Some(format!("function {name} takes no arguments"));
    }
    let found = match given {
        "" => format!("function {name} does not go without arguments"),
        given => format!("function {name} does not take ({})", in_sql(given)),
    };
    if !takes.is_empty() {
        return Some(format!("{found}; it takes {}", in_sql(&takes.join(" or "))));
    }
    let reason = reason.rsplit("Execution error: ").next().unwrap_or(reason);
    let reason = reason.rsplit("Error during planning: ").next().unwrap_or(reason);
    let reason = reason.rsplit("This feature is not implemented: ").next().unwrap_or(reason);
    let reason = reason.trim().trim_end_matches('.');
    if reason.ends_with("does not implement coerce_types") {
        return Some(found);
    }
    if reason.starts_with("Expect to get ") {
        return Some(format!("{found}: these types have none in common"));
    }
    Some(if reason.contains(name) { reason.to_string() } else { format!("{found}: {reason}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_arguments_name_the_function_and_what_it_takes() {
        let message = "Internal error: Function 'f' failed to match any signature, errors: Error during planning: x.\n\
            This issue was likely caused by a bug. No function matches the given name and argument types 'f(Utf8View, List(Int32))'. \
            You might need to add explicit type casts.\n\tCandidate functions:\n\tf(String, String)\n\tf(Any)";
        let expected = "function f does not take (STRING, ARRAY<INT>); it takes (String, String) or (Any)";
        assert_eq!(wrong_arguments(message).as_deref(), Some(expected));
        let message = "Execution error: Function 'f' user-defined coercion failed with: Error during planning: f takes \
            one argument, found 0. No function matches the given name and argument types 'f()'. You might need to add \
            explicit type casts.\n\tCandidate functions:\n\tf(UserDefined)";
        assert_eq!(wrong_arguments(message).as_deref(), Some("f takes one argument, found 0"));
        let message = "Execution error: Function 'f' user-defined coercion failed with: This feature is not implemented: \
            f: BINARY is not supported. No function matches the given name and argument types 'f(Binary)'. You might \
            need to add explicit type casts.\n\tCandidate functions:\n\tf(UserDefined)";
        assert_eq!(wrong_arguments(message).as_deref(), Some("f: BINARY is not supported"));
        assert_eq!(wrong_arguments("table 't' not found"), None);
    }

    #[test]
    fn casts_and_patterns_have_the_words_of_sql() {
        let message =
            "Unsupported TRY_CAST from Utf8 to Map(\"entries\": non-null Struct(\"keys\": non-null Int32), unsorted)";
        assert_eq!(plain(message), "CAST of STRING AS MAP is not supported");
        let message = "Regular expression did not compile: Syntax(\n~~~\nregex parse error:\n    (x\n    ^\nerror: unclosed group\n~~~\n)";
        assert_eq!(plain(message), "'(x' is no regular expression: unclosed group");
    }

    #[test]
    fn what_does_not_go_together_is_named_in_sql() {
        for (message, expected) in [
            (
                "Cannot coerce arithmetic expression FixedSizeBinary(4) * Int64 to valid types",
                "there is no IPV4 * BIGINT",
            ),
            (
                "Cannot infer common argument type for comparison operation Date32 = Boolean",
                "values of these types cannot be compared: DATE = BOOLEAN",
            ),
            (
                "There isn't a common type to coerce Utf8 and List(Int64) in LIKE expression",
                "LIKE compares texts, found STRING and ARRAY<BIGINT>",
            ),
            (
                "Failed to unify argument types of make_array: [Int64, List(Int64)]",
                "the values of an array have one type, found BIGINT, ARRAY<BIGINT>",
            ),
            ("Unsupported CAST from Int64 to FixedSizeBinary(4)", "CAST of BIGINT AS IPV4 is not supported"),
            (
                "Aggregate function calls cannot be nested: 'count(Int64(1))' is nested inside 'max(count(Int64(1)))'",
                "aggregates cannot be nested; compute the inner one in a query in FROM",
            ),
            ("Argument Int64(1) to grouping function is not in grouping columns", NO_SET),
            (
                "Invalid function 'lag'.\nDid you mean 'log'?",
                "a window function needs OVER: lag(...) OVER (PARTITION BY ... ORDER BY ...)",
            ),
            ("Invalid function 'lagg'.\nDid you mean 'log'?", "Invalid function 'lagg'.\nDid you mean 'log'?"),
            (
                "Execution error: Function 'sum' user-defined coercion failed with: This feature is not implemented: \
                 Function sum does not implement coerce_types. No function matches the given name and argument types \
                 'sum(List(Int64))'. You might need to add explicit type casts.\n\tCandidate functions:\n\tsum(UserDefined)",
                "function sum does not take (ARRAY<BIGINT>)",
            ),
        ] {
            assert_eq!(plain(message), expected);
        }
    }

    #[test]
    fn fields_are_asked_of_what_has_none() {
        for (message, expected) in [
            (
                "Cannot access field at argument 1: type Int64 is not Struct, Map, or Null",
                "a value of type BIGINT has no fields",
            ),
            (
                "Cannot access field at argument 2: type List(Utf8View) is not Struct, Map, or Null",
                "a value of type ARRAY<STRING> has",
            ),
            (
                "Cannot access field at argument 1: type Timestamp(µs) is not Struct, Map, or Null",
                "a value of type DATETIME has",
            ),
            ("Field a b not found in struct", "the STRUCT has no field 'a b'; DESC"),
            ("Field of work", "Field of work"),
        ] {
            let found = plain(message);
            assert!(found.starts_with(expected), "{found}");
        }
    }
}
