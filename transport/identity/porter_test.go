package identity

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"
)

// Who comes while as many passwords are checked as may be is sent away, unless it has passed
// before.
func TestPorterSendsAwayWhomItCannotServe(t *testing.T) {
	made, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	require.NoError(t, err)
	p, north := newPorter(), Login{User: "north", Password: "secret"}
	require.NoError(t, p.check(string(made), north))
	for range maxQueue {
		p.queue <- struct{}{}
	}
	require.NoError(t, p.check(string(made), north))
	require.ErrorIs(t, p.check(string(made), Login{User: "south", Password: "secret"}), ErrBusy)
	<-p.queue
	require.NoError(t, p.check(string(made), Login{User: "south", Password: "secret"}))
	require.Len(t, p.queue, maxQueue-1, "it leaves the queue")
	require.ErrorIs(t, p.check(string(made), Login{User: "north", Password: "other"}), errLogin)
}

// It takes as long to find out that there is no such user as that the password is another.
func TestWhoIsNoUserHasAHashThatCostsAsMuch(t *testing.T) {
	for want, u := range map[int]Users{hashCost: nil, 4: {"a": "$2a$04$"}, 6: {"a": "$2a$04$", "b": "$2a$06$"}} {
		for name := range u {
			u[name] += "abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZ01234"
		}
		hash, known := u.hash("nobody")
		require.False(t, known)
		cost, err := bcrypt.Cost([]byte(hash))
		require.NoError(t, err)
		require.Equal(t, want, cost)
		require.ErrorIs(t, bcrypt.CompareHashAndPassword([]byte(hash), []byte("x")), bcrypt.ErrMismatchedHashAndPassword)
	}
}
