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

// serveLimits is failsafe-go's adaptive limiter for B19. What it limits is a model in another process,
// bench/adaptive_bench.cpp, which says what happens and when; a line each, with times in nanoseconds:
//
//	new failsafe     begin anew; answered by the limit
//	+ TIME CALL      a call begins
//	- TIME CALL HOW  a call has ended, "ok", "dropped" or "cancelled"; answered by the limit from now on
//
// The limiter has no clock but Go's own, so this runs as a test does whose time is made up.
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
