package command

import (
	"io"
	"strings"
	"unicode"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
)

func logFlags(f shell.Flags) []cli.Flag {
	return []cli.Flag{
		f.String("log-level", "", "info", "the least severe `level` that is logged: debug, info, warn or error"),
		f.String("log-format", "", "text", "the `format` of the log: text or json"),
	}
}

// newLog returns the log that a command's flags ask for, which writes to w.
func newLog(c *cli.Context, w io.Writer) (*zap.Logger, error) {
	level, err := shell.Choice(c, "log-level", map[string]zapcore.Level{
		"debug": zap.DebugLevel, "info": zap.InfoLevel, "warn": zap.WarnLevel, "error": zap.ErrorLevel,
	})
	if err != nil {
		return nil, err
	}
	encoder, err := shell.Choice(c, "log-format", map[string]func(zapcore.EncoderConfig) zapcore.Encoder{
		"text": zapcore.NewConsoleEncoder, "json": zapcore.NewJSONEncoder,
	})
	if err != nil {
		return nil, err
	}
	return openLog(w, level, encoder), nil
}

func openLog(w io.Writer, level zapcore.Level, encoder func(zapcore.EncoderConfig) zapcore.Encoder) *zap.Logger {
	shape := zap.NewProductionEncoderConfig()
	shape.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	return zap.New(zapcore.NewCore(lines{encoder(shape)}, zapcore.Lock(zapcore.AddSync(w)), level))
}

// lines is an Encoder of which each entry is a line that a terminal shows as it is, since peers and
// servers say some of it. Those of zap write a message as it comes, and in fields what is above ASCII.
type lines struct{ zapcore.Encoder }

// Clone implements zapcore.Encoder.
func (l lines) Clone() zapcore.Encoder { return lines{l.Encoder.Clone()} }

// EncodeEntry implements zapcore.Encoder.
func (l lines) EncodeEntry(e zapcore.Entry, fields []zapcore.Field) (*buffer.Buffer, error) {
	b, err := l.Encoder.EncodeEntry(e, fields)
	if err != nil {
		return nil, err
	}
	text := strings.TrimSuffix(b.String(), "\n")
	if strings.ContainsFunc(text, func(r rune) bool { return r != '\t' && !unicode.IsPrint(r) }) {
		parts := strings.Split(text, "\t") // which part a line in text form
		for i, part := range parts {
			parts[i] = shell.Line(part)
		}
		b.Reset()
		b.AppendString(strings.Join(parts, "\t") + "\n")
	}
	return b, nil
}
