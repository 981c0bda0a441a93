package deploy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
)

// patience is how long servers may take to find each other, and the principal to be ready.
const patience = 2 * time.Minute

// A place is what is other of a NATS server here than of its pod: ports of the loopback interface, and
// where its files are.
type place struct {
	client, leaf, route, monitor int
	dir                          string
}

// startServers starts what the pods of the NATS servers would, with the files that these have, and
// returns where the principal finds them.
func startServers(t *testing.T, s *stack.Stack, pod corev1.PodSpec, files map[string]string) (urls []string) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	program, err := stack.NATSServer(ctx, t.Output())
	require.NoError(t, err)
	var places []place
	for range 3 {
		p := place{dir: t.TempDir()}
		for _, port := range []*int{&p.client, &p.leaf, &p.route, &p.monitor} {
			*port, err = s.Port()
			require.NoError(t, err)
		}
		places = append(places, p)
	}
	started := make(chan error, len(places))
	for i, p := range places {
		write(t, p.dir, files, p.differences(places))
		require.Equal(t, []string{"nats-server"}, pod.Containers[0].Command)
		server := s.Process(stack.ProcessConfig{
			Name: fmt.Sprint("nats-", i), Path: program, Args: replaced(pod.Containers[0].Args, "/etc/nats", p.dir),
			Env:   []string{fmt.Sprint("POD_NAME=argocd-agent-nats-", i)},
			Ready: stack.Answers(nil, fmt.Sprintf("http://127.0.0.1:%d/healthz", p.monitor)),
		})
		go func() { started <- server.Start(ctx) }()
		urls = append(urls, fmt.Sprint("tls://127.0.0.1:", p.client))
	}
	for range places {
		require.NoError(t, <-started)
	}
	return urls
}

// differences returns what is to be said in the files of a server in place of what its pod has: pairs,
// each of which is there.
func (p place) differences(all []place) []string {
	out := []string{
		"/etc/nats/", p.dir + "/", `"/data"`, fmt.Sprintf("%q", filepath.Join(p.dir, "data")), "/run/nats/", p.dir + "/",
		"0.0.0.0:4222", fmt.Sprint("127.0.0.1:", p.client), "0.0.0.0:7422", fmt.Sprint("127.0.0.1:", p.leaf),
		"0.0.0.0:6222", fmt.Sprint("127.0.0.1:", p.route), "127.0.0.1:8222", fmt.Sprint("127.0.0.1:", p.monitor),
	}
	for i, other := range all {
		out = append(out, fmt.Sprintf("argocd-agent-nats-%d.argocd-agent-nats:6222", i), fmt.Sprint("127.0.0.1:", other.route))
	}
	return out
}

// write writes files to a folder, with differences.
func write(t *testing.T, dir string, files map[string]string, differences []string) {
	all := ""
	for _, text := range files {
		all += text
	}
	for i := 0; i < len(differences); i += 2 {
		require.Contains(t, all, differences[i])
	}
	other := strings.NewReplacer(differences...)
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(other.Replace(text)), 0o600))
	}
}

// replaced returns words in which something is something else.
func replaced(words []string, old, new string) (out []string) {
	for _, word := range words {
		out = append(out, strings.ReplaceAll(word, old, new))
	}
	return out
}

// startPrincipal starts what the principal's pod would, with its account's rights, its settings but for
// those given, and the files of the Secret in own; it waits until the principal is ready.
func startPrincipal(t *testing.T, s *stack.Stack, hub *stack.Cluster, binary string, pod corev1.PodSpec, own, settings map[string]string) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	kubeconfig, err := hub.ServiceAccountKubeconfig(ctx, argocd, pod.ServiceAccountName)
	require.NoError(t, err)
	health, err := s.Port()
	require.NoError(t, err)
	dir := t.TempDir()
	write(t, dir, own, nil)
	params := read[corev1.ConfigMap](t, hub, "v1/configmaps", "argocd-agent-params").Data
	for key, value := range settings {
		require.Contains(t, params, key)
		params[key] = value
	}
	env := []string{"TMPDIR=" + dir}
	for _, e := range pod.Containers[0].Env {
		switch {
		case e.ValueFrom == nil:
			env = append(env, e.Name+"="+strings.ReplaceAll(e.Value, "/app/config/nats", dir))
		case e.ValueFrom.ConfigMapKeyRef != nil:
			if value, is := params[e.ValueFrom.ConfigMapKeyRef.Key]; is {
				env = append(env, e.Name+"="+value)
			}
		}
	}
	p := s.Process(stack.ProcessConfig{
		Name: "principal", Path: binary, Env: env,
		Args:  append(pod.Containers[0].Args, "--kubeconfig", kubeconfig, "--state-dir", filepath.Join(dir, "state"), "--healthz-port", fmt.Sprint(health)),
		Ready: stack.Answers(nil, fmt.Sprintf("http://127.0.0.1:%d/readyz", health)),
	})
	require.NoError(t, p.Start(ctx))
	require.NoError(t, p.Stop(ctx))
	require.NoError(t, p.Wait(ctx), "it ends well")
}
