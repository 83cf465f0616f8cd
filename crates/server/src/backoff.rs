//! Delays for wrong passwords.
//!
//! More than [`FREE`] wrong passwords for an account from one host delay each further login of that account from that
//! host: by 100 ms at first, then twice as long with each wrong password, up to 2 s. Every 10 seconds one wrong
//! password is forgiven. Logins with the right password wait as long; otherwise a guesser would recognise a wrong one
//! by the wait. At most [`WAITING_MAX`] logins of one pair of account and host wait and the others are refused, so more
//! connections do not allow faster guessing. Other accounts from the same host, which may be a load balancer, and other
//! hosts are not affected.
//!
//! Wrong passwords for more than [`ACCOUNTS_FREE`] accounts from one host are a search for an account with a known
//! password. From then on all logins from that host wait in the same way, except those of accounts that have logged in
//! from there before. An IPv6 host is its network of 64 bits.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Number of wrong passwords without consequences.
const FREE: u32 = 10;
/// Number of accounts with wrong passwords from one host without consequences.
const ACCOUNTS_FREE: u32 = 10;
/// Time after which one wrong password is forgiven.
const FORGIVEN_AFTER: Duration = Duration::from_secs(10);
/// Wait after the first wrong password beyond the free ones.
const WAIT_MIN: Duration = Duration::from_millis(100);
/// The longest wait; shorter than the time that a login may take.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// The most failures that count beyond the free ones. All failures of a pair are forgiven in three minutes.
const BEYOND_MAX: u32 = 8;
/// Number of logins that may wait for one pair, or of unknown accounts from one host.
const WAITING_MAX: u32 = 16;
/// Number of pairs, and of hosts, that are remembered. Beyond it the one whose last failure is oldest is forgotten.
const REMEMBERED_MAX: usize = 10_000;

/// A host, and the hash of an account's name.
type Pair = (IpAddr, u64);

/// Failures by pair and by host.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    hashes: RandomState,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    pairs: HashMap<Pair, Record>,
    /// Number of accounts with wrong passwords, by host.
    hosts: HashMap<IpAddr, Record>,
}

#[derive(Debug)]
struct Record {
    failures: u32,
    /// Time at which failures were last counted or forgiven.
    since: Instant,
    waiting: u32,
    /// A right password came at some time.
    known: bool,
}

impl Record {
    fn new(now: Instant) -> Self {
        Record { failures: 0, since: now, waiting: 0, known: false }
    }

    fn forgive(&mut self, now: Instant) {
        let times = now.saturating_duration_since(self.since).as_secs() / FORGIVEN_AFTER.as_secs();
        if times > 0 {
            self.failures = self.failures.saturating_sub(u32::try_from(times).unwrap_or(u32::MAX));
            self.since = now;
        }
    }

    fn fail(&mut self, free: u32, now: Instant) {
        self.failures = (self.failures + 1).min(free + BEYOND_MAX);
        self.since = now;
    }

    /// Returns how long a login has to wait. The login then counts as waiting.
    fn begin(&mut self, free: u32) -> Result<Option<Duration>, Blocked> {
        if self.failures <= free {
            return Ok(None);
        }
        if self.waiting >= WAITING_MAX {
            return Err(Blocked);
        }
        self.waiting += 1;
        Ok(Some((WAIT_MIN * (1 << (self.failures - free - 1).min(8))).min(WAIT_MAX)))
    }

    fn is_nothing(&self) -> bool {
        self.failures == 0 && self.waiting == 0 && !self.known
    }
}

/// Too many logins wait already, of one account from one host or of unknown accounts from one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Blocked;

/// The record that a waiting login is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Because {
    Pair(Pair),
    Host(IpAddr),
}

fn host(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 => v4,
    }
}

impl Backoff {
    fn pair(&self, user: &str, address: IpAddr) -> Pair {
        (host(address), self.hashes.hash_one(user))
    }

