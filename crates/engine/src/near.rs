//! "Did you mean": the existing name that a wrong one was probably meant to be.

/// The nearest of `names`, if one is near enough to be a slip of the pen.
pub(crate) fn closest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let names: Vec<&str> = names.into_iter().collect();
    dipper_sql::parser::near_match(wrong, &names)
}
