package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// How long an adoption waits for its effect, and how often it looks.
const (
	effect = 10 * time.Second
	glance = 200 * time.Millisecond
)

// adopt has objects written from now on although this agent observes, or no more.
func (a *Agent) adopt(ctx context.Context, want inquiry.Adoption) (inquiry.Adopted, error) {
	out := inquiry.Adopted{Done: []string{}, Pending: []string{}}
	if a.gate == nil {
		return out, fmt.Errorf("agent: adopt: %w", inquiry.ErrNotObserving)
	}
	if !a.listed.Load() {
		return out, errEarly
	}
	keys, err := a.meant(ctx, want)
	if err != nil {
		return out, err
	}
	do, did := a.begin, "objects are adopted"
	if want.Undo {
		do, did = a.release, "objects are adopted no more"
	}
	err = do(ctx, keys)
	for _, k := range keys {
		out.Done = append(out.Done, k.String())
	}
	a.cfg.Log.Info("the principal's user decides: "+did, zap.Strings("keys", out.Done), zap.Error(err))
	if err != nil || want.Undo {
		return out, err
	}
	out.Pending, err = a.unfinished(ctx, out.Done)
	return out, err
}

// begin adopts keys.
func (a *Agent) begin(ctx context.Context, keys []resource.Key) error {
	failed := []error{a.gate.Adopt(ctx, keys...)} // it holds for this process, at least
	for _, k := range keys {
		failed = append(failed, a.session.Load().Again(ctx, k))
	}
	return errors.Join(failed...)
}

// release does the opposite.
func (a *Agent) release(ctx context.Context, keys []resource.Key) error {
	return a.gate.Release(ctx, keys...)
}

// meant returns the keys that an adoption is about.
func (a *Agent) meant(ctx context.Context, want inquiry.Adoption) ([]resource.Key, error) {
	adopted := a.gate.Adopted()
	switch {
	case want.All && want.Undo:
		return keysOf(adopted), nil
	case want.All:
		all, _, err := a.session.Load().Plan(ctx)
		var keys []resource.Key
		for _, c := range all {
			keys = append(keys, c.Key)
		}
		return keys, err
	}
	possible, why := keysOf(adopted), inquiry.ErrNotAdopted
	if !want.Undo {
		known, err := a.session.Load().Known(ctx, want.Keys)
		if err != nil {
			return nil, err
		}
		possible, why = known, inquiry.ErrNoObject
	}
	for _, k := range want.Keys {
		if !slices.Contains(possible, k) {
			return nil, fmt.Errorf("agent: %s: %w", k, why)
		}
	}
	return want.Keys, nil
}

// keysOf returns the keys of these names.
func keysOf(names []string) (keys []resource.Key) {
	for _, name := range names {
		if k, ok := resource.ParseKey(name); ok {
			keys = append(keys, k)
		}
	}
	return keys
}

// unfinished waits for a moment, and returns those of names that are still to be changed.
func (a *Agent) unfinished(ctx context.Context, names []string) (left []string, err error) {
	late := time.NewTimer(effect)
	defer late.Stop()
	look := time.NewTicker(glance)
	defer look.Stop()
	for {
		all, _, err := a.session.Load().Plan(ctx)
		if err != nil {
			return names, err
		}
		left = []string{}
		for _, c := range all {
			if slices.Contains(names, c.Key.String()) {
				left = append(left, c.Key.String())
			}
		}
		if len(left) == 0 {
			return left, nil
		}
		select {
		case <-look.C:
		case <-late.C:
			return left, nil
		case <-ctx.Done():
			return left, context.Cause(ctx)
		}
	}
}
