package agent

import (
	"context"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/proxy"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/verify"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// serve answers what the principal asks over streams, until ctx is done or the link is
// closed: its inquiries, and what the other services are there for.
func (a *Agent) serve(ctx context.Context, streams transport.Streams) {
	asked := proxy.NewDoor()
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
	services := maps.Clone(a.cfg.Services)
	if services == nil {
		services = proxy.Services{}
	}
	services[inquiry.Service] = asked.Put
	services.Serve(ctx, streams)
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
		Story:     a.story,
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

// standing says how this Agent stands, to a principal that says to have had a table of its.
func (a *Agent) standing(ctx context.Context, has string) inquiry.Standing {
	if s := a.session.Load(); s != nil && has != "" {
		_ = s.Confirm(ctx, engine.Whole(has)) // it fails only when the session ends, or nobody waits for the answer
	}
	st := a.Status()
	out := inquiry.Standing{
		Mode: a.cfg.Rules.Mode.String(), InStep: st.Engine.InStep, Rows: st.Engine.Rows, Copied: st.Engine.Copied, Retrying: st.Engine.Failed, DeadLetters: st.DeadLetters,
		Observing: a.gate != nil, Withheld: st.Engine.Denied,
		Has: string(st.Engine.Has), Backlog: st.Engine.Backlog, Sure: !st.Engine.Sure.IsZero(),
	}
	if at := st.Engine.Oldest; !at.IsZero() {
		out.Lag = time.Since(at).Seconds()
	}
	if st.Err != nil {
		out.Error = st.Err.Error()
	}
	return out
}
