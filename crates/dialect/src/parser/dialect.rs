//! The `sqlparser` dialect: MySQL's, with additions, and with constructs that MySQL's dialect of `sqlparser` reads
//! differently.
//!
//! `Dialect::dialect` returns MySQL's type, so that the checks inside `sqlparser` for `MySqlDialect` hold for this
//! dialect, too.

use std::any::TypeId;
use std::cell::Cell;

use sqlparser::ast::{
    BinaryOperator, CastKind, DataType, DateTimeField, Expr, Ident, Interval, ObjectName, Statement, TypedString,
    UnaryOperator, Value,
};
use sqlparser::dialect::{Dialect, MySqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Span, Token, Word};

use super::types::{UNSUPPORTED, parse_type};
use super::{ParseOptions, lambdas};
use crate::full_text;

/// The name under which a type of dipper's own travels through `sqlparser::ast::DataType::Custom`. Its only modifier is
/// the type's text, which [`super::parse_type`] reads back.
pub const TYPE_NAME: &str = "dipper_type";

/// MySQL's dialect with the session's `sql_mode`.
#[derive(Debug)]
pub(super) struct DipperDialect {
    options: ParseOptions,
    mysql: MySqlDialect,
    /// Whether the statement has `FOR VERSION AS OF` or `FOR TIMESTAMP AS OF`; if not, `AT` and `VERSION` may be
    /// aliases.
    versions: Cell<bool>,
    /// The number of operands that were read.
    operands: Cell<usize>,
}

/// The number of operands after which the parser checks whether the statement has ended.
const LOOK_AFTER: usize = 4096;

/// The parser's error for a statement that has ended, so that nobody waits for it.
pub(super) const GIVEN_UP: &str = "nobody waits for this statement any more";

impl DipperDialect {
    pub(super) fn new(options: ParseOptions) -> Self {
        DipperDialect { options, mysql: MySqlDialect {}, versions: Cell::new(false), operands: Cell::new(0) }
    }

    pub(super) fn ansi_quotes(&self) -> bool {
        self.options.ansi_quotes
    }

    pub(super) fn pipes_as_concat(&self) -> bool {
        self.options.pipes_as_concat
    }

    /// Allows table versions in this statement.
    pub(super) fn allow_versions(&self) {
        self.versions.set(true);
    }
}

/// The precedence of `||` where it joins text: above `^`.
const CONCATENATION: u8 = 42;

/// The precedence of the signs before an operand: above all operators between two operands.
const SIGN: u8 = 43;

fn is_word(token: &Token, text: &str) -> bool {
    matches!(token, Token::Word(Word { value, quote_style: None, .. }) if value.eq_ignore_ascii_case(text))
}

macro_rules! like_mysql {
    ($($name:ident),* $(,)?) => { $( fn $name(&self) -> bool { self.mysql.$name() } )* };
}

impl Dialect for DipperDialect {
    fn dialect(&self) -> TypeId {
        TypeId::of::<MySqlDialect>()
    }

    fn supports_table_versioning(&self) -> bool {
        self.versions.get()
    }

    like_mysql!(
        supports_string_literal_concatenation,
        ignores_wildcard_escapes,
        supports_numeric_prefix,
        supports_bitwise_shift_operators,
        require_interval_qualifier,
        supports_limit_comma,
        supports_insert_set,
        requires_single_line_comment_whitespace,
        supports_match_against,
        supports_select_modifiers,
        supports_cross_join_constraint,
        supports_double_ampersand_operator,
        supports_table_hints,
    );

    fn is_identifier_start(&self, ch: char) -> bool {
        self.mysql.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        self.mysql.is_identifier_part(ch)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '`' || (ch == '"' && self.options.ansi_quotes)
    }

    fn supports_string_literal_backslash_escape(&self) -> bool {
        !self.options.no_backslash_escapes
    }

    fn supports_bang_not_operator(&self) -> bool {
        true
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }

    fn supports_group_by_expr(&self) -> bool {
        true
    }

    fn supports_group_by_with_modifier(&self) -> bool {
        true
    }

    fn supports_select_wildcard_except(&self) -> bool {
        true
    }

