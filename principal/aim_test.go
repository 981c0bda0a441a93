package principal

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// specs are canonical.
var specs = []string{
	``, `{}`, `null`, `[]`, `"text"`, `7`,
	`{"destination":{"name":"edge-1","namespace":"guestbook"},"project":"default"}`,
	`{"destination":{"namespace":"guestbook","server":"https://other"},"project":"default"}`,
	`{"destination":{"name":"a","nested":{"destination":{"name":"x"}},"server":"b"}}`,
	`{"destination":{}}`, `{"destination":null}`, `{"destination":"odd"}`, `{"destination":[{"name":"a"}],"x":1}`,
	`{"a":{"destination":{"name":"inner"}},"b":["destination",{"destination":1}],"destination":{"name":"outer"},"e":true}`,
	`{"a":"\"destination\":{","b":"\\","c":"}","destination":{"name":"o\"},{"},"z":-1.5e3}`,
	`{"project":"default"}`, `{"destination2":{"name":"n"},"zdestination":{"name":"n"}}`,
	`{"":1,"destination":{"name":"<&>"}}`,
}

func TestAimedIsWhatAimAtMakesOfTheWhole(t *testing.T) {
	for _, spec := range specs {
		require.Equal(t, changed(spec, aimAt("server", localServer)), aimed(spec, "server", localServer), spec)
		require.Equal(t, changed(spec, aimAt("name", "n")), aimed(spec, "name", "n"), spec)
	}
	for _, odd := range []string{`{`, `{"destination"`, `{"destination":`, `{"destination":{"name":"a"`, `{"a","destination":{}}`, `{"destination":{x}}`} {
		require.Equal(t, odd, aimed(odd, "name", "n"))
	}
}

// FuzzAimed holds for every text that is canonical.
func FuzzAimed(f *testing.F) {
	for _, spec := range specs {
		f.Add(spec)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := resource.Decode(text)
		if err != nil {
			_ = aimed(text, "name", "n") // it returns
			return
		}
		spec := resource.Canonical(v)
		require.Equal(t, changed(spec, aimAt("name", "n")), aimed(spec, "name", "n"))
	})
}

func BenchmarkAim(b *testing.B) {
	spec := resource.Canonical(map[string]any{
		"project": "default", "destination": map[string]any{"name": "edge-1", "namespace": "guestbook"},
		"source": map[string]any{"repoURL": "https://git.example.com/apps.git", "path": "guestbook", "targetRevision": "main",
			"helm": map[string]any{"values": strings.Repeat("replicas: 3\n", 64)}},
		"syncPolicy": map[string]any{"automated": map[string]any{"prune": true, "selfHeal": true}},
	})
	for name, aim := range map[string]func() string{
		"whole": func() string { return changed(spec, aimAt("server", localServer)) },
		"piece": func() string { return aimed(spec, "server", localServer) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				aim()
			}
		})
	}
}
