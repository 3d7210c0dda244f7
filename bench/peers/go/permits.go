package main

import (
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

func init() {
	add("B5", "x/sync/semaphore Weighted", 1, func() result {
		s := semaphore.NewWeighted(8)
		return measure(many, func() {
			for i := 0; i < many; i++ {
				_ = s.Acquire(background, 1)
				s.Release(1)
			}
		})
	})
	add("B5", "buffered channel", 1, func() result {
		s := make(chan struct{}, 8)
		return measure(many, func() {
			for i := 0; i < many; i++ {
				s <- struct{}{}
				<-s
			}
		})
	})
	for _, c := range []struct {
		id      string
		permits int64
		threads int
	}{{"B6", 1, 1}, {"B6b", 8, 2}, {"B23", 8, 2}, {"X2", 8, 2}, {"X6s", 1, 1}} {
		add(c.id, "x/sync/semaphore Weighted", c.threads, func() result {
			s := semaphore.NewWeighted(c.permits)
			return contended(func() { _ = s.Acquire(background, 1) }, func() { s.Release(1) })
		})
		add(c.id, "buffered channel", c.threads, func() result {
			s := make(chan struct{}, c.permits)
			return contended(func() { s <- struct{}{} }, func() { <-s })
		})
	}
	add("B12", "x/sync/semaphore Weighted", 1, func() result { return millionWaiters(1_000_000) })
}

// contended measures 64 goroutines that take a permit in turn, and yield while they hold it.
func contended(acquire, release func()) result {
	const contenders, rounds = 64, 3_000
	return measure(contenders*rounds, func() {
		var group sync.WaitGroup
		for i := 0; i < contenders; i++ {
			group.Add(1)
			go func() {
				defer group.Done()
				for i := 0; i < rounds; i++ {
					acquire()
					runtime.Gosched()
					release()
				}
			}()
		}
		group.Wait()
	})
}

// millionWaiters queues n goroutines at a semaphore, and then wakes all of them.
func millionWaiters(n int) result {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := semaphore.NewWeighted(int64(n))
	_ = s.Acquire(background, int64(n))
	var group sync.WaitGroup
	group.Add(n)
	start := time.Now()
	for i := 0; i < n; i++ {
		go func() {
			_ = s.Acquire(background, 1)
			group.Done()
		}()
	}
	runtime.Gosched()
	queued := time.Since(start)
	runtime.ReadMemStats(&after)
	s.Release(int64(n))
	group.Wait()
	return result{
		NS:    float64(queued.Nanoseconds()) / float64(n),
		Bytes: float64(after.Sys-before.Sys) / float64(n),
	}
}
