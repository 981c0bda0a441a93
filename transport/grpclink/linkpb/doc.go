// Package linkpb is the wire of the transport over gRPC, as generated from link.proto.
package linkpb

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative link.proto
