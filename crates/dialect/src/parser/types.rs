//! Reading of type names in the spellings of Hive, Doris and MySQL.

use dipper_base::types::{SqlType, StateArgument, StateType};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, Word};

/// The deepest nesting of ARRAY, MAP and STRUCT; Doris allows 9.
const TYPE_DEPTH_MAX: usize = 32;

/// The precision and scale of a DECIMAL without arguments, as in Doris.
pub(super) const BARE_DECIMAL: (u64, u64) = (38, 9);

/// The precision and scale of a DECIMAL without arguments in Hive.
pub(super) const BARE_DECIMAL_OF_HIVE: (u64, u64) = (10, 0);

/// The prefix of messages about things that are known and not supported; it is removed where the errors get their
/// number.
pub(super) const UNSUPPORTED: &str = "Unsupported: ";

/// Reads one type at the parser's position.
pub(super) fn parse_type(parser: &mut Parser) -> Result<SqlType, ParserError> {
    parse_type_with(parser, BARE_DECIMAL)
}

/// Reads one type; `bare_decimal` is the precision and scale of a DECIMAL without arguments.
pub(super) fn parse_type_with(parser: &mut Parser, bare_decimal: (u64, u64)) -> Result<SqlType, ParserError> {
    let mut reader = TypeReader { parser, bare_decimal, pending_close: false };
    let t = reader.read(0)?;
    if reader.pending_close {
        return reader.fail("the end of the type", "one '>' too many");
    }
    Ok(t)
}

/// Reads the state of an aggregate function as StarRocks spells the type of a column: `max_by(INT, INT NOT NULL)`.
pub(super) fn parse_state(parser: &mut Parser) -> Result<SqlType, ParserError> {
    let mut reader = TypeReader { parser, bare_decimal: BARE_DECIMAL, pending_close: false };
    Ok(SqlType::AggState(reader.state(0)?))
}

struct TypeReader<'p, 'a> {
    parser: &'p mut Parser<'a>,
    bare_decimal: (u64, u64),
    /// Whether the second half of a `>>`, which is one token, is still to close a type.
    pending_close: bool,
}

impl TypeReader<'_, '_> {
    fn fail<T>(&self, expected: &str, found: &str) -> Result<T, ParserError> {
        let location = self.parser.peek_token_ref().span.start;
        Err(ParserError::ParserError(format!("Expected: {expected}, found: {found}{location}")))
    }

    fn found(&self) -> String {
        self.parser.peek_token_ref().token.to_string()
    }

    fn word(&mut self) -> Option<String> {
        match &self.parser.peek_token_ref().token {
            Token::Word(Word { value, quote_style: None, .. }) => {
                let value = value.to_ascii_uppercase();
                self.parser.advance_token();
                Some(value)
            }
            _ => None,
        }
    }

    fn accept(&mut self, word: &str) -> bool {
        let hit = matches!(&self.parser.peek_token_ref().token,
            Token::Word(Word { value, quote_style: None, .. }) if value.eq_ignore_ascii_case(word));
        if hit {
            self.parser.advance_token();
        }
        hit
    }

    fn close(&mut self) -> Result<(), ParserError> {
        if self.pending_close {
            self.pending_close = false;
            return Ok(());
        }
        if self.parser.consume_token(&Token::Gt) {
            return Ok(());
        }
        if self.parser.consume_token(&Token::ShiftRight) {
            self.pending_close = true;
            return Ok(());
        }
        let found = self.found();
        self.fail("'>'", &found)
    }

    /// Reads `(n[, m])` or nothing.
    fn numbers(&mut self) -> Result<Vec<u64>, ParserError> {
        let mut out = Vec::new();
        if self.parser.consume_token(&Token::LParen) {
            loop {
                if self.parser.consume_token(&Token::Mul) {
                    // varchar(*) has no limit.
                } else {
                    out.push(self.parser.parse_literal_uint()?);
                }
                if !self.parser.consume_token(&Token::Comma) {
                    break;
                }
            }
            self.parser.expect_token(&Token::RParen)?;
        }
        Ok(out)
    }

    /// Skips `CHARACTER SET x`, `CHARSET x`, `COLLATE x`: text is UTF-8 and comparison binary.
    fn charset(&mut self) -> Result<(), ParserError> {
        loop {
            if self.accept("CHARACTER") {
                if !self.accept("SET") {
                    let found = self.found();
                    return self.fail("SET", &found);
                }
            } else if !self.accept("CHARSET") && !self.accept("COLLATE") {
                return Ok(());
            }
            self.parser.parse_identifier()?;
        }
    }

    fn integer(&mut self, signed: SqlType, wider: SqlType) -> Result<SqlType, ParserError> {
        self.numbers()?;
        let unsigned = self.accept("UNSIGNED");
        let _ = self.accept("SIGNED") || self.accept("ZEROFILL");
        Ok(if unsigned { wider } else { signed })
    }

