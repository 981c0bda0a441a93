package natslink

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// What a transport.Trouble of this package may be. Those of the store befall all that is in
// it, the others the log or the copy of one agent.
const (
	StoreFull     = "store full"      // the disk, or this user's quota of it
	StoreReadOnly = "store read-only" // or this user may not write any more
	StoreLost     = "store lost"      // its directory is gone, or is another
	StoreFailing  = "store failing"   // writing fails for another reason, or the server does not run
	StoreAway     = "store away"      // no server elsewhere can be reached
	LogQuota      = "log quota"
	LogReadOnly   = "log read-only"
	LogLost       = "log lost" // the stream or its directory is gone
	LogFailing    = "log failing"
	CopyQuota     = "copy quota"
	CopyReadOnly  = "copy read-only"
	CopyLost      = "copy lost"
	CopyFailing   = "copy failing"
)

// advice says what to do about a trouble.
var advice = map[string]string{
	StoreFull:     "make room on the volume of the store, or give it a larger one: nothing is taken in until then",
	StoreReadOnly: "have the volume of the store mounted for writing, and its files owned by this program's user: nothing is taken in until then",
	StoreLost:     "somebody has removed or replaced the store: it is made anew, and filled again by the peers",
	StoreFailing:  "look at the volume of the store and at the errors of the NATS server",
	StoreAway:     "see that the servers of --nats-url run, and that this machine may reach them: what is new waits until then",
	LogQuota:      "remove objects of this agent, or give its messages more room by --nats-quota: what is new waits until then",
	LogReadOnly:   "make the folder of the stream writable again: what is new waits until then",
	LogLost:       "somebody has removed the stream: it is made anew, and filled again",
	LogFailing:    "look at the errors of the NATS server: what is new waits, and the log is begun anew if it does not get well",
	CopyQuota:     "remove objects of this agent, or give its messages more room by --nats-quota, as much as the peer does: what the peer says waits until then",
	CopyReadOnly:  "make the folder of the stream writable again: what the peer says waits until then",
	CopyLost:      "somebody has removed the stream: it is made anew, and filled again from the peer's log",
	CopyFailing:   "look at the errors of the NATS server: what the peer says waits, and the copy is begun anew if it does not get well",
}

// The log is told of one trouble once in alarmInterval, however often it comes and goes.
const alarmInterval = time.Minute

// maxAlarms bounds how many troubles are remembered after they have ended.
const maxAlarms = 1000

// An origin names a trouble.
type origin struct{ agent, what string }

// Troubles are what is wrong now. Each is logged when it begins, and when it has ended.
type troubles struct {
	log   *zap.Logger
	where string // the directory of the store

	mu   sync.Mutex
	now  map[origin]transport.Trouble
	told map[origin]time.Time // when the log was told last
}

func newTroubles(log *zap.Logger, where string) *troubles {
	return &troubles{log: log, where: where, now: map[origin]transport.Trouble{}, told: map[origin]time.Time{}}
}

// begin notes that something is wrong, if it is not known.
func (t *troubles) begin(c origin, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	trouble, known := t.now[c]
	if !known {
		trouble = transport.Trouble{Agent: c.agent, What: c.what, Since: now}
	}
	trouble.Err = err
	t.now[c] = trouble
	if known || now.Sub(t.told[c]) < alarmInterval {
		return
	}
	if len(t.told) >= maxAlarms {
		clear(t.told)
	}
	t.told[c] = now
	t.log.Error("trouble with the store: "+c.what, t.fields(c, zap.Error(err), zap.String("advice", advice[c.what]))...)
}

// end notes that what was wrong is no more.
func (t *troubles) end(c origin) {
	t.mu.Lock()
	defer t.mu.Unlock()
	trouble, known := t.now[c]
	if !known {
		return
	}
	delete(t.now, c)
	if !t.told[c].Before(trouble.Since) {
		t.log.Info("trouble with the store has ended: "+c.what, t.fields(c, zap.Duration("after", time.Since(trouble.Since)))...)
	}
}

func (t *troubles) fields(c origin, more ...zap.Field) []zap.Field {
	fields := []zap.Field{zap.String("dir", t.where)}
	if c.agent != "" {
		fields = append(fields, zap.String("agent", c.agent))
	}
	return append(fields, more...)
}

// forget drops what is known of an agent.
func (t *troubles) forget(agent string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.now {
		if c.agent == agent {
			delete(t.now, c)
		}
	}
	for c := range t.told {
		if c.agent == agent {
			delete(t.told, c)
		}
	}
}

// clear drops what is wrong now.
func (t *troubles) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.now)
}

// list returns what is wrong now.
func (t *troubles) list() []transport.Trouble {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]transport.Trouble, 0, len(t.now))
	for _, trouble := range t.now {
		all = append(all, trouble)
	}
	transport.SortTroubles(all)
	return all
}

// Troubles returns what is wrong with the store of the principal, and which agents break the
// rules. It implements transport.Troubled.
func (h *Hub) Troubles() []transport.Trouble {
	all := append(h.vault.troubles.list(), h.guard.callers.complaints.Troubles(time.Now())...)
	transport.SortTroubles(all)
	return all
}

// Troubles returns what is wrong with the store of the agent, while its Link is open. It
// implements transport.Troubled.
func (l *Leaf) Troubles() []transport.Trouble { return l.troubles.list() }
