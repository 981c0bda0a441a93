// Package grpclink carries a transport.Link over gRPC: one port, HTTP/2, TLS 1.3 with
// certificates on both sides.
//
// An agent makes two calls over one connection, see linkpb: Table for the two tables and the
// signs of life, Streams for all byte streams, so that bulk holds up nothing of the tables.
// What crosses them are the packets of package packetlink, which is how the tables are
// compared, acknowledged and kept in order; here is who may speak, when, and how a dead peer
// is noticed.
//
// # Why not the CloudEvents SDK's protobuf format
//
// A packet holds a CloudEvent as its JSON attributes and its data, byte for byte. The SDK's
// protobuf format says the same with more types (a number or a time that is an extension stays
// one), of which no Link promises anything, and this module writes texts only. It would cost
// a second codec beside that of packetlink, and an allocation for each attribute; what it
// would save on the wire is what compression takes away anyway.
//
// # Who is there
//
// An agent's name is what Authenticate reads from its verified certificate, and only agents
// that were registered by Hub.Link are let in, for as long as the Credentials trust them. When
// an agent's own are replaced it connects anew. Of a herd so many are let in at once, and the
// others are told when their turn is. The newest session of an agent has its Link, both
// ways; the one before is ended, and says why to its agent, which then stays away for longer
// and longer while that goes on. Either side sends a sign of life with each heartbeat, and a
// peer that is silent for three of them is away.
//
// # Where HTTP/2 does not pass
//
// An agent may come by websocket, which carries the same connection (see package tunnel). The
// one port serves both: by what a client offers in its TLS it is known what it wants, and a
// gRPC client offers HTTP/2 only.
//
// # What is kept
//
// The logs are in memory, the last value of each key. The agent's copy of the principal's is in
// one file under StateDir; the principal's copy of an agent's is known by hashes only. With
// each connection the copies are compared with the logs (see packetlink), so that what a
// process has lost, or not written in time, comes again, and nothing else does.
//
// # What an agent can make the principal hold
//
// HubConfig.Limits bound its table, by keys and by bytes, and what of it waits to be received.
// Whose table is larger is told so, and when to try again; what the principal has of it stays.
// Besides, an agent has at most 8 connections at once, of 8 calls each, and one session, and may
// begin another ten times in a second; headers are of 8 KiB at most and packets of 8 MiB. A table
// that is too large ("copy quota"), and an agent that breaks the rules, are Troubles of that
// agent, and the log names it.
package grpclink
