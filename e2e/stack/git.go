package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A GitRepo is a bare Git repository on the local disk, which Argo CD reads by
// a file URL.
type GitRepo struct {
	git  string // the program
	bare string
	work string // a clone, from which commits are pushed
}

// AppPath is the directory of a new [GitRepo] that holds the first manifests: a
// ConfigMap "settings" and a Deployment "web" of one replica.
const AppPath = "app"

// GitRepo creates a repository of that name with a first commit on branch main.
func (s *Stack) GitRepo(ctx context.Context, name string) (*GitRepo, error) {
	dir := filepath.Join(s.dir, "git")
	r := &GitRepo{
		git:  s.binaries.Path("git"),
		bare: filepath.Join(dir, name+".git"),
		work: filepath.Join(dir, name),
	}
	if err := os.MkdirAll(r.work, 0o755); err != nil {
		return nil, fmt.Errorf("stack: create Git repository %s: %w", name, err)
	}
	for _, args := range [][]string{
		{"init", "-q", "--bare", "-b", "main", r.bare},
		{"init", "-q", "-b", "main"},
		{"remote", "add", "origin", r.bare},
	} {
		if _, err := r.run(ctx, args...); err != nil {
			return nil, fmt.Errorf("stack: create Git repository %s: %w", name, err)
		}
	}
	manifest, err := manifests.ReadFile("manifests/app.yaml")
	if err != nil {
		return nil, fmt.Errorf("stack: create Git repository %s: %w", name, err)
	}
	if _, err := r.Commit(ctx, map[string]string{AppPath + "/app.yaml": string(manifest)}); err != nil {
		return nil, err
	}
	return r, nil
}

// URL returns the repoURL of the repository.
func (r *GitRepo) URL() string { return "file://" + r.bare }

// Commit writes files, given by their path in the repository, and pushes them
// as one commit to branch main, of which it returns the hash. Empty content
// removes a file.
func (r *GitRepo) Commit(ctx context.Context, files map[string]string) (string, error) {
	for name, content := range files {
		if err := r.write(name, content); err != nil {
			return "", fmt.Errorf("stack: commit to %s: %w", r.bare, err)
		}
	}
	for _, args := range [][]string{
		{"add", "--all"},
		{"-c", "user.name=stack", "-c", "user.email=stack@example.com", "commit", "-q", "-m", "Change manifests"},
		{"push", "-q", "origin", "main"},
	} {
		if _, err := r.run(ctx, args...); err != nil {
			return "", fmt.Errorf("stack: commit to %s: %w", r.bare, err)
		}
	}
	revision, err := r.run(ctx, "rev-parse", "HEAD")
	if err != nil {
		return "", fmt.Errorf("stack: commit to %s: %w", r.bare, err)
	}
	return strings.TrimSpace(revision), nil
}

func (r *GitRepo) write(name, content string) error {
	path := filepath.Join(r.work, filepath.FromSlash(name))
	if content == "" {
		return os.Remove(path)
	}
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644))
}

// run runs git in the clone, without the user's configuration.
func (r *GitRepo) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, r.git, args...)
	cmd.Dir = r.work
	cmd.Env = []string{path(), "HOME=" + r.work, "GIT_CONFIG_NOSYSTEM=1"}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, lastLines(stderr.String(), 5))
	}
	return string(stdout), nil
}
