//! The value of an XPath 1.0 expression in a document.

use std::cmp::Ordering;

use roxmltree::{Attribute, Document, Node};

use super::parse::{Axis, Expr, Function, Operator, Start, Step, Test};

/// A node of the data model: attributes are nodes, too.
#[derive(Clone, Copy)]
enum Item<'a> {
    Node(Node<'a, 'a>),
    /// An attribute, its element, and its number there.
    Attribute(Node<'a, 'a>, usize, Attribute<'a, 'a>),
}

impl<'a> Item<'a> {
    /// Orders nodes as they stand in the document; attributes follow their element.
    fn place(&self) -> (u32, usize) {
        match self {
            Item::Node(node) => (node.id().get(), 0),
            Item::Attribute(owner, at, _) => (owner.id().get(), at + 1),
        }
    }

    fn text(&self) -> String {
        match self {
            Item::Attribute(_, _, attribute) => attribute.value().to_string(),
            Item::Node(node) if node.is_element() || node.is_root() => {
                node.descendants().filter(is_text).filter_map(|part| part.text()).collect()
            }
            Item::Node(node) => match node.pi() {
                Some(instruction) => instruction.value.unwrap_or_default().to_string(),
                None => node.text().unwrap_or_default().to_string(),
            },
        }
    }

    fn local_name(&self) -> &'a str {
        match self {
            Item::Attribute(_, _, attribute) => attribute.name(),
            Item::Node(node) => match node.pi() {
                Some(instruction) => instruction.target,
                None => node.tag_name().name(),
            },
        }
    }

    fn namespace(&self) -> Option<&'a str> {
        match self {
            Item::Attribute(_, _, attribute) => attribute.namespace(),
            Item::Node(node) => node.tag_name().namespace(),
        }
    }

    fn prefix(&self) -> Option<&'a str> {
        let (Item::Node(scope) | Item::Attribute(scope, ..)) = self;
        scope.lookup_prefix(self.namespace()?)
    }
}

/// Whether a node is a text. White space alone is none.
fn is_text(node: &Node) -> bool {
    node.is_text() && node.text().is_some_and(|text| !text.trim_matches([' ', '\t', '\n', '\r']).is_empty())
}

fn is_node(node: &Node) -> bool {
    !node.is_text() || is_text(node)
}

enum Value<'a> {
    /// In the order of the document, each node once.
    Nodes(Vec<Item<'a>>),
    Text(String),
    Number(f64),
    Boolean(bool),
}

/// The node for which an expression is computed, with its position among its like, from 1, and their number.
#[derive(Clone, Copy)]
struct Context<'a> {
    item: Item<'a>,
    position: usize,
    size: usize,
}

/// Returns the value of an expression as text: that of the first node for nodes.
///
/// # Errors
/// A sentence about an operand that must be nodes and is none.
pub fn text(expr: &Expr, document: &Document) -> Result<String, String> {
    let context = Context { item: Item::Node(document.root()), position: 1, size: 1 };
    Ok(value(expr, context)?.into_text())
}

fn number_of(text: &str) -> f64 {
    let text = text.trim_matches([' ', '\t', '\n', '\r']);
    let is_number = text.strip_prefix('-').unwrap_or(text).bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if is_number { text.parse().unwrap_or(f64::NAN) } else { f64::NAN }
}

impl<'a> Value<'a> {
    fn into_text(self) -> String {
        match self {
            Value::Nodes(nodes) => nodes.first().map(Item::text).unwrap_or_default(),
            Value::Text(text) => text,
            Value::Number(n) if n.is_nan() => "NaN".into(),
            Value::Number(n) if n.is_infinite() => (if n > 0.0 { "Infinity" } else { "-Infinity" }).to_string(),
            // Both zeros are 0.
            Value::Number(n) => (if n == 0.0 { 0.0 } else { n }).to_string(),
            Value::Boolean(b) => b.to_string(),
        }
    }

    fn into_number(self) -> f64 {
        match self {
            Value::Number(n) => n,
            Value::Boolean(b) => f64::from(u8::from(b)),
            other => number_of(&other.into_text()),
        }
    }

    fn is_true(&self) -> bool {
        match self {
            Value::Nodes(nodes) => !nodes.is_empty(),
            Value::Text(text) => !text.is_empty(),
            Value::Number(n) => *n != 0.0 && !n.is_nan(),
            Value::Boolean(b) => *b,
        }
    }

