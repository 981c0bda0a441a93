package packetlink

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// status is the status of an Application of n resources.
func status(n int, health string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"group":"apps","version":"v1","kind":"Deployment","namespace":"shop","name":"service-%d","status":"Synced","health":{"status":"Healthy"}},`, i)
	}
	return `{"resources":[` + b.String() + `{"kind":"Service","name":"last"}],"health":{"status":"` + health + `"}}`
}

func TestAChangeIsShort(t *testing.T) {
	before := []byte(status(20, "Progressing"))
	for _, after := range []string{status(20, "Healthy"), status(21, "Progressing"), status(19, "Progressing"), "", "another", string(before)} {
		delta := appendDelta(nil, before, []byte(after))
		require.Less(t, len(delta), 256)
		got, err := applyDelta(before, delta, len(after))
		require.NoError(t, err)
		require.Equal(t, after, string(got))
		if after != "" {
			_, err = applyDelta(before, delta, len(after)-1)
			require.ErrorIs(t, err, errDelta)
		}
		for n := range delta {
			_, err := applyDelta(before, delta[:n], len(after))
			require.ErrorIs(t, err, errDelta, "it is cut off at %d", n)
		}
	}
}

func FuzzDelta(f *testing.F) {
	f.Add([]byte(status(2, "a")), []byte(status(3, "b")), []byte("\x05\x0bab"))
	f.Add([]byte(""), []byte("x"), []byte("\x02\x05\x00"))
	f.Fuzz(func(t *testing.T, base, text, delta []byte) {
		got, err := applyDelta(base, appendDelta(nil, base, text), len(text))
		require.NoError(t, err)
		require.Equal(t, string(text), string(got))
		if got, err := applyDelta(base, delta, 1000); err == nil {
			require.LessOrEqual(t, len(got), 1000)
		}
	})
}

func TestBasesAreTheLast(t *testing.T) {
	var s bases
	half := make([]byte, maxBases/4)
	for i := range 5 {
		s.put(fmt.Sprint(i), half)
	}
	require.Nil(t, s.get("0"))
	require.NotNil(t, s.get("1"))
	s.put("1", half[1:])
	s.put("5", half)
	require.NotNil(t, s.get("1"), "it was used")
	require.Nil(t, s.get("2"))
	s.put("1", make([]byte, maxBases/4+1))
	require.Nil(t, s.get("1"), "it is too large")
	require.Equal(t, 3*len(half), s.bytes)
	require.Len(t, s.records, 3)
}
