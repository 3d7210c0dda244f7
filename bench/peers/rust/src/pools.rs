use crate::{contestant, measure, one_thread, Contestant, Sample};
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::timeout;

static WORK: AtomicU64 = AtomicU64::new(0);

async fn operation() {
    WORK.fetch_add(1, Relaxed);
}

/// Runs at most 8 operations at once. Submits 64 operations and waits for all of them, until `n` are done.
fn pool<F>(runtime: Runtime, n: usize, each: fn(OwnedSemaphorePermit) -> F) -> Sample
where
    F: Future<Output = ()> + Send + 'static,
{
    const BURST: usize = 64;
    let s = Arc::new(Semaphore::new(8));
    measure(n, || {
        runtime.block_on(async {
            let mut tasks: Vec<JoinHandle<()>> = Vec::with_capacity(BURST);
            for _ in 0..n / BURST {
                for _ in 0..BURST {
                    let permit = s.clone().acquire_owned().await.unwrap();
                    tasks.push(tokio::spawn(each(permit)));
                }
                for t in tasks.drain(..) {
                    t.await.unwrap();
                }
            }
        })
    })
}

async fn short(_permit: OwnedSemaphorePermit) {
    operation().await
}

async fn limited(_permit: OwnedSemaphorePermit) {
    timeout(Duration::from_secs(1), operation()).await.unwrap()
}

async fn limited_and_suspending(_permit: OwnedSemaphorePermit) {
    let op = async {
        operation().await;
        tokio::task::yield_now().await
    };
    timeout(Duration::from_secs(1), op).await.unwrap()
}

pub fn contestants() -> Vec<Contestant> {
    const N: usize = 512_000;
    vec![
        contestant("B7", "tokio Semaphore and spawn", || {
            pool(one_thread(), N, short)
        }),
        contestant("B8", "tokio spawn and join", || {
            let runtime = one_thread();
            measure(N, || {
                runtime.block_on(async {
                    for _ in 0..N {
                        tokio::spawn(operation()).await.unwrap();
                    }
                })
            })
        }),
        contestant("B10", "tokio Semaphore, spawn, timeout", || {
            pool(one_thread(), N, limited)
        }),
        contestant("B10s", "tokio Semaphore, spawn, timeout", || {
            pool(one_thread(), N, limited_and_suspending)
        }),
    ]
}