    fn into_nodes(self, what: &str) -> Result<Vec<Item<'a>>, String> {
        match self {
            Value::Nodes(nodes) => Ok(nodes),
            other => Err(format!("{what} needs nodes, found '{}'", other.into_text())),
        }
    }
}

fn value<'a>(expr: &Expr, context: Context<'a>) -> Result<Value<'a>, String> {
    Ok(match expr {
        Expr::Text(text) => Value::Text(text.clone()),
        Expr::Number(n) => Value::Number(*n),
        Expr::Negative(inner) => Value::Number(-value(inner, context)?.into_number()),
        Expr::Binary(left, operator, right) => binary(left, *operator, right, context)?,
        Expr::Call(function, arguments) => call(*function, arguments, context)?,
        Expr::Filter(inner, predicates) => {
            let mut nodes = value(inner, context)?.into_nodes("a predicate")?;
            for predicate in predicates {
                nodes = kept(nodes, predicate)?;
            }
            Value::Nodes(nodes)
        }
        Expr::Path(start, steps) => {
            let mut nodes = match start {
                Start::Context => vec![context.item],
                Start::Root => {
                    let (Item::Node(node) | Item::Attribute(node, ..)) = context.item;
                    vec![Item::Node(node.document().root())]
                }
                Start::Nodes(inner) => value(inner, context)?.into_nodes("a path")?,
            };
            for step in steps {
                let mut found = Vec::new();
                for node in nodes {
                    found.extend(reached(node, step)?);
                }
                nodes = in_order(found);
            }
            Value::Nodes(nodes)
        }
    })
}

fn in_order(mut nodes: Vec<Item<'_>>) -> Vec<Item<'_>> {
    nodes.sort_by_key(Item::place);
    nodes.dedup_by_key(|node| node.place());
    nodes
}

/// Returns the nodes for which a predicate holds; a number holds for the node with that position.
fn kept<'a>(nodes: Vec<Item<'a>>, predicate: &Expr) -> Result<Vec<Item<'a>>, String> {
    let size = nodes.len();
    let mut out = Vec::new();
    for (at, item) in nodes.into_iter().enumerate() {
        let holds = match value(predicate, Context { item, position: at + 1, size })? {
            Value::Number(n) => n == (at + 1) as f64,
            other => other.is_true(),
        };
        if holds {
            out.push(item);
        }
    }
    Ok(out)
}

/// Returns the nodes that a step reaches from a node. Positions count away from the node.
fn reached<'a>(from: Item<'a>, step: &Step) -> Result<Vec<Item<'a>>, String> {
    let mut nodes: Vec<Item<'a>> = along(from, step.axis).into_iter().filter(|item| passes(item, step)).collect();
    for predicate in &step.predicates {
        nodes = kept(nodes, predicate)?;
    }
    Ok(nodes)
}

fn along<'a>(from: Item<'a>, axis: Axis) -> Vec<Item<'a>> {
    let items = |nodes: &mut dyn Iterator<Item = Node<'a, 'a>>| -> Vec<Item<'a>> {
        nodes.filter(is_node).map(Item::Node).collect()
    };
    let node = match from {
        Item::Node(node) => node,
        Item::Attribute(owner, ..) => {
            return match axis {
                Axis::Own | Axis::DescendantOrSelf => vec![from],
                Axis::Parent => vec![Item::Node(owner)],
                Axis::Ancestor => items(&mut owner.ancestors()),
                Axis::AncestorOrSelf => std::iter::once(from).chain(owner.ancestors().map(Item::Node)).collect(),
                _ => Vec::new(),
            };
        }
    };
    match axis {
        Axis::Own => vec![from],
        Axis::Child => items(&mut node.children()),
        Axis::Parent => items(&mut node.parent().into_iter()),
        Axis::Ancestor => items(&mut node.ancestors().skip(1)),
        Axis::AncestorOrSelf => items(&mut node.ancestors()),
        Axis::Descendant => items(&mut node.descendants().skip(1)),
        Axis::DescendantOrSelf => items(&mut node.descendants()),
        Axis::FollowingSibling => items(&mut node.next_siblings().skip(1)),
        Axis::PrecedingSibling => items(&mut node.prev_siblings().skip(1)),
        Axis::Following => {
            let later = node.ancestors().flat_map(|up| up.next_siblings().skip(1)).flat_map(|n| n.descendants());
            items(&mut { later })
        }
        Axis::Preceding => {
            let earlier = node.ancestors().flat_map(|up| up.prev_siblings().skip(1));
            let mut items: Vec<Item> = items(&mut earlier.flat_map(|n| n.descendants()));
            items.sort_by_key(|item| std::cmp::Reverse(item.place()));
            items
        }
        Axis::Attribute => node.attributes().enumerate().map(|(at, a)| Item::Attribute(node, at, a)).collect(),
    }
}

