//! Text of XPath 1.0 to a tree. The grammar is that of the recommendation, sections 2 and 3.

/// Deepest nesting of an expression, so that its evaluation fits on the stack.
const DEPTH_MAX: usize = 64;

/// Relation between a node and those that a step reaches from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    Ancestor,
    AncestorOrSelf,
    Attribute,
    Child,
    Descendant,
    DescendantOrSelf,
    Following,
    FollowingSibling,
    Parent,
    Preceding,
    PrecedingSibling,
    Own,
}

/// The nodes of an axis that a step takes.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// `*`, or with a prefix `p:*`.
    Any(Option<String>),
    /// A name with its prefix.
    Name(Option<String>, String),
    /// `node()`.
    Node,
    /// `text()`.
    Text,
    /// `comment()`.
    Comment,
    /// `processing-instruction('target')`.
    Instruction(Option<String>),
}

/// A step of a path.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub axis: Axis,
    pub test: Test,
    pub predicates: Vec<Expr>,
}

/// The place at which a path begins.
#[derive(Debug, Clone, PartialEq)]
pub enum Start {
    /// The document.
    Root,
    /// The node for which the path is computed.
    Context,
    /// The nodes of an expression.
    Nodes(Box<Expr>),
}

/// An operator with two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Or,
    And,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Plus,
    Minus,
    Times,
    Divide,
    Modulo,
    Union,
}

/// A function of XPath's core library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    Last,
    Position,
    Count,
    LocalName,
    NamespaceUri,
    Name,
    String,
    Concat,
    StartsWith,
    Contains,
    SubstringBefore,
    SubstringAfter,
    Substring,
    StringLength,
    NormalizeSpace,
    Translate,
    Boolean,
    Not,
    True,
    False,
    Number,
    Sum,
    Floor,
    Ceiling,
    Round,
}

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    Text(String),
    Number(f64),
    Binary(Box<Expr>, Operator, Box<Expr>),
    Negative(Box<Expr>),
    Call(Function, Vec<Expr>),
    /// The nodes of an expression for which all predicates hold.
    Filter(Box<Expr>, Vec<Expr>),
    Path(Start, Vec<Step>),
}

/// Names of the functions, with the smallest and largest number of their arguments.
const FUNCTIONS: &[(&str, Function, usize, usize)] = &[
    ("last", Function::Last, 0, 0),
    ("position", Function::Position, 0, 0),
    ("count", Function::Count, 1, 1),
    ("local-name", Function::LocalName, 0, 1),
    ("namespace-uri", Function::NamespaceUri, 0, 1),
    ("name", Function::Name, 0, 1),
    ("string", Function::String, 0, 1),
    ("concat", Function::Concat, 2, usize::MAX),
    ("starts-with", Function::StartsWith, 2, 2),
    ("contains", Function::Contains, 2, 2),
    ("substring-before", Function::SubstringBefore, 2, 2),
    ("substring-after", Function::SubstringAfter, 2, 2),
    ("substring", Function::Substring, 2, 3),
    ("string-length", Function::StringLength, 0, 1),
    ("normalize-space", Function::NormalizeSpace, 0, 1),
    ("translate", Function::Translate, 3, 3),
    ("boolean", Function::Boolean, 1, 1),
    ("not", Function::Not, 1, 1),
    ("true", Function::True, 0, 0),
    ("false", Function::False, 0, 0),
    ("number", Function::Number, 0, 1),
    ("sum", Function::Sum, 1, 1),
    ("floor", Function::Floor, 1, 1),
    ("ceiling", Function::Ceiling, 1, 1),
    ("round", Function::Round, 1, 1),
];

const AXES: &[(&str, Axis)] = &[
    ("ancestor", Axis::Ancestor),
    ("ancestor-or-self", Axis::AncestorOrSelf),
    ("attribute", Axis::Attribute),
    ("child", Axis::Child),
    ("descendant", Axis::Descendant),
    ("descendant-or-self", Axis::DescendantOrSelf),
    ("following", Axis::Following),
    ("following-sibling", Axis::FollowingSibling),
    ("parent", Axis::Parent),
    ("preceding", Axis::Preceding),
    ("preceding-sibling", Axis::PrecedingSibling),
    ("self", Axis::Own),
];

/// Operators by how tightly they bind, the loosest first. Longer spellings come before their beginnings.
const LEVELS: &[&[(&str, Operator)]] = &[
    &[("or", Operator::Or)],
    &[("and", Operator::And)],
    &[("!=", Operator::Unequal), ("=", Operator::Equal)],
    &[("<=", Operator::LessOrEqual), (">=", Operator::GreaterOrEqual), ("<", Operator::Less), (">", Operator::Greater)],
    &[("+", Operator::Plus), ("-", Operator::Minus)],
    &[("*", Operator::Times), ("div", Operator::Divide), ("mod", Operator::Modulo)],
];

