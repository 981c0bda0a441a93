package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/session"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

// A badLink fails as it is told to.
type badLink struct {
	transport.Link
	sendErr, logErr, receiveErr atomic.Pointer[error]
	sends, logs                 atomic.Int64
	cancel                      atomic.Pointer[context.CancelCauseFunc]
	limit                       int // on the size of a message; 0 is the Link's own
}

func set(p *atomic.Pointer[error], err error) { p.Store(&err) }

func get(p *atomic.Pointer[error]) error {
	if err := p.Load(); err != nil {
		return *err
	}
	return nil
}

func (l *badLink) Send(ctx context.Context, m transport.Message) error {
	l.sends.Add(1)
	if err := get(&l.sendErr); err != nil {
		return err
	}
	if l.limit > 0 && len(m.Event.Data()) > l.limit {
		return fmt.Errorf("bad link: %w", transport.ErrTooLarge)
	}
	return l.Link.Send(ctx, m)
}

func (l *badLink) Log(ctx context.Context) (transport.Log, error) {
	l.logs.Add(1)
	if err := get(&l.logErr); err != nil {
		return transport.Log{}, err
	}
	return l.Link.Log(ctx)
}

func (l *badLink) Receive(ctx context.Context) (transport.Delivery, error) {
	if err := get(&l.receiveErr); err != nil {
		return transport.Delivery{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l.cancel.Store(&cancel)
	return l.Link.Receive(ctx)
}

// interrupt makes the Receive that waits fail.
func (l *badLink) interrupt(err error) { (*l.cancel.Load())(err) }

// spoil puts a badLink before the link of s.
func spoil(s *side) *badLink {
	bad := &badLink{}
	s.wrap = func(l transport.Link) transport.Link {
		bad.Link = l
		return bad
	}
	return bad
}

func TestAFailingSendIsTriedAgainNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, log := observer.New(zapcore.InfoLevel)
		r := newRig(t)
		bad := spoil(r.hub)
		r.hub.tune = func(c *session.Config) { c.Log = zap.New(core) }
		r.start()
		settle(10 * time.Second)

		broken := errors.New("disk is on fire")
		set(&bad.sendErr, broken)
		before := bad.sends.Load()
		r.hub.set("a", resource.Spec, `{"n":1}`)
		settle(time.Minute)
		require.LessOrEqual(t, bad.sends.Load()-before, int64(62), "no more than the row and the manifest each Tick")
		require.ErrorIs(t, r.hub.Status().Err, broken)
		require.Empty(t, r.spoke.cluster.All())

		set(&bad.sendErr, nil)
		settle(10 * time.Second)
		require.NoError(t, r.hub.Status().Err)
		require.Equal(t, `{"n":1}`, r.spoke.part("a", resource.Spec))
		require.Equal(t, 1, log.FilterMessage("session fails, and tries again").Len())
		require.Equal(t, 1, log.FilterMessage("session succeeds again").Len())
	})
}

func TestWhatIsTooLargeIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		bad := spoil(r.hub)
		bad.limit = 1000
		r.start()
		r.hub.set("huge", resource.Spec, `"`+strings.Repeat("x", bad.limit)+`"`)
		r.hub.set("small", resource.Spec, `{}`)
		settle(time.Minute)
		require.Equal(t, `{}`, r.spoke.part("small", resource.Spec))
		require.Empty(t, r.spoke.part("huge", resource.Spec))
		sent := bad.sends.Load()
		settle(time.Hour)
		require.Equal(t, sent, bad.sends.Load())
		require.NoError(t, r.hub.Status().Err)
	})
}

func TestALogThatCannotBeReadIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		bad := spoil(r.hub)
		set(&bad.logErr, errors.New("not yet"))
		r.start()
		r.hub.set("a", resource.Spec, `{}`)
		settle(time.Minute)
		require.ErrorContains(t, r.hub.Status().Err, "not yet")
		require.Zero(t, bad.sends.Load(), "nothing is decided before it is known")
		require.Less(t, bad.logs.Load(), int64(10), "later and later")
		set(&bad.logErr, nil)
		settle(time.Minute)
		require.NoError(t, r.hub.Status().Err)
		require.Equal(t, `{}`, r.spoke.part("a", resource.Spec))
	})
}

func TestALogThatIsLostIsWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		for i := range 5 {
			r.hub.set(fmt.Sprint(i), resource.Spec, `{}`)
		}
		settle(10 * time.Second)
		down, _ := r.net.Traffic(agentName)
		r.net.Lose(agentName, memlink.HubLog)
		settle(10 * time.Second)
		after, _ := r.net.Traffic(agentName)
		require.Equal(t, down.Values+5, after.Values)
		log, err := r.hub.link.Log(t.Context())
		require.NoError(t, err)
		require.Len(t, log.Rows, 7, "the rows, the manifest and the key")
	})
}

func TestReceivingIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		bad := spoil(r.spoke)
		set(&bad.receiveErr, errors.New("not now"))
		r.start()
		r.hub.set("a", resource.Spec, `{}`)
		settle(5 * time.Second)
		require.ErrorContains(t, r.spoke.Status().Err, "not now")
		set(&bad.receiveErr, nil)
		settle(time.Minute)
		require.NoError(t, r.spoke.Status().Err)
		require.Equal(t, `{}`, r.spoke.part("a", resource.Spec))
	})
}

func TestReceivingNothingIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		bad := spoil(r.spoke)
		r.start()
		settle(10 * time.Second)
		bad.interrupt(errors.New("line was cut"))
		settle(5 * time.Second)
		require.ErrorContains(t, r.spoke.Status().Err, "line was cut")
		settle(time.Minute)
		require.NoError(t, r.spoke.Status().Err)
	})
}
