// Package natscluster runs the programs on a cluster of three NATS servers, all as processes, and hurts
// it. The servers are configured by the very files in deploy/nats; agents come as a leaf node and as a
// client, over mutual TLS, and through a stand-in for the Service before the servers.
//
// On both sides of both agents something changes all the time, and each change has a text of its own. So
// what is lost, and what arrives twice, is counted by what was written and not by what the programs
// say of themselves.
package natscluster
