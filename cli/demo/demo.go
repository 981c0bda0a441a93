// Package demo plays the system's main story on one machine, without a cluster: a
// principal and its agents, with real messages, certificates and disks, on memory stores
// that stand for the clusters. At the end it reads all of them, and compares.
package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"
)

// MaxAgents is how many managed agents there can be.
const MaxAgents = 50

// Config says what is played.
type Config struct {
	Agents int // managed ones, from 1 to MaxAgents; there is also an autonomous one
	Lie    Lie // of the store beneath one agent's session
	// Carrier is by what messages travel; the zero one is NATS.
	Carrier Carrier
	Log     *zap.Logger
	// Step is told of every step when it has been played.
	Step func(Step)
}

// A Step of the story has been played.
type Step struct {
	Title    string
	What     string        // has happened
	Took     time.Duration // until all of it had
	Messages Messages      // that crossed the links meanwhile
}

// A Result is what was found at the end.
type Result struct {
	Took        time.Duration
	Objects     int      // that were compared
	Differences []string // that were found
}

// Run plays the story. An error says that it could not be played to its end; differences
// are none.
func Run(ctx context.Context, c Config) (Result, error) {
	if c.Agents < 1 || c.Agents > MaxAgents {
		return Result{}, fmt.Errorf("demo: %d agents", c.Agents)
	}
	dir, err := os.MkdirTemp("", "argocd-agent-demo-")
	if err != nil {
		return Result{}, fmt.Errorf("demo: %w", err)
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w, err := newWorld(ctx, dir, c)
	if err != nil {
		return Result{}, err
	}
	result, err := w.play(script(), began, c.Step)
	stop()
	return result, errors.Join(err, w.wait())
}

// play plays the scenes and compares what they leave.
func (w *world) play(scenes []scene, began time.Time, told func(Step)) (Result, error) {
	from, before := began, Messages{}
	for _, s := range scenes {
		what, err := s.play(w.ctx, w)
		if err != nil {
			return Result{}, fmt.Errorf("%s: %w", s.title, err)
		}
		now, sum := time.Now(), w.traffic.sum()
		told(Step{Title: s.title, What: what, Took: now.Sub(from), Messages: sum.minus(before)})
		from, before = now, sum
	}
	v, err := w.judge(w.ctx)
	return Result{Took: time.Since(began), Objects: v.objects, Differences: v.differences}, err
}
