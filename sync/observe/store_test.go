package observe_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/backend/storetest"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/observe"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// everything is a List in which all is.
type everything struct{ observe.List }

func (everything) Has(string) bool { return true }

// What is adopted is written as in any store.
func TestStoreOfWhatIsAdopted(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.World {
		s := memstore.New(memstore.Config{Admit: func(o resource.Object) error {
			if strings.Contains(o.Parts[resource.Spec], "bad") {
				return errors.New("it is bad")
			}
			return nil
		}})
		return storetest.World{
			Store: observe.New(s, everything{ledger.InMemory().Set("adopted")}), Users: s, Namespaces: [2]string{"one", "two"},
			Refuse: func(o *resource.Object) { o.Parts[resource.Spec] = `{"bad":true}` },
		}
	})
}

func app(name string) resource.Key { return resource.Key{Kind: resource.Application, Name: name} }

// copyOf returns an object that is marked as a copy, and remembers requests.
func copyOf(name, uid string) resource.Object {
	return resource.Object{Key: app(name), Origin: resource.Origin{UID: uid, By: "hub"}, Parts: resource.Parts{
		resource.Spec: `{}`, resource.OpID: "1-a", resource.Refresh: "normal-1/", resource.Status: `{"health":"fine"}`,
	}}
}

// Nothing else is, whatever marks it carries.
func TestNothingElseIsWritten(t *testing.T) {
	inner := memstore.New(memstore.Config{})
	old, err := inner.Write(t.Context(), copyOf("old", "1"))
	require.NoError(t, err)
	list := ledger.InMemory().Set("adopted")
	s := observe.New(inner, list)

	changed := old
	changed.Parts[resource.Spec] = `{"n":1}`
	_, err = s.Write(t.Context(), changed)
	require.ErrorIs(t, err, backend.ErrWithheld)
	_, err = s.Write(t.Context(), copyOf("new", "2"))
	require.ErrorIs(t, err, backend.ErrWithheld)
	require.ErrorIs(t, s.Remove(t.Context(), old.Key, old.Version), backend.ErrWithheld)
	require.Equal(t, map[resource.Key]resource.Object{old.Key: old}, inner.All())

	require.NoError(t, s.Adopt(t.Context(), old.Key))
	require.Equal(t, []string{"Application/old"}, s.Adopted())
	stored, err := s.Write(t.Context(), changed)
	require.NoError(t, err)
	_, err = s.Write(t.Context(), copyOf("new", "2"))
	require.ErrorIs(t, err, backend.ErrWithheld)
	s = observe.New(inner, list) // the next process
	require.NoError(t, s.Remove(t.Context(), old.Key, stored.Version))
	require.Empty(t, inner.All())
}

// What is let go loses the marks of a copy, and keeps all else.
func TestReleaseTakesTheMarksOff(t *testing.T) {
	inner := memstore.New(memstore.Config{})
	s := observe.New(inner, ledger.InMemory().Set("adopted"))
	require.NoError(t, s.Adopt(t.Context(), app("web"), app("absent")))
	stored, err := s.Write(t.Context(), copyOf("web", "1"))
	require.NoError(t, err)

	require.NoError(t, s.Release(t.Context(), app("web")))
	require.NoError(t, s.Release(t.Context(), app("absent")))
	require.Empty(t, s.Adopted())
	o, _ := inner.Get(app("web"))
	require.Zero(t, o.Origin)
	require.Equal(t, stored.UID, o.UID)
	require.Equal(t, resource.Parts{resource.Spec: `{}`, resource.Status: `{"health":"fine"}`}, o.Parts)
	_, err = s.Write(t.Context(), o)
	require.ErrorIs(t, err, backend.ErrWithheld)

	before := o.Version
	require.NoError(t, s.Release(t.Context(), app("web")), "once more is nothing")
	o, _ = inner.Get(app("web"))
	require.Equal(t, before, o.Version)
}

// What was there when it was adopted comes back: its spec, its finalizers, and what its labels
// were that we have written since. Others are left alone, and so is what others have made since.
func TestReleaseBringsBackWhatThereWas(t *testing.T) {
	inner := memstore.New(memstore.Config{})
	s := observe.New(inner, ledger.InMemory().Set("adopted"))
	text := func(labels map[string]string, finalizers ...string) string {
		return resource.Metadata{Labels: labels, Finalizers: finalizers}.Text()
	}
	inner.Edit(app("web"), func(o *resource.Object) {
		o.Parts[resource.Spec] = `{"own":1}`
		o.Parts[resource.Meta] = text(map[string]string{"team": "blue", "local": "1"})
	})
	was, _ := inner.Get(app("web"))
	require.NoError(t, s.Adopt(t.Context(), app("web"), app("made")))
	cascades := "resources-finalizer.argocd.argoproj.io"
	write := func(name, spec string) {
		o, _ := inner.Get(app(name))
		o.Key, o.Origin, o.Parts[resource.Spec] = app(name), resource.Origin{UID: "1", By: "hub"}, spec
		o.Parts[resource.Meta] = resource.ParseMetadata(o.Parts[resource.Meta]).Overlay(
			resource.Metadata{Labels: map[string]string{"team": "red", "hub": "1"}, Finalizers: []string{cascades}}, resource.Metadata{}).Text()
		_, err := s.Write(t.Context(), o)
		require.NoError(t, err)
	}
	write("web", `{"hub":1}`)
	write("made", `{"hub":1}`)
	inner.Edit(app("web"), func(o *resource.Object) { // somebody here
		m := resource.ParseMetadata(o.Parts[resource.Meta])
		m.Labels["local"] = "2"
		o.Parts[resource.Meta] = m.Text()
	})
	require.NoError(t, s.Adopt(t.Context(), app("web")), "what there was before stays noted")

	require.NoError(t, s.Release(t.Context(), app("web"), app("made")))
	o, _ := inner.Get(app("web"))
	require.Equal(t, was.UID, o.UID)
	require.Zero(t, o.Origin)
	require.Equal(t, was.Parts[resource.Spec], o.Parts[resource.Spec])
	require.Equal(t, text(map[string]string{"team": "blue", "local": "2"}), o.Parts[resource.Meta])
	o, _ = inner.Get(app("made"))
	require.Zero(t, o.Origin)
	require.Equal(t, `{"hub":1}`, o.Parts[resource.Spec], "nothing was there")
}

