package stack_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
)

func TestPollReturnsOnceTheCheckPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, calls := time.Now(), 0
		err := stack.Poll(t.Context(), time.Second, func(context.Context) error {
			if calls++; calls < 3 {
				return errors.New("not yet")
			}
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, time.Since(start))
	})
}

func TestPollNamesTheLastError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		last := errors.New("not yet")
		err := stack.Poll(ctx, time.Second, func(context.Context) error { return last })
		require.ErrorIs(t, err, last)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
