// A server of Go's net/http for real_servers.py: server PORT TLS_PORT CERTIFICATE KEY. server.js has the same paths.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"hash/adler32"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

var left, held atomic.Int64

func pattern(size int) []byte {
	text := make([]byte, size)
	for i := range text {
		text[i] = byte('a' + i*31%26)
	}
	return text
}

func gzipped(size int) []byte {
	var all bytes.Buffer
	writer := gzip.NewWriter(&all)
	writer.Write(pattern(size))
	writer.Close()
	return all.Bytes()
}

// Ends the connection, of HTTP/2 the stream, without an end of the answer.
func abort() { panic(http.ErrAbortHandler) }

func events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := w.(http.Flusher).Flush
	from, _ := strconv.Atoi(r.Header.Get("Last-Event-ID"))
	text := ""
	if from == 0 {
		text = "\ufeff"
	}
	text += ": a comment\r\nretry: 50\r\n\r\n"
	for id := from + 1; id <= from+3; id++ {
		text += fmt.Sprintf("id: %d\r\nevent: größe\r\ndata: é %d €\r\ndata: 𝄞 second\r\n\r\n", id, id)
	}
	text += "id: 999\r\ndata: not finished\r\n"
	for _, b := range []byte(text) { // each byte is a chunk
		w.Write([]byte{b})
		flush()
	}
	abort()
}

func handle(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(r.URL.Path, "/")
	size := 0
	if len(parts) > 2 {
		size, _ = strconv.Atoi(parts[2])
	}
	write := func(status int, text []byte) {
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		w.WriteHeader(status)
		w.Write(text)
	}
	switch parts[1] {
	case "bytes":
		write(200, pattern(size))
	case "chunked":
		text := pattern(size)
		for len(text) > 0 {
			n := min(len(text), 10_007)
			w.Write(text[:n])
			w.(http.Flusher).Flush()
			text = text[n:]
		}
	case "trickle": // a byte each 10 ms
		for _, b := range pattern(size) {
			w.Write([]byte{b})
			w.(http.Flusher).Flush()
			time.Sleep(10 * time.Millisecond)
		}
	case "echo":
		sum := adler32.New()
		n, err := io.Copy(sum, r.Body)
		text, _ := json.Marshal(map[string]any{"size": n, "sum": sum.Sum32(), "complete": err == nil,
			"method": r.Method, "length": r.ContentLength, "proto": r.ProtoMajor, "expect": r.Header.Get("Expect")})
		write(200, text)
	case "refuse": // after so many bytes of the body
		io.CopyN(io.Discard, r.Body, int64(size))
		write(413, []byte("too much"))
	case "drop": // after so many bytes of the body
		io.CopyN(io.Discard, r.Body, int64(size))
		abort()
	case "cut": // in the middle of the body
		w.Header().Set("Content-Length", strconv.Itoa(2*size))
		w.Write(pattern(size))
		w.(http.Flusher).Flush()
		abort()
	case "gzip":
		w.Header().Set("Content-Encoding", "gzip")
		write(200, gzipped(size))
	case "gzip-cut": // a length that fits, of a body that does not end
		w.Header().Set("Content-Encoding", "gzip")
		text := gzipped(size)
		write(200, text[:len(text)/2])
	case "gzip-twice": // two members
		w.Header().Set("Content-Encoding", "gzip")
		write(200, append(gzipped(size), gzipped(size)...))
	case "events":
		events(w, r)
	case "hold": // the head, some bytes, and no more
		held.Add(1)
		defer left.Add(1)
		w.Write(pattern(100))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case "silence": // not even a head
		held.Add(1)
		defer left.Add(1)
		<-r.Context().Done()
	case "counts":
		write(200, []byte(fmt.Sprintf(`{"held":%d,"left":%d}`, held.Load(), left.Load())))
	case "to":
		http.Redirect(w, r, r.URL.Query().Get("url"), 302)
	case "early": // an interim answer before the answer
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(103)
		write(200, []byte("after 103"))
	default:
		write(404, []byte("no such path"))
	}
}

func main() {
	http.HandleFunc("/", handle)
	ended := make(chan error)
	go func() { ended <- http.ListenAndServe("127.0.0.1:"+os.Args[1], nil) }()
	go func() { ended <- http.ListenAndServeTLS("127.0.0.1:"+os.Args[2], os.Args[3], os.Args[4], nil) }()
	fmt.Println(<-ended)
	os.Exit(1)
}
