//! Privileges of an account, as a set of bits.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Sub};

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A set of privileges.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Privileges(u32);

/// Privileges by their stored names, in the order in which they are listed.
const NAMES: &[(&str, Privileges)] = &[
    ("select", Privileges::SELECT),
    ("insert", Privileges::INSERT),
    ("update", Privileges::UPDATE),
    ("delete", Privileges::DELETE),
    ("create", Privileges::CREATE),
    ("create_view", Privileges::CREATE_VIEW),
    ("drop", Privileges::DROP),
    ("alter", Privileges::ALTER),
    ("show_view", Privileges::SHOW_VIEW),
    ("grant", Privileges::GRANT),
    ("file", Privileges::FILE),
    ("process", Privileges::PROCESS),
    ("super", Privileges::SUPER),
    ("create_user", Privileges::CREATE_USER),
    ("admin", Privileges::ADMIN),
    ("node", Privileges::NODE),
];

impl Privileges {
    /// No privilege beyond logging in.
    pub const NONE: Self = Self(0);
    /// Read rows.
    pub const SELECT: Self = Self(1);
    /// Add rows, by statements and by loads.
    pub const INSERT: Self = Self(1 << 1);
    /// Change rows.
    pub const UPDATE: Self = Self(1 << 2);
    /// Remove rows, one or all.
    pub const DELETE: Self = Self(1 << 3);
    /// Make databases and tables.
    pub const CREATE: Self = Self(1 << 4);
    /// Make views.
    pub const CREATE_VIEW: Self = Self(1 << 5);
    /// Remove databases, tables and views.
    pub const DROP: Self = Self(1 << 6);
    /// Change definitions.
    pub const ALTER: Self = Self(1 << 7);
    /// See the definition of views.
    pub const SHOW_VIEW: Self = Self(1 << 8);
    /// Pass on one's own privileges.
    pub const GRANT: Self = Self(1 << 9);
    /// Read and write files and addresses outside of the database.
    pub const FILE: Self = Self(1 << 10);
    /// See the statements of other users.
    pub const PROCESS: Self = Self(1 << 11);
    /// End the statements of other users, set global variables.
    pub const SUPER: Self = Self(1 << 12);
    /// Make, change and drop users and roles.
    pub const CREATE_USER: Self = Self(1 << 13);
    /// All of the above.
    pub const ADMIN: Self = Self(1 << 14);
    /// Change the nodes of a cluster.
    pub const NODE: Self = Self(1 << 15);

    /// Privileges that can be granted on one database or table, except passing them on.
    pub const OBJECT: Self = Self(0x1ff);
    /// Doris's LOAD_PRIV.
    pub const LOAD: Self = Self(Self::INSERT.0 | Self::UPDATE.0 | Self::DELETE.0);
    /// ALL PRIVILEGES on everything. Passing them on, and privileges over all accounts, are granted by name only.
    pub const ALL: Self = Self(Self::OBJECT.0 | 0x3c00);
    /// The privileges of root.
    pub const EVERYTHING: Self = Self(0xffff);

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of `other` are in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether one of `other` is in this set.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Iterates over the privileges of the set, in the order in which they are listed.
    pub fn iter(self) -> impl Iterator<Item = Self> {
        NAMES.iter().map(|(_, p)| *p).filter(move |p| self.contains(*p))
    }

    /// Returns the stored names of the set's privileges, such as `create_view`.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.iter().filter(move |(_, p)| self.contains(*p)).map(|(name, _)| *name)
    }

    /// Returns the privilege with this stored name.
    pub fn from_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|(n, _)| *n == name).map(|(_, p)| *p)
    }
}

impl BitOr for Privileges {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Privileges {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl BitAnd for Privileges {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Sub for Privileges {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl fmt::Debug for Privileges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// Stored as a list of names, so that a bit's position is private to this file.
impl Serialize for Privileges {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.names())
    }
}

impl<'de> Deserialize<'de> for Privileges {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = Privileges;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of privileges")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Privileges, A::Error> {
                let mut all = Privileges::NONE;
                while let Some(name) = seq.next_element::<String>()? {
                    all |= Privileges::from_name(&name)
                        .ok_or_else(|| de::Error::custom(format_args!("unknown privilege \"{name}\"")))?;
                }
                Ok(all)
            }
        }
        from.deserialize_seq(Names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_add_up() {
        let all = NAMES.iter().fold(Privileges::NONE, |all, (_, p)| all | *p);
        assert_eq!(all, Privileges::EVERYTHING);
        assert_eq!(Privileges::ALL | Privileges::GRANT | Privileges::ADMIN | Privileges::NODE, all);
        assert!(!Privileges::ALL.intersects(Privileges::GRANT | Privileges::ADMIN | Privileges::NODE));
        let text = serde_json::to_string(&Privileges::LOAD).unwrap();
        assert_eq!(text, r#"["insert","update","delete"]"#);
        assert_eq!(serde_json::from_str::<Privileges>(&text).unwrap(), Privileges::LOAD);
        assert!(serde_json::from_str::<Privileges>(r#"["fly"]"#).is_err());
    }
}
