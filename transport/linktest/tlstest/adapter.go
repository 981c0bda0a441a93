package tlstest

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// An Adapter is the transport under test.
type Adapter struct {
	// Hub runs a Hub until the test ends, and returns where it listens.
	Hub func(*testing.T, Hub) (h transport.Hub, address string)
	// Dialer returns an agent's end.
	Dialer func(t *testing.T, agent, connect string, c End) transport.Dialer
	// Mute says that an agent does not know why it is refused: its connection ends. Elsewhere
	// says that the hub does not either: it has others listen.
	Mute, Elsewhere bool
	// Websocket has all agents come by websocket; nil is by none.
	Websocket *Websocket
}

// ByWebsocket returns the same with agents that come by websocket.
func (a Adapter) ByWebsocket(c Websocket) Adapter {
	a.Websocket = &c
	return a
}

// An End is what either end is made of, beside what it keeps.
type End struct {
	Own       *identity.Credentials
	Heartbeat time.Duration // 0 is the default
	Log       *zap.Logger
	Proxy     *url.URL // of an agent; nil is none
	Websocket *url.URL // of an agent; nil is none
}

// A Hub is what a principal's end is made of.
type Hub struct {
	End
	Authenticate identity.Prover
	Websocket    bool // agents come by websocket to where it is said to listen
}

// heartbeat is one by which faults are noticed soon.
const heartbeat = time.Second

// A world is a hub, and the agents that a story lets dial.
type world struct {
	*testing.T
	Adapter
	ca      Authority
	own     *identity.Credentials // the hub's
	hub     transport.Hub
	address string
	logged  *observer.ObservedLogs // by the hub
	lines   chan string            // the same, as it comes
	met     chan string            // serial numbers of the certificates by which agents connect
}

// world is one of agents with certificates.
func (a Adapter) world(t *testing.T, beat time.Duration) *world {
	met, ca := make(chan string, 1000), NewAuthority(t)
	w := a.meeting(t, beat, ca.Server(t), func(c *identity.Credentials, s identity.Shown) (identity.Proof, error) {
		p, err := identity.SubjectName(c, s)
		if len(p.Certificates) > 0 {
			met <- p.Certificates[0].SerialNumber.String()
		}
		return p, err
	})
	w.ca, w.met = ca, met
	return w
}

// meeting is a world whose agents are met by the hub in some way.
func (a Adapter) meeting(t *testing.T, beat time.Duration, own *identity.Credentials, who identity.Prover) *world {
	w := &world{T: t, Adapter: a, own: own, lines: make(chan string, 1000)}
	core, logged := observer.New(zap.InfoLevel)
	w.logged = logged
	log := zap.New(zapcore.RegisterHooks(core, func(e zapcore.Entry) error {
		select {
		case w.lines <- e.Message:
		default: // nobody listens
		}
		return nil
	}))
	w.hub, w.address = a.Hub(t, Hub{End: End{Own: own, Heartbeat: beat, Log: log}, Websocket: a.Websocket != nil, Authenticate: who})
	return w
}

// link opens the hub's Link to an agent.
func (w *world) link(agent string) transport.Link {
	l, err := w.hub.Link(w.Context(), agent)
	require.NoError(w, err)
	return l
}

// dial opens an agent's Link until the test ends, by websocket if agents come so.
func (w *world) dial(agent, address string, c End) transport.Link {
	if w.Websocket != nil {
		c.Websocket = w.Websocket.url(w.Websocket.reverse(w, w.ca, address).Listener.Addr().String())
	}
	return w.join(agent, address, c)
}

// join opens an agent's Link as c says, until the test ends.
func (w *world) join(agent, address string, c End) transport.Link {
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	l, err := w.Dialer(w.T, agent, address, c).Dial(w.Context())
	require.NoError(w, err)
	w.Cleanup(func() { require.NoError(w, l.Close()) })
	return l
}

// told waits until the hub's log has a line, and returns what it says of its error.
func (w *world) told(message string) string {
	w.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case line := <-w.lines:
			if line == message {
				all := w.logged.FilterMessage(message).All()
				why, _ := all[len(all)-1].ContextMap()["error"].(string)
				return why
			}
		case <-late:
			require.FailNow(w, "it is not told", "%s", message)
		}
	}
}

// await receives until a delivery is as it should be.
func (w *world) await(l transport.Link, ok func(transport.Delivery) bool) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	for {
		d, err := l.Receive(ctx)
		require.NoError(w, err)
		if ok(d) {
			return
		}
	}
}

func is(e transport.Event) func(transport.Delivery) bool {
	return func(d transport.Delivery) bool { return d.Event == e }
}

// send sends a value of the one key, and receives it at the other end.
func (w *world) send(from, to transport.Link, text string) {
	w.Helper()
	w.put(from, text)
	w.arrives(to, text)
}

func (w *world) put(from transport.Link, text string) {
	w.Helper()
	e := event.New()
	e.SetID("id")
	e.SetSource("test")
	e.SetType("test")
	e.DataEncoded = []byte(text)
	require.NoError(w, from.Send(w.Context(), transport.Message{Key: "key", Digest: text, Event: e}))
}

func (w *world) arrives(to transport.Link, text string) {
	w.Helper()
	w.await(to, func(d transport.Delivery) bool {
		return d.Event == transport.Value && string(d.Message.Event.Data()) == text
	})
}
