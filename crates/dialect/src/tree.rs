//! Small parts of query trees: functions that build them and read them.

use sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query, Select, SelectItem, SetExpr, TableAlias,
    TableWithJoins,
};

/// Builds a call `name(args)`.
pub fn call(name: &str, args: Vec<Expr>) -> Expr {
    Expr::Function(ast::Function {
        name: ast::ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args: args.into_iter().map(|e| FunctionArg::Unnamed(FunctionArgExpr::Expr(e))).collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Returns the lower-case name of a function that is called without a schema.
pub fn function_name(function: &ast::Function) -> Option<String> {
    match function.name.0.as_slice() {
        [part] => part.as_ident().map(|i| i.value.to_ascii_lowercase()),
        _ => None,
    }
}

/// Builds an alias without columns.
pub fn alias(name: Ident) -> TableAlias {
    TableAlias { explicit: true, name, columns: Vec::new(), at: None }
}

/// Builds `SELECT projection FROM from`.
pub fn select(projection: Vec<SelectItem>, from: Vec<TableWithJoins>) -> Query {
    let select = Select {
        select_token: ast::helpers::attached_token::AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection,
        exclude: None,
        into: None,
        from,
        lateral_views: Vec::new(),
        prewhere: None,
        selection: None,
        connect_by: Vec::new(),
        group_by: ast::GroupByExpr::Expressions(Vec::new(), Vec::new()),
        cluster_by: Vec::new(),
        distribute_by: Vec::new(),
        sort_by: Vec::new(),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: ast::SelectFlavor::Standard,
    };
    Query {
        with: None,
        body: Box::new(SetExpr::Select(Box::new(select))),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}
