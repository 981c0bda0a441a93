package natslink

import (
	"fmt"
	"regexp"
	"strings"

	"go.uber.org/zap"
)

// A serverLogger gives what the NATS server logs to zap. The server's notices are about
// its own workings, so they are for debugging.
type serverLogger struct {
	log     *zap.Logger
	fatal   func(message string) // told what the server cannot go on after
	suspect func()               // called when the server complains of its disk
	blame   func(string) bool    // told each error; reports whether it has been dealt with
}

// ofDisk is what the server's complaints of its disk have in them.
var ofDisk = regexp.MustCompile(`write error|permission denied|DISABLED|disabling JetStream|failed to store`)

// Noticef logs a notice.
func (l serverLogger) Noticef(format string, v ...any) { l.log.Debug(fmt.Sprintf(format, v...)) }

// unverified is what the server warns of since it does not see that Credentials verify.
const unverified = "TLS certificate chain and hostname of solicited leafnodes will not be verified"

// rereads is what the server warns of when it was not ended in peace: it then reads the
// messages in place of what it had noted of them, and nothing is missing.
var rereads = regexp.MustCompile(`state (is )?outdated|corrupt state file`)

// Warnf logs a warning.
func (l serverLogger) Warnf(format string, v ...any) {
	switch message := l.read(format, v...); {
	case strings.HasPrefix(message, unverified):
	case rereads.MatchString(message):
		l.log.Info(message)
	default:
		l.log.Warn(message)
	}
}

// flushing is what the server complains of when a leaf node hangs up while it is written to. It
// does not complain of clients that do, and we tell who has gone.
const flushing = "Error flushing: "

// Errorf logs an error.
func (l serverLogger) Errorf(format string, v ...any) {
	switch message := l.read(format, v...); {
	case l.blame(message):
	case strings.Contains(message, flushing):
		l.log.Debug(message)
	default:
		l.log.Error(message)
	}
}

func (l serverLogger) read(format string, v ...any) string {
	message := fmt.Sprintf(format, v...)
	if ofDisk.MatchString(message) {
		l.suspect()
	}
	return message
}

// nobody is to blame for an error of the server.
func nobody(string) bool { return false }

// Debugf logs nothing: the server is not asked for it.
func (l serverLogger) Debugf(string, ...any) {}

// Tracef logs nothing: the server is not asked for it.
func (l serverLogger) Tracef(string, ...any) {}

// Fatalf hands on the error. It does not end the process, as the server's own would.
func (l serverLogger) Fatalf(format string, v ...any) { l.fatal(fmt.Sprintf(format, v...)) }
