package deploy

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// installations are the ways to install that both kustomize and Helm have: folders of deploy/ on
// one side, values on the other.
var installations = []struct {
	name, base string
	components []string
	chart      string
	values     string
}{
	{"principal", "principal", nil, "argocd-agent-principal", ""},
	{"principal, as an overlay", "overlays/principal", nil, "argocd-agent-principal", ""},
	{
		"principal with everything", "principal",
		[]string{"principal/autonomous", "principal/self-registration", "principal/shared", "principal/persistent", "principal/metrics"},
		"argocd-agent-principal",
		"{autonomous: true, selfRegistration: true, shared: true, persistence: {enabled: true}, serviceMonitor: {enabled: true}}",
	},
	{"principal with NATS elsewhere", "principal", []string{"principal/nats"}, "argocd-agent-principal", "nats: {enabled: true}"},
	{"principal with NATS elsewhere in operator mode", "principal", []string{"principal/nats", "principal/nats/operator"}, "argocd-agent-principal", "nats: {enabled: true, operator: true}"},
	{
		"principal with NATS elsewhere and everything", "principal",
		[]string{"principal/nats", "principal/autonomous", "principal/self-registration", "principal/shared", "principal/persistent", "principal/metrics"},
		"argocd-agent-principal",
		"{nats: {enabled: true}, autonomous: true, selfRegistration: true, shared: true, persistence: {enabled: true}, serviceMonitor: {enabled: true}}",
	},
	{"managed agent", "agent", nil, "argocd-agent-agent", ""},
	{"managed agent, as an overlay", "overlays/agent-managed", nil, "argocd-agent-agent", ""},
	{
		"managed agent with everything", "agent",
		[]string{
			"agent/live", "agent/live/secrets", "agent/live/write", "agent/live/exec", "agent/destination", "agent/destination/create-namespace",
			"agent/shared", "agent/persistent", "agent/metrics",
		},
		"argocd-agent-agent",
		"{live: {enabled: true, secrets: true, write: true, exec: true}, destination: {enabled: true, createNamespace: true}, shared: true, persistence: {enabled: true}, serviceMonitor: {enabled: true}}",
	},
	{"autonomous agent", "agent", []string{"agent/autonomous"}, "argocd-agent-agent", "mode: autonomous"},
	{"autonomous agent, as an overlay", "overlays/agent-autonomous", nil, "argocd-agent-agent", "mode: autonomous"},
	{"autonomous agent to look at", "agent", []string{"agent/autonomous", "agent/live"}, "argocd-agent-agent", "{mode: autonomous, live: {enabled: true}}"},
}

func TestChartsGiveWhatKustomizeGives(t *testing.T) {
	for _, i := range installations {
		t.Run(i.name, func(t *testing.T) {
			requireSame(t, overlay(t, i.base, i.components, ""), templated(t, i.chart, argocd, i.values))
			requireSame(t, overlay(t, i.base, i.components, "namespace: gitops\n"+settings(i.chart)), templated(t, i.chart, "gitops", i.values))
		})
	}
}

// settings has a kustomization say in the settings what a chart says by itself: the namespace.
func settings(chart string) string {
	program := chart[len("argocd-agent-"):]
	return "patches:\n- patch: |\n    apiVersion: v1\n    kind: ConfigMap\n    metadata: {name: argocd-agent-params, namespace: argocd}\n    data: {" + program + ".namespace: gitops}\n"
}

// further are the components that only add rights, and so may be applied by themselves.
var further = []string{
	"principal/autonomous", "principal/self-registration", "agent/destination", "agent/destination/create-namespace",
	"agent/live", "agent/live/secrets", "agent/live/write", "agent/live/exec",
}

func TestRightsAreAddedAsTheyAreAppliedAlone(t *testing.T) {
	for _, component := range further {
		base, _, _ := strings.Cut(component, "/")
		plain, alone := kustomized(t, filepath.Join(root, base)), kustomized(t, filepath.Join(root, component))
		want := maps.Clone(plain)
		maps.Copy(want, alone)
		require.Len(t, want, len(plain)+len(alone), "%s replaces nothing", component)
		requireSame(t, want, overlay(t, base, []string{component}, ""))
	}
}

// The overlay nats-external has, beside the servers, what the chart connects to them.
func TestOverlayOfServersElsewhere(t *testing.T) {
	want := templated(t, "argocd-agent-principal", argocd, "nats: {enabled: true}")
	maps.Copy(want, kustomized(t, filepath.Join(root, "nats")))
	requireSame(t, want, kustomized(t, filepath.Join(root, "overlays", "nats-external")))
}