    fn supports_window_clause_named_window_reference(&self) -> bool {
        true
    }

    // EXTRACT(YEAR_MONTH FROM x) and similar units.
    fn allow_extract_custom(&self) -> bool {
        true
    }

    // LAST_VALUE(x IGNORE NULLS), the spelling of StarRocks.
    fn supports_window_function_null_treatment_arg(&self) -> bool {
        true
    }

    fn supports_subquery_as_function_arg(&self) -> bool {
        true
    }

    fn is_table_factor_alias(&self, explicit: bool, kw: &Keyword, parser: &mut Parser) -> bool {
        self.mysql.is_table_factor_alias(explicit, kw, parser)
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        match &parser.peek_token_ref().token {
            // MySQL: XOR binds between AND and OR, not tighter than comparison.
            Token::Word(w) if w.keyword == Keyword::XOR => Some(Ok(self.prec_value(Precedence::Or) + 2)),
            Token::Word(w) if w.keyword == Keyword::DIV => Some(Ok(self.prec_value(Precedence::MulDivModOp))),
            token if is_word(token, "MOD") => Some(Ok(self.prec_value(Precedence::MulDivModOp))),
            // MySQL: `^` above `*`, `<<` below `+`, `&` below `<<`, `|` below `&`, all above comparison.
            Token::Caret => Some(Ok(self.prec_value(Precedence::AtTz))),
            // MySQL: binds to the column on its left.
            Token::Arrow | Token::LongArrow => Some(Ok(self.prec_value(Precedence::DoubleColon))),
            // MySQL: above `^` where it joins text.
            Token::StringConcat => Some(Ok(CONCATENATION)),
            _ if match_operator(parser).is_some() || is_sounds_like(parser) => {
                Some(Ok(self.prec_value(Precedence::Like)))
            }
            // Stands between key and value of a MAP.
            Token::Colon => Some(Ok(0)),
            Token::ShiftLeft | Token::ShiftRight => Some(Ok(25)),
            Token::Ampersand => Some(Ok(24)),
            Token::Pipe => Some(Ok(23)),
            _ => None,
        }
    }

