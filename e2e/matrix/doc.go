// Package matrix plays one list of stories on every kind of backend, in both modes, with
// each mapping and over each transport, and demands after each story that both sides agree
// and that nothing moves any more.
//
// An axis is a table of values (platforms, modes, mappings, carriers), and a combination is
// one value of each. A story knows none of them: it speaks of the owner's side, the other
// side, the line between them and the two programs. Every story is played on enough
// combinations that each pair of values meets, of NATS agents without a server and of websockets
// on those in memory; with -full, on all of them.
//
// On Kubernetes and on NATS the programs are processes of the built binaries, as they are
// installed, and what people and Argo CD's controller do there is done past our code: over the
// API of a real API server, or in the bucket of a real NATS server. A store in memory cannot
// be reached from outside its process: there the programs run within the test. Argo CD's
// controller is played here, alike on all of them; package real runs the real one.
package matrix
