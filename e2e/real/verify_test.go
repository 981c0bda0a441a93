package real

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/kubestore"
	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/sync/project"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/verify"
)

// stores read the clusters as an administrator, by the cluster's name.
type stores map[string]*kubestore.Store

// newStores runs stores until the test is over.
func newStores(t *testing.T, w *world) stores {
	out := stores{}
	for _, name := range w.clusters {
		side := resource.Agent
		if name == "hub" {
			side = resource.Principal
		}
		s, err := kubestore.New(kubestore.Config{REST: w.stack.Cluster(name).RESTConfig(), Side: side, Home: "argocd", QPS: -1, Log: zap.NewNop()})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		t.Cleanup(func() {
			stop()
			require.ErrorIs(t, <-ended, context.Canceled)
		})
		out[name] = s
	}
	return out
}

// verify compares both sides of all agents that were started, and returns how many objects
// it has compared and in what they differ.
func (w *world) verify(ctx context.Context) (objects int, differences []verify.Difference, err error) {
	for _, a := range w.agents {
		p := principal.Placement{Agent: a.name, Mode: w.rules(a.name).Mode, Namespace: argocd}
		hub, err := w.stores.read(ctx, a.hub, p)
		if err != nil {
			return 0, nil, err
		}
		spoke, err := w.stores.read(ctx, a.spoke, p)
		if err != nil {
			return 0, nil, err
		}
		if p.Mode == resource.Autonomous {
			objects += len(spoke)
		} else {
			objects += len(hub)
		}
		differences = append(differences, verify.Compare(verify.Options{Mode: p.Mode, Agent: a.name}, hub, spoke)...)
	}
	return objects, differences, nil
}

// rules returns those of the link to an agent.
func (w *world) rules(agent string) resource.Rules {
	if w.autonomous[agent] {
		return resource.Rules{Mode: resource.Autonomous}
	}
	return resource.Rules{Mode: resource.Managed}
}

// read returns what an agent has at one of its places, as the other is to have it. It fails
// if the store has not seen the newest of it yet.
func (s stores) read(ctx context.Context, from place, p principal.Placement) (out []resource.Object, err error) {
	shown, err := verify.Read(ctx, s[from.Name()], backend.In(from.namespace, argocd))
	if err != nil {
		return nil, err
	}
	known := map[resource.Key]resource.Object{}
	for _, o := range shown {
		known[o.Key] = o
	}
	newest, err := belonging(ctx, from, p)
	if err != nil {
		return nil, err
	}
	for key, version := range newest {
		o := known[key]
		if o.Version != version {
			return nil, fmt.Errorf("%s on %s has changed just now", key, from.Name())
		}
		if from.Name() == "hub" {
			o.Key, _ = p.Out(key)
			o.Parts = p.Down(o.Key, o.Parts)
		} else {
			o.Key.Namespace = ""
			o.Parts = p.Up(o.Key, o.Parts)
		}
		out = append(out, o)
	}
	return out, nil
}

// belonging returns the versions of the objects that are an agent's at one of its places, as
// the API server has them.
func belonging(ctx context.Context, at place, p principal.Placement) (map[resource.Key]string, error) {
	out := map[resource.Key]string{}
	there := map[resource.Kind][]unstructured.Unstructured{}
	concerning := map[string]bool{} // projects of the hub
	for _, kind := range (resource.Rules{Mode: p.Mode}).Kinds() {
		its := at
		if kind != resource.Application {
			its = at.of(kind)
		}
		list, err := its.list(ctx)
		if err != nil {
			return nil, err
		}
		there[kind] = list
	}
	for _, u := range there[resource.Project] {
		spec, _ := u.Object["spec"].(fields)
		concerning[u.GetName()] = project.Concerns(spec, project.Agent{Name: p.Agent})
	}
	for kind, list := range there {
		for _, u := range list {
			mine := true
			switch {
			case at.Name() != "hub":
			case kind == resource.Project && p.Mode == resource.Managed:
				mine = concerning[u.GetName()]
			case kind == resource.Project:
				mine = u.GetLabels()["argocd-agent.argoproj-labs.io/agent-name"] == p.Agent
			case kind == resource.Secret:
				data, _ := u.Object["data"].(fields)
				name, _ := project.OfRepository(data)
				mine = concerning[name]
			}
			if mine {
				out[resource.Key{Kind: kind, Namespace: u.GetNamespace(), Name: u.GetName()}] = u.GetResourceVersion()
			}
		}
	}
	return out, nil
}

// inStep checks that both sides of all agents agree.
func (w *world) inStep(ctx context.Context) error {
	_, differences, err := w.verify(ctx)
	for _, d := range differences {
		err = errors.Join(err, fmt.Errorf("%s", d))
	}
	return err
}

// verified expects that both sides agree, and returns how many objects they agree on. The
// program says the same, which asks the running agents.
func (w *world) verified(t *testing.T) int {
	t.Helper()
	objects, differences, err := w.verify(t.Context())
	require.NoError(t, err)
	require.Empty(t, differences)
	told := 0
	for name := range w.agents {
		var verdicts []struct{ Objects int }
		require.NoError(t, json.Unmarshal([]byte(w.ask(t, "verify", "--agent", name, "-o", "json")), &verdicts))
		told += verdicts[0].Objects
	}
	require.Equal(t, objects, told)
	return objects
}

// ask runs argocd-agentctl, as somebody who reaches the running principal, and returns what
// it says.
func (w *world) ask(t *testing.T, args ...string) string {
	t.Helper()
	output, err := w.tryToAsk(t.Context(), args...)
	require.NoError(t, err)
	return output
}

// tryToAsk is ask, whatever comes of it.
func (w *world) tryToAsk(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(w.dir, "argocd-agentctl"), append(args, "--principal-address", w.desk())...)
	cmd.Env = []string{"TMPDIR=" + w.tmp()}
	output, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, output)
	}
	return string(output), nil
}
