// Package token makes and checks the bearer tokens by which the hub's Argo CD says at the
// resource proxy whose cluster it means. A token stands in the cluster secret of an agent, and
// is a JSON Web Token (RFC 7519) that names the agent.
//
// It does not expire: who has it could as well read it again. It is good for as long as the
// key that has signed it is among the principal's Keys, and as far as its agent is registered
// and not blocked, which is for whoever asks here to see to. So there are three ways to have it
// be worth nothing: unregister the agent, block it, or take away the key.
//
// Names and forms are those of existing installations: a token that was made there is good here
// with the same key, and the reverse.
package token
