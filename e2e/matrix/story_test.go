package matrix

import "testing"

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

// stories are all of them. Their owner is the side of the originals.
func stories() []story {
	return []story{
		{"Travels", "an Application that is made is on the other side, and has the same status on both; its edits arrive, and it goes when it is deleted", travels},
		{"Drift", "whatever people do to a copy is undone, its deletion too, and so it is while the line is cut", drift},
		{"Apart", "the line is cut, and originals are edited, made and deleted: all of it arrives once it is healed", apart},
		{"HalfOpen", "the line swallows everything for a while, and nobody is told", halfOpen},
		{"Flood", "many Applications are edited again and again over a slow line: the last edit of each counts", flood},
		{"AgentAway", "the agent does not run, and originals are edited, made and deleted", agentAway},
		{"PrincipalAway", "the principal does not run, and originals are edited, made and deleted", principalAway},
		{"OfflineRestart", "both programs are restarted while the line is cut: drift is undone by what was heard before", offlineRestart},
		{"AgentForgets", "the agent loses all that it has kept, and meanwhile originals change: nothing is made anew", agentForgets},
		{"PrincipalForgets", "the principal loses all that it has kept, and meanwhile originals change: nothing is made anew", principalForgets},
		{"BothForget", "both lose all that they have kept while the line is cut: nothing is made anew or deleted", bothForget},
		{"Strangers", "what is nobody's copy on the other side is never touched, whatever is restarted and forgotten", strangers},
		{"Cascade", "an Application that is deleted with all that it has deployed, while the agent is away, goes on both sides", cascade},
		{"DeletedOnBothSides", "an Application is deleted on both sides at once, while the line is cut: it does not come back", deletedOnBothSides},
		{"Namesake", "an Application is deleted and made anew while the line is cut: the copy is that of the new one", namesake},
		{"ManyMissing", "most originals are gone, and nobody has seen it: their copies stay until somebody approves", manyMissing},
		{"Excluded", "an original is excluded while the line is cut: its copy stays as it is, and follows again later", excluded},
		{"Projects", "a project comes after its Applications, changes, and goes with them", projects},
		{"Sync", "a sync that is asked for on the hub, while the line is cut, and again, runs once each time", synced},
		{"Refresh", "a refresh that is asked for on the hub is done on the spoke, and the hub is told", refreshed},
	}
}
