// The work of canigo's benchmarks, done in Go. Prints one JSON line per contestant and call.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// result is the measurement of one repetition, with the same fields as canigo's own programs print.
type result struct {
	ID         string  `json:"id"`
	Name       string  `json:"name"`
	NS         float64 `json:"ns"`
	Allocs     float64 `json:"allocs"`
	Bytes      float64 `json:"bytes,omitempty"`
	Reached    float64 `json:"reached,omitempty"`
	CPU        float64 `json:"cpu,omitempty"`
	P99        float64 `json:"p99_ns,omitempty"`
	Operations int     `json:"operations,omitempty"`
}

type contestant struct {
	id, name string
	threads  int
	run      func() result
}

var contestants []contestant

func add(id, name string, threads int, run func() result) {
	contestants = append(contestants, contestant{id, name, threads, run})
}

// takesSeconds matches benchmarks that need no warm-up, because a repetition takes seconds.
var takesSeconds = regexp.MustCompile("^(B4-|B12|B20|B22)")

// many is the number of operations in a repetition whose operations take tens of nanoseconds.
const many = 1_000_000

// measure measures one call of f, which does n operations.
func measure(n int, f func()) result {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	f()
	spent := time.Since(start)
	runtime.ReadMemStats(&after)
	return result{
		NS:         float64(spent.Nanoseconds()) / float64(n),
		Allocs:     float64(after.Mallocs-before.Mallocs) / float64(n),
		Operations: n,
	}
}

func main() {
	only := flag.String("only", "", "ids, separated by commas; empty: all")
	list := flag.Bool("list", false, "print the ids and names, run nothing")
	serve := flag.String("serve", "", "answer HTTP GET at this address instead, for B15")
	limits := flag.Bool("limits", false, "follow the model of B19 at the standard input instead")
	url := flag.String("url", "", "what B15 gets; empty: B15 is left out")
	testing.Init()
	flag.Parse()
	if *limits {
		serveLimits()
		return
	}
	if *serve != "" {
		serveHTTP(*serve)
		return
	}
	if *url != "" {
		addHTTP(*url)
	}
	out := json.NewEncoder(os.Stdout)
	for _, c := range contestants {
		if *only != "" && !strings.Contains(","+*only+",", ","+c.id+",") {
			continue
		}
		if *list {
			fmt.Println(c.id, c.name)
			continue
		}
		runtime.GOMAXPROCS(c.threads)
		if !takesSeconds.MatchString(c.id) {
			c.run() // a warm-up that is not measured
		}
		r := c.run()
		r.ID, r.Name = c.id, "Go: "+c.name
		_ = out.Encode(r)
	}
}
