// Package share has Argo CD on a spoke use servers of the hub that the spoke cannot reach: a
// spoke without Git asks the hub's repo-server, and one without a Redis has a part of the
// hub's, see redis.Confined.
//
// A [Door] is the spoke half: Argo CD connects to it, on the spoke, and for each connection the
// agent opens a stream to the principal. A [Forward] is the hub half, a service of the
// principal's process for one agent that ends at one address, whatever the agent says. No port
// is opened to the outside on either side, and who asks is known by the link.
//
// The bytes are passed on as they are, so TLS is between Argo CD's own parts where they speak
// it. Nothing of them is kept: a connection is as slow as who reads it, and ends on both sides
// when either goes.
//
// Whoever may use a repo-server may have it render what it can reach, and ask it for what it has
// rendered for others: it is shared with agents that are trusted with that.
package share
