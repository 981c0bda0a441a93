// Package oracle holds our view of Argo CD against Argo CD's own code, on objects that a
// seeded generator makes of Argo CD's types. Everything is in its tests.
//
// It is a module of its own, because importing Argo CD pins the Kubernetes libraries years
// back. What of ours needs newer ones runs as a process, see e2e/carry. Run it by
//
//	task oracle
//
// A failure names the seed of its object; more of them are tried by -seeds.
package oracle
