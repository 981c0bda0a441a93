package resource

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSumIsOfTheWhole compares with what is said of it, for texts of all lengths around those of
// its pieces.
func TestSumIsOfTheWhole(t *testing.T) {
	for n := range 1600 {
		texts := []string{strings.Repeat("x", n), "", strings.Repeat("y", n%700)}
		var all []byte
		for _, text := range texts {
			all = append(binary.BigEndian.AppendUint64(all, uint64(len(text))), text...)
		}
		whole := sha256.Sum256(all)
		require.Equal(t, Digest(hex.EncodeToString(whole[:16])), Sum(texts...), n)
	}
}

func BenchmarkSum(b *testing.B) {
	texts := []string{"Application", "a-namespace", "a-name", strings.Repeat("x", 1024), strings.Repeat("y", 1024), "", ""}
	b.ReportAllocs()
	for b.Loop() {
		Sum(texts...)
	}
}
