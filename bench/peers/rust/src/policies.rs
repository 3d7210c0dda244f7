use crate::{contestant, measure, one_thread, Contestant, MANY};
use std::future::{ready, Ready};
use std::time::Duration;
use tower::{retry::Policy, BoxError, Service, ServiceBuilder, ServiceExt};

/// Makes up to three attempts for a call that fails.
#[derive(Clone)]
struct Attempts(u32);

impl Policy<(), (), BoxError> for Attempts {
    type Future = Ready<()>;
    fn retry(&mut self, _: &mut (), result: &mut Result<(), BoxError>) -> Option<Self::Future> {
        if result.is_ok() || self.0 <= 1 {
            return None;
        }
        self.0 -= 1;
        Some(ready(()))
    }
    fn clone_request(&mut self, _: &()) -> Option<()> {
        Some(())
    }
}

pub fn contestants() -> Vec<Contestant> {
    vec![contestant(
        "B21",
        "tower: rate, timeout, retry, concurrency",
        || {
            const N: usize = MANY / 10;
            let runtime = one_thread();
            let inside = runtime.enter();
            let mut service = ServiceBuilder::new()
                .rate_limit(u64::MAX, Duration::from_secs(1))
                .timeout(Duration::from_secs(2))
                .retry(Attempts(3))
                .concurrency_limit(64)
                .service_fn(|_: ()| ready(Ok::<(), BoxError>(())));
            drop(inside);
            measure(N, || {
                runtime.block_on(async {
                    for _ in 0..N {
                        service.ready().await.unwrap().call(()).await.unwrap();
                    }
                })
            })
        },
    )]
}
