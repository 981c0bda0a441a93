// Package storetest is the conformance suite of backend.Store: what an adapter passes,
// every part of the system may rely on. Each test proves sentences of the interface's
// comment against a real store in a World of its own.
package storetest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A World is a store and what else a test needs of the cluster that it stands for.
type World struct {
	Store backend.Store
	Users Users
	// Namespaces are two that exist, with no object in them.
	Namespaces [2]string
	// Refuse makes an object one that the store refuses for good.
	Refuse func(*resource.Object)
}

// Users are everybody else in the cluster: people, controllers, accidents. What they do
// is unconditional. They return once it is done, whatever watches have shown; a failure
// ends the test.
type Users interface {
	// Edit changes the Parts of an object, or creates it.
	Edit(k resource.Key, f func(*resource.Object))
	// Delete deletes an object, which stays while there is a finalizer on it.
	Delete(k resource.Key)
	// Hold puts a finalizer on an object that is none of the store's business.
	Hold(k resource.Key)
	// Finish takes all finalizers off an object that is being deleted, if it is there.
	Finish(k resource.Key)
	// Lose makes an object vanish, finalizers or not, while watches see nothing of it.
	Lose(k resource.Key)
}

// Run runs the suite. It calls world once for every test.
func Run(t *testing.T, world func(t *testing.T) World) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, World)
	}{
		{"WriteCreates", writeCreates},
		{"WriteChanges", writeChanges},
		{"WriteChangesEachPart", writeChangesEachPart},
		{"WriteOfNoChange", writeOfNoChange},
		{"WriteKeepsWhatItDoesNotName", writeKeepsOthers},
		{"WriteReportsItsOwnKeys", writeReportsOurs},
		{"WriteIsConditional", writeIsConditional},
		{"WriteIsRefused", writeIsRefused},
		{"WriteByMany", writeByMany},
		{"WriteWaitsForWatches", writeWaits},
		{"WriteIsCancelled", writeIsCancelled},
		{"RemoveDeletes", removeDeletes},
		{"RemoveWaitsForFinalizers", removeWaitsForFinalizers},
		{"RemoveIsConditional", removeIsConditional},
		{"RemoveSparesFinalizersOfOthers", removeSparesOthers},
		{"WatchListsThenFollows", watchLists},
		{"WatchKeepsToItsScope", watchScope},
		{"WatchShowsChangesInOrder", watchOrder},
		{"WatchShowsDeletion", watchDeletion},
		{"WatchShowsSuccessor", watchSuccessor},
		{"WatchShowsLoss", watchLoss},
		{"WatchShowsEditsOfMetadata", watchMetadata},
		{"WatchEnds", watchEnds},
		{"WatchLeavesNothing", watchLeaves},
		{"ThousandObjects", thousandObjects},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, world(t)) })
	}
}

func (w World) key(name string) resource.Key {
	return resource.Key{Kind: resource.Application, Namespace: w.Namespaces[0], Name: name}
}

// The parts of an Application, as Argo CD would accept them.
const (
	spec = `{"destination":{"namespace":"guestbook","server":"https://kubernetes.default.svc"},` +
		`"project":"default","source":{"path":"guestbook","repoURL":"https://git.example.com/apps.git"}}`
	otherSpec = `{"destination":{"namespace":"guestbook","server":"https://kubernetes.default.svc"},` +
		`"ignoreDifferences":[{"group":"apps","jsonPointers":["/spec/replicas"],"kind":"Deployment"}],` +
		`"info":[{"name":"<&>","value":"a \"quoted\" text"}],"project":"other","revisionHistoryLimit":9007199254740993,` +
		`"source":{"path":"guestbook","repoURL":"https://git.example.com/apps.git","targetRevision":"v1.10"}}`
	status         = `{"health":{"status":"Progressing"},"sync":{"status":"OutOfSync"}}`
	otherStatus    = `{"conditions":[{"message":"m","type":"SyncError"}],"health":{"status":"Healthy"},"resources":[{"kind":"Service","name":"ui"}],"sync":{"revision":"abc","status":"Synced"}}`
	operation      = `{"initiatedBy":{"username":"admin"},"sync":{"revision":"abc"}}`
	otherOperation = `{"sync":{"prune":true,"revision":"def"}}`
	opState        = `{"operation":{"sync":{"revision":"abc"}},"phase":"Running","startedAt":"2026-01-02T03:04:05Z"}`
	otherOpState   = `{"finishedAt":"2026-01-02T03:05:05Z","message":"done","operation":{"sync":{"revision":"abc"}},"phase":"Succeeded","startedAt":"2026-01-02T03:04:05Z"}`
	finalizer      = "resources-finalizer.argocd.argoproj.io"
)

// app returns an Application that is to be created.
func (w World) app(name string) resource.Object {
	o := resource.Object{Key: w.key(name)}
	o.Parts[resource.Spec] = spec
	return o
}

// metadata makes a Meta part of labels given as pairs.
func metadata(labels ...string) resource.Metadata {
	m := resource.Metadata{Labels: map[string]string{}}
	for i := 0; i < len(labels); i += 2 {
		m.Labels[labels[i]] = labels[i+1]
	}
	return m
}

func (w World) write(t *testing.T, o resource.Object) resource.Object {
	t.Helper()
	stored, err := w.Store.Write(t.Context(), o)
	require.NoError(t, err)
	return stored
}

// requireStored demands that stored is what want says, with what a store gives.
func requireStored(t *testing.T, want, stored resource.Object) {
	t.Helper()
	require.Equal(t, want.Key, stored.Key)
	require.Equal(t, want.Parts, stored.Parts)
	require.Equal(t, want.Origin, stored.Origin)
	require.NotEmpty(t, stored.UID)
	require.NotEmpty(t, stored.Version)
	require.NotEqual(t, want.Version, stored.Version)
}

// list returns what the store holds of the World's namespaces, by a watch of its own.
func (w World) list(t *testing.T) map[resource.Key]resource.Object {
	t.Helper()
	watch := w.watch(t, backend.Scope{})
	return watch.objects()
}

// requireHeld demands that the store holds o, and nothing else under its key.
func (w World) requireHeld(t *testing.T, o resource.Object) {
	t.Helper()
	require.Equal(t, o, w.list(t)[o.Key])
}

// writes makes Writes beside the test and returns a channel of their errors.
func (w World) writes(ctx context.Context, objects ...resource.Object) <-chan error {
	errs := make(chan error, len(objects))
	for _, o := range objects {
		go func() {
			_, err := w.Store.Write(ctx, o)
			errs <- err
		}()
	}
	return errs
}
