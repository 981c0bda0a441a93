package agent

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/verify"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// serve answers what the principal asks over streams, until ctx is done or the link is
// closed. What is for a service that is not there is closed.
func (a *Agent) serve(ctx context.Context, streams transport.Streams) {
	asked := newDoor(ctx)
	server := &http.Server{
		Handler: a.inquiries(), ReadTimeout: 30 * time.Second, WriteTimeout: 5 * time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    zap.NewStdLog(a.cfg.Log.Named("inquiry")),
	}
	server.SetKeepAlivesEnabled(false)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer server.Close() // what is being answered is cut short
	serving.Go(func() { _ = server.Serve(asked) /* it ends by Close only */ })
	for {
		service, c, err := streams.Accept(ctx)
		switch {
		case err != nil:
			return
		case service != inquiry.Service || !asked.put(c):
			_ = c.Close() // nothing is lost
		}
	}
}

// inquiries answers what the principal's users ask of this side.
func (a *Agent) inquiries() http.Handler {
	store := a.place().view(a.cfg.Store, func() {})
	told := a.cluster.next
	if a.cfg.Cluster == nil {
		told = nil
	}
	return inquiry.Handler(inquiry.Config{
		Cluster: told,
		Objects: func(ctx context.Context) ([]resource.Object, error) {
			return verify.Read(ctx, store, backend.Scope{})
		},
		Strangers: a.cfg.Rules.Mode == resource.Managed,
		Letters:   inquiry.Desk{Book: a.cfg.Letters, Again: a.retry},
		Standing:  a.standing,
		Plan:      a.plan,
		Adopt:     a.adopt,
		Changed: func(what string, l ledger.Letter) {
			a.cfg.Log.Info("the principal's user sees to a dead letter", zap.String("what", what), zap.String("key", l.Key), zap.String("cause", string(l.Cause)))
		},
	})
}

// retry has what could not be done for a key tried again.
func (a *Agent) retry(ctx context.Context, key string) error {
	return a.session.Load().Retry(ctx, key)
}

func (a *Agent) standing() inquiry.Standing {
	st := a.Status()
	out := inquiry.Standing{
		InStep: st.Engine.InStep, Rows: st.Engine.Rows, Copied: st.Engine.Copied, Retrying: st.Engine.Failed, DeadLetters: st.DeadLetters,
		Observing: a.gate != nil, Withheld: st.Engine.Denied,
	}
	if st.Err != nil {
		out.Error = st.Err.Error()
	}
	return out
}

// A door is a net.Listener of the streams that are put there.
type door struct {
	ctx   context.Context
	conns chan net.Conn
	shut  chan struct{}
	once  sync.Once
}

func newDoor(ctx context.Context) *door {
	return &door{ctx: ctx, conns: make(chan net.Conn), shut: make(chan struct{})}
}

// put hands c to whoever accepts, and reports whether it has.
func (d *door) put(c net.Conn) bool {
	select {
	case d.conns <- c:
		return true
	case <-d.shut:
	case <-d.ctx.Done():
	}
	return false
}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.conns:
		return c, nil
	case <-d.shut:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (d *door) Close() error {
	d.once.Do(func() { close(d.shut) })
	return nil
}

// Addr implements net.Listener.
func (*door) Addr() net.Addr { return nowhere{} }

// nowhere is the address of streams.
type nowhere struct{}

func (nowhere) Network() string { return "stream" }
func (nowhere) String() string  { return "principal" }
