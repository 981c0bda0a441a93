package stack

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// askTime bounds one question for readiness.
const askTime = 5 * time.Second

// Answers returns a check that GET url is answered with 200. A nil client
// means the default one, which ignores no certificate and sends no token.
func Answers(client *http.Client, url string) func(context.Context) error {
	if client == nil {
		client = http.DefaultClient
	}
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		request.Close = true // the next answer may come from the next process
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(io.LimitReader(response.Body, 4096))
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s: %s", url, response.Status, body)
		}
		return nil
	}
}

// listens returns a check that address takes TCP connections.
func listens(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := (&net.Dialer{Timeout: askTime}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}
