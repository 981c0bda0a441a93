package stack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Binaries are the programs that a stack is made of.
type Binaries struct {
	cache  string
	argoCD string            // the major version of Argo CD
	dirs   map[string]string // by component
	paths  map[string]string // by program
}

// Path returns the absolute path of a program: the name of a part, such as
// [APIServer], or "kubectl", "argocd", "etcd", "git". It is empty for a name
// that is not there.
func (b *Binaries) Path(name string) string { return b.paths[name] }

// Build returns the programs, after it has built those that the user's cache
// directory lacks. argoCD is a major version of Argo CD, such as
// [DefaultArgoCD]. It prints a line to out before and after each step that
// takes time; a cold build takes about eight minutes on two cores. Programs
// that run at once build one after the other, and each thing once.
func Build(ctx context.Context, argoCD string, out io.Writer) (*Binaries, error) {
	wanted, err := components(argoCD)
	if err != nil {
		return nil, fmt.Errorf("stack: build: %w", err)
	}
	source, err := sourceDir()
	if err != nil {
		return nil, fmt.Errorf("stack: build: %w", err)
	}
	cache, err := cacheDir()
	if err != nil {
		return nil, fmt.Errorf("stack: build: %w", err)
	}
	b := &Binaries{cache: cache, argoCD: argoCD, dirs: map[string]string{}, paths: map[string]string{}}
	if err := b.host(ctx, out); err != nil {
		return nil, fmt.Errorf("stack: build: %w", err)
	}
	for _, c := range wanted {
		k := builder{component: c, source: filepath.Join(source, c.name), cache: cache, out: out}
		dir, err := k.ensure(ctx)
		if err != nil {
			return nil, fmt.Errorf("stack: build %s: %w", c.title, err)
		}
		b.dirs[c.name] = dir
		for _, name := range append([]string{c.name}, c.links...) {
			b.paths[name] = filepath.Join(dir, name)
		}
	}
	return b, nil
}

// sourceDir finds the modules from the working directory, which is inside the
// checkout for a test and for go run.
func sourceDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		candidate := filepath.Join(dir, "e2e", "stack")
		if _, err := os.Stat(filepath.Join(candidate, "kube", "go.mod")); err == nil {
			return candidate, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("the working directory is outside the checkout that holds e2e/stack")
		}
		dir = parent
	}
}

func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "argocd-agent-stack")
	return dir, os.MkdirAll(dir, 0o755)
}

// A builder makes one component.
type builder struct {
	component
	source string // the directory of its module
	cache  string
	out    io.Writer
}

// ensure returns the directory that holds the component, built if need be.
func (b builder) ensure(ctx context.Context) (string, error) {
	sum, err := b.hash()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(b.cache, b.name+"-"+sum)
	if isDir(dir) {
		return dir, nil
	}
	// One lock for all components: two large builds at once help nobody.
	lock, err := lockFile(filepath.Join(b.cache, "build.lock"), true)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if isDir(dir) { // another program built it meanwhile
		return dir, nil
	}
	start := time.Now()
	fmt.Fprintf(b.out, "stack: building %s\n", b.title)
	if err := b.build(ctx, dir); err != nil {
		return "", err
	}
	fmt.Fprintf(b.out, "stack: built %s in %.0f s\n", b.title, time.Since(start).Seconds())
	return dir, nil
}

// hash names everything that the result depends on.
func (b builder) hash() (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, b.component, runtime.GOOS, runtime.GOARCH)
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		data, err := os.ReadFile(filepath.Join(b.source, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n%s", name, len(data), data)
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// build fills a temporary directory and then renames it, so that dir is never
// seen half full. The caller holds the lock.
func (b builder) build(ctx context.Context, dir string) error {
	stale, err := filepath.Glob(filepath.Join(b.cache, "."+b.name+"-*")) // of a build that was killed
	if err != nil {
		return err
	}
	for _, path := range stale {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	tmp, err := os.MkdirTemp(b.cache, "."+b.name+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	ldflags := strings.Join(append([]string{"-s", "-w"}, b.ldflags...), " ")
	_, err = b.run(ctx, "build", "-trimpath", "-ldflags="+ldflags, "-o", filepath.Join(tmp, b.name), ".")
	if err != nil {
		return err
	}
	for _, link := range b.links {
		if err := os.Symlink(b.name, filepath.Join(tmp, link)); err != nil {
			return err
		}
	}
	for _, f := range b.files {
		if err := b.copy(ctx, f, tmp); err != nil {
			return err
		}
	}
	return os.Rename(tmp, dir)
}

// copy takes a file over from a module.
func (b builder) copy(ctx context.Context, f file, dir string) error {
	module, err := b.run(ctx, "list", "-m", "-f", "{{.Dir}}", f.module)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(module), filepath.FromSlash(f.path)))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, f.name), data, 0o644)
}

// run runs the go command in the component's module.
func (b builder) run(ctx context.Context, args ...string) (string, error) {
	return goIn(ctx, b.source, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false"), args...)
}

// goIn runs the go command in a directory, and returns what it prints. A nil environment is that of
// this process.
func goIn(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, env
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w: %s", args[0], err, lastLines(stderr.String(), 10))
	}
	return string(stdout), nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// lastLines returns the end of a text.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// argoCDFile returns a file that came with Argo CD.
func (b *Binaries) argoCDFile(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(b.dirs["argocd"+b.argoCD], name))
}
