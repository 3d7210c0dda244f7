//! The work of canigo's benchmarks, done in Rust. Prints one JSON line per contestant and call.

mod channels;
mod keyed;
mod permits;
mod policies;
mod pools;
mod rates;
mod timers;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The measurement of one repetition, with the same fields as canigo's own programs print.
#[derive(Clone, Default)]
pub struct Sample {
    pub ns: f64,
    pub allocs: f64,
    pub bytes: Option<f64>,
    pub reached: Option<f64>,
    pub cpu: Option<f64>,
}

pub struct Contestant {
    pub id: String,
    pub name: &'static str,
    pub warm_up: bool,
    pub run: Box<dyn Fn() -> Sample>,
}

pub fn contestant(id: &str, name: &'static str, run: impl Fn() -> Sample + 'static) -> Contestant {
    Contestant {
        id: id.into(),
        name,
        warm_up: true,
        run: Box::new(run),
    }
}

/// The number of operations in a repetition whose operations take tens of nanoseconds.
pub const MANY: usize = 1_000_000;

/// An allocator that counts allocations and the bytes in use.
struct Counting;
static MADE: AtomicU64 = AtomicU64::new(0);
static IN_USE: AtomicI64 = AtomicI64::new(0);

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, l: Layout) -> *mut u8 {
        MADE.fetch_add(1, Relaxed);
        IN_USE.fetch_add(l.size() as i64, Relaxed);
        System.alloc(l)
    }
    unsafe fn dealloc(&self, p: *mut u8, l: Layout) {
        IN_USE.fetch_sub(l.size() as i64, Relaxed);
        System.dealloc(p, l)
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

pub fn bytes_in_use() -> i64 {
    IN_USE.load(Relaxed)
}

/// Measures one call of `f`, which does `n` operations.
pub fn measure(n: usize, f: impl FnOnce()) -> Sample {
    let made = MADE.load(Relaxed);
    let start = Instant::now();
    f();
    let spent = start.elapsed();
    let allocs = (MADE.load(Relaxed) - made) as f64 / n as f64;
    Sample {
        ns: spent.as_nanos() as f64 / n as f64,
        allocs,
        ..Sample::default()
    }
}

/// Returns a tokio runtime that runs on the calling thread only.
pub fn one_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
}

pub fn two_threads() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap()
}

/// Returns the user and system time of this process.
pub fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10) // USER_HZ is 100 on every Linux
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let only = args
        .iter()
        .position(|a| a == "--only")
        .map(|i| args[i + 1].clone());
    let list = args.iter().any(|a| a == "--list");
    let mut all = rates::contestants();
    all.extend(channels::contestants());
    all.extend(keyed::contestants());
    all.extend(permits::contestants());
    all.extend(pools::contestants());
    all.extend(timers::contestants());
    all.extend(policies::contestants());
    for c in all {
        if only
            .as_ref()
            .is_some_and(|ids| !ids.split(',').any(|id| id == c.id))
        {
            continue;
        }
        if list {
            println!("{} {}", c.id, c.name);
            continue;
        }
        if c.warm_up {
            (c.run)();
        }
        let s = (c.run)();
        let mut line = format!(
            r#"{{"id":"{}","name":"Rust: {}","ns":{},"allocs":{}"#,
            c.id, c.name, s.ns, s.allocs
        );
        for (key, value) in [("bytes", s.bytes), ("reached", s.reached), ("cpu", s.cpu)] {
            if let Some(v) = value {
                line += &format!(r#","{key}":{v}"#);
            }
        }
        println!("{line}}}");
    }
}