fn passes(item: &Item, step: &Step) -> bool {
    // A name is that of an attribute on its axis, and that of an element on all others.
    let is_named = match item {
        Item::Attribute(..) => step.axis == Axis::Attribute,
        Item::Node(node) => node.is_element() && step.axis != Axis::Attribute,
    };
    let has_prefix = |prefix: &Option<String>| prefix.as_deref().is_none_or(|prefix| item.prefix() == Some(prefix));
    match &step.test {
        Test::Node => true,
        Test::Any(prefix) => is_named && has_prefix(prefix),
        Test::Name(prefix, name) => is_named && item.local_name() == name && has_prefix(prefix),
        Test::Text => matches!(item, Item::Node(node) if node.is_text()),
        Test::Comment => matches!(item, Item::Node(node) if node.is_comment()),
        Test::Instruction(target) => {
            let is_instruction = matches!(item, Item::Node(node) if node.is_pi());
            is_instruction && target.as_deref().is_none_or(|target| item.local_name() == target)
        }
    }
}

fn binary<'a>(left: &Expr, operator: Operator, right: &Expr, context: Context<'a>) -> Result<Value<'a>, String> {
    let left = value(left, context)?;
    if matches!(operator, Operator::Or | Operator::And) {
        let decided = operator == Operator::Or;
        let first = left.is_true();
        return Ok(Value::Boolean(if first == decided { first } else { value(right, context)?.is_true() }));
    }
    let right = value(right, context)?;
    Ok(match operator {
        Operator::Union => {
            let mut nodes = left.into_nodes("a union")?;
            nodes.extend(right.into_nodes("a union")?);
            Value::Nodes(in_order(nodes))
        }
        Operator::Plus => Value::Number(left.into_number() + right.into_number()),
        Operator::Minus => Value::Number(left.into_number() - right.into_number()),
        Operator::Times => Value::Number(left.into_number() * right.into_number()),
        Operator::Divide => Value::Number(left.into_number() / right.into_number()),
        Operator::Modulo => Value::Number(left.into_number() % right.into_number()),
        _ => Value::Boolean(compared(left, operator, right)),
    })
}

/// Compares two values; nodes compare if one of them does.
fn compared(left: Value, operator: Operator, right: Value) -> bool {
    match (left, right) {
        (Value::Boolean(b), other) => of_single(&Value::Boolean(b), operator, &Value::Boolean(other.is_true())),
        (other, Value::Boolean(b)) => of_single(&Value::Boolean(other.is_true()), operator, &Value::Boolean(b)),
        (Value::Nodes(nodes), other) => {
            let others: Vec<Value> = match other {
                Value::Nodes(others) => others.iter().map(|item| Value::Text(item.text())).collect(),
                single => vec![single],
            };
            nodes
                .iter()
                .map(|item| Value::Text(item.text()))
                .any(|item| others.iter().any(|other| of_single(&item, operator, other)))
        }
        (single, Value::Nodes(nodes)) => {
            nodes.iter().any(|item| of_single(&single, operator, &Value::Text(item.text())))
        }
        (left, right) => of_single(&left, operator, &right),
    }
}

fn of_single(left: &Value, operator: Operator, right: &Value) -> bool {
    let number = |value: &Value| match value {
        Value::Number(n) => *n,
        Value::Boolean(b) => f64::from(u8::from(*b)),
        Value::Text(text) => number_of(text),
        Value::Nodes(_) => f64::NAN,
    };
    // Texts are equal by their characters, and ordered as numbers.
    let equal = match (left, right) {
        (Value::Text(left), Value::Text(right)) => left == right,
        _ => number(left) == number(right),
    };
    let order = number(left).partial_cmp(&number(right));
    match operator {
        Operator::Equal => equal,
        Operator::Unequal => !equal,
        Operator::Less => order == Some(Ordering::Less),
        Operator::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        Operator::Greater => order == Some(Ordering::Greater),
        Operator::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        _ => false,
    }
}

