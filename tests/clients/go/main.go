// Makes calls by one client library for Go: driver CLIENT, with "CASE URL" on each line of standard input.
//
// The driver prints JSON: a line when it is ready, one for the first event of a stream, one for the end of each call.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/google/go-github/v88/github"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// A call, or a stream that tells each of its pieces, at a URL.
type kind struct {
	call   func(url string) error
	stream func(url string, piece func()) error
}

var ask = openai.ChatCompletionNewParams{
	Model:     "m",
	MaxTokens: openai.Int(50),
	Messages:  []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello")},
}

func openaiAt(url string) openai.Client {
	return openai.NewClient(option.WithAPIKey("key"), option.WithBaseURL(url+"/v1/"))
}

// An error for an answer that is not a 200.
func read(answer *http.Response, err error) error {
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.ReadAll(answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != 200 {
		return errors.New(answer.Status)
	}
	return nil
}

func readLines(answer *http.Response, err error, piece func()) error {
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		piece()
	}
	return lines.Err()
}

func retrying() *retryablehttp.Client {
	client := retryablehttp.NewClient()
	client.Logger = nil
	return client
}

var kinds = map[string]kind{
	"openai-go": {
		call: func(url string) error {
			client := openaiAt(url)
			_, err := client.Chat.Completions.New(context.Background(), ask)
			return err
		},
		stream: func(url string, piece func()) error {
			client := openaiAt(url)
			streaming := ask
			streaming.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
			events := client.Chat.Completions.NewStreaming(context.Background(), streaming)
			for events.Next() {
				piece()
			}
			return events.Err()
		},
	},
	"go-github": {
		call: func(url string) error {
			client, err := github.NewClient(github.WithAuthToken("key"), github.WithURLs(github.Ptr(url+"/"), nil))
			if err != nil {
				return err
			}
			_, _, err = client.Repositories.Get(context.Background(), "a", "b")
			return err
		},
	},
	"go-retryablehttp": {
		call:   func(url string) error { return read(retrying().Get(url + "/plain")) },
		stream: func(url string, piece func()) error { a, err := retrying().Get(url + "/plain"); return readLines(a, err, piece) },
	},
	"net/http": {
		call:   func(url string) error { return read(http.Get(url + "/plain")) },
		stream: func(url string, piece func()) error { a, err := http.Get(url + "/plain"); return readLines(a, err, piece) },
	},
}

var printing sync.Mutex

func tell(what map[string]any) {
	line, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(string(line))
}

func run(of kind, name, url string) {
	begun := time.Now()
	pieces := 0
	var err error
	if name == "stream" {
		err = of.stream(url, func() {
			pieces++
			if pieces == 1 {
				tell(map[string]any{"case": name, "event": "first"})
			}
		})
	} else {
		err = of.call(url)
	}
	end := map[string]any{"case": name, "seconds": time.Since(begun).Seconds()}
	if err != nil {
		end["error"], end["text"] = strings.TrimPrefix(fmt.Sprintf("%T", err), "*"), err.Error()
		var told *openai.Error
		if errors.As(err, &told) {
			end["field"] = told.Message
		}
	} else {
		end["value"] = fmt.Sprint(pieces)
	}
	tell(end)
}

func main() {
	of := kinds[os.Args[1]]
	tell(map[string]any{"ready": true})
	var running sync.WaitGroup
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		name, url, _ := strings.Cut(lines.Text(), " ")
		running.Go(func() { run(of, name, url) })
	}
	running.Wait()
}
