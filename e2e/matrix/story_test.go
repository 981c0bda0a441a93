package matrix

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A story is told on a world in which both programs run and nothing else is there.
type story struct {
	name string
	text string // what happens, and what is right
	play func(*world)
}

// tell tells a story, and demands that both sides agree in the end and are silent then.
func tell(t *testing.T, s story, g ground, c combination) {
	w := newWorld(t, g, c)
	t.Log(s.text)
	s.play(w)
	w.whole()
}

// stories are all of them. "Owner" is the side of the originals, "other" that of the copies.
func stories() []story {
	return []story{
		{"Travels", "An Application that its owner makes is there on the other side, and has the same status on both; so do edits and labels arrive, and it goes when its owner deletes it.", travels},
		{"Drift", "Whatever people do to a copy is undone: edits, labels, its deletion; and so it is while the line is cut.", drift},
		{"Apart", "The line is cut; the owner edits, makes and deletes; a while later everything has arrived, each Application being the one that it was.", apart},
	}
}

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
	owner, other := w.owner(), w.other()
	owner.makes("shop", "spare")
	owner.labels("shop", "team", "blue")
	w.agree()
	spoil := func() {
		before := other.get(other.app("spare")).UID
		other.wants("shop", "mine")
		other.labels("shop", "team", "red")
		other.deletes("spare")
		w.sees("it is undone", other.has("shop", "1"), other.labelled("shop", "team", "blue"), other.has("spare", "1"),
			other.is(other.app("spare"), another(before)))
	}
	spoil()
	w.cut()
	spoil()
	w.heal()
}

func apart(w *world) {
	owner, other := w.owner(), w.other()
	owner.makes("edited", "deleted", "same")
	w.agree()
	before := other.uids()
	w.cut()
	owner.wants("edited", "2")
	owner.wants("edited", "3")
	owner.makes("made")
	owner.deletes("deleted")
	w.heal()
	w.sees("everything arrives", other.has("edited", "3"), other.has("made", "1"), other.lacks(other.app("deleted")))
	after := other.uids()
	for _, name := range []string{"edited", "same"} {
		require.Equal(w.t, before[other.app(name)], after[other.app(name)], "%s is the one that it was", name)
	}
}
