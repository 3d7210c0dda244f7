package main

import (
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/sony/gobreaker/v2"
)

// failureRateBreaker opens if half of at least 20 calls within 30 s fail, like the breaker of B18 in C++.
func failureRateBreaker() circuitbreaker.CircuitBreaker[int] {
	return circuitbreaker.NewBuilder[int]().WithFailureRateThreshold(0.5, 20, 30*time.Second).
		WithDelay(5 * time.Second).WithSuccessThreshold(3).Build()
}

func twoStepBreaker() *gobreaker.TwoStepCircuitBreaker[int] {
	return gobreaker.NewTwoStepCircuitBreaker[int](gobreaker.Settings{
		Interval: 30 * time.Second, BucketPeriod: 3 * time.Second, Timeout: 5 * time.Second, MaxRequests: 3,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.Requests >= 20 && c.TotalFailures*2 >= c.Requests },
	})
}

func init() {
	for _, c := range []struct {
		id      string
		threads int
	}{{"B18", 1}, {"B18-2", 2}} {
		run := func(once func()) result {
			loop := func() {
				for i := 0; i < many; i++ {
					once()
				}
			}
			if c.threads == 1 {
				return measure(many, loop)
			}
			return measure(2*many, func() { twice(loop) })
		}
		add(c.id, "failsafe-go, permit and success", c.threads, func() result {
			b := failureRateBreaker()
			return run(func() {
				if b.TryAcquirePermit() {
					b.RecordSuccess()
				}
			})
		})
		add(c.id, "gobreaker, two steps", c.threads, func() result {
			b := twoStepBreaker()
			return run(func() {
				if done, err := b.Allow(); err == nil {
					done(nil)
				}
			})
		})
	}
	one := func() (int, error) { return 1, nil }
	add("B18-call", "failsafe-go", 1, func() result {
		executor := failsafe.With(failureRateBreaker())
		return measure(many, func() {
			for i := 0; i < many; i++ {
				_, _ = executor.Get(one)
			}
		})
	})
	add("B18-call", "gobreaker", 1, func() result {
		b := gobreaker.NewCircuitBreaker[int](gobreaker.Settings{
			Interval: 30 * time.Second, BucketPeriod: 3 * time.Second, Timeout: 5 * time.Second, MaxRequests: 3})
		return measure(many, func() {
			for i := 0; i < many; i++ {
				_, _ = b.Execute(one)
			}
		})
	})
	add("B21", "failsafe-go", 1, func() result {
		executor := failsafe.With[int](timeout.New[int](2*time.Second), retrypolicy.NewWithDefaults[int](),
			failureRateBreaker(), ratelimiter.NewSmoothWithMaxRate[int](1), bulkhead.New[int](64))
		const n = many / 10
		return measure(n, func() {
			for i := 0; i < n; i++ {
				_, _ = executor.Get(one)
			}
		})
	})
}
