package natslink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// tend keeps the streams what they should be, and notices when servers cannot be reached, until
// ctx is done. What the servers do by themselves for their disks is left to them.
func (k *cluster) tend(ctx context.Context) {
	t := time.NewTicker(glanceEvery)
	defer t.Stop()
	var last time.Time
	for {
		closely := false
		select {
		case <-t.C:
		case <-k.suspects:
			closely = true
		case <-ctx.Done():
			return
		}
		now := time.Now()
		k.reach()
		for _, s := range k.all() {
			s.glance(ctx, now)
		}
		k.strays(now)
		if now.Sub(last) < tendEvery && !(closely && now.Sub(last) > glanceEvery) {
			continue
		}
		last = now
		if err := k.compare(ctx); err != nil && ctx.Err() == nil {
			k.config.Logger.Warn("cannot compare the streams with what they should be", zap.Error(err))
		}
	}
}

// reach notes whether the servers can be reached.
func (k *cluster) reach() {
	away := origin{what: StoreAway}
	for _, nc := range k.hub {
		if !nc.IsConnected() {
			err := nc.LastError()
			if err == nil {
				err = errors.New("there is no connection")
			}
			k.troubles.begin(away, fmt.Errorf("natslink: %w", err))
			return
		}
	}
	k.troubles.end(away)
}

// strays cuts off agents that are connected and not registered, once it is known who is.
func (k *cluster) strays(now time.Time) {
	if now.Sub(k.began) < settling {
		return
	}
	for _, id := range k.guard.strays() {
		k.calls.sever(id)
	}
}

// compare brings the streams that are in use to what they should be. What cannot be changed in
// one is made anew.
func (k *cluster) compare(ctx context.Context) error {
	js, err := jetstream.New(k.hub[0])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	k.gate.RLock()
	defer k.gate.RUnlock()
	found := map[string]*jetstream.StreamInfo{}
	list := js.ListStreams(ctx)
	for info := range list.Info() {
		found[info.Config.Name] = info
	}
	if err := list.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
		return err
	}
	for _, s := range k.all() {
		info := found[s.name]
		if info == nil {
			signal(s.kick) // it is looked at, and made anew if it is gone
			continue
		}
		if err := s.tend(ctx, info.Config); err != nil && ctx.Err() == nil {
			k.config.Logger.Warn("a stream is not as it should be", zap.String("stream", s.name), zap.Error(err))
		}
	}
	return nil
}

// tend brings the settings of the stream to what they should be, or has it made anew.
func (s *stream) tend(ctx context.Context, found jetstream.StreamConfig) error {
	if !s.remake.TryRLock() {
		return nil // it is being made anew
	}
	defer s.remake.RUnlock()
	if found.Metadata[epochKey] != s.end().Epoch {
		signal(s.kick)
		return nil
	}
	err := s.reconcile(ctx, found)
	var api *jetstream.APIError
	if err != nil && (!errors.As(err, &api) || api.Code == 400) {
		s.doom(err)
	}
	return err
}

// sweep compares the connections of agents with what the servers list, until ctx is done: one that
// nobody has let in is closed, and so is a leaf node that listens to what it may not hear. The
// servers would not let it hear, but would carry what it asks for from one to another.
func (k *cluster) sweep(ctx context.Context) {
	for {
		if err := k.sweepOnce(ctx); err != nil && ctx.Err() == nil {
			k.config.Logger.Warn("cannot list the connections of agents", zap.Error(err))
		}
		if sleep(ctx, sweepEvery) != nil {
			return
		}
	}
}

// maxCallSubs is how many subscriptions a leaf node may have at most, of which some come and go.
const maxCallSubs = 256

func (k *cluster) sweepOnce(ctx context.Context) error {
	there, err := k.list(ctx)
	if err != nil {
		return err
	}
	for e, leaf := range there {
		if leaf != nil {
			k.inspect(e, leaf)
		}
	}
	for _, e := range k.calls.compare(there, time.Now()) {
		k.kick(e)
	}
	return nil
}

// list returns the connections of agents that there are, and of the leaf nodes what is known.
func (k *cluster) list(ctx context.Context) (map[endpoint]*server.LeafInfo, error) {
	nc := k.sys.Load()
	leafs, err := ping[server.Leafz](ctx, nc, "LEAFZ", server.LeafzOptions{Account: k.realm.agents, Subscriptions: true})
	if err != nil {
		return nil, err
	}
	clients, err := ping[server.Connz](ctx, nc, "CONNZ", server.ConnzOptions{Account: k.realm.agents, Username: true, Limit: 1 << 20})
	if err != nil {
		return nil, err
	}
	there := map[endpoint]*server.LeafInfo{}
	for _, s := range leafs {
		for _, l := range s.Data.Leafs {
			there[endpoint{s.Server.ID, l.ID}] = l
		}
	}
	for _, s := range clients {
		for _, c := range s.Data.Conns {
			e := endpoint{s.Server.ID, c.Cid}
			if _, leaf := there[e]; !leaf && c.AuthorizedUser != ownAgents { // leaf nodes are listed again
				there[e] = nil
			}
		}
	}
	return there, nil
}

// inspect closes a leaf node that listens to more than its agent's.
func (k *cluster) inspect(e endpoint, l *server.LeafInfo) {
	id, agent := k.calls.number(e)
	if id == 0 || agent == "" {
		return
	}
	for _, subject := range l.Subs {
		if !(names{agent}).mayHear(subject) {
			k.guard.callers.offend(agent, fmt.Errorf("it listens to %.80q", subject))
			k.calls.sever(id)
			return
		}
	}
	if l.NumSubs > maxCallSubs {
		k.guard.callers.offend(agent, fmt.Errorf("it has %d subscriptions", l.NumSubs))
		k.calls.sever(id)
	}
}

// mayHear reports whether a leaf node of the agent may listen to a subject: what it is for, and
// what servers say among each other.
func (n names) mayHear(subject string) bool {
	_, hears := n.rights()
	return slices.Contains(hears, subject) || strings.HasPrefix(subject, n.agentInbox()+".") ||
		strings.HasPrefix(subject, "$LDS.") || strings.HasPrefix(subject, "_GR_.") || strings.HasPrefix(subject, "$GR.") || strings.HasPrefix(subject, "_R_.")
}
