//! The topics of HELP: statements, functions and session variables, from the definitions that the reference is made
//! from.

use std::collections::BTreeSet;

use crate::engine::Engine;
use crate::reference;
use crate::statements::like;
use dipper_variables::definitions;

/// The answer of HELP about one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// The category, such as `Statements that query` or `Functions: Text`.
    pub group: String,
    /// The name, such as `CREATE TABLE`, `concat` or `query_timeout`.
    pub name: String,
    /// The syntax and an explanation.
    pub description: String,
    /// Statements that can be run; empty if there are none.
    pub example: String,
}

/// The result of a search for a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// One topic.
    Topic(Topic),
    /// Names of several topics and categories; true for a category.
    Several(Vec<(String, bool)>),
    /// A category with its topics, or the list of categories.
    Group {
        /// Name of the category.
        name: String,
        /// Names of the topics or categories in it; true for a category.
        entries: Vec<(String, bool)>,
    },
    /// No topic matches.
    Nothing,
}

/// The topic that lists the categories, as in MySQL.
const CONTENTS: &str = "Contents";

/// Lists all topics: statements in the order of their pages, then functions and variables by name. Names are unique:
/// where a function has the name of a statement, the word `function` follows its name.
pub fn topics(engine: &Engine) -> Vec<Topic> {
    let mut all = Vec::new();
    let mut names: BTreeSet<String> = BTreeSet::new();
    let mut add = |group: String, name: &str, kind: &str, description: String, example: String| {
        let is_taken = !names.insert(name.to_lowercase());
        let name = if is_taken { format!("{name} {kind}") } else { name.to_string() };
        all.push(Topic { group, name, description, example });
    };
    for topic in dipper_dialect::topics::topics() {
        add(topic.group.to_string(), topic.name, "statement", topic.description(), topic.example());
    }
    for (words, reason) in dipper_dialect::parser::refused_statements() {
        add("Statements that are not supported".into(), &words, "statement", reason.to_string(), String::new());
    }
    for function in reference::all_functions(engine) {
        let group = format!("Functions: {}", function.family);
        add(group, &function.name, "function", function.description(), function.example());
    }
    let mut variables: Vec<_> = definitions::all().collect();
    variables.sort_unstable_by_key(|(name, _)| *name);
    for (name, definition) in variables {
        add("Session variables".into(), name, "variable", reference::variable(name, definition), String::new());
    }
    all
}

/// Looks a topic up by its name, then by the name of a category, then by a pattern of LIKE, then by a word of its name.
/// Case does not matter.
pub fn find(engine: &Engine, wanted: &str) -> Answer {
    let wanted = wanted.trim().trim_end_matches(';').trim_end().trim_end_matches("()").trim_end_matches('(');
    let wanted = wanted.split_whitespace().collect::<Vec<_>>().join(" ");
    let topics = topics(engine);
    if let Some(topic) = topics.iter().find(|topic| topic.name.eq_ignore_ascii_case(&wanted)) {
        return Answer::Topic(topic.clone());
    }
    let mut groups: Vec<&str> = topics.iter().map(|topic| topic.group.as_str()).collect();
    groups.dedup();
    if wanted.is_empty() || wanted.eq_ignore_ascii_case(CONTENTS) {
        let entries = groups.iter().map(|group| (group.to_string(), true)).collect();
        return Answer::Group { name: CONTENTS.into(), entries };
    }
    if let Some(group) = groups.iter().find(|group| group.eq_ignore_ascii_case(&wanted)) {
        let of_group = topics.iter().filter(|topic| topic.group == **group);
        let entries = of_group.map(|topic| (topic.name.clone(), false)).collect();
        return Answer::Group { name: group.to_string(), entries };
    }
    let by = |matches: &dyn Fn(&str) -> bool| {
        let named: Vec<&Topic> = topics.iter().filter(|topic| matches(&topic.name)).collect();
        let grouped: Vec<&&str> = groups.iter().filter(|group| matches(group)).collect();
        match (named.as_slice(), grouped.as_slice()) {
            ([], []) => None,
            ([one], []) => Some(Answer::Topic((*one).clone())),
            _ => {
                let named = named.iter().map(|topic| (topic.name.clone(), false));
                Some(Answer::Several(named.chain(grouped.iter().map(|group| (group.to_string(), true))).collect()))
            }
        }
    };
    let words = |text: &str| text.to_lowercase().split([' ', '_', ':']).map(String::from).collect::<Vec<_>>();
    let all_words = words(&wanted);
    by(&|name| like(&wanted, name))
        .or_else(|| by(&|name| all_words.iter().all(|word| words(name).contains(word))))
        .unwrap_or(Answer::Nothing)
}

/// Returns the name of the topic that is most similar to `wanted`, if one is similar enough.
pub fn nearest(engine: &Engine, wanted: &str) -> Option<String> {
    let topics = topics(engine);
    dipper_base::near::closest(wanted, topics.iter().map(|topic| topic.name.as_str())).map(String::from)
}
