// Package real plays the main story on real clusters: a hub and two spokes, each a
// kube-apiserver of its own, on the first spoke the whole of Argo CD, and the principal
// and its agents as processes that run with ServiceAccount tokens under the RBAC that
// deploy/ ships. Everything is in its tests.
//
// One world serves all stories of managed agents, which follow one another on it, another
// those of autonomous ones (TestAutonomous), and a third those of the hub's own users
// (TestRequests). After each story of the first two nothing may change for ten seconds: no
// object, and no stream of the NATS servers.
//
// The last story kills the programs at points of their work that a seed decides; it can be
// repeated with other seeds:
//
//	go test ./e2e/real -run TestReal/KilledAtFailpoints -timeout 2h -seed 1 -failpoint-runs 20
package real
