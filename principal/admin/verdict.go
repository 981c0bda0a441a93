package admin

import (
	"fmt"
	"net/http"
	"time"
)

// MaxSettle is how long differences may take to settle at most.
const MaxSettle = time.Minute

// verify compares what both sides of the link to an agent have, read afresh from their
// stores. What is on its way differs for a moment: only differences are told that stay.
func (s *Server) verify(r *http.Request) (any, error) {
	settle, err := time.ParseDuration(r.FormValue("settle"))
	if err != nil || settle < 0 || settle > MaxSettle {
		return nil, fmt.Errorf("admin: %w: settle is a duration of up to %v", errRequest, MaxSettle)
	}
	a, err := s.cfg.Principal.Agent(r.PathValue("agent"))
	if err != nil {
		return nil, err
	}
	c := comparison{s: s, agent: a, place: s.cfg.Principal.Placement(a), trails: map[place]*trail{}}
	out := Verdict{Agent: a.Name, Differences: []Difference{}}
	found, err := c.run(r.Context(), settle)
	if err != nil {
		out.Error = s.explain(a.Name, err).Error()
		return out, nil
	}
	out.Objects = c.objects
	if len(found) == 0 {
		return out, nil
	}
	k := c.knowledge(r.Context())
	for _, d := range found {
		out.Differences = append(out.Differences, Difference{
			Agent: a.Name, Key: d.Key.String(), What: string(d.What), Hub: d.Hub, Spoke: d.Spoke, Reason: k.reason(d.Difference, d.moved),
		})
	}
	return out, nil
}
