// Package clusterinfo writes what the hub's Argo CD shows of each agent's cluster: its
// connection state, its version, and how much of it is observed.
//
// Argo CD keeps this in a cache in Redis, where its application controller writes it for
// the clusters that it reconciles, and its API server reads it by the URL in the cluster
// secret. Nothing reconciles an agent's cluster from the hub, so a [Writer] writes in its
// place, in Argo CD's own form: see [Key] and [Encode], which are pure. An entry that is
// not written again expires, as it does for Argo CD: a principal that is gone claims
// nothing for long.
//
// In each round a Writer writes all entries, whatever Redis has: one that was away,
// emptied, or written by somebody else shows the truth again after the next.
package clusterinfo
