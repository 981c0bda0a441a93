package session

import (
	"encoding/json"
	"maps"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// remember keeps, beside the letters, what the Engine remembers of absences: what is held must
// not be taken for a few removals by the next process because the log, in which it stands too,
// was lost or is kept nowhere. It is called before m is put there.
func (s *Session) remember(m transport.Message) {
	if m.Key != fuseName {
		return
	}
	var text []byte
	var err error
	if !m.Tombstone() {
		text, err = json.Marshal(m)
	}
	if err == nil {
		err = s.cfg.Letters.Remember(text)
	}
	s.health.note("remember", "", err)
}

var fuseName = wire.Name(engine.FuseKey)

// recall has a log that says nothing of absences say what was remembered. It reports whether it
// had to.
func (s *Session) recall(log *transport.Log) bool {
	text := s.cfg.Letters.Remembered()
	if _, there := log.Rows[fuseName]; there || len(text) == 0 {
		return false
	}
	var m transport.Message
	if err := json.Unmarshal(text, &m); err != nil || m.Key != fuseName {
		s.cfg.Log.Warn("what was remembered of the peer cannot be read: whatever is missing is held", zap.Error(err))
		m = transport.Message{Key: fuseName, Digest: "unreadable"} // which the wire takes for the worst
	}
	log.Rows = maps.Clone(log.Rows)
	if log.Rows == nil {
		log.Rows = map[string]transport.Message{}
	}
	log.Rows[fuseName] = m
	return true
}
