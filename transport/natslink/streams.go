package natslink

import (
	"context"
	"errors"
	"hash/fnv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport/mux"
)

// pendingPackets bounds how much of the peer's packets may wait to be taken in, in bytes. A
// peer that counts what is under way is far below.
const pendingPackets = 16 << 20

// warnInterval is how often it is said that the peer has broken its streams.
const warnInterval = 10 * time.Second

// A streamer runs this side's end of the pipe: one goroutine sends, that of the
// subscription takes in.
type streamer struct {
	mux     *mux.Mux
	wire    wire
	subject string // that the peer listens to
	offend  func(error)
	zap     *zap.Logger
	wake    chan struct{} // holds one element once there may be something to send

	warned time.Time // when it was last; the goroutine that takes in owns it

	mu   sync.Mutex
	pipe pipe
}

// newStreamer returns a streamer for the link that is named link.
func newStreamer(c linkConfig, link string) *streamer {
	s := &streamer{wire: c.wire, subject: c.says, offend: c.offend, zap: c.zap, wake: make(chan struct{}, 1)}
	s.mux = mux.New(mux.Config{Local: c.name, Peer: c.peer, Wake: func() { signal(s.wake) }})
	s.pipe = pipe{mux: s.mux, heartbeat: c.heartbeat, connected: c.session, mine: tip{linkNumber(link), 1}}
	return s
}

// linkNumber returns what stands for a random name, as a hello.Link is. It is never 0.
func linkNumber(name string) uint64 {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(name)) // never fails
	return max(1, sum.Sum64())
}

// there takes in which end of the link the peer has; "" is none.
func (s *streamer) there(link string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	number := uint64(0)
	if link != "" {
		number = linkNumber(link)
	}
	s.pipe.there(number, time.Now())
	signal(s.wake)
}

// look takes in the time, and which connection to the peer there is.
func (s *streamer) look(line uint64, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pipe.look(line, now)
	if s.pipe.due {
		signal(s.wake)
	}
}

// take takes in what the peer sends. It is called by one goroutine, that of the
// subscription.
func (s *streamer) take(m *nats.Msg, lives func(time.Time)) {
	p, err := unmarshalParcel(m.Data)
	if err == nil {
		s.mu.Lock()
		err = s.pipe.take(p, time.Now())
		s.mu.Unlock()
		signal(s.wake)
	}
	if err == nil {
		lives(time.Now())
	}
	if err != nil && !errors.Is(err, errBefore) && !errors.Is(err, errGap) {
		s.offend(err)
	}
	if err != nil && !errors.Is(err, errBefore) && time.Since(s.warned) > warnInterval {
		s.warned = time.Now()
		s.zap.Warn("streams have ended", zap.Error(err))
	}
}

// run sends until ctx is done, and then ends the streams.
func (s *streamer) run(ctx context.Context) {
	defer s.mux.Close()
	for {
		select {
		case <-s.wake:
		case <-ctx.Done():
			return
		}
		var b []byte // it is not kept while there is nothing to send
		for ctx.Err() == nil {
			if b = s.next(b[:0]); len(b) == 0 {
				break
			}
			if err := s.wire.Publish(s.subject, b); err != nil {
				// Its number is lost, and so the streams end.
				s.zap.Debug("cannot send for the streams", zap.Error(err))
			}
		}
	}
}

func (s *streamer) next(b []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pipe.next(b, time.Now())
}
