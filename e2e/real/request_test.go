package real

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/argocd-fabric/argocd-agent/cli/failpoint"
	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

var requestDeaths = flag.Int("request-deaths", 5, "how often the principal dies between learning of an operation and making it known")

// TestRequests plays what the users of the hub's real argocd-server and argocd CLI ask of
// spokes on which Argo CD runs: of a managed one and of an autonomous one.
// They are there over gRPC.
func TestRequests(t *testing.T) {
	inTurn(t, 9)
	w := newWorldBy(t, map[string][]string{"": {grpc}, "edge-1": {grpc}, "edge-2": {grpc}}, []string{"edge-2"},
		stack.ClusterConfig{Name: "hub", Controllers: true, Etcd: true, Server: true, RedisProxy: true, ApplicationNamespaces: []string{"edge-*"}},
		stack.ClusterConfig{Name: "spoke-1", ArgoCD: true},
		stack.ClusterConfig{Name: "spoke-2", ArgoCD: true},
	)
	for _, name := range []string{"edge-1", "edge-2"} {
		a := w.agent(t, name)
		for _, s := range []struct {
			name string
			ship string
			play func(*testing.T, *world, *agent, *ship)
		}{
			{"SyncReturnsWhenItHasFinished", "waits", syncWaits},
			{"TerminateWhileItRuns", "ended", terminateRunning},
			{"TerminateBeforeItIsTaken", "withdrawn", terminatePending},
			{"RefreshBringsWhatIsNew", "fresh", refreshes},
			{"RefreshWhileTheAgentIsAway", "stale", refreshAway},
			{"ASyncOfTheSpokesOwn", "own", localSync},
			{"AnOldOperationIsNotRun", "old", expired},
			{"TestScenario06_AnOperationAskedForWhileApart", "apart", syncApart},
			{"ThePrincipalDiesBeforeItIsKnown", "deaths", deaths},
		} {
			t.Run(name+"/"+s.name, func(t *testing.T) {
				t.Cleanup(w.heal)
				s.play(t, w, a, w.newShip(t, a, s.ship))
				w.settled(t, a)
			})
		}
	}
	for _, name := range []string{"edge-1", "edge-2"} {
		a := w.agent(t, name)
		t.Run("Live/"+name, func(t *testing.T) { lives(t, w.look(t, a, a.hub, a.spoke, "live")) })
	}
	t.Run("ClustersAreShownAsTheyAre", func(t *testing.T) { clustersShown(t, w) })
	w.audited(t, false)
	w.end(t)
}

// settled waits until our program finds no difference between the two sides of a.
func (w *world) settled(t *testing.T, a *agent) {
	t.Helper()
	within(t, time.Minute, func(ctx context.Context) error {
		_, err := w.tryToAsk(ctx, "verify", "--agent", a.name)
		return err
	})
}

// A ship is an Application with a hook before each sync, which waits until it is let go.
type ship struct {
	a    *agent
	name string
	repo *stack.GitRepo
}

// hook is a Job whose Pod finds no node before its ship is let go.
const hook = `apiVersion: batch/v1
kind: Job
metadata:
  generateName: wait-
  annotations: {argocd.argoproj.io/hook: PreSync, argocd.argoproj.io/hook-delete-policy: HookSucceeded}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      nodeSelector: {ship-%s: go}
      containers: [{name: wait, image: "example/wait:1"}]
`

// shown checks that the hub's argocd-server shows the ship, which it does not before it knows
// its project.
func (s *ship) shown(ctx context.Context) error {
	result, err := s.try(ctx, "app", "get")
	if err == nil && result.Code != 0 {
		err = fmt.Errorf("exit code %d: %s", result.Code, result.Stderr)
	}
	return err
}

// newShip creates an Application of a, which is not synced by itself, and waits until it is
// known on both sides.
func (w *world) newShip(t *testing.T, a *agent, name string) *ship {
	s := &ship{a: a, name: name, repo: w.repo(t, a.name+"-"+name)}
	_, err := s.repo.Commit(t.Context(), map[string]string{stack.AppPath + "/hook.yaml": fmt.Sprintf(hook, name)})
	require.NoError(t, err)
	desired := spec(a.name, s.repo.URL(), name)
	delete(desired["syncPolicy"].(fields), "automated")
	owner := a.hub
	if w.autonomous[a.name] {
		owner = a.spoke
		desired["destination"] = fields{"server": "https://kubernetes.default.svc", "namespace": name}
	}
	owner.create(t, application(name, desired))
	within(t, time.Minute, a.hub.is(name, has("OutOfSync", "status", "sync", "status")))
	within(t, time.Minute, s.shown) // its project may come later than it
	return s
}

