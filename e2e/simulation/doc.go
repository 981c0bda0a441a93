// Package simulation runs a principal and its agents whole, between clusters in memory
// and a transport that has faults, and demands that they agree in the end and are silent
// then.
//
// Its stories and its seeded simulation know nothing of the transport: what they need of
// one is a fabric, which is the linktest.Network that its own conformance suite uses. In
// memory they run in the bubble of testing/synctest, minutes in milliseconds; over a real
// transport the same stories take real time. Another transport is one more line in the
// list of fabrics.
package simulation
