// Package deploy holds the manifests and charts of deploy/ against what they are for: each is
// rendered by kustomize or Helm, applied to a real API server, and compared with what the
// programs know. Everything is in its tests.
//
// It is a module of its own, so that the product's does not know kustomize and Helm. Run it by
//
//	task deploy
package deploy