// letGo lets the hooks of the ship begin and end; hold has those to come wait again.
func (s *ship) letGo(t *testing.T) { s.label(t, "go") }
func (s *ship) hold(t *testing.T)  { s.label(t, nil) }

func (s *ship) label(t *testing.T, value any) {
	t.Helper()
	nodes := s.a.spoke.Dynamic().Resource(schema.GroupVersionResource{Version: "v1", Resource: "nodes"})
	patch, err := json.Marshal(fields{"metadata": fields{"labels": fields{"ship-" + s.name: value}}})
	require.NoError(t, err)
	list, err := nodes.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, node := range list.Items {
		_, err := nodes.Patch(t.Context(), node.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
		require.NoError(t, err)
	}
}

// argocd runs the CLI on the hub's argocd-server, about the ship, and expects it to succeed.
func (s *ship) argocd(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	result, err := s.try(ctx, args...)
	require.NoError(t, err, "%s%s", result.Stdout, result.Stderr)
	require.Zero(t, result.Code, "%s%s", result.Stdout, result.Stderr)
	return result.Stdout
}

// try is argocd, whatever comes of it. What is "app" and a verb is about the ship.
func (s *ship) try(ctx context.Context, args ...string) (stack.CLIResult, error) {
	return s.a.hub.ArgoCD(ctx, slices.Insert(slices.Clone(args), 2, s.a.name+"/"+s.name)...)
}

// begin has the CLI sync and wait, and returns how that ends.
func (s *ship) begin(t *testing.T) (ended chan error) {
	ended = make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	go func() {
		result, err := s.try(ctx, "app", "sync")
		if err == nil && result.Code != 0 {
			err = fmt.Errorf("exit code %d: %s%s", result.Code, result.Stdout, result.Stderr)
		}
		ended <- err
	}()
	return ended
}

// on returns a check of the ship on both sides.
func (s *ship) on(checks ...func(*unstructured.Unstructured) error) func(context.Context) error {
	return all(s.a.hub.is(s.name, checks...), s.a.spoke.is(s.name, checks...))
}

// hookWaits checks that the operation has come to the hook.
func hookWaits(app *unstructured.Unstructured) error {
	message, _ := at(app, "status", "operationState", "message").(string)
	if !strings.Contains(message, "waiting for completion of hook batch/Job/wait-") {
		return fmt.Errorf("the operation says %q", message)
	}
	return nil
}

func phase(p string) func(*unstructured.Unstructured) error {
	return has(p, "status", "operationState", "phase")
}

// asked checks that something is asked for.
func asked(app *unstructured.Unstructured) error {
	if at(app, "operation") == nil {
		return errors.New("nothing is asked for")
	}
	return nil
}

// synced returns a check that n syncs have ended well, and nothing is asked for.
func synced(n int) func(*unstructured.Unstructured) error {
	return func(app *unstructured.Unstructured) error {
		history, _ := at(app, "status", "history").([]any)
		return equal([]any{n, nil}, []any{len(history), at(app, "operation")})
	}
}

// failedWith returns a check that the last operation has failed, for a reason.
func failedWith(reason string) func(*unstructured.Unstructured) error {
	return func(app *unstructured.Unstructured) error {
		message, _ := at(app, "status", "operationState", "message").(string)
		if !strings.Contains(message, reason) {
			return fmt.Errorf("the operation says %q", message)
		}
		return equal([]any{"Failed", nil}, []any{at(app, "status", "operationState", "phase"), at(app, "operation")})
	}
}

// syncWaits: argocd app sync returns when this operation has ended on the spoke, and not
// before; another one is refused meanwhile.
func syncWaits(t *testing.T, _ *world, _ *agent, s *ship) {
	for n := 1; n <= 2; n++ { // the second time there is a finished operation to be taken for it
		s.hold(t)
		ended := s.begin(t)
		within(t, time.Minute, s.on(asked, phase("Running"), hookWaits))
		second, err := s.try(t.Context(), "app", "sync", "--async")
		require.NoError(t, err)
		require.NotZero(t, second.Code)
		require.Contains(t, second.Stderr, "another operation is already in progress")
		select {
		case err := <-ended:
			require.FailNow(t, "it has returned", "%v", err)
		case <-time.After(2 * time.Second):
		}
		s.letGo(t)
		require.NoError(t, <-ended)
		require.NoError(t, s.on(phase("Succeeded"), synced(n))(t.Context()), "on both sides when it returns")
	}
}

// terminateRunning: argocd app terminate-op ends what runs on the spoke.
func terminateRunning(t *testing.T, _ *world, _ *agent, s *ship) {
	s.argocd(t, "app", "sync", "--async")
	within(t, time.Minute, s.on(asked, phase("Running"), hookWaits))
	s.argocd(t, "app", "terminate-op")
	within(t, time.Minute, s.on(failedWith("Operation terminated"), synced(0)))
	s.letGo(t)
	s.argocd(t, "app", "sync")
	require.NoError(t, s.on(phase("Succeeded"), synced(1))(t.Context()))
}

// terminatePending: what no agent has taken ends at once, and is never run.
func terminatePending(t *testing.T, _ *world, a *agent, s *ship) {
	s.letGo(t)
	a.stop(t)
	ended := s.begin(t)
	within(t, patience, a.hub.is(s.name, asked, has("waiting for agent "+a.name, "status", "operationState", "message")))
	s.argocd(t, "app", "terminate-op")
	took := within(t, patience, a.hub.is(s.name, failedWith("nothing was run")))
	t.Logf("withdrawn after %.2f s", took.Seconds())
	require.NoError(t, a.Start(t.Context()))
	require.ErrorContains(t, <-ended, "exit code 1", "whoever has asked for it learns that it has failed")
	within(t, time.Minute, s.on(failedWith("nothing was run"), synced(0)))
	time.Sleep(5 * time.Second) // in which it would be run
	require.NoError(t, s.on(failedWith("nothing was run"), synced(0))(t.Context()))
	s.argocd(t, "app", "sync")
	require.NoError(t, s.on(phase("Succeeded"), synced(1))(t.Context()))
}

// refreshes: argocd app get --refresh returns with what is new in Git.
func refreshes(t *testing.T, _ *world, a *agent, s *ship) {
	for i, how := range []string{"--refresh", "--hard-refresh"} {
		before := at(a.hub.get(t, s.name), "status", "reconciledAt")
		time.Sleep(time.Second) // the times are of whole seconds
		revision, err := s.repo.Commit(t.Context(), map[string]string{stack.AppPath + "/new.yaml": fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: new-%d}\n", i)})
		require.NoError(t, err)
		start := time.Now()
		s.argocd(t, "app", "get", how)
		t.Logf("%s took %.2f s", how, time.Since(start).Seconds())
		app := a.hub.get(t, s.name)
		require.Equal(t, revision, at(app, "status", "sync", "revision"), how)
		require.NotEqual(t, before, at(app, "status", "reconciledAt"))
		require.NotContains(t, app.GetAnnotations(), "argocd.argoproj.io/refresh")
		require.NotContains(t, a.spoke.get(t, s.name).GetAnnotations(), "argocd.argoproj.io/refresh")
	}
}

// refreshAway: nobody waits for an agent that is away; what was asked for is done when it
// is back.
func refreshAway(t *testing.T, _ *world, a *agent, s *ship) {
	a.stop(t)
	start := time.Now()
	s.argocd(t, "app", "get", "--refresh")
	t.Logf("returned after %.2f s", time.Since(start).Seconds())
	require.NoError(t, a.hub.is(s.name, pending("the refresh waits"))(t.Context()))
	revision, err := s.repo.Commit(t.Context(), map[string]string{stack.AppPath + "/new.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: new}\n"})
	require.NoError(t, err)
	start = time.Now()
	s.argocd(t, "app", "get", "--hard-refresh")
	require.Less(t, time.Since(start), patience)
	require.NoError(t, a.Start(t.Context()))
	within(t, time.Minute, s.on(has(revision, "status", "sync", "revision")))
	within(t, patience, a.hub.is(s.name, pending("")))
}

// pending returns a check of what the hub says of the agent's being away.
func pending(text string) func(*unstructured.Unstructured) error {
	return func(app *unstructured.Unstructured) error {
		conditions, _ := at(app, "status", "conditions").([]any)
		said := ""
		for _, c := range conditions {
			if c, _ := c.(fields); c["type"] == "AgentPending" {
				said, _ = c["message"].(string)
			}
		}
		if text == "" && said != "" || !strings.Contains(said, text) {
			return fmt.Errorf("it says %q", said)
		}
		return nil
	}
}

// localSync: a sync that the spoke's own user asks for is seen on the hub; one that is asked
// for there waits for it, and then runs.
func localSync(t *testing.T, _ *world, a *agent, s *ship) {
	a.spoke.patch(t, s.name, fields{"operation": fields{
		"initiatedBy": fields{"username": "local"},
		"sync":        fields{"revision": "main", "syncOptions": []any{"CreateNamespace=true"}},
	}})
	within(t, time.Minute, all(a.spoke.is(s.name, asked, hookWaits), a.hub.is(s.name, phase("Running"), hookWaits)))
	s.argocd(t, "app", "sync", "--async")
	within(t, patience, a.hub.is(s.name, asked, has("waiting for agent "+a.name, "status", "operationState", "message")))
	require.NoError(t, a.spoke.is(s.name, has("local", "operation", "initiatedBy", "username"))(t.Context()))
	s.letGo(t)
	within(t, time.Minute, s.on(phase("Succeeded"), synced(2)))
}

// expired: an operation that is too old when the agent learns of it ends as failed.
func expired(t *testing.T, w *world, a *agent, s *ship) {
	s.letGo(t)
	a.stop(t)
	s.argocd(t, "app", "sync", "--async")
	within(t, patience, a.hub.is(s.name, asked, phase("Running")))
	time.Sleep(2 * time.Second)
	c := a.Config()
	c.Name += "-hasty"
	c.Args = append(slices.Clone(c.Args), "--operation-expiry", "1s")
	hasty := w.stack.Process(c)
	require.NoError(t, hasty.Start(t.Context()))
	within(t, time.Minute, s.on(failedWith("more than 1s ago"), synced(0)))
	require.NoError(t, hasty.Stop(t.Context()))
	require.NoError(t, a.Start(t.Context()))
	s.argocd(t, "app", "sync")
	require.NoError(t, s.on(phase("Succeeded"), synced(1))(t.Context()))
}

// syncApart: asked for while the link is cut, a sync runs once when it is healed, on the
// revision that was asked for, whatever else was edited meanwhile and whoever comes again.
func syncApart(t *testing.T, w *world, a *agent, s *ship) {
	s.letGo(t)
	first, err := s.repo.Commit(t.Context(), map[string]string{stack.AppPath + "/new.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: new}\n"})
	require.NoError(t, err)
	_, err = s.repo.Commit(t.Context(), map[string]string{stack.AppPath + "/newer.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: newer}\n"})
	require.NoError(t, err)
	a.line.Set(netfault.Cut)
	s.argocd(t, "app", "sync", "--async", "--revision", first)
	owner := a.hub
	if w.autonomous[a.name] {
		owner = a.spoke
	}
	for i := range 5 {
		owner.patch(t, s.name, fields{"spec": fields{"info": []any{fields{"name": "edit", "value": fmt.Sprint(i)}}}})
	}
	require.NoError(t, a.hub.is(s.name, asked)(t.Context()))
	a.line.Set(netfault.Healthy)
	within(t, time.Minute, s.on(phase("Succeeded"), synced(1), has(first, "status", "operationState", "syncResult", "revision")))
	a.line.Set(netfault.Cut)
	time.Sleep(time.Second)
	a.line.Set(netfault.Healthy)
	a.stop(t)
	require.NoError(t, a.Start(t.Context()))
	w.settled(t, a)
	time.Sleep(3 * time.Second) // in which it would run again
	require.NoError(t, s.on(phase("Succeeded"), synced(1))(t.Context()))
}

// deaths: the principal dies again and again between writing down that it knows of an
// operation and making it known. It runs once.
func deaths(t *testing.T, w *world, a *agent, s *ship) {
	if !w.mortals {
		w.buildFailpoints(t)
		w.mortals = true
	}
	s.letGo(t)
	w.settled(t, a) // what is on its way would be a change, too
	w.principal.stop(t)
	for i := range *requestDeaths {
		mortal := w.mortal(w.principal, string(failpoint.BeforeSend)+":1")
		_ = mortal.Start(t.Context()) // an error is that it has died before it was ready
		if i == 0 {
			require.True(t, mortal.Running(), "there is nothing to be sent yet")
			s.argocd(t, "app", "sync", "--async")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		require.Error(t, mortal.Wait(ctx), "it dies")
		require.NoError(t, ctx.Err())
		cancel()
		require.NoError(t, a.spoke.is(s.name, synced(0))(t.Context()))
	}
	require.NoError(t, w.principal.Start(t.Context()))
	within(t, time.Minute, s.on(phase("Succeeded"), synced(1)))
	time.Sleep(3 * time.Second) // in which it would run again
	require.NoError(t, s.on(phase("Succeeded"), synced(1))(t.Context()))
}
