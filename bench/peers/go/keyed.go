package main

import (
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/time/rate"
)

const keyCount = 1_000_000

// limiters is the usual solution: a map with a limiter for each key, behind a lock.
type limiters struct {
	sync.RWMutex
	all map[string]*rate.Limiter
}

func (l *limiters) allow(key string) bool {
	l.RLock()
	limiter := l.all[key]
	l.RUnlock()
	if limiter == nil {
		l.Lock()
		if limiter = l.all[key]; limiter == nil {
			limiter = rate.NewLimiter(rate.Limit(1.0/3600), 1_000_000)
			l.all[key] = limiter
		}
		l.Unlock()
	}
	return limiter.Allow()
}

func init() {
	var names []string
	var known *limiters
	fill := func() *limiters {
		if names == nil {
			for i := 0; i < keyCount; i++ {
				names = append(names, fmt.Sprintf("client %d", i))
			}
		}
		l := &limiters{all: map[string]*rate.Limiter{}}
		for _, name := range names {
			l.allow(name)
		}
		return l
	}
	walk := func(start int) {
		for i, at := 0, start; i < many; i++ {
			at = (at + 611_953) % keyCount
			known.allow(names[at])
		}
	}
	prepare := func() {
		if known == nil {
			known = fill()
		}
	}
	add("B17", "map of x/time/rate", 1, func() result {
		prepare()
		return measure(many, func() { walk(0) })
	})
	add("B17t", "map of x/time/rate", 2, func() result {
		prepare()
		return measure(2*many, func() {
			var group sync.WaitGroup
			group.Add(1)
			go func() { defer group.Done(); walk(keyCount / 2) }()
			walk(0)
			group.Wait()
		})
	})
	add("B17n", "map of x/time/rate", 1, func() result {
		if names == nil {
			prepare()
		}
		known = nil
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var l *limiters
		r := measure(keyCount, func() { l = fill() })
		runtime.GC()
		runtime.ReadMemStats(&after)
		r.Bytes = float64(after.HeapAlloc-before.HeapAlloc) / keyCount
		runtime.KeepAlive(l)
		return r
	})
}
