// Package transport says what a link between the principal and one agent promises.
// It carries two tables, one each way, and knows nothing of what they mean.
//
// Each direction is a log compacted by key on the writing side and a copy of it on the
// reading side. The adapters (memlink, natslink, grpclink) implement Hub, Dialer and Link, and
// prove the comments below by the suite in linktest. Inbox and Log.Put are what each of them
// needs; package packetlink makes all three of packets.
package transport

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
)

// Errors that every Link gives, wrapped. Any other may go away by itself.
var (
	ErrClosed   = errors.New("link is closed")
	ErrTooLarge = errors.New("message is too large")                    // it will never be accepted
	ErrFull     = errors.New("quota of the link's log is used up")      // nothing was stored; space may come back
	ErrUnknown  = errors.New("agent is not registered")                 // given by Hub.Link and Hub.Forget
	ErrVersion  = errors.New("peer speaks no common protocol version")  // see Presence
	ErrStore    = errors.New("store is unusable or of another version") // given at start: nothing was changed
	ErrAway     = errors.New("peer is not there")                       // given by Streams, and by streams that were cut off
)

// MaxMessage is the largest Message that a Link must take, in bytes of its event's data.
const MaxMessage = 4 << 20

// MaxStreams is how many streams each side of a Link may have open that it has opened.
const MaxStreams = 1024

// MaxService is the length of the longest name of a service, in bytes.
const MaxService = 255

// A Message is the value of one key of a table.
type Message struct {
	// Key is any text without NUL of at most 1 KiB. Keys that begin with "$" are
	// reserved: Log returns them whole.
	Key string
	// Digest stands for the value and can be read without it; "" marks a tombstone.
	Digest string
	// Event is the value: a CloudEvent, whose data is absent in a tombstone. A Link
	// keeps its id, source, type, subject, time, content type, extensions and data.
	Event event.Event
}

// Tombstone reports whether m says that its key has no value.
func (m Message) Tombstone() bool { return m.Digest == "" }

// A Log is what a link's log holds of what this side has sent.
type Log struct {
	// Epoch names the log: another one, another log. It is random.
	Epoch string
	// Keeps says that the log outlives the process. If not, Rows is empty.
	Keeps bool
	// Rows holds the last Message of each key, tombstones left out, without the data of
	// its Event unless the key is reserved.
	Rows map[string]Message
}

// An Event says what a Delivery is.
type Event uint8

// The kinds of Delivery.
const (
	Value    Event = iota // Message is, or has become, the last value of its key
	Replayed              // every value that the copy held when the Link was opened has been delivered
	LogLost               // the log has been lost, and begun anew: call Log
	Up                    // the peer's process answers: Presence says who
	Down                  // the peer's process no longer answers
)

// String returns the event's name in lower case.
func (e Event) String() string {
	return [...]string{"value", "replayed", "log-lost", "up", "down"}[e]
}

// A Presence is what a process says of itself while it is connected. It is never stored.
type Presence struct {
	Process string // random, another one for every process
	Version string // of the program, for people
	Oldest  int    // the oldest protocol version that it speaks
	Newest  int    // the newest
}

// A Delivery is something for the reader. Which fields are set depends on Event.
type Delivery struct {
	Event    Event
	Message  Message  // of a Value
	Presence Presence // of an Up
	// At is the place of a Value in the copy: of two Values of one key the higher is the
	// newer. It grows for as long as the Link is open, also across a lost copy.
	At uint64
	// Ack says that a Value was taken in for good. What is not acked may be delivered
	// again, also to the next process. It may be called at any time, from any goroutine,
	// and is never nil.
	Ack func()
}

// A Link is the durable two-way path between the principal and one agent. It exists
// whether or not the peer is there.
//
// Of each key the last value reaches the peer's copy, however long the peer is away;
// earlier ones may be left out, values may be repeated, and tombstones may be forgotten
// once they are old. Values of one key never overtake each other; those of different
// keys may. A log or a copy that is lost is begun anew; the copy is then filled again
// from the log as far as the log Keeps. A copy outlives its reader's process where the
// adapter says so: then Receive gives it before Replayed, also with no peer in reach.
//
// A Link is bound to its peer by authentication: whatever arrives on it was said by
// Peer, and by nobody else.
//
// A log that is lost while its process is stopped is not reported by LogLost: the next
// process sees another Epoch in Log.
//
// Methods may be called concurrently, but only one goroutine receives. All of them
// return ErrClosed once the Link is closed, and the cause of ctx when that is done first.
type Link interface {
	// Peer returns the authenticated name of the other side: the agent's name, or
	// "principal".
	Peer() string
	// Log returns what this side's log holds from before.
	Log(ctx context.Context) (Log, error)
	// Send puts m into the log. After nil it is there, and reaches the peer at least once
	// unless a later Message of its key replaces it or a store is lost. It does not wait
	// for the peer. It returns ErrTooLarge, ErrFull, or an error that may go away; after
	// an error m may or may not be in the log.
	Send(ctx context.Context, m Message) error
	// Receive returns what is next: first the kept copy of the peer's log, then Replayed,
	// then whatever changes. Up and Down alternate, beginning with Up; they and LogLost come
	// at any time after Replayed.
	Receive(ctx context.Context) (Delivery, error)
	// Streams returns the live streams of the Link. They work from when it is open, also
	// while nobody receives.
	Streams() Streams
	// Close gives up the Link and everything that belongs to it in this process. What is
	// stored stays. To close it again is no error.
	Close() error
}

