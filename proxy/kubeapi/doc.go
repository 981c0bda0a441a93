// Package kubeapi has the hub's programs speak to the Kubernetes API of a spoke that they
// cannot reach, as if it were beside them.
//
// The Hub is an HTTPS server on the control plane. Who asks proves by a client certificate or a
// bearer token which agent's cluster he is let to; there is one API for each agent, and nothing
// in a request's path or host chooses among them. The Spoke is a proxy.Service of the agent's
// process, which hands each request to a policy, its Guard, and then to the API server, with the
// agent's own credentials: there the agent always acts as itself.
//
// # One stream for each request
//
// Each request crosses in HTTP/1.1 on a byte stream of its own, and the stream ends with it. To
// open one takes no round trip, so that streams that are kept would be no faster; and so whatever
// becomes of a request becomes of its stream: a caller who goes ends the request at the API
// server, an answer that breaks off breaks off for the caller (never is half of one taken for a
// whole), a reader who is slow holds up nobody else, and what is upgraded, to a websocket or to
// SPDY, is bytes from then on. Nothing is buffered beyond what a stream holds, and each piece of
// an answer is passed on when it comes: so watches and logs are as live as they are on the spoke.
// That costs both sides one goroutine or two for each request under way, whose number is bounded
// (MaxRequests).
//
// The Spoke speaks HTTP/1.1 with the API server too, which needs it for upgrades. In HTTP/2
// requests of many callers would share connections, and with them their flow control and fate.
//
// # What crosses
//
// Methods, paths, queries, status codes, bodies and headers cross as they are, compressed or not.
// Left out, by both halves, are headers that concern one connection only, and those by which a
// request says on whose behalf it comes (see strip): the token that was made for the hub's
// programs does not reach a spoke, and a hub that was taken over does not become somebody else
// there. What says no is told as the API server would tell it, by a Status (package status).
//
// The hub does not trust the spoke either: an answer that sends the caller to another host is
// withheld, since clients take their credentials along.
package kubeapi
