package bench

import (
	"context"
	"errors"

	"github.com/argocd-fabric/argocd-agent/cli/bench/fleet"
)

// The quota of an agent's log, in bytes, and how many Applications of some 1 KiB it is told of,
// which are more than it takes.
const (
	narrow  = 1 << 20
	tooMany = 1500
)

// full has one agent be told more than its quota allows, and then less again.
func (s Settings) full(ctx context.Context, r *StoredRun) error {
	s.Agents, s.Apps = 1, tooMany
	w, err := s.start(ctx, fleet.Order{}, narrow)
	if err != nil {
		return err
	}
	return errors.Join(w.overflow(r), w.stop())
}

func (w *world) overflow(r *StoredRun) error {
	if err := w.inStep(); err != nil {
		return err
	}
	edit, err := w.hands()
	if err != nil {
		return err
	}
	if err := newOffer(edit, w.Agents, w.Apps, 0, uint64(w.Seed)).all(w.ctx); err != nil {
		return err
	}
	said := w.until("a word of the quota", func() (bool, error) {
		a, err := w.principal.Agent(fleet.Name(0))
		return len(a.Troubles) > 0, err
	})
	if err := w.pause(settling); err != nil {
		return err
	}
	held, err := w.agents.Objects()
	if err != nil {
		return err
	}
	r.OverQuota = w.Apps - held
	if said != nil {
		r.Unsaid = r.OverQuota
	}
	left := w.Apps / 4
	for app := left; app < w.Apps; app++ {
		w.mem.Delete(hubKey(0, app))
	}
	late := w.until("those that are left", func() (bool, error) {
		held, err = w.agents.Objects()
		return held == left, err
	})
	if late != nil && w.ctx.Err() == nil {
		r.Incomplete = max(left-held, held-left)
	}
	return context.Cause(w.ctx)
}
