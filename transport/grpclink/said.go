package grpclink

import (
	"context"

	"google.golang.org/grpc/metadata"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// saysHeader is the header of a call for a table in which an agent says of itself what the
// principal is to know if it does not know the agent. Its name has any bytes be carried.
const saysHeader = "argocd-agent-says-bin"

// speaking returns ctx, of which a call says so; "" is nothing.
func speaking(ctx context.Context, says string) context.Context {
	if says == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, saysHeader, says)
}

// saidIn returns what a call says so.
func saidIn(ctx context.Context) string {
	in, _ := metadata.FromIncomingContext(ctx)
	if v := in.Get(saysHeader); len(v) == 1 && len(v[0]) <= transport.MaxSaid {
		return v[0]
	}
	return ""
}
