use crate::{bytes_in_use, contestant, measure, Contestant, Sample, MANY};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use std::num::NonZeroU32;
use std::sync::OnceLock;
use std::time::Duration;

const KEYS: usize = 1_000_000;

fn names() -> &'static Vec<String> {
    static ALL: OnceLock<Vec<String>> = OnceLock::new();
    ALL.get_or_init(|| (0..KEYS).map(|i| format!("client {i}")).collect())
}

fn limiter() -> DefaultKeyedRateLimiter<String> {
    let quota = Quota::with_period(Duration::from_secs(3600)).unwrap();
    RateLimiter::keyed(quota.allow_burst(NonZeroU32::new(1_000_000).unwrap()))
}

fn known() -> &'static DefaultKeyedRateLimiter<String> {
    static ALL: OnceLock<DefaultKeyedRateLimiter<String>> = OnceLock::new();
    ALL.get_or_init(|| {
        let l = limiter();
        for name in names() {
            let _ = l.check_key(name);
        }
        l
    })
}

fn walk(start: usize) {
    let (names, l) = (names(), known());
    let mut at = start;
    for _ in 0..MANY {
        at = (at + 611_953) % KEYS;
        std::hint::black_box(l.check_key(&names[at]).is_ok());
    }
}

fn new_keys() -> Sample {
    let names = names();
    let before = bytes_in_use();
    let l = limiter();
    let mut s = measure(KEYS, || {
        for name in names {
            std::hint::black_box(l.check_key(name).is_ok());
        }
    });
    s.bytes = Some((bytes_in_use() - before) as f64 / KEYS as f64);
    s
}

pub fn contestants() -> Vec<Contestant> {
    vec![
        contestant("B17", "governor keyed", || {
            known();
            measure(MANY, || walk(0))
        }),
        contestant("B17t", "governor keyed", || {
            known();
            measure(2 * MANY, || {
                std::thread::scope(|s| {
                    s.spawn(|| walk(KEYS / 2));
                    walk(0);
                })
            })
        }),
        contestant("B17n", "governor keyed", new_keys),
    ]
}
