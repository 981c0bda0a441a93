package command

import (
	"io"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"
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
	return zap.New(zapcore.NewCore(encoder(shape), zapcore.Lock(zapcore.AddSync(w)), level))
}
