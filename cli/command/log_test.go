package command

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// TestLogIsLines: what somebody else has said moves no cursor, and makes no line that looks like ours.
func TestLogIsLines(t *testing.T) {
	const said = "a\x1b[2J\u009b31m\u202eb\n2026-11-29T00:00:00Z\terror\tforged"
	for name, encoder := range map[string]func(zapcore.EncoderConfig) zapcore.Encoder{"text": zapcore.NewConsoleEncoder, "json": zapcore.NewJSONEncoder} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			log := openLog(&out, zap.InfoLevel, encoder).With(zap.String("agent", said)).Named("x")
			log.Info(said, zap.String("says", said), zap.Int("n", 1))
			line, rest, _ := bytes.Cut(out.Bytes(), []byte("\n"))
			require.Empty(t, rest)
			require.NotContains(t, string(line), "\x1b")
			require.NotContains(t, string(line), "\u009b")
			require.NotContains(t, string(line), "\u202e")
			require.Contains(t, string(line), `"n":`)
			if name == "json" {
				require.True(t, json.Valid(line), string(line))
			}
		})
	}
}

func TestLogLeavesTextAlone(t *testing.T) {
	var out bytes.Buffer
	openLog(&out, zap.InfoLevel, zapcore.NewConsoleEncoder).Info("straße", zap.String("x", "a b"))
	require.Contains(t, out.String(), "\tinfo\tstraße\t{\"x\": \"a b\"}\n")
}
