// Package redis has the hub's Argo CD see what Argo CD on a spoke keeps in its Redis: the trees
// and the live states of resources, which nobody writes on the hub.
//
// A [Proxy] is the hub half: a Redis to the hub's unmodified Argo CD. What is kept of the
// Applications of agents, see [Key], it reads from the Redis of the agent whose Application it
// is, over a stream of the link; everything else goes to the hub's own Redis, byte for byte. A
// [Spoke] is the other half, a service of the agent's process. It trusts nobody: it reads those
// keys of Applications that the agent has, listens to their channels, and does nothing else,
// with a password that is the spoke's own. The hub's passwords never leave the hub.
//
// An agent that is slow, away or hostile delays nobody: an answer may take a second, each
// agent's are bounded in number and in size, and what there was last is the answer where there
// is no other, see [Config.Keep]. A miss is nil, never an error.
//
// What an agent has is not written from the hub: Argo CD's application controller is the only
// part that writes there, and that of the spoke does it. Who tries is told so.
//
// A channel tells a subscriber only that it should read again, as Argo CD's are empty: what an
// agent publishes stays there, many messages are as good as one, and one is sent when an agent
// or a Redis can be heard again after it could not. Subscriptions end with the client only.
//
// A [Confined] is a third part, for spokes that have no Redis: a service of the principal's
// process that shows an agent a part of the hub's Redis as if it were all of it.
//
// The wire is read by this package itself, see reader: what comes from the other side of a
// link may be meant to do harm, and libraries for clients and servers take the lengths that they
// are told for true.
package redis
