//! The topics of HELP about statements: the sections of the pages in `docs/reference/statements`.
//!
//! The pages are the only definition of the topics, so HELP, `dipper help sql` and the documentation cannot differ. A
//! test runs the examples of the pages. [`topic_of`] returns the topic of every statement that the parser knows, so a
//! new kind of statement does not compile without one.

use crate::statement::{AccessStatement, Assignment, Maintenance, ObjectKind, ShowKind, Statement, TableChange};

/// The pages, in reading order.
const PAGES: [&str; 9] = [
    include_str!("../../../docs/reference/statements/queries.md"),
    include_str!("../../../docs/reference/statements/rows.md"),
    include_str!("../../../docs/reference/statements/transactions.md"),
    include_str!("../../../docs/reference/statements/definitions.md"),
    include_str!("../../../docs/reference/statements/catalogs.md"),
    include_str!("../../../docs/reference/statements/users.md"),
    include_str!("../../../docs/reference/statements/session.md"),
    include_str!("../../../docs/reference/statements/show.md"),
    include_str!("../../../docs/reference/statements/refused.md"),
];

/// One section of a page: a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Topic {
    /// The title of the page.
    pub group: &'static str,
    /// The heading of the section, such as `CREATE TABLE`.
    pub name: &'static str,
    /// The section below its heading, in Markdown.
    text: &'static str,
}

impl Topic {
    /// Returns syntax and prose, without the examples.
    pub fn description(&self) -> String {
        self.parts().0
    }

    /// Returns the SQL of the examples, without their output.
    pub fn example(&self) -> String {
        self.parts().1
    }

    /// Returns the description and the examples.
    fn parts(&self) -> (String, String) {
        let (mut description, mut example) = (Vec::new(), Vec::new());
        // The language of the open fence, and whether its lines are shown.
        let mut fence: Option<(&str, bool)> = None;
        // A block of text directly after an example is the example's output.
        let mut behind_example = false;
        for line in self.text.lines() {
            match (line.strip_prefix("```"), fence) {
                (Some(_), Some((language, _))) => {
                    behind_example = language == "sql";
                    fence = None;
                }
                (Some(language), None) => fence = Some((language, language == "text" && !behind_example)),
                (None, Some(("sql", _))) => example.push(line),
                (None, Some((_, shown))) => description.extend(shown.then_some(line)),
                (None, None) if line.starts_with("<!--") => {}
                (None, None) => {
                    behind_example &= line.is_empty();
                    let doubled = line.is_empty() && description.last().is_some_and(|last: &&str| last.is_empty());
                    description.extend((!doubled).then_some(line));
                }
            }
        }
        (description.join("\n").trim().to_string(), example.join("\n"))
    }
}

/// Returns all topics, in the order of the pages.
pub fn topics() -> Vec<Topic> {
    let mut all = Vec::new();
    for page in PAGES {
        let group = page.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or_default();
        // The text before the first section introduces the page.
        for section in page.split("\n## ").skip(1) {
            let (name, text) = section.split_once('\n').unwrap_or((section, ""));
            all.push(Topic { group, name, text });
        }
    }
    all
}