    /// Waits as long as a login of this account from this host has to.
    ///
    /// # Errors
    /// [`Blocked`] if too many logins wait already.
    pub(crate) async fn wait(&self, user: &str, address: IpAddr) -> Result<(), Blocked> {
        let Some((because, time)) = self.begin(self.pair(user, address), Instant::now())? else { return Ok(()) };
        struct Waiting<'a>(&'a Backoff, Because);
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                let mut seen = self.0.seen.lock();
                let record = match self.1 {
                    Because::Pair(pair) => seen.pairs.get_mut(&pair),
                    Because::Host(host) => seen.hosts.get_mut(&host),
                };
                if let Some(record) = record {
                    record.waiting = record.waiting.saturating_sub(1);
                }
            }
        }
        let _waiting = Waiting(self, because);
        tokio::time::sleep(time).await;
        Ok(())
    }

    fn begin(&self, pair: Pair, now: Instant) -> Result<Option<(Because, Duration)>, Blocked> {
        let mut seen = self.seen.lock();
        let seen = &mut *seen;
        let mut known = false;
        if let Some(record) = forgiven(&mut seen.pairs, &pair, now) {
            known = record.known;
            if let Some(time) = record.begin(FREE)? {
                return Ok(Some((Because::Pair(pair), time)));
            }
        }
        match forgiven(&mut seen.hosts, &pair.0, now) {
            Some(record) if !known => Ok(record.begin(ACCOUNTS_FREE)?.map(|time| (Because::Host(pair.0), time))),
            _ => Ok(None),
        }
    }

    /// Counts a wrong password.
    pub(crate) fn failed(&self, user: &str, address: IpAddr) {
        self.count(self.pair(user, address), Instant::now());
    }

    fn count(&self, pair: Pair, now: Instant) {
        let mut seen = self.seen.lock();
        let seen = &mut *seen;
        let Some(record) = remembered(&mut seen.pairs, pair, now) else { return };
        let is_first = record.failures == 0;
        record.fail(FREE, now);
        // Guessing at one account is not a search over accounts: only the first failure of a pair counts for the host.
        if is_first && let Some(record) = remembered(&mut seen.hosts, pair.0, now) {
            record.fail(ACCOUNTS_FREE, now);
        }
    }

    /// Notes that a right password came.
    pub(crate) fn succeeded(&self, user: &str, address: IpAddr) {
        let mut seen = self.seen.lock();
        if let Some(record) = remembered(&mut seen.pairs, self.pair(user, address), Instant::now()) {
            record.known = true;
        }
    }
}

/// Returns the record of `key` after forgiveness; an empty record is removed.
fn forgiven<'r, K: Eq + Hash>(records: &'r mut HashMap<K, Record>, key: &K, now: Instant) -> Option<&'r mut Record> {
    records.get_mut(key)?.forgive(now);
    if records.get(key)?.is_nothing() {
        records.remove(key);
    }
    records.get_mut(key)
}

