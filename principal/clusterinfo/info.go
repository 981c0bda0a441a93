package clusterinfo

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Info is what is known of an agent's cluster. The counts and versions are those that the
// agent has told last; what is not known is zero.
type Info struct {
	// Server is the URL in the agent's cluster secret, by which Argo CD looks it up.
	Server string
	// Connected says whether the agent is there, and Since for how long that has been so.
	// The zero Since is that of an agent which has never been there.
	Connected bool
	Since     time.Time
	// Refused says why the agent is not understood although it is there; "" if it is.
	Refused string
	// Version is that of the Kubernetes API, as Argo CD has it: "1.34".
	Version string
	// APIVersions lists what the Kubernetes API serves, as Argo CD has it: "apps/v1" and
	// "apps/v1/Deployment".
	APIVersions []string
	// APIs and Resources count what can be observed there, and Synced is when all was listed
	// last.
	APIs, Resources int64
	Synced          time.Time
	// Applications counts those whose destination the cluster is.
	Applications int64
}

// The states of a connection, as Argo CD calls them.
const (
	successful = "Successful"
	failed     = "Failed"
	unknown    = "Unknown"
)

// An entry is Argo CD's ClusterInfo.
type entry struct {
	ConnectionState connectionState `json:"connectionState"`
	ServerVersion   string          `json:"serverVersion,omitempty"`
	CacheInfo       cacheInfo       `json:"cacheInfo"`
	Applications    int64           `json:"applicationsCount"`
	APIVersions     []string        `json:"apiVersions,omitempty"`
}

type connectionState struct {
	Status     string    `json:"status"`
	Message    string    `json:"message"`
	ModifiedAt timestamp `json:"attemptedAt"` // when the status was found to be so
}

type cacheInfo struct {
	Resources int64     `json:"resourcesCount,omitempty"`
	APIs      int64     `json:"apisCount,omitempty"`
	Synced    timestamp `json:"lastCacheSyncTime,omitzero"`
}

// A timestamp is a time as Kubernetes writes it.
type timestamp struct{ time.Time }

// MarshalJSON implements [json.Marshaler].
func (t timestamp) MarshalJSON() ([]byte, error) { return json.Marshal(format(t.Time)) }

func format(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Encode returns the JSON of Argo CD's ClusterInfo for an agent, as it is at now. An agent
// that has been away for stale or longer is a failed connection.
func Encode(agent string, i Info, now time.Time, stale time.Duration) []byte {
	e := entry{
		ConnectionState: connection(agent, i, now, stale),
		ServerVersion:   i.Version,
		CacheInfo:       cacheInfo{Resources: i.Resources, APIs: i.APIs, Synced: timestamp{i.Synced}},
		Applications:    i.Applications,
		APIVersions:     i.APIVersions,
	}
	text, err := json.Marshal(e)
	if err != nil {
		panic("clusterinfo: encode: " + err.Error()) // there is nothing in it that could fail
	}
	return text
}

func connection(agent string, i Info, now time.Time, stale time.Duration) connectionState {
	c := connectionState{ModifiedAt: timestamp{now}}
	switch {
	case i.Connected && i.Refused != "":
		c.Status, c.Message = failed, fmt.Sprintf("agent %s is refused: %s", agent, i.Refused)
	case i.Connected:
		c.Status = successful
	case i.Since.IsZero():
		c.Status, c.Message = unknown, fmt.Sprintf("agent %s has not connected yet", agent)
	case now.Sub(i.Since) < stale:
		c.Status, c.Message = successful, fmt.Sprintf("agent %s is away since %s", agent, format(i.Since))
	default:
		c.Status, c.Message = failed, fmt.Sprintf("agent %s has been away since %s", agent, format(i.Since))
	}
	return c
}

// cacheVersion is that of Argo CD's cache, which 2.14 and 3.x share.
const cacheVersion = "1.8.3"

// Key returns the name of the entry for the cluster whose URL is server, before
// compression gives it an ending. Argo CD leaves slashes at the end of a URL out.
func Key(server string) string {
	return "cluster|info|" + strings.TrimRight(server, "/") + "|" + cacheVersion
}
