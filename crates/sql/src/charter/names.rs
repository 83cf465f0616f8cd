//! Column names: case-insensitive, case kept, and the text of an item as its header.
//!
//! DataFusion's planner compares names exactly (its own lower-casing is off). So every spelling of a column in the
//! statement is replaced by one **canonical** spelling per lower-cased name: that of the first table that has a column
//! of this name, else that of the first alias. A table that spells it differently is wrapped in a renaming projection,
//! which the optimizer removes. No scopes are needed for this: names that differ only in case are the same name
//! everywhere in the statement.

use std::collections::{HashMap, HashSet};

use dipper_dialect::error::SqlError;
use dipper_dialect::statement::QueryText;
use dipper_dialect::tree;
use dipper_dialect::walk::{self, Change, Look};
use sqlparser::ast::{
    self, Expr, Ident, JoinConstraint, JoinOperator, ObjectNamePart, Query, Select, SelectItem, SetExpr, TableAlias,
    TableFactor, TableWithJoins, Value,
};

use sqlparser::tokenizer::{Location, Span};

use super::session::{Context, ResolvedTable, TableRef};
use super::tables;

/// Separates an output name from the number that makes it unique. It cannot be typed in an identifier by accident.
pub(super) const MARK: char = '\u{1}';

/// A database of no table: the planner compares databases only with tables whose database it knows.
pub(super) const ANY_DATABASE: &str = "\u{1}";

/// A header of the outermost select list, before wildcards are expanded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Header {
    /// One column.
    Text(String),
    /// `*` or `t.*`: the columns' own names.
    Wildcard,
}

/// Returns the name of an output column as a client sees it.
pub fn visible(field_name: &str) -> &str {
    field_name.split(MARK).next().unwrap_or(field_name)
}

/// The canonical spelling of each lower-cased name.
#[derive(Debug, Default)]
pub(super) struct Names {
    canonical: HashMap<String, String>,
    /// Lower-cased names of columns of tables (not of aliases).
    columns: HashSet<String>,
    /// Lower-cased names of the columns of derived tables and common table expressions.
    derived: HashSet<String>,
    /// Names that qualify columns, spelled exactly.
    relations: HashSet<String>,
    /// The tables in FROM among `relations`: for each name the catalogs and databases of its tables.
    places: HashMap<String, Vec<[String; 2]>>,
}

impl Names {
    fn add(&mut self, name: &str) {
        self.canonical.entry(name.to_lowercase()).or_insert_with(|| name.to_string());
    }

    /// Adds the names of items that are no columns: queries around them may spell `count(*)` in any case.
    pub(super) fn add_items(&mut self, query: &Query) {
        struct Items<'a>(&'a mut Names);
        impl Look for Items<'_> {
            fn select(&mut self, select: &Select) -> Result<(), SqlError> {
                for item in &select.projection {
                    if let SelectItem::ExprWithAlias { alias, .. } = item {
                        self.0.add(visible(&alias.value));
                    }
                }
                Ok(())
            }
        }
        // Collecting cannot fail.
        let _ = walk::look(query, &mut Items(self));
    }

    /// Whether a `*` may show a column of this lower-cased name.
    fn may_be_shown(&self, key: &str) -> bool {
        self.columns.contains(key) || self.derived.contains(key)
    }

    fn of<'a>(&'a self, name: &'a str) -> &'a str {
        self.canonical.get(&name.to_lowercase()).map_or(name, String::as_str)
    }

    fn fix(&self, ident: &mut Ident) {
        let canonical = self.of(&ident.value);
        if canonical != ident.value {
            ident.value = canonical.to_string();
        }
    }

    fn fix_parts(&self, idents: &mut [Ident]) {
        // Leading parts that name a relation stay; the rest is a column and perhaps its fields.
        let last = idents.len().saturating_sub(1);
        let mut first = 0;
        while first < last && self.relations.contains(&idents[first].value) {
            first += 1;
        }
        idents[first..].iter_mut().for_each(|i| self.fix(i));
    }

    /// Whether a column is qualified by a database or catalog that its table is not in. DataFusion compares the table's
    /// name only. Case is ignored: it does not matter for `information_schema`, and other names have found their table
    /// already.
    fn is_elsewhere(&self, idents: &[Ident]) -> bool {
        let [first, second, rest @ ..] = idents else { return false };
        // This is `t.column.field` or `column.field.field`.
        let is_known = |name: &str| self.places.contains_key(name) || self.canonical.contains_key(&name.to_lowercase());
        if rest.is_empty() || is_known(&first.value) || first.value == ANY_DATABASE {
            return false;
        }
        let is = |name: &str, ident: &Ident| name.eq_ignore_ascii_case(&ident.value);
        let places = |table: &Ident| self.places.get(&table.value).filter(|places| !places.is_empty());
        let by_database = places(second).map(|all| all.iter().any(|[_, database]| is(database, first)));
        let by_catalog = match rest {
            [table, _, ..] => places(table)
                .map(|all| all.iter().any(|[catalog, database]| is(catalog, first) && is(database, second))),
            _ => None,
        };
        by_database.or(by_catalog).is_some() && by_database != Some(true) && by_catalog != Some(true)
    }
}

