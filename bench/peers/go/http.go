package main

import (
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"
)

func serveHTTP(address string) {
	body := []byte("0123456789abcdef")
	_ = http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(body)
	}))
}

// addHTTP adds 64 concurrent keep-alive GETs on one thread, each with a token.
func addHTTP(url string) {
	const inFlight, n = 64, 20_000
	client := &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: inFlight,
		MaxConnsPerHost:     inFlight,
		DialContext:         (&net.Dialer{}).DialContext,
		DisableCompression:  true,
	}}
	for _, limited := range []bool{true, false} {
		name := "net/http"
		if limited {
			name = "net/http and rate.Wait"
		}
		add("B15", name, 1, func() result {
			l := rate.NewLimiter(rate.Inf, 1)
			if limited {
				l = plenty()
			}
			var left atomic.Int64
			left.Store(n)
			return measure(n, func() {
				var group sync.WaitGroup
				for i := 0; i < inFlight; i++ {
					group.Add(1)
					go func() {
						defer group.Done()
						for left.Add(-1) >= 0 {
							if limited {
								_ = l.Wait(background)
							}
							r, err := client.Get(url)
							if err != nil {
								panic(err)
							}
							_, _ = io.Copy(io.Discard, r.Body)
							_ = r.Body.Close()
						}
					}()
				}
				group.Wait()
			})
		})
	}
}
