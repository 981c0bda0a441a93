package demo

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A scene is a step of the script. It plays until what it is about has happened, and says
// what that was.
type scene struct {
	title string
	play  func(context.Context, *world) (what string, err error)
}

// script is the story. What it leaves alive is in testdata/alive.yaml.
func script() []scene {
	return []scene{
		{"start", begin},
		{"create", create},
		{"change", change},
		{"cut the link", cut},
		{"apart, control plane", apartHub},
		{"apart, cut-off cluster", apartSpoke},
		{"apart, everybody else", apartOthers},
		{"apart, drift", drift},
		{"apart, restart", restart},
		{"heal the link", heal},
	}
}

// edits is how often an Application is changed while its agent is cut off.
const edits = 50

func begin(ctx context.Context, w *world) (string, error) {
	return fmt.Sprintf("principal %s; managed agents: %d, autonomous: 1, each %s; mutual TLS", w.carrier.ends().hubIs, len(w.managed()), w.carrier.ends().agentIs),
		until(ctx, patience, "the agents to connect", func() bool {
			agents := w.principal.Agents()
			for _, a := range agents {
				if !a.Session.Connected {
					return false
				}
			}
			return len(agents) == len(w.spokes)
		})
}

func create(ctx context.Context, w *world) (string, error) {
	for _, s := range w.managed() {
		for _, name := range []string{"guestbook", "metrics", "shop"} {
			if err := w.createOnHub(s, name); err != nil {
				return "", err
			}
		}
	}
	for _, name := range []string{"gateway", "sensors"} {
		if err := createOnSpoke(w.autonomous(), name); err != nil {
			return "", err
		}
	}
	total := 3*len(w.managed()) + 2
	return fmt.Sprintf("%d Applications on the control plane, 2 on the autonomous cluster; copied; status came back", total-2),
		until(ctx, patience, "Applications on both sides", func() bool { return len(w.hub.All()) == total && w.alike(w.spokes...) })
}

func change(ctx context.Context, w *world) (string, error) {
	for _, s := range w.managed() {
		revise(w.hub, onHub(s, "shop"), "release-2")
		label(w.hub, onHub(s, "guestbook"), "tier", "gold")
	}
	revise(w.autonomous().cluster, onSpoke("gateway"), "release-2")
	return "revisions and labels, on either side; followed by the other",
		until(ctx, patience, "changes on both sides", func() bool { return w.alike(w.spokes...) })
}

func cut(ctx context.Context, w *world) (string, error) {
	w.lost().line.cut()
	return w.lost().Name + " cannot be reached, and the principal knows", until(ctx, patience, "the cut to be noticed", func() bool {
		return !w.principal.Agents()[0].Session.Connected // sorted by name: it is the first
	})
}

// apartHub is what happens on the control plane.
func apartHub(_ context.Context, w *world) (string, error) {
	s := w.lost()
	for i := range edits {
		revise(w.hub, onHub(s, "guestbook"), fmt.Sprint("release-", i+1))
	}
	if err := w.createOnHub(s, "search"); err != nil {
		return "", err
	}
	w.hub.Delete(onHub(s, "shop"))
	if shop, ok := w.hub.Get(onHub(s, "shop")); !ok || !shop.Deleting {
		return "", errors.New("demo: shop does not wait for its workloads to be deleted")
	}
	return fmt.Sprintf("guestbook edited %d times; search created; shop deleted, and waits for the agent", edits), nil
}

// apartSpoke is what people do on the cluster that is cut off.
func apartSpoke(ctx context.Context, w *world) (string, error) {
	s := w.lost()
	before, _ := s.cluster.Get(onSpoke("metrics"))
	s.cluster.Delete(onSpoke("metrics"))
	if err := createLocal(s); err != nil {
		return "", err
	}
	return "copy of metrics deleted, and made again; local-debug created, and left alone",
		until(ctx, patience, "the copy to be made again", func() bool {
			now, ok := s.cluster.Get(onSpoke("metrics"))
			return ok && now.UID != before.UID && now.Parts == before.Parts
		})
}

// apartOthers is what goes on with agents that are connected.
func apartOthers(ctx context.Context, w *world) (string, error) {
	s := w.autonomous()
	if err := createOnSpoke(s, "recorder"); err != nil {
		return "", err
	}
	s.cluster.Delete(onSpoke("sensors"))
	revise(s.cluster, onSpoke("gateway"), "release-3")
	return "autonomous cluster: recorder created, sensors deleted, gateway edited; the control plane followed",
		until(ctx, patience, "the others' changes", func() bool {
			_, made := w.hub.Get(onHub(s, "recorder"))
			return made && w.alike(s)
		})
}

// drift is somebody's change of what is not theirs to change.
func drift(ctx context.Context, w *world) (string, error) {
	spoil, undone := vandal(w.lost())
	spoil()
	return "spec and label of a copy edited on the cut-off cluster; reverted", until(ctx, patience, "drift to be reverted", undone)
}

// restart does the same to an agent whose program has ended, and starts it again.
func restart(ctx context.Context, w *world) (string, error) {
	s := w.lost()
	if err := s.stop(); err != nil {
		return "", err
	}
	spoil, undone := vandal(s)
	spoil()
	if err := w.startAgent(s); err != nil {
		return "", err
	}
	return "the same while the agent's program is down; it starts, still cut off; reverted", until(ctx, patience, "drift to be reverted", undone)
}

// heal joins what was apart. That the two sides do not get equal is not its failure: what
// differs is found and named afterwards.
func heal(ctx context.Context, w *world) (string, error) {
	s := w.lost()
	s.liar.arm()
	s.line.heal()
	limit := patience
	if s.liar.lie != None {
		limit = 8 * time.Second // in vain
	}
	err := until(ctx, limit, "the two sides to get equal", func() bool {
		v, err := w.judge(ctx)
		return err == nil && len(v.differences) == 0
	})
	if errors.Is(err, errLate) {
		return fmt.Sprintf("the two sides are not equal after %v", limit), nil
	}
	return fmt.Sprintf("caught up: guestbook is at release-%d, search is there, shop is gone from both sides", edits), err
}