/// The statement's tables, in the order in which a visitor meets them.
pub(super) struct Tables {
    found: Vec<Option<ResolvedTable>>,
}

/// Resolves every table and collects the names.
pub(super) fn gather(query: &QueryText, context: &Context<'_>) -> Result<(Names, Tables), SqlError> {
    struct Gather<'a> {
        context: &'a Context<'a>,
        /// The texts of select items, by the place of their SELECT.
        items: &'a HashMap<Location, Vec<String>>,
        ctes: HashSet<String>,
        ansi_quotes: bool,
        names: Names,
        aliases: Vec<String>,
        tables: Tables,
    }
    impl Gather<'_> {
        /// Adds the names of the columns of a derived table or common table expression.
        fn derived(&mut self, query: &Query, alias: Option<&TableAlias>) {
            let renamed = alias.iter().flat_map(|alias| &alias.columns).map(|column| column.name.value.clone());
            self.aliases.extend(renamed.clone());
            let mut names: Vec<String> = renamed.collect();
            if let Some(select) = leading_select(&query.body) {
                let texts = self.items.get(&select.select_token.0.span.start);
                let named = select.projection.iter().enumerate().filter_map(|(i, item)| match item {
                    SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
                    SelectItem::UnnamedExpr(expr) => match own_name(expr) {
                        Some(name) => Some(name.value.clone()),
                        None => texts.and_then(|texts| texts.get(i).cloned()),
                    },
                    _ => None,
                });
                names.extend(named);
            }
            self.names.derived.extend(names.into_iter().map(|name| name.to_lowercase()));
        }
    }
    impl Look for Gather<'_> {
        fn query(&mut self, query: &Query) -> Result<(), SqlError> {
            for cte in query.with.iter().flat_map(|w| &w.cte_tables) {
                self.names.relations.insert(cte.alias.name.value.clone());
                self.derived(&cte.query, Some(&cte.alias));
            }
            Ok(())
        }

        fn select(&mut self, select: &Select) -> Result<(), SqlError> {
            for item in &select.projection {
                if let SelectItem::ExprWithAlias { alias, .. } = item {
                    self.aliases.push(alias.value.clone());
                }
            }
            Ok(())
        }

        fn table_factor(&mut self, factor: &TableFactor) -> Result<(), SqlError> {
            let visible = tables::visible_name(factor).map(|name| name.value);
            if let Some(name) = &visible {
                self.names.relations.insert(name.clone());
                self.names.places.entry(name.clone()).or_default();
            }
            if let TableFactor::Table { sample: Some(sample), .. } | TableFactor::Derived { sample: Some(sample), .. } =
                factor
            {
                return Err(SqlError::unsupported(
                    format!("{}; use WHERE rand() < ..., or LIMIT", sample_text(sample)),
                    None,
                ));
            }
            if let TableFactor::Table { name, .. } = factor {
                for part in name.0.iter().filter_map(|p| p.as_ident()) {
                    self.names.relations.insert(part.value.clone());
                }
            }
            match factor {
                TableFactor::Table { alias: Some(alias), .. } => {
                    self.aliases.extend(alias.columns.iter().map(|c| c.name.value.clone()));
                }
                TableFactor::Derived { subquery, alias, .. } => self.derived(subquery, alias.as_ref()),
                _ => {}
            }
            let Some(table) = tables::table_ref(factor, &self.ctes, self.ansi_quotes) else {
                return Ok(());
            };
            match self.context.schemas.resolve(&table) {
                Err(error) => return Err(error),
                Ok(None) => {
                    if let TableRef::Named { name, maybe_cte: false, .. } = &table {
                        return Err(SqlError {
                            code: 1146,
                            sqlstate: "42S02",
                            message: format!("table '{name}' does not exist"),
                            position: None,
                        });
                    }
                    self.tables.found.push(None);
                }
                Ok(Some(resolved)) => {
                    if let (Some(visible), Some(place)) = (visible, &resolved.place) {
                        self.names.places.entry(visible).or_default().push(place.clone());
                    }
                    for column in &resolved.columns {
                        self.names.columns.insert(column.to_lowercase());
                        self.names.add(column);
                    }
                    self.tables.found.push(Some(resolved));
                }
            }
            Ok(())
        }
    }
    let mut gather = Gather {
        context,
        items: &query.items,
        ctes: tables::cte_names(&query.ast),
        ansi_quotes: query.ansi_quotes,
        names: Names::default(),
        aliases: Vec::new(),
        tables: Tables { found: Vec::new() },
    };
    walk::look(&query.ast, &mut gather)?;
    let mut names = gather.names;
    gather.aliases.iter().for_each(|alias| names.add(alias));
    Ok((names, gather.tables))
}