/// Returns the name of the topic that explains a statement.
pub fn topic_of(statement: &Statement) -> &'static str {
    match statement {
        Statement::Query(_) | Statement::SelectIntoVariables { .. } => "SELECT",
        Statement::Insert(_) => "INSERT",
        Statement::InsertIntoFiles { .. } => "INSERT INTO FILES",
        Statement::SelectIntoOutfile(_) => "SELECT INTO OUTFILE",
        Statement::CopyTo { .. } => "COPY",
        Statement::Explain { .. } => "EXPLAIN",
        Statement::Update(_) => "UPDATE",
        Statement::Delete(_) => "DELETE",
        Statement::Merge(_) => "MERGE INTO",
        Statement::LoadData(_) => "LOAD DATA",
        Statement::CreateTable(_) => "CREATE TABLE",
        Statement::CreateExternalTable(_) => "CREATE EXTERNAL TABLE",
        Statement::CreateTableLike { .. } => "CREATE TABLE LIKE",
        Statement::CreateIndex(_) => "CREATE INDEX",
        Statement::DropIndex { .. } => "DROP INDEX",
        Statement::BuildIndex { .. } => "BUILD INDEX",
        Statement::CreateFunction(_) => "CREATE ALIAS FUNCTION",
        Statement::DropFunction(_) => "DROP FUNCTION",
        Statement::DropNothing { .. } => "DROP of objects that do not exist",
        Statement::CreateView(_) => "CREATE VIEW",
        Statement::CreateDatabase { .. } => "CREATE DATABASE",
        Statement::CreateCatalog { .. } => "CREATE CATALOG",
        Statement::AlterDatabase { .. } => "ALTER DATABASE",
        Statement::AlterCatalog { .. } => "ALTER CATALOG",
        Statement::DropCatalog { .. } => "DROP CATALOG",
        Statement::Drop { kind, .. } => match kind {
            ObjectKind::Table => "DROP TABLE",
            ObjectKind::View => "DROP VIEW",
            ObjectKind::Database => "DROP DATABASE",
        },
        Statement::CreateVolume { .. } => "CREATE STORAGE VOLUME",
        Statement::AlterVolume { .. } => "ALTER STORAGE VOLUME",
        Statement::DropVolume { .. } => "DROP STORAGE VOLUME",
        Statement::DefaultVolume(_) => "SET DEFAULT STORAGE VOLUME",
        Statement::CacheSelect { .. } => "CACHE SELECT",
        Statement::Truncate { .. } => "TRUNCATE TABLE",
        Statement::RenameTables(_) => "RENAME TABLE",
        Statement::AlterTable { changes, .. } => match changes.as_slice() {
            [TableChange::Compact { .. }] => "ADMIN COMPACT TABLE",
            _ => "ALTER TABLE",
        },
        Statement::AlterView { .. } => "ALTER VIEW",
        Statement::MsckRepair { .. } => "MSCK REPAIR TABLE",
        Statement::Refresh { .. } => "REFRESH",
        Statement::Show(show) => topic_of_show(&show.kind),
        Statement::Describe { .. } => "DESCRIBE",
        Statement::Use(_) => "USE",
        Statement::SwitchCatalog(_) => "SWITCH",
        Statement::Set(assignments) => match assignments.as_slice() {
            [Assignment::Password { .. }] => "SET PASSWORD",
            _ => "SET",
        },
        Statement::Begin { .. } => "BEGIN",
        Statement::Commit { .. } => "COMMIT",
        Statement::Rollback { .. } | Statement::RollbackTo(_) => "ROLLBACK",
        Statement::Unset { .. } => "UNSET VARIABLE",
        Statement::Savepoint(_) => "SAVEPOINT",
        Statement::ReleaseSavepoint(_) => "RELEASE SAVEPOINT",
        Statement::Kill { .. } => "KILL",
        Statement::LockTables(_) => "LOCK TABLES",
        Statement::UnlockTables => "UNLOCK TABLES",
        Statement::Flush(_) => "FLUSH",
        Statement::Analyze { .. } => "ANALYZE",
        Statement::Maintain { work, .. } => match work {
            Maintenance::Check => "CHECK TABLE",
            Maintenance::Checksum { .. } => "CHECKSUM TABLE",
            Maintenance::Optimize => "OPTIMIZE TABLE",
            Maintenance::Repair => "REPAIR TABLE",
        },
        Statement::DropStats { .. } => "DROP STATS",
        Statement::CleanLabel { .. } => "CLEAN LABEL",
        Statement::CancelLoad { .. } => "CANCEL LOAD",
        Statement::CancelAlter { .. } => "CANCEL ALTER TABLE",
        Statement::AdminSetConfig { .. } => "ADMIN SET CONFIG",
        Statement::CleanProfiles => "CLEAN ALL PROFILE",
        Statement::Backup(_) => "BACKUP",
        Statement::Restore(_) => "RESTORE",
        Statement::Recover { .. } => "RECOVER",
        Statement::Sync => "SYNC",
        Statement::Prepare { .. } => "PREPARE",
        Statement::Execute { .. } => "EXECUTE",
        Statement::Deallocate(_) => "DEALLOCATE PREPARE",
        Statement::Do(_) => "DO",
        Statement::Help(_) => "HELP",
        Statement::Access(statement) => topic_of_access(statement),
    }
}

