package deploy

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// A Secret or a ConfigMap that a manifest names is among the manifests, or one that the programs know,
// or people are told of it: then a pod starts without it.
func TestSecretsAndConfigMapsAreKnown(t *testing.T) {
	programs := texts(t, ".go", "agent", "backend", "cli", "principal", "proxy", "sync", "transport")
	docs := texts(t, ".md", "deploy")
	for name, s := range map[string]set{
		"principal":     everything(t, "principal"),
		"agent":         everything(t, "agent"),
		"nats-external": kustomized(t, filepath.Join(root, "overlays", "nats-external")),
	} {
		t.Run(name, func(t *testing.T) {
			for named, optional := range namedIn(t, s) {
				kind, object, _ := strings.Cut(named, " ")
				if s[kind+" argocd/"+object] != nil || mentions(programs, object) {
					continue
				}
				require.True(t, mentions(docs, object), "%s is known to nobody", named)
				require.True(t, optional, "%s: a pod needs it, and nothing makes it", named)
			}
		})
	}
}

// mentions reports whether a name is in a text, and no part of another there.
func mentions(text, name string) bool {
	return regexp.MustCompile(`(^|[^-a-z0-9])` + regexp.QuoteMeta(name) + `([^-a-z0-9]|$)`).MatchString(text)
}

// texts returns what is in the files below folders of the module that end so, without tests.
func texts(t *testing.T, suffix string, folders ...string) string {
	var all strings.Builder
	for _, folder := range folders {
		require.NoError(t, filepath.WalkDir(filepath.Join("..", "..", folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != suffix || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			all.Write(text)
			return err
		}))
	}
	return all.String()
}

// namedIn returns which Secrets and ConfigMaps objects name, by kind and name, and whether they may be
// missing wherever they are named.
func namedIn(t *testing.T, s set) map[string]bool {
	named := map[string]bool{}
	note := func(kind, name string, optional *bool) {
		may, before := named[kind+" "+name]
		named[kind+" "+name] = optional != nil && *optional && (may || !before)
	}
	for name, u := range s {
		switch u.GetKind() {
		case "Deployment":
			namedByPod(as[appsv1.Deployment](t, s, name).Spec.Template.Spec, note)
		case "StatefulSet":
			namedByPod(as[appsv1.StatefulSet](t, s, name).Spec.Template.Spec, note)
		case "Role", "ClusterRole":
			always := true
			for _, rule := range as[rbacv1.ClusterRole](t, s, name).Rules {
				for resource, kind := range map[string]string{"secrets": "Secret", "configmaps": "ConfigMap"} {
					if !slices.Contains(rule.Resources, resource) {
						continue
					}
					for _, object := range rule.ResourceNames {
						note(kind, object, &always)
					}
				}
			}
		}
	}
	require.NotEmpty(t, named)
	return named
}

// namedByPod notes what a pod is given.
func namedByPod(pod corev1.PodSpec, note func(kind, name string, optional *bool)) {
	for _, e := range pod.Containers[0].Env {
		if e.ValueFrom == nil {
			continue
		}
		if from := e.ValueFrom.ConfigMapKeyRef; from != nil {
			note("ConfigMap", from.Name, from.Optional)
		}
		if from := e.ValueFrom.SecretKeyRef; from != nil {
			note("Secret", from.Name, from.Optional)
		}
	}
	for _, v := range pod.Volumes {
		if v.Secret != nil {
			note("Secret", v.Secret.SecretName, v.Secret.Optional)
		}
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.Secret != nil {
				note("Secret", source.Secret.Name, source.Secret.Optional)
			}
			if source.ConfigMap != nil {
				note("ConfigMap", source.ConfigMap.Name, source.ConfigMap.Optional)
			}
		}
	}
}
