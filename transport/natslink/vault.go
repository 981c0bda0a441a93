package natslink

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// A vault is where the streams of this end are, be it in a server of this process or in servers
// elsewhere, and what is known of how well it is.
type vault struct {
	home     string        // the directory that has a directory for each stream; "" if they are on other machines
	patience time.Duration // for one answer of the server
	attempts int           // to get one
	replicas int           // of each stream; 0 is that it is not for us to say
	troubles *troubles
	store    *condition
	disk     space
	suspects chan struct{} // holds one element when the store may be in trouble
	gate     sync.RWMutex  // held for writing while streams are closed and opened: they seem to be gone meanwhile

	mu      sync.Mutex
	streams map[string]*stream // that are in use, by name
}

// newVault returns a vault of a server of this process.
func newVault(home string, t *troubles) *vault {
	return &vault{
		home: home, patience: requestPatience, attempts: requestAttempts, troubles: t, store: newCondition(nil),
		suspects: make(chan struct{}, 1), streams: map[string]*stream{},
	}
}

// suspect notes that the store may be in trouble.
func (v *vault) suspect() { signal(v.suspects) }

// use notes that a stream is in use, until forgo.
func (v *vault) use(s *stream) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.streams[s.name] = s
}

func (v *vault) forgo(streams ...*stream) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range streams {
		s.cond.drop()
		delete(v.streams, s.name)
	}
}

// hearDeletions has each stream looked at that somebody deletes, as nc, a connection to the
// store, is told.
func (v *vault) hearDeletions(nc *nats.Conn) error {
	const advisory = "$JS.EVENT.ADVISORY.STREAM.DELETED."
	_, err := nc.Subscribe(advisory+"*", func(m *nats.Msg) {
		if s := v.find(strings.TrimPrefix(m.Subject, advisory)); s != nil {
			signal(s.kick)
		}
	})
	if err != nil {
		return fmt.Errorf("natslink: watch the streams: %w", err)
	}
	return nil
}

// find returns the stream of that name that is in use, or nil.
func (v *vault) find(name string) *stream {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.streams[name]
}

// all returns the streams that are in use.
func (v *vault) all() []*stream {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Collect(maps.Values(v.streams))
}

// anyBad reports whether a stream takes nothing in.
func (v *vault) anyBad() bool {
	return slices.ContainsFunc(v.all(), func(s *stream) bool { return !s.cond.isGood() })
}
