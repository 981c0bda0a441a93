package linktest

import "github.com/stretchr/testify/require"

var presences = []test{
	{name: "Presence", run: presence},
	{name: "PresenceOfNextProcess", run: presenceOfNextProcess},
}

// presence: each side learns who the other is, and when it is away.
func presence(w *world) {
	h, a := w.pair("alpha")
	ofAgent, ofHub := h.process(), a.process()
	require.NotEqual(w, ofAgent, ofHub)
	for _, e := range []*end{h, a} {
		e.Look(func(s *Seen) {
			require.NotEmpty(w, s.Peer.Version)
			require.Positive(w, s.Peer.Oldest)
			require.GreaterOrEqual(w, s.Peer.Newest, s.Peer.Oldest)
		})
	}
	w.apart(Cut, h, a)
	w.heal("alpha")
	require.Equal(w, ofAgent, h.process(), "a process changed its name")
	require.Equal(w, ofHub, a.process(), "a process changed its name")
	a.close()
	h.awaitDown()
}

// presenceOfNextProcess: a process that takes the place of another is told from it.
func presenceOfNextProcess(w *world) {
	h, a := w.pair("alpha")
	known := map[string]bool{h.process(): true, a.process(): true}
	for range 3 {
		before := h.process()
		a = w.restartAgent(a)
		h.awaitNextProcess(known, before)
		before = a.process()
		h = w.restartHub(h)
		a.awaitNextProcess(known, before)
	}
}

// awaitNextProcess waits until the peer is another process than the one before, and demands
// that it is none that was known, and makes it known. The one before may be seen to go and
// come once more meanwhile, on a busy machine.
func (e *end) awaitNextProcess(known map[string]bool, before string) {
	e.w.Helper()
	var next string
	e.await("next process", func(s *Seen) bool {
		if s.Peer != nil {
			next = s.Peer.Process
		}
		return s.Peer != nil && next != before
	})
	require.NotContains(e.w, known, next)
	known[next] = true
}

// process waits until the peer is up, and returns its process.
func (e *end) process() (id string) {
	e.w.Helper()
	e.await("up", func(s *Seen) bool {
		if s.Peer != nil {
			id = s.Peer.Process
		}
		return s.Peer != nil
	})
	require.NotEmpty(e.w, id)
	return id
}

func (e *end) ups() (n int) {
	e.Look(func(s *Seen) { n = s.Ups })
	return n
}
