//! Wrong passwords cost time.
//!
//! A host that has sent more than [`FREE`] wrong passwords waits before each further login is looked at, 100 ms at first,
//! then twice as long with each wrong one, up to 2 s; each 10 seconds forgive one. Right passwords wait as long, or a
//! guesser would know a wrong one by the wait. Of one host at most [`WAITING_MAX`] logins wait, the rest is refused, so
//! more connections are no way to guess faster. Other hosts notice nothing; an IPv6 host is its network of 64 bits.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Wrong passwords without consequences.
const FREE: u32 = 10;
/// One wrong password is forgotten after this time.
const FORGIVEN_AFTER: Duration = Duration::from_secs(10);
/// Wait after the first wrong password too many.
const WAIT_MIN: Duration = Duration::from_millis(100);
/// Longest wait; below the time that a login may take.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// Wrong passwords that count at most: so many are forgiven in three minutes.
const FAILURES_MAX: u32 = FREE + 8;
/// Logins of one host that may wait.
const WAITING_MAX: u32 = 16;
/// Hosts that are remembered; beyond them the one that failed longest ago is forgotten.
const HOSTS_MAX: usize = 10_000;

/// Hosts with wrong passwords.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    hosts: Mutex<HashMap<IpAddr, Host>>,
}

#[derive(Debug)]
struct Host {
    failures: u32,
    /// When failures were last counted or forgiven.
    since: Instant,
    waiting: u32,
}

impl Host {
    fn forgive(&mut self, now: Instant) {
        let times = now.saturating_duration_since(self.since).as_secs() / FORGIVEN_AFTER.as_secs();
        if times > 0 {
            self.failures = self.failures.saturating_sub(u32::try_from(times).unwrap_or(u32::MAX));
            self.since = now;
        }
    }
}

/// Too many logins of one host wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Blocked;

fn key(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 => v4,
    }
}

impl Backoff {
    /// Waits as long as a login of this host has to.
    ///
    /// # Errors
    /// Too many wait already.
    pub(crate) async fn wait(&self, address: IpAddr) -> Result<(), Blocked> {
        let key = key(address);
        let Some(time) = self.begin(key, Instant::now())? else { return Ok(()) };
        struct Waiting<'a>(&'a Backoff, IpAddr);
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                if let Some(host) = self.0.hosts.lock().get_mut(&self.1) {
                    host.waiting = host.waiting.saturating_sub(1);
                }
            }
        }
        let _waiting = Waiting(self, key);
        tokio::time::sleep(time).await;
        Ok(())
    }

    /// How long a login has to wait; it then counts as waiting.
    fn begin(&self, key: IpAddr, now: Instant) -> Result<Option<Duration>, Blocked> {
        let mut hosts = self.hosts.lock();
        let Some(host) = hosts.get_mut(&key) else { return Ok(None) };
        host.forgive(now);
        if host.failures == 0 && host.waiting == 0 {
            hosts.remove(&key);
            return Ok(None);
        }
        if host.failures <= FREE {
            return Ok(None);
        }
        if host.waiting >= WAITING_MAX {
            return Err(Blocked);
        }
        host.waiting += 1;
        Ok(Some((WAIT_MIN * (1 << (host.failures - FREE - 1).min(8))).min(WAIT_MAX)))
    }

    /// Counts a wrong password.
    pub(crate) fn failed(&self, address: IpAddr) {
        self.count(key(address), Instant::now());
    }

    fn count(&self, key: IpAddr, now: Instant) {
        let mut hosts = self.hosts.lock();
        if hosts.len() >= HOSTS_MAX && !hosts.contains_key(&key) {
            let oldest = hosts.iter().filter(|(_, h)| h.waiting == 0).min_by_key(|(_, h)| h.since).map(|(k, _)| *k);
            match oldest {
                Some(oldest) => hosts.remove(&oldest),
                // All of them wait, which no number of connections can do; better forget one more than grow.
                None => return,
            };
        }
        let host = hosts.entry(key).or_insert(Host { failures: 0, since: now, waiting: 0 });
        host.forgive(now);
        host.failures = (host.failures + 1).min(FAILURES_MAX);
        host.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn one_host_waits_and_others_do_not() {
        let backoff = Backoff::default();
        let (bad, good, now) = (ip("10.0.0.1"), ip("10.0.0.2"), Instant::now());
        for _ in 0..FREE {
            backoff.count(bad, now);
        }
        assert_eq!(backoff.begin(bad, now), Ok(None));
        backoff.count(bad, now);
        assert_eq!(backoff.begin(bad, now), Ok(Some(WAIT_MIN)));
        for _ in 0..50 {
            backoff.count(bad, now);
        }
        for _ in 1..WAITING_MAX {
            assert_eq!(backoff.begin(bad, now), Ok(Some(WAIT_MAX)));
        }
        assert_eq!(backoff.begin(bad, now), Err(Blocked));
        assert_eq!(backoff.begin(good, now), Ok(None));
    }

    #[test]
    fn time_forgives() {
        let backoff = Backoff::default();
        let (host, now) = (ip("10.0.0.1"), Instant::now());
        for _ in 0..100 {
            backoff.count(host, now);
        }
        let later = now + FORGIVEN_AFTER * FAILURES_MAX;
        assert_eq!(backoff.begin(host, later), Ok(None));
        assert!(backoff.hosts.lock().is_empty());
    }

    #[test]
    fn memory_is_bounded() {
        let backoff = Backoff::default();
        let now = Instant::now();
        for i in 0..HOSTS_MAX as u32 + 500 {
            backoff.count(IpAddr::V4(i.into()), now + Duration::from_millis(i.into()));
        }
        assert_eq!(backoff.hosts.lock().len(), HOSTS_MAX);
        assert!(!backoff.hosts.lock().contains_key(&ip("0.0.0.0")));
    }

    #[test]
    fn a_network_of_64_bits_is_one_host() {
        assert_eq!(key(ip("2001:db8:0:1::1")), key(ip("2001:db8:0:1:ffff::2")));
        assert_ne!(key(ip("2001:db8:0:1::1")), key(ip("2001:db8:0:2::1")));
        assert_eq!(key(ip("::ffff:1.2.3.4")), ip("1.2.3.4"));
    }
}
