package identity_test

import (
	"context"

	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// keptOf is where a Bundle is kept.
func keptOf(b identity.Bundle) identity.Kept {
	return identity.Kept{
		CA:   func(context.Context) (identity.Text, error) { return b.CA, nil },
		Pair: func(context.Context) (cert, key identity.Text, err error) { return b.Cert, b.Key, nil },
	}
}
