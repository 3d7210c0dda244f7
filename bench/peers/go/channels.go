package main

import "sync"

// job is the value of B27: some words, and a pointer that it owns.
type job struct {
	owner *int
	words [4]uint64
}

func init() {
	add("B27", "channel, select with default", 1, func() result {
		c := make(chan job, 64)
		return measure(many, func() {
			for i := 0; i < many; i++ {
				select {
				case c <- job{}:
				default:
					panic("full")
				}
				select {
				case <-c:
				default:
					panic("empty")
				}
			}
		})
	})
	add("B27c", "buffered channel", 1, func() result {
		c := make(chan job, 64)
		return measure(many, func() {
			for i := 0; i < many; i++ {
				c <- job{}
				<-c
			}
		})
	})
	for _, c := range []struct {
		id      string
		threads int
	}{{"B27p", 1}, {"B27t", 2}} {
		add(c.id, "buffered channel", c.threads, handedOver)
	}
}

// handedOver measures one goroutine that sends, and another one that receives.
func handedOver() result {
	c := make(chan job, 64)
	return measure(many, func() {
		var group sync.WaitGroup
		group.Add(1)
		go func() {
			defer group.Done()
			for i := 0; i < many; i++ {
				c <- job{}
			}
		}()
		for i := 0; i < many; i++ {
			<-c
		}
		group.Wait()
	})
}