    fn parse_infix(&self, parser: &mut Parser, expr: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
        if let Some(negated) = null_pattern(parser) {
            let (expr, pattern) = (Box::new(expr.clone()), Box::new(Expr::value(Value::Null)));
            return Some(Ok(Expr::RLike { negated, expr, pattern, regexp: true }));
        }
        if let Some(negated) = distinct_from(parser) {
            // `sqlparser` would read on to the end, through AND and OR.
            return Some(parser.parse_subexpr(precedence).map(|right| match negated {
                true => Expr::IsNotDistinctFrom(Box::new(expr.clone()), Box::new(right)),
                false => Expr::IsDistinctFrom(Box::new(expr.clone()), Box::new(right)),
            }));
        }
        if is_sounds_like(parser) {
            (0..2).for_each(|_| parser.advance_token());
            let sound = |expr| Box::new(crate::tree::call("soundex", vec![expr]));
            return Some(parser.parse_subexpr(precedence).map(|right| Expr::BinaryOp {
                left: sound(expr.clone()),
                op: BinaryOperator::Eq,
                right: sound(right),
            }));
        }
        if let Some((negated, function)) = match_operator(parser) {
            return Some(parse_match(parser, expr, precedence, negated, function));
        }
        let op = match &parser.peek_token_ref().token {
            Token::Word(w) if w.keyword == Keyword::DIV => BinaryOperator::MyIntegerDivide,
            token if is_word(token, "MOD") => BinaryOperator::Modulo,
            _ => return None,
        };
        parser.advance_token();
        Some(parser.parse_subexpr(precedence).map(|right| Expr::BinaryOp {
            left: Box::new(expr.clone()),
            op,
            right: Box::new(right),
        }))
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        self.operands.set(self.operands.get() + 1);
        if self.operands.get().is_multiple_of(LOOK_AFTER) && super::has_ended() {
            return Some(Err(ParserError::ParserError(GIVEN_UP.to_string())));
        }
        if lambdas::is_next(parser) {
            return Some(lambdas::parse(parser));
        }
        let next = &parser.peek_nth_token_ref(1).token;
        match &parser.peek_token_ref().token {
            Token::Word(w) if w.keyword == Keyword::CAST && *next == Token::LParen => Some(parse_cast(parser, false)),
            Token::Word(w) if w.keyword == Keyword::TRY_CAST && *next == Token::LParen => {
                Some(parse_cast(parser, true))
            }
            Token::Word(w) if w.keyword == Keyword::CONVERT && *next == Token::LParen => Some(parse_convert(parser)),
            // TRIM with a side but without a text to trim, which then is a blank.
            Token::Word(w)
                if w.keyword == Keyword::TRIM
                    && *next == Token::LParen
                    && is_word(&parser.peek_nth_token_ref(3).token, "FROM")
                    && SIDES.iter().any(|side| is_word(&parser.peek_nth_token_ref(2).token, side)) =>
            {
                Some(parse_trim_blanks(parser))
            }
            Token::Word(w)
                if w.keyword == Keyword::TRIM
                    && *next == Token::LParen
                    && !SIDES.iter().any(|side| is_word(&parser.peek_nth_token_ref(2).token, side)) =>
            {
                Some(parse_trim(parser))
            }
            // `sqlparser` lets signs apply to `^` and `*` as well, and `~` also to `+`.
            sign @ (Token::Minus | Token::Plus | Token::Tilde) => {
                let op = match sign {
                    Token::Minus => UnaryOperator::Minus,
                    Token::Plus => UnaryOperator::Plus,
                    _ => UnaryOperator::BitwiseNot,
                };
                parser.advance_token();
                Some(parser.parse_subexpr(SIGN).map(|expr| Expr::UnaryOp { op, expr: Box::new(expr) }))
            }
            // `sqlparser` lets it apply to comparisons as well, as NOT does.
            Token::ExclamationMark => {
                parser.advance_token();
                Some(
                    parser
                        .parse_subexpr(SIGN)
                        .map(|expr| Expr::UnaryOp { op: UnaryOperator::BangNot, expr: Box::new(expr) }),
                )
            }
            // The parentheses are those with which the expression is printed, for a definition that is read later.
            Token::Word(w)
                if w.keyword == Keyword::NOT && self.options.high_not_precedence && !is_word(next, "EXISTS") =>
            {
                parser.advance_token();
                Some(parser.parse_subexpr(SIGN).map(|expr| {
                    let not = Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expr) };
                    Expr::Nested(Box::new(not))
                }))
            }
            token if is_word(token, "CHAR") && *next == Token::LParen => Some(parse_char(parser)),
            // The key of ENCRYPTKEY.
            token
                if is_word(token, "KEY")
                    && matches!(next, Token::Word(_))
                    && parser.peek_nth_token_ref(2).token == Token::Period =>
            {
                let location = parser.peek_token_ref().span.start;
                let message = format!("{UNSUPPORTED}KEY is not supported: there are no encryption keys{location}");
                Some(Err(ParserError::ParserError(message)))
            }
            Token::LBrace if opens_literal(parser) => Some(parse_braces(parser)),
            // The spelling of a MAP in StarRocks.
            token if is_word(token, "MAP") && *next == Token::LBrace => {
                parser.advance_token();
                Some(parse_braces(parser))
            }
            // A character set introducer has no effect: text is UTF-8 here. Dumps write the values of BIT(1) as `_binary`
            // before one of the characters with the codes 0 and 1.
            Token::Word(Word { value, quote_style: None, .. })
                if value.starts_with('_')
                    && matches!(next, Token::SingleQuotedString(_) | Token::DoubleQuotedString(_))
                    && is_charset(&value[1..]) =>
            {
                let digits = match next {
                    Token::SingleQuotedString(text) if text == "\0" => Some("00"),
                    Token::SingleQuotedString(text) if text == "\u{1}" => Some("01"),
                    _ => None,
                };
                let bits = digits.filter(|_| value.eq_ignore_ascii_case("_binary"));
                parser.advance_token();
                Some(parser.parse_prefix().map(|text| match bits {
                    Some(digits) => Expr::value(Value::HexStringLiteral(digits.into())),
                    None => text,
                }))
            }
            // Doris's other names of DATE.
            token if (is_word(token, "DATEV2") || is_word(token, "DATEV1")) && is_text(next) => {
                parser.advance_token();
                Some(parser.parse_value().map(|value| {
                    let data_type = DataType::Date;
                    Expr::TypedString(TypedString { data_type, value, uses_odbc_syntax: false })
                }))
            }
            // `BINARY x` has no effect: comparison is binary anyway.
            Token::Word(w)
                if w.keyword == Keyword::BINARY
                    && !matches!(next, Token::LParen | Token::Comma | Token::EOF | Token::RParen) =>
            {
                parser.advance_token();
                Some(parser.parse_subexpr(self.prec_value(Precedence::DoubleColon)))
            }
            // `INTERVAL (a, b)` is a function; `INTERVAL x unit` takes units that `sqlparser` does not know.
            Token::Word(w)
                if w.keyword == Keyword::INTERVAL
                    && !matches!(next, Token::Comma | Token::EOF | Token::RParen | Token::Period | Token::Eq) =>
            {
                Some(parse_interval(parser))
            }
            _ => None,
        }
    }

    fn parse_statement(&self, _parser: &mut Parser) -> Option<Result<Statement, ParserError>> {
        None
    }
}

