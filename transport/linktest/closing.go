package linktest

import (
	"context"
	"errors"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
)

var closings = []test{
	{name: "Close", run: closed},
	{name: "HubEnds", run: hubEnds},
	{name: "OneLinkEach", run: oneLinkEach},
	{name: "Cancel", run: cancelled},
}

// closed: a closed Link says so, and another may be opened.
func closed(w *world) {
	h, a := w.pair("alpha")
	h.awaitUp()
	a.awaitUp()
	for _, e := range []*end{h, a} {
		e.close()
		w.checkClosed(e.link)
		require.NoError(w, e.link.Close(), "closed again")
	}
	down, up := table{}, table{}
	h, a = w.pair("alpha")
	h.send(down, "key")
	a.send(up, "key")
	a.awaitTable(down)
	h.awaitTable(up)
}

func (w *world) checkClosed(l transport.Link) {
	w.Helper()
	_, err := l.Receive(w.ctx)
	require.ErrorIs(w, err, transport.ErrClosed)
	_, err = l.Log(w.ctx)
	require.ErrorIs(w, err, transport.ErrClosed)
	require.ErrorIs(w, l.Send(w.ctx, message("key", w.next())), transport.ErrClosed)
}

// hubEnds: the Links of a Hub end with its Run.
func hubEnds(w *world) {
	h, a := w.pair("alpha")
	h.awaitUp()
	w.stopHub()
	require.ErrorIs(w, h.End(), transport.ErrClosed)
	w.checkClosed(h.link)
	a.awaitDown()
}

func oneLinkEach(w *world) {
	w.startHub()
	w.openHub("alpha")
	_, err := w.hub.Link(w.ctx, "alpha")
	require.Error(w, err)
	d := w.StartAgent(w.T, "alpha")
	l, err := d.Dial(w.ctx)
	require.NoError(w, err)
	w.open(l, true).awaitUp()
	_, err = d.Dial(w.ctx)
	require.Error(w, err)
}

// cancelled: a ctx that is done ends a call with its cause, and nothing else.
func cancelled(w *world) {
	w.startHub()
	h, err := w.hub.Link(w.ctx, "alpha")
	require.NoError(w, err)
	a := w.dial("beta")
	cause := errors.New("the cause")
	for _, l := range []transport.Link{h, a} {
		ctx, cancel := context.WithCancelCause(w.ctx)
		received := make(chan error, 1)
		go func() { received <- drain(ctx, l) }()
		cancel(cause)
		require.ErrorIs(w, <-received, cause)
		_, err := l.Log(ctx)
		require.ErrorIs(w, err, cause)
		require.ErrorIs(w, l.Send(ctx, message("key", w.next())), cause)
		w.open(l, true).send(table{}, "key")
	}
	ctx, cancel := context.WithCancelCause(w.ctx)
	cancel(cause)
	_, err = w.hub.Link(ctx, "gamma")
	require.ErrorIs(w, err, cause)
	_, err = w.StartAgent(w.T, "gamma").Dial(ctx)
	require.ErrorIs(w, err, cause)
}

// drain receives until that fails.
func drain(ctx context.Context, l transport.Link) error {
	for {
		if _, err := l.Receive(ctx); err != nil {
			return err
		}
	}
}