/// Prints `TABLESAMPLE (10 PERCENT)`.
fn sample_text(sample: &ast::TableSampleKind) -> String {
    match sample {
        ast::TableSampleKind::BeforeTableAlias(sample) | ast::TableSampleKind::AfterTableAlias(sample) => {
            sample.to_string().trim().to_string()
        }
    }
}

/// Functions that may be called without parentheses, and that `sqlparser` then takes for names.
const BARE_CALLS: &[&str] = &["current_user", "utc_date", "utc_time", "utc_timestamp"];

/// Adds parentheses to these calls; a column or an alias of the name takes precedence.
pub(super) fn bare_calls(query: &mut Query, names: &Names) {
    struct Bare<'a>(&'a Names);
    impl Change for Bare<'_> {
        fn expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
            if let Expr::Identifier(Ident { value, quote_style: None, .. }) = expr
                && let Some(name) = BARE_CALLS.iter().find(|name| name.eq_ignore_ascii_case(value))
                && !self.0.canonical.contains_key(*name)
            {
                *expr = tree::call(name, Vec::new());
            }
            Ok(())
        }
    }
    // Rewriting cannot fail.
    let _ = walk::change(query, &mut Bare(names));
}

/// Returns warnings for double-quoted literals that equal a column's name, and were probably meant as names.
pub(super) fn quoted_column_warnings(query: &Query, names: &Names) -> Vec<String> {
    struct Quoted<'a>(&'a Names, Vec<String>, HashSet<Span>);
    impl Look for Quoted<'_> {
        // Properties of table functions are strings, whatever their values are.
        fn table_factor(&mut self, factor: &TableFactor) -> Result<(), SqlError> {
            if let TableFactor::Table { args: Some(args), .. } = factor {
                self.2.extend(args.args.iter().flat_map(tables::property_spans));
            }
            Ok(())
        }

        fn value(&mut self, value: &ast::ValueWithSpan) -> Result<(), SqlError> {
            if let Value::DoubleQuotedString(s) = &value.value
                && self.0.columns.contains(&s.to_lowercase())
                && !self.2.contains(&value.span)
            {
                self.1.push(format!(
                    "\"{s}\" is a string here although there is a column of that name; write `{s}` for the column, or set \
                     sql_mode='ANSI_QUOTES'"
                ));
            }
            Ok(())
        }
    }
    let mut visitor = Quoted(names, Vec::new(), HashSet::new());
    // Collecting cannot fail.
    let _ = walk::look(query, &mut visitor);
    visitor.1.sort();
    visitor.1.dedup();
    visitor.1
}

