//! Requests for ranges of bytes: the one plan by which ranges are joined, cut and put together again.
//!
//! ```text
//! wanted     |--a--|  |-b-|             |------------c------------|
//! requests   |-----1------|             |-----2-----||-----3------|
//! ```
//!
//! The time of a request to an object store is the time to its first byte, about the same however much is asked for,
//! and then bytes at the rate of one connection. So ranges are joined if little lies between them (`a` and `b`), and
//! long ranges are cut into requests that run beside each other (`c`).

use std::ops::Range;

use bytes::{Bytes, BytesMut};

/// How ranges become requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Most bytes between two ranges that are read in vain to save a request.
    pub gap: u64,
    /// At most one byte in this number of a request may be read in vain.
    pub gap_share: u64,
    /// Most bytes of a request; a longer range is cut.
    pub longest: u64,
    /// Most requests under way at once.
    pub parallel: usize,
}

/// Ranges of data objects and Parquet files in an object store. The requests of all scans of a process share
/// `parallel`.
pub const DATA: Plan = Plan { gap: 256 << 10, gap_share: 8, longest: 8 << 20, parallel: 128 };
/// Ranges of scans that make one request after the other.
pub const SERIAL: Plan = Plan { longest: 4 << 20, parallel: 1, ..DATA };
/// What the data cache lacks of one range. Nothing is cut here: the layers above have cut what they want, and whoever
/// asks for more wants one request.
pub const MISSED: Plan = Plan { longest: u64::MAX, parallel: 16, ..DATA };

/// One request, and the wanted ranges of which it brings bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The bytes that are asked for. The first and the last one are wanted.
    pub range: Range<u64>,
    /// Indexes in the list of wanted ranges, by their starts.
    pub serves: Vec<usize>,
}

impl Plan {
    /// Returns the requests for the wanted ranges, in order and without common bytes. Ranges may come in any order, may
    /// be empty, and may overlap. A range that is cut is served by several requests, an empty one by none.
    ///
    /// # Panics
    /// If the longest request has no bytes.
    pub fn requests(&self, wanted: &[Range<u64>]) -> Vec<Request> {
        assert!(self.longest > 0, "a request has bytes");
        let mut order: Vec<usize> = (0..wanted.len()).filter(|i| wanted[*i].start < wanted[*i].end).collect();
        order.sort_unstable_by_key(|i| (wanted[*i].start, wanted[*i].end));
        let mut requests: Vec<Request> = Vec::new();
        // Bytes of the last request that no range wants.
        let mut waste = 0;
        let mut at = 0;
        while at < order.len() {
            // Ranges that overlap are wanted together.
            let first = at;
            let Range { start, mut end } = wanted[order[at]].clone();
            at += 1;
            while at < order.len() && wanted[order[at]].start < end {
                end = end.max(wanted[order[at]].end);
                at += 1;
            }
            let group = &order[first..at];
            if let Some(last) = requests.last_mut() {
                let gap = start - last.range.end;
                let total = end - last.range.start;
                if gap <= self.gap && total <= self.longest && (waste + gap).saturating_mul(self.gap_share) <= total {
                    last.range.end = end;
                    last.serves.extend(group);
                    waste += gap;
                    continue;
                }
            }
            waste = 0;
            let mut from = start;
            while from < end {
                // Equal parts instead of full ones and a small rest.
                let left = end - from;
                let to = from + left.div_ceil(left.div_ceil(self.longest));
                let served = |i: &usize| wanted[*i].start < to && wanted[*i].end > from;
                let serves = group.iter().copied().filter(served).collect();
                requests.push(Request { range: from..to, serves });
                from = to;
            }
        }
        requests
    }

    /// Returns requests as [`requests`](Self::requests) does, but joins them over the smallest gaps, whatever lies in
    /// between, until there are `few`, as long as none gets longer than the longest request.
    pub fn few_requests(&self, wanted: &[Range<u64>], few: usize) -> Vec<Request> {
        let mut requests = self.requests(wanted);
        while requests.len() > few.max(1) {
            let joined = |i: usize| requests[i + 1].range.end - requests[i].range.start;
            let gap = |i: &usize| requests[*i + 1].range.start - requests[*i].range.end;
            let Some(i) = (0..requests.len() - 1).filter(|i| joined(*i) <= self.longest).min_by_key(gap) else { break };
            let next = requests.remove(i + 1);
            let into = &mut requests[i];
            into.range.end = next.range.end;
            // A range may have been cut between the two.
            let new = next.serves.into_iter().filter(|i| !into.serves.contains(i)).collect::<Vec<_>>();
            into.serves.extend(new);
        }
        requests
    }
}

