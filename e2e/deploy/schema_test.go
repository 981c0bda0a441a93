package deploy

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
)

func TestSchemasRefuseWhatIsWrong(t *testing.T) {
	for _, c := range []struct{ chart, values, says string }{
		{"argocd-agent-principal", "replicas: 2", "replicas"},
		{"argocd-agent-principal", "image: {name: x}", "name"},
		{"argocd-agent-principal", "image: {tag: 1}", "string"},
		{"argocd-agent-principal", "params: {principal.nonsense: x}", "principal.nonsense"},
		{"argocd-agent-principal", "params: {principal.metrics.port: 8000}", "string"},
		{"argocd-agent-principal", `params: {principal.metrics.port: "eight"}`, "pattern"},
		{"argocd-agent-principal", `params: {principal.enable-websocket: "maybe"}`, "false"},
		{"argocd-agent-principal", "params: {principal.transport: pigeon}", "nats"},
		{"argocd-agent-principal", "params: {agent.mode: managed}", "agent.mode"},
		{"argocd-agent-principal", "service: {type: Pigeon}", "LoadBalancer"},
		{"argocd-agent-principal", "nats: {enabled: true, urls: []}", "urls"},
		{"argocd-agent-principal", "nats: {urls: [nats-0]}", "pattern"},
		{"argocd-agent-principal", "nats: {urls: 'tls://nats-0:4222'}", "array"},
		{"argocd-agent-principal", "nats: {replicas: 2}", "replicas"},
		{"argocd-agent-principal", "nats: {secretName: ''}", "pattern"},
		{"argocd-agent-principal", "nats: {secret: x}", "secret"},
		{"argocd-agent-principal", "{nats: {enabled: true}, params: {principal.nats.leaf-listen: ':7422'}}", "principal.nats.leaf-listen"}, // there is none
		{"argocd-agent-principal", "params: {principal.nats.url: 'tls://nats-0:4222'}", "principal.nats.url"},                              // it is nats.urls
		{"argocd-agent-principal", "persistence: {size: much}", "pattern"},
		{"argocd-agent-principal", "autonomous: 1", "boolean"},
		{"argocd-agent-principal", "extraEnv: [{name: A, values: x}]", "values"},
		{"argocd-agent-principal", "serviceMonitor: true", "object"},
		{"argocd-agent-agent", "mode: loose", "managed"},
		{"argocd-agent-agent", "params: {agent.mode: autonomous}", "agent.mode"}, // it is mode, which rights depend on
		{"argocd-agent-agent", "live: {all: true}", "all"},
		{"argocd-agent-agent", "{mode: autonomous, live: {write: true}}", "write"},
		{"argocd-agent-agent", "{mode: autonomous, destination: {enabled: true}}", "enabled"},
		{"argocd-agent-agent", "tolerations: {}", "array"},
		{"argocd-agent-agent", "networkPolicy: {}", "boolean"},
	} {
		_, err := template(t, c.chart, argocd, c.values)
		require.ErrorContains(t, err, "values don't meet the specifications of the schema", c.values)
		require.ErrorContains(t, err, c.says, c.values)
	}
}

// What a chart takes as a setting is what the Deployment reads, but for what the chart sets by
// itself.
func TestSchemasKnowTheSettings(t *testing.T) {
	for program, own := range map[string][]string{"principal": {"principal.namespace"}, "agent": {"agent.namespace", "agent.mode"}} {
		name := "argocd-agent-" + program
		var schema struct {
			Properties map[string]struct {
				Properties map[string]any
			}
		}
		text, err := os.ReadFile(filepath.Join(root, "helm", name, "values.schema.json"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &schema))
		var want []string
		for _, e := range as[appsv1.Deployment](t, kustomized(t, filepath.Join(root, program)), "Deployment argocd/"+name).Spec.Template.Spec.Containers[0].Env {
			if from := e.ValueFrom.ConfigMapKeyRef; from != nil && !slices.Contains(own, from.Key) {
				want = append(want, from.Key)
			}
		}
		require.ElementsMatch(t, want, slices.Collect(maps.Keys(schema.Properties["params"].Properties)))
	}
}
