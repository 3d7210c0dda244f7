use crate::{contestant, measure, one_thread, two_threads, Contestant, Sample, MANY};
use std::hint::black_box;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

const CAPACITY: usize = 64;

/// The value of B27: some words, and a box that it owns.
#[derive(Default)]
struct Job {
    _owner: Option<Box<i32>>,
    _words: [u64; 4],
}

/// Measures one task that sends, and another one that receives.
fn handed_over(runtime: Runtime) -> Sample {
    let (to, mut from) = mpsc::channel::<Job>(CAPACITY);
    measure(MANY, || {
        runtime.block_on(async {
            let sender = tokio::spawn(async move {
                for _ in 0..MANY {
                    to.send(Job::default()).await.unwrap();
                }
            });
            let receiver = tokio::spawn(async move {
                for _ in 0..MANY {
                    black_box(from.recv().await.unwrap());
                }
            });
            sender.await.unwrap();
            receiver.await.unwrap();
        })
    })
}

pub fn contestants() -> Vec<Contestant> {
    vec![
        contestant("B27", "tokio mpsc, try_send and try_recv", || {
            let (to, mut from) = mpsc::channel::<Job>(CAPACITY);
            measure(MANY, || {
                for _ in 0..MANY {
                    to.try_send(Job::default()).unwrap();
                    black_box(from.try_recv().unwrap());
                }
            })
        }),
        contestant("B27", "crossbeam channel, try_send and try_recv", || {
            let (to, from) = crossbeam_channel::bounded::<Job>(CAPACITY);
            measure(MANY, || {
                for _ in 0..MANY {
                    to.try_send(Job::default()).unwrap();
                    black_box(from.try_recv().unwrap());
                }
            })
        }),
        contestant("B27c", "tokio mpsc", || {
            let (to, mut from) = mpsc::channel::<Job>(CAPACITY);
            let runtime = one_thread();
            measure(MANY, || {
                runtime.block_on(async {
                    for _ in 0..MANY {
                        to.send(Job::default()).await.unwrap();
                        black_box(from.recv().await.unwrap());
                    }
                })
            })
        }),
        contestant("B27p", "tokio mpsc", || handed_over(one_thread())),
        contestant("B27t", "tokio mpsc", || handed_over(two_threads())),
        contestant("B27t", "crossbeam channel, blocking threads", || {
            let (to, from) = crossbeam_channel::bounded::<Job>(CAPACITY);
            measure(MANY, || {
                let sender = std::thread::spawn(move || {
                    for _ in 0..MANY {
                        to.send(Job::default()).unwrap();
                    }
                });
                for _ in 0..MANY {
                    black_box(from.recv().unwrap());
                }
                sender.join().unwrap();
            })
        }),
    ]
}
