module canigo/bench/peers

go 1.25.0

require (
	golang.org/x/sync v0.20.0
	golang.org/x/time v0.15.0
)
