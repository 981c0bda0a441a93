package natslink

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// The names of one agent's subjects and streams. Everything is under the agent's own
// name, though no two agents share a stream or an account.
type names struct {
	agent string
}

// Streams. A log and its copy are on different servers.
func (n names) downLog() string  { return "DOWN_" + n.agent }
func (n names) downCopy() string { return "IN_" + n.agent }
func (n names) upLog() string    { return "OUT_" + n.agent }
func (n names) upCopy() string   { return "UP_" + n.agent }

// agentOf returns whose a stream of the principal's server is, and whether it is one of ours.
func agentOf(stream string) (agent string, ok bool) {
	part, agent, ok := strings.Cut(stream, "_")
	return agent, ok && (part == "DOWN" || part == "UP")
}

// Prefixes of the subjects that messages are stored under.
func (n names) down() string { return "fabric." + n.agent + ".down." }
func (n names) up() string   { return "fabric." + n.agent + ".up." }

// Subjects on which the writer of a log answers the reader of its copy.
func (n names) askDown() string { return "fabric." + n.agent + ".ask.down" }
func (n names) askUp() string   { return "fabric." + n.agent + ".ask.up" }

// Subjects of what crosses for the streams.
func (n names) streamsDown() string { return "fabric." + n.agent + ".streams.down" }
func (n names) streamsUp() string   { return "fabric." + n.agent + ".streams.up" }

// Prefixes of the subjects on which answers are awaited.
func (n names) hubInbox() string   { return "_INBOX_hub_" + n.agent }
func (n names) agentInbox() string { return "_INBOX_" + n.agent }

// rights are what an agent may say to the hub and hear of it, on the hub's server: it answers the hub
// and asks it, is answered, and uses streams.
func (n names) rights() (says, hears []string) {
	says = []string{n.askDown(), n.hubInbox() + ".>", n.streamsUp(), anchor}
	hears = []string{n.askUp(), n.agentInbox() + ".>", n.streamsDown(), anchor}
	return says, hears
}

// plain are the bytes below 0x80 that stand for themselves in a token, next to letters
// and digits. "." parts tokens, "*" and ">" are wildcards, and "%" escapes.
const plain = "!#$&'()+,-:;<=?@[]^_`{|}~\""

// encodeKey returns key as the tail of a subject: its segments, which "/" parts, are the
// tokens. An empty segment is a bare "%".
func encodeKey(key string) string {
	var b strings.Builder
	b.Grow(len(key) + 8)
	for i, segment := range strings.Split(key, "/") {
		if i > 0 {
			b.WriteByte('.')
		}
		if segment == "" {
			b.WriteByte('%')
		}
		for _, c := range []byte(segment) {
			if c >= 0x80 || isAlphanumeric(c) || strings.IndexByte(plain, c) >= 0 {
				b.WriteByte(c)
			} else {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		}
	}
	return b.String()
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// decodeKey returns the key whose encoding tail is, and an error if it is none: of all
// spellings only encodeKey's is good, so that a key has one subject.
func decodeKey(tail string) (string, error) {
	var b strings.Builder
	b.Grow(len(tail))
	for i, token := range strings.Split(tail, ".") {
		if i > 0 {
			b.WriteByte('/')
		}
		if token == "%" {
			continue
		}
		for token != "" {
			before, after, escaped := strings.Cut(token, "%")
			b.WriteString(before)
			token = after
			if !escaped {
				break
			}
			if len(after) < 2 {
				return "", fmt.Errorf("subject %.80q: escape is cut off", tail)
			}
			c, err := hex.DecodeString(after[:2])
			if err != nil {
				return "", fmt.Errorf("subject %.80q: %w", tail, err)
			}
			b.Write(c)
			token = after[2:]
		}
	}
	key := b.String()
	if encodeKey(key) != tail {
		return "", fmt.Errorf("subject %.80q is not the encoding of a key", tail)
	}
	return key, nil
}
