// What Go's net/http takes bytes for: a server that tells of each request which it has got whole, in X-Seen, its
// method, target and the SHA-256 of its body. Prints its port.
package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("X-Seen", fmt.Sprintf("%s %s %x", r.Method, r.RequestURI, sha256.Sum256(body)))
	})
	server := http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0), DisableGeneralOptionsHandler: true}
	log.Fatal(server.Serve(listener))
}
