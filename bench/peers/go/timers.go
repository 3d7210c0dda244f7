package main

import (
	"runtime"
	"time"
)

func init() {
	const n = 1_000_000
	// A million timers between one and two hours away, armed, then cancelled.
	var last result
	add("B11", "time.AfterFunc, arm", 1, func() result {
		timers := make([]*time.Timer, n)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		r := measure(n, func() {
			for i := range timers {
				timers[i] = time.AfterFunc(time.Hour+time.Duration(i*7919%3_600_000)*time.Millisecond, operation)
			}
		})
		runtime.ReadMemStats(&after)
		r.Bytes = float64(after.HeapAlloc-before.HeapAlloc) / n
		last = measure(n, func() {
			for _, t := range timers {
				t.Stop()
			}
		})
		return r
	})
	add("B11c", "time.Timer Stop", 1, func() result { return last })
}
