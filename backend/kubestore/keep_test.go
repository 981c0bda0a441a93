package kubestore

import (
	"encoding/base64"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAKeyIsMadeOnce(t *testing.T) {
	h := startCluster(t).home(t)
	var made atomic.Int32
	fresh := func() ([]byte, error) { return fmt.Appendf(nil, "key %d", made.Add(1)), nil }
	told := make(chan string)
	const askers = 8
	for range askers {
		go func() {
			key, err := h.Keep(t.Context(), "seal", fresh)
			if err != nil {
				key = []byte(err.Error())
			}
			told <- string(key)
		}()
	}
	first := <-told
	require.Contains(t, first, "key ")
	for range askers - 1 {
		require.Equal(t, first, <-told)
	}
	secret := h.client.Resource(secrets).Namespace(h.cfg.Namespace)
	u, err := secret.Get(t.Context(), "seal", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"key.pem": base64.StdEncoding.EncodeToString([]byte(first))}, u.Object["data"])
	require.Equal(t, true, u.Object["immutable"])

	require.NoError(t, secret.Delete(t.Context(), "seal", metav1.DeleteOptions{}))
	second, err := h.Keep(t.Context(), "seal", fresh)
	require.NoError(t, err)
	require.NotEqual(t, first, string(second))
}

func TestAKeyThatCannotBeKept(t *testing.T) {
	h := startCluster(t).home(t)
	secret := h.client.Resource(secrets).Namespace(h.cfg.Namespace)
	foreign := h.secret("foreign", TLS{Certificate: []byte("c"), Key: []byte("k")})
	_, err := secret.Create(t.Context(), foreign, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = h.Keep(t.Context(), "foreign", func() ([]byte, error) { panic("there is one") })
	require.ErrorContains(t, err, "it lacks key.pem")
	_, err = h.Keep(t.Context(), "none", func() ([]byte, error) { return nil, errors.New("no entropy") })
	require.ErrorContains(t, err, "no entropy")
	_, err = h.Keep(t.Context(), "No Name", func() ([]byte, error) { return []byte("k"), nil })
	require.ErrorContains(t, err, "No Name")
}
