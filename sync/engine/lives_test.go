package engine_test

import "testing"

// Applications that are deleted, made anew and deleted again while the agent is away, each
// time before the principal's eyes, are known to be deleted, however many they are: their
// copies are not held back as if the hub had lost them.
func TestSeveralLivesWhileApart(t *testing.T) {
	w := fleet(t, durable, 10)
	w.up = false
	for i := range 7 {
		w.remove(w.node[0], app(i), false)
		w.settle(1)
		for range 2 {
			w.edit(i, "again")
			w.settle(1)
			w.remove(w.node[0], app(i), false)
			w.settle(1)
		}
	}
	w.up = true
	w.settle(8)
	if held := w.node[1].eng.Status().Held; len(held) > 0 {
		t.Errorf("%d deletions that were seen are held", len(held))
	}
	if n := len(w.node[1].store); n != 3 {
		t.Errorf("%d copies are left of 3 originals", n)
	}
}
