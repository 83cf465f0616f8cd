//! LEVENSHTEIN(a, b): how many characters have to be inserted, deleted or changed to make one text of the other.
//! HAMMING_DISTANCE(a, b): how many have to be changed, where both have as many.
//!
//! The work of the first grows with the product of the lengths, so the call looks now and then whether anybody still waits for it.

use arrow::array::ArrayRef;
use datafusion::common::{Result, exec_err};

use super::args::Args;
use super::func::{Def, Ret, def};

/// Functions of this file.
pub const DEFS: &[Def] =
    &[def("levenshtein", &[], (2, 2), Ret::Int, levenshtein), def("hamming_distance", &[], (2, 2), Ret::Int, hamming)];

/// The number of pairs of characters that are compared between two checks whether the statement has ended.
const LOOK_AFTER: usize = 1 << 20;

fn hamming(a: &Args) -> Result<ArrayRef> {
    let (left, right) = (a.text(0)?, a.text(1)?);
    let mut lengths = None;
    let distances = a.ints(|i| {
        let (left, right) = (left.at(i)?, right.at(i)?);
        let distance = hamming_distance(left, right);
        if distance.is_none() {
            lengths = Some((left.chars().count(), right.chars().count()));
        }
        distance
    })?;
    match lengths {
        Some((left, right)) => {
            exec_err!("{}: expected texts of the same length, found {left} and {right} characters", a.name)
        }
        None => Ok(distances),
    }
}

/// `None` for texts of different lengths.
fn hamming_distance(left: &str, right: &str) -> Option<i64> {
    let (mut left, mut right) = (left.chars(), right.chars());
    let mut distance = 0;
    loop {
        match (left.next(), right.next()) {
            (None, None) => return Some(distance),
            (left, right) => distance += i64::from(left? != right?),
        }
    }
}

fn levenshtein(a: &Args) -> Result<ArrayRef> {
    let (left, right) = (a.text(0)?, a.text(1)?);
    let mut scratch = Scratch::default();
    let mut ended = Ok(());
    let distances = a.ints(|i| {
        let (left, right) = (left.at(i)?, right.at(i)?);
        if ended.is_err() {
            return None;
        }
        // Three vectors of words per character.
        a.ask((left.len() + right.len()).saturating_mul(3 * size_of::<usize>()))?;
        match scratch.distance(left, right, &mut super::still_wanted) {
            Ok(distance) => Some(distance as i64),
            Err(e) => {
                ended = Err(e);
                None
            }
        }
    })?;
    ended?;
    // An error if there was no room for one of the rows.
    a.made(0)?;
    Ok(distances)
}

/// Buffers that are reused from row to row.
#[derive(Default)]
struct Scratch {
    left: Vec<char>,
    right: Vec<char>,
    /// The distances of the prefixes of `right` from the prefix of `left` that was compared last.
    row: Vec<usize>,
    compared: usize,
}

impl Scratch {
    fn distance(&mut self, left: &str, right: &str, look: &mut dyn FnMut() -> Result<()>) -> Result<usize> {
        self.left.clear();
        self.left.extend(left.chars());
        self.right.clear();
        self.right.extend(right.chars());
        // A common prefix and a common suffix cost nothing.
        let same = self.left.iter().zip(&self.right).take_while(|(l, r)| l == r).count();
        let (left, right) = (&self.left[same..], &self.right[same..]);
        let same = left.iter().rev().zip(right.iter().rev()).take_while(|(l, r)| l == r).count();
        let (left, right) = (&left[..left.len() - same], &right[..right.len() - same]);
        self.row.clear();
        self.row.extend(0..=right.len());
        for (at, l) in left.iter().enumerate() {
            self.compared += right.len();
            if self.compared > LOOK_AFTER {
                self.compared = 0;
                look()?;
            }
            let mut corner = at;
            self.row[0] = at + 1;
            for (k, r) in right.iter().enumerate() {
                let changed = corner + usize::from(l != r);
                corner = self.row[k + 1];
                self.row[k + 1] = changed.min(corner + 1).min(self.row[k] + 1);
            }
        }
        Ok(self.row[right.len()])
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::exec_err;

    use super::*;

    /// The definition, as a recursion.
    fn naive(left: &[char], right: &[char]) -> usize {
        match (left, right) {
            ([], rest) | (rest, []) => rest.len(),
            ([l, left @ ..], [r, right @ ..]) if l == r => naive(left, right),
            ([_, left_rest @ ..], [_, right_rest @ ..]) => {
                1 + naive(left_rest, right).min(naive(left, right_rest)).min(naive(left_rest, right_rest))
            }
        }
    }

    #[test]
    fn distances_are_those_of_the_definition() {
        let texts = ["", "a", "ab", "ba", "kitten", "sitting", "äöü", "aöu", "aaaa", "abab", "baab", "xaby"];
        let mut scratch = Scratch::default();
        for left in texts {
            for right in texts {
                let expected = naive(&left.chars().collect::<Vec<_>>(), &right.chars().collect::<Vec<_>>());
                let found = scratch.distance(left, right, &mut || Ok(())).unwrap();
                assert_eq!(found, expected, "{left} {right}");
            }
        }
    }

    #[test]
    fn it_stops_when_nobody_waits() {
        let (left, right) = ("a".repeat(100_000), "b".repeat(100_000));
        let mut looks = 0;
        let ended = Scratch::default().distance(&left, &right, &mut || {
            looks += 1;
            if looks == 2 { exec_err!("ended") } else { Ok(()) }
        });
        assert!(ended.is_err());
    }
}
