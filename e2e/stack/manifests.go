package stack

import "embed"

// manifests holds what Argo CD needs on a cluster, and what a Git repository
// starts with.
//
//go:embed manifests
var manifests embed.FS