/// Parses an expression.
///
/// # Errors
/// What was expected at which byte, in words.
pub fn parse(text: &str) -> Result<Expr, String> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    let expr = parser.binary(0)?;
    parser.blanks();
    match parser.at == text.len() {
        true => Ok(expr),
        false => Err(parser.expected("the end or an operator")),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

fn begins_name(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '\u{b7}')
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    fn expected(&self, what: &str) -> String {
        let found: String = self.rest().chars().take(10).collect();
        match found.is_empty() {
            true => format!("expected {what} at its end"),
            false => format!("expected {what} before '{found}'"),
        }
    }

    /// Takes the characters if they come next, behind blanks.
    fn accept(&mut self, characters: &str) -> bool {
        self.blanks();
        let found = self.rest().starts_with(characters);
        self.at += if found { characters.len() } else { 0 };
        found
    }

    fn expect(&mut self, characters: &str) -> Result<(), String> {
        match self.accept(characters) {
            true => Ok(()),
            false => Err(self.expected(&format!("'{characters}'"))),
        }
    }

    /// Returns the length of the name without a colon that comes next.
    fn name_length(&self, from: usize) -> usize {
        let rest = &self.text[from..];
        match rest.chars().next() {
            Some(c) if begins_name(c) => rest.find(|c| !is_of_name(c)).unwrap_or(rest.len()),
            _ => 0,
        }
    }

    fn name(&mut self) -> Result<&'a str, String> {
        self.blanks();
        let length = self.name_length(self.at);
        if length == 0 {
            return Err(self.expected("a name"));
        }
        let name = &self.rest()[..length];
        self.at += length;
        Ok(name)
    }

    fn operator(&mut self, level: usize) -> Option<Operator> {
        self.blanks();
        let of_words = self.name_length(self.at);
        let (spelling, operator) = LEVELS[level].iter().find(|(spelling, _)| match of_words {
            0 => self.rest().starts_with(spelling),
            length => self.rest()[..length] == **spelling,
        })?;
        self.at += spelling.len();
        Some(*operator)
    }

    fn binary(&mut self, level: usize) -> Result<Expr, String> {
        if level == LEVELS.len() {
            return self.unary();
        }
        let mut left = self.binary(level + 1)?;
        let mut length = 0;
        while let Some(operator) = self.operator(level) {
            // A chain of operators is a tree as deep as it is long.
            length += 1;
            if length > DEPTH_MAX {
                return Err(format!("it is more than {DEPTH_MAX} operators deep"));
            }
            left = Expr::Binary(Box::new(left), operator, Box::new(self.binary(level + 1)?));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr, String> {
        let mut negative = false;
        while self.accept("-") {
            negative = !negative;
        }
        let mut nodes = self.path()?;
        let mut length = 0;
        while self.accept("|") {
            length += 1;
            if length > DEPTH_MAX {
                return Err(format!("it is more than {DEPTH_MAX} operators deep"));
            }
            nodes = Expr::Binary(Box::new(nodes), Operator::Union, Box::new(self.path()?));
        }
        Ok(if negative { Expr::Negative(Box::new(nodes)) } else { nodes })
    }

    fn path(&mut self) -> Result<Expr, String> {
        self.blanks();
        let start = match self.primary()? {
            Some(primary) => {
                let predicates = self.predicates()?;
                let filtered = match predicates.is_empty() {
                    true => primary,
                    false => Expr::Filter(Box::new(primary), predicates),
                };
                self.blanks();
                if !self.rest().starts_with('/') {
                    return Ok(filtered);
                }
                if matches!(filtered, Expr::Text(_) | Expr::Number(_)) {
                    return Err(self.expected("an operator"));
                }
                Start::Nodes(Box::new(filtered))
            }
            None if self.rest().starts_with('/') => Start::Root,
            None => Start::Context,
        };
        let mut steps = Vec::new();
        if start == Start::Context {
            steps.push(self.step()?);
        }
        loop {
            if self.accept("//") {
                steps.push(Step { axis: Axis::DescendantOrSelf, test: Test::Node, predicates: Vec::new() });
            } else if !self.accept("/") || start == Start::Root && steps.is_empty() && !self.begins_step() {
                break;
            }
            steps.push(self.step()?);
        }
        Ok(Expr::Path(start, steps))
    }

    fn begins_step(&mut self) -> bool {
        self.blanks();
        self.rest().starts_with(['.', '@', '*']) || self.name_length(self.at) > 0
    }

    /// Parses what is no path: a literal, a number, a call, an expression in parentheses.
    fn primary(&mut self) -> Result<Option<Expr>, String> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Err(self.expected("an expression")) };
        match first {
            '(' => {
                self.at += 1;
                let inner = self.nested()?;
                self.expect(")")?;
                Ok(Some(inner))
            }
            '"' | '\'' => {
                let Some(end) = rest[1..].find(first) else { return Err("a text has no closing quote".into()) };
                self.at += end + 2;
                Ok(Some(Expr::Text(rest[1..=end].to_string())))
            }
            '$' => Err("there are no variables".into()),
            c if c.is_ascii_digit() || c == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
                let Ok(number) = rest[..end].parse() else { return Err(self.expected("a number")) };
                self.at += end;
                Ok(Some(Expr::Number(number)))
            }
            _ => self.call(),
        }
    }

    fn nested(&mut self) -> Result<Expr, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("it is more than {DEPTH_MAX} expressions deep"));
        }
        let inner = self.binary(0)?;
        self.depth -= 1;
        Ok(inner)
    }

    /// Parses a call of a function; `None`, and nothing is taken, if a step comes next.
    fn call(&mut self) -> Result<Option<Expr>, String> {
        let length = self.name_length(self.at);
        let name = &self.rest()[..length];
        let is_call = self.rest()[length..].trim_start().starts_with('(');
        if !is_call || length == 0 || matches!(name, "node" | "text" | "comment" | "processing-instruction") {
            return Ok(None);
        }
        let Some((_, function, least, most)) = FUNCTIONS.iter().find(|(known, ..)| *known == name) else {
            return Err(format!("there is no function {name}()"));
        };
        self.at += length;
        self.expect("(")?;
        let mut arguments = Vec::new();
        if !self.accept(")") {
            loop {
                arguments.push(self.nested()?);
                if !self.accept(",") {
                    break;
                }
            }
            self.expect(")")?;
        }
        if arguments.len() < *least || arguments.len() > *most {
            return Err(format!("{name}() does not take {} arguments", arguments.len()));
        }
        Ok(Some(Expr::Call(*function, arguments)))
    }

    fn predicates(&mut self) -> Result<Vec<Expr>, String> {
        let mut predicates = Vec::new();
        while self.accept("[") {
            predicates.push(self.nested()?);
            self.expect("]")?;
        }
        Ok(predicates)
    }

    fn step(&mut self) -> Result<Step, String> {
        if self.accept("..") {
            return Ok(Step { axis: Axis::Parent, test: Test::Node, predicates: Vec::new() });
        }
        if self.accept(".") {
            return Ok(Step { axis: Axis::Own, test: Test::Node, predicates: Vec::new() });
        }
        let axis = match self.accept("@") {
            true => Axis::Attribute,
            false => {
                let length = self.name_length(self.at);
                match self.rest()[length..].trim_start().strip_prefix("::") {
                    Some(behind) if length > 0 => {
                        let name = &self.rest()[..length];
                        let Some((_, axis)) = AXES.iter().find(|(known, _)| *known == name) else {
                            return Err(format!("there is no axis {name}"));
                        };
                        self.at = self.text.len() - behind.len();
                        *axis
                    }
                    _ => Axis::Child,
                }
            }
        };
        let test = self.test()?;
        Ok(Step { axis, test, predicates: self.predicates()? })
    }

    fn test(&mut self) -> Result<Test, String> {
        if self.accept("*") {
            return Ok(Test::Any(None));
        }
        let name = self.name()?;
        if self.rest().starts_with(':') && !self.rest().starts_with("::") {
            self.at += 1;
            let prefix = Some(name.to_string());
            if self.rest().starts_with('*') {
                self.at += 1;
                return Ok(Test::Any(prefix));
            }
            return Ok(Test::Name(prefix, self.name()?.to_string()));
        }
        if !self.accept("(") {
            return Ok(Test::Name(None, name.to_string()));
        }
        let test = match name {
            "node" => Test::Node,
            "text" => Test::Text,
            "comment" => Test::Comment,
            "processing-instruction" => {
                self.blanks();
                let target = match self.rest().starts_with(['"', '\'']) {
                    true => self.primary()?,
                    false => None,
                };
                Test::Instruction(match target {
                    Some(Expr::Text(target)) => Some(target),
                    _ => None,
                })
            }
            _ => return Err(format!("there is no test {name}()")),
        };
        self.expect(")")?;
        Ok(test)
    }
}
