package linktest

import (
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
)

// wipes returns a test for each way to lose stores: one of them, or both of one side, while
// their process runs or while it does not.
func wipes() []test {
	var all []test
	for _, lost := range [][]Store{{HubLog}, {AgentCopy}, {AgentLog}, {HubCopy}, {HubLog, HubCopy}, {AgentLog, AgentCopy}} {
		var names []string
		for _, s := range lost {
			names = append(names, s.String())
		}
		name := strings.Join(names, "And")
		needs := append([]Store{HubLog, AgentLog}, lost...)
		all = append(all,
			test{name: "Lost/" + name, needs: needs, run: func(w *world) { w.loses(lost, false) }},
			test{name: "LostWhileStopped/" + name, needs: needs, run: func(w *world) { w.loses(lost, true) }},
		)
	}
	return all
}

// loses wipes stores, which are of one side. A log that is lost is known to be, and once all
// of it has been sent again the peer's copy is whole. A copy that is lost becomes whole by
// itself.
func (w *world) loses(lost []Store, stopped bool) {
	h, a := w.pair("alpha")
	down, up := table{}, table{}
	h.fill(down)
	a.fill(up)
	a.awaitTable(down)
	h.awaitTable(up)
	epochs := map[Store]string{HubLog: h.log().Epoch, AgentLog: a.log().Epoch}
	h, a = w.wipe(lost, stopped, h, a)

	for s, e := range map[Store]*end{HubLog: h, AgentLog: a} {
		if !slices.Contains(lost, s) {
			require.Equal(w, epochs[s], e.log().Epoch, "%s is another, and was not lost", s)
			continue
		}
		if !stopped {
			e.await("log-lost", func(s *Seen) bool { return s.Lost > 0 })
		}
		log := e.log()
		require.NotEqual(w, epochs[s], log.Epoch, "%s was lost, and is the same", s)
		require.Empty(w, log.Rows)
		e.resend(map[Store]table{HubLog: down, AgentLog: up}[s])
	}
	h.send(down, "key015", "after")
	a.send(up, "key015", "after")
	a.awaitTable(down)
	h.awaitTable(up)
	h, a = w.checkCopies(h, a, down, up)
	h.checkLog(down)
	a.checkLog(up)
}

// wipe wipes the stores.
func (w *world) wipe(lost []Store, stopped bool, h, a *end) (*end, *end) {
	ofHub := lost[0] == HubLog || lost[0] == HubCopy
	wipeAll := func() {
		for _, s := range lost {
			w.Wipe(w.T, "alpha", s)
		}
	}
	switch {
	case !stopped:
		wipeAll()
	case ofHub:
		w.stopHub()
		h.close()
		wipeAll()
		w.startHub()
		h = w.openHub("alpha")
	default:
		a.close()
		wipeAll()
		a = w.openAgent("alpha")
	}
	return h, a
}

// checkCopies demands that copies which are kept are whole: a next process is given them,
// first with its peer in reach, then without.
func (w *world) checkCopies(h, a *end, down, up table) (*end, *end) {
	if w.traits.keeps(AgentCopy) {
		a = w.restartAgent(a)
		a.awaitTable(down)
	}
	if w.traits.keeps(HubCopy) {
		h = w.restartHub(h)
		h.awaitTable(up)
	}
	w.apart(Cut, h, a)
	if w.traits.keeps(AgentCopy) {
		a = w.restartAgent(a)
		a.awaitKept(down)
	}
	if w.traits.keeps(HubCopy) {
		h = w.restartHub(h)
		h.awaitKept(up)
	}
	return h, a
}
