package natsstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/argocd-fabric/argocd-agent/backend"
)

// tooLargeForBucket is the server's code for a value above the bucket's own limit.
const tooLargeForBucket = 10054

// changed reports whether err says that a key has another revision than was expected.
func changed(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// explain returns what it means to the caller of a Store that a value of some bytes was not
// taken. All but one that is too large may go away: limits and rights change without it.
func explain(err error, size int) error {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: it is too large: %d bytes are more than the NATS server takes (max_payload)", backend.ErrRefused, size)
	case errors.As(err, &api) && api.ErrorCode == tooLargeForBucket:
		return fmt.Errorf("%w: it is too large: %d bytes are more than the bucket takes (max value size)", backend.ErrRefused, size)
	}
	return err
}

// told returns what is wrong: err, and why ctx is done, if that is so.
func told(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		return fmt.Errorf("no NATS server is connected (%w)", err)
	case err == nil, cause == nil, errors.Is(err, cause):
		return err
	}
	return fmt.Errorf("%w (%w)", cause, err)
}
