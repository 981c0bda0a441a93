package admin

import (
	"context"
	"net/http"
	"time"
)

// Applicants are the agents that wait to be registered, by name.
type Applicants struct {
	Applicants []Applicant `json:"applicants"`
}

// An Applicant is an agent that has proven its name, and waits to be registered.
type Applicant struct {
	Name    string            `json:"name"`
	Mode    string            `json:"mode,omitempty"`    // that it says; "" if it says none
	Labels  map[string]string `json:"labels,omitempty"`  // that it may have
	Dropped []string          `json:"dropped,omitempty"` // the keys of those that it may not have
	From    string            `json:"from"`              // its address
	Since   time.Time         `json:"since"`             // when it came first
	Last    time.Time         `json:"last"`              // and last
	Problem string            `json:"problem,omitempty"` // why it could not be registered
}

// applicants are there where a principal may be asked for them, which is always; nobody waits
// where it does not keep who does.
func (s *Server) applicants(*http.Request) (any, error) {
	out := Applicants{Applicants: []Applicant{}}
	if s.cfg.Applicants != nil {
		out.Applicants = append(out.Applicants, s.cfg.Applicants()...)
	}
	return out, nil
}

// Applicants returns who waits to be registered.
func (c *Client) Applicants(ctx context.Context) (out Applicants, err error) {
	return out, c.get(ctx, "/v1/applicants", &out)
}