// Another object of the name is not given what the one before it had; nor is anything secret
// noted.
func TestNotesAreOfOneObject(t *testing.T) {
	inner := memstore.New(memstore.Config{})
	list := ledger.InMemory().Set("adopted")
	s := observe.New(inner, list)
	secret := resource.Key{Kind: resource.Secret, Name: "repo"}
	for _, k := range []resource.Key{app("web"), secret} {
		inner.Edit(k, func(o *resource.Object) { o.Parts[resource.Spec] = `{"password":"hunter2"}` })
	}
	require.NoError(t, s.Adopt(t.Context(), app("web"), secret))
	require.Empty(t, list.Note(secret.String()))
	require.NotEmpty(t, list.Note(app("web").String()))
	inner.Delete(app("web"))
	_, err := s.Write(t.Context(), copyOf("web", "1"))
	require.NoError(t, err)
	require.NoError(t, s.Release(t.Context(), app("web")))
	o, _ := inner.Get(app("web"))
	require.Equal(t, `{}`, o.Parts[resource.Spec])
}

// A hurried store is changed by somebody else just before each of some writes.
type hurried struct {
	*memstore.Store
	times int
}

func (h *hurried) Write(ctx context.Context, o resource.Object) (resource.Object, error) {
	if h.times--; h.times >= 0 {
		h.Edit(o.Key, func(o *resource.Object) { o.Parts[resource.Status] += " " })
	}
	return h.Store.Write(ctx, o)
}

func TestReleaseOfWhatOthersChange(t *testing.T) {
	inner := &hurried{Store: memstore.New(memstore.Config{})}
	s := observe.New(inner, ledger.InMemory().Set("adopted"))
	require.NoError(t, s.Adopt(t.Context(), app("web")))
	_, err := s.Write(t.Context(), copyOf("web", "1"))
	require.NoError(t, err)
	inner.times = 3
	require.NoError(t, s.Release(t.Context(), app("web")))
	o, _ := inner.Get(app("web"))
	require.Zero(t, o.Origin)

	require.NoError(t, s.Adopt(t.Context(), app("web")))
	o.Origin = resource.Origin{UID: "1", By: "hub"}
	_, err = s.Write(t.Context(), o)
	require.NoError(t, err)
	inner.times = 1 << 20
	require.ErrorIs(t, s.Release(t.Context(), app("web")), backend.ErrConflict)
	require.Equal(t, []string{"Application/web"}, s.Adopted(), "it can be tried again")
}

// A slow store holds up that web is made.
type slow struct {
	*memstore.Store
	begun, end chan struct{}
}

func (s *slow) Write(ctx context.Context, o resource.Object) (resource.Object, error) {
	if o.Key == app("web") && o.Version == "" {
		close(s.begun)
		<-s.end
	}
	return s.Store.Write(ctx, o)
}

// A write that is under way when its object is let go is waited for: it leaves no marks
// behind. Others are not held up.
func TestReleaseWaitsForAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &slow{Store: memstore.New(memstore.Config{}), begun: make(chan struct{}), end: make(chan struct{})}
		s := observe.New(inner, ledger.InMemory().Set("adopted"))
		require.NoError(t, s.Adopt(t.Context(), app("web"), app("other")))
		wrote, released := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := s.Write(t.Context(), copyOf("web", "1"))
			wrote <- err
		}()
		<-inner.begun
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, s.Release(ctx, app("web")), context.DeadlineExceeded)
		go func() { released <- s.Release(t.Context(), app("web")) }()
		synctest.Wait()
		require.Empty(t, released)
		_, err := s.Write(t.Context(), copyOf("other", "2"))
		require.NoError(t, err)
		close(inner.end)
		require.NoError(t, <-wrote)
		require.NoError(t, <-released)
		o, there := inner.Get(app("web"))
		require.True(t, there)
		require.Zero(t, o.Origin)
	})
}

// An object that is going or excluded is left as it is.
func TestReleaseLeavesAlone(t *testing.T) {
	inner := memstore.New(memstore.Config{})
	s := observe.New(inner, ledger.InMemory().Set("adopted"))
	require.NoError(t, s.Adopt(t.Context(), app("web")))
	_, err := s.Write(t.Context(), copyOf("web", "1"))
	require.NoError(t, err)
	inner.Hold(app("web"))
	inner.Delete(app("web"))
	before, _ := inner.Get(app("web"))
	require.NoError(t, s.Release(t.Context(), app("web")))
	after, _ := inner.Get(app("web"))
	require.Equal(t, before, after)
}