/// Returns the wanted ranges from the answers of the requests. An answer comes in pieces, which together are as long as
/// its request.
///
/// A range that one piece has whole is a part of that piece, and nothing is copied, unless the request serves several
/// ranges: then each range is copied, so that keeping one does not keep all.
///
/// # Panics
/// If an answer is shorter than its request.
pub fn assemble(wanted: &[Range<u64>], requests: &[Request], answers: &[Vec<Bytes>]) -> Vec<Bytes> {
    let mut out = vec![Bytes::new(); wanted.len()];
    let mut copied: Vec<Option<BytesMut>> = vec![None; wanted.len()];
    for (request, pieces) in requests.iter().zip(answers) {
        let ends: Vec<u64> = pieces
            .iter()
            .scan(request.range.start, |end, piece| {
                *end += piece.len() as u64;
                Some(*end)
            })
            .collect();
        assert!(ends.last().is_some_and(|end| *end >= request.range.end), "an answer is as long as its request");
        for i in &request.serves {
            let range = &wanted[*i];
            let (mut from, to) = (range.start.max(request.range.start), range.end.min(request.range.end));
            let mut piece = ends.partition_point(|end| *end <= from);
            while from < to {
                let bytes = &pieces[piece];
                let begin = (from + bytes.len() as u64 - ends[piece]) as usize;
                let len = (to.min(ends[piece]) - from) as usize;
                let part = begin..begin + len;
                if len as u64 == range.end - range.start && request.serves.len() == 1 {
                    out[*i] = bytes.slice(part);
                } else {
                    let whole = (range.end - range.start) as usize;
                    copied[*i].get_or_insert_with(|| BytesMut::with_capacity(whole)).extend_from_slice(&bytes[part]);
                }
                from += len as u64;
                piece += 1;
            }
        }
    }
    for (out, copied) in out.iter_mut().zip(copied) {
        if let Some(whole) = copied {
            *out = whole.freeze();
        }
    }
    assert!(
        out.iter().zip(wanted).all(|(b, r)| b.len() as u64 == r.end.saturating_sub(r.start)),
        "each range is as long as it was asked for"
    );
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request(range: Range<u64>, serves: &[usize]) -> Request {
        Request { range, serves: serves.to_vec() }
    }

    #[test]
    fn neighbours_are_joined_and_long_ranges_cut() {
        // A gap of 10 in 110 is below an eighth; the next one, of 90, is not.
        let joined = DATA.requests(&[0..50, 60..110, 200..210]);
        assert_eq!(joined, [request(0..110, &[0, 1]), request(200..210, &[2])]);
        // Ranges may come in any order, may be empty and overlap.
        assert_eq!(DATA.requests(&[50..100, 0..50]), [request(0..100, &[1, 0])]);
        assert_eq!(DATA.requests(&[7..7, 50..100, 0..60, 55..58]), [request(0..100, &[2, 1, 3])]);
        assert_eq!(DATA.requests(&[7..7]), []);
        let short = Plan { longest: 10, ..DATA };
        assert_eq!(short.requests(&[0..25]), [request(0..9, &[0]), request(9..17, &[0]), request(17..25, &[0])]);
        assert_eq!(
            short.requests(&[0..25, 3..4, 16..20]),
            [request(0..9, &[0, 1]), request(9..17, &[0, 2]), request(17..25, &[0, 2])]
        );
        // Nothing is joined beyond the longest request.
        assert_eq!(short.requests(&[0..8, 8..16]), [request(0..8, &[0]), request(8..16, &[1])]);
        let few = DATA.few_requests(&[0..1, 10..11, 30..31, 100..101, 105..106], 2);
        assert_eq!(few, [request(0..31, &[0, 1, 2]), request(100..106, &[3, 4])]);
    }

    /// The numbers of requests that reads of tables and of files make. A change of the plan that raises one of them
    /// makes queries slower.
    #[test]
    fn typical_reads_make_few_requests() {
        const KIB: u64 = 1 << 10;
        const MIB: u64 = 1 << 20;
        // Three columns of 700 KiB of twenty that lie one after the other.
        let far: Vec<_> = [2, 9, 17].map(|i| i * 700 * KIB..(i + 1) * 700 * KIB).into();
        // Columns 3 to 5 of them, and a small one that is left out between two.
        let near = [2100 * KIB..2800 * KIB, 2800 * KIB..3500 * KIB, 3600 * KIB..4300 * KIB];
        // All columns of a row group of 30 MiB.
        let all: Vec<_> = (0..20).map(|i| i * 1536 * KIB..(i + 1) * 1536 * KIB).collect();
        // A tenth of the pages of a column, of 64 KiB each.
        let pages: Vec<_> = (0..10).map(|i| i * 640 * KIB..i * 640 * KIB + 64 * KIB).collect();
        // Every second page.
        let half: Vec<_> = (0..50).map(|i| i * 128 * KIB..i * 128 * KIB + 64 * KIB).collect();
        // Pages of which each eighth is left out.
        let most: Vec<_> = (0..64).filter(|i| i % 9 > 0).map(|i| i * 64 * KIB..(i + 1) * 64 * KIB).collect();
        let number = |plan: Plan, wanted: &[Range<u64>]| plan.requests(wanted).len();
        assert_eq!(number(DATA, &far), 3);
        assert_eq!(number(DATA, &near), 1);
        assert_eq!(number(DATA, &all), 4);
        assert_eq!(number(SERIAL, &all), 10);
        assert_eq!(number(DATA, &pages), 10);
        assert_eq!(number(DATA, &half), 50);
        assert_eq!(number(DATA, &most), 1);
        assert_eq!(number(DATA, &[5..5 + 20 * MIB]), 3);
        assert_eq!(DATA.few_requests(&pages, 2).len(), 2);
        // Blocks of the cache of which every ninth is there: the cache asked for each rest by itself.
        let rest: Vec<_> = most.iter().map(|r| r.start * 16..r.end * 16).collect();
        assert_eq!(number(MISSED, &most), 1);
        assert_eq!(number(MISSED, &rest), 7, "blocks of 1 MiB are too much to read in vain");
    }

    /// The bytes that ranges want, one flag for each.
    fn bytes_of<'a>(ranges: impl IntoIterator<Item = &'a Range<u64>>, counts: &mut [u32]) {
        for range in ranges {
            counts[range.start as usize..range.end as usize].iter_mut().for_each(|count| *count += 1);
        }
    }

    const SIZE: u64 = 400;

    fn wanted() -> impl Strategy<Value = Vec<Range<u64>>> {
        let range = (0..SIZE, 0u64..60).prop_map(|(start, len)| start..(start + len).min(SIZE));
        prop::collection::vec(range, 0..12)
    }

    fn plan() -> impl Strategy<Value = Plan> {
        (0u64..20, 1u64..10, 1u64..120).prop_map(|(gap, gap_share, longest)| Plan {
            gap,
            gap_share,
            longest,
            parallel: 4,
        })
    }

    proptest! {
        #[test]
        fn requests_have_every_wanted_byte_once((wanted, plan) in (wanted(), plan())) {
            let requests = plan.requests(&wanted);
            let (mut want, mut asked) = ([0; SIZE as usize], [0; SIZE as usize]);
            bytes_of(wanted.iter().filter(|r| r.start < r.end), &mut want);
            bytes_of(requests.iter().map(|r| &r.range), &mut asked);
            prop_assert!(want.iter().zip(asked).all(|(want, asked)| asked <= 1 && (*want == 0 || asked == 1)));
            for Request { range, serves } in &requests {
                let len = range.end - range.start;
                prop_assert!(0 < len && len <= plan.longest);
                let of = &want[range.start as usize..range.end as usize];
                prop_assert!(of[0] > 0 && of[of.len() - 1] > 0, "no request begins or ends with bytes in vain");
                let longest_gap = of.split(|want| *want > 0).map(<[u32]>::len).max().unwrap_or(0) as u64;
                let waste = of.iter().filter(|want| **want == 0).count() as u64;
                prop_assert!(longest_gap <= plan.gap && waste * plan.gap_share <= len);
                let naive = |i: &usize| wanted[*i].start < range.end && wanted[*i].end > range.start
                    && wanted[*i].start < wanted[*i].end;
                let mut served = serves.clone();
                served.sort_unstable();
                prop_assert_eq!(served, (0..wanted.len()).filter(naive).collect::<Vec<_>>());
                prop_assert!(serves.is_sorted_by_key(|i| (wanted[*i].start, wanted[*i].end)));
            }
            // What could be joined is joined: the naive twin goes from byte to byte.
            prop_assert_eq!(requests.len(), naive_number(&want, &wanted, &plan));
        }

        #[test]
        fn answers_become_what_was_wanted(
            (wanted, plan, few, cut) in (wanted(), plan(), any::<bool>(), 1usize..50)
        ) {
            let object: Vec<u8> = (0..SIZE).map(|i| (i * 7 % 251) as u8).collect();
            let requests = if few { plan.few_requests(&wanted, 2) } else { plan.requests(&wanted) };
            prop_assert!(requests.iter().all(|r| r.range.end - r.range.start <= plan.longest));
            let answer = |r: &Request| -> Vec<Bytes> {
                let bytes = &object[r.range.start as usize..r.range.end as usize];
                bytes.chunks(cut).map(Bytes::copy_from_slice).collect()
            };
            let answers: Vec<_> = requests.iter().map(answer).collect();
            for (range, bytes) in wanted.iter().zip(assemble(&wanted, &requests, &answers)) {
                prop_assert_eq!(&bytes[..], &object[range.start as usize..range.end as usize]);
            }
        }
    }

    /// The number of requests by a walk over the bytes: a run of wanted bytes, where runs of ranges that only touch are
    /// two, goes to the last request or begins one.
    fn naive_number(want: &[u32], wanted: &[Range<u64>], plan: &Plan) -> usize {
        let begins = |at: usize| {
            want[at] > 0 && !wanted.iter().any(|r| r.start < at as u64 && at as u64 <= r.end.saturating_sub(1))
        };
        let mut runs = Vec::new();
        for at in (0..want.len()).filter(|at| begins(*at)) {
            let end = (at + 1..want.len()).find(|end| want[*end] == 0 || begins(*end)).unwrap_or(want.len());
            runs.push((at as u64, end as u64));
        }
        let (mut number, mut from, mut to, mut waste) = (0, 0, 0, 0);
        for (start, end) in runs {
            let gap = start - to;
            let fits = number > 0 && gap <= plan.gap && end - from <= plan.longest;
            if fits && (waste + gap) * plan.gap_share <= end - from {
                (to, waste) = (end, waste + gap);
                continue;
            }
            let parts = (end - start).div_ceil(plan.longest);
            number += parts as usize;
            // The last part decides what comes next; the parts are as equal as whole bytes allow.
            let mut left = end - start;
            for part in (1..=parts).rev() {
                from = end - left;
                left -= left.div_ceil(part);
            }
            (to, waste) = (end, 0);
        }
        number
    }

    #[test]
    fn a_range_that_a_request_answers_whole_is_not_copied() {
        let wanted = [0..40, 100..200, 100..200];
        let requests = Plan { gap: 0, ..DATA }.requests(&wanted);
        let answers = [vec![Bytes::from(vec![1; 40])], vec![Bytes::from(vec![2; 100])]];
        let parts = assemble(&wanted, &requests, &answers);
        assert_eq!(parts[0].as_ptr(), answers[0][0].as_ptr());
        for shared in &parts[1..] {
            assert_eq!(shared[..], [2; 100]);
            assert_ne!(shared.as_ptr(), answers[1][0].as_ptr(), "a request of two ranges");
        }
        // An answer in two pieces is put together by one copy.
        let pieces = vec![Bytes::from(vec![1; 15]), Bytes::from(vec![3; 25])];
        let whole = assemble(&wanted[..1], &requests[..1], &[pieces]).remove(0);
        assert_eq!((whole[..15].to_vec(), whole[15..].to_vec()), (vec![1; 15], vec![3; 25]));
    }
}
