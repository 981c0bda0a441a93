// Package monitor reads what a NATS server says of itself over HTTP, for tests.
package monitor

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// Ask reads the answer to a path such as /varz of the server that is monitored at a host:port.
func Ask(ctx context.Context, address, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return fmt.Errorf("monitor: %w", err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("monitor: %w", err)
	}
	defer answer.Body.Close() // it is read whole, or an error is returned anyway
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("monitor: %s%s: %s", address, path, answer.Status)
	}
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		return fmt.Errorf("monitor: %s%s: %w", address, path, err)
	}
	return nil
}

// Sequences returns the last sequence of each stream of a server. A stream gives each message
// that goes into it the next one, and forgets none.
func Sequences(ctx context.Context, address string) (map[string]uint64, error) {
	var found struct {
		Accounts []struct {
			Streams []struct {
				Name  string `json:"name"`
				State struct {
					LastSeq uint64 `json:"last_seq"`
				} `json:"state"`
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	if err := Ask(ctx, address, "/jsz?accounts=true&streams=true", &found); err != nil {
		return nil, err
	}
	out := map[string]uint64{}
	for _, a := range found.Accounts {
		for _, s := range a.Streams {
			out[s.Name] = s.State.LastSeq
		}
	}
	return out, nil
}
