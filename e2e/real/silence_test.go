package real

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
)

// A picture is what can be seen of a world from outside: the version of each object that
// travels on each cluster, and how many messages have gone into each stream of the NATS servers,
// those in which the two sides compare their tables included. Of what passes over gRPC only what
// comes of it is seen.
type picture map[string]string

// picture takes a picture of the clusters, and of the servers in our programs that run.
func (w *world) picture(ctx context.Context) (picture, error) {
	p := picture{}
	for _, name := range w.clusters {
		for kind := range kinds {
			list, err := place{w.stack.Cluster(name), metav1.NamespaceAll, kind}.list(ctx)
			if err != nil {
				return nil, err
			}
			for _, o := range list {
				p[fmt.Sprintf("%s: %s %s/%s", name, kind, o.GetNamespace(), o.GetName())] = string(o.GetUID()) + " " + o.GetResourceVersion()
			}
		}
	}
	programs := []*program{w.principal}
	for _, a := range w.agents {
		programs = append(programs, a.program)
	}
	for _, one := range programs {
		if !one.Running() {
			continue
		}
		streams, err := one.streams(ctx)
		if err != nil {
			return nil, err
		}
		for stream, last := range streams {
			p[one.Name()+": "+stream] = fmt.Sprint(last)
		}
	}
	return p, nil
}

// silent expects that the world comes to rest, and then that nothing moves for a time.
func (w *world) silent(t *testing.T, rest time.Duration) {
	t.Helper()
	const pause = 2 * time.Second
	var last picture
	look := func(ctx context.Context) error {
		now, err := w.picture(ctx)
		if err == nil && !maps.Equal(now, last) {
			err = errors.New("things still change")
		}
		last = now
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, stack.Poll(ctx, pause, look))
	time.Sleep(rest)
	now, err := w.picture(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, now)
	require.Equal(t, last, now, "nothing moves for %v", rest)
}
