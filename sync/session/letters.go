package session

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/seal"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// maxEvent is the size of the largest event that a letter holds, in bytes.
const maxEvent = 1 << 20

// letters keeps a Book equal to what the Engine says is wrong. The loop looks after each
// event at the key that it was about; a clerk writes.
type letters struct {
	cfg    Config
	health *health
	pair   *atomic.Pointer[seal.Pair] // a letter, too, shows nothing that is secret
	clerk  *crew[entry]
	wrong  map[resource.Key][]engine.Fault // what was wrong at the last look
	began  time.Time
	swept  bool // the Book holds nothing of an earlier process that is right by now
}

// An entry is what the Book is to hold of one key: one letter for each cause, no others.
type entry struct {
	name    string
	letters []ledger.Letter
}

func newLetters(c Config, h *health, pair *atomic.Pointer[seal.Pair]) *letters {
	l := &letters{cfg: c, health: h, pair: pair, wrong: map[resource.Key][]engine.Fault{}, began: time.Now()}
	l.clerk = newCrew(1, l.write)
	return l
}

// look is called by the loop after each input.
func (l *letters) look(ctx context.Context, eng *engine.Engine, i input) {
	switch k, ok := about(i.event); {
	case ok:
		l.note(ctx, eng, k, i.raw)
	case !l.swept && eng.InStep():
		l.swept = true
		for _, old := range l.cfg.Letters.All() {
			k, ok := resource.ParseKey(old.Key)
			if !ok {
				k = resource.Key{Name: old.Key}
			}
			if len(l.wrong[k]) == 0 && old.Last.Before(l.began) {
				l.clerk.put(ctx, k, entry{name: old.Key})
			}
		}
	}
}

// about returns the key that an event is about.
func about(ev engine.Event) (k resource.Key, ok bool) {
	switch ev := ev.(type) {
	case engine.Changed:
		k = ev.Object.Key
	case engine.Vanished:
		k = ev.Key
	case engine.Received:
		k = ev.Message.Key
	case engine.Wrote:
		k = ev.Key
	case engine.Unsent:
		k = ev.Key
	case engine.Retry:
		k = ev.Key
	}
	return k, k != resource.Key{} && !engine.Reserved(k)
}

// note has the Book say what is wrong with a key, if that has changed. raw is the message
// that has just come and could not be read.
func (l *letters) note(ctx context.Context, eng *engine.Engine, k resource.Key, raw *transport.Message) {
	now := eng.Faults(k)
	if raw == nil && same(now, l.wrong[k]) {
		return
	}
	if len(now) == 0 {
		delete(l.wrong, k)
	} else {
		l.wrong[k] = now
	}
	l.post(ctx, k, now, raw)
}

// post has the clerk write.
func (l *letters) post(ctx context.Context, k resource.Key, faults []engine.Fault, raw *transport.Message) {
	e := entry{name: k.String()}
	for _, f := range faults {
		e.letters = append(e.letters, l.letter(e.name, k, f, raw))
	}
	l.clerk.put(ctx, k, e)
}

func same(a, b []engine.Fault) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Cause != b[i].Cause || a[i].Text != b[i].Text {
			return false
		}
	}
	return true
}

// causes says what the Engine's causes are called in letters.
var causes = map[engine.Cause]ledger.Cause{
	engine.Puzzling: ledger.Unreadable,
	engine.Taken:    ledger.Occupied,
	engine.Rejected: ledger.Refused,
	engine.Unfit:    ledger.Unsent,
	engine.Stubborn: ledger.Failing,
}

func (l *letters) letter(name string, k resource.Key, f engine.Fault, raw *transport.Message) ledger.Letter {
	letter := ledger.Letter{Key: name, Cause: causes[f.Cause], Reason: f.Text, Last: time.Now().UTC()}
	if f.Of == nil {
		letter.Event = eventOf(raw)
		return letter
	}
	row, err := wire.Encode(engine.Message{Key: k, Body: f.Of}, wire.Envelope{
		ID: "letter", Source: l.cfg.Link.Peer(), Time: letter.Last, Pair: l.pair.Load(),
	})
	if err == nil {
		letter.Event = eventOf(&row)
	}
	return letter
}

// eventOf returns a message's event as JSON, nil if it cannot be written or is too large, or
// would show what is secret.
func eventOf(m *transport.Message) json.RawMessage {
	if m == nil || m.Event.Context == nil || wire.Shows(*m) {
		return nil
	}
	text, err := json.Marshal(m.Event)
	if err != nil || len(text) > maxEvent {
		return nil
	}
	return text
}

// stray writes a letter about a message that is no object's.
func (l *letters) stray(ctx context.Context, m transport.Message, why error) {
	name := strings.ToValidUTF8(m.Key, "\uFFFD")
	l.clerk.put(ctx, resource.Key{Name: name}, entry{name, []ledger.Letter{
		{Key: name, Cause: ledger.Unreadable, Reason: plain(why), Last: time.Now().UTC(), Event: eventOf(&m)},
	}})
}

// write makes the Book hold what an entry says. It is called by the clerk.
func (l *letters) write(_ context.Context, e entry) {
	book := l.cfg.Letters
	keep := map[ledger.Cause]bool{}
	var failed error
	for _, letter := range e.letters {
		keep[letter.Cause] = true
		if fresh, err := book.Put(letter); err != nil {
			failed = err
		} else if fresh {
			l.cfg.Log.Warn("dead letter", zap.String("key", letter.Key), zap.String("cause", string(letter.Cause)), zap.String("reason", letter.Reason))
		}
	}
	for _, old := range book.Of(e.name) {
		if keep[old.Cause] {
			continue
		}
		if _, err := book.Remove(old.ID); err != nil {
			failed = err
		}
	}
	l.health.note("keep dead letters", "", failed)
}
