// Package real plays the main story on real clusters: a hub and two spokes, each a
// kube-apiserver of its own, on the first spoke the whole of Argo CD, and the principal
// and its agents as processes that run with ServiceAccount tokens under the RBAC that
// deploy/ ships. Everything is in its tests.
//
// Each test has a world of its own, on which its stories follow one another: those of every day
// (TestReal) and of what is lost, wrong or killed (TestDisasters) for managed agents, those of
// autonomous ones (TestAutonomous), of destination mapping (TestDestination), and of the hub's
// own users (TestRequests), who also see and touch what is on the spokes. They are played side
// by side: a world mostly waits, for after most stories nothing may change for ten seconds, no
// object and no stream of the NATS servers.
//
// One story kills the programs at points of their work that a seed decides; it can be
// repeated with other seeds:
//
//	go test ./e2e/real -run TestDisasters/KilledAtFailpoints -timeout 2h -seed 1 -failpoint-runs 20
//
// With -grpc TestDisasters and TestAutonomous are played over gRPC, not NATS. TestReal cannot be:
// stories of it count what is in streams.
package real
