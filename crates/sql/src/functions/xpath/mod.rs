//! XPATH_STRING: the value that an XPath 1.0 expression has in an XML document.
//!
//! `parse` turns the text of an expression into a tree, `eval` computes the tree over a document. Texts that consist of
//! white space alone are no nodes, as in Doris. Names of elements and attributes match without regard to namespaces,
//! unless the expression writes a prefix, which must be that of the document.

mod eval;
mod parse;

use arrow::array::ArrayRef;
use datafusion::common::{Result, exec_err};
use roxmltree::{Document, ParsingOptions};

use super::args::Args;
use super::func::{Def, Ret, def};

/// Functions of this file.
pub const DEFS: &[Def] = &[def("xpath_string", &[], (2, 2), Ret::Text, xpath_string)];

fn xpath_string(a: &Args) -> Result<ArrayRef> {
    let (documents, paths) = (a.text(0)?, a.text(1)?);
    let mut last: Option<(String, parse::Expr)> = None;
    let mut values = Vec::with_capacity(a.rows);
    for i in 0..a.rows {
        let (Some(xml), Some(path)) = (documents.at(i), paths.at(i)) else {
            values.push(None);
            continue;
        };
        if xml.is_empty() || path.is_empty() {
            values.push(None);
            continue;
        }
        if last.as_ref().is_none_or(|(text, _)| text != path) {
            match parse::parse(path) {
                Ok(expr) => last = Some((path.to_string(), expr)),
                Err(reason) => return exec_err!("{}: '{path}' is no XPath expression: {reason}", a.name),
            }
        }
        let Some((_, expr)) = &last else { continue };
        let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
        let document = match Document::parse_with_options(xml, options) {
            Ok(document) => document,
            Err(reason) => {
                let shown: String = xml.chars().take(40).collect();
                return exec_err!("{} failed to parse XML string '{shown}': {reason}", a.name);
            }
        };
        match eval::text(expr, &document) {
            Ok(text) => {
                a.made(text.len())?;
                values.push(Some(text));
            }
            Err(reason) => return exec_err!("{}: {path}: {reason}", a.name),
        }
    }
    a.texts(|i, out| {
        out.push_str(values[i].as_deref()?);
        Some(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(xml: &str, path: &str) -> String {
        let document = Document::parse(xml).unwrap();
        eval::text(&parse::parse(path).unwrap_or_else(|e| panic!("{path}: {e}")), &document).unwrap()
    }

    #[test]
    fn paths_select_nodes() {
        let shop = r#"<shop><!-- c --><item id="1" kind="a">Tea<price>2.5</price></item>
            <item id="2">Pen<price>9</price></item><x:box xmlns:x="u"><item id="3"/></x:box></shop>"#;
        for (path, expected) in [
            ("/shop/item", "Tea2.5"),
            ("/shop/item[2]", "Pen9"),
            ("/shop/item[last()]/text()", "Pen"),
            ("//item[@id='2']/price", "9"),
            ("//item[price=2.5]/@kind", "a"),
            ("//item[price > 3]/@id", "2"),
            ("//item[not(price)]/@id", "3"),
            ("/shop/*[1]/@*[1]", "1"),
            ("//price/..", "Tea2.5"),
            ("//price/parent::item/@id", "1"),
            ("//item[@id=3]/ancestor::shop/item[1]/@id", "1"),
            ("//item[1]/following-sibling::item/@id", "2"),
            ("//item[@id=2]/preceding-sibling::item[1]/@id", "1"),
            ("//item[@id=2]/following::item/@id", "3"),
            ("//item[@id=3]/preceding::item[1]/@id", "2"),
            ("(//item)[3]/@id", "3"),
            ("//item[3]/@id", ""),
            ("//x:box/item/@id", "3"),
            ("//y:box", ""),
            ("//box/item/@id", "3"),
            ("/shop/comment()", " c "),
            ("/shop/none", ""),
            ("//price | //item/@kind", "a"),
            ("descendant-or-self::node()/child::price", "2.5"),
            ("shop/item[position() = 2]/@id", "2"),
            ("/shop/item[price][@id][2]/@id", "2"),
            (".", "Tea2.5Pen9"),
        ] {
            assert_eq!(value(shop, path), expected, "{path}");
        }
    }

    #[test]
    fn expressions_have_values() {
        let list = "<l><n>1</n><n>2</n><n>3.5</n><s> a  b </s></l>";
        for (path, expected) in [
            ("count(//n)", "3"),
            ("sum(//n)", "6.5"),
            ("sum(//n) div 2 + 1 - -1 * 2", "6.25"),
            ("7 mod 4", "3"),
            ("-7 mod 4", "-3"),
            ("1 div 0", "Infinity"),
            ("-(1) div 0", "-Infinity"),
            ("number('x')", "NaN"),
            ("0 = -0", "true"),
            ("//n = 2", "true"),
            ("//n != 2", "true"),
            ("//n > 3 and //n < 2", "true"),
            ("//n = //s or false()", "false"),
            ("normalize-space(//s)", "a b"),
            ("concat('a', \"b\", 1)", "ab1"),
            ("substring('12345', 2, 3)", "234"),
            ("substring('12345', 1.5, 2.6)", "234"),
            ("substring('12345', 0 div 0, 3)", ""),
            ("substring('12345', -42, 1 div 0)", "12345"),
            ("substring('12345', 2)", "2345"),
            ("substring-before('1999/04', '/')", "1999"),
            ("substring-after('1999/04', '/')", "04"),
            ("string-length('äb')", "2"),
            ("translate('bar', 'abc', 'AB')", "BAr"),
            ("starts-with('abc', 'ab')", "true"),
            ("contains(//s, 'a')", "true"),
            ("round(2.5)", "3"),
            ("round(-2.5)", "-2"),
            ("floor(-2.5)", "-3"),
            ("ceiling(2.1)", "3"),
            ("name(/*)", "l"),
            ("local-name(//n[1])", "n"),
            ("boolean(//none)", "false"),
            ("string(//n[2])", "2"),
            ("0.5", "0.5"),
            ("1000000", "1000000"),
            ("div", ""),
            ("* ", "123.5 a  b "),
        ] {
            assert_eq!(value(list, path), expected, "{path}");
        }
    }

    #[test]
    fn what_is_no_expression_is_told() {
        for path in ["/a[", "a b", "//", "a[1", "no_such()", "count()", "a/'b'", "'a", "1 +", "@", "a::b", "$x", "!"] {
            assert!(parse::parse(path).is_err(), "{path}");
        }
        let deep = format!("{}1{}", "(".repeat(5000), ")".repeat(5000));
        assert!(parse::parse(&deep).unwrap_err().contains("deep"));
        let document = Document::parse("<a/>").unwrap();
        assert!(eval::text(&parse::parse("count('a')").unwrap(), &document).is_err());
    }
}
