//! Regular expressions, in the syntax of the `regex` crate, which is RE2's, as in Doris. A point matches line ends, too,
//! as in Doris, but for REGEXP_LIKE with match types, which is MySQL's.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use arrow::array::{ArrayRef, StringViewArray, StringViewBuilder};
use datafusion::common::{Result, exec_err};
use regex::{CaptureLocations, Regex, RegexBuilder};

use super::args::{Args, Col};
use super::func::{Def, Ret, def};
use super::search::{text_list, text_lists};
use super::string::char_count;

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("regexp", &["rlike"], (2, 2), Ret::Bool, |a| each(a, 1, |patterns| matches(a, patterns))),
    def("regexp_like", &[], (2, 3), Ret::Bool, |a| match a.has(2) {
        false => each(a, 1, |patterns| matches(a, patterns)),
        true => {
            let typed = Patterns { points_are_all: false, ..Patterns::new(typed_patterns(a)?) };
            with(a, typed, |patterns| matches(a, patterns))
        }
    }),
    def("regexp_extract", &[], (3, 3), Ret::Text, regexp_extract),
    def("regexp_extract_or_null", &[], (3, 3), Ret::Text, regexp_extract),
    def("regexp_extract_all", &[], (2, 2), Ret::Text, regexp_extract_all),
    def("regexp_replace", &[], (3, 4), Ret::Text, |a| regexp_replace(a, 0)),
    def("regexp_replace_one", &[], (3, 4), Ret::Text, |a| regexp_replace(a, 1)),
    def("split_by_regexp", &["regexp_split_to_array", "regexp_split"], (2, 3), Ret::By(text_list), split_by_regexp),
    def("regexp_count", &[], (2, 2), Ret::Int, |a| {
        let s = a.text(0)?;
        each(a, 1, |patterns| {
            a.ints(|i| {
                let pattern = patterns.at(i)?;
                // Empty matches do not count.
                Some(pattern.find_iter(s.at(i)?).filter(|found| !found.as_str().is_empty()).count() as i64)
            })
        })
    }),
    def("regexp_substr", &[], (2, 2), Ret::Text, |a| {
        let s = a.text(0)?;
        each(a, 1, |patterns| {
            a.texts(|i, out| {
                out.push_str(patterns.at(i)?.find(s.at(i)?)?.as_str());
                Some(())
            })
        })
    }),
    def("regexp_position", &[], (2, 4), Ret::Int, regexp_position),
    def("regexp_instr", &[], (2, 2), Ret::Int, |a| {
        let s = a.text(0)?;
        each(a, 1, |patterns| {
            a.ints(|i| {
                let s = s.at(i)?;
                let found = patterns.at(i)?.find(s);
                Some(found.map_or(0, |m| char_count(&s[..m.start()]) as i64 + 1))
            })
        })
    }),
];

/// Returns whether the texts of argument 0 match.
fn matches(a: &Args, patterns: &mut Patterns) -> Result<ArrayRef> {
    let s = a.text(0)?;
    a.bools(|i| {
        let pattern = patterns.at(i)?;
        Some(pattern.is_match(s.at(i)?))
    })
}

/// Returns the patterns of argument 1 with the flags that MySQL's match types in argument 2 mean: `c` and `i` with and
/// without regard to case, of which the last one counts; `m` lets `^` and `$` match at line ends, `n` a point match them;
/// `u`, only `\n` ends a line, is so anyway.
fn typed_patterns(a: &Args) -> Result<Col<StringViewArray>> {
    let (patterns, types) = (a.text(1)?, a.text(2)?);
    let one = patterns.one && types.one;
    let mut typed = StringViewBuilder::new();
    for i in 0..if one { 1 } else { a.rows } {
        let (Some(pattern), Some(types)) = (patterns.at(i), types.at(i)) else {
            typed.append_null();
            continue;
        };
        let (mut ignores_case, mut lines, mut points) = (false, false, false);
        for letter in types.chars() {
            match letter {
                'c' => ignores_case = false,
                'i' => ignores_case = true,
                'm' => lines = true,
                'n' => points = true,
                'u' => {}
                other => return exec_err!("{}: expected the match types c, i, m, n or u, found '{other}'", a.name),
            }
        }
        let flags: String =
            [(ignores_case, 'i'), (lines, 'm'), (points, 's')].iter().filter(|f| f.0).map(|f| f.1).collect();
        match flags.is_empty() {
            true => typed.append_value(pattern),
            false => typed.append_value(format!("(?{flags}){pattern}")),
        }
    }
    Ok(Col { array: typed.finish(), one })
}

