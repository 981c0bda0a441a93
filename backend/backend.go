// Package backend says what a store of one side's objects promises. Its adapters
// (memstore, kubestore) implement Store, and prove the comments below by the suite in
// storetest; View wraps a Store to show it filtered and renamed.
package backend

import (
	"context"
	"errors"
	"slices"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// Errors of a Store, given wrapped. Any other may go away by itself.
var (
	ErrConflict = errors.New("object has another version") // nothing was done; running watches show or will show why
	ErrRefused  = errors.New("object was refused")         // it will never be accepted as it is
	ErrWithheld = errors.New("object is not adopted")      // a user keeps it from being written; nothing was done
	ErrRewound  = errors.New("store went back in time")    // given by Watch: begin another one
)

// An Event is something that a watch shows. Exactly one field is set.
type Event struct {
	Put    *resource.Object // an object exists, or has changed
	Gone   *Gone            // an object exists no more
	Synced *Synced          // every object that existed when the watch began has been shown
}

// Gone says that an object exists no more.
type Gone struct {
	Key resource.Key
	UID string // of the object that is gone, "" if it is not known
	// Seen says that the watch saw it being deleted. Otherwise it was merely missing when
	// the store was listed again, or left the scope of the watch.
	Seen bool
}

// Synced says how far a store had come when a watch began. What the watch has shown before it may be
// newer, having changed while it was shown.
type Synced struct {
	// Revision is that of the store as a whole, by which a store that went back in time is
	// known: it never falls while the store lives. 0 if the store has none.
	Revision uint64
}

// A Scope narrows a watch.
type Scope struct {
	Namespaces []string // none is all
}

// In returns the Scope of these namespaces.
func In(namespaces ...string) Scope { return Scope{namespaces} }

// Holds reports whether objects of a namespace are in scope.
func (s Scope) Holds(namespace string) bool {
	return len(s.Namespaces) == 0 || slices.Contains(s.Namespaces, namespace)
}

// A Store holds objects and says when they change.
//
// Write and Remove are conditional on the version that they are given, and return only
// once every running watch whose scope holds the object has shown what they did and its
// function has returned: whoever knows the outcome knows the effect. A store that cannot
// learn the effect in reasonable time returns an error that may go away.
//
// Methods may be called concurrently.
type Store interface {
	// Write makes the object with want's Key and Version into want: those of its Parts that
	// differ, its Origin, and nothing else; metadata keys that want does not have are
	// removed only if the object had them in its Meta. If want.Version is "" there must be
	// no such object, and it is created. It returns the object as stored, which differs
	// from want where the store prunes or defaults fields or gives versions.
	Write(ctx context.Context, want resource.Object) (resource.Object, error)
	// Remove deletes the object k of the given version with foreground propagation; it may
	// take its time to vanish, and is shown Deleting meanwhile. One that is gone already is
	// ErrConflict.
	Remove(ctx context.Context, k resource.Key, version string) error
	// Watch calls f, from one goroutine, for every object in scope, then once with Synced,
	// then for every change, those of one object in order, until ctx is done or f fails;
	// it returns the cause. Several changes of one object may be shown as one. If the store is
	// restored to an earlier state it returns ErrRewound, for what comes then is no change.
	Watch(ctx context.Context, scope Scope, f func(Event) error) error
}

// An Agent is what a registry says of one agent.
type Agent struct {
	Name string
	Mode resource.Mode
}

// A Registry says which agents there are. On Kubernetes it is the set of cluster secrets.
type Registry interface {
	// Watch calls f, from one goroutine, with all agents, sorted by name, once they are
	// listed and again whenever they change, until ctx is done or f fails; it returns the
	// cause. An entry that cannot be read is left out, and reported to the log.
	Watch(ctx context.Context, f func([]Agent) error) error
}
