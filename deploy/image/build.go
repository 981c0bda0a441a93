package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A program is one that has an image.
type program struct {
	name string // of its folder under cli, of its binary and of its image
	does string // in a few words
}

var programs = []program{
	{"argocd-agent", "The principal and the agent of Argo CD on many clusters"},
	{"argocd-agentctl", "Sets up principals and agents, and shows how they stand"},
}

// architectures are what images may be made for, by Go's names.
var architectures = []string{"amd64", "arm64"}

// environment is what of the builder's own could change what is built.
var environment = []string{"CGO_ENABLED=0", "GOOS=linux", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFLAGS=", "GOWORK=off"}

// versionVariable is where the programs keep which release they are.
const versionVariable = "github.com/argocd-fabric/argocd-agent/cli/command.release"

// build builds all programs for linux and an architecture, into folder. It is one build, in which
// the programs are linked beside each other.
func build(ctx context.Context, source, architecture, version, folder string) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return fmt.Errorf("image: build for %s: %w", architecture, err)
	}
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -X " + versionVariable + "=" + version, "-o", folder + string(filepath.Separator)}
	for _, p := range programs {
		args = append(args, "./cli/"+p.name)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), append(environment, "GOARCH="+architecture)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("image: build for %s: %w: %s", architecture, err, out)
	}
	return nil
}

// A release is what is said of the source.
type release struct {
	version string
	commit  string    // "" if it is no checkout
	made    time.Time // when the commit was; 1970 if there is none
}

// releaseOf asks git what a checkout is, where version does not say it.
func releaseOf(ctx context.Context, source, version string) (release, error) {
	r := release{version: version, made: time.Unix(0, 0).UTC()}
	if said, err := git(ctx, source, "log", "-1", "--format=%H %ct"); err == nil {
		commit, seconds, _ := strings.Cut(said, " ")
		at, err := strconv.ParseInt(seconds, 10, 64)
		if err != nil {
			return release{}, fmt.Errorf("image: read the time of commit %s: %w", commit, err)
		}
		r.commit, r.made = commit, time.Unix(at, 0).UTC()
	}
	if r.version != "" {
		return r, nil
	}
	said, err := git(ctx, source, "describe", "--tags", "--always", "--dirty")
	if err != nil {
		return release{}, fmt.Errorf("image: ask git for the version of %s (or say it by -version): %w", source, err)
	}
	r.version = said
	return r, nil
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...).Output()
	return strings.TrimSpace(string(out)), err
}
