// Calls URL paths through the gateway with Go's net/http: client BASE BODY_FILE METHOD PATH [METHOD PATH]…
//
// POST and PUT send the file. Prints of each call: status, and the SHA-256 of the response's body. With CANIGO_PRIORITY
// in the environment all calls go at once, in that class.
package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
)

func call(method, url, path, priority string) (string, error) {
	var body io.Reader
	if method == "POST" || method == "PUT" {
		file, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer file.Close()
		body = file
	}
	request, err := http.NewRequest(method, url, body)
	if err != nil {
		return "", err
	}
	if priority != "" {
		request.Header.Set("X-Canigo-Priority", priority)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return fmt.Sprintf("%d %x", response.StatusCode, sha256.Sum256(text)), err
}

func main() {
	priority := os.Getenv("CANIGO_PRIORITY")
	var all sync.WaitGroup
	for i := 3; i+1 < len(os.Args); i += 2 {
		method, url := os.Args[i], os.Args[1]+os.Args[i+1]
		all.Add(1)
		one := func() {
			defer all.Done()
			line, err := call(method, url, os.Args[2], priority)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			fmt.Println(line)
		}
		if priority != "" {
			go one()
		} else {
			one()
		}
	}
	all.Wait()
}
