package natslink

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// Times of a keeper.
const (
	glanceEvery = time.Second      // it looks at what is cheap to see
	lookEvery   = 10 * time.Second // it tries the disk, and asks the server how it is; at once when something is wrong
	trial       = 30 * time.Second // what works this long after it has failed is well
	minPause    = time.Second      // between attempts to have the server go on
	maxPause    = 30 * time.Second
	calm        = 2 * time.Minute // without an attempt: the next is as the first
)

// A keeper keeps the store of a node usable while the program runs. The server of NATS
// does not by itself: a stream whose disk has failed once takes nothing in until it is
// opened again, and answers nothing; after some failures the server gives up all
// streams. So the keeper looks at the disk and at the server, has nothing taken in while
// that cannot work, and has the server open the streams again once it can. Connections
// stay meanwhile.
//
// It is owned by one goroutine.
type keeper struct {
	node     *node
	admit    func(server.ClientAuthentication) bool // connections from outside
	anew     func()                                 // called when the server was made anew
	alone    bool                                   // whoever uses the store, it is one agent
	down     error                                  // why the server does not run
	looked   time.Time                              // when it looked closely
	tried    time.Time                              // when it last had the server go on
	pause    time.Duration                          // from then to the next time
	reopened map[string]time.Time                   // streams, and when they were opened again
}

// run keeps the store until ctx is done.
func (k *keeper) run(ctx context.Context) {
	k.reopened = map[string]time.Time{}
	t := time.NewTicker(glanceEvery)
	defer t.Stop()
	for {
		closely := false
		select {
		case <-t.C:
		case <-k.node.suspects:
			closely = true
		case err := <-k.node.fatal:
			k.down = err
		case <-ctx.Done():
			return
		}
		k.look(ctx, closely)
	}
}

// look looks at the store, and does what is to be done.
func (k *keeper) look(ctx context.Context, closely bool) {
	n, now := k.node, time.Now()
	if k.down == nil {
		switch err := n.lost(); {
		case errors.Is(err, errLost):
			k.down = err
		case err != nil:
			k.unusable(err)
			return
		}
	}
	if k.down != nil {
		k.restart(now)
		return
	}
	n.space()
	for _, s := range n.all() {
		s.glance(ctx, now)
	}
	if !closely && now.Sub(k.looked) < lookEvery && n.store.usable() == nil && !n.anyBad() {
		return
	}
	k.looked = now
	if err := probe(n.options.StoreDir); err != nil {
		k.unusable(err)
		return
	}
	k.mend(now)
}

// unusable has nothing taken in since the store cannot be written to.
func (k *keeper) unusable(err error) {
	what := storeTrouble(err)
	for _, other := range []string{StoreFull, StoreReadOnly, StoreFailing} {
		if other != what {
			k.node.troubles.end(origin{what: other})
		}
	}
	if what == StoreFull {
		err = fmt.Errorf("%w: %w", transport.ErrFull, err)
	}
	k.node.troubles.begin(origin{what: what}, err)
	k.node.store.spoil(err)
}

// storeTrouble says what an error in writing to the store means.
func storeTrouble(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return StoreFull
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return StoreReadOnly
	}
	return StoreFailing
}

// mend has the server go on where it has given up. The disk as a whole works.
func (k *keeper) mend(now time.Time) {
	n := k.node
	outage := n.store.usable() != nil // of which many may suffer still
	n.troubles.end(origin{what: StoreReadOnly})
	broken, disabled := n.health()
	for name, err := range broken {
		if s := n.find(name); s != nil && !s.condemned() {
			s.spoil(" failing", err)
		}
	}
	ready := slices.DeleteFunc(k.ready(disabled != nil), func(s *stream) bool {
		fine := disabled == nil && broken[s.name] == nil
		if fine {
			s.try(now)
		}
		return fine
	})
	maps.DeleteFunc(k.reopened, func(_ string, at time.Time) bool { return now.Sub(at) > calm })
	many := k.alone || outage || len(ready) > len(n.all())/2
	if disabled == nil {
		ready = slices.DeleteFunc(ready, func(s *stream) bool {
			_, again := k.reopened[s.name]
			alone := again || !many
			if alone {
				s.condemn(" failing", broken[s.name])
			}
			return alone
		})
	}
	switch {
	case disabled == nil && len(ready) == 0:
	case !k.due(now):
		return
	default:
		k.reopen(now, disabled, ready)
		return
	}
	n.troubles.end(origin{what: StoreFailing})
	n.store.mend()
}

// ready returns the streams that have failed and whose own directory can be written to.
// Where suspected it is tried for all: the server does not say which has made it give up.
func (k *keeper) ready(suspected bool) []*stream {
	var ready []*stream
	for _, s := range k.node.all() {
		if s.condemned() || (s.cond.isGood() && !suspected) {
			continue
		}
		switch err := s.probe(); {
		case errors.Is(err, fs.ErrNotExist):
			s.condemn(" lost", err)
		case err != nil:
			s.spoil(streamTrouble(err), err)
		case !s.cond.isGood():
			ready = append(ready, s)
		}
	}
	return ready
}

// streamTrouble says what an error in writing to the directory of a stream means.
func streamTrouble(err error) string {
	if storeTrouble(err) == StoreReadOnly {
		return " read-only"
	}
	return " failing"
}

// due reports whether the server may be had go on already, and counts it as an attempt.
func (k *keeper) due(now time.Time) bool {
	since := now.Sub(k.tried)
	if since < k.pause {
		return false
	}
	if since > calm {
		k.pause = 0
	}
	k.tried, k.pause = now, min(max(minPause, 2*k.pause), maxPause)
	return true
}

// reopen has the server close all streams and open them again. If it cannot, the server is
// made anew.
func (k *keeper) reopen(now time.Time, disabled error, broken []*stream) {
	n := k.node
	why := disabled
	if why == nil {
		why = errors.New("streams have failed")
	}
	n.log.Warn("opening the store again", zap.Error(why), zap.Int("streams", len(broken)))
	n.troubles.begin(origin{what: StoreFailing}, why)
	n.store.spoil(errReopening)
	if err := n.reopen(); err != nil {
		k.down = err
		return
	}
	for _, s := range broken {
		k.reopened[s.name] = now
		s.try(now)
	}
	n.troubles.end(origin{what: StoreFailing})
	n.store.mend()
}

var errReopening = errors.New("the store is being opened again")

// restart makes the server anew, on a directory that is made if need be. If that does not
// work it is tried again.
func (k *keeper) restart(now time.Time) {
	n := k.node
	what := StoreFailing
	if errors.Is(k.down, errLost) {
		what = StoreLost
		n.troubles.begin(origin{what: what}, k.down)
	}
	n.store.spoil(k.down)
	if !k.due(now) {
		return
	}
	n.log.Warn("restarting the NATS server", zap.Error(k.down))
	if err := n.restart(k.admit); err != nil {
		if what == StoreLost {
			err = fmt.Errorf("%w: %w", errLost, err)
		}
		k.down = err
		n.troubles.begin(origin{what: what}, err)
		return
	}
	k.down = nil
	k.anew()
	for _, what := range []string{StoreFailing, StoreLost, StoreReadOnly} {
		n.troubles.end(origin{what: what})
	}
	for _, s := range n.all() {
		if what == StoreLost {
			s.doom(errLost) // which has been said
		} else {
			s.try(now)
		}
	}
	n.store.mend()
	n.log.Warn("the NATS server runs again")
}