/// `REGEXP_POSITION(text, pattern [, start [, occurrence]])`: the place of the first character of a match, counted from
/// 1, of those that begin at `start` or behind; -1 if there are not so many.
fn regexp_position(a: &Args) -> Result<ArrayRef> {
    let s = a.text(0)?;
    let start = a.has(2).then(|| a.int(2)).transpose()?;
    let occurrence = a.has(3).then(|| a.int(3)).transpose()?;
    each(a, 1, |patterns| {
        a.ints(|i| {
            let pattern = patterns.at(i)?;
            let s = s.at(i)?;
            let start = start.as_ref().map_or(Some(1), |start| start.at(i))?;
            let wanted = occurrence.as_ref().map_or(Some(1), |occurrence| occurrence.at(i))?;
            let from = usize::try_from(start).ok().and_then(|start| start.checked_sub(1));
            let nth = usize::try_from(wanted).ok().and_then(|wanted| wanted.checked_sub(1));
            let (Some(from), Some(nth)) = (from, nth) else { return Some(-1) };
            let Some(from) = s.char_indices().map(|(at, _)| at).chain([s.len()]).nth(from) else { return Some(-1) };
            let found = pattern.find_iter(&s[from..]).nth(nth);
            Some(found.map_or(-1, |found| char_count(&s[..from + found.start()]) as i64 + 1))
        })
    })
}

/// The compiled patterns of a column; a pattern is looked for only when its text differs from that of the row before.
struct Patterns {
    column: Col<StringViewArray>,
    last: Option<(String, Option<Rc<Regex>>)>,
    failure: Option<String>,
    /// Whether a point matches line ends, too.
    points_are_all: bool,
}

impl Patterns {
    fn new(column: Col<StringViewArray>) -> Self {
        Patterns { column, last: None, failure: None, points_are_all: true }
    }

    /// Returns the pattern of row `i`; `None` for NULL, and for a text that does not compile, whose error is kept as
    /// the call's error.
    fn at(&mut self, i: usize) -> Option<&Regex> {
        let text = self.column.at(i)?;
        if self.last.as_ref().is_none_or(|(last, _)| last != text) {
            let compiled = match compiled(text, self.points_are_all) {
                Ok(regex) => Some(regex),
                Err(e) => {
                    self.failure = Some(format!("'{text}' is no regular expression: {}", reason(&e)));
                    None
                }
            };
            self.last = Some((text.to_owned(), compiled));
        }
        self.last.as_ref()?.1.as_deref()
    }
}

/// Most compiled patterns that a thread keeps, and the size in bytes up to which one is kept.
const KEPT: usize = 4;
const KEPT_BYTES: usize = 256 << 10;

/// A pattern, whether a point in it matches line ends, and what it was compiled to.
type Compiled = (String, bool, Rc<Regex>);

thread_local! {
    /// The patterns that this thread used last, the latest first: a call has the rows of one batch, and compiling a
    /// pattern takes longer than matching it a thousand times.
    static COMPILED: RefCell<VecDeque<Compiled>> = const { RefCell::new(VecDeque::new()) };
}

/// Compiles a pattern, or returns it if this thread has compiled it lately.
fn compiled(text: &str, points_are_all: bool) -> std::result::Result<Rc<Regex>, regex::Error> {
    COMPILED.with_borrow_mut(|kept| {
        let found = kept.iter().position(|(known, all, _)| known == text && *all == points_are_all);
        let latest = match found.and_then(|at| kept.remove(at)) {
            Some(latest) => latest,
            None => {
                let mut builder = RegexBuilder::new(text);
                builder.dot_matches_new_line(points_are_all);
                let small = builder.clone().size_limit(KEPT_BYTES).build();
                if let Err(regex::Error::CompiledTooBig(_)) = small {
                    return builder.build().map(Rc::new);
                }
                (text.to_owned(), points_are_all, Rc::new(small?))
            }
        };
        let regex = Rc::clone(&latest.2);
        kept.push_front(latest);
        kept.truncate(KEPT);
        Ok(regex)
    })
}

