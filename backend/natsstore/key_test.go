package natsstore

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// tokens is what three tokens of a subject may be made of, so that no client objects.
var tokens = regexp.MustCompile(`^[-_=a-zA-Z0-9]+\.[-_=a-zA-Z0-9]+\.[-_=a-zA-Z0-9]+$`)

func TestKeysAreTokens(t *testing.T) {
	for want, k := range map[string]resource.Key{
		"Application.argocd.guestbook":      appKey("guestbook"),
		"Application.argocd.guestbook=2Ev2": appKey("guestbook.v2"),
		"AppProject.=.a=2A=3E=20=3D":        {Kind: "AppProject", Name: "a*> ="},
		"Secret.A_b-c.=E2=98=83":            {Kind: "Secret", Namespace: "A_b-c", Name: "☃"},
	} {
		got, err := encodeKey(k)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, k := range []resource.Key{
		{}, {Kind: resource.Application}, {Name: "a"}, appKey("\xff"), appKey(strings.Repeat("a", maxKey)),
	} {
		_, err := encodeKey(k)
		require.ErrorIs(t, err, backend.ErrRefused, "%q", k)
	}
	for _, key := range []string{"", ownerKey, "a.b", "a.b.c.d", "a.b.=", "=.b.c", "a.b.=2", "a.b.=2e", "a.b.=zz", "a.b.=61", "a.b.c=", "a.b.=FF", "a..c", "a.b.c/d"} {
		_, err := decodeKey(key)
		require.Error(t, err, "%q", key)
	}
}

func TestKeysHaveOneSpelling(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.StringN(1, 40, 200)
		k := resource.Key{Kind: resource.Kind(text.Draw(r, "kind")), Namespace: rapid.StringN(0, 40, 200).Draw(r, "namespace"), Name: text.Draw(r, "name")}
		key, err := encodeKey(k)
		if err != nil {
			require.ErrorIs(r, err, backend.ErrRefused)
			return
		}
		require.Regexp(r, tokens, key)
		back, err := decodeKey(key)
		require.NoError(r, err)
		require.Equal(r, k, back)
	})
}

// TestAnyNameIsKept stores names that a subject might confuse, and lists them anew.
func TestAnyNameIsKept(t *testing.T) {
	h := startHost(t)
	s, _ := h.store()
	want := map[resource.Key]resource.Object{}
	for _, name := range []string{"a", "A", "a.b", "a..b", ".", "a.", "*", ">", "a.>", "a b", " ", "a\tb\r\n", "a/b", "=", "==", "=2E", "a=2Eb", "$KV", "ä", "☃", strings.Repeat("n", 253)} {
		for _, namespace := range []string{"", "x", name} {
			o := app("", `"1"`)
			o.Key = resource.Key{Kind: "Kind.of/any", Namespace: namespace, Name: name}
			if _, there := want[o.Key]; !there {
				want[o.Key] = write(t, s, o)
			}
		}
	}
	other, _ := h.store()
	require.Equal(t, want, h.follow(other).list())
}
