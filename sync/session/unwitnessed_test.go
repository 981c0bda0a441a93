package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/journal"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// told does all that is done for a Witness about one change in each direction.
func told(s *Session, because engine.Event, m engine.Message, t transport.Message, r *receiver) {
	o := s.outgoing(m, input{event: because}, time.Time{})
	s.sent(o, "digest", s.sending(o), nil)
	if h := r.heard(t, m); h != nil {
		s.cfg.Witness.Heard(*h)
	}
	s.wrote(engine.Wrote{Key: m.Key}, false, time.Time{}, nil)
}

func change() (*Session, engine.Message, transport.Message, *receiver) {
	s := &Session{}
	m := engine.Message{Key: resource.Key{Kind: resource.Application, Name: "a"}, Body: engine.Tombstone{}}
	return s, m, transport.Message{Key: "a"}, &receiver{s: s}
}

// TestWithoutAWitnessNothingIsAllocated holds that what nobody listens to costs nothing.
func TestWithoutAWitnessNothingIsAllocated(t *testing.T) {
	s, m, message, r := change()
	because := engine.Event(engine.Wrote{Key: m.Key})
	require.Zero(t, testing.AllocsPerRun(100, func() { told(s, because, m, message, r) }))
}

// BenchmarkWitness is what one change in each direction costs: with nobody to tell, and with a
// journal.
func BenchmarkWitness(b *testing.B) {
	j, err := journal.New(0)
	require.NoError(b, err)
	for _, name := range []string{"nobody", "journal"} {
		b.Run(name, func(b *testing.B) {
			s, m, message, r := change()
			if name == "journal" {
				s.cfg.Witness = j.Book("edge")
			}
			because := engine.Event(engine.Wrote{Key: m.Key})
			b.ReportAllocs()
			for range b.N {
				told(s, because, m, message, r)
			}
		})
	}
}