/// Names every unnamed expression by its text and makes the names in each select list unique. Returns the headers of
/// the outermost list.
pub(super) fn name_items(query: &mut Query, items: &HashMap<Location, Vec<String>>, names: &Names) -> Vec<Header> {
    struct Namer<'a> {
        items: &'a HashMap<Location, Vec<String>>,
        names: &'a Names,
        /// Select lists whose names an outer query reads: items beside `*` keep their names there, or are refused.
        derived: HashSet<*const Select>,
    }
    impl Change for Namer<'_> {
        fn query(&mut self, query: &mut Query) -> Result<(), SqlError> {
            let with = query.with.iter_mut().flat_map(|with| &mut with.cte_tables);
            self.derived.extend(with.filter_map(|cte| first_select(cte.query.body.as_mut())).map(|s| &raw const *s));
            Ok(())
        }

        fn table_factor(&mut self, factor: &mut TableFactor) -> Result<(), SqlError> {
            if let TableFactor::Derived { subquery, .. } = factor {
                self.derived.extend(first_select(subquery.body.as_mut()).map(|select| &raw const *select));
            }
            Ok(())
        }

        fn select(&mut self, select: &mut Select) -> Result<(), SqlError> {
            let is_derived = self.derived.contains(&(&raw const *select));
            name_select(select, self.items, self.names, is_derived);
            Ok(())
        }
    }
    // The outermost list comes first, because a visitor meets the lists of the WITH clause before it. Its second visit
    // finds every item named.
    let outer = first_select(query.body.as_mut()).map(|select| name_select(select, items, names, false));
    let _ = walk::change(query, &mut Namer { items, names, derived: HashSet::new() });
    outer.unwrap_or_default()
}

/// Refuses two columns of one name in a derived table or common table expression, where DataFusion would take the
/// first. The columns of `*` are not known here: see [`super::derived`].
///
/// # Errors
/// 1060 if a name is there twice.
pub(super) fn refuse_duplicates(query: &Query) -> Result<(), SqlError> {
    struct Duplicates;
    impl Look for Duplicates {
        fn query(&mut self, query: &Query) -> Result<(), SqlError> {
            let with = query.with.iter().flat_map(|with| &with.cte_tables);
            with.filter(|cte| cte.alias.columns.is_empty()).try_for_each(|cte| distinct_names(&cte.query.body))
        }

        fn table_factor(&mut self, factor: &TableFactor) -> Result<(), SqlError> {
            match factor {
                TableFactor::Derived { subquery, alias, .. } if alias.as_ref().is_none_or(|a| a.columns.is_empty()) => {
                    distinct_names(&subquery.body)
                }
                _ => Ok(()),
            }
        }
    }
    walk::look(query, &mut Duplicates)
}

