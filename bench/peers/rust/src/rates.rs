use crate::{contestant, cpu_time, measure, one_thread, Contestant, Sample, MANY};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tower::{limit::RateLimit, Service, ServiceExt};

/// A limiter with one token per nanosecond, and at the start as many tokens as governor can keep.
pub fn plenty() -> DefaultDirectRateLimiter {
    let most = NonZeroU32::new(1_000_000_000).unwrap();
    RateLimiter::direct(Quota::per_second(most).allow_burst(most))
}

fn check(limiter: &DefaultDirectRateLimiter) {
    for _ in 0..MANY {
        std::hint::black_box(limiter.check().is_ok());
    }
}

/// Measures 64 tasks that request more than the rate allows, for a second.
fn saturate(per_second: u32) -> Sample {
    let burst = NonZeroU32::new(per_second / 100).unwrap();
    let limiter = Arc::new(RateLimiter::direct(
        Quota::per_second(NonZeroU32::new(per_second).unwrap()).allow_burst(burst),
    ));
    let _ = limiter.check_n(burst);
    let granted = Arc::new(AtomicU64::new(0));
    let (cpu, start) = (cpu_time(), Instant::now());
    one_thread().block_on(async {
        for _ in 0..64 {
            let (limiter, granted) = (limiter.clone(), granted.clone());
            tokio::spawn(async move {
                loop {
                    limiter.until_ready().await;
                    granted.fetch_add(1, Relaxed);
                    // Without this yield, tasks that find a token would keep the runtime from reading its clock.
                    tokio::task::yield_now().await;
                }
            });
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    });
    let spent = start.elapsed().as_secs_f64();
    let n = granted.load(Relaxed) as f64;
    Sample {
        ns: spent * 1e9 / n,
        reached: Some(n / (per_second as f64 * spent)),
        cpu: Some((cpu_time() - cpu).as_secs_f64() / spent),
        ..Sample::default()
    }
}

pub fn contestants() -> Vec<Contestant> {
    let mut all = vec![
        contestant("B1", "governor check", || {
            let l = plenty();
            measure(MANY, || check(&l))
        }),
        contestant("B2", "governor until_ready", || {
            let l = plenty();
            let runtime = one_thread();
            measure(MANY, || {
                runtime.block_on(async {
                    for _ in 0..MANY {
                        l.until_ready().await;
                    }
                })
            })
        }),
        contestant("B2", "tower RateLimit, one owner", || {
            let inner = tower::service_fn(|_: ()| {
                std::future::ready(Ok::<(), std::convert::Infallible>(()))
            });
            let runtime = one_thread();
            let inside = runtime.enter();
            let mut l = RateLimit::new(
                inner,
                tower::limit::rate::Rate::new(u64::MAX, Duration::from_secs(1)),
            );
            drop(inside);
            measure(MANY, || {
                runtime.block_on(async {
                    for _ in 0..MANY {
                        l.ready().await.unwrap().call(()).await.unwrap();
                    }
                })
            })
        }),
        contestant("B3", "governor check", || {
            let l = plenty();
            measure(2 * MANY, || {
                std::thread::scope(|s| {
                    s.spawn(|| check(&l));
                    check(&l);
                })
            })
        }),
    ];
    for per_second in [10_000, 100_000, 1_000_000] {
        let mut c = contestant(
            &format!("B4-{per_second}"),
            "governor until_ready",
            move || saturate(per_second),
        );
        c.warm_up = false;
        all.push(c);
    }
    all
}
