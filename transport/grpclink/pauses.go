package grpclink

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Bounds of how long an agent stays away whose place another one has taken: two of one name
// would take turns otherwise, several times a second.
const (
	minRivalPause = time.Second
	maxRivalPause = 30 * time.Second
)

// Pauses says how long to wait before connecting again. A pause is random, from nothing to a
// bound that doubles with each failure: agents that were cut off together do not come back
// together. What the principal asks for is kept.
type pauses struct {
	least, most time.Duration
	random      func(time.Duration) time.Duration // one from 0 to less than that

	bound time.Duration
	rival time.Duration
}

// next returns the pause after a session that has lasted so long and ended for err.
func (p *pauses) next(err error, lasted time.Duration) time.Duration {
	if lasted > p.most {
		p.bound = 0
	}
	if lasted > 2*maxRivalPause {
		p.rival = 0
	}
	if after := retryAfter(err); after > 0 {
		return after + p.random(after/4+1)
	}
	if status.Code(err) == codes.Aborted {
		p.rival = min(max(2*p.rival, minRivalPause), maxRivalPause)
		return p.rival/2 + p.random(p.rival)
	}
	p.bound = min(max(2*p.bound, p.least), p.most)
	return p.random(p.bound)
}
