package admin

import (
	"errors"
	"fmt"
	"time"

	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// explain returns why an agent could not be asked as its user knows it, who has nothing to
// do with streams; other errors as they are.
func (s *Server) explain(agent string, err error) error {
	switch {
	case errors.Is(err, principal.ErrUnknown):
		return fmt.Errorf("agent %q is not registered: argocd-agentctl agent list shows who is", agent)
	case !errors.Is(err, transport.ErrAway):
		return err
	}
	a, unknown := s.cfg.Principal.Agent(agent)
	switch {
	case unknown != nil:
		return err
	case a.Session.Connected: // by now, or it has not been missed yet
		return fmt.Errorf("agent %s went away while it was asked: ask again", agent)
	case a.Session.Since.IsZero():
		return fmt.Errorf("agent %s is not there, and was not since the principal started: it can be asked once it has connected", agent)
	}
	return fmt.Errorf("agent %s is away since %s: it can be asked once it is back", agent, a.Session.Since.UTC().Format(time.RFC3339))
}
