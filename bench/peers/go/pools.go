package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

var work atomic.Int64

func operation() { work.Add(1) }

func init() {
	const n = 500_000
	fill := func(post func()) result {
		return measure(n, func() {
			for i := 0; i < n; i++ {
				post()
			}
		})
	}
	for _, c := range []struct {
		id      string
		threads int
	}{{"B7", 1}, {"B9", 2}, {"X3", 2}} {
		add(c.id, "channel of functions, 8 workers", c.threads, func() result {
			return measure(n, func() {
				queue := make(chan func(), 64)
				var group sync.WaitGroup
				for i := 0; i < 8; i++ {
					group.Add(1)
					go func() {
						defer group.Done()
						for f := range queue {
							f()
						}
					}()
				}
				for i := 0; i < n; i++ {
					queue <- operation
				}
				close(queue)
				group.Wait()
			})
		})
	}
	add("B7", "worker pool with states and a result channel", 1, func() result {
		p := newWorkerPool(8)
		defer p.stop()
		return measure(n, func() { p.runAll(n, func(context.Context) error { operation(); return nil }, 0) })
	})
	add("B7", "x/sync/semaphore and go", 1, func() result {
		s := semaphore.NewWeighted(8)
		var group sync.WaitGroup
		r := fill(func() {
			_ = s.Acquire(background, 1)
			group.Add(1)
			go func() { operation(); s.Release(1); group.Done() }()
		})
		group.Wait()
		return r
	})
	add("B10", "worker pool with states, timeout", 1, func() result {
		p := newWorkerPool(8)
		defer p.stop()
		const long = 100_000
		return measure(long, func() {
			p.runAll(long, func(context.Context) error { operation(); return nil }, time.Second)
		})
	})
}

// workerPool is the design that goapp's article describes (habr.com/ru/post/720286); goapp's module is not on the
// proxy. Tasks come from a sync.Pool, with a state and a channel that reports their end. Workers select on their
// context, a stop signal and the queue. A short task runs in the worker. A task with a timeout runs in a goroutine that
// the worker watches together with a timer.
type workerPool struct {
	ctx    context.Context
	cancel context.CancelFunc
	queue  chan *task
	halt   chan struct{}
	group  sync.WaitGroup
}

type task struct {
	mutex   sync.Mutex
	state   int
	f       func(context.Context) error
	timeout time.Duration
	timer   *time.Timer
	ended   chan struct{} // closed when f has returned
	done    chan *task
	spent   time.Duration
	err     error
}

var tasks = sync.Pool{New: func() any {
	t := &task{ended: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	t.timer.Stop()
	return t
}}

func newWorkerPool(workers int) *workerPool {
	p := &workerPool{queue: make(chan *task, 64), halt: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(background)
	for i := 0; i < workers; i++ {
		p.group.Add(1)
		go p.worker()
	}
	return p
}

func (p *workerPool) stop() {
	close(p.halt)
	p.group.Wait()
	p.cancel()
}

func (p *workerPool) worker() {
	defer p.group.Done()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.halt:
			return
		case t := <-p.queue:
			t.process(p.ctx)
		}
	}
}

func (t *task) set(state int) {
	t.mutex.Lock()
	t.state = state
	t.mutex.Unlock()
}

func (t *task) process(ctx context.Context) {
	start := time.Now()
	t.set(1)
	if t.timeout == 0 {
		t.call(ctx)
	} else {
		inner, cancel := context.WithCancel(ctx)
		t.timer.Reset(t.timeout)
		go func() { t.call(inner); t.ended <- struct{}{} }()
		select {
		case <-t.ended:
		case <-t.timer.C:
			t.err = context.DeadlineExceeded
		case <-ctx.Done():
			t.err = ctx.Err()
		}
		t.timer.Stop()
		cancel()
	}
	t.spent = time.Since(start)
	t.set(2)
	t.done <- t
}

func (t *task) call(ctx context.Context) {
	defer func() {
		if r := recover(); r != nil {
			t.err = context.Canceled
		}
	}()
	t.err = t.f(ctx)
}

// runAll submits n tasks, 64 at a time, and waits for all of them.
func (p *workerPool) runAll(n int, f func(context.Context) error, timeout time.Duration) {
	const burst = 64
	done := make(chan *task, burst)
	for left := n; left > 0; left -= burst {
		batch := min(burst, left)
		for i := 0; i < batch; i++ {
			t := tasks.Get().(*task)
			t.f, t.timeout, t.done, t.err = f, timeout, done, nil
			t.set(0)
			p.queue <- t
		}
		for i := 0; i < batch; i++ {
			tasks.Put(<-done)
		}
	}
}
