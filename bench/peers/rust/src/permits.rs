use crate::rates::plenty;
use crate::{bytes_in_use, contestant, measure, one_thread, two_threads, Contestant, Sample, MANY};
use std::sync::Arc;
use std::time::Instant;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::yield_now;

/// Measures 64 tasks that take a permit in turn, and yield while they hold it.
fn contended(runtime: Runtime, permits: usize) -> Sample {
    const CONTENDERS: usize = 64;
    const ROUNDS: usize = 3_000;
    let s = Arc::new(Semaphore::new(permits));
    measure(CONTENDERS * ROUNDS, || {
        runtime.block_on(async {
            let tasks: Vec<_> = (0..CONTENDERS)
                .map(|_| {
                    let s = s.clone();
                    tokio::spawn(async move {
                        for _ in 0..ROUNDS {
                            let _permit = s.acquire().await.unwrap();
                            yield_now().await;
                        }
                    })
                })
                .collect();
            for t in tasks {
                t.await.unwrap();
            }
        })
    })
}

/// Measures 64 tasks that yield.
fn yielding(runtime: Runtime) -> Sample {
    const TASKS: usize = 64;
    const ROUNDS: usize = 3_000;
    measure(TASKS * ROUNDS, || {
        runtime.block_on(async {
            let tasks: Vec<_> = (0..TASKS)
                .map(|_| {
                    tokio::spawn(async move {
                        for _ in 0..ROUNDS {
                            yield_now().await;
                        }
                    })
                })
                .collect();
            for t in tasks {
                t.await.unwrap();
            }
        })
    })
}

/// Measures 64 tasks that spawn tasks one after the other, and wait for each.
fn spawning(runtime: Runtime) -> Sample {
    const TASKS: usize = 64;
    const ROUNDS: usize = 300;
    measure(TASKS * ROUNDS, || {
        runtime.block_on(async {
            let tasks: Vec<_> = (0..TASKS)
                .map(|_| {
                    tokio::spawn(async move {
                        for _ in 0..ROUNDS {
                            tokio::spawn(async {}).await.unwrap();
                        }
                    })
                })
                .collect();
            for t in tasks {
                t.await.unwrap();
            }
        })
    })
}

/// Like contended(), with a token before each permit. Without `permits` only tokens are taken. All tokens are
/// available.
fn with_tokens(permits: Option<usize>) -> Sample {
    const CONTENDERS: usize = 64;
    const ROUNDS: usize = 3_000;
    let s = permits.map(|n| Arc::new(Semaphore::new(n)));
    let tokens = Arc::new(plenty());
    measure(CONTENDERS * ROUNDS, || {
        two_threads().block_on(async {
            let tasks: Vec<_> = (0..CONTENDERS)
                .map(|_| {
                    let (s, tokens) = (s.clone(), tokens.clone());
                    tokio::spawn(async move {
                        for _ in 0..ROUNDS {
                            tokens.until_ready().await;
                            let _permit = match &s {
                                Some(s) => Some(s.acquire().await.unwrap()),
                                None => None,
                            };
                            yield_now().await;
                        }
                    })
                })
                .collect();
            for t in tasks {
                t.await.unwrap();
            }
        })
    })
}

/// Queues `n` tasks at a semaphore, then wakes all of them.
fn waiters(n: usize) -> Sample {
    let s = Arc::new(Semaphore::new(0));
    let runtime = one_thread();
    let before = bytes_in_use();
    runtime.block_on(async {
        let start = Instant::now();
        let tasks: Vec<_> = (0..n)
            .map(|_| {
                let s = s.clone();
                tokio::spawn(async move { s.acquire().await.unwrap().forget() })
            })
            .collect();
        // The runtime runs this task again after at most 61 other tasks. After this many yields, all tasks are queued.
        for _ in 0..n / 16 {
            yield_now().await;
        }
        let queued = start.elapsed();
        let bytes = bytes_in_use() - before;
        s.add_permits(n);
        for t in tasks {
            t.await.unwrap();
        }
        Sample {
            ns: queued.as_nanos() as f64 / n as f64,
            bytes: Some(bytes as f64 / n as f64),
            ..Sample::default()
        }
    })
}

pub fn contestants() -> Vec<Contestant> {
    let mut million = contestant("B12", "tokio Semaphore, a task each", || waiters(1_000_000));
    million.warm_up = false;
    vec![
        contestant("B5", "tokio Semaphore", || {
            let s = Semaphore::new(8);
            let runtime = one_thread();
            measure(MANY, || {
                runtime.block_on(async {
                    for _ in 0..MANY {
                        let _permit = s.acquire().await.unwrap();
                    }
                })
            })
        }),
        contestant("B6", "tokio Semaphore", || contended(one_thread(), 1)),
        contestant("B6b", "tokio Semaphore", || contended(two_threads(), 8)),
        contestant("B23", "tokio Semaphore", || contended(two_threads(), 8)),
        contestant("B23l", "tokio Semaphore and governor", || {
            with_tokens(Some(8))
        }),
        contestant("B23p", "tokio Semaphore", || contended(two_threads(), 8)),
        contestant("B23lp", "tokio Semaphore and governor", || {
            with_tokens(Some(8))
        }),
        contestant("X1", "tokio yield_now", || yielding(two_threads())),
        contestant("X2", "tokio Semaphore", || contended(two_threads(), 8)),
        contestant("X4", "tokio spawn and join", || spawning(two_threads())),
        contestant("X5", "tokio Semaphore and governor", || with_tokens(Some(8))),
        contestant("X6", "tokio yield_now", || yielding(one_thread())),
        contestant("X6s", "tokio Semaphore", || contended(one_thread(), 1)),
        contestant("B23r", "governor until_ready", || with_tokens(None)),
        million,
    ]
}