    fn scale(&mut self) -> Result<u8, ParserError> {
        let location = self.parser.peek_token_ref().span.start;
        match self.numbers()?.as_slice() {
            [] => Ok(0),
            [p @ 0..=6] => Ok(*p as u8),
            _ => Err(ParserError::ParserError(format!("Expected: a precision from 0 to 6{location}"))),
        }
    }

    fn decimal(&mut self) -> Result<SqlType, ParserError> {
        let location = self.parser.peek_token_ref().span.start;
        let (p, s) = match self.numbers()?.as_slice() {
            [] => self.bare_decimal,
            [p] => (*p, 0),
            [p, s] => (*p, *s),
            _ => (0, 0),
        };
        let _ = self.accept("UNSIGNED");
        if p == 0 || p > 76 || s > p {
            return Err(ParserError::ParserError(format!(
                "Expected: decimal(p, s) with p from 1 to 76 and s from 0 to p{location}"
            )));
        }
        Ok(SqlType::Decimal(p as u8, s as i8))
    }

    /// Reads StarRocks's spelling of a DECIMAL of a width, with at most `widest` digits; `scale` is that of a DECIMAL
    /// without arguments.
    fn decimal_of(&mut self, widest: u64, scale: u64) -> Result<SqlType, ParserError> {
        let location = self.parser.peek_token_ref().span.start;
        let (p, s) = match self.numbers()?.as_slice() {
            [] => (widest, scale),
            [p] => (*p, scale.min(*p)),
            [p, s] => (*p, *s),
            _ => (0, 0),
        };
        if p == 0 || p > widest || s > p {
            return Err(ParserError::ParserError(format!(
                "Expected: (p, s) with p from 1 to {widest} and s from 0 to p behind this type{location}"
            )));
        }
        Ok(SqlType::Decimal(p as u8, s as i8))
    }

    /// Skips `<'a.b': int, MATCH_NAME_GLOB 'x*': string COMMENT 'c', PROPERTIES ('k' = 'v')>` after VARIANT: a document
    /// is stored whole.
    fn variant_paths(&mut self) -> Result<(), ParserError> {
        if !self.parser.consume_token(&Token::Lt) {
            return Ok(());
        }
        loop {
            if self.accept("PROPERTIES") {
                self.parser.expect_token(&Token::LParen)?;
                loop {
                    self.parser.parse_literal_string()?;
                    self.parser.expect_token(&Token::Eq)?;
                    self.parser.parse_literal_string()?;
                    if !self.parser.consume_token(&Token::Comma) {
                        break;
                    }
                }
                self.parser.expect_token(&Token::RParen)?;
            } else {
                let _ = self.accept("MATCH_NAME_GLOB") || self.accept("MATCH_NAME");
                self.parser.parse_literal_string()?;
                self.parser.expect_token(&Token::Colon)?;
                self.read(1)?;
                if !self.pending_close && self.accept("COMMENT") {
                    self.parser.parse_literal_string()?;
                }
            }
            if self.pending_close || !self.parser.consume_token(&Token::Comma) {
                break;
            }
        }
        self.close()
    }

    /// Reads `function(type [NULL | NOT NULL], ...)`.
    fn state(&mut self, depth: usize) -> Result<StateType, ParserError> {
        let function = self.parser.parse_identifier()?.value.to_lowercase();
        self.parser.expect_token(&Token::LParen)?;
        let mut arguments = Vec::new();
        loop {
            let data_type = self.read(depth + 1)?;
            if self.pending_close {
                return self.fail("')'", "one '>' too many");
            }
            let not_null = self.accept("NOT");
            if !self.accept("NULL") && not_null {
                let found = self.found();
                return self.fail("NULL", &found);
            }
            arguments.push(StateArgument { data_type, nullable: !not_null });
            if !self.parser.consume_token(&Token::Comma) {
                break;
            }
        }
        self.parser.expect_token(&Token::RParen)?;
        Ok(StateType { function, arguments })
    }

    fn length(&mut self) -> Result<Option<u32>, ParserError> {
        let n = self.numbers()?.first().copied();
        self.charset()?;
        Ok(n.map(|n| u32::try_from(n).unwrap_or(u32::MAX)))
    }

