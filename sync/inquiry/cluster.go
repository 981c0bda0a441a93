package inquiry

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"
)

// A Cluster is what is known of an agent's cluster.
type Cluster struct {
	Version string   `json:"version"` // of the Kubernetes API, such as "1.34"
	APIs    []string `json:"apis"`    // what it serves, sorted: "apps/v1" and "apps/v1/Deployment"
	Kinds   int64    `json:"kinds"`   // how many of these can be watched
}

// Equal reports whether nothing has changed.
func (c Cluster) Equal(d Cluster) bool {
	return c.Version == d.Version && c.Kinds == d.Kinds && slices.Equal(c.APIs, d.APIs)
}

// What is known of a cluster at most, and for how long a name may be.
const (
	maxAPIs = 20_000
	maxAPI  = 512
)

// check says what is wrong with what an agent says of its cluster.
func (c Cluster) check() error {
	if len(c.Version) > maxAPI || len(c.APIs) > maxAPIs || c.Kinds < 0 || c.Kinds > maxAPIs {
		return errors.New("a cluster that is larger than any")
	}
	if slices.ContainsFunc(c.APIs, func(name string) bool { return len(name) > maxAPI }) {
		return errors.New("an API whose name is longer than any")
	}
	return nil
}

// cluster answers with what is known of the cluster, and goes on to answer when that is
// something else, for as long as the caller listens: what does not change costs nothing.
func (s *server) cluster(w http.ResponseWriter, r *http.Request) {
	c := http.NewResponseController(w)
	if err := errors.Join(c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(time.Time{})); err != nil {
		fail(w, err)
		return
	}
	w.WriteHeader(http.StatusOK)
	lines := json.NewEncoder(w)
	for after := (*Cluster)(nil); c.Flush() == nil; {
		next, err := s.cfg.Cluster(r.Context(), after)
		if err != nil || lines.Encode(next) != nil {
			return // the caller has gone, or the agent goes
		}
		after = &next
	}
}

// Cluster calls f with what the agent knows of its cluster, and again whenever that is
// something else, until ctx is done, the agent's process has gone, or f fails. ErrNoCluster
// is that of an agent that will never know.
func (c *Client) Cluster(ctx context.Context, f func(Cluster) error) error {
	return c.lines(ctx, http.MethodGet, clusterPath, nil, func(line []byte) error {
		var known Cluster
		if err := json.Unmarshal(line, &known); err != nil {
			return err
		}
		if err := known.check(); err != nil {
			return err
		}
		return f(known)
	})
}

// ErrNoCluster says that an agent knows nothing of its cluster, and never will.
var ErrNoCluster = errors.New("the agent does not tell of its cluster")

const clusterPath = "/v1/cluster"
