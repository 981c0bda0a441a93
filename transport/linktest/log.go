package linktest

import (
	"maps"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
)

var logs = []test{
	{name: "Log", run: logHoldsWhatWasSent},
	{name: "LogOfNextProcess", run: logOfNextProcess},
}

// log reads the log and demands that it has an epoch.
func (e *end) log() transport.Log {
	e.w.Helper()
	log, err := e.link.Log(e.w.ctx)
	require.NoError(e.w, err)
	require.NotEmpty(e.w, log.Epoch)
	return log
}

// keepsOwn says whether the log of e's side outlives its process.
func (e *end) keepsOwn() bool {
	if e.link.Peer() == "principal" {
		return e.w.traits.keeps(AgentLog)
	}
	return e.w.traits.keeps(HubLog)
}

// checkLog demands that the log holds what t says.
func (e *end) checkLog(t table) (epoch string) {
	e.w.Helper()
	log := e.log()
	require.Equal(e.w, e.keepsOwn(), log.Keeps)
	if !log.Keeps {
		require.Empty(e.w, log.Rows)
		return log.Epoch
	}
	rows := maps.Clone(t)
	maps.DeleteFunc(rows, func(_ string, m transport.Message) bool { return m.Tombstone() })
	require.ElementsMatch(e.w, slices.Collect(maps.Keys(rows)), slices.Collect(maps.Keys(log.Rows)))
	for k, m := range rows {
		if k[0] == '$' {
			e.w.same(m, log.Rows[k])
		} else {
			require.Equal(e.w, headersOf(m), headersOf(log.Rows[k]))
		}
	}
	return log.Epoch
}

// logHoldsWhatWasSent: also while the peer has never been there.
func logHoldsWhatWasSent(w *world) {
	w.startHub()
	h, a := w.openHub("alpha"), w.openAgent("beta")
	epochs := map[string]bool{}
	for _, e := range []*end{h, a} {
		t := table{}
		e.checkLog(t)
		e.fill(t)
		m := message("$large", w.next())
		m.Event.DataEncoded = w.sized("", 100<<10).Event.Data()
		m.Event.SetSubject("a subject")
		e.put(t, m)
		epoch := e.checkLog(t)
		e.send(t, "key001", "$large")
		e.drop(t, "key002", "$reserved")
		require.Equal(w, epoch, e.checkLog(t))
		epochs[epoch] = true
	}
	require.Len(w, epochs, 2, "two logs have one epoch")
}

// logOfNextProcess: a kept log is what it was, one that is not kept is another.
func logOfNextProcess(w *world) {
	h, a := w.pair("alpha")
	down, up := table{}, table{}
	h.fill(down)
	a.fill(up)
	a.awaitTable(down)
	h.awaitTable(up)
	before := []string{h.checkLog(down), a.checkLog(up)}
	h, a = w.restartHub(h), w.restartAgent(a)
	after := []string{h.checkLog(down), a.checkLog(up)}
	for i, e := range []*end{h, a} {
		require.Equal(w, e.keepsOwn(), before[i] == after[i])
	}
}
