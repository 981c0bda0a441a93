package natslink

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// A shelf keeps one log or one copy: the last row of each key, in the order in which they were
// put there. Where there is a server it is a stream; an agent without one has its log in memory
// and its copy in a file. It may be used by many goroutines.
type shelf interface {
	// end returns the place of the last row that is known to be on it. What was begun anew has
	// another epoch.
	end() position
	// read returns the rows from a place on, in order, as many as are good to have at once.
	read(ctx context.Context, seq uint64) (batch, error)
	// usable returns why nothing can be put there, nil if something can.
	usable() error
	// kicked returns a channel that holds an element when what it has kept may be lost.
	kicked() <-chan struct{}
	// state says what it holds.
	state(ctx context.Context) (StreamState, error)
}

// A logShelf keeps what this side says.
type logShelf interface {
	shelf
	// put puts m behind the last row. The sender, of whom no two have one name, is this Link. It
	// returns errNoStream if there is nothing any more to put it on.
	put(ctx context.Context, sender string, m *nats.Msg) error
	// held calls f with each row if they outlive this process, and returns the rest of a Log.
	held(ctx context.Context, f func(row) error) (transport.Log, error)
	// had takes in that the peer has all up to a place: it will hardly ask for it again.
	had(upto position)
	// check finds out whether what was put there is still there, and begins anew if not.
	check(ctx context.Context) (lost bool, err error)
}

// A copyShelf keeps what the peer says. One goroutine puts rows there.
type copyShelf interface {
	shelf
	// extend puts all behind the last row, one behind the other or not at all, and calls stored
	// with each that is there: which of all it is, and its place. An error of stored ends it.
	extend(ctx context.Context, all []*nats.Msg, stored func(i int, seq uint64) error) error
	// whole reports whether what was put there is still there.
	whole(ctx context.Context) (bool, error)
	// recover begins anew if it is not, and learns where it ends, after something went wrong.
	recover(ctx context.Context) (lost bool, err error)
}

// each calls f with the rows of s from seq up to the place that s ends at now, in order.
func each(ctx context.Context, s shelf, seq uint64, f func(row) error) error {
	for end := s.end().Seq; seq <= end; {
		b, err := s.read(ctx, seq)
		if err != nil {
			return err
		}
		for _, r := range b.rows {
			if err := f(r); err != nil {
				return err
			}
			seq = r.seq + 1
		}
		if !b.more {
			return nil
		}
	}
	return nil
}
