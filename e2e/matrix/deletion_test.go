package matrix

import (
	"context"
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

func cascade(w *world) {
	owner, other := w.owner(), w.other()
	owner.makes("shop")
	owner.cascades("shop")
	w.sees("it is deleted in cascade there, too", other.is(other.app("shop"), func(o resource.Object) error {
		if finalizers := resource.ParseMetadata(o.Parts[resource.Meta]).Finalizers; len(finalizers) != 1 {
			return fmt.Errorf("its finalizers are %q", finalizers)
		}
		return nil
	}))
	w.agree()
	w.stop(w.spoke)
	owner.deletes("shop")
	require.NoError(w.t, w.hub.is(w.hub.app("shop"), anything)(w.t.Context()), "the hub waits for the agent")
	w.start(w.spoke)
	w.sees("it goes", owner.lacks(owner.app("shop")), other.lacks(other.app("shop")))
}

func deletedOnBothSides(w *world) {
	owner, other := w.owner(), w.other()
	owner.makes("shop", "spare")
	w.agree()
	w.cut()
	before := other.get(other.app("shop")).UID
	owner.deletes("shop")
	other.deletes("shop")
	w.sees("the copy is made again, as nobody there knows better", other.is(other.app("shop"), another(before)))
	w.heal()
	w.sees("both are gone", owner.lacks(owner.app("shop")), other.lacks(other.app("shop")))
}

func namesake(w *world) {
	owner, other := w.owner(), w.other()
	owner.makes("shop")
	w.agree()
	before := owner.get(owner.app("shop")).UID
	w.cut()
	owner.deletes("shop")
	owner.wants("shop", "2")
	after := owner.get(owner.app("shop")).UID
	require.NotEqual(w.t, before, after)
	w.heal()
	w.sees("the copy is that of the new one", other.has("shop", "2"), owner.has("shop", "2"),
		other.is(other.app("shop"), func(o resource.Object) error {
			if o.Origin.UID != after {
				return fmt.Errorf("it is the copy of %s, not of %s", o.Origin.UID, after)
			}
			return nil
		}))
}

func manyMissing(w *world) {
	const apps = 8
	owner, other := w.owner(), w.other()
	var missing []string
	for i := range apps {
		missing = append(missing, fmt.Sprint("app-", i))
	}
	owner.makes("kept")
	owner.makes(missing...)
	w.agree()
	before := other.uids()
	w.stop(owner)
	owner.deletes(missing...)
	w.start(owner)
	held := func(n int) check {
		return func(ctx context.Context) error {
			a, err := w.ask().Agent(ctx, w.name)
			if err == nil && len(a.Held) != n {
				err = fmt.Errorf("%d deletions are held", len(a.Held))
			}
			return err
		}
	}
	w.sees("the deletions are held", held(apps))
	require.Equal(w.t, before, other.uids())

	a, err := w.ask().Agent(w.t.Context(), w.name)
	require.NoError(w.t, err)
	_, err = w.ask().Approve(w.t.Context(), a)
	require.NoError(w.t, err)
	w.sees("they are done", held(0), other.lacks(other.app("app-0"), other.app("app-7")))
	require.NoError(w.t, other.has("kept", "1")(w.t.Context()))
}

func excluded(w *world) {
	const exclude = "argocd-agent.argoproj-labs.io/ignore-sync"
	owner, other := w.owner(), w.other()
	owner.makes("shop", "spare")
	w.agree()
	before := other.get(other.app("shop")).UID
	w.cut()
	owner.labels("shop", exclude, "true")
	w.heal()
	owner.wants("spare", "2")
	w.sees("others follow", other.has("spare", "2"))
	owner.wants("shop", "2")
	owner.wants("spare", "3")
	w.sees("others follow", other.has("spare", "3"))
	require.Equal(w.t, before, other.get(other.app("shop")).UID)
	require.NoError(w.t, other.has("shop", "1")(w.t.Context()), "it stays as it is")
	owner.labels("shop", exclude, "")
	w.sees("it follows again", other.has("shop", "2"))
	require.Equal(w.t, before, other.get(other.app("shop")).UID)
}
