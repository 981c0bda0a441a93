package engine

import (
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// askRefresh is the principal's half of a request to refresh. The mark on its object becomes
// a request with an id, and goes in the write that brings the status which fulfilled it:
// clients of Argo CD wait for that. Where nobody can fulfil it now they wait in vain, so the
// mark goes at once, and the request is kept. A hard one takes the place of a normal one.
func (e *Engine) askRefresh(now time.Time, o *resource.Object, t *Record, en *entry) {
	mark, refresh := &o.Parts[resource.RefreshMark], &o.Parts[resource.Refresh]
	id, kept := resource.RefreshKept(*refresh)
	done := id != "" && t.Parts[resource.Refresh] == id
	if kept && en.fresh == id {
		en.fresh = ""
	}
	switch hard := *mark == resource.RefreshHard; {
	case *mark != "" && (id == "" || kept || hard && resource.RefreshAsked(id) != resource.RefreshHard):
		hard = hard || kept && !done && resource.RefreshAsked(id) == resource.RefreshHard
		*refresh = en.stampRefresh(now, hard)
	case done:
		*mark, *refresh, en.fresh = "", "", ""
		return
	case *mark == "" && id == "":
		en.fresh = ""
		return
	}
	if e.alone || t.Parts[resource.Fault] != "" || en.unfit.text != "" {
		*mark = ""
	}
	if id, kept = resource.RefreshKept(*refresh); *mark == "" && !kept {
		*refresh = resource.KeepRefresh(id)
	}
}

// stampRefresh returns the id chosen for a request until the store shows it.
func (en *entry) stampRefresh(now time.Time, hard bool) string {
	mark := resource.RefreshNormal
	if hard {
		mark = resource.RefreshHard
	}
	if en.fresh == "" || resource.RefreshAsked(en.fresh) != mark {
		en.fresh = resource.RefreshID(mark, now)
	}
	return en.fresh
}

// takeRefresh is the agent's half. A mark that a user has set here stands for the request as
// well, unless it is the weaker one. The times in a status are of whole seconds: one of this
// very second may be of before or after.
func (e *Engine) takeRefresh(now time.Time, o *resource.Object, t *Record) {
	mark, refresh, asked := &o.Parts[resource.RefreshMark], &o.Parts[resource.Refresh], t.Parts[resource.Refresh]
	if asked == "" || asked == resource.RefreshTaken(*refresh) {
		return
	}
	since, _ := resource.Reconciled(o.Parts[resource.Status])
	if at, err := time.Parse(time.RFC3339, since); err != nil || !at.Before(now.Truncate(time.Second)) {
		since = ""
	}
	*refresh = resource.TakeRefresh(asked, since)
	if want := resource.RefreshAsked(asked); *mark == "" || want == resource.RefreshHard {
		*mark = want
	}
}
