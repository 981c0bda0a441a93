package matrix

import (
	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

func agentAway(w *world) {
	w.changesDuring(func() { w.stop(w.spoke) }, func() { w.start(w.spoke) })
}

func principalAway(w *world) {
	w.changesDuring(func() { w.stop(w.hub) }, func() { w.start(w.hub) })
}

func offlineRestart(w *world) {
	owner, other := w.owner(), w.other()
	owner.makes("shop", "spare")
	owner.labels("shop", "team", "blue")
	w.agree()
	w.cut()
	owner.makes("made")
	w.stop(w.hub)
	w.stop(w.spoke)
	other.wants("shop", "mine")
	w.start(w.hub)
	w.start(w.spoke)
	if other == w.spoke || w.carrier.recalls {
		w.sees("what was done meanwhile is undone", other.has("shop", "1"))
		w.spoils()
	}
	w.heal()
	w.sees("what was made arrives, and nothing done meanwhile stays", other.has("made", "1"), other.has("shop", "1"))
}

func agentForgets(w *world) {
	w.changesDuring(func() { w.stop(w.spoke) }, func() {
		w.forgets(w.spoke)
		w.start(w.spoke)
	})
}

func principalForgets(w *world) {
	w.changesDuring(func() { w.stop(w.hub) }, func() {
		w.forgets(w.hub)
		w.start(w.hub)
	})
}

func bothForget(w *world) {
	owner, other := w.owner(), w.other()
	owner.makes("edited", "same")
	w.agree()
	before := other.uids()
	w.cut()
	w.stop(w.hub)
	w.stop(w.spoke)
	owner.wants("edited", "2")
	w.forgets(w.hub)
	w.forgets(w.spoke)
	w.start(w.hub)
	w.start(w.spoke)
	w.heal()
	w.sees("the edit arrives", other.has("edited", "2"), owner.has("edited", "2"))
	require.Equal(w.t, before, other.uids())
}

func strangers(w *world) {
	owner, other := w.owner(), w.other()
	owner.makes("shop")
	w.agree()
	stranger := other.app("own")
	other.edit(stranger, func(o *resource.Object) {
		spec, err := w.copied(resource.Application, w.spec("default", "own"))
		require.NoError(w.t, err)
		o.Parts[resource.Spec] = spec
	})
	w.agree() // and the controller has done what it does
	before := other.get(stranger)
	w.restart(w.hub)
	w.stop(w.spoke)
	w.forgets(w.spoke)
	w.start(w.spoke)
	owner.deletes("shop")
	w.sees("what is a copy goes", other.lacks(other.app("shop")))
	require.Equal(w.t, before, other.get(stranger))
	require.NoError(w.t, owner.lacks(owner.app("own"))(w.t.Context()))
}
