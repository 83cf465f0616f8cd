//! Character sets and collations that clients name. All text is UTF-8 and all order is binary, whatever is named.

/// A character set.
pub struct CharacterSet {
    /// The name in lower case.
    pub name: &'static str,
    /// The description in SHOW CHARACTER SET.
    pub description: &'static str,
    /// Name of the collation of columns that name no other.
    pub default_collation: &'static str,
    /// Longest character, in bytes.
    pub bytes_max: i64,
    /// Texts in this set are valid UTF-8 without conversion.
    pub is_utf8: bool,
}

const fn set(
    name: &'static str,
    description: &'static str,
    default_collation: &'static str,
    bytes_max: i64,
    is_utf8: bool,
) -> CharacterSet {
    CharacterSet { name, description, default_collation, bytes_max, is_utf8 }
}

/// Character sets by name.
pub const CHARACTER_SETS: &[CharacterSet] = &[
    set("ascii", "US ASCII", "ascii_general_ci", 1, true),
    set("big5", "Big5 Traditional Chinese", "big5_chinese_ci", 2, false),
    set("binary", "Binary pseudo charset", "binary", 1, true),
    set("cp1250", "Windows Central European", "cp1250_general_ci", 1, false),
    set("cp1251", "Windows Cyrillic", "cp1251_general_ci", 1, false),
    set("euckr", "EUC-KR Korean", "euckr_korean_ci", 2, false),
    set("gb18030", "China National Standard GB18030", "gb18030_chinese_ci", 4, false),
    set("gb2312", "GB2312 Simplified Chinese", "gb2312_chinese_ci", 2, false),
    set("gbk", "GBK Simplified Chinese", "gbk_chinese_ci", 2, false),
    set("koi8r", "KOI8-R Relcom Russian", "koi8r_general_ci", 1, false),
    set("latin1", "cp1252 West European", "latin1_swedish_ci", 1, false),
    set("latin2", "ISO 8859-2 Central European", "latin2_general_ci", 1, false),
    set("sjis", "Shift-JIS Japanese", "sjis_japanese_ci", 2, false),
    set("ujis", "EUC-JP Japanese", "ujis_japanese_ci", 3, false),
    set("utf8", "UTF-8 Unicode", "utf8_general_ci", 3, true),
    set("utf8mb3", "UTF-8 Unicode", "utf8mb3_general_ci", 3, true),
    set("utf8mb4", "UTF-8 Unicode", "utf8mb4_0900_bin", 4, true),
];

/// A collation with MySQL's number.
pub struct Collation {
    /// The name in lower case.
    pub name: &'static str,
    /// Name of the character set.
    pub charset: &'static str,
    /// MySQL's number.
    pub id: i64,
}

const fn collation(name: &'static str, charset: &'static str, id: i64) -> Collation {
    Collation { name, charset, id }
}

/// Collations by character set.
pub const COLLATIONS: &[Collation] = &[
    collation("ascii_bin", "ascii", 65),
    collation("ascii_general_ci", "ascii", 11),
    collation("big5_bin", "big5", 84),
    collation("big5_chinese_ci", "big5", 1),
    collation("binary", "binary", 63),
    collation("cp1250_general_ci", "cp1250", 26),
    collation("cp1251_general_ci", "cp1251", 51),
    collation("euckr_korean_ci", "euckr", 19),
    collation("gb18030_chinese_ci", "gb18030", 248),
    collation("gb2312_bin", "gb2312", 86),
    collation("gb2312_chinese_ci", "gb2312", 24),
    collation("gbk_bin", "gbk", 87),
    collation("gbk_chinese_ci", "gbk", 28),
    collation("koi8r_general_ci", "koi8r", 7),
    collation("latin1_bin", "latin1", 47),
    collation("latin1_general_ci", "latin1", 48),
    collation("latin1_general_cs", "latin1", 49),
    collation("latin1_swedish_ci", "latin1", 8),
    collation("latin2_general_ci", "latin2", 9),
    collation("sjis_japanese_ci", "sjis", 13),
    collation("ujis_japanese_ci", "ujis", 12),
    collation("utf8_bin", "utf8", 83),
    collation("utf8_general_ci", "utf8", 33),
    collation("utf8_unicode_ci", "utf8", 192),
    collation("utf8mb3_bin", "utf8mb3", 83),
    collation("utf8mb3_general_ci", "utf8mb3", 33),
    collation("utf8mb3_unicode_ci", "utf8mb3", 192),
    collation("utf8mb4_0900_ai_ci", "utf8mb4", 255),
    collation("utf8mb4_0900_as_ci", "utf8mb4", 305),
    collation("utf8mb4_0900_as_cs", "utf8mb4", 278),
    collation("utf8mb4_0900_bin", "utf8mb4", 309),
    collation("utf8mb4_bin", "utf8mb4", 46),
    collation("utf8mb4_general_ci", "utf8mb4", 45),
    collation("utf8mb4_unicode_520_ci", "utf8mb4", 246),
    collation("utf8mb4_unicode_ci", "utf8mb4", 224),
];

/// Finds the character set of this name, in any case.
pub fn character_set(name: &str) -> Option<&'static CharacterSet> {
    CHARACTER_SETS.iter().find(|c| c.name.eq_ignore_ascii_case(name))
}

/// Finds the collation of this name, in any case.
pub fn collation_named(name: &str) -> Option<&'static Collation> {
    COLLATIONS.iter().find(|c| c.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_and_collations_know_each_other() {
        for set in CHARACTER_SETS {
            assert_eq!(collation_named(set.default_collation).map(|c| c.charset), Some(set.name));
        }
        for c in COLLATIONS {
            assert!(character_set(c.charset).is_some(), "{}", c.name);
        }
    }
}