/// Checks a query whose items are named.
fn distinct_names(body: &SetExpr) -> Result<(), SqlError> {
    let select = match body {
        SetExpr::Select(select) => select,
        SetExpr::Query(query) => return distinct_names(&query.body),
        SetExpr::SetOperation { left, .. } => return distinct_names(left),
        _ => return Ok(()),
    };
    let names = select.projection.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) => own_name(expr).map(|name| name.value.as_str()),
        SelectItem::ExprWithAlias { alias, .. } => Some(visible(&alias.value)),
        _ => None,
    });
    duplicate_name(names).map_or(Ok(()), Err)
}

/// Returns the error of the first name that repeats an earlier one.
pub(super) fn duplicate_name<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<SqlError> {
    let mut seen = HashSet::new();
    let name = names.find(|name| !seen.insert(name.to_lowercase()))?;
    Some(SqlError {
        code: 1060,
        sqlstate: "42S21",
        message: format!("Duplicate column name '{name}'; give it another by AS"),
        position: None,
    })
}

fn first_select(body: &mut SetExpr) -> Option<&mut Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => first_select(query.body.as_mut()),
        SetExpr::SetOperation { left, .. } => first_select(left),
        _ => None,
    }
}

fn is_variable(ident: &Ident) -> bool {
    ident.quote_style.is_none() && ident.value.starts_with('@')
}

/// Returns the query whose items name the columns of all.
fn leading_select(body: &SetExpr) -> Option<&Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => leading_select(&query.body),
        SetExpr::SetOperation { left, .. } => leading_select(left),
        _ => None,
    }
}

/// Returns the column name that an expression has by itself.
pub(super) fn own_name(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Identifier(ident) if !is_variable(ident) => Some(ident),
        Expr::CompoundIdentifier(idents) if !idents.first().is_some_and(is_variable) => idents.last(),
        Expr::Nested(inner) => own_name(inner),
        _ => None,
    }
}

/// Returns the names by which the columns of FROM can be qualified, in lower case.
fn table_names(from: &[TableWithJoins]) -> HashSet<String> {
    let mut open: Vec<&TableWithJoins> = from.iter().collect();
    let mut names = HashSet::new();
    while let Some(tables) = open.pop() {
        let joined = tables.joins.iter().map(|join| &join.relation);
        for factor in std::iter::once(&tables.relation).chain(joined) {
            match factor {
                TableFactor::NestedJoin { table_with_joins, .. } => open.push(table_with_joins),
                factor => names.extend(tables::visible_name(factor).map(|name| name.value.to_lowercase())),
            }
        }
    }
    names
}

/// Returns the last name of a path if it means a field of a column, not a column. `tables`: the names of [`table_names`].
fn field_name(expr: &Expr, tables: &HashSet<String>) -> Option<Ident> {
    let parts = match expr {
        Expr::Nested(inner) => return field_name(inner, tables),
        Expr::CompoundIdentifier(parts) if !parts.first().is_some_and(is_variable) => parts,
        _ => return None,
    };
    // A table can be qualified by its database and catalog.
    let table = parts.iter().take(3).position(|part| tables.contains(&part.value.to_lowercase()));
    let column = table.map_or(0, |at| at + 1);
    (column + 1 < parts.len()).then(|| parts.last().cloned()).flatten()
}