/// Reads `CHAR(a, b [USING charset])`; the character set has no effect, because text is UTF-8.
fn parse_char(parser: &mut Parser) -> Result<Expr, ParserError> {
    let name = parser.parse_identifier()?;
    parser.expect_token(&Token::LParen)?;
    let values = parser.parse_comma_separated(Parser::parse_expr)?;
    if parser.parse_keyword(Keyword::USING) {
        parser.parse_identifier()?;
    }
    parser.expect_token(&Token::RParen)?;
    Ok(crate::tree::call(&name.value, values))
}

/// Whether a brace opens a MAP or STRUCT, not `{d '2020-01-01'}`, `{fn now()}` or another escape of ODBC.
fn opens_literal(parser: &Parser) -> bool {
    let first = &parser.peek_nth_token_ref(1).token;
    let second = &parser.peek_nth_token_ref(2).token;
    let is_odbc = ["d", "t", "ts", "fn"].iter().any(|word| is_word(first, word));
    !is_odbc || matches!(second, Token::Colon | Token::Comma | Token::RBrace)
}

/// Reads `{k: v, ...}`, a MAP, or `{a, b, ...}`, a STRUCT, from the brace on.
fn parse_braces(parser: &mut Parser) -> Result<Expr, ParserError> {
    parser.expect_token(&Token::LBrace)?;
    let mut values = Vec::new();
    if parser.consume_token(&Token::RBrace) {
        return Ok(crate::tree::call("map", values));
    }
    let mut is_map = None;
    loop {
        values.push(parser.parse_expr()?);
        let colon = match is_map {
            None => *is_map.insert(parser.consume_token(&Token::Colon)),
            Some(false) => false,
            Some(true) => {
                parser.expect_token(&Token::Colon)?;
                true
            }
        };
        if colon {
            values.push(parser.parse_expr()?);
        }
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    parser.expect_token(&Token::RBrace)?;
    Ok(crate::tree::call(if is_map == Some(true) { "map" } else { "struct" }, values))
}

/// Returns Doris's operator of full-text search that is next: whether it is negated, and the function behind it.
fn match_operator(parser: &Parser) -> Option<(bool, &'static str)> {
    let negated = is_word(&parser.peek_token_ref().token, "NOT");
    let at = usize::from(negated);
    let token = &parser.peek_nth_token_ref(at).token;
    let (_, function) = full_text::OPERATORS.iter().find(|(word, _)| is_word(token, word))?;
    let asked = &parser.peek_nth_token_ref(at + 1).token;
    (is_text(asked) || matches!(asked, Token::Placeholder(_))).then_some((negated, *function))
}

/// Whether MySQL's `SOUNDS LIKE` is next.
fn is_sounds_like(parser: &Parser) -> bool {
    is_word(&parser.peek_token_ref().token, "SOUNDS") && is_word(&parser.peek_nth_token_ref(1).token, "LIKE")
}

/// Reads `column MATCH 'words'`, from the operator on. A cast of the column does not change its analyzer.
fn parse_match(
    parser: &mut Parser,
    expr: &Expr,
    precedence: u8,
    negated: bool,
    function: &str,
) -> Result<Expr, ParserError> {
    let mut column = expr;
    while let Expr::Cast { expr, .. } | Expr::Nested(expr) = column {
        column = expr;
    }
    let is_column = matches!(
        column,
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::CompoundFieldAccess { .. } | Expr::JsonAccess { .. }
    );
    if !is_column {
        let at = parser.peek_token_ref().span.start;
        let message = format!("{UNSUPPORTED}MATCH is not supported for other values than columns{at}");
        return Err(ParserError::ParserError(message));
    }
    (0..1 + usize::from(negated)).for_each(|_| parser.advance_token());
    let asked = parser.parse_subexpr(precedence)?;
    let call = crate::tree::call(function, vec![column.clone(), asked]);
    Ok(match negated {
        true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(call))) },
        false => call,
    })
}

