package demo

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/deploy/examples"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

func TestExamplesAreApplications(t *testing.T) {
	managed, err := examples.Managed()
	require.NoError(t, err)
	autonomous, err := examples.Autonomous()
	require.NoError(t, err)
	require.NotEmpty(t, managed)
	require.NotEmpty(t, autonomous)
	for namespace, all := range map[string]map[string][]byte{"edge-1": managed, argocd: autonomous} {
		for name, text := range all {
			o, err := parse(text)
			require.NoError(t, err, name)
			require.Equal(t, resource.Key{Kind: resource.Application, Namespace: namespace, Name: name}, o.Key)
			require.NotEmpty(t, fields(o.Parts[resource.Spec])["destination"], name)
			require.NotEmpty(t, resource.ParseMetadata(o.Parts[resource.Meta]).Labels, name)
		}
	}
}

func TestParseRefusesOthers(t *testing.T) {
	for _, text := range []string{"", "7", "a: [", "{kind: Application, metadata: {name: x}}", "{kind: Service, metadata: {name: x}, spec: {}}", "{kind: Application, spec: {}}"} {
		_, err := parse([]byte(text))
		require.ErrorContains(t, err, "demo: read manifest", text)
	}
}

// Numbers, and fields that no program here knows, stay as they are written.
func TestParseKeepsWhatItDoesNotKnow(t *testing.T) {
	o, err := parse([]byte(`{kind: Application, metadata: {name: x, namespace: y, finalizers: [f]}, spec: {new: {m: 12345678901234567890, h: "<&>"}}}`))
	require.NoError(t, err)
	require.Equal(t, `{"new":{"h":"<&>","m":12345678901234567890}}`, o.Parts[resource.Spec])
	require.Equal(t, []string{"f"}, resource.ParseMetadata(o.Parts[resource.Meta]).Finalizers)
}
