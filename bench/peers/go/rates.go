package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/time/rate"
)

var background = context.Background()

// plenty returns a limiter that never runs out of tokens: one token per nanosecond, and a billion at the start.
func plenty() *rate.Limiter { return rate.NewLimiter(1e9, 1e9) }

func init() {
	shared := plenty()
	allow := func() {
		for i := 0; i < many; i++ {
			shared.Allow()
		}
	}
	wait := func() {
		for i := 0; i < many; i++ {
			_ = shared.Wait(background)
		}
	}
	add("B1", "x/time/rate Allow", 1, func() result { return measure(many, allow) })
	add("B2", "x/time/rate Wait", 1, func() result { return measure(many, wait) })
	add("B2", "ticker, dispatcher, a lock per caller", 2, func() result {
		const n = 100_000
		c := newThroughputControl(n)
		return measure(n, func() {
			for i := 0; i < n; i++ {
				c.canIGo(0)
			}
		})
	})
	add("B3", "x/time/rate Allow", 2, func() result { return measure(2*many, func() { twice(allow) }) })
	for _, perSecond := range []int{10_000, 100_000, 1_000_000} {
		add(fmt.Sprintf("B4-%d", perSecond), "x/time/rate Wait", 1, func() result { return saturate(perSecond) })
	}
	for _, perSecond := range []int{10_000, 100_000} {
		add(fmt.Sprintf("B20-%d", perSecond), "x/time/rate Wait", 1, func() result { return saturate(perSecond) })
	}
}

func twice(f func()) {
	var group sync.WaitGroup
	for i := 0; i < 2; i++ {
		group.Add(1)
		go func() { defer group.Done(); f() }()
	}
	group.Wait()
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// saturate lets 64 goroutines request more than the rate allows, for a second.
func saturate(perSecond int) result {
	l := rate.NewLimiter(rate.Limit(perSecond), perSecond/100)
	l.AllowN(time.Now(), perSecond/100)
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	var granted atomic.Int64
	cpu, start := cpuTime(), time.Now()
	for i := 0; i < 64; i++ {
		go func() {
			for l.Wait(ctx) == nil {
				granted.Add(1)
			}
		}()
	}
	time.Sleep(time.Second)
	spent := time.Since(start).Seconds()
	n := float64(granted.Load())
	return result{Reached: n / (float64(perSecond) * spent), CPU: (cpuTime() - cpu).Seconds() / spent, NS: spent * 1e9 / n}
}

// throughputControl is the design of github.com/hekmon/tpcontrol, which is not on the module proxy. A ticker fills a
// channel of tokens. A dispatcher takes a token, waits for a notice that a caller waits, and then unlocks the oldest
// caller of the most important queue. A caller queues a locked mutex, and sends its notice from a separate goroutine.
type throughputControl struct {
	tokens, notices chan struct{}
	queues          []callers
}

type callers struct {
	sync.Mutex
	waiting []*sync.Mutex
}

// newThroughputControl returns a control that has all its tokens at the start, so that only the passing of callers is
// measured.
func newThroughputControl(tokens int) *throughputControl {
	c := &throughputControl{make(chan struct{}, tokens), make(chan struct{}), make([]callers, 3)}
	for i := 0; i < tokens; i++ {
		c.tokens <- struct{}{}
	}
	go func() {
		for range tokens {
			<-c.tokens
			<-c.notices
			for i := range c.queues {
				if c.queues[i].letGo() {
					break
				}
			}
		}
	}()
	return c
}

func (q *callers) letGo() bool {
	q.Lock()
	defer q.Unlock()
	if len(q.waiting) == 0 {
		return false
	}
	q.waiting[0].Unlock()
	q.waiting = q.waiting[1:]
	return true
}

func (c *throughputControl) canIGo(priority int) {
	var mine sync.Mutex
	mine.Lock()
	q := &c.queues[priority]
	q.Lock()
	q.waiting = append(q.waiting, &mine)
	q.Unlock()
	go func() { c.notices <- struct{}{} }()
	mine.Lock()
}