fn is_text(token: &Token) -> bool {
    matches!(token, Token::SingleQuotedString(_) | Token::DoubleQuotedString(_))
}

fn is_charset(name: &str) -> bool {
    ["utf8mb4", "utf8", "utf8mb3", "latin1", "ascii", "binary", "gbk"].iter().any(|c| name.eq_ignore_ascii_case(c))
}

/// Reads a type of dipper's own into a `sqlparser` type that carries it.
pub(super) fn custom_type(parser: &mut Parser) -> Result<DataType, ParserError> {
    let parsed = parse_type(parser)?;
    let name = ObjectName::from(vec![Ident::with_span(Span::empty(), TYPE_NAME)]);
    Ok(DataType::Custom(name, vec![parsed.to_string()]))
}

/// Reads `INTERVAL value unit`, with MySQL's units that `sqlparser` does not know (QUARTER, HOUR_MINUTE and so on), or
/// the function `INTERVAL(x, a, b)`.
fn parse_interval(parser: &mut Parser) -> Result<Expr, ParserError> {
    parser.advance_token();
    // Operators are not read yet: they belong to the value of an interval, but come after the function.
    let mut value = match parser.parse_subexpr(u8::MAX)? {
        Expr::Tuple(args) => return Ok(crate::tree::call("interval", args)),
        value => value,
    };
    while let precedence @ 1.. = parser.get_next_precedence()? {
        value = parser.parse_infix(value, precedence)?;
    }
    let token = parser.peek_token_ref().clone();
    let Token::Word(Word { value: unit, quote_style: None, .. }) = &token.token else {
        return parser.expected("a unit such as DAY behind the value of INTERVAL", token);
    };
    let unit = unit.to_ascii_lowercase();
    let field = match unit.trim_end_matches('s') {
        "year" => DateTimeField::Year,
        "month" => DateTimeField::Month,
        "week" => DateTimeField::Week(None),
        "day" => DateTimeField::Day,
        "hour" => DateTimeField::Hour,
        "minute" => DateTimeField::Minute,
        "second" => DateTimeField::Second,
        _ if UNITS.contains(&unit.as_str()) => DateTimeField::Custom(Ident::new(unit)),
        _ => return parser.expected("a unit such as DAY behind the value of INTERVAL", token),
    };
    parser.advance_token();
    Ok(Expr::Interval(Interval {
        value: Box::new(value),
        leading_field: Some(field),
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    }))
}

/// Units besides the simple ones.
const UNITS: &[&str] = &[
    "quarter",
    // StarRocks' unit.
    "millisecond",
    "microsecond",
    "year_month",
    "day_hour",
    "day_minute",
    "day_second",
    "day_microsecond",
    "hour_minute",
    "hour_second",
    "hour_microsecond",
    "minute_second",
    "minute_microsecond",
    "second_microsecond",
];