func TestValuesOfServersElsewhere(t *testing.T) {
	s := templated(t, "argocd-agent-principal", argocd, `
nats: {enabled: true, urls: ["tls://a:1", "tls://b:2"], replicas: 1, secretName: keys, tlsSecretName: certificates}
service: {type: LoadBalancer}
`)
	params := as[corev1.ConfigMap](t, s, "ConfigMap argocd/argocd-agent-params").Data
	require.Equal(t, "tls://a:1,tls://b:2", params["principal.nats.url"])
	require.Equal(t, "1", params["principal.nats.replicas"])
	require.NotContains(t, params, "principal.nats.leaf-listen")
	require.Equal(t, corev1.ServiceTypeLoadBalancer, as[corev1.Service](t, s, "Service argocd/argocd-agent-principal").Spec.Type)
	from := map[string]string{}
	for _, v := range as[appsv1.Deployment](t, s, "Deployment argocd/argocd-agent-principal").Spec.Template.Spec.Volumes {
		if v.Name != "nats" {
			continue
		}
		require.Nil(t, v.Secret)
		for _, source := range v.Projected.Sources {
			from[source.Secret.Name] = ""
			for _, item := range source.Secret.Items {
				require.Equal(t, item.Key, item.Path)
				from[source.Secret.Name] += item.Key + " "
			}
		}
	}
	require.Equal(t, map[string]string{"keys": "principal.nk callout.nk ", "certificates": ""}, from)
}

func TestValuesReachTheObjects(t *testing.T) {
	s := templated(t, "argocd-agent-principal", argocd, `
image: {repository: registry.example.com/argocd-agent, tag: v9, pullPolicy: Always}
imagePullSecrets: [{name: registry}]
params: {principal.log.level: debug}
extraEnv: [{name: ARGOCD_PRINCIPAL_SYNC_UNSCOPED_REPOSITORIES, value: "true"}]
persistence: {enabled: true, size: 1Gi, storageClassName: fast}
extraVolumes: [{name: spire, hostPath: {path: /run/spire}}]
extraVolumeMounts: [{name: spire, mountPath: /run/spire}]
networkPolicy: false
serviceMonitor: {enabled: true, labels: {release: prometheus}}
resources: {limits: {memory: 1Gi}}
nodeSelector: {disk: ssd}
tolerations: [{operator: Exists}]
priorityClassName: high
podAnnotations: {a: b}
podLabels: {c: d, app.kubernetes.io/name: another}
service: {type: ClusterIP, annotations: {e: f}}
`)
	template := as[appsv1.Deployment](t, s, "Deployment argocd/argocd-agent-principal").Spec.Template
	pod, container := template.Spec, template.Spec.Containers[0]
	require.Equal(t, "registry.example.com/argocd-agent:v9", container.Image)
	require.Equal(t, corev1.PullAlways, container.ImagePullPolicy)
	require.Equal(t, "registry", pod.ImagePullSecrets[0].Name)
	require.Equal(t, corev1.EnvVar{Name: "ARGOCD_PRINCIPAL_SYNC_UNSCOPED_REPOSITORIES", Value: "true"}, container.Env[len(container.Env)-1])
	require.Equal(t, "1Gi", container.Resources.Limits.Memory().String())
	require.Empty(t, container.Resources.Requests)
	require.Equal(t, "/run/spire", container.VolumeMounts[len(container.VolumeMounts)-1].MountPath)
	require.Equal(t, "/run/spire", pod.Volumes[len(pod.Volumes)-1].HostPath.Path)
	require.Equal(t, map[string]string{"disk": "ssd"}, pod.NodeSelector)
	require.Len(t, pod.Tolerations, 1)
	require.Equal(t, "high", pod.PriorityClassName)
	require.Equal(t, "b", template.Annotations["a"])
	require.Equal(t, "d", template.Labels["c"])
	require.Equal(t, "argocd-agent-principal", template.Labels["app.kubernetes.io/name"], "what Services select stays")
	require.Equal(t, "debug", as[corev1.ConfigMap](t, s, "ConfigMap argocd/argocd-agent-params").Data["principal.log.level"])
	require.NotContains(t, s, "NetworkPolicy argocd/argocd-agent-principal")
	require.Equal(t, "prometheus", s["ServiceMonitor argocd/argocd-agent-principal"].GetLabels()["release"])
	claim := as[corev1.PersistentVolumeClaim](t, s, "PersistentVolumeClaim argocd/argocd-agent-principal").Spec
	require.Equal(t, "fast 1Gi", *claim.StorageClassName+" "+claim.Resources.Requests.Storage().String())
	service := as[corev1.Service](t, s, "Service argocd/argocd-agent-principal")
	require.Equal(t, corev1.ServiceTypeClusterIP, service.Spec.Type)
	require.Equal(t, "f", service.Annotations["e"])

	s = templated(t, "argocd-agent-agent", argocd, "persistence: {enabled: true, existingClaim: mine}")
	require.NotContains(t, s, "PersistentVolumeClaim argocd/argocd-agent-agent")
	require.Equal(t, "mine", claimOf(t, as[appsv1.Deployment](t, s, "Deployment argocd/argocd-agent-agent")))
}

// claimOf returns whose volume has the store.
func claimOf(t *testing.T, d appsv1.Deployment) string {
	for _, v := range d.Spec.Template.Spec.Volumes {
		if v.Name == "messages" {
			require.Nil(t, v.EmptyDir)
			return v.PersistentVolumeClaim.ClaimName
		}
	}
	t.Fatal("there is no store")
	return ""
}
