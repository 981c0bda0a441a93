package redis_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/argocd-fabric/argocd-agent/proxy/redis/redistest"
)

// The servers of all tests: the hub's, and those of two agents, whose passwords are their names.
var servers = map[string]*redistest.Server{"": nil, "edge-1": nil, "edge-2": nil}

func TestMain(m *testing.M) {
	stop := func() {
		for _, s := range servers {
			if s != nil {
				s.Stop()
			}
		}
	}
	for name := range servers {
		s, err := redistest.Start(name)
		if err != nil {
			stop()
			panic(err)
		}
		servers[name] = s
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) { stop(); os.Exit(code) }))
}