/// Takes `IS DISTINCT FROM` or `IS NOT DISTINCT FROM`; returns which of them it was.
fn distinct_from(parser: &mut Parser) -> Option<bool> {
    let is = |parser: &Parser, at: usize, text: &str| is_word(&parser.peek_nth_token_ref(at).token, text);
    let negated = is(parser, 1, "NOT");
    let distinct = 1 + usize::from(negated);
    if !is(parser, 0, "IS") || !is(parser, distinct, "DISTINCT") || !is(parser, distinct + 1, "FROM") {
        return None;
    }
    (0..distinct + 2).for_each(|_| parser.advance_token());
    Some(negated)
}

/// Takes `REGEXP NULL` or `NOT REGEXP NULL`, whose NULL `sqlparser` drops; returns which of them it was.
fn null_pattern(parser: &mut Parser) -> Option<bool> {
    let negated = is_word(&parser.peek_token_ref().token, "NOT");
    let operator = usize::from(negated);
    let operator_token = &parser.peek_nth_token_ref(operator).token;
    if !(is_word(operator_token, "REGEXP") || is_word(operator_token, "RLIKE"))
        || !is_word(&parser.peek_nth_token_ref(operator + 1).token, "NULL")
    {
        return None;
    }
    (0..operator + 2).for_each(|_| parser.advance_token());
    Some(negated)
}

/// The sides that TRIM can trim.
const SIDES: &[&str] = &["BOTH", "LEADING", "TRAILING"];

/// Reads `TRIM(BOTH FROM x)`.
fn parse_trim_blanks(parser: &mut Parser) -> Result<Expr, ParserError> {
    parser.advance_token();
    parser.expect_token(&Token::LParen)?;
    let trim_where = Some(parser.parse_trim_where()?);
    parser.expect_keyword_is(Keyword::FROM)?;
    let expr = Box::new(parser.parse_expr()?);
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::Trim { expr, trim_where, trim_what: None, trim_characters: None })
}

/// Reads `TRIM(x)`, `TRIM(what FROM x)`, `TRIM(x, what)`.
fn parse_trim(parser: &mut Parser) -> Result<Expr, ParserError> {
    parser.advance_token();
    parser.expect_token(&Token::LParen)?;
    let mut expr = Box::new(parser.parse_expr()?);
    let mut trim_what = None;
    if parser.parse_keyword(Keyword::FROM) {
        trim_what = Some(expr);
        expr = Box::new(parser.parse_expr()?);
    } else if parser.consume_token(&Token::Comma) {
        trim_what = Some(Box::new(parser.parse_expr()?));
    }
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::Trim { expr, trim_where: None, trim_what, trim_characters: None })
}

fn parse_cast(parser: &mut Parser, try_cast: bool) -> Result<Expr, ParserError> {
    parser.advance_token();
    parser.expect_token(&Token::LParen)?;
    let expr = parser.parse_expr()?;
    parser.expect_keyword_is(Keyword::AS)?;
    let data_type = custom_type(parser)?;
    parser.expect_token(&Token::RParen)?;
    let kind = if try_cast { CastKind::TryCast } else { CastKind::Cast };
    Ok(Expr::Cast { kind, expr: Box::new(expr), data_type, array: false, format: None })
}

/// Reads `CONVERT(x, type)`, which is a cast, and `CONVERT(x USING charset)`, which is x, or for GBK the text that sorts
/// as x does in GBK.
fn parse_convert(parser: &mut Parser) -> Result<Expr, ParserError> {
    parser.advance_token();
    parser.expect_token(&Token::LParen)?;
    let expr = parser.parse_expr()?;
    if parser.parse_keyword(Keyword::USING) {
        let charset = parser.parse_identifier()?.value;
        parser.expect_token(&Token::RParen)?;
        return Ok(match charset.eq_ignore_ascii_case("gbk") {
            true => crate::tree::call("convert_to", vec![expr, Expr::value(Value::SingleQuotedString(charset))]),
            false => expr,
        });
    }
    parser.expect_token(&Token::Comma)?;
    let data_type = custom_type(parser)?;
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None })
}