// Streams are live byte streams between the two processes of a Link, beside its tables.
// Nothing of them is stored. Either side may open them, and any number of goroutines.
//
// A stream is a net.Conn that has a method CloseWrite() error besides:
//
//   - CloseWrite ends what is written; the peer reads io.EOF after the last byte, and may
//     go on writing. Close ends both directions: what was not read is thrown away, and the
//     peer's writes fail. Bytes that Write has taken arrive before either.
//   - Deadlines are those of net.Conn: they end calls with os.ErrDeadlineExceeded, and later
//     calls work again once they are moved.
//   - A reader that is behind holds up its writer, and nobody else: Write waits once the
//     peer has some 256 KiB (32 KiB before it has accepted the stream) that were not read.
//     A stream takes no more memory than that on either side. Streams share the line in
//     turn, and what of them is under way is bounded, so that bulk delays neither other
//     streams nor the tables for long.
//   - A stream is bound to the process of the peer that it was opened to. When that process
//     goes, or the link to it, every call fails that waits, and every later one, with
//     ErrAway: at the latest when Receive gives Down. Bytes that have arrived before can
//     be read first. No stream comes back; others are opened once the peer is Up again. When
//     the Link is closed on this side they fail with ErrClosed. So io.EOF always means that
//     the peer has closed, and that nothing is missing.
//   - Write returns once its bytes are on their way. They arrive in order, once, whole and
//     unchanged, or the stream fails. That they were read, only the peer can say.
//
// A stream counts as open until both directions have ended: until each side has closed it,
// or has ended its writing and read all there was.
type Streams interface {
	// Open opens a stream for a service of the peer's process, whose name is of 1 to
	// MaxService bytes. It fails at once with ErrAway if no process of the peer is there,
	// and if this side has MaxStreams open. It does not wait for the peer to accept: one who
	// does not take the stream makes reads and writes fail.
	Open(ctx context.Context, service string) (net.Conn, error)
	// Accept returns the next stream that the peer's process has opened, and the service it
	// is for. Whoever accepts must close it.
	Accept(ctx context.Context) (service string, c net.Conn, err error)
}

// A Hub is the principal's end of a transport.
type Hub interface {
	// Run serves agents until ctx is done or the transport fails for good. Links work
	// only while it runs.
	Run(ctx context.Context) error
	// Link opens the Link to an agent, connected or not, and registers the agent: from now
	// on it may connect. There is at most one open Link to an agent: another one is an error.
	// It waits until Run is ready to serve it.
	Link(ctx context.Context, agent string) (Link, error)
	// Forget cuts the agent off and removes everything that is kept for it. Its Link must
	// be closed, or it is an error. An agent that is registered again under that name is a
	// new one: its Link begins with another epoch and an empty copy.
	Forget(ctx context.Context, agent string) error
	// Kept returns the agents for which something is kept, on disk or in memory, sorted: also
	// those whose Link is not open, and those of a process before this one. Forget accepts
	// each of them whose Link is closed.
	Kept(ctx context.Context) ([]string, error)
}

// A Trouble is something that keeps a store from taking in what it should, or an agent that
// breaks the rules (see Complaints). It lasts until the cause is gone, and ends by itself.
type Trouble struct {
	// Agent is whose log or copy it befalls; "" is everything in this end's store.
	Agent string
	// What is one of a few short texts that the adapter documents, such as "log quota".
	What string
	// Err is what was seen last.
	Err error
	// Since is when it began.
	Since time.Time
}

// Troubled is implemented by a Hub or a Dialer that has a store which may get into trouble.
type Troubled interface {
	// Troubles returns what is wrong now, sorted by Agent and What.
	Troubles() []Trouble
}

// MaxSaid is how long what a Stranger says may be, in bytes.
const MaxSaid = 1 << 10

// A Stranger is whoever has proven a name that is no registered agent's, and was not let in. It
// may be an agent that is to be registered yet. A Hub that proves names tells of each attempt,
// and goes on: whoever is told must not wait, and bounds what is kept of it.
type Stranger struct {
	Agent string // the proven name
	From  string // its address
	// Says is what it says of itself, of at most MaxSaid bytes; "" is nothing. It proves nothing.
	Says string
}

// A Dialer is an agent's end of a transport.
type Dialer interface {
	// Dial opens the Link to the principal. It does not wait for the principal, and
	// connects, and connects again, by itself. There is at most one open Link: another one
	// is an error.
	Dial(ctx context.Context) (Link, error)
}
