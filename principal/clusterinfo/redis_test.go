package clusterinfo_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/argocd-fabric/argocd-agent/principal/clusterinfo"
	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newRedis(t *testing.T, c clusterinfo.RedisConfig) *clusterinfo.Redis {
	r, err := clusterinfo.NewRedis(c)
	require.NoError(t, err)
	return r
}

func TestRedisHoldsWhatArgoCDReads(t *testing.T) {
	unzip := func(text string) string {
		r, err := gzip.NewReader(bytes.NewReader([]byte(text)))
		require.NoError(t, err)
		plain, err := io.ReadAll(r)
		require.NoError(t, err)
		return string(plain)
	}
	for compression, c := range map[string]struct {
		ending string
		read   func(string) string
	}{
		"":     {".gz", unzip},
		"gzip": {".gz", unzip},
		"none": {"", func(text string) string { return text }},
	} {
		t.Run(compression, func(t *testing.T) {
			server := miniredis.RunT(t)
			r := newRedis(t, clusterinfo.RedisConfig{Address: server.Addr(), Compression: compression})
			require.NoError(t, r.Apply(t.Context(), map[string][]byte{"k": []byte("one"), "l": []byte("two"), "m": nil}, nil, time.Minute))
			for key, want := range map[string]string{"k": "one", "l": "two", "m": ""} {
				got, err := server.Get(key + c.ending)
				require.NoError(t, err)
				require.Equal(t, want, c.read(got))
				require.Equal(t, time.Minute, server.TTL(key+c.ending))
			}
			require.NoError(t, r.Apply(t.Context(), nil, []string{"k", "m", "nothing"}, time.Minute))
			require.Equal(t, []string{"l" + c.ending}, server.Keys())
		})
	}
}

func TestRedisThatComesBackIsReachedAgain(t *testing.T) {
	server := miniredis.RunT(t)
	r := newRedis(t, clusterinfo.RedisConfig{Address: server.Addr()})
	apply := func() error { return r.Apply(t.Context(), map[string][]byte{"k": nil}, nil, time.Minute) }
	require.NoError(t, apply())
	address := server.Addr()
	server.Close()
	require.ErrorContains(t, apply(), "clusterinfo: write 1 and remove 0 entries in Redis at "+address)
	server.FlushAll()
	require.NoError(t, server.Restart())
	require.NoError(t, apply())
	require.True(t, server.Exists("k.gz"))
}

// A password is asked for with each connection, so that it may change.
func TestRedisPasswordMayChange(t *testing.T) {
	server := miniredis.RunT(t)
	server.RequireUserAuth("principal", "old")
	password := "old"
	r := newRedis(t, clusterinfo.RedisConfig{
		Address: server.Addr(),
		Credentials: func(context.Context) (string, string, error) {
			if password == "" {
				return "", "", errors.New("no such Secret")
			}
			return "principal", password, nil
		},
	})
	apply := func() error { return r.Apply(t.Context(), map[string][]byte{"k": nil}, nil, time.Minute) }
	require.NoError(t, apply())
	server.RequireUserAuth("principal", "new")
	require.ErrorContains(t, apply(), "WRONGPASS")
	password = "new"
	require.NoError(t, apply())
	password = ""
	require.ErrorContains(t, apply(), "no such Secret")
}

func TestRedisByTLS(t *testing.T) {
	o := pki.Options{Now: time.Now(), Lifetime: time.Hour}
	ca, err := pki.NewCA("Redis", o)
	require.NoError(t, err)
	issued, err := ca.IssueServer("redis", []string{"127.0.0.1"}, o)
	require.NoError(t, err)
	cert, err := tls.X509KeyPair(issued.Cert, issued.Key)
	require.NoError(t, err)
	server := miniredis.NewMiniRedis()
	require.NoError(t, server.StartTLS(&tls.Config{Certificates: []tls.Certificate{cert}}))
	defer server.Close()

	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(ca.Pair().Cert))
	r := newRedis(t, clusterinfo.RedisConfig{Address: server.Addr(), TLS: &tls.Config{RootCAs: roots}})
	require.NoError(t, r.Apply(t.Context(), map[string][]byte{"k": nil}, nil, time.Minute))
	require.True(t, server.Exists("k.gz"))

	stranger := newRedis(t, clusterinfo.RedisConfig{Address: server.Addr(), TLS: &tls.Config{RootCAs: x509.NewCertPool()}})
	require.ErrorContains(t, stranger.Apply(t.Context(), map[string][]byte{"l": nil}, nil, time.Minute), "certificate")
}

func TestRedisEndsWithItsContext(t *testing.T) {
	server := miniredis.RunT(t)
	r := newRedis(t, clusterinfo.RedisConfig{Address: server.Addr()})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, r.Apply(ctx, map[string][]byte{"k": nil}, nil, time.Minute), context.Canceled)
}

func TestRedisThatSaysNothingIsWaitedForNoLonger(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	ctx, cancel := context.WithCancel(t.Context())
	met := make(chan net.Conn, 1)
	go func() {
		conn, _ := silent.Accept()
		met <- conn
		cancel()
	}()
	r := newRedis(t, clusterinfo.RedisConfig{Address: silent.Addr().String(), DB: 1})
	require.ErrorIs(t, r.Apply(ctx, map[string][]byte{"k": nil}, nil, time.Minute), context.Canceled)
	require.NoError(t, (<-met).Close())
}

func TestRedisThatRefusesIsAnError(t *testing.T) {
	server := miniredis.RunT(t)
	r := newRedis(t, clusterinfo.RedisConfig{Address: server.Addr()})
	require.NoError(t, r.Apply(t.Context(), nil, nil, time.Minute), "there is nothing to say")
	server.RequireAuth("secret")
	require.ErrorContains(t, r.Apply(t.Context(), map[string][]byte{"k": nil}, []string{"l"}, time.Minute), "NOAUTH")
}

func TestRedisWritesIntoTheDatabaseThatIsMeant(t *testing.T) {
	server := miniredis.RunT(t)
	server.RequireAuth("secret")
	r := newRedis(t, clusterinfo.RedisConfig{
		Address: server.Addr(), DB: 2, Credentials: func(context.Context) (string, string, error) { return "", "secret", nil },
	})
	require.NoError(t, r.Apply(t.Context(), map[string][]byte{"k": nil}, nil, time.Minute))
	require.True(t, server.DB(2).Exists("k.gz"))
	require.Empty(t, server.DB(0).Keys())
}

func TestNewRedisRefusesWhatCannotWork(t *testing.T) {
	_, err := clusterinfo.NewRedis(clusterinfo.RedisConfig{})
	require.EqualError(t, err, "clusterinfo: no address of Redis")
	_, err = clusterinfo.NewRedis(clusterinfo.RedisConfig{Address: "redis:6379", Compression: "zstd"})
	require.EqualError(t, err, `clusterinfo: compression "zstd" is neither gzip nor none`)
}
