// Package stack runs real Kubernetes API servers and the real Argo CD on
// loopback, as plain processes and without a container engine, for the tests
// that need them.
//
// [Build] compiles the servers from their Go modules (kube, argocd2 and kwok
// below this directory, each a module of its own) and keeps the results in the
// user's cache directory. Argo CD 3 (argocd3) is built only where it is asked
// for, by [Config].ArgoCD. [Start] starts one etcd and any number of clusters; a
// cluster is an API server with its own authority, ServiceAccount keys and
// audit log, and, where its [ClusterConfig] asks for them, a controller
// manager, a scheduler, a played node and the parts of Argo CD. Every one of
// them is a [Process], which a test may stop, kill, pause or restart.
//
// All of it ends with [Stack.Close], and on Linux also when the program that
// started it is killed.
package stack
