// Package proxy has live requests travel over the byte streams of links, beside the tables
// that links carry: what the hub's Argo CD asks of a spoke's Kubernetes API (package kubeapi)
// and of its Redis (package redis), and what a spoke asks of the hub.
//
// A stream is opened for a service, by name. Each kind of request has its two halves side by
// side in one package: the half that has a listener and opens streams, and the half that is a
// Service of the other side's process and ends at the real server there. Nothing of it is
// stored, and nothing is buffered whole: a stream is as slow as who reads it, and ends on
// both sides when either goes.
package proxy