    fn read(&mut self, depth: usize) -> Result<SqlType, ParserError> {
        if depth > TYPE_DEPTH_MAX {
            return self.fail(&format!("a type nested at most {TYPE_DEPTH_MAX} deep"), "a deeper one");
        }
        let location = self.parser.peek_token_ref().span.start;
        let Some(word) = self.word() else {
            let found = self.found();
            return self.fail("a type name", &found);
        };
        Ok(match word.as_str() {
            "BOOLEAN" | "BOOL" => SqlType::Boolean,
            "TINYINT" | "BYTE" => self.integer(SqlType::TinyInt, SqlType::SmallInt)?,
            "SMALLINT" | "SHORT" => self.integer(SqlType::SmallInt, SqlType::Int)?,
            "INT" | "INTEGER" | "MEDIUMINT" => self.integer(SqlType::Int, SqlType::BigInt)?,
            "BIGINT" | "LONG" => self.integer(SqlType::BigInt, SqlType::UnsignedBigInt)?,
            "SIGNED" => {
                let _ = self.accept("INTEGER") || self.accept("INT");
                SqlType::BigInt
            }
            "UNSIGNED" => {
                let _ = self.accept("INTEGER") || self.accept("INT");
                SqlType::UnsignedBigInt
            }
            "LARGEINT" => {
                self.numbers()?;
                SqlType::LargeInt
            }
            "FLOAT" => {
                self.numbers()?;
                let _ = self.accept("UNSIGNED");
                SqlType::Float
            }
            "DOUBLE" | "REAL" => {
                let _ = self.accept("PRECISION");
                self.numbers()?;
                let _ = self.accept("UNSIGNED");
                SqlType::Double
            }
            "DECIMAL" | "DEC" | "NUMERIC" | "NUMBER" | "FIXED" | "DECIMALV2" | "DECIMALV3" => self.decimal()?,
            "DECIMAL32" => self.decimal_of(9, 3)?,
            "DECIMAL64" => self.decimal_of(18, 6)?,
            "DECIMAL128" => self.decimal_of(38, 9)?,
            "DECIMAL256" => self.decimal_of(76, 10)?,
            "CHAR" | "CHARACTER" | "NCHAR" => SqlType::Char(self.length()?),
            "VARCHAR" | "NVARCHAR" => SqlType::Varchar(self.length()?),
            "STRING" | "TEXT" | "TINYTEXT" | "MEDIUMTEXT" | "LONGTEXT" | "CLOB" => {
                self.length()?;
                SqlType::String
            }
            "BINARY" | "VARBINARY" | "BLOB" | "TINYBLOB" | "MEDIUMBLOB" | "LONGBLOB" | "BYTES" => {
                self.numbers()?;
                SqlType::Binary
            }
            "DATE" | "DATEV1" | "DATEV2" => {
                // A width after DATE has no effect.
                self.numbers()?;
                SqlType::Date
            }
            "DATETIME" | "DATETIMEV1" | "DATETIMEV2" => SqlType::DateTime(self.scale()?),
            "TIMESTAMP" => {
                // Hive's TIMESTAMP has nanoseconds by definition; here it shows up to six digits.
                let p = self.scale()?;
                SqlType::DateTime(if p == 0 { 6 } else { p })
            }
            "TIME" => SqlType::Time(self.scale()?),
            "VARIANT" => {
                self.variant_paths()?;
                SqlType::Variant
            }
            "JSON" | "JSONB" => SqlType::Json,
            "HLL" | "BITMAP" | "QUANTILE_STATE" => {
                self.numbers()?;
                match word.as_str() {
                    "HLL" => SqlType::Hll,
                    "BITMAP" => SqlType::Bitmap,
                    _ => SqlType::QuantileState,
                }
            }
            "AGG_STATE" => {
                // Doris before 2.1.1 has no angle brackets.
                let has_brackets = self.parser.consume_token(&Token::Lt);
                let of = self.state(depth)?;
                if has_brackets {
                    self.close()?;
                }
                SqlType::AggState(of)
            }
            "IPV4" => SqlType::Ipv4,
            "IPV6" => SqlType::Ipv6,
            "ARRAY" => {
                self.parser.expect_token(&Token::Lt)?;
                let item = self.read(depth + 1)?;
                self.close()?;
                SqlType::Array(Box::new(item))
            }
            "MAP" => {
                self.parser.expect_token(&Token::Lt)?;
                let key = self.read(depth + 1)?;
                self.parser.expect_token(&Token::Comma)?;
                let value = self.read(depth + 1)?;
                self.close()?;
                SqlType::Map(Box::new(key), Box::new(value))
            }
            "STRUCT" => {
                self.parser.expect_token(&Token::Lt)?;
                let mut fields = Vec::new();
                loop {
                    let name = self.parser.parse_identifier()?.value;
                    let _ = self.parser.consume_token(&Token::Colon);
                    let t = self.read(depth + 1)?;
                    // After `>>` this struct is closed, too, and a comment belongs to the column.
                    let has_comment = !self.pending_close && self.accept("COMMENT");
                    let comment = if has_comment { Some(self.parser.parse_literal_string()?) } else { None };
                    fields.push((name, t, comment));
                    if self.pending_close || !self.parser.consume_token(&Token::Comma) {
                        break;
                    }
                }
                self.close()?;
                SqlType::Struct(fields)
            }
            other @ ("PERCENTILE" | "TIMESTAMPTZ" | "ENUM" | "SET" | "BIT" | "YEAR" | "GEOMETRY") => {
                return Err(ParserError::ParserError(format!("{UNSUPPORTED}type {other} is not supported{location}")));
            }
            other => {
                return Err(ParserError::ParserError(format!("Expected: a type name, found: {other}{location}")));
            }
        })
    }
}
