package redis

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// byNamespace is what a hub with agents edge-1 and edge-2 says under namespace mapping.
func byNamespace(namespace, _ string) (agent, there string, ok bool) {
	return namespace, "", namespace == "edge-1" || namespace == "edge-2"
}

// byDestination is what it says under destination mapping, where edge-2 is autonomous: what is
// called web goes to edge-1, in whatever namespace.
func byDestination(namespace, name string) (agent, there string, ok bool) {
	if namespace == "edge-2" {
		return "edge-2", "", true
	}
	return "edge-1", namespace, name == "web"
}

func TestKeysAreRouted(t *testing.T) {
	for _, c := range []struct{ key, namespace, destination string }{
		{"app|resources-tree|edge-1_web|1.8.3.gz", "edge-1 app|resources-tree|web|1.8.3.gz", "edge-1 app|resources-tree|edge-1_web|1.8.3.gz"},
		{"app|resources-tree|edge-1_web|2|1.8.3.gz", "edge-1 app|resources-tree|web|2|1.8.3.gz", "edge-1 app|resources-tree|edge-1_web|2|1.8.3.gz"},
		{"app|managed-resources|edge-1_web|1.8.3", "edge-1 app|managed-resources|web|1.8.3", "edge-1 app|managed-resources|edge-1_web|1.8.3"},
		{"app|resources-tree|edge-2_a.b-c|1.8.3", "edge-2 app|resources-tree|a.b-c|1.8.3", "edge-2 app|resources-tree|a.b-c|1.8.3"},
		{"app|resources-tree|web|1.8.3.gz", "", "edge-1 app|resources-tree|web|1.8.3.gz"},
		{"app|managed-resources|team_web|1.8.3.gz", "", "edge-1 app|managed-resources|team_web|1.8.3.gz"},
		{"app|resources-tree|team_db|1.8.3.gz", "", ""},
		{"app|managed-resources|edge-1_web|2|1.8.3", "", ""},
		{"app|resources-tree|edge-1_web|x|1.8.3", "", ""},
		{"app|resources-tree|edge-1_web|1|2|1.8.3", "", ""},
		{"app|resources-tree|edge-1_web|", "", ""},
		{"app|resources-tree|edge-1_web", "", ""},
		{"app|resources-tree|edge-1_|1.8.3", "", ""},
		{"app|resources-tree|_web|1.8.3", "", ""},
		{"app|resources-tree|edge-1_we_b|1.8.3", "", ""},
		{"app|resources-tree||1.8.3", "", ""},
		{"app|secrets|edge-1_web|1.8.3", "", ""},
		{"cluster|info|https://x?agentName=edge-1|1.8.3.gz", "", ""},
		{"mfst|annotation|web|abc|team|17|1.8.3.gz", "", ""},
		{"new-revoked-token", "", ""},
		{"", "", ""},
	} {
		t.Run(c.key, func(t *testing.T) {
			for want, owner := range map[*string]Owner{&c.namespace: byNamespace, &c.destination: byDestination} {
				got := ""
				if agent, there, ok := owner.route(c.key); ok {
					got = agent + " " + there.String()
				}
				require.Equal(t, *want, got)
			}
		})
	}
}

func TestChannelsAreThoseOfManagedResources(t *testing.T) {
	for text, want := range map[string]bool{
		"app|managed-resources|web|1.8.3":    true,
		"app|managed-resources|web|1.8.3.gz": false,
		"app|resources-tree|web|1.8.3":       false,
	} {
		k, ok := ParseKey(text)
		require.True(t, ok)
		require.Equal(t, want, k.channel(), text)
	}
}

// Whatever a key says, it says the same again, and names one Application that Kubernetes could
// have.
func FuzzParseKey(f *testing.F) {
	for _, text := range []string{"app|resources-tree|edge-1_web|2|1.8.3.gz", "app|managed-resources|web|1.8.3", "app|resources-tree|a_b_c|1", "app|"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		k, ok := ParseKey(text)
		if !ok {
			return
		}
		require.Equal(t, text, k.String())
		require.NotEmpty(t, k.Name)
		require.NotContains(t, k.Namespace+k.Name, "_")
		require.NotContains(t, k.Namespace+k.Name, "|")
	})
}
