package oracle

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A carrier is a running e2e/carry.
type carrier struct {
	in  io.Writer
	out *json.Decoder
}

func newCarrier(t *testing.T) *carrier {
	path := filepath.Join(t.TempDir(), "carry")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./e2e/carry")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=") // as our tests build it
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))

	cmd := exec.Command(path) // it ends with its input
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var said bytes.Buffer
	cmd.Stderr = &said
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, in.Close())
		require.NoError(t, cmd.Wait(), said.String())
	})
	return &carrier{in, json.NewDecoder(out)}
}

// carry returns the JSON of what the other side has once an object was carried there: made
// anew, or from what it had.
func (c *carrier) carry(t *testing.T, mode, to string, object, onto []byte) []byte {
	t.Helper()
	require.NoError(t, json.NewEncoder(c.in).Encode(map[string]any{
		"mode": mode, "to": to, "object": json.RawMessage(object), "onto": json.RawMessage(onto),
	}))
	var answer struct {
		Created, Patch json.RawMessage
		Error          string
	}
	require.NoError(t, c.out.Decode(&answer))
	require.Empty(t, answer.Error)
	if onto == nil {
		return answer.Created
	}
	return encoded(t, merge(tree(t, onto), tree(t, answer.Patch)))
}

// tree returns a JSON value with its numbers as they stand.
func tree(t *testing.T, text []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v))
	return v
}

// merge applies a JSON merge patch, as RFC 7396 has it.
func merge(target, patch any) any {
	fields, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out := map[string]any{}
	if old, ok := target.(map[string]any); ok {
		for k, v := range old {
			out[k] = v
		}
	}
	for k, v := range fields {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = merge(out[k], v)
		}
	}
	return out
}