fn call<'a>(function: Function, arguments: &[Expr], context: Context<'a>) -> Result<Value<'a>, String> {
    // Without an argument, the node itself is meant.
    let argument = |at: usize| match arguments.get(at) {
        Some(expr) => value(expr, context),
        None => Ok(Value::Nodes(vec![context.item])),
    };
    let text = |at: usize| argument(at).map(Value::into_text);
    let number = |at: usize| argument(at).map(Value::into_number);
    let first = |what: &str| Ok::<_, String>(argument(0)?.into_nodes(what)?.first().copied());
    Ok(match function {
        Function::Last => Value::Number(context.size as f64),
        Function::Position => Value::Number(context.position as f64),
        Function::Count => Value::Number(argument(0)?.into_nodes("count()")?.len() as f64),
        Function::LocalName => Value::Text(first("local-name()")?.map_or("", |item| item.local_name()).to_string()),
        Function::NamespaceUri => {
            Value::Text(first("namespace-uri()")?.and_then(|item| item.namespace()).unwrap_or("").to_string())
        }
        Function::Name => Value::Text(match first("name()")? {
            Some(item) => match item.prefix() {
                Some(prefix) => format!("{prefix}:{}", item.local_name()),
                None => item.local_name().to_string(),
            },
            None => String::new(),
        }),
        Function::String => Value::Text(text(0)?),
        Function::Concat => Value::Text((0..arguments.len()).map(text).collect::<Result<Vec<_>, _>>()?.concat()),
        Function::StartsWith => Value::Boolean(text(0)?.starts_with(&text(1)?)),
        Function::Contains => Value::Boolean(text(0)?.contains(&text(1)?)),
        Function::SubstringBefore => {
            Value::Text(text(0)?.split_once(&text(1)?).map_or("", |(before, _)| before).to_string())
        }
        Function::SubstringAfter => {
            Value::Text(text(0)?.split_once(&text(1)?).map_or("", |(_, after)| after).to_string())
        }
        Function::Substring => {
            let from = rounded(number(1)?);
            let to = if arguments.len() > 2 { from + rounded(number(2)?) } else { f64::INFINITY };
            let is_inside = |at: usize| (at + 1) as f64 >= from && ((at + 1) as f64) < to;
            Value::Text(text(0)?.chars().enumerate().filter(|(at, _)| is_inside(*at)).map(|(_, c)| c).collect())
        }
        Function::StringLength => Value::Number(text(0)?.chars().count() as f64),
        Function::NormalizeSpace => {
            let text = text(0)?;
            let words = text.split([' ', '\t', '\n', '\r']).filter(|word| !word.is_empty());
            Value::Text(words.collect::<Vec<_>>().join(" "))
        }
        Function::Translate => {
            let (from, to): (Vec<char>, Vec<char>) = (text(1)?.chars().collect(), text(2)?.chars().collect());
            let translated = |c: char| match from.iter().position(|known| *known == c) {
                Some(at) => to.get(at).copied(),
                None => Some(c),
            };
            Value::Text(text(0)?.chars().filter_map(translated).collect())
        }
        Function::Boolean => Value::Boolean(argument(0)?.is_true()),
        Function::Not => Value::Boolean(!argument(0)?.is_true()),
        Function::True => Value::Boolean(true),
        Function::False => Value::Boolean(false),
        Function::Number => Value::Number(number(0)?),
        Function::Sum => {
            let nodes = argument(0)?.into_nodes("sum()")?;
            Value::Number(nodes.iter().map(|item| number_of(&item.text())).sum())
        }
        Function::Floor => Value::Number(number(0)?.floor()),
        Function::Ceiling => Value::Number(number(0)?.ceil()),
        Function::Round => Value::Number(rounded(number(0)?)),
    })
}

/// Rounds to the nearest whole number, halves towards positive infinity.
fn rounded(n: f64) -> f64 {
    (n + 0.5).floor()
}