/// Why a pattern is none, without the drawing of it. The error's number follows from these words (`node/src/error.rs`).
pub(super) fn reason(e: &regex::Error) -> String {
    let text = e.to_string();
    let last = text.lines().last().unwrap_or_default().trim();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

/// Runs `f` with the patterns of argument `k`; a bad pattern fails the call.
fn each(a: &Args, k: usize, f: impl FnOnce(&mut Patterns) -> Result<ArrayRef>) -> Result<ArrayRef> {
    with(a, Patterns::new(a.text(k)?), f)
}

fn with(a: &Args, mut patterns: Patterns, f: impl FnOnce(&mut Patterns) -> Result<ArrayRef>) -> Result<ArrayRef> {
    let out = f(&mut patterns)?;
    match patterns.failure {
        Some(failure) => exec_err!("{}: {failure}", a.name),
        None => Ok(out),
    }
}

/// Returns group `n` of the first match; without a match the empty text, or NULL in the `_or_null` form.
fn regexp_extract(a: &Args) -> Result<ArrayRef> {
    let (s, group) = (a.text(0)?, a.int(2)?);
    let or_null = a.name.ends_with("_or_null");
    each(a, 1, |patterns| {
        a.texts(|i, out| {
            let (s, group, pattern) = (s.at(i)?, group.at(i)?, patterns.at(i)?);
            let found = usize::try_from(group).ok().and_then(|g| pattern.captures(s)?.get(g));
            match found {
                Some(m) => out.push_str(m.as_str()),
                None if or_null => return None,
                None => {}
            }
            Some(())
        })
    })
}

/// Returns the first group of every match as `['a','b']`, the text that Doris returns.
fn regexp_extract_all(a: &Args) -> Result<ArrayRef> {
    let s = a.text(0)?;
    each(a, 1, |patterns| {
        a.texts(|i, out| {
            let (s, pattern) = (s.at(i)?, patterns.at(i)?);
            let groups: Vec<&str> = pattern.captures_iter(s).filter_map(|c| c.get(1)).map(|m| m.as_str()).collect();
            let groups: Vec<&str> = groups.into_iter().filter(|group| !group.is_empty()).collect();
            if groups.is_empty() {
                return Some(());
            }
            out.push_str("['");
            out.push_str(&groups.join("','"));
            out.push_str("']");
            Some(())
        })
    })
}

/// Translates `\1` to the crate's `${1}`; `$` has no special meaning in the text.
fn replacement(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '$' => out.push_str("$$"),
            '\\' => match chars.next() {
                Some(d @ '0'..='9') => out.extend(["${", d.encode_utf8(&mut [0; 4]), "}"]),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            c => out.push(c),
        }
    }
    out
}

/// Checks the options of a replacement. The only known one says that an invalid escape stands for itself, which holds
/// here anyway.
fn check_options(a: &Args, k: usize) -> Result<()> {
    let options = a.text(k)?;
    match options.array.iter().flatten().find(|option| !option.eq_ignore_ascii_case("ignore_invalid_escape")) {
        Some(other) => exec_err!("{}: expected the option IGNORE_INVALID_ESCAPE, found '{other}'", a.name),
        None => Ok(()),
    }
}

/// `SPLIT_BY_REGEXP(text, pattern [, count])`: the parts between the matches, at most `count` of them. An empty match
/// ends the search; an empty pattern splits into characters.
fn split_by_regexp(a: &Args) -> Result<ArrayRef> {
    let s = a.text(0)?;
    let count = a.has(2).then(|| a.int(2)).transpose()?;
    with(a, Patterns::new(a.text(1)?), |patterns| {
        text_lists(a, |i, out| {
            let (s, pattern) = (s.at(i)?, patterns.at(i)?);
            let count = match &count {
                Some(count) => usize::try_from(count.at(i)?).ok().filter(|count| *count > 0).unwrap_or(usize::MAX),
                None => usize::MAX,
            };
            let (mut rest, mut parts) = (s, 1);
            if pattern.as_str().is_empty() {
                while let Some(first) = rest.chars().next() {
                    let (part, behind) = rest.split_at(if parts < count { first.len_utf8() } else { rest.len() });
                    out.append_value(part);
                    (rest, parts) = (behind, parts + 1);
                }
                return Some(());
            }
            while parts < count
                && let Some(found) = pattern.find(rest)
                && !found.is_empty()
            {
                out.append_value(&rest[..found.start()]);
                (rest, parts) = (&rest[found.end()..], parts + 1);
            }
            out.append_value(rest);
            Some(())
        })
    })
}

/// Size up to which a result's length is not computed in advance.
const SURELY_SHORT: usize = 1 << 20;

