use crate::{bytes_in_use, contestant, measure, one_thread, Contestant, Sample};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::{sleep, Sleep};

const N: usize = 1_000_000;

/// Arms a million timers between one and two hours ahead by a first poll, then drops them.
fn million() -> (Sample, Sample) {
    let runtime = one_thread();
    let _inside = runtime.enter();
    let before = bytes_in_use();
    let mut timers: Vec<Pin<Box<Sleep>>> = Vec::with_capacity(N);
    let mut armed = measure(N, || {
        let mut context = Context::from_waker(Waker::noop());
        for i in 0..N as u64 {
            let mut timer = Box::pin(sleep(Duration::from_millis(
                3_600_000 + i * 7919 % 3_600_000,
            )));
            assert!(timer.as_mut().poll(&mut context) == Poll::Pending);
            timers.push(timer);
        }
    });
    armed.bytes = Some((bytes_in_use() - before) as f64 / N as f64);
    let dropped = measure(N, || timers.clear());
    (armed, dropped)
}

pub fn contestants() -> Vec<Contestant> {
    vec![
        contestant("B11", "tokio Sleep, arm", || million().0),
        contestant("B11c", "tokio Sleep, drop", || million().1),
    ]
}
