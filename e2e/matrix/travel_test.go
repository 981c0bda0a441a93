package matrix

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

func travels(w *world) {
	owner, other := w.owner(), w.other()
	owner.makes("shop", "spare")
	w.sees("both are there", other.has("shop", "1"), owner.has("shop", "1"), other.has("spare", "1"))
	owner.wants("shop", "2")
	owner.labels("shop", "team", "blue")
	w.sees("the edits arrive", other.has("shop", "2"), owner.has("shop", "2"), other.labelled("shop", "team", "blue"))
	owner.labels("shop", "team", "")
	w.sees("the label goes", other.labelled("shop", "team", ""))
	owner.deletes("spare")
	w.sees("the copy goes", other.lacks(other.app("spare")))
}

func drift(w *world) {
	owner := w.owner()
	owner.makes("shop", "spare")
	owner.labels("shop", "team", "blue")
	w.agree()
	w.spoils()
	w.cut()
	w.spoils()
	w.heal()
}

// spoils does to the copies of shop, whose team is blue, and spare what is not for people
// there to do, and sees that it is undone.
func (w *world) spoils() {
	other := w.other()
	before := other.get(other.app("spare")).UID
	other.labels("shop", "team", "red")
	other.wants("shop", "mine")
	other.deletes("spare")
	w.sees("it is undone", other.has("shop", "1"), other.labelled("shop", "team", "blue"),
		other.has("spare", "1"), other.is(other.app("spare"), another(before)))
}

func apart(w *world) {
	w.changesDuring(w.cut, w.heal)
}

func halfOpen(w *world) {
	w.changesDuring(func() { w.line.Set(netfault.BlackHole) }, func() {
		time.Sleep(2 * time.Second)
		w.heal()
	})
}

// changesDuring changes originals between two things, and sees that all of it arrives, each
// Application that stays being the one that it was, and that what is the same is not written.
func (w *world) changesDuring(begin, end func()) {
	owner, other := w.owner(), w.other()
	owner.makes("edited", "deleted", "same")
	owner.labels("edited", "team", "blue")
	w.agree()
	original, edited, same := owner.get(owner.app("same")), other.get(other.app("edited")), other.get(other.app("same"))
	begin()
	owner.wants("edited", "2")
	owner.wants("edited", "3")
	owner.labels("edited", "team", "")
	owner.makes("made")
	owner.deletes("deleted")
	end()
	w.sees("everything arrives", other.has("edited", "3"), other.labelled("edited", "team", ""), other.has("made", "1"),
		other.lacks(other.app("deleted")), owner.has("edited", "3"), owner.has("made", "1"))
	w.agree()
	require.Equal(w.t, edited.UID, other.get(other.app("edited")).UID)
	require.Equal(w.t, original, owner.get(owner.app("same")))
	require.Equal(w.t, same, other.get(other.app("same")))
}

func flood(w *world) {
	const apps, edits = 20, 5
	owner, other := w.owner(), w.other()
	w.line.Set(netfault.Slow)
	var all []check
	for edit := 1; edit <= edits; edit++ {
		for i := range apps {
			owner.wants(fmt.Sprint("app-", i), fmt.Sprint(edit))
		}
	}
	for i := range apps {
		all = append(all, other.has(fmt.Sprint("app-", i), fmt.Sprint(edits)))
	}
	w.sees("the last edits arrive", all...)
	w.heal()
}
