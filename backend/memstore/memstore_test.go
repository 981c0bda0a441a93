package memstore_test

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/backend/storetest"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.World {
		s := memstore.New(memstore.Config{Admit: func(o resource.Object) error {
			if strings.Contains(o.Parts[resource.Spec], "bad") {
				return errors.New("it is bad")
			}
			return nil
		}})
		return storetest.World{
			Store:      s,
			Users:      s,
			Namespaces: [2]string{"one", "two"},
			Refuse:     func(o *resource.Object) { o.Parts[resource.Spec] = `{"bad":true}` },
		}
	})
}
