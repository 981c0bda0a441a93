package grpclink

import (
	"fmt"
	"net"
	"slices"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/credentials"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// copyQuota is the trouble of an agent whose table is larger than it may be.
const copyQuota = "copy quota"

// complain notes what an agent is refused, and tells the log, once for a while.
func (d *desk) complain(agent, what string, err error, advice string) {
	if d.complaints.Note(agent, what, err, time.Now()) {
		d.log.Error("trouble with an agent: "+what, zap.String("agent", agent), zap.Error(err), zap.String("advice", advice))
	}
}

// offend notes that an agent does what none does.
func (d *desk) offend(agent string, err error) {
	d.complain(agent, transport.RulesBroken, err,
		"find out what runs with its certificate; block it (argocd-agentctl blocklist) if that is not its agent")
}

func isQuota(t transport.Trouble) bool { return t.What == copyQuota }

// troubles returns what there is to complain of.
func (d *desk) troubles(now time.Time) []transport.Trouble {
	all := d.complaints.Troubles(now)
	if !slices.ContainsFunc(all, isQuota) { // as nearly always: it is asked for each agent
		return all
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(all, func(t transport.Trouble) bool {
		s := d.seats[t.Agent]
		over := isQuota(t) && s != nil && s.end != nil && !s.end.Full()
		if over {
			d.complaints.End(t.Agent, copyQuota)
		}
		return over
	})
}

// receives has a connection counted, if it says by itself whose it is.
func (d *desk) receives(conn net.Conn, info credentials.AuthInfo) net.Conn {
	shown, ok := info.(credentials.TLSInfo)
	if !ok {
		return conn
	}
	proof, err := d.authenticate(d.trust, identity.Shown{From: conn.RemoteAddr(), TLS: &shown.State})
	if err != nil || proof.Agent == "" {
		return conn // its calls are told, or say who it is
	}
	agent := proof.Agent
	is, extra := d.lobby.enter(agent, conn)
	if extra != nil {
		d.offend(agent, fmt.Errorf("it has more than %d connections at once; the oldest is closed", maxConnections))
		_ = extra.Close() // it is of no use to anybody
	}
	return is
}
