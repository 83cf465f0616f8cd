//! "Did you mean": the existing name that a wrong name was probably meant to be.

/// Returns the nearest of `names` if it is near enough to be a typing error: one edit in short words, two in longer
/// ones. Case is ignored.
pub fn closest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = if wrong.len() <= 4 { 1 } else { 2 };
    let wrong = wrong.to_ascii_lowercase();
    names
        .into_iter()
        .map(|name| (edits(&wrong, &name.to_ascii_lowercase()), name))
        .filter(|(d, _)| *d <= limit)
        .min_by_key(|(d, _)| *d)
        .map(|(_, name)| name)
}

/// Returns the number of edits between two words: insert, delete, replace, swap neighbours (optimal string alignment).
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let width = b.len() + 1;
    let mut d = vec![0; (a.len() + 1) * width];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            d[i * width + j] = if i == 0 || j == 0 {
                i + j
            } else {
                let same = usize::from(a[i - 1] != b[j - 1]);
                let mut best =
                    (d[(i - 1) * width + j] + 1).min(d[i * width + j - 1] + 1).min(d[(i - 1) * width + j - 1] + same);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best = best.min(d[(i - 2) * width + j - 2] + 1);
                }
                best
            };
        }
    }
    d[a.len() * width + b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_pen() {
        let near = |wrong| closest(wrong, ["SELECT", "SHOW", "SET", "DROP"]);
        assert_eq!(near("selct"), Some("SELECT"));
        assert_eq!(near("sleect"), Some("SELECT"));
        assert_eq!(near("shwo"), Some("SHOW"));
        assert_eq!(near("frobnicate"), None);
    }
}
