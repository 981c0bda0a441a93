package bench

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/argocd-fabric/argocd-agent/cli/bench/fleet"
	"github.com/argocd-fabric/argocd-agent/cli/throwaway"
)

// A StoredRun is what one run has measured of what is kept on disk, in bytes.
type StoredRun struct {
	Values     int     `json:"values"`     // what the last values of one agent's objects take, both ways
	Principal  float64 `json:"principal"`  // kept by the principal for each agent
	Agent      float64 `json:"agent"`      // kept by each agent
	Unsaid     int     `json:"unsaid"`     // Applications that did not arrive for a quota, and of which nothing was said
	OverQuota  int     `json:"overQuota"`  // those that did not arrive
	Incomplete int     `json:"incomplete"` // that were not there once the others were deleted
}

func storedGauges(t fleet.Carrier) []gauge[StoredRun] {
	gauges := []gauge[StoredRun]{
		{name: "last values of an agent's objects, KiB", of: func(r StoredRun) float64 { return float64(r.Values) / kib }},
		{name: "kept by the principal for each agent, KiB", of: func(r StoredRun) float64 { return r.Principal / kib }},
		{name: "kept by each agent, KiB", of: func(r StoredRun) float64 { return r.Agent / kib }},
		{name: "kept by the principal ÷ last values", of: func(r StoredRun) float64 { return r.Principal / float64(r.Values) }},
	}
	if t == fleet.GRPC {
		return gauges // the principal keeps nothing
	}
	return append(gauges, []gauge[StoredRun]{
		{name: "Applications beyond a quota", of: func(r StoredRun) float64 { return float64(r.OverQuota) }},
		{name: "of which nothing was said", of: func(r StoredRun) float64 { return float64(r.Unsaid) }, goal: limit(0), fatal: true},
		{name: "missing once there was space again", of: func(r StoredRun) float64 { return float64(r.Incomplete) }, goal: limit(0), fatal: true},
	}...)
}

// measureStored looks at what is kept after many changes of few Applications, and has an agent
// be told more than its quota allows.
func measureStored(ctx context.Context, s Settings) (Report, error) {
	return repeat(s, storedGauges(s.Transport), func(s Settings) (StoredRun, error) {
		r, err := in(ctx, s, fleet.Order{Noted: true}, (*world).stored)
		if err != nil || s.Transport == fleet.GRPC {
			return r, err
		}
		return r, s.full(ctx, &r)
	})
}

func (w *world) stored() (r StoredRun, err error) {
	o, err := w.fill()
	if err != nil {
		return r, err
	}
	if _, err := w.offered(o, w.Rate, w.Duration, o.uniform); err != nil {
		return r, err
	}
	for app := range w.Apps {
		r.Values += len(fleet.Spec(o.last[app]))
	}
	kept, err := size(fleet.Kept(w.dir, throwaway.Principal))
	if err != nil {
		return r, err
	}
	r.Principal = kept / float64(w.Agents)
	for i := range w.Agents {
		kept, err := size(fleet.Kept(w.dir, fleet.Name(i)))
		if err != nil {
			return r, err
		}
		r.Agent += kept / float64(w.Agents)
	}
	return r, nil
}

// size returns what the files in a folder take, in bytes; one that is not there takes nothing.
func size(dir string) (n float64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a server has removed it just now
		}
		if err == nil {
			n += float64(info.Size())
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	return n, err
}
