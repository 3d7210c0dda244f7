#!/usr/bin/env bash
# The error of openai-go does not say why the API refused a call.
#
# A good guess: err.Error() has the message that the server sent, as the errors of OpenAI's libraries for Python and
# Node have, and as openai-go did up to 1.12 with method, URL and the whole error object. So a log of err tells a spent
# quota from a call that came too soon.
#
# Seen with github.com/openai/openai-go/v3 v3.99.0: err.Error(), and each verb of fmt, have the status alone. The words
# are in the field Message of *openai.Error, which a program finds with errors.As. Its README tells that: a text of the
# provider may hold a secret.
#
#     error   OpenAI API error: 429 Too Many Requests
#     field   You have spent it all
#
# Needs Go and its module proxy. Prints both, and fails if that is no longer so.
set -euo pipefail

dir=$(mktemp -d)
trap 'chmod -R u+w "$dir" && rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'GO'
package main

import (
  "context"
  "errors"
  "fmt"
  "net/http"
  "net/http/httptest"

  "github.com/openai/openai-go/v3"
  "github.com/openai/openai-go/v3/option"
)

func main() {
  server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
    w.Header().Set("Content-Type", "application/json")
    w.WriteHeader(429)
    fmt.Fprint(w, `{"error": {"message": "You have spent it all", "type": "insufficient_quota", "param": null,
      "code": "insufficient_quota"}}`)
  }))
  client := openai.NewClient(option.WithAPIKey("key"), option.WithBaseURL(server.URL), option.WithMaxRetries(0))
  _, err := client.Models.Get(context.Background(), "gpt-4o")
  var told *openai.Error
  if !errors.As(err, &told) {
    panic(err)
  }
  fmt.Printf("error   %+v\nfield   %s\n", err, told.Message)
}
GO
go mod init finding >go.log 2>&1
go get github.com/openai/openai-go/v3@v3.99.0 >>go.log 2>&1 || { cat go.log >&2; exit 1; }
found=$(go run .)
echo "$found"
[ "$found" = 'error   OpenAI API error: 429 Too Many Requests
field   You have spent it all' ]
