package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
)

// serveLimits runs failsafe-go's adaptive limiter for B19. It limits a model in another process,
// bench/adaptive_bench.cpp. The model sends an event in each line, with times in nanoseconds:
//
//	new failsafe     makes a new limiter; answered by the limit
//	+ TIME CALL      a call begins
//	- TIME CALL HOW  a call has ended, "ok", "dropped" or "cancelled"; answered by the new limit
//
// The limiter can use only Go's own clock, so this runs like a Go test with synthetic time.
func serveLimits() {
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "limits", F: func(t *testing.T) {
		synctest.Test(t, func(*testing.T) { followModel() })
	}}}, nil, nil)
}

func followModel() {
	in, out := bufio.NewScanner(os.Stdin), bufio.NewWriter(os.Stdout)
	var limiter adaptivelimiter.AdaptiveLimiter[any]
	var start time.Time
	calls := map[string]adaptivelimiter.Permit{}
	for in.Scan() {
		word := strings.Split(in.Text(), " ")
		if word[0] == "new" {
			start = time.Now()
			clear(calls)
			limiter = adaptivelimiter.NewBuilder[any]().WithLimits(1, 1000, 20).Build()
		} else {
			at, err := strconv.ParseInt(word[1], 10, 64)
			if err != nil {
				log.Fatal(err)
			}
			time.Sleep(time.Until(start.Add(time.Duration(at))))
			if word[0] == "+" {
				permit, granted := limiter.TryAcquirePermit()
				if !granted {
					log.Fatal("the model has let more calls go than the limit allows")
				}
				calls[word[2]] = permit
				continue
			}
			if permit := calls[word[2]]; word[3] == "ok" {
				permit.Record()
			} else {
				permit.Drop()
			}
			delete(calls, word[2])
		}
		fmt.Fprintln(out, limiter.Limit())
		_ = out.Flush()
	}
}
