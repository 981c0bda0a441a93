package session

import (
	"fmt"
	"sync"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// versions knows which protocol versions are of use with the peer.
//
// Messages are written in the newest that both sides read. A log outlives that, and so it is
// opened anew whenever it may hold what the peer does not read: then that is written again.
// The peer leaves it aside until then, see receiver.
type versions struct {
	ours wire.Range

	mu     sync.Mutex
	common wire.Range // what the peer reads as well; ours as long as it was not heard
	writes int        // in which messages are written; 0 is not known yet
}

func newVersions(ours wire.Range) *versions { return &versions{ours: ours, common: ours} }

// agree takes in what a process of the peer speaks. It reports whether the log may hold what
// that does not read. Its error says which side is to be upgraded; it leaves all as it was.
func (v *versions) agree(p transport.Presence, self, peer string) (reopen bool, err error) {
	theirs := wire.Range{Oldest: p.Oldest, Newest: p.Newest}
	common, ok := v.ours.With(theirs)
	if !ok {
		older, least := peer, v.ours.Oldest
		if theirs.Oldest > v.ours.Newest {
			older, least = "this side, "+self, theirs.Oldest
		}
		return false, fmt.Errorf("%w: %s (%s) speaks %s, %s speaks %s: upgrade %s, to what speaks version %d",
			transport.ErrVersion, peer, p.Version, theirs, self, v.ours, older, least)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	reopen = !common.Holds(v.common)
	v.common, v.writes = common, common.Newest
	return reopen, nil
}

// opened takes in what our log holds. A peer that was not heard by this process is written to
// as it was before; one that never was, so that whoever may be spoken with can read it.
func (v *versions) opened(log transport.Log) (common wire.Range) {
	last, ok := wire.VersionOf(log.Rows[wire.Name(engine.ManifestKey)])
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.writes != 0:
	case ok && v.ours.Has(last):
		v.writes = last
	default:
		v.writes = v.ours.Oldest
	}
	return v.common
}

func (v *versions) writing() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.writes
}
