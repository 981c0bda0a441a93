package matrix

import (
	"context"
	"maps"
	"testing"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A platform is one value of the axis of backends.
type platform struct {
	name string
	// open starts what the stories share, which ends with the test.
	open func(t *testing.T) ground
}

func platforms() []platform {
	return []platform{
		{"kubernetes", openKubernetes},
		{"memory", openMemory},
		{"nats", openNATS},
	}
}

// A ground is what the stories of one backend stand on.
type ground interface {
	// port returns a port of 127.0.0.1 that is a story's own.
	port() (int, error)
	// cluster makes room for a side of a story in its backend.
	cluster(w *world, s *side) (cluster, error)
	// programs registers the agent of a story, and returns the two programs, which do not run.
	programs(w *world) (principal, agent program, err error)
}

// A cluster is where the objects of one side are, for everybody but our programs: people,
// and Argo CD's controller. What they do is unconditional.
type cluster interface {
	// objects returns everything that is there now, in the namespaces of the story.
	objects(ctx context.Context) (objects, error)
	// follow calls f for each Application that there is, and for each that changes, until ctx
	// is done.
	follow(ctx context.Context, f func(resource.Object)) error
	// edit changes the Parts of an object as f does, or makes it.
	edit(ctx context.Context, k resource.Key, f func(*resource.Object)) error
	// remove deletes an object, which stays while there is a finalizer on it.
	remove(ctx context.Context, k resource.Key) error
	// finish takes Argo CD's finalizer off an object that is being deleted.
	finish(ctx context.Context, k resource.Key) error
	// writes returns what grows with every write to the cluster, beside the objects' versions.
	writes(ctx context.Context) (string, error)
}

// objects are those of one side.
type objects map[resource.Key]resource.Object

// kinds are those that stories use.
var kinds = []resource.Kind{resource.Application, resource.Project}

// unfinished returns a Meta without Argo CD's finalizer.
func unfinished(meta string) string {
	m := resource.ParseMetadata(meta)
	m.Finalizers = nil
	return m.Text()
}

// replaced returns what becomes of keys of which before says some, when it says after.
func replaced(is, before, after map[string]string) map[string]string {
	out := maps.Clone(is)
	if out == nil {
		out = map[string]string{}
	}
	for k := range before {
		delete(out, k)
	}
	maps.Copy(out, after)
	return out
}