fn regexp_replace(a: &Args, limit: usize) -> Result<ArrayRef> {
    let (s, with) = (a.text(0)?, a.text(2)?);
    let options = a.has(3).then(|| check_options(a, 3).and_then(|()| a.text(3))).transpose()?;
    each(a, 1, |patterns| {
        let constant = if with.one { with.at(0).map(replacement) } else { None };
        let start = match (patterns.column.one, &constant) {
            (true, Some(with)) => patterns.column.at(0).and_then(|pattern| Start::of(pattern, with)),
            _ => None,
        };
        let mut known = start.as_ref().map(Known::new);
        a.texts(|i, out| {
            let (s, text) = (s.at(i)?, with.at(i)?);
            if let Some(options) = &options {
                options.at(i)?;
            }
            if let (Some(start), Some(known)) = (&start, &mut known) {
                start.replace(known, s, out);
                return Some(());
            }
            let pattern = patterns.at(i)?;
            let with = constant.clone().unwrap_or_else(|| replacement(text));
            // The upper bound of the length; if that is much, the exact length.
            let longest = |times: usize| s.len() * (1 + with.matches('$').count()) + times.saturating_mul(with.len());
            if longest(s.len() + 1) > SURELY_SHORT {
                a.ask(longest(pattern.find_iter(s).count()))?;
            }
            out.push_str(&pattern.replacen(s, limit, with.as_str()));
            Some(())
        })
    })
}

/// A pattern `^P.*$` whose match is replaced by pieces of the groups of `P`.
///
/// `.*$` matches everything after a match of `P`, so it need not be searched: the whole text is replaced if `P` is found,
/// and the groups are those of `P` alone. The cost of finding them depends only on the length of the match of `P`.
struct Start {
    pattern: Rc<Regex>,
    pieces: Vec<Piece>,
    /// `P` looks at nothing beside the text that it matches. Then its groups follow from that text: of the ways to match
    /// `P` the first possible one is taken, and for two texts with the same match the same ways are possible.
    by_match: bool,
}

/// What matches were replaced by. To find where a match ends takes a fraction of the time to find its groups.
struct Known {
    places: CaptureLocations,
    replaced: HashMap<String, String>,
    hits: usize,
}

/// Matches after which their replacements are no longer looked for if that was mostly in vain, the most of them that are
/// kept, and the longest match in bytes that is.
const TRIED: usize = 256;
const REPLACED_MAX: usize = 4096;
const MATCH_MAX: usize = 128;

impl Known {
    fn new(start: &Start) -> Self {
        Known { places: start.pattern.capture_locations(), replaced: HashMap::new(), hits: 0 }
    }

    fn is_useful(&self) -> bool {
        self.replaced.len() < TRIED || self.hits > self.replaced.len()
    }
}

enum Piece {
    Text(String),
    Group(usize),
}

impl Start {
    /// Recognizes pattern and replacement (in the crate's spelling, see [`replacement`]); `None` if they have another
    /// form.
    fn of(pattern: &str, with: &str) -> Option<Self> {
        let start = pattern.strip_suffix(".*$").filter(|p| p.starts_with('^'))?;
        let escapes = start.len() - start.trim_end_matches('\\').len();
        // Alternatives may end anywhere, and flags change the meaning of '.', '^' and '$'.
        let plain = !start.contains('|') && !start.replace("(?:", "(").contains("(?");
        if escapes % 2 == 1 || !plain {
            return None;
        }
        // The whole pattern has to compile: its error is reported by the code that compiles it.
        compiled(pattern, true).ok()?;
        let pattern = compiled(start, true).ok()?;
        let mut pieces = Vec::new();
        let mut rest = with;
        while let Some(at) = rest.find('$') {
            let (text, from) = rest.split_at(at);
            pieces.push(Piece::Text(text.to_owned()));
            rest = match from.strip_prefix("$$") {
                Some(rest) => {
                    pieces.push(Piece::Text("$".into()));
                    rest
                }
                None => {
                    let (group, rest) = from.strip_prefix("${")?.split_once('}')?;
                    // Group 0 is the whole text.
                    pieces.push(Piece::Group(group.parse().ok().filter(|g| *g > 0)?));
                    rest
                }
            };
        }
        pieces.push(Piece::Text(rest.to_owned()));
        let beside = [r"\b", r"\B", r"\z", r"\<", r"\>", "$"];
        let by_match = !beside.iter().any(|word| start.contains(word));
        Some(Start { pattern, pieces, by_match })
    }