fn name_select(
    select: &mut Select,
    items: &HashMap<Location, Vec<String>>,
    names: &Names,
    is_derived: bool,
) -> Vec<Header> {
    let texts = items.get(&select.select_token.0.span.start).filter(|t| t.len() == select.projection.len());
    let has_wildcard = !is_derived
        && select.projection.iter().any(|i| matches!(i, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)));
    let mut seen: HashMap<String, Vec<Option<String>>> = HashMap::new();
    let tables = table_names(&select.from);
    let mut headers = Vec::with_capacity(select.projection.len());
    for (i, item) in select.projection.iter_mut().enumerate() {
        let taken = std::mem::replace(item, SelectItem::UnnamedExpr(Expr::value(Value::Null)));
        *item = match taken {
            // The planner would name a field by its whole path.
            SelectItem::UnnamedExpr(expr) if let Some(field) = field_name(&expr, &tables) => {
                headers.push(Header::Text(field.value.clone()));
                let alias = unique(&mut seen, field.value, i, has_wildcard, names);
                SelectItem::ExprWithAlias { expr, alias }
            }
            SelectItem::UnnamedExpr(expr) => {
                let own = own_name(&expr).cloned();
                match own {
                    Some(ident) => {
                        headers.push(Header::Text(ident.value.clone()));
                        let key = ident.value.to_lowercase();
                        // The planner does not know the database of a table in FROM.
                        let qualifier = match &expr {
                            Expr::CompoundIdentifier(parts) => {
                                parts.iter().nth_back(1).map(|table| table.value.to_lowercase())
                            }
                            _ => None,
                        };
                        let in_items = has_wildcard && names.may_be_shown(&key);
                        let before = seen.entry(key).or_default();
                        // Columns of two tables are told apart by their qualifiers.
                        let is_same =
                            |other: &Option<String>| other.is_none() || qualifier.is_none() || *other == qualifier;
                        let clash = before.iter().any(is_same) || in_items;
                        before.push(qualifier);
                        if clash {
                            let alias = Ident::with_quote('"', format!("{}{MARK}{i}", ident.value));
                            SelectItem::ExprWithAlias { expr, alias }
                        } else {
                            SelectItem::UnnamedExpr(expr)
                        }
                    }
                    None => {
                        let text = texts.and_then(|t| t.get(i).cloned()).unwrap_or_else(|| expr.to_string());
                        headers.push(Header::Text(text.clone()));
                        let alias = unique(&mut seen, text, i, has_wildcard, names);
                        SelectItem::ExprWithAlias { expr, alias }
                    }
                }
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                headers.push(Header::Text(visible(&alias.value).to_string()));
                let alias = if alias.value.contains(MARK) {
                    alias
                } else {
                    unique(&mut seen, alias.value, i, has_wildcard, names)
                };
                SelectItem::ExprWithAlias { expr, alias }
            }
            wildcard => {
                headers.push(Header::Wildcard);
                wildcard
            }
        };
    }
    headers
}

fn unique(
    seen: &mut HashMap<String, Vec<Option<String>>>,
    name: String,
    i: usize,
    has_wildcard: bool,
    names: &Names,
) -> Ident {
    let key = name.to_lowercase();
    let clash = seen.contains_key(&key) || (has_wildcard && names.may_be_shown(&key));
    seen.entry(key).or_default().push(None);
    Ident::with_quote('"', if clash { format!("{name}{MARK}{i}") } else { name })
}

