//! Actions that users may do a limited number of times in an hour: statements, changes and logins.
//!
//! Properties of the user set the limits. Each process counts for itself.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use dipper_node::error::Result;
use dipper_store::catalog::access::Accounts;
use parking_lot::Mutex;

use crate::quota::{MAX_USER_CONNECTIONS, exceeded, limit};

/// Time after which a count starts again.
const HOUR: Duration = Duration::from_secs(3600);

/// An action that can be limited per hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hourly {
    /// Statements of any kind.
    Queries,
    /// Statements and loads that change tables or their definitions.
    Updates,
    /// Logins over the MySQL protocol.
    Connections,
}

impl Hourly {
    /// The user property that holds the limit.
    pub const fn property(self) -> &'static str {
        match self {
            Hourly::Queries => "max_queries_per_hour",
            Hourly::Updates => "max_updates_per_hour",
            Hourly::Connections => "max_connections_per_hour",
        }
    }
}

/// The properties that CREATE USER sets after WITH.
pub const BEHIND_WITH: [&str; 4] =
    [Hourly::Queries.property(), Hourly::Updates.property(), Hourly::Connections.property(), MAX_USER_CONNECTIONS];

/// Counts of the actions of users who have these limits, for the hour that began with the first action.
#[derive(Debug, Default)]
pub struct Hours(Mutex<HashMap<(String, Hourly), Hour>>);

#[derive(Debug)]
struct Hour {
    begun: Instant,
    times: u64,
}

impl Hours {
    /// Counts one action.
    ///
    /// # Errors
    /// `ER_USER_LIMIT_REACHED` (1226) if the limit of this hour is used up.
    pub fn spend(&self, accounts: &Accounts, user: &str, what: Hourly) -> Result<()> {
        match limit(accounts, user, what.property()) {
            Some(most) => self.spend_at(user, what, most, Instant::now()),
            None => Ok(()),
        }
    }

    fn spend_at(&self, user: &str, what: Hourly, most: u64, now: Instant) -> Result<()> {
        let mut hours = self.0.lock();
        let hour = hours.entry((user.to_string(), what)).or_insert(Hour { begun: now, times: 0 });
        if now.saturating_duration_since(hour.begun) >= HOUR {
            *hour = Hour { begun: now, times: 0 };
        }
        if hour.times >= most {
            return Err(exceeded(user, what.property(), most, "wait until the hour is over"));
        }
        hour.times += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_an_hour_ago_does_not_count() {
        let (hours, begun) = (Hours::default(), Instant::now());
        let spend = |what, minutes: u64| hours.spend_at("u", what, 2, begun + Duration::from_secs(60 * minutes));
        spend(Hourly::Queries, 0).unwrap();
        spend(Hourly::Queries, 59).unwrap();
        let refused = spend(Hourly::Queries, 59).unwrap_err();
        assert_eq!(refused.code, 1226);
        assert!(refused.message.contains("'max_queries_per_hour' resource (current value: 2)"), "{refused}");
        spend(Hourly::Updates, 59).unwrap();
        spend(Hourly::Queries, 60).unwrap();
        spend(Hourly::Queries, 61).unwrap();
        spend(Hourly::Queries, 119).unwrap_err();
    }
}