    /// Appends a text with its match replaced.
    fn replace(&self, known: &mut Known, s: &str, out: &mut String) {
        let matched = match self.by_match && known.is_useful() {
            true => match self.pattern.find(s) {
                Some(found) => Some(found.as_str()).filter(|matched| matched.len() <= MATCH_MAX),
                None => return out.push_str(s),
            },
            false => None,
        };
        if let Some(replaced) = matched.and_then(|matched| known.replaced.get(matched)) {
            known.hits += 1;
            return out.push_str(replaced);
        }
        if self.pattern.captures_read(&mut known.places, s).is_none() {
            return out.push_str(s);
        }
        let from = out.len();
        self.expand(&known.places, s, out);
        if let Some(matched) = matched.filter(|_| known.replaced.len() < REPLACED_MAX) {
            known.replaced.insert(matched.to_owned(), out[from..].to_owned());
        }
    }

    fn expand(&self, places: &CaptureLocations, s: &str, out: &mut String) {
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Group(group) => {
                    if let Some((from, to)) = places.get(*group) {
                        out.push_str(&s[from..to]);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_a_pattern_finds_what_the_whole_finds() {
        let patterns = [
            r"^https?://(?:www\.)?([^/]+)/.*$",
            r"^(a+)(b?).*$",
            r"^a*.*$",
            r"^(a|b).*$",
            r"^a\.*$",
            r"^(?:a)(é*).*$",
            r"^(?s)a.*$",
            r"^(a*?)(b*).*$",
            r"^[^a.]*.*$",
            r"^.*$",
            r"^a\..*$",
            r"a(b).*$",
            r"^a{2,3}(b).*$",
        ];
        let texts = [
            "",
            "a",
            "aab",
            "abb",
            "b",
            "a.b",
            "aé",
            "aéé b",
            "https://www.x.org/a?b",
            "http://www./",
            "http://y/\nz",
            "a\nb",
            "aaab",
            "https://www.",
            "x http://a/b",
        ];
        let mut taken = 0;
        for pattern in patterns {
            for with in [r"\1", "", "$1", r"<\2|\1>", r"\0", r"\7x"] {
                let with = replacement(with);
                let Some(start) = Start::of(pattern, &with) else { continue };
                taken += 1;
                let whole = RegexBuilder::new(pattern).dot_matches_new_line(true).build().unwrap();
                let mut known = Known::new(&start);
                for text in texts.iter().chain(&texts) {
                    let mut found = String::new();
                    start.replace(&mut known, text, &mut found);
                    assert_eq!(found, whole.replace_all(text, with.as_str()), "{pattern} in {text} by {with}");
                }
            }
        }
        assert!(taken > 30, "{taken}");
    }

    #[test]
    fn patterns_are_compiled_once_while_they_are_used() {
        let first = compiled("a+", false).unwrap();
        assert!(Rc::ptr_eq(&first, &compiled("a+", false).unwrap()));
        assert!(!Rc::ptr_eq(&first, &compiled("a+", true).unwrap()), "a point means something else");
        let large = r"\w{200}";
        assert!(!Rc::ptr_eq(&compiled(large, false).unwrap(), &compiled(large, false).unwrap()), "too large to keep");
        assert!(compiled("(", false).is_err());
        (0..KEPT).for_each(|i| drop(compiled(&format!("b{i}"), false).unwrap()));
        assert!(!Rc::ptr_eq(&first, &compiled("a+", false).unwrap()), "others came since");
    }

    #[test]
    fn the_same_match_in_another_text_has_the_same_groups() {
        let start = Start::of("^(a*)(a?b?).*$", "<${1}|${2}>").unwrap();
        assert!(start.by_match);
        assert!(!Start::of(r"^(a*)\b.*$", "${1}").unwrap().by_match, "what follows the match matters");
        let mut known = Known::new(&start);
        let mut replace = |s: &str| {
            let mut out = String::new();
            start.replace(&mut known, s, &mut out);
            out
        };
        let texts = ["aa", "aab", "aac", "aaab", "b", "", "aax", "aaby"];
        let found = texts.map(&mut replace);
        assert_eq!(found, ["<aa|>", "<aa|b>", "<aa|>", "<aaa|b>", "<|b>", "<|>", "<aa|>", "<aa|b>"]);
        assert_eq!(known.hits, 3);
        // Matches that do not come again are not looked for for ever.
        let start = Start::of("^([^/]+)/.*$", "${1}").unwrap();
        let mut known = Known::new(&start);
        for i in 0..2 * TRIED {
            let mut out = String::new();
            start.replace(&mut known, &format!("{i}/x"), &mut out);
            assert_eq!(out, i.to_string());
        }
        assert_eq!(known.replaced.len(), TRIED);
    }
}