/// Replaces every spelling by the canonical one, and table names by those that the engine gave.
///
/// # Errors
/// 1054 if a column is qualified by a database that its table is not in.
pub(super) fn resolve(query: &mut Query, names: &Names, found: &Tables, ansi_quotes: bool) -> Result<(), SqlError> {
    struct Resolve<'a> {
        names: &'a Names,
        found: std::slice::Iter<'a, Option<ResolvedTable>>,
        ctes: HashSet<String>,
        ansi_quotes: bool,
        /// The factors to wrap, innermost last: decided on entering a factor, used on leaving it.
        wraps: Vec<Option<Wrap>>,
    }
    struct Wrap {
        visible: Ident,
        columns: Vec<(String, String)>,
    }
    impl Change for Resolve<'_> {
        fn query(&mut self, query: &mut Query) -> Result<(), SqlError> {
            for cte in query.with.iter_mut().flat_map(|w| &mut w.cte_tables) {
                cte.alias.columns.iter_mut().for_each(|c| self.names.fix(&mut c.name));
            }
            Ok(())
        }

        fn select(&mut self, select: &mut Select) -> Result<(), SqlError> {
            for item in &mut select.projection {
                match item {
                    SelectItem::ExprWithAlias { alias, .. } => self.names.fix(alias),
                    SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => {
                        if let Some(except) = &mut options.opt_except {
                            self.names.fix(&mut except.first_element);
                            except.additional_elements.iter_mut().for_each(|i| self.names.fix(i));
                        }
                    }
                    _ => {}
                }
            }
            for join in select.from.iter_mut().flat_map(|f| &mut f.joins) {
                fix_using(&mut join.join_operator, self.names);
            }
            Ok(())
        }

        fn table_factor(&mut self, factor: &mut TableFactor) -> Result<(), SqlError> {
            if let TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } =
                factor
            {
                alias.columns.iter_mut().for_each(|c| self.names.fix(&mut c.name));
            }
            let mut wrap = None;
            if let Some(table) = tables::table_ref(factor, &self.ctes, self.ansi_quotes)
                && let Some(Some(resolved)) = self.found.next()
                && !matches!(table, TableRef::Named { maybe_cte: true, .. })
            {
                let visible = tables::visible_name(factor);
                if let Some(reference) = &resolved.reference {
                    tables::set_reference(factor, reference);
                }
                if resolved.columns.iter().any(|c| self.names.of(c) != c)
                    && let Some(visible) = visible
                {
                    let columns = resolved.columns.iter().map(|c| (c.clone(), self.names.of(c).to_string())).collect();
                    wrap = Some(Wrap { visible, columns });
                }
            }
            self.wraps.push(wrap);
            Ok(())
        }

        fn after_table_factor(&mut self, factor: &mut TableFactor) -> Result<(), SqlError> {
            if let Some(Some(wrap)) = self.wraps.pop() {
                let unnamed = tables::derived(tree::select(Vec::new(), Vec::new()), tree::alias(Ident::new("")));
                *factor = renamed(std::mem::replace(factor, unnamed), wrap.visible, &wrap.columns);
            }
            Ok(())
        }

        fn expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
            match expr {
                Expr::Identifier(ident) if !is_variable(ident) => self.names.fix(ident),
                Expr::CompoundIdentifier(idents) if !idents.first().is_some_and(is_variable) => {
                    if self.names.is_elsewhere(idents) {
                        let written: Vec<&str> = idents.iter().map(|ident| ident.value.as_str()).collect();
                        return Err(SqlError {
                            code: 1054,
                            sqlstate: "42S22",
                            message: format!("Unknown column '{}' in 'field list'", written.join(".")),
                            position: None,
                        });
                    }
                    self.names.fix_parts(idents);
                }
                _ => {}
            }
            Ok(())
        }
    }
    let ctes = tables::cte_names(query);
    let mut visitor = Resolve { names, found: found.found.iter(), ctes, ansi_quotes, wraps: Vec::new() };
    walk::change(query, &mut visitor)
}

fn fix_using(operator: &mut JoinOperator, names: &Names) {
    use JoinOperator as J;
    if let J::Join(c) | J::Inner(c) | J::Left(c) | J::LeftOuter(c) | J::Right(c) | J::RightOuter(c) | J::FullOuter(c) =
        operator
        && let JoinConstraint::Using(columns) = c
    {
        for column in columns {
            for part in &mut column.0 {
                if let ObjectNamePart::Identifier(ident) = part {
                    names.fix(ident);
                }
            }
        }
    }
}

/// Builds `(SELECT "ID" AS "id", ... FROM factor) AS visible`.
fn renamed(inner: TableFactor, visible: Ident, columns: &[(String, String)]) -> TableFactor {
    let projection = columns
        .iter()
        .map(|(from, to)| {
            let expr = Expr::Identifier(Ident::with_quote('"', from));
            if from == to {
                SelectItem::UnnamedExpr(expr)
            } else {
                SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', to) }
            }
        })
        .collect();
    let from = vec![TableWithJoins { relation: inner, joins: Vec::new() }];
    tables::derived(tree::select(projection, from), tree::alias(visible))
}
