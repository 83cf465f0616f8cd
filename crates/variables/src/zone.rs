//! Time zones by name.

use std::path::Path;
use std::sync::LazyLock;

/// The time zone of this process: an IANA name if the system tells one, else an offset.
static SYSTEM: LazyLock<String> = LazyLock::new(|| {
    let named = |name: &str| canonical(name.trim_start_matches(':')).filter(|n| n != "SYSTEM");
    let from_env = std::env::var("TZ").ok().and_then(|tz| named(&tz));
    let from_link = || {
        let target = std::fs::canonicalize("/etc/localtime").ok()?;
        zone_of_path(&target).and_then(|name| named(&name))
    };
    let from_file = || std::fs::read_to_string("/etc/timezone").ok().and_then(|name| named(name.trim()));
    from_env.or_else(from_link).or_else(from_file).unwrap_or_else(|| chrono::Local::now().offset().to_string())
});

/// Returns `Europe/Berlin` for `/usr/share/zoneinfo/Europe/Berlin`.
fn zone_of_path(path: &Path) -> Option<String> {
    path.to_str()?.split_once("zoneinfo/").map(|(_, name)| name.trim_start_matches("posix/").to_string())
}

/// The time zone of this process.
pub fn system() -> &'static str {
    &SYSTEM
}

/// Returns the canonical spelling of a time zone: `SYSTEM`, an IANA name, or an offset such as `+08:00`. `None` if
/// `value` is none of these.
///
/// As in Doris, `CST` and `PRC` are China's time, and `UTC+8` and `GMT+08:00` are offsets.
pub fn canonical(value: &str) -> Option<String> {
    let value = value.trim();
    if value.eq_ignore_ascii_case("SYSTEM") {
        return Some("SYSTEM".into());
    }
    if value.eq_ignore_ascii_case("CST") {
        return Some("Asia/Shanghai".into());
    }
    let upper = value.to_ascii_uppercase();
    let bare = upper.strip_prefix("UTC").or_else(|| upper.strip_prefix("GMT")).unwrap_or(&upper);
    if let Some(offset) = offset(bare) {
        return Some(offset);
    }
    if upper == "Z" {
        return Some("UTC".into());
    }
    chrono_tz::TZ_VARIANTS.iter().map(|tz| tz.name()).find(|name| name.eq_ignore_ascii_case(value)).map(str::to_string)
}

/// Normalises an offset: `+8`, `+08` and `-3:30` become `+08:00`, `+08:00` and `-03:30`. The range is MySQL's, -13:59
/// to +14:00.
fn offset(text: &str) -> Option<String> {
    let sign = text.chars().next().filter(|c| matches!(c, '+' | '-'))?;
    let (hours, minutes) = text[1..].split_once(':').unwrap_or((&text[1..], "0"));
    let digits = |s: &str| (1..=2).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(hours) || !digits(minutes) {
        return None;
    }
    let (hours, minutes): (u32, u32) = (hours.parse().ok()?, minutes.parse().ok()?);
    let all = hours * 60 + minutes;
    let most = if sign == '-' { 13 * 60 + 59 } else { 14 * 60 };
    (minutes < 60 && all <= most).then(|| format!("{sign}{hours:02}:{minutes:02}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_have_one_spelling() {
        for (given, expected) in [
            ("+8:00", Some("+08:00")),
            ("-03:30", Some("-03:30")),
            ("+14:00", Some("+14:00")),
            ("+14:01", None),
            ("-14:00", None),
            ("UTC+8", Some("+08:00")),
            ("europe/berlin", Some("Europe/Berlin")),
            ("UTC", Some("UTC")),
            ("cst", Some("Asia/Shanghai")),
            ("system", Some("SYSTEM")),
            ("Mars/Olympus", None),
            ("", None),
            ("+1:2:3", None),
            ("+８:00", None),
        ] {
            assert_eq!(canonical(given).as_deref(), expected, "{given}");
        }
        assert_eq!(zone_of_path(Path::new("/usr/share/zoneinfo/Europe/Paris")).as_deref(), Some("Europe/Paris"));
        assert!(canonical(system()).is_some());
    }
}
