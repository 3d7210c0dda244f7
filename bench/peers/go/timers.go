package main

import (
	"runtime"
	"time"
)

func init() {
	add("B11", "time.AfterFunc, arm", 1, func() result { armed, _ := millionTimers(); return armed })
	add("B11c", "time.Timer Stop", 1, func() result { _, stopped := millionTimers(); return stopped })
}

// millionTimers arms a million timers between one and two hours ahead, and then stops them.
func millionTimers() (armed, stopped result) {
	const n = 1_000_000
	timers := make([]*time.Timer, n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	armed = measure(n, func() {
		for i := range timers {
			timers[i] = time.AfterFunc(time.Hour+time.Duration(i*7919%3_600_000)*time.Millisecond, operation)
		}
	})
	runtime.ReadMemStats(&after)
	armed.Bytes = float64(after.HeapAlloc-before.HeapAlloc) / n
	stopped = measure(n, func() {
		for _, t := range timers {
			t.Stop()
		}
	})
	return armed, stopped
}