/// Returns the record of `key`, and makes it if necessary. `None` if every other record has logins that wait; the
/// number of connections is too small for that.
fn remembered<K: Copy + Eq + Hash>(records: &mut HashMap<K, Record>, key: K, now: Instant) -> Option<&mut Record> {
    if records.len() >= REMEMBERED_MAX && !records.contains_key(&key) {
        let idle = records.iter().filter(|(_, record)| record.waiting == 0);
        let oldest = *idle.min_by_key(|(_, record)| (record.known, record.since))?.0;
        records.remove(&oldest);
    }
    let record = records.entry(key).or_insert_with(|| Record::new(now));
    record.forgive(now);
    Some(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn time(begun: Result<Option<(Because, Duration)>, Blocked>) -> Result<Option<Duration>, Blocked> {
        begun.map(|wait| wait.map(|(_, time)| time))
    }

    #[test]
    fn one_account_from_one_host_waits_and_others_do_not() {
        let (backoff, now) = (Backoff::default(), Instant::now());
        let bad = backoff.pair("root", ip("10.0.0.1"));
        for _ in 0..FREE {
            backoff.count(bad, now);
        }
        assert_eq!(backoff.begin(bad, now), Ok(None));
        backoff.count(bad, now);
        assert_eq!(time(backoff.begin(bad, now)), Ok(Some(WAIT_MIN)));
        for _ in 0..50 {
            backoff.count(bad, now);
        }
        for _ in 1..WAITING_MAX {
            assert_eq!(time(backoff.begin(bad, now)), Ok(Some(WAIT_MAX)));
        }
        assert_eq!(backoff.begin(bad, now), Err(Blocked));
        for (user, address) in [("root", "10.0.0.2"), ("ann", "10.0.0.1")] {
            assert_eq!(backoff.begin(backoff.pair(user, ip(address)), now), Ok(None), "{user} {address}");
        }
    }

    #[test]
    fn a_search_over_accounts_waits_and_those_who_were_there_before_do_not() {
        let (backoff, now, address) = (Backoff::default(), Instant::now(), ip("10.0.0.1"));
        backoff.succeeded("ann", address);
        for n in 0..100 {
            backoff.count(backoff.pair(&format!("user{n}"), address), now);
        }
        let stranger = backoff.pair("bob", address);
        for _ in 0..WAITING_MAX {
            assert_eq!(time(backoff.begin(stranger, now)), Ok(Some(WAIT_MAX)));
        }
        assert_eq!(backoff.begin(backoff.pair("cid", address), now), Err(Blocked));
        assert_eq!(backoff.begin(backoff.pair("ann", address), now), Ok(None));
        assert_eq!(backoff.begin(backoff.pair("bob", ip("10.0.0.2")), now), Ok(None));
    }

    #[test]
    fn who_was_there_before_and_is_guessed_at_waits() {
        let (backoff, now, address) = (Backoff::default(), Instant::now(), ip("10.0.0.1"));
        backoff.succeeded("ann", address);
        for _ in 0..=FREE {
            backoff.failed("ann", address);
        }
        assert_eq!(time(backoff.begin(backoff.pair("ann", address), now)), Ok(Some(WAIT_MIN)));
    }

    #[test]
    fn time_forgives() {
        let (backoff, now, address) = (Backoff::default(), Instant::now(), ip("10.0.0.1"));
        let guessed = backoff.pair("root", address);
        for n in 0..100 {
            backoff.count(guessed, now);
            backoff.count(backoff.pair(&format!("user{n}"), address), now);
        }
        let later = now + FORGIVEN_AFTER * (FREE + BEYOND_MAX);
        assert_eq!(backoff.begin(guessed, later), Ok(None));
        let seen = backoff.seen.lock();
        assert!(!seen.pairs.contains_key(&guessed) && seen.hosts.is_empty());
    }

    #[test]
    fn memory_is_bounded() {
        let (backoff, now) = (Backoff::default(), Instant::now());
        backoff.succeeded("ann", ip("10.0.0.1"));
        for i in 0..REMEMBERED_MAX as u32 + 500 {
            let address = IpAddr::V4(i.into());
            backoff.count(backoff.pair("root", address), now + Duration::from_millis(i.into()));
        }
        let seen = backoff.seen.lock();
        assert_eq!((seen.pairs.len(), seen.hosts.len()), (REMEMBERED_MAX, REMEMBERED_MAX));
        assert!(!seen.hosts.contains_key(&ip("0.0.0.0")));
        assert!(seen.pairs.contains_key(&backoff.pair("ann", ip("10.0.0.1"))));
    }

    #[test]
    fn a_network_of_64_bits_is_one_host() {
        assert_eq!(host(ip("2001:db8:0:1::1")), host(ip("2001:db8:0:1:ffff::2")));
        assert_ne!(host(ip("2001:db8:0:1::1")), host(ip("2001:db8:0:2::1")));
        assert_eq!(host(ip("::ffff:1.2.3.4")), ip("1.2.3.4"));
    }
}
