//! HELP, with MySQL's columns, by which its client shows a topic or a list of topics.

use dipper_lake::sheet::Sheet;

use crate::error::Result;
use crate::help::{self, Answer};
use crate::result::Outcome;
use crate::session::Session;

/// Runs `HELP 'topic'`. As in MySQL, an unknown topic gives an empty list.
pub(super) fn help(session: &Session, topic: &str) -> Result<Outcome> {
    let category = |is_category: bool| if is_category { "Y" } else { "N" };
    let sheet = match help::find(&session.engine, topic) {
        Answer::Topic(topic) => {
            let mut sheet = Sheet::texts(&["name", "description", "example"]);
            sheet.push([topic.name.into(), topic.description.into(), topic.example.into()]);
            sheet
        }
        Answer::Several(entries) => {
            let mut sheet = Sheet::texts(&["name", "is_it_category"]);
            entries.into_iter().for_each(|(name, is)| sheet.push([name.into(), category(is).into()]));
            sheet
        }
        Answer::Group { name: group, entries } => {
            let mut sheet = Sheet::texts(&["source_category_name", "name", "is_it_category"]);
            for (name, is) in entries {
                sheet.push([group.as_str().into(), name.into(), category(is).into()]);
            }
            sheet
        }
        Answer::Nothing => Sheet::texts(&["name", "is_it_category"]),
    };
    sheet.into_outcome()
}