fn topic_of_access(statement: &AccessStatement) -> &'static str {
    match statement {
        AccessStatement::CreateUser(_) => "CREATE USER",
        AccessStatement::AlterUser(_) => "ALTER USER",
        AccessStatement::DropUser { .. } => "DROP USER",
        AccessStatement::RenameUser(_) => "RENAME USER",
        AccessStatement::CreateRole { .. } => "CREATE ROLE",
        AccessStatement::AlterRole { .. } => "ALTER ROLE",
        AccessStatement::DropRole { .. } => "DROP ROLE",
        AccessStatement::Grant(_) => "GRANT",
        AccessStatement::Revoke(_) => "REVOKE",
        AccessStatement::SetProperty { .. } => "SET PROPERTY",
    }
}

fn topic_of_show(kind: &ShowKind) -> &'static str {
    match kind {
        ShowKind::Databases { .. } => "SHOW DATABASES",
        ShowKind::Tables { .. } => "SHOW TABLES",
        ShowKind::Views { .. } | ShowKind::ViewsOver(_) => "SHOW VIEWS",
        ShowKind::TableStatus { .. } => "SHOW TABLE STATUS",
        ShowKind::Proc(_) => "SHOW PROC",
        ShowKind::CreateTable(_) => "SHOW CREATE TABLE",
        ShowKind::CreateView(_) | ShowKind::CreateMaterializedView { .. } => "SHOW CREATE VIEW",
        ShowKind::CreateDatabase(_) => "SHOW CREATE DATABASE",
        ShowKind::Columns { .. } => "SHOW COLUMNS",
        ShowKind::Index(_) => "SHOW INDEX",
        ShowKind::Partitions { .. } | ShowKind::Partition(_) => "SHOW PARTITIONS",
        ShowKind::Constraints(_) => "SHOW CONSTRAINTS",
        ShowKind::Tablets { .. } | ShowKind::Tablet(_) => "SHOW TABLETS",
        ShowKind::Data { .. } => "SHOW DATA",
        ShowKind::DataSkew { .. } => "SHOW DATA SKEW",
        ShowKind::Load { .. } => "SHOW LOAD",
        ShowKind::LoadWarnings { .. } => "SHOW LOAD WARNINGS",
        ShowKind::Transaction { .. } => "SHOW TRANSACTION",
        ShowKind::AlterTable { .. } => "SHOW ALTER TABLE",
        ShowKind::TableStats(_) => "SHOW TABLE STATS",
        ShowKind::ColumnStats { .. } => "SHOW COLUMN STATS",
        ShowKind::Replicas { .. } => "SHOW REPLICA",
        ShowKind::Config { .. } => "SHOW CONFIG",
        ShowKind::Variables(_) | ShowKind::VerboseVariables => "SHOW VARIABLES",
        ShowKind::TemporaryTables(_) => "SHOW TEMPORARY TABLES",
        ShowKind::DynamicPartitions(_) => "SHOW DYNAMIC PARTITION TABLES",
        ShowKind::Status(_) => "SHOW STATUS",
        ShowKind::Processlist { .. } => "SHOW PROCESSLIST",
        ShowKind::Warnings { .. } => "SHOW WARNINGS",
        ShowKind::Errors { .. } => "SHOW ERRORS",
        ShowKind::Engines => "SHOW ENGINES",
        ShowKind::Charset => "SHOW CHARACTER SET",
        ShowKind::Collation => "SHOW COLLATION",
        ShowKind::Plugins => "SHOW PLUGINS",
        ShowKind::Privileges => "SHOW PRIVILEGES",
        ShowKind::Grants { .. } | ShowKind::RoleGrants(_) => "SHOW GRANTS",
        ShowKind::Authentication { .. } => "SHOW AUTHENTICATION",
        ShowKind::Roles => "SHOW ROLES",
        ShowKind::CreateUser(_) => "SHOW CREATE USER",
        ShowKind::Properties { .. } => "SHOW PROPERTY",
        ShowKind::Functions { .. } => "SHOW FUNCTIONS",
        ShowKind::CreateFunction(_) => "SHOW CREATE FUNCTION",
        ShowKind::Triggers => "SHOW TRIGGERS",
        ShowKind::Events => "SHOW EVENTS",
        ShowKind::ProcedureStatus => "SHOW PROCEDURE STATUS",
        ShowKind::OpenTables => "SHOW OPEN TABLES",
        ShowKind::Catalogs => "SHOW CATALOGS",
        ShowKind::Volumes | ShowKind::Volume(_) => "SHOW STORAGE VOLUMES",
        ShowKind::Catalog(_) => "SHOW CATALOG",
        ShowKind::CreateCatalog(_) => "SHOW CREATE CATALOG",
        ShowKind::Backends => "SHOW BACKENDS",
        ShowKind::Frontends => "SHOW FRONTENDS",
        ShowKind::Profile { .. } | ShowKind::ProfileSteps(_) => "SHOW PROFILE",
        ShowKind::Other(_) => "SHOW of objects that do not exist",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::parser::{ParseOptions, parse};

    #[test]
    fn every_statement_has_a_topic() {
        let names: BTreeSet<&str> = topics().iter().map(|topic| topic.name).collect();
        // The names that the three functions above can return, as written in this file.
        let source = include_str!("topics.rs");
        let source =
            &source[source.find("pub fn topic_of").expect("a function")..source.find("mod tests").expect("tests")];
        let named: BTreeSet<&str> =
            source.split("=> \"").skip(1).filter_map(|rest| rest.split_once('"')).map(|(name, _)| name).collect();
        assert!(named.len() > 100, "{named:?}");
        assert_eq!(named.difference(&names).collect::<Vec<_>>(), Vec::<&&str>::new(), "topics without a section");
        assert_eq!(names.difference(&named).collect::<Vec<_>>(), Vec::<&&str>::new(), "sections without a statement");
    }

    #[test]
    fn examples_are_about_their_topic() {
        for topic in topics() {
            let (description, example) = (topic.description(), topic.example());
            assert!(!description.is_empty() && !description.contains("```") && !description.contains("<!--"));
            if example.is_empty() {
                assert!(topic.group.contains("refused"), "{} has no example", topic.name);
                continue;
            }
            let parsed = parse(&example, &ParseOptions::default()).unwrap_or_else(|e| panic!("{}: {e:?}", topic.name));
            let named: Vec<&str> = parsed.iter().map(|p| topic_of(&p.statement)).collect();
            assert!(named.contains(&topic.name), "{}: {named:?}", topic.name);
        }
    }

    #[test]
    fn outputs_are_no_part_of_a_topic() {
        let text = "\n```text\nDO x\n```\n\nDO does.\n\n<!-- not run: no -->\n```sql\nDO 1;\n```\n\n```text\n?\n```\n\nMore.\n";
        let topic = Topic { group: "", name: "DO", text };
        assert_eq!(topic.description(), "DO x\n\nDO does.\n\nMore.");
        assert_eq!(topic.example(), "DO 1;");
    }
}
